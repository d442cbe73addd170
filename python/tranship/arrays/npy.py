"""Headers of .npy files, which give extents, type and layout."""

from __future__ import annotations

import errno
import io
import os
import secrets
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import Error, InvalidArgument, NotFound, make
from .dtypes import field_specs
from .extents import Extents, c_order, extent_specs

__all__ = ["Header", "beside", "new_npy", "read_header"]

MARK = b"\x93TS~"
"""First bytes of a file while it is changed in place; the number of writers follows."""


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
    if not os.path.exists(path):
        raise NotFound(f"there is no file {path}", "check the path")
    try:
        with open(path, "rb") as file:
            start = file.read(8)
            if start[:4] == MARK and not writing:
                raise InvalidArgument(
                    f"{path} is not whole: {int.from_bytes(start[4:6], 'little')} writers that "
                    "change it in place have not finished",
                    "wait until they have called flush(), or "
                    "make it again if they have failed or ended",
                )
            if start[:4] == MARK:
                start = np.lib.format.MAGIC_PREFIX + start[6:]
            version = np.lib.format.read_magic(io.BytesIO(start))
            reader = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, fortran, dtype = reader(file)
            offset = file.tell()
    except IsADirectoryError:
        raise InvalidArgument(f"{path} is a directory", "name a file in it") from None
    except PermissionError as error:
        raise make(
            "permission",
            f"cannot read {path}: {error.strerror}",
            "check the permissions of the file",
        ) from error
    except InvalidArgument:
        raise
    except (ValueError, OSError) as error:
        raise InvalidArgument(f"{path} is not a readable .npy file: {error}") from error
    if version > (2, 0):
        raise InvalidArgument(
            f"{path} has field names beyond Latin letters", "save it with other names"
        )
    check_packed(dtype, path)
    names = [(f"d{k}", extent) for k, extent in enumerate(shape)]
    order = names if fortran else names[::-1]
    text = ", ".join(["F", *(name for name, _ in order)])
    return Header(names, field_specs(dtype), text, offset, False, dtype)


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
    terms = [term.strip() for term in text.split(",") if term.strip() != "F"]
    ordered = [name for name, _ in names]
    if terms not in (ordered, ordered[::-1]):
        raise InvalidArgument(
            f'a .npy file is in C or Fortran order, and "{text}" is neither',
            "write to a raw file (any other ending) instead",
        )
    if len(specs) > 1 and not text.replace(" ", "").startswith("F,"):
        raise InvalidArgument(
            f'a .npy file keeps the fields of a point together, and "{text}" does not',
            "write to a raw file (any other ending) instead",
        )
    fortran = terms == ordered and len(ordered) > 1
    dtype = npy_dtype(fields, specs)
    check_named_by_npy(dtype, path)
    header = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": fortran,
        "shape": tuple(extent for _, extent in names),
    }
    stream = io.BytesIO()
    try:
        np.lib.format.write_array_header_1_0(stream, header)
    except UnicodeError:
        raise InvalidArgument(
            f"the field names of {path} are beyond Latin letters", "give them other names"
        ) from None
    except ValueError:  # more than its 64 KiB
        stream = io.BytesIO()
        np.lib.format.write_array_header_2_0(stream, header)
    return Header(names, specs, text, len(stream.getvalue()), named, dtype), stream.getvalue()


def npy_dtype(
    fields: Mapping[str, Any] | npt.DTypeLike, specs: list[tuple[str, str, int]]
) -> np.dtype[Any]:
    """Returns the type that the header names: as given, with subarrays, but without padding."""
    if isinstance(fields, Mapping):
        items: list[Any] = [
            (name, np.dtype(kind)) for name, kind in cast("Mapping[str, Any]", fields).items()
        ]
        return cast("np.dtype[Any]", items[0][1]) if len(items) == 1 else np.dtype(items)
    dtype: np.dtype[Any] = np.dtype(cast(Any, fields))
    if dtype.names is None:
        return dtype
    table = cast(Mapping[str, Any], dtype.fields)
    return np.dtype([(name, table[name][0]) for name in dtype.names])


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


@contextmanager
def beside(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Opens a new file that takes the name `path` at the end, when it is on the disk.

    An old file of that name stays as it is until then. After an exception the new file is removed.

    Raises:
        Error: The folder or the disk refuses.
    """
    final = os.path.realpath(path)
    temporary = f"{final}.{secrets.token_hex(8)}.tranship-part"
    try:
        with open(temporary, "xb") as file:
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
                if os.path.exists(final):
                    os.chmod(temporary, os.stat(final).st_mode & 0o7777)
                os.replace(temporary, final)
            except BaseException:
                os.unlink(temporary)
                raise
    except OSError as error:
        code = {errno.ENOENT: "not_found", errno.EACCES: "permission", errno.EROFS: "permission"}
        raise make(
            code.get(error.errno or 0, "io"),
            f"cannot write {os.fspath(path)!r}: {error.strerror}",
            "check the folder, its permissions and space, or choose another place",
        ) from error


def check_packed(dtype: np.dtype[Any], path: str) -> None:
    """Refuses structures with padding between their fields, which no layout describes."""
    if dtype.hasobject:
        raise Error(
            f"{path} holds Python objects, which cannot be copied",
            "save it with a numeric type",
        )
    if dtype.names is None:
        return
    sizes = sum(dtype[name].itemsize for name in dtype.names)
    if sizes != dtype.itemsize:
        raise InvalidArgument(
            f"{path} has padding between its fields", "save it without (align=False)"
        )
