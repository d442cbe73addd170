"""Recordings: steps in files, whole or not at all, and put again as they were.

More random runs come with `TRANSHIP_RECORDING_CASES=100 pytest tests/python/test_recordings.py`.
"""

from __future__ import annotations

import json
import math
import os
import random
import threading
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from labelled_arrays import random_array
from recorded_runs import both_formats, command, run, seen, write
from staging_servers import PATIENCE, Servers

import tranship as ts
from support import eventually
from tranship.staging import recordings
from tranship.staging.recordings import recorder, replayer, zarr_boxes

CASES = int(os.environ.get("TRANSHIP_RECORDING_CASES", "4"))

TYPES = ["?", "i1", "u2", "i4", "i8", "u8", "f2", "f4", "f8", ">f8", "c8", "c16"]

MORE_TYPES: list[Any] = [
    *("M8[ms]", "m8[s]", "S5"),
    np.dtype([("a", "i1"), ("b", ">f8"), ("c", "u2", (3,))], align=True),
]

try:
    import ml_dtypes

    MORE_TYPES += [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn]
except ModuleNotFoundError:
    pass


def random_values(dice: random.Random, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    count = math.prod(shape)
    data = dice.randbytes(count * dtype.itemsize)
    if dtype.kind == "b":
        return np.frombuffer(bytes(byte & 1 for byte in data), dtype).reshape(shape)
    return np.frombuffer(data, dtype).reshape(shape)


def random_corner(dice: random.Random, rank: int) -> tuple[int, ...]:
    return tuple(dice.randint(-3, 9) for _ in range(rank))


def random_step(
    dice: random.Random, kinds: dict[str, tuple[np.dtype[Any], int]], writers: Any
) -> None:
    """Puts boxes of some of the variables, with gaps and overlaps, by any of the writers."""
    for name in dice.sample(sorted(kinds), dice.randint(0, len(kinds))):
        dtype, rank = kinds[name]
        for _ in range(dice.choice([1, 1, 2, 5]) if rank else 1):
            shape = tuple(dice.choice([0, 1, 2, 3, 4, 5]) for _ in range(rank))
            values = random_values(dice, dtype, shape)
            dice.choice(writers).put(name, values, lower=random_corner(dice, rank))
        if dice.random() < 0.5:
            writers[0][name].attributes["unit"] = dice.choice(["J", "größe", None, math.nan])
    if dice.random() < 0.5:
        dice.choice(writers).put("labelled", random_array(random.Random(7), "labelled"))
    if dice.random() < 0.5:
        writers[0]["that is not put"].attributes["unit"] = "K"
    writers[-1].attributes["time"] = dice.choice([dice.random(), math.nan, [1, {"a": "ö"}]])
    if dice.random() < 0.5:  # as a program in C may
        core, escaped = writers[0]._staging._core, '"half of a pair: \\ud83d"'
        core.set_step_attribute(writers[0]._id, "", "escaped", escaped)


def random_run(contact: Path, seed: int) -> None:
    """Is a simulation of contacts processes that write random steps."""
    dice = random.Random(seed)
    every = [np.dtype(one) for one in (*TYPES, *MORE_TYPES)]
    kinds = {f"v/{k}": (dice.choice(every), dice.randint(0, 3)) for k in range(5)}
    kinds["." + "long" * 100] = kinds["v%2F0"] = np.dtype("?"), 1
    with ts.Staging(contact) as one, ts.Staging(contact) as other:
        one.attributes["code"] = ["a run", seed]
        number = dice.randint(-3, 3)
        for _ in range(6):
            number += dice.randint(1, 3)
            with one.step(number, writers=2) as first, other.step(number, writers=2) as second:
                random_step(dice, kinds, [first, second])
        other["v/0"].attributes["about"] = "outside of steps"


@both_formats
@pytest.mark.parametrize("seed", range(CASES))
def test_random_steps_come_back_as_they_were(
    seed: int, format: Any, contacts: tuple[Path, Path], tmp_path: Path
) -> None:
    source, target = contacts
    random_run(source, seed)
    done = recordings.record(source, tmp_path / "run", format=format, timeout=PATIENCE)
    expected = seen(source)
    assert list(done.steps) == [one for one in expected if isinstance(one, int)]
    put = recordings.replay(tmp_path / "run", target, rate="max")
    assert (put.steps, put.nbytes) == (done.steps, done.nbytes)
    assert seen(target) == expected


@pytest.mark.parametrize("dtype", [*TYPES, *MORE_TYPES], ids=str)
@both_formats
def test_every_type_comes_back(format: Any, dtype: Any, tmp_path: Path, contacts: Any) -> None:
    source, target = contacts
    dice = random.Random(1)
    with ts.Staging(source) as staging, staging.step(0) as step:
        for name, shape in (("scalar", ()), ("none", (0, 3)), ("some", (3, 5))):
            step.put(name, random_values(dice, np.dtype(dtype), shape))
        step.put("zeros", np.zeros((2, 2), dtype), lower=(8, -9))
        if np.dtype(dtype).kind in "fc":
            step.put("minus", -np.zeros((2, 2), dtype))
    recordings.record(source, tmp_path / "run", format=format, timeout=PATIENCE)
    recordings.replay(tmp_path / "run", target)
    assert seen(target) == seen(source)


def test_another_number_of_servers(
    serve: Servers, contacts: tuple[Path, Path], tmp_path: Path
) -> None:
    source = serve("--servers", "3", "--memory", "16MiB")
    random_run(source, 11)
    expected = seen(source)
    recordings.record(source, tmp_path / "run", timeout=PATIENCE)
    for target in contacts[1], serve("--servers", "2", "--memory", "16MiB"):
        recordings.replay(tmp_path / "run", target, rate="max")
        assert seen(target) == expected


@pytest.mark.parametrize("chosen", [("heat", None), (None, "heat"), ("heat", ["heat"])], ids=str)
def test_labels_come_back(
    chosen: tuple[Any, Any], contacts: tuple[Path, Path], tmp_path: Path
) -> None:
    values = xr.DataArray(
        np.arange(6.0).reshape(2, 3), {"x": [1.0, 2.0, 4.0]}, ["y", "x"], attrs={"units": "K"}
    )
    with ts.Staging(contacts[0]) as staging, staging.step(4) as step:
        step["heat"].put(values)
        step["other"].put(1)
    done = recordings.record(contacts[0], tmp_path / "run", variables=chosen[0], timeout=PATIENCE)
    assert done.unseen == ()
    recordings.replay(tmp_path / "run", contacts[1], variables=chosen[1])
    with ts.Staging(contacts[1]) as staging:
        (found,) = staging.steps(timeout=PATIENCE)
        assert set(found) == {"heat", "heat:x"}
        xr.testing.assert_identical(found["heat"].to_xarray().compute(), values.rename("heat"))


@both_formats
def test_files_are_plain(format: Any, contacts: tuple[Path, Path], tmp_path: Path) -> None:
    """What the guide says of the files, by the libraries that read them."""
    run(contacts[0], range(2))
    recordings.record(contacts[0], tmp_path / "run", format=format, timeout=PATIENCE)
    folder = tmp_path / "run" / "steps" / "1"
    step = json.loads((folder / "step.json").read_text())
    assert (step["number"], step["attributes"]) == (1, {"time": 0.5})
    (energy,) = [one for one in step["variables"] if one["name"] == "energy"]
    assert [box["lower"] for box in energy["boxes"]] == [[0, 0], [2, 0], [4, 0]]
    expected = np.repeat([10.0, 11.0, 12.0], 12).reshape(6, 6)
    if format == "npy":
        parts = [np.load(folder / "energy" / f"{number}.npy") for number in range(3)]
        np.testing.assert_array_equal(np.concatenate(parts), expected)
    else:
        group = zarr_boxes.zarr_library().open_group(folder, mode="r")
        np.testing.assert_array_equal(group["energy"][:], expected)
        assert dict(group.attrs) == {"time": 0.5}


def test_attributes_of_the_end_are_recorded(contacts: tuple[Path, Path], tmp_path: Path) -> None:
    with ts.Staging(contacts[0]) as staging:
        write(staging, 0)

        def end(step: recordings.RecordedStep) -> None:
            staging.attributes["result"] = step.number
            staging["energy"].attributes["unit"] = "J"
            staging.close()

        recordings.record(contacts[0], tmp_path / "run", timeout=PATIENCE, on_step=end)
    recordings.replay(tmp_path / "run", contacts[1])
    with ts.Staging(contacts[1]) as staging:
        assert dict(staging.attributes) == {"result": 0}
        assert dict(staging["energy"].attributes) == {"unit": "J"}


def test_a_part_is_recorded_and_replayed(contacts: tuple[Path, Path], tmp_path: Path) -> None:
    run(contacts[0], range(6))
    folder = tmp_path / "run"
    record = partial(recordings.record, contacts[0], folder, timeout=PATIENCE)
    done = record(start=1, stop=5, variables=["count", "never"])
    assert (done.steps, done.known, done.unseen) == ((1, 2, 3, 4), (), ("never",))
    assert record(stop=3, variables="count").known == (1, 2)
    assert recordings.replay(folder, contacts[1], start=2, stop=4, rate="max").steps == (2, 3)
    assert [one for one in seen(contacts[1]) if isinstance(one, int)] == [2, 3]
    with pytest.raises(ts.InvalidArgument):  # steps rise
        recordings.replay(folder, contacts[1], start=2, stop=4, rate="max")


class Clock:
    """A clock that moves when somebody sleeps, or by hand."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def recorded_step(number: int, time: float, session: int = 1) -> recordings.RecordedStep:
    return recordings.RecordedStep(number, time, session, {}, {}, (), {})


@pytest.mark.parametrize("rate", [1.0, 2.0, 0.5])
def test_steps_come_at_the_rate(rate: float) -> None:
    clock = Clock()
    pace = replayer.Pace(rate, clock, clock.sleep)
    for number, time in enumerate([50.0, 51.0, 53.0, 53.0, 52.0, 56.0]):
        pace.wait(recorded_step(number, time))
    # Where the clock of the recorder went back, there is no pause.
    assert clock.slept == [1.0 / rate, 2.0 / rate, 4.0 / rate]
    clock.slept.clear()
    clock.now += 2.5 / rate  # a put that takes long delays its own step alone
    pace.wait(recorded_step(6, 57.0))
    pace.wait(recorded_step(7, 59.0))
    assert clock.slept == [0.5 / rate]
    pace.wait(recorded_step(8, 9000.0, session=2))
    pace.wait(recorded_step(9, 9001.0, session=2))
    assert clock.slept == [0.5 / rate, 1.0 / rate]


def test_replay_waits_between_steps(
    contacts: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(contacts[0], range(4))
    folder = tmp_path / "run"
    times = iter([100.0, 103.0, 104.0, 104.5])
    monkeypatch.setattr(
        recordings.recorder, "Recorder", partial(recorder.Recorder, clock=lambda: next(times))
    )
    recordings.record(contacts[0], folder, timeout=PATIENCE)
    calls: list[tuple[Any, list[float]]] = [("max", []), (2, [0.5, 0.25])]
    for rate, pauses in calls:
        clock = Clock()
        paced = partial(replayer.Pace, clock=clock, sleep=clock.sleep)
        monkeypatch.setattr(replayer, "Pace", paced)
        start, stop = (0, 1) if rate == "max" else (1, None)
        recordings.replay(folder, contacts[1], rate=rate, start=start, stop=stop)
        assert clock.slept == pauses
    wrong: list[Any] = [-1, math.nan, "fast", None, True]
    for rate in wrong:
        with pytest.raises(ts.InvalidArgument, match="is no rate"):
            recordings.replay(folder, contacts[1], rate=rate)


class Gate:
    """Holds a recorder before it reads a given box, until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, before: tuple[int, tuple[int, ...]]):
        self.reached, self.opened = threading.Event(), threading.Event()
        read = recorder.read_box

        def read_box(staging: ts.Staging, variable: Any, box: recordings.RecordedBox) -> Any:
            if (variable.step, box.lower) == before:
                self.reached.set()
                assert self.opened.wait(PATIENCE)
            return read(staging, variable, box)

        monkeypatch.setattr(recorder, "read_box", read_box)


