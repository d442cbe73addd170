"""What callers pass, checked: the error names the argument and its value."""

from __future__ import annotations

import functools
import inspect
import math
import operator
import os
import reprlib
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from .errors import Error, InvalidArgument, make

__all__ = [
    "check_options",
    "check_pairs",
    "check_path",
    "check_seconds",
    "check_switch",
    "check_text",
    "check_untyped",
    "check_whole",
    "element_type",
    "guard",
    "guard_methods",
    "guards_itself",
    "integers",
    "page_lists",
    "piece_lists",
    "refuse_call",
    "shape_of",
]

BYTES_MAX = 1 << 46
"""Largest array that is allocated here."""
SECONDS_MAX = 1e9
"""Longest wait that can be asked for: 31 years."""
MEMBERS_MAX = 1 << 16
"""Most members of the lists that describe a type: some 20,000 fields."""
RANK_MAX = 32
"""Most dimensions of an array that is allocated here, as of NumPy's before version 2."""
BITS = {32: "32-bit", 64: "64-bit"}
PRIORITY_BITS = 32

BRACKETED = ("__init__", "__getitem__", "__setitem__", "__contains__")
"""Methods that are guarded although their names begin with an underscore."""

KEPT_LENGTHS = 1 << 17
"""Longest list of equal lengths that is kept for later calls: 1 MiB."""
INT64 = np.dtype(np.int64)

Integers = npt.NDArray[np.int64]

P = ParamSpec("P")
R = TypeVar("R")
Class = TypeVar("Class", bound=type)


SHOWN_CHARACTERS = 80
"""Longest value in a message."""


class Shown(reprlib.Repr):
    """Shows of a value what a message has room for, however deep and long it is."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 4
        self.maxtuple = self.maxlist = self.maxarray = self.maxdict = self.maxset = 16
        self.maxfrozenset = self.maxdeque = 16
        self.maxstring = self.maxlong = self.maxother = SHOWN_CHARACTERS


SHOWN = Shown()


def shown(value: object) -> str:
    """Returns the value as messages show it, shortened; its type where it has no text."""
    try:
        text = SHOWN.repr(value).encode("utf-8", "backslashreplace").decode()
    except Exception:  # of the value's own repr
        text = f"<{type(value).__name__}>"
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 3] + "..."


def check_whole(name: str, value: Any, *, least: int | None = None, bits: int = 64) -> int:
    """Returns a whole number.

    Raises:
        InvalidArgument: The value is not a whole number, too small, or too large.
    """
    try:
        number = operator.index(value)
    except Exception:  # also what the value's own __index__ raises
        raise InvalidArgument(
            f"{name}={shown(value)} is not a whole number", f"give an integer, as in {name}=1"
        ) from None
    if least is not None and number < least:
        raise InvalidArgument(f"{name}={shown(number)} is too small", f"give at least {least}")
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise InvalidArgument(
            f"{name}={shown(number)} is too large",
            f"give a number that fits a {BITS[bits]} integer",
        )
    return number


def check_text(name: str, value: Any) -> str:
    """Returns a text.

    Raises:
        InvalidArgument: The value is something else, or other languages and processes cannot read
            it: it holds a NUL, or a code point that UTF-8 has not.
    """
    if not isinstance(value, str):
        raise InvalidArgument(f"{name}={shown(value)} is not a text", "give a str")
    if not value.isascii() and not is_encodable(value):
        raise InvalidArgument(
            f"{name}={shown(value)} has a code point that UTF-8 has not",
            "give a text without lone surrogates",
        )
    if "\0" in value:
        raise InvalidArgument(f"{name}={shown(value)} holds a NUL", "give a text without one")
    return value


def is_encodable(text: str) -> bool:
    """Returns whether UTF-8 has all code points of a text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_path(name: str, value: Any) -> str:
    """Returns a path as text; bytes that are no UTF-8 are as `os.fsdecode` makes them.

    Raises:
        InvalidArgument: The value is not a path, or no file can have that name.
    """
    try:
        text = os.fsdecode(value)
        names_none = b"\0" in os.fsencode(text)
    except UnicodeError:
        names_none = True
    except Exception:  # also what the value's own __fspath__ raises
        raise InvalidArgument(
            f"{name}={shown(value)} is not a path", "give a str or an os.PathLike"
        ) from None
    if names_none:
        raise InvalidArgument(
            f"{name}={shown(value)} is a path that no file can have",
            "give one without NUL and without lone surrogates",
        )
    return text


