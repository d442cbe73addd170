"""Another process whose engine this one is connected to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

from . import _core
from .arguments import check_text, guard_methods
from .arrays import RemoteArray
from .closing import refuse_pickling
from .errors import Closed, Error
from .notices import Notice, check_accepts, take_notices

__all__ = ["Peer"]


@guard_methods
class Peer:
    """Another process, and the arrays that it exports: ``peer["density"]``.

    They are read and written as NumPy's are: ``peer["density"][2:5] = values``. Iterating over a
    peer gives the names of its arrays. A ``with`` statement closes the connection.
    """

    def __init__(
        self, core: _core.EngineCore, peer: _core.PeerId, timeout: float, accepts: bool
    ) -> None:
        self._core = core
        self._accepts = accepts
        self._peer = peer
        self._timeout = timeout
        self._closed = False

    def _check(self) -> None:
        if self._closed:
            raise Closed("the connection was closed", "connect again with Engine.connect()")

    def __getitem__(self, name: str) -> RemoteArray:
        """Returns the array that the peer exports by this name.

        Raises:
            NotFound: The peer exports no array of that name; the error lists those that it does.
            PeerLost: The peer exited.
            Closed: This connection, or the engine, was closed.
        """
        self._check()
        check_text("name", name)
        found = _core.lookup(self._core, self._peer, name, self._timeout)
        return RemoteArray(found, name, self._core)

    def names(self) -> list[str]:
        """Returns the names of the arrays that the peer exports now."""
        self._check()
        return list(_core.names(self._core, self._peer, self._timeout))

    def notices(self, timeout: float = 0.0) -> list[Notice]:
        """Returns the notices that this peer has sent, each once, as they arrived.

        It sends them by copies to or from arrays that this process exports: the peer, too, has
        connected to this process. `Engine.notices` returns those of all processes.

        Args:
            timeout: Seconds to wait for the first, if there is none. 0: the call does not wait.

        Returns:
            All that have arrived; none if none came within `timeout`.

        Raises:
            InvalidArgument: The engine was opened without a contact: no process can send notices.
            PeerLost: The peer exited, and all that it has sent were returned.
            Closed: This connection, the peer's engine or this one was closed, also while the call
                waits.
        """
        self._check()
        check_accepts(self._core, self._accepts, "can send it notices")
        return take_notices(self._core, self._peer, timeout)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def __bool__(self) -> bool:
        return True

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        refuse_pickling(self, "connect again in the other process, with Engine.connect()")

    def close(self) -> None:
        """Closes the connection; further calls do nothing."""
        if self._closed or self._core.closed:
            return
        self._closed = True
        _core.disconnect(self._core, self._peer)

    def __repr__(self) -> str:
        try:
            description = "" if self._closed else _core.describe_peer(self._core, self._peer)
        except Error:
            description = ""
        return f"<Peer {description or 'closed'}>"
