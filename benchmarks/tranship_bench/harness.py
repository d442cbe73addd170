"""Parts that all benchmarks use: interleaved repetitions, cold caches, comparison, result lines."""

from __future__ import annotations

import gc
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .results import Line, make_line, rounded

__all__ = ["Bench", "MismatchError", "Report", "SkippedError", "Variant"]

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]
Report = Callable[[Line], None]

SPOILED = 0xA5
"""Byte that targets are filled with before each repetition."""

CHUNK_BYTES = 1 << 20

QUIET_SECONDS_MAX = 15.0
"""Longest time, in all, that a benchmark waits for other programs of the machine to pause."""

PAUSE_SECONDS_MAX = 0.05
"""Longest time that a benchmark waits before one repetition."""


class MismatchError(Exception):
    """The data that arrived differ from those that were sent. No line is reported."""


class SkippedError(Exception):
    """Something that the benchmark needs is missing; the text says what."""


@dataclass
class Variant:
    """One way to do the work of a case. All variants are repeated in turns: A B C A B C ...

    Attributes:
        name: Name in the result line.
        run: Function that does the work once and returns its seconds.
        check: Function that returns whether all bytes arrived; not timed.
        prepare: Function that spoils the target, so that a copy that does nothing is detected; not
            timed.
        conditions: Conditions of this variant's times, for the result line.
    """

    name: str
    run: Callable[[], float]
    check: Callable[[], bool]
    prepare: Callable[[], None]
    conditions: dict[str, Any] = field(default_factory=dict)


class Bench:
    """One run of one benchmark: its size, its machine, and the lines that it reports."""

    def __init__(
        self,
        name: str,
        *,
        full: bool,
        machine: str | None = None,
        report: Report,
        options: Any = None,
    ) -> None:
        self.name = name
        self.options = options
        self.full = full
        self.machine = machine or machine_name()
        self.commit = commit_name()
        self.conditions: dict[str, Any] = {}
        self._report = report
        self._patience_s = QUIET_SECONDS_MAX if full else 0.0
        self._busy = 0
        self._flush = np.ones(2 * cache_bytes() if full else 0, np.uint8)

    def pick(self, full: int, small: int) -> int:
        """Returns the number of the size that runs."""
        return full if self.full else small

    def say(self, text: str) -> None:
        """Prints a note for the user on stderr."""
        print(f"bench {self.name}: {text}", file=sys.stderr)

    def flush_caches(self) -> None:
        """Writes a buffer larger than the last cache, so that the caches are cold."""
        np.add(self._flush, 1, out=self._flush)

    def read_through_caches(self) -> None:
        """Reads a buffer larger than the last cache, so that the cache is cold and clean."""
        np.max(self._flush, initial=0)

    def wait_for_quiet(self) -> None:
        """Waits, within limits, until no other thread runs; counts the waits that reach a limit.

        Times taken beside other programs are noise, above all where threads wake each other.
        """
        begin = time.monotonic()
        limit_s = min(self._patience_s, PAUSE_SECONDS_MAX)
        while running_threads() > 1:
            if time.monotonic() - begin >= limit_s:
                self._busy += 1
                break
            time.sleep(0.002)
        self._patience_s -= time.monotonic() - begin

    def measure(
        self,
        case: str,
        variants: Iterable[Variant],
        count: int,
        *,
        repetitions: int,
        baseline: str | None = None,
        cold: bool = True,
        awake: bool = False,
    ) -> dict[str, float]:
        """Repeats the variants in turns, compares after each, reports a line for each.

        A first round, compared but not counted, faults pages in and makes plans.

        Args:
            case: Name of the case in the lines.
            variants: Ways to do the work.
            count: Bytes that each variant moves.
            repetitions: Number of rounds that count.
            baseline: Variant whose median over that of another is the `ratio` of the other.
            cold: Whether the caches are flushed before each repetition.
            awake: Whether a run that is not timed goes right before each one that is: the
                comparison of bytes leaves GPUs idle, which wake in some 100 us, and the links
                between them, which take 400.

        Returns:
            The median seconds of each variant.

        Raises:
            MismatchError: Data differ after a repetition of a variant; no line is reported.
        """
        ways = list(variants)
        seconds: dict[str, list[float]] = {way.name: [] for way in ways}
        self._busy = 0
        gc.collect()
        gc.disable()
        try:
            for turn in range(repetitions + 1):
                for way in ways:
                    elapsed = self.repeat_once(case, way, cold, awake)
                    if turn > 0:
                        seconds[way.name].append(elapsed)
        finally:
            gc.enable()
        medians = {name: statistics.median(times) for name, times in seconds.items()}
        for way in ways:
            other = baseline if baseline not in (None, way.name) else None
            ratio = medians[other] / medians[way.name] if other else None
            busy = round(self._busy / ((repetitions + 1) * len(ways)), 2)
            conditions = {"cold": cold and self.full, "busy": busy, **way.conditions}
            if awake:
                conditions["awake"] = True
            self.emit(case, way.name, count, seconds[way.name], other, ratio, conditions)
        return medians

    def repeat_once(self, case: str, way: Variant, cold: bool, awake: bool = False) -> float:
        """Spoils the target, flushes, waits for quiet, runs, compares; returns the seconds.

        If `awake`, it runs twice, and returns the seconds of the second time.
        """
        way.prepare()
        if cold:
            self.flush_caches()
        self.wait_for_quiet()
        if awake:
            way.run()
        elapsed = way.run()
        if not way.check():
            raise MismatchError(
                f"{case}, {way.name}: what arrived differs from what was sent. This is a bug: "
                "please report it with the line above and `tranship topology`"
            )
        return elapsed

    def emit(
        self,
        case: str,
        variant: str,
        count: int,
        seconds: list[float],
        baseline: str | None = None,
        ratio: float | None = None,
        conditions: dict[str, Any] | None = None,
    ) -> Line:
        """Reports a line for data that were compared. `count` is 0 where no bytes are moved."""
        line = make_line(self.name, case, variant, self.machine, self.commit, count, seconds)
        if baseline is not None and ratio is not None:
            line |= {"ratio": rounded(ratio), "baseline": baseline}
        line["conditions"] = {
            **({} if self.full else {"size": "small"}),
            "load": round(os.getloadavg()[0], 1),
            **self.conditions,
            **(conditions or {}),
        }
        self._report(line)
        return line


