"""Instances, files, GPU arrays and arrays of peers are indexed, read and assigned as NumPy's."""

from __future__ import annotations

import datetime
import math
import threading
from array import array as array_of_items
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exporters import Exporter
from gpu_support import EMULATED, gpu_count

import tranship as ts
from tranship import _core
from tranship.arrays.values import KEPT_MOST, VALUE_BYTES, KeptValues, kept_values

KINDS = ("instance", "raw", "npy", *(f"device{k}" for k in range(min(gpu_count(), 2))))
PEERS = ("plain", "shared", "device")
WAYS = ("shared", "network")
BYTES = 1 << 14
Random = np.random.Generator
Ids = np.ndarray[Any, np.dtype[np.int64]]
Start = Callable[..., Exporter]


@pytest.fixture(scope="module")
def engine() -> Iterator[ts.Engine]:
    with ts.Engine(emulated_gpus=EMULATED, threads=2, contact=True) as opened:
        yield opened


class House:
    """Makes arrays of every kind with given values."""

    def __init__(self, engine: ts.Engine, folder: Path, stack: ExitStack) -> None:
        self.engine = engine
        self.folder = folder
        self.stack = stack
        self.made = 0

    def put(self, values: np.ndarray[Any, Any], kind: str) -> Any:
        if kind == "instance":
            return ts.Instance(values.copy(), extents=values.shape, fields=values.dtype)
        if kind in ("raw", "npy"):
            self.made += 1
            path = self.folder / f"array{self.made}.{kind}"
            if kind == "npy":
                np.save(path, values)
                return self.stack.enter_context(ts.File(path, mode="r+"))
            values.tofile(path)
            file = ts.File(path, extents=values.shape, fields=values.dtype, mode="r+")
            return self.stack.enter_context(file)
        array = self.engine.empty(values.shape, values.dtype, memory=kind)
        self.engine.copy(values, array).wait(timeout=60)
        return array


@pytest.fixture
def house(engine: ts.Engine, tmp_path: Path) -> Iterator[House]:
    with ExitStack() as stack:
        yield House(engine, tmp_path, stack)


def random_values(random: Random, shape: tuple[int, ...], kind: str = "i4") -> np.ndarray[Any, Any]:
    return random.integers(0, 100, shape).astype(kind)


def random_shape(random: Random, rank: int | None = None) -> tuple[int, ...]:
    many = int(random.integers(0, 4)) if rank is None else rank
    return tuple(int(random.choice([1, 2, 3, 4, 5, 7])) for _ in range(many))


def random_range(random: Random, extent: int) -> slice:
    def bound() -> int | None:
        return None if random.random() < 0.3 else int(random.integers(-extent - 2, extent + 3))

    return slice(bound(), bound(), random.choice([None, 1, 2, -1, -2, 3]))


def random_part(random: Random, extent: int, tables: bool) -> Any:
    """Draws an index, a range or an array of indices of one dimension."""
    choice = random.random()
    if choice < 0.2 and extent > 0:
        return int(random.integers(-extent, extent))
    if not tables or choice < 0.65 or extent == 0:
        return random_range(random, extent)
    if choice < 0.8:
        return random.random(extent) < 0.5
    shape = [(3,), (1,), (2, 3), (2, 1)][int(random.integers(4))]
    found = random.integers(-extent, extent, shape)
    return found.tolist() if random.random() < 0.3 else found.astype(random.choice(["i4", "i8"]))


def random_key(random: Random, shape: tuple[int, ...], tables: bool) -> Any:
    """Draws what may stand in brackets; NumPy may refuse it."""
    parts: list[Any] = [random_part(random, extent, tables) for extent in shape]
    parts = parts[: int(random.integers(0, len(parts) + 1))]
    if random.random() < 0.3:
        parts.insert(int(random.integers(0, len(parts) + 1)), Ellipsis)
    if len(shape) < 5 and random.random() < 0.3:
        parts.insert(int(random.integers(0, len(parts) + 1)), None)
    if tables and random.random() < 0.03:
        parts.insert(int(random.integers(0, len(parts) + 1)), bool(random.integers(2)))
    if tables and len(shape) > 1 and random.random() < 0.1:
        return random.random(shape[:2]) < 0.5
    return parts[0] if len(parts) == 1 and random.random() < 0.5 else tuple(parts)


