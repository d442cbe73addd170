"""Bad input: the right exception, a message that says what to do, an unchanged target."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tranship as ts
from support import run_script


def grid(extents: dict[str, int], fields: Any = "f8", **options: Any) -> ts.Instance:
    return ts.Instance(extents=extents, fields=fields, **options)


MISMATCHES: dict[str, tuple[Callable[[], Any], Callable[[], Any], str]] = {
    "extents": (lambda: np.ones(5), lambda: np.zeros(6), "differ in extent; give a region"),
    "rank": (lambda: np.ones(6), lambda: np.zeros((2, 3)), "dimensions.*give both the same"),
    "type": (lambda: np.ones(5), lambda: np.zeros(5, "i8"), "does not convert types"),
    "size": (lambda: np.ones(5), lambda: np.zeros(5, "f4"), "does not convert types"),
    "byte order": (lambda: np.ones(5), lambda: np.zeros(5, ">f8"), "does not convert types"),
    "number of fields": (
        lambda: grid({"x": 3}, {"a": "f4", "b": "f4"}),
        lambda: grid({"x": 3}, {"a": "f4"}),
        "2 fields.*give both the same",
    ),
    "names of fields": (
        lambda: grid({"x": 3}, {"a": "f4", "b": "f4"}),
        lambda: grid({"x": 3}, {"a": "f4", "c": "f4"}),
        'field "c" is not in the source',
    ),
    "names of dimensions": (
        lambda: grid({"x": 3}),
        lambda: grid({"y": 3}),
        'dimension "x" is not in the target',
    ),
}


@pytest.mark.parametrize("case", MISMATCHES)
def test_arrays_that_do_not_match(any_engine: ts.Engine, case: str) -> None:
    make_source, make_target, text = MISMATCHES[case]
    target = make_target()
    with pytest.raises(ts.InvalidArgument, match=text) as raised:
        any_engine.copy(make_source(), target)
    assert raised.value.code == "invalid_argument"
    assert isinstance(raised.value, ValueError)
    memory = target if isinstance(target, np.ndarray) else target.buffer
    assert not memory.any()


@pytest.mark.parametrize("shift", [0, 1, 8, 40])
def test_overlap(any_engine: ts.Engine, shift: int) -> None:
    memory = np.arange(100.0).view(np.uint8)
    before = memory.copy()
    source = memory[: 400 - shift % 8].view(np.uint8)
    target = memory[shift : shift + source.size]
    with pytest.raises(ts.InvalidArgument, match=r"overlap.*copy to an array of its own"):
        any_engine.copy(source, target)
    assert np.array_equal(memory, before)


def test_overlap_of_a_transpose_in_place(any_engine: ts.Engine) -> None:
    memory = np.arange(64.0).reshape(8, 8)
    with pytest.raises(ts.InvalidArgument, match="overlap"):
        any_engine.copy(memory, memory.T)
    assert np.array_equal(memory.ravel(), np.arange(64.0))


def test_overlap_within_a_file(any_engine: ts.Engine, tmp_path: Path) -> None:
    path = tmp_path / "f.npy"
    np.save(path, np.arange(100.0))
    file = ts.File(path, mode="r+")
    with pytest.raises(ts.InvalidArgument, match="overlap"):
        any_engine.copy(file[:60], file[40:])
    any_engine.copy(file[:50], file[50:]).wait(timeout=60)
    file.flush()
    assert np.array_equal(np.load(path), np.tile(np.arange(50.0), 2))


def test_overlap_within_a_file_that_was_opened_twice(any_engine: ts.Engine, tmp_path: Path) -> None:
    path = tmp_path / "f.npy"
    np.save(path, np.arange(100.0))
    with pytest.raises(ts.InvalidArgument, match="overlap"):
        any_engine.copy(ts.File(path)[:60], ts.File(path, mode="r+")[40:])
    assert np.array_equal(np.load(path), np.arange(100.0))


def test_a_target_that_overlaps_itself(any_engine: ts.Engine) -> None:
    memory = np.zeros(1)
    target = np.lib.stride_tricks.as_strided(memory, (5,), (0,))
    with pytest.raises(ts.InvalidArgument, match=r"overlap|same place|itself"):
        any_engine.copy(np.arange(5.0), target)
    assert memory[0] == 0


def test_read_only_targets(any_engine: ts.Engine, tmp_path: Path) -> None:
    target = np.zeros(5)
    target.flags.writeable = False
    np.save(tmp_path / "f.npy", np.zeros(5))
    for one in (target, ts.File(tmp_path / "f.npy"), bytes(40)):
        source = np.ones(40, np.uint8) if isinstance(one, bytes) else np.ones(5)
        with pytest.raises(ts.InvalidArgument, match=r"read-only.*; copy to an array that can"):
            any_engine.copy(source, one)
    assert not target.any() and not np.load(tmp_path / "f.npy").any()


BAD_REGIONS = {
    "beyond": ({"x": (0, 6)}, "outside"),
    "negative": ({"x": (-1, 3)}, "outside"),
    "backwards": ({"x": (3, 1)}, "outside"),
    "unknown": ({"q": (0, 1)}, r'dimension "q".*dimensions are x, y'),
}


@pytest.mark.parametrize("case", BAD_REGIONS)
def test_regions_outside(any_engine: ts.Engine, case: str) -> None:
    region, text = BAD_REGIONS[case]
    target = np.zeros((5, 4))
    with pytest.raises(ts.InvalidArgument, match=text):
        any_engine.copy(grid({"x": 5, "y": 4}), target, region=region)
    assert not target.any()


@pytest.mark.parametrize("region", [{"x": 3}, {"x": (1,)}, {"x": ("a", "b")}, {0: (0, 1)}, [1]])
def test_regions_that_are_none(any_engine: ts.Engine, region: Any) -> None:
    with pytest.raises((ts.InvalidArgument, TypeError)):
        any_engine.copy(grid({"x": 5}), np.zeros(5), region=region)


def test_indices_outside(any_engine: ts.Engine) -> None:
    array = grid({"x": 5, "y": 4})
    with pytest.raises(ts.OutOfRange, match="index 5 lies outside a dimension of 5") as raised:
        array[5]
    assert isinstance(raised.value, IndexError) and isinstance(raised.value, ts.InvalidArgument)
    assert [row.shape for row in array] == [(4,)] * 5
    with pytest.raises(ts.InvalidArgument, match="has 3 entries for 2 dimensions"):
        array[1, 2, 3]
    with pytest.raises(ts.InvalidArgument, match="several ellipses"):
        array[..., ...]
    with pytest.raises(ts.InvalidArgument, match="give whole numbers, ranges"):
        array[1.5]
    with pytest.raises(ts.NotFound, match="no field 'x'"):
        array["x"]


def test_steps_through_blocks_are_refused() -> None:
    array = grid({"x": 8}, layout="x:4, F, x")
    with pytest.raises(ts.Error, match=r"stored in blocks.*ranges only"):
        array[::2]


def test_more_than_sixteen_dimensions(any_engine: ts.Engine) -> None:
    with pytest.raises(ts.InvalidArgument, match="17 dimensions; give it at most 16"):
        any_engine.copy(np.ones((2,) * 17, "u1"), np.zeros((2,) * 17, "u1"))


UNUSABLE: dict[str, tuple[Callable[[], Any], str]] = {
    "objects": (lambda: np.array([None] * 3), "Python objects.*convert it to a numeric type"),
    "list": (lambda: [1.0, 2.0, 3.0], r"list cannot be read.*np\.asarray"),
    "none": (lambda: None, "None cannot be read"),
    "text": (lambda: "in.npy", "str cannot be read"),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_things_that_are_no_arrays(any_engine: ts.Engine, case: str) -> None:
    make, text = UNUSABLE[case]
    target = np.zeros(3)
    with pytest.raises(ts.InvalidArgument, match=text):
        any_engine.copy(make(), target)
    assert not target.any()


BAD_INSTANCES: dict[str, tuple[dict[str, Any], str]] = {
    "unknown dimension": ({"extents": {"x": 4}, "layout": "F, x, y"}, '"y".*does not have'),
    "missing dimension": ({"extents": {"x": 4, "y": 2}, "layout": "F, x"}, 'must name.*"y"'),
    "negative extent": ({"extents": {"x": -1}}, "negative extent"),
    "name F": ({"extents": {"F": 4}, "layout": "F"}, "cannot name a dimension"),
    "no fields": ({"extents": {"x": 4}, "fields": {}}, "at least one field"),
    "object field": ({"extents": {"x": 4}, "fields": {"a": "O"}}, "Python objects"),
    "small buffer": ({"buffer": bytearray(31), "extents": {"x": 4}}, "31 bytes.*needs 32"),
    "negative offset": (
        {"buffer": bytearray(64), "extents": {"x": 4}, "offset": -8},
        "offset",
    ),
    "offset": ({"buffer": bytearray(64), "extents": {"x": 4}, "offset": 40}, "24 bytes.*needs 32"),
    "strided buffer": ({"buffer": np.zeros(64)[::2], "extents": {"x": 4}}, "contiguous"),
    "list as buffer": ({"buffer": [1, 2], "extents": {"x": 4}}, "contiguous memory"),
    "huge": ({"buffer": bytearray(8), "extents": {"x": 2**40, "y": 2**40}}, "larger than"),
}


@pytest.mark.parametrize("case", BAD_INSTANCES)
def test_unusable_instances(case: str) -> None:
    options, text = BAD_INSTANCES[case]
    with pytest.raises(ts.InvalidArgument, match=text):
        ts.Instance(**options)


def test_unknown_planners_settings_and_profiles(engine: ts.Engine, profile: str) -> None:
    with pytest.raises(ts.InvalidArgument, match=r"simple.*spsl.*spdl"):
        engine.copy(np.ones(3), np.zeros(3), planner="fastest")
    with pytest.raises(ts.InvalidArgument, match=r"no setting 'thread'.*threads"):
        ts.Engine(profile=profile, thread=3)
    with pytest.raises(ts.InvalidArgument, match=r"buffer_bytes='much' is not a size.*64MiB"):
        ts.Engine(profile=profile, buffer_bytes="much")
    with pytest.raises(ts.InvalidArgument, match="outside 1048576 to"):
        ts.Engine(profile=profile, buffer_bytes=1000)
    with pytest.raises(ts.InvalidArgument, match="automatic, shared or network"):
        ts.Engine(profile=profile, transport="pigeon", contact=True)
    with pytest.raises(ts.Error, match=r"/nowhere/run.contact"):
        ts.Engine(profile=profile, contact="/nowhere/run.contact")
    with pytest.raises(ts.Error, match=r"no-such-host|listen"):
        ts.Engine(profile=profile, contact=True, listen="no-such-host:0")
    with pytest.raises(ts.Error, match=r"/nowhere/run.contact"):
        ts.StagingServer("/nowhere/run.contact", profile=profile)
    with pytest.raises(ts.NotFound, match=r"no machine profile nowhere.*give a file"):
        ts.Engine(profile="nowhere")
    with pytest.raises(ts.InvalidArgument):
        ts.Engine(profile="{}")


def test_a_profile_without_the_memory_of_a_copy(profile: str, tmp_path: Path) -> None:
    """A copy of a file with a profile without file channels raises NoRoute, with a hint."""
    content = json.loads(profile)
    content["channels"] = [one for one in content["channels"] if one["kind"] == "memcpy"]
    np.save(tmp_path / "f.npy", np.zeros(4))
    with ts.Engine(profile=json.dumps(content)) as engine:
        target = np.ones(4)
        with pytest.raises(ts.NoRoute, match=r"tranship topology|tranship calibrate"):
            engine.copy(ts.File(tmp_path / "f.npy"), target)
        assert target.all()


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ts.NotFound, match=r"no file|check the path"):
        ts.File(tmp_path / "missing.npy")
    with pytest.raises(ts.NotFound, match="check the path"):
        ts.File(tmp_path / "missing.bin", extents=(3,))
    with pytest.raises(ts.NotFound, match="folders are not created"):
        ts.File(tmp_path / "no" / "such" / "f.bin", extents=(3,), mode="w")
    with pytest.raises(ts.InvalidArgument, match=r"[Dd]irectory.*name a file"):
        ts.File(tmp_path, extents=(3,))
    folder = tmp_path / "folder.npy"
    folder.mkdir()
    with pytest.raises(ts.InvalidArgument, match=r"[Dd]irectory"):
        ts.File(folder)
    with pytest.raises(ts.InvalidArgument, match="say its extents"):
        ts.File(tmp_path / "f.bin")
    with pytest.raises(ts.InvalidArgument, match="mode='rw' is not a mode"):
        ts.File(tmp_path / "f.bin", extents=(3,), mode="rw")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ts.InvalidArgument, match="neither a regular file"):
        ts.File(pipe, extents=(3,))


def test_files_that_are_too_short(tmp_path: Path) -> None:
    path = tmp_path / "short.bin"
    path.write_bytes(bytes(100))
    with pytest.raises(ts.OutOfRange, match="has 100 bytes and the array needs 104") as raised:
        ts.File(path, extents=(13,))
    assert raised.value.code == "out_of_range"
    with pytest.raises(ts.InvalidArgument, match="needs 104"):
        ts.File(path, extents=(12,), offset=8)
    np.save(tmp_path / "cut.npy", np.zeros(1000))
    os.truncate(tmp_path / "cut.npy", 5000)
    with pytest.raises(ts.InvalidArgument, match="written to the end"):
        ts.File(tmp_path / "cut.npy")


def test_files_that_shrink_while_they_are_open(any_engine: ts.Engine, tmp_path: Path) -> None:
    path = tmp_path / "f.bin"
    path.write_bytes(bytes(1 << 20))
    file = ts.File(path, extents=(1 << 20,), fields="u1")
    os.truncate(path, 1000)
    with pytest.raises(ts.Error, match=r"f.bin"):
        any_engine.copy(file, np.zeros(1 << 20, np.uint8)).wait(timeout=60)
    assert any_engine._core.buffer_bytes_in_use == 0


def test_files_that_are_no_npy(tmp_path: Path) -> None:
    path = tmp_path / "text.npy"
    path.write_text("this is no array")
    with pytest.raises(ts.InvalidArgument, match=r"not a readable .npy"):
        ts.File(path)
    np.save(tmp_path / "objects.npy", np.array([None]))
    with pytest.raises(ts.Error, match="Python objects"):
        ts.File(tmp_path / "objects.npy")
    np.save(tmp_path / "good.npy", np.zeros(3))
    with pytest.raises(ts.InvalidArgument, match="leave them out"):
        ts.File(tmp_path / "good.npy", extents=(3,))


def test_npy_files_have_two_orders_only(tmp_path: Path) -> None:
    path = tmp_path / "f.npy"
    with pytest.raises(ts.InvalidArgument, match=r"neither.*raw file"):
        ts.File(path, mode="w", extents=(3, 4, 5), layout="F, d1, d0, d2")
    with pytest.raises(ts.InvalidArgument, match=r"fields of a point together.*raw file"):
        ts.File(path, mode="w", extents=(3,), fields={"a": "f4", "b": "f4"}, layout="d0, F")
    assert not path.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
def test_files_without_permission(tmp_path: Path) -> None:
    path = tmp_path / "f.bin"
    path.write_bytes(bytes(24))
    path.chmod(0)
    for mode in ("r", "w", "r+"):
        with pytest.raises(ts.Error, match="check the permissions") as raised:
            ts.File(path, extents=(3,), mode=mode)
        assert raised.value.code == "permission"


FULL_DISK = """
    import os, resource, sys
    import numpy as np
    import tranship as ts

    folder = sys.argv[1]
    unlimited = resource.RLIM_INFINITY

    def limit(count):
        resource.setrlimit(resource.RLIMIT_FSIZE, (count, unlimited))

    engine = ts.Engine()
    limit(1 << 20)
    for name in ("new.bin", "new.npy"):
        try:
            ts.File(f"{folder}/{name}", mode="w", extents=(1 << 20,))
            print("no error")
        except ts.Error as error:
            print(error.code, "|", error)
    limit(unlimited)
    source = np.ones(1 << 18)
    for layout in ("F, d0, d1", "F, d1, d0"):
        file = ts.File(f"{folder}/late.bin", mode="w", extents=(512, 512), layout=layout)
        limit(1 << 19)
        try:
            engine.copy(source.reshape(512, 512), file).wait(timeout=20)
            print("no error")
        except ts.Error as error:
            print(error.code, "|", error)
        try:
            file.flush()
            print("no error")
        except ts.Error as error:
            print(error.code, "|", error)
        limit(unlimited)
    print(engine._core.buffer_bytes_in_use)
    engine.close()
