"""Notices: a process learns that another one has copied to or from its arrays."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from notifier import Copy, copies_of

import tranship as ts
from support import PATIENCE, SOON_S, Slow, eventually, run_script, stop

ROOM = 3_000_000
POISON = 0xEE


@pytest.fixture(params=["automatic", "straight", "network", "sockets"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Sets how this process and its children reach each other."""
    if request.param in ("network", "sockets"):
        monkeypatch.setenv("TRANSHIP_TRANSPORT", "network")
    if request.param == "sockets":
        monkeypatch.setenv("TRANSHIP_TCP_SOCKETS", "4")
    if request.param == "straight":
        monkeypatch.setenv("TRANSHIP_PEER_THREADS", "2")
    return str(request.param)


class Pair:
    """An engine that exports arrays, and one that has connected to it."""

    def __init__(self, **settings: int) -> None:
        self.owner = ts.Engine(contact=True, threads=1, **settings)  # type: ignore[arg-type]
        self.sender = ts.Engine(contact=True, threads=1)
        self.plain = np.full(ROOM, POISON, np.uint8)
        self.shared = self.owner.empty(ROOM, "u1")
        self.shared[:] = POISON
        self.owner.export("plain", self.plain, notices=True)
        self.owner.export("shared", self.shared, notices=True)
        self.owner.export("silent", np.zeros(8, np.uint8))
        self.peer = self.sender.connect(self.owner.contact)

    def close(self) -> None:
        self.sender.close()
        self.owner.close()


@pytest.fixture
def pair(way: str) -> Iterator[Pair]:
    opened = Pair()
    yield opened
    opened.close()


