"""What a copy between types is given: arrays, and the types of their elements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, SupportsIndex, TypeGuard

import numpy as np

from ._core import Datatype, EngineCore, prepare_types
from .arguments import check_pairs, check_whole, shown
from .errors import Closed, Error, InvalidArgument, make
from .type_constructors import Base, TypePair, as_type, contiguous, hindexed_block

__all__ = [
    "TypedCopy",
    "block",
    "is_one_item",
    "listed",
    "packed_places",
    "refuse_pairs",
    "typed_arrays",
    "typed_pairs",
]


TypedCopy = tuple[Any, Any, Datatype | None, Datatype | None]
"""Source and target, and the types of their elements, as the core takes them."""


def typed_pairs(pairs: Iterable[tuple[Any, Any]], types: Iterable[TypePair]) -> list[TypedCopy]:
    """Returns the pairs with their types, as the core takes them.

    Raises:
        InvalidArgument: There are not as many of each, or something else than pairs.
    """
    check_pairs(pairs)
    try:
        ends = [(source, target) for source, target in pairs]
        given = list(types)
        if any(not isinstance(one, (tuple, list)) or len(one) != 2 for one in given):
            raise TypeError("a text of two letters is no pair")
    except Exception:
        raise InvalidArgument(
            "a copy, or its types, is not a pair",
            "give pairs (source, target), and pairs (type of the source, type of the target)",
        ) from None
    if len(ends) != len(given):
        raise InvalidArgument(
            f"there are {len(ends)} copies and types for {len(given)}", "give a pair for each"
        )
    made: list[TypedCopy] = []
    for (source, target), (first, second) in zip(ends, given, strict=True):
        if first is None and second is None:
            raise InvalidArgument("types=(None, None) names no type", "give a type for one end")
        made.append((block(source), block(target), optional_type(first), optional_type(second)))
    return made


def listed(given: Any) -> Any:
    """Returns an iterator's members as a list, which can be read again; anything else as it is."""
    return list(given) if isinstance(given, Iterator) else given


def refuse_pairs(
    call: str, error: Exception, core: EngineCore, pairs: Any, types: Any, cast: Any
) -> None:
    """Says which of several copies it is that all were refused for. Returns if none is.

    Raises:
        Error: The error of the first copy that is refused by itself too, with its number.
    """
    check_pairs(pairs)
    alike = types is None or (isinstance(types, Sequence) and len(types) == len(pairs))
    if isinstance(error, Closed) or not isinstance(pairs, Sequence) or len(pairs) < 2 or not alike:
        return
    for number, pair in enumerate(pairs):
        try:
            if types is None:
                source, target = pair
                core.plan(source, target, None, 0, "automatic", 0, cast)
            else:
                prepare_types(core, typed_pairs([pair], [types[number]]), 0)
        except Error as cause:
            raise make(cause.code, f"pairs[{number}]: {cause.message}", cause.hint) from cause
        except Exception:
            raise InvalidArgument(
                f"pairs[{number}]={shown(pair)} is not a pair of arrays",
                f"give {call} (source, target), (source, target), …",
            ) from None


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


def is_one_item(type: Any, count: Any, stream: Any) -> TypeGuard[Datatype]:
    """Returns whether a pack or unpack has one item and no stream, so that it may be known."""
    return type.__class__ is Datatype and stream is None and count.__class__ is int and count == 1
