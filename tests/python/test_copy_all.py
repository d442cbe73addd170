"""Lists of copies (`copy_all`): the parts of arrays, between all memories."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from gpu_support import content, copy_neighbours_that_are_pinned_apart, filled, fixed_gpu_profile
from hypothesis import given, settings
from hypothesis import strategies as st

import tranship as ts

PLACES = ("host", "pinned", "device0", "device1")
ON_GPUS = ("pinned", "device0", "device1")


@pytest.fixture(scope="module")
def gpus() -> Iterator[ts.Engine]:
    """Yields an engine with two emulated GPUs of fixed rates, as the tests look at paths."""
    with ts.Engine(emulated_gpus=2, threads=2, profile=fixed_gpu_profile()) as opened:
        yield opened


def cuts(data: st.DataObject, extent: int) -> list[slice]:
    """Draws a division of an extent into one to four slices."""
    inner = data.draw(st.sets(st.integers(1, extent - 1), max_size=3)) if extent > 1 else set()
    edges = [0, *sorted(inner), extent]
    return [slice(a, b) for a, b in pairwise(edges)]


@settings(max_examples=80)
@given(data=st.data())
def test_objects_become_one_array(gpus: ts.Engine, data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=5)))
    kind = data.draw(st.sampled_from(["u1", "f2", "f4", "f8", "c16", "V3", "V7", "V12"]))
    raw = np.random.default_rng(len(shape)).bytes(int(np.prod(shape)) * np.dtype(kind).itemsize)
    values = np.frombuffer(raw, kind).reshape(shape)
    boxes: list[tuple[slice, ...]] = [()]
    for extent in shape:
        boxes = [(*box, part) for box in boxes for part in cuts(data, extent)]
    order = data.draw(st.sampled_from(["C", "F"]))
    places = data.draw(st.sampled_from([PLACES, ON_GPUS, ("device0",)]))
    sources = [filled(gpus, values[box], data.draw(st.sampled_from(places))) for box in boxes]
    target: Any = gpus.empty(shape, kind, memory=data.draw(st.sampled_from(places)))
    if order == "F":  # The copies transpose the parts.
        target = gpus.empty(shape[::-1], kind, memory=data.draw(st.sampled_from(places)))
        target = target.transpose()
    pairs = [(source, target[box]) for source, box in zip(sources, boxes, strict=True)]
    gpus.copy_all(pairs).wait(timeout=20)
    assert content(gpus, target).tobytes() == values.tobytes()


@pytest.mark.parametrize("device", ["device0", "device1"])
def test_columns_at_equal_distances_need_no_table(device: str) -> None:
    values = np.random.default_rng(3).random((64, 256)).astype("f4")
    with ts.Engine(emulated_gpus=2, threads=2) as fresh:
        source = filled(fresh, values, device)
        target: Any = fresh.empty(values.shape, "f4", memory=device)
        fresh.copy(np.zeros_like(values), target).wait(timeout=20)
        pairs = [(source[:, k], target[:, k]) for k in range(0, 256, 2)]
        fresh.copy_all(pairs).wait(timeout=20)
        copied = content(fresh, target)
    assert np.array_equal(copied[:, ::2], values[:, ::2])
    assert not copied[:, 1::2].any()


def test_many_objects_are_one_copy(gpus: ts.Engine) -> None:
    values = np.random.default_rng(1).random((16, 16, 32))
    boxes = [
        (slice(x, x + 2), slice(y, y + 2), slice(z, z + 4))
        for x in range(0, 16, 2)
        for y in range(0, 16, 2)
        for z in range(0, 32, 4)
    ]
    target: Any = gpus.empty(values.shape, "f8", memory="device1")
    event = gpus.copy_all([(filled(gpus, values[box], "device0"), target[box]) for box in boxes])
    event.wait(timeout=20)
    assert len(boxes) == 512
    assert (event.plan.path, event.plan.bytes) == ("node0/device0 > node0/device1", values.nbytes)
    assert np.array_equal(content(gpus, target), values)


@pytest.mark.parametrize("bytes_of_each", [4096, 65536, 262144])
def test_neighbours_that_are_pinned_apart(gpus: ts.Engine, bytes_of_each: int) -> None:
    copy_neighbours_that_are_pinned_apart(gpus, bytes_of_each)


def test_objects_of_several_memories_are_copies_of_their_own(gpus: ts.Engine) -> None:
    values = np.arange(12.0).reshape(2, 6)
    target: Any = gpus.empty(values.shape, "f8", memory="device1")
    sources = [filled(gpus, values[0], "device0"), values[1].copy()]
    gpus.copy_all([(sources[0], target[0]), (sources[1], target[1])]).wait(timeout=20)
    assert np.array_equal(content(gpus, target), values)


def test_several_threads_share_a_list_whose_pairs_are_short(gpus: ts.Engine) -> None:
    """Each of 64 copies is one for the caller's thread, all of them together are not."""
    random = np.random.default_rng(5)
    sources = [random.integers(0, 255, 1 << 20, "u1") for _ in range(64)]
    targets = [np.zeros_like(source) for source in sources]
    for count, together in ((1, False), (2, False), (64, True)):
        pairs = list(zip(sources[:count], targets[:count], strict=True))
        event = gpus.copy_all(pairs)
        event.wait(timeout=20)
        assert event.plan is not None
        assert event.plan.direct == (not together), event.plan.explain()
        for source, target in pairs:
            assert np.array_equal(source, target)
            target[:] = 0


