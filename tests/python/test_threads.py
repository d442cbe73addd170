"""Concurrent copies of many threads through one engine."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tranship as ts

THREADS = 12


def run_threads(body: Callable[[int], None]) -> None:
    """Runs `body(number)` in THREADS threads at once; raises an exception that one raised."""
    failures: list[BaseException] = []
    barrier = threading.Barrier(THREADS)

    def run(number: int) -> None:
        try:
            barrier.wait(timeout=20)
            body(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    for failure in failures:
        raise failure


def test_copies_of_all_sizes(any_engine: ts.Engine) -> None:
    def body(number: int) -> None:
        random = np.random.default_rng(number)
        for turn in range(40):
            rows, columns = (int(value) for value in random.integers(1, 600, 2))
            source = random.integers(0, 256, (rows, columns), np.uint8)
            target = np.zeros((columns, rows), np.uint8)
            any_engine.copy(source, target.T, priority=turn % 3).wait(timeout=30)
            assert np.array_equal(target.T, source)

    run_threads(body)


def test_large_copies_and_cancels(queueing_engine: ts.Engine) -> None:
    def body(number: int) -> None:
        source = np.full((1024, 1024), number + 1, np.uint8)
        for turn in range(6):
            target = np.zeros((1024, 1024), np.uint8)
            event = queueing_engine.copy(source, target.T)
            if turn % 2:
                event.cancel()
                try:
                    event.wait(timeout=30)
                except ts.Cancelled:
                    assert set(np.unique(target)) <= {0, number + 1}
                    continue
            event.wait(timeout=30)
            assert (target == number + 1).all()

    run_threads(body)
    assert queueing_engine._core.buffer_bytes_in_use == 0


def test_files_of_many_threads(queueing_engine: ts.Engine, tmp_path: Path) -> None:
    def body(number: int) -> None:
        source = np.random.default_rng(number).random((150, 130))
        path = tmp_path / f"{number}.npy"
        disk = ts.File(path, mode="w", extents=(150, 130), fields="f8", layout="d0, d1")
        event = queueing_engine.copy(source, disk, buffer_bytes=1 << 20)
        back = np.zeros((130, 150))
        queueing_engine.copy(disk, back.T, after=event).wait(timeout=30)
        disk.close()
        assert np.array_equal(back.T, source)
        assert np.array_equal(np.load(path), source)

    run_threads(body)
    assert queueing_engine._core.buffer_bytes_in_use == 0


@pytest.mark.parametrize("transport", ["automatic", "network"])
def test_a_peer_of_many_threads(profile: str, transport: str) -> None:
    settings = {"profile": profile, "transport": transport, "threads": 2}
    with (
        ts.Engine(contact=True, **settings) as owner,  # type: ignore[arg-type]
        ts.Engine(**settings) as engine,  # type: ignore[arg-type]
    ):
        arrays = [np.zeros((300, 200)) for _ in range(THREADS)]
        for number, array in enumerate(arrays):
            owner.export(f"a{number}", array)
        peer = engine.connect(owner.contact)

        def body(number: int) -> None:
            remote = peer[f"a{number}"]
            for turn in range(10):
                source = np.full((200, 300), 100.0 * number + turn)
                engine.copy(source.T, remote).wait(timeout=30)
                assert (arrays[number] == 100.0 * number + turn).all()
                back = np.zeros((20, 200))
                engine.copy(remote[30:50], back).wait(timeout=30)
                assert (back == 100.0 * number + turn).all()

        run_threads(body)


def test_closing_while_threads_copy(queueing_profile: str) -> None:
    engine = ts.Engine(profile=queueing_profile, threads=2)
    started = threading.Barrier(THREADS)
    ends: list[str] = []

    def body(number: int) -> None:
        source, target = np.ones((1024, 1024), np.uint8), np.zeros((1024, 1024), np.uint8)
        started.wait(timeout=20)
        if number == 0:
            engine.close()
            return
        try:
            while True:
                engine.copy(source, target.T).wait(timeout=30)
        except ts.Closed:
            ends.append("closed")

    run_threads(body)
    assert ends == ["closed"] * (THREADS - 1)
