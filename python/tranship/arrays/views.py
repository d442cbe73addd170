"""Shapes and strides of other views of the same elements, as NumPy makes them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, SupportsIndex, cast

import numpy as np

from ..arguments import shown
from ..errors import InvalidArgument

__all__ = ["axes_of", "c_strides", "new_shape", "reshaped_strides", "viewed"]


def axes_of(order: Sequence[Any], rank: int) -> list[int]:
    """Returns the order of dimensions that the arguments of `transpose` name.

    Raises:
        InvalidArgument: Not every dimension is named once.
    """
    given = alone_or_all(order)
    if given is None or (given is order and len(order) == 0):
        return list(reversed(range(rank)))
    try:
        axes = [int(axis) for axis in cast("Sequence[Any]", given)]
    except (TypeError, ValueError):
        axes = [-1 - rank]
    axes = [axis + rank if axis < 0 else axis for axis in axes]
    if sorted(axes) != list(range(rank)):
        raise InvalidArgument(
            f"{shown(given)} is not an order of {rank} dimensions",
            f"name each dimension from 0 to {rank - 1} once",
        )
    return axes


def alone_or_all(given: Sequence[Any]) -> Any:
    """Returns the sequence that is the only argument, or else all arguments."""
    alone = len(given) == 1 and (not hasattr(given[0], "__index__") or np.ndim(given[0]) > 0)
    return given[0] if alone else given


def new_shape(shape: Sequence[Any], size: int) -> tuple[int, ...]:
    """Returns the shape that the arguments of `reshape` name.

    Args:
        shape: Extents, or one sequence of them; -1 stands for what remains of the elements.
        size: Number of elements.

    Raises:
        InvalidArgument: It is not a shape, or that of another number of elements.
    """
    given = alone_or_all(shape)
    try:
        extents = [cast("SupportsIndex", one).__index__() for one in cast("Sequence[Any]", given)]
    except (AttributeError, TypeError):
        raise InvalidArgument(
            f"{shown(given)} is not a shape", "give whole numbers, one for each dimension"
        ) from None
    known = math.prod(extent for extent in extents if extent != -1)
    if extents.count(-1) == 1 and known > 0 and size % known == 0:
        extents[extents.index(-1)] = size // known
    if any(extent < 0 for extent in extents) or math.prod(extents) != size:
        raise InvalidArgument(
            f"an array of {size} elements has not the shape {shown(tuple(extents))}",
            "give extents whose product is the number of elements; one of them may be -1",
        )
    return tuple(extents)


def reshaped_strides(
    shape: Sequence[int], strides: Sequence[int], wanted: Sequence[int]
) -> tuple[int, ...] | None:
    """Returns the strides with which the same elements, in C order, have another shape.

    Args:
        shape: Extents of the array.
        strides: Its strides, in bytes.
        wanted: Extents of the view, of as many elements.

    Returns:
        None if no strides do.
    """
    if 0 in shape:
        return (0,) * len(wanted)
    # Runs of elements that lie at equal distances, slowest first: (elements, stride).
    runs: list[tuple[int, int]] = []
    for extent, stride in zip(shape, strides, strict=True):
        if extent == 1:
            continue
        if runs and runs[-1][1] == extent * stride:
            runs[-1] = (runs[-1][0] * extent, stride)
        else:
            runs.append((extent, stride))
    found: list[int] = []
    left, step = 1, 0  # elements that are left of the current run, and its stride
    for extent in reversed(wanted):
        if extent == 1:
            found.append(step)
            continue
        if left == 1:
            left, step = runs.pop()
        if left % extent != 0:
            return None
        found.append(step)
        left //= extent
        step *= extent
    return tuple(reversed(found))


def viewed(
    shape: Sequence[int], strides: Sequence[int], old: np.dtype[Any], new: np.dtype[Any]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the shape and strides of the same bytes as elements of another type.

    Raises:
        InvalidArgument: The sizes differ, and the last dimension is not contiguous or does not
            divide into elements of the new type.
    """
    if old.itemsize == new.itemsize:
        return tuple(shape), tuple(strides)
    if not shape:
        raise InvalidArgument(
            f"an array without dimensions of {old} cannot be viewed as {new}",
            "give a type of the same size",
        )
    apart = shape[-1] != 1 and 0 not in shape and strides[-1] != old.itemsize
    count, rest = divmod(shape[-1] * old.itemsize, new.itemsize)
    smaller = new.itemsize < old.itemsize
    if apart or rest or (smaller and old.itemsize % new.itemsize):
        why = "is not contiguous" if apart else f"has {shape[-1]} elements of {old.itemsize} bytes"
        raise InvalidArgument(
            f"an array of {old} cannot be viewed as {new}: its last dimension {why}",
            "give a type of the same size, or view a copy: array.numpy()",
        )
    return (*shape[:-1], count), (*strides[:-1], new.itemsize)


def c_strides(shape: Sequence[int], item_bytes: int) -> list[int]:
    """Returns the strides in bytes of a dense array whose last dimension is fastest."""
    strides = [item_bytes] * len(shape)
    for k in range(len(shape) - 2, -1, -1):
        strides[k] = strides[k + 1] * max(shape[k + 1], 1)
    return strides
