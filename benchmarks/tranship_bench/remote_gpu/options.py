"""Options of the remote-GPU experiment: sizes, repetitions, transports, time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tranship.errors import InvalidArgument

from ..harness import Bench
from ..registry import elements, names, option

__all__ = ["TRANSPORTS", "Options", "Procedure", "elements_text", "fitting_elements"]

TRANSPORTS = ("shared", "ipc", "tcp", "rdma")

FULL_SIZES = (
    *(10, 100, 1_000, 10_000, 100_000, 1_000_000, 4_000_000),
    *(10_000_000, 28_000_000, 100_000_000, 200_000_000, 400_000_000),
)
"""Sizes of the paper's range, in elements, with the four sizes of its Figures 5 and 6."""

QUICK_SIZES = (10, 10_000, 1_000_000, 28_000_000, 100_000_000)
SMALL_SIZES = (10, 1_000, 10_000)

MEMORY_SHARE = 0.5
"""Share of the free memory that the experiment takes at most."""


@dataclass(frozen=True)
class Options:
    """The options of `tranship bench remote-gpu`.

    Attributes:
        quick: Whether each case has one run of six measurements, at five sizes.
        limit: Largest number of elements; 0: what fits into memory.
        minutes: Time limit; 0: 10, with `quick` 1. A case that has begun is finished.
        repeats: Number of sums that the GPU computes.
        transports: Names among "shared", "ipc", "tcp", "rdma".
        launch: Words before the server's command that start it on another machine: "ssh gpu2".
        addresses: "CLIENT,SERVER": addresses on which the two listen; needed with `launch`.
        loopback: Whether TCP stays in one network namespace.
    """

    quick: bool = option(False, "Fewer runs and sizes: a minute or two.", values="")
    limit: int = option(
        0, "Largest vector, as in 28M. Default: 400M, or what fits.", elements, "ELEMENTS"
    )
    minutes: float = option(
        0.0, "Minutes after which no case begins. Default: 10; with --quick 1.", float
    )
    repeats: int = option(1, "Number of sums that the GPU computes.")
    transports: tuple[str, ...] = option(
        TRANSPORTS, "Transports among shared,ipc,tcp,rdma. Default: all.", names, "LIST"
    )
    launch: str = option(
        "",
        "Command that starts the server elsewhere, as in 'ssh gpu2'; needs --addresses.",
        str,
        "WORDS",
    )
    addresses: str = option(
        "", "Addresses on which the two processes listen.", str, "CLIENT,SERVER"
    )
    loopback: bool = option(False, "Run TCP over loopback, without a network namespace.", values="")

    def __post_init__(self) -> None:
        for name in self.transports:
            if name not in TRANSPORTS:
                raise InvalidArgument(
                    f"there is no transport {name!r}; there are {', '.join(TRANSPORTS)}"
                )
        if self.limit < 0 or self.minutes < 0 or self.repeats < 1:
            raise InvalidArgument("limit and minutes are not negative, and repeats is at least 1")
        if bool(self.launch) != (self.addresses.count(",") == 1):
            raise InvalidArgument(
                "to start the server on another machine, give both its --launch and --addresses, "
                "as in --launch 'ssh gpu2' --addresses 10.0.0.1,10.0.0.2"
            )


@dataclass(frozen=True)
class Procedure:
    """The sizes to measure, and the numbers of runs and measurements.

    Attributes:
        sizes: Sizes in elements, ascending.
        measurements: Number of measurements in a run, of which mean and deviation are taken.
        runs: Number of runs; the run of the smallest deviation counts.
        seconds: Time limit for the whole experiment.
    """

    sizes: tuple[int, ...]
    measurements: int
    runs: int
    seconds: float

    @staticmethod
    def of(bench: Bench, options: Options, fitting: int) -> Procedure:
        """Returns the paper's procedure in full size; fewer runs with --quick, and for tests."""
        sizes: tuple[int, ...] = FULL_SIZES if not options.quick else QUICK_SIZES
        measurements, runs = 6, 1 if options.quick else 10
        if not bench.full:
            sizes, measurements, runs = SMALL_SIZES, 2, 1
        limit = min(options.limit or sizes[-1], sizes[-1])
        if limit > fitting:
            bench.say(f"memory for {elements_text(fitting)} elements: larger sizes are left out")
            limit = fitting
        kept = tuple(size for size in sizes if size <= limit)
        minutes = options.minutes or (1.0 if options.quick else 10.0)
        return Procedure(kept or (limit,), measurements, runs, 60 * minutes)


def fitting_elements(gpu: Mapping[str, Any]) -> int:
    """Returns the number of elements for which host and GPU have room."""
    # Three vectors each of the client, of the server in pageable and in pinned memory, and of the
    # local experiment; three more on the GPU if it is emulated.
    vectors = 15 if gpu["emulated"] else 12
    host = int(MEMORY_SHARE * free_bytes()) // (4 * vectors)
    return min(host, int(0.8 * gpu["memory_bytes"]) // 12)


def free_bytes() -> int:
    """Returns the bytes of free host memory that this process may use."""
    free = 1 << 34
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) << 10
    try:
        group = Path("/sys/fs/cgroup")
        limit = int((group / "memory.max").read_text())
        free = min(free, limit - int((group / "memory.current").read_text()))
    except (OSError, ValueError):
        pass  # no limit
    return max(free, 0)


def elements_text(count: int) -> str:
    """Returns a number of elements as text, such as "10", "10k", "28M"."""
    for unit, letter in ((10**6, "M"), (10**3, "k")):
        if count >= unit and count % (unit // 10) == 0:
            return f"{count / unit:g}{letter}"
    return str(count)
