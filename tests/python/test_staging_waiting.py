"""Calls of the staging service that wait: for data, for memory, for copies, for variables.

No number of them keeps other calls from running, and a call that could not begin has changed
nothing.
"""

from __future__ import annotations

import os
import pty
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from staging_servers import times_out

import tranship as ts
from support import PATIENCE, SOON_S, Slow, eventually
from tranship.staging import client
from tranship.staging.futures import Workers

STEPS = int(os.environ.get("TRANSHIP_WAITING_STEPS", "150"))
"""Random calls of each seed."""


@pytest.fixture
def staging(profile: str, tmp_path: Path) -> Iterator[ts.Staging]:
    """Yields a client, the only one, of a server with little memory."""
    contact = tmp_path / "contact"
    with (
        ts.StagingServer(contact, memory="8MiB"),
        ts.Staging(contact, threads=1) as opened,
    ):
        yield opened


def results(futures: list[Future[Any]]) -> list[Any]:
    """Returns what futures return, all of which end."""
    assert not wait(futures, PATIENCE).not_done
    return [future.result() for future in futures]


def test_gets_that_wait_keep_no_put_from_running(staging: ts.Staging) -> None:
    gets = [staging.get_async("v", k, (0,), (10,), timeout=PATIENCE) for k in range(100)]
    puts = [staging.put_async("v", k, np.full(10, k)) for k in reversed(range(100))]
    results(puts)
    for k, got in enumerate(results(gets)):
        assert (got == k).all()


def test_puts_that_wait_for_memory_keep_no_get_from_running(staging: ts.Staging) -> None:
    block = np.zeros(2 << 20, np.uint8)
    for k in range(3):
        staging.put("full", k, block)
    puts = [staging.put_async("full", 10 + k, block, timeout=PATIENCE) for k in range(12)]
    assert results([staging.get_async("full", 0, (0,), (9,)) for _ in range(8)])
    left = set(range(3))
    while not all(put.done() for put in puts):
        assert eventually(
            lambda: (
                all(put.done() for put in puts)
                or any(version not in left for version in staging["full"]._held())
            )
        )
        for version in staging["full"]._held():
            staging.discard("full", version)
    results(puts)  # type: ignore[arg-type]


def test_puts_that_wait_for_copies_keep_no_other_from_running(staging: ts.Staging) -> None:
    slow = Slow()
    with ts.Engine(threads=1) as engine:
        event = None
        for _ in range(2):
            event = slow.start(engine, after=event)
        assert event is not None
        late = [
            staging.put_async("late", k, slow.target[:10, :10], after=event, timeout=PATIENCE)
            for k in range(8)
        ]
        results([staging.put_async("soon", k, np.zeros(3)) for k in range(8)])
        ended_before = event.done()
        results(late)  # type: ignore[arg-type]
        assert event.done() and (staging.get("late", 7) == 1).all()
        assert ended_before or not event.done() or slow.done


def test_the_end_of_the_time_is_said_as_by_the_call_itself(staging: ts.Staging) -> None:
    staging.put("v", 0, np.zeros(4))
    times_out(
        lambda: staging.get_async("v", 1, (0,), (4,), timeout=0.3).result(PATIENCE),
        "timed out: version 1",
    )
    with pytest.raises(ts.InvalidArgument, match="timeout='3'"):
        staging.get_async("v", 0, timeout="3")  # type: ignore[arg-type]


def test_closing_ends_gets_that_wait_and_carries_puts_out(profile: str, tmp_path: Path) -> None:
    contact = tmp_path / "contact"
    with ts.StagingServer(contact), ts.Staging(contact) as other:
        staging = ts.Staging(contact)
        gets = [staging.get_async("v", k, (0,), (1,), timeout=PATIENCE) for k in range(20)]
        puts = [staging.put_async("w", k, np.ones(3)) for k in range(20)]
        staging.close()
        for get in gets:
            with pytest.raises(ts.Closed):
                get.result(PATIENCE)
        assert all(put.exception(0) is None for put in puts)
        assert other["w"]._held() == list(range(20))
        with pytest.raises(ts.Closed):
            staging.put_async("w", 20, np.ones(3))