def random_order(random: Random, size: int) -> tuple[int, ...]:
    """Draws a shape of so many elements."""
    shape = []
    while size > 1 and random.random() < 0.7:
        divisors = [k for k in range(2, size + 1) if size % k == 0]
        shape.append(int(random.choice(divisors)))
        size //= shape[-1]
    shape.append(size)
    return tuple(int(n) for n in random.permutation(shape))


def step(random: Random, array: Any, ids: Any, tables: bool) -> tuple[Any, Any]:
    """Changes an array in a random way, and the numbers of its elements in the same way."""
    choice = random.random()
    if choice < 0.2:
        order = tuple(int(k) for k in random.permutation(ids.ndim))
        return (
            (array.T, ids.T)
            if random.random() < 0.3
            else (array.transpose(*order), ids.transpose(order))
        )
    if choice < 0.35 and ids.ndim < 6:
        return reshape(random, array, ids)
    key = random_key(random, ids.shape, tables)
    wanted = taken(array, ids, key)
    return (array, ids) if wanted is None else (array[key], wanted)


def taken(array: Any, ids: Any, key: Any) -> Any:
    """Returns what NumPy has for a key; None if it refuses, and the array does, too.

    NumPy does not look at indices of which there are none, such as those of an empty mask and 9.
    """
    try:
        wanted = ids[key]
    except IndexError:
        with pytest.raises((ts.OutOfRange, ts.InvalidArgument)):
            array[key]
        return None
    try:
        array[key]
    except ts.OutOfRange:
        assert np.size(wanted) == 0
        return None
    return wanted


def reshape(random: Random, array: Any, ids: Any) -> tuple[Any, Any]:
    """Reshapes an array; one that has strides is refused where NumPy would copy."""
    shape = random_order(random, ids.size) if ids.size else (0, 3)
    view = not isinstance(array, ts.Selection) and ids.ndim > 0
    if view and not np.shares_memory(ids, ids.reshape(shape)) and ids.size:
        with pytest.raises(ts.InvalidArgument, match="without a copy"):
            array.reshape(shape)
        return array, ids
    return array.reshape(shape), ids.reshape(shape)


def random_source(random: Random, shape: tuple[int, ...], house: House) -> tuple[Any, Any]:
    """Draws a value that broadcasts to a shape; returns it and its values."""
    if random.random() < 0.2:
        value = int(random.integers(100))
        return value, np.asarray(value)
    extents = [n if random.random() < 0.7 else 1 for n in shape]
    extents = extents[int(random.integers(0, len(extents) + 1)) :]
    kind = str(random.choice(["i4", "i4", "f8", "i2"]))
    values = random_values(random, tuple(extents), kind)
    if kind == "i4" and values.size > 0 and values.ndim < 8 and random.random() < 0.5:
        return house.put(values, str(random.choice(KINDS))), values
    return (values.tolist() if values.size and random.random() < 0.2 else values), values


def check(array: Any, whole: Any, base: np.ndarray[Any, Any], ids: Any) -> None:
    """Compares an array, and the array that it is a part of, with NumPy's."""
    assert (array.shape, array.ndim, array.size) == (ids.shape, ids.ndim, ids.size)
    assert array.nbytes == ids.size * array.itemsize
    assert np.array_equal(array.numpy(), base.reshape(-1)[ids])
    assert np.array_equal(whole.numpy(), base)


