"""Boxes of a recording in Zarr 3: the step is a group, and each variable an array in it.

The array is the box around what the step has of the variable; what no box has is zero there. The
library of Zarr writes and reads it.
"""

from __future__ import annotations

import importlib
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...arguments import shown
from ...arrays.dtypes import dtype_of
from ...errors import Error
from ..attributes import is_reserved
from ..labels import labels_of
from .layout import RecordedVariable, damaged
from .npy_boxes import bytes_of

__all__ = ["ZarrReader", "ZarrWriter", "chunk_shape", "zarr_library"]

Array = npt.NDArray[Any]

LOWER = "tranship:lower"
"""Attribute of an array: the first indices of its box."""
TYPE = "tranship:type"
"""Attribute of an array of bytes: what their last dimension is an element of."""
LEAST_VERSION = 3, 1
CHUNK_BYTES = 4096
"""What a chunk costs beside its elements: a file, rounded up."""
NUMBER_KINDS = "biufc"
NUMBER_BYTES_MAX = {"b": 1, "i": 8, "u": 8, "f": 8, "c": 16}


def zarr_library() -> Any:
    """Returns the module zarr.

    Raises:
        Error: It is not installed, too old, or cannot be imported.
    """
    install = "pip install 'zarr>=3.1', or record in the format npy"
    try:
        zarr = importlib.import_module("zarr")
        version = tuple(int(part) for part in zarr.__version__.split(".")[:2])
    except ModuleNotFoundError as error:
        raise Error(f"the format zarr needs the library zarr ({error})", install) from None
    except Exception as error:  # of what it imports in turn
        raise Error(
            f"the format zarr needs the library zarr, which cannot be imported ({error})",
            "repair its installation, or record in the format npy",
        ) from error
    if version < LEAST_VERSION:
        raise Error(f"the format zarr needs zarr 3.1, and this is {zarr.__version__}", install)
    return zarr


class ZarrWriter:
    """Writes the boxes of a step.

    Args:
        folder: Folder of the step.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._arrays: dict[str, Any] = {}

    def begin(self, variables: Sequence[RecordedVariable], attributes: Mapping[str, Any]) -> None:
        """Makes the arrays of the variables.

        Raises:
            Error: The library refuses.
            OSError: The disk does.
        """
        zarr = zarr_library()
        with refusals("the attributes of the step"):
            group = zarr.create_group(
                str(self._folder), zarr_format=3, attributes=plain(attributes)
            )
        for variable in variables:
            with refusals(f"the variable {shown(variable.name)}"):
                self._arrays[variable.name] = new_array(group, variable)

    def write(self, variable: RecordedVariable, number: int, array: Array) -> int:
        """Writes one box of a variable, and returns its checksum; raises as `begin`."""
        data = bytes_of(array)
        target = self._arrays[variable.name]
        values = array
        if not is_native(array.dtype):
            shape = (*array.shape, array.dtype.itemsize)
            values = np.frombuffer(data, "u1").reshape(shape)
        with refusals(f"the variable {shown(variable.name)}"):
            target[cut_of(variable, number)] = values
        return zlib.crc32(data)


class ZarrReader:
    """Reads the boxes of a step from its folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._zarr = zarr_library()

    def read(self, variable: RecordedVariable, number: int) -> Array:
        """Reads one box of a variable.

        Raises:
            Error: The array is not what was recorded.
        """
        path = self._folder / variable.place
        dtype, shape = dtype_of(variable.type), variable.boxes[number].shape
        native = is_native(dtype)
        try:
            array = self._zarr.open_array(str(path), mode="r", zarr_format=3)
            found = np.asarray(array[cut_of(variable, number)])
        except Exception as error:  # of the library and of its codecs
            raise damaged(path, error) from None
        wanted = (shape, dtype) if native else ((*shape, dtype.itemsize), np.dtype("u1"))
        if (found.shape, found.dtype.newbyteorder("=")) != (wanted[0], wanted[1].newbyteorder("=")):
            raise damaged(path, f"it has {found.shape} elements of {found.dtype}")
        if native:
            return found.astype(dtype, copy=False)
        made = np.empty(shape, dtype)
        bytes_of(made)[:] = bytes_of(found)
        return made


