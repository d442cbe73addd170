"""The code of the guides and the README, run as they say."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tranship as ts

LONG = 280.0
"""Seconds that a guide's commands may take: some build programs, and start many processes."""

EXAMPLES = Path(__file__).parents[2] / "examples"
GUIDES = Path(__file__).parents[2] / "docs" / "guides"
README = Path(__file__).parents[2] / "README.md"


def blocks(guide: str, language: str) -> list[str]:
    """Returns the blocks of code of a guide."""
    return blocks_of(GUIDES / guide, language)


def blocks_of(document: Path, language: str) -> list[str]:
    """Returns the blocks of code of a document."""
    text = document.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def serial_sums(side: int, steps: int) -> list[tuple[float, float]]:
    """Returns the sums of the left and right half of the plate, step by step, in one process."""
    field = np.zeros((side, side))
    field[0] = 100.0
    sums = []
    for _ in range(steps + 1):
        sums.append((field[:, : side // 2].sum(), field[:, side // 2 :].sum()))
        old = np.pad(field, 1, mode="edge")
        around = old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:]
        field = field + 0.2 * (around - 4 * field)
    return sums


def energies_of_wave(points: int, steps: int) -> list[float]:
    """Returns the energy of the wave of the guide at each step."""
    height, speed = np.zeros(points), np.zeros(points)
    height[450:550] = np.concatenate([np.arange(50), np.arange(50, 0, -1)])
    energies = []
    for _ in range(steps):
        energies.append((speed[:-1] ** 2 + np.diff(height) ** 2).sum() / 2)
        speed[1:-1] += 0.5 * np.diff(height, 2)
        height += 0.5 * speed
    return energies


def run_shell(commands: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a guide's commands with this Python and its package."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    for name, start in (("python", ""), ("tranship", " -m tranship.cli")):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}"{start} "$@"\n', encoding="utf-8")
        program.chmod(0o755)
    return subprocess.run(
        ["bash", "-c", commands],
        cwd=folder,
        env=dict(os.environ, PATH=f"{programs}:{os.environ['PATH']}"),
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )


def run_block(word: str, profile: str, folder: Path) -> dict[str, Any]:
    """Runs the guide's block with this word beside a server; returns the names that it defines."""
    (text,) = (text for text in blocks("couple-two-codes.md", "python") if word in text)
    names: dict[str, Any] = {}
    with chdir(folder), ts.StagingServer("staging.contact", profile=profile):
        exec(text, names)
    return names


def test_readme(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The blocks of the README run as they stand, each in one process."""
    copying, staging = blocks_of(README, "python")
    staged: dict[str, Any] = {}
    with chdir(tmp_path):
        exec(copying, {})
        assert "converts" in capsys.readouterr().out
        rows, columns = np.load("rows.npy"), np.load("columns.npy")
        assert columns.flags.f_contiguous and (columns == rows).all()
        exec(staging, staged)
    steps = ["0", "0.0", "6.0", "1", "0.1", "7.0", "2", "0.2", "8.0"]
    assert capsys.readouterr().out.split() == steps
    assert (staged["window"] == [[2.0] * 4 + [12.0] * 6] * 32).all()


def test_reference_of_python() -> None:
    """The reference has an entry for each public name."""
    text = (GUIDES.parent / "reference" / "api" / "python.md").read_text(encoding="utf-8")
    names = set(re.findall(r"\b\w+\b", text))
    assert [name for name in ts.__all__ if name not in names and name != "__version__"] == []


def test_getting_started(tmp_path: Path) -> None:
    """The blocks of the guide run one after another, as a reader would type them."""
    names: dict[str, Any] = {}
    with chdir(tmp_path):
        for text in blocks("getting-started.md", "python"):
            exec(text, names)
        back = np.zeros_like(names["records"])
        names["engine"].copy(names["columns"], back).wait()
        assert (back["mass"] == np.arange(1000)).all()
        assert (np.load("out.npy") == np.arange(64.0).reshape(8, 8)).all()
    assert (names["out"] == names["field"][:, 4:]).all()
    names["consumer"].close()
    names["producer"].close()
    names["engine"].close()


def test_in_the_background(profile: str, tmp_path: Path) -> None:
    assert run_block("subscribe", profile, tmp_path)["seen"] == [0]


def test_coroutines(profile: str, tmp_path: Path) -> None:
    run_block("async for", profile, tmp_path)


def test_as_labelled_arrays(profile: str, tmp_path: Path) -> None:
    names = run_block("density", profile, tmp_path)
    assert names["corner"] == 2.0
    assert names["sums"].values.tolist() == [0, 2048, 4096]
    assert names["steps"].chunks == ((1, 1, 1), (16,) * 4, (32,))


def test_arrays_with_labels(profile: str, tmp_path: Path) -> None:
    names = run_block("tropics", profile, tmp_path)
    wind, tropics = names["wind"], names["tropics"]
    assert names["seen"].coords.to_dataset().identical(wind.coords.to_dataset())
    assert tropics.identical(wind.rename("wind").sel(lat=slice(-23.4, 23.4), lon=slice(90, 180)))
    assert tropics.shape == (16, 33) and tropics.units == "m/s"


def test_data_sets(profile: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = run_block("put_dataset", profile, tmp_path)
    assert names["seen"].coords.to_dataset().identical(names["plate"].coords.to_dataset())
    printed = [line.split(" a plate ") for line in capsys.readouterr().out.splitlines()]
    assert printed == [["0", "0.0"], ["1", "1024.0"], ["2", "2048.0"]]


def test_couple_two_codes(profile: str, tmp_path: Path) -> None:
    scripts = {
        text.split()[1]: text
        for text in blocks("couple-two-codes.md", "python")
        if text.startswith("# ")
    }
    for name, text in scripts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (commands,) = (text for text in blocks("couple-two-codes.md", "sh") if "SBATCH" not in text)
    done = run_shell(commands, tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines() if re.match(r"\d+ \d+\.", line)]
    expected = serial_sums(256, 20)
    assert [int(step) for step, _, _ in lines] == [*range(21), *range(21)]
    warm = [int(rows) for _, _, rows in lines[:21]]
    assert warm == sorted(warm) and warm[0] == 1 < warm[-1] < 20
    for half in (0, 1):
        got = [float(total) for _, total, _ in lines[21 * half : 21 * (half + 1)]]
        assert np.allclose(got, [sums[half] for sums in expected], rtol=1e-12)
    assert re.search(r"heat\b", done.stdout)


def test_record_and_replay(profile: str, tmp_path: Path) -> None:
    guide = "record-and-replay.md"
    simulation, analysis, replay, reading = blocks(guide, "python")
    for text in (simulation, analysis):
        (tmp_path / text.split()[1]).write_text(text, encoding="utf-8")
    record, again = blocks(guide, "sh")
    done = run_shell(record, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "recorded 6 steps (0 to 5), 192 KiB, in run-1" in done.stderr
    done = run_shell(again, tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines() if re.match(r"\d+ \d", line)]
    assert [int(step) for step, _, _ in lines] == list(range(6))
    assert [float(mean) for _, _, mean in lines] == list(range(6))
    names: dict[str, Any] = {}
    read: dict[str, Any] = {}
    with chdir(tmp_path):
        exec(replay, names)
        exec(reading, read)
    assert names["done"].steps == (2, 3, 4, 5) and (names["heat"] == 2).all()
    assert read["plate"].shape == (64, 64) and (read["plate"] == 3).all()
    for file in ("recording.json", "steps/3/step.json", "steps/3/heat/0.npy", "steps/3/heat/1.npy"):
        assert (tmp_path / "run-1" / file).is_file()


def test_seeing_it(profile: str, tmp_path: Path) -> None:
    """The trace of the programs of the guide, as the page on staging makes it."""
    for text in blocks("couple-two-codes.md", "python"):
        if text.startswith("# "):
            (tmp_path / text.split()[1]).write_text(text, encoding="utf-8")
    (commands,) = blocks_of(GUIDES.parent / "concepts" / "staging.md", "sh")
    done = run_shell(commands, tmp_path)
    assert done.returncode == 0, done.stderr
    # Two servers, four simulations and an analysis.
    assert done.stdout.count("serv") >= 2 and (tmp_path / "trace.json").stat().st_size > 10_000
    assert len(list((tmp_path / "traces").iterdir())) == 7


def test_couple_codes_in_c_and_fortran(profile: str, tmp_path: Path) -> None:
    guide = "c-and-fortran.md"
    simulation, analysis, _, request = blocks(guide, "c")
    fortran, _ = blocks(guide, "fortran")
    in_c, in_fortran, _, _ = blocks(guide, "sh")
    for name, text in (
        ("c/simulation.c", simulation),
        ("c/analysis.c", analysis),
        ("fortran/simulation.f90", fortran),
    ):
        assert (EXAMPLES / name).read_text(encoding="utf-8") == text
        (tmp_path / Path(name).name).write_text(text, encoding="utf-8")
    expected = [sum(sums) for sums in serial_sums(256, 20)]
    for commands in (in_c, in_fortran):
        if "gfortran" in commands and shutil.which("gfortran") is None:
            pytest.skip("gfortran is not installed")
        done = run_shell(commands, tmp_path)
        assert done.returncode == 0, done.stderr
        lines = [line.split() for line in done.stdout.splitlines() if re.match(r"\d+ \d", line)]
        assert [int(step) for step, _ in lines] == list(range(21))
        assert np.allclose([float(total) for _, total in lines], expected, rtol=1e-12)
    assert np.load(tmp_path / "plate.npy").shape == (256, 256)
    # The guide replaces this put by one that is begun and waited for.
    put = 'check(tranship_put(staging, "heat", step, &block, patience));'
    assert put in simulation
    (tmp_path / "simulation.c").write_text(simulation.replace(put, request), encoding="utf-8")
    done = run_shell(in_c, tmp_path)
    assert done.returncode == 0 and len(re.findall(r"^\d+ \d", done.stdout, re.MULTILINE)) == 21


def test_steps_in_c_cpp_and_fortran(profile: str, tmp_path: Path) -> None:
    guide = "c-and-fortran.md"
    _, _, wave, _ = blocks(guide, "c")
    (in_cpp,) = blocks(guide, "cpp")
    _, fortran = blocks(guide, "fortran")
    for name, text in (
        ("c/wave.c", wave),
        ("cpp/follow.cpp", in_cpp),
        ("fortran/follow.f90", fortran),
    ):
        assert (EXAMPLES / name).read_text(encoding="utf-8") == text
        (tmp_path / Path(name).name).write_text(text, encoding="utf-8")
    for commands in blocks(guide, "sh")[2:]:
        if "gfortran" in commands and shutil.which("gfortran") is None:
            pytest.skip("gfortran is not installed")
        done = run_shell(commands, tmp_path)
        assert done.returncode == 0, done.stderr
        lines = [line.split() for line in done.stdout.splitlines() if re.match(r"\d+ ", line)]
        assert [int(step) for step, _, _ in lines] == list(range(20))
        assert [float(time) for _, time, _ in lines] == [0.5 * step for step in range(20)]
        energies = [float(energy) for _, _, energy in lines]
        assert np.allclose(energies, energies_of_wave(1000, 20), rtol=1e-9, atol=1e-6)
        assert "of wave 1.0" in done.stdout


def test_the_guide_to_types(capsys: pytest.CaptureFixture[str]) -> None:
    """Its blocks run one after the other, and print the form that the guide shows."""
    names: dict[str, Any] = {}
    for block in blocks("types.md", "python"):
        exec(compile(block, "types.md", "exec"), names)
    names["engine"].close()
    (shown,) = blocks("types.md", "text")
    assert capsys.readouterr().out.strip() == shown.strip()


def test_the_guide_to_arrays() -> None:
    names: dict[str, Any] = {}
    for block in blocks("arrays.md", "python"):
        exec(compile(block, "arrays.md", "exec"), names)
    names["engine"].close()
    names["owner"].close()


def test_the_guide_to_halos() -> None:
    names: dict[str, Any] = {}
    for block in blocks("halo.md", "python"):
        exec(compile(block, "halo.md", "exec"), names)
    names["engine"].close()