def run_chain(random: Random, whole: Any, base: np.ndarray[Any, Any], house: House) -> None:
    array, ids = whole, np.arange(base.size).reshape(base.shape)
    for _ in range(int(random.integers(1, 5))):
        array, ids = step(random, array, ids, tables=random.random() < 0.5)
        assert array.shape == np.shape(ids)
    ids = np.asarray(ids)
    check(array, whole, base, ids)
    source, values = random_source(random, ids.shape, house)
    array[...] = source
    # Of an element that is named twice the last value stays.
    base.reshape(-1)[ids.reshape(-1)] = np.broadcast_to(values, ids.shape).reshape(-1)
    check(array, whole, base, ids)
    key = random_key(random, ids.shape, tables=True)
    found = taken(array, ids, key)
    if found is None:
        return
    part = np.asarray(found)
    source, values = random_source(random, part.shape, house)
    array[key] = source
    base.reshape(-1)[part.reshape(-1)] = np.broadcast_to(values, part.shape).reshape(-1)
    check(array, whole, base, ids)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(40))
def test_chains_beside_numpy(house: House, kind: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    base = random_values(random, random_shape(random, int(random.integers(1, 4))))
    run_chain(random, house.put(base, kind), base, house)


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("way", WAYS)
def test_chains_on_arrays_of_another_process(
    house: House, exporter: Start, way: str, name: str, tmp_path: Path
) -> None:
    gpus = {"TRANSHIP_EMULATED_GPUS": str(EMULATED)} if EMULATED else {}
    if "device1" not in KINDS and name == "device":
        pytest.skip("needs two GPUs")
    other = exporter(
        "--bytes",
        str(BYTES),
        *(["--gpu"] if name == "device" else []),
        TRANSHIP_TRANSPORT=way,
        **gpus,
    )
    peer = house.engine.connect(other.contact)
    for seed in range(30):
        random = np.random.default_rng(1000 + seed)
        base = random_values(random, random_shape(random, int(random.integers(1, 4))))
        part = peer[name][: base.nbytes].view("i4").reshape(base.shape)
        part[...] = base
        run_chain(random, part, base, house)
        other.ask(f"dump {name} {tmp_path / 'dump'}")
        dumped = np.fromfile(tmp_path / "dump", np.uint8)[: base.nbytes]
        assert dumped.tobytes() == base.tobytes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(10))
def test_parts_that_overlap_are_assigned_as_from_a_copy(house: House, kind: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    base = random_values(random, (6, 6))
    array = house.put(base, kind)
    for _ in range(6):
        target, source = (random_key(random, base.shape, True) for _ in range(2))
        try:
            wanted = base.copy()
            wanted[target] = base[source].copy()
        except (IndexError, TypeError, ValueError):
            continue
        array[target] = array[source]
        base = wanted
        assert np.array_equal(array.numpy(), base)
    array[...] = array.T
    assert np.array_equal(array.numpy(), base.T)


TYPES = ("u1", "i2", "f4", "f8", "c16", "S3", "M8[s]", ">i4")
RECORDS = [("mass", "f8"), ("id", "i4"), ("tag", "S4")]
PADDED = np.dtype({"names": ["a", "b"], "formats": ["u1", "f4"], "offsets": [1, 4], "itemsize": 12})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(20))
def test_views_of_other_types(house: House, kind: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    raw = random.integers(0, 100, (*random_shape(random, 2), 48), dtype=np.uint8)
    array: Any = house.put(raw, kind)
    base: Any = raw.copy()
    for _ in range(4):
        dtype = np.dtype(random.choice(TYPES)) if random.random() < 0.8 else np.dtype(RECORDS)
        if random.random() < 0.4:
            order = random.permutation(base.ndim)
            base, array = base.transpose(order), array.transpose(order)
        try:
            wanted = base.view(dtype)
        except ValueError:
            with pytest.raises(ts.InvalidArgument, match="cannot be viewed"):
                array.view(dtype)
            continue
        base, array = wanted, array.view(dtype)
        assert (array.shape, array.dtype, array.strides) == (base.shape, base.dtype, base.strides)
        assert array.numpy().tobytes() == base.tobytes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.dtype(RECORDS), PADDED], ids=["records", "padded"])
