"""Nothing is left behind after closing, collecting, forking and exiting."""

from __future__ import annotations

import array
import gc
import mmap
import os
import signal
import sys
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tranship as ts
from support import (
    PATIENCE,
    SOON_S,
    Slow,
    eventually,
    open_files,
    run_script,
    shared_segments,
    threads_of_process,
)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Checks after each test that no thread, descriptor or shared memory of it is left."""
    gc.collect()
    threads, files, segments = threads_of_process(), open_files(), shared_segments()
    yield
    gc.collect()
    assert eventually(lambda: threads_of_process() <= threads), "threads are left"
    assert eventually(lambda: set(open_files()) <= set(files)), (
        f"descriptors are left: {open_files().items() - files.items()}"
    )
    assert eventually(lambda: shared_segments() <= segments), "segments are left in /dev/shm"


def test_thirty_engines_with_everything(profile: str, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.ones((300, 300)))
    contact = tmp_path / "contact"
    for _ in range(15):
        with (
            ts.Engine(contact=contact, profile=profile, threads=2) as owner,
            ts.Engine(profile=profile, threads=2) as other,
        ):
            shared = owner.empty((300, 300))
            owner.export("shared", shared)
            owner.export("plain", np.zeros((300, 300)))
            peer = other.connect(contact)
            target = np.zeros((300, 300))
            other.copy(ts.File(tmp_path / "in.npy"), peer["shared"]).wait(timeout=PATIENCE)
            other.copy(peer["shared"], peer["plain"]).wait(timeout=PATIENCE)
            other.copy(peer["plain"], target).wait(timeout=PATIENCE)
            assert target.all() and shared.all()
        assert not contact.exists(), "the contact file outlived its engine"


def test_an_engine_that_is_collected_without_close(profile: str) -> None:
    for _ in range(3):
        engine = ts.Engine(contact=True, profile=profile, threads=2)
        engine.copy(np.ones(3), np.zeros(3)).wait(timeout=PATIENCE)
        gone = weakref.ref(engine)
        del engine
        gc.collect()
        assert gone() is None


def test_events_and_plans_outlive_their_engine(queueing_profile: str) -> None:
    engine = ts.Engine(profile=queueing_profile, threads=1)
    target = np.zeros(1 << 20, np.uint8)
    event = engine.copy(np.ones(1 << 20, np.uint8), target)
    plan = event.plan
    del engine
    gc.collect()
    event.wait(timeout=PATIENCE)
    assert target.all() and plan.explain()


COLLECT_WHILE_COPYING = """
    import sys
    import numpy as np
    import tranship as ts

    def start():
        engine = ts.Engine(profile=sys.argv[1], threads=2)
        for _ in range(8):
            source, target = np.ones((4096, 4096), np.uint8), np.zeros((4096, 4096), np.uint8)
            engine.copy(source, target.T)

    for _ in range(5):
        start()
    print("collected")
"""


def test_an_engine_that_is_collected_while_it_copies(queueing_profile: str, tmp_path: Path) -> None:
    """Only the engine refers to the events and arrays, and it releases them."""
    path = tmp_path / "profile.json"
    path.write_text(queueing_profile)
    assert run_script(COLLECT_WHILE_COPYING, path) == "collected\n"


EXIT_WHILE_COPYING = """
    import sys
    import numpy as np
    import tranship as ts

    engine = ts.Engine(profile=sys.argv[1], threads=2, contact=True)
    engine.export("a", np.zeros(10))
    source, target = np.ones((8192, 4096), np.uint8), np.zeros((4096, 8192), np.uint8)
    events = [engine.copy(source, target.T) for _ in range(10)]
    plan = events[0].plan
    part = ts.Instance(extents={"x": 3})[1:]
    print("leaving", flush=True)
