"""Bad arguments: each is refused where it is given, with an error of the package.

TRANSHIP_BAD_CALLS tries so many calls of Python, and three times as many of C.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tranship as ts
from support import PATIENCE

HERE = Path(__file__).parent
CALLS = int(os.environ.get("TRANSHIP_BAD_CALLS", "400"))
SEED = int(os.environ.get("TRANSHIP_BAD_SEED", "1"))


@pytest.fixture
def engine() -> Iterator[ts.Engine]:
    with ts.Engine(threads=1) as opened:
        yield opened


def run(script: str, calls: int) -> None:
    """Runs a suite in a process of its own, whose memory it limits."""
    command = [sys.executable, str(HERE / script), str(SEED), str(calls)]
    limit = 2 * PATIENCE + calls / 5
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"


def test_random_calls_of_python() -> None:
    run("bad_arguments.py", CALLS)


def test_random_calls_of_c() -> None:
    run("bad_c_calls.py", 3 * CALLS)


@pytest.mark.parametrize("value", [10**9, 2**62, -5, "1TB"])
def test_settings_out_of_reason(value: Any) -> None:
    settings = [name for name in ts.settings.Settings.__annotations__ if name.endswith("threads")]
    for name in [*settings, "spin_us", "lanes", "emulated_gpus", "tcp_sockets", "slots_per_peer"]:
        with pytest.raises(ts.InvalidArgument, match=f"{name}="):
            ts.Engine(**{name: value})


def test_a_variable_out_of_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSHIP_THREADS", "1000000000")
    with pytest.raises(ts.InvalidArgument, match=r"TRANSHIP_THREADS: .* is outside 0 to 1024"):
        ts.Engine()


def test_names_of_files_that_are_no_utf8(tmp_path: Path, engine: ts.Engine) -> None:
    """POSIX allows any bytes but NUL in a path."""
    folder = os.fsencode(tmp_path)
    a = np.arange(3.0)
    for name in (b"latin-\xe9.bin", b"\xff\xfe.npy"):
        path = os.path.join(folder, name)
        extents: Any = 3
        with ts.File(path, extents=extents, mode="w") as new:
            engine.copy(a, new).wait()
            assert repr(new)
        assert os.path.exists(path)
        read = ts.File(path) if name.endswith(b".npy") else ts.File(path, extents=3)
        assert (np.asarray(read) == a).all()
    traced = os.path.join(folder, b"trace-\xe9.json")
    contact = os.path.join(folder, b"contact-\xe9")
    with ts.Engine(contact=contact, trace=traced, threads=1) as other:
        other.export("a", a)
        with engine.connect(contact) as peer:
            assert (np.asarray(peer["a"]) == a).all()
    assert os.path.exists(traced)
    with pytest.raises(ts.NotFound) as missing:
        ts.File(os.path.join(folder, b"no-\xe9.bin"), extents=3)
    assert str(missing.value).encode()  # it can be printed


@pytest.mark.parametrize("name", ["\ud800", "a\0b"])
def test_names_that_nothing_can_have(engine: ts.Engine, name: str) -> None:
    for call in (
        lambda: ts.File(name, extents=3),
        lambda: ts.Engine(contact=name),
        lambda: ts.Engine(trace=name),
        lambda: engine.connect(name),
        lambda: ts.Instance(extents={name: 3}),
        lambda: ts.Instance(extents=3, layout=name),
        lambda: engine.copy(np.zeros(3, [(name, "f8")]), np.zeros(3, [(name, "f8")])),
        lambda: engine.empty(3, memory=name),
        lambda: engine.withdraw(name),
        lambda: ts.Engine(threads=name),  # type: ignore[arg-type]
        lambda: ts.Engine(trace_folder=name),
    ):
        with pytest.raises(ts.Error):
            call()


def test_halo_says_what_is_wrong(engine: ts.Engine) -> None:
    block: Any = np.zeros((6, 6))
    with pytest.raises(ts.InvalidArgument, match="periodic='no' is not a truth value"):
        engine.halo(block, 1, periodic="no")  # type: ignore[arg-type]
    with pytest.raises(ts.InvalidArgument, match="field 0 is None"):
        engine.halo(None, 1, periodic=True)
    with pytest.raises(ts.InvalidArgument, match="None"):
        engine.halo(block, 1, {(1, 0): None})
    with pytest.raises(ts.InvalidArgument, match="no neighbours"):
        engine.halo(block, 1)
    engine.halo(block, 1, periodic=np.array([True, False])).exchange()  # type: ignore[arg-type]


def test_a_list_says_which_pair_is_wrong(engine: ts.Engine) -> None:
    a, b, short = np.zeros(4), np.zeros(4), np.zeros(3)
    for call in (engine.copy_all, engine.prepare_all):
        with pytest.raises(ts.InvalidArgument, match=r"^pairs\[2\]: "):
            call([(a, b), (b, a), (a, short), (a, b)])
        with pytest.raises(ts.InvalidArgument, match=r"pairs\[1\]=.* is not a pair"):
            call([(a, b), (a,)])  # type: ignore[list-item]
        with pytest.raises(ts.InvalidArgument, match="mapping"):
            call({"a": (a, b)})  # type: ignore[arg-type]
        with pytest.raises(ts.OutOfRange, match=r"^pairs\[1\]: "):
            types = [(None, "f8"), (None, ts.types.contiguous(5, "f8"))]
            call(((x, y) for x, y in [(a, b), (b, a)]), types=types)


def test_an_export_that_nobody_can_reach(engine: ts.Engine) -> None:
    with pytest.raises(ts.InvalidArgument, match="no contact"):
        engine.export("a", np.zeros(3))


def test_a_type_too_large_to_pack(engine: ts.Engine) -> None:
    with pytest.raises(ts.Error) as refused:
        engine.pack(np.zeros(4), ts.types.contiguous(1 << 50, "f8"))
    assert not isinstance(refused.value.__cause__, OverflowError)
    with pytest.raises(ts.InvalidArgument, match=r"count=1\.0 is not a whole number"):
        engine.pack(np.zeros(4), ts.types.as_type("f8"), count=1.0)  # type: ignore[arg-type]
    with pytest.raises(ts.Error):
        ts.Instance(extents=3, offset=2**63 - 1)
