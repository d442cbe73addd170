"""Headers of .npy files, so that such a file is an array with a layout."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import Error, InvalidArgument, NotFound, make

__all__ = ["open_npy"]

Header = tuple[list[tuple[str, int]], list[tuple[str, str, int]], str, int, bool, np.dtype[Any]]


def open_npy(
    path: str,
    extents: Mapping[str, int] | Sequence[int] | None,
    fields: Mapping[str, Any] | npt.DTypeLike,
    layout: str | None,
    mode: str,
) -> Header:
    """Names and extents, fields, layout, bytes before the data, whether the names are given, type.

    With mode "w" and extents the file is made; else its own header says all.
    """
    if mode == "w" and extents is not None:
        return write_header(path, extents, fields, layout)
    if extents is not None or layout is not None:
        raise InvalidArgument(
            f"the header of {path} gives its extents and layout; leave them out, or make a new "
            'file with mode="w"'
        )
    return read_header(path)


def read_header(path: str) -> Header:
    """What an existing .npy file says of itself."""
    from .arrays import field_specs

    if not os.path.exists(path):
        raise NotFound(f"there is no file {path}")
    try:
        with open(path, "rb") as file:
            version = np.lib.format.read_magic(file)
            reader = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, fortran, dtype = reader(file)
            offset = file.tell()
    except (ValueError, OSError) as error:
        raise InvalidArgument(f"{path} is not a readable .npy file: {error}") from error
    check_packed(dtype, path)
    names = [(f"d{k}", extent) for k, extent in enumerate(shape)]
    order = names if fortran else names[::-1]
    text = ", ".join(["F", *(name for name, _ in order)])
    return names, field_specs(dtype), text, offset, False, dtype


def write_header(
    path: str,
    extents: Mapping[str, int] | Sequence[int],
    fields: Mapping[str, Any] | npt.DTypeLike,
    layout: str | None,
) -> Header:
    """Makes a .npy file of C or Fortran order; the data come later."""
    from .arrays import c_order, extent_specs, field_specs

    names, named = extent_specs(extents)
    specs = field_specs(fields)
    text = layout if layout is not None else c_order(names)
    terms = [term.strip() for term in text.split(",") if term.strip() != "F"]
    ordered = [name for name, _ in names]
    if terms not in (ordered, ordered[::-1]):
        raise InvalidArgument(
            f'a .npy file is in C or Fortran order, and "{text}" is neither; write to a raw file '
            "(any other ending) instead"
        )
    if len(specs) > 1 and not text.replace(" ", "").startswith("F,"):
        raise InvalidArgument(
            f'a .npy file keeps the fields of a point together, and "{text}" does not; write to a '
            "raw file (any other ending) instead"
        )
    fortran = terms == ordered and len(ordered) > 1
    dtype = npy_dtype(fields, specs)
    header = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": fortran,
        "shape": tuple(extent for _, extent in names),
    }
    try:
        with open(path, "wb") as file:
            try:
                np.lib.format.write_array_header_1_0(file, header)
            except ValueError:  # more than its 64 KiB
                np.lib.format.write_array_header_2_0(file, header)
            offset = file.tell()
    except OSError as error:
        code = "permission" if isinstance(error, PermissionError) else "io"
        raise make(code, f"{path} cannot be written: {error.strerror}; choose another place") from (
            error
        )
    return names, specs, text, offset, named, dtype


def npy_dtype(
    fields: Mapping[str, Any] | npt.DTypeLike, specs: list[tuple[str, str, int]]
) -> np.dtype[Any]:
    """The type that the header names: as it was given, subarrays and all."""
    if not isinstance(fields, Mapping):
        return np.dtype(fields)
    if len(specs) == 1:
        return np.dtype(specs[0][1])
    return np.dtype([(name, kind) for name, kind, _ in specs])


def check_packed(dtype: np.dtype[Any], path: str) -> None:
    """Structures with holes between their fields have no layout here."""
    if dtype.hasobject:
        raise Error(f"{path} holds Python objects, which cannot be copied")
    if dtype.names is None:
        return
    sizes = sum(dtype[name].itemsize for name in dtype.names)
    if sizes != dtype.itemsize:
        raise InvalidArgument(
            f"{path} has padding between its fields; save it without (align=False)"
        )
