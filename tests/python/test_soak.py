"""The stress test of `make soak`, for 4 s and one seed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).with_name("soak.py")


@pytest.mark.parametrize("gpus", ["emulated", "none"])
def test_threads_share_an_engine(gpus: str) -> None:
    """Every copy ends, every value is right, and no resource is left."""
    done = subprocess.run(
        [sys.executable, SOAK, "--seconds", "4", "--seed", "16", "--gpus", gpus],
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
