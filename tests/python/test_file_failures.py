"""A system call fails while a file is made: an error, and no file of that name."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

SOURCE = Path(__file__).parent / "failing_calls.c"

MAKE = """
    import os, sys
    import numpy as np
    import tranship as ts
    path, mode, layout, durable = sys.argv[1:]
    values = np.arange(300 * 500, dtype="f8").reshape(300, 500)
    engine = ts.Engine(threads=1)
    os.environ["FAIL_NOW"] = "yes"
    try:
        new = dict(extents=values.shape, fields="f8", layout=layout) if mode == "w" else {}
        with ts.File(path, mode=mode, durable=durable == "durable", **new) as file:
            engine.copy(values, file).wait()
        print("made")
    except ts.Error as error:
        print(error.code, "|", error)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the path of the compiled library that makes system calls fail."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs a C compiler and Linux")
    built = tmp_path_factory.mktemp("failing") / "failing.so"
    words = [compiler, "-shared", "-fPIC", "-O1", "-o", str(built), str(SOURCE), "-ldl"]
    subprocess.run(words, check=True)
    return built


def make(
    library: Path,
    path: Path,
    call: str,
    number: int,
    at: int = 1,
    *,
    mode: str = "w",
    layout: str = "d1, d0",
    durable: bool = True,
) -> str:
    """Makes or changes the file in a process in which a call fails; returns its output."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            textwrap.dedent(MAKE),
            str(path),
            mode,
            layout,
            "durable" if durable else "plain",
        ],
        env={
            **os.environ,
            "LD_PRELOAD": str(library),
            "FAIL_CALL": call,
            "FAIL_ERRNO": str(number),
            "FAIL_AT": str(at),
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


VALUES = np.arange(300 * 500, dtype="f8").reshape(300, 500)

REFUSALS = {
    "no space reserved": ("fallocate", errno.ENOSPC, "free some space"),
    "no size": ("fallocate", errno.EIO, "the disk or its connection fails"),
    "no space when writing": ("pwrite", errno.ENOSPC, "free some space"),
    "quota": ("pwrite", errno.EDQUOT, "free some space"),
    "a failing disk": ("pwrite", errno.EIO, "the disk or its connection fails"),
    "late writing": ("fdatasync", errno.EIO, "the disk or its connection fails"),
    "no space for late writing": ("fdatasync", errno.ENOSPC, "free some space"),
    "no name": ("linkat", errno.EACCES, "check the permissions"),
    "no renaming": ("rename", errno.EPERM, "check the permissions"),
}


@pytest.mark.parametrize("layout", ["d1, d0", "d0, d1"])
@pytest.mark.parametrize("old", [None, b"old"])
@pytest.mark.parametrize("case", REFUSALS)
def test_what_fails_leaves_nothing_under_the_name(
    library: Path, tmp_path: Path, case: str, old: bytes | None, layout: str
) -> None:
    call, number, text = REFUSALS[case]
    path = tmp_path / "file.npy"
    if old is not None:
        path.write_bytes(old)
    said = make(library, path, call, number, layout=layout)
    assert "|" in said and text in said and "file.npy" in said
    assert [one.name for one in tmp_path.iterdir()] == ([] if old is None else ["file.npy"])
    assert old is None or path.read_bytes() == old


@pytest.mark.parametrize("at", range(1, 9))
def test_any_write_may_fail(library: Path, tmp_path: Path, at: int) -> None:
    path = tmp_path / "file.npy"
    said = make(library, path, "pwrite", errno.EIO, at)
    assert path.exists() == (said == "made")
    if said == "made":
        assert np.array_equal(np.load(path), VALUES)
    assert [one.name for one in tmp_path.iterdir()] in ([], ["file.npy"])


HARMLESS = {
    "a short write": ("short_pwrite", 0, 1),
    "a short write of data": ("short_pwrite", 0, 2),
    "an interrupted write": ("pwrite", errno.EINTR, 2),
    "no files without names": ("open_unnamed", errno.EOPNOTSUPP, 1),
    "an old kernel": ("open_unnamed", errno.EISDIR, 1),
    "no reservation": ("fallocate", errno.EOPNOTSUPP, 1),
}


@pytest.mark.parametrize("case", HARMLESS)
def test_what_need_not_fail(library: Path, tmp_path: Path, case: str) -> None:
    path = tmp_path / "file.npy"
    assert make(library, path, *HARMLESS[case]) == "made"
    assert np.array_equal(np.load(path), VALUES)
    assert [one.name for one in tmp_path.iterdir()] == ["file.npy"]


def test_a_change_in_place_that_fails_is_remembered(library: Path, tmp_path: Path) -> None:
    path = tmp_path / "file.npy"
    for call, number in (("pwrite", errno.EIO), ("fdatasync", errno.ENOSPC)):
        for at in range(1, 4):
            np.save(path, np.zeros_like(VALUES))
            said = make(library, path, call, number, at, mode="r+", durable=False)
            if said == "made":
                assert np.array_equal(np.load(path), VALUES)
                continue
            assert "file.npy" in said
            with contextlib.suppress(ValueError):
                assert not np.load(path).any(), "something was written, and the file looks whole"
