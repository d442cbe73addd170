"""Clients of the staging service."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .. import _core
from .._core import Event
from ..arrays.dtypes import dtype_fields, dtype_of
from ..closing import Closing, close_at_exit
from ..engine import Engine
from ..errors import Error, InvalidArgument, Timeout
from .arguments import (
    ELEMENT_BYTES_MAX,
    at_origin,
    check_element,
    which_version,
    whole_version,
)
from .communicator import Communicator, agree, hear_first, tell_others
from .futures import Workers
from .reader import Corner, Info, VariableBox, Version
from .subscription import Subscription
from .variable import Variable

if TYPE_CHECKING:
    import xarray

    from .xarray_view import Chunks, Versions

__all__ = ["Staging"]

WORKERS = 4
"""Puts and gets of one client that go on behind its caller's back."""
CLOSED = "this client of the staging service was closed; open another one"
"""What jobs fail with that never began."""


class Staging(Closing):
    """A client of the staging service, of one server or of several.

    Any thread may use it. Close it, or use it in a ``with`` statement, when nothing more will be
    put: those who follow its variables then know that they have ended, and have not died.

    Args:
        contact: the file that the (first) server wrote, or its host:port.
        engine: the engine that copies; None: one of its own.
        name: what the server knows this client by; None: host and process.
        timeout: seconds to find the server, which may be about to start.
        comm: an mpi4py communicator, or anything with its Get_rank, Get_size, bcast, allgather and
            barrier; None: this process alone. All its processes open their clients, and close
            them, together: the first one looks for the server, and measures the machine if nobody
            has; the others hear from it where the server is. If one cannot, all raise. What its
            processes put counts as a whole: see `define`.
        **settings: of its own engine, as of `tranship config`.

    Raises:
        NotFound: no such contact file has come.
        PeerLost: the server that wrote it is gone.
        Timeout: nothing answers there.
        Error: what answers there is no staging server.
    """

    exit_order = 2

    def __init__(
        self,
        contact: str | os.PathLike[str],
        *,
        engine: Engine | None = None,
        name: str | None = None,
        timeout: float = 10.0,
        comm: Communicator | None = None,
        **settings: Any,
    ) -> None:
        self._workers = Workers("tranship-staging", WORKERS, CLOSED)
        self._pid = os.getpid()
        self._comm = comm
        self._writers = 0 if comm is None else comm.Get_size()
        where = os.fspath(contact)
        if comm is not None and comm.Get_rank() > 0:
            where = hear_first(comm)
        label = name if name is not None else f"{socket.gethostname()}:{os.getpid()}"
        failure: BaseException | None = None
        try:
            self._open(where, engine, label, timeout, settings)
        except BaseException as raised:
            failure = raised
        tell_others(comm, "" if failure else self._core.contact, failure)
        try:
            agree(comm, failure)
        except BaseException:
            if failure is None:
                self._disconnect()
            raise
        close_at_exit(self)

    def _open(
        self,
        contact: str,
        engine: Engine | None,
        label: str,
        timeout: float,
        settings: dict[str, Any],
    ) -> None:
        self._own = Engine(**settings) if engine is None else None
        used = engine if engine is not None else self._own
        assert used is not None
        try:
            self._core = _core.StagingClientCore.open(used._core, contact, label, timeout)
        except BaseException:
            if self._own is not None:
                self._own.close()
            raise

    def define(
        self,
        name: str,
        dtype: npt.DTypeLike,
        lower: Corner,
        upper: Corner,
        *,
        writers: int | None = None,
    ) -> None:
        """Says what a variable will be; any client may, before or after the first put.

        With its domain known, a `get` without a box, and `versions()`, mean all of it. With the
        number of its writers known, it does not end before all of them have put to it and closed:
        without that, it has ended whenever all who have put to it so far have closed. Said before
        the first put, it lets the servers of a group share the boxes as evenly as can be.

        Args:
            name: of the variable.
            dtype: of its elements.
            lower: the first indices of its domain.
            upper: one past the last ones. A later definition may enlarge the domain.
            writers: clients that will put to it; 0: unknown. None: all of the communicator that
                the client was opened with, or 0 if there is none.

        Raises:
            InvalidArgument: it does not fit what was put or defined before. A `put` outside the
                domain raises it, too.
        """
        kind = np.dtype(dtype)
        check_element(kind)
        fields = dtype_fields(kind)
        count = self._writers if writers is None else writers
        self._core.define(name, fields[0][1], kind.itemsize, list(lower), list(upper), count)

    def put(
        self,
        name: str,
        version: int,
        array: Any,
        lower: Corner | None = None,
        *,
        timeout: float = 30.0,
        after: Event | Iterable[Event] | None = None,
        checksum: bool = False,
    ) -> None:
        """Puts an array as a box of a variable at a version.

        When it returns, everybody sees the object, whole; before, nobody sees any of it. Of boxes
        of one version that overlap, the one that was put last is seen. Waits while the server's
        memory is full.

        Args:
            name: of the variable. The first put decides its element type and dimensions.
            version: any whole number; versions need not follow each other.
            array: a NumPy array, or anything that `Engine.copy` takes, on the host or a GPU, with
                any strides, of up to 8 dimensions.
            lower: the box's first indices; None: all 0. The box is as large as the array.
            timeout: seconds.
            after: events of `Engine.copy` that write the array: it is read when they have ended,
                and the server finds room meanwhile. What is in the stream that a GPU's array
                names is waited for by itself.
            checksum: whether the object gets a CRC-32C of its elements, which each `get` that
                takes the object whole compares with what it got. Costs about as much as a copy,
                for the writer and for each such reader; what is up to 64 KiB goes the way of
                larger objects when it is read.

        Raises:
            InvalidArgument: the array does not fit the variable, or the version is no number.
            NotFound: the version was discarded, or is older than those that are kept.
            Timeout: the memory was full, or an event had not ended, for so long.
            PeerLost: a server is gone.
            Error: what an event failed with; nothing was put. Of more of one kind than the server
                takes: the message names the limit and its setting.
        """
        if isinstance(array, np.ndarray) and (
            array.itemsize > ELEMENT_BYTES_MAX or array.dtype.names is not None
        ):
            check_element(array.dtype)
        array, corner = at_origin(array) if lower is None else (array, list(lower))
        self._core.put(name, whole_version(version), array, corner, timeout, after, checksum)

    def put_async(
        self,
        name: str,
        version: int,
        array: Any,
        lower: Corner | None = None,
        *,
        timeout: float = 30.0,
        after: Event | Iterable[Event] | None = None,
        checksum: bool = False,
    ) -> Future[None]:
        """Begins a `put` and returns at once; ``result()`` waits for it, and raises what it raises.

        The array must stay as it is until then. Several may be under way; they end in any order.
        close() waits for all of them.
        """
        return self._workers.run(
            lambda: self.put(
                name, version, array, lower, timeout=timeout, after=after, checksum=checksum
            ),
            lasting=True,
        )

    def get_async(
        self,
        name: str,
        version: Version,
        lower: Corner | None = None,
        upper: Corner | None = None,
        out: Any = None,
        *,
        timeout: float = 30.0,
    ) -> Future[Any]:
        """Begins a `get` and returns at once; ``result()`` is what `get` returns or raises.

        close() does not wait for it: it raises `Closed` then.
        """
        return self._workers.run(
            lambda: self.get(name, version, lower, upper, out, timeout=timeout), lasting=False
        )

    def subscribe(
        self,
        name: str,
        callback: Callable[[int, Any], object],
        *,
        after: int | None = None,
        lower: Corner | None = None,
        upper: Corner | None = None,
    ) -> Subscription:
        """Calls ``callback(version, array)`` for each version of a box, in rising order.

        The calls come one after another, on a thread of the subscription's own; a callback that is
        slow delays the next, and loses none that is still held.

        Args:
            name: of the variable, which need not exist yet.
            callback: gets a new array each time.
            after: begin above this version; None: with the lowest that is held.
            lower: the box, as for `get`; None: all that was put when the first version came.
            upper: the same.
        """
        return Subscription(self, name, callback, after, lower, upper)

    def get(
        self,
        name: str,
        version: Version,
        lower: Corner | None = None,
        upper: Corner | None = None,
        out: Any = None,
        *,
        timeout: float = 30.0,
    ) -> Any:
        """Gets a box of a variable, and waits until all of it is there.

        Args:
            name: of the variable.
            version: a version, or "latest": the highest one that covers the box.
            lower: the box's first indices; None: of all that was ever put to the variable.
            upper: one past its last ones; None: the same.
            out: where to write it, on the host or a GPU, with any strides; None: a new array.
            timeout: seconds.

        Returns:
            `out`, or the new NumPy array.

        Raises:
            Timeout: something was still missing; the message says what.
            NotFound: the version was discarded.
            Closed: all who put to the variable have ended, and the box is not whole.
            PeerLost: one of them has died, or the server is gone.
            InvalidArgument: `out` has another shape or element type; or the version is neither a
                whole number nor "latest".
        """
        which, number = which_version(version)
        if lower is None or upper is None or out is None:
            box = self._box(name, lower, upper, timeout)
            lower, upper = box.lower, box.upper
            out = box.empty() if out is None else out
        self._core.get(name, which, number, list(lower), list(upper), out, timeout)
        return out

    def _box(
        self, name: str, lower: Corner | None, upper: Corner | None, timeout: float
    ) -> VariableBox:
        """A box of a variable, as soon as that exists; None: the bounds of all that was put."""
        bounds = lower is None or upper is None
        try:
            info: Info = dict(self._core.describe(name, bounds, timeout))
        except Timeout as error:
            if "did not answer" in str(error):
                raise  # a server that is silent does not list its variables either
            names = self._names()
            if name in names:
                raise
            held = ", ".join(names) if names else "none"
            raise Timeout(f"{error}", f"look at its name: the variables are {held}") from None
        return VariableBox(
            tuple(info["lower"]) if lower is None else lower,
            tuple(info["upper"]) if upper is None else upper,
            dtype_of(info["type"]),
        )

    def __getitem__(self, name: str) -> Variable:
        """A variable, to be indexed as a NumPy array: ``staging["energy"][3, 0:64, :]``.

        It need not be there yet.
        """
        if not isinstance(name, str):
            raise InvalidArgument(
                f'{name!r} is no name of a variable; index by name, as in staging["energy"]'
            )
        return Variable(self, name)

    def __iter__(self) -> Iterator[str]:
        """Names of the variables that are there now."""
        return iter(self._names())

    def __contains__(self, name: object) -> bool:
        """Whether there is a variable of that name now."""
        return name in self._names()

    def __len__(self) -> int:
        """How many variables there are now."""
        return len(self._names())

    def __repr__(self) -> str:
        return f"<Staging at {self._core.contact}>"

    def _names(self) -> list[str]:
        return [str(info["name"]) for info in self._core.variables()]

    def __bool__(self) -> bool:
        """True, whether there are variables or not."""
        return True

    def to_xarray(
        self,
        name: str,
        version: Versions,
        lower: Corner | None = None,
        upper: Corner | None = None,
        *,
        chunks: Chunks = None,
        dims: Sequence[Hashable] | None = None,
        timeout: float = 30.0,
    ) -> xarray.DataArray:
        """A variable as an xarray.DataArray that gets its values when they are asked for.

        What is cut out of it before that (``isel``, ``sel``, brackets) is all that is got: the
        smallest box around the indices. Its coordinates are the variable's indices, so that
        ``sel(d0=slice(-3, 5))`` cuts from -3 to 5, both included, as xarray does. Close the client
        when nothing more will be computed from it.

        Args:
            name: of the variable; waits until something was put to it.
            version: a version, which need not be there yet; "latest": the highest one that covers
                the box now; several, or "all" that are held now: along a first dimension "version".
            lower: the box's first indices; None: of all that was ever put to the variable.
            upper: one past its last ones; None: the same.
            chunks: as for xarray.DataArray.chunk: makes a Dask array, each chunk a get of its own,
                on Dask's threads. None: no Dask; values are kept once they were got.
            dims: names of the dimensions; None: d0, d1 and so on.
            timeout: seconds for each get, and for the variable to be there.

        Raises:
            Error: xarray is not installed, or for `chunks` Dask.
            InvalidArgument: not as many corners or names as the variable has dimensions.
            Timeout: nothing has been put to the variable; of "latest": no version covers the box.
            NotFound: of "all": no version is held.
        """
        try:
            from .xarray_view import open_array
        except ImportError as error:
            raise Error(f"to_xarray needs xarray ({error}): pip install xarray") from error
        return open_array(self, name, version, lower, upper, chunks, dims, timeout)

    def ls(self) -> list[Info]:
        """The variables: name, type, bounds, versions with objects and bytes, producers.

        Of all clients together since the servers have started, ``puts`` and ``gets`` have a count,
        the bytes, and the count by path: "message" for what went inside messages, else the first
        path of the plan by which it was copied.
        """
        return [dict(info) for info in self._core.variables()]

    def statistics(self) -> dict[str, Info]:
        """What this client has put and got so far, by variable.

        Returns:
            For each variable ``puts`` and ``gets``, as `ls` has them, with the ``seconds`` that the
            calls took: gets include the wait for data, puts that for memory. What failed is not
            counted.
        """
        return {name: dict(one) for name, one in self._core.statistics().items()}

    def servers(self) -> list[Info]:
        """The servers: number, contact; memory, memory_used, spilled in bytes; clients, names."""
        return [dict(info) for info in self._core.servers()]

    def discard(self, name: str, version: int) -> None:
        """Takes a version away. Who reads it at the moment reads on; who puts to it fails.

        Raises:
            NotFound: it is not there.
        """
        self._core.discard(name, whole_version(version))

    def delete(self, name: str) -> None:
        """Takes a variable away: all its versions, its definition, and who put to it and died.

        Afterwards it is as if nobody had ever put to it: the next put decides anew what it is, and
        versions that were discarded may be put again. Who reads a version at the moment reads on;
        who puts one fails. Delete variables whose names are used only once: what a server
        remembers of the others is bounded by its settings ``staging_variables`` and so on.

        Raises:
            NotFound: no server knows such a variable.
        """
        self._core.remove(name)

    def __exit__(self, kind: object = None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self._abandon()

    def _close_at_exit(self) -> None:
        self._abandon()

    def _abandon(self) -> None:
        """Closes without waiting for what was begun, or for other processes, which may not come."""
        self._comm = None
        if self._pid == os.getpid():
            self._workers.close(finish=False)
            self._disconnect()

    @property
    def closed(self) -> bool:
        """Whether the client was closed."""
        return self._core.closed

    def close(self) -> None:
        """Waits for the puts that were begun, says that nothing more will be put, and disconnects.

        All else that runs is ended: calls of other threads, gets that were begun, subscriptions.
        They raise `Closed`, as every later call does. At the end of a ``with`` statement that an
        exception leaves, and when the interpreter ends, that is true of puts, too: what was not
        whole was never put. A second call does nothing, nor does one in a process that was forked
        from the client's.

        With a communicator it waits until all its processes close; but not at the end of a
        ``with`` statement that an exception leaves. The others still do: start MPI programs with
        ``python -m mpi4py``, which ends all of them when one fails.
        """
        if self._pid != os.getpid():
            return
        try:
            self._workers.close(finish=True)
            comm, self._comm = self._comm, None
            if comm is not None:
                comm.barrier()
        finally:
            self._disconnect()

    def _disconnect(self) -> None:
        self._core.close()
        if self._own is not None:
            self._own.close()
