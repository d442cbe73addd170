"""Recordings whose recorder is killed, whose disk is full, whose files are damaged."""

from __future__ import annotations

import errno
import json
import math
import os
import resource
import shutil
import signal
import subprocess
import sys
import types
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recorded_runs import both_formats, command, run, seen, write
from staging_servers import PATIENCE

import tranship as ts
from support import run_script
from tranship.staging import recordings
from tranship.staging.recordings import layout, npy_boxes, zarr_boxes


def test_what_a_kill_has_left_is_removed(contacts: tuple[Path, Path], tmp_path: Path) -> None:
    run(contacts[0], range(1))
    folder = tmp_path / "run"
    record = partial(recordings.record, contacts[0], folder, timeout=PATIENCE)
    assert record().steps == (0,)
    (folder / ".writing" / "energy").mkdir(parents=True)
    assert record().known == (0,)
    assert not (folder / ".writing").exists()


RECORDER = """
import os, pathlib, signal, sys
from tranship.staging import recordings, steps
from tranship.staging.recordings import layout, npy_boxes

def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)

where, contact, folder = sys.argv[1:]
if where == "within a step":
    write_whole = npy_boxes.NpyWriter.write
    def write(self, variable, number, array):
        if array.size and array.flat[0] == 21.0:
            kill()
        return write_whole(self, variable, number, array)
    npy_boxes.NpyWriter.write = write
elif where == "before the name":
    names = layout.sizes_of
    from tranship.staging.recordings import recorder
    def sizes(folder, count=[0]):
        count[0] += 1
        return kill() if count[0] == 3 else names(folder)
    recorder.sizes_of = sizes
elif where == "at the name":
    def rename(self, target, done=pathlib.Path.rename):
        return kill() if target.name == "2" else done(self, target)
    pathlib.Path.rename = rename
else:
    def release(self, done=steps.Step.release):
        return kill() if self.number == 2 else done(self)
    steps.Step.release = release
recordings.record(contact, folder, group="recorder", timeout=60)
"""


@pytest.mark.parametrize(
    "where", ["within a step", "before the name", "at the name", "before the release"]
)
def test_a_recorder_that_is_killed_is_gone_on_with(
    where: str, contacts: tuple[Path, Path], tmp_path: Path
) -> None:
    source, target = contacts
    folder = tmp_path / "run"
    with ts.Staging(source) as staging:
        for number in range(4):
            write(staging, number)
        expected = seen(source, stop=4)
        words = [sys.executable, "-c", RECORDER, where, str(source), str(folder)]
        killed = subprocess.run(words, timeout=PATIENCE, check=False)
        assert killed.returncode == -signal.SIGKILL
        whole = 3 if where == "before the release" else 2
        left = recordings.layout.Recording.open(folder)
        assert left.numbers() == list(range(whole))
        assert [left.step(number).number for number in range(whole)] == list(range(whole))
        write(staging, 4)
    # The group has released what was recorded; the step that it was killed in is still there.
    done = recordings.record(source, folder, group="recorder", timeout=PATIENCE)
    assert (done.known, done.steps) == ((2,)[: whole - 2], tuple(range(whole, 5)))
    assert {name for name in os.listdir(folder) if name != ".lock"} == {"recording.json", "steps"}
    recordings.replay(folder, target, rate="max", stop=4)
    assert seen(target) == expected


KILLS = """
import os, shutil, sys
from functools import partial
from tranship.staging import recordings

contact, folder = sys.argv[1:]
left = None

class Killed(BaseException):
    pass

def watch(event, args):
    global left
    if left is None or not any(str(one).startswith(folder) for one in args):
        return
    left -= 1
    if left <= 0:  # from then on nothing changes on the disk
        raise Killed

sys.addaudithook(watch)
record = partial(recordings.record, contact, folder, timeout=60)
count = 0
while left is None:
    left = count = count + 1
    try:
        record()
    except Killed:
        pass
    if left > 0:
        break
    left = None
    done = record()
    assert sorted(done.known + done.steps) == [0, 1, 2], (count, done)
    opened = recordings.layout.Recording.open(folder)
    assert [opened.step(number).number for number in opened.numbers()] == [0, 1, 2]
    assert sorted(os.listdir(folder)) == [".lock", "recording.json", "steps"], count
    shutil.rmtree(folder)
print(count)
"""


