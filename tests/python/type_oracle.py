"""Types as MPI defines them: the place of every byte, in order. Slow and obvious."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tranship import types
from tranship.types import Datatype

Offsets = np.ndarray[Any, np.dtype[np.int64]]
ELEMENTS = ("u1", "i2", "f4", "f8", "c16", "V3")


@dataclass
class Known:
    """A type, and what it is by definition.

    Attributes:
        type: the type that the library built.
        bytes: offset in memory of every byte, in packed order.
        lower: first byte of the extent.
        extent: bytes from one item to the next.
    """

    type: Datatype
    bytes: Offsets
    lower: int
    extent: int

    def blocks(self, lengths: list[int], places: list[int]) -> tuple[Offsets, int, int]:
        """Returns the bytes of blocks of this type, and their bounds."""
        begins = [
            place + k * self.extent
            for place, length in zip(places, lengths, strict=True)
            for k in range(length)
        ]
        if not begins:
            return np.zeros(0, np.int64), 0, 0
        lower = min(begins) + self.lower
        offsets = np.concatenate([self.bytes + begin for begin in begins])
        return offsets, lower, max(begins) + self.lower + self.extent - lower


def element(name: str) -> Known:
    """Returns one element."""
    size = np.dtype(name).itemsize
    return Known(types.as_type(name), np.arange(size), 0, size)


def draw_type(generator: np.random.Generator, depth: int, bytes_max: int = 4000) -> Known:
    """Draws a type of several levels."""
    if depth == 0:
        return element(str(generator.choice(ELEMENTS)))
    base = draw_type(generator, depth - 1, bytes_max)
    room = max(int(bytes_max // max(base.bytes.size, 1)), 1)
    count = int(generator.integers(1, min(room, 12) + 1))
    length = int(generator.integers(1, min(max(room // count, 1), 4) + 1))
    lengths = [int(one) for one in generator.integers(0, length + 1, count)]
    steps = [abs(base.extent) * one + int(generator.integers(0, 40)) for one in lengths]
    places = [int(one) for one in np.cumsum([int(generator.integers(-30, 30)), *steps[:-1]])]
    if generator.random() < 0.5:
        order = generator.permutation(count)
        lengths, places = [lengths[k] for k in order], [places[k] for k in order]
    kind = generator.integers(0, 7)
    stride = int(generator.integers(-3, 9))
    if kind == 0:
        even = [k * stride * base.extent for k in range(count)]
        made = types.vector(count, length, stride, base.type)
        return Known(made, *base.blocks([length] * count, even))
    if kind == 1:
        even = [k * (stride * 16 + 4) for k in range(count)]
        made = types.hvector(count, length, stride * 16 + 4, base.type)
        return Known(made, *base.blocks([length] * count, even))
    if kind == 2:
        return Known(types.hindexed(lengths, places, base.type), *base.blocks(lengths, places))
    if kind == 3:
        made = types.hindexed_block(length, places, base.type)
        return Known(made, *base.blocks([length] * count, places))
    if kind == 4:
        return draw_subarray(generator, base, bytes_max)
    if kind == 5:
        extent = base.extent + int(generator.integers(0, 20))
        return Known(types.resized(base.type, base.lower, extent), base.bytes, base.lower, extent)
    others = [base if generator.random() < 0.5 else element("f4") for _ in places]
    made = types.struct([1] * count, places, [one.type for one in others])
    offsets = [one.bytes + place for one, place in zip(others, places, strict=True)]
    return Known(made, np.concatenate(offsets), made.lower_bound, made.extent)


def draw_subarray(generator: np.random.Generator, base: Known, bytes_max: int) -> Known:
    """Draws a box of an array of up to three dimensions."""
    rank = int(generator.integers(1, 4))
    sizes = [int(one) for one in generator.integers(1, 6, rank)]
    subsizes = [int(generator.integers(1, size + 1)) for size in sizes]
    while np.prod(subsizes) * max(base.bytes.size, 1) > bytes_max and max(subsizes) > 1:
        subsizes[int(np.argmax(subsizes))] -= 1
    starts = [int(generator.integers(0, a - b + 1)) for a, b in zip(sizes, subsizes, strict=True)]
    order: Any = "C" if generator.random() < 0.5 else "F"
    items = np.arange(int(np.prod(sizes))).reshape(sizes, order=order)
    box = items[tuple(slice(s, s + n) for s, n in zip(starts, subsizes, strict=True))]
    places = box.flatten(order=order) * base.extent
    made = types.subarray(sizes, subsizes, starts, base.type, order=order)
    offsets = np.concatenate([base.bytes + place for place in places])
    return Known(made, offsets, 0, int(np.prod(sizes)) * base.extent)


def item_list(known: Known, count: int) -> Known:
    """Returns several items, one extent apart."""
    made = types.contiguous(count, known.type)
    return Known(made, *known.blocks([count], [0]))


def at_zero(known: Known) -> tuple[Known, int]:
    """Returns the type moved so that no byte lies before 0, and the bytes that an array needs."""
    low = int(known.bytes.min()) if known.bytes.size else 0
    moved = types.hindexed_block(1, [max(-low, 0)], known.type)
    offsets = known.bytes + max(-low, 0)
    size = int(offsets.max()) + 1 if offsets.size else 0
    return Known(moved, offsets, known.lower + max(-low, 0), known.extent), size
