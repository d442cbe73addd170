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


class Places:
    """An engine with GPUs, and others that export arrays to it."""

    def __init__(self, stack: ExitStack) -> None:
        self.engine = stack.enter_context(ts.Engine(emulated_gpus=EMULATED, threads=2))
        self.near = stack.enter_context(ts.Engine(emulated_gpus=EMULATED, threads=2, contact=True))
        self.far = stack.enter_context(ts.Engine(contact=True, transport="network", threads=2))
        self.peers = {one: self.engine.connect(one.contact) for one in (self.near, self.far)}
        self.exported = 0

    def put(self, values: Bytes, place: str) -> tuple[Any, Any]:
        """Returns an array with these bytes as this engine sees it, and where it lies."""
        if place in MEMORIES:
            array = filled(self.engine, values, place)
            return array, array
        owner = self.far if place == "network" else self.near
        if place == "shared":
            array = owner.empty(values.shape, "u1")
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
