"""Radial profiles of the blast, and the radius of its shock."""

from __future__ import annotations

from typing import Any

import numpy as np


def shells(cells: int, box: tuple[slice, ...]) -> Any:
    """Returns the index of the shell (one cell thick, around the origin) of each cell in `box`."""
    return radii(cells, box).astype(np.int64)


def radii(cells: int, box: tuple[slice, ...]) -> Any:
    """Returns the distance of each cell's centre from the origin, in cells."""
    x, y, z = (np.arange(part.start, part.stop) + 0.5 for part in box)
    return np.sqrt(x[:, None, None] ** 2 + y[:, None] ** 2 + z**2)


def shell_sums(values: Any, shell: Any, count: int) -> Any:
    """Returns the sum of `values` in each of `count` shells."""
    return np.bincount(shell.ravel(), weights=values.ravel(order="C"), minlength=count)[:count]


def whole(cells: int) -> tuple[slice, ...]:
    """Returns the box of the whole grid."""
    return (slice(0, cells),) * 3


def shock_radius(shell_radii: Any, density: Any, ahead: float) -> float:
    """Returns where the mean density falls from its peak half-way to that of the gas ahead.

    In units of `shell_radii`, interpolated between shells. A captured shock is a few cells wide and
    its peak lower than the exact one, so that this lies up to a cell outside the true radius.
    """
    peak = int(np.argmax(density))
    half = ahead + 0.5 * (density[peak] - ahead)
    beyond = np.nonzero(density[peak:] < half)[0]
    if len(beyond) == 0:
        return float("nan")
    outer = peak + int(beyond[0])
    inner = outer - 1
    share = (density[inner] - half) / (density[inner] - density[outer])
    return float(shell_radii[inner] + share * (shell_radii[outer] - shell_radii[inner]))
