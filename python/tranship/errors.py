"""Exceptions. Each is an `Error` with a `code`, a `message` and a `hint`."""

from __future__ import annotations

__all__ = [
    "Cancelled",
    "Closed",
    "Error",
    "InvalidArgument",
    "NoRoute",
    "NotFound",
    "OutOfRange",
    "PeerLost",
    "SkippedVersionWarning",
    "Timeout",
    "make",
]


class SkippedVersionWarning(UserWarning):
    """A version of a staged variable will never be whole, and was passed by; the text names it.

    `warnings.filterwarnings` shows, hides or raises it.
    """


class Error(RuntimeError):
    """A copy, or another call, failed.

    Attributes:
        code: Kind of failure, such as ``"io"`` or ``"out_of_memory"``.
        message: What went wrong, with the value and the name of the argument.
        hint: What to do about it; empty if there is nothing to say.
    """

    code = "error"

    def __init__(self, message: str = "", hint: str = "") -> None:
        RuntimeError.__init__(self, *((message, hint) if hint else (message,)))
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class InvalidArgument(Error, ValueError):
    """An argument cannot be used; no data was moved, but for earlier pairs of `Engine.copy_all`."""

    code = "invalid_argument"


class OutOfRange(InvalidArgument, IndexError):
    """An index or a region lies outside its array, or a file is too short."""

    code = "out_of_range"


class NotFound(Error, LookupError):
    """There is no such file, name or exported array."""

    code = "not_found"


class NoRoute(Error):
    """No chain of channels joins the two memories."""

    code = "no_route"


class PeerLost(Error, ConnectionError):
    """The other process exited or cannot be reached."""

    code = "peer_lost"


class Timeout(Error, TimeoutError):
    """A wait ended before the copy did; the copy continues."""

    code = "timeout"


class Cancelled(Error):
    """The copy was cancelled; bytes that were written stay written."""

    code = "cancelled"


class Closed(Error):
    """The engine was closed, or belongs to the parent of this forked process."""

    code = "closed"


_CLASSES: dict[str, type[Error]] = {
    "invalid_argument": InvalidArgument,
    "out_of_range": OutOfRange,
    "not_found": NotFound,
    "no_route": NoRoute,
    "peer_lost": PeerLost,
    "timeout": Timeout,
    "cancelled": Cancelled,
    "closed": Closed,
}


def make(code: str, message: str, hint: str = "") -> Error:
    """Returns the exception for a code of the core."""
    exception = _CLASSES.get(code, Error)(message, hint)
    exception.code = code
    return exception
