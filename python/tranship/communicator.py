"""Processes that already know each other, such as those of an MPI program."""

from __future__ import annotations

from typing import Any, Protocol

from . import errors
from .errors import Error

__all__ = ["Communicator", "hear_first", "tell_others"]


class Communicator(Protocol):
    """What is used of one: mpi4py's have it, and mpi4py is not needed."""

    def Get_rank(self) -> int:  # noqa: N802
        """Which of its processes this is."""
        ...

    def Get_size(self) -> int:  # noqa: N802
        """How many there are."""
        ...

    def bcast(self, obj: Any, root: int = 0) -> Any:
        """What `root` gave, on all."""
        ...

    def barrier(self) -> None:
        """Returns when all have come."""
        ...


def tell_others(comm: Communicator | None, contact: str, failure: Exception | None = None) -> None:
    """The first process says what it has found, or why it has not; others say nothing."""
    if comm is None or comm.Get_rank() > 0:
        return
    if failure is None:
        comm.bcast((contact, "", ""), root=0)
        return
    code = failure.code if isinstance(failure, Error) else Error.code
    comm.bcast(("", code, f"rank 0 of the communicator: {failure}"), root=0)


def hear_first(comm: Communicator) -> str:
    """What the first process has found.

    Raises:
        Error: what it failed with.
    """
    contact, code, message = comm.bcast(None, root=0)
    if code:
        raise errors.make(code, message)
    return str(contact)
