"""Copies that convert numbers, beside copies of either width and NumPy's own conversion.

``casts``: Chosen pairs of types, in one order and transposed.

``random-casts``: Any two types and byte orders, of 1 to 3 dimensions in any orders, with steps; the
caches hold every second case. The last lines are quantiles of the rate over that of the slower of
both widths' copies of the same shape. A table on stderr names the worst cases.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tranship.engine import Engine

from ..harness import Bench, Bytes, Variant, blank, random_bytes, same, spoil
from ..quantiles import Outcome, report_outcomes
from ..registry import SeedOptions, measures
from .copies import engine_run, numpy_variant, timed

PAIRS = (
    *(("f8", "f4"), ("f4", "f8"), ("f4", "f2"), ("f2", "f4"), ("f8", "f2"), ("i8", "f8")),
    *(("f8", "i8"), ("i4", "i8"), ("i8", "i4"), ("u1", "f4"), ("f4", "u1"), ("i1", "i2")),
    *(("c16", "c8"), ("c8", "f4"), (">f4", "f4"), (">f8", "f4")),
    *(("f4", "bfloat16"), ("bfloat16", "f4"), ("f4", "float8_e4m3fn"), ("float8_e4m3fn", "f4")),
    *(("bfloat16", "float8_e5m2"), ("float8_e5m2", "bfloat16")),
)


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


def copy_variant(engine: Engine, name: str, side: int, width: int, transposed: bool) -> Variant:
    """Returns the variant of a copy of as many elements of one width, in the same order."""
    target = blank(side * side * width)
    source = random_bytes(side * side * width).view(f"V{width}").reshape(side, side)
    given = source.T if transposed else source
    expected = np.ascontiguousarray(given).reshape(-1).view(np.uint8)
    return Variant(
        name,
        engine_run(engine, given, target.view(f"V{width}").reshape(side, side)),
        lambda: same(target, expected),
        lambda: spoil(target),
        {"timed": "python", "threads": engine.threads},
    )


def measure_pair(
    bench: Bench, engine: Engine, names: tuple[str, str], types: list[np.dtype[Any]], side: int
) -> None:
    """Measures one pair of types in one order, and with the source transposed."""
    values = np.random.default_rng(1).integers(0, 100, (side, side)).astype(types[0])
    raw: Bytes = blank(values.size * types[1].itemsize)
    target = raw.view(types[1]).reshape(side, side)
    widths = [one.itemsize for one in types]
    slower = "copy of the source's width" if widths[0] > widths[1] else "copy of the target's width"
    for form, source in (("", values), (", transposed", values.T)):
        expected = np.ascontiguousarray(source.astype(types[1])).reshape(-1).view(np.uint8)

        def assign(source: Any = source) -> None:
            np.copyto(target, source, casting="unsafe")

        def cast(source: Any = source) -> None:
            engine.copy(source, target, cast="unsafe").wait()

        variants = [
            Variant(
                "tranship",
                timed(cast),
                partial(same, raw, expected),
                lambda: spoil(raw),
                {"timed": "python", "threads": engine.threads},
            ),
            numpy_variant(assign, raw, expected),
            copy_variant(engine, "copy of the source's width", side, widths[0], form != ""),
            copy_variant(engine, "copy of the target's width", side, widths[1], form != ""),
        ]
        bench.measure(
            f"{names[0]} to {names[1]}{form}",
            variants,
            values.size * max(widths),
            repetitions=bench.pick(9, 1),
            baseline=slower,
        )


@measures("casts", "numbers converted on the way, beside copies of either width and NumPy")
def casts(bench: Bench) -> None:
    """Measures conversions of numbers; bytes are those of the wider type."""
    with Engine() as engine:
        for names in PAIRS:
            types = [dtype_of(name) for name in names]
            if types[0] is None or types[1] is None:
                bench.say(f"{names[0]} to {names[1]} needs ml_dtypes")
                continue
            measure_pair(bench, engine, names, [types[0], types[1]], bench.pick(4096, 128))


NATIVE = ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
ADDED = ("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e3m4")

OF_WIDTH = {1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "c16"}
"""Types of plain copies, by their bytes."""


@dataclass(frozen=True)
class RandomCast:
    """A conversion that was drawn.

    Attributes:
        types: Types of source and target.
        shape: Extents of both.
        orders: The dimensions of either in memory, the slowest first.
        step: Step of the source's fastest dimension in memory.
        cached: Whether the caches hold both.
    """

    types: tuple[np.dtype[Any], np.dtype[Any]]
    shape: tuple[int, ...]
    orders: tuple[tuple[int, ...], tuple[int, ...]]
    step: int
    cached: bool

    @property
    def name(self) -> str:
        """What the lines call it."""
        extents = "x".join(str(extent) for extent in self.shape)
        orders = " to ".join("".join(map(str, order)) for order in self.orders)
        return f"{self.types[0]} to {self.types[1]}, {extents}, {orders}, step {self.step}"

    @property
    def group(self) -> str:
        """The group of its results."""
        order = "same order" if self.orders[0] == self.orders[1] else "transposed"
        return f"{order}, {'cached' if self.cached else 'memory'}"

    def array(self, memory: Bytes, dtype: np.dtype[Any], side: int) -> np.ndarray[Any, Any]:
        """Returns one side of the conversion, or of a copy of numbers of another width."""
        order = self.orders[side]
        step = self.step if side == 0 else 1
        extents = [self.shape[k] for k in order]
        extents[-1] *= step
        whole = np.ndarray(tuple(extents), dtype, memory.data)[..., ::step]
        return whole.transpose([order.index(k) for k in range(len(order))])


def random_casts(seed: int, count: int, cached_kib: int, memory_mib: int) -> list[RandomCast]:
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
        cases.append(RandomCast(pair, tuple(shape), ends, step, k % 2 == 0))
    return cases


def convert(bench: Bench, engine: Engine, case: RandomCast) -> Outcome:
    """Measures one case beside plain copies of the same shape."""
    numbers = int(np.prod(case.shape))
    widest = max(one.itemsize for one in case.types)
    memories = random_bytes(numbers * case.step * widest), blank(numbers * widest)
    source, target = (case.array(memories[k], case.types[k], k) for k in range(2))
    raw = memories[1][: numbers * case.types[1].itemsize]
    source[...] = np.random.default_rng(1).integers(0, 100, case.shape).astype(case.types[0])
    np.copyto(target, source, casting="unsafe")
    expected = raw.copy()

    def cast() -> None:
        engine.copy(source, target, cast="unsafe").wait()

    says = {"timed": "python", "threads": engine.threads}
    variants = [
        Variant(
            "tranship", timed(cast), partial(same, raw, expected), lambda: spoil(raw), dict(says)
        ),
        numpy_variant(lambda: np.copyto(target, source, casting="unsafe"), raw, expected),
    ]
    for side, name in enumerate(("source", "target")):
        kind = np.dtype(OF_WIDTH[case.types[side].itemsize])
        plain = [case.array(memories[k], kind, k) for k in range(2)]

        def copy(given: Any = plain[0], result: Any = plain[1]) -> None:
            engine.copy(given, result).wait()

        def is_copy(given: Any = plain[0], result: Any = plain[1]) -> bool:
            return same(
                np.ascontiguousarray(result).reshape(-1).view(np.uint8),
                np.ascontiguousarray(given).reshape(-1).view(np.uint8),
            )

        variants.append(
            Variant(f"copy of the {name}'s width", timed(copy), is_copy, lambda: spoil(raw), says)
        )
    medians = bench.measure(
        case.name, variants, numbers * widest, repetitions=bench.pick(5, 1), cold=not case.cached
    )
    slower = max(seconds for name, seconds in medians.items() if name.startswith("copy"))
    seconds = medians["tranship"]
    nbytes = numbers * widest
    beside = medians["numpy"] / seconds
    return Outcome(case.name, case.group, nbytes, seconds, slower / seconds, beside)


@measures("random-casts", "random conversions of numbers, beside copies and NumPy", SeedOptions)
def measure_random_casts(bench: Bench) -> None:
    """Measures random conversions, reports their quantiles, and prints a table of them."""
    options = bench.options
    count = options.cases or bench.pick(120, 6)
    bench.conditions = {"seed": options.seed}
    drawn = random_casts(options.seed, count, bench.pick(256, 4), bench.pick(32, 1))
    with Engine() as engine:
        outcomes = [convert(bench, engine, case) for case in drawn]
    groups = sorted({one.group for one in outcomes})
    report_outcomes(bench, outcomes, groups, baseline="slower copy", other="NumPy")
