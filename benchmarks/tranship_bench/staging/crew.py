"""The writers and readers of a staging benchmark, each a process of its own."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any

from tranship.closing import Closing
from tranship.errors import Error

from ..processes.peer import Child
from .worker import Worker


def together(
    members: Sequence[Child], do: str, each: Sequence[dict[str, Any]] = (), **common: Any
) -> list[Any]:
    """Sends a request to all at once, with `each` member's arguments; returns the results."""
    own = each or [{}] * len(members)
    for member, arguments in zip(members, own, strict=True):
        member.send(do, **common, **arguments)
    return [member.answer() for member in members]


class Crew(Closing):
    """Processes that are connected to the servers of a contact file.

    Attributes:
        workers: The processes.
        contacts: The contact of each process's engine.

    Raises:
        Error: One of the processes has failed.
    """

    def __init__(self, count: int, contact: str, kind: type[Worker] = Worker) -> None:
        names = [f"process {k}" for k in range(count)]
        with ExitStack() as stack:
            self.workers = [stack.enter_context(Child(kind, name=name)) for name in names]
            self.contacts = [worker.contact for worker in self.workers]
            together(self.workers, "join", [{"name": name} for name in names], contact=contact)
            self._open = stack.pop_all()

    def close(self) -> None:
        """Disconnects and ends the processes."""
        with self._open:
            for worker in self.workers:
                with suppress(Error):  # a process that failed has reported it before
                    worker.ask("leave")
