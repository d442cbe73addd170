"""Merges the traces of several processes into one timeline, for Perfetto."""

from __future__ import annotations

import json
import os
import re
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import InvalidArgument
from .files import open_to_read, write_text

__all__ = ["MergedTrace", "merge_traces"]

Event = dict[str, Any]
Box = tuple[tuple[int, int], ...]

NEAR_END = 0.999
"""Share of a span's time at which its arrow begins or ends, to lie within it."""


@dataclass(frozen=True)
class MergedTrace:
    """The result of `merge_traces`.

    Args:
        events: Chrome's trace events in the order of time, in microseconds from the first.
        processes: Names of the processes, by number (`pid`).
        arrows: Number of arrows from puts to gets of their data.
        dropped: Number of spans that a trace had no room for (the setting `trace_spans`).
        hosts: Names of the hosts on which the processes ran.
    """

    events: list[Event]
    processes: dict[int, str]
    arrows: int
    dropped: int
    hosts: list[str]


@dataclass(frozen=True)
class Call:
    """The span of a put or get of a version."""

    event: Event
    box: Box

    @property
    def end(self) -> float:
        return float(self.event["ts"]) + float(self.event["dur"])

    @property
    def moment(self) -> float:
        """Shortly before its end."""
        return float(self.event["ts"]) + NEAR_END * float(self.event["dur"])


def merge_traces(
    paths: Iterable[str | os.PathLike[str]], target: str | os.PathLike[str] | None = None
) -> MergedTrace:
    """Merges the traces of several processes into one timeline.

    Processes of one machine share a clock. Between machines the time of day is compared, so that
    their spans are aligned as well as their clocks are set.

    Args:
        paths: Files that engines wrote (`trace`, `trace_folder`), and folders of such files.
        target: File to write the merged trace to. None: it is not written.

    Raises:
        InvalidArgument: A folder without a trace, or a file that is not a trace.
    """
    traces = [read_trace(path) for path in files_of(paths)]
    offsets = offsets_us([trace["process"] for trace in traces])
    names: list[Event] = []
    events: list[Event] = []
    for number, (trace, offset) in enumerate(zip(traces, offsets, strict=True)):
        for event in trace["traceEvents"]:
            if "ts" in event:
                events.append({**event, "pid": number, "ts": float(event["ts"]) + offset})
            else:
                names.append({**event, "pid": number})
    begin = min((event["ts"] for event in events), default=0.0)
    for event in events:
        event["ts"] = round(event["ts"] - begin, 3)
    arrows = arrows_of(events)
    merged = MergedTrace(
        events=sorted(events + arrows, key=lambda event: float(event["ts"])),
        processes={e["pid"]: e["args"]["name"] for e in names if e["name"] == "process_name"},
        arrows=len(arrows) // 2,
        dropped=sum(trace.get("dropped_spans", 0) for trace in traces),
        hosts=sorted({trace["process"]["host"] for trace in traces}),
    )
    if target is not None:
        content = {"traceEvents": [*names, *merged.events], "displayTimeUnit": "ms"}
        write_text(target, json.dumps(content))
    return merged


def files_of(paths: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Returns the files, and those of the folders."""
    files: list[Path] = []
    for path in map(Path, paths):
        found = sorted(path.glob("*.json")) if path.is_dir() else [path]
        if not found:
            raise InvalidArgument(
                f"there is no trace in {path}", "engines write their traces when they close"
            )
        files += found
    return files


def read_trace(path: Path) -> dict[str, Any]:
    """Reads the trace of one process."""
    try:
        with open_to_read(path) as file:
            content = json.loads(file.read())
    except ValueError:
        content = None
    if not isinstance(content, dict) or not {"traceEvents", "process"} <= content.keys():
        raise InvalidArgument(
            f"{path} is not the trace of an engine",
            "name files that the setting trace_folder, or Engine(trace=...), has written",
        )
    return content


def offsets_us(processes: list[dict[str, Any]]) -> list[float]:
    """Returns what is added to each process's times; the same for processes of one boot."""
    walls: dict[str, list[int]] = {}
    for process in processes:
        walls.setdefault(process["boot"], []).append(process["wall_minus_clock_ns"])
    offsets = {boot: int(statistics.median_low(found)) for boot, found in walls.items()}
    first = offsets[processes[0]["boot"]] if processes else 0
    return [(offsets[process["boot"]] - first) / 1e3 for process in processes]


def arrows_of(events: list[Event]) -> list[Event]:
    """Returns arrows from each put to each get of its version whose box shares points with it.

    A get that had ended when the put began has not read it.
    """
    puts: dict[tuple[str, str], list[Call]] = {}
    gets: dict[tuple[str, str], list[Call]] = {}
    for event in events:
        notes = event.get("args", {})
        if "box" not in notes or "version" not in notes or "failed" in notes:
            continue
        calls = {"put": puts, "get": gets}.get(notes["call"])
        if calls is not None:
            key = notes["variable"], notes["version"]
            calls.setdefault(key, []).append(Call(event, box_of(notes["box"])))
    arrows: list[Event] = []
    for key, readers in gets.items():
        for put in puts.get(key, []):
            for get in readers:
                if put.event["ts"] < get.end and meet(put.box, get.box):
                    arrows += arrow(len(arrows), key[0], put, get)
    return arrows


def arrow(number: int, name: str, put: Call, get: Call) -> list[Event]:
    """Returns the two events of an arrow, which Chrome's format ties to the spans around them."""
    head, tail = get.moment, min(put.moment, get.moment)
    shared = {"name": name, "cat": "staging", "id": number}
    rows = [{key: call.event[key] for key in ("pid", "tid")} for call in (put, get)]
    return [
        {**shared, **rows[0], "ph": "s", "ts": tail},
        {**shared, **rows[1], "ph": "f", "bp": "e", "ts": head},
    ]


def box_of(text: str) -> Box:
    """Reads ``(0:64, -3:5)``."""
    return tuple((int(a), int(b)) for a, b in re.findall(r"(-?\d+):(-?\d+)", text))


def meet(one: Box, other: Box) -> bool:
    """Whether two boxes share a point."""
    pairs = zip(one, other, strict=False)
    return len(one) == len(other) and all(max(a, c) < min(b, d) for (a, b), (c, d) in pairs)
