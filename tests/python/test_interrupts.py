"""Ctrl-C ends every call that waits, long before its time limit, by KeyboardInterrupt."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from staging_servers import Servers

import tranship as ts
from support import PATIENCE, SOON_S

WAITS = {
    "a get without data": """
        staging = ts.Staging(contact, threads=1)
        say()
        staging.get("never", 1, (0,), (4,), timeout=60)
    """,
    "a get without anything": """
        staging = ts.Staging(contact, threads=1)
        say()
        staging.get("never", "latest", timeout=60)
    """,
    "a put without memory": """
        staging = ts.Staging(contact, threads=1)
        for version in range(4):
            staging.put("m", version, np.ones(1 << 20))
        say()
        for version in range(4, 10):
            staging.put("m", version, np.ones(1 << 20), timeout=60)
    """,
    "a put of much": """
        staging = ts.Staging(contact, threads=1)
        array = np.ones((5000, 5000), np.uint8)[:, ::-1].T
        say()
        for version in range(100000):
            staging.put("big", version, array)
            staging.discard("big", version)
    """,
    "a put behind an event": """
        engine = ts.Engine(threads=1)
        staging = ts.Staging(contact, engine=engine)
        event = long_event(engine)
        say()
        staging.put("x", 1, np.ones(4), after=event, timeout=60)
    """,
    "a future in a with block": """
        with ts.Staging(contact, threads=1) as staging:
            future = staging.get_async("never", 1, (0,), (4,), timeout=60)
            say()
            future.result()
    """,
    "the end of a with block": """
        engine = ts.Engine(threads=1)
        event = long_event(engine)
        with ts.Staging(contact, engine=engine) as staging:
            future = staging.put_async("x", 1, np.ones(4), after=event, timeout=60)
            say()
    """,
    "versions": """
        staging = ts.Staging(contact, threads=1)
        staging.put("v", 1, np.ones(4))
        say()
        list(staging["v"].versions(timeout=60))
    """,
    "a subscription": """
        staging = ts.Staging(contact, threads=1)
        subscription = staging.subscribe("never", lambda *_: None)
        say()
        subscription.wait()
    """,
    "an event": """
        engine = ts.Engine(threads=1)
        event = long_event(engine)
        say()
        event.wait()
    """,
    "a contact file that does not come": """
        say()
        ts.Staging(contact + "-never", timeout=60)
    """,
    "a contact that never answers": """
        say()
        ts.Staging(silent(), timeout=60)
    """,
    "an engine's contact that never answers": """
        engine = ts.Engine(threads=1)
        say()
        engine.connect(silent(), timeout=60)
    """,
    "an encrypted connection that never answers": """
        engine = ts.Engine(threads=1, tls=True)
        say()
        engine.connect(silent(), timeout=60)
    """,
    "notices that do not come": """
        engine = ts.Engine(contact=True, threads=1)
        say()
        engine.notices(timeout=60)
    """,
    "a copy on a GPU behind copies of the host": """
        engine = ts.Engine(threads=1)
        event = long_event(engine)
        say()
        on_gpu = engine.empty(1000, "u1", memory="device0")
        engine.copy(np.ones(1000, np.uint8), on_gpu, after=event).wait()
    """,
}

BEGIN = """
import signal, socket, sys
import numpy as np
import tranship as ts

signal.signal(signal.SIGINT, signal.default_int_handler)
contact = sys.argv[1]
sockets = []

def say():
    print("waits", flush=True)

def silent():
    "The address of somebody who listens, and says nothing."
    sockets.append(socket.create_server(("127.0.0.1", 0)))
    return "127.0.0.1:%d" % sockets[-1].getsockname()[1]

def long_event(engine):
    "Of copies that take much longer than the test: of bytes that lie apart on both sides."
    source = np.ones((4096, 4096, 2), np.uint8)[..., 0]
    target = np.zeros((4096, 4096, 2), np.uint8)[..., 0].T
    event = None
    for _ in range(1000):
        event = engine.copy(source, target, after=event)
    return event
"""


@pytest.mark.parametrize("name", WAITS)
def test_control_c_ends_the_wait(serve: Servers, name: str) -> None:
    contact: Path = serve("--memory", "32MiB")
    process = subprocess.Popen(
        [sys.executable, "-c", BEGIN + textwrap.dedent(WAITS[name]), str(contact)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **({"TRANSHIP_EMULATED_GPUS": "1"} if "GPU" in name else {})},
        text=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "waits\n", process.communicate()[1]
        time.sleep(0.4)
        assert process.poll() is None, process.communicate()[1]
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
        assert time.monotonic() - begin < SOON_S
        assert "KeyboardInterrupt" in errors and "Fatal" not in errors, errors
    finally:
        process.kill()
    with ts.Staging(contact, threads=1) as staging:  # The server still answers.
        assert isinstance(staging.ls(), list)
