"""Helpers of the Python tests: waiting, scripts in other processes, open resources."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tranship as ts
from tranship_bench import benches

PATIENCE = 60.0
"""Seconds within which what a test waits for comes, also on a machine that stands still at times.

It is also the time limit of calls that must end before it, which tests compare with `SOON_S`.
"""
SOON_S = 30.0
"""Seconds within which a call ends that waits for no time limit, on such a machine too."""


def eventually(condition: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    """Waits until `condition` is true; returns whether it became true within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def stop(process: subprocess.Popen[str]) -> None:
    """Sends SIGSTOP to a child and waits until the last of its threads is stopped."""
    process.send_signal(signal.SIGSTOP)
    flags = os.WSTOPPED | os.WNOHANG
    assert eventually(lambda: os.waitid(os.P_PID, process.pid, flags) is not None)


@functools.cache
def run_small(name: str) -> tuple[int, list[dict[str, Any]]]:
    """Runs a benchmark in small size once; returns its exit status and result lines."""
    lines: list[dict[str, Any]] = []
    return benches.run(name, size="small", report=lines.append), lines


FORKS_ON_PURPOSE = ["-W", "ignore:This process:DeprecationWarning"]
"""Options against the warning of Python 3.12 and later about a fork in a threaded process."""


def run_script(text: str, *arguments: object, seconds: float = PATIENCE) -> str:
    """Runs Python text in another process, which must succeed; returns what it printed."""
    done = subprocess.run(
        [sys.executable, *FORKS_ON_PURPOSE, "-c", textwrap.dedent(text), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert done.stderr == "", done.stderr
    return done.stdout


def threads_of_process() -> set[str]:
    """Returns the ids of the threads of this process."""
    return set(os.listdir("/proc/self/task"))


def open_files() -> dict[str, str]:
    """Returns the file descriptors of this process and what they refer to."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[name] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue  # The descriptor of the listing itself is closed by now.
    return found


MPI_SEGMENTS = ("mpich_shm", "vader_segment", "sm_segment")
"""Begins of the names of MPI libraries' segments: tests of MPI programs run beside others."""


def shared_segments() -> set[str]:
    """Returns the names in /dev/shm, but for those of MPI libraries."""
    folder = Path("/dev/shm")
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    return {name for name in names if not name.startswith(MPI_SEGMENTS)}


class Slow:
    """A copy that takes about 0.1 s, with a check of how it ended.

    The copy transposes single bytes that lie apart on both sides: every channel is slow at that.
    """

    def __init__(self) -> None:
        rows, columns = 8192, 4096
        self.source = np.ones((rows, columns, 2), np.uint8)[..., 0]
        self.target = np.zeros((columns, rows, 2), np.uint8)[..., 0]

    def start(self, engine: ts.Engine, **options: object) -> ts.Event:
        event = engine.copy(self.source, self.target.T, **options)  # type: ignore[arg-type]
        assert not event.plan.direct
        return event

    def start_many(self, engine: ts.Engine) -> list[ts.Event]:
        """Starts it 20 times, each after the one before, so that the last is far from its end."""
        events = [self.start(engine)]
        while len(events) < 20:
            events.append(self.start(engine, after=events[-1]))
        return events

    @property
    def done(self) -> bool:
        return bool(self.target.all())