def test_a_kill_at_any_time_leaves_whole_steps(contacts: tuple[Path, Path], tmp_path: Path) -> None:
    """The kills are simulated: from some point on the recorder does nothing more to the disk."""
    run(contacts[0], range(3))
    assert int(run_script(KILLS, contacts[0], tmp_path / "run")) > 30


def limit_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))


def test_a_file_that_the_system_refuses_ends_the_command(
    contacts: tuple[Path, Path], tmp_path: Path
) -> None:
    with ts.Staging(contacts[0]) as staging:
        for number in range(2):
            write(staging, number)
        write(staging, 2, size=1 << 17)
    folder = tmp_path / "run"
    process = command("record", contacts[0], folder, "--group", "a", preexec_fn=limit_files)
    out, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (1, "")
    assert f"error: step 2 cannot be written into '{folder}': File too large" in errors
    assert "recorded 2 steps (0 to 1)" in errors
    assert "Traceback" not in errors
    assert sorted(os.listdir(folder / "steps")) == ["0", "1"]
    assert not (folder / ".writing").exists()
    done = recordings.record(contacts[0], folder, group="a", timeout=PATIENCE)
    assert (done.known, done.steps) == ((), (2,))


def full(*_: object, **__: object) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def half_full(path: Path, data: bytes) -> int:
    with path.open("wb") as file:
        file.write(data[: len(data) // 2])
    return full()


@pytest.mark.parametrize("part", ["write", "begin", "sync_tree", "description", "attributes"])
@both_formats
def test_a_full_disk_leaves_whole_steps(
    format: Any,
    part: str,
    contacts: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run(contacts[0], range(3))
    folder = tmp_path / "run"

    def fill(step: recordings.RecordedStep) -> None:
        if step.number != 1:
            return
        if part == "sync_tree":
            monkeypatch.setattr(layout, "sync_tree", full)
        elif part in ("description", "attributes"):
            monkeypatch.setattr(Path, "write_bytes", half_full)
            if part == "attributes":
                staging.attributes["code"] = "a plate"
        elif part == "write" and format == "npy":
            monkeypatch.setattr(npy_boxes, "write_part", full)
        else:
            monkeypatch.setattr(npy_boxes.NpyWriter, part, full)
            monkeypatch.setattr(zarr_boxes.ZarrWriter, part, full)

    record = partial(recordings.record, contacts[0], folder, durable=True, timeout=PATIENCE)
    what = "a recording" if part == "attributes" else "step 2"
    with (
        ts.Staging(contacts[0]) as staging,
        pytest.raises(ts.Error, match=f"{what} cannot be written.*No space left") as raised,
    ):
        record(format=format, on_step=fill)
    assert (raised.value.code, "space" in raised.value.hint) == ("io", True)
    assert sorted(os.listdir(folder / "steps")) == ["0", "1"]
    assert not (folder / ".writing").exists()
    monkeypatch.undo()
    assert record().steps == (2,)
    recordings.replay(folder, contacts[1], rate="max")
    assert seen(contacts[1]) == seen(contacts[0])


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)


def garble(path: Path) -> None:
    """Replaces a file by another one of the same size."""
    path.write_bytes(b"\x93" * path.stat().st_size)


def alter(path: Path) -> None:
    """Changes a number in a description."""
    text = path.read_text()
    assert text.count('"time": 1.0') == 1
    path.write_text(text.replace('"time": 1.0', '"time": 7.0'))


def describe(path: Path, **changes: Any) -> None:
    """Changes a description, with a checksum that is right; None leaves something out."""
    content = json.loads(path.read_text())
    kind = next(iter(content))
    made = {key: one for key, one in {**content, **changes}.items() if one is not None}
    path.write_bytes(layout.dump(kind, {key: one for key, one in made.items() if key != "crc32"}))


def forget(path: Path) -> None:
    describe(path, variables=None)


def add(path: Path) -> None:
    """Adds a variable with elements, of which there are none."""
    one = {"name": "a", "type": "float64", "place": "a", "lower": [0], "upper": [3]}
    more = {**one, "attributes": {}, "boxes": []}
    describe(path, variables=[*json.loads(path.read_text())["variables"], more])


def replace(path: Path) -> None:
    """Replaces a folder by a file."""
    shutil.rmtree(path)
    path.touch()


DAMAGES: list[tuple[str, Callable[[Path], None]]] = [
    *(("box", damage) for damage in (cut, flip, garble, Path.unlink)),
    *(("step.json", damage) for damage in (cut, garble, alter, forget, add, Path.unlink)),
    ("", replace),
]


@pytest.mark.filterwarnings("ignore::tranship.SkippedVersionWarning")
@pytest.mark.parametrize(("file", "damage"), DAMAGES, ids=lambda one: getattr(one, "__name__", one))
@both_formats
def test_damage_is_an_error_and_nothing_of_the_step_is_put(
    format: Any, file: str, damage: Callable[[Path], None], contacts: Any, tmp_path: Path
) -> None:
    run(contacts[0], range(4))
    folder = tmp_path / "run"
    recordings.record(contacts[0], folder, format=format, timeout=PATIENCE)
    step = folder / "steps" / "2"
    boxes = {"npy": step / "energy" / "1.npy", "zarr": step / "energy" / "c" / "1" / "0"}
    path = boxes[format] if file == "box" else step / file
    damage(path)
    with pytest.raises(ts.Error, match=r"the recording is damaged: '.*/steps/2/") as raised:
        recordings.replay(folder, contacts[1], rate="max")
    assert "start= and stop=" in raised.value.hint
    if damage is cut and file == "box":
        size = path.stat().st_size
        assert f"it has {size} bytes, and {size + 1} were recorded" in raised.value.message
    assert [one for one in seen(contacts[1]) if isinstance(one, int)] == [0, 1]
    assert recordings.replay(folder, contacts[1], rate="max", start=3).steps == (3,)


def test_a_damaged_or_later_description_is_refused(
    contacts: tuple[Path, Path], tmp_path: Path
) -> None:
    run(contacts[0], range(1))
    folder = tmp_path / "run"
    recordings.record(contacts[0], folder, timeout=PATIENCE)
    description = folder / "recording.json"
    before = description.read_bytes()

    def refused(why: str, change: Callable[[Path], object]) -> None:
        description.write_bytes(before)
        change(description)
        changed = description.read_bytes()
        with pytest.raises(ts.Error, match=why):
            recordings.replay(folder, contacts[1])
        with pytest.raises(ts.Error, match=why):
            recordings.record(contacts[0], folder, timeout=PATIENCE)
        assert description.read_bytes() == changed

    later = before.replace(b'recording": 1', b'recording": 2')
    refused("is damaged", cut)
    refused("it has the CRC-32", lambda path: path.write_bytes(before.replace(b"npy", b"zarr")))
    refused("it is no description", lambda path: path.write_text("[]"))
    refused("its format is 'hdf'", partial(describe, format="hdf"))
    refused("it lacks 'sessions'", partial(describe, sessions=None))
    refused("has version 2 of the layout", lambda path: path.write_bytes(later))
    description.write_bytes(before)
    step = folder / "steps" / "0" / "step.json"
    step.write_text(step.read_text().replace('step": 1', 'step": 7'))
    with pytest.raises(ts.Error, match="has version 7 of the layout") as raised:
        recordings.replay(folder, contacts[1])
    assert "install a version" in raised.value.hint
    replace(folder / "steps")
    with pytest.raises(ts.Error, match=r"the recording is damaged: '.*/steps': Not a directory"):
        recordings.replay(folder, contacts[1])


def test_other_folders_are_left_alone(contacts: tuple[Path, Path], tmp_path: Path) -> None:
    run(contacts[0], range(1))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter").touch()
    with pytest.raises(ts.InvalidArgument, match=r"has no recording, and is not empty \('letter'"):
        recordings.record(contacts[0], tmp_path / "mine")
    with pytest.raises(ts.NotFound, match=r"has no recording: there is no recording\.json in it"):
        recordings.replay(tmp_path / "never", contacts[1])
    recordings.record(contacts[0], tmp_path / "run", timeout=PATIENCE)
    opened = layout.open_to_record(tmp_path / "run", "zarr")
    with pytest.raises(ts.InvalidArgument, match="in the format npy, and not zarr"), opened:
        pass


@pytest.mark.parametrize("other", ["time", "unit", "value", "type", "boxes", "lower", None])
def test_another_run_is_not_mixed_in(
    other: str | None, contacts: tuple[Path, Path], tmp_path: Path
) -> None:
    for contact, changed in zip(contacts, ("", other), strict=True):
        with ts.Staging(contact) as staging, staging.step(1) as step:
            values = np.ones((2, 6), "f4" if changed == "type" else "i4")
            values[1, 5] = 3 if changed == "value" else 2
            cuts = [slice(0, 1), slice(1, 2)] if changed == "boxes" else [slice(0, 2)]
            for cut in cuts:
                lower = cut.start - (changed == "lower"), 0
                step["energy"].put(values[cut], lower=lower)
            step["energy"].attributes["unit"] = "K" if changed == "unit" else "J"
            step.attributes["time"] = math.nan if changed == "time" else 0
    folder = tmp_path / "run"
    recordings.record(contacts[0], folder, timeout=PATIENCE)
    if other is None:
        assert recordings.record(contacts[1], folder, timeout=PATIENCE).known == (1,)
        return
    with pytest.raises(ts.InvalidArgument, match=r"step 1 is recorded in .* another one there"):
        recordings.record(contacts[1], folder, timeout=PATIENCE)


def test_one_recorder_at_a_time(contacts: tuple[Path, Path], tmp_path: Path) -> None:
    run(contacts[0], range(2))
    folder = tmp_path / "run"
    with layout.open_to_record(folder, None):
        process = command("record", contacts[0], folder)
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 1
        assert f"error: another process records into '{folder}'" in errors
    assert recordings.record(contacts[0], folder, timeout=PATIENCE).steps == (0, 1)


def test_zarr_that_is_missing_or_old(
    contacts: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(contacts[0], range(1))
    record = partial(
        recordings.record, contacts[0], tmp_path / "run", format="zarr", timeout=PATIENCE
    )
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(ts.Error, match="the format zarr needs the library zarr") as raised:
        record()
    assert "pip install 'zarr>=3.1'" in raised.value.hint
    old = types.ModuleType("zarr")
    old.__version__ = "2.18.7"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "zarr", old)
    with pytest.raises(ts.Error, match=r"needs zarr 3\.1, and this is 2\.18\.7"):
        record()
    assert not (tmp_path / "run").exists()
    with layout.open_to_record(tmp_path / "run", "zarr"):
        pass
    with pytest.raises(ts.Error, match=r"needs zarr 3\.1"):
        recordings.record(contacts[0], tmp_path / "run", timeout=PATIENCE)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("as_json", [False, True])
def test_signals_end_a_recording_with_a_summary(
    number: int, as_json: bool, contacts: tuple[Path, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    with ts.Staging(contacts[0]) as staging:
        for step in range(3):
            write(staging, step)
        options = ["--json"] if as_json else []
        process = command("record", contacts[0], folder, "--group", "g", *options)
        assert process.stderr is not None
        lines = [process.stderr.readline() for _ in range(3)]
        assert lines[2].startswith("recorded step 2: ")
        process.send_signal(number)
        out, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130, errors
        assert "Traceback" not in errors
        if as_json:
            facts = json.loads(out)
            assert (facts["steps"], facts["interrupted"]) == ([0, 1, 2], True)
        else:
            assert errors.startswith("recorded 3 steps (0 to 2), ")
        write(staging, 3)
    assert recordings.record(contacts[0], folder, timeout=PATIENCE).steps[-1] == 3
    process = command("replay", folder, contacts[1], "--rate", "1e-9", *options)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("replayed step 0: ")
    process.send_signal(number)
    out, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130 and "Traceback" not in errors
    assert json.loads(out)["steps"] == [0] if as_json else "replayed 1 step (0), " in errors
    assert [one for one in seen(contacts[1]) if isinstance(one, int)] == [0]


WRITER = """
import os, signal, sys
import numpy as np
import tranship as ts

staging = ts.Staging(sys.argv[1])
for number in range(3):
    with staging.step(number) as step:
        step["energy"].put(np.ones((4, 4)))
        if number == 2:
            os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_simulation_that_dies_leaves_its_whole_steps(contacts: Any, tmp_path: Path) -> None:
    words = [sys.executable, "-c", WRITER, str(contacts[0])]
    assert subprocess.run(words, timeout=PATIENCE, check=False).returncode == -signal.SIGKILL
    folder = tmp_path / "run"
    with pytest.raises(ts.PeerLost), warnings.catch_warnings():
        warnings.simplefilter("ignore", ts.SkippedVersionWarning)
        recordings.record(contacts[0], folder, timeout=PATIENCE)
    assert recordings.replay(folder, contacts[1], rate="max").steps == (0, 1)