"""


def test_a_process_may_exit_while_it_copies(queueing_profile: str, tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_text(queueing_profile)
    begin = time.monotonic()
    assert run_script(EXIT_WHILE_COPYING, path) == "leaving\n"
    assert time.monotonic() - begin < SOON_S


def in_child(body: object) -> int:
    """Runs `body` in a fork of this process and returns its exit status."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of forks with threads.
        child = os.fork()
    if child == 0:
        status = 99
        try:
            body()  # type: ignore[operator]
            status = 0
        except BaseException as error:
            print(f"the child failed: {error!r}", file=sys.stderr, flush=True)
            status = 1
        finally:
            os._exit(status)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1


def test_a_fork_must_open_an_engine_of_its_own(queueing_profile: str) -> None:
    engine = ts.Engine(contact=True, profile=queueing_profile, threads=2)
    engine.export("a", np.zeros(4))

    def child() -> None:
        target = np.zeros(4)
        for call in (
            lambda: engine.copy(np.ones(4), target),
            lambda: engine.plan(np.ones(4), target),
            lambda: engine.export("b", target),
        ):
            with pytest.raises(ts.Closed, match=r"forked.*open an engine of its own"):
                call()
        assert not target.any()
        with ts.Engine(contact=True, profile=queueing_profile) as mine:
            mine.copy(np.ones(4), target).wait(timeout=PATIENCE)
        assert target.all()
        engine.close()

    assert in_child(child) == 0
    target = np.zeros(4)
    engine.copy(np.ones(4), target).wait(timeout=PATIENCE)
    assert target.all()
    engine.close()


def test_a_fork_may_collect_its_parents_engine(queueing_profile: str) -> None:
    engine = ts.Engine(contact=True, profile=queueing_profile, threads=2)
    box = [engine]
    contact = engine.contact

    def child() -> None:
        nonlocal engine
        box.clear()
        del engine
        gc.collect()

    assert in_child(child) == 0
    with ts.Engine(profile=queueing_profile) as other:
        box[0].export("a", np.arange(5.0))
        target = np.zeros(5)
        other.copy(other.connect(contact)["a"], target).wait(timeout=PATIENCE)
        assert np.array_equal(target, np.arange(5.0))
    box[0].close()


def test_a_fork_while_copying(queueing_profile: str) -> None:
    with ts.Engine(profile=queueing_profile, threads=2) as engine:
        source, target = np.ones((4096, 4096), np.uint8), np.zeros((4096, 4096), np.uint8)
        event = engine.copy(source, target.T)

        def child() -> None:
            with pytest.raises(ts.Closed):
                engine.copy(np.ones(3), np.zeros(3))
            engine.close()

        assert in_child(child) == 0
        event.wait(timeout=20)
        assert target.all()


def test_everything_of_a_parent_is_closed_in_a_fork(queueing_profile: str) -> None:
    """In the child each call raises Closed at once; the parent's copies go on."""
    slow = Slow()
    server = ts.StagingServer(memory=1 << 26, profile=queueing_profile, threads=1)
    staging = ts.Staging(server.contact, profile=queueing_profile, threads=1)
    engine = ts.Engine(contact=True, profile=queueing_profile, threads=1)
    engine.export("x", engine.empty(4))
    client = ts.Engine(profile=queueing_profile, threads=1)
    peer = client.connect(engine.contact)
    remote = peer["x"]
    staging.put("x", 1, np.ones(3))
    subscription = staging.subscribe("x", lambda *_: None)
    event = slow.start_many(engine)[-1]
    calls: list[Callable[[], object]] = [
        lambda: staging.put("x", 2, np.ones(3)),
        lambda: staging.get("x", 1),
        lambda: staging.get("x", 1, (0,), (3,), np.zeros(3)),
        lambda: staging.ls(),
        lambda: staging.list_steps(),
        lambda: list(staging["x"].versions()),
        lambda: staging.put_async("x", 2, np.ones(3)).result(PATIENCE),
        lambda: server.ls(),
        lambda: server.clients,
        lambda: engine.copy(slow.source, slow.target.T),
        lambda: client.copy(remote, np.zeros(4)),
        lambda: client.connect("nobody"),
        lambda: peer["x"],
        lambda: peer.names(),
        lambda: engine.empty(3),
        lambda: engine.withdraw("x"),
        lambda: event.wait(timeout=PATIENCE),
    ]

    def child() -> None:
        begin = time.monotonic()
        for number, call in enumerate(calls):
            try:
                call()
            except ts.Closed as refused:
                assert "forked" in str(refused), f"{number}: {refused}"
            else:
                raise AssertionError(f"call {number} ended well in a fork")
        event.cancel()
        repr(peer)
        for one in (staging, server, engine, client, peer):
            one.close()
        gc.collect()
        assert time.monotonic() - begin < SOON_S

    assert in_child(child) == 0
    event.wait(timeout=PATIENCE)
    assert slow.done
    staging.put("x", 2, np.ones(3))
    assert staging.get("x", 2).all()
    target = np.ones(4)
    client.copy(remote, target).wait(timeout=PATIENCE)
    assert not target.any()
    subscription.close()
    for one in (staging, client, engine, server):
        one.close()


