"""Processes, each with a GPU, that do the same work in step: messages and halo exchanges.

The first process measures and asks the others, which are children. What they time, they agree on by
counters in shared memory, which all poll.
"""

from __future__ import annotations

import math
import mmap
import os
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from ..harness import Bench, require
from ..processes.child import Service
from ..processes.peer import Child
from .copies import gpu_count, gpu_engine

LATENCY_ORIENTED = "latency-oriented"
"""Design of Maximal Overlap's comparison: one stream, and a wait for the GPU after each step."""

WIRE = "wire alone"

STEP_SECONDS = 60.0
"""Longest time in which another process does its next step."""

SAMPLES = 9
SAMPLE_S = 4e-3
ROUNDS_MAX = 500


WORDS_APART = 64
"""Distance of two processes' counters: no two share a line of a cache."""


class Steps:
    """How many steps each process has done, in a file that all map."""

    def __init__(self, path: str, rank: int, count: int) -> None:
        with open(path, "r+b") as file:
            words = np.frombuffer(mmap.mmap(file.fileno(), steps_bytes(count)), np.int64)
        words = words[::WORDS_APART]
        self._own = words[rank : rank + 1]
        self._others = [words[k : k + 1] for k in range(count) if k != rank]
        self._seen = 0

    def tell(self) -> None:
        """Says that this process has done a step."""
        self._own[0] += 1

    def follow(self) -> None:
        """Waits until each other process has done one more step."""
        self._seen += 1
        for other in self._others:
            self._wait_for(other)

    def _wait_for(self, other: Any) -> None:
        end = time.monotonic() + STEP_SECONDS
        while other[0] < self._seen:
            for _ in range(1000):
                if other[0] >= self._seen:
                    return
            os.sched_yield()  # the other process may have no core of its own
            if time.monotonic() > end:
                raise TimeoutError(f"another process did no step for {STEP_SECONDS:.0f} s")

    def meet(self) -> None:
        """Waits until all processes are here."""
        self.tell()
        self.follow()


def steps_bytes(count: int) -> int:
    """Returns the length of the file of so many processes."""
    return count * WORDS_APART * 8


class Member(Service, ABC):
    """What one of the processes does; a kind of work derives from it.

    A case is made in two requests: `load` exports what the other processes reach, and `connect`
    prepares the copies to it.

    Attributes:
        peers: The processes by their ranks; None where this one would be.
    """

    def join(self, rank: int, contacts: Sequence[str], path: str) -> None:
        """Connects to the other processes; `path` is the file of their steps."""
        self.rank = rank
        self.steps = Steps(path, rank, len(contacts))
        self.device = f"device{min(rank, gpu_count(self.engine) - 1)}"
        connect = self.engine.connect
        self.peers = [None if k == rank else connect(c) for k, c in enumerate(contacts)]
        self.exported: list[str] = []

    def export(self, name: str, array: Any) -> None:
        """Exports an array until the next case."""
        self.engine.export(name, array)
        self.exported.append(name)

    def clear(self) -> None:
        """Ends the exports of the last case."""
        for name in self.exported:
            self.engine.withdraw(name)
        self.exported = []

    @abstractmethod
    def load(self, case: Any) -> None:
        """Makes the arrays of a case."""

    @abstractmethod
    def connect(self) -> None:
        """Prepares the copies of the case."""

    @abstractmethod
    def ways(self) -> Mapping[str, Callable[[], None]]:
        """Returns the work of one round, by the variant's name; all processes call the same."""

    @abstractmethod
    def spoil(self) -> None:
        """Spoils what a round writes."""

    @abstractmethod
    def right(self) -> bool:
        """Returns whether what a round writes is right, after all have done one."""

    def run(self, variant: str, rounds: int) -> float:
        """Returns the seconds of one round."""
        work = self.ways()[variant]
        self.steps.meet()
        begin = time.perf_counter()
        for _ in range(rounds):
            work()
        return (time.perf_counter() - begin) / rounds


class Crew:
    """All processes, as the first sees them."""

    def __init__(self, bench: Bench, member: Member, others: list[Child]) -> None:
        self.bench = bench
        self.member = member
        self.others = others

    def all(self, do: str, **arguments: Any) -> list[Any]:
        """Has all processes carry out a request at once; returns the results, the first's first."""
        for other in self.others:
            other.send(do, **arguments)
        own = getattr(self.member, do)(**arguments)
        return [own, *(other.answer() for other in self.others)]

    def load(self, case: Any) -> None:
        """Makes the arrays and copies of a case in all processes."""
        self.all("clear")
        self.all("load", case=case)
        self.all("connect")

    def run(self, variant: str, rounds: int) -> float:
        """Returns the seconds of one round that all do."""
        seconds: float = self.all("run", variant=variant, rounds=rounds)[0]
        return seconds

    def check(self, case: str, variant: str) -> None:
        """Does a round of one variant, and compares all that any process wrote."""
        self.all("spoil")
        self.run(variant, 1)
        require(all(self.all("right")), f"{case}, {variant}")

    def measure(
        self, case: str, count: int, baseline: str, unchecked: tuple[str, ...], shares: int = 1
    ) -> dict[str, float]:
        """Reports each variant's samples, taken in turns; returns the medians.

        Args:
            case: Name of the case.
            count: Bytes that a round moves, over `shares`.
            baseline: Variant that the others are compared with.
            unchecked: Variants that do a part of the work only, for comparison.
            shares: Messages of a round that are one behind the other.
        """
        variants = list(self.member.ways())
        rounds = {}
        for variant in variants:
            if variant not in unchecked:
                self.check(case, variant)
            once = self.run(variant, self.bench.pick(5, 1))
            rounds[variant] = min(max(math.ceil(SAMPLE_S / once), 2), ROUNDS_MAX)
        seconds: dict[str, list[float]] = {variant: [] for variant in variants}
        for _ in range(self.bench.pick(SAMPLES, 1)):
            for variant in variants:
                seconds[variant].append(self.run(variant, rounds[variant]) / shares)
        return self.bench.report(case, seconds, count, baseline, {"timed": "python"})


@contextmanager
def open_crew(bench: Bench, kind: type[Member], count: int) -> Iterator[Crew]:
    """Yields so many processes that do work of that kind."""
    with (
        gpu_engine(bench, contact=True) as engine,
        tempfile.NamedTemporaryFile() as file,
        ExitStack() as opened,
    ):
        file.truncate(steps_bytes(count))
        others = [opened.enter_context(Child(kind)) for _ in range(1, count)]
        contacts = [engine.contact, *(other.contact for other in others)]
        for rank, other in enumerate(others, start=1):
            other.send("join", rank=rank, contacts=contacts, path=file.name)
        member = kind(engine)
        member.join(0, contacts, file.name)
        for other in others:
            other.answer()
        yield Crew(bench, member, others)
