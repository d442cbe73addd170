"""Staging servers with a reader that is slower than the writer, and on machines without memory."""

from __future__ import annotations

import resource
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from staging_servers import PATIENCE, Servers

import tranship as ts
from support import SOON_S, eventually

BLOCK = 32 * 1024
"""Elements of a version: 256 KiB, of which a server of 2 MiB holds 8."""
HELD = 8
VERSIONS = 60
PAUSE_S = 0.02
"""Seconds that a slow reader pauses between two versions; the writer does not pause."""


def block(version: int) -> np.ndarray:
    return np.arange(BLOCK, dtype="f8") + version * 1e6


class Writer:
    """A thread with a client that puts all versions without pauses."""

    def __init__(self, contact: Path) -> None:
        self.put = 0
        self.ended_at = 0.0
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self.run, args=(contact,))
        self.thread.start()

    def run(self, contact: Path) -> None:
        try:
            with ts.Staging(contact) as staging:
                staging.define("x", "f8", (0,), (BLOCK,), writers=1)
                for version in range(VERSIONS):
                    staging.put("x", version, block(version), timeout=PATIENCE)
                    self.put = version + 1
        except BaseException as failure:
            self.failure = failure
        self.ended_at = time.monotonic()

    def join(self) -> None:
        self.thread.join(3 * PATIENCE)
        assert not self.thread.is_alive() and self.failure is None


def test_block_holds_the_writer_back_and_loses_nothing(serve: Servers) -> None:
    contact = serve("--memory", "2MiB")
    with ts.Staging(contact) as reader:
        writer = Writer(contact)
        read = []
        for version in reader["x"].versions(lower=(0,), upper=(BLOCK,), timeout=PATIENCE):
            assert np.array_equal(reader.get("x", version), block(version))
            assert writer.put <= version + HELD + 1
            time.sleep(PAUSE_S)
            reader.discard("x", version)
            read.append(version)
        writer.join()
    assert read == list(range(VERSIONS))


def test_discard_oldest_lets_the_writer_go_and_the_reader_skips(serve: Servers) -> None:
    contact = serve("--memory", "2MiB", "--full", "discard-oldest")
    with ts.Staging(contact) as reader:
        writer = Writer(contact)
        read = []
        skipped = 0
        for version in reader["x"].versions(lower=(0,), upper=(BLOCK,), timeout=PATIENCE):
            try:
                got = reader.get("x", version, (0,), (BLOCK,), timeout=PATIENCE)
            except ts.NotFound as error:
                assert "was discarded" in str(error)
                skipped += 1
                continue
            assert np.array_equal(got, block(version))
            read.append(version)
            # The writer goes on without the reader, and soon has put more than the server holds.
            ahead = min(version + 2 * HELD, VERSIONS)
            assert eventually(lambda ahead=ahead: writer.put >= ahead)
        writer.join()
    assert read == sorted(set(read)) and read[-1] == VERSIONS - 1
    assert len(read) >= HELD and len(read) + skipped < VERSIONS


def test_spill_lets_the_writer_go_and_the_reader_sees_all(serve: Servers) -> None:
    contact = serve("--memory", "2MiB", "--full", "spill")
    with ts.Staging(contact) as reader:
        writer = Writer(contact)
        read = []
        for version in reader["x"].versions(lower=(0,), upper=(BLOCK,), timeout=PATIENCE):
            assert np.array_equal(reader.get("x", version), block(version))
            if version == HELD:
                writer.join()  # The writer does not wait for the reader.
            read.append(version)
        assert writer.put == VERSIONS
        assert reader.servers()[0]["memory_used"] <= 2 << 20
    assert read == list(range(VERSIONS))


def test_an_object_larger_than_the_memory_is_refused_at_once(serve: Servers) -> None:
    for policy in ("block", "discard-oldest", "spill"):
        contact = serve("--memory", "1MiB", "--full", policy)
        with ts.Staging(contact) as staging:
            begin = time.monotonic()
            with pytest.raises(ts.Error, match=r"does not fit the server.*start it with more"):
                staging.put("x", 1, np.zeros(1 << 18), timeout=PATIENCE)
            assert time.monotonic() - begin < SOON_S
            staging.put("x", 1, block(1))
            assert np.array_equal(staging.get("x", 1), block(1))


def test_a_machine_without_memory_says_so(serve: Servers) -> None:
    contact = serve("--memory", "4GiB", "--preallocate", "0")
    with ts.Staging(contact) as staging:
        staging.put("x", 1, block(1))
        # The server may now take 32 MiB more address space; a segment has 64 MiB.
        process = serve.processes[0].pid
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + (32 << 20)
        before = resource.prlimit(process, resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        large = np.zeros(10 << 20)
        with pytest.raises(ts.Error, match=r"machine has no memory.*free some there, or start"):
            staging.put("large", 1, large)
        staging.put("x", 2, block(2))
        for version in (1, 2):
            assert np.array_equal(staging.get("x", version), block(version))
        resource.prlimit(process, resource.RLIMIT_AS, before)
        staging.put("large", 1, large)
        assert np.array_equal(staging.get("large", 1), large)