def versions(staging: ts.Staging, name: str) -> list[int]:
    (info,) = [one for one in staging.ls() if one["name"] == name]
    return [one["version"] for one in info["versions"]]


@pytest.mark.parametrize(("group", "gaps"), [("recorder", "skip"), (None, "skip"), (None, "error")])
def test_a_group_keeps_steps_until_they_are_recorded(
    group: str | None,
    gaps: str,
    contacts: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = Gate(monkeypatch, (0, (2, 0)))
    done: list[recordings.Recorded | ts.Error] = []
    options: dict[str, Any] = {"group": group, "gaps": gaps, "timeout": PATIENCE}

    def record() -> None:
        try:
            done.append(recordings.record(contacts[0], tmp_path / "run", **options))
        except ts.Error as error:
            done.append(error)

    warns = group is None and gaps == "skip"
    with ts.Staging(contacts[0]) as sim, ts.Staging(contacts[0]) as ana:
        write(sim, 0)
        thread = threading.Thread(target=record)
        with pytest.warns(ts.SkippedVersionWarning) if warns else ExitStack():
            thread.start()
            assert gate.reached.wait(PATIENCE)
            others = ana.steps(group="others", timeout=PATIENCE)
            for number in range(3):
                if number > 0:
                    write(sim, number)
                step = next(others)
                assert step.number == number
                step.release()
            if group is None:
                assert eventually(lambda: versions(sim, "energy") == [])
            else:
                assert versions(sim, "energy") == [0, 1, 2]
            gate.opened.set()
            sim.close()
            thread.join(PATIENCE)
        (found,) = done
        if gaps == "error":
            assert isinstance(found, ts.NotFound)
            assert "step 0 was discarded before all of it was recorded" in found.message
        else:
            assert isinstance(found, recordings.Recorded)
            expected = ((), (0,)) if group is None else ((0, 1, 2), ())
            assert (found.steps, found.lost) == expected
            assert eventually(lambda: versions(ana, "energy") == [])
        assert (os.listdir(tmp_path / "run" / "steps") == []) == (group is None)


def test_a_group_frees_what_is_recorded_and_no_more(
    contacts: tuple[Path, Path], tmp_path: Path
) -> None:
    with ts.Staging(contacts[0]) as sim:

        def record(stop: int) -> tuple[int, ...]:
            folder = tmp_path / "run"
            done = recordings.record(contacts[0], folder, group="g", stop=stop, timeout=PATIENCE)
            gone = eventually(
                lambda: (
                    not any("recorder" in name for one in sim.servers() for name in one["names"])
                )
            )
            assert gone
            return done.steps

        for number in (0, 1, 5):
            write(sim, number)
        assert record(stop=2) == (0, 1)
        assert eventually(lambda: versions(sim, "energy") == [5])
        assert record(stop=5) == ()  # it has taken step 5, and gives it back
        assert versions(sim, "energy") == [5]
        assert record(stop=6) == (5,)
        assert eventually(lambda: versions(sim, "energy") == [])


def test_the_commands(contacts: tuple[Path, Path], tmp_path: Path) -> None:
    with ts.Staging(contacts[0]) as staging:
        write(staging, 0)
        write(staging, 1)
        with pytest.raises(ZeroDivisionError), staging.step(2) as step:
            step["energy"].put(1 / 0)
        write(staging, 3)
    folder = tmp_path / "run"

    def result(*words: object) -> tuple[int, str, str]:
        process = command(*words)
        out, errors = process.communicate(timeout=PATIENCE)
        return process.returncode, out, errors

    code, out, errors = result("record", contacts[0], folder, "--stop", 2, "--json")
    facts = json.loads(out)
    assert (code, facts["steps"], facts["interrupted"]) == (0, [0, 1], False)
    code, out, errors = result("record", contacts[0], folder, "--gaps", "error")
    assert (code, out) == (1, "")
    assert "error: a step will never be whole: step 2 was given up" in errors
    code, out, errors = result("record", contacts[0], folder, "--variables", "energy,never")
    assert (code, out) == (0, "")
    assert "warning: a step is passed by, since it will never be whole: step 2" in errors
    assert "no step had the variable never" in errors
    assert f"recorded 1 step (3), 288 B, in {folder}; 2 were recorded before" in errors
    code, out, errors = result("replay", folder, contacts[1], "--rate", "max", "--json")
    assert (code, json.loads(out)["steps"]) == (0, [0, 1, 3])
    for words, why in (
        (("replay", tmp_path / "none", contacts[1]), "has no recording"),
        (("replay", folder, contacts[1], "--rate", "fast"), "--rate fast is no rate"),
        (("replay", folder, contacts[1], "--rate", "-2"), "rate=-2.0 is no rate"),
        (("record", contacts[0], folder, "--start", "soon"), "--start soon is no step"),
        (("record", contacts[0], contacts[0]), "cannot be written into"),
    ):
        code, out, errors = result(*words)
        assert code in (1, 2) and out == ""
        assert why in errors and "hint: " in errors and "Traceback" not in errors
