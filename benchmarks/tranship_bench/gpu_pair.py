"""Two processes, each with a GPU, that do the same work in step: messages and halo exchanges.

The first process measures and asks; the second (`gpu_pair_process`) answers lines of JSON. What
they time, they agree on by counters in shared memory, which both poll.
"""

from __future__ import annotations

import math
import mmap
import os
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from tranship import _core
from tranship.engine import Engine

from .gpu import gpu_engine
from .harness import Bench, MismatchError
from .peer import Program, child_environment

__all__ = ["LATENCY_ORIENTED", "WIRE", "Half", "Pair", "Steps", "open_pair"]

LATENCY_ORIENTED = "latency-oriented"
"""Design of Maximal Overlap's comparison: one stream, and a wait for the GPU after each step."""

WIRE = "wire alone"

STEP_SECONDS = 60.0
"""Longest time in which the other process does its next step."""

SAMPLES = 9
SAMPLE_S = 4e-3
ROUNDS_MAX = 500


class Steps:
    """How many steps each of two processes has done, in a file that both map."""

    def __init__(self, path: str, rank: int) -> None:
        with open(path, "r+b") as file:
            words = np.frombuffer(mmap.mmap(file.fileno(), 4096), np.int64)
        self._own = words[rank * 64 : rank * 64 + 1]
        self._other = words[(1 - rank) * 64 : (1 - rank) * 64 + 1]
        self._seen = 0

    def tell(self) -> None:
        """Says that this process has done a step."""
        self._own[0] += 1

    def follow(self) -> None:
        """Waits until the other process has done one more step."""
        self._seen += 1
        end = time.monotonic() + STEP_SECONDS
        while self._other[0] < self._seen:
            for _ in range(1000):
                if self._other[0] >= self._seen:
                    return
            os.sched_yield()  # the other process may have no core of its own
            if time.monotonic() > end:
                raise TimeoutError(f"the other process did no step for {STEP_SECONDS:.0f} s")

    def meet(self) -> None:
        """Waits until both processes are here."""
        self.tell()
        self.follow()


class Half(ABC):
    """What one of the two processes does; a kind of work derives from it.

    A case is made in two requests: `load` exports what the other process reaches, and `connect`
    prepares the copies to it.
    """

    def __init__(self, engine: Engine, rank: int, steps: Steps, other: str) -> None:
        self.engine = engine
        self.rank = rank
        self.steps = steps
        gpus = len(_core.list_gpus(engine._core)[0])
        self.device = f"device{min(rank, gpus - 1)}"
        self.peer = engine.connect(other)
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
        """Returns the work of one round, by the variant's name; both processes call the same."""

    @abstractmethod
    def spoil(self) -> None:
        """Spoils what a round writes."""

    @abstractmethod
    def right(self) -> bool:
        """Whether what a round writes is right, after both have done one."""

    def run(self, variant: str, rounds: int) -> float:
        """Returns the seconds of one round."""
        work = self.ways()[variant]
        self.steps.meet()
        begin = time.perf_counter()
        for _ in range(rounds):
            work()
        return (time.perf_counter() - begin) / rounds


class Pair:
    """Both processes, as the first sees them."""

    def __init__(self, bench: Bench, half: Half, other: Program) -> None:
        self.bench = bench
        self.half = half
        self.other = other

    def load(self, case: Any) -> None:
        """Makes the arrays and copies of a case in both processes."""
        self.half.clear()
        self.other.send("load", case=case)
        self.half.load(case)
        self.other.answer()
        self.other.send("connect")
        self.half.connect()
        self.other.answer()

    def run(self, variant: str, rounds: int) -> float:
        """Returns the seconds of one round that both do."""
        self.other.send("run", variant=variant, rounds=rounds)
        seconds = self.half.run(variant, rounds)
        self.other.answer()
        return seconds

    def check(self, case: str, variant: str) -> None:
        """Does a round of one variant, and compares all that either process wrote."""
        self.other.ask("spoil_all")
        self.half.spoil()
        self.run(variant, 1)
        if not (self.half.right() and self.other.ask("right")["right"]):
            raise MismatchError(f"{case}, {variant}: what arrived differs from what was sent")

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
        variants = list(self.half.ways())
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
        medians = {name: float(np.median(times)) for name, times in seconds.items()}
        for variant in variants:
            other = None if variant == baseline else baseline
            ratio = medians[baseline] / medians[variant] if other else None
            conditions = {"timed": "python"}
            self.bench.emit(case, variant, count, seconds[variant], other, ratio, conditions)
        return medians


@contextmanager
def open_pair(bench: Bench, name: str, kind: type[Half]) -> Iterator[Pair]:
    """Yields two processes that do the work of that name and kind."""
    with gpu_engine(bench, contact=True) as engine, tempfile.NamedTemporaryFile() as file:
        file.truncate(4096)
        command = [sys.executable, "-m", "tranship_bench.gpu_pair_process"]
        with Program(command, child_environment()) as other:
            contact = other.answer()["contact"]
            half = kind(engine, 0, Steps(file.name, 0), contact)
            other.ask("join", kind=name, contact=engine.contact, path=file.name)
            yield Pair(bench, half, other)
