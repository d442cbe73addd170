"""Copies of more than 2 GiB and of more than 2**32 elements, within little memory."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import tranship as ts

ELEMENTS = (1 << 32) + 5


def sparse(path: Path, count: int) -> Path:
    with open(path, "wb") as file:
        file.truncate(count)
    return path


def put(path: Path, at: int, content: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(content)


@pytest.mark.large
def test_more_elements_than_32_bits_count(queueing_engine: ts.Engine) -> None:
    """The source is one byte that is broadcast; every element of the target must be written."""
    if os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") < 6 << 30:
        pytest.skip("needs 6 GiB of free memory")
    target = np.zeros(ELEMENTS, np.uint8)
    queueing_engine.copy(np.broadcast_to(np.uint8(7), (ELEMENTS,)), target).wait(timeout=60)
    assert all((target[k : k + (1 << 26)] == 7).all() for k in range(0, ELEMENTS, 1 << 26))


@pytest.mark.large
def test_more_than_two_gibibytes_from_a_file(queueing_engine: ts.Engine, tmp_path: Path) -> None:
    count = (1 << 28) + (1 << 24) + 3
    path = sparse(tmp_path / "large.bin", count * 8)
    places = (0, 12345, (1 << 28) - 1, 1 << 28, count - 1)
    for number, place in enumerate(places):
        put(path, place * 8, np.float64(number + 1).tobytes())
    target = np.full(count, -1.0)
    queueing_engine.copy(ts.File(path, extents=(count,)), target).wait(timeout=60)
    assert [target[place] for place in places] == [1, 2, 3, 4, 5]
    assert np.count_nonzero(target) == len(places)


@pytest.mark.large
def test_a_staged_object_of_more_than_three_gibibytes(profile: str) -> None:
    """An object of rows of odd length is put whole, and got whole and in part."""
    if os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") < 12 << 30:
        pytest.skip("needs 12 GiB of free memory")
    rows, columns = 3 * 1024 + 1, (1 << 20) + 7
    array = np.empty((rows, columns), np.uint8)
    for k in range(rows):
        array[k] = k % 251
    with (
        ts.StagingServer(memory=7 << 29, profile=profile) as server,
        ts.Staging(server.contact) as client,
    ):
        client.put("large", 1, array, (0, -7), timeout=120)
        assert server.memory_used >= array.nbytes
        part = client.get("large", 1, (rows - 5, -7), (rows, columns - 7), timeout=120)
        assert np.array_equal(part, array[-5:])
        array[...] = 0
        client.get("large", 1, (0, -7), (rows, columns - 7), array, timeout=120)
        assert all((array[k] == k % 251).all() for k in range(rows))


def test_strides_beyond_32_bits_in_a_file(any_engine: ts.Engine, tmp_path: Path) -> None:
    path = sparse(tmp_path / "sparse.bin", ELEMENTS)
    places = range(3, ELEMENTS, 1 << 28)
    for number, place in enumerate(places):
        put(path, place, bytes([number + 1]))
    target = np.zeros(len(places), np.uint8)
    file = ts.File(path, extents=(ELEMENTS,), fields="u1")
    any_engine.copy(file[3 :: 1 << 28], target).wait(timeout=20)
    assert target.tolist() == list(range(1, len(places) + 1))


def test_writing_far_into_a_file(any_engine: ts.Engine, tmp_path: Path) -> None:
    path = sparse(tmp_path / "sparse.bin", ELEMENTS)
    file = ts.File(path, extents=(ELEMENTS,), fields="u1", mode="r+")
    source = np.arange(100_000, dtype=np.int64).astype(np.uint8)
    any_engine.copy(source, file[ELEMENTS - 100_000 :]).wait(timeout=20)
    assert path.stat().st_size == ELEMENTS
    with open(path, "rb") as reader:
        reader.seek(ELEMENTS - 100_002)
        assert reader.read() == bytes(2) + source.tobytes()


def test_far_apart_in_memory(any_engine: ts.Engine) -> None:
    """The elements lie far apart; pages that no element touches take no memory."""
    memory = np.zeros(ELEMENTS, np.uint8)
    any_engine.copy(np.arange(1, 18, dtype=np.uint8), memory[:: 1 << 28]).wait(timeout=20)
    assert memory[:: 1 << 28].tolist() == list(range(1, 18))
    target = np.zeros((3, 4), np.uint8)
    block = np.lib.stride_tricks.as_strided(memory, (3, 4), (5 << 28, 1 << 28))
    any_engine.copy(block, target).wait(timeout=20)
    assert np.array_equal(target, block)


def test_an_instance_of_more_elements_than_32_bits(any_engine: ts.Engine) -> None:
    buffer = np.zeros(1 << 33, np.uint8)
    grid = ts.Instance(
        buffer,
        extents={"x": 1 << 17, "y": 1 << 15},
        fields={"a": "u1", "b": "u1"},
        layout="y, F, x",
    )
    assert grid.nbytes == 1 << 33
    values = np.zeros((2, 64), [("a", "u1"), ("b", "u1")])
    values["a"] = np.arange(1, 129).reshape(2, 64)
    values["b"] = np.arange(128, 256).reshape(2, 64)
    any_engine.copy(values, grid[-2:, -64:]).wait(timeout=20)
    for k, row in enumerate((-2, -1)):
        rows = buffer[(row * 2 << 15) :][: 2 << 15]
        assert np.array_equal(rows[(1 << 15) - 64 : 1 << 15], values["a"][k])
        assert np.array_equal(rows[(2 << 15) - 64 :], values["b"][k])
