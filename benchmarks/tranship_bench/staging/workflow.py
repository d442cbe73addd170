"""The synthetic workflow of DataSpaces-GPU (Table 1) on a small scale, with real processes.

- Writers put a variable, each a box of a domain; when all is there, readers get it, cut otherwise;
  by the designs of sender and receiver, in turns. `gpu-staging-designs` says what they are.
- A writer and a reader a GPU where there are some (they share it), with arrays in GPU memory; else
  two of each in host memory. A server for two writers. `--processes W,R,S`, `--sizes 8,64` (MiB of
  each writer), `--iterations` and `--quick` change that.
- A time is the median over the processes of each iteration, `slowest_process_s` the slowest
  one's median; the first iterations, until all memory of the servers has been used, do not count.
  `ratio` is that to the paper's baseline.
- Every box that was got is compared with what was put, byte for byte, outside the time; each
  version holds other bytes.
- All processes run on one machine: what the paper does over a network's cards goes over the GPU's
  bus here, to memory that both processes share.
- Follows: DataSpaces-GPU (Euro-Par'23), sections 4 and 5.1. The simulated figure at the paper's
  size is staging-figure9a.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tranship import _core
from tranship.engine import Engine
from tranship.errors import InvalidArgument

from ..dataspaces.grids import Grid, cube_of
from ..harness import Bench, require
from ..processes.peer import Child
from ..registry import counts, measures, option
from .boxes import KEPT, server
from .crew import Crew, together
from .designs import BASELINE

MiB = 1 << 20

PAIRS = (
    (BASELINE, BASELINE),
    ("strong baseline", "strong baseline"),
    ("pipeline", "hybrid"),
    ("direct", "direct"),
)
"""Designs of puts and gets in one turn of an iteration."""

PROCESSES_MAX = 64
WARM = KEPT + 2
"""Untimed iterations: by then every process has pinned all of the servers' memory."""


@dataclass(frozen=True)
class IterationOptions:
    """Options of workflows."""

    quick: bool = option(False, "Fewer sizes and iterations: a minute or two.", values="")
    iterations: int = option(0, "Iterations that count. Default: 10 or 5; fewer with --quick.")

    def __post_init__(self) -> None:
        if self.iterations < 0:
            raise InvalidArgument("iterations is not negative")


