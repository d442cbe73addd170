"""The command line: `tranship demo`, `topology`, `calibrate`, `plan`, `copy`, `serve` and so on.

What a command prints on stdout is data; progress, notes and errors go to stderr.
"""

from __future__ import annotations

import sys

from .. import __version__

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Runs a command line and returns its exit code: 0 done, 1 failed, 2 not understood.

    Each command's module is imported when it is run, and none for the version.
    """
    words = sys.argv[1:] if arguments is None else arguments
    if words == ["--version"]:
        print(f"tranship {__version__}")
        return 0
    from .app import run

    return run(words)
