"""Random conversions between two arrays: their shapes alone, without memory or a device.

A seed gives the same cases on every machine: only `random.Random.random` is used, whose values
Python guarantees, and whole numbers.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
Type = np.dtype[Any]

CLASSES = ("round", "odd", "sliced")
"""Classes of extents: multiples of 16, odd numbers, and slices of arrays with odd extents."""

BROADCAST = "broadcast"
"""Class of views that repeat some dimensions (a stride of 0) and reverse others."""

LEAST = {"round": 16, "odd": 3, "sliced": 3, BROADCAST: 2}
"""Least extent of a dimension, by class."""

SHORT_MAX = 40
"""Largest extent of a dimension that is drawn short."""

RANKS = (2, 3, 3, 4, 4, 5)
PLAIN_TYPES = ("u1", "u2", "f4", "f8", "c16", "V3")
FIELD_TYPES = ("u1", "u2", "f4", "f8")
FIELDS_MAX = 5

RECORD_CHANCE = 0.2
SCATTER_CHANCE = 0.25
BASE_BYTES_MAX = 4
"""Largest size of the view's base array, as a multiple of the bytes that are copied."""

OFFSET_MAX = 512
"""Largest offset of an end, in elements."""


@dataclass(frozen=True)
class RandomShape:
    """One conversion between a view and a plain array of the same extents.

    The view is `base[slices].transpose(permutation)` of a C-contiguous array `base`, of which the
    class "broadcast" repeats the dimensions of extent 1; the plain array is C-contiguous. Usually
    the view is the source.

    Attributes:
        number: Number of the case under its seed.
        kind: Class of the extents, of `CLASSES`, or `BROADCAST`.
        base: Extents of the view's base array.
        slices: Slice of each dimension of the base array; steps may be negative.
        permutation: Dimensions of the sliced base array in the order of the view.
        shape: Extents of the view and of the plain array.
        view_type: Type of the view's elements; structured for records.
        plain_type: Type of the plain array's elements: the same fields, which may lie in another
            order or with padding.
        view_offset: Bytes before the base array, counted from an aligned address.
        plain_offset: Bytes before the plain array.
        scatters: Whether the view is the target.
    """

    number: int
    kind: str
    base: tuple[int, ...]
    slices: tuple[slice, ...]
    permutation: tuple[int, ...]
    shape: tuple[int, ...]
    view_type: Type = field(repr=False)
    plain_type: Type = field(repr=False)
    view_offset: int
    plain_offset: int
    scatters: bool

    @property
    def payload_bytes(self) -> int:
        """Returns the bytes that the conversion moves, without padding of records."""
        return math.prod(self.shape) * type_bytes(self.view_type)

    @property
    def base_bytes(self) -> int:
        """Returns the size of the view's base array, without its offset."""
        return math.prod(self.base) * self.view_type.itemsize

    @property
    def plain_bytes(self) -> int:
        """Returns the size of the plain array, without its offset."""
        return math.prod(self.shape) * self.plain_type.itemsize

    @property
    def field_names(self) -> tuple[str, ...]:
        """Returns the names of the fields of records; none for plain elements."""
        return self.view_type.names or ()

    @property
    def is_plain(self) -> bool:
        """Returns whether it is one contiguous run on both sides, which converts nothing."""
        in_order = self.permutation == tuple(range(len(self.permutation)))
        return in_order and self.shape == self.base and self.view_type == self.plain_type

    @property
    def name(self) -> str:
        """Returns a name that has everything that may decide the speed."""
        parts = [f"{self.kind} {self.number}: {type_text(self.view_type)}"]
        if self.plain_type != self.view_type:
            parts.append(f"and {type_text(self.plain_type)}")
        parts.append(f"{list(self.base)}")
        if self.slices != tuple(slice(0, extent, 1) for extent in self.base):
            parts.append(f"[{', '.join(slice_text(cut) for cut in self.slices)}]")
        parts.append(f"by {''.join(str(axis) for axis in self.permutation)}")
        if self.kind == BROADCAST:
            parts.append(f"to {list(self.shape)}")
        if self.view_offset or self.plain_offset:
            parts.append(f"at {self.view_offset} and {self.plain_offset}")
        if self.scatters:
            parts.append("to the view")
        return " ".join(parts)

    def view(self, base: Any) -> Any:
        """Returns the view of a base array, of any library that slices and transposes as NumPy."""
        view = base[self.slices].transpose(self.permutation)
        return np.broadcast_to(view, self.shape) if self.kind == BROADCAST else view


