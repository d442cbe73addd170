"""A copy converts layouts, never types: types that differ at any depth are refused."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tranship as ts
from tranship.arrays.dtypes import dtype_fields, dtype_of, type_name

PAIRS: dict[str, tuple[Any, Any]] = {
    "array within, type": ([("v", "<f4", (3,))], [("v", "<i4", (3,))]),
    "array within, byte order": ([("v", ">f4", (2,))], [("v", "<f4", (2,))]),
    "array within, shape": ([("v", "<f4", (2, 3))], [("v", "<f4", (3, 2))]),
    "array within, bytes": ([("v", "<f4", (2,))], [("v", "V8")]),
    "array within, one number": ([("v", "<f4", (2,))], [("v", "<f8")]),
    "structure, order": (
        [("p", [("x", "<f4"), ("n", "<i4")])],
        [("p", [("n", "<i4"), ("x", "<f4")])],
    ),
    "structure, names": (
        [("p", [("x", "<f4"), ("n", "<i4")])],
        [("p", [("y", "<f4"), ("n", "<i4")])],
    ),
    "structure, byte order": ([("p", [("x", "<f4")])], [("p", [("x", ">f4")])]),
    "structure, deeper": (
        [("q", [("p", [("x", "<f4"), ("n", "<i4")])])],
        [("q", [("p", [("n", "<i4"), ("x", "<f4")])])],
    ),
    "structure, bytes": ([("p", [("x", "<f4"), ("n", "<i4")])], [("p", "V8")]),
    "structures in an array, order": (
        [("p", [("x", "<f4"), ("n", "<i4")], (2,))],
        [("p", [("n", "<i4"), ("x", "<f4")], (2,))],
    ),
    "number to time": ("f8", "M8[ns]"),
    "units of time": ("M8[s]", "M8[ns]"),
    "units of differences": ("m8[s]", "m8[ms]"),
    "counts of units": ("M8[25s]", "M8[s]"),
    "time and difference": ("M8[s]", "m8[s]"),
    "float to integer": ("f8", "i8"),
    "signs": ("i4", "u4"),
    "byte order": (">f8", "<f8"),
    "half to integer": ("f2", "i2"),
    "long double to complex": ("g", "c16"),
    "truth to byte": ("?", "u1"),
    "text to bytes": ("U2", "S8"),
    "lengths of text": ("S4", "S8"),
    "text to integer": ("S4", "i4"),
    "bytes to float": ("V8", "f8"),
}


@pytest.mark.parametrize("case", PAIRS)
@pytest.mark.parametrize("backwards", [False, True])
def test_types_that_differ_are_refused(engine: ts.Engine, case: str, backwards: bool) -> None:
    kinds = PAIRS[case][::-1] if backwards else PAIRS[case]
    source, target = np.zeros(4, kinds[0]), np.zeros(4, kinds[1])
    with pytest.raises(ts.InvalidArgument, match=r"does not convert types"):
        engine.copy(source, target)
    with pytest.raises(ts.InvalidArgument, match=r"does not convert types"):
        engine.copy(ts.Instance(extents={"x": 4}, fields=np.dtype(kinds[0])), target)


SIMPLE = [
    "?", "i1", "u2", ">i4", "<u8", "f2", ">f2", "f4", "f8", ">f8", "g", "c8", "c16", ">c16", "G",
    "S5", "U3", ">U3", "V7", "M8[ns]", ">M8[s]", "M8[25s]", "M8", "m8[ms]",
]  # fmt: skip
NESTED: list[Any] = [
    [("p", [("x", "<f4"), ("n", ">i2")]), ("v", ">f4", (2, 3)), ("t", "M8[s]")],
    [("p", [("x", "f4", (2,)), ("q", [("y", "c8"), ("s", "S3")], (2, 2))])],
    np.dtype([("a", "u1"), ("p", [("b", "u1"), ("c", "f8")])], align=True),
]


def filled(kind: Any, shape: tuple[int, ...] = (5, 7)) -> np.ndarray:
    """Returns an array of random bytes without NaN."""
    dtype = np.dtype(kind)
    count = int(np.prod(shape)) * dtype.itemsize
    array = np.random.default_rng(dtype.itemsize).integers(0, 120, count, np.uint8)
    if dtype.kind == "U":
        return np.array([f"a{k}" for k in range(int(np.prod(shape)))], dtype).reshape(shape)
    if dtype.kind == "b":
        return (array % 2).view(dtype).reshape(shape)
    return array.view(dtype).reshape(shape)


@pytest.mark.parametrize("kind", SIMPLE + NESTED, ids=str)
def test_types_are_named_without_loss(kind: Any) -> None:
    dtype = np.dtype(kind)
    for name, text, size, _ in dtype_fields(dtype):
        part = dtype if dtype.names is None else dtype[name]
        assert dtype_of(text) == part and part.itemsize == size
        assert type_name(dtype_of(text)) == text


def same_bytes(a: np.ndarray, b: np.ndarray) -> bool:
    """Returns whether all elements have the same bytes, padding aside."""
    if a.dtype.names is None:
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return all(same_bytes(a[name], b[name]) for name in a.dtype.names)


@pytest.mark.parametrize("kind", SIMPLE + NESTED, ids=str)
def test_types_go_through_copies_and_raw_files(
    any_engine: ts.Engine, tmp_path: Path, kind: Any
) -> None:
    source = filled(kind)
    target = np.zeros((7, 5), kind).T
    any_engine.copy(source, target).wait(timeout=60)
    assert same_bytes(source, target)
    path = tmp_path / "file.bin"
    with ts.File(path, extents=source.shape, fields=source.dtype, mode="w") as file:
        any_engine.copy(source, file).wait(timeout=60)
    back = np.zeros(source.shape, kind)
    read = ts.File(path, extents=source.shape, fields=source.dtype)
    any_engine.copy(read, back).wait(timeout=60)
    assert same_bytes(source, back)
    if source.dtype.names is None:
        assert read.dtype == source.dtype


@pytest.mark.parametrize("kind", SIMPLE + NESTED[:2], ids=str)
def test_types_go_through_npy_files(any_engine: ts.Engine, tmp_path: Path, kind: Any) -> None:
    source = filled(kind)
    path = tmp_path / "file.npy"
    with ts.File(path, extents=source.shape, fields=source.dtype, mode="w") as file:
        any_engine.copy(source, file).wait(timeout=60)
    loaded = np.load(path)
    assert loaded.dtype == source.dtype and same_bytes(source, loaded)
    back = np.zeros(source.shape, kind)
    any_engine.copy(ts.File(path), back).wait(timeout=60)
    assert same_bytes(source, back)


def test_padding_is_kept_in_npy_files(engine: ts.Engine, tmp_path: Path) -> None:
    source = filled(np.dtype([("a", "u1"), ("b", "f8")], align=True))
    path = tmp_path / "file.npy"
    with ts.File(path, extents=source.shape, fields=source.dtype, mode="w") as file:
        engine.copy(source, file).wait(timeout=60)
    loaded = np.load(path)
    assert loaded.dtype == source.dtype and same_bytes(source, loaded)


@pytest.fixture(scope="module")
def staging(profile: str) -> Iterator[ts.Staging]:
    with (
        ts.StagingServer(memory=64 << 20, profile=profile) as server,
        ts.Staging(server.contact) as one,
    ):
        yield one


@pytest.mark.parametrize("kind", SIMPLE, ids=str)
def test_types_go_through_the_staging_service(staging: ts.Staging, kind: str) -> None:
    source = filled(kind)
    staging.put(f"type {kind}", 0, source)
    got = staging.get(f"type {kind}", 0)
    assert got.dtype == source.dtype and same_bytes(source, got)
    out = np.zeros(source.shape, source.dtype)
    staging.get(f"type {kind}", 0, out=out)
    assert same_bytes(source, out)
    with pytest.raises(ts.InvalidArgument, match="elements of"):
        staging.get(f"type {kind}", 0, out=np.zeros(source.shape, f"V{source.itemsize + 1}"))


def test_types_with_dimensions_are_not_defined(staging: ts.Staging) -> None:
    with pytest.raises(ts.InvalidArgument, match="more dimensions"):
        staging.define("structured", np.dtype(("f4", (3,))), (0,), (4,))


LOSSY: dict[str, Callable[[], Any]] = {
    "mask": lambda: np.ma.masked_array([1.0, 2.0, 3.0], mask=[0, 1, 0]),
    "no mask": lambda: np.ma.masked_array([1.0, 2.0, 3.0]),
    "masked records": lambda: np.ma.zeros(3, [("a", "f8")]),
    "interface with a mask": lambda: Wrapped(mask=np.zeros(3, bool)),
}


class Wrapped:
    """An object that has NumPy's array interface alone."""

    def __init__(self, **more: object) -> None:
        self.array = np.ones(3)
        self.__array_interface__ = self.array.__array_interface__ | more


