"""The synthetic workflow of DataSpaces-GPU (Table 1) on a small scale, with real processes.

In each iteration, every writer puts its box of a variable; after the last put, readers get the
variable in another decomposition. With GPUs, each process has one GPU, and the readers share the
writers' GPUs; without GPUs, all data are in host memory. Every design takes its turn in every
iteration, and each received box is compared with the put data, byte for byte, outside the time.

The paper's other workflow is in `staging_shock`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tranship import _core
from tranship.engine import Engine
from tranship.errors import InvalidArgument

from .dataspaces.grids import Grid, cube_of
from .harness import Bench, MismatchError, check_options
from .staging import KEPT, server
from .staging_crew import Crew, Member, together
from .staging_designs import BASELINE, RECEIVERS, SENDERS

__all__ = ["PAIRS", "Machine", "Options", "Times", "machine_of", "staging_workflow"]

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
class Options:
    """The options of `tranship bench staging-workflow`.

    Attributes:
        quick: Whether there are fewer sizes and iterations.
        processes: Numbers of writers, readers and servers; empty: a writer and a reader for each
            GPU, or two of each without GPUs, and a server for two writers.
        sizes: MiB of each writer.
        iterations: Number of iterations that count.
        interval: Seconds between the begins of two iterations.
        sender: Design of puts, beside the baseline; None: all.
        receiver: Design of gets, beside the baseline; None: all.
    """

    quick: bool = False
    processes: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    iterations: int = 0
    interval: float = 0.0
    sender: str | None = None
    receiver: str | None = None

    def pairs(self) -> list[tuple[str, str]]:
        """Returns the designs of puts and gets in each turn of an iteration, the baseline first."""
        if self.sender is None and self.receiver is None:
            return list(PAIRS)
        chosen = (self.sender or "direct", self.receiver or "direct")
        return list(dict.fromkeys([(BASELINE, BASELINE), chosen]))

    @staticmethod
    def of(given: Mapping[str, Any]) -> Options:
        """Returns options by name.

        Raises:
            InvalidArgument: An option is unknown, or its value is invalid.
        """
        check_options(given, Options)
        options = Options(**given)
        three = len(options.processes) in (0, 3)
        if not three or not all(0 < count <= PROCESSES_MAX for count in options.processes):
            raise InvalidArgument(
                f"processes are writers, readers and servers, each from 1 to {PROCESSES_MAX}, as "
                "in --processes 4,4,2"
            )
        if any(size < 1 for size in options.sizes):
            raise InvalidArgument("sizes are MiB of each writer, from 1 on, as in --sizes 8,64")
        for word, design, known in (
            ("sender", options.sender, SENDERS),
            ("receiver", options.receiver, RECEIVERS),
        ):
            if design is not None and design not in known:
                raise InvalidArgument(
                    f'there is no {word} "{design}"; there are {", ".join(known)}'
                )
        if options.iterations < 0 or options.interval < 0:
            raise InvalidArgument("iterations and interval are not negative")
        return options


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


def staging_workflow(bench: Bench) -> None:
    """Measures all sizes."""
    options = Options.of(bench.options)
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
