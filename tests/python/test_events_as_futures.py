"""Events as futures, and what answers where there is no plan."""

from __future__ import annotations

import concurrent.futures
import json
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
