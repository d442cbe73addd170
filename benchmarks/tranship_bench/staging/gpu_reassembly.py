"""Objects of a GPU assembled into one array on it (DataSpaces-GPU, section 4.2 and Figure 9b).

8 to 512 objects, 256 MiB and 1 GiB, 3 to 8 dimensions, 1 to 16 bytes an element: one launch for
all (`copy_all`), beside one launch for each object, as in the paper, and the driver's bare copy of
as many bytes inside the GPU.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np

from tranship.engine import Engine

from ..gpu.copies import DRIVER, SHORT_TIMES, Side, bare, gpu_engine, raw_copy
from ..harness import Bench, as_bytes, random_bytes, waited
from ..registry import measures

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
    kind = dtype.str[1:]
    target, other = (Side(engine, "device0", shape, kind) for _ in range(2))
    data = random_bytes(target.nbytes)
    other.write(data)
    whole = data.view(dtype).reshape(shape)
    pairs = []
    for box in boxes:
        part = np.ascontiguousarray(whole[box])
        side = Side(engine, "device0", part.shape, kind)
        side.write(as_bytes(part))
        pairs.append((side.array, target.array[box]))
    variants = [bare(engine, raw_copy(other.array, target.array), times=SHORT_TIMES)]
    for words, starts in (
        ("one launch", [partial(engine.copy_all, pairs)]),
        ("a launch for each object", [partial(engine.copy, *pair) for pair in pairs]),
    ):
        run = waited(*starts, times=SHORT_TIMES)
        variants.append(target.variant(words, run, data, objects=len(boxes)))
    bench.measure(name, variants, target.nbytes * SHORT_TIMES, 7, DRIVER)
