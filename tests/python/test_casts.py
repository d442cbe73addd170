"""Numbers that change their types on the way, beside NumPy's and ml_dtypes' conversions.

PyTorch's results are not compared: its float8 and bfloat16 conversions round as ml_dtypes' do, but
PyTorch is not among the libraries of these tests.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from memories import DEVICES, MEMORIES, Places

import tranship as ts

NATIVE = ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
ADDED = (
    "bfloat16",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
)
DTYPES = [np.dtype(name) for name in NATIVE] + [np.dtype(getattr(ml_dtypes, n)) for n in ADDED]
Values = np.ndarray[Any, Any]

EDGES = """0 -0.0 1 -1 0.5 -0.5 1.5 2.5 nan inf -inf 15.5 15.75 30 31 240 248 249 448 464 465 480
    57344 61440 61441 65504 65519 65520 65536 127.9 -128.9 255.9 32768 1e-8 5.96e-8 2.98e-8 1e-45
    1e20 1e38 3.4e38 3e9 -3e9 2147483648 -2147483649 9.3e18 1.85e19"""


@pytest.fixture(scope="module")
def places() -> Iterator[Places]:
    with ExitStack() as stack:
        yield Places(stack)


@pytest.fixture(scope="module")
def engine(places: Places) -> ts.Engine:
    return places.engine


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy warns of imaginary parts, NaN and overflow
        yield


def middles(dtype: np.dtype[Any]) -> Values:
    """Returns numbers halfway between neighbours in float16 and bfloat16, and those beside them."""
    halves = np.arange(0x7C00, dtype="u2").view("f2").astype("f8")
    brains = (np.arange(0x7F80, dtype="u4") << 16).view("f4").astype("f8")
    ties = np.concatenate([(one[1:] + one[:-1]) / 2 for one in (halves, brains)]).astype(dtype)
    sides = [np.nextafter(ties, dtype.type(limit)) for limit in (np.inf, -np.inf)]
    all_of_them = np.concatenate([ties, *sides])
    return np.concatenate([all_of_them, -all_of_them])


def values_of(dtype: np.dtype[Any]) -> Values:
    """Returns all values of a type of one or two bytes, and edges and random values of others."""
    if dtype == np.bool_:
        return np.array([False, True])
    if dtype.itemsize <= 2:
        return np.arange(1 << 8 * dtype.itemsize, dtype=f"u{dtype.itemsize}").view(dtype)
    random = np.random.default_rng(dtype.itemsize)
    bits = np.frombuffer(random.bytes(dtype.itemsize * 4000), dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        near = [2**k + d for k in range(8 * dtype.itemsize) for d in (-1, 0, 1)]
        kept = [n for n in near if n <= info.max] + [info.min, info.max]
        small = random.integers(max(info.min, -70000), 70000, 2000)
        return np.concatenate([bits, np.array(kept, dtype), small.astype(dtype)])
    scales = 10.0 ** random.uniform(-45, 38, 3000)
    edges = np.array(EDGES.split(), "f8")
    reals = np.concatenate([edges, random.standard_normal(3000) * scales])
    if dtype.kind == "c":
        mixed = np.empty(len(reals), dtype)
        mixed.real, mixed.imag = reals, random.permutation(reals)
        mixed.imag[: len(edges)] = 0
        return mixed
    signalling = np.array([0x7FF0000000000001, 0xFFF4000000000000], "u8").view("f8")
    if dtype == "f4":
        signalling = np.array([0x7F800001, 0xFF812345], "u4").view("f4")
    return np.concatenate([reals.astype(dtype), bits, signalling, middles(dtype)])


def converted(values: Values, dtype: np.dtype[Any]) -> Values:
    """Returns NumPy's conversion."""
    if dtype == "u4" and values.ndim == 1 and values.dtype.kind in "fcV":
        # Out of range NumPy's vector instructions give other results than its scalar ones, which a
        # single element has wherever it lies.
        return np.concatenate([values[k : k + 1].astype(dtype) for k in range(len(values))])
    return values.astype(dtype)


def casts(source: np.dtype[Any], target: np.dtype[Any]) -> bool:
    """Returns whether there is a conversion: not between float8_e8m0fnu and other float8 kinds."""
    return bool(np.can_cast(source, target, "unsafe"))


@pytest.mark.parametrize("target", DTYPES, ids=str)
@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_every_pair_of_types_converts_as_numpy_does(
    engine: ts.Engine, source: np.dtype[Any], target: np.dtype[Any]
) -> None:
    values = values_of(source)
    result = np.zeros(values.shape, target)
    if not casts(source, target):
        with pytest.raises(ts.InvalidArgument, match="there is no conversion"):
            engine.copy(values, result, cast="unsafe")
        return
    engine.copy(values, result, cast="unsafe").wait(timeout=60)
    assert result.tobytes() == converted(values, target).tobytes()


