"""Replaying: a recording is put again, as if the simulation ran."""

from __future__ import annotations

import json
import math
import os
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, SupportsFloat, SupportsIndex

import numpy as np
import numpy.typing as npt

from ...arguments import check_seconds, shown
from ...arrays.dtypes import dtype_of
from ...errors import InvalidArgument
from ..arguments import whole_version
from ..client import Staging
from ..labels import labels_of
from ..step_writer import StepWriter
from .layout import Format, RecordedStep, RecordedVariable, Recording, damaged, is_within
from .npy_boxes import NpyReader, bytes_of
from .recorder import check_names
from .zarr_boxes import ZarrReader

__all__ = ["Pace", "Replayed", "Replayer", "replay"]

Array = npt.NDArray[Any]
SLEEP_S = 86400.0
"""Longest sleep at a time: the system takes no number of seconds whatever."""
Rate = SupportsFloat | Literal["max"]
"""How fast a recording is replayed."""


class BoxReader(Protocol):
    """Reads the boxes of a step."""

    def read(self, variable: RecordedVariable, number: int) -> Array:
        """Reads one box of a variable."""
        ...


READERS: dict[Format, Callable[[Path], BoxReader]] = {"npy": NpyReader, "zarr": ZarrReader}


@dataclass(frozen=True)
class Replayed:
    """What a call of `replay` has put.

    Attributes:
        steps: Numbers of the steps, in rising order.
        nbytes: Bytes of their elements.
    """

    steps: tuple[int, ...]
    nbytes: int


def replay(
    folder: str | os.PathLike[str],
    contact: str | os.PathLike[str],
    *,
    rate: Rate = 1.0,
    start: SupportsIndex | None = None,
    stop: SupportsIndex | None = None,
    variables: Iterable[str] | None = None,
    timeout: float = 3600.0,
    on_step: Callable[[RecordedStep], object] | None = None,
) -> Replayed:
    """Puts the steps of a recording, with their numbers, as if the simulation ran.

    Readers see the same steps, variables, elements, labels and attributes, to the byte: each box is
    compared with its checksum. Boxes are as they were, but that one may be hidden by another where
    they overlap. At the end the client closes, so that loops over the steps end.

    Args:
        folder: Folder of the recording.
        contact: Contact file of the (first) server, or its host:port.
        rate: 1: with the times between steps with which they were recorded; 2: twice as fast, and
            so on; 0 or "max": without pauses.
        start: The first step; None: no limit.
        stop: One past the last step; None: no limit.
        variables: Names of variables, which come with their coordinates; None: all.
        timeout: Seconds to wait for room, at the begin of a step and at each put.
        on_step: Called with the description of each step once it is whole.

    Raises:
        NotFound: There is no recording, or no such contact file.
        Error: The recording is damaged: nothing of that step is put, and the steps before it are;
            or it was made by a later version; or a library is missing.
        InvalidArgument: The servers have a step of such a number, or a higher one; or an argument
            has a wrong type.
        Timeout: There was no room for `timeout` seconds.
        PeerLost: A server has exited.
    """
    pace = Pace(check_rate(rate))
    first = None if start is None else whole_version(start)
    end = None if stop is None else whole_version(stop)
    names = check_names(variables)
    seconds = check_seconds("timeout", timeout)
    recording = Recording.open(folder)
    with Staging(contact, name=f"replay-{os.getpid()}") as staging:
        replayer = Replayer(recording, staging, names, seconds)
        replayer.begin()
        steps, nbytes = [], 0
        for number in recording.numbers():
            if not is_within(number, first, end):
                continue
            step = recording.step(number)
            pace.wait(step)
            nbytes += replayer.put(step)
            steps.append(number)
            if on_step is not None:
                on_step(step)
    return Replayed(tuple(steps), nbytes)


