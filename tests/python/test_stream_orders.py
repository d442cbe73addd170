"""Copies without `stream=` are ordered with the streams of the libraries that made the arrays.

On emulated GPUs, whose streams the tests hold: kernels before a copy have not run when it is asked
for. The same with PyTorch, CuPy and JAX on real GPUs is in `test_real_stream_orders.py`.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from gpu_support import fixed_gpu_profile
from libraries import InterfaceArray, Library, TableArray

import tranship as ts
from support import PATIENCE

SHAPE = (64, 48)
KINDS = (TableArray, InterfaceArray)
SEEDS = int(os.environ.get("TRANSHIP_TEST_SEEDS", "6"))
"""Random programs that are tried."""


@pytest.fixture(scope="module")
def engine() -> Iterator[ts.Engine]:
    with ts.Engine(emulated_gpus=2, threads=1) as opened:
        yield opened


@pytest.fixture
def library(engine: ts.Engine) -> Iterator[Library]:
    made = Library(engine)
    yield made
    made.close()


@contextmanager
def held(*streams: Any, seconds: float = 0.05) -> Iterator[None]:
    """Holds streams; another thread lets them go a while later, or the body's end does."""
    for stream in streams:
        stream.hold()
    timer = threading.Timer(seconds, lambda: [stream.let_go() for stream in streams])
    timer.start()
    try:
        yield
    finally:
        timer.join()


def number(value: int) -> float:
    """Returns the number whose four bytes have this value."""
    return float(np.full(4, value, "u1").view("f4")[0])


def values(array: Any) -> set[float]:
    """Returns the different numbers in an array of a GPU, whose streams have ended."""
    return set(np.unique(array.on_gpu.numpy()).tolist())


