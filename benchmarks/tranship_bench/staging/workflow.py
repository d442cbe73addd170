"""The synthetic workflow of DataSpaces-GPU (Table 1) on a small scale, with real processes.

In each iteration, every writer puts its box of a variable; after the last put, readers get the
variable in another decomposition. With GPUs, each process has one GPU, and the readers share the
writers' GPUs; without GPUs, all data are in host memory. Every design takes its turn in every
iteration, and each received box is compared with the put data, byte for byte, outside the time.

The paper's other workflow is in `staging_shock`.

- DataSpaces-GPU's synthetic workflow (Table 1) in small, with real processes: writers put a
  variable, each a box of a domain; when all is there, readers get it, cut otherwise; by the designs
  of sender and receiver, in turns.
- A writer and a reader a GPU where there are some (they share it), with arrays in GPU memory; else
  two of each in host memory. A server for two writers. `--processes W,R,S`, `--sizes 8,64` (MiB of
  each writer), `--iterations`, `--interval` and `--quick` change that; `--sender direct`,
  `--receiver hybrid` choose a design, which runs beside the baseline
  (`benchmarks/tranship_bench/staging_designs.py` says what they are).
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
import time
from dataclasses import dataclass
from typing import Any

from tranship import _core
from tranship.engine import Engine
from tranship.errors import InvalidArgument

from ..dataspaces.grids import Grid, cube_of
from ..harness import Bench, MismatchError
from ..registry import counts, measures, option
from .boxes import KEPT, server
from .crew import Crew, Member, together
from .designs import BASELINE, RECEIVERS, SENDERS

__all__ = ["PAIRS", "Machine", "Options", "Times", "machine_of"]

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
class DesignOptions:
    """Options of workflows that compare the designs.

    Attributes:
        quick: Whether there are fewer sizes and iterations.
        iterations: Number of iterations that count; 0: 10, or 5 with `quick`.
        sender: Design of puts, beside the baseline; None: all.
        receiver: Design of gets, beside the baseline; None: all.
    """

    quick: bool = option(False, "Fewer sizes and iterations: a minute or two.", values="")
    iterations: int = option(0, "Iterations that count. Default: 10; with --quick 5.")
    sender: str | None = option(
        None, "Design of puts: pipeline, 'strong baseline' or direct. Default: all.", str, "DESIGN"
    )
    receiver: str | None = option(
        None, "Design of gets: 'strong baseline', hybrid or direct. Default: all.", str, "DESIGN"
    )

    def __post_init__(self) -> None:
        for word, design, known in (
            ("sender", self.sender, SENDERS),
            ("receiver", self.receiver, RECEIVERS),
        ):
            if design is not None and design not in known:
                raise InvalidArgument(
                    f'there is no {word} "{design}"; there are {", ".join(known)}'
                )
        if self.iterations < 0:
            raise InvalidArgument("iterations is not negative")

    def pairs(self) -> list[tuple[str, str]]:
        """Returns the designs of puts and gets in each turn of an iteration, the baseline first."""
        if self.sender is None and self.receiver is None:
            return list(PAIRS)
        chosen = (self.sender or "direct", self.receiver or "direct")
        return list(dict.fromkeys([(BASELINE, BASELINE), chosen]))


@dataclass(frozen=True)
class Options(DesignOptions):
    """The options of `tranship bench staging-workflow`.

    Attributes:
        processes: Numbers of writers, readers and servers; empty: a writer and a reader for each
            GPU, or two of each without GPUs, and a server for two writers.
        sizes: MiB of each writer.
        interval: Seconds between the begins of two iterations.
    """

    processes: tuple[int, ...] = option(
        (),
        "Writers, readers and servers. Default: one writer and one reader a GPU, or two of each.",
        counts,
        "W,R,S",
    )
    sizes: tuple[int, ...] = option(
        (), "Sizes in MiB of each writer's data. Default: 8,64,256.", counts, "LIST"
    )
    interval: float = option(0.0, "Seconds between the starts of two iterations.", float, "SECONDS")

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
        if self.interval < 0:
            raise InvalidArgument("interval is not negative")


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


class Times:
    """Seconds of all processes in each iteration, by operation and design."""

    def __init__(self) -> None:
        self._medians: dict[tuple[str, str], list[float]] = {}
        self._slowest: dict[tuple[str, str], list[float]] = {}

    def add(self, way: str, design: str, seconds: list[float]) -> None:
        """Adds one iteration."""
        self._medians.setdefault((way, design), []).append(statistics.median(seconds))
        self._slowest.setdefault((way, design), []).append(max(seconds))

    def emit(self, bench: Bench, case: str, counts: dict[str, int], **conditions: Any) -> None:
        """Reports a line for each way and design: medians over the processes, one an iteration.

        `counts` are the bytes of one process by way. The ratio is to the paper's baseline.
        """
        for (way, design), seconds in self._medians.items():
            baseline = statistics.median(self._medians[way, BASELINE])
            other = None if design == BASELINE else BASELINE
            slowest = statistics.median(self._slowest[way, design])
            bench.emit(
                f"{way} {case}",
                design,
                counts[way],
                seconds,
                other,
                baseline / statistics.median(seconds) if other else None,
                {**conditions, "timed": "python", "slowest_process_s": slowest},
            )


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
            emulate(bench, options, machine, (crew.workers[:writers], crew.workers[writers:]), size)


def emulate(
    bench: Bench,
    options: Options,
    machine: Machine,
    members: tuple[list[Member], list[Member]],
    size: int,
) -> None:
    """Measures one size, with a variable of its own."""
    writers, readers = members
    parts = cube_of(len(writers))
    block = cube_of(size * MiB // 8)
    grid = Grid(tuple(a * b for a, b in zip(parts, block, strict=True)), parts)
    others = Grid(grid.cells, cube_of(len(readers))[::-1])
    name = f"{size} MiB"
    together(writers, "write_box", writer_boxes(grid, machine), name=name)
    together(readers, "read_box", reader_boxes(grid, others, machine), name=name)
    lowers = [{"lower": grid.box(rank).lower} for rank in range(grid.count)]
    times = Times()
    iterations = options.iterations or bench.pick(3 if options.quick else 10, 1)
    version = 0
    warm = WARM if bench.full else 1
    for iteration in range(warm + iterations):
        begin = time.monotonic()
        for sender, receiver in options.pairs():
            version += 1
            together(writers, "fill", name=name, version=version)
            put = together(writers, "put", lowers, name=name, version=version, design=sender)
            together(readers, "clear", name=name)
            get = together(readers, "get", name=name, version=version, design=receiver)
            verify(readers, name, version, f"{sender}, {receiver}")
            if iteration >= warm:
                times.add("put", sender, [answer["seconds"] for answer in put])
                times.add("get", receiver, [answer["seconds"] for answer in get])
        time.sleep(max(0.0, begin + options.interval - time.monotonic()))
    together([*writers, *readers], "release", name=name)
    objects = len(grid.meeting(others.box(0)))
    counts = {"put": grid.box(0).cells * 8, "get": others.box(0).cells * 8}
    case = f"{size} MiB a writer"
    times.emit(bench, case, counts, objects_of_a_get=objects, iterations=iterations)


def writer_boxes(grid: Grid, machine: Machine) -> list[dict[str, Any]]:
    """Returns the box of each writer; the seed is its rank."""
    return [
        {"memory": machine.memory(rank), "box": grid.box(rank).corners, "seed": rank}
        for rank in range(grid.count)
    ]


def reader_boxes(grid: Grid, others: Grid, machine: Machine) -> list[dict[str, Any]]:
    """Returns the box of each reader, and the objects that it comes from."""
    boxes = []
    for rank in range(others.count):
        box = others.box(rank)
        objects = [
            (part.corners, grid.box(writer).corners, writer) for writer, part in grid.meeting(box)
        ]
        boxes.append({"memory": machine.memory(rank), "box": box.corners, "objects": objects})
    return boxes


def verify(readers: list[Member], name: str, version: int, design: str) -> None:
    """Compares the data that all readers have got."""
    answers = together(readers, "verify", name=name, version=version)
    if not all(answer["same"] for answer in answers):
        raise MismatchError(
            f"{name}, {design}: what readers got differs from what was put. This is a bug: please "
            "report it with this line and `tranship topology`"
        )
