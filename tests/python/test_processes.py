"""Arrays of other processes: reads, writes, slices; peers that die, stale contacts."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from exporters import Exporter

import tranship as ts
from support import PATIENCE, SOON_S, eventually, run_script

Start = Callable[..., Exporter]
LARGE_BYTES = 1 << 27


@pytest.fixture(params=["straight", "slots", "network", "sockets", "ucx"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Returns the way to the other process.

    "straight": threads that copy from and to its memory; "slots": shared slots; "network" and
    "sockets": one TCP socket or four; "ucx": UCX.
    """
    if request.param == "ucx":
        pytest.importorskip("libucx", reason="UCX is not installed: pip install libucx-cu12")
        monkeypatch.setenv("TRANSHIP_UCX", "shared")  # The exporter inherits this.
    if request.param == "sockets":
        monkeypatch.setenv("TRANSHIP_TCP_SOCKETS", "4")
    return str(request.param)


@pytest.fixture
def transport(way: str) -> str:
    return "network" if way in ("network", "sockets") else "automatic"


@pytest.fixture
def client(way: str, transport: str, queueing_profile: str) -> Iterator[ts.Engine]:
    """Yields an engine that reaches other processes in one way."""
    with ts.Engine(
        profile=queueing_profile,
        threads=2,
        transport=transport,
        peer_threads=2 if way == "straight" else 0,
    ) as engine:
        yield engine


def pattern(count: int) -> np.ndarray:
    return np.resize(np.arange(256, dtype=np.uint8), count)


@pytest.mark.parametrize("name", ["plain", "shared"])
def test_another_process_is_read_and_written(
    exporter: Start, client: ts.Engine, transport: str, name: str, tmp_path: Path
) -> None:
    count = 3_000_000
    other = exporter("--bytes", str(count), TRANSHIP_TRANSPORT=transport)
    peer = client.connect(other.contact)
    assert set(peer.names()) == {"plain", "shared", "fixed", "grid"} == set(peer)
    target = np.zeros(count, np.uint8)
    client.copy(peer[name], target).wait(timeout=20)
    assert np.array_equal(target, pattern(count))
    client.copy(np.full(1000, 7, np.uint8), peer[name][5000:25000:20]).wait(timeout=20)
    other.ask(f"dump {name} {tmp_path / 'dump'}")
    expected = pattern(count)
    expected[5000:25000:20] = 7
    assert np.array_equal(np.fromfile(tmp_path / "dump", np.uint8), expected)


def test_an_instance_in_blocks_of_another_process(exporter: Start, client: ts.Engine) -> None:
    other = exporter()
    grid = client.connect(other.contact)["grid"]
    assert grid.shape == (5, 3) and grid.dimensions == ("x", "y") and grid.layout == "x:4, F, y, x"
    values = np.zeros((5, 3), [("a", "u1"), ("b", "u2")])
    values["a"] = np.arange(15).reshape(5, 3)
    values["b"] = 1000 + np.arange(15).reshape(5, 3)
    client.copy(values, grid).wait(timeout=PATIENCE)
    back = np.zeros((2, 3), values.dtype)
    client.copy(grid[1:3], back).wait(timeout=PATIENCE)
    assert np.array_equal(back, values[1:3])
    assert other.ask("sum grid") == str(sum(values.tobytes()))


def test_many_small_copies_to_another_process(exporter: Start, client: ts.Engine) -> None:
    peer = client.connect(exporter("--bytes", "800").contact)
    target = np.zeros(8, np.uint8)
    for k in range(0, 800, 8):
        client.copy(peer["plain"][k : k + 8], target).wait(timeout=PATIENCE)
        assert np.array_equal(target, pattern(800)[k : k + 8])


@pytest.mark.parametrize("ends", ["withdraw", "kill", "close"])
@pytest.mark.parametrize("name", ["plain", "shared"])
@pytest.mark.parametrize("prepares", [False, True])
def test_small_copies_that_come_again_see_the_end(
    exporter: Start, client: ts.Engine, name: str, ends: str, prepares: bool
) -> None:
    other = exporter("--bytes", "800")
    array = client.connect(other.contact)[name][:8]
    here = np.zeros(8, np.uint8)
    starts = [lambda: client.copy(here, array), lambda: client.copy(array, here)]
    if prepares:
        starts = [client.prepare(here, array).start, client.prepare(array, here).start]
    for k in range(5):  # from the third on, the recipe is known
        here[:] = k
        starts[0]().wait(timeout=PATIENCE)
        here[:] = 77
        starts[1]().wait(timeout=PATIENCE)
        assert here.tolist() == [k] * 8
    assert other.ask(f"sum {name}") == str(8 * 4 + int(pattern(800)[8:].sum()))
    if ends == "withdraw":
        assert other.ask(f"withdraw {name}") == "done"
    elif ends == "kill":
        other.kill()
        assert eventually(lambda: fails(starts[0]))
    else:
        client.close()
    expected = {"withdraw": ts.NotFound, "kill": ts.PeerLost, "close": ts.Closed}[ends]
    for start in starts:
        with pytest.raises(expected):
            start().wait(timeout=PATIENCE)
    if ends == "close":
        assert other.ask(f"sum {name}") == str(8 * 4 + int(pattern(800)[8:].sum()))


