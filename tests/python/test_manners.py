"""Public objects behave as Python programmers expect: repr, iteration, await, pickling, fields."""

from __future__ import annotations

import asyncio
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tranship as ts
from support import Slow


@pytest.fixture(scope="module")
def engine(profile: str) -> Iterator[ts.Engine]:
    with ts.Engine(profile=profile, contact=True, threads=1) as opened:
        yield opened


@pytest.fixture
def waiting(queueing_profile: str) -> Iterator[ts.Event]:
    """Yields the event of the last of some copies, on an engine of its own."""
    with ts.Engine(profile=queueing_profile, threads=1) as engine:
        yield Slow().start_many(engine)[-1]


def test_reprs(engine: ts.Engine, tmp_path: Path, profile: str) -> None:
    a, b = np.zeros(3), np.zeros(3)
    event = engine.copy(a, b)
    assert repr(event) == "<Event done: node0/host0 > node0/host0>"
    assert repr(event.plan).startswith("<Plan node0/host0 > node0/host0: 24 bytes, planner ")
    assert repr(engine).startswith("<Engine on ") and engine.contact in repr(engine)
    assert repr(engine.connect(engine.contact)).startswith("<Peer ")
    with ts.Engine(profile=profile, threads=1) as other:
        assert "contact" not in repr(other)
    assert repr(other) == "<Engine closed>"
    np.save(tmp_path / "f.npy", a)
    assert "f.npy: d0=3; float64" in repr(ts.File(tmp_path / "f.npy"))
    assert repr(ts.Instance(extents={"n": 3})) == "<Instance: n=3; float64; F, n>"
    halo = engine.halo(np.zeros((4, 4)), 1, periodic=True)
    assert repr(halo).startswith("<Halo: 96 bytes an exchange, ")
    assert not [name for name in dir(ts.Staging) if name == "exit_order"]


def test_reprs_of_gpu_memory(profile: str) -> None:
    with ts.Engine(emulated_gpus=1, threads=1) as engine:
        held = engine.pin(np.zeros(1 << 12))
        assert repr(held) == "<Pinned: 32768 bytes>"
        held.release()
        assert repr(held) == "<Pinned: released>"
        array = engine.empty(3, memory="device0")
        with pytest.raises(TypeError, match=r"send array\.numpy\(\)"):
            pickle.dumps(array)


