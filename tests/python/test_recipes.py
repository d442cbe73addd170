"""Copies that come again are found by what their arrays look like: what differs must not be found.

Random calls between few forms of arrays, whose shapes, strides, types and places nearly agree, in
all memories. Each form comes many times, with arrays at other addresses, so that almost every call
finds a recipe; the bytes are compared with NumPy's after each.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from memories import MEMORIES, PEERS, Places

import tranship as ts

Array = np.ndarray[Any, Any]

SEEDS = int(os.environ.get("TRANSHIP_TEST_SEEDS", "12"))
FIRST_SEED = int(os.environ.get("TRANSHIP_TEST_FIRST_SEED", "0"))
CALLS = 120
WAIT_S = 60.0

TYPES = ("f4", "i4", "u4", "f8", "V4")
SHAPES = ((4, 6), (6, 4), (24,), (2, 3, 4), (1, 24), (24, 1))
KEYS = (
    (..., slice(None)),
    (slice(None, None, 2),),
    (slice(None, None, -1),),
    (..., slice(1, None)),
    (..., slice(None, -1)),
    (slice(1, 3),),
)


@pytest.fixture(scope="module")
def places() -> Iterator[Places]:
    """Yields engines with arrays of all places."""
    with ExitStack() as stack:
        yield Places(stack)


class Pool:
    """Arrays of few forms in one memory after the other, and what each has to hold."""

    def __init__(self, places: Places, random: np.random.Generator) -> None:
        self.places = places
        self.random = random
        self.arrays: list[tuple[str, Any, Any, Array]] = []
        for place in (*MEMORIES, *PEERS):
            for _ in range(6):
                self.add(place)

    def add(self, place: str) -> None:
        shape = SHAPES[self.random.integers(len(SHAPES))]
        dtype = np.dtype(TYPES[self.random.integers(len(TYPES))])
        count = int(np.prod(shape))
        raw = self.random.integers(0, 256, count * dtype.itemsize, np.uint8)
        values = raw.view(dtype).reshape(shape)
        if dtype.kind == "f":  # no NaN, whose bytes NumPy may change
            values = np.arange(count, dtype=dtype).reshape(shape) + self.random.integers(1000)
        array, lies = self.places.put(values.copy(), place)
        self.arrays.append((place, array, lies, values.copy()))

    def draw(self) -> tuple[int, Any]:
        """Returns the number of an array, and the key of a part of it."""
        return int(self.random.integers(len(self.arrays))), KEYS[self.random.integers(len(KEYS))]

    def part(self, number: int, key: Any) -> tuple[Any, Array]:
        """Returns the part as the engine gets it, and as NumPy has it."""
        _, array, _, values = self.arrays[number]
        return array[key], values[key]

    def check(self, number: int, seed: int, call: int) -> None:
        place, _, lies, values = self.arrays[number]
        found = self.places.read(place, lies)
        expected = np.ascontiguousarray(values).view(np.uint8).reshape(-1)
        assert np.array_equal(found, expected), f"seed {seed}, call {call}: {place} differs"


def broadcasts(source: Array, target: Array) -> bool:
    """Returns whether NumPy would assign the source to the target."""
    try:
        target.copy()[...] = source
    except ValueError:
        return False
    return True


def copies(pool: Pool, seed: int, call: int) -> None:
    """Copies a part to another, or expects what NumPy's types and shapes say."""
    (source, key), (target, other) = pool.draw(), pool.draw()
    from_part, from_values = pool.part(source, key)
    to_part, to_values = pool.part(target, other)
    engine = pool.places.engine
    if source == target:
        return
    if from_values.dtype != to_values.dtype or not broadcasts(from_values, to_values):
        with pytest.raises(ts.InvalidArgument):
            engine.copy(from_part, to_part)
        return
    engine.copy(from_part, to_part).wait(WAIT_S)
    to_values[...] = from_values
    pool.check(target, seed, call)


def lists(pool: Pool, seed: int, call: int) -> None:
    """Copies several whole arrays, each to its own target."""
    taken: set[int] = set()
    pairs = []
    for _ in range(int(pool.random.integers(2, 6))):
        (source, key), (target, _) = pool.draw(), pool.draw()
        from_part, from_values = pool.part(source, key)
        to_part, to_values = pool.part(target, key)
        fits = from_values.shape == to_values.shape and from_values.dtype == to_values.dtype
        if fits and not taken & {source, target} and source != target:
            taken |= {source, target}
            pairs.append((target, from_part, to_part, from_values, to_values))
    if not pairs:
        return
    pool.places.engine.copy_all([(one[1], one[2]) for one in pairs]).wait(WAIT_S)
    for target, _, _, from_values, to_values in pairs:
        to_values[...] = from_values
        pool.check(target, seed, call)


def pages(pool: Pool, seed: int, call: int) -> None:
    """Copies pages; lists of one length that differ in their order come again and again."""
    (source, _), (target, _) = pool.draw(), pool.draw()
    from_values, to_values = pool.arrays[source][3], pool.arrays[target][3]
    fits = from_values.shape[1:] == to_values.shape[1:] and from_values.dtype == to_values.dtype
    if not fits or source == target:
        return
    count = min(2, len(from_values), len(to_values))
    from_pages = pool.random.permutation(len(from_values))[:count]
    to_pages = pool.random.permutation(len(to_values))[:count]
    pool.places.engine.copy_pages(
        pool.arrays[source][1], pool.arrays[target][1], from_pages, to_pages
    ).wait(WAIT_S)
    to_values[to_pages] = from_values[from_pages]
    pool.check(target, seed, call)


