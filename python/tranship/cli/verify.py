"""Compares two files element by element by the laws of the layouts, without the engine."""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import File
from .talk import Report

__all__ = ["FileView", "first_difference"]

GATHER_ELEMENTS = 1 << 16
"""Elements of a box that is read through byte offsets, which take more memory than the data."""

Offsets = list[npt.NDArray[np.int64]]
Box = tuple[slice, ...]


@dataclass
class FileView:
    """The bytes of a file, addressed through its layout.

    In a layout the byte offset of a point is a sum over its dimensions; `offsets` holds the terms
    of that sum, for each field and dimension.
    """

    shape: tuple[int, ...]
    sizes: list[int]
    offsets: list[Offsets]
    content: npt.NDArray[np.uint8]
    mapping: mmap.mmap | None

    @classmethod
    def open(cls, path: str, file: File, start: int) -> FileView:
        """Maps the file of an array whose first byte is at `start`."""
        sizes = [size for _, _, size, _ in file._core.fields]
        offsets = layout_offsets(file, sizes)
        if file.nbytes == 0:
            return cls(file.shape, sizes, offsets, np.empty(0, np.uint8), None)
        with open(path, "rb") as opened:
            mapping = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        return cls(file.shape, sizes, offsets, np.frombuffer(mapping, np.uint8)[start:], mapping)

    def forget(self) -> None:
        """Releases the memory of the pages that were read."""
        if self.mapping is not None:
            self.mapping.madvise(mmap.MADV_DONTNEED)

    @property
    def regular(self) -> bool:
        """Whether strides describe the layout, as for those without blocks."""
        return all(is_regular(steps) for field in self.offsets for steps in field)

    def read(self, field: int, box: Box) -> npt.NDArray[np.uint8]:
        """Returns the bytes of a field in a box, in the order of the dimensions."""
        size = self.sizes[field]
        parts = [steps[cut] for steps, cut in zip(self.offsets[field], box, strict=True)]
        shape = tuple(len(part) for part in parts)
        if all(is_regular(part) for part in parts):
            start = sum(int(part[0]) for part in parts)
            strides = tuple(int(part[1] - part[0]) if len(part) > 1 else 0 for part in parts)
            view: npt.NDArray[Any] = np.ndarray(
                shape, f"V{size}", self.content.data, start, strides
            )
            return np.frombuffer(view.tobytes(), np.uint8)
        places = np.zeros(shape, np.int64)
        for k, part in enumerate(parts):
            places += part.reshape([-1 if j == k else 1 for j in range(len(shape))])
        picked: npt.NDArray[np.uint8] = self.content[places.reshape(-1, 1) + np.arange(size)]
        return picked.reshape(-1)


def is_regular(steps: npt.NDArray[np.int64]) -> bool:
    """Whether the offsets grow evenly."""
    return len(steps) < 3 or bool((np.diff(steps) == steps[1] - steps[0]).all())


def layout_offsets(file: File, sizes: list[int]) -> list[Offsets]:
    """Returns the bytes that each index adds to the offset, for each field and dimension."""
    names = list(file.dimensions)
    points = [[np.zeros(extent, np.int64) for extent in file.shape] for _ in sizes]
    starts = [0] * len(sizes)
    steps = list(sizes)
    for name, digits, count in layout_digits(file):
        if name == "F" and file._is_padded:
            starts = [offset for *_, offset in file._core.fields]
            steps = [file.dtype.itemsize] * len(sizes)
            continue
        if name == "F":
            ends = [sum(steps[: field + 1]) for field in range(len(sizes))]
            starts, steps = [0, *ends[:-1]], [ends[-1]] * len(sizes)
            continue
        for field in range(len(sizes)):
            points[field][names.index(name)] += digits * steps[field]
            steps[field] *= count
    for field, start in enumerate(starts):
        if names:
            points[field][0] += start
        else:
            points[field] = [np.array([start])]
    return points


def layout_digits(file: File) -> Iterator[tuple[str, npt.NDArray[np.int64], int]]:
    """Yields each term with its digit of each index of its dimension, and the digit's radix.

    Blocks are the lower digits, in their order; the term without a block is the highest.
    """
    terms = [term.partition(":") for term in file.layout.split(", ")]
    extents = dict(zip(file.dimensions, file.shape, strict=True))
    blocked = dict.fromkeys(extents, 1)
    sizes = {
        name: math.prod(int(block) for other, _, block in terms if other == name and block)
        for name in extents
    }
    for name, _, block in terms:
        if name == "F":
            yield name, np.zeros(0, np.int64), 1
            continue
        indices = np.arange(extents[name], dtype=np.int64)
        if block:
            yield name, indices // blocked[name] % int(block), int(block)
            blocked[name] *= int(block)
        else:
            yield name, indices // sizes[name], -(-extents[name] // sizes[name])


def first_difference(
    source: FileView, target: FileView, box_bytes: int, report: Report
) -> tuple[int, ...] | None:
    """Returns the lower corner of the first box in which two files differ, or None."""
    if math.prod(source.shape) == 0:
        return None
    regular = source.regular and target.regular
    count = max(1, box_bytes // max(source.sizes)) if regular else GATHER_ELEMENTS
    shape = source.shape or (1,)
    total = math.prod(shape) * len(source.sizes)
    done = 0
    for box in boxes(shape, count):
        for field in range(len(source.sizes)):
            if not np.array_equal(source.read(field, box), target.read(field, box)):
                return tuple(cut.start for cut in box)
            done += math.prod(cut.stop - cut.start for cut in box)
            report(done / total, "")
        source.forget()
        target.forget()
    return None


def boxes(shape: tuple[int, ...], count_max: int) -> Iterator[Box]:
    """Yields boxes of at most `count_max` points that cover the shape, as cubic as possible."""
    extents = list(shape)
    while math.prod(extents) > count_max:
        k = extents.index(max(extents))
        extents[k] = -(-extents[k] // 2)
    counts = [-(-extent // part) for extent, part in zip(shape, extents, strict=True)]
    for place in np.ndindex(*counts):
        yield tuple(
            slice(p * part, min((p + 1) * part, extent))
            for p, part, extent in zip(place, extents, shape, strict=True)
        )
