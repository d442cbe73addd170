"""Processes that run exporter.py: starting, stopping and ending them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from support import PATIENCE, stop


class Exporter:
    """A process that exports arrays until it is ended or killed."""

    def __init__(self, contact: Path, arguments: list[str], environment: dict[str, str]) -> None:
        script = Path(__file__).parent / "exporter.py"
        self.contact = contact
        self.process = subprocess.Popen(
            [sys.executable, str(script), str(contact), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line == "ready\n", f"the exporting process did not start: {line!r}"

    def ask(self, command: str) -> str:
        """Sends one command to the process and returns its answer, a line."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def stop(self) -> None:
        """Sends SIGSTOP and waits until all threads of the process are stopped."""
        stop(self.process)

    def go_on(self) -> None:
        """Sends SIGCONT, which ends the effect of `stop`."""
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Sends SIGKILL and waits until the process has exited."""
        self.process.kill()
        self.process.wait(timeout=PATIENCE)

    def end(self) -> None:
        """Kills the process if it still runs, and closes its pipes."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(timeout=PATIENCE)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
