"""Boxes of a recording as .npy files: one for each, in a folder for each variable."""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...arrays.dtypes import dtype_of
from ...arrays.npy import check_named_by_npy, header_bytes, parse
from ...errors import InvalidArgument
from .layout import RecordedVariable, damaged

__all__ = ["NpyReader", "NpyWriter", "bytes_of", "stored_type"]

Array = npt.NDArray[Any]

PART_BYTES = 1 << 20
"""Bytes that are written at a time, of which the checksum is taken just before: they are in a
processor's cache then."""


class NpyWriter:
    """Writes the boxes of a step.

    Args:
        folder: Folder of the step.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self, variables: Sequence[RecordedVariable], attributes: Mapping[str, Any]) -> None:
        """Makes the folders of the variables."""
        for variable in variables:
            if variable.boxes:
                (self._folder / variable.place).mkdir()

    def write(self, variable: RecordedVariable, number: int, array: Array) -> int:
        """Writes one box of a variable, and returns its checksum."""
        path = self._folder / variable.place / f"{number}.npy"
        kept = stored_type(array.dtype)
        head = header_bytes(str(path), kept, False, array.shape)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            return write_all(descriptor, head, bytes_of(array))
        finally:
            os.close(descriptor)


class NpyReader:
    """Reads the boxes of a step from its folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, variable: RecordedVariable, number: int) -> Array:
        """Reads one box of a variable.

        Raises:
            Error: The file is not what was recorded.
        """
        path = self._folder / variable.place / f"{number}.npy"
        shape, dtype = variable.boxes[number].shape, dtype_of(variable.type)
        try:
            with path.open("rb") as file:
                found, fortran, kept = parse(file, str(path), False)
                if (found, fortran, kept) != (shape, False, stored_type(dtype)):
                    raise damaged(path, f"it has {found} elements of {kept}, and not {shape}")
                left = os.fstat(file.fileno()).st_size - file.tell()
                if left != math.prod(shape) * dtype.itemsize:
                    raise damaged(path, f"it has {left} bytes of elements")
                array = np.empty(shape, dtype)
                if file.readinto(bytes_of(array)) != array.nbytes:
                    raise damaged(path, "it was cut while it was read")
        except (OSError, InvalidArgument) as error:
            raise damaged(path, error) from None
        return array


def stored_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the type that a file's header names: bytes, for a type that it has no name for."""
    try:
        check_named_by_npy(dtype, "")
    except InvalidArgument:
        return np.dtype(f"V{dtype.itemsize}")
    return dtype


def bytes_of(array: Array) -> memoryview:
    """Returns the bytes of an array, the last dimension fastest."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def write_all(descriptor: int, head: bytes, data: memoryview) -> int:
    """Writes a header and data, and returns the checksum of the data."""
    crc = 0
    write_part(descriptor, memoryview(head))
    for start in range(0, len(data), PART_BYTES):
        part = data[start : start + PART_BYTES]
        crc = zlib.crc32(part, crc)
        write_part(descriptor, part)
    return crc


def write_part(descriptor: int, part: memoryview) -> None:
    """Writes all of a part, in as many calls as the system takes."""
    while part:
        part = part[os.write(descriptor, part) :]
