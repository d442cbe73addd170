"""Headers of .npy files, which give extents, type and layout."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Mapping
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import Error, InvalidArgument
from ..files import open_to_read
from .dtypes import dtype_fields, field_specs, is_packed
from .extents import Extents, c_order, extent_specs

__all__ = ["Header", "new_npy", "read_header", "records_of"]

MAGIC = b"\x93NUMPY"
MARK = b"\x93TS~"
"""First bytes of a file while it is changed in place; the number of writers follows."""
VERSIONS = {1: (2, "latin1"), 2: (4, "latin1"), 3: (4, "utf-8")}
"""Versions of the format: bytes of the header's length, and the encoding of its text."""
ALIGN_BYTES = 64
HEADER_BYTES_MAX = 64 << 20
"""Longest header that is read, of some million fields."""
LEGACY = re.compile(r"(?<=\d)L\b")
"""Python 2 wrote whole numbers so."""


class Header(NamedTuple):
    """The contents of a .npy header."""

    extents: list[tuple[str, int]]
    fields: list[tuple[str, str, int]]
    layout: str
    offset: int
    """Bytes before the data."""
    named: bool
    """Whether the names of the dimensions are the user's."""
    dtype: np.dtype[Any]


def read_header(path: str, writing: bool = False) -> Header:
    """Reads the header of an existing .npy file.

    Args:
        path: Path of the file.
        writing: Whether to read it even if another process is changing it.

    Raises:
        NotFound: There is no such file.
        InvalidArgument: Not a .npy file, or one that is not whole.
    """
    with open_to_read(path) as file:
        try:
            shape, fortran, dtype = parse(file, path, writing)
            offset = file.tell()
        except OSError as error:
            raise InvalidArgument(f"{path} is not a readable .npy file: {error}") from error
    if dtype.hasobject:
        raise Error(
            f"{path} holds Python objects, which cannot be copied",
            "save it with a numeric type",
        )
    names = [(f"d{k}", extent) for k, extent in enumerate(shape)]
    order = names if fortran else names[::-1]
    text = ", ".join(["F", *(name for name, _ in order)])
    return Header(names, field_specs(dtype), text, offset, False, dtype)


def parse(file: BinaryIO, path: str, writing: bool) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Returns shape, order and type that the header at the beginning of a file names.

    Raises:
        InvalidArgument: It is no header, or its file is not whole.
    """
    start = file.read(8)
    if start[:4] == MARK and not writing:
        raise InvalidArgument(
            f"{path} is not whole: {int.from_bytes(start[4:6], 'little')} writers that "
            "change it in place have not finished",
            "wait until they have called flush(), or make it again if they have failed or ended",
        )
    if len(start) < 8 or (start[:6] != MAGIC and start[:4] != MARK):
        raise not_readable(path, "it does not begin as one")
    if start[6] not in VERSIONS:
        raise not_readable(path, f"its format has version {start[6]}.{start[7]}")
    length_bytes, encoding = VERSIONS[start[6]]
    length = int.from_bytes(file.read(length_bytes), "little")
    if length > HEADER_BYTES_MAX:
        raise not_readable(path, f"its header has {length} bytes")
    text = file.read(length)
    if len(text) < length:
        raise not_readable(path, f"it ends within its header of {length} bytes")
    try:
        return header_of(text.decode(encoding))
    except (ValueError, TypeError, SyntaxError, KeyError, RecursionError, MemoryError) as error:
        raise not_readable(path, f"its header cannot be read ({error})") from error


def not_readable(path: str, why: str) -> InvalidArgument:
    """Returns the error for a file that is no .npy file, or not a whole one."""
    return InvalidArgument(
        f"{path} is not a readable .npy file: {why}",
        "check that it is the right file and was written to the end",
    )


def header_of(text: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Returns what the text of a header says.

    Raises:
        ValueError: It lacks something.
    """
    try:
        known = ast.literal_eval(text.strip())
    except SyntaxError:
        known = ast.literal_eval(LEGACY.sub("", text.strip()))
    if not isinstance(known, dict) or known.keys() != {"descr", "fortran_order", "shape"}:
        raise ValueError("it must have descr, fortran_order and shape")
    shape, fortran = known["shape"], known["fortran_order"]
    if not isinstance(shape, tuple) or not all(isinstance(n, int) and n >= 0 for n in shape):
        raise ValueError(f"the shape is {shape!r}")
    if not isinstance(fortran, bool):
        raise ValueError(f"fortran_order is {fortran!r}")
    dtype: np.dtype[Any] = np.lib.format.descr_to_dtype(known["descr"])
    return shape, fortran, dtype


