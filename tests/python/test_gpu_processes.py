"""GPU arrays of other processes, and memory that is shared with them.

GPUs are emulated, unless TRANSHIP_TEST_GPUS is "real".
"""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from exporters import Exporter
from gpu_support import EMULATED, content, filled, fixed_gpu_profile, two_gpus

import tranship as ts
from support import PATIENCE

Start = Callable[..., Exporter]
BYTES = 1 << 20
pytestmark = two_gpus
VALUES = np.resize(np.arange(256, dtype=np.uint8), BYTES)


@pytest.fixture(params=["automatic", "network"])
def transport(request: pytest.FixtureRequest) -> str:
    """Returns the transport: "automatic" opens the peer's GPU memory, "network" uses TCP."""
    return str(request.param)


@pytest.fixture
def server(exporter: Start) -> Exporter:
    """Starts a process that exports an array on its second GPU."""
    return exporter(
        "--gpu",
        "--bytes",
        str(BYTES),
        TRANSHIP_EMULATED_GPUS=str(EMULATED),
        TRANSHIP_LISTEN="127.0.0.1:0",
    )


@pytest.fixture
def client(transport: str) -> Iterator[ts.Engine]:
    """Yields an engine with two GPUs."""
    with ts.Engine(emulated_gpus=EMULATED, transport=transport, threads=2) as opened:
        yield opened


@pytest.mark.parametrize("memory", ["device0", "device1", "pinned", "host"])
def test_read_and_written_from_any_memory(
    server: Exporter, client: ts.Engine, tmp_path: Path, memory: str
) -> None:
    remote = client.connect(server.contact)["device"]
    target = filled(client, np.zeros(BYTES, "u1"), memory)
    client.copy(remote, target).wait(timeout=20)
    assert np.array_equal(content(client, target), VALUES)
    other = filled(client, VALUES[::-1].copy(), memory)
    client.copy(other, remote).wait(timeout=20)
    assert server.ask(f"dump device {tmp_path / 'dump'}") == "done"
    assert np.array_equal(np.fromfile(tmp_path / "dump", np.uint8), VALUES[::-1])


