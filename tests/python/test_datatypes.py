"""Copies between MPI-like types, pack and unpack, between all memories."""

from __future__ import annotations

import importlib.util
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpu_support import filled
from hypothesis import given
from hypothesis import strategies as st
from memories import MEMORIES, PEERS, Places
from type_oracle import Known, at_zero, draw_type, item_list

import tranship as ts
from tranship import types


@pytest.fixture(scope="module")
def places() -> Iterator[Places]:
    """Yields engines with arrays of all places."""
    with ExitStack() as stack:
        yield Places(stack)


def drawn(generator: np.random.Generator, *, disjoint: bool = False) -> tuple[Known, int]:
    """Draws a type that has bytes, none before 0, and the bytes of the array that it needs."""
    while True:
        known, size = at_zero(draw_type(generator, int(generator.integers(1, 4))))
        distinct = np.unique(known.bytes).size == known.bytes.size
        if known.bytes.size > 0 and (distinct or not disjoint):
            return known, size


@given(st.integers(0, 2**32))
def test_types_are_packed_and_unpacked_as_they_are_defined(places: Places, seed: int) -> None:
    generator = np.random.default_rng(seed)
    known, size = drawn(generator)
    assert (known.type.nbytes, known.type.lower_bound) == (known.bytes.size, known.lower)
    assert known.type.extent == known.extent
    source = generator.integers(0, 256, size + 5, np.uint8)
    packed = places.engine.pack(source, known.type)
    assert packed.tobytes() == source[known.bytes].tobytes()
    if np.unique(known.bytes).size < known.bytes.size:
        with pytest.raises(ts.InvalidArgument, match="share bytes"):
            places.engine.unpack(packed, source, known.type)
        return
    target = generator.integers(0, 256, size + 5, np.uint8)
    wanted = target.copy()
    wanted[known.bytes] = packed
    places.engine.unpack(packed, target, known.type)
    assert target.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("seed", range(4))