def check_switch(name: str, value: Any) -> bool:
    """Returns a truth value.

    Raises:
        InvalidArgument: The value is something else.
    """
    if not isinstance(value, bool | np.bool_):
        raise InvalidArgument(f"{name}={shown(value)} is not a truth value", "give True or False")
    return bool(value)


def check_seconds(name: str, value: Any) -> float:
    """Returns a number of seconds, limited to `SECONDS_MAX`.

    Raises:
        InvalidArgument: The value is not a number, or is "not a number".
    """
    if type(value) is float and -SECONDS_MAX <= value <= SECONDS_MAX:  # the usual case
        return value
    try:
        seconds = float(value) if not isinstance(value, str | bytes | bytearray) else math.nan
    except OverflowError:
        seconds = math.inf if value > 0 else -math.inf
    except Exception:  # also what the value's own __float__ raises
        seconds = math.nan
    if math.isnan(seconds):
        raise InvalidArgument(
            f"{name}={shown(value)} is not a number of seconds", f"give one, as in {name}=10.0"
        )
    return min(max(seconds, -SECONDS_MAX), SECONDS_MAX)


def element_type(name: str, value: Any) -> np.dtype[Any]:
    """Returns the NumPy type that a value names.

    Raises:
        InvalidArgument: NumPy has no such type.
    """
    try:
        if has_many_members(value):
            raise ValueError("NumPy's error would show all members of all levels")
        dtype: np.dtype[Any] = np.dtype(value)
    except Exception:  # NumPy raises many kinds, and reads attributes of the value
        raise InvalidArgument(
            f"{name}={shown(value)} is not a type that NumPy has",
            "give one such as 'f8', np.float32, or [('mass', 'f8'), ('id', 'i4')]",
        ) from None
    return dtype


def has_many_members(value: Any) -> bool:
    """Returns whether lists within lists have more than `MEMBERS_MAX` members, each counted as
    often as it is there.
    """
    if not isinstance(value, list | tuple):
        return False
    left: list[Any] = [value]
    count = 0
    while left:
        one = left.pop()
        count += len(one)
        if count > MEMBERS_MAX:
            return True
        left.extend(member for member in one if isinstance(member, list | tuple))
    return False