def test_a_part_with_gaps(server: Exporter, client: ts.Engine, tmp_path: Path) -> None:
    remote = client.connect(server.contact)["device"]
    part = filled(client, np.full(BYTES // 4 - 7, 255, "u1"), "device0")
    client.copy(part, remote[28::4]).wait(timeout=20)
    expected = VALUES.copy()
    expected[28::4] = 255
    assert server.ask(f"dump device {tmp_path / 'dump'}") == "done"
    assert np.array_equal(np.fromfile(tmp_path / "dump", np.uint8), expected)


def test_it_is_a_hop_between_gpus_on_one_machine(
    server: Exporter, client: ts.Engine, transport: str
) -> None:
    remote = client.connect(server.contact)["device"]
    target = client.empty(BYTES, "u1", memory="device0")
    path = client.plan(remote, target).explain().splitlines()[0]
    # The path may lead over a second GPU where that was measured to be faster.
    begin = "node1/host0 > node0/pinned0 > " if transport == "network" else "node0/device1 > "
    assert path.startswith(begin) and path.endswith("> node0/device0")


def test_a_kernel_ends_a_path_over_another_gpu(server: Exporter, tmp_path: Path) -> None:
    """The kernel runs on the GPU on which the peer's array is opened."""
    with ts.Engine(emulated_gpus=EMULATED, threads=2) as usual:
        profile = json.loads(usual.profile)
    for channel in profile["channels"]:
        if channel["name"] == "gpu_write device1":
            channel["samples"] = [[total, run, 1e6] for total, run, _ in channel["samples"]]
    with ts.Engine(profile=json.dumps(profile), emulated_gpus=EMULATED, threads=2) as engine:
        remote = engine.connect(server.contact)["device"]
        event = engine.copy(np.full(BYTES // 4, 255, "u1"), remote[::4], planner="full")
        event.wait(timeout=20)
        assert re.search(r"> node0/device[023] > node0/device1", str(event.plan))
    expected = VALUES.copy()
    expected[::4] = 255
    assert server.ask(f"dump device {tmp_path / 'dump'}") == "done"
    assert np.array_equal(np.fromfile(tmp_path / "dump", np.uint8), expected)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_killed_exporter_is_named(server: Exporter, client: ts.Engine, moment: str) -> None:
    remote = client.connect(server.contact)["device"]
    target = client.empty(BYTES, "u1", memory="device0")
    if moment == "after":
        client.copy(remote, target).wait(timeout=20)
    server.kill()
    with pytest.raises(ts.PeerLost, match=str(server.process.pid)):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:  # Copies succeed until the exit of the peer is noticed.
            client.copy(remote, target).wait(timeout=20)


def memory_of_others() -> int:
    """Returns the number of mappings of shared memory in this process."""
    return Path("/proc/self/maps").read_text().count("/memfd:tranship")


def test_a_withdrawn_array_is_not_touched_again(
    server: Exporter, client: ts.Engine, transport: str
) -> None:
    peer = client.connect(server.contact)
    target = client.empty(BYTES, "u1", memory="device0")
    before = memory_of_others()
    remote = peer["device"]
    looked_up = memory_of_others()
    client.copy(remote, target).wait(timeout=20)
    if EMULATED and transport == "automatic":
        # The GPU of this process's own array carries the copy, and finds the array by itself.
        assert memory_of_others() == looked_up + 1
    assert server.ask("withdraw device") == "done"
    # The exporter may free the memory after `withdraw`: no other process has it open.
    if EMULATED and transport == "automatic":
        assert memory_of_others() == before
    source = filled(client, np.zeros(BYTES, "u1"), "device0")
    with pytest.raises(ts.NotFound, match=r"no longer|withdr"):
        client.copy(source, remote).wait(timeout=20)
    assert server.ask("sum device") == str(VALUES.sum(dtype=np.int64))


def assert_pinned_at_once(event: ts.Event) -> None:
    """Checks that a copy from a GPU to pinned memory does not pass through pageable memory."""
    path = str(event.plan)
    assert path.startswith("node0/device0 >") and path.endswith("> node0/pinned0")
    assert "host0" not in path


def test_shared_memory_is_pinned(
    server: Exporter, client: ts.Engine, transport: str, tmp_path: Path
) -> None:
    remote = client.connect(server.contact)["shared"]
    source = filled(client, VALUES[::-1].copy(), "device0")
    event = client.copy(source, remote)
    event.wait(timeout=20)
    if transport == "automatic":
        assert_pinned_at_once(event)
    assert server.ask(f"dump shared {tmp_path / 'dump'}") == "done"
    assert np.array_equal(np.fromfile(tmp_path / "dump", np.uint8), VALUES[::-1])
    mine = client.empty(BYTES, "u1")
    event = client.copy(source, mine)
    event.wait(timeout=20)
    assert np.array_equal(mine, VALUES[::-1])
    assert_pinned_at_once(event)


def test_an_engine_reads_its_own_gpu(transport: str) -> None:
    with ts.Engine(contact=True, emulated_gpus=EMULATED, transport=transport, threads=2) as engine:
        engine.export("own", filled(engine, VALUES, "device0"))
        remote = engine.connect(engine.contact)["own"]
        assert np.array_equal(content(engine, remote), VALUES)


def test_a_gpu_that_this_process_does_not_see(server: Exporter, transport: str) -> None:
    """The process sees one GPU, as job schedulers arrange; the array lies on another one."""
    with ts.Engine(emulated_gpus=1, transport=transport, threads=2) as engine:
        remote = engine.connect(server.contact)["device"]
        target = filled(engine, np.zeros(BYTES, "u1"), "device0")
        engine.copy(remote, target).wait(timeout=20)
        assert np.array_equal(content(engine, target), VALUES)
        engine.copy(filled(engine, VALUES[::-1].copy(), "device0"), remote).wait(timeout=20)
        assert server.ask("sum device") == str(VALUES.sum(dtype=np.int64))
        assert np.array_equal(content(engine, remote), VALUES[::-1])


def test_a_copy_between_two_other_processes() -> None:
    """Of which this process owns neither array: one of its GPUs finds both."""
    values = np.random.default_rng(6).random((64, 32))
    profile = fixed_gpu_profile() if EMULATED else None
    with ExitStack() as stack:
        first, second, between = (
            stack.enter_context(ts.Engine(emulated_gpus=EMULATED, contact=True, profile=profile))
            for _ in range(3)
        )
        peers = [between.connect(one.contact) for one in (first, second)]
        for here, there in itertools.product(("device0", "device1"), repeat=2):
            name = f"{here} {there}"
            first.export(name, filled(first, values, here))
            target = filled(second, np.zeros_like(values), there)
            second.export(name, target)
            source, remote = (peer[name] for peer in peers)
            event = between.copy(source, remote)
            event.wait(timeout=20)
            assert str(event.plan) == f"node0/{here} > node0/{there}"
            assert np.array_equal(content(second, target), values)
            second.copy(np.zeros_like(values), target).wait(timeout=20)
            ready = between.prepare_all([(source[:10], remote[:10]), (source[10:], remote[10:])])
            for _ in range(2):
                ready.start(stream=1).wait(timeout=20)
            assert np.array_equal(content(second, target), values)
        first.export("late", filled(first, values, "device0"))
        second.export("late", filled(second, values, "device1"))
        source, remote = (peer["late"] for peer in peers)
        first.close()
        with pytest.raises(ts.Closed, match="closed its engine"):
            end = time.monotonic() + PATIENCE
            while time.monotonic() < end:  # Copies succeed until the end of the peer is noticed.
                between.copy(source, remote).wait(timeout=20)


def test_a_closed_connection_lets_the_peers_array_go(transport: str) -> None:
    """Though this process has opened it on a GPU, and nobody has waited for the last copy."""
    with (
        ts.Engine(emulated_gpus=EMULATED, contact=True, listen="127.0.0.1:0") as owner,
        ts.Engine(emulated_gpus=EMULATED, transport=transport) as client,
    ):
        array = filled(owner, np.zeros(BYTES, "u1"), "device1")
        source = filled(client, VALUES, "device0")
        owner.export("array", array)
        peer = client.connect(owner.contact)
        remote = peer["array"]
        client.copy(source, remote).wait(timeout=20)
        assert np.array_equal(content(owner, array), VALUES)
        client.copy(source, remote)
        peer.close()
        owner.withdraw("array")  # raises if a peer may still use it
        with pytest.raises(ts.Error):
            client.copy(source, remote).wait(timeout=20)