"""


def test_a_full_disk_is_an_error_when_opening_and_when_writing(tmp_path: Path) -> None:
    """The limit on file sizes stands for a full disk: the same system calls fail."""
    lines = run_script(FULL_DISK, tmp_path).splitlines()
    assert len(lines) == 7
    opened, written = lines[:2], lines[2:6:2]
    for line in opened:
        assert line.startswith("io |") and "ulimit -f" in line
    for line in written:
        assert line.startswith("io |") and "late.bin" in line
    for line in lines[3:6:2]:
        assert line.startswith("io |") and "incomplete" in line
    assert lines[6] == "0"
    assert not (tmp_path / "new.bin").exists()


def test_a_closed_engine(profile: str) -> None:
    engine = ts.Engine(contact=True, profile=profile)
    engine.close()
    engine.close()
    assert engine.closed
    target = np.zeros(3)
    calls: list[Callable[[], object]] = [
        lambda: engine.copy(np.ones(3), target),
        lambda: engine.plan(np.ones(3), target),
        lambda: engine.export("a", target),
        lambda: engine.connect("127.0.0.1:1"),
        lambda: engine.contact,
        lambda: engine.withdraw("a"),
    ]
    for call in calls:
        with pytest.raises(ts.Closed, match="closed; open another"):
            call()
    assert not target.any()


def test_negative_shapes(engine: ts.Engine) -> None:
    with pytest.raises(ts.InvalidArgument, match="has a negative extent"):
        engine.empty((3, -1))


def test_what_is_no_event_cannot_be_waited_for(engine: ts.Engine) -> None:
    for after in (3, "now", [None]):
        with pytest.raises((TypeError, ts.InvalidArgument)):
            engine.copy(np.ones(3), np.zeros(3), after=after)  # type: ignore[arg-type]