@contextmanager
def refusals(what: str) -> Iterator[None]:
    """Says of what the library raises, but for errors of the disk, what could not be written."""
    try:
        yield
    except (Error, OSError):
        raise
    except Exception as error:
        raise Error(
            f"the library zarr cannot write {what} ({type(error).__name__}: {error})",
            "record in the format npy",
        ) from error


def new_array(group: Any, variable: RecordedVariable) -> Any:
    """Makes the array of a variable in the group of its step, and returns it."""
    dtype = dtype_of(variable.type)
    native = is_native(dtype)
    within = () if native else (dtype.itemsize,)
    shape = tuple(b - a for a, b in zip(variable.lower, variable.upper, strict=True))
    boxes = [(box.lower, box.upper) for box in variable.boxes]
    chunks = chunk_shape(boxes, variable.lower, dtype.itemsize)
    dims = labels_of(variable.name, variable.attributes, len(shape)).dims
    return group.create_array(
        variable.place,
        shape=shape + within,
        chunks=chunks + within,
        dtype=dtype if native else "u1",
        dimension_names=None if dims is None or within else dims,
        attributes={
            **plain(variable.attributes),
            LOWER: list(variable.lower),
            **({} if native else {TYPE: variable.type}),
        },
        # Else a chunk that compares equal to zeros is left out, also one of -0.0.
        config={"write_empty_chunks": True},
    )


def cut_of(variable: RecordedVariable, number: int) -> Any:
    """Returns the indices of a box within the array of its variable."""
    box = variable.boxes[number]
    cuts = [
        slice(a - first, b - first)
        for a, b, first in zip(box.lower, box.upper, variable.lower, strict=True)
    ]
    return (*cuts, Ellipsis)


def is_native(dtype: np.dtype[Any]) -> bool:
    """Returns whether Zarr has a type: numbers, and times with a unit. All else is bytes there."""
    if dtype.kind in "mM":
        return np.datetime_data(dtype)[0] != "generic"
    known = dtype.kind in NUMBER_KINDS and dtype.isbuiltin != 2 and dtype.names is None
    return known and dtype.itemsize <= NUMBER_BYTES_MAX[dtype.kind]


def plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the attributes of a user, without labels."""
    return {key: value for key, value in attributes.items() if not is_reserved(key)}


def chunk_shape(
    boxes: Sequence[tuple[Sequence[int], Sequence[int]]], origin: Sequence[int], item_bytes: int
) -> tuple[int, ...]:
    """Returns the extents of chunks with which these boxes cost the fewest bytes.

    Chunks as large as the largest box, and halves of it along its longest dimensions, are compared:
    a box touches few chunks that lie as the boxes do, and a thin one few that are small.
    """
    if not boxes:
        return (1,) * len(origin)
    corners = np.array(boxes, np.int64).reshape(len(boxes), 2, len(origin)) - np.array(
        origin, np.int64
    )
    extents = corners[:, 1] - corners[:, 0]
    shape = extents[np.argmax(np.prod(extents, axis=1, dtype=np.float64))].copy()
    best, least = tuple(shape.tolist()), math.inf
    while True:
        touched = (corners[:, 1] - 1) // shape - corners[:, 0] // shape + 1
        chunks = float(np.prod(touched, axis=1, dtype=np.float64).sum())
        cost = chunks * (float(np.prod(shape, dtype=np.float64)) * item_bytes + CHUNK_BYTES)
        if cost < least:
            best, least = tuple(shape.tolist()), cost
        if shape.size == 0 or shape.max() == 1:
            return best
        longest = int(np.argmax(shape))
        shape[longest] = (shape[longest] + 1) // 2