def test_neighbours_and_long_arrays_are_shared_too(gpus: ts.Engine) -> None:
    values = np.random.default_rng(6).integers(0, 255, 48 << 20, "u1")
    target = np.zeros_like(values)
    halves = [slice(k << 18, (k + 1) << 18) for k in range(128)]  # 32 MiB of neighbours
    cuts = [*halves, slice(128 << 18, (144 << 18) + 13), slice((144 << 18) + 13, 48 << 20)]
    pairs = [(values[cut], target[cut]) for cut in cuts]
    event = gpus.copy_all(pairs)
    event.wait(timeout=20)
    assert np.array_equal(target, values)
    assert event.plan is not None
    assert json.loads(event.plan.to_json())["tiles"] > 64


@pytest.mark.parametrize("seed", range(12))
def test_random_lists_that_threads_may_share(gpus: ts.Engine, seed: int) -> None:
    """Arrays of any shape, type and order, slices among them, from a few bytes to some MiB."""
    random = np.random.default_rng(seed)
    pairs = []
    for _ in range(int(random.integers(2, 120))):
        rank = int(random.integers(1, 4))
        longest = int(10 ** (random.uniform(0.5, 6) / rank)) + 2
        shape = tuple(int(k) for k in random.integers(1, longest, rank))
        values = random.integers(0, 100, shape).astype(random.choice(["u1", "f4", "c16"]))
        if random.random() < 0.3:
            values = np.asfortranarray(values)
        if random.random() < 0.2:
            values = values[::-1, ...]
        target = np.zeros(shape, values.dtype, "F" if random.random() < 0.3 else "C")
        pairs.append((values, target))
    prepared = gpus.prepare_all(pairs)
    for copy in (lambda: gpus.copy_all(pairs), prepared.start):
        copy().wait(timeout=20)
        for source, target in pairs:
            assert np.array_equal(source, target)
            target[...] = 0


def test_a_high_priority_goes_past_copy_engines(gpus: ts.Engine) -> None:
    values = np.random.default_rng(2).random((4, 64, 8))
    target: Any = gpus.empty((64, 32), "f8", memory="device0")
    pairs = [
        (filled(gpus, part, "pinned"), target[:, 8 * k : 8 * k + 8])
        for k, part in enumerate(values)
    ]
    gpus.copy_all(pairs, priority=5).wait(timeout=20)
    assert np.array_equal(content(gpus, target), np.concatenate(list(values), axis=1))


def test_nothing_is_over_at_once(gpus: ts.Engine) -> None:
    event = gpus.copy_all([])
    assert event.done()
    assert (event.plan.path, event.plan.bytes) == ("", 0)
    event.wait(timeout=0)