def test_a_failed_event_says_so(engine: ts.Engine, tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", np.zeros(1 << 16))
    file = ts.File(tmp_path / "f.npy")
    os.truncate(tmp_path / "f.npy", 200)
    event = engine.copy(file, np.zeros(1 << 16))
    with pytest.raises(ts.Error):
        event.wait(timeout=30)
    assert repr(event).startswith("<Event failed (")


def test_awaiting(engine: ts.Engine, waiting: ts.Event) -> None:
    async def several() -> list[float]:
        sources = [np.full(1 << 20, float(k)) for k in range(8)]
        targets = [np.empty(1 << 20) for _ in sources]
        await asyncio.gather(*(one(a, b) for a, b in zip(sources, targets, strict=True)))
        await waiting
        assert waiting.done()
        return [target[-1] for target in targets]

    async def one(a: np.ndarray, b: np.ndarray) -> None:
        await engine.copy(a, b)

    assert asyncio.run(several()) == list(range(8))


def test_awaiting_what_fails(engine: ts.Engine, tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", np.zeros(1 << 20))
    file = ts.File(tmp_path / "f.npy")
    os.truncate(tmp_path / "f.npy", 200)

    async def fail() -> None:
        await engine.copy(file, np.zeros(1 << 20))

    with pytest.raises(ts.Error):
        asyncio.run(fail())


def test_a_cancelled_coroutine_leaves_the_copy_alone(waiting: ts.Event) -> None:
    async def leave() -> None:
        async def wait() -> None:
            await waiting

        task = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(leave())
    waiting.wait(timeout=30)


def test_callbacks(engine: ts.Engine, waiting: ts.Event) -> None:
    seen: list[tuple[bool, bool]] = []
    called = threading.Event()

    def callback(event: ts.Event) -> None:
        seen.append((event is waiting or event.done(), threading.current_thread().daemon))
        if len(seen) == 3:
            called.set()

    waiting.add_done_callback(callback)
    waiting.add_done_callback(callback)
    engine.copy(np.zeros(3), np.zeros(3)).add_done_callback(callback)
    assert called.wait(timeout=30)
    assert seen == [(True, True)] * 3


def test_a_callback_that_raises(engine: ts.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: raised.append(args.exc_value))
    called = threading.Event()

    def fail(event: ts.Event) -> None:
        raise KeyError("mine")

    event = engine.copy(np.zeros(3), np.zeros(3))
    event.add_done_callback(fail)
    event.add_done_callback(lambda _: called.set())
    assert called.wait(timeout=30)
    assert len(raised) == 1 and isinstance(raised[0], KeyError)


def test_callbacks_in_a_fork(engine: ts.Engine, profile: str) -> None:
    engine.copy(np.zeros(3), np.zeros(3)).add_done_callback(lambda _: None)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            called = threading.Event()
            with ts.Engine(profile=profile, threads=1) as mine:
                mine.copy(np.zeros(3), np.zeros(3)).add_done_callback(lambda _: called.set())
                code = 0 if called.wait(timeout=20) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_fields_are_selected_by_name(engine: ts.Engine, tmp_path: Path) -> None:
    records = np.zeros((3, 4), [("mass", "f8"), ("id", "i4")])
    records["mass"] = np.arange(12).reshape(3, 4)
    records["id"] = 7
    columns = ts.Instance(extents={"x": 3, "y": 4}, fields=records.dtype, layout="x, y, F")
    engine.copy(records, columns).wait()
    np.save(tmp_path / "records.npy", records)
    for array in (
        columns,
        ts.File(tmp_path / "records.npy"),
        ts.Instance(records, extents={"x": 3, "y": 4}, fields=records.dtype),
    ):
        mass = array["mass"]
        assert type(mass) is type(array) and mass.dtype == np.dtype("f8")
        assert np.array_equal(mass, records["mass"])
        assert np.array_equal(array[1:, ::2]["mass"], records[1:, ::2]["mass"])
        assert np.array_equal(array["mass"][1:, ::2], records["mass"][1:, ::2])
        out = np.zeros((3, 4))
        engine.copy(mass, out).wait()
        assert np.array_equal(out, records["mass"])
    engine.copy(np.ones((3, 4), "i4"), columns["id"]).wait()
    assert (np.asarray(columns)["id"] == 1).all()
    assert np.array_equal(np.asarray(columns)["mass"], records["mass"])
    with pytest.raises(ts.NotFound, match=r"no field 'mas'; name one of its fields: mass, id"):
        columns["mas"]
    blocked = ts.Instance(extents={"x": 4}, fields=records.dtype, layout="x:2, F, x")
    with pytest.raises(ts.InvalidArgument, match="has blocks"):
        blocked["mass"]


def test_fields_on_a_gpu(profile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSHIP_EMULATED_GPUS", "1")
    with ts.Engine(threads=1) as engine:
        records = np.zeros(5, [("mass", "f8"), ("id", "i4")])
        device = engine.empty(5, records.dtype, memory="device0")
        engine.copy(records, device).wait()
        engine.copy(np.arange(5.0), device["mass"]).wait()
        assert np.array_equal(device.numpy()["mass"], np.arange(5.0))
        grid = engine.empty((2, 3, 4), memory="device0")
        assert grid.T.shape == grid.transpose().shape == (4, 3, 2)
        assert grid.transpose(1, 0, 2).shape == grid.transpose((1, 0, -1)).shape == (3, 2, 4)
        for order in ((0, 0, 1), (0, 1), ("x", 0, 1), (0, 1, 3)):
            with pytest.raises(ts.InvalidArgument, match="is not an order of 3 dimensions"):
                grid.transpose(*order)
        with pytest.raises(ts.NotFound, match="no field 'mass'"):
            grid["mass"]


def test_arrays_are_sequences(engine: ts.Engine) -> None:
    array = ts.Instance(np.arange(6.0), extents={"x": 2, "y": 3})
    assert len(array) == 2 and [row.shape for row in array] == [(3,), (3,)]
    assert 5.0 in array and 6.0 not in array
    with pytest.raises(TypeError, match="ambiguous"):
        bool(array)
    with pytest.raises(TypeError, match="without dimensions"):
        len(array[0, 0])


def test_peers_are_collections(engine: ts.Engine) -> None:
    held = np.arange(3.0)
    engine.export("held", held)
    with engine.connect(engine.contact) as peer:
        assert "held" in peer and "other" not in peer
        assert list(peer) == peer.names() and len(peer) == len(peer.names())
        assert len(peer["held"]) == 3 and np.array_equal(peer["held"], held)
        assert peer
    with pytest.raises(ts.Closed):
        peer.names()
    engine.withdraw("held")


def test_what_is_not_pickled(engine: ts.Engine, tmp_path: Path) -> None:
    event = engine.copy(np.zeros(3), np.zeros(3))
    np.save(tmp_path / "f.npy", np.zeros(3))
    objects: list[Any] = [
        engine,
        engine.connect(engine.contact),
        event,
        event.plan,
        ts.Instance(extents={"x": 3}),
        ts.File(tmp_path / "f.npy"),
    ]
    for one in objects:
        with pytest.raises(TypeError, match=rf"an? {type(one).__name__} cannot be pickled: .*; "):
            pickle.dumps(one)


def test_errors_are_pickled() -> None:
    error = pickle.loads(pickle.dumps(ts.InvalidArgument("a message", "a hint")))
    assert (error.message, error.hint) == ("a message", "a hint")


Opener = Callable[[], Any]


def test_context_managers(profile: str, tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", np.zeros(3))
    opened: list[Opener] = [
        lambda: ts.Engine(profile=profile, threads=1),
        lambda: ts.File(tmp_path / "f.npy"),
    ]
    for make in opened:
        with make() as one:
            assert "closed" not in repr(one)
        one.close()  # Closing twice is allowed.
