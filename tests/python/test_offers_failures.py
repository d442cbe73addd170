"""Offers whose producers, readers and servers close, die, fork or stand still."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from offer_support import MIB, Produce, Producer
from staging_servers import PATIENCE, Servers

import tranship as ts
from support import SOON_S, eventually, stop

SLOW_READER = """
import sys
import numpy as np
import tranship as ts

staging = ts.Staging(sys.argv[1], name="a slow reader")
out = np.zeros(int(sys.argv[2]))
print("begins", flush=True)
expected = np.arange(int(sys.argv[2]), dtype="f8")
while True:
    staging.get("x", 1, out=out)
    if not (out == expected).all():
        sys.exit("got wrong elements")
"""


def slow_reader(contact: Path, elements: int) -> subprocess.Popen[str]:
    """Starts a process that gets "x" again and again, and waits until it has begun."""
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW_READER, str(contact), str(elements)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begins\n"
    return process


def gets_of(staging: ts.Staging, name: str) -> int:
    return next(int(one["gets"]["count"]) for one in staging.ls() if one["name"] == name)


def end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait(timeout=PATIENCE)
    for stream in (process.stdin, process.stdout, process.stderr):
        assert stream is not None
        stream.close()


@contextmanager
def offered_to_a_slow_reader(
    serve: Servers, produce: Produce, kind: str
) -> Iterator[tuple[Producer, subprocess.Popen[str]]]:
    """Yields a producer that offers "x", and a process that has got it, and goes on to."""
    contact = serve("--memory", "1MiB")
    producer = produce(contact)
    elements = 32 * MIB // 8
    producer.make(kind, (elements,))
    producer.do("made['offer'] = staging.offer('x', 1, made['x'])")
    reader = slow_reader(contact, elements)
    try:
        with ts.Staging(contact) as staging:
            assert eventually(lambda: gets_of(staging, "x") > 0)
        yield producer, reader
    finally:
        end(reader)


def what_it_told(reader: subprocess.Popen[str]) -> str:
    """Returns what a slow reader wrote until it ended; it must not have got wrong elements."""
    reader.wait(timeout=PATIENCE)
    assert reader.stderr is not None
    told = reader.stderr.read()
    assert "got wrong elements" not in told
    return told


@pytest.mark.parametrize("kind", ["pageable", "mapped"])
def test_a_paused_reader_holds_an_offer_and_a_killed_one_does_not(
    serve: Servers, produce: Produce, kind: str
) -> None:
    with offered_to_a_slow_reader(serve, produce, kind) as (producer, reader):
        # It reads nearly always: a withdrawal while it stands still in the middle of a get waits.
        said = ""
        for attempt in range(200):
            stop(reader)
            said = producer.does("made['offer'].withdraw(0.1)")
            if said != "ok":
                break
            producer.do("made['offer'] = staging.offer('x', 1, made['x'])")
            reader.send_signal(signal.SIGCONT)
            time.sleep(0.003 * (1 + attempt % 20))
        assert said.startswith('Timeout: timed out: version 1 of "x", (0:'), said
        assert 'is being read by "a slow reader"' in said
        producer.do("assert not made['offer'].ended")
        end(reader)
        producer.do("made['offer'].withdraw(60.0)")


@pytest.mark.parametrize("kind", ["pageable", "mapped"])
def test_a_get_that_reads_while_the_offer_is_withdrawn_is_right(
    serve: Servers, produce: Produce, kind: str
) -> None:
    contact = serve("--memory", "1MiB")
    producer = produce(contact)
    elements = 8 * MIB // 8
    producer.make(kind, (elements,))
    results: list[str] = []
    with ts.Staging(contact) as staging:
        out = np.zeros(elements)
        for version in range(12):
            producer.do(f"made['x'][...] = {version}")
            producer.do(f"made['offer'] = staging.offer('x', {version}, made['x'])")

            def read(version: int = version) -> None:
                try:
                    staging.get("x", version, (0,), (elements,), out, timeout=1.0)
                    results.append("got" if (out == version).all() else "wrong")
                except ts.Timeout:
                    results.append("withdrawn")

            thread = threading.Thread(target=read)
            thread.start()
            time.sleep(0.0005 * version)
            producer.do("made['offer'].withdraw(); made['x'][...] = -1")
            thread.join()
    assert "wrong" not in results
    assert len(results) == 12


@pytest.mark.parametrize("servers", [1, 3])
def test_gets_of_what_a_killed_producer_has_offered_name_it(
    serve: Servers, produce: Produce, servers: int
) -> None:
    contact = serve("--servers", str(servers), "--memory", "16MiB")
    producer = produce(contact)
    array = producer.make("mapped", (256, 64))
    producer.do("staging.offer('x', 1, made['x'])")
    lost = r'"the producer"'
    with ts.Staging(contact) as staging, ts.Staging(contact) as other:
        other.put("x", 1, np.ones((256, 64)), (256, 0))  # a producer that lives on
        assert (staging.get("x", 1)[:256] == array).all()
        producer.end()
        assert eventually(lambda: len(staging.servers()[0]["names"]) == 2)  # type: ignore[arg-type]

        def names_it(reader: ts.Staging) -> bool:
            try:
                array_of_x = reader.get("x", 1, timeout=PATIENCE)
            except ts.PeerLost as failure:
                return re.search(lost, str(failure)) is not None
            return bool((array_of_x[:256] != array).any())  # until this process sees its end

        for reader in (staging, other):
            assert eventually(lambda reader=reader: names_it(reader), SOON_S)  # type: ignore[misc]
            with pytest.raises(ts.PeerLost, match=lost):
                reader.get("x", 1, timeout=PATIENCE)
        assert (staging.get("x", 1, (256, 0), (512, 64)) == 1).all()
        other.put("x", 1, array)  # put again, it is there
        assert (staging.get("x", 1)[:256] == array).all()


def test_a_producer_that_is_killed_during_a_get(serve: Servers, produce: Produce) -> None:
    contact = serve("--memory", "1MiB")
    for attempt in range(4):
        producer = produce(contact)
        elements = 32 * MIB // 8
        producer.make("pageable", (elements,))
        producer.do(f"staging.offer('x', {attempt}, made['x'])")
        out = np.full(elements, -1.0)
        with ts.Staging(contact) as staging:
            staging.get("x", attempt, (0,), (8,))  # it is connected
            timer = threading.Timer(0.002 * attempt, producer.process.kill)
            timer.start()
            begin = time.monotonic()
            try:
                staging.get("x", attempt, (0,), (elements,), out, timeout=PATIENCE)
                assert (out == np.arange(elements)).all()
            except ts.PeerLost:
                pass
            assert time.monotonic() - begin < SOON_S
            timer.join()


def test_a_producer_that_stands_still_is_waited_for(serve: Servers, produce: Produce) -> None:
    contact = serve("--memory", "1MiB")
    producer = produce(contact)
    array = producer.make("pageable", (1000,))
    producer.do("staging.offer('x', 1, made['x'])")
    stop(producer.process)
    with ts.Staging(contact) as staging:

        def names_it() -> bool:
            with pytest.raises(ts.Timeout) as raised:
                staging.get("x", 1, timeout=0.2)
            return "the producer" in str(raised.value)  # unless a busy server answers late

        assert eventually(names_it)
        producer.process.send_signal(signal.SIGCONT)
        assert (staging.get("x", 1, timeout=PATIENCE) == array).all()


@pytest.mark.parametrize("kind", ["connected", "not connected"])
def test_ctrl_c_ends_a_get_from_a_producer_that_stands_still(
    serve: Servers, produce: Produce, kind: str
) -> None:
    contact = serve("--memory", "1MiB")
    producer = produce(contact)
    array = producer.make("pageable", (1000,))
    producer.do("for name in 'xy': staging.offer(name, 1, made['x'])")
    with ts.Staging(contact) as staging:
        if kind == "connected":
            staging.get("x", 1)
        stop(producer.process)
        begin = time.monotonic()
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            staging.get("y", 1, timeout=10 * PATIENCE)
        assert time.monotonic() - begin < PATIENCE
        timer.join()
        producer.process.send_signal(signal.SIGCONT)
        assert (staging.get("y", 1, timeout=PATIENCE) == array).all()


def test_ctrl_c_ends_the_wait_for_the_end_of_an_offer(serve: Servers) -> None:
    contact = serve("--memory", "1MiB")
    with ts.Staging(contact, offers=True) as staging:
        offer = staging.offer("x", 1, np.zeros(10))
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            offer.wait(10 * PATIENCE)
        timer.join()
        assert not offer.ended


@pytest.mark.parametrize("servers", [1, 3])
def test_closing_withdraws(serve: Servers, servers: int) -> None:
    contact = serve("--servers", str(servers), "--memory", "1MiB")
    array = np.arange(90_000.0)
    with ts.Staging(contact) as staging:
        with ts.Staging(contact, offers=True) as producer:
            offer = producer.offer("x", 1, array)
            assert (staging.get("x", 1) == array).all()
        with pytest.raises(ts.Closed):
            staging.get("x", 1, (0,), (5,), timeout=PATIENCE)
        for call in (lambda: offer.ended, offer.wait, offer.withdraw):
            with pytest.raises(ts.Closed):
                call()
        with ts.Staging(contact, offers=True) as again:
            again.offer("x", 1, array)
            assert (staging.get("x", 1) == array).all()


@pytest.mark.parametrize("kind", ["pageable", "mapped"])
def test_a_get_that_reads_while_its_producer_closes_is_right(serve: Servers, kind: str) -> None:
    """Copies that closing does not wait for would find what the array has afterwards."""
    contact = serve("--memory", "1MiB")
    elements = 8 * MIB // 8
    results: list[str] = []
    with ts.Engine(contact=True) as engine, ts.Staging(contact) as reader:
        mapped = engine.empty((elements,), "f8", memory="host")
        array = mapped if kind == "mapped" else np.zeros(elements)
        out = np.zeros(elements)
        for version in range(12):
            array[...] = version
            producer = ts.Staging(contact, engine=engine)
            producer.offer("x", version, array)

            def read(version: int = version) -> None:
                try:
                    reader.get("x", version, (0,), (elements,), out, timeout=1.0)
                    results.append("got" if (out == version).all() else "wrong")
                except (ts.Timeout, ts.PeerLost, ts.Closed):
                    results.append("withdrawn")

            thread = threading.Thread(target=read)
            thread.start()
            time.sleep(0.0005 * version)
            producer.close()
            array[...] = -1
            thread.join()
    assert "wrong" not in results
    assert len(results) == 12


@pytest.mark.parametrize("kind", ["pageable", "mapped"])
def test_a_producer_that_closes_while_a_reader_stands_still(
    serve: Servers, produce: Produce, kind: str
) -> None:
    with offered_to_a_slow_reader(serve, produce, kind) as (producer, reader):
        stop(reader)
        said = producer.does("staging.close()")
        if said == "ok":  # it does not copy: no process reads the array any more
            producer.do("made['x'][...] = -1")
        else:
            assert "Timeout" in said, said
        producer.end()
        reader.send_signal(signal.SIGCONT)
        told = what_it_told(reader)
        assert "PeerLost" in told or "Closed" in told, told


@pytest.mark.parametrize("kind", ["pageable", "mapped"])
def test_a_server_that_dies_while_a_reader_stands_still(
    serve: Servers, produce: Produce, kind: str
) -> None:
    """Nobody knows then which gets go on: the producer's engine alone keeps the array for them."""
    with offered_to_a_slow_reader(serve, produce, kind) as (producer, reader):
        stop(reader)
        serve.processes[-1].kill()
        serve.processes[-1].wait(timeout=PATIENCE)
        said = ""

        def is_known() -> bool:  # at first, the producer may not have seen that the server died
            nonlocal said
            said = producer.does("made['offer'].withdraw(0.1)")
            return said == "ok" or "a peer is still using it" in said

        assert eventually(is_known), said
        if said == "ok":
            producer.do("made['x'][...] = -1")
        reader.send_signal(signal.SIGCONT)
        if said != "ok":
            producer.do("made['offer'].withdraw(60.0); made['x'][...] = -1")
        told = what_it_told(reader)
        assert "tranship" in told, told  # an error of the get


