"""The wheel that `make wheel` writes, installed into an empty environment as a user would.

Not part of `make test`, which builds no wheel: `make test-wheel` runs it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.timeout(600)
BYTES_MAX = 25 * 10**6
SECONDS_MAX = 600


@pytest.fixture(scope="module")
def wheel() -> Path:
    """The newest wheel in dist/ for this Python."""
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    found = sorted(ROOT.glob(f"dist/tranship-*-{tag}-{tag}-*.whl"), key=os.path.getmtime)
    assert found, "there is no wheel in dist/: run `make wheel` first"
    return found[-1]


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that holds the wheel and what it needs."""
    folder = tmp_path_factory.mktemp("wheel") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, f"{wheel}[demo]"], check=True, timeout=SECONDS_MAX)
    return folder / "bin"


def run(environment: Path, folder: Path, *words: str) -> str:
    """What a command of that environment prints, away from the sources and with no settings."""
    bare = {"PATH": f"{environment}:/usr/bin:/bin", "HOME": str(folder)}
    outcome = subprocess.run(
        [str(environment / words[0]), *words[1:]],
        cwd=folder, env=bare, capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
    )  # fmt: skip
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return outcome.stdout


def test_the_wheel_is_small_and_for_many_linuxes(wheel: Path) -> None:
    assert wheel.stat().st_size <= BYTES_MAX
    assert "manylinux" in wheel.name


def test_the_wheel_holds_the_package_alone(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert any(name.endswith("lib/libtranship.so") for name in names)
    assert any(name.endswith("include/tranship/tranship.h") for name in names)
    assert not [name for name in names if "bench" in name or name.endswith(".a")]
    # What is compiled with the compiler of an MPI library comes as sources.
    sources = [name for name in names if name.endswith(".cpp")]
    assert sources and all(name.startswith("tranship/mpi/") for name in sources)


def test_mpi_programs_run_with_the_wheel(environment: Path, tmp_path: Path) -> None:
    here = Path(sys.executable).parent
    if not (here / "mpicxx").exists():
        pytest.skip("MPICH is not installed: `make test-wheel` does it")
    source, program = ROOT / "tests" / "mpi" / "calls.c", tmp_path / "calls"
    subprocess.run([str(here / "mpicc"), str(source), "-o", str(program)], check=True, timeout=100)
    words = ["--mpicxx", str(here / "mpicxx"), "--pack", "always", "-n", "2", str(program)]
    printed = run(environment, tmp_path, "tranship", "mpi-run", *words)
    assert "all calls are right" in printed


def test_the_demo_runs_from_the_wheel(environment: Path, tmp_path: Path) -> None:
    said = run(environment, tmp_path, "tranship", "demo", "--out", str(tmp_path / "out"))
    assert said
    assert list((tmp_path / "out").rglob("*.png"))


def test_the_wheel_has_kernels_for_gpus(environment: Path, tmp_path: Path) -> None:
    content = json.loads(run(environment, tmp_path, "tranship", "config", "--json"))
    assert content["gpu"]["built_in"] is True
    assert content["gpu"]["architectures"]
