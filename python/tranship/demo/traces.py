"""What each process moved and when, and all of it put into one Chrome trace for Perfetto."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any


class TimedEngine:
    """An engine that also notes when each copy was asked for and when it was seen to be complete.

    The engine's own trace shows what its channels did; this shows what the program waited for,
    copies that the engine does on the calling thread included. Used as the engine itself.
    """

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.spans: list[dict[str, Any]] = []
        self.lanes_in_use: set[int] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def take_lane(self) -> int:
        """Copies that overlap in time need different lanes to be drawn in."""
        lane = next(n for n in range(len(self.lanes_in_use) + 1) if n not in self.lanes_in_use)
        self.lanes_in_use.add(lane)
        return lane

    def note(self, name: str, lane: int, begin_ns: int, byte_count: int) -> None:
        """Note a span that ends now, and give its lane back."""
        end_ns = time.monotonic_ns()
        self.lanes_in_use.discard(lane)
        self.spans.append(
            {
                "name": name,
                "cat": "transfer",
                "ph": "X",
                "ts": begin_ns / 1e3,
                "dur": (end_ns - begin_ns) / 1e3,
                # Above the engine's own threads.
                "tid": 1000 + lane,
                "args": {"bytes": byte_count},
            }
        )

    def copy(self, source: Any, target: Any, **options: Any) -> Any:
        """Start the copy as the engine does; the span ends with the event's `wait`."""
        lane = self.take_lane()
        begin_ns = time.monotonic_ns()
        event = self.engine.copy(source, target, **options)
        return TimedEvent(self, event, lane, begin_ns, int(source.nbytes))

    def save(self, path: str) -> None:
        """Write the spans as Chrome trace events."""
        Path(path).write_text(json.dumps({"traceEvents": self.spans}))


class TimedEvent:
    """The event of a `TimedEngine`'s copy."""

    def __init__(
        self, log: TimedEngine, event: Any, lane: int, begin_ns: int, byte_count: int
    ) -> None:
        self.log = log
        self.event = event
        self.lane = lane
        self.begin_ns = begin_ns
        self.byte_count = byte_count

    @property
    def plan(self) -> Any:
        """The plan that the copy follows."""
        return self.event.plan

    def wait(self, timeout: float) -> None:
        """Wait for the copy, and note its end."""
        self.event.wait(timeout=timeout)
        self.log.note("copy", self.lane, self.begin_ns, self.byte_count)


class TimedStaging:
    """A client of the staging service whose puts and gets are noted beside an engine's copies."""

    def __init__(self, staging: Any, log: TimedEngine) -> None:
        self.staging = staging
        self.log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self.staging, name)

    def __getitem__(self, name: str) -> Any:
        return self.staging[name]

    def put(self, name: str, version: int, array: Any, *arguments: Any, **options: Any) -> None:
        """As the client's own."""
        lane, begin_ns = self.log.take_lane(), time.monotonic_ns()
        self.staging.put(name, version, array, *arguments, **options)
        self.log.note("put", lane, begin_ns, int(array.nbytes))

    def get(self, name: str, version: int, *arguments: Any, **options: Any) -> Any:
        """As the client's own. The time includes that of waiting for the data."""
        lane, begin_ns = self.log.take_lane(), time.monotonic_ns()
        array = self.staging.get(name, version, *arguments, **options)
        self.log.note("get", lane, begin_ns, int(array.nbytes))
        return array


def merge_traces(folder: Path, target: Path) -> list[dict[str, Any]]:
    """Merge <folder>/<process>.<kind>.json into `target`; return the events, times from 0 in us.

    Each process becomes one group, in the files' order. The clocks agree: every trace uses the
    machine's monotonic clock.
    """
    events: list[dict[str, Any]] = []
    processes: list[str] = []
    for path in sorted(folder.glob("*.json")):
        process = path.name.split(".")[0]
        if process not in processes:
            processes.append(process)
        content = json.loads(path.read_text())
        found = content["traceEvents"] if isinstance(content, dict) else content
        group = {"pid": processes.index(process), "process": process}
        events += [{**event, **group} for event in found if "ts" in event]
    begin = min((float(event["ts"]) for event in events), default=0.0)
    for event in events:
        event["ts"] = float(event["ts"]) - begin
    events.sort(key=lambda event: float(event["ts"]))
    names = [
        {"name": "process_name", "ph": "M", "pid": number, "args": {"name": process}}
        for number, process in enumerate(processes)
    ]
    target.write_text(json.dumps({"traceEvents": [*names, *events], "displayTimeUnit": "ms"}))
    return events
