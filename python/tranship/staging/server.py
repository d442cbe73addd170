"""Servers of the staging service."""

from __future__ import annotations

import os
from typing import Any, Literal, NoReturn, SupportsIndex

from .. import _core, profiles
from ..arguments import check_path, check_whole, guard_methods, shown
from ..arrays.memories import memory_name
from ..closing import Closing, close_at_exit, refuse_pickling
from ..errors import Error, InvalidArgument
from ..profiles import read_profile
from ..settings import setting_overrides
from .arguments import bytes_of
from .reader import Info

__all__ = ["StagingServer"]


@guard_methods
class StagingServer(Closing):
    """A server of the staging service in this process; `tranship serve` runs one, or several.

    Several servers share the objects of all variables. Start each with its rank; the first, of rank
    0, writes the contact file, and the others, which wait for it, find the first through it.

    Args:
        contact: Contact file to write, through which clients find the server; None: clients use
            the host:port in the property `contact`. For a rank above 0 the first server's file, or
            its host:port.
        memory: Capacity for objects, in bytes or as a text such as "8GiB".
        preallocate: How much of that is allocated in the background, before objects need it, in
            bytes or as a text: a first put is as fast as later ones then. 0: nothing; None: all,
            but at most half of the machine's free memory. Memory of GPUs is allocated as it is
            needed.
        memory_kind: Memory of the objects: "host", shared memory that other processes map;
            "device0", "cuda:0", ... or a device of PyTorch, JAX or CuPy, that GPU; "device" or
            "cuda": GPU `rank` modulo the number of GPUs. Take a GPU where writers and readers are
            on GPUs of this machine.
        versions: Number of versions of a variable that are kept; 0: all of them.
        full: What a put does when the memory is full: "block": it waits until versions are
            discarded; "discard-oldest": the oldest versions that no client reads are discarded;
            "spill": the oldest objects that no client reads go to disk.
        spill: Folder to which objects spill, in a file without a name; None: the temporary one.
        spill_max: Capacity there, in bytes or as a text; None: what the disk has.
        rank: Number of this server in its group, from 0.
        servers: Number of servers in the group.
        profile: Machine profile, as for Engine.
        **settings: Any setting of `tranship config`.

    Raises:
        InvalidArgument: A limit or setting is impossible, or an argument has a wrong type.
        Error: The address, the contact file or the folder to spill to was refused, or the group has
            that rank already.
        NotFound: The first server was not found within a minute; or there is no folder to spill to.
    """

    _exit_order = 1

    def __init__(
        self,
        contact: str | os.PathLike[str] | None = None,
        *,
        memory: int | str = 1 << 30,
        preallocate: int | str | None = None,
        memory_kind: Any = "host",
        versions: SupportsIndex = 0,
        full: Literal["block", "discard-oldest", "spill"] = "block",
        spill: str | os.PathLike[str] | None = None,
        spill_max: int | str | None = None,
        rank: SupportsIndex = 0,
        servers: SupportsIndex = 1,
        profile: str | os.PathLike[str] | None = None,
        **settings: Any,
    ) -> None:
        if full not in ("block", "discard-oldest", "spill"):
            raise InvalidArgument(
                f"full={shown(full)} is no policy", 'give "block", "discard-oldest" or "spill"'
            )
        if full != "spill" and not (spill is None and spill_max is None):
            raise InvalidArgument(
                'nothing is spilled unless full="spill"', "add it, or leave out spill and spill_max"
            )
        number = check_whole("rank", rank, least=0, bits=32)
        count = check_whole("servers", servers, least=1, bits=32)
        kept = check_whole("versions", versions, least=0, bits=32)
        where = "" if contact is None else check_path("contact", contact)
        if number > 0 and contact is None:
            raise InvalidArgument(
                f"a server of rank {number} finds its group through the first server",
                "give the contact file of the first server, or its host:port",
            )
        overrides = setting_overrides(settings)
        text = profiles.of_this_machine(overrides=overrides) if profile is None else None
        self._core = _core.StagingServerCore.open(
            text if text is not None else read_profile(profile or ""),
            overrides,
            where,
            bytes_of(memory, "memory"),
            None if preallocate is None else bytes_of(preallocate, "preallocate"),
            memory_name(memory_kind, "memory_kind", pinned=False),
            kept,
            full,
            "" if spill is None else check_path("spill", spill),
            None if spill_max is None else bytes_of(spill_max, "spill_max"),
            number,
            count,
            where if number > 0 else "",
        )
        close_at_exit(self)

    @property
    def contact(self) -> str:
        """Address for clients: host:port if it listens on a network, else "unix:@…"."""
        return self._core.contact

    @property
    def clients(self) -> int:
        """Number of connected clients."""
        return self._core.clients

    @property
    def complete(self) -> bool:
        """Whether all servers of the group have joined; the first server knows."""
        return self._core.complete

    @property
    def memory_used(self) -> int:
        """Bytes that objects take in memory, in whole units."""
        return self._core.memory_bytes_used

    @property
    def spilled(self) -> int:
        """Bytes of the objects that lie on disk only."""
        return self._core.spilled_bytes

    def ls(self) -> list[Info]:
        """Returns the variables that this server holds, as Staging.ls() does."""
        return [dict(info) for info in self._core.variables()]

    def close(self) -> None:
        """Ends the service; calls of clients that wait raise `Closed`, as do later calls here.

        A second call does nothing, nor does one in a process that was forked from the server's.
        """
        self._core.close()

    def __repr__(self) -> str:
        contact = self._core.contact
        try:
            state = f"memory_used={self.memory_used}, clients={self.clients}"
            return f"<StagingServer at {contact}: {state}>"
        except Error:
            return f"<StagingServer at {contact}: closed>"

    def __reduce__(self) -> NoReturn:
        refuse_pickling(self, "open a Staging in the other process, or start a server there")
