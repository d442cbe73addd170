"""Grids of equal boxes: the decomposition of a domain among writers, and another among readers."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

Corner = tuple[int, ...]


@dataclass(frozen=True)
class Box:
    """A half-open box of cells."""

    lower: Corner
    upper: Corner

    @property
    def shape(self) -> Corner:
        """Returns the extents."""
        return tuple(b - a for a, b in zip(self.lower, self.upper, strict=True))

    @property
    def cells(self) -> int:
        """Returns the number of cells."""
        return math.prod(self.shape)

    @property
    def corners(self) -> tuple[list[int], list[int]]:
        """Returns the two corners as lists, the form that the core takes."""
        return list(self.lower), list(self.upper)

    def common(self, other: Box) -> Box | None:
        """Returns the box of the cells that both boxes contain; None if there is no such cell."""
        lower = tuple(max(a, b) for a, b in zip(self.lower, other.lower, strict=True))
        upper = tuple(min(a, b) for a, b in zip(self.upper, other.upper, strict=True))
        shares = all(a < b for a, b in zip(lower, upper, strict=True))
        return Box(lower, upper) if shares else None


@dataclass(frozen=True)
class Grid:
    """A domain of `cells` cut into `parts` along each dimension; ranks count the last fastest."""

    cells: Corner
    parts: Corner

    @property
    def count(self) -> int:
        """Returns the number of boxes."""
        return math.prod(self.parts)

    def cut(self, dimension: int, number: int) -> int:
        """Returns the index at which part `number` of a dimension begins."""
        return number * self.cells[dimension] // self.parts[dimension]

    def box(self, rank: int) -> Box:
        """Returns the box of one process."""
        return self._box_at(tuple(int(k) for k in np.unravel_index(rank, self.parts)))

    def boxes(self) -> list[Box]:
        """Returns all boxes, by rank."""
        return [self._box_at(at) for at in itertools.product(*map(range, self.parts))]

    def meeting(self, box: Box) -> list[tuple[int, Box]]:
        """Returns the ranks whose boxes share cells with `box`, each with the shared box."""
        ranges = [
            self._parts_between(k, *pair) for k, pair in enumerate(zip(*box.corners, strict=True))
        ]
        found = []
        for at in itertools.product(*ranges):
            common = self._box_at(at).common(box)
            if common is not None:
                found.append((int(np.ravel_multi_index(at, self.parts)), common))
        return found

    def otherwise(self) -> Grid:
        """Returns a grid of as many boxes, finer along the first dimension, coarser along the last.

        Each box meets several boxes of this grid, and takes whole slabs of each; if the last
        dimension is not cut, the two grids are equal.
        """
        factor = next(iter(prime_factors(self.parts[-1])), 1)
        first, *middle, last = self.parts
        return Grid(self.cells, (first * factor, *middle, last // factor))

    def _parts_between(self, dimension: int, low: int, high: int) -> list[int]:
        """Returns the parts of a dimension that hold an index from `low` to below `high`."""
        number = low * self.parts[dimension] // self.cells[dimension]
        # Cuts are rounded down: the index may lie in the next part.
        while self.cut(dimension, number + 1) <= low:
            number += 1
        numbers = [number]
        while self.cut(dimension, numbers[-1] + 1) < high:
            numbers.append(numbers[-1] + 1)
        return numbers

    def _box_at(self, at: Corner) -> Box:
        lower = tuple(self.cut(k, n) for k, n in enumerate(at))
        upper = tuple(self.cut(k, n + 1) for k, n in enumerate(at))
        return Box(lower, upper)


def prime_factors(count: int) -> list[int]:
    """Returns the prime factors in ascending order."""
    factors = []
    divisor = 2
    while count > 1:
        while count % divisor == 0:
            factors.append(divisor)
            count //= divisor
        divisor += 1
    return factors


def cube_of(count: int, dimensions: int = 3) -> Corner:
    """Returns factors of `count` that are as near to a cube as possible, the largest first."""
    sides = [1] * dimensions
    for factor in reversed(prime_factors(count)):
        sides[sides.index(min(sides))] *= factor
    return tuple(sorted(sides, reverse=True))
