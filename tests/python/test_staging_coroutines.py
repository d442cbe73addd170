"""Coroutines wait for puts, gets and versions, and may be cancelled while they do."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from staging_servers import PATIENCE

import tranship as ts


@pytest.fixture
def contact(tmp_path: Path) -> Iterator[Path]:
    with ts.StagingServer(tmp_path / "contact", memory="2MiB", threads=1):
        yield tmp_path / "contact"


@pytest.fixture
def staging(contact: Path) -> Iterator[ts.Staging]:
    with ts.Staging(contact) as client:
        yield client


def threads_named(text: str) -> int:
    return sum(text in thread.name for thread in threading.enumerate())


def test_puts_and_gets_are_awaited(staging: ts.Staging) -> None:
    async def run() -> None:
        wanted = staging.get_async("a", 3, (0,), (4,), timeout=PATIENCE)
        for version in range(4):
            assert await staging.put_async("a", version, np.full(4, float(version))) is None
        assert (await wanted).tolist() == [3] * 4
        out = np.zeros(4)
        assert await staging.get_async("a", 2, (0,), (4,), out) is out and (out == 2).all()
        gets = (staging.get_async("a", k, (0,), (4,)) for k in range(4))
        assert [got[0] for got in await asyncio.gather(*gets)] == [0, 1, 2, 3]

    asyncio.run(run())


def test_what_fails_raises_where_it_is_awaited(staging: ts.Staging) -> None:
    async def run() -> None:
        with pytest.raises(ts.Timeout):
            await staging.get_async("never", 1, (0,), (4,), timeout=0.05)
        with pytest.raises(ts.NotFound):
            await staging.get_async("never", 1, (0,), (4,))

    asyncio.run(run())


def test_a_get_that_waits_is_cancelled(staging: ts.Staging) -> None:
    async def run() -> None:
        out = np.zeros(4)
        get = staging.get_async("late", 1, (0,), (4,), out, timeout=PATIENCE)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(get, 0.3)
        begin = time.monotonic()
        with pytest.raises((ts.Cancelled, concurrent.futures.CancelledError)):
            get.result(PATIENCE)
        assert time.monotonic() - begin < PATIENCE / 2
        await staging.put_async("late", 1, np.ones(4))
        await asyncio.sleep(0.3)
        assert not out.any(), "a cancelled get wrote to its array"

    asyncio.run(run())


def test_a_put_that_waits_is_cancelled(staging: ts.Staging) -> None:
    first = np.zeros(1_500_000, np.uint8)
    staging.put("full", 0, first)
    put = staging.put_async("full", 1, first, timeout=PATIENCE)
    time.sleep(0.3)
    assert put.cancel()
    with pytest.raises((ts.Cancelled, concurrent.futures.CancelledError)):
        put.result(PATIENCE)
    staging.discard("full", 0)
    with pytest.raises(ts.Timeout):
        staging.get("full", 1, timeout=0.3)
    staging.put("full", 2, first)
    assert not put.cancel() or put.done()


def test_what_has_ended_is_not_cancelled(staging: ts.Staging) -> None:
    put = staging.put_async("a", 1, np.ones(3))
    put.result(PATIENCE)
    assert not put.cancel() and put.result() is None and not put.cancelled()


def test_closing_ends_what_is_awaited(contact: Path) -> None:
    async def run() -> None:
        client = ts.Staging(contact)
        get = asyncio.ensure_future(wait_for(client))
        await asyncio.sleep(0.2)
        client.close()
        with pytest.raises(ts.Closed):
            await asyncio.wait_for(get, PATIENCE)

    async def wait_for(client: ts.Staging) -> None:
        await client.get_async("never", 1, (0,), (4,), timeout=PATIENCE)

    asyncio.run(run())


def test_coroutines_follow_versions(contact: Path, staging: ts.Staging) -> None:
    async def produce(writer: ts.Staging) -> None:
        for version in range(5):
            await writer.put_async("x", version, np.full(3, float(version)))
            await asyncio.sleep(0.02)
        writer.close()

    async def run() -> list[float]:
        got = []
        producing = asyncio.ensure_future(produce(ts.Staging(contact)))
        async for version in staging["x"].versions(timeout=PATIENCE):
            got.append(float((await staging.get_async("x", version))[0]))
        await producing
        return got

    assert asyncio.run(run()) == [0, 1, 2, 3, 4]


def test_other_coroutines_run_while_one_waits(staging: ts.Staging) -> None:
    async def run() -> None:
        versions = staging["quiet"].versions(lower=(0,), upper=(1,), timeout=PATIENCE)
        waiting = asyncio.ensure_future(anext(versions))
        for _ in range(10):
            await asyncio.sleep(0.01)
        assert not waiting.done()
        staging.put("quiet", 0, np.zeros(1))
        assert await asyncio.wait_for(waiting, PATIENCE) == 0
        with pytest.raises(ts.Timeout):
            async for _ in staging["quiet"].versions(after=0, timeout=0.1):
                pass

    asyncio.run(run())


def test_a_cancelled_wait_loses_no_version(contact: Path, staging: ts.Staging) -> None:
    async def run() -> None:
        versions = staging["x"].versions(timeout=PATIENCE)
        staging.put("x", 0, np.zeros(3))
        assert await anext(versions) == 0
        for version in range(1, 4):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(anext(versions), 0.1)
            staging.put("x", version, np.zeros(3))
            await asyncio.sleep(0.3)  # the thread has the version, and nobody waits for it
            assert await asyncio.wait_for(anext(versions), PATIENCE) == version
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(anext(versions), 0.1)
        staging.put("x", 4, np.zeros(3))
        assert next(versions) == 4, "a loop goes on where a coroutine has stopped"

    asyncio.run(run())


def test_an_iteration_is_closed(staging: ts.Staging) -> None:
    async def run() -> None:
        staging.put("x", 0, np.zeros(3))
        versions = staging["x"].versions(after=0, timeout=PATIENCE)
        waiting = asyncio.ensure_future(collect(versions))
        await asyncio.sleep(0.1)
        await versions.aclose()
        assert await asyncio.wait_for(waiting, PATIENCE) == []
        assert [v async for v in versions] == [] == list(versions)

    async def collect(versions: ts.staging.Versions) -> list[int]:
        return [version async for version in versions]

    asyncio.run(run())


def test_a_closed_client_ends_the_iteration(contact: Path) -> None:
    async def run() -> None:
        client = ts.Staging(contact)
        client.put("x", 0, np.zeros(3))
        waiting = asyncio.ensure_future(anext(client["x"].versions(after=0, timeout=PATIENCE)))
        await asyncio.sleep(0.2)
        client.close()
        with pytest.raises(ts.Closed):
            await asyncio.wait_for(waiting, PATIENCE)

    asyncio.run(run())


def test_a_dropped_iteration_leaves_no_thread(staging: ts.Staging) -> None:
    async def run() -> None:
        staging.put("dropped", 0, np.zeros(3))
        versions = staging["dropped"].versions(after=0, timeout=PATIENCE)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(anext(versions), 0.1)
        assert threads_named('tranship-the next version of "dropped"') == 1

    asyncio.run(run())
    gc.collect()
    end = time.monotonic() + PATIENCE / 2
    while threads_named('tranship-the next version of "dropped"') and time.monotonic() < end:
        time.sleep(0.05)
    assert threads_named('tranship-the next version of "dropped"') == 0


def test_loops_follow_as_before(contact: Path, staging: ts.Staging) -> None:
    with ts.Staging(contact) as writer:
        for version in (1, 2):
            writer.put("y", version, np.zeros(3))
        versions = staging["y"].versions(timeout=PATIENCE)
        assert iter(versions) is versions and [next(versions), next(versions)] == [1, 2]
        versions = staging["y"].versions(after=2, timeout=0.2)
        with pytest.raises(ts.Timeout):
            next(versions)
        assert list(versions) == []
    assert list(staging["y"].versions(timeout=PATIENCE)) == [1, 2]
