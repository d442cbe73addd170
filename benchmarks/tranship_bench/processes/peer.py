"""Other processes of the benchmarks, which take requests as lines of JSON."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import tranship
import tranship_bench
from tranship.closing import Closing
from tranship.engine import Engine
from tranship.errors import Error
from tranship.peer import Peer

from ..harness import Variant
from . import child
from .child import Service

ANSWER_SECONDS = 120.0
"""Longest time between a request and its answer."""


class Program(Closing):
    """A process that answers lines of JSON with lines of JSON: {"result": …} or {"error": …}."""

    def __init__(
        self,
        command: list[str],
        environment: dict[str, str] | None = None,
        *,
        own_group: bool = False,
        name: str = "",
    ) -> None:
        self._name = name or Path(command[-1] if len(command) < 2 else command[1]).name
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=own_group,
        )
        self._answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        """Collects answers until the process closes its output."""
        for line in self._process.stdout or ():
            if line.startswith("{"):
                self._answers.put(line)
        self._answers.put("")

    def answer(self) -> Any:
        """Returns the result in the next answer.

        Raises:
            Error: The answer reports a failure, or the process does not answer or has exited.
        """
        try:
            line = self._answers.get(timeout=ANSWER_SECONDS)
        except queue.Empty:
            raise Error(f"{self._name} has not answered for {ANSWER_SECONDS:.0f} s") from None
        if not line:
            raise Error(f"{self._name} ended with code {self._process.wait()}; its text is above")
        content: dict[str, Any] = json.loads(line)
        if "error" in content:
            raise Error(f"{self._name}: {content['error']}")
        return content["result"]

    def ask(self, do: str, **arguments: Any) -> Any:
        """Sends a request and waits for its answer."""
        self.send(do, **arguments)
        return self.answer()

    def send(self, do: str, **arguments: Any) -> None:
        """Sends a request; `answer` returns its answer."""
        try:
            pipe = self._process.stdin
            assert pipe is not None
            pipe.write(json.dumps({"do": do, **arguments}) + "\n")
            pipe.flush()
        except OSError:
            raise Error(f"{self._name} has ended; its text is above") from None

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the process and its children; needs `own_group`."""
        os.killpg(self._process.pid, number)

    def close(self) -> None:
        """Closes the input of the process, upon which it exits; kills it if it does not."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def child_path() -> str:
    """Returns the PYTHONPATH with which a child runs the packages that run here.

    Symbolic links are kept, because the child may see another tree behind them.
    """
    packages = [Path(module.__file__ or "").parents[1] for module in (tranship_bench, tranship)]
    folders = dict.fromkeys(os.path.abspath(folder) for folder in packages)
    return os.pathsep.join([*folders, *filter(None, [os.environ.get("PYTHONPATH")])])


def child_environment() -> dict[str, str]:
    """Returns the environment of this process with that path."""
    return {**os.environ, "PYTHONPATH": child_path()}


class Child(Program):
    """A process of this package that carries out the requests of a service with its own engine.

    Args:
        kind: The service.
        settings: Variables of the process's environment, beside those of this one.
        prefix: Words before the command, such as those that enter a network namespace.
        name: Name in messages.
    """

    def __init__(
        self,
        kind: type[Service],
        settings: dict[str, str] | None = None,
        prefix: Sequence[str] = (),
        name: str = "the other process",
    ) -> None:
        program = [sys.executable, "-m", child.__name__, kind.__module__, kind.__name__]
        super().__init__([*prefix, *program], child_environment() | (settings or {}), name=name)

    @cached_property
    def contact(self) -> str:
        """Returns the contact of the process's engine, which it sends before any answer."""
        contact: str = self.answer()
        return contact


class Other(Child):
    """A child process that exports arrays, and this process's connection to it."""

    def __init__(
        self, engine: Engine, settings: dict[str, str] | None = None, prefix: Sequence[str] = ()
    ) -> None:
        super().__init__(child.Arrays, settings, prefix)
        self.peer: Peer = engine.connect(self.contact)

    def array(self, name: str, kind: str, shape: tuple[int, ...], dtype: str) -> Any:
        """Makes the process export an array; `kind` is "plain", "shared" or "device0"."""
        self.ask("make", name=name, kind=kind, shape=shape, dtype=dtype)
        return self.peer[name]

    def preparing(self, name: str) -> Callable[[], None]:
        """Returns a function that spoils an array of the process."""
        return lambda: self.ask("spoil", name=name)

    def checking(self, name: str, transposed: bool = False, columns: int = 0) -> Callable[[], bool]:
        """Returns a function that checks an array for seeded bytes; see `child.expected`."""
        return lambda: self.ask("check", name=name, transposed=transposed, columns=columns)

    def variant(
        self,
        name: str,
        run: Callable[[], float],
        array: str,
        transposed: bool = False,
        columns: int = 0,
        **conditions: Any,
    ) -> Variant:
        """Returns the variant that brings seeded bytes to an array of the process."""
        check = self.checking(array, transposed, columns)
        return Variant(name, run, check, self.preparing(array), conditions)
