"""Groups of staging servers: objects on several servers, full servers, servers that die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from staging_servers import PATIENCE, Servers, times_out

import tranship as ts
from support import SOON_S, eventually
from tranship.cli.serve import EndSignals, await_group, rank_of_launcher
from tranship.cli.talk import CommandError

COUNT = 3
SIDE = 64


def start_group(serve: Servers, *options: str) -> Path:
    """Starts each server of a group in its own process, not in the order of ranks."""
    contact = serve.folder / "group.contact"
    words = ("--contact", str(contact), "--servers", str(COUNT), *options)
    for rank in (2, 0, 1):
        serve.start(*words, "--rank", str(rank))
    return contact


def rank_of(process: subprocess.Popen[str]) -> int:
    assert isinstance(process.args, list)
    return int(process.args[-1])


def blocks(version: int) -> Iterator[tuple[tuple[int, int], np.ndarray]]:
    """Yields corner and values of the 4 x 4 blocks of a domain, each of 32 KiB."""
    for a in range(0, 4 * SIDE, SIDE):
        for b in range(0, 4 * SIDE, SIDE):
            yield (a, b), np.full((SIDE, SIDE), version * 1e6 + a * 1000 + b)


def put_all(staging: ts.Staging, name: str, version: int) -> np.ndarray:
    domain = np.empty((4 * SIDE, 4 * SIDE))
    for lower, block in blocks(version):
        staging.put(name, version, block, lower)
        domain[lower[0] : lower[0] + SIDE, lower[1] : lower[1] + SIDE] = block
    return domain


def test_a_group_is_one_service(serve: Servers) -> None:
    contact = start_group(serve, "--memory", "16MiB")
    with ts.Staging(contact) as writer, ts.Staging(contact) as reader:
        for version in range(3):
            domain = put_all(writer, "energy", version)
            assert np.array_equal(reader.get("energy", version), domain)
            # The first box spans several cells, the second lies in one.
            assert np.array_equal(reader["energy"]["latest", 20:200, 60:70], domain[20:200, 60:70])
            assert np.array_equal(reader["energy"][version, 3:9, 4:5], domain[3:9, 4:5])
        info = reader.ls()[0]
        assert info["lower"] == [0, 0] and info["upper"] == [4 * SIDE, 4 * SIDE]
        assert [v["objects"] for v in info["versions"]] == [16, 16, 16]
        assert info["producers"] == 1
        reader.discard("energy", 1)
        with pytest.raises(ts.NotFound, match="was discarded"):
            reader.get("energy", 1, (0, 0), (200, 200))
        with pytest.raises(ts.NotFound):
            reader.discard("energy", 1)
        with pytest.raises(ts.InvalidArgument, match="elements of f8, not of f4"):
            writer.put("energy", 5, np.zeros((4, 4), "f4"), (200, 200))


@pytest.mark.parametrize("elements", [64, 100_000])  # inside a message; by a copy
def test_a_discarded_version_is_gone_where_nothing_of_it_was(serve: Servers, elements: int) -> None:
    """The first half of each variable lies on one server, and the second half on another one."""
    contact = start_group(serve, "--memory", "64MiB")
    half = np.arange(float(elements))
    cells = max(elements, 64 * 1024 // half.itemsize)  # a server's part of the variable
    second = (cells,), (cells + elements,)
    with ts.Staging(contact) as one, ts.Staging(contact) as other:
        for name in ("x", "y", "z", "energy"):  # their metadata lie on different servers
            one.put(name, 0, half)
            waiting = other.get_async(name, 0, *second, timeout=PATIENCE)
            with pytest.raises(ts.NotFound):
                one.discard(name, 1)  # nobody has it
            one.discard(name, 0)
            for lower in ((0,), second[0]):
                with pytest.raises(ts.NotFound, match="was discarded"):
                    other.put(name, 0, half, lower)
            with pytest.raises(ts.NotFound, match="was discarded"):
                other.get(name, 0, *second, timeout=0.0)
            with pytest.raises(ts.NotFound, match="was discarded"):
                waiting.result(PATIENCE)
            other.put(name, 1, half, second[0])
            assert np.array_equal(one.get(name, 1, *second), half)
            one.delete(name)
            other.put(name, 0, half, second[0])  # of another variable, which remembers nothing
            assert np.array_equal(one.get(name, 0, *second), half)
            one.delete(name)
        assert one.ls() == [] and used(one) == [0] * COUNT


def test_objects_lie_on_all_servers(serve: Servers) -> None:
    """More data are put than one server's memory holds, and all versions can be read."""
    contact = start_group(serve, "--memory", "2MiB")
    with ts.Staging(contact) as client:
        domains = [put_all(client, "energy", version) for version in range(6)]  # 3 MiB
        for version, domain in enumerate(domains):
            assert np.array_equal(client.get("energy", version), domain)


