"""A writer or a reader of the staging benchmarks: a process that serves its parent's requests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tranship.engine import Engine
from tranship.staging import Staging

from ..harness import Array, blank_array, require, same, seeded, timed
from ..processes.child import Service
from .designs import Bounds, Corner, Receiver, Sender, extents, within

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

    def join(self, contact: str, name: str) -> None:
        """Connects to the servers."""
        self.client = Staging(contact, engine=self.engine, name=name)

    def write_box(self, name: str, memory: str, box: Bounds, seed: int) -> None:
        """Makes the array that `put` puts."""
        shape = extents(box)
        sender = Sender(self.engine, self.client, memory, shape)
        self.senders[name] = (sender, seeded(shape, "u8", seed))

    def fill(self, name: str, version: int) -> None:
        """Writes the content of a version into the array."""
        sender, base = self.senders[name]
        self.engine.copy((base + np.uint64(version)).view("f8"), sender.source).wait(timeout=60)

    def put(self, names: Sequence[str], version: int, lower: Corner, design: str) -> float:
        """Puts arrays, each as one object, one after another; returns the seconds."""

        def work() -> None:
            for name in names:
                self.senders[name][0].put(design, name, version, lower)

        return timed(work)()

    def read_box(self, name: str, memory: str, box: Bounds, objects: Sequence[Part]) -> None:
        """Makes the array that `get` fills, of a box whose parts lie in objects."""
        base = np.empty(extents(box), "u8")
        for part, whole, seed in objects:
            held = seeded(extents(whole), "u8", seed)
            base[within(part, box[0])] = held[within(part, whole[0])]
        receiver = Receiver(self.engine, self.client, memory, box, [part for part, _, _ in objects])
        self.receivers[name] = (receiver, base)

    def clear(self, names: Sequence[str]) -> None:
        """Spoils arrays, so that a get that does nothing is detected."""
        for name in names:
            receiver, _ = self.receivers[name]
            pattern = blank_array(extents(receiver.box), "f8")
            self.engine.copy(pattern, receiver.target).wait(timeout=60)

    def get(self, names: Sequence[str], version: int, design: str) -> float:
        """Gets the boxes of one version, one after another; returns the seconds."""

        def work() -> None:
            for name in names:
                self.receivers[name][0].get(design, name, version)

        return timed(work)()

    def got(self, name: str) -> Array:
        """Returns what was got, in host memory."""
        receiver, _ = self.receivers[name]
        values = np.empty(extents(receiver.box))
        self.engine.copy(receiver.target, values).wait(timeout=60)
        return values

    def holds(self, name: str, version: int) -> bool:
        """Returns whether an array equals what the writers put, byte for byte."""
        return same(self.got(name).view("u8"), self.receivers[name][1] + np.uint64(version))

    def verify(self, names: Sequence[str], version: int) -> bool:
        """Returns whether all arrays equal what the writers put."""
        return all(self.holds(name, version) for name in names)

    def release(self, name: str) -> None:
        """Frees the arrays of a variable."""
        self.senders.pop(name, None)
        self.receivers.pop(name, None)

    def put_small(self, name: str, first: int, count: int) -> float:
        """Puts eight bytes again and again, one request each; returns the seconds of all."""
        versions = iter(range(first, first + count))
        return timed(lambda: self.client.put(name, next(versions), SMALL), count)()

    def get_small(self, name: str, version: int, count: int) -> float:
        """Gets one box repeatedly, one request each; returns the seconds of all."""
        out = np.zeros_like(SMALL)
        seconds = timed(lambda: self.client.get(name, version, (0,), (1,), out), count)()
        require(same(out, SMALL), name)
        return seconds

    def admit(self, contact: str, first: int, count: int) -> None:
        """Connects `count` clients, each with a variable of its own."""
        self.clients = [
            (f"of {k}", Staging(contact, engine=self.engine, name=f"client {k}", timeout=60))
            for k in range(first, first + count)
        ]

    def exchange(self, rounds: int, turn: int) -> float:
        """Puts and gets with each client in turn; returns the seconds of all."""
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
        require(right and same(out, data), f"{len(self.clients)} clients of one process")
        return seconds

    def dismiss(self) -> None:
        """Disconnects the clients."""
        for _, client in self.clients:
            client.close()
        self.clients = []

    def leave(self) -> None:
        """Disconnects from the servers."""
        self.dismiss()
        self.client.close()