def each(work: Callable[[], object], count: int) -> Callable[[], float]:
    """Returns a function that times one call of `work`, as the mean of `count` in a row."""

    def run() -> float:
        begin = time.perf_counter()
        for _ in range(count):
            work()
        return (time.perf_counter() - begin) / count

    return run


def as_bytes(array: Array) -> Bytes:
    """Returns a contiguous array as bytes, without a copy."""
    if not array.flags.c_contiguous:
        raise ValueError("only a contiguous array can be seen as bytes")
    return array.reshape(-1).view(np.uint8)


def spoil(array: Array) -> None:
    """Fills a contiguous array with a byte that no source holds everywhere."""
    as_bytes(array).fill(SPOILED)


def same(one: Array, other: Array) -> bool:
    """Returns whether two contiguous arrays hold the same bytes; compares them in pieces."""
    a, b = as_bytes(one), as_bytes(other)
    if a.size != b.size:
        return False
    for k in range(0, a.size, CHUNK_BYTES):
        if not np.array_equal(a[k : k + CHUNK_BYTES], b[k : k + CHUNK_BYTES]):
            return False
    return True


def random_bytes(count: int, seed: int = 1) -> Bytes:
    """Returns bytes that another process can make again from the seed."""
    words = np.random.default_rng(seed).integers(0, 1 << 64, -(-count // 8), dtype=np.uint64)
    return words.view(np.uint8)[:count]


def blank(count: int) -> Bytes:
    """Returns spoiled memory whose pages are mapped."""
    array = np.empty(count, np.uint8)
    array.fill(SPOILED)
    return array


def running_threads() -> int:
    """Returns the number of runnable threads of the machine, this one included."""
    try:
        return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        return 1


@cache
def cache_bytes() -> int:
    """Returns the size of the last cache, from sysfs; 64 MiB if sysfs does not have it."""
    largest = 0
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        match = re.fullmatch(r"(\d+)([KM])\s*", path.read_text())
        if match:
            largest = max(largest, int(match[1]) << (10 if match[2] == "K" else 20))
    return largest or 64 << 20


@cache
def machine_name() -> str:
    """Returns the cores and the processor, as in "2-core AMD EPYC"."""
    model = "processor"
    try:
        match = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.M)
        model = match[1] if match else model
    except OSError:
        pass
    model = re.sub(r"\((R|TM)\)|\bCPU\b|@.*$|\d+-Core Processor|Processor$", " ", model)
    return f"{os.cpu_count() or 1}-core {' '.join(model.split())}"


@cache
def commit_name() -> str:
    """Returns the commit of the working tree that has this file; "" if there is none."""
    folder = Path(__file__).resolve().parents[2]
    if not (folder / "pyproject.toml").exists():
        return ""
    try:
        done = subprocess.run(
            ["git", "-C", os.fspath(folder), "describe", "--always", "--dirty", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
