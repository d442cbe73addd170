"""What a copy between types is given: arrays, and the types of their elements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, SupportsIndex

import numpy as np

from ._core import Datatype
from .arguments import check_whole
from .errors import InvalidArgument
from .type_constructors import Base, TypePair, as_type, contiguous, hindexed_block

__all__ = ["packed_places", "short_type", "typed_arrays", "typed_pairs"]


def typed_pairs(
    pairs: Iterable[tuple[Any, Any]], types: Iterable[TypePair]
) -> list[tuple[Any, Any, Datatype | None, Datatype | None]]:
    """Returns the pairs with their types, as the core takes them.

    Raises:
        InvalidArgument: There are not as many of each, or something else than pairs.
    """
    try:
        ends = [(source, target) for source, target in pairs]
        given = list(types)
        if any(not isinstance(one, (tuple, list)) or len(one) != 2 for one in given):
            raise TypeError("a text of two letters is no pair")
    except (TypeError, ValueError):
        raise InvalidArgument(
            "a copy, or its types, is not a pair",
            "give pairs (source, target), and pairs (type of the source, type of the target)",
        ) from None
    if len(ends) != len(given):
        raise InvalidArgument(
            f"there are {len(ends)} copies and types for {len(given)}", "give a pair for each"
        )
    made: list[tuple[Any, Any, Datatype | None, Datatype | None]] = []
    for (source, target), (first, second) in zip(ends, given, strict=True):
        if first is None and second is None:
            raise InvalidArgument("types=(None, None) names no type", "give a type for one end")
        made.append((block(source), block(target), optional_type(first), optional_type(second)))
    return made


def block(array: Any) -> Any:
    """Returns an array of records with padding as one of raw bytes; any other as it is."""
    if not isinstance(array, np.ndarray) or array.dtype.names is None:
        return array
    whole = array.flags.c_contiguous or array.flags.f_contiguous
    return array.view(f"V{array.dtype.itemsize}") if whole else array


def optional_type(base: Base | None) -> Datatype | None:
    """Returns the type, or None."""
    return None if base is None else as_type(base)


def typed_arrays(
    arrays: Any, types: Base | Sequence[Base], count: SupportsIndex
) -> tuple[list[Any], list[Datatype]]:
    """Returns one array or several, and the items of each.

    Raises:
        InvalidArgument: There are not as many types as arrays, or `count` is negative.
    """
    items = check_whole("count", count, least=0)
    several = isinstance(arrays, (list, tuple))
    given = list(arrays) if several else [arrays]
    bases: list[Any] = list(types) if several and isinstance(types, (list, tuple)) else [types]
    if len(given) != len(bases):
        raise InvalidArgument(
            f"there are {len(given)} arrays and {len(bases)} types", "give a type for each array"
        )
    made = [as_type(base) for base in bases]
    return given, made if items == 1 else [contiguous(items, one) for one in made]


def packed_places(types: Sequence[Datatype]) -> list[Datatype]:
    """Returns where the elements of each type lie once all are packed: raw bytes."""
    places = []
    begin = 0
    for one in types:
        places.append(
            hindexed_block(one.nbytes, [begin], "V1") if begin else contiguous(one.nbytes, "V1")
        )
        begin += one.nbytes
    return places


SHORT_BYTES = 64 << 10
"""Largest pack or unpack that is carried at once, with the interpreter's lock held."""


def short_type(array: Any, type: Any, count: Any, stream: Any) -> Datatype | None:
    """Returns the type if a pack or unpack of it may be short enough to be carried at once."""
    short = (
        array.__class__ is np.ndarray
        and type.__class__ is Datatype
        and type.nbytes <= SHORT_BYTES
        and count == 1
        and stream is None
        and not array.dtype.hasobject
    )
    return type if short else None
