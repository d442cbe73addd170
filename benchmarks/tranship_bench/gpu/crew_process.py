"""One of the processes, but the first, that do the same work in step: see `gpu_crew`."""

from __future__ import annotations

import sys
from typing import Any

from ..halo.gpu import HaloMember
from ..messages.gpu_messages import MessageMember
from ..processes.child import Service, serve
from .crew import Member
from .lanes_processes import LaneMember

KINDS: dict[str, type[Member]] = {
    "halo": HaloMember,
    "lanes": LaneMember,
    "messages": MessageMember,
}


class MemberService(Service):
    """The requests that a process carries out."""

    member: Member

    def join(self, kind: str, rank: int, contacts: list[str], path: str) -> dict[str, Any]:
        """Makes this process's share of a kind of work."""
        self.member = KINDS[kind](self.engine, rank, contacts, path)
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
