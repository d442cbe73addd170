"""Following the versions of a variable, one after another."""

from __future__ import annotations

import sys
import warnings
from typing import Literal, SupportsIndex

from ..arguments import shown
from ..arrays.dtypes import dtype_of
from ..errors import InvalidArgument, NotFound, SkippedVersionWarning
from .arguments import corner_of, whole_version
from .reader import FIRST, Corner, Reader, VariableBox

__all__ = ["Gaps", "VersionFollower", "warn_skipped"]

Gaps = Literal["skip", "error"]
"""What happens when a version will never be whole."""
PACKAGE = __name__.partition(".")[0]


class VersionFollower:
    """Waits for one version of a variable after another, in rising order.

    Args:
        staging: Client that is used.
        name: Variable name.
        after: Version above which to begin; None: the lowest that is held comes first.
        lower: First indices of the box; None for both corners: each version's own bounds.
        upper: One past its last indices.
        gaps: What `report` does.

    Attributes:
        version: The last version that came, or was passed by.

    Raises:
        InvalidArgument: An argument has a wrong type.
    """

    def __init__(
        self,
        staging: Reader,
        name: str,
        after: SupportsIndex | None,
        lower: Corner | None,
        upper: Corner | None,
        gaps: Gaps,
    ) -> None:
        if gaps not in ("skip", "error"):
            raise InvalidArgument(f"gaps={shown(gaps)} is no choice", 'give "skip" or "error"')
        self.version = FIRST if after is None else whole_version(after)
        self._staging = staging
        self._name = name
        self._lower = None if lower is None else corner_of("lower", lower)
        self._upper = None if upper is None else corner_of("upper", upper)
        self._gaps = gaps
        self._box: VariableBox | None = None
        self._skipped: list[tuple[int, str]] = []

    def wait(self, timeout: float) -> VariableBox | None:
        """Waits for the next version, and returns its box. Call `report` afterwards.

        Returns:
            None if versions were passed by, and nothing is known of what comes after them.

        Raises:
            Timeout: No version came for so many seconds.
            Closed: All processes that put to the variable have ended.
            PeerLost: One of them has died, or a server has exited.
        """
        core = self._staging._core
        if self._lower is None and self._upper is None:
            number, first, last, kind, skipped = core.find_version(
                self._name, "next", self.version, timeout
            )
            found = VariableBox(tuple(first), tuple(last), dtype_of(kind)) if kind else None
        else:
            if self._box is None:
                self._box = self._staging._box(self._name, self._lower, self._upper, timeout)
            found = self._box
            lower, upper = list(found.lower), list(found.upper)
            number, skipped = core.follow(self._name, self.version, lower, upper, timeout)
        self._skipped += skipped
        if number is None:
            self.version = skipped[-1][0]
            return None
        self.version = number
        return found

    def report(self) -> None:
        """Warns of the versions that were passed by, or raises for the first of them.

        Raises:
            NotFound: A version will never be whole, and ``gaps="error"``.
        """
        skipped, self._skipped = self._skipped, []
        warn_skipped("version", [why for _, why in skipped], self._gaps)


def warn_skipped(what: str, reasons: list[str], gaps: Gaps) -> None:
    """Warns of versions or steps that were passed by, or raises for the first of them.

    Raises:
        NotFound: There is one, and ``gaps="error"``.
    """
    for why in reasons:
        if gaps == "error":
            raise NotFound(
                f"a {what} will never be whole: {why}",
                'follow with gaps="skip", or have each process that has nothing say so',
            )
        text = f"a {what} is passed by, since it will never be whole: {why}"
        warnings.warn(text, SkippedVersionWarning, stacklevel=outside())


def outside() -> int:
    """Returns how many frames the caller of the package is away from the caller of this."""
    level = 1
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith(PACKAGE):
        frame = frame.f_back
        level += 1
    return level
