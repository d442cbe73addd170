"""`get(copy=False)`: read-only arrays of a server's own memory, which nobody else gets so long."""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import gc
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from staging_servers import PATIENCE, Servers, times_out

import tranship as ts
from support import eventually

MIB = 1 << 20


def filled(version: int, bytes: int = MIB) -> np.ndarray:
    return np.arange(bytes // 8, dtype="f8") + version * 1e9


def used(staging: ts.Staging) -> int:
    return sum(int(one["memory_used"]) for one in staging.servers())


def fill(staging: ts.Staging, *, left: int) -> int:
    """Puts objects of 1 MiB of another variable until there is no room; returns how many."""
    count = 0
    while count < 64:
        try:
            staging.put("other", count, np.full(MIB // 8, -1.0), timeout=0.0 if count else PATIENCE)
        except ts.Timeout:
            break
        count += 1
    assert count == left
    return count


def discard_all(staging: ts.Staging, name: str) -> None:
    for info in staging.ls():
        for version in info["versions"] if info["name"] == name else []:
            staging.discard(name, version["version"])


@pytest.mark.parametrize("servers", [1, 3])
@pytest.mark.parametrize("transport", ["automatic", "shared"])
def test_a_view_has_the_elements_and_nobody_can_write_it(
    serve: Servers, servers: int, transport: str
) -> None:
    contact = serve("--servers", str(servers), "--memory", "64MiB")
    rng = np.random.default_rng(3)
    structure = np.dtype([("a", "i2"), ("b", "f8")], align=True)
    arrays = {
        "number": np.array([3.5]),
        "short": rng.integers(0, 99, (5, 3, 2), dtype="i2"),
        "large": rng.random((513, 1027)),
        "text": np.array(["one", "two"] * 9),
        "date": np.arange(40).astype("M8[ms]"),
        "structure": np.zeros(12, structure),
    }
    arrays["structure"]["b"] = rng.random(12)
    with ts.Staging(contact, transport=transport) as staging:
        for name, array in arrays.items():
            staging.put(name, 1, array)
            view = staging.get(name, 1, copy=False)
            assert view.dtype == array.dtype
            assert view.shape == array.shape
            assert (view == array).all()
            assert not view.flags.writeable
            with pytest.raises(ValueError, match="WRITEABLE"):
                view.flags.writeable = True
            with pytest.raises(TypeError, match="not writable"):
                ctypes.c_char.from_buffer(view.base)
            lower = tuple(extent // 3 for extent in array.shape)
            part = staging.get(name, "latest", lower, array.shape, copy=False)
            assert (part == array[tuple(slice(a, None) for a in lower)]).all()
            assert np.shares_memory(staging.get(name, 1, copy=None), view)  # nothing was copied
            assert staging.get(name, 1, lower, lower, copy=False).size == 0
        assert staging.statistics()["short"]["gets"]["paths"] == {"view": 3}


def test_what_cannot_be_viewed_is_an_error_or_a_copy(
    serve: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRANSHIP_LISTEN", "127.0.0.1:0")
    contact = serve("--memory", "16MiB")
    with ts.Staging(contact) as staging, ts.Staging(contact, transport="network") as far:
        staging.put("x", 0, np.zeros((4, 8)))
        staging.put("x", 0, np.ones((2, 8)), (4, 0))
        for lower, upper in (((0, 0), (6, 8)), ((3, 1), (5, 2))):
            with pytest.raises(ts.InvalidArgument, match=r"lies in several objects.*copy=None"):
                staging.get("x", 0, lower, upper, copy=False)
            got = staging.get("x", 0, lower, upper, copy=None)
            assert got.flags.writeable
            assert (got == staging.get("x", 0, lower, upper)).all()
        assert (staging.get("x", 0, (4, 1), (6, 3), copy=False) == 1).all()
        staging.put("x", 0, np.full((1, 1), 2.0), (1, 1))
        with pytest.raises(ts.InvalidArgument, match="a later one hides a part of it"):
            staging.get("x", 0, (0, 0), (4, 8), copy=False)
        assert (staging.get("x", 0, (2, 0), (4, 8), copy=False) == 0).all()
        with pytest.raises(ValueError, match="a server on this machine"):
            far.get("x", 0, (2, 0), (4, 8), copy=False)
        assert (far.get("x", 0, (2, 0), (4, 8), copy=None) == 0).all()
        with pytest.raises(ts.InvalidArgument, match="does not fit out="):
            staging.get("x", 0, out=np.zeros((6, 8)), copy=False)
        with pytest.raises(ts.InvalidArgument, match="truth value"):
            staging.get("x", 0, copy="no")  # type: ignore[arg-type]
        out = np.zeros((2, 8))
        assert staging.get("x", 0, (2, 0), (4, 8), out, copy=None) is out
        with pytest.raises(ts.Timeout):
            staging.get("x", 0, (7, 0), (8, 8), copy=False, timeout=0.0)
        with pytest.raises(ts.Timeout):
            staging.get("x", 1, copy=None, timeout=0.0)


@pytest.mark.parametrize("narrow", [False, True])
def test_a_view_keeps_its_object_from_reuse_and_nothing_else(serve: Servers, narrow: bool) -> None:
    contact = serve("--memory", "8MiB")
    with ts.Staging(contact) as staging:
        staging.put("x", 0, filled(1))
        if narrow:
            # One that lies below the object in a part of the box, and goes with its version.
            staging.put("x", 0, filled(2, 2 * MIB))
            staging.put("x", 0, filled(1))
        view = staging.get("x", 0, (0,), (MIB // 8,), copy=False)
        again = view[5:].reshape(-1, 1)
        del view
        staging.discard("x", 0)
        assert used(staging) == MIB
        fill(staging, left=7)
        assert (again[:, 0] == filled(1)[5:]).all()
        del again
        assert eventually(lambda: used(staging) == 7 * MIB)
        staging.put("other", 99, filled(9), timeout=PATIENCE)


def test_a_view_outlives_its_client_and_its_engine(serve: Servers) -> None:
    contact = serve("--memory", "8MiB")
    with ts.Staging(contact) as other:
        views = []
        for keep in ("own", "given", "dropped"):
            engine = ts.Engine(threads=1) if keep == "given" else None
            reader = ts.Staging(contact, engine=engine)
            reader.put(keep, 0, filled(len(views)))
            views.append(reader.get(keep, 0, copy=False))
            if keep == "dropped":
                del reader
                gc.collect()
            else:
                reader.close()
            if engine is not None:
                engine.close()
            # It has closed, and not died: that is known at once.
            with pytest.raises(ts.Closed, match="have ended"):
                other.get(keep, 1, (0,), (8,), timeout=PATIENCE)
            other.discard(keep, 0)
        fill(other, left=5)
        assert all((views[number] == filled(number)).all() for number in range(3))
        while views:
            views.pop()
            assert eventually(lambda: used(other) == (5 + len(views)) * MIB)


READER = """
import builtins, os, sys, time
import numpy as np
import tranship as ts
staging = ts.Staging(sys.argv[1])
builtins.kept = staging.get("x", 0, copy=False)
staging.put("mine", 0, np.ones(4))
exec(sys.argv[2])
"""
WAITS = """
print("ready", flush=True)
sys.stdin.readline()
"""
CHECKED_READER = "import atexit, builtins\natexit.register(lambda: print(kept[7]))" + READER


def reader(contact: Path, work: str = "") -> subprocess.Popen[str]:
    """Starts another process that has a view of version 0 of "x"."""
    process = subprocess.Popen(
        [sys.executable, "-c", READER + WAITS, str(contact), work],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("closes", [False, True])
def test_a_reader_that_is_killed_gives_the_memory_back(serve: Servers, closes: bool) -> None:
    contact = serve("--memory", "8MiB")
    with ts.Staging(contact) as staging:
        staging.put("x", 0, filled(1))
        with reader(contact, "staging.close()" if closes else "") as process:
            staging.discard("x", 0)
            fill(staging, left=6)
            process.send_signal(signal.SIGSTOP)
            times_out(lambda: staging.put("other", 99, filled(9), timeout=1.0), "memory")
            process.send_signal(signal.SIGKILL)
        staging.put("other", 99, filled(9), timeout=PATIENCE)
        with pytest.raises(ts.Closed if closes else ts.PeerLost):
            staging.get("mine", 1, (0,), (4,), timeout=PATIENCE)


@pytest.mark.parametrize("ends", ["staging.close()", "", "raise SystemExit", "os._exit(0)"])
def test_the_end_of_a_program_ends_its_views(serve: Servers, ends: str) -> None:
    contact = serve("--memory", "8MiB")
    with ts.Staging(contact) as staging:
        staging.put("x", 0, filled(1))
        program = [sys.executable, "-c", CHECKED_READER, str(contact), ends]
        done = subprocess.run(program, capture_output=True, text=True, timeout=PATIENCE)
        assert (done.returncode, done.stderr) == (0, "")
        if "_exit" not in ends:
            assert done.stdout == "1000000007.0\n"  # read when all else has ended
        staging.discard("x", 0)
        assert eventually(lambda: used(staging) < MIB)
        with pytest.raises(ts.PeerLost if "_exit" in ends else ts.Closed):
            staging.get("mine", 1, (0,), (4,), timeout=PATIENCE)


def in_child(work: Any) -> int:
    """Forks, does the work, and returns the child's exit status, or minus its signal."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_fork_cannot_read_a_view_and_ends_none(serve: Servers) -> None:
    contact = serve("--memory", "8MiB")
    with ts.Staging(contact) as other:
        other.put("x", 0, filled(1, 4 * MIB))
        reader = ts.Staging(contact)
        views = [reader.get("x", 0, copy=False)]
        other.discard("x", 0)

        def read() -> None:
            faulthandler.disable()
            # Memory that the child takes does not come to lie where the view was.
            taken = [np.zeros(4 * MIB // 8) for _ in range(64)]
            assert views[0][9] == taken[0][0]

        for closed in (False, True):
            if closed:
                reader.close()
            assert in_child(read) == -signal.SIGSEGV
            assert in_child(lambda: (views.clear(), gc.collect())) == 0
            assert (views[0] == filled(1, 4 * MIB)).all()
            assert used(other) == 4 * MIB
        views.clear()
        assert eventually(lambda: used(other) == 0)


def test_views_are_made_and_dropped_on_any_thread(serve: Servers) -> None:
    contact = serve("--memory", "64MiB")
    failures: list[BaseException] = []
    with ts.Staging(contact) as staging:
        for version in range(8):
            staging.put("x", version, filled(version, 64 << 10))

        def read(seed: int) -> None:
            rng = np.random.default_rng(seed)
            held: list[np.ndarray] = []
            try:
                for _ in range(200):
                    version = int(rng.integers(0, 8))
                    held.append(staging.get("x", version, copy=False))
                    assert (held[-1] == filled(version, 64 << 10)).all()
                    if len(held) > 5:
                        shared.append(held.pop(int(rng.integers(0, len(held)))))
                    if rng.random() < 0.5 and shared:
                        shared.pop()
            except BaseException as failure:
                failures.append(failure)

        shared: list[np.ndarray] = []
        threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        shared.clear()
        discard_all(staging, "x")
        assert eventually(lambda: used(staging) == 0)


def test_a_spilled_object_is_brought_back_and_stays(serve: Servers, tmp_path: Path) -> None:
    contact = serve("--memory", "4MiB", "--full", "spill", "--spill", str(tmp_path))
    with ts.Staging(contact) as staging:
        for version in range(12):
            staging.put("x", version, filled(version))
        views = [staging.get("x", version, copy=False) for version in (0, 5)]
        for version in range(12, 20):
            staging.put("x", version, filled(version))
        for version in range(20):
            assert (staging.get("x", version) == filled(version)).all()
        assert (views[0] == filled(0)).all()
        assert (views[1] == filled(5)).all()
        views += [staging.get("x", version, copy=False) for version in (1, 2)]
        times_out(lambda: staging.get("x", 3, copy=False, timeout=1.0), "")
        views.pop()
        assert (staging.get("x", 3, copy=False) == filled(3)).all()


def test_a_view_survives_its_server(serve: Servers) -> None:
    contact = serve("--memory", "8MiB")
    with ts.Staging(contact) as staging:
        staging.put("x", 0, filled(1))
        view = staging.get("x", 0, copy=False)
        serve.processes[-1].send_signal(signal.SIGKILL)
        serve.processes[-1].wait()
        assert (view == filled(1)).all()
        del view


def test_a_server_that_is_told_to_end_ends(serve: Servers) -> None:
    contact = serve("--memory", "8MiB")
    with ts.Staging(contact) as staging:
        staging.put("x", 0, filled(1))
        view = staging.get("x", 0, copy=False)
        serve.end()
        assert (view == filled(1)).all()


def test_futures_bring_views(serve: Servers) -> None:
    contact = serve("--memory", "8MiB")
    with ts.Staging(contact) as staging:
        begun = staging.get_async("x", 0, copy=False, timeout=PATIENCE)
        staging.put("x", 0, filled(1))
        view = begun.result()
        assert not view.flags.writeable
        assert (view == filled(1)).all()

        async def awaited() -> np.ndarray:
            found: np.ndarray = await staging.get_async("x", 0, (3,), (9,), copy=None)
            return found

        assert np.shares_memory(asyncio.run(awaited()), view)
        with pytest.raises(ts.InvalidArgument, match="does not fit out="):
            staging.get_async("x", 0, out=np.zeros(4), copy=False)


def test_a_checksum_is_compared_when_the_view_is_made(serve: Servers) -> None:
    contact = serve("--memory", "8MiB")
    with ts.Staging(contact) as staging:
        staging.put("x", 0, filled(1), checksum=True)
        view = staging.get("x", 0, copy=False)
        ctypes.memset(view.ctypes.data + 100, 77, 1)  # what no program may do
        with pytest.raises(ts.Error, match="checksum is another"):
            staging.get("x", 0, copy=False)
        assert staging.get("x", 0, (500,), (600,), copy=False)[0] == 1e9 + 500


def test_views_count_as_gets_that_go_on(serve: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSHIP_STAGING_LEASES", "2")
    contact = serve("--memory", "8MiB")
    with ts.Staging(contact) as staging:
        staging.put("x", 0, filled(1))
        views = [staging.get("x", 0, copy=False) for _ in range(2)]
        with pytest.raises(ts.Error, match="staging_leases"):
            staging.get("x", 0, copy=False)
        views.pop()
        assert (staging.get("x", 0, copy=False) == filled(1)).all()


def test_objects_on_a_gpu_are_copied(serve: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSHIP_EMULATED_GPUS", "2")
    contact = serve("--memory", "8MiB", "--memory-kind", "device")
    with ts.Staging(contact) as staging:
        staging.put("x", 0, filled(1))
        with pytest.raises(ts.InvalidArgument, match="or on a GPU"):
            staging.get("x", 0, copy=False)
        assert (staging.get("x", 0, copy=None) == filled(1)).all()
