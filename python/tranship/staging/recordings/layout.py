"""The files of a recording, which docs/guides/record-and-replay.md describes.

A recording is a folder with a description (``recording.json``) and a folder for each step. A step's
folder is written under another name, its own description (``step.json``) last, and then renamed: so
a step is there whole, or not at all.
"""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
import re
import shutil
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ...arguments import check_path, shown
from ...arrays.dtypes import dtype_of
from ...errors import Error, InvalidArgument, NotFound, make
from ..arguments import VERSION_MAX

__all__ = [
    "FORMATS",
    "Format",
    "RecordedBox",
    "RecordedStep",
    "RecordedVariable",
    "Recording",
    "cannot_write",
    "damaged",
    "is_within",
    "open_to_record",
    "place_of",
    "sizes_of",
]

Format = Literal["npy", "zarr"]
"""How the boxes of a recording are stored."""
FORMATS = ("npy", "zarr")
LAYOUT = 1
"""Version of the layout of the files."""
RECORDING = "recording.json"
STEPS = "steps"
STEP = "step.json"
SAVING = ".recording.json"
"""The description that is being written. Names with a dot are not looked at."""
WRITING = ".writing"
"""Folder of the step that is being written."""
LOCK = ".lock"
NUMBER = re.compile(r"0|-?[1-9][0-9]*")
PLACE_BYTES_MAX = 180
"""Longest name of a file made of a variable's name, in bytes; file systems have 255."""
TAKEN = (STEP, "zarr.json")
"""Names of files beside the variables."""
RECORD_AGAIN = "record the run again, or replay the steps before and after it with start= and stop="

Corner = tuple[int, ...]


