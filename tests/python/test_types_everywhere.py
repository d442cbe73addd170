"""Every element type through every call that takes an array: bytes and names arrive."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exchange_tables import CUDA, Given

import tranship as ts
from support import PATIENCE

ml_dtypes = pytest.importorskip("ml_dtypes")

SHAPE = (5, 6)
NUMPY: dict[str, Any] = {
    name: np.dtype(name)
    for name in (
        *("?", "i1", "u1", "i2", "u2", ">i2", "i4", "u4", ">u4", "i8", "u8", "f2", ">f2", "f4"),
        *(">f4", "f8", ">f8", "g", "c8", ">c8", "c16", "G", "S5", "U3", ">U3", "V7", "V20"),
        *("M8[ns]", ">M8[s]", "M8[25s]", "m8[ms]"),
    )
}
ADDED = {
    name: np.dtype(getattr(ml_dtypes, name))
    for name in (
        *("bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn"),
        *("float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "int4", "uint4"),
        *("float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn", "int2", "uint2"),
    )
    if hasattr(ml_dtypes, name)
}
STRUCTURES: dict[str, Any] = {
    "structure": np.dtype([("x", "f4"), ("n", ">i2")]),
    "one field": np.dtype([("x", "f8")]),
    "nested": np.dtype([("p", [("x", "f4"), ("n", ">i2")]), ("v", ">f4", (2, 3)), ("t", "M8[s]")]),
    "padding": np.dtype([("a", "u1"), ("b", "f8")], align=True),
    "offsets": np.dtype(
        {"names": ["a", "b"], "formats": ["f4", "u1"], "offsets": [8, 2], "itemsize": 16}
    ),
    "union": np.dtype({"names": ["a", "b"], "formats": ["i4", "f4"], "offsets": [0, 2]}),
}
TYPES = {**NUMPY, **ADDED, **STRUCTURES}


@dataclass
class House:
    """Two engines with emulated GPUs, of which one has a connection to the other, and a service."""

    engine: ts.Engine
    other: ts.Engine
    peer: ts.Peer
    staging: ts.Staging
    exports: int = 0

    def name(self) -> str:
        self.exports += 1
        return f"array {self.exports}"


@pytest.fixture(scope="module")
def house(profile: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    contact = tmp_path_factory.mktemp("types") / "contact"
    with ExitStack() as stack:
        engine = stack.enter_context(ts.Engine(True, emulated_gpus=1, threads=1))
        other = stack.enter_context(ts.Engine(contact, emulated_gpus=1, threads=1))
        server = stack.enter_context(ts.StagingServer(memory=64 << 20, profile=profile))
        staging = stack.enter_context(ts.Staging(server.contact))
        yield House(engine, other, engine.connect(contact), staging)


def filled(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Returns an array of which each element has other bytes, and padding none."""
    count = int(np.prod(SHAPE))
    if dtype.kind == "U":
        return np.array([f"a{k}" for k in range(count)], dtype).reshape(SHAPE)
    raw = np.random.default_rng(dtype.itemsize).integers(0, 120, count * dtype.itemsize, np.uint8)
    if dtype.kind == "b":
        raw %= 2
    made = raw.view(dtype).reshape(SHAPE)
    copied = np.zeros(SHAPE, dtype)
    for name in dtype.names or ():
        copied[name] = made[name]
    return copied if dtype.names else made


def zeros(values: Any) -> np.ndarray[Any, Any]:
    return np.zeros(values.shape, values.dtype)


def same(a: Any, b: Any) -> bool:
    """Returns whether all elements have the same bytes, padding aside."""
    if a.dtype.names is None or a.dtype == STRUCTURES["union"]:
        return bool(a.tobytes() == b.tobytes())
    return all(same(a[name], b[name]) for name in a.dtype.names)


def on_gpu(house: House, values: Any) -> ts.DeviceArray:
    array = house.engine.empty(values.shape, values.dtype, memory="device0")
    house.engine.copy(values, array).wait(timeout=PATIENCE)
    assert isinstance(array, ts.DeviceArray)
    return array


def by_copy(house: House, values: Any, folder: Path) -> Any:
    target = np.zeros(SHAPE[::-1], values.dtype).T
    house.engine.copy(values, target).wait(timeout=PATIENCE)
    return target


def by_list(house: House, values: Any, folder: Path) -> Any:
    target = zeros(values)
    pairs = [(values[:2], target[:2]), (values[2:], target[2:])]
    house.engine.copy_all(pairs).wait(timeout=PATIENCE)
    return target


def by_pages(house: House, values: Any, folder: Path) -> Any:
    target = zeros(values)
    house.engine.copy_pages(values, target, range(5), range(5)).wait(timeout=PATIENCE)
    return target


def by_prepared(house: House, values: Any, folder: Path) -> Any:
    first, target = zeros(values), zeros(values)
    copy = house.engine.prepare(first, first.copy())
    copy.start(source=values, target=target).wait(timeout=PATIENCE)
    return target


def by_types(house: House, values: Any, folder: Path) -> Any:
    target = zeros(values)
    kind = ts.types.vector(5, 6, 6, values.dtype)
    house.engine.copy(values, target, types=(kind, kind)).wait(timeout=PATIENCE)
    packed = house.engine.pack(values, kind)
    again = zeros(values)
    house.engine.unpack(packed, again, kind)
    assert same(again, target)
    return target


def by_gpu(house: House, values: Any, folder: Path) -> Any:
    return on_gpu(house, values)[:, ::2].numpy(), values[:, ::2]


