"""Copies between the host and the GPUs of several processes at once, each with a GPU of its own.

An engine plans each copy with the links in sight that other processes use. The fixed choices that
it is compared with are one lane for all copies, and all lanes, planned as if each process were
alone.

- 1, 2, 4 and 8 processes, as far as there are GPUs, each with its own: 256 MiB and 1 GiB of pinned
  or pageable memory to its GPU and back, all at once. The lines `against the best fixed choice`
  compare with the faster of one lane (`lanes=1`) and all lanes (`link_usage=off`); beside pinned:
  `cudaMemcpyAsync` of all processes at once; pageable: `memcpy` of all at once to or from pinned
  memory, on as many threads.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Any

from tranship.engine import Engine

from ..harness import Array, Bench, random_bytes, same
from ..registry import measures
from .copies import DRIVER, MiB, Side, address_of, gpu_count, gpu_engine, raw, raw_copy
from .crew import Crew, Member, open_crew

__all__ = ["gpu_lanes_processes"]

COUNTS = (1, 2, 4, 8)
"""Numbers of processes; each has a GPU, so that there are at most as many as GPUs."""

SIZES = (256, 1024)
SMALL_SIZES = (4, 8)

TRANSHIP, ONE_LANE, ALL_LANES = "tranship", "one lane", "all lanes"

FIXED: dict[str, dict[str, Any]] = {ONE_LANE: {"lanes": 1}, ALL_LANES: {"link_usage": "off"}}
"""The fixed choices, as settings of an engine."""

MEMORY = "memcpy"

AGAINST_FIXED = "against the best fixed choice"
"""Variant of the lines that compare the engine with the faster one of the fixed choices."""


class Memcpy:
    """Copies memory of the host on some threads, by the C library's memcpy."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads)
        self._call = ctypes.CDLL(None).memcpy
        self._call.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
        self._call.restype = ctypes.c_void_p

    def copy(self, source: Array, target: Array) -> None:
        """Copies one array into another, each thread a part of the same length."""
        to, of = address_of(target), address_of(source)
        bounds = [source.nbytes * k // self.threads for k in range(self.threads + 1)]
        parts = [
            self._pool.submit(self._call, to + begin, of + begin, end - begin)
            for begin, end in pairwise(bounds)
        ]
        for part in parts:
            part.result()


class LaneMember(Member):
    """One process that copies between its memory and its GPU.

    Attributes:
        ends: Pinned memory and memory of the GPU of each engine, by the variant's name.
        plans: The plan of the last copy of each engine.
    """

    ends: dict[str, tuple[Engine, Side, Side]]
    plans: dict[str, Any]

    def load(self, case: Sequence[Any]) -> None:
        """Takes a case: the host's memory, whether copies go up, their bytes, the most bytes."""
        self.memory, self.up, self.count, largest = case
        if not hasattr(self, "ends"):
            engines = {TRANSHIP: self.engine}
            engines |= {name: Engine(**fixed) for name, fixed in FIXED.items()}
            self.ends = {
                name: (
                    engine,
                    Side(engine, "pinned", (largest,), "u1"),
                    Side(engine, self.device, (largest,), "u1"),
                )
                for name, engine in engines.items()
            }
            self.pageable = Side(self.engine, "pageable", (largest,), "u1")
            self.memcpy = Memcpy(self.engine.threads)
            self.content = random_bytes(largest, self.rank + 1)
        for name in self.ends:
            self.sides_of(name)[0].write(self.content[: self.count])
        self.plans = {}
        self.ran = TRANSHIP
        self.spoils = False

    def connect(self) -> None:
        """Has nothing to prepare: each process copies by itself."""

    def close(self) -> None:
        """Closes the engines of the fixed choices."""
        for name in FIXED:
            self.ends.pop(name)[0].close()

    def sides_of(self, variant: str) -> tuple[Side, Side]:
        """Returns the source and the target of a variant."""
        _, pinned, on_gpu = self.ends.get(variant, self.ends[TRANSHIP])
        here = pinned if self.memory == "pinned" else self.pageable
        # What memory allows is measured between the two memories of the host.
        there = pinned if variant == MEMORY else on_gpu
        return (here, there) if self.up else (there, here)

    def pair_of(self, variant: str) -> tuple[Any, Any]:
        """Returns the arrays that a variant copies."""
        source, target = self.sides_of(variant)
        return source.array[: self.count], target.array[: self.count]

    def lanes_of(self, variant: str) -> int:
        """Returns the number of lanes that the last copy of a variant took."""
        return len(json.loads(self.plans[variant].to_json())["lanes"])

    def spoil(self) -> None:
        self.spoils = True  # the next variant that runs spoils its own target

    def right(self) -> bool:
        target = self.sides_of(self.ran)[1]
        return same(target.read(self.count), self.content[: self.count])

    def run(self, variant: str, rounds: int) -> float:
        if self.spoils:
            self.sides_of(variant)[1].spoil()
        self.ran, self.spoils = variant, False
        return super().run(variant, rounds)

    def ways(self) -> Mapping[str, Callable[[], None]]:
        def engine_copy(name: str) -> None:
            event = self.ends[name][0].copy(*self.pair_of(name))
            event.wait(timeout=60)
            self.plans[name] = event.plan

        works: dict[str, Callable[[], object]] = {
            name: partial(engine_copy, name) for name in self.ends
        }
        if self.memory == "pinned":
            device = int(self.device[6:])
            works[DRIVER] = lambda: raw(self.engine, [raw_copy(*self.pair_of(DRIVER), device)])
        else:
            works[MEMORY] = lambda: self.memcpy.copy(*self.pair_of(MEMORY))
        return {name: partial(self.at_once, work) for name, work in works.items()}

    def at_once(self, work: Callable[[], object]) -> None:
        """Begins with all other processes, and waits until all have done their work."""
        self.steps.meet()
        work()
        self.steps.meet()


@measures(
    "gpu-lanes-processes",
    "the host to the GPUs of 1 to 8 processes at once, beside fixed numbers of lanes",
)
def gpu_lanes_processes(bench: Bench) -> None:
    """Measures pinned and pageable memory, up and down, with 1 to 8 processes; small: the most."""
    with gpu_engine(bench) as engine:
        gpus = gpu_count(engine)
    counts = [count for count in COUNTS if count <= gpus]
    if bench.full and gpus not in counts:
        counts.append(gpus)
    for count in counts if bench.full else sorted({1, counts[-1]}):
        with open_crew(bench, LaneMember, count) as crew:
            member = crew.member
            assert isinstance(member, LaneMember)
            for memory in ("pinned", "pageable"):
                for up in (True, False):
                    measure_sizes(crew, member, memory, up, count)
            member.close()


def measure_sizes(crew: Crew, member: LaneMember, memory: str, up: bool, processes: int) -> None:
    """Measures copies of all sizes between "pinned" or "pageable" memory of the host and GPUs."""
    bench = crew.bench
    sizes = SIZES if bench.full else SMALL_SIZES
    for size in sizes:
        kind = f"{memory} to device" if up else f"device to {memory}"
        crew.load([memory, up, size * MiB, sizes[-1] * MiB])
        count = processes * size * MiB
        case = f"{kind}, {size} MiB, {processes} process{'es' if processes > 1 else ''}"
        baseline, unchecked = (DRIVER, ()) if memory == "pinned" else (MEMORY, (MEMORY,))
        medians = crew.measure(case, count, baseline, unchecked)
        best = min(FIXED, key=lambda name: medians[name])
        share = medians[best] / medians[TRANSHIP]
        conditions = {"timed": "python", "lanes": member.lanes_of(TRANSHIP)}
        bench.emit(case, AGAINST_FIXED, count, [medians[TRANSHIP]], best, share, conditions)
