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
from pathlib import Path
from typing import Any

import tranship
import tranship_bench
from tranship.closing import Closing
from tranship.engine import Engine
from tranship.errors import Error
from tranship.peer import Peer

from ..harness import Variant

ANSWER_SECONDS = 120.0
"""Longest time between a request and its answer."""


class Program(Closing):
    """A process that answers lines of JSON with lines of JSON."""

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

    def answer(self) -> dict[str, Any]:
        """Returns the next answer.

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
        return content

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
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


class Other(Program):
    """A child process with an engine, and this process's connection to it."""

    def __init__(
        self,
        engine: Engine,
        settings: dict[str, str] | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        environment = child_environment() | (settings or {})
        command = [*prefix, sys.executable, "-m", "tranship_bench.processes.child"]
        super().__init__(command, environment, name="the other process")
        self._engine = engine
        self.peer: Peer = engine.connect(self.answer()["contact"])

    def array(self, name: str, kind: str, shape: tuple[int, ...], dtype: str) -> Any:
        """Makes the process export an array; `kind` is "plain", "shared" or "device0"."""
        self.ask("make", name=name, kind=kind, shape=shape, dtype=dtype)
        return self.peer[name]

    def preparing(self, name: str) -> Callable[[], None]:
        """Returns a function that spoils an array of the process."""

        def prepare() -> None:
            self.ask("spoil", name=name)

        return prepare

    def checking(
        self, name: str, seed: int, transposed: bool = False, columns: int = 0
    ) -> Callable[[], bool]:
        """Returns a function that checks an array for the bytes of `seed`; see `data.expected`."""

        def check() -> bool:
            answer = self.ask("check", name=name, seed=seed, transposed=transposed, columns=columns)
            return bool(answer["same"])

        return check

    def variant(
        self,
        name: str,
        run: Callable[[], float],
        array: str,
        seed: int,
        transposed: bool = False,
        columns: int = 0,
        **conditions: Any,
    ) -> Variant:
        """Returns the variant that brings the bytes of `seed` to an array of the process."""
        check = self.checking(array, seed, transposed, columns)
        return Variant(name, run, check, self.preparing(array), conditions)
