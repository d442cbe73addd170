"""Where the elements of an array or a selection lie, and lists of pieces between two of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import InvalidArgument
from .indexing import Entry, Integers, shared_shape

__all__ = [
    "Field",
    "Pieces",
    "Points",
    "broadcast_strides",
    "check_broadcast",
    "numbered",
    "pieces_between",
    "with_strides",
]

Field = tuple[str, str, int, int]
"""Name, type, bytes, and offset in bytes of a field."""
Pieces = tuple[Integers, Integers, Integers]
"""Offsets in the source, offsets in the target, and lengths, in bytes."""


@dataclass(frozen=True)
class Points:
    """The places of elements: ``table[index] + sum(strides * index)`` plus a field's offset.

    Attributes:
        core: Array whose bytes they lie among.
        fields: The fields of an element; offsets count from the element's place.
        shape: Number of indices in each dimension.
        strides: Bytes from one index to the next; 0 in dimensions that the table alone has.
        table: Offsets in bytes from the array's base, which broadcast to the shape.
    """

    core: _core.Array
    fields: tuple[Field, ...]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    table: Integers

    @staticmethod
    def of(core: _core.Array) -> Points:
        """Returns the places of all elements of an array.

        Raises:
            Error: A dimension is stored in blocks (``code="unsupported"``).
            InvalidArgument: Its fields have different strides.
        """
        fields, strides = record_of(core)
        shape = tuple(extent for _, extent in core.extents)
        return Points(core, fields, shape, strides, np.zeros((1,) * len(shape), np.int64))

    def transposed(self, order: Sequence[int]) -> Points:
        """Returns the same places with dimension `order[k]` as dimension k."""
        return replace(
            self,
            shape=tuple(self.shape[k] for k in order),
            strides=tuple(self.strides[k] for k in order),
            table=self.table.transpose(order),
        )

    def reshaped(self, shape: Sequence[int]) -> Points:
        """Returns the same places in C order in another shape; makes a table of all of them."""
        table = self.table
        for k, stride in enumerate(self.strides):
            table = table + along(k, len(self.shape), stride, self.shape[k])
        whole = np.broadcast_to(table, self.shape).reshape(shape)
        return replace(self, shape=tuple(shape), strides=(0,) * len(shape), table=whole)

    def broadcast(self, shape: Sequence[int]) -> Points:
        """Returns the places of an array that is broadcast; see `broadcast_strides`."""
        strides = broadcast_strides(self.shape, self.strides, shape)
        table = self.table.reshape(aligned(self.table.shape, len(shape)))
        return replace(self, shape=tuple(shape), strides=strides, table=table)

    def indexed(self, entries: Sequence[Entry]) -> Points:
        """Returns the places that the entries of a key select, in NumPy's order of dimensions."""
        tables = [entry.table for entry in entries if entry.table is not None]
        chosen = shared_shape(tables) if tables else ()
        by_table = [is_chosen(entry, bool(tables)) for entry in entries]
        table = self._table_at(entries, by_table)
        strides: list[int] = []
        shape: list[int] = []
        offsets: Integers = np.zeros((), np.int64)
        for entry, chooses in zip(entries, by_table, strict=True):
            step = self.strides[entry.dimension] if entry.dimension >= 0 else 0
            if entry.table is not None:
                offsets = offsets + entry.table * step
            elif entry.is_range or entry.is_single:
                offsets = offsets + entry.start * step
            if not chooses and (entry.is_range or entry.is_new):
                shape.append(entry.extent if entry.is_range else 1)
                strides.append(entry.step * step)
        at = place_of(entries, by_table) if tables else 0
        offsets = np.broadcast_to(offsets, chosen)
        shape[at:at] = chosen
        strides[at:at] = [0] * len(chosen)
        behind = (1,) * (len(shape) - at - len(chosen))
        return replace(
            self,
            shape=tuple(shape),
            strides=tuple(strides),
            table=table + offsets.reshape(chosen + behind),
        )

    def _table_at(self, entries: Sequence[Entry], by_table: Sequence[bool]) -> Integers:
        """Returns the table's own part at the entries; its dimensions are those of the result."""
        extents = list(self.table.shape)
        key: list[Any] = []
        for entry, chooses in zip(entries, by_table, strict=True):
            k = entry.dimension
            if chooses and k >= 0:
                extents[k] = self.shape[k]
            if entry.is_ellipsis:
                key.append(Ellipsis)
            elif entry.is_new:
                key.append(None)
            elif entry.table is not None:
                key.append(entry.table if k >= 0 else np.bool_(entry.table.size))
            elif entry.is_single:
                key.append(entry.start if extents[k] > 1 else 0)
            else:
                key.append(entry.slice() if extents[k] > 1 else slice(None))
        found: Integers = np.broadcast_to(self.table, extents)[tuple(key)]
        return np.asarray(found)


