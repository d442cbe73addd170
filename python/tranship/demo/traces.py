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

    def copy(self, source: Any, target: Any, **options: Any) -> Any:
        """Start the copy as the engine does; the span ends with the event's `wait`."""
        # Copies that overlap in time need different lanes to be drawn in.
        lane = next(n for n in range(len(self.lanes_in_use) + 1) if n not in self.lanes_in_use)
        self.lanes_in_use.add(lane)
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
        end_ns = time.monotonic_ns()
        self.log.lanes_in_use.discard(self.lane)
        self.log.spans.append(
            {
                "name": "copy",
                "cat": "transfer",
                "ph": "X",
                "ts": self.begin_ns / 1e3,
                "dur": (end_ns - self.begin_ns) / 1e3,
                # Above the engine's own threads.
                "tid": 1000 + self.lane,
                "args": {"bytes": self.byte_count},
            }
        )


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
