"""Threads of the package, and what it says where the system refuses one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from .errors import Error, make

__all__ = ["no_thread", "start_thread"]


def start_thread(target: Callable[..., object], name: str, *arguments: Any) -> threading.Thread:
    """Starts a daemon thread.

    Raises:
        Error: The system refuses it.
    """
    thread = threading.Thread(target=target, args=arguments, name=name, daemon=True)
    try:
        thread.start()
    except (RuntimeError, MemoryError) as refused:
        raise no_thread(refused) from None
    return thread


def no_thread(refused: Exception) -> Error:
    """Returns the error of a call that could not begin."""
    return make(
        "out_of_memory",
        f"nothing was begun: the system has no thread for it ({str(refused) or 'no memory'})",
        "raise the limit of threads (ulimit -u), or wait until others have ended",
    )