@pytest.mark.parametrize("device", DEVICES[:1])
@pytest.mark.parametrize("target", DTYPES, ids=str)
def test_gpus_convert_as_the_host_does(places: Places, device: str, target: np.dtype[Any]) -> None:
    for source in DTYPES:
        if not casts(source, target):
            continue
        values = values_of(source)[:20000]
        expected = np.zeros(values.shape, target)
        places.engine.copy(values, expected, cast="unsafe").wait(timeout=60)
        given, _ = places.put(values, device)
        result, kept = places.put(np.zeros(values.shape, target), device)
        places.engine.copy(given, result, cast="unsafe").wait(timeout=60)
        assert places.read(device, kept).tobytes() == expected.tobytes(), source


def test_rules_are_those_of_numpy(engine: ts.Engine) -> None:
    for source in DTYPES:
        for target in DTYPES:
            for rule in ("safe", "same_kind", "unsafe"):
                allowed = source == target or np.can_cast(source, target, rule)
                try:
                    engine.copy(np.zeros(1, source), np.zeros(1, target), cast=rule).wait(
                        timeout=60
                    )
                    taken = True
                except ts.InvalidArgument:
                    taken = False
                assert taken == allowed, (source, target, rule)


def test_without_cast_types_stay(engine: ts.Engine) -> None:
    with pytest.raises(ts.InvalidArgument, match=r"does not convert types.*cast=\"safe\""):
        engine.copy(np.zeros(3, "f4"), np.zeros(3, "f8"))
    engine.copy(np.zeros(3, "f4"), np.zeros(3, "f8"), cast="safe").wait(timeout=60)
    with pytest.raises(ts.InvalidArgument, match="does not convert types"):
        engine.copy(np.zeros(3, "f4"), np.zeros(3, "f8"))


@pytest.mark.parametrize(
    ("source", "target", "cast", "reason"),
    [
        ("f8", "f4", "safe", r"cast=\"safe\" does not allow.*cast=\"same_kind\" allows it"),
        ("c8", "f8", "same_kind", r"may lose values; cast=\"unsafe\" allows it"),
        ("f8", "i4", "same_kind", r"cast=\"unsafe\" allows it"),
        ("S4", "i4", "unsafe", "numbers alone"),
        ("M8[s]", "i8", "unsafe", "numbers alone"),
        ("f4", "f8", "equiv", r"cast=\"equiv\" is no casting rule"),
        ("f4", "f8", 3, "cast=3 is not a text"),
    ],
)
def test_what_may_not_be_converted(
    engine: ts.Engine, source: str, target: str, cast: Any, reason: str
) -> None:
    result = np.full(3, 7).astype(target)
    before = result.copy()
    with pytest.raises(ts.InvalidArgument, match=reason):
        engine.copy(np.zeros(3, source), result, cast=cast)
    assert result.tobytes() == before.tobytes()


def test_types_and_cast_exclude_each_other(engine: ts.Engine) -> None:
    types = (ts.types.vector(1, 1, 1, "f4"), ts.types.vector(1, 1, 1, "f4"))
    with pytest.raises(ts.InvalidArgument, match="together with types"):
        engine.copy(np.zeros(1, "f4"), np.zeros(1, "f4"), types=types, cast="safe")


def random_array(random: np.random.Generator, shape: list[int], dtype: np.dtype[Any]) -> Values:
    """Returns a view with random strides over memory of a type and some byte order."""
    order = random.permutation(len(shape))
    steps = [int(random.integers(1, 3)) for _ in shape]
    room = [shape[k] * steps[k] for k in order]
    base = np.zeros(room, dtype)
    view = base.transpose(np.argsort(order))[(*(slice(None, None, n) for n in steps), ...)]
    flips = [slice(None, None, -1 if random.random() < 0.2 else 1) for _ in shape]
    return view[(*flips, ...)]


def some_dtypes(random: np.random.Generator) -> list[np.dtype[Any]]:
    """Draws two types between which there is a conversion, in any byte order."""
    while True:
        drawn = [DTYPES[int(random.integers(len(DTYPES)))] for _ in range(2)]
        if casts(*drawn):
            break
    swaps = [one.isbuiltin == 1 and random.random() < 0.3 for one in drawn]
    return [one.newbyteorder(">") if s else one for one, s in zip(drawn, swaps, strict=True)]


