"""Arguments of the staging service, checked before they are sent: versions, boxes, types."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _core
from ..arguments import check_switch, check_text, shown
from ..arrays.dtypes import type_name
from ..arrays.lossy import refuse_lossy
from ..errors import InvalidArgument, OutOfRange

__all__ = [
    "as_elements",
    "at_origin",
    "box_of_index",
    "bytes_of",
    "check_box",
    "check_element",
    "check_flag",
    "check_shape",
    "corner_of",
    "is_empty",
    "put_array",
    "variable_name",
    "which_version",
    "whole_index",
    "whole_version",
]

ELEMENT_BYTES_MAX = 1 << 20
"""Largest element of a variable, in bytes."""
TYPE_BYTES_MAX = 4096
"""Longest text of an element's type, in bytes of UTF-8."""
SCALARS_AND_LISTS = (bool, int, float, complex, str, list, tuple, np.generic)
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
        raise InvalidArgument(
            f"version {shown(number)} is too large", "take one that fits into 64 bits"
        )
    return number


def _index_of(value: Any) -> int | None:
    """Returns the whole number that a value is; None for a truth value and all else."""
    if isinstance(value, bool | np.bool_):
        return None
    try:
        return operator.index(value)
    except Exception:  # also what the value's own __index__ raises
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
        indices = indices_of(corner)
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


def indices_of(corner: Any) -> list[int | None] | None:
    """Returns the whole numbers of a corner; None if it cannot be read."""
    try:
        return [_index_of(index) for index in corner]
    except Exception:  # what the value's own iteration raises
        return None


def check_flag(name: str, value: Any) -> bool:
    """Returns a truth value.

    Raises:
        InvalidArgument: The value is something else.
    """
    return check_switch(name, value)


def check_copy(copy: Any, out: Any) -> bool | None:
    """Returns whether a get has to copy: True, False, or None if it may.

    Raises:
        InvalidArgument: The value is something else; or it must not copy, and there is a target.
    """
    copies = None if copy is None else check_switch("copy", copy)
    if copies is False and out is not None:
        raise InvalidArgument(
            "copy=False does not fit out=: what is got into an array is copied",
            "leave one of them out",
        )
    return copies


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


def is_empty(lower: Sequence[int], upper: Sequence[int]) -> bool:
    """Returns whether a box has no elements.

    Raises:
        InvalidArgument: It is none, as of `check_box`.
    """
    check_box(lower, upper)
    return any(a == b for a, b in zip(lower, upper, strict=True))


def check_shape(array: Any, lower: Sequence[int], upper: Sequence[int]) -> None:
    """Checks the shape of a target for a box without elements.

    Raises:
        InvalidArgument: It is not that of the box.
    """
    described = array if hasattr(array, "shape") else _core.array_of(array)
    shape = tuple(getattr(described, "shape", None) or described.extents)
    box = tuple(b - a for a, b in zip(lower, upper, strict=True))
    if shape != box:
        raise InvalidArgument(
            f"out has the shape {shape}, and the box has {box}", "give an array of that shape"
        )


