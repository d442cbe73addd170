"""Processes that offer arrays."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from support import PATIENCE

__all__ = ["MIB", "Produce", "Producer"]

MIB = 1 << 20
MAKE = {
    "pageable": "np.arange({n}, dtype='f8').reshape({shape})",
    "mapped": "staging._own.empty({shape}, 'f8', memory='host')",
}


class Producer:
    """A process of offerer.py."""

    def __init__(self, contact: Path, *settings: str) -> None:
        script = Path(__file__).parent / "offerer.py"
        self.process = subprocess.Popen(
            [sys.executable, str(script), str(contact), *settings],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.answer() == "ready"

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def begin(self, statement: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(statement + "\n")
        self.process.stdin.flush()

    def does(self, statement: str) -> str:
        self.begin(statement)
        return self.answer()

    def do(self, statement: str) -> None:
        assert self.does(statement) == "ok"

    def make(self, kind: str, shape: tuple[int, ...]) -> np.ndarray:
        """Makes an array "x" there, and returns one with the same elements."""
        count = int(np.prod(shape))
        self.do("made['x'] = " + MAKE[kind].format(n=count, shape=shape))
        self.do(f"made['x'][...] = np.arange({count}, dtype='f8').reshape({shape})")
        return np.arange(count, dtype="f8").reshape(shape)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=PATIENCE)
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


Produce = Callable[..., Producer]
"""The type of the fixture `produce`."""
