"""Files in NumPy's format: every type and shape that `np.save` writes, beside NumPy.

``TRANSHIP_NPY_CASES=10000 pytest tests/python/test_npy.py -k random`` tries more cases.
"""

from __future__ import annotations

import contextlib
import os
import socket
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tranship as ts
from support import run_script
from tranship.cli import main

CASES = int(os.environ.get("TRANSHIP_NPY_CASES", "60"))
SIMPLE = [
    "?", "i1", "<i2", ">i4", "<i8", ">u2", "u1", "<u8", "<f2", ">f4", "<f8", "<c8", ">c16", "S1",
    "S7", "<U3", ">U5", "<M8[ns]", ">M8[D]", "<m8[us]", "V3", "V16", np.longdouble, np.clongdouble,
]  # fmt: skip
NAMES = ["a", "b", "mass", "x y", "größe", "質量", "it's", '"q"', "n" * 300, "\\n", "a.b"]


def random_type(random: np.random.Generator, depth: int = 2) -> Any:
    """Returns a type: simple ones, and structures of any kind."""
    if depth == 0 or random.random() < 0.4:
        return np.dtype(SIMPLE[random.integers(len(SIMPLE))])
    count = int(random.integers(1, 5))
    names = [NAMES[k] for k in random.permutation(len(NAMES))[:count]]
    formats: list[Any] = []
    for _ in names:
        one = random_type(random, depth - 1)
        if random.random() < 0.3:
            one = np.dtype(
                (one, tuple(int(n) for n in random.integers(1, 4, random.integers(1, 3))))
            )
        formats.append(one)
    kind = random.integers(4)
    if kind == 0:
        return np.dtype(list(zip(names, formats, strict=True)))
    if kind == 1:
        return np.dtype(list(zip(names, formats, strict=True)), align=True)
    if kind == 2:
        titled = [
            ((f"title of {k}", name), one)
            for k, (name, one) in enumerate(zip(names, formats, strict=True))
        ]
        return np.dtype(titled)
    offsets, end = [], int(random.integers(0, 9))
    for one in formats:
        offsets.append(end)
        end += one.itemsize + int(random.integers(0, 9))
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": end})


def random_array(random: np.random.Generator) -> np.ndarray:
    """Returns an array of random bytes, in one of NumPy's orders."""
    dtype = random_type(random)
    shape = tuple(
        int(n)
        for n in random.choice(
            [0, 1, 2, 3, 7], random.integers(0, 5), p=[0.06, 0.2, 0.24, 0.25, 0.25]
        )
    )
    count = int(np.prod(shape, dtype=int)) * dtype.itemsize
    held = np.frombuffer(random.integers(0, 256, count, np.uint8).tobytes(), np.uint8)
    array = np.zeros(shape, dtype)
    if count:
        clean(array, held, random)
    return np.asfortranarray(array) if random.random() < 0.4 else array


def clean(array: np.ndarray, held: np.ndarray, random: np.random.Generator) -> None:
    """Fills an array with values that NumPy compares: text and truth values have rules."""
    dtype = array.dtype
    if dtype.names is not None:
        for name in dtype.names:
            clean(array[name], held, random)
    elif dtype.kind in "SUb":
        array[...] = random.integers(0, 2 if dtype.kind == "b" else 9, array.shape)
    elif dtype.kind == "V":
        flat = np.resize(held, array.size * dtype.itemsize).view(dtype)
        array[...] = flat.reshape(array.shape)
    else:
        array[...] = random.integers(0, 100, array.shape).astype(dtype)