def test_types_at_both_ends_between_all_memories(places: Places, seed: int) -> None:
    """Other places of the same bytes, in one copy, also prepared and started twice."""
    generator = np.random.default_rng(seed)
    for here in MEMORIES:
        for there in MEMORIES + PEERS:
            one, _ = drawn(generator)
            other, _ = drawn(generator, disjoint=True)
            nbytes = math.lcm(one.bytes.size, other.bytes.size)
            if nbytes > 1 << 16:
                one, nbytes = other, other.bytes.size
            sides = [
                at_zero(item_list(known, nbytes // known.bytes.size)) for known in (one, other)
            ]
            (source_known, source_size), (target_known, target_size) = sides
            if np.unique(target_known.bytes).size < nbytes:
                continue
            source = generator.integers(0, 256, source_size, np.uint8)
            target = generator.integers(0, 256, target_size, np.uint8)
            wanted = target.copy()
            wanted[target_known.bytes] = source[source_known.bytes]
            pair = (source_known.type, target_known.type)
            if not source_known.type.same_elements(target_known.type):
                pair = (as_raw(source_known), target_known.type)
            read, _ = places.put(source, here)
            written, lies = places.put(target, there)
            if generator.random() < 0.5:
                places.engine.copy(read, written, types=pair).wait(timeout=30)
            else:
                ready = places.engine.prepare(read, written, types=pair)
                assert ready.nbytes == nbytes
                ready.start().wait(timeout=30)
                ready.start().wait(timeout=30)
            assert places.read(there, lies).tobytes() == wanted.tobytes(), (here, there, pair)


def as_raw(known: Known) -> types.Datatype:
    """Returns the same bytes as raw ones."""
    return types.hindexed_block(1, known.bytes, "V1")


@pytest.mark.parametrize("place", MEMORIES)
def test_several_arrays_are_packed_one_behind_the_other(places: Places, place: str) -> None:
    generator = np.random.default_rng(5)
    values = [generator.random((6, 7)), generator.integers(0, 99, 20), generator.random(9)]
    arrays = [filled(places.engine, one, place) for one in values]
    kinds = [
        types.subarray((6, 7), (3, 2), (1, 4), "f8"),
        types.indexed_block(1, [7, 3, 12], "i8"),
        types.contiguous(2, types.vector(2, 1, 3, "f8")),
    ]
    packed = places.engine.pack(arrays, kinds)
    wanted = values[0][1:4, 4:6].tobytes() + values[1][[7, 3, 12]].tobytes()
    assert packed.tobytes() == wanted + values[2][[0, 3, 4, 7]].tobytes()
    cleared = [filled(places.engine, np.zeros_like(one), place) for one in values]
    places.engine.unpack(packed, cleared, kinds)
    assert places.engine.pack(cleared, kinds).tobytes() == packed.tobytes()
    again = places.engine.pack(cleared[1], types.indexed_block(1, [12, 3], "i8"), count=1)
    assert again.tobytes() == values[1][[12, 3]].tobytes()


def test_count_is_items_one_extent_apart(places: Places) -> None:
    matrix = np.arange(48.0).reshape(6, 8)
    column = types.resized(types.vector(6, 1, 8, "f8"), 0, 8)
    packed = places.engine.pack(matrix, column, count=8).view("f8")
    assert np.array_equal(packed.reshape(8, 6), matrix.T)
    out = np.zeros((8, 6))
    assert places.engine.pack(matrix, column, out, count=8) is out
    assert np.array_equal(out, matrix.T)
    back = np.zeros_like(matrix)
    places.engine.unpack(out, back, column, count=8)
    assert np.array_equal(back, matrix)


def test_a_prepared_copy_takes_other_arrays(places: Places) -> None:
    face = types.subarray((8, 8), (8, 1), (0, 3), "f8")
    ready = places.engine.prepare(np.zeros((8, 8)), np.zeros(8), types=(face, None))
    field, packed = np.random.default_rng(1).random((8, 8)), np.zeros(8)
    ready.start(source=field, target=packed).wait(timeout=60)
    assert np.array_equal(packed, field[:, 3])
    with pytest.raises(ts.InvalidArgument, match="differs in shape"):
        ready.start(source=np.zeros((8, 9)))
    overlapping = field.reshape(-1)[3:11]
    with pytest.raises(ts.InvalidArgument, match="overlap"):
        ready.start(source=field, target=overlapping)


def test_equal_types_have_equal_forms() -> None:
    rows = types.subarray((9, 8), (9, 2), (0, 3), "f4")
    listed = types.hindexed([2] * 9, [12 + 32 * k for k in range(9)], "f4")
    shuffled = types.hindexed([2] * 9, [12 + 32 * k for k in reversed(range(9))], "f4")
    assert rows.same_bytes(listed) and rows.same_elements(listed)
    assert not rows.same_bytes(shuffled) and rows.same_elements(shuffled)
    assert rows.describe().splitlines()[1] == "  8 bytes, 9 times every 32, from byte 12"
    assert "at 3 places" in types.indexed_block(2, [0, 5, 11], "f8").describe()
    assert repr(types.vector(2, 1, 3, "f8")) == "<Datatype vector(2, 1, 3, f8)>"


def test_dtypes_are_types() -> None:
    record = np.dtype([("id", "i4"), ("mass", "f8", (2,)), ("tag", "S3")], align=True)
    type = types.as_type(record)
    assert (type.nbytes, type.extent) == (4 + 16 + 3, record.itemsize)
    values = np.zeros(5, record)
    values["id"], values["mass"][:, 1], values["tag"] = range(5), 0.5, b"abc"
    with ts.Engine(threads=1) as engine:
        packed = engine.pack(values, record, count=5)
    tight = packed.view(np.dtype([("id", "i4"), ("mass", "f8", (2,)), ("tag", "S3")]))
    assert all((tight[name] == values[name]).all() for name in ("id", "mass", "tag"))


Refusal = tuple[type[ts.Error], str, Callable[[Any], object]]
REFUSED: dict[str, Refusal] = {
    "outside": (
        ts.OutOfRange,
        r"the type of the source contiguous\(11, f8\) reaches from byte 0 to byte 88, and the "
        "array has 80 bytes",
        lambda engine: engine.pack(np.zeros(10), types.contiguous(11, "f8")),
    ),
    "before": (
        ts.OutOfRange,
        "reaches from byte -8 to byte 0",
        lambda engine: engine.pack(np.zeros(10), types.hindexed_block(1, [-8], "f8")),
    ),
    "short": (
        ts.OutOfRange,
        "the type of the target",
        lambda engine: engine.pack(np.zeros(10), "f8", np.zeros(3, "u1")),
    ),
    "twice": (
        ts.InvalidArgument,
        r"elements of the target's type vector\(4, 2, 1, f8\) share bytes",
        lambda engine: engine.unpack(np.zeros(8), np.zeros(9), types.vector(4, 2, 1, "f8")),
    ),
    "elements": (
        ts.InvalidArgument,
        r"the elements of the source's type contiguous\(3, f8\) are not those",
        lambda engine: engine.copy(
            np.zeros(3), np.zeros(6, "f4"), types=(types.contiguous(3, "f8"), "(6,)f4")
        ),
    ),
    "bytes": (
        ts.InvalidArgument,
        "has 24 bytes and the target's type f8 8",
        lambda engine: engine.copy(
            np.zeros(3), np.zeros(3), types=(types.contiguous(3, "f8"), "f8")
        ),
    ),
    "byte order": (
        ts.InvalidArgument,
        r"contiguous\(3, >f8\) are not those of the target's type contiguous\(3, f8\)",
        lambda engine: engine.copy(
            np.zeros(3, ">f8"),
            np.zeros(3),
            types=(types.contiguous(3, ">f8"), types.contiguous(3, "f8")),
        ),
    ),
    "time unit": (
        ts.InvalidArgument,
        r"M8\[s\] are not those of the target's type M8\[ns\]",
        lambda engine: engine.copy(np.zeros(1), np.zeros(1), types=("M8[s]", "M8[ns]")),
    ),
    "unsigned": (
        ts.InvalidArgument,
        "displacements has a number beyond 63 bits",
        lambda engine: types.hindexed([1, 1], np.array([8, 2**64 - 8], np.uint64), "f8"),
    ),
    "argument": (
        ts.InvalidArgument,
        "is too large",
        lambda engine: types.darray(0, (4,), (("cyclic", 2**70),), (1,), "f8"),
    ),
    "distributions": (
        ts.InvalidArgument,
        "names no distribution",
        lambda engine: types.darray(0, (4,), (None,), (1,), "f8"),  # type: ignore[arg-type]
    ),
    "bases": (
        ts.InvalidArgument,
        "is not a list of types",
        lambda engine: types.struct([1], [0], None),  # type: ignore[arg-type]
    ),
    "none": (
        ts.InvalidArgument,
        "names no type",
        lambda engine: engine.copy(np.zeros(3), np.zeros(3), types=(None, None)),
    ),
    "gaps": (
        ts.InvalidArgument,
        "do not fill one block of memory",
        lambda engine: engine.pack(np.zeros((4, 4))[:, ::2], "f8"),
    ),
    "read-only": (
        ts.InvalidArgument,
        "read-only",
        lambda engine: engine.unpack(np.zeros(8, "u1"), np.broadcast_to(0.0, 1), "f8"),
    ),
    "pairs": (
        ts.InvalidArgument,
        "there are 1 copies and types for 2",
        lambda engine: engine.copy_all([(np.zeros(3), np.zeros(3))], types=[("f8", "f8")] * 2),
    ),
    "no pairs": (
        ts.InvalidArgument,
        "is not a pair",
        lambda engine: engine.copy_all([(np.zeros(3), np.zeros(3))], types=["f8"]),
    ),
    "arrays": (
        ts.InvalidArgument,
        "there are 2 arrays and 1 types",
        lambda engine: engine.pack([np.zeros(3), np.zeros(3)], "f8"),
    ),
    "region": (
        ts.InvalidArgument,
        "is given together with types",
        lambda engine: engine.copy(
            np.zeros(3), np.zeros(3), types=("f8", "f8"), region={"d0": (0, 1)}
        ),
    ),
    "planner": (
        ts.InvalidArgument,
        "planner='simple' is given together with types",
        lambda engine: engine.prepare(
            np.zeros(3), np.zeros(3), types=("f8", "f8"), planner="simple"
        ),
    ),
    "objects": (
        ts.InvalidArgument,
        "has Python objects",
        lambda engine: types.contiguous(2, object),
    ),
    "dtype": (
        ts.InvalidArgument,
        "is not a type that NumPy has",
        lambda engine: types.contiguous(2, "q9"),
    ),
    "float": (
        ts.InvalidArgument,
        "count=1.5 is not a whole number",
        lambda engine: types.contiguous(1.5, "f8"),  # type: ignore[arg-type]
    ),
    "order": (
        ts.InvalidArgument,
        "order='K' is no order of dimensions",
        lambda engine: types.subarray((2,), (1,), (0,), "f8", order="K"),  # type: ignore[arg-type]
    ),
    "distribution": (
        ts.InvalidArgument,
        "names no distribution",
        lambda engine: types.darray(0, (4,), ("blocks",), (2,), "f8"),  # type: ignore[arg-type]
    ),
    "huge": (
        ts.OutOfRange,
        "reaches beyond 2\\^61 bytes",
        lambda engine: types.vector(1 << 40, 1, 1 << 40, "f8"),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_copied_is_refused_before_anything_moves(case: str) -> None:
    kind, message, call = REFUSED[case]
    with ts.Engine(threads=1) as engine, pytest.raises(kind, match=message):
        call(engine)


def test_overlapping_ends_are_refused_and_interleaved_ones_are_not(places: Places) -> None:
    array = np.arange(12.0)
    even, odd = (
        types.vector(6, 1, 2, "f8"),
        types.hindexed_block(1, [8 + 16 * k for k in range(6)], "f8"),
    )
    places.engine.copy(array, array, types=(even, odd)).wait(timeout=60)
    assert np.array_equal(array, np.repeat(np.arange(0.0, 12, 2), 2))
    with pytest.raises(ts.InvalidArgument, match="source and target overlap"):
        places.engine.copy(array, array, types=(even, types.vector(6, 1, 1, "f8")))


def test_short_packs_are_checked_as_others_are(places: Places) -> None:
    """The quick way between NumPy arrays leaves what it does not know to the usual one."""
    kind = types.vector(3, 1, 2, "f8")
    for wrong in (np.array([object()] * 8), np.broadcast_to(1.0, 8)):
        with pytest.raises(ts.Error):
            places.engine.unpack(np.zeros(3), wrong, kind)
    objects = np.array([None] * 8)
    with pytest.raises(ts.Error):
        places.engine.pack(objects, kind)
    shared = np.arange(12.0)
    with pytest.raises(ts.InvalidArgument, match="source and target overlap"):
        places.engine.pack(shared[:8], kind, shared[2:6])
    beside = np.zeros(3)
    for _ in range(2):  # the second time it is known
        assert places.engine.pack(shared, kind, beside) is beside
        assert np.array_equal(beside, shared[[0, 2, 4]])
        places.engine.unpack(beside + 1, shared, kind)
    with ts.Engine(threads=1) as engine:
        assert engine.pack(shared, kind).size == 24
    with pytest.raises(ts.Closed):
        engine.pack(shared, kind)


def test_packs_that_are_known_find_their_own_type_and_arrays(places: Places) -> None:
    """What a pack has remembered is found for the same type and sizes alone, at any addresses."""
    random = np.random.default_rng(3)
    record = np.dtype([("a", "i2"), ("b", "f8")], align=True)
    for turn in range(200):
        # Types, arrays and results are freed in each turn, so that addresses come again.
        count, stride = int(random.integers(1, 5)), int(random.integers(1, 4))
        kind = types.vector(count, 1, stride, "f8")
        slots = 12 + int(random.integers(3))
        array = random.random(slots) if turn % 3 else np.zeros((slots // 2, 2), order="F")
        if turn % 5 == 0:
            array = random.random(2 * slots).view(record)
        source = np.frombuffer(array.tobytes("A"), "f8")
        listed = source[: count * stride : stride][:count]
        for _ in range(3):
            packed = places.engine.pack(array, kind)
            assert np.array_equal(packed.view("f8"), listed, equal_nan=True)
        places.engine.unpack((listed + 1).view(np.uint8), array, kind)
        found = np.frombuffer(array.tobytes("A"), "f8")
        assert np.array_equal(found[: count * stride : stride][:count], listed + 1, equal_nan=True)
        assert np.array_equal(found[count * stride :], source[count * stride :], equal_nan=True)


def test_a_known_pack_refuses_what_the_first_one_would(places: Places) -> None:
    kind = types.vector(3, 1, 2, "f8")
    array, packed = np.arange(6.0), np.zeros(24, np.uint8)
    for _ in range(4):
        places.engine.pack(array, kind, packed)
        places.engine.unpack(packed, array, kind)
    fixed = packed.copy()
    fixed.flags.writeable = False
    with pytest.raises(ts.InvalidArgument, match="read-only"):
        places.engine.pack(array, kind, fixed)
    with pytest.raises(ts.OutOfRange):
        places.engine.pack(array[:4], kind, packed)
    with pytest.raises(ts.OutOfRange):
        places.engine.pack(array, kind, packed[:16])
    with pytest.raises(ts.InvalidArgument, match="one block"):
        places.engine.pack(np.arange(12.0)[::2], kind, packed)
    with pytest.raises(ts.InvalidArgument, match="source and target overlap"):
        places.engine.pack(array, kind, array[1:4].view(np.uint8))
    twice = types.hindexed_block(1, [0, 0, 8], "f8")
    for _ in range(4):
        places.engine.pack(array, twice, packed)
        with pytest.raises(ts.InvalidArgument, match="share bytes"):
            places.engine.unpack(packed, array, twice)


def test_empty_types_move_nothing(places: Places) -> None:
    target = np.arange(4.0)
    empty = types.vector(0, 3, 4, "f8")
    assert empty.nbytes == empty.extent == 0
    places.engine.copy(np.zeros(4), target, types=(empty, types.contiguous(0, "f8"))).wait(60)
    assert np.array_equal(target, np.arange(4.0))
    assert places.engine.pack(target, empty).size == 0


def test_arrays_without_bytes_lose_nothing_of_the_others(places: Places) -> None:
    for empty in (np.empty(0), np.zeros(3)):
        pairs = [(empty, np.empty(0)), (np.arange(4.0), np.zeros(4)), (empty, np.zeros(2))]
        kinds: list[types.TypePair] = [(types.contiguous(count, "f8"), None) for count in (0, 4, 0)]
        places.engine.copy_all(pairs, types=kinds).wait(60)
        assert np.array_equal(pairs[1][1], np.arange(4.0))
        pairs[1][1][:] = 0
        places.engine.prepare_all(pairs, types=kinds).start().wait(60)
        assert np.array_equal(pairs[1][1], np.arange(4.0))
    packed = places.engine.pack(
        [np.empty(0), np.arange(2.0)], [types.contiguous(0, "f8"), "(2,)f8"]
    )
    assert packed.tobytes() == np.arange(2.0).tobytes()


def least_s(work: Callable[[], ts.Event]) -> float:
    """Returns the seconds of the fastest of several runs: a busy machine does not delay all."""
    seconds = []
    for _ in range(7):
        begin = time.monotonic()
        work().wait(60)
        seconds.append(time.monotonic() - begin)
    return min(seconds)


@pytest.mark.parametrize("place", ["host", "device0"])
def test_a_short_array_before_a_long_one(places: Places, place: str) -> None:
    """Its length does not cut the others into as short entries."""
    long = np.random.default_rng(8).integers(0, 256, 20_000_000, np.uint8)
    short = np.ones(1, np.uint8)
    targets = [places.engine.empty(one.shape, "u1", memory=place) for one in (short, long)]
    kinds: list[types.TypePair] = [
        (types.contiguous(one.size, "V1"), None) for one in (short, long)
    ]
    pairs = list(zip((short, long), targets, strict=True))
    engine = places.engine
    alone_s = least_s(lambda: engine.copy_all(pairs[1:], types=kinds[1:]))
    prepared = engine.prepare_all(pairs, types=kinds)
    # Entries of one byte would take some hundred times as long.
    assert least_s(lambda: engine.copy_all(pairs, types=kinds)) < 30 * alone_s
    assert least_s(prepared.start) < 30 * alone_s
    assert places.read(place, targets[1]).tobytes() == long.tobytes()
    repeated = places.engine.pack(short, types.resized("V1", 0, 0), count=3_000_000)
    assert repeated.size == 3_000_000 and repeated.all()


def test_a_prepared_list_of_no_pairs(places: Places) -> None:
    ready = places.engine.prepare_all([], types=[])
    ready.start().wait(60)
    with pytest.raises(ts.InvalidArgument, match="on its own arrays alone"):
        ready.start(source=np.zeros(3))


def test_mpi_types_are_what_mpi_packs() -> None:
    """In a process of its own: an MPI library may bring another UCX than the one under test."""
    if importlib.util.find_spec("mpi4py") is None:
        pytest.skip("mpi4py is not installed")
    script = Path(__file__).with_name("mpi_packs.py")
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "14 types\n"
