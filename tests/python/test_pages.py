"""Copies of pages: lists of indices of the first dimension, between all memories."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpu_support import content, filled, fixed_gpu_profile
from hypothesis import given, settings
from hypothesis import strategies as st

import tranship as ts

PLACES = ("host", "pinned", "device0", "device1")


@pytest.fixture(scope="module")
def gpus() -> Iterator[ts.Engine]:
    """Yields an engine with two emulated GPUs of fixed rates, as the tests look at paths."""
    with ts.Engine(emulated_gpus=2, threads=2, profile=fixed_gpu_profile()) as opened:
        yield opened


@settings(max_examples=80)
@given(data=st.data())
def test_pages_land_as_numpy_would_put_them(gpus: ts.Engine, data: st.DataObject) -> None:
    page = tuple(data.draw(st.lists(st.integers(1, 5), max_size=2)))
    counts = [data.draw(st.integers(1, 12)) for _ in range(2)]
    order = [data.draw(st.permutations(range(count))) for count in counts]
    moved = data.draw(st.integers(0, min(counts)))
    pages = [list(one[:moved]) for one in order]
    kind = data.draw(st.sampled_from(["u1", "f4", "c16"]))
    values = [
        np.frombuffer(np.random.default_rng(k).bytes(count * 400), "u1")[
            : count * int(np.prod(page)) * np.dtype(kind).itemsize
        ]
        .view(kind)
        .reshape(count, *page)
        for k, count in enumerate(counts)
    ]
    source, target = (filled(gpus, one, data.draw(st.sampled_from(PLACES))) for one in values)
    gpus.copy_pages(source, target, *pages).wait(timeout=20)
    expected = values[1].copy()
    expected[pages[1]] = values[0][pages[0]]
    assert content(gpus, target).tobytes() == expected.tobytes()
    assert content(gpus, source).tobytes() == values[0].tobytes()


def test_many_contiguous_pages_are_one_launch(gpus: ts.Engine) -> None:
    values = np.random.default_rng(1).integers(0, 255, (2000, 512), "u1")
    source, target = filled(gpus, values, "device0"), filled(gpus, values * 0, "device1")
    order = np.random.default_rng(2).permutation(2000)
    event = gpus.copy_pages(source, target, order, np.arange(2000))
    event.wait(timeout=20)
    assert (event.plan.path, event.plan.bytes) == ("node0/device0 > node0/device1", 2000 * 512)
    assert np.array_equal(content(gpus, target), values[order])


def test_pages_take_one_path_where_whole_arrays_take_several() -> None:
    values = np.random.default_rng(3).integers(0, 255, (512, 65536), "u1")
    order = np.random.default_rng(4).permutation(512)
    with ts.Engine(emulated_gpus=2, profile=fixed_gpu_profile()) as engine:
        source, target = filled(engine, values, "pinned"), filled(engine, values * 0, "device0")
        assert "device1" in str(engine.plan(source, target).explain())
        event = engine.copy_pages(source, target, order, np.arange(512))
        event.wait(timeout=20)
        assert event.plan.path == "node0/pinned0 > node0/device0"
        assert np.array_equal(content(engine, target), values[order])


def test_fields_go_by_their_names(gpus: ts.Engine) -> None:
    values = np.zeros(6, [("a", "i4"), ("b", "i4")])
    values["a"], values["b"] = np.arange(6), np.arange(6) + 100
    source = filled(gpus, values, "device0")
    target = filled(gpus, np.zeros(6, [("b", "i4"), ("a", "i4")]), "device1")
    gpus.copy_pages(source, target, [5, 0], [1, 2]).wait(timeout=20)
    found = content(gpus, target)
    assert found["a"].tolist() == [0, 5, 0, 0, 0, 0]
    assert found["b"].tolist() == [0, 105, 100, 0, 0, 0]


def test_pages_move_within_one_array(gpus: ts.Engine) -> None:
    for memory in PLACES:
        values = np.arange(40, dtype="i8").reshape(10, 4)
        pool = filled(gpus, values, memory)
        gpus.copy_pages(pool, pool, [1, 2, 9], [5, 6, 0]).wait(timeout=20)
        expected = values.copy()
        expected[[5, 6, 0]] = values[[1, 2, 9]]
        assert np.array_equal(content(gpus, pool), expected)


def test_what_follows_all_pages_sees_all_pages(gpus: ts.Engine) -> None:
    values = np.random.default_rng(3).random((64, 1 << 14))
    device, back = filled(gpus, values * 0, "device0"), np.zeros_like(values)
    pages = np.random.default_rng(4).permutation(64)
    first = gpus.copy_pages(values, device, pages, pages)  # Pageable memory: one copy for each run.
    gpus.copy(device, back, after=first).wait(timeout=20)
    assert first.done()
    assert np.array_equal(back, values)


def test_lists_in_flight_keep_their_own_places(gpus: ts.Engine) -> None:
    """Copies that wait for others keep their lists while the next ones are made."""
    count = 3000
    generator = np.random.default_rng(3)
    values = generator.random((count, 64))
    targets = [np.zeros_like(values) for _ in range(6)]
    orders = [(generator.permutation(count), generator.permutation(count)) for _ in targets]
    bulk = np.ones(1 << 22)
    before = gpus.copy(bulk, filled(gpus, bulk * 0, "device0"))
    events = [
        gpus.copy_pages(values, target, *order, after=before)
        for target, order in zip(targets, orders, strict=True)
    ]
    for event in events:
        event.wait(timeout=20)
    for target, (read, written) in zip(targets, orders, strict=True):
        assert np.array_equal(target[written], values[read])


def test_pages_of_a_file(gpus: ts.Engine, tmp_path: Path) -> None:
    values = np.arange(600, dtype="f4").reshape(20, 30)
    np.save(tmp_path / "pool.npy", values)
    target = filled(gpus, np.zeros((3, 30), "f4"), "device0")
    file = ts.File(tmp_path / "pool.npy")
    gpus.copy_pages(file, target, [7, 8, 2], [0, 1, 2]).wait(timeout=20)
    assert np.array_equal(content(gpus, target), values[[7, 8, 2]])


@pytest.mark.parametrize(
    ("source_pages", "target_pages", "message"),
    [
        ([1, 2], [1], "as many of both"),
        ([9], [0], "page 9 lies outside the source, which has 8"),
        ([0], [-1], "page -1 lies outside the target"),
        ([0, 1], [3, 3], "page 3 of the target is named twice"),
        ([0.5], [0], "list of integers"),
        ([[0]], [[0]], "list of integers"),
    ],
)
def test_bad_pages(gpus: ts.Engine, source_pages: Any, target_pages: Any, message: str) -> None:
    source = filled(gpus, np.ones((8, 4)), "device0")
    target = filled(gpus, np.zeros((8, 4)), "device1")
    with pytest.raises(ts.InvalidArgument, match=message):
        gpus.copy_pages(source, target, source_pages, target_pages)
    assert not content(gpus, target).any()


def test_pages_that_are_read_and_written(gpus: ts.Engine) -> None:
    pool = filled(gpus, np.arange(32.0).reshape(8, 4), "device0")
    with pytest.raises(ts.InvalidArgument, match="page 1 is both read and written"):
        gpus.copy_pages(pool, pool, [0, 1], [1, 2])
    with pytest.raises(ts.InvalidArgument, match="overlap"):
        gpus.copy_pages(pool[1:], pool[:7], [0], [3])


@pytest.mark.parametrize("memory", PLACES)
def test_no_pages_at_all(gpus: ts.Engine, memory: str) -> None:
    source = filled(gpus, np.ones((4, 5)), memory)
    target = filled(gpus, np.zeros((3, 5)), memory)
    event = gpus.copy_pages(source, target, [], [])
    event.wait(timeout=20)
    assert event.plan.bytes == 0
    assert not content(gpus, target).any()


def test_arrays_without_pages_or_of_other_pages(gpus: ts.Engine) -> None:
    with pytest.raises(ts.InvalidArgument, match="no pages"):
        gpus.copy_pages(np.array(1.0), np.array(2.0), [0], [0])
    with pytest.raises(ts.InvalidArgument, match="differ in extent"):
        gpus.copy_pages(np.ones((4, 5)), np.ones((4, 6)), [0], [0])
