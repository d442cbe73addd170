"""Memory of a staging server: when pages are taken, and what happens when none are left."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from staging_servers import PATIENCE, Servers, times_out

import tranship as ts
from support import Slow, eventually

GiB = 1 << 30
MiB = 1 << 20


@pytest.fixture
def servers(profile: str, tmp_path: Path) -> Iterator[Servers]:
    started = Servers(tmp_path)
    yield started
    started.end()


def resident(pid: int) -> int:
    """Returns the resident bytes of a process, shared memory included."""
    lines = Path("/proc", str(pid), "status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return sum(int(fields[key].split()[0]) for key in ("RssAnon", "RssShmem")) * 1024


def used(client: ts.Staging) -> int:
    return int(client.servers()[0]["memory_used"])


def test_a_tebibyte_of_room_takes_memory_only_when_it_is_written(servers: Servers) -> None:
    contact = servers("--memory", "1TiB", "--preallocate", "0")
    pid = servers.processes[0].pid
    before = resident(pid)
    pieces, piece = 256, 4 * GiB
    array = np.broadcast_to(np.uint8(1), (piece,))  # The broadcast takes no memory.
    raised: list[BaseException] = []
    with ts.Engine(threads=1) as engine, ts.Staging(contact) as other:
        slow = Slow()
        event = slow.start(engine)
        for _ in range(2000):
            event = slow.start(engine, after=event)
        client = ts.Staging(contact, engine=engine)

        def put(version: int) -> None:
            try:
                client.put("x", version, array, after=event, timeout=120)
            except BaseException as error:
                raised.append(error)

        threads = [threading.Thread(target=put, args=(k,)) for k in range(pieces)]
        for thread in threads:
            thread.start()
        assert eventually(lambda: used(other) == pieces * piece or bool(raised))
        assert not raised and used(other) == pieces * piece
        assert resident(pid) - before < GiB
        # The limit counts room, not pages.
        times_out(lambda: other.put("y", 1, np.zeros(1 << 20), timeout=0.1), "is full")
        event.cancel()
        client.close()
        for thread in threads:
            thread.join(PATIENCE)
        assert len(raised) == pieces
        kinds = (ts.Closed, ts.Cancelled)
        others = [error for error in raised if not isinstance(error, kinds)]
        assert not others, others[:3]
        assert eventually(lambda: used(other) == 0)


def memory_group(limit: int) -> Path | None:
    """Returns a new control group with a limit in bytes, or None where none can be made."""
    own = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    root = Path("/sys/fs/cgroup")
    for _, controllers, name in own:
        version_1 = "memory" in controllers.split(",")
        if not version_1 and controllers != "":
            continue
        parent = root / "memory" if version_1 else root
        for folder in (parent / name.lstrip("/"), parent):
            path = folder / f"tranship-test-{os.getpid()}"
            try:
                path.mkdir()
                file = path / ("memory.limit_in_bytes" if version_1 else "memory.max")
                if file.exists():
                    file.write_text(str(limit))
                    return path
                path.rmdir()
            except OSError:
                continue
    return None


@pytest.fixture
def group() -> Iterator[Path]:
    path = memory_group(700 * MiB)
    if path is None:
        pytest.skip(
            "no control group can be made here: that needs root, and groups that are writable"
        )
    yield path
    until = time.monotonic() + PATIENCE
    while path.exists() and time.monotonic() < until:
        for pid in (path / "cgroup.procs").read_text().split():
            os.kill(int(pid), signal.SIGKILL)
        try:
            path.rmdir()
        except OSError:
            time.sleep(0.05)


def test_a_server_whose_control_group_is_full_says_so_and_goes_on(
    servers: Servers, group: Path
) -> None:
    contact = servers("--memory", "4GiB", "--preallocate", "0")
    (group / "cgroup.procs").write_text(str(servers.processes[0].pid))
    array = np.arange(8 * MiB, dtype="f8")  # 64 MiB: each array takes one segment of the server.
    with ts.Engine() as engine, ts.Staging(contact, engine=engine) as client:
        put = 0
        with pytest.raises(ts.Error, match=r"control group .* left") as refused:
            for version in range(30):
                client.put("x", version, array, timeout=PATIENCE)
                put += 1
        assert refused.value.code == "out_of_memory"
        assert 2 <= put <= 10
        held = used(client)
        slow = Slow()  # The put gets room at first, and fails when pages are taken.
        with pytest.raises(ts.Error, match="control group"):
            client.put("y", 1, array, after=slow.start(engine), timeout=PATIENCE)
        assert used(client) == held
        assert (client.get("x", put - 1) == array).all()
        client.discard("x", 0)
        client.put("y", 1, array, timeout=PATIENCE)  # Version 0 has left its pages.
        assert (client.get("y", 1) == array).all()
