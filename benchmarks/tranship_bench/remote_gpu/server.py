"""The server of the remote-GPU experiment: owns the GPU, and sums what the client sends.

The server reads requests as lines of JSON, as `child` does. Within a round of experiments no line
is exchanged: the client writes the number of an experiment into an array of the server, and the
server writes the number of the completed experiment into an array of the client.
"""

from __future__ import annotations

import gc
import json
import sys
import traceback
from collections.abc import Callable
from typing import Any, TextIO

import numpy as np

from tranship.engine import Engine
from tranship.errors import Error

from ..harness import Array, spoil
from .parts import DIRECT, NAMES, PINNED, WAIT_SECONDS, wait_for
from .sum import Triple, computed_by, device_triple, first_gpu, prepare

__all__ = ["Server", "run"]


class Server:
    """The requests of the client that the server carries out."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.go = engine.empty(1, "i8")
        self.done = np.zeros(1, "i8")
        self.host: dict[int, list[Array]] = {}
        self.device: Triple | None = None
        self.client_done: Any = None
        engine.export("go", self.go)

    def meet(self, contact: str) -> dict[str, Any]:
        """Connects back to the client; returns the library that computes, and the GPU."""
        self.client_done = self.engine.connect(contact)["done"]
        return {"computed_by": computed_by(self.engine), "gpu": first_gpu(self.engine)}

    def make(self, part: int, elements: int) -> dict[str, Any]:
        """Makes and exports the vectors of a part."""
        if self.device is None:
            self.device = device_triple(self.engine, elements)
        if part == DIRECT:
            for name, array in zip(NAMES, self.device, strict=True):
                self.engine.export(f"{name} {part}", array)
            return {}
        memory = "pinned" if part == PINNED else None
        vectors = self.host[part] = []
        for name in NAMES:
            vector: Array = np.empty(elements, "f4")
            if memory is not None:
                del vector
                vector = np.asarray(self.engine.empty(elements, "f4", memory=memory))
            spoil(vector)  # faults its pages in
            vectors.append(vector)
            self.engine.export(f"{name} {part}", vector)
        return {}

    def serve(
        self, part: int, elements: int, count: int, first: int, repeats: int
    ) -> dict[str, Any]:
        """Runs experiments numbered from `first`; returns the GPU's seconds of each."""
        assert self.device is not None
        left, right, total = (array[:elements] for array in self.device)
        compute = prepare(self.engine, (left, right, total))
        host = [vector[:elements] for vector in self.host[part]] if part != DIRECT else []
        gpu_s = []
        gc.collect()
        gc.disable()
        try:
            self.report(-first)
            for number in range(first, first + count):
                wait_for(self.go, number, f"the client's data of experiment {number}")
                if host:
                    self.copy((host[0], left), (host[1], right))
                gpu_s.append(compute(repeats))
                if host:
                    self.copy((total, host[2]))
                self.report(number)
        finally:
            gc.enable()
        return {"gpu_s": gpu_s}

    def report(self, number: int) -> None:
        """Writes an experiment's number to the client, negated when the experiment begins."""
        self.done[0] = number
        self.copy((self.done, self.client_done))

    def copy(self, *pairs: tuple[Any, Any]) -> None:
        """Makes copies at once and waits for the end of the last."""
        events = [self.engine.copy(source, target) for source, target in pairs]
        for event in events:
            event.wait(timeout=WAIT_SECONDS)

    def answer(self, line: str) -> dict[str, Any]:
        """Carries out the request of one line and returns the reply."""
        request = json.loads(line)
        do = request.pop("do")
        methods: dict[str, Callable[..., dict[str, Any]]] = {
            "meet": self.meet,
            "make": self.make,
            "serve": self.serve,
        }
        try:
            result: dict[str, Any] = methods[do](**request)
        except Exception as error:
            if not isinstance(error, Error):
                traceback.print_exc()  # a bug: the client's message is not enough
            return {"error": f"{do}: {type(error).__name__}: {error}"}
        return result


def run(settings: dict[str, Any], source: TextIO, target: TextIO) -> None:
    """Answers requests until the input ends."""
    key = json.loads(source.readline())["key"]
    with Engine(contact=True, **settings, key=key) as engine:
        server = Server(engine)
        print(json.dumps({"contact": engine.contact}), file=target, flush=True)
        for line in source:
            print(json.dumps(server.answer(line)), file=target, flush=True)


if __name__ == "__main__":
    run(json.loads(sys.argv[1]), sys.stdin, sys.stdout)
