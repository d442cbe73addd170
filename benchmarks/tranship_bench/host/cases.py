"""The measured conversions: source, target, expected bytes, and NumPy's way to do the same."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tranship.arrays import Instance

from ..harness import Array, Bytes, random_bytes

MIXED = {"a": "f4", "b": "f8", "c": "i2", "d": "f4"}
"""Fields of mixed widths."""


@dataclass
class Case:
    """One conversion. `raw_source` and `raw_target` are all bytes of the two sides."""

    name: str
    source: Any
    target: Any
    raw_source: Bytes
    raw_target: Bytes
    numpy: Callable[[], None]
    coalesces: bool = False


class Space:
    """Memory for the source and the target of one case after another, allocated once."""

    def __init__(self, count: int) -> None:
        self.source = random_bytes(count)
        self.target = np.zeros(count, np.uint8)

    def sides(self, count: int) -> tuple[Bytes, Bytes]:
        """Returns the first `count` bytes of the source and of the target."""
        return self.source[:count], self.target[:count]


def plain(
    space: Space, name: str, kind: str, shape: tuple[int, ...], order: tuple[int, ...]
) -> Case:
    """Returns a case that permutes the dimensions of a plain array."""
    dtype = np.dtype(kind)
    raw_source, raw_target = space.sides(math.prod(shape) * dtype.itemsize)
    view = raw_source.view(dtype).reshape(shape).transpose(order)
    target = raw_target.view(dtype).reshape(view.shape)
    return Case(
        name,
        view,
        target,
        raw_source,
        raw_target,
        lambda: np.copyto(target, view),
        order == tuple(range(len(order))),
    )


Views = Callable[[Bytes, str], list[Array]]
"""Returns NumPy's views of all bytes of one side, given the side's layout."""


def layouts(
    space: Space,
    extents: dict[str, int],
    fields: dict[str, str],
    sides: tuple[str, str],
    views: Views,
) -> Case:
    """Returns a case from one layout to another, by a copy of each view for NumPy."""
    point = sum(np.dtype(kind).itemsize for kind in fields.values())
    raw_source, raw_target = space.sides(math.prod(extents.values()) * point)
    pairs = list(zip(views(raw_target, sides[1]), views(raw_source, sides[0]), strict=True))

    def assign() -> None:
        for target, source in pairs:
            np.copyto(target, source)

    return Case(
        f"{fields_text(fields)}: <{sides[0]}> to <{sides[1]}>",
        Instance(raw_source, extents=extents, fields=fields, layout=sides[0]),
        Instance(raw_target, extents=extents, fields=fields, layout=sides[1]),
        raw_source,
        raw_target,
        assign,
        sides[0] == sides[1],
    )


def fields_text(fields: dict[str, str]) -> str:
    """Returns "8xf4" for eight fields of f4, or the widths if they differ."""
    kinds = list(fields.values())
    return f"{len(kinds)}x{kinds[0]}" if len(set(kinds)) == 1 else ",".join(kinds)


def alike(count: int, kind: str) -> dict[str, str]:
    """Returns `count` fields of one type."""
    return {f"f{k}": kind for k in range(count)}


def whole(raw: Bytes, _: str) -> list[Array]:
    """Returns all bytes of a side, for copies that convert nothing."""
    return [raw]


def structures(space: Space, points: int, fields: dict[str, str]) -> Iterator[Case]:
    """Yields the cases AOS to SOA, SOA to AOS, and AOS to AOS."""
    aos, soa = "F, x", "x, F"

    def views(raw: Bytes, side: str) -> list[Array]:
        if side == aos:
            records = raw.view(np.dtype(list(fields.items())))
            return [records[name] for name in fields]
        ends = np.cumsum([points * np.dtype(kind).itemsize for kind in fields.values()])
        parts = np.split(raw, ends[:-1])
        return [part.view(kind) for part, kind in zip(parts, fields.values(), strict=True)]

    for sides in ((aos, soa), (soa, aos)):
        yield layouts(space, {"x": points}, fields, sides, views)
    yield layouts(space, {"x": points}, fields, (aos, aos), whole)


def blocked(
    space: Space,
    extents: dict[str, int],
    fields: int,
    names: tuple[str, str],
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    order: tuple[int, ...],
) -> Iterator[Case]:
    """Yields a conversion from records to blocks of points, and back.

    `shapes` are those of both memories, and `order` brings the second one to the first.
    """

    def views(raw: Bytes, side: str) -> list[Array]:
        values = raw.view("f4")
        if side == names[0]:
            return [values.reshape(shapes[0])]
        return [values.reshape(shapes[1]).transpose(order)]

    for sides in (names, names[::-1]):
        yield layouts(space, extents, alike(fields, "f4"), sides, views)


def images(space: Space, scale: int) -> Iterator[Case]:
    """Yields the cases NHWC to NCHW and back, of about 64 MiB divided by `scale`."""
    for channels, side, count in ((3, 224, 112), (16, 112, 84), (64, 56, 84), (256, 56, 21)):
        number = max(count // scale, 1)
        shape = (number, side, side, channels)
        yield plain(space, f"NHWC to NCHW, C={channels}, f4", "f4", shape, (0, 3, 1, 2))
        shape = (number, channels, side, side)
        yield plain(space, f"NCHW to NHWC, C={channels}, f4", "f4", shape, (0, 2, 3, 1))


def conversion_cases(full: bool) -> Iterator[Case]:
    """Yields all cases one at a time, because they share their memory."""
    space = Space((290 if full else 4) << 20)
    points = (64 << 20 if full else 256 << 10) // 32
    yield from structures(space, points, alike(8, "f4"))
    yield from structures(space, points, alike(3, "f8"))
    yield from structures(space, points, MIXED)
    side = 8192 if full else 256
    yield plain(space, f"2-D transpose, f4, {side}x{side}", "f4", (side, side), (1, 0))
    odd = (7001, 9003) if full else (201, 303)
    yield plain(space, f"2-D transpose, f4, {odd[0]}x{odd[1]}", "f4", odd, (1, 0))
    side = 6144 if full else 192
    yield plain(space, f"2-D transpose, f8, {side}x{side}", "f8", (side, side), (1, 0))
    shape = (256, 272, 240) if full else (32, 34, 30)
    for order in itertools.permutations(range(3)):
        text = "".join(str(axis) for axis in order)
        yield plain(space, f"3-D permutation {text}, f4", "f4", shape, order)
    yield from images(space, 1 if full else 42)
    tiles = points // 4
    both = (tiles, 4, 8), (tiles, 8, 4)
    yield from blocked(space, {"x": points}, 8, ("F, x", "x:4, F, x"), both, (0, 2, 1))
    side = 2896 if full else 184
    tiles = side // 8
    both_2d = (tiles, 8, tiles, 8, 2), (tiles, tiles, 2, 8, 8)
    extents, tiled = {"x": side, "y": side}, "x:8, y:8, F, x, y"
    yield from blocked(space, extents, 2, ("F, x, y", tiled), both_2d, (0, 3, 1, 4, 2))
    yield layouts(space, extents, alike(2, "f4"), (tiled, tiled), whole)
