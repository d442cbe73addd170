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

from ..harness import Array, Bench, Bytes, random_bytes, spoil
from ..quantiles import Outcome, grouped, report_quantiles
from ..registry import SeedOptions, counts, measures, names, option
from .copies import engine_variant, memcpy_variant, numpy_variant
from .random_shapes import BROADCAST, CLASSES, RandomShape, random_shapes

PAGE_BYTES = 4096


@dataclass(frozen=True)
class Options(SeedOptions):
    """Options of benchmarks of random shapes."""

    sizes: tuple[int, ...] = option((), "Sizes of the arrays in MiB.", counts, "LIST")
    classes: tuple[str, ...] = option(
        CLASSES, "Classes among round,odd,sliced,broadcast.", names, "LIST"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        known = (*CLASSES, BROADCAST)
        if wrong := [kind for kind in self.classes if kind not in known]:
            raise InvalidArgument(f"there is no class {wrong[0]!r}; there are {', '.join(known)}")


def sizes_of(case: RandomShape) -> tuple[int, int]:
    """Returns the bytes of the view's memory and of the plain array's, with their offsets."""
    return case.view_offset + case.base_bytes, case.plain_offset + case.plain_bytes


def room_for(cases: Iterable[RandomShape]) -> tuple[int, int]:
    """Returns the bytes of the largest source and of the largest target."""
    source = target = 0
    for case in cases:
        view, plain = sizes_of(case)
        of, to = (plain, view) if case.scatters else (view, plain)
        source = max(source, of, case.payload_bytes)
        target = max(target, to, case.payload_bytes)
    return source, target


def page_aligned(memory: Bytes) -> Bytes:
    """Returns the bytes from the first page boundary on."""
    return memory[-memory.ctypes.data % PAGE_BYTES :]


def ends_in(case: RandomShape, source: Bytes, target: Bytes) -> tuple[Array, Array]:
    """Returns the source and the target of a case in memory of the host."""
    of_view, of_plain = (target, source) if case.scatters else (source, target)
    base: Array = np.ndarray(case.base, case.view_type, of_view.data, case.view_offset)
    plain: Array = np.ndarray(case.shape, case.plain_type, of_plain.data, case.plain_offset)
    return (plain, case.view(base)) if case.scatters else (case.view(base), plain)


def assign(case: RandomShape, source: Array, target: Array) -> None:
    """Assigns the source to the target by NumPy; of records, field by field."""
    if not case.field_names:
        np.copyto(target, source)
    for name in case.field_names:
        np.copyto(target[name], source[name])


@measures("shapes", "conversions of random shapes, beside memcpy and NumPy", Options)
def shapes(bench: Bench) -> None:
    """Measures random shapes, reports their quantiles, and prints a table of them."""
    options = bench.options
    count = bench.draw_count(50, 6)
    sizes = options.sizes or (bench.pick(64, 1),)
    bench.conditions["size_mib"] = list(sizes)
    if options.classes != CLASSES:
        bench.conditions["classes"] = list(options.classes)
    cases = list(random_shapes(options.seed, count, sizes, options.classes))
    source_bytes, target_bytes = room_for(cases)
    source = page_aligned(random_bytes(source_bytes + PAGE_BYTES))
    target = page_aligned(np.zeros(target_bytes + PAGE_BYTES, np.uint8))
    with Engine() as engine:
        outcomes = [convert(bench, engine, source, target, case) for case in cases]
    groups = grouped(outcomes, (*CLASSES, BROADCAST))
    report_quantiles(bench, groups, "memcpy", other="NumPy")


def convert(
    bench: Bench, engine: Engine, source: Bytes, target: Bytes, case: RandomShape
) -> Outcome:
    """Measures one case."""
    raw_target = target[: sizes_of(case)[0 if case.scatters else 1]]
    ends = ends_in(case, source, target)
    spoil(raw_target)
    assign(case, *ends)
    expected = raw_target.copy()
    count = case.payload_bytes
    variants = [
        engine_variant(engine, *ends, raw_target, expected, **conditions_of(case)),
        memcpy_variant(source[:count], target[:count]),
        numpy_variant(lambda: assign(case, *ends), raw_target, expected),
    ]
    medians = bench.measure(case.name, variants, count, 5, "memcpy")
    return Outcome.of(case.name, case.kind, count, medians, "tranship", "memcpy", "numpy")


def conditions_of(case: RandomShape) -> dict[str, object]:
    """Returns the class and the shape, for a result line."""
    return {
        "class": case.kind,
        "shape": list(case.shape),
        "element_bytes": case.view_type.itemsize,
        "fields": len(case.field_names),
        "scatters": case.scatters,
    }
