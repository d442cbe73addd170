"""The staging service between processes: gets return the bytes that were put, or an error."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from staging_servers import PATIENCE, Servers, times_out

import tranship as ts
from support import SOON_S, eventually

WRITER = """
import sys, time
import numpy as np
import tranship as ts
staging = ts.Staging(sys.argv[1])
staging.put("energy", 1, np.full((4, 8), 1.0), (0, 0))
staging.put("energy", 2, np.full((2, 8), 2.0), (0, 0))
print("ready", flush=True)
if sys.stdin.readline() == "close\\n":
    staging.close()
"""


@pytest.fixture(params=[1, 3])
def staging(serve: Servers, request: pytest.FixtureRequest) -> Iterator[ts.Staging]:
    """Yields a client of one server, and of a group."""
    contact = serve("--memory", "256MiB", "--servers", str(request.param))
    with ts.Staging(contact, threads=2) as client:
        yield client


def start_writer(contact: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(contact)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def say(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line)
    process.stdin.flush()


def test_round_trip(staging: ts.Staging) -> None:
    for dtype in ("u1", "i2", "f4", "f8", "c16"):
        for shape in ((), (7,), (40, 60), (3, 4, 5, 6), (2,) * 8, (300, 500)):
            count = int(np.prod(shape))
            values = (np.arange(count) % 251).astype(dtype).reshape(shape)
            name = f"{dtype} {shape}"
            staging.put(name, -3, values)
            got = staging.get(name, -3)
            assert got.dtype == values.dtype and np.array_equal(got, values)


def test_any_strides_on_either_side(staging: ts.Staging) -> None:
    rng = np.random.default_rng(1)
    for n in (12, 400):  # The small object is sent inside a message, the large one copied.
        whole = rng.random((2 * n, 3 * n))
        part = whole[::2, ::-3].T
        staging.put(f"strided {n}", 1, part, (-5, 10**12))
        out = np.zeros((2 * n, n)).T[:, ::2]
        got = staging.get(f"strided {n}", 1, (-5, 10**12), (n - 5, n + 10**12), out)
        assert got is out and np.array_equal(out, part)


def test_any_decomposition_gives_the_same(staging: ts.Staging) -> None:
    rng = np.random.default_rng(2)
    domain = rng.random((90, 70, 50), dtype=np.float32)
    for a in range(0, 90, 30):
        for b in range(0, 70, 14):
            for c in range(0, 50, 25):
                part = domain[a : a + 30, b : b + 14, c : c + 25]
                staging.put("density", 7, part, (a, b, c))
    assert np.array_equal(staging.get("density", 7), domain)
    for _ in range(40):
        lower = rng.integers(0, (89, 69, 49))
        upper = rng.integers(lower + 1, (91, 71, 51))
        cut = tuple(slice(a, b) for a, b in zip(lower, upper, strict=True))
        got = staging.get("density", 7, tuple(map(int, lower)), tuple(map(int, upper)))
        assert np.array_equal(got, domain[cut])
    assert np.array_equal(staging["density"][7, 5:80, :, 9], domain[5:80, :, 9])
    assert np.array_equal(staging["density"]["latest", 5], domain[5])


def test_of_overlapping_boxes_the_last_is_seen(staging: ts.Staging) -> None:
    expected = np.zeros((200, 200))
    staging.put("overlap", 1, expected)
    rng = np.random.default_rng(3)
    for k in range(30):
        a, b = (int(x) for x in rng.integers(0, 150, 2))
        block = np.full((50, 50), float(k))
        staging.put("overlap", 1, block, (a, b))
        expected[a : a + 50, b : b + 50] = k
    assert np.array_equal(staging.get("overlap", 1), expected)


def test_a_get_without_patience_gets_what_is_there(
    serve: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy out of a server on another machine may last longer than the wait for the data."""
    monkeypatch.setenv("TRANSHIP_LISTEN", "127.0.0.1:0")
    values = np.random.default_rng(5).random(2_000_000)
    with ts.Staging(serve(), transport="network") as staging:
        staging.put("there", 1, values)
        for _ in range(5):  # once a second may pass, on a machine that stands still
            try:
                assert np.array_equal(staging.get("there", 1, timeout=0), values)
                break
            except ts.Timeout:
                continue
        else:
            pytest.fail("no copy has ended")
        times_out(lambda: staging.get("there", 2, timeout=0), "is not there")


