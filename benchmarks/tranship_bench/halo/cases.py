"""The halo exchanges that are measured: grids cut in blocks, with fields of known content."""

from __future__ import annotations

import numpy as np

from ..harness import Array

Case = tuple[tuple[int, ...], int, tuple[int, ...]]

CASES: dict[str, Case] = {
    "520x350x60, 3 fields, width 2": ((520, 350, 60), 3, (2, 2, 0)),
    "128x64x64, 3 fields, width 1": ((128, 64, 64), 3, (1, 1, 1)),
    "128x64x64, 1 field, width 1": ((128, 64, 64), 1, (1, 1, 1)),
}
"""Cells of the whole grid, which is cut in its first dimensions; fields; widths of ghost cells."""


def fields_of_block(
    cells: tuple[int, ...],
    fields: int,
    widths: tuple[int, ...],
    grid: tuple[int, ...],
    block: tuple[int, ...],
) -> list[Array]:
    """Returns the fields of one block of a periodic grid, with their ghost cells filled.

    Args:
        cells: Cells of the whole grid.
        fields: Number of fields; no two cells of any of them are equal.
        widths: Ghost cells on both sides of each dimension.
        grid: Number of blocks into which each dimension is cut.
        block: Place of the block among them.
    """
    own = [whole // parts for whole, parts in zip(cells, grid, strict=True)]
    index = [
        (np.arange(extent + 2 * width) + extent * place - width) % whole
        for extent, place, width, whole in zip(own, block, widths, cells, strict=True)
    ]
    number = np.ravel_multi_index(np.ix_(*index), cells).astype(float)
    return [number + 0.25 * k for k in range(fields)]


def inside_of(widths: tuple[int, ...]) -> tuple[slice, ...]:
    """Returns where a block's own cells lie, between its ghost cells."""
    return tuple(slice(width, -width if width else None) for width in widths)
