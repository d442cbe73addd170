"""Copies whose ends do not fit each other as they are: broadcast sources, scalars, selections.

The core copies between arrays of one shape. Only when it refuses a copy does a call look here, so
that copies of arrays that fit cost nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np

from .. import _core
from ..arguments import refuse_call
from ..errors import Error, InvalidArgument, make
from ..type_constructors import hindexed
from ..typed_ends import TypedCopy
from .assignment import block_of, broadcast_core, converted, near, shape_of
from .dtypes import numpy_dtype
from .elements import Elements
from .points import Points, check_broadcast, pieces_between, with_strides
from .selection import Selection

__all__ = [
    "Asked",
    "copy_fitted",
    "fitted_pairs",
    "plan_fitted",
    "prepare_fitted",
    "selected_pairs",
]

SCALARS = (bool, int, float, complex, np.generic)
BlockPieces = tuple[Any, Any, Any, Any, Any]
"""Blocks of bytes of source and target, offsets in them, and lengths of pieces."""
Answer = TypeVar("Answer")


class Asked(NamedTuple):
    """What a call asks for that the core has refused.

    Attributes:
        call: Name of the call, for messages.
        core: Engine of the call.
        source: As for `Engine.copy`.
        target: As for `Engine.copy`.
        region: As for `Engine.copy`.
        priority: As for `Engine.copy`.
        planner: As for `Engine.copy`.
        buffer_bytes: As for `Engine.copy`.
        cast: As for `Engine.copy`.
    """

    call: str
    core: _core.EngineCore
    source: Any
    target: Any
    region: Any
    priority: Any
    planner: Any
    buffer_bytes: Any
    cast: Any


def refitted(
    asked: Asked,
    error: Exception,
    with_source: Callable[[Any], Answer],
    with_pieces: Callable[[BlockPieces], Answer],
    *,
    starts: bool = False,
) -> Answer:
    """Calls the core again for what it has refused: broadcast arrays, scalars, selections.

    Args:
        asked: What it has refused.
        error: Why.
        with_source: Makes the call with another source, which has the target's shape.
        with_pieces: Makes the call for pieces, where an end is a selection.
        starts: Whether the copy starts at once, so that the source may be copied to the target's
            GPU first.

    Raises:
        Error: What the core has refused the call for, if the shapes are not what is wrong.
    """
    try:
        pieces = selected(asked)
        if pieces is not None:
            return with_pieces(pieces)
        fit = fitted(error, asked.source, asked.target, asked.core if starts else None)
        if fit is not None:
            return with_source(fit)
    except Exception as other:
        error = other
    refuse_call(f"{asked.call}()", error, asked.priority, asked.planner, asked.buffer_bytes)


def copy_fitted(
    asked: Asked, error: Exception, after: Any, stream: Any, notify: Any
) -> _core.Event:
    """Copies what the core has refused to copy as it is.

    Raises:
        Error: As `refitted`.
    """
    core, _, target, region, priority, planner, buffer_bytes, cast = asked[1:]
    options = region, priority, after, planner, buffer_bytes, stream, cast, notify
    return refitted(
        asked,
        error,
        lambda fit: core.copy(fit, target, *options),
        lambda pieces: core.copy_pieces(*pieces, priority, after, stream, notify),
        starts=True,
    )


def prepare_fitted(asked: Asked, error: Exception) -> _core.PreparedCopy:
    """Prepares what the core has refused to prepare as it is.

    Raises:
        Error: As `refitted`.
    """
    core = asked.core
    return refitted(
        asked,
        error,
        lambda fit: _core.prepare(core, fit, *asked[3:]),
        lambda pieces: _core.prepare_pieces(core, *pieces, asked.priority),
    )


def plan_fitted(asked: Asked, error: Exception) -> _core.Plan:
    """Returns the plan of a copy that `copy_fitted` would start.

    Raises:
        Error: As `refitted`.
        InvalidArgument: An end is a selection, which has no plan before it is copied.
    """
    core = asked.core
    return refitted(
        asked, error, lambda fit: core.plan(fit, *asked[3:]), lambda _: refuse_plan_of_selection()
    )


def refuse_plan_of_selection() -> NoReturn:
    """Refuses to plan a copy from or to a selection.

    Raises:
        InvalidArgument: Always.
    """
    raise InvalidArgument(
        "a selection by arrays of indices has no plan before it is copied",
        "look at the plan of the event that copy() returns",
    )


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

    def spread(strides: Sequence[int]) -> list[int]:
        steps = dict(zip(own, strides, strict=True))
        return [steps[one] if own.get(one) == wanted[one] else 0 for one in wanted]

    return with_strides(core, to.extents, spread, True)


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


def selected(asked: Asked) -> BlockPieces | None:
    """Returns the pieces of a copy from or to a selection; None if neither end is one.

    Raises:
        InvalidArgument: The shapes do not broadcast, the types differ, an option is given, or the
            target is read-only.
    """
    if not isinstance(asked.source, Selection) and not isinstance(asked.target, Selection):
        return None
    given = {
        "region": asked.region is not None,
        "planner": asked.planner != "automatic",
        "buffer_bytes": asked.buffer_bytes != 0,
    }
    for name, is_given in given.items():
        if is_given:
            raise InvalidArgument(
                f"a selection by arrays of indices is copied without {name}", f"leave out {name}"
            )
    return blocks_between(asked.source, asked.target)


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
