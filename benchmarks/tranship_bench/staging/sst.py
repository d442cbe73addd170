"""ADIOS2's SST engine beside the staging service, where it is installed; see boxes.py.

The settings are the fastest of those that were tried (BP5, BP and FFS; with and without statistics
and preloading; sockets and enet). No single setting is the fastest for puts and gets: preloading
sends the values along with the step, so that puts take longer and gets less.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from tranship.closing import Closing

from ..harness import SkippedError, Variant, require
from ..processes.nixl import adapter_path, installed
from ..processes.peer import Program

Box = Sequence[slice]

QUEUED = {"QueueLimit": "2", "StatsLevel": "0", "MarshalMethod": "BP5"}
SETTINGS: dict[str, dict[str, str]] = {
    "direct": {**QUEUED, "SpeculativePreloadMode": "Off"},
    "preloaded": {**QUEUED, "SpeculativePreloadMode": "On"},
    "preloaded, whole": {**QUEUED, "SpeculativePreloadMode": "On", "MarshalMethod": "BP"},
    "small": {**QUEUED, "SpeculativePreloadMode": "On", "QueueLimit": "100"},
}
"""Settings of the streams by name. Small steps are read while they are written, because each step
in a long queue takes longer than the last."""


class Sst(Closing):
    """A writer and a reader, processes of their own, and the stream between them.

    Raises:
        SkippedError: ADIOS2 is not installed, or this is not a source tree.
        Error: One of the two processes has failed.
    """

    def __init__(self, shape: tuple[int, ...], settings: Mapping[str, str]) -> None:
        if not installed("adios2"):
            raise SkippedError("it is not installed (pip install adios2)")
        path = adapter_path("adios2_sst.py")
        self._shape = shape
        self._settings = dict(settings)
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            stream = [os.path.join(folder, "stream"), json.dumps(shape), json.dumps(self._settings)]

            def start(role: str) -> Program:
                command = [sys.executable, os.fspath(path), role, *stream]
                return stack.enter_context(Program(command))

            self._writer, self._reader = start("write"), start("read")
            self.version: str = self._writer.answer()["version"]
            self._reader.answer()
            self._stack = stack.pop_all()

    def close(self) -> None:
        """Ends the two processes, the reader first."""
        self._stack.close()

    @property
    def conditions(self) -> dict[str, Any]:
        """Returns the conditions of the times: version and settings."""
        return {"version": self.version, "settings": self._settings}

    def put(self, parts: int) -> float:
        """Puts a step of `parts` blocks along each dimension; returns the writer's seconds."""
        return seconds(self._writer.ask("put", parts=parts))

    def aim(self, box: Box | None = None) -> None:
        """Sets the box that is read from now on, or the whole; spoils the reader's memory of it."""
        cuts = [slice(0, n) for n in self._shape] if box is None else box
        corners = {"lower": [cut.start for cut in cuts], "upper": [cut.stop for cut in cuts]}
        self._reader.ask("aim", **corners)

    def get(self) -> float:
        """Gets the next step; returns the reader's seconds."""
        return seconds(self._reader.ask("get"))

    def pass_on(self, parts: int) -> float:
        """Puts a step that the reader awaits; returns the seconds from its begin to its arrival."""
        self._reader.send("get")
        begin = float(self._writer.ask("put", parts=parts)["begin"])
        return float(self._reader.answer()["end"]) - begin

    def pass_many(self, count: int) -> tuple[float, float]:
        """Returns the writer's and the reader's seconds for each of `count` simultaneous steps.

        Raises:
            MismatchError: The last step differs from what was written.
        """
        self.aim()
        self._reader.send("gets", count=count)
        put = seconds(self._writer.ask("puts", count=count))
        got = seconds(self._reader.answer())
        require(self.arrived(), "8 KiB, adios2-sst")
        return put / count, got / count

    def arrived(self) -> bool:
        """Returns whether the last box that was read equals what was written."""
        return bool(self._reader.ask("check")["same"])

    def putting(self, name: str, parts: int) -> Variant:
        """Returns the variant of puts; each step is read afterwards and compared."""

        def check() -> bool:
            self.get()
            return self.arrived()

        return Variant(name, lambda: self.put(parts), check, self.aim, self.conditions)

    def getting(self, name: str, parts: int, box: Box | None = None) -> Variant:
        """Returns the variant of gets of steps that were put before."""

        def prepare() -> None:
            self.aim(box)
            self.put(parts)

        return Variant(name, self.get, self.arrived, prepare, self.conditions)

    def passing(self, name: str, parts: int) -> Variant:
        """Returns the variant of simultaneous puts and gets."""
        return Variant(name, lambda: self.pass_on(parts), self.arrived, self.aim, self.conditions)


def beside(streams: Mapping[str, Sst], middle: Box) -> list[list[Variant]]:
    """Returns variants of puts, gets, gets of the middle of 8 objects, and puts with gets."""
    direct, preloaded, block = (streams[n] for n in ("direct", "preloaded", "preloaded, whole"))
    whole, parts = "adios2-sst, whole", "adios2-sst, 8 objects"
    return [
        [direct.putting(whole, 1), direct.putting(parts, 2)],
        [block.getting(f"{whole}, preloaded", 1), preloaded.getting(f"{parts}, preloaded", 2)],
        [preloaded.getting(f"{parts}, preloaded", 2, middle)],
        [
            direct.passing(whole, 1),
            block.passing(f"{whole}, preloaded", 1),
            direct.passing(parts, 2),
            preloaded.passing(f"{parts}, preloaded", 2),
        ],
    ]


def seconds(answer: Mapping[str, Any]) -> float:
    """Returns the seconds from the begin to the end of an answer."""
    return float(answer["end"]) - float(answer["begin"])
