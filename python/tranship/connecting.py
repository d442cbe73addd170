"""What an engine does with other processes: it exports arrays, connects, and gets notices."""

from __future__ import annotations

import os
from typing import Any

from . import _core
from .arguments import check_path, check_seconds, check_text, guard_methods
from .closing import Closing
from .notices import Notice, check_accepts, take_notices
from .peer import Peer

__all__ = ["Connecting"]


@guard_methods
class Connecting(Closing):
    """The part of an engine that other processes see."""

    _core: _core.EngineCore
    _accepts: bool

    @property
    def contact(self) -> str:
        """Address under which other processes reach this engine, for their `connect`.

        host:port if it listens on a network (the setting ``listen``), else a socket of this machine
        ("unix:@…").
        """
        return _core.contact(self._core)

    def export(self, name: str, array: Any, *, notices: bool = False) -> None:
        """Lets processes that connect read `array` by name, and write it if it is writable.

        Work that the array's library has queued on a GPU has ended on return, so that peers read
        what it wrote. The array stays alive until `withdraw` or `close`.

        Args:
            name: Name by which peers find the array.
            array: As for `copy`.
            notices: Whether peers may send notices of their copies to and from the array
                (``copy(..., notify="name")``), which `notices` returns.

        Raises:
            InvalidArgument: The name is taken, the array belongs to another process, or the engine
                was opened without a contact.
        """
        check_accepts(self._core, self._accepts, "can reach what it exports")
        _core.export_array(self._core, check_text("name", name), array, bool(notices))

    def notices(self, timeout: float = 0.0) -> list[Notice]:
        """Returns the notices that other processes have sent, each once, as they arrived.

            for notice in engine.notices(timeout=1.0):
                print(notice.name, notice.array)

        The bytes that a notice reports can be read when the call returns; on a GPU, too. A process
        of which nobody reads the notices takes no more of a sender once ``notices_max`` (a setting)
        of it wait.

        Args:
            timeout: Seconds to wait for the first, if there is none. 0: the call does not wait.

        Returns:
            All that have arrived; none if none came within `timeout`.

        Raises:
            InvalidArgument: The engine was opened without a contact: no process can send notices.
            Closed: The engine is closed, also while the call waits.
        """
        check_accepts(self._core, self._accepts, "can send it notices")
        return take_notices(self._core, None, timeout)

    def withdraw(self, name: str) -> None:
        """Ends an export; on return no peer reads or writes the array.

        Args:
            name: Name of the exported array.

        Raises:
            NotFound: No array is exported by that name.
            Timeout: A peer's copy takes longer than the setting ``peer_timeout_ms``: keep the
                memory until it has ended. The name is free, and no new copy begins.
        """
        _core.withdraw(self._core, check_text("name", name))

    def connect(self, contact: str | os.PathLike[str], *, timeout: float = 10.0) -> Peer:
        """Connects to another engine.

        Args:
            contact: The other engine's contact file, or its host:port.
            timeout: Seconds to wait for the connection, and for each lookup by it.

        Raises:
            NotFound: There is no such contact file.
            PeerLost: The process that wrote the file has exited, or no process listens there.
            Timeout: The listener does not answer as an engine does, or is stopped, for `timeout`
                seconds.
        """
        where, limit = check_path("contact", contact), check_seconds("timeout", timeout)
        return Peer(self._core, _core.connect(self._core, where, limit), limit, self._accepts)
