"""The client of the remote-GPU experiment, and the same experiment on a local GPU."""

from __future__ import annotations

import json
import secrets
import shlex
import sys
import time
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tranship.engine import Engine
from tranship.errors import Error

from .. import _loops
from ..gpu.copies import engine_is_emulated
from ..harness import Array, MismatchError
from ..processes.peer import Program, child_path
from .network import Link
from .parts import NAMES, PARTS, WAIT_SECONDS, wait_for
from .sum import address_of, device_triple, prepare

__all__ = ["Local", "Remote", "Sample", "ServerProgram", "TwoCopies", "Vectors", "Way"]

SHIFT, SHIFTS = 64, 61
"""Each experiment begins `SHIFT` elements after the previous one in its vectors, so that data which
an earlier experiment left anywhere on the path are never right."""

CHUNK = 1 << 20


@dataclass(frozen=True)
class Sample:
    """One experiment: seconds of the client, and of the GPU."""

    input_s: float
    operations_s: float
    output_s: float
    gpu_s: float

    @property
    def latency_s(self) -> float:
        """Returns the seconds of all copies, without the GPU's computing time."""
        return self.input_s + self.operations_s + self.output_s - self.gpu_s


class Vectors:
    """The client's two vectors and the memory for their sum, pageable."""

    def __init__(self, elements: int) -> None:
        count = elements + SHIFT * SHIFTS
        generator = np.random.default_rng(20211)
        self.left = generator.random(count, "f4")
        self.right = generator.random(count, "f4")
        self.total = np.zeros(count, "f4")
        self._turn = 0

    def turn(self, elements: int) -> tuple[Array, Array, Array]:
        """Returns the parts of the vectors that the next experiment uses."""
        self._turn += 1
        begin = self._turn % SHIFTS * SHIFT
        left, right, total = (
            vector[begin : begin + elements] for vector in (self.left, self.right, self.total)
        )
        return left, right, total


def verify(left: Array, right: Array, total: Array, what: str) -> None:
    """Compares every element with the sum that the processor computes.

    Raises:
        MismatchError: An element differs.
    """
    for k in range(0, total.size, CHUNK):
        part = slice(k, k + CHUNK)
        wrong = np.flatnonzero(total[part] != left[part] + right[part])
        if wrong.size:
            raise MismatchError(
                f"{what}: element {k + int(wrong[0])} of {total.size} is not the sum that the "
                "processor computes. This is a bug: please report it with `tranship topology`"
            )


class Way(Protocol):
    """One way to do the experiment."""

    part: int
    transport: str

    def round(self, elements: int, count: int, repeats: int) -> list[Sample]:
        """Runs `count` experiments of one size and verifies each."""

    def path(self, elements: int) -> str:
        """Returns the memories through which the inputs pass."""


class Local:
    """The experiment on a GPU of this process, by copies of the engine."""

    part = 0
    transport = "engine"

    def __init__(self, engine: Engine, vectors: Vectors, elements: int) -> None:
        self.engine = engine
        self.vectors = vectors
        self.device = device_triple(engine, elements)

    def round(self, elements: int, count: int, repeats: int) -> list[Sample]:
        """Runs `count` experiments: copies in, sums, copies out."""
        left, right, total = (array[:elements] for array in self.device)
        compute = prepare(self.engine, (left, right, total))
        samples = []
        for _ in range(count):
            here = self.vectors.turn(elements)
            begin = time.perf_counter()
            self.put(here[:2], (left, right))
            ready = time.perf_counter()
            gpu_s = compute(repeats)
            summed = time.perf_counter()
            self.get(total, here[2])
            end = time.perf_counter()
            verify(*here, f"local, {self.transport}")
            samples.append(Sample(ready - begin, summed - ready, end - summed, gpu_s))
        return samples

    def put(self, sources: Any, targets: Any) -> None:
        """Copies the inputs to the GPU, both at once."""
        copy_all(self.engine, list(zip(sources, targets, strict=True)))

    def get(self, source: Any, target: Array) -> None:
        """Copies the result from the GPU."""
        copy_all(self.engine, [(source, target)])

    def path(self, elements: int) -> str:
        """Returns the engine's plan."""
        return str(self.engine.plan(self.vectors.left[:elements], self.device[0][:elements]))


