"""Halo exchanges between the GPUs of 1 to 8 processes, by `engine.halo` and by another design.

The latency-oriented design packs, sends and unpacks one message after another, and waits for the
GPU after each step, as Maximal Overlap (IPDPS'16) describes it.

- halo exchanges of 1 to 8 processes with a GPU each; the grid is cut into 1, 2, 2 x 2 or 4 x 2
  blocks; beside the latency-oriented design, and bare messages of what goes to the other GPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from tranship.halo import Field, all_directions, nbytes_of

from ..gpu.copies import gpu_count, gpu_engine, raw, raw_copy
from ..gpu.crew import LATENCY_ORIENTED, WIRE, Member, open_crew
from ..gpu.shapes import placed
from ..harness import Array, Bench, blank_array
from ..registry import measures
from .cases import CASES, Case, fields_of_block, inside_of

__all__ = ["gpu_halo"]

GRIDS = {1: (1, 1, 1), 2: (2, 1, 1), 4: (2, 2, 1), 8: (4, 2, 1)}
"""Blocks in each dimension, by the number of processes; each has a GPU."""

Direction = tuple[int, ...]


class HaloMember(Member):
    """One process with the fields of its block of a periodic grid."""

    def load(self, case: Case) -> None:
        cells, count, self.widths = case
        self.grid = GRIDS[len(self.peers)]
        block = tuple(int(k) for k in np.unravel_index(self.rank, self.grid))
        self.block = block
        self.wanted = fields_of_block(cells, count, self.widths, self.grid, block)
        self.cleared = [self.without_ghosts(one) for one in self.wanted]
        self.arrays = [
            self.engine.empty(one.shape, "f8", memory=self.device) for one in self.wanted
        ]
        self.fields = [Field(array, self.widths, "field") for array in self.arrays]
        self.theirs: dict[int, list[Any]] = {}
        self.spoil()
        # What arrives for each direction, in the latency-oriented design.
        self.arrived: dict[tuple[int, ...], Any] = {}
        for number, direction in enumerate(all_directions(self.widths)):
            size = sum(nbytes_of(field.ghosts(direction)) for field in self.fields)
            self.arrived[direction] = self.engine.empty((size,), "u1", memory=self.device)
            self.export(f"arrived {number}", self.arrived[direction])
        for k, array in enumerate(self.arrays):
            self.export(f"field {k}", array)

    def without_ghosts(self, values: Array) -> Array:
        """Returns the field with spoiled ghost cells."""
        inside = inside_of(self.widths)
        cleared = blank_array(values.shape, values.dtype)
        cleared[inside] = values[inside]
        return cleared

    def owner(self, direction: Direction) -> int:
        """Returns the process of the neighbouring block."""
        place = [
            (k + step) % parts
            for k, step, parts in zip(self.block, direction, self.grid, strict=True)
        ]
        return int(np.ravel_multi_index(place, self.grid))

    def connect(self) -> None:
        # The dimensions that are not cut wrap around within a block.
        cut = [parts > 1 for parts in self.grid]
        beyond = {
            step: self.fields_of(self.owner(step))
            for step in all_directions([int(one) for one in cut])
        }
        self.halo = self.engine.halo(self.arrays, self.widths, beyond or None, periodic=True)
        directions = list(all_directions(self.widths))
        prepare_all = self.engine.prepare_all
        self.steps_of: list[tuple[Any, Any, Any]] = []
        wires = []
        for direction in directions:
            opposite = directions.index(tuple(-one for one in direction))
            borders = [field.border(direction) for field in self.fields]
            ghosts = [field.ghosts(direction) for field in self.fields]
            arrived = self.arrived[direction]
            out = self.engine.empty(arrived.shape, "u1", memory=self.device)
            peer = self.peers[self.owner(direction)]
            # A block may be its own neighbour.
            landing = self.arrived[directions[opposite]]
            if peer is not None:
                landing = peer[f"arrived {opposite}"]
            if peer is not None or len(self.peers) == 1:
                wires.append((out, landing))
            pack = prepare_all(zip(borders, self.split(out, borders), strict=True))
            unpack = prepare_all(zip(self.split(arrived, ghosts), ghosts, strict=True))
            self.steps_of.append((pack, self.engine.prepare(out, landing), unpack))
        self.wire = prepare_all(wires)

    def fields_of(self, rank: int) -> list[Any]:
        """Returns a process's fields, always the same objects: each set is one copy."""
        if rank not in self.theirs:
            peer = self.peers[rank]
            count = range(len(self.arrays))
            self.theirs[rank] = self.arrays if peer is None else [peer[f"field {k}"] for k in count]
        return self.theirs[rank]

    def split(self, buffer: Any, boxes: list[Any]) -> list[Any]:
        """Returns the parts of a message, in the shapes of the boxes."""
        parts, begin = [], 0
        for box in boxes:
            parts.append(placed(buffer, begin, np.dtype("f8"), box.shape))
            begin += nbytes_of(box)
        return parts

    def move(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Copies whole arrays by bare copies."""
        device = int(self.device[6:])
        raw(self.engine, [raw_copy(source, target, device) for source, target in pairs])

    def spoil(self) -> None:
        self.move(zip(self.cleared, self.arrays, strict=True))

    def right(self) -> bool:
        found = [np.empty_like(one) for one in self.wanted]
        self.move(zip(self.arrays, found, strict=True))
        both = zip(found, self.wanted, strict=True)
        return all(np.array_equal(one, wanted) for one, wanted in both)

    def ways(self) -> Mapping[str, Callable[[], None]]:
        def ours() -> None:
            self.steps.meet()  # the others' fields are complete
            self.halo.exchange()
            self.steps.meet()  # the others have read this process's

        def step_by_step() -> None:
            self.steps.meet()
            for pack, wire, _ in self.steps_of:
                pack.start().wait(timeout=60)
                wire.start().wait(timeout=60)
            self.steps.meet()
            for _, _, unpack in self.steps_of:
                unpack.start().wait(timeout=60)

        def wire() -> None:
            self.steps.meet()
            self.wire.start().wait(timeout=60)
            self.steps.meet()

        return {"tranship": ours, LATENCY_ORIENTED: step_by_step, WIRE: wire}


@measures("gpu-halo", "halo exchanges between the GPUs of 1 to 8 processes, by two designs")
def gpu_halo(bench: Bench) -> None:
    """Measures all cases on 1, 2, 4 and 8 GPUs, as far as there are so many; small: the last."""
    with gpu_engine(bench) as engine:
        gpus = gpu_count(engine)
    counts = [count for count in GRIDS if count <= gpus]
    for count in counts if bench.full else counts[-1:]:
        measure_on(bench, count)


def measure_on(bench: Bench, count: int) -> None:
    """Measures all cases with so many processes."""
    with open_crew(bench, HaloMember, count) as crew:
        for name, case in list(CASES.items())[0 if bench.full else -1 :]:
            crew.load(case)
            member = crew.member
            assert isinstance(member, HaloMember)
            title = f"{name}, {count} GPU{'s' if count > 1 else ''}"
            crew.measure(title, member.halo.nbytes, LATENCY_ORIENTED, (WIRE,))
