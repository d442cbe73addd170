"""Arrays that stay where they are: a client offers them, and others get them from there."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, NoReturn, SupportsIndex

from .. import _core
from .._core import EngineCore, Event
from ..arguments import check_seconds, guard_methods, shown
from ..closing import refuse_pickling
from ..errors import InvalidArgument
from .arguments import (
    SCALARS_AND_LISTS,
    as_elements,
    at_origin,
    check_flag,
    corner_of,
    variable_name,
    whole_version,
)
from .labelled_puts import taken_apart
from .reader import Lower

__all__ = ["Offer", "Offers"]


@guard_methods
class Offer:
    """An array that this process offers, until it has ended: `Staging.offer` makes one.

    The array must not change before. It may when `withdraw` or `wait` has returned, or `ended` is
    true. Leaving a ``with`` statement withdraws it. An offer whose object is dropped goes on.

    Attributes:
        name: The variable's name.
        version: The version.
    """

    def __init__(self, core: _core.StagingClientCore, number: int, name: str, version: int) -> None:
        self._core = core
        self._number = number
        self._pid = os.getpid()
        self.name = name
        self.version = version

    @property
    def ended(self) -> bool:
        """Whether it has ended: no process will read the array any more, so that it may change.

        Raises:
            Closed: The client was closed.
        """
        return self._core.offer_has_ended(self._number)

    def wait(self, timeout: float = 30.0) -> None:
        """Waits until it has ended: its version was discarded, or hidden, and is read no more.

        Raises:
            Timeout: It had not for `timeout` seconds; the message names who reads it, if any does.
            Closed: The client was closed.
        """
        self._core.end_offer(self._number, False, check_seconds("timeout", timeout))

    def withdraw(self, timeout: float = 30.0) -> None:
        """Withdraws it: no further get finds it. Waits until nobody reads it; then it may change.

        A get of a part that nothing else covers waits from then on as for one that was never put.

        Raises:
            Timeout: It was still being read after `timeout` seconds, and must not change yet; the
                message says by whom. No further get finds it; call `withdraw` again.
            Closed: The client was closed.
        """
        self._core.end_offer(self._number, True, check_seconds("timeout", timeout))

    def __enter__(self) -> Offer:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._core.closed and self._pid == os.getpid():
            self.withdraw()

    def __reduce__(self) -> NoReturn:
        refuse_pickling(self, "offer an array of the other process there")

    def __repr__(self) -> str:
        return f"<Offer of version {self.version} of {self.name!r}>"


@guard_methods
class Offers:
    """Offers of a client and of its steps."""

    _core: _core.StagingClientCore
    _engine_core: EngineCore

    def offer(
        self,
        name: str,
        version: SupportsIndex,
        array: Any,
        lower: Lower | None = None,
        *,
        timeout: float = 30.0,
        after: Event | Iterable[Event] | None = None,
        checksum: bool = False,
    ) -> Offer:
        """Makes an array an object of a version, as `put` does, but leaves it where it is.

        A `get` of any client copies its part from the memory of this process, on the host or a
        GPU: nothing is copied before, and the servers' memory is not needed. The array must not
        change until the offer has ended: that is a promise of this process. A get that reads it
        while it changes may return some of the new elements, unless `checksum` finds that.

        The offer ends when its version is discarded (by a limit of the servers, by `discard` or
        `delete`), when a later object hides it whole, or when it is withdrawn; and no get reads it
        any more. Closing the client withdraws it, and waits two seconds for gets. If this process
        dies, gets of the array raise `PeerLost`.

        Args:
            name: Variable name.
            version: Any whole number.
            array: NumPy array, or an array of a GPU, with any strides. One of `Engine.empty`, or on
                a GPU, is copied by processes of this machine without help of this one. Fields of
                structures are offered whole.
            lower: First indices of the box; None: all 0.
            timeout: Seconds for the servers' answers, and for the events.
            after: Events of `Engine.copy` that write the array; they end before it is offered.
            checksum: Whether each `get` that takes the array whole compares its elements with those
                that it has now, and raises an `Error` if they are others.

        Returns:
            The offer, which says when the array may change.

        Raises:
            InvalidArgument: This client accepts no connections: open it with ``offers=True``, or
                with an engine that has a contact. Or the array does not fit the variable, has no
                elements, or lies in another process.
            NotFound: The version was discarded, or is older than those that are kept.
            Timeout: An event had not ended, or a server not answered, for `timeout` seconds.
            PeerLost: A server has exited.
        """
        seconds = check_seconds("timeout", timeout)
        return self._offer(name, version, array, lower, after, checksum, seconds, 0)

    def _offer(
        self,
        name: str,
        version: SupportsIndex,
        array: Any,
        lower: Lower | None,
        after: Event | Iterable[Event] | None,
        checksum: bool,
        seconds: float,
        step: int,
    ) -> Offer:
        variable_name(name)
        number = whole_version(version)
        if isinstance(array, SCALARS_AND_LISTS) or taken_apart(name, array, lower) is not None:
            raise InvalidArgument(
                f"array={shown(array)} is no array that others could read in place",
                "offer a NumPy array, such as the values of a DataArray, or an array of a GPU",
            )
        elements, text = as_elements(array)
        elements, corner = (
            at_origin(elements) if lower is None else (elements, corner_of("lower", lower))
        )
        made = self._core.offer(
            self._engine_core,
            name,
            number,
            elements,
            corner,
            seconds,
            after,
            check_flag("checksum", checksum),
            text,
            step,
        )
        return Offer(self._core, made, name, number)
