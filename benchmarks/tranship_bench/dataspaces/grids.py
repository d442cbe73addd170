"""Grids of equal boxes: how writers cut a domain, and how readers cut the same one otherwise."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Box", "Grid", "cube_of", "prime_factors"]

Corner = tuple[int, ...]


@dataclass(frozen=True)
class Box:
    """A half-open box of cells."""

    lower: Corner
    upper: Corner

    @property
    def shape(self) -> Corner:
        """Its extents."""
        return tuple(b - a for a, b in zip(self.lower, self.upper, strict=True))

    @property
    def cells(self) -> int:
        """How many there are."""
        return math.prod(self.shape)

    @property
    def corners(self) -> tuple[list[int], list[int]]:
        """As the core takes it."""
        return list(self.lower), list(self.upper)

    def common(self, other: Box) -> Box | None:
        """What both share; nothing if they share no cell."""
        lower = tuple(max(a, b) for a, b in zip(self.lower, other.lower, strict=True))
        upper = tuple(min(a, b) for a, b in zip(self.upper, other.upper, strict=True))
        shares = all(a < b for a, b in zip(lower, upper, strict=True))
        return Box(lower, upper) if shares else None

    def slices(self, origin: Corner | None = None) -> tuple[slice, ...]:
        """As NumPy takes it, counted from `origin`."""
        start = origin or (0,) * len(self.lower)
        bounds = zip(self.lower, self.upper, start, strict=True)
        return tuple(slice(a - o, b - o) for a, b, o in bounds)


@dataclass(frozen=True)
class Grid:
    """A domain of `cells` cut into `parts` along each dimension; ranks count the last fastest."""

    cells: Corner
    parts: Corner

    @property
    def count(self) -> int:
        """How many boxes."""
        return math.prod(self.parts)

    def cut(self, dimension: int, number: int) -> int:
        """Where part `number` of a dimension begins."""
        return number * self.cells[dimension] // self.parts[dimension]

    def box(self, rank: int) -> Box:
        """The box of one process."""
        return self._box_at(tuple(self._place(rank)))

    def boxes(self) -> list[Box]:
        """All of them, by rank."""
        return [self._box_at(at) for at in itertools.product(*map(range, self.parts))]

    def meeting(self, box: Box) -> list[tuple[int, Box]]:
        """The ranks whose boxes share cells with `box`, and what they share."""
        ranges = [
            self._parts_between(k, *pair) for k, pair in enumerate(zip(*box.corners, strict=True))
        ]
        found = []
        for at in itertools.product(*ranges):
            common = self._box_at(at).common(box)
            if common is not None:
                found.append((self._rank(at), common))
        return found

    def otherwise(self) -> Grid:
        """As many boxes, but cut finer along the first dimension and coarser along the last.

        Each of them meets several of this grid's, and takes whole slabs of each; if the last
        dimension is not cut, both are the same.
        """
        factor = next(iter(prime_factors(self.parts[-1])), 1)
        first, *middle, last = self.parts
        return Grid(self.cells, (first * factor, *middle, last // factor))

    def _parts_between(self, dimension: int, low: int, high: int) -> list[int]:
        """Those that hold an index from `low` to below `high`."""
        number = low * self.parts[dimension] // self.cells[dimension]
        # Cuts are rounded down: the index may lie in the next part.
        while self.cut(dimension, number + 1) <= low:
            number += 1
        numbers = [number]
        while self.cut(dimension, numbers[-1] + 1) < high:
            numbers.append(numbers[-1] + 1)
        return numbers

    def _place(self, rank: int) -> Iterator[int]:
        for k in range(len(self.parts)):
            yield rank // math.prod(self.parts[k + 1 :]) % self.parts[k]

    def _rank(self, at: Corner) -> int:
        rank = 0
        for number, parts in zip(at, self.parts, strict=True):
            rank = rank * parts + number
        return rank

    def _box_at(self, at: Corner) -> Box:
        lower = tuple(self.cut(k, n) for k, n in enumerate(at))
        upper = tuple(self.cut(k, n + 1) for k, n in enumerate(at))
        return Box(lower, upper)


def prime_factors(count: int) -> list[int]:
    """In rising order."""
    factors = []
    divisor = 2
    while count > 1:
        while count % divisor == 0:
            factors.append(divisor)
            count //= divisor
        divisor += 1
    return factors


def cube_of(count: int, dimensions: int = 3) -> Corner:
    """`count` as a product that is as near to a cube as its factors allow, the largest first."""
    sides = [1] * dimensions
    for factor in reversed(prime_factors(count)):
        sides[sides.index(min(sides))] *= factor
    return tuple(sorted(sides, reverse=True))
