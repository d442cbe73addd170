"""First puts and gets of a GPU's arrays, which do not wait until the server's memory is pinned.

GPUs are emulated, and pin memory as slowly as each test says.
"""

from __future__ import annotations

import functools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpu_support import content, fixed_gpu_profile, on_gpu
from staging_servers import PATIENCE, Servers

import tranship as ts
from support import eventually

MIB = 1 << 20
REFUSED = 0
AT_ONCE = -1
Bytes = np.ndarray[Any, np.dtype[np.uint8]]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Servers]:
    """Yields a `Servers`."""
    servers = Servers(tmp_path)
    yield servers
    servers.end()


@functools.cache
def profile() -> str:
    return fixed_gpu_profile()


def with_gpu(pinned_per_second: int) -> ts.Engine:
    """Returns an engine whose GPUs pin so many bytes in a second."""
    return ts.Engine(
        profile=profile(), emulated_gpus=2, threads=2, emulated_pinning=pinned_per_second
    )


def drawn(seed: int, mib: int) -> Bytes:
    return np.random.default_rng(seed).integers(0, 255, mib * MIB, dtype=np.uint8)


def direct(staging: ts.Staging, calls: str) -> int:
    """Returns how many of the client's puts or gets took no bounce buffer on their way."""
    paths = staging.statistics()["v"][calls]["paths"]
    return sum(count for path, count in paths.items() if "shared0" not in path)


def await_direct(staging: ts.Staging, calls: str, call: Callable[[], object]) -> None:
    """Repeats a call until three were direct."""

    def three_were() -> bool:
        if direct(staging, calls) >= 3:
            return True
        call()
        return False

    assert eventually(three_were), "calls take bounce buffers"


def test_a_first_put_does_not_wait_for_pinning(serve: Servers) -> None:
    contact = serve("--memory", "256MiB")
    values = drawn(1, 24)
    # Parts of 64 MiB take 8 s each, and the memory takes 32 s.
    with with_gpu(8 * MIB) as engine:
        array = on_gpu(engine, values)
        out = on_gpu(engine, np.zeros_like(values))
        begin = time.monotonic()
        with ts.Staging(contact, engine=engine) as staging:
            staging.put("v", 0, array)
            staging.get("v", 0, out=out)
            taken = time.monotonic() - begin
            assert direct(staging, "puts") == direct(staging, "gets") == 0
            assert np.array_equal(content(engine, out), values)
            assert np.array_equal(staging.get("v", 0), values)
        assert taken < 20.0


# The last page of 300,000,000 bytes is used in part.
@pytest.mark.parametrize("preallocated", ["0", "300000000", "512MiB"])
def test_later_puts_and_gets_are_direct(serve: Servers, preallocated: str) -> None:
    contact = serve("--memory", "512MiB", "--preallocate", preallocated)
    with with_gpu(1024 * MIB) as engine, ts.Staging(contact, engine=engine) as staging:
        values = drawn(2, 80).reshape(5, 16 * MIB)
        array = on_gpu(engine, values)
        version = 0

        def put() -> None:
            nonlocal version
            staging.put("v", version, array)
            staging.discard("v", version)
            version += 1

        put()
        # Objects of 80 MiB lie in two or three parts of the memory, which are pinned apart.
        await_direct(staging, "puts", put)
        for kept in range(version, version + 3):
            staging.put("v", kept, array)
            assert np.array_equal(staging.get("v", kept), values)
        out = on_gpu(engine, np.zeros_like(values))
        await_direct(staging, "gets", lambda: staging.get("v", version, out=out))
        assert np.array_equal(content(engine, out), values)


def test_rows_of_a_wider_array_cross_parts_too(serve: Servers) -> None:
    contact = serve("--memory", "256MiB", "--preallocate", "256MiB")
    with with_gpu(AT_ONCE) as engine, ts.Staging(contact, engine=engine) as staging:
        wide = drawn(3, 80).reshape(80, 16, -1)
        values = wide[:, 1:15, 3:-5]
        array = on_gpu(engine, wide)[:, 1:15, 3:-5]
        version = 0

        def put() -> None:
            nonlocal version
            version += 1
            staging.put("v", version, array)
            assert np.array_equal(staging.get("v", version), values)
            staging.discard("v", version)

        put()
        await_direct(staging, "puts", put)


def test_where_pinning_is_refused_copies_are_bounced(serve: Servers) -> None:
    contact = serve("--memory", "128MiB", "--preallocate", "128MiB")
    values = drawn(4, 16)
    with with_gpu(REFUSED) as engine, ts.Staging(contact, engine=engine) as staging:
        array = on_gpu(engine, values)
        out = on_gpu(engine, np.zeros_like(values))
        for version in range(3):
            staging.put("v", version, array)
            staging.get("v", version, out=out)
            assert np.array_equal(content(engine, out), values)
            time.sleep(0.1)
        assert direct(staging, "puts") == direct(staging, "gets") == 0


@pytest.mark.parametrize("pause", [0.0, 0.02, 0.1, 0.3])
def test_closing_ends_pinning(serve: Servers, pause: float) -> None:
    contact = serve("--memory", "256MiB", "--preallocate", "256MiB")
    # A part of 64 MiB takes a quarter of a second.
    for close_client_first in (True, False):
        engine = with_gpu(256 * MIB)
        staging = ts.Staging(contact, engine=engine)
        staging.put("v", int(close_client_first), on_gpu(engine, drawn(5, 8)))
        time.sleep(pause)
        if close_client_first:
            staging.close()
        engine.close()
        staging.close()


def test_a_put_ends_when_the_client_is_closed_beside_pinning(serve: Servers) -> None:
    contact = serve("--memory", "256MiB")
    engine = with_gpu(128 * MIB)
    array = on_gpu(engine, drawn(6, 24))
    staging = ts.Staging(contact, engine=engine)
    ends: list[object] = []

    def put_on() -> None:
        version = 0
        try:
            while True:
                staging.put("v", version, array)
                staging.discard("v", version)
                version += 1
        except ts.Error as error:
            ends.append(error)

    thread = threading.Thread(target=put_on)
    thread.start()
    time.sleep(0.3)
    staging.close()
    thread.join(PATIENCE)
    engine.close()
    assert len(ends) == 1
    assert isinstance(ends[0], ts.Closed)


def test_a_killed_server_leaves_an_error(serve: Servers) -> None:
    contact = serve("--memory", "256MiB", "--preallocate", "256MiB")
    with with_gpu(128 * MIB) as engine:
        array = on_gpu(engine, drawn(7, 16))
        with ts.Staging(contact, engine=engine) as staging:
            staging.put("v", 0, array)
            serve.processes[0].send_signal(signal.SIGKILL)
            with pytest.raises(ts.Error):
                for version in range(1, 1000):
                    staging.put("v", version, array, timeout=PATIENCE)


def test_a_fork_leaves_pinning_to_its_parent(serve: Servers) -> None:
    contact = serve("--memory", "256MiB", "--preallocate", "256MiB")
    with with_gpu(128 * MIB) as engine:
        values = drawn(8, 16)
        array = on_gpu(engine, values)
        with ts.Staging(contact, engine=engine) as staging:
            staging.put("v", 0, array)
            child = os.fork()
            if child == 0:
                staging.close()
                engine.close()
                os._exit(0)
            flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
            ended = eventually(lambda: os.waitid(os.P_PID, child, flags) is not None)
            assert ended, "the child hangs"
            assert os.waitpid(child, 0)[1] == 0
            assert np.array_equal(staging.get("v", 0), values)
