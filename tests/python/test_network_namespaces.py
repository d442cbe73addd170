"""Servers in another network namespace: unlike the loopback, that network can be cut."""

from __future__ import annotations

import random
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from staging_servers import PATIENCE, Servers

import tranship as ts
from support import SOON_S
from tranship_bench.processes.namespaces import (
    Link,
    network_namespace,
    why_no_namespaces,
)

KEY = "2a" * 32


@pytest.fixture
def namespace() -> Iterator[Link]:
    if why := why_no_namespaces():
        pytest.skip(why)
    with network_namespace("a test") as made:
        yield made


@pytest.fixture
def far_server(
    namespace: Link, profile: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Path]]:
    """Yields a `Servers`, whose servers run in the namespace and listen on its address."""
    monkeypatch.setenv("TRANSHIP_LISTEN", f"{namespace.there}:0")
    monkeypatch.setenv("TRANSHIP_KEY", KEY)
    servers = Servers(tmp_path, namespace.prefix)
    yield servers
    servers.end()


def cut(namespace: Link, down: bool) -> None:
    """Takes the namespace's network interface down or up."""
    state = "down" if down else "up"
    command = [*namespace.prefix, "ip", "link", "set", namespace.interface, state]
    subprocess.run(command, check=True)


def drawn(rng: np.random.Generator) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
    """Draws an array of 4 bytes to some megabytes, of one to three dimensions."""
    rank = int(rng.integers(1, 4))
    shape = rng.integers(1, int(10 ** (rng.uniform(0, 6) / rank)) + 2, rank)
    return rng.integers(0, 1 << 31, tuple(shape), np.int32)


def test_putting_and_getting_between_two_networks(far_server: Callable[..., Path]) -> None:
    rng = np.random.default_rng(1)
    with ts.Staging(far_server()) as staging:
        for number in range(40):
            data = drawn(rng)
            staging.put(f"of {number}", 0, data)
            assert np.array_equal(staging.get(f"of {number}", 0), data)


def test_a_network_that_is_cut_for_a_moment_loses_nothing(
    far_server: Callable[..., Path], namespace: Link
) -> None:
    contact = far_server()
    cuts = 0

    def cut_and_mend() -> None:
        nonlocal cuts
        draw = random.Random(2)
        for _ in range(5):  # endless cuts could meet each resend of the kernel's
            time.sleep(draw.uniform(0.05, 0.5))
            cut(namespace, True)
            time.sleep(draw.uniform(0.0, 0.5))
            cut(namespace, False)
            cuts += 1

    cutter = threading.Thread(target=cut_and_mend)
    rng = np.random.default_rng(3)
    with ts.Staging(contact, reconnect_ms=30_000) as staging:
        cutter.start()
        try:
            begin = time.monotonic()
            version = 0
            while cutter.is_alive() and time.monotonic() - begin < PATIENCE:
                data = drawn(rng)
                name = f"of {version}"
                staging.put(name, version, data, timeout=PATIENCE)
                assert np.array_equal(staging.get(name, version, timeout=PATIENCE), data)
                version += 1
        finally:
            cutter.join()
    assert cuts == 5 and version > 0


def test_a_network_that_stays_cut_is_an_error_soon(
    far_server: Callable[..., Path], namespace: Link
) -> None:
    contact = far_server()
    data = np.arange(1 << 20, dtype=np.int32)
    staging = ts.Staging(contact)
    staging.put("kept", 0, data)
    cut(namespace, True)
    begin = time.monotonic()
    with pytest.raises((ts.Timeout, ts.PeerLost)):
        staging.put("lost", 0, data, timeout=1.0)
    assert time.monotonic() - begin < SOON_S
    begin = time.monotonic()
    staging.close()
    assert time.monotonic() - begin < SOON_S
    cut(namespace, False)
    with ts.Staging(contact) as another:
        assert np.array_equal(another.get("kept", 0), data)
        another.put("lost", 0, data, timeout=PATIENCE)
        assert np.array_equal(another.get("lost", 0), data)
