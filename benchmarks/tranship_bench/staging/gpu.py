"""Arrays of a GPU through a staging server that keeps them in its host's memory, or on a GPU.

The baseline is the driver's bare copy of as many bytes: between the GPU and pinned memory, or to
and from the GPU that the server uses: the second one, or the same if there is no other. Several
puts, or several gets, follow each other, each waited for, as in the steps of a program. The first
is not timed: a call after a pause of some milliseconds has to wake the server, which is a case of
its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tranship.engine import Engine
from tranship.staging import Staging

from ..gpu.copies import DRIVER, MiB, Side, gpu_count, gpu_engine, raw, raw_copy
from ..harness import Bench, Bytes, Variant, as_bytes, random_bytes, same, timed
from ..registry import measures
from .boxes import KEPT, blocks, server

IN_A_ROW = 16


@measures("gpu-staging", "a GPU's arrays through a staging server")
def gpu_staging(bench: Bench) -> None:
    """Measures puts and gets of 64 and 256 MiB, and of 1 GiB in GPU memory."""
    with gpu_engine(bench) as engine:
        bench.awake = False
        for kind in ("host", "device1" if gpu_count(engine) > 1 else "device0"):
            staged(bench, engine, kind)


def staged(bench: Bench, engine: Engine, kind: str) -> None:
    """Measures all sizes through a server with memory of `kind`."""
    sizes = [64 * MiB, 256 * MiB] if bench.full else [1 * MiB]
    if bench.full and kind != "host":
        sizes.append(1024 * MiB)
    memory = sum(2 * (KEPT + 2) * size for size in sizes) + 64 * MiB
    with server(memory, kind=kind) as contact, Staging(contact, engine=engine) as client:
        for size in sizes:
            shape = (size // 8 // 65536, 256, 256)
            source, target = (Side(engine, "device0", shape, "f8") for _ in range(2))
            other = Side(engine, "pinned" if kind == "host" else kind, shape, "f8")
            data = random_bytes(size)
            source.write(data)
            measure(bench, client, (source, target, other), data)


def measure(bench: Bench, client: Staging, sides: tuple[Side, Side, Side], data: Bytes) -> None:
    """Measures puts and gets of one size."""
    source, target, other = sides
    name = f"{source.nbytes // MiB} MiB"
    there = "" if other.memory == "pinned" else f", server on {other.memory}"
    boxes = blocks(source.array.shape, 2)
    version = 0

    def put() -> None:
        nonlocal version
        version += 1
        client.put(name, version, source.array)

    def arrived() -> bool:
        return same(as_bytes(client.get(name, version)), data)

    for _ in range(KEPT + 2):  # touches and pins the server's memory
        put()
        for box in boxes:
            client.put(f"{name} in 8", version, source.array[box], tuple(cut.start for cut in box))
    other.write(data)

    def bare(of: Side, to: Side) -> Variant:
        copy = raw_copy(of.array, to.array)
        return to.variant(DRIVER, lambda: raw(to.engine, [copy]), data, timed="core")

    get = timed(lambda: client.get(name, version, out=target.array))
    get_objects = timed(lambda: client.get(f"{name} in 8", "latest", out=target.array))
    puts = Variant("put", timed(put), arrived)
    gets = target.variant("get", get, data)
    gets_of_8 = target.variant("get of 8 objects", get_objects, data)
    for case, variants in (
        ("put", [bare(source, other), puts]),
        ("get", [bare(other, target), gets, gets_of_8]),
    ):
        case = f"{case} {name} of a GPU{there}"
        rows = [replace(one, run=in_a_row(one.run)) for one in variants]
        bench.measure(case, rows, IN_A_ROW * source.nbytes, 7, DRIVER)
        bench.measure(f"{case}, after a pause", variants, source.nbytes, 7, DRIVER)


def in_a_row(run: Callable[[], float]) -> Callable[[], float]:
    """Returns a function that times consecutive runs, after one that is not timed."""

    def row() -> float:
        run()
        return sum(run() for _ in range(IN_A_ROW))

    return row
