"""Kinds of arrays that users have: which are accepted as they are, and what each supports."""

from __future__ import annotations

import json
import mmap
from pathlib import Path

import numpy as np
import pytest

import tranship as ts


def test_small_copies_are_done_on_return(engine: ts.Engine) -> None:
    source, target = np.arange(100.0), np.zeros(100)
    event = engine.copy(source, target)
    assert event.plan.direct and event.done()
    assert np.array_equal(source, target)


def test_large_copies_are_queued_and_right(any_engine: ts.Engine) -> None:
    source = np.random.default_rng(1).integers(0, 256, (1024, 4096), np.uint8)
    target = np.zeros((4096, 1024), np.uint8)
    event = any_engine.copy(source, target.T)
    assert not event.plan.direct
    event.wait(timeout=20)
    assert np.array_equal(target, source.T)


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "c8", "c16", "u1", "i8", "b1", "f16", "V3"])
def test_megabytes_in_every_permutation(any_engine: ts.Engine, kind: str) -> None:
    dtype = np.dtype(kind)
    values = np.random.default_rng(2).integers(0, 256, 67 * 33 * 129 * dtype.itemsize, np.uint8)
    source = values.view(dtype).reshape(67, 33, 129)
    for axes in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
        target = np.zeros(tuple(source.shape[k] for k in axes), dtype)
        any_engine.copy(source.transpose(axes), target).wait(timeout=20)
        assert target.tobytes() == source.transpose(axes).tobytes()


def test_structures_to_arrays_of_each_field(any_engine: ts.Engine) -> None:
    points = 300_000
    kinds = {"a": "f4", "b": "f8", "c": "i2"}
    records = np.zeros(points, np.dtype(list(kinds.items()), align=True))
    for number, name in enumerate(kinds):
        records[name] = np.arange(points) + number
    grid = ts.Instance(extents={"x": points}, fields=kinds, layout="x, F")
    any_engine.copy(records, grid).wait(timeout=20)
    start = 0
    for name, kind in kinds.items():
        size = points * np.dtype(kind).itemsize
        assert np.array_equal(grid.buffer[start : start + size].view(kind), records[name])
        start += size
    back = np.zeros_like(records)
    any_engine.copy(grid, back).wait(timeout=20)
    assert all(np.array_equal(back[name], records[name]) for name in kinds)


def test_zero_dimensions(any_engine: ts.Engine) -> None:
    target = np.zeros((), "f8")
    any_engine.copy(np.array(2.5), target).wait(timeout=60)
    assert target[()] == 2.5


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 5, 2)])
def test_copies_of_nothing_are_done(any_engine: ts.Engine, shape: tuple[int, ...]) -> None:
    event = any_engine.copy(np.zeros(shape), np.zeros(shape))
    assert event.done()
    event.wait(timeout=60)
    assert event.plan.bytes == 0


def test_an_empty_region_moves_nothing(any_engine: ts.Engine) -> None:
    target = np.zeros(8)
    any_engine.copy(np.ones(8), target, region={"d0": (3, 3)}).wait(timeout=60)
    assert not target.any()


def test_an_empty_region_of_files_moves_nothing(any_engine: ts.Engine, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.ones((4, 8)))
    target = np.zeros((8, 4)).T
    source = ts.File(tmp_path / "in.npy")
    any_engine.copy(source, target, region={"d1": (8, 8)}).wait(timeout=60)
    assert not target.any()


def test_broadcast_sources(any_engine: ts.Engine) -> None:
    target = np.zeros((700, 900))
    any_engine.copy(np.broadcast_to(np.arange(900.0), (700, 900)), target).wait(timeout=60)
    assert np.array_equal(target, np.broadcast_to(np.arange(900.0), (700, 900)))


def test_buffers_that_are_not_numpy(any_engine: ts.Engine) -> None:
    target = bytearray(16)
    any_engine.copy(bytes(range(16)), target).wait(timeout=60)
    assert target == bytes(range(16))
    with mmap.mmap(-1, 4096) as pages:
        any_engine.copy(memoryview(target), memoryview(pages)[100:116]).wait(timeout=60)
        assert pages[100:116] == bytes(range(16))


class OnlyDlpack:
    """An array of a library that has DLPack but no buffer protocol."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **arguments: object) -> object:
        return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def test_dlpack_is_read_and_written(any_engine: ts.Engine) -> None:
    source, target = np.arange(12.0).reshape(3, 4), np.zeros((3, 4))
    any_engine.copy(OnlyDlpack(source), OnlyDlpack(target)).wait(timeout=60)
    assert np.array_equal(source, target)


class Memory:
    """An object with NumPy's array interface alone."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.__array_interface__ = array.__array_interface__


def test_array_interface_is_read_and_written(any_engine: ts.Engine) -> None:
    target = np.zeros(7)
    any_engine.copy(Memory(np.arange(7.0)), Memory(target)).wait(timeout=60)
    assert np.array_equal(target, np.arange(7.0))


def test_a_single_field_needs_no_equal_name(any_engine: ts.Engine) -> None:
    grid = ts.Instance(extents={"x": 5}, fields={"density": "f8"})
    any_engine.copy(np.arange(5.0), grid).wait(timeout=60)
    assert np.array_equal(grid.buffer.view("f8"), np.arange(5.0))


def test_named_dimensions_match_by_name(any_engine: ts.Engine) -> None:
    one = ts.Instance(np.arange(6.0), extents={"x": 2, "y": 3})
    other = ts.Instance(extents={"y": 3, "x": 2})
    any_engine.copy(one, other).wait(timeout=60)
    assert np.array_equal(other.buffer.view("f8").reshape(3, 2), np.arange(6.0).reshape(2, 3).T)


