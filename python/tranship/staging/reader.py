"""The part of a client that variables, subscriptions and lazy arrays use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, SupportsIndex

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import InvalidArgument
from .arguments import check_box

if TYPE_CHECKING:
    from .reductions import Summary

__all__ = ["FIRST", "GET_S", "Corner", "Info", "Lower", "Reader", "VariableBox", "Version"]

Version = SupportsIndex | Literal["latest"]
Corner = Sequence[SupportsIndex]
"""Indices of a corner of a box, one for each dimension."""
Lower = Corner | Mapping[str, SupportsIndex]
"""The lower corner of an array with names of dimensions: also by name."""
Info = dict[str, Any]

GET_S = 30.0
"""Seconds that a get without a timeout waits."""
FIRST = -(2**63)
"""A number below every version."""


@dataclass(frozen=True)
class VariableBox:
    """A box of a variable, and the type of its elements."""

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    dtype: np.dtype[Any]

    def empty(self) -> npt.NDArray[Any]:
        """Returns an array for the box.

        Raises:
            InvalidArgument: The box has bounds that do not fit each other, or no memory.
        """
        check_box(self.lower, self.upper)
        shape = tuple(b - a for a, b in zip(self.lower, self.upper, strict=True))
        try:
            return np.empty(shape, self.dtype)
        except (MemoryError, ValueError) as error:
            raise InvalidArgument(
                f"there is no memory for an array of the shape {shape} ({error})",
                "get a smaller box, with lower= and upper=",
            ) from None


class Reader(Protocol):
    """A client that is read through."""

    _core: _core.StagingClientCore

    @property
    def closed(self) -> bool:
        """Whether the client is closed."""
        ...

    @property
    def forked(self) -> bool:
        """Whether this process is a fork of the one that opened the client."""
        ...

    def ls(self) -> list[Info]:
        """Returns a mapping for each variable; see `Staging.ls`."""
        ...

    def get(
        self,
        name: str,
        version: Version,
        lower: Corner | None = None,
        upper: Corner | None = None,
        out: Any = None,
        *,
        timeout: float | None = None,
        copy: bool | None = True,
    ) -> Any:
        """Returns a box of a variable; see `Staging.get`."""
        ...

    def summary(
        self,
        name: str,
        version: Version = "latest",
        lower: Corner | None = None,
        upper: Corner | None = None,
        *,
        timeout: float | None = None,
    ) -> Summary:
        """Returns what the numbers of a box come to; see `Staging.summary`."""
        ...

    def histogram(
        self,
        name: str,
        bins: SupportsIndex | Sequence[float] = 10,
        version: Version = "latest",
        lower: Corner | None = None,
        upper: Corner | None = None,
        *,
        range: tuple[float, float] | None = None,
        timeout: float | None = None,
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Counts the numbers of a box in bins; see `Staging.histogram`."""
        ...

    def coarsen(
        self,
        name: str,
        factors: Sequence[SupportsIndex],
        version: Version = "latest",
        lower: Corner | None = None,
        upper: Corner | None = None,
        *,
        timeout: float | None = None,
    ) -> npt.NDArray[np.float64]:
        """Returns the means of a box's blocks; see `Staging.coarsen`."""
        ...

    def _get(
        self,
        name: str,
        version: Version,
        lower: Corner | None,
        upper: Corner | None,
        out: Any,
        seconds: float,
        waits: bool = True,
    ) -> Any: ...

    def _box(
        self, name: str, lower: Corner | None, upper: Corner | None, timeout: float | None
    ) -> VariableBox: ...

    def _version_box(
        self, name: str, which: str, number: int, timeout: float
    ) -> tuple[int, VariableBox]: ...
