"""A writer or a reader of `staging-sst`: a process that passes steps on as its parent asks."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from tranship.staging.steps import Steps

from ..harness import Array, same
from .worker import Worker

Corner = tuple[int, ...]
Box = tuple[Corner, Corner]

SPOILED = -0.5
"""What targets are filled with; no value that is written is a half."""


def contents(shape: Corner, box: Box) -> Array:
    """Returns what is written to a box, but for the number of the step: each element's place."""
    ranges = [np.arange(a, b, dtype="f8") for a, b in zip(*box, strict=True)]
    weights = np.cumprod((1, *reversed(shape)))[len(shape) - 1 :: -1]
    places = (one * weight for one, weight in zip(np.ix_(*ranges), weights, strict=True))
    total: Array = np.zeros([len(each) for each in ranges])
    for place in places:
        total += place
    return total


def stamp(block: Array, number: int) -> None:
    """Writes the number of a step to the first element of each row."""
    block[..., 0] = -1.0 - number


class CouplingWorker(Worker):
    """One process that writes its block of each step, or reads its share."""

    block: Array
    lower: Corner
    upper: Corner
    name: str
    writers = 0
    steps: Steps

    def write_steps(self, name: str, shape: Corner, box: Box, writers: int) -> None:
        """Makes the block that is written."""
        self.name, self.writers = name, writers
        self.block = contents(shape, box)
        self.lower, self.upper = box

    def read_steps(self, name: str, shape: Corner, box: Box, group: str) -> None:
        """Makes the share that is read, and begins to read steps, as a group of its own."""
        self.name = name
        self.expected = contents(shape, box)
        self.block = np.full_like(self.expected, SPOILED)
        self.lower, self.upper = box
        self.steps = self.client.steps(group=group, timeout=60)

    def run(self, count: int, first: int, whole: bool) -> dict[str, Any]:
        """Writes or reads steps; returns the times of the monotonic clock."""
        return self.write(count, first) if self.writers else self.read(count, first, whole)

    def write(self, count: int, first: int) -> dict[str, Any]:
        """Writes steps."""
        begin = time.monotonic()
        for number in range(first, first + count):
            with self.client.step(number, writers=self.writers) as step:
                stamp(self.block, number)
                step.put(self.name, self.block, self.lower)
        return {"begin": begin, "end": time.monotonic()}

    def read(self, count: int, first: int, whole: bool) -> dict[str, Any]:
        """Reads steps; compares the last one whole, or each, and the numbers of the others."""
        right, begin, end = True, time.monotonic(), 0.0
        for number in range(first, first + count):
            step = next(self.steps)
            step[self.name].get(self.lower, self.upper, self.block)
            end = time.monotonic()
            last = number + 1 == first + count
            if whole or last:
                stamp(self.expected, number)
                right = right and same(self.block, self.expected)
            else:
                right = right and bool((self.block[..., 0] == -1.0 - number).all())
            step.release()
            if whole:
                self.block.fill(SPOILED)
        return {"begin": begin, "end": end, "right": right}