class Foreign:
    """An array of another library with the CUDA array interface alone."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.__cuda_array_interface__ = array.__cuda_array_interface__


def by_interface(house: House, values: Any, folder: Path) -> Any:
    target = zeros(values)
    house.engine.copy(Foreign(on_gpu(house, values)), target).wait(timeout=PATIENCE)
    return target


def by_peer(house: House, values: Any, folder: Path) -> Any:
    name, theirs = house.name(), zeros(values)
    house.other.export(name, theirs)
    remote = house.peer[name]
    house.engine.copy(values, remote).wait(timeout=PATIENCE)
    assert same(theirs, values)
    target = np.zeros(remote.shape, values.dtype)
    house.engine.copy(remote, target).wait(timeout=PATIENCE)
    assert remote.dtype == values.dtype or values.dtype.names is not None
    return target


def by_peer_gpu(house: House, values: Any, folder: Path) -> Any:
    name, theirs = house.name(), house.other.empty(SHAPE, values.dtype, memory="device0")
    house.other.export(name, theirs)
    house.engine.copy(on_gpu(house, values), house.peer[name]).wait(timeout=PATIENCE)
    target = zeros(values)
    house.engine.copy(house.peer[name], target).wait(timeout=PATIENCE)
    return target


def by_raw_file(house: House, values: Any, folder: Path) -> Any:
    path = folder / "file.bin"
    with ts.File(path, extents=SHAPE, fields=values.dtype, mode="w") as file:
        house.engine.copy(values, file).wait(timeout=PATIENCE)
    target = zeros(values)
    read = ts.File(path, extents=SHAPE, fields=values.dtype)
    house.engine.copy(read, target).wait(timeout=PATIENCE)
    return target


def by_npy(house: House, values: Any, folder: Path) -> Any:
    np.save(folder / "file.npy", values)
    target = zeros(values)
    house.engine.copy(ts.File(folder / "file.npy"), target).wait(timeout=PATIENCE)
    return target


def by_staging(house: House, values: Any, folder: Path) -> Any:
    name = house.name()
    house.staging.put(name, 0, values)
    out = zeros(values)
    house.staging.get(name, 0, out=out)
    got = house.staging.get(name, 0)
    assert got.dtype == values.dtype and same(got, out)
    return out


DOORS: dict[str, Callable[[House, Any, Path], Any]] = {
    name.removeprefix("by_"): value
    for name, value in list(globals().items())
    if name.startswith("by_")
}
CANNOT: dict[str, set[str]] = {
    "npy": {*ADDED, "offsets", "union"},  # the format, or NumPy's writer, has no name for them
    "interface": {*ADDED, "union"},  # nor has the interface
    "types": {"union"},  # a target's type names each byte once
}
"""Types that a call refuses, with a reason."""


@pytest.mark.parametrize("door", DOORS)
def test_types(house: House, tmp_path: Path, door: str) -> None:
    for name, dtype in TYPES.items():
        if name in CANNOT.get(door, set()):
            continue
        values = filled(dtype)
        (folder := tmp_path / f"{list(TYPES).index(name)}").mkdir()
        made = DOORS[door](house, values, folder)
        got, expected = made if isinstance(made, tuple) else (made, values)
        assert got.dtype == dtype, name
        assert same(got, expected), name


CODES = {  # DLPack's codes of types, beside ml_dtypes' names
    "bfloat16": 4,
    "float8_e3m4": 7,
    "float8_e4m3": 8,
    "float8_e4m3b11fnuz": 9,
    "float8_e4m3fn": 10,
    "float8_e4m3fnuz": 11,
    "float8_e5m2": 12,
    "float8_e5m2fnuz": 13,
    "float8_e8m0fnu": 14,
    **dict.fromkeys(("i1", "i2", "i4", "i8"), 0),
    **dict.fromkeys(("u1", "u2", "u4", "u8"), 1),
    **dict.fromkeys(("f2", "f4", "f8"), 2),
    **dict.fromkeys(("c8", "c16"), 5),
    "?": 6,
}


class TypedOtherwise(Given):
    """A tensor as PyTorch's: its CUDA array interface calls types that NumPy lacks plain bytes."""

    __module__ = "torch"

    @property
    def __cuda_array_interface__(self) -> Any:
        raise AssertionError("DLPack says more")


@pytest.mark.parametrize("name", CODES)
def test_types_of_tensors(house: House, name: str) -> None:
    """Copied, listed, exported, put: tensors keep the types that DLPack names."""
    values = filled(TYPES[name])
    memory = on_gpu(house, values.view(f"V{values.itemsize}"))
    address = memory.__cuda_array_interface__["data"][0]
    tensor = TypedOtherwise(values, CUDA, 0, address, CODES[name])
    target, listed = zeros(values), zeros(values)
    house.engine.copy(tensor, target).wait(timeout=PATIENCE)
    house.engine.copy_all([(tensor, listed)]).wait(timeout=PATIENCE)
    house.staging.put(export := house.name(), 0, values)
    assert target.tobytes() == listed.tobytes() == values.tobytes()
    house.engine.export(export, tensor)
    exported = house.engine.connect(house.engine.contact)[export]
    assert exported.dtype == values.dtype
    ctypes.memset(address, 0, values.nbytes)
    house.other.copy(values, memory_of(house, export)).wait(timeout=PATIENCE)
    assert memory.numpy().tobytes() == values.tobytes()
    house.engine.withdraw(export)


def memory_of(house: House, name: str) -> Any:
    """Returns an array of the first engine as the other one sees it."""
    return house.other.connect(house.engine.contact)[name]
