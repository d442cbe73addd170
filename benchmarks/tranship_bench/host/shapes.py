"""Conversions of random shapes on the CPU, beside memcpy and NumPy.

- Conversions of random shapes: 2 to 5 dimensions in any order, elements of 1 to 16 bytes and
  records of mixed widths, extents that are multiples of 16, odd, or slices of odd arrays, with
  steps; some with one end at an offset, some into a view of a larger array.
- The last lines are quantiles of all cases and of each class. A table on stderr names the worst
  twenty, and those that NumPy copies faster.
- `--classes broadcast` draws views that repeat dimensions (a stride of 0) and reverse others;
  `--classes round,odd,sliced,broadcast` draws all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tranship.engine import Engine
from tranship.errors import InvalidArgument

from ..harness import Array, Bench, Bytes, Variant, random_bytes, same, spoil
from ..quantiles import Outcome, report_outcomes
from ..registry import SeedOptions, counts, measures, names, option
from .copies import engine_run, memcpy_run, numpy_variant
from .random_shapes import BROADCAST, CLASSES, RandomShape, Type, random_shapes

PAGE_BYTES = 4096


@dataclass(frozen=True)
class Options(SeedOptions):
    """Options of benchmarks of random shapes.

    Attributes:
        sizes: Sizes in MiB, which take turns; empty: the benchmark's own, or 1 in small size.
        classes: Classes of shapes, which take turns: "round", "odd", "sliced", "broadcast".
    """

    sizes: tuple[int, ...] = option((), "Sizes of the arrays in MiB.", counts, "LIST")
    classes: tuple[str, ...] = option(
        CLASSES, "Classes among round,odd,sliced,broadcast.", names, "LIST"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        known = (*CLASSES, BROADCAST)
        if wrong := [kind for kind in self.classes if kind not in known]:
            raise InvalidArgument(f"there is no class {wrong[0]!r}; there are {', '.join(known)}")


class Space:
    """Memory for the ends of one case after another, allocated once, at the start of a page."""

    def __init__(self, cases: Iterable[RandomShape]) -> None:
        source = target = 0
        for case in cases:
            view, plain = sizes_of(case)
            source = max(source, plain if case.scatters else view, case.payload_bytes)
            target = max(target, view if case.scatters else plain, case.payload_bytes)
        self.source = page_aligned(random_bytes(source + PAGE_BYTES))
        self.target = page_aligned(np.zeros(target + PAGE_BYTES, np.uint8))


def page_aligned(memory: Bytes) -> Bytes:
    """Returns the bytes from the first page boundary on."""
    return memory[-memory.ctypes.data % PAGE_BYTES :]


def sizes_of(case: RandomShape) -> tuple[int, int]:
    """Returns the bytes of the view's memory and of the plain array's, with their offsets."""
    return case.view_offset + case.base_bytes, case.plain_offset + case.plain_bytes


def array_in(memory: Bytes, offset: int, kind: Type, extents: tuple[int, ...]) -> Array:
    """Returns a C-contiguous array in bytes from `offset` on."""
    return np.ndarray(extents, kind, memory.data, offset)


@measures("shapes", "conversions of random shapes, beside memcpy and NumPy", Options)
def shapes(bench: Bench) -> None:
    """Measures random shapes, reports their quantiles, and prints a table of them."""
    options = bench.options
    count = options.cases or bench.pick(50, 6)
    sizes = options.sizes or (bench.pick(64, 1),)
    bench.conditions = {"seed": options.seed, "size_mib": list(sizes)}
    if options.classes != CLASSES:
        bench.conditions["classes"] = list(options.classes)
    cases = list(random_shapes(options.seed, count, sizes, options.classes))
    space = Space(cases)
    with Engine() as engine:
        outcomes = [convert(bench, engine, space, case) for case in cases]
    groups = (*CLASSES, BROADCAST)
    report_outcomes(bench, outcomes, groups, baseline="memcpy", other="NumPy")


def convert(bench: Bench, engine: Engine, space: Space, case: RandomShape) -> Outcome:
    """Measures one case."""
    view_bytes, plain_bytes = sizes_of(case)
    view_memory, plain_memory = space.source[:view_bytes], space.target[:plain_bytes]
    if case.scatters:
        view_memory, plain_memory = space.target[:view_bytes], space.source[:plain_bytes]
    view = case.view(array_in(view_memory, case.view_offset, case.view_type, case.base))
    plain = array_in(plain_memory, case.plain_offset, case.plain_type, case.shape)
    source, target = (plain, view) if case.scatters else (view, plain)
    raw_target = view_memory if case.scatters else plain_memory
    pairs = [(target[name], source[name]) for name in case.field_names] or [(target, source)]

    def assign() -> None:
        for to, of in pairs:
            np.copyto(to, of)

    spoil(raw_target)
    assign()
    expected = raw_target.copy()
    raw = space.source[: case.payload_bytes], space.target[: case.payload_bytes]
    variants = [
        Variant(
            "tranship",
            engine_run(engine, source, target),
            lambda: same(raw_target, expected),
            lambda: spoil(raw_target),
            {"timed": "python", "threads": engine.threads, **conditions_of(case)},
        ),
        Variant(
            "memcpy",
            memcpy_run(*raw),
            lambda: same(raw[1], raw[0]),
            lambda: spoil(raw[1]),
            {"timed": "libc", "threads": 1},
        ),
        numpy_variant(assign, raw_target, expected),
    ]
    medians = bench.measure(
        case.name,
        variants,
        case.payload_bytes,
        repetitions=bench.pick(5, 1),
        baseline="memcpy",
    )
    seconds = medians["tranship"]
    return Outcome(
        case.name,
        case.kind,
        case.payload_bytes,
        seconds,
        medians["memcpy"] / seconds,
        medians["numpy"] / seconds,
    )


def conditions_of(case: RandomShape) -> dict[str, object]:
    """Returns the class and the shape, for a result line."""
    return {
        "class": case.kind,
        "shape": list(case.shape),
        "element_bytes": case.view_type.itemsize,
        "fields": len(case.field_names),
        "scatters": case.scatters,
    }
