"""A sender and a receiver with the designs of DataSpaces-GPU (Zhang et al., Euro-Par 2023, 4).

Senders:

- *baseline*: as in the paper. The driver copies from the GPU to pageable memory, allocated for
  each call; the host copies from there to the server.
- *pipeline*: the same, and the request for room runs while the GPU's array is copied. The engine
  makes that copy, because the driver's copy to pageable memory is not asynchronous.
- *strong baseline*: as the baseline, through pinned memory that was allocated beforehand.
- *direct*: one call with the GPU's array.

Receivers of several objects:

- *baseline*: objects to pageable memory, allocated for each call, assembled there line by line;
  then the driver copies to the GPU.
- *strong baseline*: objects to pinned memory, assembled in pinned memory by the engine; then the
  driver copies to the GPU.
- *hybrid*: objects to pinned memory, each from there to the GPU, which assembles them.
- *direct*: one call with the GPU's array.

Instead of the paper's GPUDirect RDMA over a network, data cross the GPU's bus to memory that both
processes share. For arrays in host memory, the designs are copies within host memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tranship._core import Event
from tranship.engine import Engine
from tranship.staging import Staging

from ..gpu.copies import raw, raw_copy
from ..harness import Array

Corner = tuple[int, ...]
Bounds = tuple[Corner, Corner]
"""Lower and upper corner of a box."""

BASELINE = "baseline"
SENDERS = (BASELINE, "pipeline", "strong baseline", "direct")
RECEIVERS = (BASELINE, "strong baseline", "hybrid", "direct")

COPY_S_MAX = 60.0


class Mover:
    """Copies without a plan, for a process whose arrays are in one memory."""

    def __init__(self, engine: Engine, memory: str) -> None:
        self.engine = engine
        self.memory = memory
        self.on_gpu = memory.startswith("device")
        self.device = int(memory.removeprefix("device")) if self.on_gpu else 0
        self.stage = "pinned" if self.on_gpu else "host"
        """Memory of the buffers that were allocated beforehand."""

    def bare(self, *pairs: tuple[Any, Any]) -> None:
        """Makes the driver's own copies, all at once; for arrays in host memory, NumPy's."""
        if self.on_gpu:
            raw(self.engine, [raw_copy(source, target, self.device) for source, target in pairs])
            return
        for source, target in pairs:
            np.copyto(target, source)


class Sender(Mover):
    """A sender of one array, `source`, which is in `memory`."""

    def __init__(
        self, engine: Engine, client: Staging, memory: str, shape: tuple[int, ...]
    ) -> None:
        super().__init__(engine, memory)
        self.client = client
        self.source = engine.empty(shape, memory=memory)
        self.staged = engine.empty(shape, memory=self.stage)

    def put(self, design: str, name: str, version: int, lower: Corner) -> None:
        """Puts the array as one object."""
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
    """A receiver of one box into an array of `memory`, `target`.

    Args:
        engine: Engine of the client.
        client: Client that gets.
        memory: Memory of the array.
        box: Box to get.
        objects: Parts of the box that lie in one object each.
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
        """Gets the box of one version."""
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
        """Copies the staged objects to the target."""
        if design == "strong baseline":
            self.assemble(self.parts, self.staged)
            self.bare((self.staged, self.target))
        else:
            self.bare(*zip(self.parts, self.near, strict=True))
            self.assemble(self.near, self.target)

    def assemble(self, parts: list[Any], whole: Any) -> None:
        """Copies all objects into the whole at once."""
        pairs = zip(parts, self.places, strict=True)
        together = self.engine.copy_all((part, whole[place]) for part, place in pairs)
        together.wait(timeout=COPY_S_MAX)


def extents(box: Bounds) -> tuple[int, ...]:
    """Returns the extents of a box."""
    return tuple(upper - lower for lower, upper in zip(*box, strict=True))


def within(box: Bounds, origin: Corner) -> tuple[slice, ...]:
    """Returns a box as slices that count from `origin`."""
    return tuple(slice(a - o, b - o) for a, b, o in zip(*box, origin, strict=True))
