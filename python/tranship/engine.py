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
from ._core import Event, Pinned, Plan
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

    An engine owns worker threads, intermediate buffers and links to other processes. Any thread
    may use it. Close it, or use it in a ``with`` statement: nothing is left outstanding.

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
        names, else by position. Small copies in memory are done on return, and mostly those of at
        most 8 KiB to or from another machine, whose answer the call awaits for up to 2 ms; for many
        of them, `copy_all` does not wait for one before it starts the next.

        Args:
            source: a NumPy array or anything with the buffer protocol, the CUDA array interface or
                DLPack (CuPy, PyTorch, JAX: on the host or a GPU), an Instance, a File, an array
                of a peer. The copy starts after the stream that such an array names.
            target: the same; it must be writable and not overlap the source.
            region: ranges ``{"x": (lower, upper)}`` of the named dimensions, half-open, on both
                sides; dimensions not named are whole.
            priority: higher goes first on every channel; a transfer of lower priority pauses.
            after: what this copy starts after: an event of another copy, a stream object of a GPU
                library (what is in it at the call), or several of these.
            stream: a CUDA stream: its number (0 and 1: the legacy default stream, 2: that of the
                thread), or an object that holds it as ``cuda_stream`` (PyTorch) or ``ptr`` (CuPy).
                The copy starts after what is in the stream. A copy in one hop of a GPU runs in the
                stream itself, so that later work in it starts after the copy; after any other
                copy, wait for the event before you use the target.
            planner: "automatic", "full", "simple", "spsl" or "spdl" (Isometry, sections 4.2,
                4.4 and 6.3).
            buffer_bytes: most that this copy's buffers between hops may take; 0: no own limit.

        Returns:
            The event of the copy's end. Errors after the start are raised by its `wait`.

        Raises:
            InvalidArgument: shapes, fields or regions that do not match, or arrays that overlap.
            NoRoute: no chain of channels joins the two memories.
            Closed: the engine is closed.
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

        Where one GPU reaches all of them in one hop, they take one launch, however many they are,
        in any number of dimensions; else each is a copy, beside the others.

        Args:
            pairs: (source, target) as for `copy`. No two targets may overlap, and no target a
                source of another pair; that is not looked for.
            priority: as for `copy`.
            after: as for `copy`.
            stream: as for `copy`.

        Returns:
            The event of the end of all of them. Its plan is that of the largest where they are
            one launch, else that of the first.

        Raises:
            InvalidArgument: something else than pairs, or a pair that `copy` would refuse. None is
                begun then, or those that were are cancelled and have ended.
            NoRoute: no chain of channels joins two memories.
            Closed: the engine is closed.
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

        A page is an index of the first dimension, such as a block of a KV cache. Pages that are
        contiguous, in memories that one GPU reaches (another process's GPU included), take one
        launch, however many they are. Otherwise each run of neighbouring pages is a copy.

        Args:
            source: as for `copy`.
            target: as for `copy`; all dimensions but the first are as the source's. It may be the
                same array as the source.
            source_pages: integers, as many as `target_pages`.
            target_pages: integers, no two equal; none of them is read if both are one array.
            priority: as for `copy`.
            after: as for `copy`.
            stream: as for `copy`.

        Returns:
            The event of the end of all of them. Its plan is that of the first.

        Raises:
            InvalidArgument: lists of different lengths, an index outside its array (negative ones
                do not count from the end), a page that would be written twice, or read and
                written; arrays that do not match.
            NoRoute: no chain of channels joins the two memories.
            Closed: the engine is closed.
        """
        pages = indices("source_pages", source_pages), indices("target_pages", target_pages)
        try:
            return self._core.copy_pages(source, target, *pages, priority, after, stream)
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
        """The plan that `copy` would run; ``print(plan.explain())`` says why.

        Nothing is copied. Its time includes what goes first on the channels at that priority now.
        """
        try:
            return self._core.plan(source, target, region, priority, planner, buffer_bytes)
        except TypeError:
            check_options(priority, planner, buffer_bytes)
            raise

    def pin(self, array: npt.NDArray[Any]) -> Pinned:
        """Pins the memory of an array where it lies, so that GPUs reach it at the link's speed.

        It takes time, some pages at once: worth it for what is copied again and again. Memory that
        is made for copies is better asked of `empty`.

            with engine.pin(array):
                engine.copy(array, device).wait()

        Args:
            array: a NumPy array. Whole pages are pinned, all that its elements reach over.

        Returns:
            What keeps it pinned, and the array alive, until its `release` or the end of ``with``;
            wait for copies before.

        Raises:
            InvalidArgument: an array that lies elsewhere, or of which a part is pinned already.
            Error: there is no GPU, or the system pins no more memory (``ulimit -l``).
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
        """A new array. It lives as long as you refer to it, whatever becomes of the engine.

        Args:
            shape: indices of each dimension.
            dtype: type of an element; a structured one has fields.
            memory: "host": a NumPy array of zeros that other processes of this machine can map, so
                that copies between it and another process need no second copy on the way.
                "pinned": a NumPy array that GPUs reach directly, at the full speed of the bus.
                "device0", "device1", ...: a `DeviceArray` in the memory of that GPU. The last two
                hold whatever lay there.

        Raises:
            InvalidArgument: a negative extent, objects, or no such memory.
            Error: there is no GPU, or too little memory.
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

        The array stays alive until `withdraw` or `close`. Nothing tells its owner when it is
        written; agree on that with the other side (a counter in an exported array does).

        Raises:
            InvalidArgument: the name is taken, or the array is itself another process's.
        """
        described = array if is_buffer(array) else to_core(array, False)
        _core.export_array(self._core, check_text("name", name), described)

    def withdraw(self, name: str) -> None:
        """Ends an export; when it returns nobody touches the array any more.

        Raises:
            NotFound: nothing is exported by that name.
            Timeout: a peer's copy takes longer than the setting ``peer_timeout_ms``; keep the
                memory until it is over. The name is free, and nothing new begins.
        """
        _core.withdraw(self._core, check_text("name", name))

    def connect(self, contact: str | os.PathLike[str], *, timeout: float = 10.0) -> Peer:
        """Connects to another engine by its contact file or host:port.

        Raises:
            NotFound: there is no such contact file.
            PeerLost: the process that wrote it is gone, or nothing listens there.
            Timeout: what listens there does not answer as Tranship does.
        """
        where, limit = check_path("contact", contact), check_seconds("timeout", timeout)
        return Peer(self._core, _core.connect(self._core, where, limit), limit)

    def topology(self) -> str:
        """The memories of this machine, the channels between them, and its GPUs, as text."""
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
        """Shows what the ``with`` statement's body does in the trace, if there is one."""
        check_text("name", name)
        check_whole("nbytes", nbytes, least=0)
        begin_ns = time.monotonic_ns()
        try:
            yield
        finally:
            self._core.add_span(name, begin_ns, nbytes)

    def close(self) -> None:
        """Ends everything outstanding with `Closed`, within a bounded time. May be repeated.

        Copies that are under way are cancelled, and have ended when it returns; calls of other
        threads, and all later ones, raise `Closed`.

        Raises:
            Error: the trace could not be written; the engine is closed all the same.
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
        """The array that the peer exports by this name.

        Raises:
            NotFound: it exports none by that name; the text lists those that it does.
            PeerLost: it died.
            Closed: this connection, or the engine, was closed.
        """
        self._check()
        check_text("name", name)
        found = _core.lookup(self._core, self._peer, name, self._timeout)
        return RemoteArray(found, name, self._core)

    def names(self) -> list[str]:
        """Names of the arrays that the peer exports now."""
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
        """Ends the connection. May be repeated."""
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
    """Whether the core can look at it without help."""
    return isinstance(array, _core.Array) or type(array) is np.ndarray


def read_profile(profile: str | os.PathLike[str]) -> str:
    """Returns JSON as it is; else the content of a file, or of a profile of the package."""
    text = check_path("profile", profile)
    return _core.check_profile(text) if text.lstrip().startswith("{") else profiles.load(text)


def indices(name: str, pages: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Returns a list of integers as the core takes it."""
    array = np.asarray(pages)
    if array.ndim != 1 or (array.size > 0 and array.dtype.kind not in "iu"):
        raise InvalidArgument(
            f"{name} is {array.dtype} of shape {array.shape}, not a list of integers",
            f"give indices of the first dimension, as in {name}=[0, 3]",
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
    """A plan as a dictionary, with the keys of ``tranship plan --json``."""
    content: dict[str, Any] = json.loads(plan.to_json())
    return content
