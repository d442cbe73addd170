"""Staging servers in processes of `tranship serve`."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import tranship as ts
from support import PATIENCE

__all__ = ["PATIENCE", "Servers", "times_out"]


SILENT = re.compile(
    "did not answer within|nothing that speaks tranship answered|memory is being allocated"
)
"""What errors say of a server that stood still, or has not allocated its memory yet."""


def times_out(call: Callable[[], object], why: str, error: type[Exception] = ts.Timeout) -> Any:
    """Checks that a call with a short timeout ends by it, with a reason that the server gave.

    A server that stands still for a second, as on a busy machine, gives none: the call is repeated.
    Returns the error.
    """
    for _ in range(20):
        with pytest.raises(error) as raised:
            call()
        if SILENT.search(str(raised.value)) is None:
            break
    assert re.search(why, str(raised.value)), raised.value
    return raised.value


class Servers:
    """Staging servers with contact files in one folder; `prefix` comes before their command."""

    def __init__(self, folder: Path, prefix: Sequence[str] = ()) -> None:
        self.folder = folder
        self.prefix = prefix
        self.processes: list[subprocess.Popen[str]] = []

    def __call__(self, *options: str) -> Path:
        """Starts a server or a group, waits until it serves, and returns its contact file."""
        contact = self.folder / f"staging-{len(self.processes)}.contact"
        process = self.start("--contact", str(contact), *options)
        assert process.stdout is not None
        assert process.stdout.readline().startswith("serving at ")
        return contact

    def start(self, *options: str) -> subprocess.Popen[str]:
        """Starts a process of `tranship serve` without waiting until it serves."""
        process = subprocess.Popen(
            [*self.prefix, sys.executable, "-m", "tranship.cli", "serve", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process

    def end(self) -> None:
        """Ends all servers by SIGTERM and checks how they ended."""
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes:
            _, errors = process.communicate(timeout=PATIENCE)
            assert process.returncode in (0, -signal.SIGKILL), errors
