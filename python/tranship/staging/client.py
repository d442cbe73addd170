"""Clients of the staging service."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex

import numpy.typing as npt

from .. import _core
from .._core import Event
from ..arguments import (
    check_path,
    check_seconds,
    check_text,
    check_whole,
    element_type,
    guard_methods,
    shown,
)
from ..closing import Closing, close_at_exit, refuse_pickling
from ..engine import Engine
from ..errors import Error, InvalidArgument
from .arguments import (
    check_copy,
    check_element,
    check_flag,
    corner_of,
    in_calling_thread,
    put_array,
    variable_name,
    which_version,
    whole_version,
)
from .attributes import Attributes
from .communicator import Communicator, agree_on_failure, broadcast_contact, receive_contact
from .following import Gaps, VersionFollower
from .futures import WAITS, Awaitable, Workers
from .gets import ALONE_S
from .labelled_puts import LabelledPuts, ReadyPut
from .offers import Offers
from .puts import Puts
from .reader import GET_S, Corner, Info, Lower, Version
from .reductions import Reductions
from .step_list import ListedStep, listed_steps
from .step_writer import StepWriter
from .steps import QueueFull, Share, Start, StepFollower, Steps
from .subscription import Subscription
from .variable import Variable
from .waiting import QUIET_S, on_terminal, say_waiting

if TYPE_CHECKING:
    import xarray

    from .xarray_view import Chunks, Versions

__all__ = ["Staging"]

WORKERS = 4
"""Puts and gets of one client that run in the background."""
CLOSED = "this client of the staging service was closed", "open another one"
"""Message and hint of the error of jobs that never began."""


@guard_methods
class Staging(Reductions, Puts, Offers, Closing):
    """A client of the staging service, of one server or of several.

    Any thread may use it. Close it, or use it in a ``with`` statement, when nothing more will be
    put: clients that follow its variables then see that they have ended, and that the process has
    not died. Iterating over it gives the names of the variables.

    Args:
        contact: Contact file that the (first) server wrote, or its host:port.
        engine: Engine that copies; None: the client makes its own.
        name: Name of this client in lists and traces; None: host and process.
        timeout: Seconds to find the server, which may be about to start.
        comm: An mpi4py communicator, or an object with its Get_rank, Get_size, bcast, allgather and
            barrier; None: this process alone. All processes of a communicator open their clients
            together, and close them together: the first one finds the server, and measures the
            machine if that was not done before; the others receive the contact from it. If one
            fails, all raise. Their puts count as one program's: see `define`. They put the versions
            of a variable in rising order: who goes on to a higher one has had nothing in those that
            it passed by, and who closes without any put has had nothing at all.
        offers: Whether the client's own engine accepts connections, so that it may `offer` arrays;
            from other machines at the address of the setting ``listen``.
        **settings: Settings of the client's own engine, as of `tranship config`.

    Raises:
        NotFound: There is no such contact file after `timeout`.
        PeerLost: The server that wrote it has exited.
        Timeout: No process answers there.
        InvalidArgument: An argument has a wrong type.
        Error: The process that answers there is no staging server.
    """

    _exit_order = 2

    def __init__(
        self,
        contact: str | os.PathLike[str],
        *,
        engine: Engine | None = None,
        name: str | None = None,
        timeout: float = 10.0,
        comm: Communicator | None = None,
        offers: bool = False,
        **settings: Any,
    ) -> None:
        where = check_path("contact", contact)
        label = (
            f"{socket.gethostname()}:{os.getpid()}" if name is None else check_text("name", name)
        )
        seconds = check_seconds("timeout", timeout)
        if engine is not None and not isinstance(engine, Engine):
            raise InvalidArgument(
                f"engine={shown(engine)} is not an engine", "give an Engine, or leave it out"
            )
        if comm is not None and not hasattr(comm, "Get_rank"):
            raise InvalidArgument(
                f"comm={shown(comm)} is not a communicator",
                "give one of mpi4py's, such as MPI.COMM_WORLD",
            )
        self._pid = os.getpid()
        self._known: set[str] = set()
        self._comm = comm
        self._writers = 0 if comm is None else comm.Get_size()
        self._defined: set[str] = set()
        if comm is not None and comm.Get_rank() > 0:
            where = receive_contact(comm)
        failure: BaseException | None = None
        try:
            accepts = check_flag("offers", offers)
            self._open(where, engine, label, seconds, accepts, settings)
            self._labels = LabelledPuts(self._core)
            self._workers = Workers("tranship-staging", WORKERS, self._core, *CLOSED)
        except BaseException as raised:
            failure = raised
        broadcast_contact(comm, "" if failure else self._core.contact, failure)
        try:
            agree_on_failure(comm, failure)
        except BaseException:
            if failure is None:
                self._disconnect()
            raise
        if comm is not None:
            self._core.let_versions_rise()
        close_at_exit(self)

    def _open(
        self,
        contact: str,
        engine: Engine | None,
        label: str,
        timeout: float,
        accepts: bool,
        settings: dict[str, Any],
    ) -> None:
        self._own = Engine(contact=accepts or None, **settings) if engine is None else None
        used = engine if engine is not None else self._own
        assert used is not None
        self._engine_core = used._core
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
        writers: SupportsIndex | None = None,
    ) -> None:
        """Defines a variable; any client may do so, before or after the first put.

        With a known domain, a `get` without a box, and `versions()`, mean all of it: versions whose
        size varies have none. With a known
        number of writers, the variable does not end before all of them have put to it and closed;
        otherwise it has ended as soon as all that have put to it so far have closed. A definition
        before the first put lets the servers of a group share the boxes evenly; one after it limits
        the puts of those clients alone that have not put to the variable yet.

        Args:
            name: Variable name.
            dtype: Element type.
            lower: First indices of the domain.
            upper: One past the last indices. A later definition may enlarge the domain.
            writers: Number of clients that will put to it; 0: unknown. None: all of the
                communicator that the client was opened with, or 0 if there is none.

        Raises:
            InvalidArgument: Its type or number of dimensions is not that of what was put, or it
                does not fit what was defined before. A `put` outside the domain raises it, too.
        """
        kind = element_type("dtype", dtype)
        text = check_element(kind)
        count = self._writers if writers is None else writers
        if writers is None and self._comm is not None:
            self._defined.add(name)
        self._core.define(
            variable_name(name),
            text,
            kind.itemsize,
            corner_of("lower", lower),
            corner_of("upper", upper),
            check_whole("writers", count, least=0, bits=32),
        )

    def put(
        self,
        name: str,
        version: SupportsIndex,
        array: Any,
        lower: Lower | None = None,
        *,
        timeout: float = 30.0,
        after: Event | Iterable[Event] | None = None,
        checksum: bool = False,
    ) -> None:
        """Puts an array as a box of a variable at a version.

        The object becomes visible to all clients, whole, before the call returns; until then no
        client sees any of it. Of boxes of one version that overlap, the one that was put last is
        seen. Waits while the server's memory is full.

        Args:
            name: Variable name. The first put decides the element type and the dimensions.
            version: Any whole number; versions need not follow each other.
            array: NumPy array, or anything that `Engine.copy` takes, on the host or a GPU, with
                any strides, of up to 16 dimensions; a number, a text, or a list, as `numpy.asarray`
                makes an array of it. Elements have up to 1 MiB: structures are put whole. An array
                without elements says that this process has nothing there; it may lie outside of the
                domain. Of an xarray.DataArray also its coordinates are put, each as a variable of
                its own ("energy:x"), and the names of its dimensions and its attributes are kept:
                `to_xarray` gives them back. The first put decides the order of the dimensions.
            lower: First indices of the box; None: all 0. The box is as large as the array. Those of
                an xarray.DataArray also by name: ``{"x": 128}``.
            timeout: Seconds.
            after: Events of `Engine.copy` that write the array: it is read when they have ended,
                and the server finds room meanwhile. Work in the stream that a GPU's array
                names is waited for in any case.
            checksum: Whether the object gets a CRC-32C of its elements, which each `get` that
                takes the object whole compares with what it got. Costs half a copy or more in
                host memory and about one elsewhere, for the writer and for each such reader, and
                sends objects of up to 64 KiB the way of larger ones when they are read.

        Raises:
            InvalidArgument: The array does not fit the variable, or an argument has a wrong type.
            NotFound: The version was discarded, or is older than those that are kept.
            Timeout: The memory was full, or an event had not ended, for `timeout` seconds.
            PeerLost: A server has exited.
            Error: An event failed, and nothing was put; or a limit of the server was reached, and
                the message names the limit and its setting.
        """
        seconds = check_seconds("timeout", timeout)
        labelled = self._labels.ready(name, version, array, lower, seconds)
        if labelled is None:
            self._put(name, version, put_array(array), lower, after, checksum, seconds)
        else:
            self._put_in_step(0, labelled, whole_version(version), seconds, after, checksum)

    def put_async(
        self,
        name: str,
        version: SupportsIndex,
        array: Any,
        lower: Lower | None = None,
        *,
        timeout: float = 30.0,
        after: Event | Iterable[Event] | None = None,
        checksum: bool = False,
    ) -> Awaitable[None]:
        """Begins a `put` and returns a future at once; its ``result()`` waits, or raises as `put`.

        It is a `concurrent.futures.Future`, which coroutines may ``await``. To cancel it has an
        effect until it moves data.

        The array must stay as it is until then. Several puts may run at a time; they end in any
        order, also where they wait for memory that is full: a reader that has to discard one
        version before it takes the next needs room for all that are under way. close() waits for
        all of them. With `after`, room is found when the events have ended. Any number of puts and
        gets may wait: none of them keeps others from running. The labels of an xarray.DataArray
        are sent, and arrays of Dask are computed, within the call.

        Raises:
            InvalidArgument: `timeout` is no number, or the list is no array; or a DataArray does
                not fit the variable.
            Error: There is no thread for it; nothing was begun.
            Closed: This client was closed.
        """
        seconds = check_seconds("timeout", timeout)
        puts = self._labels.ready(name, version, array, lower, seconds)
        if puts is None:
            puts = [ReadyPut(name, put_array(array), lower)]
        return self._put_async_in_step(0, puts, version, seconds, after, checksum)

    def get_async(
        self,
        name: str,
        version: Version,
        lower: Corner | None = None,
        upper: Corner | None = None,
        out: Any = None,
        *,
        timeout: float | None = None,
        copy: bool | None = True,
    ) -> Awaitable[Any]:
        """Begins a `get` and returns a future at once; its ``result()`` returns or raises as `get`.

        It is a `concurrent.futures.Future`, which coroutines may ``await``. A get that waits for
        its data may be cancelled; `out` is not written then.

        close() does not wait for it: its ``result()`` raises `Closed` then.

        Raises:
            InvalidArgument: `timeout` is no number; or `copy` is no truth value, or does not fit
                `out`.
            Error: There is no thread for it; nothing was begun.
            Closed: This client was closed.
        """
        copies = check_copy(copy, out)
        seconds = GET_S if timeout is None else check_seconds("timeout", timeout)
        alone_from = time.monotonic() + ALONE_S
        target = None if out is None else in_calling_thread(out)

        def attempt(left: float, waits: bool) -> Any:
            got = self._get(name, version, lower, upper, target, left, waits, copies)
            if got is target and out is not None:
                return out
            if got is WAITS and timeout is None and time.monotonic() > alone_from:
                self._check_expected(variable_name(name))
            return got

        return self._workers.run(attempt, seconds, lasting=False).future

    def subscribe(
        self,
        name: str,
        callback: Callable[[int, Any], object],
        *,
        after: SupportsIndex | None = None,
        lower: Corner | None = None,
        upper: Corner | None = None,
        gaps: Gaps = "skip",
    ) -> Subscription:
        """Calls ``callback(version, array)`` for each version, in rising order.

        The calls come one after another, on a thread of the subscription's own; a slow callback
        delays the next call, and misses no version that is still held. Which versions come, and
        when, is as of `Variable.versions`.

        Args:
            name: Name of the variable, which need not exist yet.
            callback: Function of a version and a new array.
            after: Version above which to begin; None: the lowest that is held comes first.
            lower: First indices of the box; None for both corners: each version's own bounds, or
                the domain; None for one: that of all that was put when the first version came.
            upper: One past its last indices; None: the same.
            gaps: What happens to versions that will never be whole, as of `Variable.versions`; with
                "error" `Subscription.wait` raises.

        Raises:
            InvalidArgument: An argument has a wrong type.
        """
        variable_name(name)
        if not callable(callback):
            raise InvalidArgument(
                f"callback={shown(callback)} cannot be called",
                "give a function of a version and an array",
            )
        return Subscription(
            self, name, callback, VersionFollower(self, name, after, lower, upper, gaps)
        )

    def get(
        self,
        name: str,
        version: Version,
        lower: Corner | None = None,
        upper: Corner | None = None,
        out: Any = None,
        *,
        timeout: float | None = None,
        copy: bool | None = True,
    ) -> Any:
        """Gets a box of a variable, and waits until all of it is there.

        A wait of more than a second says on a terminal what for.

        Args:
            name: Variable name.
            version: A version, or "latest": the highest one that covers the box, or that is whole.
            lower: First indices of the box; None for both corners: the domain, or without one the
                version's own bounds, once it is whole: each process that puts to the variable has
                put to the version, or said that it has `nothing` there, and what was put covers the
                box around it. None for one corner: that of all that was ever put to the variable.
            upper: One past its last indices; None: the same.
            out: Target, on the host or a GPU, with any strides; None: a new array.
            timeout: Seconds; None: 30, but less than one for a variable that does not exist while
                no other client is connected that could put it.
            copy: Whether the elements are copied, as NumPy has it. False: the result is a read-only
                array of the server's own memory, which costs the same for any size; None: so where
                that can be, and else a copy. It can be where the whole box lies in one object that
                no later one hides, in host memory of a server on this machine. What lies on disk is
                brought back. As long as the array or a view of it lives, the memory is kept, after
                `close` and a `discard`, too, and counts as a get that goes on: the limits of the
                server are ``staging_leases`` arrays of one client, and ``staging_lease_s`` for each
                before this client gets anything new. A process that was forked cannot read it:
                the access ends it.

        Returns:
            `out`, or the new NumPy array; one without elements for a box without any.

        Raises:
            Timeout: A part was still missing; the message names it, and lists the variables if
                there is none of that name.
            NotFound: The version was discarded; or there is no such variable, and nobody to put it.
            Closed: All processes that put to the variable have ended, and the box is not complete.
            PeerLost: One of them has died, or a server has exited.
            InvalidArgument: `out` has another shape or element type; or the version is neither a
                whole number nor "latest"; or an argument has a wrong type; or ``copy=False``, and
                there can be no view.
        """
        copies = check_copy(copy, out)
        which_version(version)
        name = variable_name(name)
        left = self._await_variable(name, timeout)
        if not on_terminal():
            return self._get(name, version, lower, upper, out, left, copy=copies)
        end = time.monotonic() + left
        quiet_until = min(time.monotonic() + QUIET_S, end)
        while time.monotonic() < quiet_until:
            seen = self._core.notices()
            left = end - time.monotonic()
            got = self._get(name, version, lower, upper, out, left, False, copies)
            if got is not WAITS:
                return got
            self._core.wait_for_notice(seen, max(quiet_until - time.monotonic(), 0.0))
        left = max(end - time.monotonic(), 0.0)
        say_waiting(f'version {version} of "{name}"', left)
        return self._get(name, version, lower, upper, out, left, copy=copies)

    def step(
        self,
        number: SupportsIndex,
        *,
        writers: SupportsIndex | None = None,
        timeout: float = 30.0,
    ) -> StepWriter:
        """Returns a step to be written: ``with staging.step(3) as step:``.

        Readers see its variables and attributes all at once, when each of its writers has left its
        block. Where one leaves it by an exception, or dies in it, nothing of the step is kept, and
        the others get a `NotFound` that says so. Steps rise: a broken one may be written again
        while it is the highest.

        Args:
            number: A whole number, which is the version of the step's variables.
            writers: Number of clients that write the step; None: all of the communicator that the
                client was opened with, or 1 if there is none.
            timeout: Seconds for the servers' answers to the begin and the end of the step.

        Raises:
            InvalidArgument: An argument has a wrong type.
        """
        count = (self._writers or 1) if writers is None else writers
        return StepWriter(
            self,
            whole_version(number),
            check_whole("writers", count, least=1, bits=31),
            check_seconds("timeout", timeout),
        )

    def steps(
        self,
        start: Start = "first",
        *,
        every: SupportsIndex = 1,
        timeout: float = 3600.0,
        gaps: Gaps = "skip",
        group: str | None = None,
        share: Share = "demand",
    ) -> Steps:
        """Follows the steps: yields each one, in rising order, once it is whole.

        Loops of coroutines follow them, too: ``async for step in staging.steps()``. Broken steps
        are passed by. Ends when all processes that wrote steps have closed.

        Args:
            start: The first step: "first", the lowest that is kept; "latest", the highest that is
                whole now, or else the first to come; "next", the first that becomes whole after
                this call; or a number.
            every: 2 for every second whole step from the first on, and so on.
            timeout: Seconds to wait for each step.
            gaps: What happens with a broken step: "skip" warns with a `SkippedVersionWarning` that
                says why it is broken, "error" raises.
            group: Name of a group of readers that this client joins: each step goes to one of its
                members, and is freed when each group has released it. A step is released by its
                `release`, or when the loop asks for the next one. `close`, and the end of a
                ``with`` statement, leave the group; so do closing the client, and its death, and
                what it had not released goes to another member. For its first member, `start` is
                where the group begins. None: this client sees all steps, and holds none.
            share: How the members share steps: "demand", each gets the next one when it asks; or
                "round-robin", one after the other in the order in which they have joined.

        Raises:
            NotFound: With ``gaps="error"``: a step is broken.
            PeerLost: A process that wrote steps has died, and all whole ones have come; or the
                first server has exited.
            Timeout: No step came for `timeout` seconds.
            Closed: This client was closed.
            InvalidArgument: An argument has a wrong type; raised by the call itself.
        """
        seconds = check_seconds("timeout", timeout)
        follower = StepFollower(self, start, every, gaps, group, share)
        return Steps(self, follower, seconds)

    def define_steps(
        self,
        *,
        queue: SupportsIndex = 0,
        full: QueueFull = "block",
        readers: SupportsIndex = 0,
        keep_first: bool = False,
    ) -> None:
        """Says how long steps are kept; any client may, before or after the first step.

        A step is freed when each registered group of readers (`steps` with ``group=``) has released
        it. Without any it stays until it is discarded.

        Args:
            queue: Steps that are kept at a time, those that are being written included; 0: any
                number.
            full: What happens to a step that is begun when as many are kept: "block", its writers
                wait; "drop-oldest", the oldest whole step that no reader holds is freed;
                "drop-newest", it is dropped itself, what is put within it has no effect
                (`StepWriter.dropped`), and readers pass it by; "spill", it is written all the same,
                and servers that were started with ``--full spill`` move objects to disk.
            readers: Registered readers that the first step waits for.
            keep_first: Whether the first step is kept whatever else is, and not counted.

        Raises:
            InvalidArgument: An argument has a wrong value; or "spill", and the servers do not.
        """
        if full not in ("block", "drop-oldest", "drop-newest", "spill"):
            raise InvalidArgument(
                f"full={shown(full)} is no choice",
                'give "block", "drop-oldest", "drop-newest" or "spill"',
            )
        self._core.define_queue(
            check_whole("queue", queue, least=0, bits=31),
            full,
            check_whole("readers", readers, least=0, bits=31),
            check_flag("keep_first", keep_first),
        )

    def discard_step(self, number: SupportsIndex) -> None:
        """Discards a whole step: no reader finds it any more, and its variables' versions go.

        Gets that read them go on.

        Raises:
            NotFound: There is no such step, or it is not whole.
        """
        self._core.discard_step(whole_version(number), GET_S)

    def list_steps(self, *, timeout: float = GET_S) -> list[ListedStep]:
        """Returns the steps that the servers remember, in rising order: open, whole, broken ones.

        Waits for no step and holds none. Each takes a question to the first server, or two.

        Raises:
            Timeout: The servers have not answered all of it within `timeout` seconds.
        """
        return listed_steps(self._core, check_seconds("timeout", timeout))

    @property
    def attributes(self) -> Attributes:
        """The attributes of the run: ``staging.attributes["code"] = "LBM 3.1"``."""
        return Attributes(self._core)

    def __getitem__(self, name: str) -> Variable:
        """Returns a variable, to be indexed as a NumPy array: ``staging["energy"][3, 0:64, :]``.

        It need not exist yet.
        """
        if not isinstance(name, str):
            raise InvalidArgument(
                f"{shown(name)} is no name of a variable", 'index by name, as in staging["energy"]'
            )
        return Variable(self, name)

    def __iter__(self) -> Iterator[str]:
        """Iterates over the names of the variables that exist now."""
        return iter(self._names())

    def __contains__(self, name: object) -> bool:
        """Returns whether a variable of that name exists now."""
        return name in self._names()

    def __len__(self) -> int:
        """Returns the number of variables that exist now."""
        return len(self._names())

    def __repr__(self) -> str:
        return "<Staging closed>" if self.closed else f"<Staging at {self._core.contact}>"

    def __reduce__(self) -> NoReturn:
        refuse_pickling(self, "open a Staging in each process, with the same contact")

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
        timeout: float | None = None,
    ) -> xarray.DataArray:
        """Returns a variable as a lazy xarray.DataArray, which gets its values when they are used.

        Selections (``isel``, ``sel``, brackets) limit what is got to the smallest box around
        their indices. Close the client when nothing more will be computed from the array.

        What was put as an xarray.DataArray, or within a Dataset, has its names of dimensions, its
        coordinates and its attributes again. Coordinates are got at once: the call waits until the
        values are there, and ``sel`` selects by them. Of all other variables the coordinates are
        the variable's own indices, so that ``sel(d0=slice(-3, 5))`` selects from -3 to 5, both
        included, as xarray does. What a step says of its variables is known once it is whole.

        Args:
            name: Variable name; the call waits until the variable exists.
            version: A version, which need not exist yet; "latest": the highest one that covers
                the box now; several, or "all" that are held now: along a first dimension "version",
                with coordinates that differ between them.
            lower: First indices of the box; None: of all that was ever put to the variable.
            upper: One past its last indices; None: the same.
            chunks: Chunks as for xarray.DataArray.chunk: makes a Dask array, each chunk a get of
                its own, on Dask's threads. None: no Dask; values are kept once they were got.
            dims: Names of the dimensions, in place of those that the variable was put with and of
                its coordinates; None: these, or else d0, d1 and so on.
            timeout: Seconds for each get, and for the variable to exist; None: as `get`.

        Raises:
            Error: xarray is not installed, or for `chunks` Dask.
            InvalidArgument: Not as many corners or names as the variable has dimensions; or
                versions have other dimensions, or other labels along one.
            Timeout: Nothing has been put to the variable; for "latest": no version covers the box;
                a version with coordinates was not there in time.
            NotFound: For "all": no version is held. A version has only a part of a coordinate, or
                was discarded.
        """
        try:
            from .xarray_view import open_array
        except ImportError as error:
            raise Error(f"to_xarray needs xarray ({error})", "pip install xarray") from error
        return open_array(self, name, version, lower, upper, chunks, dims, timeout)

    def ls(self) -> list[Info]:
        """Returns the variables: name, type, bounds, versions with objects and bytes, producers.

        ``puts`` and ``gets`` have the count, the bytes, and the count by path, of all clients since
        the servers were started. The path is "message" for data sent inside messages, otherwise
        the first path of the plan that copied them.
        """
        return [dict(info) for info in self._core.variables()]

    def statistics(self) -> dict[str, Info]:
        """Returns what this client has put and got so far, by variable.

        Returns:
            For each variable ``puts`` and ``gets``, as in `ls`, with the ``seconds`` that the
            calls took: gets include the wait for data, puts that for memory, but for those in the
            background. Failed calls are not counted.
        """
        return {name: dict(one) for name, one in self._core.statistics().items()}

    def servers(self) -> list[Info]:
        """Returns the servers.

        Each has its number and contact, memory, memory_used and spilled in bytes, the number of
        clients, and their names.
        """
        return [dict(info) for info in self._core.servers()]

    def discard(self, name: str, version: SupportsIndex) -> None:
        """Discards a version, with its coordinates. Gets that read it go on; puts to it fail.

        Raises:
            NotFound: There is no such version.
        """
        self._core.discard(variable_name(name), whole_version(version))
        self._labels.discard_coordinates(name, whole_version(version))

    def delete(self, name: str) -> None:
        """Deletes a variable: its versions, its definition, and the record of producers that died;
        its attributes, and the variables of its coordinates.

        Afterwards the next put decides anew what the variable is, and
        versions that were discarded may be put again. Gets that read a version go on;
        puts to it fail. Delete variables whose names are used only once: what a server
        remembers of the others is bounded by its settings ``staging_variables`` and so on.

        Raises:
            NotFound: No server has such a variable.
        """
        coordinates = self._labels.forget(variable_name(name))
        self._core.remove(name)
        self._known.discard(name)
        self._labels.delete(coordinates)

    def __exit__(self, kind: object = None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self._abandon()

    def _close_at_exit(self) -> None:
        self._abandon()

    def _abandon(self) -> None:
        """Closes without waiting for puts that were begun, or for other processes."""
        self._comm = None
        if self._pid == os.getpid():
            self._workers.close(finish=False)
            self._disconnect()

    @property
    def forked(self) -> bool:
        """Whether this process is a fork of the one that opened the client, which cannot use it."""
        return self._pid != os.getpid()

    @property
    def closed(self) -> bool:
        """Whether the client is closed."""
        return self._core.closed

    def close(self) -> None:
        """Waits for puts that were begun, announces that no more will come, and disconnects.

        All other calls are ended: those of other threads, gets that were begun, subscriptions.
        They raise `Closed`, as every later call does. When an exception leaves a ``with``
        statement, and when the interpreter ends, puts are ended, too: an object that is not
        complete was never put. A second call does nothing, nor does one in a process that was
        forked from the client's.

        With a communicator the call waits until all processes close, except when an exception
        leaves a ``with`` statement. The others still wait then: start MPI programs with
        ``python -m mpi4py``, which ends all of them when one fails.
        """
        if self._pid != os.getpid():
            return
        try:
            self._workers.close(finish=True)
            comm, self._comm = self._comm, None
            if comm is not None:
                self._announce()
                comm.barrier()
        finally:
            self._disconnect()

    def _announce(self) -> None:
        """Counts this process among those that put to each variable of all processes."""
        defined, self._defined = self._defined, set()
        for name in defined:
            self._core.nothing(name, 1, 0)

    def _disconnect(self) -> None:
        try:
            self._core.close()
        finally:
            if self._own is not None:
                self._own.close()