def fails(start: Callable[[], ts.Event]) -> bool:
    try:
        start().wait(timeout=PATIENCE)
    except ts.Error:
        return True
    return False


def test_what_a_peer_does_not_export_or_let_write(exporter: Start, client: ts.Engine) -> None:
    other = exporter()
    peer = client.connect(other.contact)
    with pytest.raises(ts.NotFound, match=r"missing.*plain"):
        peer["missing"]
    before = other.ask("sum fixed")
    with pytest.raises(ts.InvalidArgument, match="read-only"):
        client.copy(np.zeros(1 << 16, np.uint8), peer["fixed"])
    with pytest.raises(ts.InvalidArgument, match="differ in extent"):
        client.copy(np.zeros(5, np.uint8), peer["plain"])
    assert other.ask("sum fixed") == before


def test_a_withdrawn_array_is_not_touched_again(exporter: Start, client: ts.Engine) -> None:
    other = exporter()
    array = client.connect(other.contact)["shared"]
    before = other.ask("sum shared")
    assert other.ask("withdraw shared") == "done"
    with pytest.raises(ts.NotFound, match=r"exports.*shared.*no longer|look it up again"):
        client.copy(np.zeros(1 << 16, np.uint8), array).wait(timeout=PATIENCE)
    assert other.ask("sum shared") == before


def test_a_withdrawal_waits_for_copies_into_mapped_memory(
    exporter: Start, queueing_profile: str
) -> None:
    """What the copies have written when the withdrawal has ended stays as it is."""
    other = exporter("--bytes", str(LARGE_BYTES), TRANSHIP_PEER_TIMEOUT_MS="60000")
    sources = [np.broadcast_to(np.uint8(k), (LARGE_BYTES,)) for k in range(1, 9)]
    with ts.Engine(profile=queueing_profile, threads=2) as engine:
        shared = engine.connect(other.contact)["shared"]
        engine.copy(sources[0], shared).wait(timeout=PATIENCE)
        events = [engine.copy(source, shared) for source in sources]
        assert other.ask("withdraw shared") == "done"
        before = other.ask("sum shared")
        for event in events:
            with contextlib.suppress(ts.NotFound):  # The export may be withdrawn by now.
                event.wait(timeout=PATIENCE)
        assert other.ask("sum shared") == before


def test_arrays_of_others_are_not_exported_again(exporter: Start, client: ts.Engine) -> None:
    peer = client.connect(exporter().contact)
    with pytest.raises(ts.InvalidArgument, match="no contact, so that no process"):
        client.export("mine", peer["plain"])
    with (
        ts.Engine(contact=True, threads=1) as reached,
        pytest.raises(ts.InvalidArgument, match="another process; connect to that one"),
    ):
        reached.export("mine", peer["plain"])


def test_names_are_taken_once(engine: ts.Engine) -> None:
    engine.export("taken", np.zeros(3))
    with pytest.raises(ts.InvalidArgument, match="withdraw it first"):
        engine.export("taken", np.zeros(3))
    engine.withdraw("taken")
    with pytest.raises(ts.NotFound, match="taken"):
        engine.withdraw("taken")


def test_a_closed_connection(exporter: Start, client: ts.Engine) -> None:
    peer = client.connect(exporter().contact)
    array = peer["plain"]
    peer.close()
    with pytest.raises(ts.Error):
        client.copy(array, np.zeros(1 << 16, np.uint8)).wait(timeout=PATIENCE)


def test_a_peer_that_closes_cleanly(exporter: Start, client: ts.Engine) -> None:
    other = exporter()
    array = client.connect(other.contact)["plain"]
    assert other.ask("exit") == "closed"
    other.process.wait(timeout=PATIENCE)
    with pytest.raises((ts.PeerLost, ts.Closed), match=f"process {other.process.pid}"):
        client.copy(array, np.zeros(1 << 16, np.uint8)).wait(timeout=PATIENCE)


def test_a_peer_killed_before_a_transfer(exporter: Start, client: ts.Engine) -> None:
    other = exporter()
    peer = client.connect(other.contact)
    arrays = [peer["plain"], peer["shared"]]
    other.kill()
    begin = time.monotonic()
    for array in arrays:
        with pytest.raises(ts.PeerLost, match=f"process {other.process.pid}"):
            client.copy(array, np.zeros(1 << 16, np.uint8)).wait(timeout=PATIENCE)
    with pytest.raises(ts.PeerLost):
        peer["plain"]
    assert time.monotonic() - begin < SOON_S