def test_a_get_waits_until_its_whole_box_is_there(serve: Servers) -> None:
    contact = serve()
    with ts.Staging(contact) as writer, ts.Staging(contact) as reader:
        got: list[Any] = []
        thread = threading.Thread(
            target=lambda: got.append(reader.get("late", 1, (0,), (200_000,), timeout=PATIENCE))
        )
        thread.start()
        half = np.arange(100_000.0)
        for lower in (0, 100_000):
            time.sleep(0.1)
            assert not got
            writer.put("late", 1, half + lower, (lower,))
        thread.join(PATIENCE)
        assert np.array_equal(got[0], np.arange(200_000.0))
        times_out(
            lambda: reader.get("late", 1, (0,), (200_001,), timeout=0.2),
            r"version 1 of \"late\" lacks \(200000:200001\)",
        )
        times_out(lambda: reader.get("never", 1, timeout=0.2), "nothing has been put")


def test_versions_are_followed_to_the_end(serve: Servers) -> None:
    contact = serve()
    with ts.Staging(contact) as reader:
        writer = start_writer(contact)
        versions = reader["energy"].versions(timeout=PATIENCE)
        assert next(versions) == 1
        with ts.Staging(contact) as other:
            other.put("energy", 2, np.full((2, 8), 2.0), (2, 0))
            assert next(versions) == 2
            assert np.array_equal(reader.get("energy", 2), np.full((4, 8), 2.0))
        say(writer, "close\n")
        assert list(versions) == []
        assert writer.wait(PATIENCE) == 0


def test_writers_that_close_at_the_same_moment_have_ended(serve: Servers) -> None:
    contact = serve()
    with ts.Staging(contact) as reader:
        for after in range(2):
            writers = [start_writer(contact) for _ in range(4)]
            for writer in writers:
                say(writer, "close\n")
            with pytest.raises(ts.Closed, match="all processes that put to it have ended"):
                reader.get("energy", 3 + after, (0, 0), (4, 8), timeout=PATIENCE)
            assert [writer.wait(PATIENCE) for writer in writers] == [0] * 4


def test_the_death_of_a_writer_is_told_from_its_end(serve: Servers) -> None:
    contact = serve()
    with ts.Staging(contact) as reader:
        writer = start_writer(contact)
        writer.kill()
        writer.wait(PATIENCE)
        begin = time.monotonic()
        with pytest.raises(ts.PeerLost, match="has died"):
            reader.get("energy", 2, timeout=PATIENCE)
        assert time.monotonic() - begin < SOON_S
        assert np.array_equal(reader.get("energy", 1), np.full((4, 8), 1.0))  # Version 1 stays.


def wait_in_vain(client: ts.Staging) -> None:
    with pytest.raises((ts.PeerLost, ts.Closed)):
        client.get("energy", 3, (0,), (4,), timeout=PATIENCE)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_end_of_a_server_ends_what_waits(serve: Servers, number: signal.Signals) -> None:
    contact = serve()
    with ts.Staging(contact) as client, ts.Staging(contact) as other:
        client.put("energy", 1, np.zeros(4))
        waiting = threading.Thread(target=wait_in_vain, args=(other,))
        waiting.start()
        server = serve.processes[0]
        threading.Timer(0.2, lambda: server.send_signal(number)).start()
        begin = time.monotonic()
        with pytest.raises((ts.PeerLost, ts.Closed)):
            client.get("energy", 2, (0,), (4,), timeout=PATIENCE)
        assert time.monotonic() - begin < SOON_S
        with pytest.raises((ts.PeerLost, ts.Closed)):
            client.put("energy", 3, np.zeros(4))
        server.wait(PATIENCE)
        waiting.join(PATIENCE)
        assert not waiting.is_alive()
    if number == signal.SIGKILL:
        with pytest.raises(ts.PeerLost, match="can be removed"):
            ts.Staging(contact)
    else:
        assert not contact.exists()


def test_a_full_server_lets_puts_wait(serve: Servers) -> None:
    contact = serve("--memory", "8MiB")
    block = np.ones(500_000)
    with ts.Staging(contact) as writer, ts.Staging(contact) as other:
        writer.put("x", 1, block)
        writer.put("x", 2, block)
        times_out(lambda: writer.put("x", 3, block, timeout=0.2), "is full")
        times_out(lambda: writer.put("y", 1, np.ones(60_000), (0,), timeout=0.2), "is full")
        threading.Timer(0.2, lambda: other.discard("x", 1)).start()
        writer.put("x", 3, 3 * block, timeout=PATIENCE)
        assert np.array_equal(other.get("x", 3), 3 * block)
        with pytest.raises(ts.NotFound, match="was discarded; held are 2 to 3"):
            other.get("x", 1)
        with pytest.raises(ts.Error, match="does not fit the server"):
            writer.put("z", 1, np.ones(2_000_000))


