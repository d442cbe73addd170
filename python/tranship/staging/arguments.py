"""What users of the staging service type, checked before it is sent: versions, boxes, types."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core
from ..errors import InvalidArgument

__all__ = [
    "at_origin",
    "box_of_index",
    "bytes_of",
    "check_box",
    "check_element",
    "which_version",
    "whole_version",
]

ELEMENT_BYTES_MAX = 16
"""Bytes of one element of a variable."""
VERSION_MAX = 2**63 - 1


def whole_version(version: Any, spellings: str = "") -> int:
    """A version's number.

    Args:
        version: what was given.
        spellings: what else it might be, for the message.

    Raises:
        InvalidArgument: it is not a whole number, or is too large.
    """
    number: int | None = version if type(version) is int else _index_of(version)
    if number is None:
        raise InvalidArgument(
            f"{version!r} is no version", f"give a whole number, such as 3{spellings}"
        )
    if not -VERSION_MAX <= number <= VERSION_MAX:
        raise InvalidArgument(f"version {number} is too large", "take one that fits into 64 bits")
    return number


def _index_of(value: Any) -> int | None:
    """The whole number that a value is; None: it is none, or a truth value."""
    if isinstance(value, bool | np.bool_):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def which_version(version: Any) -> tuple[str, int]:
    """How the core is asked for a version that is a number or "latest"."""
    if isinstance(version, str) and version == "latest":
        return "latest", 0
    return "exact", whole_version(version, ', or "latest"')


def at_origin(array: Any) -> tuple[Any, list[int]]:
    """An array, described at most once, and the corner 0 of as many dimensions."""
    if isinstance(array, np.ndarray):
        return array, [0] * array.ndim
    described = array if isinstance(array, _core.Array) else _core.array_of(array)
    return described, [0] * len(described.extents)


def check_box(lower: Sequence[int], upper: Sequence[int]) -> None:
    """Whether a box has as many upper as lower bounds, and none lies below the other.

    Raises:
        InvalidArgument: the text names the bounds.
    """
    if len(lower) != len(upper) or any(a > b for a, b in zip(lower, upper, strict=True)):
        raise InvalidArgument(
            f"from {tuple(lower)} to {tuple(upper)} is no box",
            "give a lower and an upper bound for each dimension, the lower one not above the other",
        )


def box_of_index(
    name: str, index: Any, lower: Sequence[int], upper: Sequence[int]
) -> tuple[Any, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """``[version, 0:64, :, 7]`` of a variable with these bounds.

    Returns:
        The version as it was given; the box's corners; the dimensions of which one index was named.

    Raises:
        InvalidArgument: steps, lists of indices, or more indices than there are dimensions.
    """
    version, *cuts = index if isinstance(index, tuple) else (index,)
    if sum(cut is Ellipsis for cut in cuts) > 1:
        raise InvalidArgument("an index may hold one ellipsis only")
    if any(cut is Ellipsis for cut in cuts):
        at = next(k for k, cut in enumerate(cuts) if cut is Ellipsis)
        cuts[at : at + 1] = [slice(None)] * max(len(lower) - len(cuts) + 1, 0)
    if len(cuts) > len(lower):
        raise InvalidArgument(
            f'"{name}" has {len(lower)} dimensions, and {len(cuts)} indices were given'
        )
    first, last, single = list(lower), list(upper), []
    for k, cut in enumerate(cuts):
        if isinstance(cut, slice):
            if cut.step not in (None, 1):
                raise InvalidArgument("a box has no steps: get it whole, and take every n-th")
            first[k] = first[k] if cut.start is None else whole_index(cut.start)
            last[k] = last[k] if cut.stop is None else whole_index(cut.stop)
        else:
            first[k] = whole_index(cut)
            last[k] = first[k] + 1
            single.append(k)
    check_box(first, last)
    return version, tuple(first), tuple(last), tuple(single)


def whole_index(index: Any) -> int:
    """An index of a variable's domain, which may be below zero."""
    if not isinstance(index, bool | np.bool_):
        try:
            return operator.index(index)
        except TypeError:
            pass
    raise InvalidArgument(
        f"{index!r} is no index of a box",
        "give whole numbers and ranges (start:stop), get the box, and pick elements from it",
    )


def bytes_of(size: Any, name: str) -> int:
    """A number of bytes, or a text such as "1GiB"."""
    try:
        return int(_core.parse_bytes(size)) if isinstance(size, str) else operator.index(size)
    except (TypeError, ValueError):
        raise InvalidArgument(
            f"{name}={size!r} is not a size", 'give bytes, or a text such as "64MiB"'
        ) from None


def check_element(dtype: np.dtype[Any]) -> None:
    """A variable has elements of one type, without a name.

    Raises:
        InvalidArgument: it is a structure, an array, or too large.
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
