"""Copies whose ends share bytes, and targets whose elements do, beside NumPy.

Ends share bytes by two mappings, connections, descriptors or IPC handles of the same memory, which
have different addresses. A copy is refused then, and changes nothing; any other is carried.
``python tests/python/aliases.py --cases 100000`` tries more of them.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aliases import World, attack, raw
from exporters import Exporter
from gpu_support import EMULATED

import tranship as ts

Array = np.ndarray[Any, Any]


@pytest.mark.parametrize("seed", range(2))
def test_copies_between_aliases_are_refused_or_right(tmp_path: Path, seed: int) -> None:
    done = attack(tmp_path, seed, cases=150, worlds=2)
    assert done.accepted > 20
    assert done.refused > 20


def test_two_connections_to_another_process(exporter: Any) -> None:
    process: Exporter = exporter()
    with ts.Engine() as engine:
        peers = [engine.connect(process.contact) for _ in range(2)]
        for name in ("plain", "shared"):
            one, other = (peer[name] for peer in peers)
            with pytest.raises(ts.InvalidArgument, match="overlap"):
                engine.copy(one[:1000], other[500:1500])
            with pytest.raises(ts.InvalidArgument, match="overlap"):
                engine.copy_all([(one[:1000], other[500:1500])])
            with pytest.raises(ts.InvalidArgument, match="overlap"):
                engine.prepare(one[:1000], other[500:1500])
            with pytest.raises(ts.InvalidArgument):
                engine.copy_pieces(one, other, [0], [500], [1000])
            engine.copy(one[:1000], other[1000:2000]).wait(timeout=60)
            got = np.empty(2000, np.uint8)
            engine.copy(other[:2000], got).wait(timeout=60)
            assert np.array_equal(got[1000:], np.resize(np.arange(256, dtype=np.uint8), 1000))


def test_types_and_halves_of_a_prepared_copy_see_aliases(tmp_path: Path) -> None:
    path = tmp_path / "values.bin"
    path.write_bytes(bytes(4096))
    one, other = (np.memmap(path, "u1", "r+", shape=4096) for _ in range(2))
    apart = np.zeros(4096, np.uint8)
    kind = ts.types.contiguous(2048, "u1")
    with ts.Engine() as engine:
        with pytest.raises(ts.InvalidArgument, match="overlap"):
            engine.copy(one[:3000], other[1000:4000], types=(kind, kind))
        engine.copy(one[:2048], other[2048:], types=(kind, kind)).wait(timeout=60)
        with pytest.raises(ts.InvalidArgument, match="overlap"):
            engine.pack(np.asarray(one), kind, np.asarray(other)[:2048])
        prepared = engine.prepare(one, apart)
        with pytest.raises(ts.InvalidArgument, match="overlap"):
            prepared.start(target=other)
        prepared.start(target=np.ones(4096, np.uint8)).wait(timeout=60)


def windows(random: np.random.Generator) -> tuple[np.dtype[Any], tuple[int, ...], Array]:
    """Draws an array's type and shape, and the offsets of its elements' bytes, from 0 on."""
    kinds = ["u1", "u2", "f8", "V3", {"names": "ab", "formats": ["u1", "u2"], "offsets": [0, 5]}]
    dtype = np.dtype(kinds[int(random.integers(len(kinds)))])  # type: ignore[call-overload]
    rank = int(random.integers(1, 4))
    shape = tuple(int(one) for one in random.integers(1, 6, rank))
    unit = 1 if random.random() < 0.3 else dtype.itemsize
    strides = tuple(unit * int(one) for one in random.integers(-9, 10, rank))
    return dtype, shape, np.array(strides)


def bytes_of(dtype: np.dtype[Any]) -> list[int]:
    """Returns the offsets of the bytes of an element that belong to a field."""
    fields = [(dtype, 0)] if dtype.fields is None else [one[:2] for one in dtype.fields.values()]
    return [at + k for kind, at in fields for k in range(kind.itemsize)]


def strided(base: Array, dtype: np.dtype[Any], shape: tuple[int, ...], strides: Array) -> Array:
    """Returns elements in a base of bytes, with the lowest at its begin."""
    first = -sum(min(0, (n - 1) * int(s)) for n, s in zip(shape, strides, strict=True))
    return np.ndarray(shape, dtype, base, first, tuple(int(one) for one in strides))


@pytest.fixture(scope="module")
def engines() -> Any:
    with ExitStack() as stack:
        engine = stack.enter_context(ts.Engine(emulated_gpus=EMULATED, threads=2, contact=True))
        owner = stack.enter_context(ts.Engine(contact=True, threads=2))
        yield engine, owner, engine.connect(owner.contact)


@pytest.mark.parametrize("seed", range(2))
def test_targets_whose_elements_share_bytes_are_refused(engines: Any, seed: int) -> None:
    engine, owner, peer = engines
    random = np.random.default_rng(seed)
    refused = 0
    for number in range(300):
        dtype, shape, strides = windows(random)
        length = sum((n - 1) * abs(int(s)) for n, s in zip(shape, strides, strict=True))
        base = random.integers(0, 256, length + dtype.itemsize, np.uint8)
        target = strided(base, dtype, shape, strides)
        places = np.zeros(len(base), int)
        for index in np.ndindex(*shape):
            low = int(np.dot(index, strides)) - sum(
                min(0, (n - 1) * int(s)) for n, s in zip(shape, strides, strict=True)
            )
            places[[low + k for k in bytes_of(dtype)]] += 1
        source = np.ndarray(
            shape, dtype, random.integers(0, 256, dtype.itemsize * target.size + 1, np.uint8)
        )
        before, wanted = base.copy(), base.copy()
        for name in dtype.names or (...,):
            strided(wanted, dtype, shape, strides)[name] = source[name]
        way = int(random.integers(4))
        end: Any = target
        if way == 3:
            owner.export(f"windows {seed} {number}", target)
            end = peer[f"windows {seed} {number}"]
        try:
            if way == 0:
                engine.copy_all([(source, end), (source[:0], source[:0].copy())]).wait(timeout=60)
            elif way == 1:
                engine.prepare(source, end).start().wait(timeout=60)
            else:
                engine.copy(source, end).wait(timeout=60)
        except ts.InvalidArgument as error:
            assert places.max() > 1, f"{dtype} {shape} {strides}: {error}"
            assert np.array_equal(base, before)
            refused += 1
        else:
            assert places.max() == 1, f"{dtype} {shape} {strides}"
            assert np.array_equal(base, wanted)
    assert 30 < refused < 270


def test_pages_may_share_bytes_with_pages_that_are_not_named(engines: Any) -> None:
    engine = engines[0]
    base = np.zeros(24, "f8")
    windows = np.lib.stride_tricks.sliding_window_view(base, 4, writeable=True)
    source = np.arange(84.0).reshape(21, 4)
    engine.copy_pages(source, windows, [1, 2, 3], [0, 8, 4]).wait(timeout=60)
    assert base[:12].tolist() == [4, 5, 6, 7, 12, 13, 14, 15, 8, 9, 10, 11]
    with pytest.raises(ts.InvalidArgument, match="share bytes"):
        engine.copy_pages(source, windows, [1, 2, 3], [0, 8, 5])


def test_a_get_into_windows_is_refused() -> None:
    with ts.StagingServer() as server, ts.Staging(server.contact, threads=2) as staging:
        staging.put("grid", 0, np.arange(12.0).reshape(3, 4))
        windows = np.lib.stride_tricks.as_strided(np.zeros(8), (3, 4), (8, 8))
        with pytest.raises(ts.InvalidArgument, match="share bytes"):
            staging.get("grid", 0, (0, 0), (3, 4), out=windows, timeout=60)


def test_engines_of_one_process_have_one_memory(tmp_path: Path) -> None:
    with ExitStack() as stack:
        world = World(stack, tmp_path)
        ground = world.plain(np.dtype("u1"), (1000,))
        raw(ground.view())[:] = 7
        for way in ("through itself", "through near one", "through far two"):
            with pytest.raises(ts.InvalidArgument, match="overlap"):
                world.engine.copy(ground.ways[way][:600], ground.ways["array"][300:900])
            with pytest.raises(ts.InvalidArgument, match="overlap"):
                world.engine.copy(ground.ways["array"][:600], ground.ways[way][300:900])
