"""Parts that all benchmarks use: interleaved repetitions, cold caches, comparison, result lines."""

from __future__ import annotations

import gc
import math
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from .results import Line, make_line, rounded

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]
Report = Callable[[Line], None]
T = TypeVar("T")

SPOILED = 0xA5
"""Byte that targets are filled with before each repetition."""

CHUNK_BYTES = 1 << 20

QUIET_SECONDS_MAX = 15.0
"""Longest time, in all, that a benchmark waits for other programs of the machine to pause."""

PAUSE_SECONDS_MAX = 0.05
"""Longest time that a benchmark waits before one repetition."""

WAIT_SECONDS_MAX = 60.0
"""Longest time that a benchmark waits for one copy."""


class MismatchError(Exception):
    """Data arrived changed, or a simulated transfer did not end. No line is reported."""


class SkippedError(Exception):
    """Something that the benchmark needs is missing; the text says what."""


def arrived() -> bool:
    """Returns True: the check of bare copies, which are a measure alone."""
    return True


def nothing() -> None:
    """Does nothing: the preparation of bare copies."""


@dataclass
class Variant:
    """One way to do the work of a case. All variants are repeated in turns: A B C A B C ...

    Attributes:
        name: Name in the result line.
        run: Function that does the work once and returns its seconds.
        check: Function that returns whether all bytes arrived; not timed. Bare copies have none.
        prepare: Function that spoils the target, so that a copy that does nothing is detected; not
            timed.
        conditions: Conditions of this variant's times, for the result line; "timed" is "python"
            unless it says otherwise.
    """

    name: str
    run: Callable[[], float]
    check: Callable[[], bool] = arrived
    prepare: Callable[[], None] = nothing
    conditions: dict[str, Any] = field(default_factory=dict)


