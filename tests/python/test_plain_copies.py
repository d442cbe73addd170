"""Short copies between NumPy arrays that an engine has carried before."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tranship as ts


@settings(max_examples=200)
@given(data=st.data())
def test_the_same_copy_with_other_memory(engine: ts.Engine, data: st.DataObject) -> None:
    rank = data.draw(st.integers(0, 5))
    shape = tuple(data.draw(st.integers(0, 4)) for _ in range(rank))
    kind = data.draw(st.sampled_from(["u1", "i2", "f4", ">f4", "f8", "c16", "b1", "M8[ns]"]))
    order = data.draw(st.permutations(range(rank)))
    steps = tuple(slice(None, None, data.draw(st.sampled_from([1, -1, 2]))) for _ in range(rank))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    for _ in range(3):
        raw = rng.integers(0, 2, (*shape, np.dtype(kind).itemsize), "u1")
        source = np.asarray(raw.view(kind)[..., 0].transpose(order)[steps])
        target = np.zeros_like(source)
        engine.copy(source, target).wait(timeout=60)
        assert target.tobytes() == source.tobytes()


def test_what_changes_between_two_copies_is_seen(engine: ts.Engine) -> None:
    pool = np.arange(100.0)
    for _ in range(2):
        engine.copy(pool[:40], pool[50:90])
    with pytest.raises(ts.InvalidArgument, match="overlap"):
        engine.copy(pool[:40], pool[30:70])
    with pytest.raises(ts.InvalidArgument, match="overlap"):
        engine.copy(pool[:40], pool[:40])
    even, odd = pool[::2], pool[1::2]  # They interleave, and do not overlap.
    for _ in range(2):
        engine.copy(even, odd)
        assert np.array_equal(even, odd)
    target = np.zeros(40)
    engine.copy(pool[:40], target)
    target.flags.writeable = False
    with pytest.raises(ts.InvalidArgument, match="read-only"):
        engine.copy(pool[:40], target)
    with pytest.raises(ts.InvalidArgument):
        engine.copy(pool[:40].view("i8"), np.zeros(40))
    with pytest.raises(ts.InvalidArgument, match="extent"):
        engine.copy(pool[:40], np.zeros(41))
    with pytest.raises(ts.InvalidArgument, match="planner"):
        engine.copy(pool[:40], np.zeros(40), planner="best")  # type: ignore[arg-type]
    with pytest.raises(ts.InvalidArgument, match="not an event"):
        engine.copy(pool[:40], np.zeros(40), after="noon")


def test_each_engine_remembers_its_own(profile: str) -> None:
    source, target = np.ones(16), np.zeros(16)
    with ts.Engine(profile=profile) as first:
        for _ in range(2):
            assert first.copy(source, target).plan.direct
    with pytest.raises(ts.Closed):
        first.copy(source, target)
    with pytest.raises(ts.Closed):
        first.copy_all([(source, target)])
    with ts.Engine(profile=profile) as second:
        event = second.copy(source, target)
        assert event.done()
        assert event.plan.path == "node0/host0 > node0/host0"


def test_lists_of_short_copies(any_engine: ts.Engine) -> None:
    values = np.random.default_rng(3).random((300, 20))
    for pairs in (list, tuple, iter):
        target = np.zeros_like(values)
        given: Any = pairs(zip(values, target, strict=True))  # type: ignore[operator]
        any_engine.copy_all(given).wait(timeout=60)
        assert np.array_equal(target, values)
    mixed: list[Any] = [(values[0], np.zeros(20)), (values[1].tobytes(), bytearray(160))]
    any_engine.copy_all(mixed).wait(timeout=60)
    assert mixed[0][1].tolist() == values[0].tolist()
    assert mixed[1][1] == values[1].tobytes()
    large = np.random.default_rng(4).random((50, 8000))
    target = np.zeros_like(large)
    any_engine.copy_all(list(zip(large, target, strict=True))).wait(timeout=60)
    assert np.array_equal(target, large)
    with pytest.raises(ts.InvalidArgument, match="extent"):
        any_engine.copy_all([(values[0], np.zeros(20)), (values[0], np.zeros(21))])


@pytest.mark.parametrize("elements", [10, 2000])
def test_long_lists_of_known_and_new_copies(any_engine: ts.Engine, elements: int) -> None:
    """Lists that are carried with the interpreter's lock held, and longer ones without it."""
    rng = np.random.default_rng(elements)
    values = rng.random((600, elements))
    for _ in range(3):
        target = np.zeros((600, elements + 1))
        rows: list[Any] = [(values[k], target[k, :elements]) for k in range(600)]
        rows[7] = (values[7, ::2], target[7, : len(values[7, ::2])])  # of another shape
        rows[8] = (values[8].astype("f4"), np.zeros(elements, "f4"))
        any_engine.copy_all(rows).wait(timeout=60)
        for k, (source, got) in enumerate(rows):
            assert np.array_equal(source, got), k
        assert not target[:, elements].any()
    rows.append((target[0, :-1], target[0, 1:]))  # known shapes that overlap
    with pytest.raises(ts.InvalidArgument, match="overlap"):
        any_engine.copy_all(rows)


def test_threads_copy_the_same_shapes(engine: ts.Engine) -> None:
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            source, target = np.full((30, 40), float(number)), np.zeros((40, 30))
            for _ in range(500):
                target[:] = -1
                engine.copy(source.T, target)
                assert (target == number).all()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_the_event_of_a_list_has_the_plan_of_the_first_pair(engine: ts.Engine) -> None:
    known: Any = (np.arange(100.0), np.zeros(100))
    new: Any = (np.ones((2, 1, 3, 2, 2)), np.zeros((2, 1, 3, 2, 2)))  # too many dimensions
    for _ in range(2):
        assert engine.copy_all([known, new]).plan.bytes == 800
        assert engine.copy_all([new, known]).plan.bytes == 192


def test_arrays_of_a_list_are_not_resized_while_it_is_carried(engine: ts.Engine) -> None:
    pairs: list[Any] = [(np.full(6000, 7.0), np.zeros(6000)) for _ in range(200)]
    for _ in range(2):
        engine.copy_all(pairs).wait(timeout=60)
    stop = threading.Event()

    def resize() -> None:
        while not stop.is_set():
            for pair in pairs:
                try:  # NumPy refuses it while others refer to the array
                    pair[1].resize(1)
                    pair[1].resize(6000)
                except ValueError:
                    pass

    thread = threading.Thread(target=resize)
    thread.start()
    try:
        for _ in range(200):
            with contextlib.suppress(ts.Error):  # an array has one element for a moment
                engine.copy_all(pairs).wait(timeout=60)
    finally:
        stop.set()
        thread.join()
    for _, target in pairs:
        target.resize(6000, refcheck=False)
    engine.copy_all(pairs).wait(timeout=60)
    assert all((target == 7.0).all() for _, target in pairs)
