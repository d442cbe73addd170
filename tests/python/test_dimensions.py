"""Arrays of up to 16 dimensions, and of any number of dimensions of one index."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpu_support import EMULATED, Foreign
from test_array_manners import KINDS, House

import tranship as ts


@pytest.fixture(scope="module")
def engine() -> Iterator[ts.Engine]:
    with ts.Engine(emulated_gpus=EMULATED, threads=2, contact=True) as opened:
        yield opened


@pytest.fixture
def house(engine: ts.Engine, tmp_path: Path) -> Iterator[House]:
    with ExitStack() as stack:
        yield House(engine, tmp_path, stack)


def drawn(random: np.random.Generator, rank: int) -> np.ndarray[Any, Any]:
    """Draws an array of some thousand elements."""
    shape = [1] * rank
    for k in random.permutation(rank)[:11]:
        shape[k] = 2
    shape[int(random.integers(rank))] = 3
    return random.integers(0, 1 << 30, shape).astype("i4")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rank", [9, 12, 16])
def test_many_dimensions_are_transposed(house: House, kind: str, rank: int) -> None:
    random = np.random.default_rng(rank)
    for _ in range(3):
        values, order = drawn(random, rank), random.permutation(rank)
        array = house.put(values, kind)
        out = np.zeros(values.transpose(order).shape, "i4")
        house.engine.copy(array.transpose(order), out).wait(timeout=60)
        assert np.array_equal(out, values.transpose(order))
        house.engine.copy(out, array.transpose(order)).wait(timeout=60)
        array[..., ::-1] = values
        assert np.array_equal(array.numpy(), values[..., ::-1])


@pytest.mark.parametrize("kind", KINDS)
def test_all_sixteen_dimensions_have_two_indices(house: House, kind: str) -> None:
    random = np.random.default_rng(7)
    values, order = random.integers(0, 255, (2,) * 16).astype("u1"), random.permutation(16)
    array = house.put(values, kind)
    out = np.zeros_like(values)
    house.engine.copy(array.transpose(order), out).wait(timeout=60)
    assert np.array_equal(out, values.transpose(order))


def test_layouts_with_more_blocks_than_loops(engine: ts.Engine) -> None:
    """Blocks in twelve dimensions, in another order on either side, are more than 24 loops."""
    names = [f"d{k}" for k in range(12)]
    extents = {name: 4 if k < 8 else 2 for k, name in enumerate(names)}
    blocks = [f"{name}:2" for name in names]
    layouts = [["F", *blocks, *names], ["F", *blocks[::-1], *names[::-1]]]
    source, target = (
        ts.Instance(extents=extents, fields="u1", layout=", ".join(layout)) for layout in layouts
    )
    values = np.random.default_rng(3).integers(0, 255, tuple(extents.values())).astype("u1")
    source[...] = values
    engine.copy(source[1:, :3], target[:3, 1:]).wait(timeout=60)
    assert np.array_equal(target.numpy()[:3, 1:], values[1:, :3])


def test_dimensions_of_one_index_do_not_count(engine: ts.Engine) -> None:
    values = np.arange(24.0).reshape(2, 3, 4)
    wide = values.reshape(2, *[1] * 13, 3, *[1] * 12, 4)
    out = np.zeros_like(values)
    engine.copy(wide, out).wait(timeout=60)
    assert np.array_equal(out, values)
    other = np.zeros_like(wide)
    engine.copy(wide[::-1], other).wait(timeout=60)
    engine.copy_all([(wide, other)]).wait(timeout=60)
    assert np.array_equal(other, wide)
    records = np.zeros(wide.shape, [("a", "f8"), ("b", "i2")])
    records["a"] = wide
    back = np.zeros((2, 3, 4), records.dtype)
    engine.copy(records, back).wait(timeout=60)
    assert np.array_equal(back["a"], values)
    engine.copy(memoryview(wide), out[::-1]).wait(timeout=60)
    assert np.array_equal(out[::-1], values)
    with pytest.raises(ts.InvalidArgument, match="18 dimensions; give it at most 16"):
        engine.copy(np.zeros((2,) * 18, "u1"), out)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind[:6] == "device"])
def test_foreign_arrays_with_dimensions_of_one_index(engine: ts.Engine, kind: str) -> None:
    array = engine.empty((4, 5), "f4", memory=kind)
    array[...] = np.arange(20, dtype="f4").reshape(4, 5)
    shape, strides = (4, *[1] * 20, 5), (20, *[4] * 20, 4)
    out = np.zeros((4, 5), "f4")
    engine.copy(Foreign(array, shape=shape, strides=strides), out).wait(timeout=60)
    assert np.array_equal(out, array.numpy())


def test_staging_takes_sixteen_dimensions(tmp_path: Path) -> None:
    values = drawn(np.random.default_rng(11), 16)
    with (
        ts.StagingServer(tmp_path / "contact", memory="16MiB", threads=1),
        ts.Staging(tmp_path / "contact") as client,
    ):
        client.put("wide", 1, values)
        assert np.array_equal(client.get("wide", 1), values)
        lower = (0,) * 16
        upper = tuple(min(n, 2) for n in values.shape)
        part = client.get("wide", 1, lower, upper)
        assert np.array_equal(part, values[tuple(slice(n) for n in upper)])
