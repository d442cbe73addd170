"""The designs of DataSpaces-GPU (Zhang et al., Euro-Par 2023, section 4) beside each other.

Arrays of a GPU through a staging server in another process, which keeps them in host memory;
`designs.py` describes the designs.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tranship.engine import Engine
from tranship.staging import Staging

from ..gpu.copies import MiB, gpu_engine, raw, raw_copy
from ..harness import Bench, Variant, blank_array, random_bytes, same, timed
from ..registry import measures
from .boxes import KEPT, blocks, server
from .designs import BASELINE, RECEIVERS, SENDERS, Receiver, Sender

GPU = "device0"


@measures(
    "gpu-staging-designs",
    "DataSpaces-GPU's designs for puts and gets of a GPU's arrays, beside each other",
)
def gpu_staging_designs(bench: Bench) -> None:
    """Measures puts as one object and gets of eight objects: 8 MiB to 1 GiB."""
    sizes = (8 * MiB, 64 * MiB, 256 * MiB, 1024 * MiB) if bench.full else (1 * MiB,)
    with (
        gpu_engine(bench) as engine,
        server(2 * (KEPT + 2) * max(sizes) + 64 * MiB) as contact,
        Staging(contact, engine=engine) as client,
    ):
        bench.awake = False
        for size in sizes:
            designs = Designs(engine, client, size)
            repetitions = 7 if size < 512 * MiB else 3
            for way, variants in (("put", designs.puts()), ("get", designs.gets())):
                bench.measure(
                    f"{way} {size // MiB} MiB of a GPU", variants, size, repetitions, BASELINE
                )
            designs.discard()


class Designs:
    """One size: a variable of its own for puts of one object, and one for gets of eight objects."""

    def __init__(self, engine: Engine, client: Staging, size: int) -> None:
        self.engine = engine
        self.client = client
        shape = (size // 8 // 16384, 128, 128)
        self.data = random_bytes(size).view("f8").reshape(shape)
        boxes = blocks(shape, 2)
        corners = [
            (tuple(cut.start for cut in box), tuple(cut.stop for cut in box)) for box in boxes
        ]
        self.sender = Sender(engine, client, GPU, shape)
        self.receiver = Receiver(engine, client, GPU, ((0, 0, 0), shape), corners)
        self.bare(self.data, self.sender.source)
        self.version = 0
        self.name = f"{size // MiB} MiB"
        self.parts_name = f"{self.name} in parts"
        for _ in range(KEPT + 2):
            self.put("direct")  # touches and pins the server's memory
        for box, (lower, _) in zip(boxes, corners, strict=True):
            client.put(self.parts_name, 1, self.data[box], lower)

    def discard(self) -> None:
        """Discards the versions of this size, so that the next size has room."""
        self.client.discard(self.parts_name, 1)
        for held in range(self.version - KEPT + 1, self.version + 1):
            self.client.discard(self.name, held)

    def bare(self, source: Any, target: Any) -> None:
        """Copies between the GPU and the host without the engine."""
        raw(self.engine, [raw_copy(source, target)])

    def put(self, design: str) -> None:
        """Puts a new version as one object."""
        self.version += 1
        self.sender.put(design, self.name, self.version, (0, 0, 0))

    def arrived(self) -> bool:
        """Returns whether the last version equals the content of the GPU's array."""
        return same(self.client.get(self.name, self.version), self.data)

    def spoil(self) -> None:
        """Spoils the target, so that a get that does nothing is detected."""
        self.bare(blank_array(self.data.shape, "f8"), self.receiver.target)

    def got(self) -> bool:
        """Returns whether the GPU's array holds all data."""
        data = np.empty_like(self.data)
        self.bare(self.receiver.target, data)
        return same(data, self.data)

    def puts(self) -> list[Variant]:
        """Returns the variants of all designs of the sender."""
        how = {"timed": "python"}
        return [
            Variant(design, timed(partial(self.put, design)), self.arrived, conditions=how)
            for design in SENDERS
        ]

    def gets(self) -> list[Variant]:
        """Returns the variants of all designs of the receiver."""
        how = {"timed": "python", "objects": len(self.receiver.objects)}
        runs = {name: partial(self.receiver.get, name, self.parts_name, 1) for name in RECEIVERS}
        return [Variant(name, timed(run), self.got, self.spoil, how) for name, run in runs.items()]