class Pace:
    """Waits between steps, as long as the simulation took.

    A step that comes late does not delay the next ones. Between two sessions of the recorder there
    is no pause.

    Args:
        rate: How many times as fast as recorded; 0: no pauses.
        clock: Returns seconds.
        sleep: Sleeps for seconds.
    """

    def __init__(
        self,
        rate: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._rate = rate
        self._clock = clock
        self._sleep = sleep
        self._before: RecordedStep | None = None
        self._due = 0.0

    def wait(self, step: RecordedStep) -> None:
        """Waits until a step is due."""
        if self._rate == 0:
            return
        now, before = self._clock(), self._before
        self._before = step
        if before is None or before.session != step.session:
            self._due = max(self._due, now)
            return
        self._due += max(step.time - before.time, 0.0) / self._rate
        while self._due > now:
            self._sleep(min(self._due - now, SLEEP_S))
            now = self._clock()


class Replayer:
    """Puts the steps of a recording, one after another.

    Args:
        recording: The recording.
        staging: Client that puts.
        names: Variables that are put; None: all.
        timeout: Seconds to wait for room.
    """

    def __init__(
        self,
        recording: Recording,
        staging: Staging,
        names: tuple[str, ...] | None,
        timeout: float,
    ) -> None:
        self._recording = recording
        self._staging = staging
        self._names = names
        self._timeout = timeout

    def begin(self) -> None:
        """Sets the attributes of the run, and those of variables outside of steps.

        Raises:
            InvalidArgument: A variable has other labels at the servers.
        """
        recording = self._recording
        of = {"": recording.attributes, **recording.variables}
        texts = [(name, key, text) for name, one in of.items() for key, text in texts_of(one)]
        if texts:
            self._staging._core.set_attributes(texts)

    def put(self, step: RecordedStep) -> int:
        """Puts a step, and returns the bytes of its elements.

        Raises:
            Error: A box is damaged; nothing of the step is seen.
        """
        reader = READERS[self._recording.format](self._recording.folder_of(step.number))
        chosen = selected(step, self._names)
        nbytes = 0
        with self._staging.step(step.number, timeout=self._timeout) as writer:
            for variable in chosen:
                nbytes += self._put_variable(writer, reader, variable)
            put = {variable.name for variable in chosen}
            self._set_attributes(writer, "", step.attributes)
            for variable in chosen:
                self._set_attributes(writer, variable.name, variable.attributes)
            for name, attributes in step.more_attributes.items():
                if self._names is None or name in put:
                    self._set_attributes(writer, name, attributes)
        return nbytes

    def _put_variable(
        self, writer: StepWriter, reader: BoxReader, variable: RecordedVariable
    ) -> int:
        """Puts the boxes of a variable, and returns their bytes."""
        if not variable.boxes:
            shape = tuple(b - a for a, b in zip(variable.lower, variable.upper, strict=True))
            none = np.empty(shape, dtype_of(variable.type))
            writer.put(variable.name, none, variable.lower, timeout=self._timeout)
        nbytes = 0
        for k, box in enumerate(variable.boxes):
            array = reader.read(variable, k)
            found = zlib.crc32(bytes_of(array))
            if found != box.crc32:
                folder = self._recording.folder_of(writer.number)
                raise damaged(
                    folder / variable.place,
                    f"box {k} has the CRC-32 {found:08x}, and {box.crc32:08x} was recorded",
                )
            writer.put(variable.name, array, box.lower, timeout=self._timeout)
            nbytes += array.nbytes
        return nbytes

    def _set_attributes(
        self, writer: StepWriter, variable: str, attributes: Mapping[str, Any]
    ) -> None:
        for key, text in texts_of(attributes):
            self._staging._core.set_step_attribute(writer._id, variable, key, text)


def selected(step: RecordedStep, names: tuple[str, ...] | None) -> tuple[RecordedVariable, ...]:
    """Returns the variables of a step that are put, with their coordinates."""
    if names is None:
        return step.variables
    chosen = set(names)
    for variable in step.variables:
        if variable.name in names:
            chosen |= set(labels_of(variable.name, variable.attributes).coords.values())
    return tuple(variable for variable in step.variables if variable.name in chosen)


def texts_of(attributes: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns attributes as JSON texts."""
    texts = []
    for key, value in attributes.items():
        text = json.dumps(value, ensure_ascii=False)
        try:
            text.encode()
        except UnicodeEncodeError:  # half of a pair of code points, which C has written escaped
            text = json.dumps(value)
        texts.append((key, text))
    return texts


def check_rate(rate: Any) -> float:
    """Returns how many times as fast as recorded; 0: without pauses.

    Raises:
        InvalidArgument: It is no such number.
    """
    if isinstance(rate, str) and rate == "max":
        return 0.0
    try:
        number = -1.0 if isinstance(rate, str | bool) else float(rate)
    except Exception:  # what the value's own __float__ raises
        number = -1.0
    if number < 0 or math.isnan(number):
        raise InvalidArgument(
            f"rate={shown(rate)} is no rate",
            'give a number, such as 2 for twice as fast, or "max" for no pauses',
        )
    return 0.0 if math.isinf(number) else number
