"""Samples that several MPI processes take together."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping

from mpi4py import MPI

__all__ = ["print_samples"]

SAMPLES = 9
Timed = Callable[[int], float]
"""Does the work so many times; returns the seconds of one."""


def print_samples(
    case: str, count: int, ways: Mapping[str, Timed], sample_s: float, rounds_max: int
) -> None:
    """Takes samples of all ways in turns; the first process prints a line of JSON.

    Args:
        case: Name of the case.
        count: Bytes that each way moves.
        ways: Each variant's work.
        sample_s: Seconds that a sample should take.
        rounds_max: Most times that the work is done for one.
    """
    world = MPI.COMM_WORLD
    rounds = {}
    for variant, timed in ways.items():
        once = world.bcast(timed(3))
        rounds[variant] = min(max(math.ceil(sample_s / once), 2), rounds_max)
    seconds: dict[str, list[float]] = {variant: [] for variant in ways}
    for _ in range(SAMPLES):
        for variant, timed in ways.items():
            seconds[variant].append(float(f"{timed(rounds[variant]):.4g}"))
    if world.rank == 0:
        library = MPI.Get_library_version().split("\n")[0].strip()
        line = {"case": case, "bytes": count, "library": library, "seconds": seconds}
        print(json.dumps(line), flush=True)