def random_calls(staging: ts.Staging, seed: int, steps: int) -> None:
    """Puts versions of some variables in any order, and gets them before, meanwhile and after."""
    dice = random.Random(seed)
    names = [f"{name}{seed}" for name in "abc"]
    versions = {name: iter(dice.sample(range(1000), steps)) for name in names}
    promised: list[tuple[str, int]] = []
    calls: list[tuple[Future[Any], int | None]] = []
    for _ in range(steps):
        name = dice.choice(names)
        if dice.random() < 0.5:
            promised.append((name, next(versions[name])))
        name, version = dice.choice(promised) if promised else (name, -1)
        if version < 0:
            continue
        lower, upper = sorted(dice.sample(range(9), 2))
        get = staging.get_async(name, version, (lower,), (upper,), timeout=PATIENCE)
        calls.append((get, version))
        if dice.random() < 0.3:
            late = promised.pop(dice.randrange(len(promised)))
            values = np.full(8, late[1])
            calls.append((staging.put_async(*late, values, timeout=PATIENCE), None))
            calls.append((staging.get_async(*late, timeout=PATIENCE), late[1]))
    for name, version in promised:
        calls.append((staging.put_async(name, version, np.full(8, version)), None))
    for future, version in calls:
        got = future.result(PATIENCE)
        assert version is None or (got == version).all()


@pytest.mark.parametrize("seed", range(3))
def test_random_calls_all_end(staging: ts.Staging, seed: int) -> None:
    random_calls(staging, seed, STEPS)


def refusing(monkeypatch: pytest.MonkeyPatch, prefix: str) -> list[bool]:
    """Has the system refuse threads of that name while the list holds True."""
    refuses = [True]
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith(prefix) and refuses[0]:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    return refuses


