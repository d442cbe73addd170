"""A GPU to and from another process: its GPU, its shared memory, its pageable memory.

- a GPU to and from another process: its GPU, its shared and its pageable memory; 16,384 pages of 4
  KiB, scattered on both sides (`copy_pages`); 8 B and 64 KiB; beside the driver's copy of as many
  bytes in one process.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tranship.engine import Engine

from ..harness import Bench, Variant, as_bytes, require, seeded, waited
from ..host.copies import many
from ..processes.peer import Other
from ..registry import measures
from .copies import DRIVER, SHORT_TIMES, Side, bare, gpu_count, gpu_engine, raw_copy

PAGES, PAGE_BYTES = 16384, 4096
LATENCY_BYTES = (8, 65536)


class Ways:
    """Arrays on a GPU here, arrays of another process, and the bare copies to compare with."""

    def __init__(self, bench: Bench, engine: Engine, other: Other) -> None:
        self.bench = bench
        self.engine = engine
        self.other = other
        self.far_gpu = f"device{gpu_count(engine) - 1}"

    def measure(
        self, case: str, way: Variant, memory: str, count: int, *, up: bool = False
    ) -> None:
        """Measures one case beside the bare copy of `count` bytes from this GPU to a memory.

        If `up`, the bare copy goes from that memory to this GPU.
        """
        here = Side(self.engine, "device0", (count,), "u1").array
        there = Side(self.engine, memory, (count,), "u1").array
        copy = raw_copy(there, here) if up else raw_copy(here, there)
        name = "cudaMemcpyPeerAsync" if memory == self.far_gpu else DRIVER
        limit = bare(self.engine, copy, times=SHORT_TIMES, name=name)
        self.bench.measure(case, [way, limit], count * SHORT_TIMES, 7, name)

    def put(self, case: str, kind: str, memory: str, transposed: bool = False) -> None:
        """Measures copies from the GPU here to an array of the other process."""
        side = self.bench.pick(8192, 128)
        name = f"{kind}{' transposed' if transposed else ''}"
        there = self.other.array(name, kind, (side, side), "f4")
        here = Side(self.engine, "device0", (side, side), "f4")
        here.write(as_bytes(seeded((side, side), "f4")))
        source = here.array.transpose() if transposed else here.array
        run = waited(partial(self.engine.copy, source, there), times=SHORT_TIMES)
        path = str(self.engine.plan(source, there))
        way = self.other.variant("tranship", run, name, transposed, path=path)
        self.measure(case, way, memory, here.nbytes)
        self.other.ask("withdraw", name=name)

    def get(self, case: str, kind: str, memory: str) -> None:
        """Measures copies from an array of the other process to the GPU here."""
        side = self.bench.pick(8192, 128)
        there = self.other.array("source", kind, (side, side), "f4")
        self.other.ask("fill", name="source")
        here = Side(self.engine, "device0", (side, side), "f4")
        wanted = as_bytes(seeded((side, side), "f4"))
        run = waited(partial(self.engine.copy, there, here.array), times=SHORT_TIMES)
        way = here.variant("tranship", run, wanted, path=str(self.engine.plan(there, here.array)))
        self.measure(case, way, memory, here.nbytes, up=True)
        self.other.ask("withdraw", name="source")

    def pages(self) -> None:
        """Measures pages in random order on both sides, as in a cache of keys and values."""
        pages, words = self.bench.pick(PAGES, 64), PAGE_BYTES // 8
        there = self.other.array("pages", self.far_gpu, (pages, words), "f8")
        here = Side(self.engine, "device0", (pages, words), "f8")
        order = np.random.default_rng(1)
        from_pages, to_pages = order.permutation(pages), order.permutation(pages)
        wanted = seeded((pages, words), "f8")
        data = np.empty_like(wanted)
        data[from_pages] = wanted[to_pages]
        here.write(as_bytes(data))
        lists: tuple[Any, Any] = (from_pages, to_pages)
        start = partial(self.engine.copy_pages, here.array, there, *lists)
        path = str(self.engine.plan(here.array, there))
        run = waited(start, times=SHORT_TIMES)
        way = self.other.variant("tranship", run, "pages", path=path)
        case = f"GPU to another process's GPU, {pages} scattered pages of 4 KiB"
        self.measure(case, way, self.far_gpu, here.nbytes)
        self.other.ask("withdraw", name="pages")

    def latency(self, count: int) -> None:
        """Measures copies one after another, each waited for."""
        name = f"latency {count}"
        there = self.other.array(name, self.far_gpu, (count,), "u1")
        here = Side(self.engine, "device0", (count,), "u1")
        here.write(as_bytes(seeded((count,), "u1")))
        repeats = self.bench.pick(500, 5)
        run = many(self.engine, here.array, there, repeats)
        seconds = [run() for _ in range(7)]
        case = f"{count} B, GPU to another process's GPU"
        require(self.other.checking(name)(), case)
        self.bench.emit(case, "tranship", count, seconds)
        self.other.ask("withdraw", name=name)


@measures("gpu-process", "a GPU to and from another process's memories")
def process(bench: Bench) -> None:
    """Measures all cases, beside the driver's copies in one process."""
    with gpu_engine(bench) as engine, Other(engine) as other:
        ways = Ways(bench, engine, other)
        ways.put("GPU to another process's GPU", ways.far_gpu, ways.far_gpu)
        ways.put("GPU to another process's GPU, transposed", ways.far_gpu, ways.far_gpu, True)
        ways.get("another process's GPU to a GPU", ways.far_gpu, ways.far_gpu)
        ways.pages()
        for kind in ("shared", "plain"):
            ways.put(f"GPU to another process's {kind} memory", kind, "pinned")
            ways.get(f"another process's {kind} memory to a GPU", kind, "pinned")
        for count in LATENCY_BYTES:
            ways.latency(count)
