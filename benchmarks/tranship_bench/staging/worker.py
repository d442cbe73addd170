"""A writer or a reader of the staging benchmarks: a process that serves its parent's requests.

The process reads one JSON request from each line of its input and writes one line in reply.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

from tranship.engine import Engine
from tranship.staging import Staging

from ..harness import Array, same, spoil
from ..processes.child import Service, serve
from ..processes.data import seeded
from .designs import Bounds, Receiver, Sender, extents, within

SMALL = np.arange(1.0)


class Worker(Service):
    """One process of a workflow, whose array lies in one memory, such as "device1" or "host".

    A version holds the box's seeded bytes plus the version's number, word by word, so that old data
    differ from new data.
    """

    client: Staging

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.senders: dict[str, tuple[Sender, Array]] = {}
        self.receivers: dict[str, tuple[Receiver, Array]] = {}

    def join(self, contact: str, name: str) -> dict[str, Any]:
        """Connects to the servers."""
        self.client = Staging(contact, engine=self.engine, name=name)
        return {}

    def write_box(self, name: str, memory: str, box: Bounds, seed: int) -> dict[str, Any]:
        """Makes the array that `put` puts."""
        shape = extents(box)
        sender = Sender(self.engine, self.client, memory, shape)
        self.senders[name] = (sender, seeded(shape, "u8", seed))
        return {}

    def fill(self, name: str, version: int) -> dict[str, Any]:
        """Writes the content of a version into the array."""
        sender, base = self.senders[name]
        self.engine.copy((base + np.uint64(version)).view("f8"), sender.source).wait(timeout=60)
        return {}

    def put(self, name: str, version: int, lower: list[int], design: str) -> dict[str, Any]:
        """Puts the array as one object and returns the seconds."""
        sender, _ = self.senders[name]
        begin = time.perf_counter()
        sender.put(design, name, version, tuple(lower))
        return {"seconds": time.perf_counter() - begin}

    def read_box(
        self, name: str, memory: str, box: Bounds, objects: list[tuple[Bounds, Bounds, int]]
    ) -> dict[str, Any]:
        """Makes the array that `get` fills.

        `objects` are the parts of the box that lie in one object each, with the box and the seed of
        that object.
        """
        box = corners(box)
        parts = [(corners(part), corners(whole), seed) for part, whole, seed in objects]
        base = np.empty(extents(box), "u8")
        for part, whole, seed in parts:
            held = seeded(extents(whole), "u8", seed)
            base[within(part, box[0])] = held[within(part, whole[0])]
        receiver = Receiver(self.engine, self.client, memory, box, [part for part, _, _ in parts])
        self.receivers[name] = (receiver, base)
        return {}

    def clear(self, name: str) -> dict[str, Any]:
        """Spoils the array, so that a get that does nothing is detected."""
        receiver, base = self.receivers[name]
        pattern = np.empty(base.shape)
        spoil(pattern)
        self.engine.copy(pattern, receiver.target).wait(timeout=60)
        return {}

    def get(self, name: str, version: int, design: str) -> dict[str, Any]:
        """Gets the box of one version and returns the seconds."""
        receiver, _ = self.receivers[name]
        begin = time.perf_counter()
        receiver.get(design, name, version)
        return {"seconds": time.perf_counter() - begin}

    def verify(self, name: str, version: int) -> dict[str, Any]:
        """Returns whether the array equals what the writers put, byte for byte."""
        receiver, base = self.receivers[name]
        got = np.empty(base.shape)
        self.engine.copy(receiver.target, got).wait(timeout=60)
        return {"same": same(got.view("u8"), base + np.uint64(version))}

    def release(self, name: str) -> dict[str, Any]:
        """Frees the arrays of a variable."""
        self.senders.pop(name, None)
        self.receivers.pop(name, None)
        return {}

    def put_small(self, name: str, first: int, count: int) -> dict[str, Any]:
        """Puts eight bytes again and again, one request each; returns the seconds of all."""
        begin = time.perf_counter()
        for version in range(first, first + count):
            self.client.put(name, version, SMALL)
        return {"seconds": time.perf_counter() - begin}

    def get_small(self, name: str, version: int, count: int) -> dict[str, Any]:
        """Gets one box repeatedly, one request each; returns the seconds, and if it arrived."""
        out = np.zeros_like(SMALL)
        begin = time.perf_counter()
        for _ in range(count):
            self.client.get(name, version, (0,), (1,), out)
        return {"seconds": time.perf_counter() - begin, "same": same(out, SMALL)}

    def leave(self) -> dict[str, Any]:
        """Disconnects from the servers."""
        self.client.close()
        return {}


def corners(box: Bounds) -> Bounds:
    """Returns the corners as tuples; JSON has made lists of them."""
    lower, upper = box
    return tuple(lower), tuple(upper)


if __name__ == "__main__":
    serve(sys.stdin, sys.stdout, Worker)