def used(staging: ts.Staging) -> list[int]:
    return [one["memory_used"] for one in staging.servers()]


@pytest.mark.parametrize("elements", [1024, 32 * 1024])  # 8 KiB: in a message; 256 KiB: by a copy
def test_a_full_server_is_helped_out(serve: Servers, elements: int) -> None:
    """All versions of one box have one primary; after 1 MiB, they go to the overflow server."""
    contact = serve("--servers", "2", "--memory", "1MiB", "--preallocate", "0")
    count = (1 << 20) // (8 * elements)

    def block(version: int) -> np.ndarray:
        return np.arange(elements) + version * 1e6

    with ts.Staging(contact) as writer, ts.Staging(contact) as reader:
        for version in range(count):
            writer.put("x", version, block(version))
        assert sorted(used(writer)) == [0, 1 << 20]
        versions = reader["x"].versions()
        for version in range(count, 2 * count):
            writer.put("x", version, block(version))
            assert np.array_equal(reader.get("x", version), block(version))
        assert used(writer) == [1 << 20, 1 << 20]
        times_out(
            lambda: writer.put("x", 2 * count, block(0), timeout=0.4),
            "memory of 1048576 bytes is full: discard versions",
        )
        for version in range(2 * count):
            assert next(versions) == version
            assert np.array_equal(reader.get("x", version), block(version))
        # Room on the overflow server is enough for a waiting put, which is notified.
        waiting = writer.put_async("x", 2 * count, block(2 * count), timeout=PATIENCE)
        time.sleep(0.1)
        assert not waiting.done()
        reader.discard("x", 2 * count - 1)
        waiting.result(PATIENCE)
        assert np.array_equal(reader.get("x", "latest"), block(2 * count))
        with pytest.raises(ts.NotFound, match="was discarded"):
            reader.get("x", 2 * count - 1)
        # Versions keep their order, on whichever server they lie.
        reader.discard("x", 0)
        reader.discard("x", count)
        half = -np.ones(elements // 2)
        writer.put("x", 1, half)
        writer.put("x", count + 1, half, (elements // 2,))
        assert np.array_equal(reader.get("x", 1), np.concatenate([half, block(1)[elements // 2 :]]))
        assert np.array_equal(
            reader.get("x", count + 1), np.concatenate([block(count + 1)[: elements // 2], half])
        )


def test_memory_of_others_is_used_before_anything_spills(serve: Servers) -> None:
    contact = serve("--servers", "2", "--memory", "1MiB", "--full", "spill")
    block = np.arange(64 * 1024.0)
    with ts.Staging(contact) as staging:
        for version in range(4):
            staging.put("x", version, block + version)
        assert used(staging) == [1 << 20, 1 << 20]
        assert [one["spilled"] for one in staging.servers()] == [0, 0]
        for version in range(4, 12):
            staging.put("x", version, block + version)
        assert sum(one["spilled"] for one in staging.servers()) >= 8 * block.nbytes
        for version in range(12):
            assert np.array_equal(staging.get("x", version), block + version)


def test_an_overflow_server_that_dies_takes_its_objects_and_nothing_else(serve: Servers) -> None:
    contact = start_group(serve, "--memory", "1MiB", "--preallocate", "0")
    block = np.arange(64 * 1024.0)
    with ts.Staging(contact) as staging:
        for version in range(2):
            staging.put("x", version, block + version)
        primary = used(staging).index(1 << 20)
        for version in range(2, 4):
            staging.put("x", version, block + version)
        overflow = (primary + 1) % COUNT
        assert used(staging)[overflow] == 1 << 20
        next(p for p in serve.processes if rank_of(p) == overflow).kill()
        with pytest.raises(ts.PeerLost):
            staging.get("x", 3, timeout=PATIENCE)
        assert np.array_equal(staging.get("x", 1, (0,), (100,)), block[:100] + 1)
        staging.put("x", 4, block + 4, timeout=PATIENCE)  # This version lies on the third server.
        assert np.array_equal(staging.get("x", 4, (0,), (len(block),)), block + 4)


def test_what_overlaps_over_servers_is_seen_whole(serve: Servers) -> None:
    contact = start_group(serve)
    with ts.Staging(contact) as one, ts.Staging(contact) as other, ts.Staging(contact) as reader:
        expected = put_all(one, "x", 0)
        rng = np.random.default_rng(3)
        for k in range(30):
            a, b = (int(v) for v in rng.integers(0, 2 * SIDE, 2))
            block = np.full((2 * SIDE, 2 * SIDE), float(k))
            (one, other)[k % 2].put("x", 0, block, (a, b))
            expected[a : a + 2 * SIDE, b : b + 2 * SIDE] = k
            if k % 5 == 0:
                assert np.array_equal(reader.get("x", 0), expected)
        assert np.array_equal(reader.get("x", 0), expected)


def test_a_get_waits_for_servers_that_lack_a_part(serve: Servers) -> None:
    contact = start_group(serve)
    with ts.Staging(contact) as writer, ts.Staging(contact) as reader:
        parts = list(blocks(1))
        writer.put("late", 1, parts[0][1], parts[0][0])
        future = reader.get_async("late", 1, (0, 0), (4 * SIDE, 4 * SIDE), timeout=PATIENCE)
        versions = reader["late"].versions(lower=(0, 0), upper=(4 * SIDE, 4 * SIDE))
        for lower, block in parts[1:]:
            assert not future.done()
            writer.put("late", 1, block, lower)
        assert future.result(PATIENCE).sum() == sum(block.sum() for _, block in parts)
        assert next(versions) == 1
        writer.close()
        assert list(versions) == []
        with pytest.raises(ts.Closed, match="have ended"):
            reader.get("late", 2, (0, 0), (4 * SIDE, 4 * SIDE), timeout=PATIENCE)


@pytest.mark.parametrize("victim", range(COUNT))
def test_the_death_of_one_server_is_told_and_others_go_on(serve: Servers, victim: int) -> None:
    contact = start_group(serve)
    with ts.Staging(contact) as client:
        domain = put_all(client, "energy", 1)
        names = [f"v{k}" for k in range(24)]
        for name in names:
            client.put(name, 1, np.full(4, 7.0))
        waiting = client.get_async("energy", 2, (0, 0), (4 * SIDE, 4 * SIDE), timeout=PATIENCE)
        time.sleep(0.1)
        killed = next(p for p in serve.processes if rank_of(p) == victim)
        killed.kill()
        begin = time.monotonic()
        with pytest.raises(ts.PeerLost):
            waiting.result(PATIENCE)
        assert time.monotonic() - begin < SOON_S
        with pytest.raises(ts.PeerLost):
            client.get("energy", 1)
        served = 0
        for name in names:
            try:
                got = client.get(name, 1, (0,), (4,), timeout=PATIENCE)
                assert np.array_equal(got, np.full(4, 7.0))
                served += 1
            except ts.PeerLost:
                pass
        assert 0 < served < len(names)
        assert domain.shape == (4 * SIDE, 4 * SIDE)


def test_clients_wait_for_the_whole_group(serve: Servers) -> None:
    contact = serve.folder / "late.contact"
    words = ("--contact", str(contact), "--servers", "2")
    serve.start(*words, "--rank", "0")
    assert eventually(contact.exists)
    times_out(lambda: ts.Staging(contact, timeout=1.0), "1 of 2 servers have not started")
    threading.Timer(0.3, lambda: serve.start(*words, "--rank", "1")).start()
    with ts.Staging(contact, timeout=PATIENCE) as client:
        client.put("x", 1, np.arange(3.0))
        assert np.array_equal(client.get("x", 1), np.arange(3.0))
        with pytest.raises(ts.InvalidArgument, match="has joined before"):
            ts.StagingServer(contact, rank=1, servers=2)
        with pytest.raises(ts.InvalidArgument, match="with the same --servers"):
            ts.StagingServer(contact, rank=2, servers=3)
    with pytest.raises(ts.InvalidArgument, match="ranks are 0"):
        ts.StagingServer(contact, rank=2, servers=2)
    with pytest.raises(ts.InvalidArgument, match="contact file of the first server"):
        ts.StagingServer(rank=1, servers=2)


def test_only_the_first_server_takes_clients(serve: Servers) -> None:
    contact = serve.folder / "group.contact"
    first = serve.start("--contact", str(contact), "--servers", "2", "--rank", "0")
    with ts.StagingServer(contact, rank=1, servers=2, memory=1 << 20) as second:
        with pytest.raises(ts.InvalidArgument, match="connect to the first one"):
            ts.Staging(second.contact)
        assert first.stdout is not None and first.stdout.readline().startswith("serving at")


def test_one_command_starts_a_group_and_ends_it(serve: Servers) -> None:
    contact = serve("--servers", "2", "--versions", "2")
    with ts.Staging(contact) as client:
        for version in range(4):
            put_all(client, "x", version)
        assert [v["version"] for v in client.ls()[0]["versions"]] == [2, 3]
    process = serve.processes[0]
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(children) == 1
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0
    assert not Path(f"/proc/{children[0]}").exists() and not contact.exists()


def test_a_group_ends_with_the_command_that_was_killed(serve: Servers) -> None:
    serve("--servers", "2")
    process = serve.processes[0]
    child = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().strip()
    process.kill()
    assert eventually(lambda: not is_running(child))


def is_running(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_group_starts_beside_the_contact_file_of_a_dead_one(serve: Servers) -> None:
    contact = serve("--servers", "2")
    dead = serve.processes[0]
    dead.kill()
    dead.wait(PATIENCE)
    assert contact.exists()
    words = ("--contact", str(contact), "--servers", "2")
    second = serve.start(*words, "--rank", "1")
    time.sleep(0.5)  # It has found the old contact file by now.
    serve.start(*words, "--rank", "0")
    end = time.monotonic() + PATIENCE
    while True:
        try:
            with ts.Staging(contact, timeout=PATIENCE) as client:
                assert len(client.servers()) == 2
            break
        except ts.PeerLost:  # The client has read the old contact file.
            assert time.monotonic() < end
    assert second.stdout is not None and second.stdout.readline().startswith("server 1 of 2")


def test_a_group_of_which_one_has_ended_is_given_up() -> None:
    class First:
        complete = False

    ended = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    ended.wait(PATIENCE)
    with pytest.raises(CommandError, match="server 1 of 2 ended with code 3"):
        await_group(First(), [ended], EndSignals())  # type: ignore[arg-type]


def test_the_rank_is_the_launchers() -> None:
    slurm = {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4"}
    assert rank_of_launcher(4, slurm) == 3
    assert rank_of_launcher(2, slurm) is None  # A task of four starts a whole group.
    assert rank_of_launcher(1, slurm) == 0
    assert rank_of_launcher(2, {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}) == 1
    assert rank_of_launcher(2, {}) is None


def test_options_come_from_a_file_or_the_environment(serve: Servers) -> None:
    config = serve.folder / "staging.toml"
    config.write_text('servers = 2\nmemory = "3MiB"\nversions = 1\n[settings]\nthreads = 1\n')
    contact = serve("--config", str(config))
    with ts.Staging(contact) as client:
        for version in range(3):
            client.put("x", version, np.arange(3.0))
        assert [v["version"] for v in client.ls()[0]["versions"]] == [2]
        with pytest.raises(ts.Error, match="3145728 bytes"):
            client.put("large", 1, np.zeros(1 << 20))
    environment = os.environ | {"TRANSHIP_SERVE_CONTACT": str(serve.folder / "env.contact")}
    process = subprocess.Popen(
        [sys.executable, "-m", "tranship.cli", "serve"],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert "env.contact" in process.stdout.readline()
    process.terminate()
    assert process.wait(PATIENCE) == 0
    process.stdout.close()
    config.write_text("memry = 3\n")
    refused = serve.start("--config", str(config))
    assert "memry, which is no option of serve" in refused.communicate(timeout=PATIENCE)[1]
    serve.processes.remove(refused)


def test_a_defined_variable_ends_when_all_its_writers_have_come(serve: Servers) -> None:
    contact = start_group(serve)
    side = 2 * SIDE
    with ts.Staging(contact) as one, ts.Staging(contact) as other, ts.Staging(contact) as reader:
        for client in (one, other):
            client.define("heat", "f8", (0, 0), (side, side), writers=2)
        half = np.ones((SIDE, side))
        for version in range(3):
            one.put("heat", version, half * version)
        with pytest.raises(ts.InvalidArgument, match="is not within the domain"):
            one.put("heat", 3, half, (SIDE + 1, 0))
        one.close()
        whole = reader.get_async("heat", 2, timeout=PATIENCE)  # It waits for the whole domain.
        versions = reader["heat"].versions(timeout=PATIENCE)
        time.sleep(0.1)
        assert not whole.done()
        for version in range(3):
            other.put("heat", version, half * version, (SIDE, 0))
            assert next(versions) == version
        assert np.array_equal(whole.result(PATIENCE), np.full((side, side), 2.0))
        other.define("heat", "f8", (0, 0), (side, 2 * side), writers=2)
        other.put("heat", 3, half, (0, side))
        other.close()
        assert list(versions) == []
        with pytest.raises(ts.InvalidArgument, match="was defined with the domain"):
            reader.define("heat", "f8", (0, 0), (1, 1), writers=2)
        with pytest.raises(ts.InvalidArgument, match="elements of f8, not of i4"):
            reader.define("heat", "i4", (0, 0), (side, side), writers=2)
        with pytest.raises(ts.InvalidArgument, match="no arrays as its elements"):
            reader.define("b", ("f4", (2,)), (0,), (4,))


def test_servers_say_what_they_hold(serve: Servers) -> None:
    contact = start_group(serve, "--memory", "8MiB")
    with ts.Staging(contact, name="the simulation") as client, ts.Staging(contact):
        put_all(client, "energy", 1)
        servers = client.servers()
        assert [one["server"] for one in servers] == [0, 1, 2]
        assert {one["memory"] for one in servers} == {8 << 20}
        assert sum(one["memory_used"] for one in servers) == 16 * 8 * SIDE**2
        assert servers[0]["clients"] == 2 and "the simulation" in servers[0]["names"]


def test_many_versions_and_variables(serve: Servers) -> None:
    contact = start_group(serve, "--memory", "64MiB")
    with ts.Staging(contact) as client:
        for version in range(4000):
            client.put("x", version, np.full(16, float(version)))
        for k in range(10_000):
            client.put(f"variable {k}", 7, np.full(2, float(k)))
        for version in (0, 1999, 3999):
            assert (client.get("x", version) == version).all()
        held = {info["name"]: info["versions"] for info in client.ls()}
        assert len(held) == 10_001
        assert [one["version"] for one in held["x"]] == list(range(4000))
        for k in (0, 4321, 9999):
            assert (client.get(f"variable {k}", "latest") == k).all()