def same(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether shape, type and values are the same; padding has none."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.dtype.names is not None:
        return all(same(one[name], other[name]) for name in one.dtype.names)
    return np.ascontiguousarray(one).tobytes() == np.ascontiguousarray(other).tobytes()


def check_one(engine: ts.Engine, folder: Path, array: np.ndarray) -> None:
    """NumPy's file is read, written anew and changed as NumPy would do it."""
    source, target = folder / "in.npy", folder / "out.npy"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy says that its readers of old versions fail
        np.save(source, array)
        saved = np.load(source, max_header_size=1 << 20)
    file = ts.File(source)
    assert file.shape == saved.shape and file.dtype == saved.dtype
    out = np.zeros(saved.shape, saved.dtype)
    engine.copy(file, out).wait(timeout=20)
    assert same(out, saved)
    extents = dict(zip(file.dimensions, file.shape, strict=True))
    with ts.File(target, extents=extents, fields=file.dtype, layout=file.layout, mode="w") as new:
        engine.copy(file, new).wait(timeout=20)
    assert same(np.load(target, max_header_size=1 << 20), saved)
    if saved.size == 0:
        return
    with ts.File(target, mode="r+") as changed:
        engine.copy(np.zeros_like(out), changed).wait(timeout=20)
    assert same(np.load(target, max_header_size=1 << 20), np.zeros_like(out))


def test_random_arrays(engine: ts.Engine, tmp_path: Path) -> None:
    for seed in range(CASES):
        array = random_array(np.random.default_rng([37, seed]))
        try:
            check_one(engine, tmp_path, array)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {array.dtype!r} {array.shape}") from error


@pytest.mark.parametrize(
    "array",
    [
        np.array(3.5),
        np.zeros((), [("a", "f8"), ("b", "i4", (5,))]),
        np.zeros((3, 0, 2)),
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.zeros(4, np.dtype([("a", "u1"), ("b", "f8")], align=True)),
        np.zeros(3, [(f"field{k}" + "x" * 60, "i2") for k in range(2000)]),
        np.zeros(3, [("質量", "f4"), ("y", "f4")]),
    ],
    ids=["number", "record", "empty", "fortran", "padding", "long header", "unicode"],
)
def test_tranship_copy(tmp_path: Path, array: np.ndarray) -> None:
    source, target = tmp_path / "in.npy", tmp_path / "out.npy"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.save(source, array)
    assert main(["copy", str(source), str(target), "--verify"]) == 0
    assert same(np.load(target, max_header_size=1 << 20), array)


def test_headers_of_other_writers(engine: ts.Engine, tmp_path: Path) -> None:
    """Versions, spaces, orders of the keys, and numbers as Python 2 wrote them."""
    texts = [
        (1, "{'shape': (2L, 3L), 'descr': '<f8', 'fortran_order': False}"),
        (2, "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3)}" + " " * 100_000 + "\n"),
        (3, '{"descr": "<f8", "fortran_order": False, "shape": (2, 3), }'),
        (3, "{'descr': [('d', '<f8')], 'fortran_order': False, 'shape': (2, 3)}"),
    ]
    for version, text in texts:
        length = len(text).to_bytes(2 if version == 1 else 4, "little")
        start = b"\x93NUMPY" + bytes([version, 0]) + length + text.encode()
        (tmp_path / "a.npy").write_bytes(start + np.arange(6.0).tobytes())
        out = np.zeros((2, 3), ts.File(tmp_path / "a.npy").dtype)
        engine.copy(ts.File(tmp_path / "a.npy"), out).wait(timeout=20)
        assert out.tobytes() == np.arange(6.0).tobytes()


BAD = {
    "a version to come": b"\x93NUMPY\x07\x00\x10\x00\x00\x00" + b" " * 16,
    "a header of 4 GiB": b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}",
    "nested without end": b"\x93NUMPY\x01\x00\x10\x27" + b"(" * 10000,
    "no dictionary": b"\x93NUMPY\x01\x00\x10\x00" + b"[1, 2, 3]       ",
    "a negative extent": b"\x93NUMPY\x01\x00\x40\x00"
    + b"{'descr': '<f8', 'fortran_order': False, 'shape': (-2,)}".ljust(64),
    "no type": b"\x93NUMPY\x01\x00\x40\x00"
    + b"{'descr': 'zzz', 'fortran_order': False, 'shape': (2,)}".ljust(64),
    "not text": b"\x93NUMPY\x03\x00\x04\x00\x00\x00\xff\xfe\xff\xfe",
    "nothing": b"",
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_header(tmp_path: Path, case: str) -> None:
    (tmp_path / "bad.npy").write_bytes(BAD[case])
    for mode in ("r", "r+"):
        with pytest.raises(ts.InvalidArgument, match="not a readable"):
            ts.File(tmp_path / "bad.npy", mode=mode)  # type: ignore[arg-type]


def test_raw_files_keep_the_padding_of_a_type(engine: ts.Engine, tmp_path: Path) -> None:
    dtype = np.dtype([("a", "u1"), ("b", "f8"), ("c", "u1")], align=True)
    records = np.zeros(50, dtype)
    records["b"], records["c"] = np.arange(50), 7
    records.tofile(tmp_path / "r.bin")
    out = np.zeros(50, dtype)
    file = ts.File(tmp_path / "r.bin", extents=50, fields=dtype)
    engine.copy(file, out).wait(timeout=20)
    assert same(out, records) and file.dtype == dtype
    with pytest.raises(ts.InvalidArgument, match="padding"):
        ts.File(tmp_path / "r.bin", extents=50, fields=dtype, layout="d0, F")


OPEN = """
    import sys
    import tranship as ts
    for mode in ("r", "r+", "w"):
        try:
            given = mode == "w" or not sys.argv[1].endswith("npy")
            ts.File(sys.argv[1], mode=mode, **({"extents": 3} if given else {}))
        except ts.Error as error:
            print(type(error).__name__)
"""


@pytest.mark.parametrize("name", ["x.npy", "x.bin"])
@pytest.mark.parametrize("kind", ["fifo", "socket", "folder", "device", "link"])
def test_opening_waits_for_nobody(tmp_path: Path, kind: str, name: str) -> None:
    path = tmp_path / name
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made, contextlib.chdir(tmp_path):
            made.bind(name)  # a short name, as sockets have
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/null" if kind == "device" else path)
    assert len(run_script(OPEN, path).split()) == 3
