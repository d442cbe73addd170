"""Numbers that the servers reduce where they lie: a few numbers travel instead of a box.

What is computed: sums, bounds and counts of boxes, histograms, and the means of blocks. Integers
are summed modulo 2^64, as NumPy does; real numbers as float64, within the error of NumPy's pairwise
summation or less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex, cast

import numpy as np
import numpy.typing as npt

from ..arguments import check_whole, guard_methods, shown
from ..errors import InvalidArgument
from .arguments import is_empty, variable_name, which_version
from .gets import Gets
from .reader import Corner, Version

__all__ = ["BINS_MAX", "Reductions", "Summary"]

BINS_MAX = 384
"""Most bins of a histogram."""

Number = int | float | complex


@dataclass(frozen=True)
class Summary:
    """What numbers of a box come to.

    Attributes:
        version: The version that was read.
        count: How many there are.
        sum: Their sum; of integers modulo 2^64.
        min: The least; NaN if one is. None without numbers, and of complex ones.
        max: The greatest, the same.
    """

    version: int
    count: int
    sum: Number
    min: int | float | None
    max: int | float | None

    @property
    def mean(self) -> float | complex:
        """Their mean; NaN without numbers."""
        return self.sum / self.count if self.count else math.nan


@guard_methods
class Reductions(Gets):
    """Calls of a client that have the servers compute."""

    def summary(
        self,
        name: str,
        version: Version = "latest",
        lower: Corner | None = None,
        upper: Corner | None = None,
        *,
        timeout: float | None = None,
    ) -> Summary:
        """Returns the count, sum, mean, least and greatest of the numbers of a box.

        The servers compute them. Which version and box is meant, what is waited for, and the errors
        are as of `get`.

        Args:
            name: Variable name.
            version: A version, or "latest".
            lower: First indices of the box; None for both corners: the whole version.
            upper: One past its last indices.
            timeout: Seconds.

        Raises:
            InvalidArgument: The elements are no numbers.
            Error: As of `get`; also if a server's memory is a GPU's, or a part of the box
                is offered.
        """
        which, number, first, last, seconds = self._box_for(name, version, lower, upper, timeout)
        return self._summary(name, which, number, first, last, seconds)

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
        """Counts how many numbers of a box lie in each bin, as `numpy.histogram` does.

        The servers count. A number on the edge of two bins lies in the upper one; the last bin has
        both of its edges. Others, and NaN, are not counted.

        Args:
            name: Variable name.
            bins: How many bins of one width there are, or their edges, rising.
            version: A version, or "latest".
            lower: First indices of the box; None for both corners: the whole version.
            upper: One past its last indices.
            range: First and last edge; None: the least and the greatest number of the box.
            timeout: Seconds; without a range for each of two questions.

        Returns:
            The counts, and the edges, of which there is one more.

        Raises:
            InvalidArgument: The edges do not rise, or there are more than 384 bins; the numbers are
                complex, or none; or without a range one of them is NaN or infinite.
            Error: As of `summary`.
        """
        which, number, first, last, seconds = self._box_for(name, version, lower, upper, timeout)
        edges: npt.NDArray[np.float64]
        if np.ndim(cast(Any, bins)) == 0:
            count = check_whole("bins", bins, least=1)
            check_bins(count)
            if range is None:
                found = self._summary(name, which, number, first, last, seconds)
                which, number = "exact", found.version
                low, high = (0.0, 1.0) if found.count == 0 else (found.min, found.max)
            else:
                low, high = range
            edges = even_edges(low, high, count)
        else:
            edges = edges_from(bins)
        if is_empty(first, last):
            return np.zeros(edges.size - 1, np.int64), edges
        reduced = self._core.reduce(
            name, which, number, first, last, "histogram", edges.tolist(), [], [], seconds
        )
        return np.array(reduced["counts"], np.int64), edges

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
        """Returns the mean of each block of a box: a coarser box.

        The servers sum. Blocks begin at the box's first indices; those at its end have the numbers
        that are left, and the mean of these.

        Args:
            name: Variable name.
            factors: Extents of a block, one for each dimension, from 1 on.
            version: A version, or "latest".
            lower: First indices of the box; None for both corners: the whole version.
            upper: One past its last indices.
            timeout: Seconds.

        Returns:
            An array of float64 with as many indices in each dimension as there are blocks.

        Raises:
            InvalidArgument: There are not as many factors as dimensions, one is below 1, or the
                numbers are complex, or none.
            Error: As of `summary`.
        """
        blocks = [check_whole("factors", factor, least=1) for factor in factors]
        which, number, first, last, seconds = self._box_for(name, version, lower, upper, timeout)
        if len(blocks) != len(first):
            raise InvalidArgument(
                f'factors={shown(factors)} has {len(blocks)} extents, and "{name}" has '
                f"{len(first)} dimensions",
                "give one for each dimension",
            )
        # A block is no longer than the box, so that sums of indices fit 64 bits.
        ends = zip(blocks, first, last, strict=True)
        blocks = [min(block, max(b - a, 1)) for block, a, b in ends]
        axes = list(zip(first, last, blocks, strict=True))
        shape = tuple(-((a - b) // block) for a, b, block in axes)
        if is_empty(first, last):
            return np.empty(shape)
        reduced = self._core.reduce(
            name, which, number, first, last, "block sums", [], first, blocks, seconds
        )
        means = np.frombuffer(reduced["sums"], np.float64).reshape(shape).copy()
        for axis, (a, b, block) in enumerate(axes):
            counts = np.full(shape[axis], float(block))
            counts[-1] = b - a - block * (shape[axis] - 1)
            means /= counts.reshape([-1] + [1] * (len(shape) - axis - 1))
        return means

    def _box_for(
        self,
        name: str,
        version: Version,
        lower: Corner | None,
        upper: Corner | None,
        timeout: float | None,
    ) -> tuple[str, int, list[int], list[int], float]:
        """Returns which version is meant, its number, the box, and the seconds that are left."""
        which, number = which_version(version)
        seconds = self._await_variable(variable_name(name), timeout)
        if lower is None and upper is None:
            number, box = self._version_box(name, which, number, seconds)
            which = "exact"
        else:
            found = self._describe(name, lower, upper, seconds)
            assert found is not None, "a wait has an end"
            box = found
            if which == "latest" and is_empty(box.lower, box.upper):
                number, _ = self._version_box(name, which, number, seconds)
                which = "exact"
        return which, number, list(box.lower), list(box.upper), seconds

    def _summary(
        self,
        name: str,
        which: str,
        number: int,
        first: Sequence[int],
        last: Sequence[int],
        seconds: float,
    ) -> Summary:
        if is_empty(first, last):
            return Summary(number, 0, 0, None, None)
        reduced = self._core.reduce(
            name, which, number, list(first), list(last), "summary", [], [], [], seconds
        )
        found: dict[str, Any] = dict(reduced)
        return Summary(
            found["version"], found["count"], found["sum"], found["least"], found["greatest"]
        )


def check_bins(count: int) -> None:
    """Checks how many bins a histogram has.

    Raises:
        InvalidArgument: None, or more than `BINS_MAX`.
    """
    if not 1 <= count <= BINS_MAX:
        raise InvalidArgument(
            f"a histogram of {count} bins", f"give from 1 to {BINS_MAX} bins, or get the box"
        )


def even_edges(low: Any, high: Any, count: int) -> npt.NDArray[np.float64]:
    """Returns the edges of bins of one width, as NumPy chooses them.

    Raises:
        InvalidArgument: The range is none.
    """
    try:
        first, last = float(low), float(high)
    except (TypeError, ValueError):
        first, last = math.nan, math.nan
    if not (math.isfinite(first) and math.isfinite(last) and first <= last):
        raise InvalidArgument(
            f"there are no bins from {shown(low)} to {shown(high)}",
            "give range= two finite numbers that rise",
        )
    if first == last:
        first, last = first - 0.5, last + 0.5
    edges = np.linspace(first, last, count + 1)
    if not bool((np.diff(edges) > 0).all()):
        raise InvalidArgument(
            f"float64 has no {count} bins from {shown(low)} to {shown(high)}",
            "give fewer bins, or a wider range=",
        )
    return edges


def edges_from(bins: Any) -> npt.NDArray[np.float64]:
    """Returns the edges that a caller has given.

    Raises:
        InvalidArgument: They are no numbers, do not rise, or there are too many.
    """
    try:
        edges = np.asarray(bins, np.float64)
    except (TypeError, ValueError):
        edges = np.empty((0, 0))
    rises = edges.ndim == 1 and bool((np.diff(edges) >= 0).all())
    if not rises or not bool(np.isfinite(edges).all()):
        raise InvalidArgument(
            f"bins={shown(bins)} are no edges that rise",
            "give a number of bins, or a list of finite numbers that rise",
        )
    check_bins(edges.size - 1)
    return edges
