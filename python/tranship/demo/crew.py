"""Starts the demo's processes, collects their lines, and sees to it that all of them end."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any


class CrewError(Exception):
    """A process of the demo ended too early, or none of them reported for too long."""


class Crew:
    """The child processes. A context manager: at its end no child runs.

    Owns the children, one reading thread for each, and their log files in `logs`. Children end by
    themselves when this process dies, because their standard input closes.
    """

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self.children: dict[str, subprocess.Popen[str]] = {}
        self.lines: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue()
        self.working: set[str] = set()

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for child in self.children.values():
            if child.poll() is None:
                child.kill()
        for child in self.children.values():
            child.wait()

    def start(self, role: str, rank: int, settings_path: str) -> None:
        """Starts `python -m tranship.demo.<role>`; its stderr goes into its log."""
        name = f"{role}-{rank}"
        command = [sys.executable, "-m", f"tranship.demo.{role}"]
        command += ["--settings", settings_path, "--rank", str(rank)]
        with open(self.logs / f"{name}.txt", "w") as log:
            child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        self.children[name] = child
        self.working.add(name)
        threading.Thread(target=self.read, args=(name, child.stdout), daemon=True).start()

    def read(self, name: str, output: IO[str]) -> None:
        """Turns a child's lines into entries of `lines`; all other lines go to its log."""
        for line in output:
            try:
                self.lines.put((name, json.loads(line)))
            except json.JSONDecodeError:
                with open(self.logs / f"{name}.txt", "a") as log:
                    log.write(line)

    def messages(self, silence_s: float) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yields (process, line) until every child has reported `done`.

        More may be started meanwhile.

        @error CrewError if a child ends before that, or no child says anything for `silence_s`.
        """
        last_heard = time.monotonic()
        while self.working:
            # Looked up before the queue is drained: a child's last lines come before its end.
            ended = [name for name, child in self.children.items() if child.poll() is not None]
            try:
                name, line = self.lines.get(timeout=0.2)
            except queue.Empty:
                if ended:
                    # Of several, name one that was killed: the others may have missed it.
                    first = min(ended, key=lambda child: self.children[child].returncode)
                    raise CrewError(self.obituary(first)) from None
                if time.monotonic() - last_heard > silence_s:
                    raise CrewError(self.silence(self.working, silence_s)) from None
                continue
            last_heard = time.monotonic()
            if line.get("kind") == "done":
                self.working.discard(name)
            yield name, line

    def finish(self, timeout_s: float) -> None:
        """Lets every child close and end.

        @error CrewError if one does not, or ends with an error.
        """
        for child in self.children.values():
            assert child.stdin is not None
            # One that has died meanwhile is found below, by its exit code.
            with suppress(BrokenPipeError):
                child.stdin.write("\n")
                child.stdin.flush()
        give_up = time.monotonic() + timeout_s
        for name, child in self.children.items():
            try:
                child.wait(timeout=max(0.1, give_up - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise CrewError(f"{name} did not end in {timeout_s:.0f} s") from None
            if child.returncode != 0:
                raise CrewError(self.obituary(name))

    def obituary(self, name: str) -> str:
        """Returns how a child ended, with the last lines of its log."""
        code = self.children[name].returncode
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        log = self.logs / f"{name}.txt"
        lines = log.read_text(errors="replace").strip().splitlines()[-6:]
        said = "".join(f"\n    {line}" for line in lines) or " nothing"
        return f"{name} {how} before the run was complete; its last words ({log}):{said}"

    def silence(self, working: set[str], silence_s: float) -> str:
        """Returns which children should have reported."""
        names = ", ".join(sorted(working))
        return (
            f"nothing was heard from {names} for {silence_s:.0f} s; their logs are in {self.logs}"
        )
