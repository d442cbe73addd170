"""Random sequences of staging's calls on hosts and GPUs, beside the same steps in NumPy.

Three clients, of which one opens the servers' GPU memory, one reaches it over a network and one has
no GPUs, put boxes from all memories, get parts of them into all memories, discard and delete. The
servers hold objects in host memory, in GPU memory that spills to a file, and on a GPU each. GPUs
are emulated, unless TRANSHIP_TEST_GPUS is "real"; `TRANSHIP_TEST_SEEDS=10000` tries more sequences,
from TRANSHIP_TEST_FIRST_SEED on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from gpu_support import EMULATED, REAL, content, gpu_count
from libraries import Library, TableArray
from staging_servers import PATIENCE, Servers, times_out

import tranship as ts
from support import eventually

SEEDS = int(os.environ.get("TRANSHIP_TEST_SEEDS", "6"))
FIRST_SEED = int(os.environ.get("TRANSHIP_TEST_FIRST_SEED", "1"))
CALLS = 50
TYPES = ("u1", "i2", "f4", "f8", "c16", "V3", "S5")
VERSIONS = 4
DEVICES = tuple(f"device{k}" for k in range(min(gpu_count(), 2)))
SERVED = {
    "host": ("--memory", "64MiB"),
    "spilling": ("--memory", "16MiB", "--memory-kind", "device0", "--full", "spill"),
    "a GPU each": ("--servers", "2", "--memory", "64MiB", "--memory-kind", "device"),
}
CLIENTS: dict[str, dict[str, Any]] = {
    "near": {"emulated_gpus": EMULATED},
    "network": {"emulated_gpus": EMULATED, "transport": "network"},
    "no GPUs": {"gpus": False, "emulated_gpus": 0},
}

Array = np.ndarray[Any, Any]
Box = tuple[tuple[int, ...], tuple[int, ...]]


class Queued:
    """Arrays that work in the current stream of a library writes: PyTorch's, or an emulated one."""

    def __init__(self, engine: ts.Engine) -> None:
        self.engine = engine
        if REAL:
            self.torch = pytest.importorskip("torch")
        else:
            self.library = Library(engine, EMULATED)

    def make(self, shape: tuple[int, ...], value: int) -> Any:
        """Returns an array of f4 on the first GPU; all its bytes are going to have this value."""
        if not REAL:
            array = TableArray(self.library, shape, 0)
            array.fill(value)
            return array
        made = self.torch.empty(shape, dtype=self.torch.float32, device="cuda:0")
        self.torch.cuda._sleep(200_000)  # some 0.1 ms, so that the fill is still to come
        self.fill(made, value)
        return made

    def fill(self, array: Any, value: int) -> None:
        if REAL:
            array.view(self.torch.uint8).fill_(value)
        else:
            array.fill(value)

    def read(self, array: Any) -> Array:
        return array.cpu().numpy() if REAL else content(self.engine, array.on_gpu)

    def close(self) -> None:
        if not REAL:
            self.library.close()


@dataclass
class Stage:
    """Servers of all kinds, and the clients of each."""

    engines: dict[str, ts.Engine]
    queued: Queued
    clients: dict[str, dict[str, ts.Staging]]

    def places(self, client: str) -> tuple[str, ...]:
        return ("host", "pinned", *DEVICES) if client != "no GPUs" else ("host",)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    servers = Servers(tmp_path_factory.mktemp("servers"))
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        if EMULATED:
            patch.setenv("TRANSHIP_EMULATED_GPUS", str(EMULATED))
        patch.setenv("TRANSHIP_LISTEN", "127.0.0.1:0")
        stack.callback(servers.end)
        contacts = {kind: servers(*options) for kind, options in SERVED.items()}
        engines = {
            name: stack.enter_context(ts.Engine(threads=2, **options))
            for name, options in CLIENTS.items()
        }
        queued = Queued(engines["near"])
        stack.callback(queued.close)
        clients = {
            kind: {
                name: stack.enter_context(ts.Staging(contact, engine=engine, name=name))
                for name, engine in engines.items()
            }
            for kind, contact in contacts.items()
        }
        yield Stage(engines, queued, clients)


@dataclass(eq=False)
class Begun:
    """A put or get in the background."""

    version: int
    reads: bool
    future: Future[Any]
    check: Callable[[], None] = lambda: None


@dataclass(eq=False)
class Held:
    """What a version has to hold: the values of all cells, and which of them were put."""

    values: Array
    there: Array
    boxes: list[Box] = field(default_factory=list)


