"""Puts of arrays that copies still write: `put(..., after=event)`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from staging_servers import PATIENCE, Servers

import tranship as ts
from support import Slow


@pytest.fixture
def contact(profile: str, tmp_path: Path) -> Iterator[Path]:
    servers = Servers(tmp_path)
    yield servers("--memory", "128MiB")
    servers.end()


def used(client: ts.Staging) -> int:
    return sum(int(server["memory_used"]) for server in client.servers())


def test_a_put_reads_what_the_copy_has_written(contact: Path) -> None:
    with ts.Engine() as engine, ts.Staging(contact, engine=engine) as client:
        slow = Slow()
        client.put("field", 1, slow.target, after=slow.start(engine))
        assert client.get("field", 1).all()
        small = np.zeros(3)
        behind = [slow.start(engine), engine.copy(np.ones(3), small)]
        client.put("small", 1, small, after=behind)
        assert behind[0].done() and client.get("small", 1).all()


def test_a_put_behind_a_copy_in_the_background(contact: Path) -> None:
    with ts.Engine() as engine, ts.Staging(contact, engine=engine) as client:
        slow = Slow()
        put = client.put_async("field", 1, slow.target, after=slow.start(engine))
        put.result(timeout=PATIENCE)
        assert client.get("field", 1).all()


def test_a_put_behind_a_copy_that_fails(contact: Path) -> None:
    with ts.Engine() as engine, ts.Staging(contact, engine=engine) as client:
        for array in (np.zeros(3), np.zeros((1024, 1024))):
            event = Slow().start_many(engine)[-1]
            event.cancel()
            with pytest.raises(ts.Cancelled):
                client.put("field", 1, array, after=event)
        assert used(client) == 0
        with pytest.raises(ts.Timeout):
            client.get("field", 1, (0, 0), (4, 4), timeout=0.1)


def test_a_put_waits_no_longer_than_told(contact: Path) -> None:
    with ts.Engine() as engine, ts.Staging(contact, engine=engine) as client:
        slow = Slow()
        event = slow.start_many(engine)[-1]
        with pytest.raises(ts.Timeout):
            client.put("field", 1, slow.target, after=event, timeout=0.002)
        assert used(client) == 0
        event.wait(timeout=PATIENCE)
        client.put("field", 1, slow.target, after=event)
        assert client.get("field", 1).all()


@pytest.mark.parametrize("after", [3, "event", [None], np.ones(3)])
def test_what_is_no_event(contact: Path, after: object) -> None:
    with (
        ts.Staging(contact, threads=1) as client,
        pytest.raises(ts.InvalidArgument, match=r"an event that Engine\.copy\(\) returned"),
    ):
        client.put("field", 1, np.zeros(3), after=after)  # type: ignore[arg-type]
