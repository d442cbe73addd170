"""System calls that fail: a short run of tests/faults/run.py, which also has a long one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).resolve().parents[1] / "faults" / "run.py"


@pytest.mark.parametrize(
    "words",
    [
        ("--scenario", "copies"),
        ("--scenario", "client", "--class", "memory", "--class", "descriptors", "--step", "3"),
        ("--scenario", "server", "--class", "memory", "--class", "threads", "--step", "3"),
        ("--scenario", "exporter-network", "--class", "partial", "--class", "reset", "--step", "5"),
    ],
    ids=["copies", "client", "server", "network"],
)
def test_calls_that_fail_cost_an_error_at_most(words: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, str(RUN), "--seconds", "20", *words],
        capture_output=True,
        text=True,
        timeout=280,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
