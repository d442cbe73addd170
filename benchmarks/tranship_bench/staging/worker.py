"""A writer or a reader of the staging benchmarks: a process that serves its parent's requests.

The process reads one JSON request from each line of its input and writes one line in reply.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tranship.engine import Engine
from tranship.staging import Staging

from ..harness import Array, blank_array, same, timed
from ..processes.child import Service, serve
from ..processes.data import seeded
from .designs import Bounds, Receiver, Sender, extents, within

SMALL = np.arange(1.0)
ELEMENTS = 1024
"""Elements of what `exchange` puts."""

Part = tuple[Bounds, Bounds, int]
"""A part of a box that lies in one object: its bounds, those of the object, and its seed."""


class Worker(Service):
    """One process of a workflow, whose arrays lie in one memory, such as "device1" or "host".

    A version holds the box's seeded bytes plus the version's number, word by word, so that old data
    differ from new data.
    """

    client: Staging

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.senders: dict[str, tuple[Sender, Array]] = {}
        self.receivers: dict[str, tuple[Receiver, Array]] = {}
        self.clients: list[tuple[str, Staging]] = []
        self.exchanged = 0

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

    def put(self, names: list[str], version: int, lower: list[int], design: str) -> dict[str, Any]:
        """Puts arrays, each as one object, one after another; returns the seconds."""

        def work() -> None:
            for name in names:
                self.senders[name][0].put(design, name, version, tuple(lower))

        return {"seconds": timed(work)()}

    def read_box(self, name: str, memory: str, box: Bounds, objects: list[Part]) -> dict[str, Any]:
        """Makes the array that `get` fills, of a box whose parts lie in objects."""
        box = corners(box)
        parts = [(corners(part), corners(whole), seed) for part, whole, seed in objects]
        base = np.empty(extents(box), "u8")
        for part, whole, seed in parts:
            held = seeded(extents(whole), "u8", seed)
            base[within(part, box[0])] = held[within(part, whole[0])]
        receiver = Receiver(self.engine, self.client, memory, box, [part for part, _, _ in parts])
        self.receivers[name] = (receiver, base)
        return {}

    def clear(self, names: list[str]) -> dict[str, Any]:
        """Spoils arrays, so that a get that does nothing is detected."""
        for name in names:
            receiver, _ = self.receivers[name]
            pattern = blank_array(extents(receiver.box), "f8")
            self.engine.copy(pattern, receiver.target).wait(timeout=60)
        return {}

    def get(self, names: list[str], version: int, design: str) -> dict[str, Any]:
        """Gets the boxes of one version, one after another; returns the seconds."""

        def work() -> None:
            for name in names:
                self.receivers[name][0].get(design, name, version)

        return {"seconds": timed(work)()}

    def got(self, name: str) -> Array:
        """Returns what was got, in host memory."""
        receiver, _ = self.receivers[name]
        values = np.empty(extents(receiver.box))
        self.engine.copy(receiver.target, values).wait(timeout=60)
        return values

    def holds(self, name: str, version: int) -> bool:
        """Returns whether an array equals what the writers put, byte for byte."""
        return same(self.got(name).view("u8"), self.receivers[name][1] + np.uint64(version))

    def verify(self, names: list[str], version: int) -> dict[str, Any]:
        """Returns whether all arrays equal what the writers put."""
        return {"same": all(self.holds(name, version) for name in names)}

    def release(self, name: str) -> dict[str, Any]:
        """Frees the arrays of a variable."""
        self.senders.pop(name, None)
        self.receivers.pop(name, None)
        return {}

    def put_small(self, name: str, first: int, count: int) -> dict[str, Any]:
        """Puts eight bytes again and again, one request each; returns the seconds of all."""
        versions = iter(range(first, first + count))
        put = timed(lambda: self.client.put(name, next(versions), SMALL), count)
        return {"seconds": put()}

    def get_small(self, name: str, version: int, count: int) -> dict[str, Any]:
        """Gets one box repeatedly, one request each; returns the seconds, and if it arrived."""
        out = np.zeros_like(SMALL)
        get = timed(lambda: self.client.get(name, version, (0,), (1,), out), count)
        return {"seconds": get(), "same": same(out, SMALL)}

    def admit(self, contact: str, first: int, count: int) -> dict[str, Any]:
        """Connects `count` clients, each with a variable of its own."""
        self.clients = [
            (f"of {k}", Staging(contact, engine=self.engine, name=f"client {k}", timeout=60))
            for k in range(first, first + count)
        ]
        return {}

    def exchange(self, rounds: int, turn: int) -> dict[str, Any]:
        """Puts and gets with each client in turn; returns the seconds, and whether all arrived."""
        data = np.arange(ELEMENTS) + float(turn)
        out = np.zeros_like(data)
        right = True

        def work() -> None:
            nonlocal right
            self.exchanged += 1
            data[0] = self.exchanged
            for name, client in self.clients:
                client.put(name, self.exchanged, data)
                client.get(name, self.exchanged, (0,), (ELEMENTS,), out)
                right = right and out[0] == self.exchanged

        seconds = timed(work, rounds)()
        return {"seconds": seconds, "same": bool(right and np.array_equal(out, data))}

    def dismiss(self) -> dict[str, Any]:
        """Disconnects the clients."""
        for _, client in self.clients:
            client.close()
        self.clients = []
        return {}

    def leave(self) -> dict[str, Any]:
        """Disconnects from the servers."""
        self.dismiss()
        self.client.close()
        return {}


def corners(box: Bounds) -> Bounds:
    """Returns the corners as tuples; JSON has made lists of them."""
    lower, upper = box
    return tuple(lower), tuple(upper)


if __name__ == "__main__":
    serve(sys.stdin, sys.stdout, Worker)
