"""The command line as a program: its start, shell completion and tables."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import tranship as ts
from support import SOON_S
from tranship import _core, profiles
from tranship.cli import app, main

COMMANDS = ("calibrate", "config", "copy", "demo", "get", "ls", "plan", "put", "serve", "topology")


def test_the_version_comes_at_once() -> None:
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "tranship", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    seconds = time.monotonic() - begin
    assert done.stdout == f"tranship {ts.__version__}\n"
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "tranship" in imported
    assert not imported & {"numpy", "tranship._core", "typer", "rich"}
    assert seconds < SOON_S, "0.1 s on a quiet machine"


@pytest.mark.parametrize("name", ["tranship", "tranship.cli"])
def test_the_package_runs_as_a_module(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", name, "nonsense"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "No such command 'nonsense'" in done.stderr


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("tranship to", "topology"),
        ("tranship copy --ver", "--verify"),
        ("tranship topology --machine h200-2", "h200-2"),
        ("tranship plan --machine sapling --source node0/fi", "node0/file0"),
        ("tranship plan --through node0/host0,node0/sh", "node0/host0,node0/shared0"),
        ("tranship bench planni", "planning"),
    ],
)
def test_the_shell_completes(words: str, completed: str) -> None:
    environment = {"_TRANSHIP_COMPLETE": "complete_bash", "COMP_WORDS": words}
    done = subprocess.run(
        [sys.executable, "-m", "tranship"],
        env={**os.environ, **environment, "COMP_CWORD": str(len(words.split()) - 1)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == [completed], done.stderr


@pytest.mark.parametrize("command", [*app.COMMANDS, "bench", "figures"])
def test_help_fits_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """80 columns, without types of flags, and with no name or choice cut."""
    monkeypatch.setenv("COLUMNS", "80")
    assert main([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert not [line for line in text.splitlines() if len(line) > 80]
    assert "<bool>" not in text and not re.search(r"\w…\]|\w\.\.\.$", text, re.MULTILINE)
    assert command != "serve" or "[settings]" in text


def test_every_command_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (*COMMANDS, "trace"):
        assert main([command, "--help"]) == 0
        assert "--json" in capsys.readouterr().out, command


def on_terminal(*words: str, columns: int = 80, **environment: str) -> list[str]:
    """Runs a command on a terminal of so many columns; returns the lines that it shows."""
    main_end, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    command = [sys.executable, "-m", "tranship", *words]
    process = subprocess.Popen(command, stdout=end, stderr=end, env={**os.environ, **environment})
    os.close(end)
    out = b""
    with contextlib.suppress(OSError):  # Linux reports EIO when the command has exited.
        while data := os.read(main_end, 65536):
            out += data
    os.close(main_end)
    assert process.wait(timeout=30) == 0, out
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", out.decode()).splitlines()


def test_tables_fit_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSHIP_EMULATED_GPUS", "2")
    profiles.of_this_machine()  # So that no command measures, and says that the machine was busy.
    commands = [("topology",), ("config",), ("topology", "--machine", "h200-8")]
    for words in commands:
        gpus = "2" if len(words) == 1 else "0"
        shown = on_terminal(*words, TRANSHIP_EMULATED_GPUS=gpus)
        lines = [line.rstrip() for line in shown]  # Headings end with padding.
        assert not [line for line in lines if len(line) > 80], words
        text = " ".join(lines)
        assert "…" not in text and "..." not in text
        if words == ("config",):
            assert "staging_version_boxes" in text and "2 x emulated GPU" in text
        else:
            assert "GB/s" in text and "host0 > " in text


def test_emulation_is_said_on_every_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRANSHIP_EMULATED_GPUS", "2")
    assert main(["topology"]) == 0
    for line in capsys.readouterr().out.splitlines():
        if " > " in line and "device" in line:
            assert "(emulated)" in line, line
        if line.startswith(("node0/device", "  device")):
            assert "emulated" in line, line
    with ts.Engine(threads=1) as engine:
        lines = engine.topology().splitlines()
        made = engine.empty(3, memory="device0")
        assert repr(made) == "<DeviceArray on device0 (emulated): shape (3,), float64>"
    assert all("emulated" in line for line in lines if line.startswith("  device"))
    assert all("(emulated)" in line for line in lines if " > " in line and "device" in line)


def test_a_reader_of_stdout_that_exits() -> None:
    command = subprocess.Popen(
        [sys.executable, "-m", "tranship", "config", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert command.stdout is not None and command.stderr is not None
    command.stdout.close()
    assert command.wait(timeout=30) == 1
    assert command.stderr.read() == ""


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def test_the_first_engine_shows_its_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(report: object, overrides: dict[str, str]) -> str:
        if callable(report):
            report(0.5, "host memory")
        return "{}"

    monkeypatch.setattr(_core, "profile_of_this_machine", measure)
    for stream in (Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stderr", stream)
        profiles.of_this_machine()
        shown = stream.getvalue()
        assert ("measures this machine, once:  50%  host memory" in shown) == stream.isatty()
        assert not shown or shown.endswith("\r"), "nothing is left on the line"


def test_a_profile_of_a_busy_machine_says_so(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    profile: str,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("TRANSHIP_CACHE_FOLDER", str(tmp_path))
    kept = profiles.cache_path()
    assert kept is not None
    for share, busy in ((0.43, True), (0.02, False)):
        text = json.dumps({**json.loads(profile), "others_share": share})
        assert json.loads(profiles.read_profile(text))["others_share"] == share
        kept.write_text(text)
        assert main(["topology"]) == 0
        words = " ".join(capsys.readouterr().out.split())
        assert ("other processes took 43% of the processors" in words) == busy
        assert main(["config"]) == 0
        assert ("measured on a busy machine" in capsys.readouterr().out) == busy
        stream = Terminal()
        monkeypatch.setattr(_core, "profile_of_this_machine", measuring(text))
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", stream)
            profiles.of_this_machine()
        assert ("measure again when it is idle" in stream.getvalue()) == busy
        monkeypatch.undo()
        monkeypatch.setenv("TRANSHIP_CACHE_FOLDER", str(tmp_path))


def measuring(profile: str) -> Callable[..., str]:
    """Returns a stand-in for the measurement, with this result."""

    def measure(report: Callable[[float, str], None], overrides: dict[str, str]) -> str:
        report(0.5, "host memory")
        return profile

    return measure


def test_serve_prints_json(tmp_path: Path) -> None:
    command = subprocess.Popen(
        [sys.executable, "-m", "tranship", "serve", "--memory", "16MiB", "--json"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    assert command.stdout is not None
    lines = [command.stdout.readline() for _ in range(7)]
    told = json.loads("".join(lines))
    assert (told["contact"], told["servers"], told["rank"]) == ("staging.contact", 1, 0)
    assert told["process"] == command.pid and ":" in told["address"]
    command.send_signal(signal.SIGTERM)
    assert command.wait(timeout=30) == 0
    assert command.stdout.read() == ""


def test_watching_redraws_in_place(profile: str, tmp_path: Path) -> None:
    contact = str(tmp_path / "contact")
    with ts.StagingServer(contact, memory="16MiB", profile=profile, threads=1):
        words = ("ls", contact, "--watch", "0.05", "--looks", "3")
        main_end, end = pty.openpty()
        command = [sys.executable, "-m", "tranship", *words]
        process = subprocess.Popen(command, stdout=end, stderr=end)
        os.close(end)
        out = b""
        with contextlib.suppress(OSError):
            while data := os.read(main_end, 65536):
                out += data
        os.close(main_end)
        assert process.wait(timeout=30) == 0
        assert out.count(b"\x1b[H") == 3, "each look begins at the top"
        piped = subprocess.run(command, capture_output=True, check=True).stdout
        assert b"\x1b" not in piped and piped.count(b"server") == 3
