"""Recording: the steps of a run are written into a folder as they come."""

from __future__ import annotations

import json
import os
import time
import warnings
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, SupportsIndex

import numpy as np
import numpy.typing as npt

from ...arguments import check_seconds, check_text, shown
from ...errors import InvalidArgument, NotFound, SkippedVersionWarning
from ..arguments import whole_version
from ..client import Staging
from ..following import Gaps
from ..futures import WAITS
from ..labels import decoded_all, labels_of
from ..reader import GET_S
from ..steps import Start, Step, StepVariable
from .layout import (
    FORMATS,
    Format,
    RecordedBox,
    RecordedStep,
    RecordedVariable,
    Recording,
    open_to_record,
    place_of,
    sizes_of,
)
from .npy_boxes import NpyWriter, bytes_of
from .zarr_boxes import ZarrWriter, zarr_library

__all__ = ["Recorded", "Recorder", "check_names", "record"]

Array = npt.NDArray[Any]


class BoxWriter(Protocol):
    """Writes the boxes of a step."""

    def begin(self, variables: tuple[RecordedVariable, ...], attributes: Mapping[str, Any]) -> None:
        """Prepares the folder for the variables."""
        ...

    def write(self, variable: RecordedVariable, number: int, array: Array) -> int:
        """Writes one box of a variable, and returns its checksum."""
        ...


WRITERS: dict[Format, Callable[[Path], BoxWriter]] = {"npy": NpyWriter, "zarr": ZarrWriter}


@dataclass(frozen=True)
class Recorded:
    """What a call of `record` has recorded.

    Attributes:
        steps: Numbers of the steps, in rising order.
        nbytes: Bytes of their elements.
        known: Numbers of the steps that came and had been recorded before.
        lost: Numbers of the steps that were discarded before all of them was recorded.
        unseen: Variables that were asked for, and that no step had.
    """

    steps: tuple[int, ...]
    nbytes: int
    known: tuple[int, ...]
    lost: tuple[int, ...]
    unseen: tuple[str, ...]


def record(
    contact: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    format: Format | None = None,
    group: str | None = None,
    start: Start = "first",
    stop: SupportsIndex | None = None,
    variables: Iterable[str] | None = None,
    gaps: Gaps = "skip",
    durable: bool = False,
    timeout: float = 3600.0,
    on_step: Callable[[RecordedStep], object] | None = None,
) -> Recorded:
    """Records steps into a folder until all processes that write steps have closed.

    A step is in the folder whole, or not at all, whatever ends the call. Into a folder that has a
    recording, the steps are recorded that it lacks. docs/guides/record-and-replay.md describes the
    files.

    Args:
        contact: Contact file of the (first) server, or its host:port.
        folder: Folder of the recording, which need not exist.
        format: "npy": a .npy file for each box; "zarr": an array of Zarr 3 for each variable, by
            the library zarr; None: that of the recording in the folder, and "npy" for a new one.
        group: Group of readers to join, so that no step is freed before it is recorded; None: steps
            that are freed before are passed by.
        start: The first step, as of `Staging.steps`.
        stop: The call ends before this step; None: no limit.
        variables: Names of variables, which come with their coordinates; None: all.
        gaps: What happens with a step that is broken, or was discarded before all of it was
            recorded: "skip" warns with a `SkippedVersionWarning`, "error" raises.
        durable: Whether a step is on the disk, and not only in the system's cache, before the next
            one is taken: then it also outlives a failure of the machine. Costs the disk's time.
        timeout: Seconds to wait for each step.
        on_step: Called with the description of each step once it is recorded.

    Raises:
        InvalidArgument: The folder has something else than such a recording, or one of another run;
            or an argument has a wrong type.
        Error: Another process records into the folder; the disk is full, or refuses: all steps
            before are whole; a library is missing; a step in the folder is damaged.
        NotFound: With ``gaps="error"``: a step is broken or was discarded; or there is no such
            contact file.
        PeerLost: A process that wrote steps has died, and all whole ones are recorded; or the
            first server has exited.
        Timeout: No step came for `timeout` seconds.
    """
    if format is not None and format not in FORMATS:
        raise InvalidArgument(f"format={shown(format)} is no format", 'give "npy" or "zarr"')
    names = check_names(variables)
    end = None if stop is None else whole_version(stop)
    seconds = check_seconds("timeout", timeout)
    if format == "zarr":
        zarr_library()  # fails before anything is made
    with (
        # A client of its own, which closes without leaving the group: to leave would free the step
        # that was taken, and may not be recorded.
        Staging(contact, name=f"recorder-{os.getpid()}") as staging,
        open_to_record(folder, format) as recording,
    ):
        recorder = Recorder(recording, staging, names, gaps, durable)
        steps = staging.steps(start, timeout=seconds, gaps=gaps, group=group)
        for step in steps:
            if end is not None and step.number >= end:
                break
            made = recorder.take(step)
            step.release()
            if made is not None and on_step is not None:
                on_step(made)
            if end is not None and step.number >= end - 1:
                break
        recorder.finish()
        return recorder.recorded()


