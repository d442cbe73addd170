"""Time from the kill of another process until a copy or a wait for that process fails.

- How soon a death is an error: a process is killed (SIGKILL) while arrays are copied to it, and a
  staging server while a client waits for a version; over shared memory and over TCP on the
  loopback.
- A line's seconds go from the kill to `PeerLost`.
"""

from __future__ import annotations

import os
import random
import secrets
import signal
import threading
import time
from collections.abc import Callable
from unittest import mock

import numpy as np

from tranship.engine import Engine
from tranship.errors import PeerLost
from tranship.staging import Staging

from ..harness import Bench, MismatchError
from ..registry import measures
from ..staging.boxes import server_process
from .peer import Other

REPETITIONS = 11
SECONDS_MAX = 30.0

Until = Callable[[], None]
"""A function that runs until the other process is lost."""


@measures("peer-death", "from the kill of a process to the error in its peer")
def peer_death(bench: Bench) -> None:
    """Kills a peer during copies to it, and a staging server during a wait for a version."""
    key = secrets.token_hex(32)
    environment = {"TRANSHIP_TRANSPORT": "network", "TRANSHIP_KEY": key}
    ways: list[tuple[str, dict[str, str]]] = [("shared memory", {}), ("TCP", environment)]
    for link, settings in ways:
        with mock.patch.dict(os.environ, settings):
            for case, once in (("copying", killed_peer), ("waiting", killed_server)):
                seconds = [once() for _ in range(bench.pick(REPETITIONS, 1))]
                name = f"from the kill to the error, {case}"
                bench.emit(name, link, 0, seconds, conditions={"signal": "SIGKILL"})


def killed_peer() -> float:
    """Returns the seconds to the error while arrays are copied to the peer again and again."""
    with Engine() as engine:
        other = Other(engine)
        there = other.array("there", "plain", (8 << 20,), "f8")
        source = np.ones(8 << 20)

        def copy() -> None:
            while True:
                engine.copy(source, there).wait(timeout=SECONDS_MAX)

        seconds = killed_meanwhile(other._process.pid, copy)
        other.close()
        return seconds


def killed_server() -> float:
    """Returns the seconds to the error while a client waits for a version never put."""
    with (
        server_process(16 << 20) as (contact, pid),
        Engine() as engine,
        Staging(contact, engine=engine) as client,
    ):
        client.put("there", 0, np.ones(8))

        def wait() -> None:
            client.get("there", 1, (0,), (8,), timeout=SECONDS_MAX)

        return killed_meanwhile(pid, wait)


def killed_meanwhile(pid: int, until: Until) -> float:
    """Kills a process while `until` runs; returns the seconds to its PeerLost."""
    killed: list[float] = []

    def kill() -> None:
        time.sleep(random.uniform(0.2, 0.4))
        killed.append(time.perf_counter())
        os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        until()
    except PeerLost:
        ended = time.perf_counter()
    else:
        raise MismatchError("what was killed was not missed")
    finally:
        thread.join()
    return ended - killed[0]