@pytest.mark.parametrize("seed", range(150))
def test_any_strides_between_any_memories(places: Places, seed: int) -> None:
    random = np.random.default_rng(seed)
    sides = [random.choice([*MEMORIES, "plain", "shared", "network"]) for _ in range(2)]
    rank = int(random.integers(1, 5))
    shape = [int(random.integers(1, 40 if rank < 3 else 9)) for _ in range(rank)]
    source, target = some_dtypes(random)
    values = random_array(random, shape, source)
    values[...] = random.integers(0, 100, shape).astype(source)
    expected = converted(values, target)
    whole_given, _ = places.put(np.ascontiguousarray(values), sides[0])
    given = values if sides[0] == "host" else whole_given
    result: Any = random_array(random, shape, target) if sides[1] == "host" else None
    kept = result
    if sides[1] != "host":
        result, kept = places.put(np.zeros(shape, target), sides[1])
    places.engine.copy(given, result, cast="unsafe").wait(timeout=60)
    if sides[1] == "host":
        assert result.tobytes() == expected.tobytes()
    else:
        assert places.read(sides[1], kept).tobytes() == expected.tobytes()


LAYOUTS = ("F, x, y", "x, y, F", "y, F, x", "x:4, F, x, y", "y:3, x:2, F, y, x", "x, F, y")


@pytest.mark.parametrize("seed", range(40))
def test_any_layouts_of_records(engine: ts.Engine, seed: int) -> None:
    random = np.random.default_rng(seed)
    extents = {"x": int(random.integers(1, 30)), "y": int(random.integers(1, 30))}
    names = ["a", "b", "c"][: int(random.integers(1, 4))]
    dtypes = {name: some_dtypes(random) for name in names}
    records, instances = [], []
    for side in range(2):
        order = [str(name) for name in random.permutation(names)]
        point = np.dtype([(name, dtypes[name][side]) for name in order])
        records.append(np.zeros(tuple(extents.values()), point))
        layout = LAYOUTS[int(random.integers(len(LAYOUTS)))]
        instances.append(ts.Instance(extents=extents, fields=point, layout=layout))
    for name in names:
        values = random.integers(0, 100, records[0].shape)
        records[0][name] = values.astype(dtypes[name][0])
    engine.copy(records[0], instances[0]).wait(timeout=60)
    engine.copy(instances[0], instances[1], cast="unsafe").wait(timeout=60)
    engine.copy(instances[1], records[1]).wait(timeout=60)
    for name in names:
        expected = converted(records[0][name].copy(), dtypes[name][1])
        assert records[1][name].tobytes() == expected.tobytes(), name


@pytest.mark.parametrize("place", ["host", *DEVICES[:1]])
def test_files_convert_in_memory(places: Places, tmp_path: Path, place: str) -> None:
    values = np.random.default_rng(0).standard_normal((300, 70)) * 1e3
    np.save(tmp_path / "in.npy", values)
    result, kept = places.put(np.zeros((300, 70), "f4"), place)
    event = places.engine.copy(ts.File(tmp_path / "in.npy"), result, cast="same_kind")
    event.wait(timeout=60)
    assert places.read(place, kept).tobytes() == values.astype("f4").tobytes()
    assert "(casts f8 to f4)" in event.plan.explain()
    fields = {"extents": {"x": 300, "y": 70}, "fields": "i2"}
    with ts.File(tmp_path / "out.npy", mode="w", **fields) as file:
        places.engine.copy(result, file, cast="unsafe").wait(timeout=60)
    expected = values.astype("f4").astype("i2")
    assert np.load(tmp_path / "out.npy").tobytes() == expected.tobytes()


def test_one_hop_of_a_path_casts(places: Places, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.zeros((4000, 50), "f4"))
    for place in MEMORIES:
        result, _ = places.put(np.zeros((4000, 50), "f8"), place)
        for planner in ("automatic", "full", "simple", "spsl", "spdl"):
            plan = places.engine.plan(
                ts.File(tmp_path / "in.npy"), result, cast="safe", planner=planner
            )
            lines = plan.explain().splitlines()
            lanes = [line for line in lines if line.startswith("node0/file0 > ")]
            casting = [line for line in lines if "(casts f4 to f8)" in line]
            assert len(casting) == len(lanes), (place, planner)
            assert not any("file_read" in line for line in casting), (place, planner)


def test_large_arrays_convert_in_tiles(places: Places) -> None:
    values = np.random.default_rng(1).standard_normal((2100, 1700))
    for place in ("host", *DEVICES[-1:]):
        result, kept = places.put(np.zeros((1700, 2100), "f2"), place)
        event = places.engine.copy(values.T, result, cast="same_kind")
        event.wait(timeout=60)
        assert places.read(place, kept).tobytes() == values.T.astype("f2").tobytes()


def test_prepared_copies_convert_at_each_start(places: Places) -> None:
    for place in ("host", *DEVICES[:1]):
        values, _ = places.put(np.arange(5000, dtype="i4"), place)
        result, kept = places.put(np.zeros(5000, "f8"), place)
        ready = places.engine.prepare(values, result, cast="safe")
        for _ in range(2):
            ready.start().wait(timeout=60)
            assert places.read(place, kept).tobytes() == np.arange(5000.0).tobytes()


