"""Assignments: a copy that broadcasts, converts and waits for its end, as NumPy's do."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..closing import open_engine
from ..errors import InvalidArgument
from .dtypes import numpy_dtype
from .elements import Elements
from .lossy import refuse_lossy
from .points import (
    Pieces,
    Points,
    broadcast_strides,
    check_broadcast,
    numbered,
    pieces_between,
    with_strides,
)
from .values import VALUE_BYTES, kept_values
from .views import c_strides

__all__ = [
    "assign",
    "block_of",
    "broadcast_core",
    "converted",
    "copy_and_wait",
    "copy_pieces_and_wait",
    "near",
    "shape_of",
]


INTERFACES = ("__dlpack__", "__cuda_array_interface__", "__array_interface__", "__array__")
"""What arrays of other libraries have; other values are those of which NumPy makes arrays."""


def copy_and_wait(engine: _core.EngineCore | None, source: Any, target: Any) -> None:
    """Copies one array to another and waits for the end."""
    if engine is None:
        _core.copy_now(source, target)
    else:
        engine.copy(source, target, None, 0, None, "automatic", 0, None).wait()


def block_of(core: _core.Array, offsets: npt.NDArray[np.int64]) -> tuple[Any, Any]:
    """Returns the bytes among which elements lie, and the offsets counted from the first."""
    block, begin = _core.block(core)
    return block, offsets - begin


def copy_pieces_and_wait(
    engine: _core.EngineCore | None, source: _core.Array, target: _core.Array, pieces: Pieces
) -> None:
    """Copies pieces between two arrays, whose offsets count from their bases; waits for the end."""
    from_block, from_offsets = block_of(source, pieces[0])
    to_block, to_offsets = block_of(target, pieces[1])
    lengths = pieces[2]
    if engine is None:
        _core.copy_pieces_now(from_block, to_block, from_offsets, to_offsets, lengths)
    else:
        engine.copy_pieces(
            from_block, to_block, from_offsets, to_offsets, lengths, 0, None, None
        ).wait()


def assign(target: Elements, value: Any) -> None:
    """Copies a value to all elements of an array or a selection, and waits for the end.

    Args:
        target: What is written.
        value: Array on any memory, scalar, or what NumPy makes an array of; it broadcasts.

    Raises:
        InvalidArgument: The target is read-only, the shapes do not broadcast, or the value does not
            convert. Nothing has moved.
    """
    if not target._writable:
        raise InvalidArgument(
            f"{target._where} is read-only",
            'write to an array that can be written (a File: mode "r+" or "w")',
        )
    source = source_of(value, target)
    shape = source.shape if isinstance(source, Elements) else shape_of(source)
    check_broadcast(shape, target.shape)
    if target.size == 0:
        return
    try:
        move(source, target)
    except InvalidArgument:
        # They may overlap: NumPy assigns as if from a copy.
        move(private_copy(source, target), target)


def source_of(value: Any, target: Elements) -> Elements | _core.Array | npt.NDArray[Any]:
    """Returns a value as the source of an assignment, of the target's type."""
    if isinstance(value, Elements):
        engines = {id(one._engine) for one in (value, target) if one._bound}
        return (
            value
            if value.dtype == target.dtype and len(engines) < 2
            else converted(value.numpy(), target.dtype)
        )
    if type(value) is np.ndarray:
        return converted(value, target.dtype)
    refuse_lossy(value)
    if isinstance(value, np.ndarray) or not any(hasattr(value, name) for name in INTERFACES):
        return converted(value, target.dtype)
    try:
        core = _core.array_of(value)
    except InvalidArgument:  # such as a column of a table, which NumPy reads
        return converted(np.asarray(value), target.dtype)
    if core.where == "device":
        return core
    try:
        host = np.asarray(value)
    except Exception:  # of a type that NumPy does not have
        return core
    return converted(host, target.dtype)


