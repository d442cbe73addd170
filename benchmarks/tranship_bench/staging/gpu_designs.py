"""The designs of DataSpaces-GPU (Zhang et al., Euro-Par 2023, section 4) beside each other.

Arrays of a GPU through a staging server in another process, which keeps them in host memory;
`designs.py` describes the designs.
"""

from __future__ import annotations

from functools import partial

from ..gpu.copies import MiB, gpu_engine
from ..harness import Bench, Variant, same, seeded
from ..registry import measures
from .boxes import KEPT, blocks, server
from .designs import BASELINE, RECEIVERS, SENDERS
from .worker import Part, Worker

GPU = "device0"


@measures(
    "gpu-staging-designs",
    "DataSpaces-GPU's designs for puts and gets of a GPU's arrays, beside each other",
)
def gpu_staging_designs(bench: Bench) -> None:
    """Measures puts as one object and gets of eight objects: 8 MiB to 1 GiB."""
    sizes = (8 * MiB, 64 * MiB, 256 * MiB, 1024 * MiB) if bench.full else (1 * MiB,)
    with gpu_engine(bench) as engine, server(2 * (KEPT + 2) * max(sizes) + 64 * MiB) as contact:
        bench.awake = False
        worker = Worker(engine)
        worker.join(contact, "client")
        for size in sizes:
            measure(bench, worker, size)
        worker.leave()


def measure(bench: Bench, worker: Worker, size: int) -> None:
    """Measures one size: a variable of its own for puts, and one for gets of eight objects."""
    name, parts_name = f"{size // MiB} MiB", f"{size // MiB} MiB in parts"
    shape = (size // 8 // 16384, 128, 128)
    whole = ((0, 0, 0), shape)
    data = seeded(shape, "u8").view("f8")
    objects: list[Part] = []
    for box in blocks(shape, 2):
        lower, upper = tuple(cut.start for cut in box), tuple(cut.stop for cut in box)
        worker.client.put(parts_name, 1, data[box], lower)
        objects.append(((lower, upper), whole, 1))
    worker.write_box(name, GPU, whole, 1)
    worker.fill(name, 0)
    worker.read_box(parts_name, GPU, whole, objects)
    version = 0

    def put(design: str) -> float:
        nonlocal version
        version += 1
        return worker.put([name], version, (0, 0, 0), design)

    def get(design: str) -> float:
        return worker.get([parts_name], 1, design)

    def arrived() -> bool:
        return same(worker.client.get(name, version), data)

    def clear() -> None:
        worker.clear([parts_name])

    for _ in range(KEPT + 2):
        put("direct")  # touches and pins the server's memory
    puts = [Variant(one, partial(put, one), arrived) for one in SENDERS]
    holds, how = partial(worker.holds, parts_name, 0), {"objects": len(objects)}
    gets = [Variant(one, partial(get, one), holds, clear, how) for one in RECEIVERS]
    repetitions = 7 if size < 512 * MiB else 3
    for way, variants in (("put", puts), ("get", gets)):
        bench.measure(f"{way} {size // MiB} MiB of a GPU", variants, size, repetitions, BASELINE)
    worker.client.discard(parts_name, 1)  # so that the next size has room
    for held in range(version - KEPT + 1, version + 1):
        worker.client.discard(name, held)
    worker.release(name)
    worker.release(parts_name)
