"""Files as arrays."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from .. import _core
from ..closing import Closing
from ..errors import InvalidArgument
from .core_array import CoreArray
from .dtypes import field_specs
from .extents import c_order, extent_specs
from .npy import new_npy, read_header

__all__ = ["File"]


class File(CoreArray, Closing):
    """A file as one end of a copy; parts of it are read and written where they lie.

    With mode "w" the file is new: it is written beside its name and takes it when it is whole, at
    `flush` or `close`, or at the end of a ``with`` statement. Until then whatever has the name
    stays as it is. After a copy into it that failed or was cancelled, nothing takes the name; nor
    if the process dies. A file into which nothing was copied replaces no other. Without any of
    these calls, the file takes its name when nobody refers to it any more, if copies of as many
    bytes as it has have ended well.

    With mode "r+" a file is changed in place, where several processes may write different parts of
    it. While one does, a .npy file is marked as not whole, and NumPy and `File` refuse to read it:
    from the first copy into it until `flush` or `close`, and for good if a copy failed or the
    process died. Raw files have no place for such a mark.

    Args:
        path: a ``.npy`` file, whose header gives extents, type and layout, or any binary file.
        extents: indices of each dimension, by name or in order. Not for an existing .npy file.
        fields: types by name, or a dtype. Not for an existing .npy file.
        layout: order of the terms, fastest first; default as C has it.
        mode: ``"r"`` reads a file that exists; ``"w"`` makes it, and replaces what has its name;
            ``"r+"`` reads and changes a file that exists.
        offset: bytes from the start of the file to the first element (of raw files).
        direct: go around the page cache for large runs, where the file system lets us.
        durable: `flush` and `close` return when the folder is on the disk, too, so that the file
            has its name even after a power failure.

    Raises:
        NotFound: no such file, or folder. InvalidArgument: a directory, a pipe, extents that do
        not fit. OutOfRange: too short. Error: no permission, a full disk (``code="io"``).
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        extents: Mapping[str, int] | Sequence[int] | None = None,
        fields: Mapping[str, Any] | npt.DTypeLike = "f8",
        layout: str | None = None,
        mode: str = "r",
        offset: int = 0,
        direct: bool = True,
        durable: bool = False,
    ) -> None:
        if mode not in ("r", "w", "r+"):
            raise InvalidArgument(f'mode is "r", "w" or "r+", not {mode!r}')
        self.path = os.fspath(path)
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
        self._core = _core.file(
            self.path, names, specs, text, offset, mode, direct, named, durable, head, npy
        )

    def flush(self) -> None:
        """Waits until copies into the file have ended and what they wrote is on the disk.

        A new file then has its name. What is copied into it later changes it in place.

        Raises:
            Error: a copy into it failed or was cancelled, and the text says which; or the disk
                refused. The file is not whole, and a new one does not take its name.
            Closed: it was closed.
        """
        self._core.flush()

    def close(self) -> None:
        """Flushes what was written, or a new file, and ends all use of it. May be repeated.

        Raises:
            Error: as `flush`. Nothing is left of a new file.
        """
        self._core.close()

    def __exit__(self, kind: object = None, *_: object) -> None:
        """Closes; after an exception, a new file is dropped, and a mark stays."""
        if kind is None:
            self.close()
        else:
            self._core.discard()
