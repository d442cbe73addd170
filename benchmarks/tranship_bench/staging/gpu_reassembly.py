"""Objects of a GPU assembled into one array on it (DataSpaces-GPU, section 4.2 and Figure 9b).

One launch for all objects runs beside one launch for each object, as in the paper, and the driver's
bare copy of as many bytes inside the GPU. Several runs in a row are timed, without Python.

- 8 to 512 objects of a GPU put together to one array on it, 256 MiB and 1 GiB, 3 to 8 dimensions, 1
  to 16 bytes an element: all in one launch (`copy_all`), and a launch for each (DataSpaces-GPU,
  section 4.2); beside the driver's copy inside the GPU.
"""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np

from tranship.engine import Engine

from ..gpu.copies import SHORT_TIMES, Side, gpu_engine, raw, raw_copy
from ..harness import Bench, Variant, random_bytes, same
from ..registry import measures

MiB = 1 << 20
DRIVER = "cudaMemcpyAsync"

Shape = tuple[int, ...]
Box = tuple[slice, ...]


def cases(bench: Bench) -> list[tuple[str, str, Shape, Shape]]:
    """Returns for each case: name, type, extents of the array, number of objects by dimension."""
    if not bench.full:
        return [("8 objects, 3-D f8", "f8", (8, 8, 32), (2, 2, 2))]
    return [
        ("8 objects, 3-D f8, 1 GiB", "f8", (512, 512, 512), (2, 2, 2)),
        ("64 objects, 3-D f8, 1 GiB", "f8", (512, 512, 512), (4, 4, 4)),
        ("512 objects, 3-D f8, 1 GiB", "f8", (512, 512, 512), (8, 8, 8)),
        ("8 objects, 3-D f8, 256 MiB", "f8", (256, 256, 512), (2, 2, 2)),
        ("512 objects, 3-D f8, 256 MiB", "f8", (256, 256, 512), (8, 8, 8)),
        ("64 objects, 3-D f4, odd extents, 1 GiB", "f4", (643, 645, 647), (4, 4, 4)),
        ("64 objects, 3-D u1, odd extents, 256 MiB", "u1", (643, 645, 647), (4, 4, 4)),
        ("64 objects, 6-D f8, 256 MiB", "f8", (16, 16, 16, 16, 32, 16), (2,) * 6),
        ("256 objects, 8-D c16, 256 MiB", "c16", (8, 8, 8, 8, 8, 8, 8, 8), (2,) * 8),
    ]


def boxes_of(shape: Shape, parts: Shape) -> list[Box]:
    """Returns the array's parts, as equal as possible."""
    edges = [
        [round(k * n / count) for k in range(count + 1)]
        for n, count in zip(shape, parts, strict=True)
    ]
    cuts = [[slice(a, b) for a, b in itertools.pairwise(one)] for one in edges]
    return list(itertools.product(*cuts))


@measures("gpu-reassembly", "objects of a GPU put together to one array on it, in one launch")
def gpu_reassembly(bench: Bench) -> None:
    """Measures every case on the first GPU."""
    with gpu_engine(bench) as engine:
        for name, dtype, shape, parts in cases(bench):
            reassemble(bench, engine, name, np.dtype(dtype), boxes_of(shape, parts))


def reassemble(bench: Bench, engine: Engine, name: str, dtype: Any, boxes: list[Box]) -> None:
    """Measures one case: as many objects as boxes, which fill the array."""
    shape = tuple(part.stop for part in boxes[-1])
    count = int(np.prod(shape)) * dtype.itemsize
    data = random_bytes(count)
    whole = data.view(dtype).reshape(shape)
    target = Side(engine, "device0", shape, dtype.str[1:])
    other = Side(engine, "device0", shape, dtype.str[1:])
    objects = []
    for box in boxes:
        part = np.ascontiguousarray(whole[box])
        side = Side(engine, "device0", part.shape, dtype.str[1:])
        side.write(part.reshape(-1).view(np.uint8))
        objects.append(side)
    out: Any = target.array
    pairs = [(side.array, out[box]) for side, box in zip(objects, boxes, strict=True)]

    def arrived() -> bool:
        return same(target.read(), data)

    def way(together: bool) -> Variant:
        return Variant(
            "one launch" if together else "a launch for each object",
            lambda: time_pairs(engine, pairs, together, SHORT_TIMES),
            arrived,
            target.spoil,
            {"objects": len(boxes), "timed": "python"},
        )

    other.write(data)
    copy = raw_copy(other.array, target.array, 0)
    driver = Variant(DRIVER, lambda: raw(engine, [copy] * SHORT_TIMES), arrived, target.spoil, {})
    bench.measure(
        name,
        [driver, way(True), way(False)],
        count * SHORT_TIMES,
        repetitions=bench.pick(7, 1),
        baseline=DRIVER,
        cold=False,
        awake=True,
    )


def time_pairs(engine: Engine, pairs: list[tuple[Any, Any]], together: bool, rounds: int) -> float:
    """Returns the seconds of rounds of copies in all, started together or one by one.

    The wait for the first begins when all are started.
    """
    begin = time.perf_counter()
    events = []
    for _ in range(rounds):
        if together:
            events.append(engine.copy_all(pairs))
        else:
            events.extend(engine.copy(*pair) for pair in pairs)
    for event in events:
        event.wait(timeout=60)
    return time.perf_counter() - begin