@dataclass(frozen=True)
class RecordedBox:
    """A box of a variable.

    Attributes:
        lower: Its first indices.
        upper: One past its last indices.
        crc32: CRC-32 of its elements' bytes, the last dimension fastest; None: not computed yet.
    """

    lower: Corner
    upper: Corner
    crc32: int | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Its extents."""
        return tuple(b - a for a, b in zip(self.lower, self.upper, strict=True))


@dataclass(frozen=True)
class RecordedVariable:
    """A variable of a step.

    Attributes:
        name: Its name.
        type: Text of its element type.
        place: Name of its folder.
        lower: First indices of the box around its boxes, or of what was put without elements.
        upper: One past the last indices.
        attributes: What the step says of it, with its labels.
        boxes: Its boxes.
    """

    name: str
    type: str
    place: str
    lower: Corner
    upper: Corner
    attributes: Mapping[str, Any]
    boxes: tuple[RecordedBox, ...]


@dataclass(frozen=True)
class RecordedStep:
    """The description of a step.

    Attributes:
        number: Its number.
        time: When it was received, in seconds since 1970.
        session: How many times the recorder had been started then; times between two sessions mean
            nothing.
        attributes: Its attributes, with its labels.
        more_attributes: Those that it has of variables which it does not have itself.
        variables: Its variables.
        files: Size of each file of the step in bytes, by its path in the step's folder.
    """

    number: int
    time: float
    session: int
    attributes: Mapping[str, Any]
    more_attributes: Mapping[str, Mapping[str, Any]]
    variables: tuple[RecordedVariable, ...]
    files: Mapping[str, int]

    @property
    def nbytes(self) -> int:
        """Bytes of its elements."""
        return sum(
            math.prod(box.shape) * dtype_of(variable.type).itemsize
            for variable in self.variables
            for box in variable.boxes
        )


@dataclass
class Recording:
    """A folder with a recording.

    Attributes:
        folder: The folder.
        format: How boxes are stored.
        session: How many times a recorder was started.
        attributes: Attributes of the run, as of the last step.
        variables: Those of variables outside of steps, with their labels.
    """

    folder: Path
    format: Format
    session: int = 0
    attributes: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @staticmethod
    def open(folder: str | os.PathLike[str]) -> Recording:
        """Opens a recording.

        Raises:
            NotFound: There is none.
            Error: Its description is damaged, or it was made by a later version.
        """
        path = Path(check_path("folder", folder))
        description = path / RECORDING
        try:
            content = load(description, "tranship recording")
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(
                f"'{path}' has no recording: there is no {RECORDING} in it",
                "check the path, or record a run there: tranship record CONTACT FOLDER",
            ) from None
        try:
            kind = content["format"]
            if kind not in FORMATS:
                raise ValueError(f"its format is {shown(kind)}")
            return Recording(
                path,
                kind,
                whole(content["sessions"]),
                mapping(content["attributes"]),
                {name: mapping(one) for name, one in mapping(content["variables"]).items()},
            )
        except (KeyError, TypeError, ValueError) as error:
            raise damaged(description, error) from None

    def save(self) -> None:
        """Writes the description, whole or not at all.

        Raises:
            Error: The disk is full, or refuses.
        """
        content = {
            "format": self.format,
            "sessions": self.session,
            "attributes": self.attributes,
            "variables": self.variables,
        }
        made = self.folder / SAVING
        try:
            made.write_bytes(dump("tranship recording", content))
            sync(made)
            made.rename(self.folder / RECORDING)
            sync(self.folder)
        except OSError as error:
            raise cannot_write(self.folder, error) from error

    def numbers(self) -> list[int]:
        """Returns the numbers of the whole steps, in rising order.

        Raises:
            Error: The folder cannot be read.
        """
        steps = self.folder / STEPS
        try:
            names = os.listdir(steps)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise damaged(steps, error.strerror) from None
        return sorted(int(name) for name in names if NUMBER.fullmatch(name))

    def folder_of(self, number: int) -> Path:
        """Returns the folder of a step."""
        return self.folder / STEPS / str(number)

    def step(self, number: int) -> RecordedStep:
        """Reads the description of a step, and checks that its files are there.

        Raises:
            Error: Something is missing, has another size, or cannot be read.
        """
        folder = self.folder_of(number)
        path = folder / STEP
        try:
            step = step_of(load(path, "tranship step"))
        except (FileNotFoundError, NotADirectoryError):
            raise damaged(path, "it is missing") from None
        except (KeyError, TypeError, ValueError) as error:
            raise damaged(path, error) from None
        if step.number != number:
            raise damaged(path, f"it describes step {step.number}")
        for name, size in step.files.items():
            check_size(folder / name, size)
        return step

    @contextmanager
    def new_step(self, number: int, durable: bool) -> Iterator[tuple[Path, list[RecordedStep]]]:
        """Makes a step: yields the folder to write into, and a list to put its description into.

        The folder has its name at the end. After an exception nothing of the step is there.

        Raises:
            Error: The disk is full, or refuses.
        """
        writing = self.folder / WRITING
        described: list[RecordedStep] = []
        try:
            shutil.rmtree(writing, ignore_errors=True)
            writing.mkdir()
            yield writing, described
            (step,) = described
            (writing / STEP).write_bytes(dump("tranship step", content_of(step)))
            if durable:
                sync_tree(writing)
            writing.rename(self.folder_of(number))
            if durable:
                sync(self.folder / STEPS)
                sync(self.folder)
        except Error:  # of the servers; some of these are an OSError, too
            raise
        except OSError as error:
            raise cannot_write(self.folder, error, number) from error
        finally:
            shutil.rmtree(writing, ignore_errors=True)


@contextmanager
def open_to_record(folder: str | os.PathLike[str], kind: Format | None) -> Iterator[Recording]:
    """Opens a recording to add steps, or makes one, for one process at a time.

    Args:
        folder: Its folder.
        kind: How boxes are stored; None: as before, or as .npy files.

    Raises:
        InvalidArgument: The folder has something else, or a recording in another format.
        Error: Another process records into it, or the folder cannot be written.
    """
    path = Path(check_path("folder", folder))
    try:
        path.mkdir(parents=True, exist_ok=True)
        check_ours(path)
        descriptor = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise cannot_write(path, error) from error
    try:
        lock(descriptor, path)
        recording = Recording.open(path) if check_ours(path) else Recording(path, kind or "npy")
        if kind is not None and recording.format != kind:
            raise InvalidArgument(
                f"'{path}' is a recording in the format {recording.format}, and not {kind}",
                f'go on with format="{recording.format}", or name a new folder',
            )
        shutil.rmtree(path / WRITING, ignore_errors=True)
        recording.session += 1
        recording.save()
        make_steps(path)  # afterwards: what is there without a description is another's
        yield recording
    finally:
        os.close(descriptor)


def make_steps(folder: Path) -> None:
    """Makes the folder of the steps, if there is none.

    Raises:
        Error: The disk is full, or refuses.
    """
    try:
        (folder / STEPS).mkdir(exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from error


def check_ours(folder: Path) -> bool:
    """Returns whether a folder has a recording.

    Raises:
        InvalidArgument: It has something else.
        OSError: It cannot be read.
    """
    found = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    if found and RECORDING not in found:
        raise InvalidArgument(
            f"'{folder}' has no recording, and is not empty ({shown(found[0])} is in it)",
            "name a new folder",
        )
    return bool(found)


def lock(descriptor: int, folder: Path) -> None:
    """Keeps other processes from recording into a folder, until the descriptor is closed.

    Raises:
        Error: Another process does.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Error(
            f"another process records into '{folder}'", "end it first, or name another folder"
        ) from None
    except OSError:
        return  # a file system without locks