def type_bytes(kind: Type) -> int:
    """Returns the bytes of an element without padding."""
    if kind.fields is None:
        return kind.itemsize
    return sum(entry[0].itemsize for entry in kind.fields.values())


def type_text(kind: Type) -> str:
    """Returns "f4", or the fields of records, those with padding with their size: "{u1 f8}/16"."""
    if kind.names is None or kind.fields is None:
        return kind.str.lstrip("<|=>")
    text = " ".join(kind.fields[name][0].str.lstrip("<|=>") for name in kind.names)
    padded = f"/{kind.itemsize}" if kind.itemsize != type_bytes(kind) else ""
    return f"{{{text}}}{padded}"


def slice_text(cut: slice) -> str:
    """Returns a slice as Python writes it."""
    stop = "" if cut.stop is None else cut.stop
    return f"{cut.start}:{stop}" + (f":{cut.step}" if cut.step != 1 else "")


class Draw:
    """Random numbers of one case."""

    def __init__(self, seed: int, number: int) -> None:
        self._random = random.Random(f"{seed} {number}")

    def below(self, count: int) -> int:
        """Returns a number of 0 to `count` - 1."""
        return int(self._random.random() * count)

    def between(self, low: int, high: int) -> int:
        """Returns a number of `low` to `high`."""
        return low + self.below(high - low + 1)

    def chance(self, share: float) -> bool:
        """Returns True with a probability of `share`."""
        return self._random.random() < share

    def pick(self, values: Sequence[T]) -> T:
        """Returns one of the values."""
        return values[self.below(len(values))]

    def scale(self, low: int, high: int) -> int:
        """Returns a number of `low` to `high`, every power of two as likely as any other."""
        bits = self.between(low.bit_length(), high.bit_length())
        return self.between(max(low, 1 << (bits - 1)), min(high, (1 << bits) - 1))

    def order(self, count: int) -> tuple[int, ...]:
        """Returns the numbers below `count` in random order."""
        left = list(range(count))
        return tuple(left.pop(self.below(len(left))) for _ in range(count))


