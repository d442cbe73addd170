"""The ways to do the remote-GPU experiment: on a local GPU, and from a client to a server's."""

from __future__ import annotations

import json
import secrets
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tranship.engine import Engine
from tranship.errors import Error

from ..gpu.copies import raw, raw_copy
from ..harness import Array, MismatchError, require
from ..processes.namespaces import Link
from ..processes.peer import Program, child_path
from .server import NAMES, PARTS, copy_all, wait_for
from .sum import device_triple, prepare

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
        self.all = [generator.random(count, "f4"), generator.random(count, "f4")]
        self.all.append(np.zeros(count, "f4"))
        self._turn = 0

    def turn(self, elements: int) -> list[Array]:
        """Returns the parts of the vectors that the next experiment uses."""
        self._turn += 1
        begin = self._turn % SHIFTS * SHIFT
        return [vector[begin : begin + elements] for vector in self.all]


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


def sampled(
    here: list[Array],
    what: str,
    put: Callable[[], object],
    compute: Callable[[], float],
    get: Callable[[], object],
) -> Sample:
    """Returns the seconds of one experiment, whose result is compared."""
    begin = time.perf_counter()
    put()
    ready = time.perf_counter()
    gpu_s = compute()
    summed = time.perf_counter()
    get()
    end = time.perf_counter()
    left, right, total = here
    verify(left, right, total, what)
    return Sample(ready - begin, summed - ready, end - summed, gpu_s)


class Local:
    """The experiment on a GPU of this process, by copies of the engine."""

    part = 0
    name = "local"

    def __init__(self, engine: Engine, vectors: Vectors, elements: int) -> None:
        self.engine = engine
        self.vectors = vectors
        self.device = device_triple(engine, elements)

    def round(self, elements: int, count: int, repeats: int) -> list[Sample]:
        """Runs `count` experiments: copies in, sums, copies out."""
        device = [array[:elements] for array in self.device]
        compute = partial(prepare(self.engine, device), repeats)
        samples = []
        for _ in range(count):
            here = self.vectors.turn(elements)
            put = partial(self.copy, *zip(here[:2], device, strict=False))
            get = partial(self.copy, (device[2], here[2]))
            samples.append(sampled(here, self.name, put, compute, get))
        return samples

    def copy(self, *pairs: tuple[Any, Any]) -> None:
        """Copies between the host and the GPU, all at once."""
        copy_all(self.engine, *pairs)

    def path(self, elements: int) -> str:
        """Returns the engine's plan."""
        return str(self.engine.plan(self.vectors.all[0][:elements], self.device[0][:elements]))


class TwoCopies(Local):
    """The local experiment as in the paper's program: the processor copies to pinned memory, then
    the driver to the GPU, one after the other.
    """

    name = "local, two copies"

    def __init__(self, engine: Engine, vectors: Vectors, elements: int) -> None:
        super().__init__(engine, vectors, elements)
        self.pinned = [engine.empty(elements, "f4", memory="pinned") for _ in range(2)]

    def copy(self, *pairs: tuple[Any, Any]) -> None:
        """Copies between the host and the GPU through pinned memory, one after the other."""
        for (source, target), whole in zip(pairs, self.pinned, strict=False):
            staged = np.asarray(whole[: source.size])
            if isinstance(source, np.ndarray):
                np.copyto(staged, source)
                raw(self.engine, [raw_copy(staged, target)])
            else:
                raw(self.engine, [raw_copy(source, staged)])
                np.copyto(target, staged)

    def path(self, elements: int) -> str:
        """Returns the path in the notation of the planner."""
        return "host0 > pinned0 > device0, one after the other"


class ServerProgram(Program):
    """The server's process."""

    def __init__(self, link: Link, settings: dict[str, Any]) -> None:
        words = ["env", f"PYTHONPATH={child_path()}", sys.executable, "-m"]
        words += ["tranship_bench.remote_gpu.server", json.dumps(settings)]
        if link.is_far:
            words = [shlex.quote(word) for word in words]  # a remote shell splits them
        super().__init__([*link.prefix, *words], name="the server")
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
        self.peer = engine.connect(program.answer())
        self.number = np.zeros(1, "i8")
        self.done = engine.empty(1, "i8")
        engine.export("done", self.done)
        program.ask("meet", contact=engine.contact)
        self.go = self.peer["go"]

    def sum(self, number: int) -> float:
        """Has the server compute an experiment's sum, and waits; its seconds come later."""
        self.number[0] = number
        copy_all(self.engine, (self.number, self.go))
        wait_for(self.done, number, f"the server's sum {number}", self.program.check)
        return 0.0


class Remote:
    """The experiment on the server's GPU, by one of the paper's parts."""

    def __init__(self, session: Session, part: int, transport: str, elements: int) -> None:
        self.session = session
        self.part = part
        self.name = f"part {part}, {transport}"
        session.program.ask("make_part", part=part, elements=elements)
        self.there = [session.peer[f"{name} {part}"] for name in NAMES]
        self.probe(min(elements, 1000))

    def probe(self, elements: int) -> None:
        """Writes and reads a few elements, so that a way that is not available fails at once.

        Raises:
            Error: The way is not available.
            MismatchError: The elements came back changed.
        """
        left, _, total = self.session.vectors.turn(elements)
        copy_all(self.session.engine, (left, self.there[0][:elements]))
        copy_all(self.session.engine, (self.there[0][:elements], total))
        require(np.array_equal(left, total), self.name)

    def round(self, elements: int, count: int, repeats: int) -> list[Sample]:
        """Runs `count` experiments: sends the inputs, has the server sum, fetches the result."""
        session = self.session
        there = [array[:elements] for array in self.there]
        first = int(session.number[0]) + 1
        how = {"part": self.part, "elements": elements, "count": count, "repeats": repeats}
        session.program.send("sum_all", first=first, **how)
        wait_for(session.done, -first, "the server's readiness", session.program.check)
        samples = []
        for number in range(first, first + count):
            here = session.vectors.turn(elements)
            put = partial(copy_all, session.engine, *zip(here[:2], there, strict=False))
            get = partial(copy_all, session.engine, (there[2], here[2]))
            what = f"{self.name}, {PARTS[self.part]}"
            samples.append(sampled(here, what, put, partial(session.sum, number), get))
        gpu_s = session.program.answer()
        return [
            Sample(one.input_s, one.operations_s, one.output_s, each)
            for one, each in zip(samples, gpu_s, strict=True)
        ]

    def path(self, elements: int) -> str:
        """Returns the engine's plan to the server's memory."""
        source = self.session.vectors.all[0][:elements]
        return str(self.session.engine.plan(source, self.there[0][:elements]))


Way = Local | Remote
"""One way to do the experiment."""
