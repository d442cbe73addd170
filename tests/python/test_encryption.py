"""Encrypted connections over TCP, and messages with a checksum, through a relay."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from exporters import Exporter
from relay import Relay
from staging_servers import PATIENCE, Servers

import tranship as ts
from support import SOON_S

KEY = "2a" * 32
MARKER = b"a text that nobody else may read"
BYTES = 1 << 20


@pytest.fixture
def over_network(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Returns a function that has processes started later use TCP, with these settings."""

    def configure(**settings: str) -> None:
        common = {"TRANSPORT": "network", "LISTEN": "127.0.0.1:0", "KEY": KEY}
        for name, value in (common | settings).items():
            monkeypatch.setenv(f"TRANSHIP_{name.upper()}", value)

    return configure


def network_address(contact: Path) -> str:
    found = re.search(r"tcp:(\S+)", contact.read_text())
    assert found is not None, contact.read_text()
    return found[1]


def marked(seed: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    data = np.random.default_rng(seed).integers(0, 256, BYTES, np.uint8)
    data[70_000 : 70_000 + len(MARKER)] = np.frombuffer(MARKER, np.uint8)
    return data


@pytest.mark.parametrize("tls", ["off", "on"])
def test_what_is_put_can_be_read_on_the_way_only_without_tls(
    serve: Servers, over_network: Callable[..., None], tls: str
) -> None:
    over_network(tls=tls)
    relay = Relay(network_address(serve()), marker=MARKER)
    with ts.Staging(relay.address) as staging:
        for version in range(3):
            staging.put("secret", version, marked(version))
        for version in range(3):
            assert np.array_equal(staging.get("secret", version), marked(version))
    assert relay.passed > 6 * BYTES
    assert relay.saw_marker == (tls == "off")
    relay.close()


def test_one_side_alone_does_not_encrypt(serve: Servers, over_network: Callable[..., None]) -> None:
    over_network(tls="on")
    encrypted = network_address(serve())
    over_network(tls="off")
    in_the_clear = network_address(serve())
    with pytest.raises(ts.Error, match="takes encrypted connections only: set TRANSHIP_TLS=1 here"):
        ts.Staging(encrypted, timeout=PATIENCE)
    with pytest.raises(ts.Error, match=r"does not encrypt its connections.*TRANSHIP_TLS=1 there"):
        ts.Staging(in_the_clear, tls=True, timeout=PATIENCE)
    for address, tls in ((encrypted, True), (in_the_clear, False)):  # The kinds match.
        with ts.Staging(address, tls=tls) as staging:
            staging.put("x", 1, np.arange(4.0))
            assert np.array_equal(staging.get("x", 1), np.arange(4.0))


def test_a_wrong_key_is_refused(serve: Servers, over_network: Callable[..., None]) -> None:
    over_network(tls="on")
    address = network_address(serve())
    with pytest.raises(ts.Error, match="use its contact file, or set"):
        ts.Staging(address, key="3b" * 32, timeout=PATIENCE)
    with ts.Staging(address) as staging:
        staging.put("x", 1, np.arange(4.0))


@pytest.mark.parametrize("protection", ["tls", "wire_checksum"])
def test_changed_bits_never_become_data(
    serve: Servers, over_network: Callable[..., None], protection: str
) -> None:
    over_network(reconnect_ms="10000", **{protection: "on"})
    relay = Relay(network_address(serve()), bytes_between_flips=2_000_000, seed=5)
    with ts.Staging(relay.address) as staging:
        for version in range(8):
            staging.put("x", version, marked(version), timeout=PATIENCE)
        for version in range(8):
            assert np.array_equal(staging.get("x", version, timeout=PATIENCE), marked(version))
    assert relay.flips >= 3 and relay.connections > 1
    relay.close()


def test_one_side_may_ask_for_checksums_of_both(
    exporter: Callable[..., Exporter], profile: str
) -> None:
    settings = {"TRANSHIP_KEY": KEY, "TRANSHIP_RECONNECT_MS": "10000"}
    other = exporter("--bytes", str(BYTES), **settings)
    relay = Relay(network_address(other.contact), bytes_between_flips=2_000_000, seed=2)
    with ts.Engine(
        profile=profile, transport="network", key=KEY, wire_checksum=True, reconnect_ms=10_000
    ) as engine:
        there = engine.connect(relay.address)["plain"]
        back = np.empty(BYTES, np.uint8)
        for seed in range(6):
            engine.copy(marked(seed), there).wait(timeout=PATIENCE)
            engine.copy(there, back).wait(timeout=PATIENCE)
            assert np.array_equal(back, marked(seed))
    assert relay.flips >= 2
    relay.close()


def test_an_encrypted_process_that_dies_is_lost_soon(
    exporter: Callable[..., Exporter], profile: str
) -> None:
    other = exporter("--bytes", str(BYTES), TRANSHIP_KEY=KEY, TRANSHIP_TLS="1")
    with ts.Engine(profile=profile, transport="network", key=KEY, tls=True) as engine:
        there = engine.connect(network_address(other.contact))["plain"]
        engine.copy(marked(1), there).wait(timeout=PATIENCE)
        other.kill()
        begin = time.monotonic()
        with pytest.raises(ts.PeerLost):
            engine.copy(marked(2), there).wait(timeout=PATIENCE)
        assert time.monotonic() - begin < SOON_S


def test_an_encrypted_process_that_stands_still_is_not_lost(
    exporter: Callable[..., Exporter], profile: str
) -> None:
    other = exporter("--bytes", str(BYTES), TRANSHIP_KEY=KEY, TRANSHIP_TLS="1")
    with ts.Engine(profile=profile, transport="network", key=KEY, tls=True) as engine:
        there = engine.connect(network_address(other.contact))["plain"]
        other.stop()
        copies = [engine.copy(marked(seed), there) for seed in range(3)]
        with pytest.raises(ts.Timeout):
            copies[-1].wait(timeout=0.5)
        other.go_on()
        copies[-1].wait(timeout=PATIENCE)


def test_nobody_who_says_nothing_keeps_a_caller_waiting(profile: str) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        ts.Engine(profile=profile, key=KEY, tls=True) as engine,
    ):
        begin = time.monotonic()
        with pytest.raises(ts.Error):
            engine.connect(f"127.0.0.1:{silent.getsockname()[1]}", timeout=0.5)
        assert time.monotonic() - begin < SOON_S


PROGRAM = """
import sys
import tranship as ts

try:
    if sys.argv[1] == "listen":
        ts.Engine(contact=True, listen="127.0.0.1:0", tls=True)
    else:
        ts.Engine(key="2a" * 32, tls=True).connect(sys.argv[1])
except ts.Error as error:
    print(error)
"""


@pytest.mark.parametrize("way", ["listen", "127.0.0.1:9"])
def test_a_machine_without_openssl_is_told_what_to_install(tmp_path: Path, way: str) -> None:
    for name in ("libssl.so.3", "libssl.so.1.1", "libssl.so"):
        (tmp_path / name).write_text("no library")
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, way],
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "tls=1 needs OpenSSL's libssl 1.1.1 or later" in ended.stdout, ended
    assert "install openssl" in ended.stdout