def pieces(pool: Pool, seed: int, call: int) -> None:
    """Copies two pieces of bytes between blocks."""
    (source, _), (target, _) = pool.draw(), pool.draw()
    from_values, to_values = pool.arrays[source][3], pool.arrays[target][3]
    if source == target:
        return
    bytes_of = [one.view(np.uint8).reshape(-1) for one in (from_values, to_values)]
    begins = pool.random.permutation(6)[:2] * 16
    to_begins = pool.random.permutation(6)[:2] * 16
    lengths = pool.random.choice([4, 12, 16], 2)
    pool.places.engine.copy_pieces(
        pool.arrays[source][1], pool.arrays[target][1], begins, to_begins, lengths
    ).wait(WAIT_S)
    for begin, to, length in zip(begins, to_begins, lengths, strict=True):
        bytes_of[1][to : to + length] = bytes_of[0][begin : begin + length]
    pool.check(target, seed, call)


def typed(pool: Pool, seed: int, call: int) -> None:
    """Copies elements of types of one size, which come from few places."""
    (source, _), (target, _) = pool.draw(), pool.draw()
    from_values, to_values = pool.arrays[source][3], pool.arrays[target][3]
    if source == target:
        return
    kinds = pool.random.integers(0, 3, 2)
    types = [TYPES_AT[kind] for kind in kinds]
    pool.places.engine.copy(
        pool.arrays[source][1], pool.arrays[target][1], types=(types[0][0], types[1][0])
    ).wait(WAIT_S)
    bytes_of = [one.view(np.uint8).reshape(-1) for one in (from_values, to_values)]
    bytes_of[1][types[1][1]] = bytes_of[0][types[0][1]]
    pool.check(target, seed, call)


TYPES_AT = (
    (ts.types.vector(4, 1, 3, "V4"), np.r_[0:4, 12:16, 24:28, 36:40]),
    (ts.types.vector(2, 2, 5, "V4"), np.r_[0:8, 20:28]),
    (ts.types.contiguous(4, "V4"), np.r_[0:16]),
)


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_arrays_that_nearly_agree_are_not_taken_for_each_other(places: Places, seed: int) -> None:
    random = np.random.default_rng(seed)
    pool = Pool(places, random)
    calls = (copies, copies, copies, lists, pages, pieces, typed)
    for call in range(CALLS):
        calls[random.integers(len(calls))](pool, seed, call)


def test_a_copy_that_was_found_is_refused_when_its_arrays_overlap() -> None:
    memory = np.arange(64, dtype="f4")
    with ts.Engine() as engine:
        for _ in range(4):
            engine.copy(memory[:16], memory[32:48]).wait()
        with pytest.raises(ts.InvalidArgument, match="overlap"):
            engine.copy(memory[:16], memory[8:24])
        with pytest.raises(ts.InvalidArgument, match="overlap"):
            engine.copy_all([(memory[:16], memory[8:24])])


def test_lists_that_were_found_are_checked_again_when_their_arrays_meet() -> None:
    """The recipe of arrays that lie apart is not that of arrays which share bytes."""
    memory = np.arange(64, dtype=np.uint8)
    halves = ts.types.vector(2, 4, 8, "u1"), ts.types.contiguous(8, "u1")
    with ts.Engine() as engine:
        for shift in (32, 40, 48, 33):
            target = memory[shift : shift + 16]
            engine.copy_pieces(memory[:16], target, [0, 8], [8, 0], [4, 4]).wait()
            assert np.array_equal(
                target[[*range(8, 12), *range(4)]], memory[[*range(4), *range(8, 12)]]
            )
            engine.copy(memory[:16], target, types=halves).wait()
            assert np.array_equal(target[:8], memory[[*range(4), *range(8, 12)]])
        before = memory.copy()
        with pytest.raises(ts.InvalidArgument, match="overlap"):
            engine.copy_pieces(memory[:16], memory[8:24], [0, 8], [8, 0], [4, 4])
        with pytest.raises(ts.InvalidArgument, match="overlap"):
            engine.copy(memory[:16], memory[4:20], types=halves)
        assert np.array_equal(memory, before)
        for _ in range(4):  # the arrays meet, and the bytes that are moved do not
            engine.copy_pieces(memory[:16], memory[8:24], [0, 4], [8, 12], [4, 4]).wait()
            assert np.array_equal(memory[16:24], before[:8])


def test_a_copy_that_was_found_is_refused_when_its_target_is_read_only() -> None:
    with ts.Engine() as engine:
        for writable in (True, True, True, False):
            target = np.zeros(16)
            target.flags.writeable = writable
            if writable:
                engine.copy(np.ones(16), target).wait()
                assert target.sum() == 16
            else:
                with pytest.raises(ts.InvalidArgument, match="read-only"):
                    engine.copy(np.ones(16), target)


def test_a_copy_that_was_found_is_refused_by_a_closed_engine() -> None:
    source, target = np.ones(16), np.zeros(16)
    with ts.Engine() as engine:
        for _ in range(4):
            engine.copy(source, target).wait()
        engine.close()
        with pytest.raises(ts.Closed):
            engine.copy(source, target)


def test_the_same_types_in_other_arrays_are_read_from_their_own_arrays() -> None:
    """Prepared types whose longest message is not the first count from the longest's arrays."""
    with ts.Engine() as engine:
        short, long = np.arange(4, dtype="f4"), np.arange(100, 140, dtype="f4")
        packed = np.zeros(44, "f4")
        types = [ts.types.contiguous(4, "f4"), ts.types.contiguous(40, "f4")]
        places = [ts.types.contiguous(16, "V1"), ts.types.hindexed_block(160, [16], "V1")]
        pairs = [(short, packed), (long, packed)]
        prepared = engine.prepare_all(pairs, types=list(zip(types, places, strict=True)))
        for add in (0, 1000):
            short += add
            long += add
            prepared.start().wait()
            assert np.array_equal(packed, np.concatenate([short, long]))
