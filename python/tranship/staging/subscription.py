"""Calls of a function with each version of a variable as it comes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ..closing import Closing
from ..errors import Closed, NotFound, Timeout
from .arguments import whole_version
from .reader import FIRST, Corner, Reader, VariableBox

__all__ = ["Subscription"]

LOOK_S = 0.25
"""How soon a subscription sees that it is to end."""
READ_S = 60.0
"""How long it tries to read a version that is there: it may have to come back from disk."""


class Subscription(Closing):
    """What `Staging.subscribe` returns: it ends with the variable's producers, or by `close`."""

    def __init__(
        self,
        staging: Reader,
        name: str,
        callback: Callable[[int, Any], object],
        after: int | None,
        lower: Corner | None,
        upper: Corner | None,
    ) -> None:
        self._staging = staging
        self._name = name
        self._callback = callback
        self._lower = lower
        self._upper = upper
        self._box: VariableBox | None = None
        self._version = FIRST if after is None else whole_version(after)
        self._failure: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"tranship-{name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                if not self._next():
                    return
        except BaseException as failure:
            self._failure = failure

    def _next(self) -> bool:
        """One version, if it comes soon; False when none will come any more."""
        core = self._staging._core
        try:
            if self._box is None:
                self._box = self._staging._box(self._name, self._lower, self._upper, LOOK_S)
            lower, upper = list(self._box.lower), list(self._box.upper)
            version = core.wait(self._name, "next", self._version, lower, upper, LOOK_S)
        except (Timeout, NotFound):
            return True
        except Closed:
            if self._staging.closed:
                raise
            return False
        out = self._box.empty()
        try:
            core.get(self._name, "exact", version, lower, upper, out, READ_S)
        except NotFound:  # it was discarded in between
            return True
        self._version = version
        self._callback(version, out)
        return True

    @property
    def ended(self) -> bool:
        """Whether no call will come any more."""
        return not self._thread.is_alive()

    def wait(self, timeout: float | None = None) -> None:
        """Until all who put to the variable have closed, and the last call has returned.

        Raises:
            Timeout: it has not ended; or a version that is there could not be read for a minute,
                and the message says why.
            PeerLost: somebody who put to the variable has died, or the server.
            Closed: its client was closed before.
            Exception: what the callback raised; it was not called again.
        """
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise Timeout(
                f'the subscription to "{self._name}" has not ended; its last version '
                f"is {self._version}"
            )
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Ends it: no call begins any more. Waits for the last one, unless it is the caller."""
        self._stop.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()