class Recorder:
    """Writes steps into a recording, one after another.

    Args:
        recording: The recording, opened to add steps.
        staging: Client that the steps are read by.
        names: Variables that are recorded; None: all.
        gaps: What happens with a step that was discarded.
        durable: Whether a step is on the disk when `take` returns.
        clock: Returns seconds since 1970.
    """

    def __init__(
        self,
        recording: Recording,
        staging: Staging,
        names: tuple[str, ...] | None,
        gaps: Gaps,
        durable: bool,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._recording = recording
        self._staging = staging
        self._names = names
        self._gaps = gaps
        self._durable = durable
        self._clock = clock
        self._there = set(recording.numbers())
        self._steps: list[int] = []
        self._nbytes = 0
        self._known: list[int] = []
        self._lost: list[int] = []
        self._unseen = dict.fromkeys(names or ())
        self._seen = set(recording.variables)

    def take(self, step: Step) -> RecordedStep | None:
        """Records a step; returns None if it was recorded before, or is lost.

        Raises:
            InvalidArgument: A step of this number was recorded, and was another one.
            NotFound: It was discarded, and ``gaps="error"``.
            Error: The disk is full, or refuses: nothing of the step is in the folder.
        """
        now = self._clock()
        for name in step:
            self._unseen.pop(name, None)
        self._seen.update(self._selected(step))
        if step.number in self._there:
            self._check_same(step)
            self._known.append(step.number)
            return None
        try:
            made = self._write(step, now)
        except NotFound as error:
            self._lose(step.number, error)
            return None
        self._there.add(step.number)
        self._steps.append(step.number)
        self._nbytes += made.nbytes
        return made

    def finish(self) -> None:
        """Keeps the attributes of the run, and those of its variables, as they are at its end."""
        self._keep_attributes(sorted(self._seen))

    def recorded(self) -> Recorded:
        """Returns what was recorded."""
        steps, known, lost = tuple(self._steps), tuple(self._known), tuple(self._lost)
        return Recorded(steps, self._nbytes, known, lost, tuple(self._unseen))

    def _lose(self, number: int, error: NotFound) -> None:
        text = f"step {number} was discarded before all of it was recorded ({error.message})"
        hint = "join a group of readers, with group= or --group: then it is kept until it is"
        if self._gaps == "error":
            raise NotFound(text, hint) from error
        self._lost.append(number)
        warnings.warn(f"{text}; {hint}", SkippedVersionWarning, stacklevel=4)

    def _write(self, step: Step, now: float) -> RecordedStep:
        """Writes a step.

        Raises:
            NotFound: It was discarded meanwhile.
        """
        recording = self._recording
        described = self._describe(step)
        attributes = step._attributes.get("", {})
        with recording.new_step(step.number, self._durable) as (folder, made):
            writer = WRITERS[recording.format](folder)
            writer.begin(described, attributes)
            variables = [self._write_boxes(writer, step, one) for one in described]
            known = {"", *step}
            more = {name: one for name, one in step._attributes.items() if name not in known}
            self._keep_attributes(one.name for one in described)
            made.append(
                RecordedStep(
                    step.number,
                    now,
                    recording.session,
                    attributes,
                    more,
                    tuple(variables),
                    sizes_of(folder),
                )
            )
        return made[0]

    def _describe(self, step: Step) -> tuple[RecordedVariable, ...]:
        """Returns the variables of a step that are recorded, as `describe` does."""
        return tuple(
            describe(step, name, place_of(name, k)) for k, name in enumerate(self._selected(step))
        )

    def _selected(self, step: Step) -> list[str]:
        """Returns the names of a step's variables that are recorded, with their coordinates."""
        if self._names is None:
            return list(step)
        chosen = {name: None for name in self._names if name in step}
        for name in tuple(chosen):
            labels = labels_of(name, step._attributes.get(name, {}))
            chosen |= {each: None for each in labels.coords.values() if each in step}
        return list(chosen)

    def _write_boxes(
        self, writer: BoxWriter, step: Step, variable: RecordedVariable
    ) -> RecordedVariable:
        """Writes the boxes of a variable, and returns it with their checksums."""
        read = partial(read_box, self._staging, step[variable.name])
        boxes = [
            replace(box, crc32=writer.write(variable, k, read(box)))
            for k, box in enumerate(variable.boxes)
        ]
        return replace(variable, boxes=tuple(boxes))

    def _is_same(self, step: Step, recorded: RecordedVariable) -> bool:
        """Returns whether a step has a variable as it was recorded, to the byte.

        Raises:
            NotFound: The step was discarded.
        """
        if recorded.name not in step:
            return False
        found = describe(step, recorded.name, recorded.place)
        plain = replace(found, attributes={}, boxes=())
        if plain != replace(recorded, attributes={}, boxes=()):
            return False
        if as_text(found.attributes) != as_text(recorded.attributes):
            return False
        read = partial(read_box, self._staging, step[recorded.name])
        boxes = [replace(box, crc32=zlib.crc32(bytes_of(read(box)))) for box in found.boxes]
        return tuple(boxes) == recorded.boxes

    def _keep_attributes(self, names: Iterable[str]) -> None:
        """Keeps the attributes of the run, and those of variables outside of steps."""
        core, recording = self._staging._core, self._recording
        run = decoded_all(core.attributes_of(""))
        variables = dict(recording.variables)
        for name in names:
            found = decoded_all(core.attributes_of(name))
            if found or name in variables:
                variables[name] = found
        if (run, variables) != (recording.attributes, recording.variables):
            recording.attributes, recording.variables = run, variables
            recording.save()

    def _check_same(self, step: Step) -> None:
        """Checks that a step is the one that was recorded under its number.

        Raises:
            InvalidArgument: It has other attributes, or a recorded variable is another one.
        """
        before = self._recording.step(step.number)
        attributes = step._attributes.get("", {})
        try:
            same = as_text(attributes) == as_text(before.attributes) and all(
                self._is_same(step, variable) for variable in before.variables
            )
        except NotFound:
            return  # the step was discarded, and cannot be compared any more
        if not same:
            raise InvalidArgument(
                f"step {step.number} is recorded in '{self._recording.folder}', and is another "
                "one there",
                "name a new folder for another run, or begin after the recorded steps with start=",
            )


def as_text(attributes: Mapping[str, Any]) -> str:
    """Returns attributes as a text that is the same for the same ones: NaN is not equal to NaN."""
    return json.dumps(attributes, sort_keys=True)


def describe(step: Step, name: str, place: str) -> RecordedVariable:
    """Returns a variable of a step, with boxes that have no checksum yet.

    Args:
        step: The step.
        name: Name of the variable.
        place: Name of its folder.

    Raises:
        NotFound: The step was discarded.
    """
    variable = step[name]
    return RecordedVariable(
        name,
        str(step._infos[name]["type"]),
        place,
        variable.lower,
        variable.upper,
        step._attributes.get(name, {}),
        tuple(RecordedBox(lower, upper) for lower, upper in variable.boxes),
    )


def read_box(staging: Staging, variable: StepVariable, box: RecordedBox) -> Array:
    """Returns a box of a step: in the server's own memory where that can be, and else a copy.

    Raises:
        NotFound: The step does not have it any more.
    """
    name, number = variable.name, variable.step
    got = staging._get(name, number, box.lower, box.upper, None, GET_S, False, None)
    return np.asarray(variable.get(box.lower, box.upper) if got is WAITS else got)


def check_names(variables: Any) -> tuple[str, ...] | None:
    """Returns names of variables.

    Raises:
        InvalidArgument: They are none.
    """
    if variables is None:
        return None
    if isinstance(variables, str):
        return (variables,)
    if not np.iterable(variables):
        raise InvalidArgument(
            f"variables={shown(variables)} is no list of names", 'give one as in ["energy", "flow"]'
        )
    return tuple(check_text("a name in variables=", name) for name in variables)
