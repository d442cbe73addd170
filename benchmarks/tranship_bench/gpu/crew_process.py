"""One of the processes, but the first, that do the same work in step: see `crew`."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from ..processes.child import Service, serve
from .crew import Member


class MemberService(Service):
    """The requests that a process carries out."""

    member: Member

    def join(
        self, module: str, kind: str, rank: int, contacts: list[str], path: str
    ) -> dict[str, Any]:
        """Makes this process's share of a kind of work, a class of a module of this package."""
        made = getattr(importlib.import_module(module), kind)
        self.member = made(self.engine, rank, contacts, path)
        return {}

    def load(self, case: Any) -> dict[str, Any]:
        """Makes the arrays of a case."""
        self.member.clear()
        self.member.load(case)
        return {}

    def connect(self) -> dict[str, Any]:
        """Prepares the copies of the case."""
        self.member.connect()
        return {}

    def spoil_all(self) -> dict[str, Any]:
        """Spoils what a round writes."""
        self.member.spoil()
        return {}

    def right(self) -> dict[str, Any]:
        """Compares what was written."""
        return {"right": self.member.right()}

    def run(self, variant: str, rounds: int) -> dict[str, Any]:
        """Does some rounds of the work."""
        self.member.run(variant, rounds)
        return {}


if __name__ == "__main__":
    serve(sys.stdin, sys.stdout, MemberService)
