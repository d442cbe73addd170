"""The commands on small files: what they print, write and refuse, and their exit codes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tranship as ts
from support import eventually
from tranship import errors, profiles
from tranship.cli import copy as copy_command
from tranship.cli import main
from tranship.cli.copy import start_of
from tranship.cli.inputs import parse_extents, parse_fields, parse_layout
from tranship.cli.talk import CommandError
from tranship.cli.verify import FileView, boxes, first_difference

COMMANDS = ("bench", "calibrate", "config", "copy", "demo", "figures", "plan", "topology")
PLAN_KEYS = {"throughput_gbps", "time_s", "binding", "hops", "alternatives"}
HOP_KEYS = {
    "source",
    "target",
    "channel",
    "source_layout",
    "target_layout",
    "blocking",
    "request_bytes",
    "gbps",
}


@dataclass
class Outcome:
    """The exit code of a command and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Outcome]


@pytest.fixture
def tranship(capsys: pytest.CaptureFixture[str]) -> Run:
    """Returns a function that runs a command line in this process."""

    def run(*words: object) -> Outcome:
        capsys.readouterr()
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        assert "\x1b" not in captured.err + captured.out, "colours belong on terminals"
        return Outcome(code, captured.out, captured.err)

    return run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns an empty folder, which is the working folder of the test."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def random_file(folder: Path) -> np.ndarray:
    """Writes in.npy, of 301 x 257 random float64; returns its array."""
    array = np.random.default_rng(7).random((301, 257))
    np.save("in.npy", array)
    return array


def process(*words: object, **options: Any) -> subprocess.Popen[str]:
    """Starts a command in another process."""
    return subprocess.Popen(
        [sys.executable, "-m", "tranship.cli", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def assert_refused(outcome: Outcome, message: str, hint: str, code: int = 2) -> None:
    """Checks that one line says what is wrong and one what to do, and that stdout is empty."""
    lines = outcome.err.splitlines()
    assert outcome.out == ""
    assert len(lines) == 2, outcome.err
    assert lines[0].startswith("error: ") and message in lines[0], lines[0]
    assert lines[1].startswith("hint: ") and hint in lines[1], lines[1]
    assert outcome.code == code


# The command line as a whole


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_options_and_examples(tranship: Run, command: str) -> None:
    outcome = tranship(command, "--help")
    assert outcome.code == 0
    assert "Examples:" in outcome.out and f"tranship {command}" in outcome.out
    assert "--json" in outcome.out


def test_version_and_help_of_the_whole(tranship: Run) -> None:
    assert tranship("--version").out == f"tranship {ts.__version__}\n"
    for words in ((), ("--help",)):
        outcome = tranship(*words)
        assert outcome.code == 0
        assert all(command in outcome.out for command in COMMANDS)


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (("frob",), "No such command 'frob'", "`tranship --help`"),
        (("topolgy",), "Did you mean 'topology'", "`tranship --help`"),
        (("copy", "a.npy"), "Missing argument", "`tranship copy --help`"),
        (("plan", "--source", "a"), "Missing option", "`tranship plan --help`"),
        (("copy", "--frob"), "No such option: --frob", "`tranship copy --help`"),
        (("demo", "--cells", "abc"), "'--cells': 'abc' is not a whole number", "demo --help"),
        (("ls", "c", "--watch", "soon"), "'--watch': 'soon' is not a number", "ls --help"),
        (("copy", "a", "b", "--offset", "-1"), "-1 is too small: the least is 0", "copy --help"),
        (("plan", "--lanes", "9"), "9 is too large: the most is 8", "plan --help"),
    ],
)
def test_words_that_are_not_understood(
    tranship: Run, words: tuple[str, ...], message: str, hint: str
) -> None:
    assert_refused(tranship(*words), message, hint)


