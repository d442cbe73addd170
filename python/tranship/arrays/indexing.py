"""NumPy's ways of indexing, read into one entry for each part of a key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..arguments import shown
from ..errors import InvalidArgument, OutOfRange

__all__ = ["Entry", "field_names", "parse_index", "shared_shape"]

Integers = npt.NDArray[np.int64]


class Entry(NamedTuple):
    """One part of a key.

    Attributes:
        dimension: Dimension that it indexes; -1: none, of `None` and of a single truth value.
        extent: Indices that a range takes; 0 for anything but a range.
        start: First index of a range, or the single index.
        step: Indices from one of a range to the next.
        is_range: Whether it is a range, which keeps its dimension.
        table: Indices given as an array; None for anything else.
        is_ellipsis: Whether it stands for an ellipsis, beside the ranges of its dimensions: arrays
            on both sides of it are apart, even if it has none.
    """

    dimension: int
    start: int = 0
    extent: int = 0
    step: int = 1
    is_range: bool = False
    table: Integers | None = None
    is_ellipsis: bool = False

    @property
    def is_new(self) -> bool:
        """Whether it adds a dimension of one index."""
        return self.dimension < 0 and self.table is None and not self.is_ellipsis

    @property
    def is_single(self) -> bool:
        """Whether it is one index, which drops its dimension."""
        return self.dimension >= 0 and self.table is None and not self.is_range

    def slice(self) -> slice:
        """Returns the range as Python writes it."""
        if self.extent == 0:
            return slice(0, 0)
        stop = self.start + self.extent * self.step
        return slice(self.start, None if stop < 0 else stop, self.step)


def field_names(key: Any) -> list[str] | None:
    """Returns the names in a key that is a list of fields; None for any other key."""
    if isinstance(key, list) and key and all(isinstance(name, str) for name in key):
        return key
    return None


def parse_index(key: Any, shape: Sequence[int]) -> list[Entry]:
    """Returns the entries of a key, in order; together they index every dimension of the shape.

    Args:
        key: Indices, ranges with steps, one ellipsis, None for a new dimension, and arrays of
            integers or of truth values.
        shape: Number of indices in each dimension.

    Raises:
        OutOfRange: An index lies outside its dimension.
        InvalidArgument: The key is not an index, has more parts than there are dimensions, or a
            mask of another shape.
    """
    parts = [as_part(one) for one in (key if isinstance(key, tuple) else (key,))]
    at = [k for k, one in enumerate(parts) if one is Ellipsis]
    if len(at) > 1:
        raise InvalidArgument(
            f"the index {shown(key)} has several ellipses", "write '...' at most once in an index"
        )
    used = sum(dimensions_of(one) for one in parts)
    if used > len(shape):
        raise InvalidArgument(
            f"the index {shown(key)} has {used} entries for {len(shape)} dimensions",
            "give at most one entry for each dimension",
        )
    rest = [slice(None)] * (len(shape) - used)
    place = at[0] if at else len(parts)
    entries: list[Entry] = []
    dimension = 0
    for one in [*parts[: place + 1], *rest, *parts[place + 1 :]]:
        if isinstance(one, np.ndarray) and one.dtype.kind == "b":
            entries += entries_of_mask(one, dimension, shape)
            dimension += one.ndim
        elif one is None or one is Ellipsis:
            entries.append(Entry(-1, is_ellipsis=one is Ellipsis))
        else:
            entries.append(entry_of(one, dimension, shape[dimension]))
            dimension += 1
    return entries


def as_part(one: Any) -> Any:
    """Returns a part of a key as it is, and arrays of indices as NumPy's."""
    if type(one) in (int, slice) or one is None or one is Ellipsis:  # the usual cases
        return one
    if isinstance(one, bool | np.bool_):
        return np.asarray(one)
    if not isinstance(one, list | tuple | np.ndarray) and hasattr(one, "__index__"):
        try:
            return one.__index__()
        except TypeError:  # an array of several elements
            pass
    if isinstance(one, str | bytes) or not (
        isinstance(one, list | tuple) or hasattr(one, "__array__")
    ):
        raise no_index(one)
    try:
        array = np.asarray(one)
    except Exception:  # also of a ragged list, and of the object's own __array__
        raise no_index(one) from None
    if array.size == 0 and isinstance(one, list | tuple):
        array = array.astype(np.int64)
    if array.dtype.kind not in "iub":
        raise no_index(one)
    return int(array) if array.ndim == 0 and array.dtype.kind != "b" else array


def no_index(one: Any) -> InvalidArgument:
    """Returns the error for something that is not an index."""
    return InvalidArgument(
        f"{shown(one)} is not an index",
        "give whole numbers, ranges (start:stop:step), None for a new dimension, or arrays of "
        "integers or of truth values",
    )


def dimensions_of(part: Any) -> int:
    """Returns how many dimensions a part of a key indexes."""
    if part is None or part is Ellipsis:
        return 0
    return part.ndim if isinstance(part, np.ndarray) and part.dtype.kind == "b" else 1


def entry_of(part: Any, dimension: int, extent: int) -> Entry:
    """Returns the entry of a part that indexes one dimension."""
    if isinstance(part, np.ndarray):
        return Entry(dimension, table=from_zero(part, extent))
    if isinstance(part, slice):
        try:
            start, stop, step = part.indices(extent)
        except (TypeError, ValueError) as error:
            raise InvalidArgument(
                f"the range {shown(part)} cannot be used as an index: {error}",
                "give whole numbers, and a step other than 0",
            ) from None
        count = len(range(start, stop, step))
        return Entry(dimension, start if count else 0, count, step, True)
    if not -extent <= part < extent:
        raise outside(part, extent)
    return Entry(dimension, part % extent)


def entries_of_mask(
    mask: npt.NDArray[np.bool_], dimension: int, shape: Sequence[int]
) -> list[Entry]:
    """Returns the entries for the places of a mask that are true."""
    if mask.ndim == 0:
        return [Entry(-1, table=np.zeros(int(mask), np.int64))]
    covered = tuple(shape[dimension : dimension + mask.ndim])
    if mask.shape != covered:
        raise InvalidArgument(
            f"the mask has the shape {mask.shape}, and the dimensions that it indexes {covered}",
            "give a truth value for each of their elements",
        )
    places = np.nonzero(mask)
    return [
        Entry(dimension + k, table=place.astype(np.int64, copy=False))
        for k, place in enumerate(places)
    ]


def from_zero(indices: npt.NDArray[Any], extent: int) -> Integers:
    """Returns indices that count from the first one, as 64-bit integers.

    Raises:
        OutOfRange: One of them lies outside the dimension.
    """
    wrong = (indices < -extent) | (indices >= extent)
    if wrong.any():
        raise outside(int(indices[wrong].flat[0]), extent)
    whole = indices.astype(np.int64)
    return np.where(whole < 0, whole + extent, whole)


def outside(index: int, extent: int) -> OutOfRange:
    """Returns the error for an index outside its dimension."""
    return OutOfRange(
        f"the index {shown(index)} lies outside a dimension of {extent}",
        f"give a number from {-extent} to {extent - 1}" if extent else "it has no elements",
    )


def shared_shape(tables: Sequence[Integers]) -> tuple[int, ...]:
    """Returns the shape to which arrays of indices broadcast.

    Raises:
        InvalidArgument: They do not.
    """
    try:
        return np.broadcast_shapes(*(table.shape for table in tables))
    except ValueError:
        shapes = " and ".join(str(table.shape) for table in tables)
        raise InvalidArgument(
            f"arrays of indices of the shapes {shapes} do not broadcast to one shape",
            "give as many indices in each of them",
        ) from None