def test_a_step_lacks_what_its_producer_has_withdrawn(serve: Servers) -> None:
    contact = serve("--memory", "1MiB")
    with ts.Staging(contact) as reader:
        with ts.Staging(contact, offers=True) as staging, staging.step(1) as step:
            step["x"].offer(np.zeros(50))
            step["y"].put(np.ones(7))
        whole = next(reader.steps("first", timeout=PATIENCE))
        assert (whole["y"].get() == 1).all()
        assert set(whole.variables) == {"x", "y"}
        with pytest.raises(ts.Closed, match='version 1 of "x" is not there'):
            whole["x"].get(timeout=PATIENCE)


def test_a_fork_has_no_part_in_an_offer(serve: Servers, produce: Produce) -> None:
    contact = serve("--memory", "1MiB")
    producer = produce(contact)
    array = producer.make("pageable", (5000,))
    producer.do("made['offer'] = staging.offer('x', 1, made['x'])")
    producer.do("import os")
    child = (
        "made['pid'] = os.fork() or [os._exit(3 if isinstance(error, ts.Closed) else 4)"
        " for error in [made['offer_error']()]]"
    )
    producer.do(
        "made['offer_error'] = lambda: next((e for e in [made['call']()] if e is not None), None)"
    )
    producer.do(
        "exec('def call():\\n try: made[\"offer\"].withdraw()\\n except Exception as e: return e')"
    )
    producer.do("made['call'] = call")
    producer.do(child)
    producer.do("assert os.waitstatus_to_exitcode(os.waitpid(made['pid'], 0)[1]) == 3")
    with ts.Staging(contact) as staging:
        assert (staging.get("x", 1) == array).all()
    producer.do("assert not made['offer'].ended; made['offer'].withdraw()")