CALLS: dict[str, tuple[str, Callable[[ts.Staging], Any]]] = {
    "put_async": ("tranship-staging", lambda s: s.put_async("v", 1, np.ones(3))),
    "get_async": ("tranship-staging", lambda s: s.get_async("v", 0)),
    "watch": ("tranship-staging-watch", lambda s: s.put_async("v", 1, np.ones(3))),
    "subscribe": ("tranship-v", lambda s: s.subscribe("v", lambda *_: None)),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_without_a_thread_has_changed_nothing(
    staging: ts.Staging, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    prefix, begin = CALLS[call]
    staging.put("v", 0, np.zeros(3))
    refuses = refusing(monkeypatch, prefix)
    for _ in range(6):
        with pytest.raises(ts.Error, match="nothing was begun") as refused:
            begin(staging)
        assert refused.value.code == "out_of_memory" and "ulimit" in refused.value.hint
    refuses[0] = False
    assert staging["v"]._held() == [0]
    again = begin(staging)
    if isinstance(again, Future):
        again.result(PATIENCE)
    else:
        again.close()
    staging.close()


def test_a_callback_without_a_thread_is_refused(
    engine: ts.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tranship import events

    monkeypatch.setattr(events, "_watcher", events.Watcher())
    refuses = refusing(monkeypatch, "tranship-events")
    event = engine.copy(np.zeros(3), np.zeros(3))
    called: list[ts.Event] = []
    with pytest.raises(ts.Error, match="nothing was begun"):
        event.add_done_callback(called.append)
    refuses[0] = False
    event.add_done_callback(called.append)
    assert eventually(lambda: len(called) == 1)


def test_workers_that_were_never_made_say_nothing_at_their_end(
    capfd: pytest.CaptureFixture[str],
) -> None:
    for kind in (Workers, ts.Staging):
        half = object.__new__(kind)
        del half
    assert capfd.readouterr().err == ""


MISSPELT: dict[str, Callable[[ts.Staging], Any]] = {
    "get": lambda s: s.get("misspelt", 0),
    "get with a box": lambda s: s.get("misspelt", 0, (0,), (3,)),
    "get with a target": lambda s: s.get("misspelt", 0, (0,), (3,), np.empty(3)),
    "get_async": lambda s: s.get_async("misspelt", 0).result(PATIENCE),
    "shape": lambda s: s["misspelt"].shape,
    "dtype": lambda s: s["misspelt"].dtype,
    "index": lambda s: s["misspelt"][0, 1],
    "latest": lambda s: s["misspelt"]["latest"],
}


def test_a_variable_that_nobody_writes_is_said_so(
    staging: ts.Staging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "ALONE_S", 0.05)
    staging.put("right", 0, np.zeros(3))
    for call in MISSPELT.values():
        for _ in range(3):  # A server that stands still for a second is waited for.
            with pytest.raises((ts.NotFound, ts.Timeout)) as refused:
                call(staging)
            if isinstance(refused.value, ts.NotFound):
                break
        assert 'no variable "misspelt"' in str(refused.value)
        assert "the variables are right" in refused.value.hint


def test_what_may_still_come_is_waited_for(
    staging: ts.Staging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "ALONE_S", 0.05)
    # Longer than a variable of nobody is waited for:
    times_out(lambda: staging.get("late", 0, timeout=0.2), "late")
    with ts.Staging(staging._core.contact, threads=1) as writer:
        timer = threading.Timer(0.2, lambda: writer.put("late", 0, np.ones(3)))
        timer.start()
        assert (staging.get("late", 0) == 1).all()
        timer.join()


WAITER = """
import sys, tranship as ts
from tranship.staging import client, gets, variable
client.QUIET_S = gets.QUIET_S = variable.QUIET_S = 0.1
with ts.Staging(sys.argv[1], threads=1) as staging:
    what, name = sys.argv[2:]
    try:
        if what == "get":
            staging.get(name, 9, timeout=3)
        else:
            list(staging[name].versions(after=9, timeout=3))
    except ts.Timeout:
        pass
"""


@pytest.mark.parametrize(
    ("what", "name"), [("get", "there"), ("get", "missing"), ("versions", "there")]
)
def test_a_terminal_shows_what_is_waited_for(staging: ts.Staging, what: str, name: str) -> None:
    staging.put("there", 0, np.zeros(3))
    here, there = pty.openpty()
    command = [sys.executable, "-c", WAITER, staging._core.contact, what, name]
    process = subprocess.Popen(command, stderr=there)
    os.close(there)
    shown = b""
    try:
        while part := os.read(here, 4096):
            shown += part
    except OSError:  # the process has ended
        pass
    os.close(here)
    assert process.wait(PATIENCE) == 0
    lines = shown.decode().splitlines()
    assert len(lines) == 1 and lines[0].startswith("waiting for ") and f'"{name}"' in lines[0]


def test_a_pipe_is_told_nothing(staging: ts.Staging) -> None:
    staging.put("there", 0, np.zeros(3))
    command = [sys.executable, "-c", WAITER, staging._core.contact, "get", "there"]
    done = subprocess.run(command, capture_output=True, timeout=SOON_S + PATIENCE, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")


def test_an_interrupt_while_a_client_is_opened_prints_nothing(profile: str, tmp_path: Path) -> None:
    text = (
        "import signal, sys, threading, time, os, tranship as ts\n"
        "def later():\n"
        "    time.sleep(float(sys.argv[2]))\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "threading.Thread(target=later, daemon=True).start()\n"
        "try:\n"
        "    ts.Staging(sys.argv[1], timeout=60)\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    command = [sys.executable, "-c", text, str(tmp_path / "nobody"), "0.3"]
    begin = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout == "interrupted\n" and done.stderr == ""
    assert time.monotonic() - begin < SOON_S
