"""Notices: what other processes say once they have copied to or from arrays of this one."""

from __future__ import annotations

from typing import NamedTuple

from . import _core
from .arguments import check_seconds
from .errors import InvalidArgument

__all__ = ["Notice", "check_accepts", "take_notices"]


class Notice(NamedTuple):
    """A copy of another process to or from an array that this process exports.

    All its bytes were written, or read, before the notice arrived.
    """

    name: str
    """What the other process gave as ``notify=``."""
    array: str
    """Name of the exported array; of several that one call copied, the first."""
    written: bool
    """True: the other process has written the array. False: it has read it."""
    sender: str
    """The other process: its number, and its machine."""


def check_accepts(core: _core.EngineCore, accepts: bool, purpose: str) -> None:
    """Checks that processes can connect to an engine.

    Args:
        core: The engine, which may be closed: then its own calls say so.
        accepts: Whether it was opened with a contact.
        purpose: What no process can do otherwise, for the message.

    Raises:
        InvalidArgument: The engine was opened without a contact.
    """
    if not accepts and not core.closed:
        raise InvalidArgument(
            f"this engine has no contact, so that no process {purpose}",
            "open it with contact=FILE, or with contact=True",
        )


def take_notices(core: _core.EngineCore, peer: _core.PeerId | None, timeout: float) -> list[Notice]:
    """Returns the notices of a peer's process, or of all, as `Engine.notices` does."""
    taken = _core.take_notices(core, peer, check_seconds("timeout", timeout))
    return [Notice(*fields) for fields in taken]
