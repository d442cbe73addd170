"""A GPU to and from another process: its GPU, its shared memory, its pageable memory.

- a GPU to and from another process: its GPU, its shared and its pageable memory; 16,384 pages of 4
  KiB, scattered on both sides (`copy_pages`); 8 B and 64 KiB; beside the driver's copy of as many
  bytes in one process.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

from tranship.engine import Engine

from ..harness import Bench, Variant, each, same
from ..processes.data import seeded
from ..processes.peer import Other
from ..registry import measures
from .copies import SHORT_TIMES, Side, engine_seconds, gpu_count, gpu_engine, raw, raw_copy

SEED = 1
PAGES, PAGE_BYTES = 16384, 4096
LATENCY_BYTES = (8, 65536)


class Ways:
    """Arrays on a GPU here, arrays of another process, and the bare copies to compare with."""

    def __init__(self, bench: Bench, engine: Engine, other: Other) -> None:
        self.bench = bench
        self.engine = engine
        self.other = other
        self.gpus = gpu_count(engine)
        self.far_gpu = f"device{self.gpus - 1}"

    def limit(self, memory: str, count: int, *, up: bool = False) -> Callable[[], float]:
        """Returns the timed bare copy of `count` bytes from this GPU to a memory; if `up`, back."""
        here = Side(self.engine, "device0", (count,), "u1")
        there = Side(self.engine, memory, (count,), "u1")
        sides = (there, here) if up else (here, there)

        def run() -> float:
            return raw(self.engine, [raw_copy(sides[0].array, sides[1].array, 0)] * SHORT_TIMES)

        return run

    def measure(
        self, case: str, way: Variant, limit: Callable[[], float], count: int, bare: str
    ) -> None:
        """Measures one case beside the bare copy."""
        self.bench.measure(
            case,
            [way, Variant(bare, limit, lambda: True, lambda: None, {})],
            count * SHORT_TIMES,
            repetitions=self.bench.pick(7, 1),
            baseline=bare,
            cold=False,
            awake=True,
        )

    def put(self, case: str, kind: str, memory: str, transposed: bool = False) -> None:
        """Measures copies from the GPU here to an array of the other process."""
        side = self.bench.pick(8192, 128)
        name = f"{kind}{' transposed' if transposed else ''}"
        there = self.other.array(name, kind, (side, side), "f4")
        here = Side(self.engine, "device0", (side, side), "f4")
        here.write(seeded((side, side), "f4", SEED).reshape(-1).view(np.uint8))
        source = here.array.transpose() if transposed else here.array
        way = Variant(
            "tranship",
            lambda: engine_seconds(self.engine, [(source, there)] * SHORT_TIMES),
            self.other.checking(name, SEED, transposed),
            self.other.preparing(name),
            {"path": str(self.engine.plan(source, there))},
        )
        bare = "cudaMemcpyPeerAsync" if memory == self.far_gpu else "cudaMemcpyAsync"
        self.measure(case, way, self.limit(memory, here.nbytes), here.nbytes, bare)
        self.other.ask("withdraw", name=name)

    def get(self, case: str, kind: str, memory: str) -> None:
        """Measures copies from an array of the other process to the GPU here."""
        side = self.bench.pick(8192, 128)
        there = self.other.array("source", kind, (side, side), "f4")
        self.other.ask("fill", name="source", seed=SEED)
        here = Side(self.engine, "device0", (side, side), "f4")
        wanted = seeded((side, side), "f4", SEED).reshape(-1).view(np.uint8)
        way = Variant(
            "tranship",
            lambda: engine_seconds(self.engine, [(there, here.array)] * SHORT_TIMES),
            lambda: same(here.read(), wanted),
            here.spoil,
            {"path": str(self.engine.plan(there, here.array))},
        )
        bare = "cudaMemcpyPeerAsync" if memory == self.far_gpu else "cudaMemcpyAsync"
        self.measure(case, way, self.limit(memory, here.nbytes, up=True), here.nbytes, bare)
        self.other.ask("withdraw", name="source")

    def pages(self) -> None:
        """Measures pages in random order on both sides, as in a cache of keys and values."""
        pages, words = self.bench.pick(PAGES, 64), PAGE_BYTES // 8
        there = self.other.array("pages", self.far_gpu, (pages, words), "f8")
        here = Side(self.engine, "device0", (pages, words), "f8")
        order = np.random.default_rng(SEED)
        from_pages, to_pages = order.permutation(pages), order.permutation(pages)
        wanted = seeded((pages, words), "f8", SEED)
        data = np.empty_like(wanted)
        data[from_pages] = wanted[to_pages]
        here.write(data.reshape(-1).view(np.uint8))

        def seconds() -> float:
            begin = time.perf_counter()
            events = [
                self.engine.copy_pages(here.array, there, from_pages, to_pages)
                for _ in range(SHORT_TIMES)
            ]
            for event in events:
                event.wait(timeout=60)
            return time.perf_counter() - begin

        way = Variant(
            "tranship",
            seconds,
            self.other.checking("pages", SEED),
            self.other.preparing("pages"),
            {"path": str(self.engine.plan(here.array, there))},
        )
        case = f"GPU to another process's GPU, {pages} scattered pages of 4 KiB"
        limit = self.limit(self.far_gpu, here.nbytes)
        self.measure(case, way, limit, here.nbytes, "cudaMemcpyPeerAsync")
        self.other.ask("withdraw", name="pages")

    def latency(self, count: int) -> None:
        """Measures copies one after another, each waited for."""
        name = f"latency {count}"
        there = self.other.array(name, self.far_gpu, (count,), "u1")
        here = Side(self.engine, "device0", (count,), "u1")
        here.write(seeded((count,), "u1", SEED))
        repeats = self.bench.pick(500, 5)
        copies = each(lambda: self.engine.copy(here.array, there).wait(), repeats)
        seconds = [copies() for _ in range(7)]
        if not self.other.checking(name, SEED)():
            raise AssertionError("a short copy arrived changed")
        case = f"{count} B, GPU to another process's GPU"
        self.bench.emit(case, "tranship", count, seconds)
        self.bench.say(f"{case}: {statistics.median(seconds) * 1e6:.1f} us")
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
