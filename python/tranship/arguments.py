"""What callers pass, checked: the error names the argument and its value."""

from __future__ import annotations

import functools
import math
import operator
import os
from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import InvalidArgument

__all__ = [
    "check_options",
    "check_pairs",
    "check_path",
    "check_seconds",
    "check_text",
    "check_untyped",
    "check_whole",
    "element_type",
    "integers",
    "page_lists",
    "piece_lists",
    "shape_of",
]

BYTES_MAX = 1 << 46
"""Largest array that is allocated here."""
BITS = {32: "32-bit", 64: "64-bit"}
PRIORITY_BITS = 32

KEPT_LENGTHS = 1 << 17
"""Longest list of equal lengths that is kept for later calls: 1 MiB."""
INT64 = np.dtype(np.int64)

Integers = npt.NDArray[np.int64]


def shown(value: object) -> str:
    """Returns the value as messages show it, shortened."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def check_whole(name: str, value: Any, *, least: int | None = None, bits: int = 64) -> int:
    """Returns a whole number.

    Raises:
        InvalidArgument: The value is not a whole number, too small, or too large.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidArgument(
            f"{name}={shown(value)} is not a whole number", f"give an integer, as in {name}=1"
        ) from None
    if least is not None and number < least:
        raise InvalidArgument(f"{name}={number} is too small", f"give at least {least}")
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise InvalidArgument(
            f"{name}={number} is too large", f"give a number that fits a {BITS[bits]} integer"
        )
    return number


def check_text(name: str, value: Any) -> str:
    """Returns a text.

    Raises:
        InvalidArgument: The value is something else.
    """
    if not isinstance(value, str):
        raise InvalidArgument(f"{name}={shown(value)} is not a text", "give a str")
    return value


def check_path(name: str, value: Any) -> str:
    """Returns a path as text.

    Raises:
        InvalidArgument: The value is not a path.
    """
    try:
        return os.fsdecode(value)
    except TypeError:
        raise InvalidArgument(
            f"{name}={shown(value)} is not a path", "give a str or an os.PathLike"
        ) from None


def check_seconds(name: str, value: Any) -> float:
    """Returns a number of seconds.

    Raises:
        InvalidArgument: The value is not a number, or is "not a number".
    """
    if type(value) is float and value == value:  # the usual case, at little cost
        return value
    try:
        seconds = float(value) if not isinstance(value, str) else math.nan
    except (TypeError, ValueError):
        seconds = math.nan
    if math.isnan(seconds):
        raise InvalidArgument(
            f"{name}={shown(value)} is not a number of seconds", f"give one, as in {name}=10.0"
        )
    return seconds


def element_type(name: str, value: Any) -> np.dtype[Any]:
    """Returns the NumPy type that a value names.

    Raises:
        InvalidArgument: NumPy has no such type.
    """
    try:
        dtype: np.dtype[Any] = np.dtype(value)
    except (TypeError, ValueError, SyntaxError):
        raise InvalidArgument(
            f"{name}={shown(value)} is not a type that NumPy has",
            "give one such as 'f8', np.float32, or [('mass', 'f8'), ('id', 'i4')]",
        ) from None
    return dtype


def shape_of(shape: Any, dtype: npt.DTypeLike) -> tuple[int, ...]:
    """Returns the extents of an array that is to be made.

    Raises:
        InvalidArgument: They are not whole numbers, negative, or larger than any memory.
    """
    try:
        extents = tuple(
            operator.index(extent) for extent in (shape if np.iterable(shape) else (shape,))
        )
    except TypeError:
        raise InvalidArgument(
            f"shape={shown(shape)} is not a shape",
            "give whole numbers, one for each dimension, as in (512, 512)",
        ) from None
    if any(extent < 0 for extent in extents):
        raise InvalidArgument(
            f"shape={shown(shape)} has a negative extent", "give extents from 0 on"
        )
    count = math.prod(extents) * np.dtype(dtype).itemsize
    if count > BYTES_MAX:
        raise InvalidArgument(
            f"shape={shown(shape)} takes {count / 2**40:,.0f} TiB, more than any memory",
            f"an array takes at most {BYTES_MAX >> 40} TiB",
        )
    return extents


def page_lists(source: npt.ArrayLike, target: npt.ArrayLike) -> tuple[Integers, Integers]:
    """Returns the lists of a copy of pages as the core takes them."""
    what = "indices of the first dimension"
    return integers("source_pages", source, what), integers("target_pages", target, what)


def piece_lists(
    source: npt.ArrayLike, target: npt.ArrayLike, lengths: npt.ArrayLike
) -> tuple[Integers, Integers, Integers]:
    """Returns the lists of a copy of pieces as the core takes them."""
    what = "numbers of bytes"
    read = integers("source_offsets", source, what)
    if type(lengths) is int and len(read) <= KEPT_LENGTHS and abs(lengths) < 1 << 63:
        lengths = equal_lengths(len(read), lengths)
    elif np.ndim(lengths) == 0:
        lengths = np.full(read.shape, lengths)
    return read, integers("target_offsets", target, what), integers("lengths", lengths, what)


@functools.lru_cache(maxsize=8)
def equal_lengths(count: int, length: int) -> Integers:
    """Returns a list of one length for all pieces, which later calls are given again.

    New memory of this size would cost as much as the rest of the call.
    """
    return np.full(count, length, np.int64)


def integers(name: str, given: npt.ArrayLike, what: str) -> Integers:
    """Returns a list of integers as the core takes it.

    Raises:
        InvalidArgument: It is no such list; the hint says `what` it holds.
    """
    if type(given) is np.ndarray and given.dtype is INT64 and given.ndim == 1:
        return np.ascontiguousarray(given)
    array = np.asarray(given)
    if array.ndim != 1 or (array.size > 0 and array.dtype.kind not in "iu"):
        raise InvalidArgument(
            f"{name} is {array.dtype} of shape {array.shape}, not a list of integers",
            f"give {what}, as in {name}=[0, 3]",
        )
    if array.dtype == np.uint64 and array.size > 0 and array.max() > np.iinfo(np.int64).max:
        raise InvalidArgument(
            f"{name} has a number beyond 63 bits, {array.max()}",
            "give numbers of 64 bits with sign",
        )
    return np.ascontiguousarray(array, dtype=np.int64)


def check_options(priority: Any, planner: Any = "automatic", buffer_bytes: Any = 0) -> None:
    """Names the option that the core cannot read.

    Raises:
        InvalidArgument: One of them has the wrong type, or does not fit its integer.
    """
    check_whole("priority", priority, bits=PRIORITY_BITS)
    check_text("planner", planner)
    check_whole("buffer_bytes", buffer_bytes)


def check_pairs(pairs: Any) -> None:
    """Refuses what cannot be iterated over.

    Raises:
        InvalidArgument: It is not iterable.
    """
    if not np.iterable(pairs):
        raise InvalidArgument(
            f"pairs={pairs!r} is not a list of copies", "give (source, target), (source, target), …"
        )


def check_untyped(region: Any, planner: Any, buffer_bytes: Any) -> None:
    """Refuses options that copies between types do not have.

    Raises:
        InvalidArgument: One of them is given.
    """
    for name, value, usual in (
        ("region", region, None),
        ("planner", planner, "automatic"),
        ("buffer_bytes", buffer_bytes, 0),
    ):
        if value != usual:
            raise InvalidArgument(
                f"{name}={value!r} is given together with types", f"leave out {name}"
            )