FORK_AND_EXIT = """
    import os, sys, threading, time
    import numpy as np
    import tranship as ts
    text = open(sys.argv[1]).read()
    server = ts.StagingServer(memory=1 << 26, profile=text, threads=1)
    staging = ts.Staging(server.contact, profile=text, threads=1)
    staging.put("x", 1, np.ones(1 << 16))
    def read():
        while True:
            staging.get("x", 1)
    for _ in range(3):
        threading.Thread(target=read, daemon=True).start()
    staging.get_async("never", 1, (0,), (3,), timeout=60)
    time.sleep(0.1)
    for _ in range(10):
        child = os.fork()
        if child == 0:
            sys.exit(7)
        begin = time.monotonic()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status == 7 and time.monotonic() - begin < 30, status
    assert staging.get("x", 1).all()
    threading.excepthook = lambda *_: None
"""


def test_forks_exit_in_the_middle_of_their_parents_work(
    queueing_profile: str, tmp_path: Path
) -> None:
    """A forked child ends by `sys.exit`, and so runs the interpreter's exit handlers."""
    path = tmp_path / "profile.json"
    path.write_text(queueing_profile)
    assert run_script(FORK_AND_EXIT, path, seconds=2 * PATIENCE) == ""


def test_two_engines_in_one_process(profile: str, queueing_profile: str) -> None:
    with ts.Engine(profile=profile) as one, ts.Engine(profile=queueing_profile) as other:
        targets = [np.zeros(100_000) for _ in range(8)]
        events = [
            (one if k % 2 else other).copy(np.full(100_000, k + 1.0), target)
            for k, target in enumerate(targets)
        ]
        for k, (event, target) in enumerate(zip(events, targets, strict=True)):
            event.wait(timeout=PATIENCE)
            assert (target == k + 1).all()
        one.close()
        other.copy(np.zeros(100_000), targets[0]).wait(timeout=PATIENCE)
        assert not targets[0].any()


def test_shared_memory_outlives_its_engine(profile: str) -> None:
    with ts.Engine(profile=profile) as engine:
        array = engine.empty((64, 64), "f4")
        array[:] = 3
    assert (array == 3).all()


def test_files_are_closed_with_their_last_user(queueing_profile: str, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.ones(100_000))
    with ts.Engine(profile=queueing_profile) as engine:
        before = set(open_files())
        target = np.zeros(100_000)
        event = engine.copy(ts.File(tmp_path / "in.npy"), target)
        event.wait(timeout=PATIENCE)
        del event
        assert eventually(lambda: set(open_files()) <= before)
        assert target.all()


def test_arrays_are_kept_while_they_are_copied(queueing_profile: str) -> None:
    with ts.Engine(profile=queueing_profile, threads=1) as engine:
        target = np.zeros((4096, 4096), np.uint8)
        source = np.ones((4096, 4096), np.uint8)
        count = sys.getrefcount(source)
        *_, before = Slow().start_many(engine)
        event = engine.copy(source.T, target, after=before)
        gone = weakref.ref(source)
        assert sys.getrefcount(source) > count
        del source
        event.wait(timeout=PATIENCE)
        assert target.all()
        assert eventually(lambda: gone() is None), "the array is still held after the copy"


