"""Thin slabs of fields on a GPU, beside the time in which the sectors they touch can move.

- thin slabs of the last axis of a field, runs of 8 to 64 B, packed and unpacked (`--seed`,
  `--cases`); beside a copy that moves as many bytes as the sectors that they touch, and PyTorch.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from tranship.engine import Engine

from ..harness import Bench, Bytes, Variant, random_bytes, same
from ..quantiles import UPPER_QUANTILES, emit_quantiles
from ..registry import SeedOptions, measures
from .copies import SHORT_TIMES, Side, engine_seconds, find_library, gpu_engine, raw, raw_copy
from .shapes import TORCH_TYPES, nothing, ok, placed, torch_run

__all__ = ["gpu_faces"]

SECTOR_BYTES = 32
"""Bytes that a GPU's memory moves at least."""

WIDTHS = (4, 8, 16)
"""Bytes of an element."""

RUN_BYTES = (8, 64)
"""Least and greatest length of a slab's runs."""


@dataclass(frozen=True)
class Slab:
    """A slab of the last axis of a C-contiguous field, packed (or unpacked) into rows.

    Attributes:
        rows: Rows of the field: all its indices but those of the last axis.
        row: Elements of a row of the field.
        first: First element of each row that belongs to the slab.
        width: Elements of each row that belong to the slab.
        element_bytes: Bytes of an element.
        scatters: Whether the slab is the target.
    """

    rows: int
    row: int
    first: int
    width: int
    element_bytes: int
    scatters: bool

    @property
    def name(self) -> str:
        """Returns a name that has everything that may decide the speed."""
        way = "unpacked to" if self.scatters else "packed from"
        end = self.first + self.width
        return (
            f"{self.element_bytes} B elements, {way} [:, {self.first}:{end}] of"
            f" [{self.rows}, {self.row}]"
        )

    @property
    def payload_bytes(self) -> int:
        """Returns the bytes of the slab."""
        return self.rows * self.width * self.element_bytes

    @property
    def field_bytes(self) -> int:
        """Returns the bytes of the field."""
        return self.rows * self.row * self.element_bytes

    @property
    def traffic_bytes(self) -> int:
        """Returns the bytes of all sectors that either side touches, each counted once."""
        pitch = self.row * self.element_bytes
        begin = np.arange(self.rows, dtype=np.int64) * pitch + self.first * self.element_bytes
        last = (begin + self.width * self.element_bytes - 1) // SECTOR_BYTES
        sectors = last - begin // SECTOR_BYTES + 1
        # Rows that are shorter than a sector may end in one in which the next row begins.
        shared = np.count_nonzero(last[:-1] == begin[1:] // SECTOR_BYTES)
        packed = -(-self.payload_bytes // SECTOR_BYTES)
        return SECTOR_BYTES * (int(sectors.sum()) - int(shared) + packed)


def slabs(seed: int, count: int, field_bytes: int) -> list[Slab]:
    """Returns random slabs of fields of about that many bytes."""
    chance = random.Random(seed)

    def between(low: int, high: int) -> int:
        return low + int(chance.random() * (high - low + 1))

    result = []
    for _ in range(count):
        element = WIDTHS[between(0, len(WIDTHS) - 1)]
        width = between(max(1, RUN_BYTES[0] // element), RUN_BYTES[1] // element)
        row = between(2 * width + 64 // element, 1024 // element)
        first = (0, row - width, between(0, row - width))[between(0, 2)]
        rows = field_bytes // (row * element)
        result.append(Slab(rows, row, first, width, element, chance.random() < 0.5))
    return result


@measures(
    "gpu-faces",
    "thin slabs packed and unpacked on a GPU, beside what the sectors they touch cost",
    SeedOptions,
)
def gpu_faces(bench: Bench) -> None:
    """Measures slabs beside a copy that moves as many bytes as the sectors that they touch have."""
    options = bench.options
    bench.conditions = {"seed": options.seed}
    cases = slabs(options.seed, options.cases or bench.pick(24, 4), bench.pick(1 << 29, 1 << 20))
    ratios = []
    with gpu_engine(bench) as engine:
        torch = find_library(engine, "torch")
        most = max(max(case.field_bytes, case.traffic_bytes) for case in cases)
        data = random_bytes(most)
        source, target = (Side(engine, "device0", (most,), "u1") for _ in range(2))
        source.write(data)
        for case in cases:
            ratios.append(measure(bench, engine, source, target, data, case, torch))
    columns = emit_quantiles(
        bench, "times of faces", ratios, baseline="sectors", quantiles=UPPER_QUANTILES
    )
    print(f"time over the sectors': {', '.join(UPPER_QUANTILES)}: {columns}", file=sys.stderr)


def measure(
    bench: Bench,
    engine: Engine,
    source: Side,
    target: Side,
    data: Bytes,
    case: Slab,
    torch: Any,
) -> float:
    """Measures one slab. Returns its time over that of the sectors."""
    kind = np.dtype(f"V{case.element_bytes}")
    field_side, packed_side = (target, source) if case.scatters else (source, target)
    field = placed(engine, field_side.array, 0, kind, (case.rows, case.row))
    slab = field[:, case.first : case.first + case.width]
    packed = placed(engine, packed_side.array, 0, kind, (case.rows, case.width))
    pair = (packed, slab) if case.scatters else (slab, packed)
    expected = np.full(case.field_bytes if case.scatters else case.payload_bytes, 0xA5, np.uint8)
    field_bytes = expected if case.scatters else data[: case.field_bytes]
    packed_bytes = data[: case.payload_bytes] if case.scatters else expected
    rows = field_bytes.reshape(case.rows, -1)
    first = case.first * case.element_bytes
    run = case.width * case.element_bytes
    if case.scatters:
        rows[:, first : first + run] = packed_bytes.reshape(case.rows, run)
    else:
        packed_bytes.reshape(case.rows, run)[:] = rows[:, first : first + run]
    half = (case.traffic_bytes + 1) // 2
    bare = raw_copy(source.array[:half], target.array, 0)
    variants = [
        Variant(
            "tranship",
            lambda: engine_seconds(engine, [pair] * SHORT_TIMES),
            lambda: same(target.read()[: expected.size], expected),
            target.spoil,
            {"copies": SHORT_TIMES, "traffic_bytes": case.traffic_bytes},
        ),
        Variant("sectors", lambda: raw(engine, [bare] * SHORT_TIMES), ok, nothing, {}),
    ]
    if torch is not None:
        tensors = torch_slab(torch, source, target, case)
        variants.append(Variant("PyTorch", torch_run(torch, *tensors), ok, nothing, {}))
    medians = bench.measure(
        case.name,
        variants,
        case.payload_bytes * SHORT_TIMES,
        repetitions=bench.pick(5, 1),
        baseline="sectors",
        cold=False,
        awake=True,
    )
    return medians["tranship"] / medians["sectors"]


def torch_slab(torch: Any, source: Side, target: Side, case: Slab) -> tuple[Any, Any]:
    """Returns the source and the target as tensors."""
    kind = getattr(torch, TORCH_TYPES[case.element_bytes])

    def tensor(side: Side, width: int) -> Any:
        memory = torch.as_tensor(side.array, device="cuda")
        count = case.rows * width * case.element_bytes
        return memory[:count].view(kind).view(case.rows, width)

    def part(side: Side) -> Any:
        return tensor(side, case.row)[:, case.first : case.first + case.width]

    if case.scatters:
        return tensor(source, case.width), part(target)
    return part(source), tensor(target, case.width)
