"""Staging servers whose objects lie on GPUs.

GPUs are emulated, unless TRANSHIP_TEST_GPUS is "real".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpu_support import EMULATED, content, filled, two_gpus
from staging_servers import PATIENCE, Servers, times_out

import tranship as ts

Start = Callable[..., Path]


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Yields a `Servers`, whose servers have GPUs and listen on TCP."""
    if EMULATED:
        monkeypatch.setenv("TRANSHIP_EMULATED_GPUS", str(EMULATED))
    monkeypatch.setenv("TRANSHIP_LISTEN", "127.0.0.1:0")
    servers = Servers(tmp_path)
    yield servers
    servers.end()


@pytest.fixture(params=["automatic", "network", "no GPUs"])
def client(request: pytest.FixtureRequest) -> Iterator[ts.Engine]:
    """Yields engines of this machine: one opens the server's GPU memory, two do not."""
    kind = str(request.param)
    options: dict[str, Any] = {"transport": "network"} if kind == "network" else {}
    options |= {"gpus": False, "emulated_gpus": 0} if kind == "no GPUs" else {}
    with ts.Engine(**({"emulated_gpus": EMULATED, "threads": 2} | options)) as opened:
        yield opened


def places(engine: ts.Engine) -> list[str]:
    """Returns the memories in which the engine allocates arrays."""
    has_gpus = "device0" in str(engine.profile)
    return ["host", "device0", "device1"] if has_gpus else ["host"]


@two_gpus
def test_what_was_put_is_got_from_any_memory(serve: Start, client: ts.Engine) -> None:
    contact = serve("--memory-kind", "device1")
    values = np.random.default_rng(1).random((48, 40, 30))
    with ts.Staging(contact, engine=client) as staging:
        for version, place in enumerate(places(client)):
            for part in range(0, 48, 16):
                array = filled(client, values[part : part + 16], place)
                staging.put("energy", version, array, (part, 0, 0))
            for other in places(client):
                out = filled(client, np.zeros((40, 30, 20)), other)
                staging.get("energy", version, (5, 3, 1), (45, 33, 21), out=out[:, :30])
                assert np.array_equal(content(client, out[:, :30]), values[5:45, 3:33, 1:21])


def test_small_objects_are_copied_too(serve: Start, client: ts.Engine) -> None:
    contact = serve("--memory-kind", "device0")
    with ts.Staging(contact, engine=client) as staging:
        for version in range(5):
            staging.put("small", version, np.arange(7.0) + version, (version,))
            assert np.array_equal(
                staging.get("small", version, (version + 2,), (version + 5,)),
                np.arange(2.0, 5.0) + version,
            )
        times_out(lambda: staging.get("small", 3, (0,), (9,), timeout=0.3), "lacks")


def test_each_server_of_a_group_takes_a_gpu(serve: Start, client: ts.Engine) -> None:
    contact = serve("--servers", "2", "--memory-kind", "device")
    values = np.random.default_rng(2).integers(0, 255, (1024, 512), "u1")
    with ts.Staging(contact, engine=client) as staging:
        for y in range(0, 1024, 128):
            for x in range(0, 512, 128):
                staging.put("map", 1, values[y : y + 128, x : x + 128], (y, x))
        assert np.array_equal(staging.get("map", 1), values)
        assert all(server["memory_used"] > 0 for server in staging.servers())


def test_a_full_gpu_holds_writers_back(serve: Start, client: ts.Engine) -> None:
    contact = serve("--memory-kind", "device0", "--memory", "2MiB")
    values = np.ones(1 << 20, "u1")
    with ts.Staging(contact, engine=client) as staging:
        staging.put("a", 1, values)
        staging.put("a", 2, values)
        times_out(lambda: staging.put("a", 3, values, timeout=0.3), "full")
        staging.discard("a", 1)
        staging.put("a", 3, values * 3)
        assert np.array_equal(staging.get("a", 3), values * 3)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("disk", 'memory_kind=\'{}\' is not a memory hint: give "host", "device", "device0"'),
        ("device99", "objects cannot lie on GPU 99"),
        ("deviceX", 'memory_kind=\'{}\' is not a memory hint: give "host", "device", "device0"'),
    ],
)
def test_what_is_no_memory_is_refused(serve: Servers, tmp_path: Path, kind: str, text: str) -> None:
    process = serve.start("--contact", str(tmp_path / "no.contact"), "--memory-kind", kind)
    _, errors = process.communicate(timeout=PATIENCE)
    serve.processes.remove(process)
    assert process.returncode != 0
    assert text.format(kind) in " ".join(errors.split())
    assert not (tmp_path / "no.contact").exists()


@two_gpus
def test_objects_of_a_gpu_spill_and_come_back(serve: Start) -> None:
    contact = serve("--memory-kind", "device0", "--memory", "2MiB", "--full", "spill")
    with (
        ts.Engine(emulated_gpus=EMULATED, threads=2) as engine,
        ts.Staging(contact, engine=engine) as staging,
    ):
        for version in range(12):
            values = np.arange(64 * 1024.0) + version * 1e6
            staging.put("energy", version, filled(engine, values, "device0"), timeout=PATIENCE)
        assert staging.servers()[0]["spilled"] >= 8 * 512 * 1024
        for version in range(12):
            out = filled(engine, np.zeros(64 * 1024), "device1")
            staging.get("energy", version, out=out, timeout=PATIENCE)
            assert np.array_equal(content(engine, out), np.arange(64 * 1024.0) + version * 1e6)


@two_gpus
def test_a_client_that_closes_has_ended_and_not_died(serve: Start, client: ts.Engine) -> None:
    """Though it had opened the server's memory on its GPU."""
    contact = serve("--memory-kind", "device0")
    with ts.Staging(contact) as other:
        with ts.Staging(contact, engine=client) as writer:
            writer.put("energy", 1, np.ones(100))
            writer.get("energy", 1)
        assert list(other["energy"].versions(timeout=PATIENCE)) == [1]
        with pytest.raises(ts.Closed, match="have ended"):
            other.get("energy", 1, (0,), (200,), timeout=PATIENCE)