def test_fields(house: House, kind: str, dtype: np.dtype[Any]) -> None:
    if kind == "raw" and dtype is PADDED:
        pytest.skip("a raw file has no header that could say so, and the test no layout")
    base = np.zeros((3, 4), dtype)
    array = house.put(base, kind)
    for k, name in enumerate(dtype.names or ()):
        array[name] = np.arange(12).reshape(3, 4).astype("S2" if dtype[name].kind == "S" else "i4")
        base[name] = np.arange(12).reshape(3, 4).astype("S2" if dtype[name].kind == "S" else "i4")
        array[name][[0, 2], k] = 7
        base[name][[0, 2], k] = 7
        assert np.array_equal(array[1:][name].numpy(), base[1:][name])
        assert np.array_equal(array[[2, 0]][name].numpy(), base[[2, 0]][name])
    names = list(dtype.names or ())[::-1][:2]
    for name in names:
        assert np.array_equal(array[names].numpy()[name], base[name])
        assert np.array_equal(array[:, [1, 1]][names].numpy()[name], base[:, [1, 1]][name])
    array[[1, 2], 1:] = base[[0, 1], :3]
    base[[1, 2], 1:] = base[[0, 1], :3]
    array[0, 0] = base[2, 3]
    base[0, 0] = base[2, 3]
    assert all(np.array_equal(array.numpy()[name], base[name]) for name in dtype.names or ())
    with pytest.raises(ts.NotFound, match="no field 'none'"):
        array["none"]
    with pytest.raises(ts.NotFound, match="no field 'none'"):
        array[[0]]["none"]


@pytest.mark.parametrize("kind", KINDS)
def test_properties_and_conversions(house: House, kind: str) -> None:
    base = np.arange(24.0).reshape(2, 3, 4)
    array = house.put(base, kind)
    for ours, numpys in ((array, base), (array.T, base.T), (array[:, ::-2], base[:, ::-2])):
        for name in ("shape", "ndim", "size", "itemsize", "nbytes", "strides", "dtype"):
            assert getattr(ours, name) == getattr(numpys, name), name
        assert np.array_equal(ours.copy() if kind[:6] != "device" else ours.numpy(), numpys)
    assert array.device == {"instance": "cpu", "raw": "file", "npy": "file"}.get(
        kind, int(kind[-1]) if kind[-1].isdigit() else None
    )
    assert float(array[0, 1, 2]) == 6.0 == array[0, 1, 2].item() and int(array[1, 0, 0]) == 12
    assert complex(array[0, 0, 1]) == 1 + 0j
    with pytest.raises(ValueError, match="24 elements"):
        array.item()
    assert [row.shape for row in array[[1, 0, 1]]] == [(3, 4)] * 3
    assert 6.0 in array and 6.5 not in array[[0]]
    assert "Selection" in repr(array[[0]]) and "(1, 3, 4)" in repr(array[[0]])


@pytest.mark.parametrize("kind", KINDS)
def test_comparisons_are_refused(house: House, kind: str) -> None:
    array = house.put(np.zeros(3), kind)
    for one in (array, array[[0, 1]]):
        for compare in (
            lambda a: a == 0,
            lambda a: a != 0,
            lambda a: a < 0,
            lambda a: a <= 0,
            lambda a: a > 0,
            lambda a: a >= 0,
            lambda a: a == a,
        ):
            with pytest.raises(TypeError, match=r"compare a copy, as in array\.numpy\(\)"):
                compare(one)
        with pytest.raises(TypeError, match="ambiguous"):
            bool(one)
        assert one in [one] and {one: 1}[one] == 1 and hash(one) == hash(one)