class Sequence:
    """One variable of one kind of servers, and the calls on it."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self.stage = stage
        self.random = np.random.default_rng(seed)
        self.name = f"variable {seed}"
        self.kind = self.pick(list(SERVED))
        self.clients = stage.clients[self.kind]
        self.type = np.dtype(TYPES[int(self.random.integers(len(TYPES)))])
        rank = int(self.random.integers(1, 4))
        cells = 10 ** self.random.uniform(0.5, 5.3)
        sides = cells ** (1 / rank) * self.random.uniform(0.5, 1.5, rank)
        self.extents = tuple(max(1, int(side)) for side in sides)
        self.versions: dict[int, Held] = {}
        self.discarded: set[int] = set()
        self.begun: list[Begun] = []

    def pick(self, among: Any) -> Any:
        return among[int(self.random.integers(len(among)))]

    def chance(self, share: float) -> bool:
        return bool(self.random.random() < share)

    def fresh(self, shape: tuple[int, ...]) -> Array:
        count = int(np.prod(shape)) * self.type.itemsize
        drawn = self.random.integers(1, 256, count, np.uint8)
        return drawn.view(self.type).reshape(shape)

    def box(self, lower: tuple[int, ...], upper: tuple[int, ...]) -> Box:
        """A random box within another one, often with a whole side."""
        corners = []
        for a, b in zip(lower, upper, strict=True):
            first, last = sorted(self.random.integers(a, b, 2)) if self.chance(0.6) else (a, b - 1)
            corners.append((int(first), int(last) + 1))
        return tuple(a for a, _ in corners), tuple(b for _, b in corners)

    def empty(self, client: str, shape: tuple[int, ...]) -> tuple[Any, Callable[[Any], Any]]:
        """Returns an array of some memory, and a function for a part of it that has this shape."""
        order = [int(k) for k in self.random.permutation(len(shape))]
        order = order if self.chance(0.4) else sorted(order)
        margin = 2 if self.chance(0.3) else 0
        sides = [shape[k] + margin for k in order]
        whole = self.stage.engines[client].empty(
            sides, self.type, memory=self.pick(self.stage.places(client))
        )
        key = tuple(slice(margin // 2, margin // 2 + n) for n in shape)
        turn = [order.index(k) for k in range(len(order))]

        def part_of(array: Any) -> Any:
            turned = array if turn == sorted(turn) else array.transpose(turn)
            return turned[key] if margin else turned

        return whole, part_of

    def settle(self, version: int | None = None, reads: bool = True) -> None:
        """Waits for what was begun on a version, or on all; with `reads`, also for gets."""
        for one in list(self.begun):
            if version in (None, one.version) and (reads or not one.reads):
                one.future.result(PATIENCE)
                one.check()
                self.begun.remove(one)

    def put(self) -> None:
        client = self.pick(list(self.clients))
        version = int(self.random.integers(VERSIONS))
        lower, upper = self.box((0,) * len(self.extents), self.extents)
        shape = tuple(b - a for a, b in zip(lower, upper, strict=True))
        self.settle(version)
        options: dict[str, Any] = {"timeout": PATIENCE, "checksum": self.chance(0.1)}
        queued = client == "near" and self.type == np.dtype("f4") and self.chance(0.4)
        if queued:
            value = int(self.random.integers(1, 255))
            values = np.full(4 * int(np.prod(shape)), value, "u1").view("f4").reshape(shape)
            array = self.stage.queued.make(shape, value)
        else:
            values = self.fresh(shape)
            whole, part_of = self.empty(client, shape)
            array, engine = part_of(whole), self.stage.engines[client]
            if self.chance(0.2):
                options["after"] = engine.copy(values, array)
            else:
                engine.copy(values, array).wait(timeout=PATIENCE)
        staging = self.clients[client]
        if version in self.discarded:
            with pytest.raises(ts.NotFound):
                staging.put(self.name, version, array, lower, **options)
            return
        held = self.versions.get(version)
        if held is None:
            cells = np.zeros(self.extents, self.type)
            held = self.versions[version] = Held(cells, np.zeros(self.extents, bool))
        key = tuple(slice(a, b) for a, b in zip(lower, upper, strict=True))
        held.values[key] = values
        held.there[key] = True
        held.boxes.append((lower, upper))
        if self.chance(0.3):
            future = staging.put_async(self.name, version, array, lower, **options)
            self.begun.append(Begun(version, False, future))
        else:
            staging.put(self.name, version, array, lower, **options)
            if queued:  # The object has what the array held when it was put.
                self.stage.queued.fill(array, 255)

    def get(self) -> None:
        if not self.versions:
            return
        client = self.pick(list(self.clients))
        version = self.pick(sorted(self.versions))
        held = self.versions[version]
        self.settle(version, reads=False)
        lower, upper = self.box(*(self.pick(held.boxes) if self.chance(0.7) else self.bounds(held)))
        key = tuple(slice(a, b) for a, b in zip(lower, upper, strict=True))
        staging, expected = self.clients[client], held.values[key].copy()
        if not held.there[key].all():
            # In a group, the server that knows this box may know nothing of the version.
            why = "lacks|is not there" if self.kind == "a GPU each" else "lacks"
            times_out(lambda: staging.get(self.name, version, lower, upper, timeout=0.02), why)
            return
        way = self.random.random()
        if way < 0.2:
            found = staging[self.name][(version, *key)]
            assert found.tobytes() == expected.tobytes()
        elif way < 0.35 and client == "near" and self.type == np.dtype("f4"):
            out = self.stage.queued.make(expected.shape, 0)
            staging.get(self.name, version, lower, upper, out, timeout=PATIENCE)
            assert self.stage.queued.read(out).tobytes() == expected.tobytes()
        elif way < 0.5:
            found = staging.get(self.name, version, lower, upper, timeout=PATIENCE)
            assert found.tobytes() == expected.tobytes()
        else:
            self.get_into(client, version, (lower, upper), expected)

    def bounds(self, held: Held) -> Box:
        lowers, uppers = zip(*held.boxes, strict=True)
        return tuple(map(min, zip(*lowers, strict=True))), tuple(
            map(max, zip(*uppers, strict=True))
        )

    def get_into(self, client: str, version: int, box: Box, expected: Array) -> None:
        staging, engine = self.clients[client], self.stage.engines[client]
        whole, part_of = self.empty(client, expected.shape)
        out = part_of(whole)
        around = self.fresh(whole.shape)
        engine.copy(around, whole).wait(timeout=PATIENCE)
        part_of(around)[...] = expected

        def check() -> None:
            assert content(engine, whole).tobytes() == around.tobytes()

        if self.chance(0.4):
            future = staging.get_async(self.name, version, *box, out, timeout=PATIENCE)
            self.begun.append(Begun(version, True, future, check))
        else:
            staging.get(self.name, version, *box, out, timeout=PATIENCE)
            check()

    def say(self) -> None:
        """Says that a writer has nothing, discards a version, or asks what there is."""
        client = self.clients[self.pick(list(self.clients))]
        step = self.random.random()
        if step < 0.3 and self.versions:
            version = self.pick(sorted(self.versions))
            self.settle(version)
            client.discard(self.name, version)
            del self.versions[version]
            self.discarded.add(version)
            with pytest.raises(ts.NotFound):
                client.get(self.name, version, (0,) * len(self.extents), self.extents)
        elif step < 0.5:
            client.nothing(self.name, int(self.random.integers(VERSIONS)))
        elif self.versions:
            version = self.pick(sorted(self.versions))
            self.settle(version, reads=False)
            held = self.versions[version]
            assert client[self.name].bounds(version) == self.bounds(held)

    def run(self) -> None:
        for _ in range(CALLS):
            step = self.random.random()
            (self.put if step < 0.45 else self.get if step < 0.9 else self.say)()
        self.settle()
        client = self.clients["near"]
        for version, held in self.versions.items():
            for box in held.boxes:
                key = tuple(slice(a, b) for a, b in zip(*box, strict=True))
                found = client.get(self.name, version, *box, timeout=PATIENCE)
                assert found.tobytes() == held.values[key].tobytes()
        if self.versions or self.discarded:
            client.delete(self.name)
        assert eventually(lambda: all(one["memory_used"] == 0 for one in client.servers()))

    def clear(self) -> None:
        """Leaves the servers empty for the sequences that follow, after a failure."""
        for one in self.begun:
            one.future.exception(PATIENCE)
        with suppress(ts.NotFound):
            self.clients["near"].delete(self.name)


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_random_calls_put_and_get_what_numpy_has(stage: Stage, seed: int) -> None:
    sequence = Sequence(stage, seed)
    try:
        sequence.run()
    except BaseException:
        sequence.clear()
        raise
