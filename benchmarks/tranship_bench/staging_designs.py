"""A sender and a receiver with the designs of DataSpaces-GPU (Zhang et al., Euro-Par 2023, 4).

Senders:

- *baseline*: as the paper has it. The driver copies from the GPU to ordinary memory, allocated for
  each call; the host copies from there to the server.
- *pipeline*: the same, and the request for room runs while the GPU's array is copied. The engine
  makes that copy, as the driver's to ordinary memory does not go on in the background.
- *strong baseline*: as the baseline, through pinned memory that was made beforehand.
- *direct*: one call with the GPU's array.

Receivers of several objects:

- *baseline*: objects to ordinary memory, allocated for each call, put together there line by line,
  then the driver to the GPU.
- *strong baseline*: objects to pinned memory, put together in pinned memory by the engine, then the
  driver to the GPU.
- *hybrid*: objects to pinned memory, each from there to the GPU, which puts them together.
- *direct*: one call with the GPU's array.

Where the paper has GPUDirect RDMA over a network,
this is the GPU's bus to memory that both processes share. Of arrays in host memory, the designs
are copies within it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tranship._core import Event
from tranship.engine import Engine
from tranship.staging import Staging

from .gpu import raw, raw_copy
from .harness import Array

__all__ = ["BASELINE", "RECEIVERS", "SENDERS", "Receiver", "Sender"]

Corner = tuple[int, ...]
Bounds = tuple[Corner, Corner]
"""Lower and upper corner of a box."""

BASELINE = "baseline"
SENDERS = (BASELINE, "pipeline", "strong baseline", "direct")
RECEIVERS = (BASELINE, "strong baseline", "hybrid", "direct")

COPY_S_MAX = 60.0


class Mover:
    """Copies that need no plan, of a process whose arrays are in one memory."""

    def __init__(self, engine: Engine, memory: str) -> None:
        self.engine = engine
        self.memory = memory
        self.on_gpu = memory.startswith("device")
        self.device = int(memory.removeprefix("device")) if self.on_gpu else 0
        self.stage = "pinned" if self.on_gpu else "host"
        """What goes through the host and was made beforehand."""

    def bare(self, *pairs: tuple[Any, Any]) -> None:
        """The driver's own copies, all at once; of arrays in host memory NumPy's."""
        if self.on_gpu:
            raw(self.engine, [raw_copy(source, target, self.device) for source, target in pairs])
            return
        for source, target in pairs:
            np.copyto(target, source)


class Sender(Mover):
    """Puts one array of `memory`; `source` is it."""

    def __init__(
        self, engine: Engine, client: Staging, memory: str, shape: tuple[int, ...]
    ) -> None:
        super().__init__(engine, memory)
        self.client = client
        self.source = engine.empty(shape, memory=memory)
        self.staged = engine.empty(shape, memory=self.stage)

    def put(self, design: str, name: str, version: int, lower: Corner) -> None:
        """One object."""
        array: Any = self.source
        ready: Event | None = None
        if design == "strong baseline":
            array = self.staged
            self.bare((self.source, array))
        elif design == BASELINE:
            array = np.empty(self.source.shape)
            self.bare((self.source, array))
        elif design == "pipeline":
            array = np.empty(self.source.shape)
            ready = self.engine.copy(self.source, array)
        self.client.put(name, version, array, lower, after=ready)


class Receiver(Mover):
    """Gets one box into an array of `memory`, `target`.

    Args:
        engine: of the client.
        client: that asks.
        memory: of the array.
        box: what is got.
        objects: the boxes of it that lie in one object each.
    """

    def __init__(
        self, engine: Engine, client: Staging, memory: str, box: Bounds, objects: list[Bounds]
    ) -> None:
        super().__init__(engine, memory)
        self.client = client
        self.box = box
        self.objects = objects
        self.target = engine.empty(extents(box), memory=memory)
        self.staged = engine.empty(extents(box), memory=self.stage)
        self.parts = [engine.empty(extents(one), memory=self.stage) for one in objects]
        self.near = [engine.empty(extents(one), memory=memory) for one in objects]
        self.places = [within(one, box[0]) for one in objects]

    def get(self, design: str, name: str, version: int) -> None:
        """The box of one version."""
        if design == "direct":
            self.client.get(name, version, *self.box, self.target)
        elif design == BASELINE:
            whole: Array = np.empty(self.target.shape)
            for one, place in zip(self.objects, self.places, strict=True):
                received = np.empty(extents(one))
                self.client.get(name, version, *one, received)
                whole[place] = received
            self.bare((whole, self.target))
        else:
            for one, part in zip(self.objects, self.parts, strict=True):
                self.client.get(name, version, *one, part)
            self.bring_together(design)

    def bring_together(self, design: str) -> None:
        """Objects in staged memory to the target."""
        if design == "strong baseline":
            self.assemble(self.parts, self.staged)
            self.bare((self.staged, self.target))
        else:
            self.bare(*zip(self.parts, self.near, strict=True))
            self.assemble(self.near, self.target)

    def assemble(self, parts: list[Any], whole: Any) -> None:
        """All objects at once."""
        pairs = zip(parts, self.places, strict=True)
        together = self.engine.copy_all((part, whole[place]) for part, place in pairs)
        together.wait(timeout=COPY_S_MAX)


def extents(box: Bounds) -> tuple[int, ...]:
    """Returns the extents of a box."""
    return tuple(upper - lower for lower, upper in zip(*box, strict=True))


def within(box: Bounds, origin: Corner) -> tuple[slice, ...]:
    """A box as slices that count from `origin`."""
    return tuple(slice(a - o, b - o) for a, b, o in zip(*box, origin, strict=True))
