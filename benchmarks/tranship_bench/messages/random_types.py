"""Random types, packed and unpacked on the host, beside MPI.

- Random types (vectors, lists, structs, subarrays, of up to three levels and four element widths,
  0.5 KB to 2 MB), packed and unpacked on the host by prepared copies, beside the MPI library that
  mpi4py loads, whose packed bytes ours are compared with.
- Follows: Maximal Overlap (IPDPS'16). DDTBench's messages are a few types; this draws others.
- A repetition is as many packs in a row as take 2 ms, with warm caches; both are called from
  Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tranship import types
from tranship.engine import Engine
from tranship.type_constructors import as_type
from tranship.types import Datatype

from ..harness import Array, Bench, Bytes, Variant, require, spoil
from ..host.copies import memcpy_run
from ..quantiles import Outcome, report_quantiles
from ..registry import SeedOptions, measures
from .mpi import Mpi, beside, in_turns, load_mpi

ELEMENTS = {"f4": "FLOAT", "f8": "DOUBLE", "i2": "SHORT", "u1": "UNSIGNED_CHAR"}
SPAN_MAX = 200 << 20
Build = Callable[[Any], Any]
"""Builds the MPI type, given mpi4py.MPI."""


@dataclass
class Drawn:
    """A type, the same one as MPI builds it, and the number of the draw."""

    number: int
    type: Datatype
    build: Build


@measures("types", "random types packed and unpacked, beside MPI", SeedOptions)
def random_types(bench: Bench) -> None:
    """Measures random types, reports quantiles over MPI, and prints the worst."""
    count = bench.draw_count(150, 12)
    bench.cold = False
    mpi = load_mpi(bench)
    outcomes: dict[str, list[Outcome]] = {}
    with Engine() as engine:
        for drawn in draw_all(bench.options.seed, count):
            for way, medians in compare(bench, engine, mpi, drawn):
                if mpi is not None:
                    ratio = medians["mpi"] / medians["tranship"]
                    outcome = Outcome(f"{drawn.number}: {drawn.type!r}", ratio)
                    outcomes.setdefault(beside(mpi, way), []).append(outcome)
    report_quantiles(bench, outcomes, "mpi")


def draw_all(seed: int, count: int) -> Iterator[Drawn]:
    """Yields the types that are neither tiny nor huge."""
    for number in range(count):
        generator = np.random.default_rng([seed, number])
        limit = int(10 ** generator.uniform(3, 6.3))
        type, build = draw(generator, int(generator.integers(1, 4)), limit)
        if type.nbytes >= 512 and 0 <= type.true_lower_bound <= type.true_upper_bound < SPAN_MAX:
            yield Drawn(number, type, build)


def draw(generator: np.random.Generator, depth: int, limit: int) -> tuple[Datatype, Build]:
    """Draws a type of some levels with about `limit` bytes at most."""
    if depth == 0:
        name = str(generator.choice(list(ELEMENTS)))
        return as_type(name), lambda mpi: getattr(mpi, ELEMENTS[name])
    base, inner = draw(generator, depth - 1, limit)
    room = max(limit // max(base.nbytes, 1), 1)
    length = int(generator.integers(1, 5))
    count = max(int(10 ** generator.uniform(0, np.log10(room + 1))) // length, 1)
    kind = generator.integers(0, 6)
    if kind == 0:
        stride = length + int(generator.integers(0, 9))
        made = types.vector(count, length, stride, base)
        return made, lambda mpi: inner(mpi).Create_vector(count, length, stride)
    if kind == 1:
        step = length * base.extent + 8 * int(generator.integers(0, 9))
        made = types.hvector(count, length, step, base)
        return made, lambda mpi: inner(mpi).Create_hvector(count, length, step)
    if kind in (2, 3):
        return draw_list(generator, base, inner, min(count, 20_000), length, kind == 2)
    if kind == 4:
        return draw_struct(generator, base, inner, max(min(count, room // 4), 1))
    rank = int(generator.integers(1, 4))
    side = max(round(room ** (1 / rank)), 1)
    subsizes = [max(int(side * generator.uniform(0.5, 1)), 1) for _ in range(rank)]
    sizes = [size + int(generator.integers(0, 5)) for size in subsizes]
    starts = [int(generator.integers(0, a - b + 1)) for a, b in zip(sizes, subsizes, strict=True)]
    made = types.subarray(sizes, subsizes, starts, base)
    return made, lambda mpi: inner(mpi).Create_subarray(sizes, subsizes, starts)


def draw_list(
    generator: np.random.Generator,
    base: Datatype,
    inner: Build,
    count: int,
    length: int,
    is_even: bool,
) -> tuple[Datatype, Build]:
    """Draws blocks of one length or of several, mostly in no order."""
    gaps = generator.integers(0, 6, count)
    places = np.concatenate([[0], np.cumsum(gaps[:-1] + length)]).astype(np.int64)
    if generator.random() < 0.7:
        places = generator.permutation(places)
    if is_even:
        made = types.indexed_block(length, places, base)
        return made, lambda mpi: inner(mpi).Create_indexed_block(length, places)
    lengths = generator.integers(1, length + 1, count)
    made = types.indexed(lengths, places, base)
    return made, lambda mpi: inner(mpi).Create_indexed(lengths, places)


def draw_struct(
    generator: np.random.Generator, base: Datatype, inner: Build, count: int
) -> tuple[Datatype, Build]:
    """Draws records of the base and of other elements, one behind the other."""
    other, other_inner = draw(generator, 0, 0)
    members = int(generator.integers(2, 5))
    bases = [base if k % 2 == 0 else other for k in range(members)]
    builds = [inner if k % 2 == 0 else other_inner for k in range(members)]
    steps = [one.extent + 8 * int(generator.integers(0, 3)) for one in bases]
    places = [int(one) for one in np.cumsum([0, *steps[:-1]])]
    record = types.struct([1] * members, places, bases)
    low, extent = record.lower_bound, record.extent

    def build(mpi: Any) -> Any:
        made = mpi.Datatype.Create_struct([1] * members, places, [one(mpi) for one in builds])
        return made.Create_resized(low, extent).Create_contiguous(count)

    return types.contiguous(count, record), build


def compare(
    bench: Bench, engine: Engine, mpi: Mpi | None, drawn: Drawn
) -> Iterator[tuple[str, dict[str, float]]]:
    """Measures one type; yields the medians of the variants, each way."""
    kind = drawn.type
    generator = np.random.default_rng(drawn.number)
    source: Array = generator.integers(0, 256, kind.true_upper_bound, np.uint8)
    original = source.copy()
    packed: Bytes = np.zeros(kind.nbytes, np.uint8)
    wanted = engine.pack(source, kind)
    whole = mpi.message([source], [drawn.build(mpi.mpi)]) if mpi else None
    if mpi:
        mpi.call(whole, packed, False)()
        require(np.array_equal(packed, wanted), f"{kind!r}, packed by MPI")

    def clear() -> None:
        packed[:] = wanted
        source[:] = original
        engine.unpack(np.zeros_like(packed), source, kind)

    pack = partial(np.array_equal, packed, wanted), partial(spoil, packed)
    unpack = partial(np.array_equal, source, original), clear
    for unpacks, way, (check, prepare) in ((False, "pack", pack), (True, "unpack", unpack)):
        ends = (packed, source) if unpacks else (source, packed)
        ready = engine.prepare(*ends, types=(None, kind) if unpacks else (kind, None))
        prepare()

        def ours(ready: Any = ready) -> None:
            ready.start().wait()

        runs: dict[str, Callable[[], object]] = {"tranship": ours}
        if mpi:
            runs["mpi"] = mpi.call(whole, packed, unpacks)
        how = {"library": mpi.name} if mpi else {}
        variants = [Variant(name, in_turns(run), check, prepare, how) for name, run in runs.items()]
        variants.append(Variant("memcpy", memcpy_run(packed, np.empty_like(packed))))
        case = beside(mpi, f"{drawn.number}: {kind!r}, {way}")
        yield way, bench.measure(case, variants, packed.nbytes, 5, "mpi" if mpi else "memcpy")