def box_of_index(
    name: str, cuts: Sequence[Any], lower: Sequence[int], upper: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Reads the indices of a variable with these bounds, such as ``[0:64, :, 7]``.

    Returns:
        The box's corners; the dimensions that have a single index.

    Raises:
        InvalidArgument: The index has steps, lists of indices, or more indices than dimensions.
        OutOfRange: An index or a range leaves the bounds.
    """
    cuts = list(cuts)
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
        dimension = Dimension(name, k, lower[k], upper[k])
        if isinstance(cut, slice):
            first[k], last[k] = dimension.run_of(cut)
        else:
            first[k] = dimension.index_of(cut)
            last[k] = first[k] + 1
            single.append(k)
    return tuple(first), tuple(last), tuple(single)


@dataclass(frozen=True)
class Dimension:
    """One dimension of a variable, whose indices are read as NumPy reads them.

    Negative ones count from the end, unless the dimension itself has negative indices.
    """

    name: str
    number: int
    lower: int
    upper: int

    def index_of(self, given: Any) -> int:
        """Returns a single index.

        Raises:
            InvalidArgument: It is no whole number.
            OutOfRange: The dimension has no such index.
        """
        index = self._from_end(whole_index(given))
        if not self.lower <= index < self.upper:
            raise self._out_of_range(f"index {given}")
        return index

    def run_of(self, cut: slice) -> tuple[int, int]:
        """Returns the first index of a range, and one past its last: the same if it is empty.

        Raises:
            InvalidArgument: The range has steps, or something else than whole numbers.
            OutOfRange: It leaves the dimension.
        """
        if cut.step not in (None, 1):
            raise InvalidArgument(
                f"a box has no steps, and dimension {self.number} has the step {shown(cut.step)}",
                "get the box whole, and take every n-th element of it",
            )
        first = self.lower if cut.start is None else self._from_end(whole_index(cut.start))
        last = self.upper if cut.stop is None else self._from_end(whole_index(cut.stop))
        if not (self.lower <= first <= self.upper and self.lower <= last <= self.upper):
            start, stop = ("" if end is None else end for end in (cut.start, cut.stop))
            raise self._out_of_range(f"range {start}:{stop}")
        return first, max(first, last)

    def _from_end(self, index: int) -> int:
        return index + self.upper if index < 0 <= self.lower else index

    def _out_of_range(self, what: str) -> OutOfRange:
        return OutOfRange(
            f'the {what} leaves dimension {self.number} of "{self.name}", which is '
            f"{self.lower}:{self.upper}",
            "give indices within it, or wait for what may still come with get(..., lower, upper)",
        )


def whole_index(index: Any) -> int:
    """Returns an index of a variable, which may be below zero."""
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
    except Exception:  # also what the value's own __index__ raises
        raise InvalidArgument(
            f"{name}={shown(size)} is not a size", 'give bytes, or a text such as "64MiB"'
        ) from None
    if not 0 <= number <= VERSION_MAX:
        raise InvalidArgument(
            f"{name}={shown(number)} is not a size", "give from 0 to 2^63 - 1 bytes"
        )
    return number


def check_element(dtype: np.dtype[Any]) -> str:
    """Returns the text of the type of a variable's elements; a structure's lists its fields.

    Raises:
        InvalidArgument: The type is an array, of Python objects, or too large.
    """
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        raise InvalidArgument(
            f"a variable has no arrays as its elements ({dtype})",
            f"give the type {base}, and {len(shape)} more dimensions",
        )
    text = type_name(dtype)
    if dtype.itemsize > ELEMENT_BYTES_MAX:
        raise InvalidArgument(
            f"elements of type {shown(dtype)} have {dtype.itemsize} bytes, and a variable's have "
            f"at most {ELEMENT_BYTES_MAX}",
            "put the bytes as one more dimension, as in array[..., np.newaxis].view('u1')",
        )
    if len(text.encode()) > TYPE_BYTES_MAX:
        raise InvalidArgument(
            f"the type {shown(dtype)} takes {len(text.encode())} bytes to describe, and at most "
            f"{TYPE_BYTES_MAX} are allowed",
            "put some of its fields as variables of their own, as in array['name']",
        )
    return text


def put_array(array: Any) -> Any:
    """Returns what is put for an argument: scalars and lists are arrays, as NumPy makes them.

    Raises:
        InvalidArgument: The list has rows of different lengths.
    """
    if not isinstance(array, SCALARS_AND_LISTS):
        if type(array) is not np.ndarray:
            refuse_lossy(array)
        return array
    try:
        return np.asarray(array)
    except ValueError as error:
        raise InvalidArgument(
            f"array={shown(array)} is no array ({error})", "give rows of the same length"
        ) from None


def in_calling_thread(array: Any) -> Any:
    """Returns an array on a GPU as the core takes it: the stream that its library works in is that
    of the calling thread, not of one that puts and gets in the background. Returns any other array
    as it is.
    """
    if isinstance(array, np.ndarray):
        return array
    core = array if isinstance(array, _core.Array) else _core.array_of(array)
    return core if core.where == "device" else array


def as_elements(array: Any) -> tuple[Any, str]:
    """Returns an array as the core takes it, and the text of its elements if they are structures.

    A structure is one element: its bytes are copied together, with its padding.

    Raises:
        InvalidArgument: A variable cannot have such elements.
    """
    if not isinstance(array, np.ndarray) or array.dtype.names is None:
        return array, ""
    text = check_element(array.dtype)
    return array.view(np.ndarray).view(f"V{array.itemsize}"), text
