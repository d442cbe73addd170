"""Lists of copies between several emulated GPUs, whose arrays name streams of their own."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from gpu_support import fixed_gpu_profile

import tranship
from tranship.errors import InvalidArgument

GPUS = 4
PAIRS = {
    "all to all": [(a, b) for a in range(GPUS) for b in range(GPUS) if a != b],
    "to one": [(1, 0), (2, 0), (3, 0)],
    "first target alone": [(0, 2), (1, 2)],
    "a chain": [(0, 1), (1, 2)],
    "in one": [(1, 1), (1, 1)],
}


class Foreign:
    """An array of another library on a GPU, which is ready behind a stream."""

    def __init__(self, array: Any, stream: int | None) -> None:
        self.array = array
        described = dict(array.__cuda_array_interface__)
        described["stream"] = stream
        self.__cuda_array_interface__ = described


@pytest.fixture(scope="module")
def rates() -> str:
    """Returns a profile of fixed rates, as the tests look at paths."""
    return fixed_gpu_profile(GPUS)


@pytest.fixture
def engine(rates: str) -> Iterator[tranship.Engine]:
    with tranship.Engine(emulated_gpus=GPUS, profile=rates) as opened:
        yield opened


def arrays(engine: tranship.Engine, devices: list[tuple[int, int]]) -> list[tuple[Any, Any]]:
    pairs = []
    for k, (source, target) in enumerate(devices):
        a, b = (engine.empty((50, 40), "f4", memory=f"device{d}") for d in (source, target))
        engine.copy(np.full((50, 40), k + 1, "f4"), a).wait(timeout=60)
        pairs.append((a, b))
    return pairs


def check(engine: tranship.Engine, pairs: list[tuple[Any, Any]]) -> None:
    for k, (_, target) in enumerate(pairs):
        out = np.zeros((50, 40), "f4")
        engine.copy(target, out).wait(timeout=60)
        assert (out == k + 1).all(), f"pair {k}"
        engine.copy(np.zeros((50, 40), "f4"), target).wait(timeout=60)


@pytest.mark.parametrize("devices", PAIRS.values(), ids=PAIRS.keys())
@pytest.mark.parametrize("named", ["all", "targets", "none"])
def test_arrays_that_name_streams_on_several_gpus(
    engine: tranship.Engine, devices: list[tuple[int, int]], named: str
) -> None:
    own = arrays(engine, devices)
    pairs = [
        (Foreign(a, 1) if named == "all" else a, Foreign(b, 1) if named != "none" else b)
        for a, b in own
    ]
    engine.copy_all(pairs).wait(timeout=60)
    check(engine, own)
    prepared = engine.prepare_all(pairs)
    for options in ({}, {"stream": 1}, {}):
        prepared.start(**options).wait(timeout=60)
        check(engine, own)


def test_a_prepared_copy_joins_streams_that_live_until_it_has_started(
    engine: tranship.Engine,
) -> None:
    own = arrays(engine, [(0, 1)])
    engine.prepare(Foreign(own[0][0], 1), Foreign(own[0][1], 1)).start().wait(timeout=60)
    check(engine, own)
    own = arrays(engine, [(0, 0)])
    prepared = engine.prepare(Foreign(own[0][0], 1), Foreign(own[0][1], 2))
    prepared.start().wait(timeout=60)
    check(engine, own)


def test_the_plan_of_several_copies_is_that_of_the_first(engine: tranship.Engine) -> None:
    pairs = arrays(engine, [(0, 2), (1, 2), (1, 3), (3, 0)])
    event = engine.copy_all(pairs)
    event.wait(timeout=60)
    assert event.plan.path == "node0/device0 > node0/device2"
    check(engine, pairs)
    assert "node0/device0 > node0/device2" in repr(engine.prepare_all(pairs))


def test_the_first_pair_s_stream_counts_in_any_order(engine: tranship.Engine) -> None:
    """Emulated GPUs have no streams but the default ones, and say so."""
    own = arrays(engine, [(0, 2), (1, 2), (1, 3)])
    pairs = [(Foreign(own[0][0], 77), own[0][1]), *own[1:]]
    for start in (lambda: engine.copy_all(pairs), lambda: engine.prepare_all(pairs).start()):
        with pytest.raises(InvalidArgument, match="no streams but the default"):
            start()