class Lazy(Wrapped):
    """A view as PyTorch has them, whose values are conjugated or negated when they are read."""

    def __init__(self, flag: str, dlpack: bool) -> None:
        super().__init__()
        setattr(self, f"is_{flag}", lambda: True)
        if dlpack:
            del self.__array_interface__

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("case", LOSSY)
def test_masked_arrays_are_refused(engine: ts.Engine, staging: ts.Staging, case: str) -> None:
    masked = LOSSY[case]()
    with pytest.raises(ts.InvalidArgument, match=r"mask.*copy array.filled\(\)"):
        engine.copy(masked, np.zeros(3))
    with pytest.raises(ts.InvalidArgument, match="mask"):
        engine.copy(np.ones(3), masked)
    with pytest.raises(ts.InvalidArgument, match=r"mask|field"):
        staging.put("masked", 0, masked)
    with pytest.raises(ts.InvalidArgument, match="mask"):
        ts.Instance(masked, extents={"x": 3})
    assert engine.copy(np.ma.getdata(np.ma.ones(3)), np.zeros(3)).done()


@pytest.mark.parametrize("dlpack", [False, True])
@pytest.mark.parametrize("flag", ["conj", "neg"])
def test_lazy_views_are_refused(engine: ts.Engine, flag: str, dlpack: bool) -> None:
    lazy = Lazy(flag, dlpack)
    for pair in ((lazy, np.zeros(3)), (np.zeros(3), lazy)):
        with pytest.raises(ts.InvalidArgument, match=rf"copy array.resolve_{flag}\(\)"):
            engine.copy(*pair)
    setattr(lazy, f"is_{flag}", lambda: False)
    target = np.zeros(3)
    engine.copy(lazy, target).wait(timeout=60)
    assert target.all()


