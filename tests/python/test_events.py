"""Events: waiting, timeouts, order, cancelling at every stage, Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import tranship as ts
from support import PATIENCE, SOON_S, Slow, eventually

ATTEMPTS = 20
"""Copies of which at least one is cancelled in flight: on a busy machine others end before."""


def test_waiting_ends_with_the_copy(any_engine: ts.Engine) -> None:
    slow = Slow()
    event = slow.start(any_engine)
    event.wait()
    assert event.done() and slow.done
    event.wait(timeout=0)


def test_a_timeout_leaves_the_copy_running(any_engine: ts.Engine) -> None:
    slow = Slow()
    event = slow.start_many(any_engine)[-1]
    begin = time.monotonic()
    with pytest.raises(ts.Timeout, match=r"it goes on.*wait again, or cancel") as raised:
        event.wait(timeout=0.002)
    assert time.monotonic() - begin < SOON_S
    assert isinstance(raised.value, TimeoutError) and raised.value.code == "timeout"
    event.wait(timeout=PATIENCE)
    assert slow.done


def test_a_timeout_of_nothing_asks_only(any_engine: ts.Engine) -> None:
    event = Slow().start_many(any_engine)[-1]
    for timeout in (0, -1.0):
        with pytest.raises(ts.Timeout):
            event.wait(timeout=timeout)
    event.wait(timeout=PATIENCE)


def test_after_orders_copies(any_engine: ts.Engine) -> None:
    slow = Slow()
    last = np.zeros_like(slow.target)
    first = slow.start(any_engine)
    small = np.zeros(3)
    second = any_engine.copy(slow.target, last, after=first)
    third = any_engine.copy(np.ones(3), small, after=[first, second])
    third.wait(timeout=PATIENCE)
    assert first.done() and second.done()
    assert last.all() and small.all()


def test_a_chain_of_copies(any_engine: ts.Engine) -> None:
    """Each copy reads what the copy before it has written."""
    rows = np.zeros((40, 100_000), np.uint8)
    rows[0] = np.arange(100_000, dtype=np.int64).astype(np.uint8)
    event = any_engine.copy(rows[0], rows[1])
    for k in range(1, 39):
        event = any_engine.copy(rows[k], rows[k + 1], after=event)
    event.wait(timeout=PATIENCE)
    assert (rows == rows[0]).all()


def test_after_events_of_another_engine(engine: ts.Engine, queueing_engine: ts.Engine) -> None:
    slow = Slow()
    target = np.zeros(5)
    event = engine.copy(np.ones(5), target, after=slow.start(queueing_engine))
    event.wait(timeout=PATIENCE)
    assert slow.done and target.all()


def test_after_an_event_that_failed(any_engine: ts.Engine) -> None:
    first = Slow().start_many(any_engine)[-1]
    waiting = np.zeros(5)
    second = any_engine.copy(np.ones(5), waiting, after=first)
    first.cancel()
    with pytest.raises(ts.Cancelled):
        first.wait(timeout=60)
    with pytest.raises(ts.Cancelled):
        second.wait(timeout=60)
    with pytest.raises(ts.Cancelled):
        any_engine.copy(np.ones(5), waiting, after=first).wait(timeout=60)
    assert not waiting.any()


def test_cancel_before_the_start(any_engine: ts.Engine) -> None:
    slow = Slow()
    first = slow.start_many(any_engine)[-1]
    target = np.zeros(1 << 20, np.uint8)
    second = any_engine.copy(np.ones(1 << 20, np.uint8), target, after=first)
    second.cancel()
    with pytest.raises(ts.Cancelled, match="cancelled") as raised:
        second.wait(timeout=60)
    assert raised.value.code == "cancelled"
    first.wait(timeout=PATIENCE)
    assert slow.done and not target.any()


def cancelled(event: ts.Event) -> bool:
    """Cancels a copy and waits for its end; returns whether that was before the copy was whole."""
    event.cancel()
    try:
        event.wait(timeout=PATIENCE)
    except ts.Cancelled:
        return True
    return False


def test_cancel_in_flight(any_engine: ts.Engine) -> None:
    for _ in range(ATTEMPTS):
        slow = Slow()
        event = slow.start(any_engine)
        assert eventually(lambda slow=slow: bool(slow.target[::32, ::32].any()))
        whole = not cancelled(event)
        if not slow.done:
            break  # Else its last bytes were on their way when it was cancelled.
    else:
        pytest.fail(f"of {ATTEMPTS} copies none was cancelled in flight")
    assert event.done() and not whole
    written = int(slow.target.sum(dtype=np.int64))
    time.sleep(0.05)
    assert written == int(slow.target.sum(dtype=np.int64)), "written to after the event's end"
    assert any_engine._core.buffer_bytes_in_use == 0


def test_cancel_after_the_end(any_engine: ts.Engine) -> None:
    target = np.zeros(1 << 20, np.uint8)
    event = any_engine.copy(np.ones(1 << 20, np.uint8), target)
    event.wait(timeout=60)
    event.cancel()
    event.wait(timeout=60)
    assert target.all()


def test_cancel_twice(any_engine: ts.Engine) -> None:
    event = Slow().start_many(any_engine)[-1]
    event.cancel()
    event.cancel()
    with pytest.raises(ts.Cancelled):
        event.wait(timeout=60)


def test_cancel_between_files_gives_the_buffers_back(any_engine: ts.Engine, tmp_path: Path) -> None:
    shape = (8192, 1024)
    np.save(tmp_path / "in.npy", np.ones(shape))
    source = ts.File(tmp_path / "in.npy")
    for _ in range(ATTEMPTS):
        target = ts.File(
            tmp_path / "out.npy", mode="w", extents=shape, fields="f8", layout="d0, d1"
        )
        event = any_engine.copy(source, target, buffer_bytes=1 << 20)
        while any_engine._core.buffer_bytes_in_use == 0 and not event.done():
            pass  # A copy of files may be over before a sleep is.
        if cancelled(event):
            break
    else:
        pytest.fail(f"of {ATTEMPTS} copies none was cancelled in flight")
    assert eventually(lambda: any_engine._core.buffer_bytes_in_use == 0)


def test_priority_overtakes(queueing_profile: str) -> None:
    with ts.Engine(profile=queueing_profile, threads=1) as engine:
        slow = Slow()
        low = [slow.start(engine) for _ in range(30)]
        small = np.zeros(1 << 16, np.uint8)
        engine.copy(np.ones(1 << 16, np.uint8), small, priority=10).wait(timeout=PATIENCE)
        assert small.all()
        assert not low[-1].done(), "the urgent copy went last"
        low[0].wait(timeout=PATIENCE)
        assert slow.done


def test_equal_priorities_keep_their_order(queueing_profile: str) -> None:
    with ts.Engine(profile=queueing_profile, threads=1) as engine:
        slow = Slow()
        first = slow.start(engine, priority=-5)
        second = Slow().start(engine, priority=-5)
        second.wait(timeout=PATIENCE)
        assert first.done() and slow.done


def test_ctrl_c_is_heard_while_waiting(queueing_profile: str) -> None:
    with ts.Engine(profile=queueing_profile, threads=1) as engine:
        slow = Slow()
        events = [slow.start(engine) for _ in range(300)]
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        begin = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            events[-1].wait()
        assert time.monotonic() - begin < SOON_S
        assert not events[-1].done()
        begin = time.monotonic()
    assert time.monotonic() - begin < SOON_S, (
        "closing an engine with outstanding copies took too long"
    )
    with pytest.raises(ts.Closed, match="closed before"):
        events[-1].wait(timeout=1)


def test_closing_ends_what_is_outstanding(queueing_profile: str) -> None:
    engine = ts.Engine(profile=queueing_profile, threads=1)
    events = Slow().start_many(engine)
    after = engine.copy(np.ones(3), np.zeros(3), after=events[-1])
    engine.close()
    assert all(event.done() for event in [*events, after])
    for event in (events[-1], after):
        with pytest.raises(ts.Closed):
            event.wait(timeout=1)
    assert engine._core.buffer_bytes_in_use == 0


def test_many_waiters_for_one_event(queueing_engine: ts.Engine) -> None:
    slow = Slow()
    event = slow.start(queueing_engine)
    seen: list[bool] = []

    def wait() -> None:
        event.wait(timeout=PATIENCE)
        seen.append(slow.done)

    threads = [threading.Thread(target=wait) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=PATIENCE)
    assert seen == [True] * 8
