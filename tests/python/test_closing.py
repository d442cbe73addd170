"""Closed objects raise Closed: in every order, beside running calls, and at exit."""

from __future__ import annotations

import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from staging_servers import Servers

import tranship as ts
from support import SOON_S, Slow, eventually, run_script


@pytest.fixture
def server(profile: str) -> Iterator[ts.StagingServer]:
    with ts.StagingServer(memory=256 << 20, profile=profile, threads=1) as opened:
        yield opened


class Beside:
    """A call that runs on another thread, with the exception by which it ended."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.failure: BaseException | None = None
        self._call = call
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        time.sleep(0.1)

    def _run(self) -> None:
        try:
            self._call()
        except BaseException as failure:
            self.failure = failure

    def ends(self, *kinds: type[BaseException] | None) -> None:
        """Checks that the call ends soon, by one of these errors, or well if None is among them."""
        self._thread.join(SOON_S)
        assert not self._thread.is_alive(), "the call did not end"
        assert (self.failure and type(self.failure)) in kinds, repr(self.failure)


def calls_of(staging: ts.Staging) -> list[Callable[[], Any]]:
    return [
        lambda: staging.put("x", 1, np.ones(3)),
        lambda: staging.put("x", 1, np.ones(1 << 20)),
        lambda: staging.get("x", 1),
        lambda: staging.get("x", 1, (0,), (3,), np.zeros(3)),
        lambda: staging.put_async("x", 2, np.ones(3)).result(),
        lambda: staging.get_async("x", 1, (0,), (3,), np.zeros(3)).result(),
        lambda: staging.define("x", "f8", (0,), (3,)),
        lambda: staging.ls(),
        lambda: staging.list_steps(),
        lambda: staging.servers(),
        lambda: staging.discard("x", 1),
        lambda: staging["x"][1],
        lambda: list(staging["x"].versions()),
        lambda: staging.subscribe("x", lambda *_: None).wait(SOON_S),
    ]


def all_closed(calls: list[Callable[[], Any]]) -> None:
    for number, call in enumerate(calls):
        begin = time.monotonic()
        try:
            call()
        except ts.Closed:
            pass
        else:
            pytest.fail(f"call {number} ended well")
        assert time.monotonic() - begin < SOON_S, f"call {number} was slow"


def test_a_closed_staging(server: ts.StagingServer, profile: str) -> None:
    with ts.Staging(server.contact, profile=profile, threads=1) as staging:
        staging.put("x", 1, np.ones(3))
    assert staging.closed
    all_closed(calls_of(staging))
    assert staging.statistics()["x"]["puts"]["count"] == 1
    staging.close()


def test_a_staging_whose_engine_is_closed(server: ts.StagingServer, profile: str) -> None:
    engine = ts.Engine(profile=profile, threads=1)
    staging = ts.Staging(server.contact, engine=engine)
    staging.put("x", 1, np.ones(3))
    engine.close()
    calls = calls_of(staging)
    all_closed(calls[:-2])  # The last two end without an error: no version follows.
    staging.close()
    all_closed(calls)


def test_an_engine_that_is_closed_after_its_staging(server: ts.StagingServer, profile: str) -> None:
    with ts.Engine(profile=profile, threads=1) as engine:
        staging = ts.Staging(server.contact, engine=engine)
        staging.put("x", 1, np.ones(3))
        staging.close()
        target = np.zeros(3)
        engine.copy(np.ones(3), target).wait(SOON_S)
        assert target.all()
        with ts.Staging(server.contact, engine=engine) as other:
            assert other.get("x", 1).all()
    all_closed(calls_of(staging))


def test_a_closed_server(profile: str) -> None:
    server = ts.StagingServer(memory=64 << 20, profile=profile, threads=1)
    staging = ts.Staging(server.contact, profile=profile, threads=1)
    staging.put("x", 1, np.ones(3))
    waiting = Beside(lambda: staging.get("never", 1, (0,), (3,), timeout=60))
    server.close()
    waiting.ends(ts.Closed, ts.PeerLost)
    all_closed([server.ls, *(lambda n=n: getattr(server, n) for n in ("clients", "memory_used"))])
    with pytest.raises((ts.Closed, ts.PeerLost)):
        staging.put("x", 2, np.ones(3))
    server.close()
    staging.close()
    all_closed(calls_of(staging))


def test_a_closed_engine(profile: str) -> None:
    owner = ts.Engine(contact=True, profile=profile, threads=1)
    shared = owner.empty(10)
    owner.export("x", shared)
    engine = ts.Engine(profile=profile, threads=1)
    peer = engine.connect(owner.contact)
    remote = peer["x"]
    target = np.zeros(10)
    engine.close()
    all_closed(
        [
            lambda: engine.copy(np.ones(10), target),
            lambda: engine.copy(remote, target),
            lambda: engine.copy_all([(np.ones(10), target)]),
            lambda: engine.copy_pages(np.ones(10), target, [0], [0]),
            lambda: engine.plan(np.ones(10), target),
            lambda: engine.empty(10),
            lambda: engine.export("y", target),
            lambda: engine.withdraw("y"),
            lambda: engine.connect(owner.contact),
            lambda: engine.contact,
            lambda: peer["x"],
            peer.names,
        ]
    )
    assert "closed" in repr(peer)
    peer.close()
    engine.close()
    owner.close()
    assert not target.any()


def test_a_closed_peer(profile: str) -> None:
    with (
        ts.Engine(contact=True, profile=profile, threads=1) as owner,
        ts.Engine(profile=profile, threads=1) as engine,
    ):
        owner.export("x", owner.empty(10))
        owner.export("plain", np.zeros(10))
        peer = engine.connect(owner.contact)
        arrays = [peer["x"], peer["plain"]]
        peer.close()
        all_closed(
            [
                lambda: peer["x"],
                peer.names,
                *(lambda a=a: engine.copy(np.ones(10), a).wait(SOON_S) for a in arrays),
                *(lambda a=a: engine.copy(a, np.zeros(10)).wait(SOON_S) for a in arrays),
            ]
        )
        peer.close()
        assert "closed" in repr(peer)


def test_events_of_a_closed_engine(queueing_profile: str) -> None:
    slow = Slow()
    engine = ts.Engine(profile=queueing_profile, threads=1)
    events = slow.start_many(engine)
    engine.close()
    for event in events:
        assert event.done()
    all_closed([events[-1].wait])
    events[-1].cancel()
    assert events[0].plan.explain()


@pytest.mark.parametrize("leave", ["close", "exception", "engine"])
def test_closing_beside_calls(server: ts.StagingServer, queueing_profile: str, leave: str) -> None:
    """Puts and gets that copy or wait end soon; the server has whole versions only."""
    slow = Slow()
    engine = ts.Engine(profile=queueing_profile, threads=1)
    staging = ts.Staging(server.contact, engine=engine)
    staging.put("there", 1, np.ones(slow.source.shape, np.uint8))
    out = np.zeros(slow.source.shape[::-1], np.uint8).T
    calls = [
        Beside(lambda: [staging.put("x", k, slow.source) for k in range(100)]),
        Beside(lambda: [staging.get("there", 1, out=out) for _ in range(1000)]),
        Beside(lambda: staging.get("never", 1, (0,), (3,), timeout=60)),
        Beside(lambda: staging.get_async("never", 1, (0,), (3,), timeout=60).result()),
        Beside(lambda: list(staging["x"].versions(after=1000))),
        Beside(staging.subscribe("never", lambda *_: None).wait),
    ]
    if leave == "close":
        staging.close()
    elif leave == "engine":
        engine.close()
    else:
        with pytest.raises(RuntimeError, match="left"), staging:
            raise RuntimeError("left")
    for call in calls[:4]:
        call.ends(ts.Closed)
    for call in calls[4:]:
        call.ends(*((ts.Closed,) if leave != "engine" else (ts.Closed, None)))
    staging.close()
    engine.close()
    with ts.Staging(server.contact, profile=queueing_profile, threads=1) as other:
        for version in [one["version"] for info in other.ls() for one in info["versions"]]:
            if version > 1:
                assert (other.get("x", version) == slow.source).all()


def test_close_finishes_puts_that_were_begun(server: ts.StagingServer, profile: str) -> None:
    with ts.Staging(server.contact, profile=profile, threads=1) as staging:
        waiting = [staging.get_async("never", 1, (0,), (3,), timeout=60) for _ in range(8)]
        puts = [staging.put_async("x", k, np.full(1 << 16, k)) for k in range(20)]
        begin = time.monotonic()
    assert time.monotonic() - begin < SOON_S
    for future in puts:
        assert future.result(0) is None
    for future in waiting:
        with pytest.raises(ts.Closed):
            future.result(SOON_S)
    with ts.Staging(server.contact, profile=profile, threads=1) as other:
        assert all((other.get("x", k) == k).all() for k in range(20))


def test_one_engine_closed_by_several_threads(queueing_profile: str) -> None:
    slow = Slow()
    engine = ts.Engine(profile=queueing_profile, threads=1)
    event = slow.start(engine)
    closers = [Beside(engine.close) for _ in range(3)]
    for closer in closers:
        closer.ends(None)
    assert event.done()


def test_a_futures_threads_end(server: ts.StagingServer, profile: str) -> None:
    def threads() -> set[threading.Thread]:
        return {t for t in threading.enumerate() if t.name.startswith("tranship-staging")}

    before = threads()
    staging = ts.Staging(server.contact, profile=profile, threads=1)
    staging.put_async("x", 1, np.ones(3)).result()
    assert threads() - before
    staging.close()
    assert eventually(lambda: not threads() - before)


EXITS = {
    "futures": """
        staging.put("x", 1, np.ones(4))
        staging.put_async("x", 2, np.ones(1 << 24))
        staging.get_async("never", 1, (0,), (4,), timeout=60)
    """,
    "daemon threads": """
        def work(body):
            def repeat():
                while True:
                    body()
            threading.Thread(target=repeat, daemon=True).start()
        engine = ts.Engine(profile=text, threads=1)
        work(lambda: staging.put("x", 1, np.ones(1 << 20)))
        work(lambda: staging.put("small", 1, np.ones(4)))
        work(lambda: staging.get("small", 1))
        work(lambda: engine.copy(np.ones(4), np.zeros(4)).wait())
        work(lambda: engine.copy(np.ones((2000, 2000)), np.zeros((2000, 2000)).T).wait())
        work(lambda: ts.Engine(profile=text, threads=1).close())
        time.sleep(0.3)
    """,
    "a server of its own": """
        server = ts.StagingServer(profile=text, memory=1 << 24, threads=1)
        other = ts.Staging(server.contact, profile=text, threads=1)
        other.put("x", 1, np.ones(100))
        def get():
            other.get("never", 1, (0,), (4,), timeout=60)
        threading.Thread(target=get, daemon=True).start()
        staging.subscribe("x", lambda *_: time.sleep(1))
        time.sleep(0.1)
    """,
    "buffers in flight": """
        engine = ts.Engine(profile=text, threads=1)
        held = bytearray(1 << 24)
        for _ in range(10):
            engine.copy(np.ones((4096, 4096), np.uint8).T, np.empty((4096, 4096), np.uint8))
            engine.copy(held, np.empty(1 << 24, np.uint8))
    """,
}

EXIT = """
    import sys, threading, time
    import numpy as np
    import tranship as ts
    threading.excepthook = lambda *_: None  # Closed, in threads that nobody listens to
    text = open(sys.argv[1]).read()
    staging = ts.Staging(sys.argv[2], profile=text, threads=1)
"""


@pytest.mark.parametrize("name", EXITS)
def test_the_interpreter_ends_in_the_middle(
    serve: Servers, queueing_profile: str, tmp_path: Path, name: str
) -> None:
    """The process exits with status 0, within SOON_S, and prints no error."""
    path = tmp_path / "profile.json"
    path.write_text(queueing_profile)
    contact = serve("--memory", "512MiB", "--full", "discard-oldest")
    script = textwrap.dedent(EXIT) + textwrap.dedent(EXITS[name])
    for _ in range(3):
        begin = time.monotonic()
        run_script(script, path, contact)
        assert time.monotonic() - begin < SOON_S
