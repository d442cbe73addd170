"""The engine: one call copies between any two memories."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NoReturn, SupportsIndex, Unpack, overload

import numpy as np
import numpy.typing as npt

from . import _core, profiles
from ._core import Event, Pinned, Plan, PreparedCopy
from .arguments import check_path, check_seconds, check_text, check_whole, element_type, shape_of
from .arrays import DeviceArray, RemoteArray, to_core
from .arrays.device import device_number, empty_device
from .arrays.dtypes import dtype_fields
from .closing import Closing, close_at_exit, refuse_pickling
from .errors import Closed, Error, InvalidArgument
from .settings import PlannerName, Settings, setting_overrides
from .topology import describe as describe_topology
from .topology import hardware_lines

__all__ = ["Engine", "Peer"]

Region = Mapping[str, tuple[SupportsIndex, SupportsIndex]]
Shape = SupportsIndex | Sequence[SupportsIndex]
PRIORITY_BITS = 32


class Engine(Closing):
    """Copies arrays between the memories of this process, files and other processes.

    An engine owns worker threads, intermediate buffers and connections to other processes. Any
    thread may use it. Close it, or use it in a ``with`` statement: no copy is outstanding then.

    Args:
        contact: File to write, through which other processes find this engine; or True to accept
            others by `Engine.contact` alone. None: no process connects to this engine, and it may
            connect to others.
        profile: The machine's profile as JSON, a path, or the name of a profile that comes with
            the package. None: this machine's, which is measured once (some four seconds) and kept.
        trace: File to which the moved bytes and their times are written as Chrome trace JSON when
            the engine closes. The setting `trace_folder` does so for every engine of every process.
        **settings: Any setting of `tranship config`, such as ``threads=4``.

    Raises:
        InvalidArgument: A setting that does not exist or cannot be read.
        Error: The operating system refused threads, sockets or the contact file.
    """

    def __init__(
        self,
        contact: str | os.PathLike[str] | bool | None = None,
        *,
        profile: str | os.PathLike[str] | None = None,
        trace: str | os.PathLike[str] | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        overrides = setting_overrides(settings)
        file = ""
        if contact is not None and not isinstance(contact, bool):
            file = check_path("contact", contact)
        trace_file = check_path("trace", trace) if trace is not None else ""
        if profile is None:
            text = profiles.of_this_machine(overrides=overrides)
        else:
            text = read_profile(profile)
        program = os.path.basename(sys.argv[0]) or "python"
        accept = contact is True or file != ""
        self._core = _core.EngineCore.open(text, overrides, trace_file, program, accept, file)
        self._accepts = accept
        close_at_exit(self)

    def copy(
        self,
        source: Any,
        target: Any,
        *,
        region: Region | None = None,
        priority: int = 0,
        after: Any = None,
        stream: Any = None,
        planner: PlannerName = "automatic",
        buffer_bytes: int = 0,
    ) -> Event:
        """Copies `source` to `target`, converting the layout on the way.

        Both have the same extents and fields; dimensions match by name where both sides have
        names, else by position. A small copy in memory has ended on return, and so has, mostly,
        one of at most 8 KiB to or from another machine: the call waits up to 2 ms for its reply.
        For many of those use `copy_all`, which starts all before it waits for any.

        Args:
            source: NumPy array, xarray.DataArray, anything with the buffer protocol, the CUDA array
                interface or DLPack (CuPy, PyTorch, JAX: on the host or a GPU), Instance, File, or
                array of a peer. The copy starts after the stream that such an array names.
            target: The same; it must be writable and must not overlap the source.
            region: Ranges ``{"x": (lower, upper)}`` of named dimensions, half-open, on both sides.
                Dimensions that are not named are whole.
            priority: Copies of higher priority go first on every channel; others pause.
            after: What this copy starts after: the event of another copy, a stream object of a GPU
                library (the work in it at the call), or several of these.
            stream: CUDA stream: its number (0 and 1: the legacy default stream, 2: that of the
                thread), or an object that holds it as ``cuda_stream`` (PyTorch) or ``ptr`` (CuPy).
                The copy starts after the work in the stream. A copy of one hop on a GPU runs in the
                stream itself, so that later work in it starts after the copy; after any other
                copy, wait for the event before you use the target.
            planner: How the path is chosen (Isometry, sections 4.2, 4.4 and 6.3).
            buffer_bytes: Most bytes that this copy's buffers between hops may take; 0: no limit of
                its own.

        Returns:
            The event of the copy's end: `wait` for it, or ``await`` it. It raises errors that
            occur after the start.

        Raises:
            InvalidArgument: Shapes, fields or regions that do not match, arrays that overlap, or a
                target that is read-only.
            NoRoute: No chain of channels joins the two memories.
            Closed: The engine is closed.
        """
        try:
            return self._core.copy(
                source, target, region, priority, after, planner, buffer_bytes, stream
            )
        except TypeError:
            check_options(priority, planner, buffer_bytes)
            raise

    def copy_all(
        self,
        pairs: Iterable[tuple[Any, Any]],
        *,
        priority: int = 0,
        after: Any = None,
        stream: Any = None,
    ) -> Event:
        """Copies several arrays, each to its own target, such as the parts of one array.

        Arrays that one GPU reaches in one hop take one launch, however many they are, in any
        number of dimensions. Otherwise each pair is a copy, and all run at the same time.

        Args:
            pairs: (source, target) as for `copy`. Targets must not overlap each other, nor the
                source of another pair; this is not checked.
            priority: As for `copy`.
            after: As for `copy`.
            stream: As for `copy`.

        Returns:
            The event of the end of all copies. Its plan is that of the largest copy if they take
            one launch, else that of the first.

        Raises:
            InvalidArgument: Something else than pairs, or a pair that `copy` would refuse. No copy
                is running then: those that had started were cancelled and have ended.
            NoRoute: No chain of channels joins two memories.
            Closed: The engine is closed.
        """
        try:
            return self._core.copy_all(pairs, priority, after, stream)
        except TypeError:
            check_options(priority)
            check_pairs(pairs)
            raise

    def copy_pages(
        self,
        source: Any,
        target: Any,
        source_pages: npt.ArrayLike,
        target_pages: npt.ArrayLike,
        *,
        priority: int = 0,
        after: Any = None,
        stream: Any = None,
    ) -> Event:
        """Copies pages: ``target[target_pages[k]] = source[source_pages[k]]`` for every k.

        A page is an index of the first dimension, such as a block of a KV cache. All pages are one
        copy, whatever their number and the memories: in one launch where one GPU reaches both
        (another process's GPU included), else in tiles, each packed once. Pages of 8 MiB and more,
        and pages that no tile holds, are copies of their own.

        Args:
            source: As for `copy`.
            target: As for `copy`; all dimensions but the first are those of the source. It may be
                the same array as the source.
            source_pages: Integers, as many as `target_pages`.
            target_pages: Integers, no two equal. If source and target are one array, no page is
                both read and written.
            priority: As for `copy`.
            after: As for `copy`.
            stream: As for `copy`.

        Returns:
            The event of the end of all copies. Its plan is that of the first.

        Raises:
            InvalidArgument: Lists of different lengths, an index outside its array (negative ones
                do not count from the end), a page that would be written twice, or read and
                written; arrays that do not match.
            NoRoute: No chain of channels joins the two memories.
            Closed: The engine is closed.
        """
        pages = page_lists(source_pages, target_pages)
        try:
            return self._core.copy_pages(source, target, *pages, priority, after, stream)
        except TypeError:
            check_options(priority)
            raise

    def copy_pieces(
        self,
        source: Any,
        target: Any,
        source_offsets: npt.ArrayLike,
        target_offsets: npt.ArrayLike,
        lengths: npt.ArrayLike,
        *,
        priority: int = 0,
        after: Any = None,
        stream: Any = None,
    ) -> Event:
        """Copies pieces: ranges of bytes, of any lengths, between two blocks of memory.

        Piece k is ``lengths[k]`` bytes at ``source_offsets[k]`` of the source, and goes to
        ``target_offsets[k]`` of the target. All pieces are one copy, as those of `copy_pages` are;
        pieces that follow each other on both sides are moved as one.

        Args:
            source: As for `copy`; it fills one block of memory without gaps. Its type does not
                matter.
            target: As the source. It may be the same array.
            source_offsets: Bytes from the source's first byte.
            target_offsets: Bytes from the target's first byte, as many as `source_offsets`.
            lengths: Bytes of each piece, as many as `source_offsets`; or one number for all.
            priority: As for `copy`.
            after: As for `copy`.
            stream: As for `copy`.

        Returns:
            The event of the end of all pieces.

        Raises:
            InvalidArgument: Lists of different lengths, a piece outside its array or of a negative
                length, pieces that overlap in the target, or of which one reads what another
                writes (both are named by their numbers), an array with gaps. Nothing has moved.
            NoRoute: No chain of channels joins the two memories.
            Closed: The engine is closed.
        """
        pieces = piece_lists(source_offsets, target_offsets, lengths)
        try:
            return self._core.copy_pieces(source, target, *pieces, priority, after, stream)
        except TypeError:
            check_options(priority)
            raise

    def prepare(
        self,
        source: Any,
        target: Any,
        *,
        region: Region | None = None,
        priority: int = 0,
        planner: PlannerName = "automatic",
        buffer_bytes: int = 0,
    ) -> PreparedCopy:
        """Prepares a copy that is started again and again, as in every step of a loop.

        Checks, plan, kernels and their tables on the GPU are made once; `PreparedCopy.start` does
        what remains. It keeps both arrays alive.

            copy = engine.prepare(source, target)
            for _ in range(steps):
                copy.start(stream=stream)

        Prepare before you capture a CUDA graph: the call may allocate memory and wait for the GPU.
        A graph that has captured starts does not keep the arrays alive.

        Args:
            source: As for `copy`.
            target: As for `copy`.
            region: As for `copy`.
            priority: As for `copy`, of every start.
            planner: As for `copy`.
            buffer_bytes: As for `copy`, of every start.

        Raises:
            InvalidArgument: As for `copy`.
            NoRoute: No chain of channels joins the two memories.
            Closed: The engine is closed.
        """
        try:
            return _core.prepare(
                self._core, source, target, region, priority, planner, buffer_bytes
            )
        except TypeError:
            check_options(priority, planner, buffer_bytes)
            raise

    def prepare_all(self, pairs: Iterable[tuple[Any, Any]], *, priority: int = 0) -> PreparedCopy:
        """Prepares several copies, each to its own target, that `copy_all` would start.

        Each start moves all of them, in one launch where one GPU reaches all arrays in one hop.

        Args:
            pairs: As for `copy_all`.
            priority: As for `copy`, of every start.

        Raises:
            InvalidArgument: Something else than pairs, or a pair that `copy` would refuse.
            NoRoute: No chain of channels joins two memories.
            Closed: The engine is closed.
        """
        try:
            return _core.prepare_all(self._core, pairs, priority)
        except TypeError:
            check_options(priority)
            check_pairs(pairs)
            raise

    def prepare_pages(
        self,
        source: Any,
        target: Any,
        source_pages: npt.ArrayLike,
        target_pages: npt.ArrayLike,
        *,
        priority: int = 0,
    ) -> PreparedCopy:
        """Prepares a copy of pages that `copy_pages` would start; the lists are copied.

        Args:
            source: As for `copy_pages`.
            target: As for `copy_pages`.
            source_pages: As for `copy_pages`.
            target_pages: As for `copy_pages`.
            priority: As for `copy`, of every start.

        Raises:
            InvalidArgument: As for `copy_pages`.
            NoRoute: No chain of channels joins the two memories.
            Closed: The engine is closed.
        """
        pages = page_lists(source_pages, target_pages)
        try:
            return _core.prepare_pages(self._core, source, target, *pages, priority)
        except TypeError:
            check_options(priority)
            raise

    def prepare_pieces(
        self,
        source: Any,
        target: Any,
        source_offsets: npt.ArrayLike,
        target_offsets: npt.ArrayLike,
        lengths: npt.ArrayLike,
        *,
        priority: int = 0,
    ) -> PreparedCopy:
        """Prepares a copy of pieces that `copy_pieces` would start; the lists are copied.

        Args:
            source: As for `copy_pieces`.
            target: As for `copy_pieces`.
            source_offsets: As for `copy_pieces`.
            target_offsets: As for `copy_pieces`.
            lengths: As for `copy_pieces`.
            priority: As for `copy`, of every start.

        Raises:
            InvalidArgument: As for `copy_pieces`.
            NoRoute: No chain of channels joins the two memories.
            Closed: The engine is closed.
        """
        pieces = piece_lists(source_offsets, target_offsets, lengths)
        try:
            return _core.prepare_pieces(self._core, source, target, *pieces, priority)
        except TypeError:
            check_options(priority)
            raise

    def plan(
        self,
        source: Any,
        target: Any,
        *,
        region: Region | None = None,
        priority: int = 0,
        planner: PlannerName = "automatic",
        buffer_bytes: int = 0,
    ) -> Plan:
        """Returns the plan that `copy` would run; ``print(plan.explain())`` says why.

        Nothing is copied. The predicted time includes work that goes first on the channels now.

        Args:
            source: As for `copy`.
            target: As for `copy`.
            region: As for `copy`.
            priority: As for `copy`.
            planner: As for `copy`.
            buffer_bytes: As for `copy`.

        Raises:
            InvalidArgument: As for `copy`.
            NoRoute: No chain of channels joins the two memories.
            Closed: The engine is closed.
        """
        try:
            return self._core.plan(source, target, region, priority, planner, buffer_bytes)
        except TypeError:
            check_options(priority, planner, buffer_bytes)
            raise

    def pin(self, array: npt.NDArray[Any]) -> Pinned:
        """Pins the memory of an array in place, so that GPUs reach it at the link's speed.

        Pinning takes time: it pays for arrays that are copied again and again. For a new array use
        ``empty(..., memory="pinned")``.

            with engine.pin(array):
                engine.copy(array, device).wait()

        Args:
            array: NumPy array. All memory pages that its elements touch are pinned.

        Returns:
            An object that keeps the array pinned and alive until its `release`, or the end of the
            ``with`` statement; wait for copies before.

        Raises:
            InvalidArgument: The array is not in host memory, or a part of it is pinned already.
            Error: There is no GPU, or the system pins no more memory (``ulimit -l``).
        """
        return _core.pin(self._core, to_core(array, False))

    @overload
    def empty(self, shape: Shape, dtype: npt.DTypeLike = "f8") -> npt.NDArray[Any]: ...

    @overload
    def empty(
        self,
        shape: Shape,
        dtype: npt.DTypeLike = "f8",
        *,
        memory: Literal["host", "pinned"],
    ) -> npt.NDArray[Any]: ...

    @overload
    def empty(
        self, shape: Shape, dtype: npt.DTypeLike = "f8", *, memory: str
    ) -> npt.NDArray[Any] | DeviceArray: ...

    def empty(
        self,
        shape: Shape,
        dtype: npt.DTypeLike = "f8",
        *,
        memory: str = "host",
    ) -> npt.NDArray[Any] | DeviceArray:
        """Returns a new array. It may outlive the engine.

        Args:
            shape: Number of indices of each dimension.
            dtype: Type of an element; a structured type has fields.
            memory: "host": a NumPy array of zeros that other processes of this machine can map, so
                that a copy between it and another process needs no bounce buffer.
                "pinned": a NumPy array that GPUs reach directly, at the full speed of the bus.
                "device0", "device1", ...: a `DeviceArray` in the memory of that GPU. The contents
                of pinned and GPU memory are undefined.

        Raises:
            InvalidArgument: A shape or type that no array can have, or no such memory.
            Error: There is no GPU, or too little memory.
        """
        kind = element_type("dtype", dtype)
        extents = shape_of(shape, kind)
        dtype_fields(kind)  # refuses objects
        if memory not in ("host", "pinned"):
            check_text("memory", memory)
            return empty_device(self._core, extents, kind, device_number(memory))
        count = int(np.prod(extents, dtype=np.int64)) * kind.itemsize
        held: _core.DeviceMemory | _core.SharedMemory
        if memory == "pinned":
            held = _core.allocate(self._core, "pinned", -1, max(count, 1))
        else:
            held = _core.allocate_shared(self._core, max(count, 1))
        buffer = MemoryBuffer(held, max(count, 1))
        return np.asarray(buffer)[:count].view(kind).reshape(extents)

    @property
    def contact(self) -> str:
        """host:port under which other processes reach this engine."""
        return _core.contact(self._core)

    def export(self, name: str, array: Any) -> None:
        """Lets processes that connect read `array` by name, and write it if it is writable.

        The array stays alive until `withdraw` or `close`. The exporter is not notified when peers
        write to the array; use a counter in another exported array for that.

        Args:
            name: Name by which peers find the array.
            array: As for `copy`.

        Raises:
            InvalidArgument: The name is taken, or the array belongs to another process.
        """
        described = array if is_buffer(array) else to_core(array, False)
        _core.export_array(self._core, check_text("name", name), described)

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
            Timeout: The listener does not answer as an engine does.
        """
        where, limit = check_path("contact", contact), check_seconds("timeout", timeout)
        return Peer(self._core, _core.connect(self._core, where, limit), limit)

    def topology(self) -> str:
        """Returns this machine's memories, the channels between them, and its GPUs, as text."""
        gpus, reason = _core.list_gpus(self._core)
        emulated = any(gpu["emulated"] for gpu in gpus)
        return "\n".join(
            [describe_topology(self.profile, emulated=emulated), *hardware_lines(gpus, reason)]
        )

    @property
    def profile(self) -> str:
        """The machine's profile, as JSON."""
        return self._core.profile

    @property
    def threads(self) -> int:
        """Threads that copy in host memory."""
        return self._core.threads

    @property
    def closed(self) -> bool:
        """Whether the engine was closed."""
        return self._core.closed

    @contextmanager
    def span(self, name: str, nbytes: int = 0) -> Iterator[None]:
        """Adds a span for the body of the ``with`` statement to the trace, if there is one.

        Args:
            name: Name of the span.
            nbytes: Bytes that the span shows.
        """
        check_text("name", name)
        check_whole("nbytes", nbytes, least=0)
        begin_ns = time.monotonic_ns()
        try:
            yield
        finally:
            self._core.add_span(name, begin_ns, nbytes)

    def close(self) -> None:
        """Closes the engine within a bounded time; further calls do nothing.

        Copies under way are cancelled, and have ended on return. Waiting calls of other threads,
        and all later calls, raise `Closed`.

        Raises:
            Error: The trace could not be written; the engine is closed all the same.
        """
        self._core.close()

    def __repr__(self) -> str:
        if self.closed:
            return "<Engine closed>"
        where = _core.contact(self._core) if self._accepts else ""
        contact = f", contact {where}" if where else ""
        memories = len(json.loads(self.profile)["memories"])
        return f"<Engine on {memories} memories: {self.threads} threads{contact}>"

    def __reduce__(self) -> NoReturn:
        refuse_pickling(self, "make an engine in each process, and join them by Engine.connect()")


class Peer:
    """Another process, and the arrays that it exports: ``peer["density"]``.

    Iterating over a peer gives the names of its arrays. A ``with`` statement closes the connection.
    """

    def __init__(self, core: _core.EngineCore, peer: _core.PeerId, timeout: float) -> None:
        self._core = core
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


class MemoryBuffer:
    """Keeps shared or pinned memory alive for the NumPy array over it."""

    def __init__(self, memory: _core.SharedMemory | _core.DeviceMemory, count: int) -> None:
        self.memory = memory
        self.__array_interface__ = {
            "version": 3,
            "shape": (count,),
            "typestr": "|u1",
            "data": (memory.address, False),
        }


def is_buffer(array: Any) -> bool:
    """Whether the core reads the array's description by itself."""
    return isinstance(array, _core.Array) or type(array) is np.ndarray


def read_profile(profile: str | os.PathLike[str]) -> str:
    """Returns JSON as it is; else the content of a file, or of a profile of the package."""
    text = check_path("profile", profile)
    return _core.check_profile(text) if text.lstrip().startswith("{") else profiles.load(text)


Integers = npt.NDArray[np.int64]


def page_lists(source: npt.ArrayLike, target: npt.ArrayLike) -> tuple[Integers, Integers]:
    """Returns the lists of a copy of pages as the core takes them."""
    what = "indices of the first dimension"
    return integers("source_pages", source, what), integers("target_pages", target, what)


def piece_lists(
    source: npt.ArrayLike, target: npt.ArrayLike, lengths: npt.ArrayLike
) -> tuple[Integers, Integers, Integers]:
    """Returns the lists of a copy of pieces as the core takes them."""
    what = "numbers of bytes"
    read = integers("source_offsets", source, what)
    if np.ndim(lengths) == 0:
        lengths = np.full(read.shape, lengths)
    return read, integers("target_offsets", target, what), integers("lengths", lengths, what)


def integers(name: str, given: npt.ArrayLike, what: str) -> Integers:
    """Returns a list of integers as the core takes it.

    Raises:
        InvalidArgument: It is no such list; the hint says `what` it holds.
    """
    array = np.asarray(given)
    if array.ndim != 1 or (array.size > 0 and array.dtype.kind not in "iu"):
        raise InvalidArgument(
            f"{name} is {array.dtype} of shape {array.shape}, not a list of integers",
            f"give {what}, as in {name}=[0, 3]",
        )
    return np.ascontiguousarray(array, dtype=np.int64)


def check_options(priority: Any, planner: Any = "automatic", buffer_bytes: Any = 0) -> None:
    """Names the option that the core cannot read.

    Raises:
        InvalidArgument: One of them has the wrong type, or does not fit its integer.
    """
    check_whole("priority", priority, bits=PRIORITY_BITS)
    check_text("planner", planner)
    check_whole("buffer_bytes", buffer_bytes)


def check_pairs(pairs: Any) -> None:
    """Refuses what cannot be iterated over.

    Raises:
        InvalidArgument: It is not iterable.
    """
    if not np.iterable(pairs):
        raise InvalidArgument(
            f"pairs={pairs!r} is not a list of copies", "give (source, target), (source, target), …"
        )


def plan_json(plan: Plan) -> dict[str, Any]:
    """Returns a plan as a dictionary, with the keys of ``tranship plan --json``."""
    content: dict[str, Any] = json.loads(plan.to_json())
    return content
