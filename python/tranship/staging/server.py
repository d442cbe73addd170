"""Servers of the staging service."""

from __future__ import annotations

import os
from typing import Any, Literal

from .. import _core, profiles
from ..closing import Closing, close_at_exit
from ..engine import read_profile
from ..errors import InvalidArgument
from ..settings import setting_overrides
from .arguments import bytes_of
from .reader import Info

__all__ = ["StagingServer"]


class StagingServer(Closing):
    """A server of the staging service in this process; `tranship serve` runs one, or several.

    Several servers share the objects of all variables. Start each with its rank; the first, of rank
    0, writes the contact file, and the others, which wait for it, find the first through it.

    Args:
        contact: a file to write, through which clients find the server; None: by `contact` alone.
            For a rank above 0 the first server's file, or host:port.
        memory: bytes that its objects may take; or a text, such as "8GiB".
        memory_kind: where they lie: "host", in memory that other processes map; "device0", ..., on
            that GPU; "device": on GPU `rank`, counted round. Take a GPU where writers and readers
            are on GPUs of this machine.
        versions: how many versions of a variable are kept; 0: all of them.
        full: what a put does when the memory is full: "block": it waits until versions are
            discarded; "discard-oldest", "spill": the oldest that nobody reads go, or go to disk.
        spill: the folder to which objects spill, in a file without a name; None: the temporary one.
        spill_max: bytes that they may take there; None: what the disk has.
        rank: this server's number in its group, from 0.
        servers: how many there are in the group.
        profile: as for Engine.
        **settings: any setting of `tranship config`.

    Raises:
        InvalidArgument: impossible limits or settings.
        Error: the address, the contact file or the folder to spill to was refused, or the group has
            that rank already.
        NotFound: the first server has not come within a minute; the folder to spill to is not
            there.
    """

    exit_order = 1

    def __init__(
        self,
        contact: str | os.PathLike[str] | None = None,
        *,
        memory: int | str = 1 << 30,
        memory_kind: str = "host",
        versions: int = 0,
        full: Literal["block", "discard-oldest", "spill"] = "block",
        spill: str | os.PathLike[str] | None = None,
        spill_max: int | str | None = None,
        rank: int = 0,
        servers: int = 1,
        profile: str | os.PathLike[str] | None = None,
        **settings: Any,
    ) -> None:
        if full not in ("block", "discard-oldest", "spill"):
            raise InvalidArgument(f'full is "block", "discard-oldest" or "spill", not "{full}"')
        if full != "spill" and not (spill is None and spill_max is None):
            raise InvalidArgument('nothing is spilled unless full="spill"')
        if rank > 0 and contact is None:
            raise InvalidArgument("a server of rank above 0 needs the first server's contact")
        overrides = setting_overrides(settings)
        text = profiles.of_this_machine(overrides=overrides) if profile is None else None
        self._core = _core.StagingServerCore.open(
            text if text is not None else read_profile(os.fspath(profile or "")),
            overrides,
            "" if contact is None else os.fspath(contact),
            bytes_of(memory, "memory"),
            memory_kind,
            versions,
            full,
            "" if spill is None else os.fspath(spill),
            None if spill_max is None else bytes_of(spill_max, "spill_max"),
            rank,
            servers,
            os.fspath(contact) if rank > 0 and contact is not None else "",
        )
        close_at_exit(self)

    @property
    def contact(self) -> str:
        """host:port, for clients."""
        return self._core.contact

    @property
    def clients(self) -> int:
        """Processes that are connected."""
        return self._core.clients

    @property
    def complete(self) -> bool:
        """Whether all servers of the group have started, as the first one knows."""
        return self._core.complete

    @property
    def memory_used(self) -> int:
        """Bytes that objects take, in whole units."""
        return self._core.memory_bytes_used

    @property
    def spilled(self) -> int:
        """Bytes of objects that lie on disk alone."""
        return self._core.spilled_bytes

    def ls(self) -> list[Info]:
        """As Staging.ls()."""
        return [dict(info) for info in self._core.variables()]

    def close(self) -> None:
        """Ends the service; clients that wait are told. Later calls raise `Closed`.

        It may be repeated. In a process that was forked from the server's it does nothing.
        """
        self._core.close()