class Bench:
    """One run of one benchmark: its size, its machine, and the lines that it reports.

    Attributes:
        cold: Whether the caches are flushed before each repetition.
        awake: Whether a run that is not timed goes right before each one that is: the comparison
            of bytes leaves GPUs idle, which wake in some 100 us, and the links between them, which
            take 400.
        seconds: Seconds of each variant of the case that was measured last.
    """

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
        self.cold = True
        self.awake = False
        self.seconds: dict[str, list[float]] = {}
        self._report = report
        self._patience_s = QUIET_SECONDS_MAX if full else 0.0
        self._busy = 0

    def pick(self, full: T, small: T) -> T:
        """Returns what the size that runs takes."""
        return full if self.full else small

    def draw_count(self, full: int, small: int) -> int:
        """Returns the number of random cases, by `SeedOptions`; all lines say their seed."""
        self.conditions |= {"seed": self.options.seed}
        return self.options.cases or self.pick(full, small)

    def say(self, text: str) -> None:
        """Prints a note for the user on stderr."""
        print(f"bench {self.name}: {text}", file=sys.stderr)

    @cached_property
    def _flush(self) -> Bytes:
        return np.ones(2 * cache_bytes() if self.full else 0, np.uint8)

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
        repetitions: int,
        baseline: str | None = None,
    ) -> dict[str, float]:
        """Repeats the variants in turns, compares after each, reports a line for each.

        A first round, compared but not counted, faults pages in and makes plans.

        Args:
            case: Name of the case in the lines.
            variants: Ways to do the work.
            count: Bytes that each variant moves.
            repetitions: Number of rounds that count; in small size it is one.
            baseline: Variant whose median over that of another is the `ratio` of the other.

        Returns:
            The median seconds of each variant.

        Raises:
            MismatchError: Data differ after a repetition of a variant; no line is reported.
        """
        ways = list(variants)
        rounds = self.pick(repetitions, 1)
        self._busy = 0
        gc.collect()
        gc.disable()
        try:
            works = {way.name: partial(self.repeat_once, case, way) for way in ways}
            seconds = take_turns(works, rounds)
        finally:
            gc.enable()
        busy = round(self._busy / ((rounds + 1) * len(ways)), 2)
        common = {"timed": "python", "cold": self.cold and self.full, "busy": busy}
        common |= {"awake": True} if self.awake else {}
        own = {way.name: common | way.conditions for way in ways}
        return self.report(case, seconds, count, baseline, own=own)

    def report(
        self,
        case: str,
        seconds: dict[str, list[float]],
        count: int,
        baseline: str | None = None,
        conditions: Mapping[str, Any] | None = None,
        own: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> dict[str, float]:
        """Reports a line for each variant, with its ratio to the baseline; returns the medians.

        Args:
            case: Name of the case.
            seconds: Seconds of each variant.
            count: Bytes that each variant moves.
            baseline: Variant that the others are compared with.
            conditions: Conditions of all variants.
            own: Further conditions of each variant.
        """
        self.seconds = seconds
        medians = {name: statistics.median(times) for name, times in seconds.items()}
        for name, times in seconds.items():
            other = None if name == baseline else baseline
            ratio = medians[other] / medians[name] if other else None
            known = {**(conditions or {}), **(own or {}).get(name, {})}
            self.emit(case, name, count, times, other, ratio, known)
        return medians

    def measure_calls(
        self,
        case: str,
        works: Mapping[str, Callable[[], object]],
        count: int,
        calls: int,
        rounds: int,
        wait: Callable[[], object] = nothing,
    ) -> dict[str, float]:
        """Measures short calls from Python, `calls` in a row, and reports the seconds of one.

        Nothing is compared here: the caller compares what each work does before.

        Args:
            case: Name of the case.
            works: What is called, by the variant's name.
            count: Bytes that each call moves.
            calls: Calls in a row.
            rounds: Number of rounds that count.
            wait: Function that waits for all calls, before and within the time.
        """

        def in_a_row(work: Callable[[], object]) -> float:
            wait()
            begin = time.perf_counter()
            for _ in range(calls):
                work()
            wait()
            return (time.perf_counter() - begin) / calls

        runs = {name: partial(in_a_row, work) for name, work in works.items()}
        how = {"timed": "python"}
        return self.report(case, take_turns(runs, rounds), count, conditions=how)

    def repeat_once(self, case: str, way: Variant) -> float:
        """Spoils the target, flushes, waits for quiet, runs, compares; returns the seconds.

        If the benchmark is awake, it runs twice, and returns the seconds of the second time.
        """
        way.prepare()
        if self.cold:
            self.flush_caches()
        self.wait_for_quiet()
        if self.awake:
            way.run()
        elapsed = way.run()
        require(way.check(), f"{case}, {way.name}")
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


def require(is_right: bool, what: str) -> None:
    """Refuses wrong data.

    Raises:
        MismatchError: Data are not right.
    """
    if not is_right:
        raise MismatchError(
            f"{what}: what arrived differs from what was sent. This is a bug: please report it "
            "with this line and `tranship topology`"
        )


def take_turns(works: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Returns the seconds of works that take turns, after a first round that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(rounds + 1):
        for name, work in works.items():
            elapsed = work()
            if turn > 0:
                seconds[name].append(elapsed)
    return seconds


def timed(work: Callable[[], object], times: int = 1) -> Callable[[], float]:
    """Returns a function that times `times` calls in a row, Python's own cost included."""

    def run() -> float:
        begin = time.perf_counter()
        for _ in range(times):
            work()
        return time.perf_counter() - begin

    return run


def mean_of(work: Callable[[], object], count: int) -> Callable[[], float]:
    """Returns a function that times one call of `work`, as the mean of `count` in a row."""
    run = timed(work, count)
    return lambda: run() / count


def waited(*starts: Callable[[], Any], times: int = 1) -> Callable[[], float]:
    """Returns a function that starts copies, `times` each in a row, and waits for all."""

    def run() -> float:
        begin = time.perf_counter()
        events = [start() for _ in range(times) for start in starts]
        for event in events:
            event.wait(timeout=WAIT_SECONDS_MAX)
        return time.perf_counter() - begin

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


def seeded(shape: tuple[int, ...], dtype: Any, seed: int = 1) -> Array:
    """Returns a random array that every process can make from the seed."""
    kind = np.dtype(dtype)
    array: Array = random_bytes(math.prod(shape) * kind.itemsize, seed).view(kind).reshape(shape)
    return array


def blank(count: int) -> Bytes:
    """Returns spoiled memory whose pages are mapped."""
    return np.full(count, SPOILED, np.uint8)


def blank_array(shape: tuple[int, ...], dtype: Any) -> Array:
    """Returns a spoiled array whose pages are mapped."""
    kind = np.dtype(dtype)
    array: Array = blank(math.prod(shape) * kind.itemsize).view(kind).reshape(shape)
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
