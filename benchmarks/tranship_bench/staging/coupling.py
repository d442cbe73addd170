"""Steps from several writers to several readers, beside ADIOS2's SST engine.

- Each step is an array of 256 MiB of float64 that M processes write, each a block, and N processes
  read, each a share that is cut otherwise: 1 x 1; 4 x 2, a grid of 2 x 2 blocks to two halves; and
  4 x 2 crosswise, where each reader needs a half of every writer's block. With a queue of two
  steps, writers wait for readers, and each reader reads every step.
- A time is that of one step: from when the first writer begins the first of 8 steps until the last
  reader has all of the last one, over 8. Every step names its number in each row, which readers
  compare within the time; in a run before, and of the last step of each, all bytes are compared.
- `tranship`: `Staging.step` and `Staging.steps`, each reader a group, through one server process.
- `adios2-sst` (`pip install adios2`) has no server: writers keep a step until readers have taken
  it. Its wheel has no MPI, so that each stream has one writer: `adios2-sst, streams` are M streams
  of one writer each, of which each reader reads its part of every one into an array of its own, so
  that it puts nothing together. `adios2-sst, one stream` is a single process that writes the M
  blocks, from which each reader's share is put together. Its transport is sockets, the fastest
  that the wheel has (the others are enet and none that uses shared memory or RDMA).
- SST is given what suits it: blocks that lie there contiguously, a queue of two steps, no
  statistics, and the fastest of the settings that were tried. `conditions` has them.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

from tranship.closing import Closing
from tranship.staging import Staging

from ..harness import Bench, SkippedError, Variant, require, take_turns
from ..processes.nixl import adapter_path, installed
from ..processes.peer import Program
from ..registry import measures
from .boxes import server_process
from .coupling_worker import CouplingWorker
from .crew import Crew, together

Box = tuple[tuple[int, ...], tuple[int, ...]]
"""First indices, and one past the last ones."""

OURS = "tranship"
QUEUED = 2
"""Steps that are kept for readers."""
STEPS = 8
"""Steps of a repetition."""

SETTINGS = {"QueueLimit": str(QUEUED), "QueueFullPolicy": "Block", "StatsLevel": "0"}
"""Settings of all streams."""
FASTEST = {"MarshalMethod": "BP5", "SpeculativePreloadMode": "Off"}


def cut(shape: Sequence[int], parts: Sequence[int]) -> list[Box]:
    """Returns the boxes of an array that is cut into so many parts along each dimension."""
    edges = [
        [(k * n // count, (k + 1) * n // count) for k in range(count)]
        for n, count in zip(shape, parts, strict=True)
    ]
    return [
        (tuple(a for a, _ in box), tuple(b for _, b in box)) for box in itertools.product(*edges)
    ]


def shared(one: Box, other: Box) -> Box | None:
    """Returns what two boxes have in common; None: nothing."""
    lower = tuple(map(max, one[0], other[0]))
    upper = tuple(map(min, one[1], other[1]))
    return (lower, upper) if all(a < b for a, b in zip(lower, upper, strict=True)) else None


@dataclass(frozen=True)
class Pattern:
    """Who writes and who reads what of each step.

    Attributes:
        name: Name of the case.
        shape: Extents of the array.
        writers: Parts along each dimension that the writers have.
        readers: The same of the readers.
    """

    name: str
    shape: tuple[int, ...]
    writers: tuple[int, ...]
    readers: tuple[int, ...]

    @property
    def written(self) -> list[Box]:
        """Returns the box of each writer."""
        return cut(self.shape, self.writers)

    @property
    def read(self) -> list[Box]:
        """Returns the box of each reader."""
        return cut(self.shape, self.readers)


class Runs:
    """Repetitions of one way to pass steps on, and whether the last one was right.

    Args:
        readers: Processes that read.
        writers: Processes that write.
    """

    def __init__(self, readers: Sequence[Program], writers: Sequence[Program]) -> None:
        self._readers = readers
        self._writers = writers
        self._first = 0
        self.right = False

    def run(self, count: int, *, whole: bool = False) -> float:
        """Passes steps on; returns the seconds of one.

        Args:
            count: Number of steps.
            whole: Whether readers compare every step whole, and not just the last.
        """
        for member in (*self._readers, *self._writers):
            member.send("run", count=count, first=self._first, whole=whole)
        self._first += count
        read = [member.answer() for member in self._readers]
        written = [member.answer() for member in self._writers]
        self.right = all(each["right"] for each in read)
        end, begin = max(each["end"] for each in read), min(each["begin"] for each in written)
        return float(end - begin) / count


class Sst(Closing):
    """Writers and readers with ADIOS2, processes of their own, and the streams between them.

    Args:
        pattern: What they write and read.
        settings: Settings of the engine, beside `SETTINGS`.
        one_stream: Whether one process writes all blocks, to one stream.
        locked: Whether they promise to write and read the same in all steps.

    Raises:
        SkippedError: ADIOS2 is not installed, or this is not a source tree.
        Error: One of the processes has failed.
    """

    def __init__(
        self,
        pattern: Pattern,
        settings: Mapping[str, str],
        *,
        one_stream: bool = False,
        locked: bool = False,
    ) -> None:
        if not installed("adios2"):
            raise SkippedError("it is not installed (pip install adios2)")
        path = adapter_path("adios2_coupling.py")
        known = {**SETTINGS, **settings}
        common = {"shape": pattern.shape, "settings": known, "locked": locked}
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())

            def start(role: str, streams: list[dict[str, Any]]) -> Program:
                work = json.dumps({**common, "streams": streams})
                command = [sys.executable, os.fspath(path), role, work]
                return stack.enter_context(Program(command))

            written, read = streams_of(pattern, folder, one_stream)
            writers = [start("write", [stream]) for stream in written]
            readers = [start("read", streams) for streams in read]
            versions = [member.answer()["version"] for member in (*writers, *readers)]
            self.conditions = {"version": versions[0], "settings": known, "locked": locked}
            self.runs = Runs(readers, writers)
            self._stack = stack.pop_all()

    def close(self) -> None:
        """Ends the processes, the readers first."""
        self._stack.close()


def streams_of(
    pattern: Pattern, folder: str, one_stream: bool
) -> tuple[list[dict[str, Any]], list[list[dict[str, Any]]]]:
    """Returns the stream of each process that writes, and the streams of each that reads."""
    groups = [pattern.written] if one_stream else [[box] for box in pattern.written]
    written: list[dict[str, Any]] = []
    read: list[list[dict[str, Any]]] = [[] for _ in pattern.read]
    for k, boxes in enumerate(groups):
        file = os.path.join(folder, f"stream{k}")
        parts = [box if one_stream else shared(boxes[0], box) for box in pattern.read]
        known = {"file": file, "readers": sum(part is not None for part in parts)}
        written.append({**known, "boxes": boxes})
        for streams, part in zip(read, parts, strict=True):
            if part is not None:
                streams.append({**known, "boxes": [part]})
    return written, read


class Coupling(Closing):
    """Writers and readers of steps of a staging server, processes of their own.

    Args:
        pattern: What they write and read.
        contact: Contact file of the server.
    """

    def __init__(self, pattern: Pattern, contact: str) -> None:
        written, read = pattern.written, pattern.read
        with ExitStack() as stack:
            crew = stack.enter_context(Crew(len(written) + len(read), contact, CouplingWorker))
            writers, readers = crew.workers[: len(written)], crew.workers[len(written) :]
            common = {"name": pattern.name, "shape": pattern.shape}
            own: list[dict[str, Any]] = [{"box": box} for box in written]
            together(writers, "write_steps", own, writers=len(written), **common)
            own = [{"box": box, "group": f"reader {k}"} for k, box in enumerate(read)]
            together(readers, "read_steps", own, **common)
            self.runs = Runs(readers, writers)
            self._stack = stack.pop_all()

    def close(self) -> None:
        """Ends the processes."""
        self._stack.close()


def patterns(side: int) -> Iterator[Pattern]:
    """Yields the patterns for an array of `side` x `side` x 2 `side` float64."""
    shape = (side, side, 2 * side)
    yield Pattern("1 x 1", shape, (1, 1, 1), (1, 1, 1))
    yield Pattern("4 x 2", shape, (2, 2, 1), (2, 1, 1))
    yield Pattern("4 x 2, crosswise", shape, (4, 1, 1), (1, 2, 1))


@measures("staging-sst", "steps from several writers to several readers, beside ADIOS2's SST")
def staging_sst(bench: Bench) -> None:
    """Measures steps of 256 MiB by each pattern."""
    side, steps, rounds = bench.pick((256, STEPS, 7), (16, 2, 1))
    count = 8 * 2 * side**3
    for pattern in patterns(side):
        options = ("--versions", "0")
        with (
            server_process((QUEUED + 2) * count + (64 << 20), options=options) as (contact, _),
            Staging(contact) as client,
            Coupling(pattern, contact) as ours,
            ExitStack() as stack,
        ):
            client.define_steps(queue=QUEUED)
            theirs: list[Variant] = []
            try:
                for name, one_stream in ways_of_sst(pattern).items():
                    sst = stack.enter_context(Sst(pattern, FASTEST, one_stream=one_stream))
                    theirs.append(variant(name, sst.runs, steps, sst.conditions))
            except SkippedError as reason:
                bench.say(f"not beside ADIOS2's SST: {reason}")
            known = {"queue": QUEUED, "steps": steps}
            beside(
                bench, pattern.name, variant(OURS, ours.runs, steps, known), theirs, rounds, count
            )


def ways_of_sst(pattern: Pattern) -> dict[str, bool]:
    """Returns the ways of SST, by names, and whether all blocks go to one stream."""
    if len(pattern.written) == 1:
        return {"adios2-sst": True}
    return {f"adios2-sst, {len(pattern.written)} streams": False, "adios2-sst, one stream": True}


def beside(
    bench: Bench, case: str, ours: Variant, theirs: Sequence[Variant], rounds: int, count: int
) -> None:
    """Measures in turns, and reports; the baseline is the fastest one of SST."""
    ways = [ours, *theirs]
    works = {way.name: partial(bench.repeat_once, case, way) for way in ways}
    seconds = take_turns(works, rounds)
    least = min((way.name for way in theirs), key=lambda name: median(seconds[name]), default=None)
    common = {"timed": "python", "cold": bench.full}
    own = {way.name: common | way.conditions for way in ways}
    bench.report(case, seconds, count, least, own=own)


def variant(name: str, runs: Runs, count: int, conditions: dict[str, Any]) -> Variant:
    """Returns a way to pass so many steps on, all of which were compared whole once before."""
    runs.run(count, whole=True)
    require(runs.right, name)
    return Variant(name, lambda: runs.run(count), lambda: runs.right, conditions=conditions)