@dataclass(frozen=True)
class Options(IterationOptions):
    """The options of `tranship bench staging-workflow`."""

    processes: tuple[int, ...] = option(
        (),
        "Writers, readers and servers. Default: one writer and one reader a GPU, or two of each.",
        counts,
        "W,R,S",
    )
    sizes: tuple[int, ...] = option(
        (), "Sizes in MiB of each writer's data. Default: 8,64,256.", counts, "LIST"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        three = len(self.processes) in (0, 3)
        if not three or not all(0 < count <= PROCESSES_MAX for count in self.processes):
            raise InvalidArgument(
                f"processes are writers, readers and servers, each from 1 to {PROCESSES_MAX}, as "
                "in --processes 4,4,2"
            )
        if any(size < 1 for size in self.sizes):
            raise InvalidArgument("sizes are MiB of each writer, from 1 on, as in --sizes 8,64")


@dataclass(frozen=True)
class Machine:
    """The GPUs that the processes can use.

    Attributes:
        gpus: Number of GPUs.
        words: Description of the GPUs, for result lines.
    """

    gpus: int
    words: str

    def memory(self, rank: int) -> str:
        """Returns the memory of a process's array."""
        return f"device{rank % self.gpus}" if self.gpus else "host"


def machine_of(bench: Bench) -> Machine:
    """Returns this machine, and adds it to the conditions of the lines."""
    with Engine() as engine:
        gpus = [str(row["name"]) for row in _core.list_gpus(engine._core)[0]]
    words = f"{len(gpus)} x {gpus[0]}" if gpus else "none: all in host memory"
    bench.conditions["gpus"] = words
    return Machine(len(gpus), words)


@dataclass
class Iterations:
    """Iterations of puts and gets of variables by all designs, and the seconds of the processes.

    Attributes:
        bench: The benchmark.
        writers: Processes that put.
        readers: Processes that get.
        names: The variables.
        grid: Domain, as the writers cut it.
    """

    bench: Bench
    writers: list[Child]
    readers: list[Child]
    names: list[str]
    grid: Grid

    def run(self, case: str, count: int, begin: Callable[[int], object]) -> None:
        """Does all iterations; `begin` makes the writers' arrays of a version."""
        lowers = [{"lower": self.grid.box(rank).lower} for rank in range(self.grid.count)]
        self.seconds: dict[tuple[str, str], list[list[float]]] = {}
        version = 0
        warm = WARM if self.bench.full else 1
        common: dict[str, Any] = {"names": self.names}
        for iteration in range(warm + count):
            for sender, receiver in PAIRS:
                version += 1
                now = common | {"version": version}
                begin(version)
                put = together(self.writers, "put", lowers, design=sender, **now)
                together(self.readers, "clear", **common)
                got = together(self.readers, "get", design=receiver, **now)
                verified = together(self.readers, "verify", **now)
                require(all(verified), f"{case}, {sender}, {receiver}")
                for way, design, each in (("put", sender, put), ("get", receiver, got)):
                    if iteration >= warm:
                        self.seconds.setdefault((way, design), []).append(each)

    def emit(self, case: str, counts: dict[str, int], **conditions: Any) -> None:
        """Reports a line for each way and design: medians over the processes, one an iteration.

        `counts` are the bytes of one process by way. The ratio is to the paper's baseline.
        """
        for way, count in counts.items():
            found = {design: each for (of, design), each in self.seconds.items() if of == way}
            medians = {
                name: [statistics.median(one) for one in each] for name, each in found.items()
            }
            slowest = {
                name: {"slowest_process_s": statistics.median(max(one) for one in each)}
                for name, each in found.items()
            }
            known = {**conditions, "timed": "python"}
            self.bench.report(f"{way} {case}", medians, count, BASELINE, known, slowest)


@measures(
    "staging-workflow",
    "writers and readers of a staging service, processes, by DataSpaces-GPU's designs",
    Options,
)
def staging_workflow(bench: Bench) -> None:
    """Measures all sizes."""
    options: Options = bench.options
    machine = machine_of(bench)
    each = machine.gpus or 2
    writers, readers, servers = options.processes or (each, each, max(1, each // 2))
    full = (8, 64) if options.quick else (8, 64, 256)
    sizes = options.sizes or (full if bench.full else (1,))
    most = max(sizes) * MiB * writers
    with (
        server((KEPT + 2) * most + 64 * MiB, servers) as contact,
        Crew(writers + readers, contact) as crew,
    ):
        bench.conditions |= {"writers": writers, "readers": readers, "servers": servers}
        for size in sizes:
            emulate(bench, machine, crew.workers[:writers], crew.workers[writers:], size)


def emulate(
    bench: Bench, machine: Machine, writers: list[Child], readers: list[Child], size: int
) -> None:
    """Measures one size, with a variable of its own."""
    options: Options = bench.options
    parts = cube_of(len(writers))
    block = cube_of(size * MiB // 8)
    grid = Grid(tuple(a * b for a, b in zip(parts, block, strict=True)), parts)
    others = Grid(grid.cells, cube_of(len(readers))[::-1])
    name = f"{size} MiB"
    boxes = [
        {"memory": machine.memory(rank), "box": grid.box(rank).corners, "seed": rank}
        for rank in range(grid.count)
    ]
    together(writers, "write_box", boxes, name=name)
    together(readers, "read_box", reader_boxes(grid, others, machine), name=name)
    iterations = options.iterations or bench.pick(3 if options.quick else 10, 1)
    case = f"{name} a writer"
    work = Iterations(bench, writers, readers, [name], grid)
    work.run(
        case, iterations, lambda version: together(writers, "fill", name=name, version=version)
    )
    together([*writers, *readers], "release", name=name)
    counts = {"put": grid.box(0).cells * 8, "get": others.box(0).cells * 8}
    objects = len(grid.meeting(others.box(0)))
    work.emit(case, counts, objects_of_a_get=objects, iterations=iterations)


def reader_boxes(grid: Grid, others: Grid, machine: Machine) -> list[dict[str, Any]]:
    """Returns the box of each reader, with its parts in the writers' objects."""
    return [
        {
            "memory": machine.memory(rank),
            "box": others.box(rank).corners,
            "objects": [
                (part.corners, grid.box(writer).corners, writer)
                for writer, part in grid.meeting(others.box(rank))
            ],
        }
        for rank in range(others.count)
    ]