def is_chosen(entry: Entry, any_table: bool) -> bool:
    """Returns whether an entry is one of the arrays of indices, which broadcast to one shape."""
    return entry.table is not None or (any_table and entry.is_single)


def place_of(entries: Sequence[Entry], by_table: Sequence[bool]) -> int:
    """Returns the dimension of the result at which those of the arrays of indices begin: where
    these stand in the key if they stand together, else first.
    """
    first = by_table.index(True)
    last = len(by_table) - 1 - list(reversed(by_table)).index(True)
    if not all(by_table[first : last + 1]):
        return 0
    return sum(entry.is_range or entry.is_new for entry in entries[:first])


def record_of(core: _core.Array) -> tuple[tuple[Field, ...], tuple[int, ...]]:
    """Returns the fields of an array, and the strides that all of them have.

    Raises:
        Error: A dimension is stored in blocks (``code="unsupported"``).
        InvalidArgument: They have different strides.
    """
    placed = _core.strided_fields(core)
    strides = tuple(placed[0][4])
    if any(tuple(one[4]) != strides for one in placed):
        raise InvalidArgument(
            f"the fields of {core.name} have strides of their own", "take one field: array['name']"
        )
    return tuple(one[:4] for one in placed), strides


def numbered(shape: Sequence[int]) -> list[tuple[str, int]]:
    """Returns dimensions without names of their own."""
    return [(f"d{k}", extent) for k, extent in enumerate(shape)]


def with_strides(
    core: _core.Array,
    extents: Sequence[tuple[str, int]],
    steps: Callable[[Sequence[int]], Sequence[int]],
    named: bool,
) -> _core.Array:
    """Returns an array of other dimensions over the same memory.

    Args:
        core: Array whose element at index 0 stays where it is.
        extents: Names and extents of the dimensions.
        steps: Returns a field's strides in these dimensions for its strides in those of `core`.
        named: Whether the names are the user's.

    Raises:
        Error: A dimension is stored in blocks (``code="unsupported"``).
        OutOfRange: An element lies outside the bytes of `core`.
    """
    fields = [
        (name, kind, count, offset, list(steps(strides)))
        for name, kind, count, offset, strides in _core.strided_fields(core)
    ]
    return _core.restrided(core, extents, fields, named)


def along(dimension: int, rank: int, stride: int, extent: int) -> Integers:
    """Returns the offsets of the indices of one dimension, as an array of `rank` dimensions."""
    shape = [1] * rank
    shape[dimension] = extent
    return (np.arange(extent, dtype=np.int64) * stride).reshape(shape)


def aligned(shape: Sequence[int], rank: int) -> tuple[int, ...]:
    """Returns a shape with dimensions of one index in front, or without some, as NumPy aligns."""
    return (1,) * (rank - len(shape)) + tuple(shape[max(len(shape) - rank, 0) :])


def check_broadcast(source: Sequence[int], target: Sequence[int]) -> None:
    """Checks that a source broadcasts to a target, as in NumPy's assignment.

    Raises:
        InvalidArgument: It does not; the error names both shapes.
    """
    if not source:
        return
    extra = source[: max(len(source) - len(target), 0)]
    fits = all(
        n in (1, m) for n, m in zip(aligned(source, len(target)), target, strict=True)
    ) and all(n == 1 for n in extra)
    if not fits:
        raise InvalidArgument(
            f"the source has the shape {tuple(source)}, which does not broadcast to that of the "
            f"target, {tuple(target)}",
            "give a source of the target's shape, or one index where they differ",
        )