def test_objects_and_text_of_any_length_are_refused(
    engine: ts.Engine, staging: ts.Staging, tmp_path: Path
) -> None:
    kinds: list[Any] = ["O", [("a", "f8"), ("p", [("b", "O")])], [("a", "O", (2,))]]
    kinds += [np.dtypes.StringDType()] if hasattr(np.dtypes, "StringDType") else []
    for kind in kinds:
        with pytest.raises(ts.InvalidArgument, match="Python objects"):
            engine.copy(np.zeros(3, kind), np.zeros(3, kind))
        with pytest.raises(ts.InvalidArgument, match=r"Python objects|field by field"):
            staging.put("objects", 0, np.zeros(3, kind))
        for name in ("f.npy", "f.bin"):
            with pytest.raises(ts.InvalidArgument, match="Python objects"):
                ts.File(tmp_path / name, extents=(3,), fields=np.dtype(kind), mode="w")
    assert list(tmp_path.iterdir()) == []


def test_types_without_bytes_and_fields_over_each_other(engine: ts.Engine) -> None:
    for kind in ("V0", [("a", "S0"), ("b", "u1")]):
        with pytest.raises(ts.InvalidArgument, match=r"no bytes.*give a type with a size"):
            engine.copy(np.zeros(3, kind), np.zeros(3, kind))
    union = np.dtype({"names": ["a", "b"], "formats": ["i4", "f4"], "offsets": [0, 2]})
    other = np.dtype({"names": ["a", "b"], "formats": ["i4", "f4"], "offsets": [0, 1]})
    source, target = filled("V6", (3,)).view(union), np.zeros(3, union)
    engine.copy(source, target).wait(timeout=60)
    assert source.tobytes() == target.tobytes()
    with pytest.raises(ts.InvalidArgument, match="does not convert types"):
        engine.copy(source, np.zeros(3, other))


def test_buffers_of_other_byte_orders(engine: ts.Engine) -> None:
    """Buffers of ctypes declare their byte order."""
    numbers = (ctypes.c_double * 3)(1, 2, 3)
    target = np.zeros(3)
    engine.copy(numbers, target).wait(timeout=60)
    assert target.tolist() == [1, 2, 3]
    turned = (ctypes.c_double.__ctype_be__ * 3)(1, 2, 3)  # type: ignore[attr-defined]
    with pytest.raises(ts.InvalidArgument, match=">f8"):
        engine.copy(turned, target)


