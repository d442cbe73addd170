"""UCX as a carrier: over shared memory, since no test machine has a network card for RDMA."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from exporters import Exporter

import tranship as ts
from support import PATIENCE, SOON_S, run_script

Start = Callable[..., Exporter]
COUNT = 1 << 20

needs_ucx = pytest.mark.skipif(
    importlib.util.find_spec("libucx") is None,
    reason="UCX is not installed: pip install libucx-cu12",
)


@needs_ucx
def test_long_runs_are_carried_without_the_other_process(
    exporter: Start, queueing_profile: str
) -> None:
    """A stopped process answers nothing: a copy that ends meanwhile did not involve it."""
    other = exporter("--bytes", str(COUNT), TRANSHIP_UCX="shared")
    with ts.Engine(profile=queueing_profile, threads=2, peer_threads=0, ucx="shared") as engine:
        plain = engine.connect(other.contact)["plain"]
        other.stop()
        try:
            engine.copy(np.full(COUNT, 3, np.uint8), plain).wait(timeout=PATIENCE)
            back = np.zeros(COUNT // 2, np.uint8)
            engine.copy(plain[: COUNT // 2], back).wait(timeout=PATIENCE)
        finally:
            other.go_on()
        assert np.all(back == 3)
        assert other.ask("sum plain") == str(3 * COUNT)


@needs_ucx
def test_one_side_alone_goes_on_without_it(exporter: Start, queueing_profile: str) -> None:
    other = exporter("--bytes", str(COUNT))
    with ts.Engine(profile=queueing_profile, threads=2, ucx="shared") as engine:
        engine.copy(np.full(COUNT, 5, np.uint8), engine.connect(other.contact)["plain"]).wait(60)
        assert other.ask("sum plain") == str(5 * COUNT)


@needs_ucx
def test_a_killed_peer_is_an_error_in_time(exporter: Start, queueing_profile: str) -> None:
    other = exporter("--bytes", str(COUNT), TRANSHIP_UCX="shared")
    with ts.Engine(profile=queueing_profile, threads=2, ucx="shared") as engine:
        plain = engine.connect(other.contact)["plain"]
        source = np.full(COUNT, 3, np.uint8)
        engine.copy(source, plain).wait(timeout=PATIENCE)
        other.kill()
        begin = time.perf_counter()
        with pytest.raises(ts.PeerLost):
            engine.copy(source, plain).wait(timeout=PATIENCE)
        assert time.perf_counter() - begin < SOON_S


@needs_ucx
@pytest.mark.skipif(
    any(Path("/sys/class/infiniband").glob("*")), reason="this machine has a card for RDMA"
)
def test_rdma_that_is_asked_for_is_there_or_an_error() -> None:
    with pytest.raises(ts.Error, match="with the transports rc,dc,ud") as raised:
        ts.Engine(contact=True, ucx="rdma")
    assert raised.value.code == "unsupported"


def test_values_that_the_setting_does_not_have_are_refused() -> None:
    with pytest.raises(ts.InvalidArgument, match="is not a way to use UCX"):
        ts.Engine(contact=True, ucx="tcp")


def test_a_ucx_that_is_not_there_says_what_to_install() -> None:
    out = run_script("""
        import tranship as ts
        try:
            ts.Engine(contact=True, ucx="shared", ucx_library="/nowhere/libucp.so.0")
        except ts.Error as error:
            print(error.code, error)
    """)
    assert out.startswith("unsupported") and "/nowhere/libucp.so.0 is not there" in out
    assert "pip install 'libucx-cu12>=1.22,<1.23'" in out


@pytest.mark.skipif(
    any(Path("/sys/class/infiniband").glob("*")), reason="this machine has a card for RDMA"
)
def test_without_a_card_it_is_not_loaded() -> None:
    out = run_script("""
        from pathlib import Path
        import tranship as ts
        with ts.Engine(contact=True):
            print("libucp" in Path("/proc/self/maps").read_text())
    """)
    assert out == "False\n"
