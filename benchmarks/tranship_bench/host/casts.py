"""Copies that convert numbers, beside copies of either width and NumPy's own conversion.

``casts``: matrices of named pairs of types, in one order and transposed; bytes are those of the
wider type, and the baseline is its copy.

``random-casts``: any two types and byte orders, of 1 to 3 dimensions in any orders, with steps; the
caches hold every second case. The last lines are quantiles of the rate over that of the slower of
both widths' copies of the same shape. A table on stderr names the worst cases.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tranship.engine import Engine

from ..harness import Bench, Bytes, Variant, as_bytes, blank, random_bytes, same, spoil, timed
from ..quantiles import Outcome, grouped, report_quantiles
from ..registry import SeedOptions, measures
from .copies import engine_run, into, numpy_variant

Types = tuple[np.dtype[Any], np.dtype[Any]]
Orders = tuple[tuple[int, ...], tuple[int, ...]]

PAIRS = (
    *(("f8", "f4"), ("f4", "f8"), ("f4", "f2"), ("f2", "f4"), ("f8", "f2"), ("i8", "f8")),
    *(("f8", "i8"), ("i4", "i8"), ("i8", "i4"), ("u1", "f4"), ("f4", "u1"), ("i1", "i2")),
    *(("c16", "c8"), ("c8", "f4"), (">f4", "f4"), (">f8", "f4")),
    *(("f4", "bfloat16"), ("bfloat16", "f4"), ("f4", "float8_e4m3fn"), ("float8_e4m3fn", "f4")),
    *(("bfloat16", "float8_e5m2"), ("float8_e5m2", "bfloat16")),
)
NATIVE = ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
ADDED = ("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e3m4")

OF_WIDTH = {1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "c16"}
"""Types of plain copies, by their bytes."""

IN_ORDER, TRANSPOSED = ((0, 1), (0, 1)), ((1, 0), (0, 1))
"""Orders of the matrices."""


def dtype_of(name: str) -> np.dtype[Any] | None:
    """Returns the type of that name; None for one of ml_dtypes, if that is not installed."""
    if name.startswith(("bfloat", "float8")):
        try:
            import ml_dtypes  # an extra
        except ImportError:
            return None
        dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return dtype
    return np.dtype(name)


def known_pairs(bench: Bench) -> Iterator[tuple[str, Types]]:
    """Yields the named pairs of types; a note says which need ml_dtypes."""
    for names in PAIRS:
        source, target = (dtype_of(name) for name in names)
        name = " to ".join(names)
        if source is None or target is None:
            bench.say(f"{name} needs ml_dtypes")
            continue
        yield name, (source, target)


@dataclass(frozen=True)
class Cast:
    """A conversion of numbers.

    Attributes:
        types: Types of source and target.
        shape: Extents of both.
        orders: The dimensions of either in memory, the slowest first.
        step: Step of the source's fastest dimension in memory.
        cached: Whether the caches hold both.
    """

    types: Types
    shape: tuple[int, ...]
    orders: Orders
    step: int = 1
    cached: bool = False

    @property
    def name(self) -> str:
        """Returns what the lines call it."""
        extents = "x".join(str(extent) for extent in self.shape)
        orders = " to ".join("".join(map(str, order)) for order in self.orders)
        return f"{self.types[0]} to {self.types[1]}, {extents}, {orders}, step {self.step}"

    @property
    def group(self) -> str:
        """Returns the group of its results."""
        order = "same order" if self.orders[0] == self.orders[1] else "transposed"
        return f"{order}, {'cached' if self.cached else 'memory'}"

    def extents(self, side: int) -> tuple[int, ...]:
        """Returns the extents of one side as it lies in memory, with what its step leaves out."""
        extents = [self.shape[k] for k in self.orders[side]]
        extents[-1] *= self.step_of(side)
        return tuple(extents)

    def step_of(self, side: int) -> int:
        """Returns the step of one side's fastest dimension in memory."""
        return self.step if side == 0 else 1

    def permutation(self, side: int) -> list[int]:
        """Returns where in memory each dimension of one side is."""
        return [self.orders[side].index(k) for k in range(len(self.shape))]

    def array(self, memory: Bytes, dtype: np.dtype[Any], side: int) -> np.ndarray[Any, Any]:
        """Returns one side of the conversion, or of a copy of numbers of another width."""
        whole = np.ndarray(self.extents(side), dtype, memory.data)
        return whole[..., :: self.step_of(side)].transpose(self.permutation(side))


