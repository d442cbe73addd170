"""The designs of DataSpaces-GPU (Zhang et al., Euro-Par 2023, section 4) beside each other.

Arrays of a GPU through a staging server in another process, which keeps them in host memory:

- *baseline*: as the paper has it. The driver copies between the GPU and ordinary memory, allocated
  for each call; the host copies to and from the server, and reassembles objects line by line.
- *strong baseline*: the same with pinned buffers that were made beforehand, and the engine's copies
  with all threads in the host.
- *hybrid* (gets): objects to pinned buffers, each from there to the GPU, which reassembles them.
- *direct*: the engine copies between the GPU and the server's memory.

The paper's pipeline differs from its baseline only in what overlaps with the metadata, and takes as
long (its Figure 9a): it is not repeated here. Where the paper has GPUDirect RDMA over a network,
this is the GPU's bus to memory that both processes share.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engine import Engine
from ..staging import Staging
from .gpu import Side, gpu_engine, raw, raw_copy
from .harness import Array, Bench, Variant, random_bytes, same
from .host import timed
from .staging import KEPT, Box, blocks, server

MiB = 1 << 20
BASELINE = "baseline"
GPU = "device0"


def gpu_staging_designs(bench: Bench) -> None:
    """Puts whole, gets of eight objects: 8 MiB to 1 GiB."""
    sizes = (8 * MiB, 64 * MiB, 256 * MiB, 1024 * MiB) if bench.full else (1 * MiB,)
    with (
        gpu_engine(bench) as engine,
        server(2 * (KEPT + 2) * max(sizes) + 64 * MiB) as contact,
        Staging(contact, engine=engine) as client,
    ):
        for size in sizes:
            designs = Designs(engine, client, size)
            repetitions = bench.pick(7 if size < 512 * MiB else 3, 1)
            for way, variants in (("put", designs.puts()), ("get", designs.gets())):
                bench.measure(
                    f"{way} {size // MiB} MiB of a GPU",
                    variants,
                    size,
                    repetitions=repetitions,
                    baseline=BASELINE,
                    cold=False,
                )
            designs.discard()


class Designs:
    """One size: a variable of its own, in one object for puts and in eight for gets."""

    def __init__(self, engine: Engine, client: Staging, size: int) -> None:
        self.engine = engine
        self.client = client
        shape = (size // 8 // 16384, 128, 128)
        self.shape = shape
        self.data = random_bytes(size).view("f8").reshape(shape)
        self.source, self.target = (Side(engine, GPU, shape, "f8") for _ in range(2))
        self.source.write(self.data)
        self.pinned = engine.empty(shape, memory="pinned")
        self.boxes = blocks(shape, 2)
        part = tuple(n // 2 for n in shape)
        self.parts = [engine.empty(part, memory="pinned") for _ in self.boxes]
        self.on_gpu = [engine.empty(part, memory=GPU) for _ in self.boxes]
        self.version = 0
        self.name = f"{size // MiB} MiB"
        for _ in range(KEPT + 2):
            self.put_direct()  # the server's memory has been touched, and pinned
        for box in self.boxes:
            lower = tuple(cut.start for cut in box)
            client.put(f"{self.name} in parts", 1, self.data[box], lower)

    def discard(self) -> None:
        """Room for the next size."""
        self.client.discard(f"{self.name} in parts", 1)
        for held in range(self.version - KEPT + 1, self.version + 1):
            self.client.discard(self.name, held)

    # puts

    def put(self, array: Any) -> None:
        """A new version, whole."""
        self.version += 1
        self.client.put(self.name, self.version, array)

    def put_baseline(self) -> None:
        """The driver into memory of this call, then the host."""
        host = np.empty(self.shape)
        raw(self.engine, [raw_copy(self.source.array, host, 0)])
        self.put(host)

    def put_strong(self) -> None:
        """The driver into pinned memory, then the host with all threads."""
        raw(self.engine, [raw_copy(self.source.array, self.pinned, 0)])
        self.put(self.pinned)

    def put_direct(self) -> None:
        """One call."""
        self.put(self.source.array)

    def arrived(self) -> bool:
        """Whether the last version is what the GPU holds."""
        return same(self.client.get(self.name, self.version), self.data)

    def puts(self) -> list[Variant]:
        """All designs of the sender."""
        ways = {
            BASELINE: self.put_baseline,
            "strong baseline": self.put_strong,
            "direct": self.put_direct,
        }
        conditions = {"timed": "python"}
        return [
            Variant(name, timed(way), self.arrived, lambda: None, conditions)
            for name, way in ways.items()
        ]

    # gets

    def get(self, box: Box, out: Any) -> None:
        """A box of the variable in parts."""
        lower, upper = tuple(cut.start for cut in box), tuple(cut.stop for cut in box)
        self.client.get(f"{self.name} in parts", 1, lower, upper, out)

    def get_baseline(self) -> None:
        """Objects to memory of this call, reassembled there, then the driver."""
        whole: Array = np.empty(self.shape)
        for box, part in zip(self.boxes, self.parts, strict=True):
            received = np.empty(part.shape)
            self.get(box, received)
            whole[box] = received
        raw(self.engine, [raw_copy(whole, self.target.array, 0)])

    def get_strong(self) -> None:
        """Objects to pinned memory, reassembled in pinned memory by the engine, then the driver."""
        for box, part in zip(self.boxes, self.parts, strict=True):
            self.get(box, part)
        self.reassemble(self.parts, self.pinned)
        raw(self.engine, [raw_copy(self.pinned, self.target.array, 0)])

    def get_hybrid(self) -> None:
        """Objects to pinned memory, from there to the GPU, reassembled there."""
        for box, part in zip(self.boxes, self.parts, strict=True):
            self.get(box, part)
        copies = [raw_copy(a, b, 0) for a, b in zip(self.parts, self.on_gpu, strict=True)]
        raw(self.engine, copies)
        self.reassemble(self.on_gpu, self.target.array)

    def get_direct(self) -> None:
        """One call."""
        self.get(tuple(slice(0, n) for n in self.shape), self.target.array)

    def reassemble(self, parts: list[Any], whole: Any) -> None:
        """All objects at once."""
        events = [
            self.engine.copy(part, whole[box]) for box, part in zip(self.boxes, parts, strict=True)
        ]
        for event in events:
            event.wait(timeout=60)

    def gets(self) -> list[Variant]:
        """All designs of the receiver."""
        ways = {
            BASELINE: self.get_baseline,
            "strong baseline": self.get_strong,
            "hybrid": self.get_hybrid,
            "direct": self.get_direct,
        }
        conditions = {"timed": "python", "objects": len(self.boxes)}
        return [
            Variant(name, timed(way), self.got, self.target.spoil, conditions)
            for name, way in ways.items()
        ]

    def got(self) -> bool:
        """Whether all of it is on the GPU."""
        return same(self.target.read(), self.data.reshape(-1).view(np.uint8))