class TwoCopies(Local):
    """The local experiment as in the paper's program: the processor copies to pinned memory, then
    the driver to the GPU, one after the other.
    """

    transport = "two copies"

    def __init__(self, engine: Engine, vectors: Vectors, elements: int) -> None:
        super().__init__(engine, vectors, elements)
        pinned = [np.asarray(engine.empty(elements, "f4", memory="pinned")) for _ in range(3)]
        self.pinned = pinned

    def put(self, sources: Any, targets: Any) -> None:
        """Copies both inputs to the GPU, one after the other."""
        for source, pinned, target in zip(sources, self.pinned, targets, strict=False):
            np.copyto(pinned[: source.size], source)
            self.drive(pinned.ctypes.data, address_of(target), source.nbytes)

    def get(self, source: Any, target: Array) -> None:
        """Copies the result from the GPU."""
        pinned = self.pinned[2]
        self.drive(address_of(source), pinned.ctypes.data, target.nbytes)
        np.copyto(target, pinned[: target.size])

    def drive(self, source: int, target: int, count: int) -> None:
        """Makes a bare copy of the driver and waits for its end."""
        _loops.time_gpu_copies([(source, target, count, 0)], engine_is_emulated(self.engine))

    def path(self, elements: int) -> str:
        """Returns the path in the notation of the planner."""
        return "host0 > pinned0 > device0, one after the other"


def copy_all(engine: Engine, pairs: list[tuple[Any, Any]]) -> None:
    """Makes copies at once and waits for the end of the last."""
    events = [engine.copy(source, target) for source, target in pairs]
    for event in events:
        event.wait(timeout=WAIT_SECONDS)


class ServerProgram(Program):
    """The server's process."""

    def __init__(self, link: Link, settings: dict[str, Any]) -> None:
        words = ["env", f"PYTHONPATH={child_path()}", sys.executable, "-m"]
        words += ["tranship_bench.remote_gpu.server", json.dumps(settings)]
        if link.far:
            words = [shlex.quote(word) for word in words]  # a remote shell splits them
        super().__init__([*link.prefix, *words])
        self._name = "the server"
        self.key = secrets.token_hex(32)
        self.send("listen", key=self.key)  # not as an argument, which other users can see

    def check(self) -> None:
        """Checks that the server has written nothing, which is so while it serves.

        Raises:
            Error: The server has ended or reports a failure.
        """
        if not self._answers.empty():
            self.answer()
            raise Error("the server answered before the round was over")


class Session:
    """An engine of the client, connected to a server."""

    def __init__(self, engine: Engine, program: ServerProgram, vectors: Vectors) -> None:
        self.engine = engine
        self.program = program
        self.vectors = vectors
        self.peer = engine.connect(program.answer()["contact"])
        self.number = np.zeros(1, "i8")
        self.done = engine.empty(1, "i8")
        engine.export("done", self.done)
        self.server: dict[str, Any] = program.ask("meet", contact=engine.contact)
        self.go = self.peer["go"]


class Remote:
    """The experiment on the server's GPU, by one of the paper's parts."""

    def __init__(self, session: Session, part: int, transport: str, elements: int) -> None:
        self.session = session
        self.part = part
        self.transport = transport
        session.program.ask("make", part=part, elements=elements)
        self.there = [session.peer[f"{name} {part}"] for name in NAMES]
        self.probe(min(elements, 1000))

    def probe(self, elements: int) -> None:
        """Writes and reads a few elements, so that a way that is not available fails at once.

        Raises:
            Error: The way is not available.
            MismatchError: The elements came back changed.
        """
        left, _, total = self.session.vectors.turn(elements)
        copy_all(self.session.engine, [(left, self.there[0][:elements])])
        copy_all(self.session.engine, [(self.there[0][:elements], total)])
        if not np.array_equal(left, total):
            raise MismatchError(f"part {self.part}, {self.transport}: what came back is changed")

    def round(self, elements: int, count: int, repeats: int) -> list[Sample]:
        """Runs `count` experiments: sends the inputs, has the server sum, fetches the result."""
        session = self.session
        left, right, total = (array[:elements] for array in self.there)
        first = int(session.number[0]) + 1
        session.program.send(
            "serve", part=self.part, elements=elements, count=count, first=first, repeats=repeats
        )
        wait_for(session.done, -first, "the server's readiness", session.program.check)
        times = []
        for number in range(first, first + count):
            here = session.vectors.turn(elements)
            begin = time.perf_counter()
            copy_all(session.engine, [(here[0], left), (here[1], right)])
            ready = time.perf_counter()
            session.number[0] = number
            copy_all(session.engine, [(session.number, session.go)])
            what = f"the server's sum {number}"
            wait_for(session.done, number, what, session.program.check)
            summed = time.perf_counter()
            copy_all(session.engine, [(total, here[2])])
            end = time.perf_counter()
            verify(*here, f"{PARTS[self.part]}, {self.transport}")
            times.append((ready - begin, summed - ready, end - summed))
        gpu_s = session.program.answer()["gpu_s"]
        return [Sample(*parts, gpu) for parts, gpu in zip(times, gpu_s, strict=True)]

    def path(self, elements: int) -> str:
        """Returns the engine's plan to the server's memory."""
        return str(
            self.session.engine.plan(self.session.vectors.left[:elements], self.there[0][:elements])
        )
