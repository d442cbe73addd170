"""Files as arrays."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from .. import _core
from ..arguments import check_path, check_switch, check_text, check_whole, guard_methods, shown
from ..closing import Closing
from ..errors import InvalidArgument
from .core_array import CoreArray
from .dtypes import field_specs
from .extents import Extents, c_order, extent_specs
from .npy import new_npy, read_header, records_of

__all__ = ["File"]


@guard_methods
class File(CoreArray, Closing):
    """A file as one end of a copy; parts of it are read and written where they lie.

    With mode "w" the file is new: its data are written to a temporary file beside it, which takes
    the name when it is whole: at `flush` or `close`, or at the end of a ``with`` statement. Until
    then a file of that name stays as it is. If a copy into the new file failed or was cancelled, or
    the process dies, the old file keeps the name. A new file into which nothing was copied replaces
    no other. Without any of these calls, the new file takes its name when the last reference to it
    is dropped, if copies of as many bytes as it has have ended well.

    With mode "r+" a file is changed in place, and several processes may write different parts of
    it. From the first copy into a .npy file until `flush` or `close` its header says that it is
    not whole, and NumPy and `File` refuse to read it; so they do after a copy that failed, or if
    the process died. Raw files have no header that could say so.

    Args:
        path: A ``.npy`` file, whose header gives extents, type and layout, or any binary file.
        extents: Number of indices of each dimension, by name or in order. Not for an existing .npy
            file.
        fields: Types by name, or a dtype. Not for an existing .npy file.
        layout: Order of the terms, fastest first. Default: C order.
        mode: ``"r"`` reads a file that exists; ``"w"`` makes a new file, which replaces one of the
            same name; ``"r+"`` reads and changes a file that exists.
        offset: Bytes from the start of a raw file to its first element.
        direct: Whether large runs bypass the page cache, where the file system allows it.
        durable: Whether `flush` and `close` also wait until the folder is on the disk, so that the
            file has its name even after a power failure.

    Raises:
        NotFound: There is no such file, or folder.
        InvalidArgument: A directory, a pipe, or extents that do not fit.
        OutOfRange: The file is too short.
        Error: No permission, or a full disk (``code="io"``).
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        extents: Extents | None = None,
        fields: Mapping[str, Any] | npt.DTypeLike = "f8",
        layout: str | None = None,
        mode: Literal["r", "w", "r+"] = "r",
        offset: int = 0,
        direct: bool = True,
        durable: bool = False,
    ) -> None:
        if not isinstance(mode, str) or mode not in ("r", "w", "r+"):
            raise InvalidArgument(
                f"mode={shown(mode)} is not a mode of a file",
                'give "r" to read, "w" to make a new file, or "r+" to change one in place',
            )
        self._closed = False
        self.path = check_path("path", path)
        direct, durable = check_switch("direct", direct), check_switch("durable", durable)
        check_whole("offset", offset, least=0)
        if layout is not None:
            check_text("layout", layout)
        npy = self.path.endswith(".npy")
        head = b""
        if npy and mode == "w":
            if extents is None:
                raise InvalidArgument(
                    f"{self.path} is to be made",
                    "say its extents, fields and layout, or change the "
                    'file that is there with mode="r+"',
                )
            header, head = new_npy(self.path, extents, fields, layout)
            names, specs, text, offset, named, self._dtype = header
        elif npy:
            if extents is not None or layout is not None:
                raise InvalidArgument(
                    f"the header of {self.path} gives its extents and layout",
                    'leave them out, or make a new file with mode="w"',
                )
            names, specs, text, offset, named, self._dtype = read_header(self.path, mode == "r+")
        else:
            if extents is None:
                raise InvalidArgument(
                    f"{self.path} is not a .npy file", "say its extents, fields and layout"
                )
            names, named = extent_specs(extents)
            specs = field_specs(fields)
            text = layout if layout is not None else c_order(names)
            self._dtype = None if isinstance(fields, Mapping) else structure_of(fields)
        records = [] if self._dtype is None else records_of(self._dtype, names, text)
        self._is_padded = bool(records)
        if not records and not npy:
            self._dtype = None
        self._core = _core.file(
            self.path,
            names,
            specs,
            text,
            offset,
            mode,
            direct,
            named,
            durable,
            head,
            npy,
            records,
            math.prod(extent for _, extent in names) * (self.dtype.itemsize if records else 0),
        )

    def flush(self) -> None:
        """Waits until copies into the file have ended and what they wrote is on the disk.

        A new file then has its name. What is copied into it later changes it in place.

        Raises:
            Error: A copy into the file failed or was cancelled, or the disk refused; the text says
                which. The file is not whole, and a new file does not take its name.
            Closed: The file was closed.
        """
        self._core.flush()

    def close(self) -> None:
        """Flushes what was written and closes the file. Further calls do nothing.

        If a new file was only written in part, a `UserWarning` says how much of it: the rest is
        zeros.

        Raises:
            Error: As for `flush`. A new file is removed.
        """
        self._close_file(stacklevel=3)

    def __exit__(self, kind: object = None, *_: object) -> None:
        """Closes the file; after an exception removes a new one and leaves a changed one marked."""
        if kind is None:
            self._close_file(stacklevel=3)
        else:
            self._core.discard()

    def _close_file(self, stacklevel: int) -> None:
        """Closes the file, and warns the caller of so many levels above about a part."""
        self._core.close()
        missing = "" if self._closed else self._core.missing()
        self._closed = True
        if missing:
            warnings.warn(missing, stacklevel=stacklevel)


def structure_of(fields: npt.DTypeLike) -> np.dtype[Any] | None:
    """Returns the type if it is a structure."""
    dtype: np.dtype[Any] = np.dtype(fields)
    return dtype if dtype.names is not None else None
