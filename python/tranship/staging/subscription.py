"""Subscriptions: a function is called for each version of a variable."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NoReturn

from ..arguments import check_seconds
from ..closing import Closing, refuse_pickling
from ..errors import Closed, NotFound, Timeout
from ..threads import start_thread
from .following import VersionFollower
from .reader import Reader

__all__ = ["Subscription"]

LOOK_S = 0.25
"""Seconds until a subscription notices that it was closed."""
READ_S = 60.0
"""Seconds to read a version that is there: it may have to come back from disk."""


class Subscription(Closing):
    """A running subscription; it ends when the variable's producers have, or by `close`.

    `Staging.subscribe` makes one.
    """

    def __init__(
        self,
        staging: Reader,
        name: str,
        callback: Callable[[int, Any], object],
        follower: VersionFollower,
    ) -> None:
        self._staging = staging
        self._name = name
        self._callback = callback
        self._follower = follower
        self._version: int | None = None
        self._failure: BaseException | None = None
        self._stop = threading.Event()
        self._thread = start_thread(self._run, f"tranship-{name}")

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                if not self._next():
                    return
        except BaseException as failure:
            self._failure = failure

    def _next(self) -> bool:
        """Waits a little for one version; returns False when none will come any more."""
        try:
            box = self._follower.wait(LOOK_S)
        except (Timeout, NotFound):
            return True
        except Closed:
            if self._staging.closed:
                raise
            return False
        self._follower.report()
        if box is None:
            return True
        version, out = self._follower.version, box.empty()
        try:
            self._staging.get(self._name, version, box.lower, box.upper, out, timeout=READ_S)
        except NotFound:  # it was discarded meanwhile
            return True
        self._version = version
        self._callback(version, out)
        return True

    @property
    def ended(self) -> bool:
        """Whether the callback will not be called any more."""
        return not self._thread.is_alive()

    def wait(self, timeout: float | None = None) -> None:
        """Waits until all producers have closed, and the last call has returned.

        Args:
            timeout: Seconds; None: no limit.

        Raises:
            Timeout: The subscription has not ended; or a version that is there could not be read
                for a minute, and the message says why.
            PeerLost: A process that put to the variable has died, and all whole versions have come;
                or a server has exited.
            NotFound: With ``gaps="error"``: a version will never be whole.
            Closed: The client was closed before.
            Exception: The callback's exception; it was not called again.
        """
        self._thread.join(None if timeout is None else check_seconds("timeout", timeout))
        if self._thread.is_alive():
            raise Timeout(
                f'the subscription to "{self._name}" has not ended; its last version '
                f"is {self._last()}",
                "wait longer, or close it",
            )
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Ends the subscription, and waits for a call that runs, unless that is the caller."""
        self._stop.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _last(self) -> str:
        return "none" if self._version is None else str(self._version)

    def __repr__(self) -> str:
        state = "ended" if self.ended else "running"
        return f"<Subscription to {self._name!r}: {state}, last version {self._last()}>"

    def __reduce__(self) -> NoReturn:
        refuse_pickling(self, "open a Staging in the other process, and subscribe there")