# Types that ml_dtypes adds to NumPy


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4"])
def test_added_types_keep_their_names(
    engine: ts.Engine, staging: ts.Staging, tmp_path: Path, name: str
) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = np.dtype(getattr(ml_dtypes, name))
    source = np.arange(6).reshape(2, 3).astype(dtype)
    staging.put(name, 0, source)
    got = staging.get(name, 0)
    assert got.dtype == dtype and (got == source).all()
    target = np.zeros((3, 2), dtype).T
    engine.copy(source, target).wait(timeout=60)
    assert (target == source).all()
    for other in (f"V{dtype.itemsize}", f"u{dtype.itemsize}", f"i{dtype.itemsize}"):
        with pytest.raises(ts.InvalidArgument, match=name):
            engine.copy(source, np.zeros((2, 3), other))
    path = tmp_path / "file.bin"
    with ts.File(path, extents=(2, 3), fields=dtype, mode="w") as file:
        engine.copy(source, file).wait(timeout=60)
        assert file.dtype == dtype
    assert path.read_bytes() == source.tobytes()
    with pytest.raises(ts.InvalidArgument, match=rf"no name for the type {name}; use a raw file"):
        ts.File(tmp_path / "file.npy", extents=(2, 3), fields=dtype, mode="w")


def test_a_type_of_a_library_that_is_missing() -> None:
    with pytest.raises(ts.InvalidArgument, match="install ml_dtypes"):
        dtype_of("float8_nowhere")


# Random types, against NumPy's own assignment

LEAVES = ["u1", "<i2", ">i2", "<f4", ">f4", "<f8", "<c8", "?", "S3", "<U2", "M8[s]", "m8[ms]", "V3"]
RUNS = 400


def random_kind(chance: random.Random, depth: int) -> np.dtype[Any]:
    """Draws a type: a leaf, or a structure of types."""
    if depth == 0 or chance.random() < 0.4:
        return np.dtype(chance.choice(LEAVES))
    parts: list[Any] = []
    for name in chance.sample("abcd", chance.randint(1, 3)):
        shape = chance.choice([(), (), (2,), (1, 3)])
        part = random_kind(chance, depth - 1)
        parts.append((name, part, shape) if shape else (name, part))
    return np.dtype(parts, align=chance.random() < 0.3)


def changed(chance: random.Random, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Draws the same type or one that differs somewhere."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        shape = shape if chance.random() < 0.9 else (*shape, 2)
        return np.dtype((changed(chance, base), shape))
    if dtype.names is None:
        if chance.random() < 0.85:
            return dtype
        return dtype.newbyteorder() if chance.random() < 0.5 else np.dtype(chance.choice(LEAVES))
    names = list(dtype.names)
    if chance.random() < 0.15:
        chance.shuffle(names)
    parts = [(name, changed(chance, dtype[name])) for name in names]
    return np.dtype(parts, align=chance.random() < 0.2)


def assigned(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Returns the target after NumPy's assignment, by field name at the top level."""
    result = target.copy()
    if source.dtype.names is None or result.dtype.names is None:
        result[...] = source
        return result
    for name in result.dtype.names:
        result[name] = source[name]
    return result


@pytest.mark.parametrize("seed", range(4))
def test_random_types_give_what_numpy_gives_or_an_error(any_engine: ts.Engine, seed: int) -> None:
    chance = random.Random(seed)
    equal = refused = 0
    for run in range(RUNS):
        kind = random_kind(chance, 3)
        other = kind if chance.random() < 0.3 else changed(chance, kind)
        if kind.itemsize > 4096 or other.itemsize > 4096:
            continue
        source, target = filled_all(kind, seed + run), np.zeros((3, 4), other)
        if chance.random() < 0.5:
            target = np.zeros((4, 3), other).T
        try:
            any_engine.copy(source, target).wait(timeout=60)
        except ts.InvalidArgument:
            refused += 1
            assert kind != other or target.dtype != source.dtype, f"seed {seed}: {kind}"
            continue
        equal += 1
        assert same_bytes(target, assigned(source, target)), f"seed {seed}: {kind} to {other}"
    assert equal > RUNS / 5 and refused > RUNS / 5


def filled_all(kind: np.dtype[Any], seed: int) -> np.ndarray:
    """Returns an array whose leaves have small numbers that NumPy converts without warnings."""
    array = np.zeros((3, 4), kind)
    numbers = np.random.default_rng(seed)

    def fill(part: np.ndarray) -> None:
        if part.dtype.names is not None:
            for name in part.dtype.names:
                fill(part[name])
            return
        values = numbers.integers(0, 2, part.shape)
        part[...] = values.astype("S1") if part.dtype.kind == "V" else values.astype(part.dtype)

    fill(array)
    return array


def test_scalars_of_numpy(engine: ts.Engine) -> None:
    target = np.zeros(())
    engine.copy(np.float64(3), target).wait(timeout=60)
    assert target == 3
    for date in (np.datetime64(3, "ns"), np.timedelta64(3, "s")):  # Their buffers say less.
        landing = np.zeros_like(date)
        engine.copy(date, landing).wait(timeout=60)
        assert landing == date
