"""Benchmarks whose work is done by two MPI processes, which print their results."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ..harness import Bench, MismatchError
from .mpi import library_name

__all__ = ["emit_case", "two_processes"]

PATIENCE_S = 1500.0


def two_processes(
    bench: Bench, launcher: Sequence[str], module: str, variables: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Runs a module of this package on two processes; returns the lines of JSON that it prints.

    Raises:
        MismatchError: A process failed.
    """
    words = [f"{name}={value}" for name, value in variables.items()]
    program = [sys.executable, "-m", f"tranship_bench.{module}"]
    size = "full" if bench.full else "small"
    command = [*launcher, "-n", "2", "env", *words, *program, size]
    bench.say(f"running {shlex.join(command)}")
    outcome = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=False
    )
    if outcome.returncode != 0:
        raise MismatchError(f"the processes failed with exit code {outcome.returncode}")
    return [json.loads(line) for line in outcome.stdout.splitlines()]


def emit_case(bench: Bench, found: Mapping[str, Any], baseline: str) -> None:
    """Reports a line for each variant of a case; ratios are of medians."""
    seconds: dict[str, list[float]] = found["seconds"]
    medians = {name: sorted(times)[len(times) // 2] for name, times in seconds.items()}
    library = library_name(found["library"])
    conditions = {"library": library, "cold": False, "timed": "python"}
    case = f"{found['case']}, {library.rpartition(' ')[0]}"
    for name, times in seconds.items():
        other = baseline if name != baseline else None
        ratio = medians[baseline] / medians[name] if other else None
        bench.emit(case, name, found["bytes"], times, other, ratio, conditions)
