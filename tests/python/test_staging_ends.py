"""State that staging servers keep or drop after deaths, deletions and refused puts; checksums."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from staging_servers import PATIENCE, Servers, times_out

import tranship as ts
from support import eventually

WRITER = """
import sys, time
import numpy as np
import tranship as ts
staging = ts.Staging(sys.argv[1])
exec(sys.argv[2])
print("done", flush=True)
time.sleep(60)
"""


def killed_writer(contact: Path, work: str) -> None:
    """Starts another process that puts by the statement `work`, and kills it."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(contact), work], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"
        process.send_signal(signal.SIGKILL)


def ended(staging: ts.Staging, name: str) -> None:
    """Waits until no writer of the variable is connected."""
    assert eventually(
        lambda: all(one["producers"] == 0 for one in staging.ls() if one["name"] == name)
    )


@pytest.mark.parametrize("servers", [1, 3])
@pytest.mark.parametrize("writers", [None, 2])
def test_a_death_is_not_forgotten_when_another_writer_ends_well(
    serve: Servers, servers: int, writers: int | None
) -> None:
    contact = serve("--servers", str(servers), "--memory", "16MiB")
    with ts.Staging(contact) as reader:
        if writers is not None:
            reader.define("x", "f8", (0,), (8,), writers=writers)
        killed_writer(contact, "staging.put('x', 1, np.ones(4))")
        ended(reader, "x")
        with ts.Staging(contact) as second:
            for version in (1, 2):
                second.put("x", version, np.ones(4), (4,))
        versions = []
        with pytest.raises(ts.PeerLost, match="has died"):
            for version in reader["x"].versions(lower=(0,), upper=(8,), timeout=PATIENCE):
                versions.append(version)
        assert versions == [1]
        with pytest.raises(ts.PeerLost, match="has died"):
            reader.get("x", 2, (0,), (8,), timeout=PATIENCE)
        # The variable stays in this state until it is deleted.
        reader.delete("x")
        with ts.Staging(contact) as third:
            third.put("x", 1, np.ones(4))
        with pytest.raises(ts.Closed, match="have ended"):
            reader.get("x", 2, (0,), (4,), timeout=PATIENCE)


def test_a_put_that_never_ended_evicts_nothing_on_other_servers(serve: Servers) -> None:
    contact = serve("--servers", "3", "--versions", "2", "--memory", "16MiB")
    block = np.ones((64, 8192))
    work = """
engine = ts.Engine(threads=1)
a = np.ones((8192, 4096, 2), np.uint8)[..., 0]  # bytes that lie apart on both sides: slow
b = np.zeros((4096, 8192, 2), np.uint8)[..., 0].T
event = None
for _ in range(200):
    event = engine.copy(a, b, after=event)
other = ts.Staging(sys.argv[1], engine=engine)
futures = [
    other.put_async("x", version, np.ones((64, 8192)), (0, 4096), after=event, timeout=60)
    for version in (5, 6, 7)
]
time.sleep(1.0)
assert not any(future.done() for future in futures)
"""
    with ts.Staging(contact) as staging:
        for version in (1, 2):
            for column in (0, 8192):
                staging.put("x", version, block * version, (0, column))
        killed_writer(contact, work)
        ended(staging, "other")
        for version in (1, 2):
            got = staging.get("x", version, (0, 0), (64, 16384), timeout=PATIENCE)
            assert (got == version).all()
        for version in (3, 4):
            for column in (0, 8192):
                staging.put("x", version, block * version, (0, column))
            got = staging.get("x", version, (0, 0), (64, 16384), timeout=PATIENCE)
            assert (got == version).all()
        with pytest.raises(ts.NotFound, match="was discarded"):
            staging.get("x", 1, (0, 0), (64, 16384), timeout=PATIENCE)


@pytest.mark.parametrize("servers", [1, 3])
def test_a_deleted_variable_may_be_put_anew_as_something_else(serve: Servers, servers: int) -> None:
    contact = serve("--servers", str(servers), "--memory", "16MiB")
    with ts.Staging(contact) as first, ts.Staging(contact) as second:
        for round_ in range(3):
            values = np.arange(20000.0).reshape(100, 200) + round_
            for version in range(3):
                first.put("x", version, values + version)
                second.put("x", version, values[:10] + version, (100, 0))
            assert np.array_equal(second.get("x", 1)[:100], values + 1)
            first.discard("x", 0)
            second.delete("x")
            assert not first.ls()
            times_out(lambda: first.get("x", 1, timeout=0.1), "nothing has been put")
            # Both clients remember the deleted variable; the new one has another type and rank.
            line = np.arange(1000 + 5000 * round_, dtype="i4")
            for who in (first, second):
                who.put("x", 0, line)
                assert np.array_equal(second.get("x", 0), line)
                assert np.array_equal(first.get("x", 0), line)
            first.delete("x")
        with pytest.raises(ts.NotFound, match='no variable "x"'):
            second.delete("x")
        with pytest.raises(ts.InvalidArgument, match="a variable's name has"):
            second.delete("")