def started(contact: str, *arguments: object) -> subprocess.Popen[str]:
    """Starts notifier.py, and returns when it is connected."""
    script = Path(__file__).parent / "notifier.py"
    process = subprocess.Popen(
        [sys.executable, str(script), contact, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    """Ends a process that `started` has started, and closes its pipes."""
    process.kill()
    process.wait(timeout=PATIENCE)
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()


@pytest.mark.parametrize("name", ["plain", "shared"])
def test_the_bytes_are_there_at_the_notice(pair: Pair, name: str) -> None:
    array = pair.plain if name == "plain" else pair.shared
    for k, length in enumerate([1, 8, 8192, 8193, 500_000, ROOM]):
        values = np.resize(np.arange(k, k + 251, dtype=np.uint8), length)
        event = pair.sender.copy(values, pair.peer[name][:length], notify=f"copy {k} à ü")
        notices = pair.owner.notices(timeout=PATIENCE)
        assert np.array_equal(array[:length], values)
        assert [(one.name, one.array, one.written) for one in notices] == [
            (f"copy {k} à ü", name, True)
        ]
        assert str(os.getpid()) in notices[0].sender
        event.wait(timeout=PATIENCE)
    assert pair.owner.notices() == []


def test_a_copy_has_ended_when_the_owner_has_the_notice(pair: Pair) -> None:
    pair.sender.copy(np.zeros(8, np.uint8), pair.peer["plain"][:8], notify="a").wait(PATIENCE)
    assert [notice.name for notice in pair.owner.notices()] == ["a"]


def test_the_owner_learns_that_its_array_was_read(pair: Pair) -> None:
    target = np.zeros(100_000, np.uint8)
    pair.sender.copy(pair.peer["plain"][:100_000], target, notify="read").wait(PATIENCE)
    (notice,) = pair.owner.notices()
    assert notice[:3] == ("read", "plain", False) and not notice.written
    assert (target == POISON).all()


def test_every_call_that_copies_sends_notices(pair: Pair) -> None:
    sender, plain = pair.sender, pair.peer["plain"]
    ones = np.ones(64, np.uint8)
    prepared = sender.prepare(ones, plain[:64])
    pages, row = plain[:640].reshape(10, 64), ts.types.contiguous(64, "u1")
    events = [
        prepared.start(notify="prepared"),
        prepared.start(source=ones + ones, notify="other source"),
        sender.copy_all([(ones, plain[64:128]), (ones, plain[128:192])], notify="all"),
        sender.copy_pages(ones.reshape(1, 64), pages, [0], [4], notify="pages"),
        sender.copy_pieces(ones, plain, [0], [320], 64, notify="pieces"),
        sender.copy(ones, plain[384:448], types=(row, row), notify="types"),
        sender.copy(7, plain[448:512], notify="scalar"),
        sender.copy(ones, plain[512:576], notify="whole"),
        sender.copy(np.zeros(0, np.uint8), plain[:0], notify="nothing"),
        sender.copy(ones[:2], plain[[600, 602]], notify="indices"),
    ]
    for event in events:
        event.wait(timeout=PATIENCE)
    assert {notice.name for notice in pair.owner.notices()} == {
        "prepared", "other source", "all", "pages", "pieces", "types", "scalar", "whole",
        "nothing", "indices",
    }  # fmt: skip
    assert (pair.plain[64:192] == 1).all() and (pair.plain[256:448] == 1).all()
    assert (pair.plain[448:512] == 7).all() and pair.plain[600] == pair.plain[602] == 1


def test_pairs_that_write_and_pairs_that_read(pair: Pair) -> None:
    here, there = np.zeros(8, np.uint8), pair.peer["plain"]
    pairs = [(np.ones(8, np.uint8), there[:8]), (there[8:16], here), (there[16:24], here + 0)]
    pair.sender.copy_all([*pairs, (np.ones(3), np.zeros(3))], notify="some").wait(PATIENCE)
    assert sorted(notice.written for notice in pair.owner.notices()) == [False, True]


def test_notices_of_one_process_come_in_the_order_of_its_waits(pair: Pair) -> None:
    for k in range(200):
        name = "plain" if k % 2 else "shared"
        pair.sender.copy(np.full(9, k, np.uint8), pair.peer[name][:9], notify=str(k)).wait(PATIENCE)
    assert [notice.name for notice in pair.owner.notices()] == [str(k) for k in range(200)]


@pytest.mark.parametrize("size", [1000, 1_000_000])
def test_a_notice_follows_its_copy_and_all_before(pair: Pair, size: int) -> None:
    slow = Slow().start_many(pair.sender)[3]
    values = np.resize(np.arange(256, dtype=np.uint8), size)
    event = pair.sender.copy(values, pair.peer["plain"][:size], after=slow, notify="late")
    notices = pair.owner.notices(timeout=PATIENCE)
    assert slow.done() and [notice.name for notice in notices] == ["late"]
    assert np.array_equal(pair.plain[:size], values)
    event.wait(timeout=PATIENCE)


def test_a_copy_that_fails_or_is_cancelled_sends_no_notice(pair: Pair) -> None:
    chain = Slow().start_many(pair.sender)
    plain = pair.peer["plain"]
    event = pair.sender.copy(np.zeros(9, np.uint8), plain[:9], after=chain[-1], notify="cancelled")
    behind = pair.sender.copy(np.zeros(9, np.uint8), plain[9:18], after=event, notify="behind")
    assert event.cancel()
    for one in (event, behind):
        with pytest.raises(ts.Cancelled):
            one.wait(timeout=PATIENCE)
    for one in chain:
        one.cancel()
    pair.sender.copy(np.ones(9, np.uint8), plain[:9], notify="last").wait(PATIENCE)
    assert [notice.name for notice in pair.owner.notices()] == ["last"]


def test_what_is_refused_before_anything_moves(pair: Pair) -> None:
    copy, peer, ones = pair.sender.copy, pair.peer, np.ones(8, np.uint8)
    with pytest.raises(ts.InvalidArgument, match=r"takes no notices.*silent.*the option notices"):
        copy(ones, peer["silent"], notify="x")
    with pytest.raises(ts.InvalidArgument, match=r"takes no notices.*silent"):
        pair.sender.copy_all([(ones, peer["plain"][:8]), (ones, peer["silent"])], notify="x")
    with pytest.raises(ts.InvalidArgument, match="no array of the copy is another process's"):
        copy(ones, np.zeros(8, np.uint8), notify="x")
    with pytest.raises(ts.InvalidArgument, match="no array of the copy is another process's"):
        pair.sender.copy_all([], notify="x")
    for bad in ("", "x" * 257, "a\nb", "\0", 7, b"x", "\udcff", ["x"]):
        with pytest.raises(ts.InvalidArgument, match="notify"):
            copy(ones, peer["plain"][:8], notify=bad)  # type: ignore[arg-type]
        with pytest.raises(ts.InvalidArgument, match="notify"):
            pair.sender.prepare(ones, peer["plain"][:8]).start(notify=bad)  # type: ignore[arg-type]
    with pytest.raises(ts.InvalidArgument, match="differ in extent"):
        copy(ones, peer["plain"][:9], notify="x")
    assert (pair.plain == POISON).all() and pair.owner.notices() == []
    copy(ones, peer["plain"][:8], notify="x" * 256).wait(PATIENCE)
    assert pair.owner.notices()[0].name == "x" * 256


def test_an_engine_that_nobody_reaches_gets_no_notices(engine: ts.Engine) -> None:
    with ts.Engine(threads=1) as alone:
        with pytest.raises(ts.InvalidArgument, match="no contact"):
            alone.notices()
        with pytest.raises(ts.InvalidArgument, match="no contact"):
            alone.connect(engine.contact).notices()
    with pytest.raises(ts.InvalidArgument, match="timeout"):
        engine.notices(timeout="soon")  # type: ignore[arg-type]


def test_a_wait_ends_with_its_timeout_and_with_the_first_notice(pair: Pair) -> None:
    begin = time.monotonic()
    assert pair.owner.notices(timeout=0.05) == []
    assert time.monotonic() - begin >= 0.05
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(pair.owner.notices, timeout=PATIENCE)
        pair.sender.copy(np.zeros(8, np.uint8), pair.peer["plain"][:8], notify="now").wait(PATIENCE)
        assert [notice.name for notice in waiting.result(SOON_S)] == ["now"]


def test_closing_ends_the_wait(pair: Pair) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(pair.owner.notices, timeout=PATIENCE)
        time.sleep(0.05)
        pair.owner.close()
        with pytest.raises(ts.Closed):
            waiting.result(SOON_S)
    with pytest.raises(ts.Closed):
        pair.owner.notices()
    with pytest.raises(ts.Error):
        pair.sender.copy(np.zeros(8, np.uint8), pair.peer["plain"][:8], notify="x").wait(PATIENCE)


def test_an_owner_that_reads_no_notices_takes_no_more_at_its_limit() -> None:
    pair = Pair(notices_max=10)
    one, plain = np.ones(1, np.uint8), pair.peer["plain"]
    for k in range(10):
        pair.sender.copy(one, plain[k : k + 1], notify=str(k)).wait(PATIENCE)
    event = pair.sender.copy(one, plain[10:11], notify="too many")
    with pytest.raises(ts.Error, match=r"has not read 10 notices.*notices_max") as refused:
        event.wait(PATIENCE)
    assert refused.value.code == "out_of_memory" and pair.plain[10] == 1
    assert [notice.name for notice in pair.owner.notices()] == [str(k) for k in range(10)]
    pair.sender.copy(one, plain[:1], notify="again").wait(PATIENCE)
    assert [notice.name for notice in pair.owner.notices()] == ["again"]
    pair.close()


def test_notices_of_one_peer_and_of_all(way: str, tmp_path: Path) -> None:
    """Two processes that have connected to each other, as agents do."""
    own, contact = str(tmp_path / "own"), str(tmp_path / "other")
    with ts.Engine(contact=own, threads=1) as engine:
        arrays = {name: np.zeros(ROOM, np.uint8) for name in ("plain", "shared")}
        for name, array in arrays.items():
            engine.export(name, array, notices=True)
        more = ("--copies", 5, "--room", ROOM)
        other = started(own, "--own-contact", contact, *more)
        try:
            assert eventually(lambda: Path(contact).exists())
            peer = engine.connect(contact)
            mine = engine.connect(own)  # this process is a peer of its own
            engine_of_mine = ts.Engine(threads=1)
            there = engine_of_mine.connect(own)["plain"]
            engine_of_mine.copy(np.zeros(3, np.uint8), there[-3:], notify="mine").wait(PATIENCE)
            assert [notice.name for notice in mine.notices()] == ["mine"]
            names: list[str] = []
            while len(names) < 5:
                names += [notice.name for notice in peer.notices(timeout=PATIENCE)]
            assert sorted(names) == [f"copy {k}" for k in range(5)]
            assert engine.notices() == [] == peer.notices()
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                waiting = pool.submit(peer.notices, timeout=PATIENCE)
                time.sleep(0.05)
                other.kill()
                with pytest.raises(ts.PeerLost):
                    waiting.result(SOON_S)
            engine_of_mine.close()
            peer.close()
            with pytest.raises(ts.Closed):
                peer.notices()
        finally:
            end(other)


def check(copy: Copy, arrays: dict[str, np.ndarray]) -> None:
    """Checks that the bytes of a copy are there, byte for byte."""
    there = arrays[copy.array][copy.begin : copy.begin + len(copy.values)]
    assert np.array_equal(there, copy.values), copy.name


@pytest.mark.parametrize("kills", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_random_copies_of_another_process(way: str, seed: int, kills: bool, tmp_path: Path) -> None:
    """The bytes of each copy are there at its notice, also if the sender is killed at any time."""
    count, contact = 120, str(tmp_path / "contact")
    with ts.Engine(contact=contact, threads=1) as engine:
        arrays = {"plain": np.zeros(ROOM, np.uint8), "shared": engine.empty(ROOM, "u1")}
        for name, array in arrays.items():
            array[:] = POISON
            engine.export(name, array, notices=True)
        expected = {one.name: one for one in copies_of(seed, count, ROOM, list(arrays))}
        other = started(contact, "--seed", seed, "--copies", count, "--room", ROOM)
        try:
            seen: list[str] = []
            while len(seen) < count:
                notices = engine.notices(timeout=PATIENCE if not kills else 1.0)
                for notice in notices:
                    check(expected[notice.name], arrays)
                    assert notice.array == expected[notice.name].array
                    seen.append(notice.name)
                if kills and (len(seen) > 10 * seed or not notices):
                    other.kill()
                    break
                assert notices, "a notice is missing"
            seen += [notice.name for notice in engine.notices(timeout=0.2)]
            assert len(set(seen)) == len(seen)
            for name in seen:
                check(expected[name], arrays)
        finally:
            end(other)


OWNER = """
    import sys, time
    import numpy as np
    import tranship as ts
    engine = ts.Engine(contact=sys.argv[1], threads=1)
    engine.export("a", np.zeros(3_000_000, np.uint8), notices=True)
    time.sleep(600)
"""


def test_an_owner_that_is_killed_ends_the_copy_with_an_error(way: str, tmp_path: Path) -> None:
    contact = str(tmp_path / "contact")
    owner = subprocess.Popen([sys.executable, "-c", textwrap.dedent(OWNER), contact])
    try:
        assert eventually(lambda: Path(contact).exists())
        with ts.Engine(threads=1) as engine:
            peer = engine.connect(contact)
            assert eventually(lambda: "a" in peer)
            array = peer["a"]
            events = [
                engine.copy(np.ones(3_000_000, np.uint8), array, notify=str(k)) for k in range(20)
            ]
            owner.kill()
            for event in events:
                with contextlib.suppress(ts.PeerLost):
                    event.wait(PATIENCE)
            with pytest.raises(ts.PeerLost):
                engine.copy(np.ones(8, np.uint8), array[:8], notify="late").wait(PATIENCE)
    finally:
        owner.kill()
        owner.wait(PATIENCE)


READING_OWNER = """
import sys
import numpy as np
import tranship as ts

with ts.Engine(contact=sys.argv[1]) as engine:
    engine.export("a", np.zeros(8, np.uint8), notices=True)
    names = []
    while "last" not in names:
        names += [notice.name for notice in engine.notices(timeout=60)]
    print(*names, flush=True)
    sys.stdin.read()
"""


def test_notices_to_a_stopped_owner_arrive_once_and_in_order(way: str, tmp_path: Path) -> None:
    """The caller waits a moment for a notice behind a short copy; a channel carries it on."""
    contact = str(tmp_path / "contact")
    owner = subprocess.Popen(
        [sys.executable, "-c", READING_OWNER, contact],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdin is not None and owner.stdout is not None
    try:
        assert eventually(lambda: Path(contact).exists())
        with ts.Engine(threads=1) as engine:
            peer = engine.connect(contact)
            assert eventually(lambda: "a" in peer)
            array, ones = peer["a"], np.ones(8, np.uint8)
            engine.copy(ones, array, notify="first").wait(PATIENCE)
            stop(owner)
            begin = time.monotonic()
            events = [engine.copy(ones, array, notify=str(k)) for k in range(5)]
            assert time.monotonic() - begin < SOON_S
            assert not any(event.done() for event in events)
            owner.send_signal(signal.SIGCONT)
            events.append(engine.copy(ones, array, notify="last"))
            for event in events:
                event.wait(PATIENCE)
            assert owner.stdout.readline().split() == ["first", *"01234", "last"]
            owner.stdin.close()
            assert owner.wait(PATIENCE) == 0
    finally:
        owner.kill()
        owner.wait(PATIENCE)
        owner.stdout.close()


def test_a_fork_has_no_notices() -> None:
    run_script("""
        import os
        import numpy as np
        import tranship as ts
        with ts.Engine(contact=True, threads=1) as engine:
            engine.export("a", np.zeros(8), notices=True)
            peer = engine.connect(engine.contact)
            assert engine.notices() == []
            child = os.fork()
            if child == 0:
                for one in (engine, peer):
                    try:
                        one.notices(timeout=10)
                        os._exit(1)
                    except ts.Closed:
                        pass
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    """)


@pytest.mark.parametrize("way", ["automatic", "network"], indirect=True)
def test_notices_of_gpu_memory(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSHIP_EMULATED_GPUS", "2")
    contact = str(tmp_path / "contact")
    with ts.Engine(contact=contact, threads=1) as engine:
        array = engine.empty(ROOM, "u1", memory="device1")
        engine.export("device", array, notices=True)
        given = ("--seed", 7, "--copies", 40, "--room", ROOM, "--arrays", "device")
        other = started(contact, *given)
        try:
            expected = {one.name: one for one in copies_of(7, 40, ROOM, ["device"])}
            seen: list[str] = []
            while len(seen) < 40:
                notices = engine.notices(timeout=PATIENCE)
                assert notices
                for notice in notices:
                    check(expected[notice.name], {"device": array.numpy()})
                    seen.append(notice.name)
            assert len(set(seen)) == 40
        finally:
            end(other)