def test_slices_of_instances_are_views(any_engine: ts.Engine) -> None:
    grid = ts.Instance(np.arange(60.0), extents={"x": 5, "y": 12})
    numbers = np.arange(60.0).reshape(5, 12)
    cuts = (np.s_[1:4, 2:9], np.s_[::2, ::-3], np.s_[-1], np.s_[..., 4], np.s_[2, 5], np.s_[3:3])
    for cut in cuts:
        part = grid[cut]
        assert part.shape == numbers[cut].shape
        target = np.zeros(part.shape)
        any_engine.copy(part, target).wait(timeout=60)
        assert np.array_equal(target, numbers[cut]), cut
    any_engine.copy(np.full((2, 2), -1.0), grid[:2, :2]).wait(timeout=60)
    assert np.count_nonzero(grid.buffer == -1.0) == 4


def test_slices_of_slices(any_engine: ts.Engine) -> None:
    grid = ts.Instance(np.arange(60.0), extents={"x": 5, "y": 12})
    numbers = np.arange(60.0).reshape(5, 12)
    target = np.zeros((2, 4))
    any_engine.copy(grid[1:, 2:][::2, 1:9:2], target).wait(timeout=60)
    assert np.array_equal(target, numbers[1:, 2:][::2, 1:9:2])


def test_regions_apply_to_both_sides(any_engine: ts.Engine) -> None:
    grid = ts.Instance(np.arange(60.0), extents={"x": 5, "y": 12})
    target = np.zeros((5, 12))
    any_engine.copy(grid, target, region={"y": (3, 7)}).wait(timeout=60)
    assert np.array_equal(target[:, 3:7], np.arange(60.0).reshape(5, 12)[:, 3:7])
    assert np.count_nonzero(target) == 20


def test_interleaved_views_of_one_buffer_do_not_overlap(any_engine: ts.Engine) -> None:
    memory = np.arange(1000.0)
    any_engine.copy(memory[0::2], memory[1::2]).wait(timeout=60)
    assert np.array_equal(memory[0::2], memory[1::2])


@pytest.mark.parametrize("layout", ["d0, d1", "d1, d0"])
def test_npy_files_are_what_numpy_reads(any_engine: ts.Engine, tmp_path: Path, layout: str) -> None:
    source = np.random.default_rng(3).random((700, 300))
    path = tmp_path / "out.npy"
    target = ts.File(path, mode="w", extents=(700, 300), fields="f8", layout=layout)
    any_engine.copy(source, target).wait(timeout=20)
    target.flush()
    loaded = np.load(path)
    assert np.array_equal(loaded, source)
    assert loaded.flags.f_contiguous == (layout == "d0, d1")


def test_files_to_files_with_little_memory(any_engine: ts.Engine, tmp_path: Path) -> None:
    source = np.random.default_rng(4).random((512, 2048))
    np.save(tmp_path / "in.npy", source)
    target = ts.File(
        tmp_path / "out.npy", mode="w", extents=(512, 2048), fields="f8", layout="d0, d1"
    )
    event = any_engine.copy(ts.File(tmp_path / "in.npy"), target, buffer_bytes=1 << 20)
    event.wait(timeout=20)
    target.flush()
    assert np.array_equal(np.load(tmp_path / "out.npy"), source)


def test_writing_a_part_keeps_the_rest_of_a_file(any_engine: ts.Engine, tmp_path: Path) -> None:
    path = tmp_path / "grid.npy"
    np.save(path, np.zeros((64, 64)))
    with ts.File(path, mode="r+") as file:
        any_engine.copy(np.ones((10, 20)), file[5:15, 30:50]).wait(timeout=60)
    loaded = np.load(path)
    assert loaded.sum() == 200 and loaded[5:15, 30:50].all()


def test_all_planners_agree_on_files(any_engine: ts.Engine, tmp_path: Path) -> None:
    kinds = {"a": "f4", "b": "f8"}
    size = {"x": 301, "y": 205}
    disk = ts.File(tmp_path / "f.bin", mode="w", extents=size, fields=kinds, layout="x:8, F, y, x")
    values = np.random.default_rng(5).integers(0, 256, 301 * 205 * 12, np.uint8)
    start = ts.Instance(values, extents=size, fields=kinds, layout="F, x, y")
    for planner in ("simple", "spsl", "spdl", "automatic"):
        any_engine.copy(start, disk, planner=planner).wait(timeout=20)
        back = ts.Instance(extents=size, fields=kinds, layout="F, x, y")
        event = any_engine.copy(disk, back, planner=planner)
        event.wait(timeout=20)
        assert planner in ("automatic", event.plan.planner)
        assert np.array_equal(back.buffer, values)


def test_plans_say_what_they_do(engine: ts.Engine, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.zeros((256, 256)))
    plan = engine.plan(ts.File(tmp_path / "in.npy"), np.zeros((256, 256)).T)
    assert "file0" in plan.explain() and plan.seconds > 0 and plan.throughput_gbps > 0
    content = json.loads(plan.to_json())
    assert {"throughput_gbps", "time_s", "binding", "hops", "alternatives"} <= set(content)


def test_shared_memory_is_an_array_of_zeros(engine: ts.Engine) -> None:
    for shape, kind in (((3, 4), "f8"), (7, "u1"), ((), "i2"), ((0, 3), "f4")):
        array = engine.empty(shape, kind)
        assert array.shape == np.zeros(shape).shape and array.dtype == kind and not array.any()
        assert array.flags.writeable


def test_topology_and_settings(engine: ts.Engine) -> None:
    assert "host0" in engine.topology()
    assert engine.threads == 2
    assert not engine.closed
