"""The halo exchanges that are measured: grids cut in two, with fields of known content."""

from __future__ import annotations

import numpy as np

from .harness import Array

__all__ = ["CASES", "fields_of_block", "inside_of"]

Case = tuple[tuple[int, ...], int, tuple[int, ...]]

CASES: dict[str, Case] = {
    "520x350x60, 3 fields, width 2": ((520, 350, 60), 3, (2, 2, 0)),
    "128x64x64, 3 fields, width 1": ((128, 64, 64), 3, (1, 1, 1)),
    "128x64x64, 1 field, width 1": ((128, 64, 64), 1, (1, 1, 1)),
}
"""Cells of the whole grid, which is cut in its first dimension; fields; widths of ghost cells."""


def fields_of_block(
    cells: tuple[int, ...], fields: int, widths: tuple[int, ...], blocks: int, block: int
) -> list[Array]:
    """Returns the fields of one block of a periodic grid, with their ghost cells filled.

    Args:
        cells: Cells of the whole grid.
        fields: Number of fields; no two cells of any of them are equal.
        widths: Ghost cells on both sides of each dimension.
        blocks: Number of blocks into which the first dimension is cut.
        block: Number of the block.
    """
    own = (cells[0] // blocks, *cells[1:])
    begins = (own[0] * block, *[0] * (len(cells) - 1))
    index = [
        (np.arange(extent + 2 * width) + begin - width) % whole
        for extent, begin, width, whole in zip(own, begins, widths, cells, strict=True)
    ]
    number = np.ravel_multi_index(np.ix_(*index), cells).astype(float)
    return [number + 0.25 * k for k in range(fields)]


def inside_of(widths: tuple[int, ...]) -> tuple[slice, ...]:
    """Returns where a block's own cells lie, between its ghost cells."""
    return tuple(slice(width, -width if width else None) for width in widths)
