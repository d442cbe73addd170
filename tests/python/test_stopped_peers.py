"""Peers that are stopped (SIGSTOP) in the middle of a copy, or while others connect to them.

When `Engine.withdraw` or `Engine.close` returns well, nobody writes the exported array any more;
otherwise it raises `Timeout`. A process that is stopped is not dead: who connects to it waits for
as long as the caller allows.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tranship as ts
from support import PATIENCE, SOON_S, eventually, stop

ROUNDS = int(os.environ.get("TRANSHIP_STOPPED_PEERS", "4"))
"""Random rounds for each seed."""
BYTES = 0xAA, 0x11
"""What the peer writes, and what the owner writes when it may use its memory for something else."""

COPIER = """
import json, sys
import numpy as np
import tranship as ts

for line in sys.stdin:
    case = json.loads(line)
    engine = ts.Engine(
        peer_threads=case["peer_threads"], transport=case["transport"], emulated_gpus=1
    )
    remote = engine.connect(case["contact"], timeout=60)["x"]
    mine = np.full(remote.shape, case["value"], np.uint8)
    if case["shape"] == "transposed":
        mine = mine[:, ::-1].T
    print("ready", flush=True)
    try:
        while True:
            if case["way"] == "write":
                engine.copy(mine, remote).wait(60)
            else:
                engine.copy(remote, mine).wait(60)
    except ts.Error as error:
        print("ended", type(error).__name__, flush=True)
    try:
        engine.close()
    except ts.Timeout:
        pass
"""


class Copier:
    """A process that copies an exported array, again and again."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", COPIER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def begin(self, **case: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(case) + "\n")
        self.process.stdin.flush()
        assert self.read() == "ready"

    def read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go_on(self) -> str:
        """Lets it go on; returns how its copies ended."""
        self.process.send_signal(signal.SIGCONT)
        return self.read()


@pytest.fixture
def copier() -> Iterator[Copier]:
    """Yields the process of a peer, which is stopped and continued."""
    one = Copier()
    yield one
    one.process.kill()
    one.process.wait()


def open_engine(contact: Path, **settings: Any) -> ts.Engine:
    return ts.Engine(contact=contact, threads=2, peer_timeout_ms=100, emulated_gpus=1, **settings)


def exported(engine: ts.Engine, kind: str, side: int = 2048) -> Any:
    """Exports an array of zeros as "x"."""
    if kind == "plain":
        array = np.zeros((side, side), np.uint8)
    elif kind == "shared":
        array = engine.empty((side, side), np.uint8)
        array[:] = 0
    else:
        array = engine.empty((side, side), np.uint8, memory="device0")
        engine.copy(np.zeros((side, side), np.uint8), array).wait(PATIENCE)
    engine.export("x", array)
    return array


def ends_well(engine: ts.Engine, call: str) -> bool:
    """Returns whether the owner's call returns; otherwise it says that the peer may still write."""
    try:
        engine.withdraw("x") if call == "withdraw" else engine.close()
    except ts.Timeout as refused:
        words = "still using it" if call == "withdraw" else "still copies"
        assert words in refused.message and "keep" in refused.hint
        return False
    return True


CASES = list(
    itertools.product(
        ("shared", "plain", "device"),
        ("write", "read"),
        (0, 2),
        ("withdraw", "close"),
        ("transposed", "same"),
        ("automatic", "network"),
    )
)


