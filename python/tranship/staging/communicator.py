"""Processes that open their clients together, such as those of an MPI program."""

from __future__ import annotations

from typing import Any, Protocol

from .. import errors
from ..errors import Error

__all__ = ["Communicator", "agree_on_failure", "broadcast_contact", "receive_contact"]


class Communicator(Protocol):
    """The methods of a communicator that are used: mpi4py's have them, and it is not needed."""

    def Get_rank(self) -> int:  # noqa: N802
        """Returns the rank of this process."""
        ...

    def Get_size(self) -> int:  # noqa: N802
        """Returns the number of processes."""
        ...

    def bcast(self, obj: Any, root: int = 0) -> Any:
        """Returns on all processes what `root` gave."""
        ...

    def allgather(self, sendobj: Any) -> list[Any]:
        """Returns on all processes what each of them gave, by rank."""
        ...

    def barrier(self) -> None:
        """Returns when all processes have called it."""
        ...


Outcome = tuple[str, str, str]
"""Code, message and hint of a failure; empty without one."""


def outcome_of(comm: Communicator, failure: BaseException | None) -> Outcome:
    """Returns what other processes receive about this one."""
    if failure is None:
        return "", "", ""
    rank = f"rank {comm.Get_rank()} of the communicator"
    if isinstance(failure, Error):
        return failure.code, f"{rank}: {failure.message}", failure.hint
    return Error.code, f"{rank}: {str(failure) or type(failure).__name__}", ""


def broadcast_contact(
    comm: Communicator | None, contact: str, failure: BaseException | None
) -> None:
    """Sends the first process's contact, or its failure, to all; other processes send nothing."""
    if comm is not None and comm.Get_rank() == 0:
        comm.bcast((contact, *outcome_of(comm, failure)), root=0)


def receive_contact(comm: Communicator) -> str:
    """Returns the contact that the first process has found.

    Raises:
        Error: The failure of the first process.
    """
    contact, code, message, hint = comm.bcast(None, root=0)
    if code:
        raise errors.make(code, message, hint)
    return str(contact)


def agree_on_failure(comm: Communicator | None, failure: BaseException | None) -> None:
    """Exchanges failures, so that all processes go on, or none. The first process does not take
    part after a failure of its own, which all have received.

    Raises:
        BaseException: The failure of this process.
        Error: The failure of another one.
    """
    if comm is not None and not (failure is not None and comm.Get_rank() == 0):
        for code, message, hint in comm.allgather(outcome_of(comm, failure)):
            if code and failure is None:
                raise errors.make(code, message, hint)
    if failure is not None:
        raise failure