@pytest.mark.parametrize("name", ["plain", "shared"])
@pytest.mark.parametrize("writes", [False, True])
def test_a_peer_killed_during_a_transfer(
    exporter: Start, client: ts.Engine, transport: str, name: str, writes: bool
) -> None:
    other = exporter("--bytes", str(LARGE_BYTES), TRANSHIP_TRANSPORT=transport)
    array = client.connect(other.contact)[name]
    mine = np.ones(LARGE_BYTES, np.uint8)
    ends = (mine, array) if writes else (array, mine)
    event = client.copy(*ends)
    for _ in range(2000):  # The chain lasts until after the kill.
        event = client.copy(*ends, after=event)
    time.sleep(0.02)
    assert not event.done()
    other.process.kill()
    begin = time.monotonic()
    with pytest.raises(ts.PeerLost, match=f"process {other.process.pid}"):
        event.wait(timeout=PATIENCE)
    assert time.monotonic() - begin < SOON_S
    assert eventually(lambda: client._core.buffer_bytes_in_use == 0)


def test_a_stopped_peer_that_is_killed(exporter: Start, client: ts.Engine, transport: str) -> None:
    """A stopped peer does not answer, so that transfers are under way when it is killed.

    Copies that need no answer may have ended, but not the last one of 2000.
    """
    other = exporter("--bytes", str(LARGE_BYTES), TRANSHIP_TRANSPORT=transport)
    array = client.connect(other.contact)["plain"]
    other.stop()
    ones = np.ones(LARGE_BYTES, np.uint8)
    events = [client.copy(array, ones) for _ in range(2000)]
    other.process.kill()
    begin = time.monotonic()
    with pytest.raises(ts.PeerLost):
        events[-1].wait(timeout=PATIENCE)
    assert time.monotonic() - begin < SOON_S


def test_a_peer_killed_after_a_transfer(exporter: Start, client: ts.Engine) -> None:
    other = exporter()
    array = client.connect(other.contact)["plain"]
    target = np.zeros(1 << 16, np.uint8)
    event = client.copy(array, target)
    event.wait(timeout=PATIENCE)
    other.kill()
    event.wait(timeout=0)
    assert np.array_equal(target, pattern(1 << 16))
    begin = time.monotonic()
    with pytest.raises(ts.PeerLost):
        client.copy(array, target).wait(timeout=PATIENCE)
    assert time.monotonic() - begin < SOON_S
    here = np.zeros(3)
    client.copy(np.ones(3), here).wait(timeout=PATIENCE)
    assert here.all(), "the engine goes on after a peer's death"


def test_an_exporter_survives_its_clients(
    exporter: Start, client: ts.Engine, transport: str, tmp_path: Path
) -> None:
    other = exporter("--bytes", str(1 << 24), TRANSHIP_TRANSPORT=transport)
    text = (
        "import sys, numpy as np, tranship as ts\n"
        "engine = ts.Engine()\n"
        "array = engine.connect(sys.argv[1])['plain']\n"
        "print('ready', flush=True)\n"
        "while True: engine.copy(np.ones(1 << 24, np.uint8), array).wait()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", text, str(other.contact)],
        stdout=subprocess.PIPE,
        env={**os.environ, "TRANSHIP_TRANSPORT": transport},
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        time.sleep(0.05)
    finally:
        process.kill()
        process.wait(timeout=PATIENCE)
        assert process.stdout is not None
        process.stdout.close()
    target = np.zeros(1 << 24, np.uint8)
    client.copy(client.connect(other.contact)["fixed"], target).wait(timeout=PATIENCE)
    assert np.array_equal(target, pattern(1 << 24))


def test_contacts_that_lead_nowhere(exporter: Start, client: ts.Engine, tmp_path: Path) -> None:
    other = exporter()
    other.kill()
    assert other.contact.exists()
    begin = time.monotonic()
    with pytest.raises(ts.PeerLost, match=f"{other.process.pid}.*gone|not.*any ?more|ended"):
        client.connect(other.contact)
    assert time.monotonic() - begin < SOON_S
    with pytest.raises(ts.NotFound, match="contact"):
        client.connect(tmp_path / "no-such-contact")
    with pytest.raises(ts.PeerLost):
        client.connect("127.0.0.1:1", timeout=PATIENCE)
    (tmp_path / "garbage").write_bytes(bytes(range(256)))
    with pytest.raises(ts.Error, match="garbage"):
        client.connect(tmp_path / "garbage")
    (tmp_path / "empty").touch()
    with pytest.raises(ts.Error, match="empty"):
        client.connect(tmp_path / "empty")
    with pytest.raises(ts.Error):
        client.connect(tmp_path)


