"""Arrays in every memory that an engine reaches, for copies of lists and of types."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import numpy as np
from gpu_support import EMULATED, content, filled, gpu_count

import tranship as ts

DEVICES = tuple(f"device{k}" for k in range(min(gpu_count(), 2)))
MEMORIES = ("host", "pinned", *DEVICES)
PEERS = ("plain", "shared", "network", *(f"peer {device}" for device in DEVICES[-1:]))
Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Pieces = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]


class Places:
    """An engine with GPUs, and others that export arrays to it."""

    def __init__(self, stack: ExitStack) -> None:
        self.engine = stack.enter_context(ts.Engine(emulated_gpus=EMULATED, threads=2))
        self.near = stack.enter_context(ts.Engine(emulated_gpus=EMULATED, threads=2, contact=True))
        self.far = stack.enter_context(ts.Engine(contact=True, transport="network", threads=2))
        self.peers = {one: self.engine.connect(one.contact) for one in (self.near, self.far)}
        self.exported = 0

    def put(self, values: np.ndarray[Any, Any], place: str) -> tuple[Any, Any]:
        """Returns an array with these values as this engine sees it, and where it lies."""
        if place in MEMORIES:
            array = filled(self.engine, values, place)
            return array, array
        owner = self.far if place == "network" else self.near
        if place == "shared":
            array = owner.empty(values.shape, values.dtype)
            array[...] = values
        else:
            array = filled(
                owner, values, place.removeprefix("peer ") if "peer" in place else "host"
            )
        self.exported += 1
        name = f"array {self.exported}"
        owner.export(name, array)
        return self.peers[owner][name], array

    def read(self, place: str, array: Any) -> Bytes:
        """Returns the bytes of an array that `put` made."""
        engine = self.engine if place in MEMORIES else self.near
        return np.asarray(content(engine, array)).view(np.uint8).reshape(-1)


def some_pieces(generator: np.random.Generator, source: int, target: int, count: int) -> Pieces:
    """Draws pieces that do not overlap in the target; some are empty, some follow each other."""
    cuts = np.sort(generator.integers(0, target + 1, 2 * count))
    begins, lengths = cuts[::2], cuts[1::2] - cuts[::2]
    if generator.random() < 0.5:  # whole units, as most lists have them
        unit = int(generator.choice([4, 64, 512]))
        begins, lengths = begins // unit * unit, lengths // unit * unit
        keep = np.append(begins[1:] >= (begins + lengths)[:-1], True)
        begins, lengths = begins[keep], lengths[keep]
    order = generator.permutation(len(begins))
    begins, lengths = begins[order], np.minimum(lengths[order], source)
    from_offsets = generator.integers(0, source - lengths + 1)
    return from_offsets, begins, lengths