def dump(kind: str, content: Mapping[str, Any]) -> bytes:
    """Returns a description as `load` reads it: with the version of the layout, and a checksum."""
    described = {kind: LAYOUT, **content}
    return json.dumps({**described, "crc32": crc_of(described)}, indent=1).encode()


def crc_of(content: Mapping[str, Any]) -> int:
    """Returns the CRC-32 of a description: of its JSON text in one line."""
    return zlib.crc32(json.dumps(content).encode())


def load(path: Path, kind: str) -> dict[str, Any]:
    """Reads a description.

    Raises:
        FileNotFoundError: There is none.
        NotADirectoryError: There is not even its folder.
        Error: It cannot be read, something in it has changed, or a later version has written it.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise damaged(path, error) from None
    if not isinstance(content, dict) or not isinstance(content.get(kind), int):
        raise damaged(path, f"it is no description of a {kind}")
    if content[kind] != LAYOUT:
        raise Error(
            f"'{path}' has version {content[kind]} of the layout, and this is known up to {LAYOUT}",
            "install a version of tranship that is not older than the one that recorded it",
        )
    recorded = content.pop("crc32", None)
    if recorded != crc_of(content):
        raise damaged(path, f"it has the CRC-32 {crc_of(content)}, and {recorded} was recorded")
    return content


def damaged(path: Path, why: object) -> Error:
    """Returns the error of a file of a recording that cannot be what was recorded."""
    text = f"it lacks {why}" if isinstance(why, KeyError) else why
    return make("io", f"the recording is damaged: '{path}': {text}", RECORD_AGAIN)


def cannot_write(folder: Path, error: OSError, step: int | None = None) -> Error:
    """Returns the error of a disk that refuses a step; None: all of the recording."""
    what = "a recording" if step is None else f"step {step}"
    hint = "check the path, the permissions, and the space that is left"
    if step is not None:
        hint = "free some space, and record again: it goes on after the last whole step"
    return make("io", f"{what} cannot be written into '{folder}': {error.strerror or error}", hint)


def check_size(path: Path, size: int) -> None:
    """Checks a file of a step.

    Raises:
        Error: It is missing, or has another size.
    """
    try:
        found = path.stat().st_size
    except OSError as error:
        raise damaged(path, error.strerror) from None
    if found != size:
        raise damaged(path, f"it has {found} bytes, and {size} were recorded")


def content_of(step: RecordedStep) -> dict[str, Any]:
    """Returns the description of a step as `step_of` takes it."""
    variables = [
        {**vars(variable), "boxes": [vars(box) for box in variable.boxes]}
        for variable in step.variables
    ]
    return {**vars(step), "variables": variables}


def step_of(content: Mapping[str, Any]) -> RecordedStep:
    """Returns the description of a step.

    Raises:
        KeyError: Something is missing.
        TypeError: Something has another type.
        ValueError: Something cannot be.
    """
    time = content["time"]
    if isinstance(time, bool) or not isinstance(time, int | float):
        raise TypeError(f"its time is {shown(time)}")
    files = {check_file(name): whole(size) for name, size in mapping(content["files"]).items()}
    variables = tuple(variable_of(mapping(one)) for one in sequence(content["variables"]))
    return RecordedStep(
        whole(content["number"]),
        float(time),
        whole(content["session"]),
        mapping(content["attributes"]),
        {name: mapping(one) for name, one in mapping(content["more_attributes"]).items()},
        variables,
        files,
    )


def variable_of(content: Mapping[str, Any]) -> RecordedVariable:
    """Returns the description of a variable of a step; raises as `step_of`."""
    texts = [content[key] for key in ("name", "type", "place")]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"a variable is {shown(texts)}")
    name, kind, place = texts
    if "/" in check_file(place):
        raise ValueError(f"the folder of {shown(name)} is {shown(place)}")
    lower, upper = corners(content, name)
    boxes = []
    for one in sequence(content["boxes"]):
        first, last = corners(mapping(one), name)
        within = len(first) == len(lower) and all(
            a <= b < c <= d for a, b, c, d in zip(lower, first, last, upper, strict=True)
        )
        if not within:
            raise ValueError(f"{shown(name)} has a box from {first} to {last}")
        boxes.append(RecordedBox(first, last, whole(one["crc32"])))
    if not boxes and all(a < b for a, b in zip(lower, upper, strict=True)):
        raise ValueError(f"{shown(name)} has elements, and no box")
    attributes = mapping(content["attributes"])
    return RecordedVariable(name, kind, place, lower, upper, attributes, tuple(boxes))


def corners(content: Mapping[str, Any], name: str) -> tuple[Corner, Corner]:
    """Returns the corners of a box; raises as `step_of`."""
    lower, upper = (
        tuple(whole(index) for index in sequence(content[key])) for key in ("lower", "upper")
    )
    if len(lower) != len(upper) or any(a > b for a, b in zip(lower, upper, strict=True)):
        raise ValueError(f"{shown(name)} is from {lower} to {upper}")
    return lower, upper


def whole(value: Any) -> int:
    """Returns a whole number; raises as `step_of`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{shown(value)} is no whole number")
    if abs(value) > VERSION_MAX:
        raise ValueError(f"{shown(value)} is too large")
    return value