def test_a_bug_is_not_hidden(monkeypatch: pytest.MonkeyPatch, tranship: Run) -> None:
    monkeypatch.setattr("tranship.cli.config.versions", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        tranship("config")


def test_errors_of_the_system_are_one_line(tranship: Run, folder: Path) -> None:
    (folder / "file").write_text("")
    outcome = tranship("figures", "--output", "file")
    assert outcome.code == 1
    assert outcome.err.startswith("error: ") and "hint: " in outcome.err


# Parsing of extents, fields and layouts


def test_extents_fields_and_layouts_are_read() -> None:
    assert parse_extents("x=4, y=5") == {"x": 4, "y": 5}
    assert parse_extents("4,5") == {"d0": 4, "d1": 5}
    assert parse_fields("re:f4, im:>f8, raw:16") == {"re": "f4", "im": ">f8", "raw": "V16"}
    assert parse_layout("x,y", {"x": 1, "y": 1}) == "F, x, y"
    assert parse_layout("x:4,F,x,y", {"x": 1, "y": 1}) == "x:4, F, x, y"
    assert parse_layout(None, {"x": 1, "y": 1}) == "F, y, x"


@pytest.mark.parametrize("text", ["x", "x=", "x=-1", "x=4;y=5", "=4", "x=4,x=5", "x=1.5"])
def test_extents_that_cannot_be_read(text: str) -> None:
    with pytest.raises(CommandError, match="--extents"):
        parse_extents(text)


@pytest.mark.parametrize("text", ["f4", "f:", "f:0", "f:zz", "f:f4,f:f4", "1:f4"])
def test_fields_that_cannot_be_read(text: str) -> None:
    with pytest.raises(CommandError, match="--fields"):
        parse_fields(text)


# topology


def test_topology_prints_memories_and_channels(tranship: Run, profile: str) -> None:
    outcome = tranship("topology")
    assert outcome.code == 0 and outcome.err == ""
    for entry in (*json.loads(profile)["memories"], *json.loads(profile)["channels"]):
        assert entry["name"] in outcome.out
    content = tranship("topology", "--json").json
    assert {"host", "date", "memories", "channels", "resources"} <= set(content)
    assert {"source", "target", "gbps", "latency_us"} <= set(content["channels"][0])


def test_topology_says_why_there_is_no_gpu(tranship: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSHIP_GPUS", "0")
    assert "GPUs: none (the setting gpus is 0)" in tranship("topology").out
    present = tranship("topology", "--json").json["hardware"]
    assert present["gpus"] == [] and present["no_gpus_because"] == "the setting gpus is 0"
    assert "none: the setting gpus is 0" in tranship("config").out


def test_topology_lists_gpus_and_says_that_the_profile_lacks_them(
    tranship: Run, monkeypatch: pytest.MonkeyPatch, folder: Path, profile: str
) -> None:
    monkeypatch.setenv("TRANSHIP_EMULATED_GPUS", "2")
    monkeypatch.setattr("tranship.profiles.of_this_machine", lambda report=None: profile)
    text = tranship("topology").out
    assert "device1   emulated GPU (emulated in host memory), " in text
    assert "device (emulated)" not in text, "the profile has none"
    assert "not in the profile: device0, device1; measure again: tranship calibrate" in text
    present = tranship("topology", "--json").json["hardware"]
    assert [gpu["device"] for gpu in present["gpus"]] == [0, 1]
    assert present["no_gpus_because"] is None and present["gpus"][0]["peers"] == [1]
    config = tranship("config", "--json").json["gpu"]
    assert (config["usable"], config["emulated"]) == (2, True)
    (folder / "m.json").write_text(profile)
    assert "hardware" not in tranship("topology", "--machine", "m.json", "--json").json


@pytest.mark.parametrize(("ending", "magic"), [(".png", b"\x89PNG"), (".svg", b"<?xml")])
def test_topology_draws(tranship: Run, folder: Path, ending: str, magic: bytes) -> None:
    outcome = tranship("topology", "--draw", f"machine{ending}")
    assert outcome.code == 0
    content = (folder / f"machine{ending}").read_bytes()
    assert content.startswith(magic) and len(content) > 5000


def test_topology_of_a_machine_elsewhere(tranship: Run, folder: Path, profile: str) -> None:
    content = json.loads(profile)
    content["host"] = "elsewhere"
    (folder / "m.json").write_text(json.dumps(content))
    assert tranship("topology", "--machine", "m.json").out.startswith("elsewhere, measured")
    assert tranship("topology", "--machine", "m.json", "--draw", "m.pdf").code == 0


def test_machines_that_cannot_be_read(tranship: Run, folder: Path) -> None:
    (folder / "binary").write_bytes(b"\xff\xfe\x00\x80")
    (folder / "text").write_text("{}")
    outcome = tranship("topology", "--machine", "nowhere")
    assert_refused(outcome, "no machine profile nowhere", "give a file, or the name")
    outcome = tranship("topology", "--machine", "binary")
    assert_refused(outcome, "is not a text file", "tranship calibrate --output")
    assert tranship("topology", "--machine", "text").code == 2


def test_drawings_that_cannot_be_made(
    tranship: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = tranship("topology", "--draw", "machine.doc")
    assert_refused(outcome, "cannot draw into machine.doc", ".png, .svg, .pdf")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    outcome = tranship("topology", "--draw", "machine.png")
    assert_refused(outcome, "needs Matplotlib", "pip install matplotlib", code=1)


# calibrate


def test_calibrate_keeps_and_writes_the_profile(
    tranship: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRANSHIP_CACHE_FOLDER", str(folder / "cache"))
    outcome = tranship(
        "calibrate", "--sample", "1MiB", "--folder", folder, "--output", "m.json", "--json"
    )
    assert outcome.code == 0
    kept = profiles.cache_path()
    assert kept is not None and f"kept in {kept}" in outcome.err
    assert outcome.json == json.loads(kept.read_text()) == json.loads(Path("m.json").read_text())
    assert outcome.json["format"] == "tranship-profile-1"
    assert tranship("topology", "--machine", "m.json").code == 0


def test_calibrate_keeps_no_partial_profile(
    tranship: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRANSHIP_CACHE_FOLDER", str(folder / "cache"))
    outcome = tranship("calibrate", "--sample", "1MiB", "--no-processes")
    assert outcome.code == 0 and "not kept" in outcome.err and "memcpy" in outcome.out
    assert "remote_write" not in outcome.out
    assert not (folder / "cache").exists()


def test_calibrate_refuses_before_it_measures(tranship: Run, folder: Path) -> None:
    outcome = tranship("calibrate", "--folder", "nowhere")
    assert_refused(outcome, "nowhere is not a folder", "name a folder on the disk")
    outcome = tranship("calibrate", "--output", "nowhere/m.json")
    assert_refused(outcome, "cannot be written", "in a folder that exists")
    outcome = tranship("calibrate", "--sample", "much")
    assert_refused(outcome, "'much' is not a size", "as in --sample 64MiB")
    outcome = tranship("calibrate", "--sample", "1KiB")
    assert_refused(outcome, "too little to measure with", "at least 1 MiB")


# plan

PLAN = ("plan", "--source", "node0/host0", "--target", "node0/file0", "--extents", "x=256,y=512")


def test_plan_as_json_has_the_keys_of_the_design(tranship: Run) -> None:
    outcome = tranship(
        *PLAN, "--fields", "re:f4,im:f8,raw:4", "--source-layout", "F,x,y", "--target-layout",
        "x:4,F,y,x", "--json",
    )  # fmt: skip
    assert outcome.code == 0 and outcome.err == ""
    assert set(outcome.json) >= PLAN_KEYS
    assert outcome.json["bytes"] == 256 * 512 * 16
    assert all(set(hop) >= HOP_KEYS for hop in outcome.json["hops"])
    assert outcome.json["hops"][0]["source_layout"] == "F, x, y"
    assert outcome.json["hops"][-1]["target_layout"] == "x:4, F, y, x"


@pytest.mark.parametrize("planner", ["automatic", "simple", "spsl", "spdl"])
def test_plan_explains(tranship: Run, planner: str) -> None:
    outcome = tranship(*PLAN, "--planner", planner, "--buffer-bytes", "1MiB")
    assert outcome.code == 0
    assert outcome.out.startswith("node0/host0 > ") and "predicted" in outcome.out


def test_plan_on_a_profile_from_a_file(tranship: Run, folder: Path, profile: str) -> None:
    content = json.loads(profile)
    for memory in content["memories"]:
        memory["name"] = memory["name"].replace("node0", "node7")
    for channel in content["channels"]:
        channel["source"] = channel["source"].replace("node0", "node7")
        channel["target"] = channel["target"].replace("node0", "node7")
    (folder / "m.json").write_text(json.dumps(content))
    outcome = tranship(
        "plan", "--machine", "m.json", "--source", "node7/host0", "--target", "node7/file0",
        "--extents", "100,100", "--json",
    )  # fmt: skip
    assert outcome.json["hops"][0]["source"] == "node7/host0"


def test_plans_that_cannot_be_made(tranship: Run, folder: Path, profile: str) -> None:
    outcome = tranship(*PLAN, "--planner", "best")
    assert_refused(outcome, "'best' is not one of", "`tranship plan --help`")
    outcome = tranship(*PLAN, "--target-layout", "x,z")
    assert_refused(outcome, 'dimension "z"', "its dimensions are x, y")
    outcome = tranship(*PLAN, "--fields", "f4")
    assert_refused(outcome, "cannot read 'f4'", "write name:type")
    outcome = tranship(*PLAN, "--buffer-bytes", "few")
    assert_refused(outcome, "--buffer-bytes 'few' is not a size", "64MiB")
    outcome = tranship(*PLAN, "--target", "node9/host0")
    assert_refused(outcome, 'no memory "node9/host0"', "it has node0/host0")
    assert_refused(tranship(*PLAN, "--machine", "nosuch"), "no machine profile nosuch", "sapling")
    outcome = tranship(*PLAN, "--waiting", "nothing=1")
    assert_refused(outcome, 'no channel "nothing"', "tranship topology")
    content = json.loads(profile)
    content["channels"] = [c for c in content["channels"] if c["target"] != "node0/file0"]
    (folder / "m.json").write_text(json.dumps(content))
    outcome = tranship(*PLAN, "--machine", "m.json")
    assert outcome.code == 1 and outcome.err.startswith("error: ")


# copy


@pytest.mark.parametrize(("layout", "fortran"), [("d0,d1", True), ("d1,d0", False)])
def test_copy_into_both_orders(
    tranship: Run, random_file: np.ndarray, layout: str, fortran: bool
) -> None:
    outcome = tranship("copy", "in.npy", "out.npy", "--target-layout", layout, "--verify")
    assert outcome.code == 0 and outcome.out == ""
    assert "copied 604.4 KiB" in outcome.err and "verified" in outcome.err
    copied = np.load("out.npy")
    assert copied.flags.f_contiguous == fortran
    assert copied.dtype == random_file.dtype and np.array_equal(copied, random_file)


def test_copy_of_a_file_larger_than_its_memory(tranship: Run, folder: Path) -> None:
    array = np.random.default_rng(8).integers(0, 2**31, (1500, 2003), np.int32)
    np.save("in.npy", array)
    outcome = tranship(
        "copy", "in.npy", "out.npy", "--target-layout", "d0,d1", "--memory", "1MiB", "--verify",
        "--json",
    )  # fmt: skip
    assert outcome.code == 0 and outcome.err == ""
    assert outcome.json["bytes"] == array.nbytes > 10 * outcome.json["memory_bytes"]
    assert outcome.json["verified"] is True
    plan = outcome.json["plan"]
    assert set(plan) >= PLAN_KEYS
    assert plan["tile_bytes"] * plan["slots"] <= 1 << 20
    assert np.array_equal(np.load("out.npy"), array)
    assert np.load("out.npy").flags.f_contiguous


def test_copy_keeps_the_order_of_a_fortran_file(tranship: Run, folder: Path) -> None:
    array = np.asfortranarray(np.random.default_rng(9).random((30, 40, 5)))
    np.save("in.npy", array)
    assert tranship("copy", "in.npy", "out.npy").code == 0
    assert np.load("out.npy").flags.f_contiguous
    assert np.array_equal(np.load("out.npy"), array)


@pytest.mark.parametrize("layout", ["d1:64,d0:7,d1,d0", "F,d0:2,d1:3,d0:5,d0,d1", "d0,d1"])
def test_copy_to_blocks_and_back(tranship: Run, random_file: np.ndarray, layout: str) -> None:
    assert tranship("copy", "in.npy", "blocks", "--target-layout", layout, "--verify").code == 0
    outcome = tranship(
        "copy", "blocks", "out.npy", "--extents", "d0=301,d1=257", "--fields", "f0:f8",
        "--source-layout", layout, "--target-layout", "d1,d0", "--verify",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert np.array_equal(np.load("out.npy"), random_file)


def test_copy_of_structures_into_arrays_of_their_fields(tranship: Run, folder: Path) -> None:
    kind = np.dtype([("i", "i4"), ("x", "f8"), ("s", "S3")])
    array = np.zeros((20, 30), kind)
    array["i"] = np.arange(600).reshape(20, 30)
    array["x"] = array["i"] / 3
    array["s"] = b"abc"
    np.save("in.npy", array)
    outcome = tranship("copy", "in.npy", "fields", "--target-layout", "d1,d0,F", "--verify")
    assert outcome.code == 0, outcome.err
    parts = array["i"].tobytes() + array["x"].tobytes() + array["s"].tobytes()
    assert Path("fields").read_bytes() == parts
    outcome = tranship(
        "copy", "fields", "out.npy", "--extents", "20,30", "--fields", "i:i4,x:f8,s:S3",
        "--source-layout", "d1,d0,F", "--verify",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert np.load("out.npy").dtype == kind and np.array_equal(np.load("out.npy"), array)


@pytest.mark.parametrize("shape", [(), (0, 4), (1, 1, 1), (5,)])
def test_copy_of_odd_shapes(tranship: Run, folder: Path, shape: tuple[int, ...]) -> None:
    array = np.full(shape, 2.5)
    np.save("in.npy", array)
    assert tranship("copy", "in.npy", "out.npy", "--verify").code == 0
    copied = np.load("out.npy")
    assert copied.shape == shape and np.array_equal(copied, array)


def test_copy_skips_a_header(tranship: Run, folder: Path) -> None:
    array = np.arange(48, dtype=">i2").reshape(6, 8)
    Path("raw").write_bytes(b"0123456789" + array.tobytes())
    outcome = tranship(
        "copy", "raw", "out.npy", "--extents", "6,8", "--fields", "f0:>i2", "--offset", 10,
        "--verify",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert np.load("out.npy").dtype == np.dtype(">i2")
    assert np.array_equal(np.load("out.npy"), array)


def test_copy_explains_and_traces(tranship: Run, random_file: np.ndarray) -> None:
    outcome = tranship("copy", "in.npy", "out.npy", "--explain", "--trace", "t.json")
    assert outcome.out.startswith("node0/file0 > ") and "predicted" in outcome.out
    assert "trace in t.json" in outcome.err
    assert json.loads(Path("t.json").read_text())["traceEvents"]


def test_copy_overwrites_only_when_told(tranship: Run, random_file: np.ndarray) -> None:
    Path("out").write_bytes(b"x" * (random_file.nbytes + 1000))
    assert_refused(tranship("copy", "in.npy", "out"), "'out' exists already", "add --force")
    assert Path("out").read_bytes()[:3] == b"xxx"
    assert tranship("copy", "in.npy", "out", "--force").code == 0
    assert Path("out").read_bytes() == random_file.tobytes()


def test_copy_onto_itself_is_refused(tranship: Run, random_file: np.ndarray) -> None:
    os.link("in.npy", "hard.npy")
    os.symlink("in.npy", "soft.npy")
    for target in ("in.npy", "./in.npy", "hard.npy", "soft.npy"):
        outcome = tranship("copy", "in.npy", target, "--force")
        assert_refused(outcome, "are the same file", "name another target")
    assert np.array_equal(np.load("in.npy"), random_file)


@pytest.mark.parametrize(
    ("words", "message", "hint", "code"),
    [
        (("none.npy", "out.npy"), "there is no file 'none.npy'", "check the path", 1),
        ((".", "out.npy"), "'.' is a directory", "name a file in it", 2),
        (("in.npy", "."), "'.' is a directory", "name a file in it", 2),
        (("in.npy", "no/out.npy"), "there is no folder", "make it", 2),
        (
            ("in.npy", "out.npy", "--extents", "4"),
            "--extents is not for",
            "leave the option out",
            2,
        ),
        (("raw", "out.npy"), "--extents is not given", "--extents x=4096", 2),
        (("raw", "out.npy", "--extents", "4"), "--fields is not given", "--fields f:f8", 2),
        (
            ("raw", "out.npy", "--extents", "400", "--fields", "f:f8"),
            "has 100 bytes and the array needs 3200",
            "check --extents",
            2,
        ),
        (
            ("raw", "out.npy", "--extents", "4", "--fields", "f:O"),
            "Python objects",
            "convert it",
            2,
        ),
        (("bad.npy", "out"), "is not a readable .npy file", "written to the end", 2),
        (
            ("in.npy", "out.npy", "--target-layout", "d0:4,d0,d1"),
            "is in C or Fortran order",
            "write to a raw file",
            2,
        ),
        (
            ("in.npy", "out", "--target-layout", "d0,d2"),
            'names dimension "d2"',
            "its dimensions are d0, d1",
            2,
        ),
        (
            ("in.npy", "out.npy", "--target-layout", "d0,d2"),
            'names dimension "d2"',
            "its dimensions are d0, d1",
            2,
        ),
        (("in.npy", "out", "--memory", "some"), "'some' is not a size", "--memory 64MiB", 2),
        (("in.npy", "out", "--memory", "4KiB"), "too little to copy with", "at least 1 MiB", 2),
        (("in.npy", "out", "--planner", "best"), "'best' is not one of", "copy --help", 2),
        (("in.npy", "out", "--trace", "no/t.json"), "cannot be written", "a folder that exists", 2),
    ],
)
def test_copies_that_are_refused(
    tranship: Run,
    random_file: np.ndarray,
    words: tuple[str, ...],
    message: str,
    hint: str,
    code: int,
) -> None:
    Path("raw").write_bytes(bytes(100))
    Path("bad.npy").write_bytes(b"no header at all")
    assert_refused(tranship("copy", *words), message, hint, code)
    assert not Path("out.npy").exists() and not Path("out").exists()


def test_copy_to_a_full_disk_is_refused(
    tranship: Run, random_file: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = types.SimpleNamespace(free=1000)
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    outcome = tranship("copy", "in.npy", "out.npy")
    assert_refused(outcome, "needs 604.4 KiB and", "free some space", code=1)
    assert not Path("out.npy").exists()


@pytest.mark.parametrize("old", [None, b"old"])
def test_a_failed_copy_says_what_became_of_the_target(
    tranship: Run, random_file: np.ndarray, monkeypatch: pytest.MonkeyPatch, old: bytes | None
) -> None:
    if old is not None:
        Path("out.npy").write_bytes(old)

    def fail(event: ts.Event, count: int) -> None:
        event.wait()
        raise errors.make("io", "the disk broke", "look at the system's log")

    monkeypatch.setattr(copy_command, "follow", fail)
    outcome = tranship("copy", "in.npy", "out.npy", "--force")
    text = "the disk broke ('out.npy' was not made" + ("" if old is None else "; the old file")
    assert_refused(outcome, text, "look at the system's log", code=1)
    assert Path("out.npy").exists() == (old is not None)
    assert old is None or Path("out.npy").read_bytes() == old
    assert not list(Path().glob("*.tranship-part"))


def test_verification_finds_every_wrong_byte(tranship: Run, folder: Path) -> None:
    array = np.random.default_rng(3).integers(0, 255, (9, 11), np.uint16)
    np.save("in.npy", array)
    for layout in ("d0,d1", "d0:4,d1:3,d0,d1"):
        tranship("copy", "in.npy", "out", "--target-layout", layout, "--force")
        source = ts.File("in.npy")
        target = ts.File("out", extents={"d0": 9, "d1": 11}, fields="u2", layout=layout)
        found = set()
        content = Path("out").read_bytes()
        for at in range(len(content)):
            Path("out").write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
            views = (
                FileView.open("in.npy", source, start_of(Path("in.npy"), 0)),
                FileView.open("out", target, 0),
            )
            found.add((at, first_difference(*views, 1 << 20, lambda share, what: None)))
        assert sum(place is not None for _, place in found) == array.nbytes


def test_a_difference_fails_the_copy(
    tranship: Run, random_file: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy_command, "first_difference", lambda *anything: (3, 4))
    outcome = tranship("copy", "in.npy", "out.npy", "--verify")
    assert_refused(outcome, "differs from the source at or after (3, 4)", "--force", code=1)


@pytest.mark.parametrize("count_max", [1, 7, 100, 10**6])
def test_boxes_cover_a_shape_once(count_max: int) -> None:
    seen = np.zeros((13, 1, 29), int)
    for box in boxes(seen.shape, count_max):
        assert seen[box].size <= count_max
        seen[box] += 1
    assert (seen == 1).all()


# Ctrl-C


def test_ctrl_c_ends_a_measurement_cleanly(folder: Path) -> None:
    command = process("calibrate", "--sample", "256MiB", "--no-processes")
    measures = 300 << 10  # KiB: more than the program and its libraries, less than the samples
    status = Path(f"/proc/{command.pid}/status")

    resident = re.compile(r"VmRSS:\s*(\d+) kB")
    assert eventually(lambda: int(resident.findall(status.read_text())[0]) > measures)
    command.send_signal(signal.SIGINT)
    out, err = command.communicate(timeout=30)
    assert command.returncode == 130, err
    assert out == "" and err == "interrupted\n"


def test_ctrl_c_ends_a_copy_and_says_what_is_left(
    tranship: Run, random_file: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(event: ts.Event, count: int) -> None:
        event.cancel()
        raise KeyboardInterrupt

    monkeypatch.setattr(copy_command, "follow", interrupt)
    outcome = tranship("copy", "in.npy", "out.npy")
    assert outcome.code == 130
    assert outcome.err == "'out.npy' was not made\ninterrupted\n"
    assert not Path("out.npy").exists()


# config


def test_config_prints_every_setting_and_its_source(
    tranship: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRANSHIP_THREADS", "3")
    content = tranship("config", "--json").json
    settings = {entry["name"]: entry for entry in content["settings"]}
    assert settings["threads"]["value"] == "3"
    assert settings["threads"]["source"] == "TRANSHIP_THREADS"
    assert settings["slot_bytes"]["source"] == "default"
    assert all(entry["help"] for entry in content["settings"])
    assert content["versions"]["tranship"] == ts.__version__
    gpu = content["gpu"]
    assert gpu["built_in"] is bool(gpu["architectures"]) is bool(gpu["version"])
    assert gpu["usable"] == 0 or gpu["unusable_because"] is None
    assert gpu["gpu_direct_storage"]["used"] is gpu["gpu_direct_storage"]["present"]
    assert content["paths"]["cache_folder"] == os.environ["TRANSHIP_CACHE_FOLDER"]
    text = tranship("config").out
    assert all(name in text for name in settings)


def test_config_names_the_variable_that_cannot_be_read(
    tranship: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRANSHIP_THREADS", "many")
    assert_refused(tranship("config"), "TRANSHIP_THREADS", "write a number")


# bench, figures and demo: options and exit codes

ROW = {"bench": "fake", "case": "a case", "variant": "tranship", "median_s": 0.25, "gbps": 4.0}


@pytest.fixture
def fake_bench(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Replaces the benchmarks with two, of which one fails; returns the list of their runs."""
    calls: list[dict[str, Any]] = []

    def run(name: str, **options: Any) -> int:
        calls.append({"name": name, "size": options["size"], "machine": options["machine"]})
        options["report"](ROW)
        return 1 if name == "broken" else 0

    module = types.ModuleType("tranship_bench.benches")
    module.__dict__.update(list_benches=lambda: [("fake", "nothing"), ("broken", "less")], run=run)
    monkeypatch.setitem(sys.modules, "tranship_bench.benches", module)
    return calls


def test_bench_lists_its_names(tranship: Run, fake_bench: list[Any], folder: Path) -> None:
    assert "broken" in tranship("bench", "list").out
    expected = [
        {"name": "fake", "description": "nothing"},
        {"name": "broken", "description": "less"},
    ]
    assert tranship("bench", "list", "--json", "-").json == expected
    assert tranship("bench", "list", "--json", "names.json").out == ""
    assert json.loads(Path("names.json").read_text()) == expected


def test_bench_hands_over_its_options_and_writes_lines(
    tranship: Run, fake_bench: list[Any], folder: Path
) -> None:
    outcome = tranship("bench", "fake", "--machine", "m", "--size", "small", "--json", "-")
    assert outcome.code == 0 and outcome.json == ROW
    assert fake_bench == [{"name": "fake", "size": "small", "machine": "m"}]
    for _ in range(2):
        outcome = tranship("bench", "fake", "--json", "r.jsonl")
        assert "250 ms" in outcome.out and "4.000 GB/s" in outcome.out
    assert [json.loads(line) for line in Path("r.jsonl").read_text().splitlines()] == [ROW, ROW]
    assert tranship("bench", "broken").code == 1


def test_benches_that_do_not_exist(tranship: Run, fake_bench: list[Any]) -> None:
    assert_refused(tranship("bench", "none"), "there is no benchmark 'none'", "bench list")
    assert_refused(tranship("bench", "fake", "--size", "big"), "neither small", "one of the two")


def test_figures_are_drawn_into_a_folder(
    tranship: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = types.ModuleType("tranship_bench.figures")
    module.__dict__["draw"] = lambda paper, output, results: [output / f"{paper}.png"]
    monkeypatch.setitem(sys.modules, "tranship_bench.figures", module)
    outcome = tranship("figures", "isometry", "--output", "drawn", "--json")
    assert outcome.json == {"figures": ["drawn/isometry.png"]}


def test_the_demo_gets_its_options_and_its_report_is_json(
    tranship: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def run(options: Any) -> int:
        seen.append(options)
        print("a table for people")
        Path(options.out).mkdir()
        (Path(options.out) / "report.json").write_text('{"checks": []}')
        return 0

    main_module = types.ModuleType("tranship.demo.main")
    main_module.__dict__["run"] = run
    monkeypatch.setitem(sys.modules, "tranship.demo.main", main_module)
    outcome = tranship("demo", "--cells", 32, "--every", 5, "--no-figures", "--out", "o", "--json")
    assert outcome.json == {"checks": []} and "a table for people" in outcome.err
    options = seen[0]
    assert (options.cells, options.every, options.figures, options.out) == (32, 5, False, "o")


def test_the_demo_says_what_it_needs(tranship: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    outcome = tranship("demo")
    assert_refused(outcome, "needs zfpy and matplotlib", "pip install zfpy matplotlib", code=1)


def test_config_names_the_ucx_that_would_be_loaded(
    tranship: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "lib" / "ucx").mkdir(parents=True)
    for name in ("libucp.so.0", "ucx/libuct_ib.so", "ucx/libuct_cma.so"):
        (tmp_path / "lib" / name).touch()
    monkeypatch.setenv("TRANSHIP_UCX", str(tmp_path))
    found = tranship("config", "--json").json["ucx"]
    assert found["library"] == str(tmp_path / "lib" / "libucp.so.0")
    assert found["from"] == "TRANSHIP_UCX" and found["modules"] == ["cma", "ib"]
    assert "InfiniBand and RoCE cards" in found["reaches"]
    assert "InfiniBand" in tranship("config").out
