"""Arrays of a GPU through a staging server that keeps them in its host's memory.

The baseline is the driver's bare copy of as many bytes between the GPU and pinned memory.
"""

from __future__ import annotations

import numpy as np

from ..staging import Staging
from .gpu import Side, gpu_engine, raw, raw_copy
from .harness import Bench, Bytes, Variant, random_bytes, same
from .host import timed
from .staging import KEPT, server

MiB = 1 << 20
DRIVER = "cudaMemcpyAsync"


def gpu_staging(bench: Bench) -> None:
    """Puts and gets of 64 and 256 MiB."""
    sizes = (64 * MiB, 256 * MiB) if bench.full else (1 * MiB,)
    with (
        gpu_engine(bench) as engine,
        server(sum((KEPT + 2) * size for size in sizes) + 64 * MiB) as contact,
        Staging(contact, engine=engine) as client,
    ):
        for size in sizes:
            shape = (size // 8 // 65536, 256, 256)
            source, target = (Side(engine, "device0", shape, "f8") for _ in range(2))
            pinned = Side(engine, "pinned", shape, "f8")
            data = random_bytes(size)
            source.write(data)
            measure(bench, client, (source, target, pinned), data)


def measure(bench: Bench, client: Staging, sides: tuple[Side, Side, Side], data: Bytes) -> None:
    """One size, both ways."""
    source, target, pinned = sides
    size = source.nbytes
    name = f"{size // MiB} MiB"
    version = 0

    def put() -> None:
        nonlocal version
        version += 1
        client.put(name, version, source.array)

    def get() -> None:
        client.get(name, version, out=target.array)

    def arrived() -> bool:
        return same(client.get(name, version).reshape(-1).view(np.uint8), data)

    for _ in range(KEPT + 2):
        put()  # the server's memory has been touched, and pinned
    up = Variant(
        DRIVER,
        lambda: raw(source.engine, [raw_copy(source.array, pinned.array, 0)]),
        lambda: same(pinned.read(), data),
        pinned.spoil,
    )
    down = Variant(
        DRIVER,
        lambda: raw(source.engine, [raw_copy(pinned.array, target.array, 0)]),
        lambda: same(target.read(), data),
        target.spoil,
    )
    puts = Variant("put", timed(put), arrived, lambda: None, {"timed": "python"})
    gets = Variant(
        "get", timed(get), lambda: same(target.read(), data), target.spoil, {"timed": "python"}
    )
    pinned.write(data)
    for case, variants in (("put", [up, puts]), ("get", [down, gets])):
        bench.measure(
            f"{case} {name} of a GPU",
            variants,
            size,
            repetitions=bench.pick(7, 1),
            baseline=DRIVER,
            cold=False,
        )