def test_old_versions_make_room_if_the_server_is_told_so(serve: Servers) -> None:
    contact = serve("--memory", "8MiB", "--full", "discard-oldest", "--versions", "5")
    with ts.Staging(contact) as client:
        for version in range(20):
            client.put("x", version, np.full(300_000, float(version)))
            assert np.array_equal(client.get("x", "latest"), np.full(300_000, float(version)))
        for version in range(20, 40):
            client.put("y", version, np.full(3, float(version)))
        held = [v["version"] for v in client.ls()[1]["versions"]]
        assert held == [35, 36, 37, 38, 39]


def test_many_processes_and_threads_at_once(serve: Servers) -> None:
    contact = serve("--memory", "64MiB")
    failures: list[str] = []

    def work(k: int) -> None:
        with ts.Staging(contact, threads=1) as client:
            for version in range(10):
                size = 3000 if k % 2 else 30_000
                client.put("shared", version, np.full(size, k * 100.0 + version), (k * 30_000,))
                low = k * 30_000
                got = client.get("shared", version, (low,), (low + size,))
                if not (got == k * 100.0 + version).all():
                    failures.append(f"{k} {version}")

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not failures


def test_arrays_on_gpus(serve: Servers) -> None:
    contact = serve()
    values = np.random.default_rng(4).random((300, 200))
    with (
        ts.Engine(emulated_gpus=1, threads=2) as engine,
        ts.Staging(contact, engine=engine) as client,
    ):
        device = engine.empty(values.shape, memory="device0")
        engine.copy(values, device).wait(timeout=PATIENCE)
        client.put("on a GPU", 1, device)
        client.put("small", 1, device[:10, :10])
        assert np.array_equal(client.get("on a GPU", 1), values)
        assert np.array_equal(client.get("small", 1), values[:10, :10])
        turned = engine.empty((200, 300), memory="device0")
        client.get("on a GPU", 1, (0, 0), (300, 200), turned.transpose((1, 0)))
        assert isinstance(turned, ts.DeviceArray) and np.array_equal(turned.numpy(), values.T)


def test_what_does_not_fit_is_refused(staging: ts.Staging) -> None:
    staging.put("a", 1, np.zeros((4, 4)))
    with pytest.raises(ts.InvalidArgument, match="elements of f8, not of f4"):
        staging.put("a", 2, np.zeros((4, 4), "f4"))
    with pytest.raises(ts.InvalidArgument, match="has 2 dimensions"):
        staging.put("a", 2, np.zeros(4))
    with pytest.raises(ts.InvalidArgument, match="lower corner has 1"):
        staging.put("a", 2, np.zeros((4, 4)), (0,))
    with pytest.raises(ts.InvalidArgument, match="shape is not that of the box"):
        staging.get("a", 1, (0, 0), (4, 4), np.zeros((4, 3)))
    with pytest.raises(ts.InvalidArgument, match="elements of f8, and the target of f4"):
        staging.get("a", 1, (0, 0), (4, 4), np.zeros((4, 4), "f4"))
    fixed = np.zeros((4, 4))
    fixed.flags.writeable = False
    with pytest.raises(ts.InvalidArgument, match="read-only"):
        staging.get("a", 1, (0, 0), (4, 4), fixed)
    with pytest.raises(ts.InvalidArgument, match=r"read-only|broadcast"):
        staging.get("a", 1, (0, 0), (4, 4), np.broadcast_to(np.zeros(4), (4, 4)))
    with pytest.raises(ts.InvalidArgument, match="shape is not that of the box"):
        staging.get("a", 1, (), (), np.zeros((4, 4)))
    with pytest.raises(ts.InvalidArgument, match="no steps"):
        staging["a"][1, ::2]
    assert [info["name"] for info in staging.ls()] == ["a"]


def test_what_is_no_server_is_said_so(profile: str) -> None:
    with (
        ts.Engine(contact=True, threads=1) as engine,
        pytest.raises(ts.Error, match="no staging server"),
    ):
        ts.Staging(engine.contact)
    with pytest.raises(ts.NotFound):
        ts.Staging("nowhere.contact", timeout=0.2)


def test_on_the_command_line(serve: Servers, tmp_path: Path) -> None:
    contact = str(serve())
    values = np.random.default_rng(5).random((20, 30))
    np.save(tmp_path / "in.npy", values)

    def run(*words: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "tranship.cli", *words],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "COLUMNS": "200"},
        )
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    run("put", contact, "field", "3", str(tmp_path / "in.npy"), "--lower", "100,0")
    listed = run("ls", contact)
    assert "field" in listed and "100:120, 0:30" in listed and "1 (3)" in listed
    out = tmp_path / "out.npy"
    run("get", contact, "field", "latest", str(out), "--lower", "105,2", "--upper", "110,30")
    assert np.array_equal(np.load(out), values[5:10, 2:])
    run("put", contact, "field", "-1", str(tmp_path / "in.npy"), "--lower", "100,0")
    told = json.loads(run("get", contact, "field", "-1", str(out), "--json"))
    assert (told["version"], told["bytes"], told["file"]) == (-1, values.nbytes, str(out))
    told = json.loads(run("put", contact, "field", "--json", "-2", str(tmp_path / "in.npy")))
    assert told["version"] == -2 and told["shape"] == list(values.shape)
    unwritable = run(
        "get", contact, "field", "3", str(tmp_path / "no" / "out.npy"),
        "--lower", "100,0", "--upper", "120,30", code=1,
    )  # fmt: skip
    assert f"cannot make '{tmp_path}/no/out.npy'" in unwritable and "part" not in unwritable
    failed = run("get", contact, "field", "4", str(out), "--timeout", "0.2", code=1)
    assert "all processes that put to it have ended" in failed
    assert "is not a version" in run("get", contact, "field", "x", str(out), code=2)


