"""Random arrays of xarray, and how they are put in blocks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

__all__ = ["blocks_of", "random_array", "random_dataset"]

TYPES = ["f8", "f4", "i4", "u1", "?", "c16", "M8[ns]", "M8[s]", "m8[ms]", "U3", "S2"]
ATTRS: dict[str, Any] = {
    "units": "K",
    "long_name": "énergie",
    "valid_range": np.array([0.0, 1.5], "f4"),
    "missing": None,
    "scale": np.float32(0.1),
    "flags": [1, 2, 3],
    "nested": {"a": [1, {"b": True}]},
    "count": np.int16(3),
}


def random_values(dice: random.Random, dtype: str, shape: tuple[int, ...]) -> Any:
    numbers = np.array([dice.randint(0, 99) for _ in range(int(np.prod(shape)))])
    if np.dtype(dtype).kind in "US":
        numbers = numbers.astype("U2")
    return numbers.astype(dtype).reshape(shape)


def random_attrs(dice: random.Random) -> dict[str, Any]:
    keys = dice.sample(sorted(ATTRS), dice.randint(0, 3))
    return {key: ATTRS[key] for key in keys}


def index_of(dice: random.Random, size: int) -> Any:
    """Returns labels of a dimension, all different."""
    kind = dice.randrange(5)
    if kind == 0:
        return np.linspace(-1.0, 1.0, size)
    if kind == 1:
        return [f"{'ab' * dice.randint(0, 4)}{k}" for k in range(size)]
    if kind == 2:
        return pd.date_range("2020-02-27", periods=size)
    if kind == 3:
        return pd.timedelta_range("1h", periods=size, freq="7min")
    return np.arange(size)[::-1]


def random_coords(dice: random.Random, sizes: dict[str, int]) -> dict[str, Any]:
    coords: dict[str, Any] = {}
    for dim, size in sizes.items():
        if dice.random() < 0.6:
            coords[dim] = xr.Variable(dim, index_of(dice, size), random_attrs(dice))
    for name in dice.sample(["lat", "lon", "time", "mask"], dice.randint(0, 3)):
        dims = dice.sample(sorted(sizes), dice.randint(0, len(sizes)))
        values = random_values(dice, dice.choice(TYPES), tuple(sizes[dim] for dim in dims))
        coords[name] = xr.Variable(dims, values, random_attrs(dice))
    return coords


def random_sizes(dice: random.Random, least: int = 0) -> dict[str, int]:
    dims = dice.sample(["x", "y", "z", "größe", "band 1"], dice.randint(least, 3))
    return {dim: dice.randint(1, 6) for dim in dims}


def random_array(dice: random.Random, name: str) -> xr.DataArray:
    """Returns an array of any type, with coordinates and attributes."""
    sizes = random_sizes(dice)
    values = random_values(dice, dice.choice(TYPES), tuple(sizes.values()))
    coords = random_coords(dice, sizes)
    return xr.DataArray(values, coords, list(sizes), name, random_attrs(dice))


def random_dataset(dice: random.Random) -> xr.Dataset:
    """Returns a data set whose variables share coordinates."""
    sizes = random_sizes(dice, 1)
    variables = {}
    for name in dice.sample(["energy", "rho", "v", "w"], dice.randint(1, 4)):
        dims = dice.sample(sorted(sizes), dice.randint(0, len(sizes)))
        values = random_values(dice, dice.choice(TYPES), tuple(sizes[dim] for dim in dims))
        variables[name] = xr.Variable(dims, values, random_attrs(dice))
    return xr.Dataset(variables, random_coords(dice, sizes), random_attrs(dice))


def blocks_of(
    dice: random.Random, whole: Any, count: int, corner: dict[str, int] | None = None
) -> Iterator[tuple[Any, dict[str, int]]]:
    """Yields blocks of an array or data set that together are all of it, at most `count`, and the
    lower corner of each by dimension.

    Args:
        dice: What decides where it is cut.
        whole: The array or data set.
        count: How many blocks there are at most.
        corner: Lower corner of the whole; None: 0.
    """
    corner = dict.fromkeys(whole.sizes, 0) if corner is None else corner
    longest = max(whole.sizes, key=lambda dim: whole.sizes[dim], default=None)
    if count == 1 or longest is None or whole.sizes[longest] < 2:
        yield whole, corner
        return
    at = dice.randint(1, whole.sizes[longest] - 1)
    yield from blocks_of(dice, whole.isel({longest: slice(at)}), count // 2, corner)
    rest = {**corner, longest: corner[longest] + at}
    yield from blocks_of(dice, whole.isel({longest: slice(at, None)}), count - count // 2, rest)