NO_READV = """
    import ctypes, sys
    import numpy as np
    import tranship as ts

    class Filter(ctypes.Structure):
        _fields_ = [("code", ctypes.c_uint16), ("jt", ctypes.c_uint8),
                    ("jf", ctypes.c_uint8), ("k", ctypes.c_uint32)]

    class Program(ctypes.Structure):
        _fields_ = [("count", ctypes.c_uint16), ("filters", ctypes.POINTER(Filter))]

    load, equal, give = 0x20, 0x15, 0x06
    refuse = 0x00050000 | 1  # SECCOMP_RET_ERRNO with EPERM, as containers do
    lines = (Filter * 5)(
        Filter(load, 0, 0, 0),
        Filter(equal, 1, 0, 310),  # process_vm_readv on x86-64
        Filter(equal, 0, 1, 311),  # process_vm_writev
        Filter(give, 0, 0, refuse),
        Filter(give, 0, 0, 0x7FFF0000),
    )
    program = Program(5, lines)
    system = ctypes.CDLL(None, use_errno=True)
    assert system.prctl(38, 1, 0, 0, 0) == 0  # no new privileges
    assert system.prctl(22, 2, ctypes.byref(program), 0, 0) == 0, ctypes.get_errno()
    byte, local = (ctypes.c_char * 8)(), (ctypes.c_size_t * 2)()
    assert system.process_vm_readv(1, local, 1, local, 1, 0) == -1 and ctypes.get_errno() == 1

    engine = ts.Engine()
    peer = engine.connect(sys.argv[1])
    count = int(sys.argv[2])
    for name in ("plain", "shared"):
        target = np.zeros(count, np.uint8)
        engine.copy(peer[name], target).wait(timeout=20)
        assert np.array_equal(target, np.arange(count, dtype=np.int64).astype(np.uint8))
        engine.copy(target[::-1], peer[name]).wait(timeout=20)
    engine.close()
    print("copied")
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the filter names x86-64 system calls")
def test_without_permission_for_process_vm_readv(exporter: Start, tmp_path: Path) -> None:
    """Where a container forbids process_vm_readv, copies take another way or fail with a hint."""
    count = 3_000_000
    other = exporter("--bytes", str(count))
    assert run_script(NO_READV, other.contact, count) == "copied\n"
    for name in ("plain", "shared"):
        other.ask(f"dump {name} {tmp_path / name}")
        assert np.array_equal(np.fromfile(tmp_path / name, np.uint8), pattern(count)[::-1])


def test_a_peer_that_may_not_be_traced(exporter: Start, client: ts.Engine) -> None:
    count = 3_000_000
    other = exporter("--bytes", str(count), "--undumpable")
    peer = client.connect(other.contact)
    target = np.zeros(count, np.uint8)
    for name in ("plain", "shared"):
        client.copy(peer[name], target).wait(timeout=20)
        assert np.array_equal(target, pattern(count))
        target[:] = 0


def test_an_engine_may_connect_to_itself(profile: str) -> None:
    with ts.Engine(contact=True, profile=profile) as engine:
        values = np.arange(10.0)
        engine.export("mine", values)
        target = np.zeros(10)
        peer = engine.connect(engine.contact)
        engine.copy(peer["mine"], target).wait(timeout=PATIENCE)
        assert np.array_equal(values, target)


@pytest.mark.parametrize("transport", ["automatic", "network"])
def test_parts_of_a_peers_array_that_overlap_are_refused(transport: str, tmp_path: Path) -> None:
    """Also found by two names or twice, where the peer's addresses are known, and in its files."""
    values = np.arange(1000.0)
    (tmp_path / "values.bin").write_bytes(values.tobytes())
    with (
        ts.Engine(contact=True, transport=transport) as owner,
        ts.Engine(transport=transport) as engine,
    ):
        disk = ts.File(tmp_path / "values.bin", extents=1000, mode="r+")
        exports = {"all": values, "part": values[100:], "file": disk}
        for name, array in exports.items():
            owner.export(name, array)
        peer = engine.connect(owner.contact)
        pairs = [(peer[name], peer[name]) for name in ("all", "file")]
        pairs += [(peer["all"], peer["part"])] if transport == "automatic" else []
        for source, target in pairs:
            parts = source[200:500], target[300:600]
            with pytest.raises(ts.InvalidArgument, match="overlap"):
                engine.copy(*parts)
            with pytest.raises(ts.InvalidArgument, match="overlap"):
                engine.prepare(*parts)
            with pytest.raises(ts.InvalidArgument, match="overlap"):
                engine.copy_pieces(source, target, [2000], [2008], [1600])
        engine.copy(peer["all"][:300], peer["all"][300:600]).wait(timeout=20)
        assert np.array_equal(values[300:600], np.arange(300.0))