@pytest.mark.parametrize("seed", range(2))
def test_memory_is_left_alone_or_it_is_said_that_it_is_not(
    copier: Copier, tmp_path: Path, seed: int
) -> None:
    dice = random.Random(seed)
    for number in range(ROUNDS):
        kind, way, threads, call, shape, transport = case = dice.choice(CASES)
        contact = tmp_path / f"contact-{number}"
        engine = open_engine(contact, transport=transport)
        array = exported(engine, kind)
        copier.begin(
            contact=str(contact),
            way=way,
            peer_threads=threads,
            shape=shape,
            transport=transport,
            value=BYTES[0],
        )
        time.sleep(dice.uniform(0, 0.05))
        stop(copier.process)
        well = ends_well(engine, call)
        checks = well and way == "write" and (kind != "device" or call == "withdraw")
        if checks:
            engine_or_new = engine if call == "withdraw" else ts.Engine(threads=1, emulated_gpus=1)
            new = np.full(array.shape, BYTES[1], np.uint8)
            engine_or_new.copy(new, array).wait(PATIENCE)
        assert copier.go_on().startswith("ended"), case
        if checks:
            got = np.empty(array.shape, np.uint8)
            engine_or_new.copy(array, got).wait(PATIENCE)
            assert (got == BYTES[1]).all(), case
            engine_or_new.close()
        elif call == "withdraw" and not well:
            assert eventually(lambda engine=engine: ends_well(engine, "withdraw")), case
        engine.close()


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("call", ["withdraw", "close"])
def test_a_copy_that_is_half_done_is_seen(
    copier: Copier, tmp_path: Path, call: str, threads: int
) -> None:
    for number in range(50):
        contact = tmp_path / f"contact-{number}"
        engine = open_engine(contact)
        array = exported(engine, "shared", 4096)
        copier.begin(
            contact=str(contact),
            way="write",
            peer_threads=threads,
            shape="transposed",
            transport="automatic",
            value=BYTES[0],
        )
        assert eventually(lambda array=array: bool((array[::64, ::64] == BYTES[0]).any()))
        stop(copier.process)
        half_done = not (array == BYTES[0]).all()
        well = ends_well(engine, call)
        # A peer that has written everything may be within its next copy, which writes the same.
        assert not (well and half_done)
        assert copier.go_on().startswith("ended")
        if not engine.closed:
            assert well or eventually(lambda engine=engine: ends_well(engine, "withdraw"))
            engine.close()
        if half_done:
            return
    pytest.fail("no copy was caught in the middle")


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Yields a process that exports an array, locally and over TCP, and its contact file."""
    contact = tmp_path / "listener"
    text = (
        "import sys, numpy as np, tranship as ts\n"
        "engine = ts.Engine(contact=sys.argv[1], listen='127.0.0.1:0')\n"
        "engine.export('x', np.arange(4))\n"
        "print('ready', flush=True)\n"
        "sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", text, str(contact)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    yield process, contact
    process.kill()
    process.wait()


@pytest.mark.parametrize("transport", ["shared", "network"])
def test_who_connects_to_a_stopped_process_waits_as_long_as_he_likes(
    listener: tuple[subprocess.Popen[str], Path], transport: str
) -> None:
    process, contact = listener
    seconds = 0.3 if ROUNDS == 4 else 6.5  # an unproven client has 5 s, a silent caller any time
    with ts.Engine(threads=1, transport=transport) as engine:
        stop(process)
        begin = time.monotonic()
        with pytest.raises(ts.Timeout, match="within"):
            engine.connect(contact, timeout=seconds)
        assert time.monotonic() - begin >= seconds
        waker = subprocess.Popen(["sh", "-c", f"sleep {seconds}; kill -CONT {process.pid}"])
        assert engine.connect(contact, timeout=PATIENCE)["x"].shape == (4,)
        assert time.monotonic() - begin < seconds + SOON_S
        waker.wait()


def test_a_full_queue_of_a_stopped_process_is_waited_for(
    listener: tuple[subprocess.Popen[str], Path],
) -> None:
    process, contact = listener
    found = re.search(r"unix:@([^,\s]+)", contact.read_text())
    assert found is not None
    name = found[1]
    others = []
    stop(process)
    try:
        while True:
            one = socket.socket(socket.AF_UNIX)
            one.setblocking(False)
            others.append(one)
            one.connect("\0" + name)
    except BlockingIOError:
        pass
    with ts.Engine(threads=1, transport="shared") as engine:
        begin = time.monotonic()
        with pytest.raises(ts.Timeout):
            engine.connect(contact, timeout=1.3)
        assert time.monotonic() - begin >= 1.3
        for one in others:
            one.close()
        waker = subprocess.Popen(["sh", "-c", f"sleep 0.2; kill -CONT {process.pid}"])
        assert engine.connect(contact, timeout=PATIENCE)["x"].shape == (4,)
        waker.wait()
