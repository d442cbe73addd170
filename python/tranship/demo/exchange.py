"""Halo exchange between processes, with Tranship: the part of the demo that is worth copying.

Every process exports its padded array. To fill a neighbour's ghost cells it copies its own boundary
cells straight into the neighbour's array: there are no messages, no packing, no receive buffers.
When a copy is complete, it writes a step number into the neighbour's `signals`, a small exported
array with one place for each sender. The receiver looks at its own memory until it is there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import tranship as ts
from tranship.demo.sedov import GHOST
from tranship.demo.settings import Decomposition


def eventually(attempt: Callable[[], Any], timeout_s: float) -> Any:
    """Repeats `attempt` until what it looks up exists, and returns its result."""
    give_up = time.monotonic() + timeout_s
    while True:
        try:
            return attempt()
        except ts.NotFound:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.01)


def connect(engine: Any, contact: str, timeout_s: float) -> Any:
    """Returns the peer behind a contact file, waiting until that process has written it."""
    return eventually(lambda: engine.connect(contact, timeout=timeout_s), timeout_s)


def remote_array(peer: Any, name: str, timeout_s: float) -> Any:
    """Returns the array that `peer` exports as `name`, waiting until it does.

    A process can be reached from the moment it has an engine, a little before it exports.
    """
    return eventually(lambda: peer[name], timeout_s)


class Signals:
    """Counters that other processes set: one exported integer for each of `senders`.

    A counter only grows, and each has one writer. Not for concurrent use within a process.
    """

    def __init__(self, engine: Any, name: str, senders: int, timeout_s: float) -> None:
        self.engine = engine
        self.name = name
        self.timeout_s = timeout_s
        self.received = engine.empty((senders,), "i8")
        self.received[:] = -1
        self.outgoing = engine.empty((1,), "i8")
        engine.export(name, self.received)

    def send(self, remote: Any, place: int, value: int) -> None:
        """Sets counter `place` of another process's signals; returns when it is set."""
        self.outgoing[0] = value
        with self.engine.span("signal", self.outgoing.nbytes):
            event = self.engine.copy(self.outgoing, remote[place : place + 1], priority=10)
            event.wait(timeout=self.timeout_s)

    def wait(self, places: list[int], value: int) -> None:
        """Returns when the counters at `places` have all reached `value`.

        @error TimeoutError if they have not within the timeout.
        """
        give_up = time.monotonic() + self.timeout_s
        looks = 0
        while any(self.received[place] < value for place in places):
            looks += 1
            # Give way at once, sleep when it takes longer: there may be fewer cores than processes.
            time.sleep(0.0 if looks < 20 else 0.0002)
            if time.monotonic() > give_up:
                late = [place for place in places if self.received[place] < value]
                raise TimeoutError(
                    f"'{self.name}' did not reach {value} from {late} in {self.timeout_s:.0f} s: "
                    "look at that process's log"
                )


class HaloExchange:
    """Fills the ghost cells between the blocks of a decomposition, one axis at a time.

    `state` has the shape (variables, x, y, z) with GHOST layers on every side, and stays the
    caller's. `shared` is the same memory as `engine.empty` made it, on the host or a GPU. Call
    `connect` once, then `exchange` for each sweep; `maximum` once between two exchanges along the
    same axis keeps neighbours in step.
    """

    def __init__(
        self,
        engine: Any,
        state: Any,
        shared: Any,
        decomposition: Decomposition,
        rank: int,
        timeout_s: float,
    ) -> None:
        self.engine = engine
        self.state = state
        self.decomposition = decomposition
        self.rank = rank
        self.timeout_s = timeout_s
        self.peers: dict[int, dict[str, Any]] = {}
        count = decomposition.count
        # A halo counter for each neighbour and axis; each process numbers its own sends.
        self.halo_signals = Signals(engine, "halo_signals", 3 * count, timeout_s)
        self.maximum_signals = Signals(engine, "maximum_signals", count, timeout_s)
        # Two rows: a process may be one reduction ahead of another, but never two.
        self.candidates = engine.empty((2, count), "f8")
        engine.export("candidates", self.candidates)
        engine.export("state", shared)

    def connect(self, peers: dict[int, Any]) -> None:
        """Looks up the arrays of the other processes, given as a connection for each rank."""
        names = ("state", "halo_signals", "candidates", "maximum_signals")
        for rank, peer in peers.items():
            self.peers[rank] = {name: remote_array(peer, name, self.timeout_s) for name in names}

    def exchange(self, axis: int, number: int) -> None:
        """Fills the ghost cells along `axis`; all processes count their calls by `number`."""
        self.send(axis, number)
        self.receive(axis, number)

    def send(self, axis: int, number: int) -> None:
        """Copies the boundary cells along `axis` into the two neighbours' ghost cells."""
        extent = self.decomposition.shape[axis]
        first_cells, last_cells = (GHOST, 2 * GHOST), (extent, extent + GHOST)
        ghosts_below, ghosts_above = (0, GHOST), (extent + GHOST, extent + 2 * GHOST)
        slabs = []
        for direction, mine, theirs in (
            (-1, first_cells, ghosts_above),
            (+1, last_cells, ghosts_below),
        ):
            neighbour = self.decomposition.neighbour(self.rank, axis, direction)
            if neighbour is not None:
                remote = self.peers[neighbour]["state"][slab(axis, *theirs)]
                slabs.append((neighbour, self.state[slab(axis, *mine)], remote))
        if not slabs:
            return
        with self.engine.span("halo", sum(cells.nbytes for _, cells, _ in slabs)):
            events = [self.engine.copy(cells, remote) for _, cells, remote in slabs]
            for event in events:
                event.wait(timeout=self.timeout_s)
        for neighbour, _, _ in slabs:
            place = 3 * self.rank + axis
            self.halo_signals.send(self.peers[neighbour]["halo_signals"], place, number)

    def receive(self, axis: int, number: int) -> None:
        """Waits until the neighbours along `axis` have filled this process's ghost cells."""
        neighbours = (self.decomposition.neighbour(self.rank, axis, side) for side in (-1, 1))
        places = [3 * rank + axis for rank in neighbours if rank is not None]
        self.halo_signals.wait(places, number)

    def maximum(self, value: float, number: int) -> float:
        """Returns the largest `value` of all processes; `number` counts the calls from 0."""
        row = number % 2
        self.candidates[row, self.rank] = value
        mine = self.candidates[row : row + 1, self.rank : self.rank + 1]
        for peer in self.peers.values():
            remote = peer["candidates"][row : row + 1, self.rank : self.rank + 1]
            with self.engine.span("signal", mine.nbytes):
                self.engine.copy(mine, remote, priority=10).wait(timeout=self.timeout_s)
            self.maximum_signals.send(peer["maximum_signals"], self.rank, number)
        self.maximum_signals.wait(list(self.peers), number)
        return float(self.candidates[row].max())


def slab(axis: int, first: int, last: int) -> tuple[slice, ...]:
    """Returns slices of all variables in layers `first` to `last` of `axis`, no other ghosts."""
    box = [slice(None)] + [slice(GHOST, -GHOST)] * 3
    box[1 + axis] = slice(first, last)
    return tuple(box)