def test_a_producer_that_stands_still_holds_up_no_gets_of_others(
    serve: Servers, produce: Produce
) -> None:
    contact = serve("--memory", "1MiB")
    still, other = produce(contact), produce(contact)
    for producer, name in ((still, "x"), (other, "y")):
        producer.make("pageable", (1000,))
        producer.do(f"staging.offer({name!r}, 1, made['x'])")
    stop(still.process)
    failed: list[str] = []
    with ts.Staging(contact) as staging:
        begin = time.monotonic()

        def wait(timeout: float) -> None:
            try:
                staging.get("x", 1, timeout=timeout)
            except ts.Timeout:
                failed.append("timeout")
            except ts.Closed:
                failed.append("closed")

        short = [threading.Thread(target=wait, args=(0.5,)) for _ in range(3)]
        long = threading.Thread(target=wait, args=(10 * PATIENCE,))
        long.start()
        for thread in short:
            thread.start()
        assert (staging.get("y", 1, timeout=PATIENCE) == np.arange(1000.0)).all()
        for thread in short:
            thread.join()
        assert failed == ["timeout"] * 3
        threading.Timer(0.1, staging.close).start()
        long.join()
        assert failed[3:] == ["closed"]
        assert time.monotonic() - begin < 2 * PATIENCE


def test_an_offer_of_a_server_that_died_has_ended(serve: Servers) -> None:
    contact = serve("--memory", "1MiB")
    with ts.Staging(contact, offers=True) as staging:
        offer = staging.offer("x", 1, np.zeros(10))
        serve.processes[-1].kill()
        assert eventually(lambda: offer.ended)