def converted(value: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Returns a value as a NumPy array of a type, converted as NumPy assigns.

    Raises:
        TypeError: NumPy has no arrays of the type, or does not convert to it.
    """
    if dtype.subdtype is not None:
        raise TypeError(f"NumPy has no arrays of {dtype}")
    if isinstance(value, np.ndarray) and value.dtype == dtype:
        return value
    # A tuple is one element of a structure.
    single = dtype.names is not None and isinstance(value, tuple)
    out = np.empty(() if single else np.shape(value), dtype)
    out[...] = value
    return out


def fill_on_gpu(engine: _core.EngineCore, given: npt.NDArray[Any], target: _core.Array) -> None:
    """Copies a small value of host memory to an array on a GPU, to which it broadcasts; waits for
    the end.

    Args:
        engine: The engine.
        given: The value, of at most `VALUE_BYTES`.
        target: The array.
    """
    # What is kept is what was asked for, also if another thread writes to the array meanwhile.
    value = np.array(given, copy=True, subok=False)

    def allocate() -> _core.DeviceMemory:
        return _core.allocate(engine, "device", target.device, VALUE_BYTES)

    def write(memory: _core.DeviceMemory) -> _core.Array:
        return copied_into(engine, _core.array_of(value), memory)

    with kept_values(engine, target.device).holding(value, allocate, write) as kept:
        repeated = broadcast_core(kept, shape_of(target))
        copy_and_wait(engine, repeated, _core.by_position(target))


def crosses_bus(core: _core.Array, target: _core.Array) -> bool:
    """Returns whether a source lies elsewhere than on the GPU of the target."""
    on_gpu = target.where == "device" and target.device >= 0 and not target.remote
    there = core.where == "device" and core.device in (target.device, -1)
    return on_gpu and not there and core.bytes > 0


def near(engine: _core.EngineCore, core: _core.Array, target: _core.Array) -> _core.Array:
    """Returns a source that is about to be broadcast; for a target on a GPU a copy on that GPU.

    The repeated elements are then written by the GPU, and do not cross the bus.
    """
    if not crosses_bus(core, target):
        return core
    memory = _core.allocate(engine, "device", target.device, core.bytes)
    return copied_into(engine, core, memory)


def copied_into(
    engine: _core.EngineCore, core: _core.Array, memory: _core.DeviceMemory
) -> _core.Array:
    """Copies an array to the begin of a GPU's memory, waits for the end, and returns it there."""
    shape = shape_of(core)
    fields, at = [], 0
    for name, kind, count, _ in core.fields:
        fields.append((name, kind, count, at))
        at += count
    strides = c_strides(shape, at)
    copy = _core.strided(memory, memory.address, shape, strides, fields, True)
    copy = _core.placed(copy, "device", memory.device, None)
    copy_and_wait(engine, _core.by_position(core), copy)
    return copy


def shape_of(source: _core.Array | npt.NDArray[Any]) -> tuple[int, ...]:
    """Returns the shape of an array."""
    if isinstance(source, np.ndarray):
        return source.shape
    return tuple(extent for _, extent in source.extents)


def private_copy(source: Any, target: Elements) -> Any:
    """Returns a copy of a source that shares no byte with the target."""
    if isinstance(source, np.ndarray | Elements):
        return source.copy()
    out = np.empty(shape_of(source), numpy_dtype(source.fields))
    copy_and_wait(engine_for(source, target), source, out)
    return out


def engine_for(source: Any, target: Elements) -> _core.EngineCore | None:
    """Returns the engine that carries an assignment; None if none is needed.

    Raises:
        InvalidArgument: One end lies on a GPU, and no engine is open.
    """
    ends = [one for one in (target, source) if isinstance(one, Elements)]
    bound = [one._engine for one in ends if one._bound]
    known = bound + [one._engine for one in ends if one._engine is not None]
    if known:
        return known[0]
    if isinstance(source, _core.Array) and source.where == "device":
        found = open_engine()
        if found is None:
            raise InvalidArgument(
                "the value lies on a GPU, and no engine is open that could copy it",
                "open an Engine",
            )
        return found
    return None


def move(source: Any, target: Elements) -> None:
    """Copies a source to a target, to whose shape it broadcasts, and waits for the end."""
    engine = engine_for(source, target)
    core = core_of(source)
    plain = getattr(target, "_core", None)
    in_files = core is not None and core.where == "file" and target.device == "file"
    if engine is None and in_files:
        return move(source.numpy(), target)
    if core is not None and plain is not None:
        if engine is not None and shape_of(core) != target.shape:
            small = isinstance(source, np.ndarray) and source.nbytes <= VALUE_BYTES
            if small and crosses_bus(core, plain):
                return fill_on_gpu(engine, source, plain)
            core = near(engine, core, plain)
        copy_and_wait(engine, broadcast_core(core, target.shape), _core.by_position(plain))
        return None
    points = source._points() if core is None else Points.of(core)
    points = points.broadcast(target.shape)
    places = target._points()
    pieces = pieces_between(points, places)
    return copy_pieces_and_wait(engine, points.core, places.core, pieces)


def core_of(source: Any) -> _core.Array | None:
    """Returns the core's form of an array; None for a selection."""
    if isinstance(source, _core.Array):
        return source
    if isinstance(source, Elements):
        found: _core.Array | None = getattr(source, "_core", None)
        return found
    return _core.array_of(source)


def broadcast_core(core: _core.Array, shape: tuple[int, ...]) -> _core.Array:
    """Returns an array as one of another shape, to which it broadcasts; its dimensions match others
    by position.

    Raises:
        InvalidArgument: It does not broadcast to the shape.
        Error: A dimension is stored in blocks, and the shapes differ (``code="unsupported"``).
    """
    own = shape_of(core)
    if own == tuple(shape):
        return _core.by_position(core)
    check_broadcast(own, shape)
    return with_strides(
        core, numbered(shape), lambda strides: broadcast_strides(own, strides, shape), False
    )
