"""Faults of staging clients and servers: other clients go on, and errors say why not."""

from __future__ import annotations

import itertools
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from staging_servers import PATIENCE, Servers, times_out

import tranship as ts
from support import SOON_S, eventually, stop

READER = """
import sys
import numpy as np
import tranship as ts
with ts.Staging(sys.argv[1], name="reader") as staging:
    out = np.empty((4096, 2048))
    staging.get("large", int(sys.argv[2]), (0, 0), out.shape, out)
    print("ready", flush=True)
    while True:
        staging.get("large", int(sys.argv[2]), (0, 0), out.shape, out)
"""
LARGE = (4096, 2048)
"""Shape of 64 MiB of float64, whose copy takes far longer than a request without data."""
ATTEMPTS = 20


def restart(serve: Servers, contact: Path, *options: str) -> None:
    """Kills the server started last, starts another one with its contact file, and waits for it."""
    serve.processes[-1].kill()
    serve.processes[-1].wait(PATIENCE)
    process = serve.start("--contact", str(contact), *options)
    assert process.stdout is not None and process.stdout.readline().startswith("serving at")


def free_port() -> int:
    """Returns a port that is free, and that no process is given which asks for any port."""
    while True:
        port = random.randrange(20000, 32768)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def test_a_restarted_server_has_new_clients_and_tells_old_ones(serve: Servers) -> None:
    contact = serve()
    old_file = contact.with_name("old.contact")
    old_file.write_bytes(contact.read_bytes())
    old = ts.Staging(contact)
    old.put("energy", 1, np.arange(4.0))
    waiting = old.get_async("energy", 2, (0,), (4,), timeout=PATIENCE)
    restart(serve, contact)
    with ts.Staging(contact) as new:
        # The new server is empty.
        times_out(lambda: new.get("energy", 1, (0,), (4,), timeout=0.1), "nothing has been put")
        new.put("energy", 1, np.full(4, 7.0))
        with pytest.raises(ts.PeerLost, match=r"process \d+ on .* was lost"):
            waiting.result(PATIENCE)
        for work in (lambda: old.put("energy", 3, np.zeros(4)), lambda: old.get("energy", 1)):
            with pytest.raises(ts.PeerLost, match=r"process \d+ on .* was lost"):
                work()
        with pytest.raises(ts.PeerLost, match=r"wrote the contact file .* is gone"):
            ts.Staging(old_file)
        assert np.array_equal(new.get("energy", 1), np.full(4, 7.0))
    old.close()


def test_an_old_contact_file_does_not_lead_to_another_server(serve: Servers) -> None:
    """An exited server of another machine may have a successor at its address, unnoticed."""
    address = f"127.0.0.1:{free_port()}"
    config = serve.folder / "staging.toml"
    key = "1f" * 32
    config.write_text(f'[settings]\nlisten = "{address}"\nkey = "{key}"\n')
    contact = serve("--config", str(config))
    text = contact.read_text()
    assert address in text
    elsewhere = contact.with_name("elsewhere.contact")
    assert key not in text  # The key comes from the settings.
    moved = re.sub(r"(?m)^address .*$", f"address tcp:{address}", text)
    elsewhere.write_text(re.sub(r"(?m)^boot .*$", "boot of-yesterday", moved))
    with pytest.raises(ts.Error, match="has another key"):
        ts.Staging(elsewhere)
    restart(serve, contact, "--config", str(config))
    with pytest.raises(ts.PeerLost, match="another one listens at its address; use the contact"):
        ts.Staging(elsewhere, key=key)
    with ts.Staging(contact) as client:
        client.put("energy", 1, np.arange(4.0))
        assert np.array_equal(client.get("energy", 1), np.arange(4.0))
    with ts.Staging(address, key=key) as client:  # An address has no identity to check.
        assert np.array_equal(client.get("energy", 1), np.arange(4.0))


def stopped_while_it_reads(reader: subprocess.Popen[str], writer: ts.Staging, version: int) -> bool:
    """Stops a reader; returns whether its lease keeps the version that it reads."""
    time.sleep(random.uniform(0.0, 0.02))
    stop(reader)
    writer.discard("large", version)
    time.sleep(0.3)  # It may have given its lease back just before it was stopped.
    return int(writer.servers()[0]["memory_used"]) >= 8 * LARGE[0] * LARGE[1]