CALLS: dict[str, Callable[[ts.Engine, Any, Any], ts.Event]] = {
    "copy": lambda engine, a, b: engine.copy(a, b),
    "copy_all": lambda engine, a, b: engine.copy_all([(a, b)]),
    "copy_pages": lambda engine, a, b: engine.copy_pages(
        a, b, list(range(SHAPE[0])), list(range(SHAPE[0]))
    ),
    "copy_pieces": lambda engine, a, b: engine.copy_pieces(
        a, b, [0], [0], [4 * SHAPE[0] * SHAPE[1]]
    ),
    "types": lambda engine, a, b: engine.copy(
        a, b, types=(ts.types.contiguous(SHAPE[0] * SHAPE[1], "f4"),) * 2
    ),
    "prepared": lambda engine, a, b: engine.prepare(a, b).start(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
@pytest.mark.parametrize("target_device", [0, 1])
@pytest.mark.parametrize("kinds", [(a, b) for a in KINDS for b in KINDS])
def test_a_copy_comes_after_what_is_queued_and_before_what_follows(
    engine: ts.Engine, library: Library, call: Any, target_device: int, kinds: Any
) -> None:
    source = kinds[0](library, SHAPE, 0)
    target = kinds[1](library, SHAPE, target_device)
    for turn in range(4):  # the engine knows a copy from its third time on
        with held(*library.current):
            source.fill(3 + turn)
            target.fill(1)  # a target that is still being cleared
            call(engine, source, target)
            source.fill(2)  # the source's next use
        assert values(target) == {number(3 + turn)}
        assert values(source) == {number(2)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("megabytes", [0, 8])
def test_copies_of_several_hops(
    engine: ts.Engine, library: Library, kind: Any, megabytes: int
) -> None:
    """They are short, and go through a bounce buffer, or long, and go in tiles."""
    shape = (max(megabytes, 1), 1 << 18) if megabytes else SHAPE
    array, host = kind(library, shape, 0), np.zeros(shape, "f4")
    with held(library.current[0]):
        array.fill(5)
        engine.copy(array, host).wait(timeout=PATIENCE)
    assert set(np.unique(host)) == {number(5)}
    with held(library.current[0]):
        array.fill(6)
        event = engine.copy(array, host)
        array.fill(7)
    event.wait(timeout=PATIENCE)
    assert set(np.unique(host)) == {number(6)}
    host[:] = number(8)
    with held(library.current[0]):
        array.fill(6)
        engine.copy(host, array)
        array.library.current[0].fill(array.on_gpu.__cuda_array_interface__["data"][0], 4, 9)
    assert values(array) == {number(8), number(9)}


def test_a_copy_of_the_engine_s_own_arrays_follows_no_stream(
    engine: ts.Engine, library: Library
) -> None:
    one, other = (engine.empty(SHAPE, "f4", memory="device0") for _ in range(2))
    with held(library.current[0], seconds=0.2):
        begin = time.monotonic()
        event = engine.copy(one, other)
        event.wait(timeout=PATIENCE)
    assert time.monotonic() - begin < PATIENCE


def test_none_leaves_the_order_to_the_caller(engine: ts.Engine, library: Library) -> None:
    source, target = (TableArray(library, SHAPE, 0) for _ in range(2))
    source.fill(4)
    library.current[0].hold()
    source.fill(5)
    for call in (
        lambda: engine.copy(source, target, stream="none"),
        lambda: engine.copy_all([(source, target)], stream="none"),
        lambda: engine.prepare(source, target).start(stream="none"),
    ):
        call().wait(timeout=PATIENCE)  # the stream is held until after it
        assert values(target) == {number(4)}
    library.current[0].let_go()


def test_a_stream_that_is_given_takes_the_place_of_the_current_one(
    engine: ts.Engine, library: Library
) -> None:
    source, target = (TableArray(library, SHAPE, 0) for _ in range(2))
    source.fill(4)
    library.current[0].hold()
    other = library.streams[0][1]
    engine.copy(source, target, stream=other.handle).wait(timeout=PATIENCE)
    assert values(target) == {number(4)}
    library.current[0].let_go()
    with held(other):
        other.fill(source.on_gpu.__cuda_array_interface__["data"][0], 4, 6)
        engine.copy(source, target, stream=other.handle).wait(timeout=PATIENCE)
    assert values(target) == {number(4), number(6)}


def test_a_stream_given_by_number_is_one_of_the_array_s_gpu() -> None:
    profile = json.loads(fixed_gpu_profile())
    for channel in profile["channels"]:
        if channel["kind"] == "gpu_read" and channel["source"].endswith("device0"):
            channel["latency_s"] = 1  # so that the way by the other GPU is faster
    with ts.Engine(emulated_gpus=2, threads=1, profile=json.dumps(profile)) as engine:
        library = Library(engine)
        source, target = TableArray(library, SHAPE, 0), np.zeros(SHAPE, "f4")
        stream = library.streams[0][1]
        with held(stream):
            library.use([stream, library.current[1]])
            source.fill(6)
            event = engine.copy(source, target, stream=stream.handle)
            assert "device1" in str(event.plan), event.plan
            event.wait(timeout=PATIENCE)
        assert set(np.unique(target)) == {number(6)}
        library.close()


def test_a_prepared_copy_asks_for_the_current_stream_at_each_start(
    engine: ts.Engine, library: Library
) -> None:
    for kind in KINDS:
        source, target = (kind(library, SHAPE, 0) for _ in range(2))
        prepared = engine.prepare(source, target)
        for turn in range(4):
            library.use([streams[turn % 2] for streams in library.streams])
            with held(library.current[0]):
                source.fill(10 + turn)
                prepared.start()
                source.fill(1)
            assert values(target) == {number(10 + turn)}


def test_what_is_exported_has_been_written(engine: ts.Engine, library: Library) -> None:
    array = TableArray(library, SHAPE, 0)
    with ts.Engine(contact=True, emulated_gpus=2, threads=1) as exporter:
        own = TableArray(Library(exporter), SHAPE, 0)
        with held(own.library.current[0]):
            own.fill(3)
            exporter.export("array", own)
            assert values(own) == {number(3)}
        own.library.close()
    del array


def test_a_failed_copy_of_several_hops_is_raised_by_the_call(
    engine: ts.Engine, library: Library, tmp_path: Any
) -> None:
    np.save(tmp_path / "short.npy", np.zeros((1 << 10, 1 << 10), "f4"))
    array = TableArray(library, (1 << 10, 1 << 10), 0)
    with ts.File(tmp_path / "short.npy") as file:
        with open(tmp_path / "short.npy", "r+b") as raw:
            raw.truncate(4096)
        with pytest.raises(ts.Error):
            engine.copy(file, array)


class Story:
    """A random program of kernels and copies, and what each array has to hold after it."""

    def __init__(self, engine: ts.Engine, library: Library, seed: int) -> None:
        self.engine, self.library, self.random = engine, library, random.Random(seed)
        self.arrays = [
            self.random.choice(KINDS)(library, SHAPE, self.random.randrange(2)) for _ in range(6)
        ]
        self.hosts = [np.zeros(SHAPE, "f4") for _ in range(2)]
        self.pinned = [engine.empty(SHAPE, "f4", memory="pinned") for _ in range(2)]
        for one in self.pinned:
            one[:] = 0
        self.expected: dict[int, float] = {}
        self.events: list[ts.Event] = []
        self.prepared: dict[tuple[int, int], Any] = {}

    def held_in(self, array: Any) -> float:
        return self.expected.get(id(array), 0.0)

    def step(self) -> None:
        pick = self.random.random()
        if pick < 0.15:
            stream = self.random.choice(self.library.current)
            stream.hold()
            threading.Timer(self.random.uniform(0, 0.004), stream.let_go).start()
        elif pick < 0.5:
            array = self.random.choice(self.arrays)
            value = self.random.randrange(1, 100)
            array.fill(value)
            self.expected[id(array)] = number(value)
        elif pick < 0.6:
            self.change_host()
        else:
            self.copy()

    def settle(self) -> None:
        for event in self.events:
            event.wait(timeout=PATIENCE)
        self.events.clear()

    def change_host(self) -> None:
        """Host arrays are the caller's: it waits before it touches them."""
        self.settle()
        array = self.random.choice([*self.hosts, *self.pinned])
        array[:] = value = number(self.random.randrange(1, 100))
        self.expected[id(array)] = value

    def copy(self) -> None:
        places = [*self.arrays, *self.arrays, *self.hosts, *self.pinned]
        source, target = self.random.sample(places, 2)
        if source is target:
            return
        if isinstance(source, np.ndarray) or isinstance(target, np.ndarray):
            self.settle()
        name = self.random.choice(list(CALLS))
        if name == "prepared":
            key = (id(source), id(target))
            if key not in self.prepared:
                self.prepared[key] = self.engine.prepare(source, target)
            event = self.prepared[key].start()
        else:
            event = CALLS[name](self.engine, source, target)
        self.events.append(event)
        self.expected[id(target)] = self.held_in(source)

    def check(self) -> None:
        self.settle()
        for stream in self.library.current:
            stream.let_go()
        for array in self.arrays:
            event = self.engine.copy(array, host := np.zeros(SHAPE, "f4"))
            event.wait(timeout=PATIENCE)
            assert set(np.unique(host).tolist()) == {self.held_in(array)}
        for array in (*self.hosts, *self.pinned):
            assert set(np.unique(array).tolist()) == {self.held_in(array)}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_orders(engine: ts.Engine, library: Library, seed: int) -> None:
    story = Story(engine, library, seed)
    for _ in range(40):
        story.step()
    story.check()
