"""The server of the remote-GPU experiment: owns the GPU, and sums what the client sends.

The server reads requests as lines of JSON. Within a round of experiments no line is exchanged: the
client writes the number of an experiment into an array of the server, and the server writes the
number of the completed experiment into an array of the client.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tranship.engine import Engine
from tranship.errors import Timeout

from ..harness import WAIT_SECONDS_MAX, Array, blank_array
from ..processes.child import Service, serve
from .sum import computed_by, device_triple, prepare

PAGEABLE, PINNED, DIRECT = 1, 2, 3
PARTS = {
    PAGEABLE: "through pageable memory",
    PINNED: "through pinned memory",
    DIRECT: "direct to the GPU",
}
"""Parts of the paper, by the memory through which the data pass on the server."""

NAMES = ("left", "right", "total")

SPIN_SECONDS = 0.005
"""Time for which a wait spins before it sleeps: small experiments never sleep."""

NAP_SECONDS = 0.00005


def wait_for(cell: Array, number: int, what: str, check: Callable[[], None] | None = None) -> None:
    """Waits until another process has written `number` into `cell`.

    Args:
        cell: Array of one integer.
        number: Value to wait for.
        what: Description of the awaited event, for the error.
        check: Function that is called now and then; what it raises ends the wait.

    Raises:
        Timeout: The number did not arrive in time.
    """
    begin = time.perf_counter()
    while cell[0] != number:
        waited_s = time.perf_counter() - begin
        if waited_s < SPIN_SECONDS:
            os.sched_yield()  # with few cores, the thread that writes the number needs this core
            continue
        if check is not None:
            check()
        if waited_s > WAIT_SECONDS_MAX:
            raise Timeout(
                f"{what} did not come in {WAIT_SECONDS_MAX:.0f} s",
                "see what the other process says, or lower --limit",
            )
        time.sleep(NAP_SECONDS)


def copy_all(engine: Engine, *pairs: tuple[Any, Any]) -> None:
    """Makes copies at once and waits for the end of the last."""
    events = [engine.copy(source, target) for source, target in pairs]
    for event in events:
        event.wait(timeout=WAIT_SECONDS_MAX)


class Server(Service):
    """The requests of the client that the server carries out."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.go = engine.empty(1, "i8")
        self.done = np.zeros(1, "i8")
        self.host: dict[int, list[Any]] = {}
        self.device: list[Any] = []
        self.client_done: Any = None
        engine.export("go", self.go)

    def meet(self, contact: str) -> None:
        """Connects back to the client, and finds the library that computes."""
        computed_by(self.engine)
        self.client_done = self.engine.connect(contact)["done"]

    def make_part(self, part: int, elements: int) -> None:
        """Makes and exports the vectors of a part."""
        self.device = self.device or device_triple(self.engine, elements)
        vectors = self.device
        if part == PAGEABLE:
            vectors = self.host[part] = [blank_array((elements,), "f4") for _ in NAMES]
        elif part == PINNED:
            pinned = [self.engine.empty(elements, "f4", memory="pinned") for _ in NAMES]
            vectors = self.host[part] = [np.asarray(one) for one in pinned]
        for name, vector in zip(NAMES, vectors, strict=True):
            self.engine.export(f"{name} {part}", vector)

    def sum_all(
        self, part: int, elements: int, count: int, first: int, repeats: int
    ) -> list[float]:
        """Runs experiments numbered from `first`; returns the GPU's seconds of each."""
        left, right, total = device = [array[:elements] for array in self.device]
        compute = prepare(self.engine, device)
        host = [vector[:elements] for vector in self.host.get(part, [])]
        gpu_s = []
        gc.collect()
        gc.disable()
        try:
            self.report(-first)
            for number in range(first, first + count):
                wait_for(self.go, number, f"the client's data of experiment {number}")
                if host:
                    copy_all(self.engine, (host[0], left), (host[1], right))
                gpu_s.append(compute(repeats))
                if host:
                    copy_all(self.engine, (total, host[2]))
                self.report(number)
        finally:
            gc.enable()
        return gpu_s

    def report(self, number: int) -> None:
        """Writes an experiment's number to the client, negated when the experiment begins."""
        self.done[0] = number
        copy_all(self.engine, (self.done, self.client_done))


if __name__ == "__main__":
    key = json.loads(sys.stdin.readline())["key"]
    serve(sys.stdin, sys.stdout, Server, **json.loads(sys.argv[1]), key=key)