def new_npy(
    path: str,
    extents: Extents,
    fields: Mapping[str, Any] | npt.DTypeLike,
    layout: str | None,
) -> tuple[Header, bytes]:
    """Returns the header of a new .npy file of C or Fortran order, and its bytes."""
    names, named = extent_specs(extents)
    specs = field_specs(fields)
    text = layout if layout is not None else c_order(names)
    # Says what is wrong with a layout of no file at all, such as a dimension that there is not.
    _core.layout_bytes(names, specs, text)
    every = [term.strip() for term in text.split(",")]
    terms = [term for term in every if term != "F"]
    ordered = [name for name, _ in names]
    # Dimensions of one index may stand anywhere.
    wide = [name for name, extent in names if extent != 1]
    order = [term for term in terms if term in wide]
    if sorted(terms) != sorted(ordered) or order not in (wide, wide[::-1]):
        raise InvalidArgument(
            f'a .npy file is in C or Fortran order, and "{text}" is neither',
            "write to a raw file (any other ending) instead",
        )
    if len(specs) > 1 and every[0] != "F":
        raise InvalidArgument(
            f'a .npy file keeps the fields of a point together, and "{text}" does not',
            "write to a raw file (any other ending) instead",
        )
    fortran = order == wide and len(wide) > 1
    text = ", ".join(["F", *(ordered if fortran else ordered[::-1])])
    dtype = npy_dtype(fields)
    check_named_by_npy(dtype, path)
    header = header_bytes(path, dtype, fortran, tuple(extent for _, extent in names))
    return Header(names, specs, text, len(header), named, dtype), header


def header_bytes(path: str, dtype: np.dtype[Any], fortran: bool, shape: tuple[int, ...]) -> bytes:
    """Returns a header of the first version that can say this.

    Raises:
        InvalidArgument: The name of a field cannot be encoded.
    """
    described = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": fortran,
        "shape": shape,
    }
    for version, (length_bytes, encoding) in VERSIONS.items():
        try:
            text = repr(described).encode(encoding)
        except UnicodeEncodeError:
            continue
        before = len(MAGIC) + 2 + length_bytes
        padding = -(before + len(text) + 1) % ALIGN_BYTES
        text += b" " * padding + b"\n"
        if len(text) < 1 << 8 * length_bytes:
            start = MAGIC + bytes([version, 0])
            return start + len(text).to_bytes(length_bytes, "little") + text
    raise InvalidArgument(
        f"the field names of {path} cannot be encoded", "give them names of valid characters"
    )


def npy_dtype(fields: Mapping[str, Any] | npt.DTypeLike) -> np.dtype[Any]:
    """Returns the type that the header names."""
    if isinstance(fields, Mapping):
        items: list[Any] = [
            (name, np.dtype(kind)) for name, kind in cast("Mapping[str, Any]", fields).items()
        ]
        return cast("np.dtype[Any]", items[0][1]) if len(items) == 1 else np.dtype(items)
    dtype: np.dtype[Any] = np.dtype(cast(Any, fields))
    return dtype


def check_named_by_npy(dtype: np.dtype[Any], path: str) -> None:
    """Refuses types that the format has no name for, and would silently store as bytes."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kept = np.lib.format.descr_to_dtype(np.lib.format.dtype_to_descr(dtype))
    except (TypeError, ValueError):
        kept = None
    if kept != dtype:
        raise InvalidArgument(
            f"the .npy format of {path} has no name for the type {dtype}",
            "use a raw file (any other ending) instead, or an integer type of the same size",
        )


StridedField = tuple[str, str, int, int, list[int]]
"""Name, type, bytes, offset of the first element in bytes, and strides in bytes, of a field."""


def records_of(
    dtype: np.dtype[Any], extents: list[tuple[str, int]], layout: str
) -> list[StridedField]:
    """Returns the fields of records with padding; none if there is no padding.

    Raises:
        InvalidArgument: The layout is another than C or Fortran order, whose padding nobody names.
    """
    if dtype.names is None or is_packed(dtype):
        return []
    terms = [term.strip() for term in layout.split(",")]
    ordered = [name for name, _ in extents]
    if terms not in (["F", *ordered], ["F", *ordered[::-1]]):
        raise InvalidArgument(
            f'the type {dtype} has padding between its fields, and the layout "{layout}" has none',
            "give a type without padding, or leave the layout out",
        )
    strides = strides_of(dict(extents), terms[1:], ordered, dtype.itemsize)
    return [(*field, strides) for field in dtype_fields(dtype)]


def strides_of(
    extents: dict[str, int], fastest_first: list[str], ordered: list[str], item_bytes: int
) -> list[int]:
    """Returns the strides in bytes of the dimensions, in their order."""
    strides = {}
    for name in fastest_first:
        strides[name] = item_bytes
        item_bytes *= max(extents[name], 1)
    return [strides[name] for name in ordered]