def shape_of(shape: Any, dtype: npt.DTypeLike) -> tuple[int, ...]:
    """Returns the extents of an array that is to be made.

    Raises:
        InvalidArgument: They are not whole numbers, negative, or larger than any memory.
    """
    try:
        extents = tuple(
            operator.index(extent) for extent in (shape if np.iterable(shape) else (shape,))
        )
    except Exception:  # also what the members' own __index__ raises
        raise InvalidArgument(
            f"shape={shown(shape)} is not a shape",
            "give whole numbers, one for each dimension, as in (512, 512)",
        ) from None
    if any(extent < 0 for extent in extents):
        raise InvalidArgument(
            f"shape={shown(shape)} has a negative extent", "give extents from 0 on"
        )
    count = math.prod(extents) * np.dtype(dtype).itemsize
    if count > BYTES_MAX or max(extents, default=0) > BYTES_MAX or len(extents) > RANK_MAX:
        many = f"takes {count >> 40:,} TiB" if count < 1 << 80 else "has more elements"
        if len(extents) > RANK_MAX:
            many = f"has {len(extents)} dimensions"
        raise InvalidArgument(
            f"shape={shown(shape)} {many}, more than any memory",
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
    elif not isinstance(lengths, list | tuple) and ndim_of(lengths) == 0:
        lengths = np.full(read.shape, check_whole("lengths", lengths))
    return read, integers("target_offsets", target, what), integers("lengths", lengths, what)


def ndim_of(value: Any) -> int:
    """Returns the number of dimensions that NumPy sees in a value; -1 if it cannot say."""
    try:
        return np.ndim(value)
    except Exception:  # of attributes of the value
        return -1


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
    try:
        if isinstance(given, list | tuple) and given and isinstance(given[0], list | tuple):
            raise ValueError("NumPy would look at all members of all levels")
        array = np.asarray(given)
    except Exception:  # also a ragged list, and what the value's own __array__ raises
        raise InvalidArgument(
            f"{name}={shown(given)} is not a list of integers", f"give {what}, as in {name}=[0, 3]"
        ) from None
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
    if isinstance(pairs, Mapping):
        raise InvalidArgument(
            f"pairs={shown(pairs)} is a mapping, whose members are its keys alone",
            "give pairs (source, target), as of its items()",
        )
    if isinstance(pairs, str | bytes) or not np.iterable(pairs):
        raise InvalidArgument(
            f"pairs={shown(pairs)} is not a list of copies",
            "give (source, target), (source, target), …",
        )


def check_untyped(region: Any, planner: Any, buffer_bytes: Any, cast: Any) -> None:
    """Refuses options that copies between types do not have.

    Raises:
        InvalidArgument: One of them is given.
    """
    given = {
        "region": region is not None,
        "planner": not (isinstance(planner, str) and planner == "automatic"),
        "buffer_bytes": not (isinstance(buffer_bytes, int) and buffer_bytes == 0),
        "cast": cast is not None,
    }
    values = {"region": region, "planner": planner, "buffer_bytes": buffer_bytes, "cast": cast}
    for name, value in values.items():
        if given[name]:
            raise InvalidArgument(
                f"{name}={shown(value)} is given together with types", f"leave out {name}"
            )


def guard(function: Callable[P, R]) -> Callable[P, R]:
    """Returns a function whose failures are errors of this package, whatever it is given.

    Checks name what is wrong with an argument; this is for what they do not foresee, such as an
    object whose own methods raise. A call with arguments that the function does not have raises
    Python's TypeError.
    """

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Error:
            raise
        except Exception as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is None:
                raise  # by the call itself
            refuse_call(f"{function.__name__}()", error)

    return guarded


def guards_itself(method: Callable[P, R]) -> Callable[P, R]:
    """Marks a method that calls `refuse_call` by itself: another call in front costs too much."""
    method.guards_itself = True  # type: ignore[attr-defined]
    return method


def guard_methods(cls: Class) -> Class:
    """Guards the constructor and the public methods of a class, and what brackets call."""
    for name, method in list(vars(cls).items()):
        public = not name.startswith("_") or name in BRACKETED
        if getattr(method, "guards_itself", False):
            continue
        if public and inspect.isfunction(method) and not inspect.isgeneratorfunction(method):
            setattr(cls, name, guard(method))
    return cls


def refuse_call(
    call: str,
    error: Exception,
    priority: Any = 0,
    planner: Any = "automatic",
    buffer_bytes: Any = 0,
) -> NoReturn:
    """Raises the error of a call that failed: its own, if it is one of this package.

    Raises:
        InvalidArgument: An option cannot be read, or another argument, by the core or because the
            caller's own object raised an exception.
        Error: There was too little memory, or the operating system refused.
    """
    if isinstance(error, Error):
        raise error
    check_options(priority, planner, buffer_bytes)
    if isinstance(error, MemoryError):
        raise make("out_of_memory", f"{call} found too little memory") from error
    if isinstance(error, OSError):
        raise make("io", f"{call} failed: {error.strerror or error}") from error
    lines = str(error).partition(": incompatible function arguments")[0].splitlines()
    reason = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    raise InvalidArgument(
        f"{call} cannot read an argument: {reason}", f"give the arguments as {call} says"
    ) from error