def mapping(value: Any) -> dict[str, Any]:
    """Returns a mapping; raises as `step_of`."""
    if not isinstance(value, dict):
        raise TypeError(f"{shown(value)} is no mapping")
    return value


def sequence(value: Any) -> list[Any]:
    """Returns a list; raises as `step_of`."""
    if not isinstance(value, list):
        raise TypeError(f"{shown(value)} is no list")
    return value


def check_file(name: str) -> str:
    """Returns the path of a file in the folder of its step; raises as `step_of`."""
    parts = name.split("/")
    if "\0" in name or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"{shown(name)} is no file of a step")
    return name


def place_of(name: str, number: int) -> str:
    """Returns the name of a variable's folder: its own, but for what no folder is called.

    Args:
        name: The variable.
        number: Its number in the step, for a name that is too long.
    """
    place = name.replace("%", "%25").replace("/", "%2F").replace("\\", "%5C")
    if place in TAKEN:
        place = place.replace(".", "%2E")
    if place.startswith(".") or place.startswith("__"):
        place = f"%{ord(place[0]):02X}{place[1:]}"
    # No name that was encoded has an n behind a percent sign.
    return place if len(place.encode()) <= PLACE_BYTES_MAX else f"%n{number}"


def sizes_of(folder: Path) -> dict[str, int]:
    """Returns the sizes of all files in a folder, by their paths in it."""
    sizes = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            sizes[path.relative_to(folder).as_posix()] = path.stat().st_size
    return dict(sorted(sizes.items()))


def sync_tree(folder: Path) -> None:
    """Waits until a folder, and all that is in it, is on the disk."""
    for parent, _, names in os.walk(folder, topdown=False):
        for name in names:
            sync(Path(parent, name))
        sync(Path(parent))


def sync(path: Path) -> None:
    """Waits until a file or a folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # of network file systems that write folders at once
            raise
    finally:
        os.close(descriptor)


def is_within(number: int, start: int | None, stop: int | None) -> bool:
    """Returns whether a number is from `start` on and below `stop`; None: no limit."""
    return (start is None or number >= start) and (stop is None or number < stop)