def test_what_goes_on_behind_the_caller(staging: ts.Staging) -> None:
    steps = [np.full((256, 64), step, "f8") for step in range(12)]
    begun = [staging.put_async("field", step, values) for step, values in enumerate(steps)]
    later = staging.get_async("field", 12, (0, 0), (256, 64), timeout=PATIENCE)
    for one in begun:
        one.result(timeout=PATIENCE)
    got = [staging.get_async("field", step) for step in range(12)]
    for values, one in zip(steps, got, strict=True):
        assert np.array_equal(one.result(timeout=PATIENCE), values)
    assert not later.done()
    staging.put("field", 12, steps[3])
    assert np.array_equal(later.result(timeout=PATIENCE), steps[3])
    with pytest.raises(ts.InvalidArgument, match="2 dimensions"):
        staging.put_async("field", 13, np.zeros(3)).result(timeout=PATIENCE)


def test_close_waits_for_what_was_begun(serve: Servers) -> None:
    contact = serve("--memory", "256MiB")
    with ts.Staging(contact, threads=2) as writer:
        for step in range(8):
            writer.put_async("field", step, np.full((512, 512), step, "f8"))
    with pytest.raises(ts.Closed):
        writer.put_async("field", 9, np.zeros((2, 2)))
    with ts.Staging(contact, threads=2) as reader:
        for step in range(8):
            assert (reader.get("field", step) == step).all()


def test_a_subscription_gets_every_version_in_order_and_ends(serve: Servers) -> None:
    contact = serve("--memory", "256MiB")
    seen: list[tuple[int, float]] = []
    with ts.Staging(contact, threads=2) as reader, ts.Staging(contact, threads=2) as writer:
        subscription = reader.subscribe("field", lambda n, part: seen.append((n, part.sum())))
        for step in range(20):
            writer.put("field", step, np.full((64, 4), step, "f8"))
        with pytest.raises(ts.Timeout, match="has not ended"):
            subscription.wait(timeout=0.6)
        assert not subscription.ended
        writer.close()
        subscription.wait(timeout=PATIENCE)
        assert subscription.ended
    assert seen == [(step, 256.0 * step) for step in range(20)]


def test_a_subscription_can_be_ended_and_tells_what_its_callback_raised(
    staging: ts.Staging,
) -> None:
    waiting = staging.subscribe("nothing", lambda n, part: None)
    waiting.close()
    assert waiting.ended
    waiting.wait()

    def fail(version: int, part: Any) -> None:
        raise ValueError(f"no use for {version} of {part.shape}")

    staging.put("field", 5, np.zeros((2, 3)))
    failing = staging.subscribe("field", fail)
    with pytest.raises(ValueError, match=r"no use for 5 of \(2, 3\)"):
        failing.wait(timeout=PATIENCE)


def test_a_subscription_to_a_killed_writer_says_so(serve: Servers) -> None:
    contact = serve("--memory", "256MiB")
    versions: list[int] = []
    with ts.Staging(contact, threads=2) as reader:
        writer = start_writer(contact)
        subscription = reader.subscribe(
            "energy", lambda n, part: versions.append(n), lower=(0, 0), upper=(4, 8)
        )
        assert eventually(lambda: bool(versions))
        writer.kill()
        writer.wait(timeout=PATIENCE)
        with pytest.raises(ts.PeerLost):
            subscription.wait(timeout=PATIENCE)
    assert versions == [1]


def test_a_box_of_more_objects_than_a_message_names(staging: ts.Staging) -> None:
    rows = np.arange(5000.0 * 16).reshape(5000, 16)
    for k, row in enumerate(rows):
        staging.put("rows", 1, row[None], (k, 0))
    assert np.array_equal(staging.get("rows", 1), rows)
    times_out(
        lambda: staging.get("rows", 1, (0, 0), (5001, 16), timeout=0.1), r"\(5000:5001, 0:16\)"
    )
    staging.discard("rows", 1)
    assert staging.ls()[0]["versions"] == []
