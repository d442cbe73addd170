"""What the demo's processes share: their command line, their lines to the parent, their end."""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from typing import Any

from tranship.demo.settings import Settings


def start_role(description: str) -> tuple[Settings, int]:
    """Read --settings and --rank, and end this process if the parent ends."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--settings", required=True, help="the run's settings.json")
    parser.add_argument("--rank", required=True, type=int, help="which of the processes this is")
    arguments = parser.parse_args()
    threading.Thread(target=end_with_parent, daemon=True).start()
    return Settings.load(arguments.settings), arguments.rank


def end_with_parent() -> None:
    """End this process at once when its standard input, which the parent holds, closes."""
    # A raw read: a buffered reader's lock would trouble the interpreter's shutdown.
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(3)


def report(kind: str, **values: Any) -> None:
    """Send one line of JSON to the parent."""
    print(json.dumps({"kind": kind, **values}), flush=True)
