"""What the demo's processes share: their command line, their lines to the parent, their end."""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tranship as ts
from tranship.demo.settings import Settings
from tranship.demo.traces import TimedEngine, TimedStaging


class Parent:
    """The link to the process that started this one: its standard input.

    While it is open the parent lives; when it closes, this process ends at once, so that no run
    leaves orphans. A line on it is the permission to close.
    """

    def __init__(self) -> None:
        self.permitted = threading.Event()
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self) -> None:
        """Wait for the permission, then for the end."""
        # Raw reads: a buffered reader's lock would trouble the interpreter's shutdown.
        while os.read(sys.stdin.fileno(), 1):
            self.permitted.set()
        os._exit(3)

    def finish(self, timeout_s: float | None) -> None:
        """Report that the work is done, and stay until the others are done, None: however long."""
        report("done")
        if not self.permitted.wait(timeout_s):
            raise TimeoutError(f"the parent did not let this process end in {timeout_s:.0f} s")


def start_role(description: str) -> tuple[Settings, int, Parent]:
    """Read --settings and --rank from the command line, and watch the parent from here on."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--settings", required=True, help="the run's settings.json")
    parser.add_argument("--rank", required=True, type=int, help="which of the processes this is")
    arguments = parser.parse_args()
    return Settings.load(arguments.settings), arguments.rank, Parent()


@contextmanager
def open_engine(settings: Settings, role: str, rank: int) -> Iterator[Any]:
    """Give a process its engine, and write the traces at the end if the run has any."""
    contact = settings.contact(role, rank)
    with ts.Engine(contact=contact, trace=settings.trace_file(role, rank, "engine")) as engine:
        calls = settings.trace_file(role, rank, "calls")
        if calls is None:
            yield engine
            return
        timed = TimedEngine(engine)
        yield timed
        timed.save(calls)


@contextmanager
def open_staging(settings: Settings, engine: Any, name: str) -> Iterator[Any]:
    """Give a process its client of the staging servers, which copies with the process's engine."""
    timed = isinstance(engine, TimedEngine)
    raw = engine.engine if timed else engine
    with ts.Staging(settings.staging, engine=raw, name=name, timeout=settings.timeout_s) as staging:
        yield TimedStaging(staging, engine) if timed else staging


def report(kind: str, **values: Any) -> None:
    """Send one line of JSON to the parent."""
    print(json.dumps({"kind": kind, **values}), flush=True)
