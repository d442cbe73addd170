"""Constructors of types; `tranship.types` has them for users."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, SupportsIndex

import numpy as np
import numpy.typing as npt

from . import _core
from ._core import Datatype
from .arguments import check_whole, element_type, integers, shown
from .arrays.dtypes import parts_of
from .errors import InvalidArgument

__all__ = [
    "Base",
    "Order",
    "TypePair",
    "as_type",
    "contiguous",
    "darray",
    "dup",
    "hindexed",
    "hindexed_block",
    "hvector",
    "indexed",
    "indexed_block",
    "resized",
    "struct",
    "subarray",
    "vector",
]

Base = Datatype | npt.DTypeLike
TypePair = tuple[Base | None, Base | None]
"""Types of the two ends of a copy; None: as many raw bytes as the other has."""
Order = Literal["C", "F"]
Distribution = Literal["none", "block", "cyclic"]

KINDS = ("none", "block", "cyclic")
WHOLE = "whole numbers"
BYTES = "numbers of bytes"


def contiguous(count: SupportsIndex, base: Base) -> Datatype:
    """Returns `count` items, one extent of the base apart."""
    return _core.type_contiguous(check_whole("count", count), as_type(base))


def vector(
    count: SupportsIndex, block_length: SupportsIndex, stride: SupportsIndex, base: Base
) -> Datatype:
    """Returns blocks of items at equal distances.

    Args:
        count: Number of blocks.
        block_length: Items of each block, one extent apart.
        stride: Extents of the base from one block to the next.
        base: Type of the items.
    """
    return strided(count, block_length, stride, base, False)


def hvector(
    count: SupportsIndex, block_length: SupportsIndex, stride: SupportsIndex, base: Base
) -> Datatype:
    """Returns what `vector` does, with `stride` in bytes."""
    return strided(count, block_length, stride, base, True)


def strided(count: Any, block_length: Any, stride: Any, base: Base, in_bytes: bool) -> Datatype:
    """Returns a vector with a stride in extents or in bytes."""
    return _core.type_vector(
        check_whole("count", count),
        check_whole("block_length", block_length),
        check_whole("stride", stride),
        as_type(base),
        in_bytes,
    )


def indexed(block_lengths: npt.ArrayLike, displacements: npt.ArrayLike, base: Base) -> Datatype:
    """Returns blocks of different lengths at any places.

    Args:
        block_lengths: Items of each block.
        displacements: Extents of the base from the begin to each block; as many.
        base: Type of the items.
    """
    lengths = integers("block_lengths", block_lengths, WHOLE)
    places = integers("displacements", displacements, WHOLE)
    return _core.type_indexed(lengths, places, as_type(base), False)


def hindexed(block_lengths: npt.ArrayLike, displacements: npt.ArrayLike, base: Base) -> Datatype:
    """Returns what `indexed` does, with `displacements` in bytes."""
    lengths = integers("block_lengths", block_lengths, WHOLE)
    places = integers("displacements", displacements, BYTES)
    return _core.type_indexed(lengths, places, as_type(base), True)


def indexed_block(
    block_length: SupportsIndex, displacements: npt.ArrayLike, base: Base
) -> Datatype:
    """Returns blocks of one length at any places.

    Args:
        block_length: Items of each block.
        displacements: Extents of the base from the begin to each block.
        base: Type of the items.
    """
    places = integers("displacements", displacements, WHOLE)
    length = check_whole("block_length", block_length)
    return _core.type_indexed_block(length, places, as_type(base), False)


def hindexed_block(
    block_length: SupportsIndex, displacements: npt.ArrayLike, base: Base
) -> Datatype:
    """Returns what `indexed_block` does, with `displacements` in bytes."""
    places = integers("displacements", displacements, BYTES)
    length = check_whole("block_length", block_length)
    return _core.type_indexed_block(length, places, as_type(base), True)


def struct(
    block_lengths: npt.ArrayLike, displacements: npt.ArrayLike, bases: Sequence[Base]
) -> Datatype:
    """Returns blocks of different types.

    The extent is rounded up to the strictest alignment of the elements, as in C, unless a base was
    resized, or is a subarray or darray.

    Args:
        block_lengths: Items of each block.
        displacements: Bytes from the begin to each block; as many.
        bases: Type of the items of each block; as many.
    """
    lengths = integers("block_lengths", block_lengths, WHOLE)
    places = integers("displacements", displacements, BYTES)
    if not isinstance(bases, (tuple, list)):
        raise InvalidArgument(
            f"bases={shown(bases)} is not a list of types", "give one for each block"
        )
    return _core.type_struct(lengths, places, [as_type(base) for base in bases])


def subarray(
    sizes: Sequence[int],
    subsizes: Sequence[int],
    starts: Sequence[int],
    base: Base,
    *,
    order: Order = "C",
) -> Datatype:
    """Returns a box of an array; the extent is that of the whole array.

    Args:
        sizes: Items of the array in each dimension.
        subsizes: Items of the box in each dimension.
        starts: First index of the box in each dimension.
        base: Type of an item.
        order: "C": the last dimension is contiguous; "F": the first.
    """
    return _core.type_subarray(
        integers("sizes", sizes, WHOLE),
        integers("subsizes", subsizes, WHOLE),
        integers("starts", starts, WHOLE),
        order_of(order),
        as_type(base),
    )


def darray(
    rank: SupportsIndex,
    sizes: Sequence[int],
    distributions: Sequence[Distribution | tuple[Distribution, SupportsIndex]],
    grid: Sequence[int],
    base: Base,
    *,
    order: Order = "C",
) -> Datatype:
    """Returns the part of an array that one process of a grid has (as in High Performance Fortran).

    Args:
        rank: The process; the last dimension of the grid is the fastest.
        sizes: Items of the array in each dimension.
        distributions: For each dimension "none", "block" or "cyclic", or with the number of indices
            of a block, as in ``("cyclic", 4)``.
        grid: Processes in each dimension; 1 where the distribution is "none".
        base: Type of an item.
        order: "C": the last dimension of the array is contiguous; "F": the first.
    """
    kinds, arguments = [], []
    if not isinstance(distributions, (tuple, list)):
        raise InvalidArgument(
            f"distributions={shown(distributions)} is not a list", "give one for each dimension"
        )
    for given in distributions:
        pair = (given, 0) if isinstance(given, str) else given
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not is_kind(pair[0]):
            raise InvalidArgument(
                f"distributions={shown(distributions)} names no distribution",
                'give "none", "block", "cyclic", or a pair such as ("cyclic", 4)',
            )
        kinds.append(KINDS.index(pair[0]))
        arguments.append(check_whole("distributions", pair[1]))
    return _core.type_darray(
        check_whole("rank", rank),
        integers("sizes", sizes, WHOLE),
        np.asarray(kinds, np.int64),
        np.asarray(arguments, np.int64),
        integers("grid", grid, WHOLE),
        order_of(order),
        as_type(base),
    )


def is_kind(kind: Any) -> bool:
    """Returns whether it is the name of a distribution."""
    return isinstance(kind, str) and kind in KINDS


def resized(base: Base, lower_bound: SupportsIndex, extent: SupportsIndex) -> Datatype:
    """Returns the type with other bounds; the elements stay where they are.

    Args:
        base: The type.
        lower_bound: Byte at which an item begins.
        extent: Bytes from one item to the next.
    """
    low, size = check_whole("lower_bound", lower_bound), check_whole("extent", extent)
    return _core.type_resized(low, size, as_type(base))


def dup(base: Base) -> Datatype:
    """Returns the type. (Types cannot be changed or freed, so that one serves as well as two.)"""
    return as_type(base)


def as_type(base: Base) -> Datatype:
    """Returns a type as it is; that of a NumPy dtype.

    Raises:
        InvalidArgument: It is neither, or its elements are Python objects.
    """
    if isinstance(base, Datatype):
        return base
    dtype = element_type("base", base)
    parts_of(dtype)  # refuses what is nested too deeply
    if dtype.hasobject:
        raise InvalidArgument(f"base={shown(base)} has Python objects", "give numbers or raw bytes")
    if dtype.subdtype is not None:
        inner, shape = dtype.subdtype
        return contiguous(math.prod(shape), inner)
    if dtype.fields is None:
        return _core.type_element(element_name(dtype))
    fields = [dtype.fields[name] for name in dtype.names or ()]
    made = struct([1] * len(fields), [field[1] for field in fields], [field[0] for field in fields])
    return resized(made, 0, dtype.itemsize)


def element_name(dtype: np.dtype[Any]) -> str:
    """Returns a dtype without fields as the core names it: with its byte order, unit, or name."""
    name = f"{dtype.kind}{dtype.itemsize}"
    if dtype.kind in "mM" and "[" in dtype.str:
        name += dtype.str[dtype.str.index("[") :]
    elif dtype.kind == "V" and dtype.type is not np.void:
        name += f"[{dtype.name}]"  # of ml_dtypes, such as bfloat16
    return name if dtype.isnative else f">{name}"


def order_of(order: Any) -> str:
    """Returns "C" or "F".

    Raises:
        InvalidArgument: It is something else.
    """
    if not isinstance(order, str) or order not in ("C", "F"):
        raise InvalidArgument(f"order={shown(order)} is no order of dimensions", 'give "C" or "F"')
    return str(order)
