"""Files read and written from memory of emulated GPUs: the data, and the paths of the plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from gpu_support import EMULATED, fixed_gpu_profile

import tranship as ts
from tranship_bench.isometry import real_places

SIDE = 1024


@pytest.fixture(scope="module")
def engine() -> Iterator[ts.Engine]:
    """Yields an engine with two emulated GPUs and a profile that has them."""
    with ts.Engine(emulated_gpus=2, profile=fixed_gpu_profile(), lanes=1) as opened:
        yield opened


def filled(engine: ts.Engine, array: np.ndarray) -> ts.DeviceArray:
    """Returns a copy of the array on the first GPU."""
    device = engine.empty(array.shape, array.dtype, memory="device0")
    engine.copy(array, device).wait()
    return device


@pytest.fixture
def matrix() -> np.ndarray:
    """Returns a matrix of 4 MiB of random float64."""
    return np.random.default_rng(3).random((SIDE, SIDE // 2))


def hop_texts(plan: ts.Plan) -> list[str]:
    """Returns the names of the memories of a plan's path."""
    return str(plan).replace("node0/", "").split(" > ")


def test_plans_go_through_pinned_memory_and_nothing_else(
    engine: ts.Engine, tmp_path: Path, matrix: np.ndarray
) -> None:
    device = filled(engine, matrix)
    file = ts.File(tmp_path / "f.bin", extents=matrix.shape, fields="f8", mode="w")
    assert hop_texts(engine.plan(device, file)) == ["device0", "pinned0", "file0"]
    assert hop_texts(engine.plan(file, device)) == ["file0", "pinned0", "device0"]


ORDERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "same layout": lambda array: array,
    "transposed": lambda array: array.T,
}


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("offset", [0, 128, 4096])
@pytest.mark.parametrize("buffer_bytes", [0, 1 << 20])
def test_written_and_read_again(
    engine: ts.Engine,
    tmp_path: Path,
    matrix: np.ndarray,
    name: str,
    offset: int,
    buffer_bytes: int,
) -> None:
    device = filled(engine, matrix)
    view = device if name == "same layout" else device.transpose((1, 0))
    expected = ORDERS[name](matrix)
    path = tmp_path / "f.bin"
    file = ts.File(path, extents=expected.shape, fields="f8", mode="w", offset=offset)
    engine.copy(view, file, buffer_bytes=buffer_bytes).wait()
    file.flush()
    assert path.read_bytes()[offset:] == expected.tobytes()
    back = engine.empty(matrix.shape, "f8", memory="device1")
    target = back if name == "same layout" else back.transpose((1, 0))
    engine.copy(file, target, buffer_bytes=buffer_bytes).wait()
    assert np.array_equal(back.numpy(), matrix)


def test_a_box_of_a_npy_file(engine: ts.Engine, tmp_path: Path, matrix: np.ndarray) -> None:
    np.save(tmp_path / "in.npy", matrix)
    box = ts.File(tmp_path / "in.npy")[100:900, 17:401]
    device = engine.empty(box.shape, "f8", memory="device0")
    engine.copy(box, device).wait()
    assert np.array_equal(device.numpy(), matrix[100:900, 17:401])


def test_images_change_their_layout_on_the_way(engine: ts.Engine, tmp_path: Path) -> None:
    images = np.random.default_rng(4).random((3, 64 * 64, 4)).astype("f4")
    path = tmp_path / "nhwc.bin"
    images.tofile(path)
    nchw = engine.empty((3, 4, 64 * 64), "f4", memory="device0")
    source = ts.File(path, extents=images.shape, fields="f4")
    engine.copy(source, nchw.transpose((0, 2, 1))).wait()
    assert np.array_equal(nchw.numpy(), images.transpose(0, 2, 1))
    target = ts.File(tmp_path / "back.bin", extents=images.shape, fields="f4", mode="w")
    engine.copy(nchw.transpose((0, 2, 1)), target).wait()
    target.flush()
    assert (tmp_path / "back.bin").read_bytes() == images.tobytes()


def test_a_file_that_is_cut_short_fails_and_gives_buffers_back(
    engine: ts.Engine, tmp_path: Path, matrix: np.ndarray
) -> None:
    path = tmp_path / "short.bin"
    matrix.tofile(path)
    file = ts.File(path, extents=matrix.shape, fields="f8")
    with path.open("r+b") as opened:
        opened.truncate(matrix.nbytes // 2)
    device = engine.empty(matrix.shape, "f8", memory="device0")
    with pytest.raises(ts.Error, match="truncated after it was opened"):
        engine.copy(file, device).wait()
    matrix.tofile(path)
    engine.copy(file, device).wait()
    assert np.array_equal(device.numpy(), matrix)


def test_large_pinned_arrays_begin_on_large_pages(engine: ts.Engine) -> None:
    large = engine.empty((3 << 20,), "u1", memory="pinned")
    assert large.__array_interface__["data"][0] % (2 << 20) == 0
    small = engine.empty((100,), "u1", memory="pinned")
    large[:], small[:] = 1, 2
    device = engine.empty((3 << 20,), "u1", memory="device0")
    assert hop_texts(engine.plan(large, device)) == ["pinned0", "device0"]
    engine.copy(large, device).wait()
    assert np.array_equal(device.numpy(), large)


@pytest.mark.parametrize("soa", [False, True])
@pytest.mark.parametrize("word", ["SYS", "ZCM", "FBM", "DSK", real_places.SHARED])
def test_stores_find_out_what_was_not_copied(
    engine: ts.Engine, tmp_path: Path, word: str, soa: bool
) -> None:
    stores = real_places.Stores(engine, word, real_places.Form(512, soa), 2, tmp_path / "s")
    stores.each("spoil")
    assert not stores.holds()
    for number, view in enumerate(stores.views):
        assert not stores.holds()
        engine.copy(real_places.Form(512).content(number), view).wait()
    stores.each("flush")
    assert stores.holds()
    engine.copy(real_places.Form(512).content(1), stores.views[0]).wait()
    stores.each("flush")
    assert not stores.holds()
    stores.fill()
    assert stores.holds()
    stores.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("mebibytes", [1, 2, 4])
def test_several_lanes_keep_to_small_buffers(tmp_path: Path, mebibytes: int) -> None:
    """One field of many records, from a GPU to a file: lanes with two and three hops."""
    kind = np.dtype([("a", "f8"), ("b", "f8"), ("c", "f8")])
    shape = (72, 112, 40)
    np.save(tmp_path / "records.npy", np.zeros(shape, kind))
    values = np.zeros(shape, kind)
    values["b"] = np.random.default_rng(6).random(shape)
    with ts.Engine(emulated_gpus=EMULATED, threads=1, buffer_bytes=mebibytes << 20) as engine:
        source = filled(engine, values)
        with ts.File(tmp_path / "records.npy", mode="r+") as file:
            engine.copy(source["b"], file["b"]).wait(timeout=60)
    assert np.array_equal(np.load(tmp_path / "records.npy"), values)