LISTED = [("f8", "f4"), ("i2", "f8"), ("f4", "bfloat16"), ("f4", "f4"), ("u1", "f2")]


def listed_pairs(places: Places, sides: tuple[str, str]) -> tuple[list[Any], list[Any], list[Any]]:
    """Returns pairs of arrays of several types, what holds each target, and what it becomes."""
    random = np.random.default_rng(5)
    pairs, kept, expected = [], [], []
    for k, names in enumerate(LISTED):
        source, target = (np.dtype(getattr(ml_dtypes, one, one)) for one in names)
        values = random.integers(0, 100, (30 + k, 20)).astype(source)
        given, _ = places.put(values, sides[0])
        result, holder = places.put(np.zeros(values.shape, target), sides[1])
        pairs.append((given, result))
        kept.append(holder)
        expected.append(values.astype(target))
    return pairs, kept, expected


@pytest.mark.parametrize("sides", list(itertools.product(("host", *DEVICES[:1]), repeat=2)))
@pytest.mark.parametrize("prepared", [False, True])
def test_each_pair_of_a_list_has_its_own_types(
    places: Places, sides: tuple[str, str], prepared: bool
) -> None:
    pairs, kept, expected = listed_pairs(places, sides)
    with pytest.raises(ts.InvalidArgument, match="does not convert types"):
        places.engine.copy_all(pairs)
    with pytest.raises(ts.InvalidArgument, match=r"cast=\"safe\" does not allow"):
        places.engine.copy_all(pairs, cast="safe")
    for holder in kept:
        assert not places.read(sides[1], holder).any()
    for _ in range(2):
        if prepared:
            event = places.engine.prepare_all(pairs, cast="unsafe").start()
        else:
            event = places.engine.copy_all(pairs, cast="unsafe")
        event.wait(timeout=60)
        for holder, values in zip(kept, expected, strict=True):
            assert places.read(sides[1], holder).tobytes() == values.tobytes()


@pytest.mark.parametrize("place", ["host", *DEVICES[:1]])
@pytest.mark.parametrize("prepared", [False, True])
def test_pages_change_their_types(places: Places, place: str, prepared: bool) -> None:
    values = np.arange(12.0 * 30).reshape(12, 30)
    given, _ = places.put(values, place)
    result, kept = places.put(np.zeros((6, 30), "f4"), place)
    lists = [11, 3, 4, 0], [0, 1, 2, 5]
    with pytest.raises(ts.InvalidArgument, match="does not convert types"):
        places.engine.copy_pages(given, result, *lists)
    with pytest.raises(ts.InvalidArgument, match="does not allow"):
        places.engine.copy_pages(given, result, *lists, cast="safe")
    assert not places.read(place, kept).any()
    if prepared:
        places.engine.prepare_pages(given, result, *lists, cast="same_kind").start().wait(60)
    else:
        places.engine.copy_pages(given, result, *lists, cast="same_kind").wait(timeout=60)
    expected = np.zeros((6, 30), "f4")
    expected[lists[1]] = values[lists[0]]
    assert places.read(place, kept).tobytes() == expected.tobytes()


def test_pages_of_one_type_stay_one_copy(engine: ts.Engine) -> None:
    values, result = np.arange(80, dtype="i4").reshape(8, 10), np.zeros((8, 10), "i4")
    engine.copy_pages(values, result, [1, 0], [0, 1], cast="unsafe").wait(timeout=60)
    assert (result[:2] == values[[1, 0]]).all()


def test_sources_broadcast_and_convert(engine: ts.Engine) -> None:
    row, result = np.arange(5, dtype="i4"), np.zeros((3, 5), "f8")
    engine.copy(row, result, cast="safe").wait(timeout=60)
    assert (result == row).all()
    engine.copy_all([(row[:1] + 7, result)], cast="safe").wait(timeout=60)
    assert (result == 7).all()
    prepared = engine.prepare(row, result, cast="safe")
    prepared.start().wait(timeout=60)
    assert (result == row).all()


def test_types_of_a_list_exclude_cast(engine: ts.Engine) -> None:
    raw = (ts.types.vector(1, 1, 1, "f4"), None)
    pairs = [(np.zeros(1, "f4"), np.zeros(1, "f4"))]
    for call in (engine.copy_all, engine.prepare_all):
        with pytest.raises(ts.InvalidArgument, match="together with types"):
            call(pairs, types=[raw], cast="safe")


def test_arrays_that_overlap_are_refused(engine: ts.Engine) -> None:
    memory = np.zeros(100, "u1")
    with pytest.raises(ts.InvalidArgument, match="overlap"):
        engine.copy(memory[:8].view("f4"), memory[4:20].view("f8"), cast="safe")
