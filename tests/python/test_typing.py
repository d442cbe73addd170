"""A user's program passes the strict type checker with the package's type hints."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import tranship as ts

GOOD = """
import numpy as np
import tranship as ts


def move(engine: ts.Engine) -> float:
    grid = ts.Instance(
        np.zeros(64), extents={"x": 4, "y": 8}, fields={"re": "f4", "im": "f4"}, layout="x, F, y"
    )
    disk = ts.File("field.bin", extents={"x": 4, "y": 8}, fields={"re": "f4", "im": "f4"}, mode="w")
    event: ts.Event = engine.copy(grid, disk, region={"x": (0, 2)}, priority=10)
    event.wait(timeout=5.0)
    done: bool = event.done()
    plan: ts.Plan = engine.plan(grid[1:3], disk[1:3])
    peer: ts.Peer = engine.connect("contact", timeout=2.0)
    part: object = peer["density"][:, 256:512]
    shared = engine.empty((512, 512), "f8")
    engine.export("density", shared)
    names: list[str] = peer.names()
    print(plan.explain(), done, part, names, shared.shape, engine.topology())
    try:
        engine.copy(shared, np.zeros((512, 512)), after=[event])
    except ts.PeerLost as error:
        print(error.code)
    part_of_file: ts.File = disk[0:4]
    mass: ts.Instance = grid["re"]
    counted = engine.empty(np.int64(4))
    listed = engine.empty([2, 3], np.float32)
    event.add_done_callback(lambda ended: print(ended.done()))
    with peer:
        print("density" in peer, len(part_of_file), mass.shape, counted.shape, listed.shape)
    return plan.seconds


async def wait(engine: ts.Engine) -> None:
    await engine.copy(np.zeros(3), np.zeros(3), planner="full")


with ts.Engine(contact=True, threads=2) as opened:
    move(opened)
"""

BAD = """
import tranship as ts

engine = ts.Engine()
engine.copy(1, 2, priority="high")
engine.plan(1, 2).explain().nothing
text: str = engine.threads
ts.Instance(extents={"x": "four"})
ts.Engine(thread=4)
ts.Engine(threads="many")
engine.copy(1, 2, planner="best")
ts.File("x", mode="rw")
"""

mypy_missing = importlib.util.find_spec("mypy") is None


def check(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    program = folder / "program.py"
    program.write_text(text)
    package = Path(ts.__file__).parent.parent
    installed = str(package) in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
    paths = {} if installed else {"MYPYPATH": str(package)}
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(folder / "cache"), program],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, **paths},
        timeout=280,
    )


@pytest.mark.skipif(mypy_missing, reason="mypy is not installed (pip install mypy)")
def test_a_users_program_is_typed(tmp_path: Path) -> None:
    good = check(GOOD, tmp_path)
    assert good.returncode == 0, good.stdout + good.stderr
    bad = check(BAD, tmp_path)
    errors = [line for line in bad.stdout.splitlines() if ": error:" in line]
    assert bad.returncode == 1 and len(errors) == 8, bad.stdout + bad.stderr


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(ts.__file__).parent / "py.typed").exists()
