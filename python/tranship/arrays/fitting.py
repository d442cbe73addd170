"""Copies whose ends do not fit each other as they are: broadcast sources, scalars, selections.

The core copies between arrays of one shape. Only when it refuses a copy does a call look here, so
that copies of arrays that fit cost nothing more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .. import _core
from ..arguments import refuse_call
from ..errors import Error, InvalidArgument, make
from ..type_constructors import hindexed
from ..typed_ends import TypedCopy
from .assignment import block_of, broadcast_core, converted, near, shape_of
from .dtypes import numpy_dtype
from .elements import Elements
from .points import Points, check_broadcast, pieces_between
from .selection import Selection

__all__ = ["copy_fitted", "fitted_pairs", "plan_fitted", "prepare_fitted", "selected_pairs"]

SCALARS = (bool, int, float, complex, np.generic)
BlockPieces = tuple[Any, Any, Any, Any, Any]
"""Blocks of bytes of source and target, offsets in them, and lengths of pieces."""


def copy_fitted(
    core: _core.EngineCore,
    error: Exception,
    source: Any,
    target: Any,
    region: Any,
    priority: Any,
    after: Any,
    planner: Any,
    buffer_bytes: Any,
    stream: Any,
    cast: Any,
    notify: Any,
) -> _core.Event:
    """Copies what the core has refused to copy as it is: broadcast arrays, scalars, selections.

    Raises:
        Error: What the core has refused the copy for, if the shapes are not what is wrong.
    """
    try:
        pieces = selected(source, target, region, planner, buffer_bytes)
        if pieces is not None:
            return core.copy_pieces(*pieces, priority, after, stream, notify)
        fit = fitted(error, source, target, core)
        if fit is not None:
            options = region, priority, after, planner, buffer_bytes, stream, cast, notify
            return core.copy(fit, target, *options)
    except Exception as other:
        error = other
    refuse_call("copy()", error, priority, planner, buffer_bytes)


def prepare_fitted(
    core: _core.EngineCore,
    error: Exception,
    source: Any,
    target: Any,
    region: Any,
    priority: Any,
    planner: Any,
    buffer_bytes: Any,
    cast: Any,
) -> _core.PreparedCopy:
    """Prepares what the core has refused to prepare as it is, as `copy_fitted` copies it.

    Raises:
        Error: What the core has refused it for, if the shapes are not what is wrong.
    """
    try:
        pieces = selected(source, target, region, planner, buffer_bytes)
        if pieces is not None:
            return _core.prepare_pieces(core, *pieces, priority)
        fit = fitted(error, source, target)
        if fit is not None:
            return _core.prepare(core, fit, target, region, priority, planner, buffer_bytes, cast)
    except Exception as other:
        error = other
    refuse_call("prepare()", error, priority, planner, buffer_bytes)


def plan_fitted(
    core: _core.EngineCore,
    error: Exception,
    source: Any,
    target: Any,
    region: Any,
    priority: Any,
    planner: Any,
    buffer_bytes: Any,
    cast: Any,
) -> _core.Plan:
    """Returns the plan of a copy that `copy_fitted` would start.

    Raises:
        Error: What the core has refused to plan it for, if the shapes are not what is wrong.
        InvalidArgument: An end is a selection, which has no plan before it is copied.
    """
    try:
        if isinstance(source, Selection) or isinstance(target, Selection):
            raise InvalidArgument(
                "a selection by arrays of indices has no plan before it is copied",
                "look at the plan of the event that copy() returns",
            )
        fit = fitted(error, source, target)
        if fit is not None:
            return core.plan(fit, target, region, priority, planner, buffer_bytes, cast)
    except Exception as other:
        error = other
    refuse_call("plan()", error, priority, planner, buffer_bytes)


def fitted(
    error: Exception, source: Any, target: Any, engine: _core.EngineCore | None = None
) -> Any:
    """Returns a source that has the target's shape, in place of one that the core has refused.

    Args:
        error: What the core has refused the copy for.
        source: Array that broadcasts to the target, or a scalar, which fills it.
        target: As for `Engine.copy`.
        engine: Engine that may copy the source to the target's GPU first; None: it stays where it
            is, since it is read later.

    Returns:
        None if the shapes are not what is wrong, or do not broadcast.

    Raises:
        InvalidArgument: A scalar does not convert to the target's type.
    """
    if not isinstance(error, InvalidArgument):
        return None
    try:
        to = _core.array_of(target)
    except Error:
        return None
    is_scalar = isinstance(source, SCALARS)
    if is_scalar:
        source = scalar_of(source, numpy_dtype(to.fields))
    try:
        core = _core.array_of(source)
        own, wanted = shape_of(core), shape_of(to)
        if core.named and to.named:
            return broadcast_by_name(core, to) if core.extents != to.extents else None
        if own == wanted:
            return core if is_scalar else None
        check_broadcast(own, wanted)
    except Error:
        return None
    return broadcast_core(core if engine is None else near(engine, core, to), wanted)


def scalar_of(value: Any, dtype: np.dtype[Any]) -> Any:
    """Returns a scalar as an array without dimensions, of a type.

    Raises:
        InvalidArgument: It does not convert to the type.
    """
    try:
        return converted(value, dtype)
    except (OverflowError, TypeError, ValueError) as error:
        raise InvalidArgument(
            f"the scalar {value!r} does not convert to {dtype}: {error}",
            "give one of that type",
        ) from error


def broadcast_by_name(core: _core.Array, to: _core.Array) -> _core.Array | None:
    """Returns a source with all dimensions of the target: those that it lacks, or has one index of,
    repeat. None if that does not give the target's extents.
    """
    own, wanted = dict(core.extents), dict(to.extents)
    fits = all(own[name] in (1, wanted.get(name)) and name in wanted for name in own)
    if not fits or own == wanted:
        return None
    names = list(own)
    fields = []
    for name, kind, count, offset, strides in _core.strided_fields(core):
        steps = dict(zip(names, strides, strict=True))
        spread = [steps[one] if one in own and own[one] == wanted[one] else 0 for one in wanted]
        fields.append((name, kind, count, offset, spread))
    return _core.restrided(core, to.extents, fields, True)


def fitted_pairs(error: Exception, pairs: Iterable[tuple[Any, Any]]) -> list[Any] | None:
    """Returns the pairs of `copy_all` with sources that have the shapes of their targets.

    Returns:
        None if no shape is what is wrong.

    Raises:
        InvalidArgument: A scalar does not convert.
    """
    if not isinstance(error, InvalidArgument):
        return None
    found: list[Any] = []
    changed = False
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            return None
        source, target = pair
        fit = fitted(error, source, target)
        changed = changed or fit is not None
        found.append((source if fit is None else fit, target))
    return found if changed else None


def selected_pairs(error: Exception, pairs: Any, cast: Any) -> list[TypedCopy] | None:
    """Returns the pairs of `copy_all` as copies between lists of bytes, if one has a selection.

    Raises:
        Error: A pair cannot be copied; the message has its number.
        InvalidArgument: `cast` is given.
    """
    if not isinstance(error, InvalidArgument):
        return None
    ends = list(pairs)
    if any(not isinstance(pair, tuple | list) or len(pair) != 2 for pair in ends):
        return None
    if not any(isinstance(end, Selection) for pair in ends for end in pair):
        return None
    if cast is not None:
        raise InvalidArgument(
            "a list with a selection by arrays of indices is copied without cast",
            "copy what changes its type by itself",
        )
    typed: list[TypedCopy] = []
    for k, (source, target) in enumerate(ends):
        try:
            from_block, to_block, *offsets, lengths = blocks_between(source, target)
            kinds = [hindexed(lengths, places, "u1") for places in offsets]
            typed.append((from_block, to_block, kinds[0], kinds[1]))
        except Error as cause:
            raise make(cause.code, f"pairs[{k}]: {cause.message}", cause.hint) from cause
    return typed


def selected(
    source: Any, target: Any, region: Any, planner: Any, buffer_bytes: Any
) -> BlockPieces | None:
    """Returns the pieces of a copy from or to a selection; None if neither end is one.

    Args:
        source: As for `Engine.copy`; it broadcasts to the target's shape.
        target: As for `Engine.copy`.
        region: As for `Engine.copy`; None.
        planner: As for `Engine.copy`; "automatic".
        buffer_bytes: As for `Engine.copy`; 0.

    Raises:
        InvalidArgument: The shapes do not broadcast, the types differ, an option is given, or the
            target is read-only.
    """
    if not isinstance(source, Selection) and not isinstance(target, Selection):
        return None
    given = {"region": region is not None, "planner": planner != "automatic"}
    for name, is_given in (given | {"buffer_bytes": buffer_bytes != 0}).items():
        if is_given:
            raise InvalidArgument(
                f"a selection by arrays of indices is copied without {name}", f"leave out {name}"
            )
    return blocks_between(source, target)


def blocks_between(source: Any, target: Any) -> BlockPieces:
    """Returns the pieces of a copy; a scalar, or a source that broadcasts, fits the target."""
    to = points_of(target)
    if isinstance(source, SCALARS):
        source = scalar_of(source, numpy_dtype(to.fields))
    of = points_of(source).broadcast(to.shape)
    pieces = pieces_between(of, to)
    from_block, from_offsets = block_of(of.core, pieces[0])
    to_block, to_offsets = block_of(to.core, pieces[1])
    return from_block, to_block, from_offsets, to_offsets, pieces[2]


def points_of(array: Any) -> Points:
    """Returns the places of the elements of an array or a selection."""
    return array._points() if isinstance(array, Elements) else Points.of(_core.array_of(array))