@pytest.mark.parametrize("transport", ["automatic", "network"])
def test_a_reader_killed_within_a_get_leaves_nothing_behind(
    serve: Servers, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRANSHIP_TRANSPORT", transport)
    contact = serve("--memory", "96MiB")  # The memory holds one large version.
    block = np.random.default_rng(1).random(LARGE)
    with ts.Staging(contact) as writer, ts.Staging(contact) as other:
        for version in range(ATTEMPTS):
            writer.put("large", version, block, timeout=PATIENCE)
            reader = subprocess.Popen(
                [sys.executable, "-c", READER, str(contact), str(version)],
                stdout=subprocess.PIPE,
                text=True,
            )
            assert reader.stdout is not None and reader.stdout.readline() == "ready\n"
            within = stopped_while_it_reads(reader, writer, version)
            if within:
                writer.put("small", 1, np.arange(9.0))
                assert np.array_equal(other.get("small", 1), np.arange(9.0))
                later = version + 1
                times_out(lambda v=later: writer.put("large", v, block, timeout=0.1), "is full")
            reader.kill()
            reader.wait(PATIENCE)
            if within:
                begin = time.monotonic()
                writer.put("large", ATTEMPTS, block, timeout=PATIENCE)
                assert time.monotonic() - begin < SOON_S
                assert np.array_equal(other.get("large", ATTEMPTS), block)
                assert other.servers()[0]["clients"] == 2
                return
    pytest.fail(f"the reader was not once within a get when it was stopped, of {ATTEMPTS} times")


def test_what_a_server_grants_too_late_is_given_back(
    serve: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRANSHIP_PEER_TIMEOUT_MS", "60000")
    monkeypatch.setenv("TRANSHIP_SLOTS_PER_PEER", "2")  # There are fewer slots than requests.
    contact = serve("--memory", "16MiB")
    half = np.arange(1 << 20, dtype="f8")
    few = np.arange(1 << 14, dtype="f8")  # 128 KiB
    with ts.Staging(contact) as late, ts.Staging(contact) as other:
        late.put("energy", 1, half)
        stop(serve.processes[0])
        try:
            futures = [
                late.put_async("energy", 2, few, timeout=2.0),
                late.get_async("energy", 1, (0,), half.shape, timeout=2.0),
                late.put_async("energy", 5, few, timeout=2.0),
                late.put_async("energy", 6, few, timeout=2.0),
            ]
            for future in futures:
                with pytest.raises(ts.Timeout, match="did not answer within"):
                    future.result(PATIENCE)
        finally:
            serve.processes[0].send_signal(signal.SIGCONT)
        # Room of the puts and lease of the get are released, though their client is connected.
        other.put("energy", 3, half, timeout=PATIENCE)
        other.discard("energy", 1)
        other.put("energy", 4, half, timeout=PATIENCE)
        np.testing.assert_array_equal(late.get("energy", 3), half)


def test_a_get_of_what_comes_later_outlasts_a_server_that_stands_still(serve: Servers) -> None:
    """Also while it asks whether another client is connected, who could put the variable."""
    contact = serve()
    with ts.Staging(contact) as reader, ts.Staging(contact) as writer, ThreadPoolExecutor() as pool:
        stop(serve.processes[0])
        found = pool.submit(reader.get, "late", 0)
        try:
            time.sleep(4)  # Both questions have ended by then, without an answer.
            assert not found.done()
        finally:
            serve.processes[0].send_signal(signal.SIGCONT)
        writer.put("late", 0, np.arange(4.0))
        assert np.array_equal(found.result(PATIENCE), np.arange(4.0))


@pytest.mark.parametrize("transport", ["automatic", "network"])
def test_a_server_that_stands_still_for_ten_seconds_costs_nothing(
    serve: Servers, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls with longer timeouts wait until the server goes on, and get the right data."""
    monkeypatch.setenv("TRANSHIP_TRANSPORT", transport)
    contact = serve("--memory", "256MiB")
    enough = threading.Event()
    done = [0] * 3

    def went_on(before: list[int]) -> bool:
        return all(now > then for now, then in zip(done, before, strict=True))

    def put_and_get(number: int) -> int:
        with ts.Staging(contact, threads=2) as client:
            for version in itertools.count():
                count = (64, 1 << 16, 1 << 20)[version % 3]
                data = np.arange(count) * 16 + number
                client.put(f"v{number}", version, data, timeout=PATIENCE)
                found = client.get(f"v{number}", version, (0,), (count,), timeout=PATIENCE)
                np.testing.assert_array_equal(found, data)
                client.discard(f"v{number}", version)
                done[number] += 1
                if enough.is_set():
                    return version
        raise AssertionError

    with ThreadPoolExecutor() as pool:
        work = [pool.submit(put_and_get, number) for number in range(3)]
        try:
            assert eventually(lambda: went_on([0] * 3))
            stop(serve.processes[0])
            before = list(done)
            time.sleep(10.5)
            serve.processes[0].send_signal(signal.SIGCONT)
            assert eventually(lambda: went_on(before))
        finally:
            enough.set()
        assert all(one.result(PATIENCE) > 0 for one in work)


def test_a_call_that_a_stopped_server_does_not_answer_ends_in_time(serve: Servers) -> None:
    contact = serve()
    with ts.Staging(contact) as client:
        client.put("energy", 1, np.arange(4.0))
        stop(serve.processes[0])
        try:
            begin = time.monotonic()
            with pytest.raises(ts.Timeout, match="did not answer within"):
                client.get("energy", 1, timeout=0.2)
            assert time.monotonic() - begin < SOON_S
        finally:
            serve.processes[0].send_signal(signal.SIGCONT)
        assert np.array_equal(client.get("energy", 1), np.arange(4.0))


@pytest.mark.parametrize(
    "words",
    [
        ("-c", "import tranship, sys; print(1, flush=True); tranship.Staging('none', timeout=60)"),
        ("-c", "import tranship, sys; print(1, flush=True);"
               "tranship.StagingServer('none', rank=1, servers=2)"),
    ],
    ids=["client", "server"],
)  # fmt: skip
def test_the_wait_for_a_contact_file_can_be_interrupted(
    profile: str, tmp_path: Path, words: tuple[str, ...]
) -> None:
    process = subprocess.Popen(
        [sys.executable, *words],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "1\n"
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    begin = time.monotonic()
    _, errors = process.communicate(timeout=PATIENCE)
    assert time.monotonic() - begin < SOON_S
    assert errors.rstrip().endswith("KeyboardInterrupt")
