"""ADIOS2's SST engine as a peer: one process writes steps of an array, another one reads them.

Usage: adios2_sst.py write|read FILE SHAPE SETTINGS, the last two as JSON. Requests come as lines of
JSON and are answered with one line each. The writer: ``{"do": "put", "parts": 2}`` writes a step,
in so many blocks along each dimension; ``{"do": "puts", "count": N}`` writes N steps. The reader:
``{"do": "aim", "lower": [...], "upper": [...]}`` spoils the memory of a box, ``{"do": "get"}``
reads that box of the next step, ``{"do": "gets", "count": N}`` of N steps, ``{"do": "check"}`` says
whether the memory holds what was written. Times are of the monotonic clock, which the two share.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
import time
from importlib import metadata

import adios2
import numpy as np

SPOILED = -1.0
"""What targets are filled with; no value that is written is negative."""


def say(answer):
    """Answers with one line."""
    print(json.dumps({"result": answer}), flush=True)


def contents(shape):
    """What is written; both processes make it."""
    return np.random.default_rng(1).random(shape)


def blocks(array, parts):
    """The first indices and the values of each block, one after another in memory."""
    cuts = [[(k * n // parts, (k + 1) * n // parts) for k in range(parts)] for n in array.shape]
    for box in itertools.product(*cuts):
        block = np.ascontiguousarray(array[tuple(slice(*cut) for cut in box)])
        yield [first for first, _ in box], block


class Writer:
    """Writes steps; blocks are cut out beforehand."""

    def __init__(self, io, file, shape):
        self.data = contents(shape)
        self.variable = io.define_variable(
            "data", self.data, list(shape), [0] * len(shape), list(shape)
        )
        self.blocks = {}
        self.engine = io.open(file, adios2.Mode.Write)

    def put(self, parts):
        """One step, and when it began and ended."""
        if parts not in self.blocks:
            self.blocks[parts] = list(blocks(self.data, parts))
        begin = time.monotonic()
        self.engine.begin_step()
        for lower, block in self.blocks[parts]:
            self.variable.set_selection([lower, list(block.shape)])
            self.engine.put(self.variable, block, adios2.Mode.Deferred)
        self.engine.end_step()
        return {"begin": begin, "end": time.monotonic()}

    def puts(self, count):
        """Many steps."""
        begin = self.put(1)["begin"]
        for _ in range(count - 1):
            self.put(1)
        return {"begin": begin, "end": time.monotonic()}


class Reader:
    """Reads steps, each once, as they come."""

    def __init__(self, io, file, shape):
        self.data = contents(shape)
        self.io = io
        self.targets = {}
        self.engine = io.open(file, adios2.Mode.Read)

    def aim(self, lower, upper):
        """The box that is read from now on: memory for it, the same each time, is spoiled."""
        box = tuple(slice(a, b) for a, b in zip(lower, upper, strict=True))
        if repr(box) not in self.targets:
            expected = np.ascontiguousarray(self.data[box])
            self.targets[repr(box)] = np.empty_like(expected), expected
        self.lower = lower
        self.target, self.expected = self.targets[repr(box)]
        self.target.fill(SPOILED)
        return {}

    def read(self):
        """The box of the next step; when its values were there."""
        self.engine.begin_step()
        variable = self.io.inquire_variable("data")
        variable.set_selection([self.lower, list(self.target.shape)])
        self.engine.get(variable, self.target, adios2.Mode.Deferred)
        self.engine.perform_gets()
        end = time.monotonic()
        self.engine.end_step()
        return end

    def get(self):
        """From asking for the next step until the values of the box are there."""
        return {"begin": time.monotonic(), "end": self.read()}

    def gets(self, count):
        """The same of many steps."""
        begin = time.monotonic()
        ends = [self.read() for _ in range(count)]
        return {"begin": begin, "end": ends[-1]}

    def check(self):
        """Whether the box holds what was written."""
        return {"same": bool(np.array_equal(self.target, self.expected))}


def main():
    """Opens the stream and serves requests until the input ends."""
    role, file, shape, settings = sys.argv[1:5]
    io = adios2.Adios().declare_io("stream")
    io.set_engine("SST")
    io.set_parameters(json.loads(settings))
    side = {"write": Writer, "read": Reader}[role](io, file, json.loads(shape))
    say({"version": metadata.version("adios2")})
    for line in sys.stdin:
        request = json.loads(line)
        say(getattr(side, request.pop("do"))(**request))
    with contextlib.suppress(Exception):  # the other process may have exited first
        side.engine.close()


if __name__ == "__main__":
    main()
