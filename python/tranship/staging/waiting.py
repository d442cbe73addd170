"""What a terminal shows of waits for other processes."""

from __future__ import annotations

import sys

__all__ = ["QUIET_S", "on_terminal", "say_waiting"]

QUIET_S = 1.0
"""Seconds of a wait after which a terminal shows what is waited for."""


def on_terminal() -> bool:
    """Returns whether stderr is a terminal, which somebody may read."""
    return sys.stderr is not None and sys.stderr.isatty()


def say_waiting(what: str, seconds: float) -> None:
    """Writes on a terminal what a call waits for, and for how long."""
    if on_terminal():
        print(f"waiting for {what}, for up to {seconds:.0f} s", file=sys.stderr, flush=True)
