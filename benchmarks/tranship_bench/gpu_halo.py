"""Halo exchanges between the GPUs of two processes, by `engine.halo` and by another design.

The latency-oriented design packs, sends and unpacks one message after another, and waits for the
GPU after each step, as Maximal Overlap (IPDPS'16) describes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tranship.halo import Field, all_directions, nbytes_of

from .gpu import address_of, raw
from .gpu_pair import LATENCY_ORIENTED, WIRE, Half, open_pair
from .gpu_shapes import placed
from .halo_cases import CASES, fields_of_block, inside_of
from .harness import Array, Bench, spoil

__all__ = ["gpu_halo"]


class HaloHalf(Half):
    """One process with the fields of its half of a periodic grid."""

    def load(self, case: list[Any]) -> None:
        cells, count, self.widths = tuple(case[0]), case[1], tuple(case[2])
        self.wanted = fields_of_block(cells, count, self.widths, 2, self.rank)
        self.cleared = [self.without_ghosts(one) for one in self.wanted]
        self.arrays = [
            self.engine.empty(one.shape, "f8", memory=self.device) for one in self.wanted
        ]
        self.fields = [Field(array, self.widths, "field") for array in self.arrays]
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
        cleared = np.empty_like(values)
        spoil(cleared)
        cleared[inside] = values[inside]
        return cleared

    def connect(self) -> None:
        there = [self.peer[f"field {k}"] for k in range(len(self.arrays))]
        directions = list(all_directions(self.widths))
        rest = (0,) * (len(self.widths) - 1)  # these dimensions wrap around within the block
        beyond = {(step, *rest): there for step in (-1, 1)}
        self.halo = self.engine.halo(self.arrays, self.widths, beyond, periodic=True)
        self.steps_of: list[tuple[Any, Any, Any]] = []
        wires = []
        for direction in directions:
            opposite = directions.index(tuple(-one for one in direction))
            borders = [field.border(direction) for field in self.fields]
            ghosts = [field.ghosts(direction) for field in self.fields]
            out = self.engine.empty(self.arrived[direction].shape, "u1", memory=self.device)
            # A block is its own neighbour where the step is not to the other process.
            far = direction[0] != 0
            landing = (
                self.peer[f"arrived {opposite}"] if far else self.arrived[directions[opposite]]
            )
            if far:
                wires.append((out, landing))
            self.steps_of.append(
                (
                    self.engine.prepare_all(zip(borders, self.split(out, borders), strict=True)),
                    self.engine.prepare(out, landing),
                    self.engine.prepare_all(
                        zip(self.split(self.arrived[direction], ghosts), ghosts, strict=True)
                    ),
                )
            )
        self.wire = self.engine.prepare_all(wires)
        self.far_bytes = sum(out.nbytes for out, _ in wires)

    def split(self, buffer: Any, boxes: list[Any]) -> list[Any]:
        """Returns the parts of a message, in the shapes of the boxes."""
        parts, begin = [], 0
        for box in boxes:
            parts.append(placed(self.engine, buffer, begin, np.dtype("f8"), box.shape))
            begin += nbytes_of(box)
        return parts

    def move(self, pairs: list[tuple[Any, Any, int]]) -> None:
        """Copies whole arrays, given by their addresses, by bare copies."""
        device = int(self.device[6:])
        raw(
            self.engine,
            [(address_of(a), address_of(b), count, device) for a, b, count in pairs],
        )

    def spoil(self) -> None:
        pairs = zip(self.cleared, self.arrays, strict=True)
        self.move([(values, array, values.nbytes) for values, array in pairs])

    def right(self) -> bool:
        found = [np.empty_like(one) for one in self.wanted]
        pairs = zip(self.arrays, found, strict=True)
        self.move([(array, values, values.nbytes) for array, values in pairs])
        both = zip(found, self.wanted, strict=True)
        return all(np.array_equal(one, wanted) for one, wanted in both)

    def ways(self) -> Mapping[str, Callable[[], None]]:
        def ours() -> None:
            self.steps.meet()  # the other's fields are complete
            self.halo.exchange()
            self.steps.meet()  # the other has read this process's

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


def gpu_halo(bench: Bench) -> None:
    """Measures all cases; in small size the last alone."""
    with open_pair(bench, "halo", HaloHalf) as pair:
        for name, case in list(CASES.items())[0 if bench.full else -1 :]:
            pair.load(case)
            half = pair.half
            assert isinstance(half, HaloHalf)
            medians = pair.measure(name, half.halo.nbytes, LATENCY_ORIENTED, (WIRE,))
            share = medians["tranship"] / medians[LATENCY_ORIENTED]
            bench.say(
                f"{name}: {medians['tranship'] * 1e6:.1f} us, {share:.2f} of the latency-oriented "
                f"design's, {half.far_bytes} bytes to the other GPU"
            )