def test_what_is_no_pair_is_refused(gpus: ts.Engine) -> None:
    for wrong in ([1], [(np.zeros(3),)], [(np.zeros(3), np.zeros(3), np.zeros(3))]):
        with pytest.raises(ts.InvalidArgument, match="pairs"):
            gpus.copy_all(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("memory", ["host", "device0"])
def test_one_bad_pair_stops_all(gpus: ts.Engine, memory: str) -> None:
    values = np.ones(4)
    sources = [filled(gpus, values, memory) for _ in range(2)]
    targets = [filled(gpus, np.zeros(n), memory) for n in (4, 5)]
    with pytest.raises(ts.InvalidArgument, match="differ in extent"):
        gpus.copy_all(zip(sources, targets, strict=True))
    assert np.array_equal(content(gpus, targets[1]), np.zeros(5))


@settings(max_examples=40)
@given(data=st.data())
def test_transposes_of_equal_matrices(gpus: ts.Engine, data: st.DataObject) -> None:
    """Matrices of one shape go in one launch, others beside them in their own."""
    kind = data.draw(st.sampled_from(["u1", "f2", "f4", "f8", "c16", "V3", "V12"]))
    sizes = st.tuples(st.integers(1, 40), st.integers(1, 40))
    shapes = data.draw(st.lists(sizes, min_size=1, max_size=3)) * data.draw(st.integers(1, 6))
    device = data.draw(st.sampled_from(["device0", "device1"]))
    random = np.random.default_rng(len(shapes))
    pairs, expected = [], []
    for rows, columns in shapes:
        raw = random.bytes(rows * columns * np.dtype(kind).itemsize)
        matrix = np.frombuffer(raw, kind).reshape(rows, columns)
        target = gpus.empty((columns, rows), kind, memory=device)
        pairs.append((filled(gpus, matrix, device).T, target))
        expected.append(np.ascontiguousarray(matrix.T).tobytes())
    prepared = gpus.prepare_all(pairs)
    for start in (lambda: gpus.copy_all(pairs), lambda: gpus.copy_all(pairs), prepared.start):
        for _, target in pairs:
            target.fill(np.zeros((), kind)[()])
        start().wait(timeout=20)
        assert [content(gpus, target).tobytes() for _, target in pairs] == expected


@settings(max_examples=60)
@given(data=st.data())
def test_lists_with_selections(gpus: ts.Engine, data: st.DataObject) -> None:
    """Selections by arrays of indices are pairs as others are, of one list that moves whole."""
    random = np.random.default_rng(data.draw(st.integers(0, 1000)))
    pairs: list[tuple[Any, Any]] = []
    expected, targets = [], []
    for _ in range(data.draw(st.integers(1, 4))):
        rows, columns = data.draw(st.tuples(st.integers(1, 20), st.integers(1, 9)))
        values = random.random((rows, columns)).astype(data.draw(st.sampled_from(["f8", "f4"])))
        source = filled(gpus, values, data.draw(st.sampled_from(ON_GPUS)))
        count = data.draw(st.integers(0, 12))
        index = random.integers(0, rows, count)
        wanted = np.zeros((rows, columns), values.dtype)
        target: Any = filled(gpus, wanted, data.draw(st.sampled_from(ON_GPUS[1:])))
        kind = data.draw(st.sampled_from(["plain", "gather", "scatter", "scalar"]))
        if kind == "plain":
            pairs.append((source, target))
            wanted[...] = values
        elif kind == "gather" and not isinstance(source, np.ndarray):
            short = target[: min(count, rows)]
            pairs.append((source[index[: min(count, rows)]], short))
            wanted[: min(count, rows)] = values[index[: min(count, rows)]]
        else:
            once = np.unique(index)
            pairs.append((2.5 if kind == "scalar" else filled(gpus, values[once], "device0"),
                          target[once]))  # fmt: skip
            wanted[once] = 2.5 if kind == "scalar" else values[once]
        targets.append(target)
        expected.append(wanted)
    for start in (gpus.copy_all, gpus.copy_all, lambda given: gpus.prepare_all(given).start()):
        for target in targets:
            target.fill(0)
        start(pairs).wait(timeout=20)
        for target, wanted in zip(targets, expected, strict=True):
            assert content(gpus, target).tobytes() == wanted.tobytes()


def test_a_list_with_a_selection_is_refused_whole(gpus: ts.Engine) -> None:
    source = filled(gpus, np.arange(12.0).reshape(4, 3), "device0")
    target = filled(gpus, np.zeros((4, 3)), "device0")
    for pairs, cast, text in (
        ([(source, target), (source[[0, 1]], target)], None, r"pairs\[1\]: .*does not broadcast"),
        ([(source, target), (source[[0, 1]], target[:2])], "unsafe", "without cast"),
    ):
        for call in (gpus.copy_all, gpus.prepare_all):
            with pytest.raises(ts.InvalidArgument, match=text):
                call(pairs, cast=cast)
        assert not content(gpus, target).any()
