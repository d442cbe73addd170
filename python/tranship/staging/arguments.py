"""Arguments of the staging service, checked before they are sent: versions, boxes, types."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core
from ..arguments import check_text, shown
from ..errors import InvalidArgument

__all__ = [
    "at_origin",
    "box_of_index",
    "bytes_of",
    "check_box",
    "check_element",
    "check_flag",
    "corner_of",
    "variable_name",
    "which_version",
    "whole_version",
]

ELEMENT_BYTES_MAX = 16
"""Largest element of a variable, in bytes."""
VERSION_MAX = 2**63 - 1
BIG = 2**62
"""Indices are smaller."""
SMALL = -BIG
"""Indices are larger."""


def variable_name(name: Any) -> str:
    """Returns the name of a variable.

    Raises:
        InvalidArgument: The name is not a text.
    """
    return check_text("name", name)


def whole_version(version: Any, spellings: str = "") -> int:
    """Returns a version's number.

    Args:
        version: The caller's argument.
        spellings: Other values that the call accepts, for the hint.

    Raises:
        InvalidArgument: The version is not a whole number, or is too large.
    """
    number: int | None = version if type(version) is int else _index_of(version)
    if number is None:
        raise InvalidArgument(
            f"{shown(version)} is no version", f"give a whole number, such as 3{spellings}"
        )
    if not -VERSION_MAX <= number <= VERSION_MAX:
        raise InvalidArgument(f"version {number} is too large", "take one that fits into 64 bits")
    return number


def _index_of(value: Any) -> int | None:
    """Returns the whole number that a value is; None for a truth value and all else."""
    if isinstance(value, bool | np.bool_):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def which_version(version: Any) -> tuple[str, int]:
    """Returns the core's two arguments for a version that is a number or "latest"."""
    if isinstance(version, str) and version == "latest":
        return "latest", 0
    return "exact", whole_version(version, ', or "latest"')


def corner_of(name: str, corner: Any) -> list[int]:
    """Returns the corner of a box: one whole number for each dimension.

    Args:
        name: Name of the argument.
        corner: The caller's argument: a tuple, a list, or a NumPy array of integers.

    Raises:
        InvalidArgument: The corner is not a sequence of whole numbers, or has one that is too
            large.
    """
    if type(corner) is tuple:  # the usual case, without a generator, which takes 200 ns
        for one in corner:
            if type(one) is not int or not SMALL < one < BIG:
                break
        else:
            return list(corner)
    indices = None
    if not isinstance(corner, str | bytes) and np.iterable(corner):
        indices = [_index_of(index) for index in corner]
    if indices is None or None in indices:
        raise InvalidArgument(
            f"{name}={shown(corner)} is not a corner of a box",
            f"give a whole number for each dimension, as in {name}=(0, 64)",
        )
    whole = [index for index in indices if index is not None]
    if not all(SMALL < index < BIG for index in whole):
        raise InvalidArgument(
            f"{name}={shown(corner)} has an index that is too large",
            "count indices from nearer to 0",
        )
    return whole


def check_flag(name: str, value: Any) -> bool:
    """Returns a truth value.

    Raises:
        InvalidArgument: The value is something else.
    """
    if not isinstance(value, bool | np.bool_):
        raise InvalidArgument(f"{name}={shown(value)} is not a truth value", "give True or False")
    return bool(value)


def at_origin(array: Any) -> tuple[Any, list[int]]:
    """Returns an array, described at most once, and the corner 0 of as many dimensions."""
    if isinstance(array, np.ndarray):
        return array, [0] * array.ndim
    described = array if isinstance(array, _core.Array) else _core.array_of(array)
    return described, [0] * len(described.extents)


def check_box(lower: Sequence[int], upper: Sequence[int]) -> None:
    """Checks that a box has as many upper as lower bounds, none of them below the other.

    Raises:
        InvalidArgument: It has not; the text names the bounds.
    """
    if len(lower) != len(upper) or any(a > b for a, b in zip(lower, upper, strict=True)):
        raise InvalidArgument(
            f"from {tuple(lower)} to {tuple(upper)} is no box",
            "give a lower and an upper bound for each dimension, the lower one not above the other",
        )


def box_of_index(
    name: str, index: Any, lower: Sequence[int], upper: Sequence[int]
) -> tuple[Any, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Reads an index of a variable with these bounds, such as ``[version, 0:64, :, 7]``.

    Returns:
        The version as it was given; the box's corners; the dimensions that have a single index.

    Raises:
        InvalidArgument: The index has steps, lists of indices, or more indices than dimensions.
    """
    version, *cuts = index if isinstance(index, tuple) else (index,)
    if sum(cut is Ellipsis for cut in cuts) > 1:
        raise InvalidArgument("the index has more than one ellipsis", "keep one of them")
    if any(cut is Ellipsis for cut in cuts):
        at = next(k for k, cut in enumerate(cuts) if cut is Ellipsis)
        cuts[at : at + 1] = [slice(None)] * max(len(lower) - len(cuts) + 1, 0)
    if len(cuts) > len(lower):
        raise InvalidArgument(
            f'"{name}" has {len(lower)} dimensions, and {len(cuts)} indices were given',
            "give the version, and at most one index for each dimension",
        )
    first, last, single = list(lower), list(upper), []
    for k, cut in enumerate(cuts):
        if isinstance(cut, slice):
            if cut.step not in (None, 1):
                raise InvalidArgument(
                    f"a box has no steps, and dimension {k} has the step {shown(cut.step)}",
                    "get the box whole, and take every n-th element of it",
                )
            first[k] = first[k] if cut.start is None else whole_index(cut.start)
            last[k] = last[k] if cut.stop is None else whole_index(cut.stop)
        else:
            first[k] = whole_index(cut)
            last[k] = first[k] + 1
            single.append(k)
    check_box(first, last)
    return version, tuple(first), tuple(last), tuple(single)


def whole_index(index: Any) -> int:
    """Returns an index of a variable's domain, which may be below zero."""
    number = _index_of(index)
    if number is not None:
        return number
    raise InvalidArgument(
        f"{shown(index)} is no index of a box",
        "give whole numbers and ranges (start:stop), get the box, and pick elements from it",
    )


def bytes_of(size: Any, name: str) -> int:
    """Returns a number of bytes, given as such or as a text such as "1GiB"."""
    try:
        number = int(_core.parse_bytes(size)) if isinstance(size, str) else operator.index(size)
    except (TypeError, ValueError):
        raise InvalidArgument(
            f"{name}={shown(size)} is not a size", 'give bytes, or a text such as "64MiB"'
        ) from None
    if not 0 <= number <= VERSION_MAX:
        raise InvalidArgument(f"{name}={number} is not a size", "give from 0 to 2^63 - 1 bytes")
    return number


def check_element(dtype: np.dtype[Any]) -> None:
    """Checks that a variable can have elements of a type.

    Raises:
        InvalidArgument: The type is a structure, an array, or too large.
    """
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        raise InvalidArgument(
            f"a variable has no arrays as its elements ({dtype})",
            f"give the type {base}, and {len(shape)} more dimensions",
        )
    if dtype.names is not None:
        raise InvalidArgument(
            "an array with several fields is put field by field, each as its own variable",
            f"put array[{(*dtype.names, 'name')[0]!r}], for example",
        )
    if dtype.itemsize > ELEMENT_BYTES_MAX:
        raise InvalidArgument(
            f"elements of type {dtype} have {dtype.itemsize} bytes, and a variable's have at most "
            f"{ELEMENT_BYTES_MAX}",
            "put the bytes as one more dimension, as in array[..., np.newaxis].view('u1')",
        )
