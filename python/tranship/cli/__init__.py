"""The command line: `tranship demo`, `topology`, `calibrate`, `plan`, `copy`, `bench` and so on.

What a command prints on stdout is data; progress, notes and errors go to stderr.
"""

from .app import main

__all__ = ["main"]