BUFFERS: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "bytearray": (lambda: bytearray(b"A" * (1 << 24)), lambda held: held.clear()),
    "array.array": (lambda: array.array("B", b"A" * (1 << 24)), lambda held: held.pop()),
    "mmap": (lambda: filled(mmap.mmap(-1, 1 << 24)), lambda held: held.close()),
    "memoryview": (lambda: memoryview(bytearray(b"A" * (1 << 24))), lambda held: held.release()),
}


def filled(memory: mmap.mmap) -> mmap.mmap:
    memory.write(b"A" * len(memory))
    return memory


@pytest.mark.parametrize("direction", ["out of", "into", "instance"])
@pytest.mark.parametrize("kind", BUFFERS)
def test_buffers_stay_exported_while_they_are_copied(
    queueing_profile: str, kind: str, direction: str
) -> None:
    """Python refuses to resize or close a buffer while a copy uses it, and not afterwards."""
    make, shrink = BUFFERS[kind]
    with ts.Engine(profile=queueing_profile, threads=1) as engine:
        slow = Slow()
        held, other = make(), np.full(1 << 24, 66, np.uint8)
        end = (
            ts.Instance(held, extents={"x": 1 << 24}, fields="u1")
            if direction == "instance"
            else held
        )
        pair = (other, end) if direction == "into" else (end, other)
        before = engine.copy(*pair, after=slow.start_many(engine)[-1])
        event = engine.copy(*pair, after=before)
        del end, pair
        with pytest.raises(BufferError):
            shrink(held)
        event.wait(timeout=PATIENCE)
        del before, event
        assert other[0] == other[-1] == (66 if direction == "into" else 65)
        assert eventually(lambda: shrinks(held, shrink)), "it stays exported after the copy"


def shrinks(held: Any, shrink: Callable[[Any], object]) -> bool:
    try:
        shrink(held)
    except BufferError:
        return False
    return True


def test_buffers_of_copies_that_ended_in_the_call_are_free_at_once(profile: str) -> None:
    with ts.Engine(profile=profile, threads=1) as engine:
        held, target = bytearray(b"A" * 100), np.zeros(100, np.uint8)
        event = engine.copy(held, target)
        event.wait()
        held.clear()
        assert (target == 65).all() and event.done()


def test_an_array_is_not_resized_while_it_is_copied(queueing_profile: str) -> None:
    with ts.Engine(profile=queueing_profile, threads=1) as engine:
        slow = Slow()
        source, target = np.ones(1 << 20, np.uint8), np.zeros(1 << 20, np.uint8)
        event = engine.copy(source, target, after=slow.start_many(engine)[-1])
        with pytest.raises(ValueError, match="referenc"):
            source.resize(10)
        event.wait(timeout=PATIENCE)
        assert target.all()


def test_owners_are_let_go_of_while_the_interpreter_is_busy(queueing_profile: str) -> None:
    """The interpreter releases the arrays of ended copies without any call of the package."""
    with ts.Engine(profile=queueing_profile, threads=1) as engine:
        source, target = np.ones((4096, 4096), np.uint8), np.zeros((4096, 4096), np.uint8)
        event = engine.copy(source.T, target)
        gone = weakref.ref(source)
        del source, event
        assert eventually(lambda: gone() is None)


def test_failures_leave_no_buffers(queueing_profile: str, tmp_path: Path) -> None:
    with ts.Engine(profile=queueing_profile, threads=2) as engine:
        for k in range(5):
            path = tmp_path / f"{k}.bin"
            path.write_bytes(bytes(8 << 20))
            file = ts.File(path, extents={"x": 1024, "y": 1024}, layout="x, y, F")
            os.truncate(path, 100_000)
            with pytest.raises(ts.Error):
                engine.copy(file, np.zeros((1024, 1024)), planner="simple").wait(timeout=PATIENCE)
        assert eventually(lambda: engine._core.buffer_bytes_in_use == 0)
