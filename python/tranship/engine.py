"""The engine: one call copies between any two memories."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Literal, NoReturn, SupportsIndex, Unpack, overload

import numpy as np
import numpy.typing as npt

from . import _core, profiles
from ._core import Event, Pinned, Plan, PreparedCopy
from .arguments import (
    check_path,
    check_text,
    check_untyped,
    check_whole,
    element_type,
    guard_methods,
    guards_itself,
    refuse_call,
    shape_of,
)
from .arrays import DeviceArray
from .arrays.allocation import new_array
from .arrays.dtypes import dtype_fields
from .arrays.fitting import (
    Asked,
    copy_fitted,
    fitted_pairs,
    plan_fitted,
    prepare_fitted,
    selected_pairs,
)
from .closing import close_at_exit, refuse_pickling
from .connecting import Connecting
from .errors import Timeout
from .halo import Halo, Neighbours, plan_halo
from .settings import CastName, PlannerName, Region, Settings, Shape, setting_overrides
from .topology import describe_here
from .type_constructors import Base, TypePair
from .typed_ends import (
    is_one_item,
    listed,
    packed_places,
    refuse_pairs,
    typed_arrays,
    typed_pairs,
)

__all__ = ["Engine"]


@guard_methods
class Engine(Connecting):
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
            text = profiles.read_profile(profile)
        self._accepts = contact is True or file != ""
        options = trace_file, os.path.basename(sys.argv[0]) or "python", self._accepts, file
        self._core = _core.EngineCore.open(text, overrides, *options)
        close_at_exit(self)

    @guards_itself
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
        types: TypePair | None = None,
        cast: CastName | None = None,
        notify: str | None = None,
    ) -> Event:
        """Copies `source` to `target`, converting the layout on the way.

        Both have the same fields; dimensions match by name where both sides have names, else by
        position. A source of another shape broadcasts as NumPy's do; a scalar fills the target. A
        small copy in memory has ended on return, and so has, mostly, one of at most 8 KiB to or
        from another machine: the call waits up to 2 ms. For many of those use `copy_all`.

        Args:
            source: NumPy array, xarray.DataArray, anything with the buffer protocol, the CUDA array
                interface or DLPack (CuPy, PyTorch, JAX: on the host or a GPU), Instance, File,
                array of a peer, a `Selection` of one of ours, or a scalar.
            target: The same; it must be writable. It shares no byte with the source, through
                whatever connection, map or file, and no two of its elements share one.
            region: Ranges ``{"x": (lower, upper)}`` of named dimensions, half-open, on both sides.
                Dimensions that are not named are whole.
            priority: Copies of higher priority go first on every channel; others pause.
            after: What this copy starts after: the event of another copy, a stream object of a GPU
                library (the work in it at the call), or several of these.
            stream: None: the copy is ordered as ``target.copy_(source)`` of the library that made
                the arrays. It starts after the work in the current streams of the libraries of both
                arrays, and their later work after it; a copy between pageable memory and a GPU has
                ended on return for that. A CUDA stream, by its number (0 and 1: the legacy default
                stream, 2: that of the thread) or as an object that holds it as ``cuda_stream``
                (PyTorch) or ``ptr`` (CuPy): the copy starts after the work in it. To or from the
                memory of a GPU that reaches the other end, too (pinned memory, GPUs that reach
                each other), it runs in the stream itself; after any other copy, wait for the event
                before you use the target. "none": you see to the order yourself.
            planner: How the path is chosen (Isometry, sections 4.2, 4.4 and 6.3).
            buffer_bytes: Most bytes that this copy's buffers between hops may take; 0: no limit of
                its own.
            types: Types of `tranship.types` for source and target: their elements are copied in
                place of all, one by one in their order. Types count from the first byte of their
                array, which is one block of memory. None for one of them stands for as many raw
                bytes. `region`, `planner`, `buffer_bytes` and `cast` stay at their defaults.
            cast: Numbers whose types differ are converted as by `numpy.ndarray.astype`, if this
                rule allows it: "safe", "same_kind" or "unsafe". None: types must be equal.
            notify: Name of a notice for the process that exports the target, or else the source:
                its `notices` return it once all bytes can be read there, or have been read. The
                event ends when that process has the notice, which a copy that fails does not send.
                Behind a copy that has ended within the call, the call waits up to 2 ms for that.

        Returns:
            The event of the copy's end: `wait` for it, or ``await`` it. It raises errors that
            occur after the start.

        Raises:
            InvalidArgument: Shapes, fields or regions that do not match, types that `cast` does not
                allow, arrays that overlap, a target that is read-only or whose elements share
                bytes; types of different elements, a target's type that names a byte twice; a
                notice to a process that takes none.
            OutOfRange: A type that reaches outside its array.
            NoRoute: No chain of channels joins the two memories.
            Closed: The engine is closed.
        """
        if types is not None:
            check_untyped(region, planner, buffer_bytes, cast)
            return self.copy_all(
                [(source, target)],
                priority=priority,
                after=after,
                stream=stream,
                types=[types],
                notify=notify,
            )
        try:
            return self._core.copy(
                source, target, region, priority, after, planner, buffer_bytes, stream, cast, notify
            )
        except Exception as error:
            ends = self._core, source, target
            asked = Asked("copy", *ends, region, priority, planner, buffer_bytes, cast)
            return copy_fitted(asked, error, after, stream, notify)

    @guards_itself
    def copy_all(
        self,
        pairs: Iterable[tuple[Any, Any]],
        *,
        priority: int = 0,
        after: Any = None,
        stream: Any = None,
        types: Iterable[TypePair] | None = None,
        cast: CastName | None = None,
        notify: str | None = None,
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
            types: For each pair, the types of source and target, as for `copy`. Pairs between the
                same two memories are one copy then, in one launch on a GPU.
            cast: As for `copy`; each pair has types of its own. None where `types` are given.
            notify: As for `copy`: each other process gets one notice when all copies have ended,
                or two if some of its arrays are written and others read.

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
            pairs = listed(pairs)
            if types is not None:
                check_untyped(None, "automatic", 0, cast)
                types = listed(types)
                typed = typed_pairs(pairs, types)
                return self._core.copy_types(typed, priority, after, stream, notify)
            return self._core.copy_all(pairs, priority, after, stream, cast, notify)
        except Exception as error:
            if types is None and (blocks := selected_pairs(error, pairs, cast)) is not None:
                return self._core.copy_types(blocks, priority, after, stream, notify)
            if types is None and (fit := fitted_pairs(error, pairs)) is not None:
                return self.copy_all(
                    fit, priority=priority, after=after, stream=stream, cast=cast, notify=notify
                )
            refuse_pairs("copy_all()", error, self._core, pairs, types, cast)
            refuse_call("copy_all()", error, priority)

    @guards_itself
    def pack(
        self,
        source: Any,
        type: Base | Sequence[Base],
        out: Any = None,
        *,
        count: int = 1,
        stream: Any = None,
    ) -> Any:
        """Packs the elements of a type: they lie one behind the other in the result.

        It waits for the end. Where it should not, give `copy` the types ``(type, None)``.

        Args:
            source: As for `copy`; one block of memory. Or several arrays, as a list: their elements
                are packed one array behind the other, in one launch on a GPU.
            type: Type of `tranship.types`, or anything that NumPy takes for a dtype; of several
                arrays, a list of as many. It counts from the first byte of its array.
            out: Array that takes the packed bytes, one block of memory. None: a new NumPy array of
                bytes.
            count: Items of each type, one extent apart.
            stream: As for `copy`.

        Returns:
            `out`, or the new array.

        Raises:
            InvalidArgument: As for `copy`.
            OutOfRange: A type that reaches outside its array; `out` is too short.
            NoRoute: No chain of channels joins the two memories.
            Closed: The engine is closed.
        """
        try:
            if is_one_item(type, count, stream):
                out = np.empty(type.nbytes, np.uint8) if out is None else out
                if _core.pack_known(self._core, source, out, type, False):
                    return out
            arrays, items = typed_arrays(source, type, count)
            nbytes = sum(item.nbytes for item in items)
            packed = np.empty(nbytes, np.uint8) if out is None else out
        except Exception as error:
            refuse_call("pack()", error)
        pairs = [(array, packed) for array in arrays]
        types = [(item, place) for item, place in zip(items, packed_places(items), strict=True)]
        self.copy_all(pairs, stream=stream, types=types).wait()
        return packed

    @guards_itself
    def unpack(
        self,
        packed: Any,
        target: Any,
        type: Base | Sequence[Base],
        *,
        count: int = 1,
        stream: Any = None,
    ) -> None:
        """Writes packed elements to the places that a type names; the reverse of `pack`.

        Args:
            packed: Array of packed elements, one block of memory.
            target: As for `copy`; one block of memory. Or several arrays, as for `pack`.
            type: As for `pack`; no element shares a byte with another.
            count: As for `pack`.
            stream: As for `copy`.

        Raises:
            InvalidArgument: As for `copy`.
            OutOfRange: A type that reaches outside its array; `packed` is too short.
            NoRoute: No chain of channels joins the two memories.
            Closed: The engine is closed.
        """
        try:
            if is_one_item(type, count, stream) and _core.pack_known(
                self._core, target, packed, type, True
            ):
                return
            arrays, items = typed_arrays(target, type, count)
        except Exception as error:
            refuse_call("unpack()", error)
        pairs = [(packed, array) for array in arrays]
        types = [(place, item) for item, place in zip(items, packed_places(items), strict=True)]
        self.copy_all(pairs, stream=stream, types=types).wait()

    def halo(
        self,
        arrays: Any,
        widths: SupportsIndex | Sequence[SupportsIndex],
        neighbours: Neighbours | None = None,
        *,
        periodic: bool | Sequence[bool] = False,
        comm: Any = None,
        memory: Any = "host",
    ) -> Halo:
        """Plans a halo exchange: faces, edges and corners of all fields of a block, at once.

            halo = engine.halo([u, v], 2, comm=MPI.COMM_WORLD.Create_cart((4, 2)))
            for _ in range(steps):
                halo.exchange()

        Args:
            arrays: The block's fields, with their ghost cells; one array or a list.
            widths: Ghost cells on each side, of each dimension or of all; 0: the dimension has
                none, and is exchanged whole.
            neighbours: For each direction, such as ``(-1, 0)``, -1, 0 or 1 for each dimension: the
                neighbour's fields (another block of this process, arrays of a `Peer`, on any GPU),
                in the same order; with `comm` its rank. Blocks may differ in size where they do not
                touch. Directions that are missing keep their ghost cells.
            periodic: Whether a dimension, or all, wraps around where `neighbours` has none in it:
                then each block is its own neighbour there. Without `comm`, which has its own.
            comm: Communicator of mpi4py: the exchange goes as messages, one to each neighbour. With
                a Cartesian one the neighbours are known.
            memory: Where messages are packed, as for `empty`.

        Raises:
            InvalidArgument: Blocks too small for their widths, neighbours of other shapes or
                numbers of fields, a direction that is none, a communicator without neighbours.
            NoRoute: As for `copy`.
            Closed: The engine is closed.
        """
        return plan_halo(self, arrays, widths, neighbours, periodic, comm, memory)

    @guards_itself
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
        cast: CastName | None = None,
        notify: str | None = None,
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
            cast: As for `copy`. Neighbouring pages that change their types are one copy each.
            notify: As for `copy`.

        Returns:
            The event of the end of all copies. Its plan is that of the first.

        Raises:
            InvalidArgument: Lists of different lengths, an index outside its array (negative ones
                do not count from the end), a page that would be written twice, or read and
                written; arrays that do not match.
            NoRoute: No chain of channels joins the two memories.
            Closed: The engine is closed.
        """
        try:
            return self._core.copy_pages(
                source, target, source_pages, target_pages, priority, after, stream, cast, notify
            )
        except Exception as error:
            refuse_call("copy_pages()", error, priority)

    @guards_itself
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
        notify: str | None = None,
    ) -> Event:
        """Copies pieces: ranges of bytes, of any lengths, between two blocks of memory.

        Piece k is ``lengths[k]`` bytes at ``source_offsets[k]`` of the source, and goes to
        ``target_offsets[k]`` of the target. All pieces are one copy, as those of `copy_pages` are;
        pieces that follow each other on both sides are moved as one.

        Args:
            source: As for `copy`; it fills one block of memory without gaps. Its type does not
                matter.
            target: As the source. It may be the same array.
            source_offsets: Bytes from the source's first byte. No list may change during the call.
            target_offsets: Bytes from the target's first byte, as many as `source_offsets`.
            lengths: Bytes of each piece, as many as `source_offsets`; or one number for all.
            priority: As for `copy`.
            after: As for `copy`.
            stream: As for `copy`.
            notify: As for `copy`.

        Returns:
            The event of the end of all pieces.

        Raises:
            InvalidArgument: Lists of different lengths, a piece outside its array or of a negative
                length, pieces that overlap in the target, or of which one reads what another
                writes (both are named by their numbers), an array with gaps. Nothing has moved.
            NoRoute: No chain of channels joins the two memories.
            Closed: The engine is closed.
        """
        try:
            lists = source_offsets, target_offsets, lengths
            return self._core.copy_pieces(source, target, *lists, priority, after, stream, notify)
        except Exception as error:
            refuse_call("copy_pieces()", error, priority)

    def prepare(
        self,
        source: Any,
        target: Any,
        *,
        region: Region | None = None,
        priority: int = 0,
        planner: PlannerName = "automatic",
        buffer_bytes: int = 0,
        types: TypePair | None = None,
        cast: CastName | None = None,
    ) -> PreparedCopy:
        """Prepares a copy that is started again and again, as in every step of a loop.

        Checks, plan, kernels and their tables are made once. It keeps both arrays alive.

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
            types: As for `copy`.
            cast: As for `copy`.

        Raises:
            InvalidArgument: As for `copy`.
            OutOfRange: As for `copy`.
            NoRoute: No chain of channels joins the two memories.
            Closed: The engine is closed.
        """
        if types is not None:
            check_untyped(region, planner, buffer_bytes, cast)
            return self.prepare_all([(source, target)], priority=priority, types=[types])
        try:
            return _core.prepare(
                self._core, source, target, region, priority, planner, buffer_bytes, cast
            )
        except Exception as error:
            ends = self._core, source, target
            asked = Asked("prepare", *ends, region, priority, planner, buffer_bytes, cast)
            return prepare_fitted(asked, error)

    def prepare_all(
        self,
        pairs: Iterable[tuple[Any, Any]],
        *,
        priority: int = 0,
        types: Iterable[TypePair] | None = None,
        cast: CastName | None = None,
    ) -> PreparedCopy:
        """Prepares several copies, each to its own target, that `copy_all` would start.

        Each start moves all of them, in one launch where one GPU reaches all arrays in one hop.

        Args:
            pairs: As for `copy_all`.
            priority: As for `copy`, of every start.
            types: As for `copy_all`.
            cast: As for `copy_all`.

        Raises:
            InvalidArgument: Something else than pairs, or a pair that `copy` would refuse.
            NoRoute: No chain of channels joins two memories.
            Closed: The engine is closed.
        """
        try:
            pairs = listed(pairs)
            if types is not None:
                check_untyped(None, "automatic", 0, cast)
                types = listed(types)
                return _core.prepare_types(self._core, typed_pairs(pairs, types), priority)
            return _core.prepare_all(self._core, pairs, priority, cast)
        except Exception as error:
            if types is None and (blocks := selected_pairs(error, pairs, cast)) is not None:
                return _core.prepare_types(self._core, blocks, priority)
            if types is None and (fit := fitted_pairs(error, pairs)) is not None:
                return self.prepare_all(fit, priority=priority, cast=cast)
            refuse_pairs("prepare_all()", error, self._core, pairs, types, cast)
            refuse_call("prepare_all()", error, priority)

    def prepare_pages(
        self,
        source: Any,
        target: Any,
        source_pages: npt.ArrayLike,
        target_pages: npt.ArrayLike,
        *,
        priority: int = 0,
        cast: CastName | None = None,
    ) -> PreparedCopy:
        """Prepares a copy of pages that `copy_pages` would start; the lists are copied.

        Args:
            source: As for `copy_pages`.
            target: As for `copy_pages`.
            source_pages: As for `copy_pages`.
            target_pages: As for `copy_pages`.
            priority: As for `copy`, of every start.
            cast: As for `copy_pages`.

        Raises:
            InvalidArgument: As for `copy_pages`.
            NoRoute: No chain of channels joins the two memories.
            Closed: The engine is closed.
        """
        try:
            return _core.prepare_pages(
                self._core, source, target, source_pages, target_pages, priority, cast
            )
        except Exception as error:
            refuse_call("prepare_pages()", error, priority)

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
        try:
            return _core.prepare_pieces(
                self._core, source, target, source_offsets, target_offsets, lengths, priority
            )
        except Exception as error:
            refuse_call("prepare_pieces()", error, priority)

    def plan(
        self,
        source: Any,
        target: Any,
        *,
        region: Region | None = None,
        priority: int = 0,
        planner: PlannerName = "automatic",
        buffer_bytes: int = 0,
        cast: CastName | None = None,
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
            cast: As for `copy`.

        Raises:
            InvalidArgument: As for `copy`.
            NoRoute: No chain of channels joins the two memories.
            Closed: The engine is closed.
        """
        try:
            return self._core.plan(source, target, region, priority, planner, buffer_bytes, cast)
        except Exception as error:
            ends = self._core, source, target
            asked = Asked("plan", *ends, region, priority, planner, buffer_bytes, cast)
            return plan_fitted(asked, error)

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
        return _core.pin(self._core, array)

    @overload
    def empty(
        self, shape: Shape, dtype: npt.DTypeLike = "f8", *, memory: Literal["host", "pinned"] = ...
    ) -> npt.NDArray[Any]: ...

    @overload
    def empty(
        self, shape: Shape, dtype: npt.DTypeLike = "f8", *, memory: Any
    ) -> npt.NDArray[Any] | DeviceArray: ...

    def empty(
        self, shape: Shape, dtype: npt.DTypeLike = "f8", *, memory: Any = "host"
    ) -> npt.NDArray[Any] | DeviceArray:
        """Returns a new array. It may outlive the engine.

        Args:
            shape: Number of indices of each dimension.
            dtype: Type of an element; a structured type has fields.
            memory: "host": a NumPy array of zeros that other processes of this machine can map, so
                that a copy between it and another process needs no bounce buffer.
                "pinned": a NumPy array that GPUs reach directly, at the full speed of the bus.
                "device0", "cuda:0", ... or a device of PyTorch, JAX or CuPy: a `DeviceArray` in the
                memory of that GPU. The contents of pinned and GPU memory are undefined.

        Raises:
            InvalidArgument: A shape or type that no array can have, or no such memory.
            Error: There is no GPU, or too little memory.
        """
        kind = element_type("dtype", dtype)
        extents = shape_of(shape, kind)
        dtype_fields(kind)  # refuses objects
        return new_array(self._core, extents, kind, memory)

    def topology(self) -> str:
        """Returns this machine's memories, the channels between them, and its GPUs, as text."""
        return describe_here(self.profile, *_core.list_gpus(self._core))

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
            Timeout: Another process, which may be stopped, may still read or write an array that
                this engine exports: keep that memory until the process has exited. The engine is
                closed all the same.
            Error: The trace could not be written; the engine is closed all the same.
        """
        self._core.close()

    def _close_at_exit(self) -> None:
        with suppress(Timeout):  # the memory that a peer may still access ends with this process
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
