"""`pip install .` and `pip install ./benchmarks` in an empty environment, as README says.

The build runs with isolation: in an environment of its own, which has what `pyproject.toml`
requires and nothing else. It starts from the source distribution, so that no file of this tree's
builds is there. It compiles without optimization, which takes a part of the time.

Not part of `make test`: `make test-install` runs it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SECONDS_MAX = 1800
"""Of one call of pip; a busy machine with two cores compiles for minutes."""
pytestmark = pytest.mark.timeout(2 * SECONDS_MAX)

QUICK = [
    "--config-settings=cmake.define.CMAKE_CXX_FLAGS_RELEASE=-O0",
    "--config-settings=cmake.define.TRANSHIP_CUDA=OFF",
]
COPY = """
import numpy as np, tranship as ts
source, target = np.arange(24.0).reshape(4, 6), np.empty((4, 6), order="F")
with ts.Engine() as engine:
    engine.copy(source, target).wait()
assert (source == target).all()
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an unpacked source distribution."""
    folder = tmp_path_factory.mktemp("sources")
    make = f"from scikit_build_core.build import build_sdist; build_sdist({str(folder)!r})"
    subprocess.run([sys.executable, "-c", make], cwd=ROOT, check=True, timeout=SECONDS_MAX)
    (packed,) = folder.glob("*.tar.gz")
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = (path for path in folder.iterdir() if path.is_dir())
    return unpacked


@pytest.fixture(scope="module")
def environment(tree: Path) -> Path:
    """The programs of an environment in which the package was installed from its sources."""
    folder = tree.parent / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    install(folder / "bin", tree, *QUICK)
    return folder / "bin"


def bare(programs: Path) -> dict[str, str]:
    """What the environment's programs see: no compiler cache, no setting, no other package."""
    kept = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    return {**kept, "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin", "HOME": str(programs)}


def install(programs: Path, folder: Path, *options: str) -> None:
    """Installs a folder of sources with isolation."""
    pip = [str(programs / "pip"), "install", "--disable-pip-version-check", *options, str(folder)]
    done = subprocess.run(
        pip, env=bare(programs), capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]


def run(programs: Path, *words: str) -> str:
    """What a program of the environment prints, away from the sources."""
    done = subprocess.run(
        [str(programs / words[0]), *words[1:]],
        cwd=programs, env=bare(programs), capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_package_installs_and_copies(environment: Path) -> None:
    content = json.loads(run(environment, "tranship", "config", "--json"))
    assert content["gpu"]["built_in"] is False
    assert (Path(content["paths"]["package"]) / "_core.pyi").exists()
    run(environment, "python", "-c", COPY)
    assert "tranship" in run(environment, "tranship", "config", "--cflags", "--libs")


def test_the_benchmarks_install_beside_it(environment: Path, tree: Path) -> None:
    install(environment, tree / "benchmarks")
    assert "contiguous" in run(environment, "tranship", "bench", "list")
