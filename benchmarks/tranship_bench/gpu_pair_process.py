"""The second of two processes that do the same work in step: see `gpu_pair`."""

from __future__ import annotations

import sys
from typing import Any

from .child import Service, serve
from .gpu_halo import HaloHalf
from .gpu_messages import MessageHalf
from .gpu_pair import Half, Steps

KINDS: dict[str, type[Half]] = {"halo": HaloHalf, "messages": MessageHalf}


class PairService(Service):
    """The requests that the second process carries out."""

    half: Half

    def join(self, kind: str, contact: str, path: str) -> dict[str, Any]:
        """Makes this process's half of a kind of work."""
        self.half = KINDS[kind](self.engine, 1, Steps(path, 1), contact)
        return {}

    def load(self, case: Any) -> dict[str, Any]:
        """Makes the arrays of a case."""
        self.half.clear()
        self.half.load(case)
        return {}

    def connect(self) -> dict[str, Any]:
        """Prepares the copies of the case."""
        self.half.connect()
        return {}

    def spoil_all(self) -> dict[str, Any]:
        """Spoils what a round writes."""
        self.half.spoil()
        return {}

    def right(self) -> dict[str, Any]:
        """Compares what was written."""
        return {"right": self.half.right()}

    def run(self, variant: str, rounds: int) -> dict[str, Any]:
        """Does some rounds of the work."""
        self.half.run(variant, rounds)
        return {}


if __name__ == "__main__":
    serve(sys.stdin, sys.stdout, PairService)