def test_no_put_makes_a_variable_unreadable(serve: Servers) -> None:
    contact = serve("--servers", "2", "--memory", "16MiB")
    with ts.Staging(contact) as staging:
        ends = [(0,) * 8, (255,) * 8]  # The box around the corners has 2^64 points.
        for corner in ends:
            staging.put("far", 0, np.full((1,) * 8, 5.0), corner)
        for corner in ends:
            upper = tuple(index + 1 for index in corner)
            assert staging.get("far", 0, corner, upper, timeout=PATIENCE).ravel()[0] == 5.0
            versions = staging["far"].versions(lower=corner, upper=upper, timeout=PATIENCE)
            assert next(iter(versions)) == 0
        times_out(lambda: staging.get("far", 0, timeout=1.0), "more points than 63 bits count")
        most = 2**62 - 1
        for lower in (-most, most - 1):
            staging.put("line", 0, np.ones(1), (lower,))
            assert staging.get("line", 0, (lower,), (lower + 1,))[0] == 1
        for lower in (-(2**63), -most - 1, most, 2**63 - 2):
            with pytest.raises(
                ts.InvalidArgument,
                match=r"limit of indices|index that is too large",
            ):
                staging.put("line", 0, np.ones(1), (lower,))
        for version in (-(2**63) + 1, 2**63 - 1):
            staging.put("versions", version, np.full(3, 7.0))
            assert (staging.get("versions", version) == 7).all()
        assert list(info["lower"][0] for info in staging.ls()) == [0, -most, 0]
        shown = subprocess.run(
            [sys.executable, "-m", "tranship.cli", "ls", str(contact)], capture_output=True
        )
        assert shown.returncode == 0


@pytest.mark.parametrize("name", ["a\nb", "\x1b[2J", "x" * 1025, ""])
def test_names_that_nothing_can_show_are_refused(serve: Servers, name: str) -> None:
    with ts.Staging(serve("--memory", "16MiB")) as staging:
        with pytest.raises(ts.InvalidArgument, match="a variable's name has") as refused:
            staging.put(name, 0, np.ones(3))
        assert str(refused.value).isprintable()
        staging.put("größe 🌍", 0, np.ones(3))
        assert [one["name"] for one in staging.ls()] == ["größe 🌍"]


def test_what_is_refused_names_the_limit_and_its_setting(
    serve: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRANSHIP_STAGING_VARIABLES", "3")
    monkeypatch.setenv("TRANSHIP_STAGING_CLIENTS", "2")
    contact = serve("--memory", "16MiB")
    with ts.Staging(contact) as staging, ts.Staging(contact):
        for name in ("a", "b", "c"):
            staging.put(name, 0, np.ones(3))
        with pytest.raises(ts.Error, match=r"are 3, which is the limit.*staging_variables"):
            staging.put("d", 0, np.ones(3))
        staging.delete("b")
        staging.put("d", 0, np.ones(3))
        with pytest.raises(ts.Error, match=r"are 2, which is the limit.*staging_clients"):
            ts.Staging(contact)
        assert (staging.get("a", 0) == 1).all()


def resident(pid: int) -> int:
    found = re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def test_what_is_gone_is_remembered_in_bounded_memory(serve: Servers) -> None:
    contact = serve("--memory", "16MiB", "--versions", "2")
    server = serve.processes[0].pid
    block = np.ones(8)
    with ts.Staging(contact) as staging:
        for version in range(12_000):
            if version == 6_000:
                before = resident(server)
            staging.put("x", 7 * version, block)  # The versions are not consecutive.
        assert resident(server) - before < 6_000 * 16
        for number in range(12_000):
            if number == 8_000:
                before, own = resident(server), resident(os.getpid())
            name = f"request-{number:09}"
            staging.put(name, 0, block)
            staging.delete(name)
        assert resident(server) - before < 4_000 * 100
        assert resident(os.getpid()) - own < 4_000 * 100


def memory_files(pid: int) -> list[str]:
    """Returns the paths of a server's shared memory, which its clients map."""
    found = []
    for entry in os.scandir(f"/proc/{pid}/fd"):
        if "memfd:" in os.readlink(entry.path) and os.stat(entry.path).st_size >= 1 << 20:
            found.append(entry.path)
    return found


@pytest.mark.parametrize("count", [1000, 100_000, 400_000])  # The last needs several threads.
def test_a_checksum_covers_an_object_from_put_to_get(serve: Servers, count: int) -> None:
    contact = serve("--memory", "64MiB")
    values = np.arange(2.0 * count).reshape(2, count)
    with ts.Staging(contact) as staging:
        for checksum in (False, True):
            staging.put("x", int(checksum), values, checksum=checksum)
            staging.put("turned", int(checksum), np.asfortranarray(values), checksum=checksum)
            staging.put("every second", int(checksum), values[:, ::2], checksum=checksum)
        for name in ("x", "turned"):
            assert np.array_equal(staging.get(name, 1), values)
            assert np.array_equal(staging.get(name, 1, (1, 3), (2, 900)), values[1:2, 3:900])
        assert np.array_equal(staging.get("every second", 1), values[:, ::2])
        out = np.empty((count, 2)).T
        assert np.array_equal(staging.get("x", 1, out=out), values)
        # A byte of each object is changed in the server's memory.
        changed = 0
        pattern = values[1, 40:60].tobytes()
        for path in memory_files(serve.processes[0].pid):
            with open(path, "r+b", buffering=0) as memory:
                content = memory.read()
                place = content.find(pattern)
                while place >= 0:
                    memory.seek(place)
                    memory.write(b"\xff")
                    changed += 1
                    place = content.find(pattern, place + 1)
        if changed == 0:
            pytest.skip("the memory of the server was not found")
        with pytest.raises(ts.Error, match=r'version 1 of "x".*its checksum is another'):
            staging.get("x", 1)
        with pytest.raises(ts.Error, match="its checksum is another"):
            staging.get("turned", 1, out=np.empty((count, 2)).T)
        assert (staging.get("x", 0) != values).any()  # The put had no checksum.
        # A get of a part does not compare the checksum.
        assert (staging.get("x", 1, (1, 0), (2, 900)) != values[1:2, :900]).any()
        assert np.array_equal(staging.get("every second", 1), values[:, ::2])
