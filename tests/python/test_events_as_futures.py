"""Events as futures, and what answers where there is no plan."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import json
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tranship as ts
from support import PATIENCE, Slow


@pytest.fixture
def engine() -> Iterator[ts.Engine]:
    with ts.Engine(threads=1) as opened:
        yield opened


def slow(engine: ts.Engine) -> ts.Event:
    """Returns the event of a copy behind some that take long together."""
    return Slow().start_many(engine)[-1]


def test_a_copy_that_has_ended_is_a_future_that_has(engine: ts.Engine) -> None:
    event = engine.copy(np.zeros(3), np.ones(3))
    assert event.result() is None and event.exception(0) is None
    assert not event.cancel() and not event.cancelled() and not event.running() and event.done()


def test_a_copy_that_is_cancelled(engine: ts.Engine) -> None:
    event = slow(engine)
    assert event.running() and not event.cancelled()
    with pytest.raises(ts.Timeout):
        event.exception(0)
    assert event.cancel()
    with pytest.raises(ts.Cancelled):
        event.result(PATIENCE)
    assert event.cancelled() and event.cancel() and not event.running()
    assert isinstance(event.exception(), ts.Cancelled)


def test_several_copies_that_are_cancelled(engine: ts.Engine) -> None:
    before = slow(engine)
    a, b, c, d = (np.zeros(10) for _ in range(4))
    event = engine.copy_all([(a, b), (c, d)], after=before)
    assert event.cancel()
    assert isinstance(event.exception(PATIENCE), ts.Cancelled) and event.cancelled()
    before.cancel()


def test_concurrent_futures_waits_for_events(engine: ts.Engine) -> None:
    quick, later = engine.copy(np.zeros(3), np.ones(3)), slow(engine)
    some: list[Any] = [quick, later]
    done, rest = concurrent.futures.wait(
        some,
        timeout=PATIENCE,
        return_when=concurrent.futures.FIRST_COMPLETED,
    )
    assert done == {quick} and rest == {later}
    later.cancel()
    both: list[Any] = [later, quick]
    assert set(concurrent.futures.as_completed(both, timeout=PATIENCE)) == {quick, later}
    assert not concurrent.futures.wait(both, timeout=PATIENCE).not_done


def test_copies_of_nothing_answer_every_question(engine: ts.Engine) -> None:
    empty, other = np.zeros((0, 3)), np.ones((0, 3))
    prepared = engine.prepare_all([])
    events = [
        engine.copy(empty, other),
        engine.copy_all([]),
        engine.copy_all([], types=[]),
        engine.copy_all([(empty, other)]),
        engine.copy_pages(np.zeros((2, 2)), np.zeros((2, 2)), [], []),
        engine.copy_pieces(np.zeros(2), np.zeros(2), [], [], []),
        prepared.start(),
        engine.prepare(empty, other).start(),
        engine.prepare_all([], types=[]).start(),
    ]
    plans = [event.plan for event in events]
    plans += [prepared.plan, engine.plan(empty, other), engine.prepare(empty, other).plan]
    for plan in plans:
        assert isinstance(plan.explain(), str) and json.loads(plan.to_json())["bytes"] == 0
        assert plan.bytes == 0 and plan.seconds >= 0 and plan.throughput_gbps >= 0
        assert isinstance(plan.binding, str) and isinstance(plan.path, str)
        assert (
            isinstance(plan.direct, bool) and plan.planner and repr(plan) and str(plan) == plan.path
        )
    for event in events:
        assert event.result(PATIENCE) is None and event.done() and repr(event)
        assert not event.cancel() and not event.cancelled()
    assert prepared.nbytes == 0 and repr(prepared)
    with pytest.raises(ts.InvalidArgument):
        prepared.start(source=np.zeros(3), target=np.zeros(3))


def test_events_are_awaited_together(engine: ts.Engine) -> None:
    async def both() -> list[None]:
        arrays = [np.zeros(1 << 20), np.ones(1 << 20)]
        return list(
            await asyncio.gather(engine.copy(*arrays), engine.copy(np.zeros(3), np.ones(3)))
        )

    assert asyncio.run(both()) == [None, None]


def test_progress_of_copies_that_have_ended(engine: ts.Engine) -> None:
    event = engine.copy(np.zeros(1000), np.ones(1000))
    assert event.progress() == (8000, 8000, 0.0) and event.progress().bytes_done == 8000
    pairs = [(np.zeros(k), np.ones(k)) for k in (1000, 20, 3, 0)]
    for _ in range(4):  # the first is planned, later ones are known
        assert engine.copy_all(pairs).progress() == (8184, 8184, 0.0)
    pages = np.zeros((4, 100)), np.ones((4, 100)), [0, 2], [1, 3]
    assert engine.copy_pages(*pages).progress()[:2] == (1600, 1600)
    assert engine.copy(np.zeros((0, 3)), np.ones((0, 3))).progress() == (0, 0, 0.0)
    assert engine.copy_all([]).progress() == (0, 0, 0.0)
    large = engine.copy(np.zeros(1 << 21), np.ones(1 << 21))
    large.wait(PATIENCE)
    assert large.progress() == (1 << 24, 1 << 24, 0.0)


def test_progress_of_a_copy_rises_to_its_end(engine: ts.Engine) -> None:
    before = slow(engine)
    copy = Slow()
    event = copy.start(engine, after=before)
    waiting = event.progress()
    assert waiting.bytes_done == 0 and waiting.bytes_total == copy.target.nbytes
    assert waiting.seconds_left is not None and waiting.seconds_left > 0
    before.cancel()
    assert event.exception(PATIENCE) is not None  # it follows a copy that was cancelled
    assert event.progress() == (0, copy.target.nbytes, 0.0)
    event = copy.start(engine)
    seen = [event.progress()]
    while not event.done():
        seen.append(event.progress())
    seen.append(event.progress())
    done = [one.bytes_done for one in seen]
    left = [one.seconds_left for one in seen]
    assert done == sorted(done) and done[-1] == copy.target.nbytes
    assert left == sorted(left, key=lambda one: -(one or 0.0)) and left[-1] == 0.0
    assert {one.bytes_total for one in seen} == {copy.target.nbytes}


def test_progress_of_a_copy_that_is_cancelled_stays_where_it_was(engine: ts.Engine) -> None:
    for _ in range(20):  # it may end before it is cancelled
        copy = Slow()
        event = copy.start(engine)
        while event.progress().bytes_done == 0 and not event.done():
            pass
        cancelled = event.cancel()
        event.exception(PATIENCE)
        stopped = event.progress()
        assert stopped.seconds_left == 0.0 and event.progress() == stopped
        assert cancelled == (stopped.bytes_done < stopped.bytes_total)
        assert stopped.bytes_done <= np.count_nonzero(copy.target)
        if cancelled:
            return
    pytest.fail("no copy could be cancelled in time")


@pytest.mark.parametrize("seed", range(5))
def test_progress_of_random_copies(engine: ts.Engine, seed: int) -> None:
    dice = random.Random(seed)
    events: list[tuple[ts.Event, int]] = []
    for _ in range(40):
        lengths = [dice.choice([0, 1, 1000, 100_000, 2_000_000]) for _ in range(dice.randrange(4))]
        pairs = [(np.zeros(length, np.uint8), np.ones(length, np.uint8)) for length in lengths]
        after = dice.choice(events)[0] if events and dice.random() < 0.5 else None
        with contextlib.suppress(ts.Cancelled):  # what it follows was cancelled
            events.append((engine.copy_all(pairs, after=after), sum(lengths)))
        if events and dice.random() < 0.1:
            dice.choice(events)[0].cancel()
        for event, total in events:
            ended = event.done()
            progress = event.progress()
            assert 0 <= progress.bytes_done <= progress.bytes_total
            if not event.cancelled():
                assert progress.bytes_total == total
            if ended and event.exception(0) is None:
                assert progress == (total, total, 0.0)
    for event, _ in events:
        event.exception(PATIENCE)


def test_progress_of_a_copy_that_one_gpu_carries_is_nothing_or_all() -> None:
    size = 1 << 22
    with ts.Engine(threads=1, emulated_gpus=2) as engine:
        there = [engine.empty(size, "u1", memory=f"device{k}") for k in (0, 1)]
        engine.copy(np.ones(size, np.uint8), there[0]).wait(PATIENCE)
        for source, target in (there, there[::-1], (there[0], there[1][::-1])):
            event = engine.copy(source[: size // 2], target[size // 2 :])
            while not event.done():
                done, total, _ = event.progress()
                assert 0 <= done <= total == size // 2
                assert done in (0, total) or not event.plan.direct
            assert event.progress() == (size // 2, size // 2, 0.0)
        pairs = [(there[0][k : k + 8], there[1][k : k + 8]) for k in range(0, 800, 8)]
        event = engine.copy_all(pairs)
        event.wait(PATIENCE)
        assert event.progress() == (800, 800, 0.0)
