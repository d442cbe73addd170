"""What the demo's processes share: their command line, their lines to the parent, their end."""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from typing import Any

import tranship as ts
from tranship.demo.settings import Settings


class Parent:
    """The link to the process that started this one: its standard input.

    While it is open the parent lives; when it closes, this process ends at once, so that no run
    leaves orphans. A line on it is the permission to close.
    """

    def __init__(self) -> None:
        self.permitted = threading.Event()
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self) -> None:
        """Waits for the permission, then for the end."""
        # Raw reads: a buffered reader's lock would trouble the interpreter's shutdown.
        while os.read(sys.stdin.fileno(), 1):
            self.permitted.set()
        os._exit(3)

    def finish(self, timeout_s: float | None) -> None:
        """Reports that the work is done, and waits for the others, without a limit if None."""
        report("done")
        if not self.permitted.wait(timeout_s):
            raise TimeoutError(f"the parent did not let this process end in {timeout_s:.0f} s")


def start_role(description: str) -> tuple[Settings, int, Parent]:
    """Reads --settings and --rank from the command line, and watches the parent from here on."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--settings", required=True, help="the run's settings.json")
    parser.add_argument("--rank", required=True, type=int, help="which of the processes this is")
    arguments = parser.parse_args()
    return Settings.load(arguments.settings), arguments.rank, Parent()


def open_engine(settings: Settings, role: str, rank: int) -> ts.Engine:
    """Gives a process its engine, which writes a trace when it closes if the run has any."""
    return ts.Engine(contact=settings.contact(role, rank), trace_folder=settings.trace_folder)


def open_staging(settings: Settings, engine: ts.Engine, name: str) -> ts.Staging:
    """Gives a process its client of the staging servers, which copies with the process's engine."""
    return ts.Staging(settings.staging, engine=engine, name=name, timeout=settings.timeout_s)


def report(kind: str, **values: Any) -> None:
    """Sends one line of JSON to the parent."""
    print(json.dumps({"kind": kind, **values}), flush=True)
