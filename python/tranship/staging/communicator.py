"""Processes that already know each other, such as those of an MPI program."""

from __future__ import annotations

from typing import Any, Protocol

from .. import errors
from ..errors import Error

__all__ = ["Communicator", "agree", "hear_first", "tell_others"]


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

    def allgather(self, sendobj: Any) -> list[Any]:
        """What each of them gave, by rank, on all."""
        ...

    def barrier(self) -> None:
        """Returns when all have come."""
        ...


Outcome = tuple[str, str]
"""The code and the text of a failure; empty: there is none."""


def outcome_of(comm: Communicator, failure: BaseException | None) -> Outcome:
    """What others are told of this process."""
    if failure is None:
        return "", ""
    code = failure.code if isinstance(failure, Error) else Error.code
    text = str(failure) or type(failure).__name__
    return code, f"rank {comm.Get_rank()} of the communicator: {text}"


def tell_others(comm: Communicator | None, contact: str, failure: BaseException | None) -> None:
    """The first process says what it has found, or why it has not; others say nothing."""
    if comm is not None and comm.Get_rank() == 0:
        comm.bcast((contact, *outcome_of(comm, failure)), root=0)


def hear_first(comm: Communicator) -> str:
    """What the first process has found.

    Raises:
        Error: what it failed with.
    """
    contact, code, message = comm.bcast(None, root=0)
    if code:
        raise errors.make(code, message)
    return str(contact)


def agree(comm: Communicator | None, failure: BaseException | None) -> None:
    """All go on, or none: each says whether it failed. Not after a failure of the first one, of
    which all have heard.

    Raises:
        BaseException: this process's failure. Error: another one's.
    """
    if comm is not None and not (failure is not None and comm.Get_rank() == 0):
        for code, message in comm.allgather(outcome_of(comm, failure)):
            if code and failure is None:
                raise errors.make(code, message)
    if failure is not None:
        raise failure
