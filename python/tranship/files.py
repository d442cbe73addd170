"""Files of results: written whole or not at all, and opened without waiting for anybody."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from . import _core
from .arguments import check_path
from .errors import InvalidArgument, NotFound, make

__all__ = ["new_file", "open_to_append", "open_to_read", "read_text", "save_figure", "write_text"]

Pathlike = str | os.PathLike[str]


@contextmanager
def new_file(path: Pathlike) -> Iterator[BinaryIO]:
    """Opens a new file that takes the name `path` at the end, when it is on the disk.

    An old file of that name stays as it is until then. Links are followed. After an exception there
    is no new file.

    Raises:
        InvalidArgument: Something else than a regular file has the name.
        NotFound: There is no such folder.
        Error: The folder or the disk refuses.
    """
    name = check_path("path", path)
    if name == "-":
        raise InvalidArgument(
            "'-' names no file here", "name a file; one that is called - is written ./-"
        )
    made = _core.new_file(name)
    with os.fdopen(made.descriptor, "w+b") as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
        except OSError as error:
            raise make(
                "io",
                f"cannot write '{name}': {error.strerror}",
                "free some space, or choose another disk",
            ) from error
        made.publish()


def write_text(path: Pathlike, text: str) -> None:
    """Writes a text in UTF-8, as `new_file` does."""
    with new_file(path) as file:
        file.write(text.encode("utf-8", "surrogateescape"))


def read_text(path: Pathlike) -> str:
    """Returns the text of a file, as `open_to_read` does.

    Raises:
        UnicodeDecodeError: It is no text.
    """
    with open_to_read(path) as file:
        return file.read().decode("utf-8")


def save_figure(figure: Any, path: Pathlike, **options: Any) -> None:
    """Saves a figure of matplotlib, as `new_file` does; the ending of the name says the format.

    Raises:
        InvalidArgument: matplotlib does not write files with such an ending.
    """
    kind = Path(path).suffix[1:].lower() or "png"
    known = figure.canvas.get_supported_filetypes()
    if kind not in known:
        raise InvalidArgument(
            f"'{path}' ends in .{kind}, which is not a format of pictures",
            f"choose one of {', '.join(sorted(known))}",
        )
    with new_file(path) as file:
        figure.savefig(file, format=kind, **options)


def open_to_append(path: Pathlike) -> BinaryIO:
    """Opens a regular file to write at its end; makes it if there is none.

    Raises:
        InvalidArgument: Something else than a regular file has the name.
        NotFound: There is no such folder.
        Error: No permission.
    """
    name = check_path("path", path)
    return opened(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, "ab")


def open_to_read(path: Pathlike) -> BinaryIO:
    """Opens a regular file, or a block device, to read it. Never waits for another process.

    Raises:
        NotFound: There is no such file.
        InvalidArgument: A folder, a FIFO, a socket, a terminal.
        Error: No permission.
    """
    return opened(check_path("path", path), os.O_RDONLY, "rb")


def opened(name: str, flags: int, mode: str) -> BinaryIO:
    """Opens what is a file; `flags` are those of os.open."""
    verb = "read" if mode == "rb" else "write"
    try:
        info = os.stat(name)
        check_kind(name, info.st_mode, verb)
    except FileNotFoundError:
        if mode == "rb":
            raise NotFound(f"there is no file {name}", "check the path") from None
    except (OSError, ValueError) as error:
        raise refused(name, verb, error) from error
    try:
        descriptor = os.open(name, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except FileNotFoundError:
        raise NotFound(f"cannot {verb} {name}: there is no such folder", "check the path") from None
    except OSError as error:
        raise refused(name, verb, error) from error
    try:
        check_kind(name, os.fstat(descriptor).st_mode, verb)
    except InvalidArgument:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, mode)  # type: ignore[return-value]


def refused(name: str, verb: str, error: Exception) -> Exception:
    """Returns our error for one of the operating system."""
    if isinstance(error, PermissionError):
        return make(
            "permission",
            f"cannot {verb} {name}: {error.strerror}",
            "check the permissions of the file",
        )
    why = error.strerror if isinstance(error, OSError) else error
    return InvalidArgument(f"cannot {verb} {name}: {why}", "check the path")


def check_kind(name: str, mode: int, verb: str) -> None:
    """Refuses what is no file.

    Raises:
        InvalidArgument: It is a folder, or something that is not there to stay.
    """
    if stat.S_ISREG(mode) or (verb == "read" and stat.S_ISBLK(mode)):
        return
    if stat.S_ISDIR(mode):
        raise InvalidArgument(f"{name} is a directory", "name a file in it")
    raise InvalidArgument(
        f"{name} is neither a regular file nor a block device: an array needs bytes that stay "
        "where they are",
        "name a file",
    )