def broadcast_strides(
    shape: Sequence[int], strides: Sequence[int], target: Sequence[int]
) -> tuple[int, ...]:
    """Returns the strides with which an array is read in a larger shape: 0 where it repeats.

    Raises:
        InvalidArgument: It does not broadcast to it.
    """
    check_broadcast(shape, target)
    rank = len(target)
    extents = aligned(shape, rank)
    steps = (0,) * (rank - len(shape)) + tuple(strides[max(len(shape) - rank, 0) :])
    return tuple(step if n == m else 0 for step, n, m in zip(steps, extents, target, strict=True))


def joined_fields(source: Sequence[Field], target: Sequence[Field]) -> list[tuple[int, int, int]]:
    """Returns offsets on both sides and lengths of the runs of bytes of an element.

    Raises:
        InvalidArgument: The fields, or their types, differ.
    """
    by_name = {field[0]: field for field in source}
    runs: list[tuple[int, int, int]] = []
    for name, kind, count, to in target:
        found = source[0] if len(target) == len(source) == 1 else by_name.get(name)
        if found is None or len(source) != len(target) or found[1:3] != (kind, count):
            raise InvalidArgument(
                f"the fields of the source, {named(source)}, are not those of the target, "
                f"{named(target)}",
                "give both the same fields, or convert one of the arrays first",
            )
        at = found[3]
        if runs and runs[-1][0] + runs[-1][2] == at and runs[-1][1] + runs[-1][2] == to:
            runs[-1] = (runs[-1][0], runs[-1][1], runs[-1][2] + count)
        else:
            runs.append((at, to, count))
    return runs


def named(fields: Sequence[Field]) -> str:
    return ", ".join(f"{name}: {kind}" for name, kind, _, _ in fields)


def pieces_between(source: Points, target: Points) -> Pieces:
    """Returns the pieces that copy the source's elements to the target's, of the same shape.

    Where the target names an element twice, only the last one is copied, as NumPy assigns.

    Raises:
        InvalidArgument: The fields, or their types, differ.
    """
    runs = joined_fields(source.fields, target.fields)
    repeats = target.table.size > 1 and len(np.unique(target.table)) < target.table.size
    rank = len(target.shape)
    if not repeats:  # in any order: the nearest elements last, so that they join
        order = sorted(range(rank), key=lambda k: (target.strides[k] != 0, -abs(target.strides[k])))
        source, target = source.transposed(order), target.transposed(order)
    whole = len(runs) == 1
    length = runs[0][2]
    outer = rank
    while whole and outer > 0 and follows(source, target, outer - 1, length):
        outer -= 1
        length *= target.shape[outer]
    from_offsets = offsets_of(source, outer)
    to_offsets = offsets_of(target, outer)
    if repeats:
        last = last_of_each(to_offsets)
        from_offsets, to_offsets = from_offsets[last], to_offsets[last]
    if whole:
        at, to, _ = runs[0]
        lengths = np.full(from_offsets.shape, length, np.int64)
        return from_offsets + at, to_offsets + to, lengths
    count = len(from_offsets)
    return (
        np.concatenate([from_offsets + at for at, _, _ in runs]),
        np.concatenate([to_offsets + to for _, to, _ in runs]),
        np.repeat(np.array([size for _, _, size in runs], np.int64), count),
    )


def follows(source: Points, target: Points, k: int, length: int) -> bool:
    """Returns whether the indices of a dimension are neighbours in memory on both sides."""
    single = source.table.shape[k] == 1 and target.table.shape[k] == 1
    if single and target.shape[k] == 1:
        return True
    return single and source.strides[k] == length and target.strides[k] == length


def offsets_of(points: Points, rank: int) -> Integers:
    """Returns the places of the elements of the first `rank` dimensions, in C order."""
    table = points.table.reshape(points.table.shape[:rank])
    for k in range(rank):
        if points.strides[k] != 0:
            table = table + along(k, rank, points.strides[k], points.shape[k])
    whole = np.broadcast_to(table, points.shape[:rank])
    return np.ascontiguousarray(whole).reshape(math.prod(points.shape[:rank]))


def last_of_each(offsets: Integers) -> npt.NDArray[np.intp]:
    """Returns the positions at which each offset stands for the last time."""
    _, first = np.unique(offsets[::-1], return_index=True)
    return len(offsets) - 1 - first
