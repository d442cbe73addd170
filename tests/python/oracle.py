"""A small, obvious implementation of the data model, with which the core is compared.

The oracle computes offsets from layouts and copies element by element, without lowering, plans or
channels. It is slow on purpose: a reader sees that it is right. `run_nests` executes the loop nests
of the core.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

Offsets = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Term:
    """One term of a layout: the fields (no dimension), a dimension, or a block of a dimension."""

    dimension: str | None
    block: int | None = None


def parse(layout: str) -> list[Term]:
    """Returns the terms of a layout such as `"x:4, F, x"`; without F the fields come first."""
    terms = []
    for text in layout.split(","):
        name, _, block = text.strip().partition(":")
        terms.append(Term(None if name == "F" else name, int(block) if block else None))
    if all(term.dimension is not None for term in terms):
        terms.insert(0, Term(None))
    return terms


def term_extents(terms: Sequence[Term], extents: Mapping[str, int], fields: int) -> list[int]:
    """Returns how many values each term takes; a dimension's last term counts its blocks."""
    counts = []
    for term in terms:
        if term.dimension is None:
            counts.append(fields)
        elif term.block is not None:
            counts.append(term.block)
        else:
            block = prod(other.block or 1 for other in terms if other.dimension == term.dimension)
            counts.append(-(-extents[term.dimension] // block))
    return counts


def term_values(
    terms: Sequence[Term], point: Mapping[str, Offsets | int]
) -> list[Offsets | int | None]:
    """Returns the value of each term at `point`, and None for the fields.

    Blocks take the lower digits of an index, wherever they stand in the layout.
    """
    rest = dict(point)
    digits: dict[int, Offsets | int] = {}
    for k, term in enumerate(terms):
        if term.dimension is not None and term.block is not None:
            digits[k] = rest[term.dimension] % term.block
            rest[term.dimension] = rest[term.dimension] // term.block
    values: list[Offsets | int | None] = []
    for k, term in enumerate(terms):
        whole = rest[term.dimension] if term.dimension is not None else None
        values.append(digits.get(k, whole))
    return values


@dataclass(frozen=True)
class Grid:
    """An index space, a field space (names and their sizes in bytes) and a layout."""

    extents: Mapping[str, int]
    fields: Mapping[str, int]
    layout: str

    @property
    def size_bytes(self) -> int:
        """Size in bytes, including the padding of blocks at the edges."""
        terms = parse(self.layout)
        counts = term_extents(terms, self.extents, 1)
        return prod(counts) * sum(self.fields.values())

    def offset(self, point: Mapping[str, Offsets | int], field: str) -> Offsets | int:
        """Returns the offset in bytes of `field` at `point`; its indices are numbers or arrays."""
        terms = parse(self.layout)
        counts = term_extents(terms, self.extents, 1)
        values = term_values(terms, point)
        at = next(k for k, term in enumerate(terms) if term.dimension is None)
        inner = linear(values[:at], counts[:at])
        outer = linear(values[at + 1 :], counts[at + 1 :])
        inner_count = prod(counts[:at])
        record_bytes = inner_count * sum(self.fields.values())
        names = list(self.fields)
        before = sum(self.fields[name] for name in names[: names.index(field)])
        return outer * record_bytes + inner_count * before + inner * self.fields[field]

    def offsets(self) -> dict[str, Offsets]:
        """Returns for each field the offsets of all points, an array of the grid's shape."""
        shape = tuple(self.extents.values())
        indices = np.indices(shape, dtype=np.int64)
        point = dict(zip(self.extents, indices, strict=True))
        return {
            name: np.broadcast_to(np.asarray(self.offset(point, name), np.int64), shape)
            for name in self.fields
        }


def linear(values: Sequence[Any], counts: Sequence[int]) -> Any:
    """Returns the number whose digits are `values`, the fastest first, in the bases `counts`."""
    total: Any = 0
    weight = 1
    for value, count in zip(values, counts, strict=True):
        total = total + value * weight
        weight *= count
    return total


def strided_offsets(array: np.ndarray[Any, Any], base: int) -> dict[str, Offsets]:
    """Returns for each field of a NumPy array the bytes from address `base` to every element."""
    first = array.__array_interface__["data"][0] - base
    index = np.indices(array.shape, dtype=np.int64)
    points = np.full(array.shape, first, np.int64)
    for k, stride in enumerate(array.strides):
        points = points + index[k] * stride
    if array.dtype.names is None:
        return {"f0": points}
    table = array.dtype.fields
    assert table is not None
    return {name: points + table[name][1] for name in array.dtype.names}


def copy_elements(
    source: np.ndarray[Any, np.dtype[np.uint8]],
    source_offsets: Offsets,
    target: np.ndarray[Any, np.dtype[np.uint8]],
    target_offsets: Offsets,
    element_bytes: int,
) -> None:
    """Copies every element, byte by byte; the two arrays of offsets have the same shape."""
    assert source_offsets.shape == target_offsets.shape
    for byte in range(element_bytes):
        target[target_offsets + byte] = source[source_offsets + byte]


Loop = tuple[int, int, int]
Nest = tuple[int, int, int, Sequence[Loop]]


def nest_points(nest: Nest) -> Iterator[tuple[int, int]]:
    """Yields (source offset, target offset) of every piece that a loop nest copies."""
    _, source, target, loops = nest
    for turn in np.ndindex(*(extent for extent, _, _ in loops)):
        yield (
            source + sum(k * loop[1] for k, loop in zip(turn, loops, strict=True)),
            target + sum(k * loop[2] for k, loop in zip(turn, loops, strict=True)),
        )


def run_nests(
    nests: Sequence[Nest],
    source: np.ndarray[Any, np.dtype[np.uint8]],
    target: np.ndarray[Any, np.dtype[np.uint8]],
    source_base: int = 0,
    target_base: int = 0,
) -> int:
    """Executes loop nests in Python; returns the number of bytes copied."""
    moved = 0
    for nest in nests:
        length = nest[0]
        for one, other in nest_points(nest):
            begin = target_base + other
            target[begin : begin + length] = source[source_base + one : source_base + one + length]
            moved += length
    return moved
