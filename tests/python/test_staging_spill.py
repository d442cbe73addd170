"""Staging servers that spill: more data are put than fit their memory."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from staging_servers import PATIENCE, Servers

import tranship as ts
from support import eventually

BLOCK = 64 * 1024
"""Elements of a block: 512 KiB."""


def block(version: int, k: int = 0) -> np.ndarray:
    return np.arange(BLOCK, dtype="f8") + version * 1e9 + k * 1e6


def spilled(staging: ts.Staging) -> int:
    return sum(one["spilled"] for one in staging.servers())


def test_several_times_the_memory_is_put_and_read_back(serve: Servers, tmp_path: Path) -> None:
    contact = serve("--memory", "4MiB", "--full", "spill", "--spill", str(tmp_path))
    with ts.Staging(contact) as writer, ts.Staging(contact) as reader:
        for version in range(40):  # 20 MiB in all, and small objects between.
            writer.put("field", version, block(version))
            writer.put("small", version, np.full(100, float(version)))
        assert writer.servers()[0]["memory_used"] <= 4 << 20
        assert spilled(writer) > 15 << 20
        rng = np.random.default_rng(1)
        for version in (*range(40), *map(int, rng.integers(0, 40, 40))):
            assert np.array_equal(reader.get("field", version), block(version))
            assert (reader.get("small", version) == version).all()
            a, b = sorted(map(int, rng.integers(0, BLOCK, 2)))
            window = reader.get("field", version, (a,), (b + 1,))
            assert np.array_equal(window, block(version)[a : b + 1])
        assert [v["version"] for v in reader.ls()[0]["versions"]] == list(range(40))
        for version in range(39):
            reader.discard("field", version)
            reader.discard("small", version)
        with pytest.raises(ts.NotFound, match="was discarded"):
            reader.get("field", 7)
        assert np.array_equal(reader.get("field", 39), block(39))
        assert spilled(reader) <= block(39).nbytes
    assert not [one for one in tmp_path.iterdir() if "spill" in one.name]  # The file has no name.


def test_a_version_may_be_larger_than_the_memory(serve: Servers) -> None:
    contact = serve("--memory", "3MiB", "--full", "spill")
    with ts.Staging(contact) as staging:
        for version in range(2):
            for k in range(16):  # 8 MiB
                staging.put("wide", version, block(version, k), (k * BLOCK,))
        for version in (0, 1, 0):
            whole = staging.get("wide", version, (0,), (16 * BLOCK,))
            expected = np.concatenate([block(version, k) for k in range(16)])
            assert np.array_equal(whole, expected)
        # Concurrent gets of more than the memory must not deadlock.
        futures = [
            staging.get_async("wide", k % 2, (0,), (16 * BLOCK,), timeout=PATIENCE)
            for k in range(8)
        ]
        for k, future in enumerate(futures):
            got = future.result(PATIENCE)
            assert got[0] == block(k % 2)[0] and got[-1] == block(k % 2, 15)[-1]


def test_writers_and_readers_at_once_on_a_group(serve: Servers, tmp_path: Path) -> None:
    contact = serve(
        "--memory", "2MiB", "--full", "spill", "--spill", str(tmp_path), "--servers", "3"
    )
    failures: list[BaseException] = []

    def write(k: int) -> None:
        with ts.Staging(contact) as staging:
            for version in range(20):
                staging.put("shared", version, block(version, k), (k * BLOCK,), timeout=PATIENCE)

    def read(k: int) -> None:
        with ts.Staging(contact) as staging:
            lower, upper = (k * BLOCK // 2,), (k * BLOCK // 2 + BLOCK,)
            for version in staging["shared"].versions(lower=lower, upper=upper, timeout=PATIENCE):
                if version % 3 == k:
                    time.sleep(0.05)
                got = staging.get("shared", version, lower, upper, timeout=PATIENCE)
                whole = np.concatenate([block(version, 0), block(version, 1), block(version, 2)])
                assert np.array_equal(got, whole[lower[0] : upper[0]])

    def guarded(work, k: int) -> None:  # type: ignore[no-untyped-def]
        try:
            work(k)
        except BaseException as failure:
            failures.append(failure)

    threads = [
        threading.Thread(target=guarded, args=(f, k)) for f in (write, read) for k in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(3 * PATIENCE)
    assert not failures and not any(thread.is_alive() for thread in threads)
    with ts.Staging(contact) as staging:  # 30 MiB on servers of 6 MiB
        assert spilled(staging) > 20 << 20
        for version in (0, 19, 7):
            for k in range(3):
                box = (k * BLOCK,), ((k + 1) * BLOCK,)
                assert np.array_equal(staging.get("shared", version, *box), block(version, k))


def test_what_is_being_read_is_not_discarded_on_disk_either(serve: Servers) -> None:
    contact = serve("--memory", "2MiB", "--full", "spill", "--versions", "6")
    with ts.Staging(contact) as staging:
        for version in range(30):
            staging.put("kept", version, block(version))
            if version >= 5:
                assert np.array_equal(staging.get("kept", version - 5), block(version - 5))
        assert [v["version"] for v in staging.ls()[0]["versions"]] == list(range(24, 30))
        assert spilled(staging) <= 6 * block(0).nbytes
        with pytest.raises(ts.NotFound, match="was discarded"):
            staging.get("kept", 23)


def fills_up(staging: ts.Staging, pattern: str) -> None:
    """Puts until the disk is full, discards versions, puts again, and reads all that are left."""
    count = 0
    said = ""

    def one_more() -> bool:
        """Puts a version; returns whether there was no room on the disk for it."""
        nonlocal count, said
        try:
            staging.put("field", count, block(count), timeout=1.5)
        except ts.Timeout as late:  # On a busy machine, memory may be full until it has spilled.
            said = str(late)
            return re.search(pattern, said) is not None
        count += 1
        return False

    assert eventually(one_more), said
    assert 6 <= count < 20
    for version in range(count - 3, count):  # Some of these are in memory.
        assert np.array_equal(staging.get("field", version, timeout=PATIENCE), block(version))
    for version in range(3):
        staging.discard("field", version)
    staging.put("field", 200, block(200), timeout=PATIENCE)
    for version in (*range(3, count), 200):
        assert np.array_equal(staging.get("field", version, timeout=PATIENCE), block(version))


def test_a_limit_of_what_may_be_spilled(serve: Servers) -> None:
    contact = serve("--memory", "2MiB", "--full", "spill", "--spill-max", "4MiB")
    with ts.Staging(contact) as staging:
        fills_up(staging, "4194304 bytes that it may take there are full.*larger --spill-max")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Yields the mount point of a file system of 4 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", bytes(folder), b"tmpfs", 0, b"size=4m") != 0:
        pytest.skip(f"mounting a file system needs root: {os.strerror(ctypes.get_errno())}")
    yield folder
    assert libc.umount2(bytes(folder), 2) == 0


@pytest.mark.parametrize("limit", [0, -5, 4096])
def test_a_limit_that_leaves_no_room_on_disk(profile: str, limit: int) -> None:
    words = "at least 1 MiB on disk: raise --spill-max|spill_max=-5 is not a size"
    with pytest.raises(ts.InvalidArgument, match=words):
        ts.StagingServer(full="spill", spill_max=limit, profile=profile)


def test_a_disk_that_is_full(serve: Servers, small_disk: Path) -> None:
    contact = serve("--memory", "2MiB", "--full", "spill", "--spill", str(small_disk))
    with ts.Staging(contact) as staging:
        fills_up(staging, "No space left on device; free some space or choose another disk")


def test_a_limit_on_file_sizes(serve: Servers, tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, limits[1]))
    try:
        contact = serve("--memory", "2MiB", "--full", "spill", "--spill", str(tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    with ts.Staging(contact) as staging:
        fills_up(staging, r"File too large; raise the limit on file sizes \(ulimit -f\)")


def test_a_folder_that_cannot_be_used_ends_serve_at_once(serve: Servers, tmp_path: Path) -> None:
    def refused(*options: str) -> str:
        words = ["serve", "--contact", str(tmp_path / "no.contact"), *options]
        done = subprocess.run(
            [sys.executable, "-m", "tranship.cli", *words],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode != 0 and not (tmp_path / "no.contact").exists()
        return done.stderr

    missing = refused("--full", "spill", "--spill", str(tmp_path / "missing"))
    assert "name another folder with --spill" in missing
    file = tmp_path / "file"
    file.write_text("")
    assert "with --spill" in refused("--full", "spill", "--spill", str(file))
    if Path("/proc/self/mounts").exists():
        assert "with --spill" in refused("--full", "spill", "--spill", "/proc/self")
    assert "nothing is spilled unless" in refused("--spill", str(tmp_path))
    assert "at least 1 MiB on disk" in refused("--full", "spill", "--spill-max", "4KiB")
    with pytest.raises(ts.InvalidArgument, match='give "block", "discard-oldest" or "spill"'):
        ts.StagingServer(full="spil")  # type: ignore[arg-type]


def test_options_of_a_group_and_what_ls_shows(serve: Servers, tmp_path: Path) -> None:
    config = tmp_path / "staging.toml"
    config.write_text(
        f'servers = 2\nmemory = "1MiB"\nfull = "spill"\nspill = "{tmp_path}"\nspill-max = "8MiB"\n'
    )
    contact = serve("--config", str(config))
    with ts.Staging(contact) as staging:
        for version in range(8):
            staging.put("x", version, block(version))
        assert spilled(staging) > 0
        shown = subprocess.run(
            [sys.executable, "-m", "tranship.cli", "ls", str(contact)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    assert "on disk" in shown and re.search(r"1 MiB .* (\d+\.?\d*) (KiB|MiB)", shown)
    os.environ["TRANSHIP_SERVE_FULL"] = "spill"
    os.environ["TRANSHIP_SERVE_SPILL_MAX"] = "1KiB"
    try:
        process = serve.start("--contact", str(tmp_path / "other.contact"))
        assert "at least 1 MiB on disk" in process.communicate(timeout=PATIENCE)[1]
        serve.processes.remove(process)
    finally:
        del os.environ["TRANSHIP_SERVE_FULL"], os.environ["TRANSHIP_SERVE_SPILL_MAX"]


def test_a_killed_server_leaves_nothing_on_disk(serve: Servers, tmp_path: Path) -> None:
    folder = tmp_path / "spill"
    folder.mkdir()
    contact = serve("--memory", "1MiB", "--full", "spill", "--spill", str(folder))
    with ts.Staging(contact) as staging:
        for version in range(8):
            staging.put("x", version, block(version))
        process = serve.processes[0]
        files = [os.readlink(one) for one in Path(f"/proc/{process.pid}/fd").iterdir()]
        assert any(str(folder) in one and "deleted" in one for one in files)
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE)
    assert not list(folder.iterdir())


def test_what_changed_on_disk_is_an_error_and_nothing_else_is(
    serve: Servers, tmp_path: Path
) -> None:
    contact = serve("--memory", "4MiB", "--full", "spill", "--spill", str(tmp_path))
    with ts.Staging(contact) as staging:
        for version in range(20):
            staging.put("field", version, block(version))
        file = next(
            entry.path
            for entry in os.scandir(f"/proc/{serve.processes[0].pid}/fd")
            if os.readlink(entry.path).startswith(str(tmp_path)) and "spill" not in entry.name
        )
        with open(file, "r+b", buffering=0) as disk:
            content = disk.read()
            place = content.find(block(3)[1000:1010].tobytes())
            assert place >= 0
            disk.seek(place)
            disk.write(b"\x55")
            os.fsync(disk.fileno())
        for _ in range(2):
            with pytest.raises(ts.Error, match=r'version 3 of "field".*has changed on disk'):
                staging.get("field", 3, timeout=PATIENCE)
        for version in range(20):
            if version != 3:
                assert np.array_equal(
                    staging.get("field", version, timeout=PATIENCE), block(version)
                )