BAD_KEYS: dict[str, tuple[Any, type[ts.Error], str]] = {
    "beyond": (7, ts.OutOfRange, "the index 7 lies outside a dimension of 3"),
    "before": (-4, ts.OutOfRange, "the index -4 lies outside a dimension of 3"),
    "in an array": ([0, 9], ts.OutOfRange, "the index 9 lies outside a dimension of 3"),
    "second": ((0, np.array([1, -5])), ts.OutOfRange, "the index -5 lies outside a dimension of 4"),
    "too many": ((0, 0, 0), ts.InvalidArgument, "3 entries for 2 dimensions"),
    "ellipses": ((..., 0, ...), ts.InvalidArgument, "several ellipses"),
    "a float": (1.5, ts.InvalidArgument, "1.5 is not an index"),
    "floats": (np.array([1.5]), ts.InvalidArgument, "is not an index"),
    "ragged": ([[0], [1, 2]], ts.InvalidArgument, "is not an index"),
    "a set": ({1}, ts.InvalidArgument, "is not an index"),
    "a step of 0": (slice(None, None, 0), ts.InvalidArgument, "step other than 0"),
    "a mask": (np.ones(4, bool), ts.InvalidArgument, r"the mask has the shape \(4,\)"),
    "apart": (([0, 1], [0, 1, 2]), ts.InvalidArgument, r"the shapes \(2,\) and \(3,\)"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", BAD_KEYS)
def test_bad_keys(house: House, kind: str, case: str) -> None:
    key, error, text = BAD_KEYS[case]
    base = random_values(np.random.default_rng(1), (3, 4))
    array = house.put(base, kind)
    with pytest.raises(error, match=text):
        array[key]
    with pytest.raises(error, match=text):
        array[key] = 1
    with pytest.raises(error, match=text):
        array[np.arange(3)][key]
    assert np.array_equal(array.numpy(), base)


BAD_VALUES: dict[str, tuple[Any, str]] = {
    "longer": (np.zeros((3, 5), "i4"), r"shape \(3, 5\), .* of the target, \(3, 4\)"),
    "more": (np.zeros((2, 3, 4), "i4"), r"shape \(2, 3, 4\), .* of the target, \(3, 4\)"),
    "a text": ("seven", "cannot read an argument"),
    "too large": (1 << 40, "cannot read an argument"),
    "ragged": ([[1], [2, 3]], "cannot read an argument"),
    "masked": (np.ma.masked_array(np.zeros((3, 4)), mask=True), "has a mask"),
    "an object": (object(), "cannot read an argument"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", BAD_VALUES)
def test_bad_values(house: House, kind: str, case: str) -> None:
    value, text = BAD_VALUES[case]
    base = random_values(np.random.default_rng(1), (3, 4))
    array = house.put(base, kind)
    for key in (..., np.arange(3)):
        with pytest.raises(ts.InvalidArgument, match=text):
            array[key] = value
    with pytest.raises(ts.InvalidArgument):
        array.fill([1, 2])
    assert np.array_equal(array.numpy(), base)


def test_what_is_read_only(engine: ts.Engine, exporter: Start, tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", np.zeros(3))
    fixed = np.zeros(3)
    fixed.flags.writeable = False
    peer = engine.connect(exporter().contact)
    for array in (ts.File(tmp_path / "f.npy"), ts.Instance(fixed, extents=3), peer["fixed"]):
        with pytest.raises(ts.InvalidArgument, match="is read-only"):
            array[0] = 1
        with pytest.raises(ts.InvalidArgument, match="is read-only"):
            array[[0]] = 1
        with pytest.raises(ts.InvalidArgument, match="is read-only"):
            array.fill(1)
    assert not np.load(tmp_path / "f.npy").any() and not fixed.any()


def test_layouts_of_instances(tmp_path: Path) -> None:
    base = random_values(np.random.default_rng(2), (5, 6), "f8")
    for layout in ("F, x, y", "F, y, x"):
        array = ts.Instance(extents={"x": 5, "y": 6}, fields="f8", layout=layout)
        array[...] = base
        array[[4, 0], ::-1] = base[:2]
        wanted = base.copy()
        wanted[[4, 0], ::-1] = base[:2]
        assert np.array_equal(array.numpy(), wanted) and array.T.dimensions == ("y", "x")
        array[...] = base.T.reshape(5, 6)  # by position, whatever the names
        assert np.array_equal(array.numpy(), base.T.reshape(5, 6))
        square = array[:5, :5]
        square[...] = square.T
        assert np.array_equal(square.numpy(), base.T.reshape(5, 6)[:5, :5].T)
    blocked = ts.Instance(extents={"x": 5, "y": 6}, fields="f8", layout="x:2, F, y, x")
    blocked[...] = base
    assert np.array_equal(blocked.T.numpy(), base.T)
    blocked[1:3, 2:] = base[:2, :4]
    assert np.array_equal(blocked[1:3, 2:].numpy(), base[:2, :4])
    for refused in (lambda a: a.strides, lambda a: a[[0]], lambda a: a[None], lambda a: a[::2]):
        with pytest.raises(ts.Error, match=r'dimension "x" is stored in blocks') as caught:
            refused(blocked)
        assert caught.value.code == "unsupported"
    apart = ts.Instance(extents={"x": 4}, fields={"a": "f8", "b": "u1"}, layout="x, F")
    with pytest.raises(ts.InvalidArgument, match="strides of their own"):
        apart[[0, 1]]
    apart["b"][[0, 1]] = 3
    assert apart["b"].numpy().tolist() == [3, 3, 0, 0]


class TestDlpack:
    """Arrays are handed to other libraries where their memory lies in this process."""

    @pytest.mark.parametrize("kind", ("instance", *(k for k in KINDS if k[:6] == "device")))
    def test_numpy_reads_in_place(self, house: House, kind: str) -> None:
        if not EMULATED and kind != "instance":
            pytest.skip("NumPy reads no GPU")
        base = random_values(np.random.default_rng(3), (3, 4, 5))
        array = house.put(base, kind)
        part = np.from_dlpack(array[:, ::-1].T)
        assert np.array_equal(part, base[:, ::-1].T)
        array[0] = 5
        assert (part[:, :, 0] == 5).all()
        copied = np.asarray(array[[0]].copy() if kind == "instance" else array.copy().numpy())
        assert (copied[0] == 5).all()

    def test_what_has_no_capsule(self, house: House) -> None:
        file = house.put(np.zeros(3), "raw")
        with pytest.raises(BufferError, match="does not lie in memory of this process"):
            np.from_dlpack(file)
        records = house.put(np.zeros(3, RECORDS), "instance")
        with pytest.raises(BufferError, match="DLPack has no structures"):
            records.__dlpack__()
        with pytest.raises(BufferError, match=r"DLPack has no type >i4"):
            house.put(np.zeros(3, ">i4"), "instance").__dlpack__()
        assert np.array_equal(np.from_dlpack(records["mass"].copy()), np.zeros(3))
        odd = house.put(np.zeros(3, [("a", "u1"), ("b", "f4")]), "instance")
        with pytest.raises(BufferError, match="whole elements apart"):
            odd["b"].__dlpack__()
        array = house.put(np.zeros(3), "instance")
        with pytest.raises(BufferError, match=r"not \(2, 0\)"):
            array.__dlpack__(dl_device=(2, 0))

    def test_a_capsule_that_nobody_takes_frees_its_array(self, house: House) -> None:
        array = house.put(np.zeros(3), "instance")
        for version in (None, (1, 0)):
            capsule = array.__dlpack__(max_version=version)
            del capsule
        fixed = np.zeros(3)
        fixed.flags.writeable = False
        read_only = ts.Instance(fixed, extents=3)
        with pytest.raises(BufferError, match="read-only"):
            read_only.__dlpack__()
        assert not np.from_dlpack(read_only).flags.writeable


def test_selections_may_be_large(house: House) -> None:
    base = np.arange(1 << 18, dtype="i4").reshape(1 << 9, -1)
    array = house.put(base, "instance")
    rows = np.random.default_rng(4).permutation(1 << 9)
    assert np.array_equal(array[rows].numpy(), base[rows])
    array[:, rows] = base
    assert np.array_equal(array.numpy()[:, rows], base)
    assert math.prod(array[rows].shape) == base.size


def test_values_of_all_kinds(house: House) -> None:
    """What NumPy assigns is assigned: texts, dates, buffers, and objects that NumPy reads."""

    class Column:
        def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
            return np.arange(3.0)

    days = house.put(np.zeros(3, "M8[D]"), "instance")
    days[...] = datetime.date(2026, 7, 1)
    days[1:] = np.datetime64("2026-07-02")
    assert days.numpy().tolist() == [datetime.date(2026, 7, n) for n in (1, 2, 2)]
    texts = house.put(np.zeros(2, "U3"), "npy")
    texts[0], texts[1] = "abc", np.str_("de")
    assert texts.numpy().tolist() == ["abc", "de"]
    numbers = house.put(np.zeros(3), "instance")
    numbers[...] = Column()
    numbers[1:] = array_of_items("d", [7, 8])
    assert numbers.numpy().tolist() == [0, 7, 8]
    numbers[...] = range(3)
    assert numbers.numpy().tolist() == [0, 1, 2]


def test_new_files_are_assigned(tmp_path: Path) -> None:
    values = np.arange(12.0).reshape(3, 4)
    with ts.File(tmp_path / "new.npy", extents=(3, 4), mode="w") as file:
        file[...] = values
        file[[0, 2]] = -values[[0, 2]]
    values[[0, 2]] *= -1
    assert np.array_equal(np.load(tmp_path / "new.npy"), values)
    with (
        pytest.warns(UserWarning, match="written"),
        ts.File(tmp_path / "part.bin", extents=(1 << 16,), mode="w") as part,
    ):
        part[:1] = 1
    file = ts.File(tmp_path / "new.npy", mode="r+")
    file.close()
    for use in (lambda: file.fill(0), lambda: file[[0]].fill(0), lambda: file.numpy()):
        with pytest.raises(ts.Closed):
            use()
    assert np.array_equal(np.load(tmp_path / "new.npy"), values)


@pytest.mark.skipif(gpu_count() == 0, reason="needs a GPU, emulated or real")
def test_fills_on_several_threads_keep_their_values_apart(engine: ts.Engine) -> None:
    wrong: list[tuple[int, int]] = []

    def fill_often(number: int) -> None:
        array = engine.empty((20_000,), "i4", memory="device0")
        for turn in range(40):
            array.fill(1000 * number + turn)
            if not (array.numpy() == 1000 * number + turn).all():
                wrong.append((number, turn))

    threads = [threading.Thread(target=fill_often, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []
    assert 1 <= len(kept_values(engine._core, 0)._blocks) <= KEPT_MOST


@pytest.mark.skipif(gpu_count() == 0, reason="needs a GPU, emulated or real")
def test_fills_with_more_values_than_are_kept(engine: ts.Engine) -> None:
    numbers = [*range(2 * KEPT_MOST), *range(2 * KEPT_MOST)]
    array = engine.empty((3, 50), "f4", memory="device0")
    for number in numbers:
        array.fill(number)
        assert (array.numpy() == number).all()
    # Equal bytes of other types, and values with dimensions, are other values.
    for kind, value in (("i4", 0), ("f4", 0), ("u1", 7), ("i1", 7)):
        other = engine.empty((40,), kind, memory="device0")
        other.fill(value)
        assert (other.numpy() == value).all()
    rows = np.arange(50, dtype="f4")
    array[:] = rows
    assert (array.numpy() == rows).all()
    assert len(kept_values(engine._core, 0)._blocks) <= KEPT_MOST


@pytest.mark.skipif(gpu_count() == 0, reason="needs a GPU, emulated or real")
def test_a_value_is_not_kept_if_its_copy_fails(engine: ts.Engine) -> None:
    kept = KeptValues()
    one = np.ones((), "f4")
    memory = partial(_core.allocate, engine._core, "device", 0, VALUE_BYTES)

    def fails(_: _core.DeviceMemory) -> _core.Array:
        raise ts.Closed("the engine is closed", "open another")

    with pytest.raises(ts.Closed), kept.holding(one, memory, fails):
        pass
    assert kept._blocks == {}
    whole = _core.array_of(engine.empty((), "f4", memory="device0"))
    with pytest.raises(KeyboardInterrupt), kept.holding(one, memory, lambda _: whole):
        raise KeyboardInterrupt
    assert kept._blocks == {}