def random_shapes(
    seed: int,
    count: int,
    sizes_mib: Sequence[int] = (64,),
    classes: Sequence[str] = CLASSES,
) -> Iterator[RandomShape]:
    """Yields the cases of a seed; case k is the same for every `count`.

    The classes, of `CLASSES` and `BROADCAST`, and the sizes take turns. Each case moves between 3/4
    and 5/4 of its size, roughly.
    """
    for number in range(count):
        draw = Draw(seed, number)
        kind = classes[number % len(classes)]
        size = sizes_mib[number // len(classes) % len(sizes_mib)] << 20
        shape = draw_shape(draw, number, kind, size)
        while shape.base_bytes > BASE_BYTES_MAX * shape.payload_bytes or shape.is_plain:
            shape = draw_shape(draw, number, kind, size)
        yield shape


def draw_shape(draw: Draw, number: int, kind: str, size: int) -> RandomShape:
    """Draws one case of about `size` bytes."""
    view_type, plain_type = draw_types(draw)
    payload = size // 4 * 3 + draw.below(size // 2)
    extents = draw_extents(draw, kind, max(payload // type_bytes(view_type), 64))
    cut = {"sliced": draw_slices, BROADCAST: draw_repeats}.get(kind, whole)
    base, slices = cut(draw, extents)
    permutation = draw.order(len(extents))
    offsets = [0, 0]
    if draw.chance(0.5):
        end = draw.below(2)
        offsets[end] = draw.below(OFFSET_MAX) * (view_type, plain_type)[end].itemsize
    return RandomShape(
        number,
        kind,
        base,
        slices,
        permutation,
        tuple(extents[axis] for axis in permutation),
        view_type,
        plain_type,
        offsets[0],
        offsets[1],
        draw.chance(SCATTER_CHANCE) and kind != BROADCAST,
    )


def draw_types(draw: Draw) -> tuple[Type, Type]:
    """Draws the types of both ends: equal, or records whose fields lie differently."""
    if not draw.chance(RECORD_CHANCE):
        kind = np.dtype(draw.pick(PLAIN_TYPES))
        return kind, kind
    fields = [(f"f{k}", draw.pick(FIELD_TYPES)) for k in range(draw.between(2, FIELDS_MAX))]
    packed = np.dtype(fields)
    other = draw.pick((packed, np.dtype(fields, align=True), np.dtype(fields[::-1])))
    return (packed, other) if draw.chance(0.5) else (other, packed)


def draw_extents(draw: Draw, kind: str, elements: int) -> tuple[int, ...]:
    """Draws the extents of a dense array of about `elements` elements, two in five of them short.

    The last extent takes what the others leave; then all are put into random order.
    """
    least = LEAST[kind]
    rank = draw.pick(RANKS)
    while rank > 2 and least**rank * 4 > elements:
        rank -= 1
    left = elements
    extents: list[int] = []
    for more in range(rank - 1, 0, -1):
        most = max(left // least**more, least)
        short = draw.chance(0.4)
        extent = draw.between(least, min(SHORT_MAX, most)) if short else draw.scale(least, most)
        extents.append(of_class(kind, extent))
        left = max(left // extents[-1], least)
    extents.append(of_class(kind, left))
    return tuple(extents[k] for k in draw.order(rank))


def of_class(kind: str, extent: int) -> int:
    """Returns the extent of a class that is nearest to `extent`."""
    if kind == "round":
        return max((extent + 8) // 16 * 16, 16)
    return extent | 1 if kind == "odd" else extent


def whole(_: Draw, extents: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[slice, ...]]:
    """Returns an array of these extents, and all of it."""
    return extents, tuple(slice(0, extent, 1) for extent in extents)


def draw_slices(draw: Draw, extents: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[slice, ...]]:
    """Draws an array of odd extents, and slices of it that have the given extents.

    Two in three dimensions are cut at their ends, one in six has a step of 2 or 3, and one in
    twelve is reversed.
    """
    base: list[int] = []
    slices: list[slice] = []
    for extent in extents:
        step = draw.between(2, 3) if draw.chance(1 / 6) else 1
        margin = draw.below(extent // 8 + 3) if draw.chance(2 / 3) else 0
        reach = (extent - 1) * step + 1
        whole = (reach + margin) | 1
        start = draw.below(whole - reach + 1)
        base.append(whole)
        if draw.chance(1 / 12):
            stop = start - step
            slices.append(slice(start + reach - 1, stop if stop >= 0 else None, -step))
        else:
            slices.append(slice(start, min(start + extent * step, whole), step))
    return tuple(base), tuple(slices)


def draw_repeats(draw: Draw, extents: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[slice, ...]]:
    """Draws an array that has an extent of 1 in one dimension at least, and reverses one in four.

    One in eight repeats a single element.
    """
    every = draw.chance(1 / 8)
    one = draw.below(len(extents))
    base = [1 if every or k == one or draw.chance(0.3) else n for k, n in enumerate(extents)]
    slices = [
        slice(n - 1, None, -1) if n > 1 and draw.chance(0.25) else slice(0, n, 1) for n in base
    ]
    return tuple(base), tuple(slices)