def random_casts(seed: int, count: int, cached_kib: int, memory_mib: int) -> list[Cast]:
    """Draws conversions; every second one lies in the caches."""
    random = np.random.default_rng(seed)
    kinds = [one for name in (*NATIVE, *ADDED) if (one := dtype_of(name)) is not None]
    cases = []
    for k in range(count):
        drawn = [kinds[int(random.integers(len(kinds)))] for _ in range(2)]
        swaps = [one.isbuiltin == 1 and random.random() < 0.2 for one in drawn]
        types = [one.newbyteorder(">") if s else one for one, s in zip(drawn, swaps, strict=True)]
        nbytes = cached_kib << 10 if k % 2 == 0 else memory_mib << 20
        numbers = nbytes // max(one.itemsize for one in types)
        rank = int(random.integers(1, 4))
        shape = [int(numbers ** (1 / rank) * random.uniform(0.5, 1)) for _ in range(rank)]
        orders = [tuple(int(one) for one in random.permutation(rank)) for _ in range(2)]
        step = 1 if random.random() < 0.75 else 2
        pair, ends = (types[0], types[1]), (orders[0], orders[1])
        cases.append(Cast(pair, tuple(shape), ends, step, k % 2 == 0))
    return cases


def compare(
    bench: Bench,
    engine: Engine,
    case: Cast,
    name: str,
    repetitions: int,
    baseline: str | None = None,
) -> dict[str, float]:
    """Measures one case beside plain copies of the same shape; returns the medians."""
    numbers = int(np.prod(case.shape))
    widest = max(one.itemsize for one in case.types)
    memories = random_bytes(numbers * case.step * widest), blank(numbers * widest)
    source, target = (case.array(memories[k], case.types[k], k) for k in range(2))
    raw = memories[1][: numbers * case.types[1].itemsize]
    source[...] = np.random.default_rng(1).integers(0, 100, case.shape).astype(case.types[0])
    assign = partial(np.copyto, target, source, casting="unsafe")
    assign()
    expected = raw.copy()
    says = {"threads": engine.threads}
    cast = timed(lambda: engine.copy(source, target, cast="unsafe").wait())
    variants = [into(raw, expected, "tranship", cast, **says), numpy_variant(assign, raw, expected)]
    for side, of in enumerate(("source", "target")):
        kind = np.dtype(OF_WIDTH[case.types[side].itemsize])
        given, result = (case.array(memories[k], kind, k) for k in range(2))

        def is_copy(given: Any = given, result: Any = result) -> bool:
            ends = (as_bytes(np.ascontiguousarray(array)) for array in (result, given))
            return same(*ends)

        run = engine_run(engine, given, result)
        variants.append(
            Variant(f"copy of the {of}'s width", run, is_copy, lambda: spoil(raw), says)
        )
    bench.cold = not case.cached
    return bench.measure(name, variants, numbers * widest, repetitions, baseline)


@measures("casts", "numbers converted on the way, beside copies of either width and NumPy")
def casts(bench: Bench) -> None:
    """Measures conversions of matrices of all pairs."""
    side = bench.pick(4096, 128)
    with Engine() as engine:
        for name, types in known_pairs(bench):
            wider = "source" if types[0].itemsize > types[1].itemsize else "target"
            for orders, form in ((IN_ORDER, ""), (TRANSPOSED, ", transposed")):
                case = Cast(types, (side, side), orders)
                compare(bench, engine, case, name + form, 9, f"copy of the {wider}'s width")


@measures("random-casts", "random conversions of numbers, beside copies and NumPy", SeedOptions)
def measure_random_casts(bench: Bench) -> None:
    """Measures random conversions, reports their quantiles, and prints a table of them."""
    count = bench.draw_count(120, 6)
    drawn = random_casts(bench.options.seed, count, bench.pick(256, 4), bench.pick(32, 1))
    with Engine() as engine:
        outcomes = [
            outcome_of(case, case.group, compare(bench, engine, case, case.name, 5), "numpy")
            for case in drawn
        ]
    groups = grouped(outcomes, sorted({one.group for one in outcomes}))
    report_quantiles(bench, groups, "slower copy", other="NumPy")


def outcome_of(case: Cast, group: str, medians: dict[str, float], other: str) -> Outcome:
    """Returns the speed of a conversion over the slower copy, and over another library."""
    slower = max(seconds for name, seconds in medians.items() if name.startswith("copy"))
    nbytes = int(np.prod(case.shape)) * max(one.itemsize for one in case.types)
    known = medians | {"slower copy": slower}
    return Outcome.of(case.name, group, nbytes, known, "tranship", "slower copy", other)
