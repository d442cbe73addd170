"""ADIOS2's SST engine as a peer: writers stream steps of an array, readers take shares of each.

Usage: adios2_coupling.py write|read WORK, the latter as JSON: the ``shape`` of the array, the
``settings`` of the engine, the ``streams``, each with its ``file``, the number of its ``readers``,
and the ``boxes`` that the process writes to it, or reads from it, of each step, and whether these
are ``locked``: promised to be the same in all steps. Requests come as lines of JSON, ``{"do":
"run", "count": 8, "first": 0, "whole": true}``, so many steps from a number on, and are answered
with one line each: when the first step was begun, when the last one had ended, and whether all
arrived. Times are of the monotonic clock, which the processes share.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from importlib import metadata

import adios2
import numpy as np

STEP_SECONDS = 60.0
"""Longest time that a reader waits for a step."""


def say(answer):
    """Answers with one line."""
    print(json.dumps({"result": answer}), flush=True)


def contents(shape, lower, upper):
    """What is written to a box, but for the number of the step: each element says its place."""
    places = np.ix_(*(np.arange(a, b, dtype=np.float64) for a, b in zip(lower, upper, strict=True)))
    total = np.zeros([b - a for a, b in zip(lower, upper, strict=True)])
    weight = 1.0
    for extent, place in zip(reversed(shape), reversed(places), strict=True):
        total += weight * place
        weight *= extent
    return total


def stamp(block, number):
    """Writes the number of a step to the first element of each row."""
    block[..., 0] = -1.0 - number


def stamped(block, number):
    """Whether each row begins with the number of a step."""
    return bool((block[..., 0] == -1.0 - number).all())


class Side:
    """The streams of one process, and memory for its boxes of each."""

    def __init__(self, mode, shape, settings, streams, locked):
        self.boxes = []
        self.to_lock = locked
        adios = adios2.Adios()
        for number, stream in enumerate(streams):
            io = adios.declare_io(f"stream {number}")
            io.set_engine("SST")
            io.set_parameters({**settings, "RendezvousReaderCount": str(stream["readers"])})
            blocks = [(lower, contents(shape, lower, upper)) for lower, upper in stream["boxes"]]
            if mode == adios2.Mode.Write:
                origin = [0] * len(shape)
                io.define_variable("data", blocks[0][1], list(shape), origin, list(shape))
            self.boxes.append((io, io.open(stream["file"], mode), blocks))

    def close(self):
        """Ends the streams."""
        for _, engine, _ in self.boxes:
            with contextlib.suppress(Exception):  # the other process may have exited first
                engine.close()


class Writer(Side):
    """Writes its blocks of each step."""

    def __init__(self, **work):
        super().__init__(adios2.Mode.Write, **work)

    def run(self, count, first, whole):
        """Writes steps."""
        begin = time.monotonic()
        for number in range(first, first + count):
            for io, engine, blocks in self.boxes:
                engine.begin_step()
                variable = io.inquire_variable("data")
                for lower, block in blocks:
                    stamp(block, number)
                    variable.set_selection([lower, list(block.shape)])
                    engine.put(variable, block, adios2.Mode.Deferred)
                engine.end_step()
                if self.to_lock:
                    engine.lock_writer_definitions()
            self.to_lock = False
        return {"begin": begin, "end": time.monotonic(), "right": True}


class Reader(Side):
    """Reads its boxes of each step into the same memory."""

    def __init__(self, **work):
        super().__init__(adios2.Mode.Read, **work)
        self.expected = [[block.copy() for _, block in blocks] for _, _, blocks in self.boxes]
        self.fill()

    def fill(self):
        """Spoils the memory."""
        for _, _, blocks in self.boxes:
            for _, block in blocks:
                block.fill(-0.5)

    def run(self, count, first, whole):
        """Reads steps; compares the last one whole, or each, and the numbers of the others."""
        right, begin = True, time.monotonic()
        for number in range(first, first + count):
            self.read()
            end = time.monotonic()
            last = number + 1 == first + count
            right = right and (self.arrived(number) if whole or last else self.numbered(number))
            for _, engine, _ in self.boxes:
                engine.end_step()
            if whole:
                self.fill()
        return {"begin": begin, "end": end, "right": right}

    def read(self):
        """Reads the next step of all streams."""
        for io, engine, blocks in self.boxes:
            if engine.begin_step(adios2.StepMode.Read, STEP_SECONDS) != adios2.StepStatus.OK:
                raise TimeoutError("no step came")
            variable = io.inquire_variable("data")
            for lower, block in blocks:
                variable.set_selection([lower, list(block.shape)])
                engine.get(variable, block, adios2.Mode.Deferred)
            if self.to_lock:
                engine.lock_reader_selections()
        self.to_lock = False
        for _, engine, _ in self.boxes:
            engine.perform_gets()

    def numbered(self, number):
        """Whether all rows are of that step."""
        return all(stamped(block, number) for _, _, blocks in self.boxes for _, block in blocks)

    def arrived(self, number):
        """Whether the memory holds what was written in that step."""
        for (_, _, blocks), wanted in zip(self.boxes, self.expected, strict=True):
            for (_, block), base in zip(blocks, wanted, strict=True):
                stamp(base, number)
                if not np.array_equal(block, base):
                    return False
        return True


def main():
    """Opens the streams and serves requests until the input ends."""
    role, work = sys.argv[1:3]
    side = {"write": Writer, "read": Reader}[role](**json.loads(work))
    say({"version": metadata.version("adios2")})
    for line in sys.stdin:
        request = json.loads(line)
        say(getattr(side, request.pop("do"))(**request))
    side.close()


if __name__ == "__main__":
    main()
