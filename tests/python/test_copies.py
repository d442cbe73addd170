"""`Engine.copy` between any two arrays: every combination of kinds, against the oracle."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import copy_elements
from places import KINDS, Bytes, Place, Wish, World, place, typed_fields
from strategies import boxes, extent_maps

import tranship as ts

PLANNERS = ("automatic", "simple", "spsl", "spdl")
PAIRS = [(source, target) for source in KINDS for target in KINDS]


@pytest.fixture(scope="module")
def worlds(
    engine: ts.Engine,
    queueing_engine: ts.Engine,
    queueing_profile: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[list[tuple[ts.Engine, World]]]:
    """Yields engines that copy on the caller's thread, queued, and queued over the network."""
    folder = tmp_path_factory.mktemp("files")
    numbers = itertools.count()
    network = ts.Engine(profile=queueing_profile, threads=1, transport="network")
    far = ts.Engine(contact=True, profile=queueing_profile, threads=1, transport="network")
    with ts.Engine(contact=True, profile=queueing_profile, threads=1) as owner, network, far:
        yield [
            (engine, World(folder, owner, engine.connect(owner.contact), numbers)),
            (
                queueing_engine,
                World(folder, owner, queueing_engine.connect(owner.contact), numbers),
            ),
            (network, World(folder, far, network.connect(far.contact), numbers)),
        ]


def expected_memory(source: Place, target: Place, box: tuple[slice, ...], kinds: Any) -> Bytes:
    """Returns what the target's memory must hold after a copy of `box`."""
    memory = target.memory()
    contents = source.memory()
    for name, kind in kinds.items():
        size = np.dtype(kind).itemsize
        copy_elements(contents, source.offsets[name][box], memory, target.offsets[name][box], size)
    return memory


def region_of(
    draw: st.DrawFn, extents: dict[str, int], named: bool
) -> tuple[dict[str, tuple[int, int]] | None, tuple[slice, ...]]:
    """Draws a region, as an argument of `copy` (whole dimensions may be left out) and as slices."""
    if not draw(st.booleans()):
        return None, (slice(None),) * len(extents)
    box = draw(boxes(extents))
    region = {}
    for k, (name, (low, high)) in enumerate(box.items()):
        if (low, high) == (0, extents[name]) and draw(st.booleans()):
            continue
        region[name if named else f"d{k}"] = (low, high)
    return region, tuple(slice(low, high) for low, high in box.values())


@pytest.mark.parametrize(("source_kind", "target_kind"), PAIRS)
@settings(max_examples=40)
@given(data=st.data())
def test_any_copy_equals_indexing(
    worlds: list[tuple[ts.Engine, World]], source_kind: str, target_kind: str, data: st.DataObject
) -> None:
    engine, world = data.draw(st.sampled_from(worlds))
    world.withdraw()
    extents = data.draw(extent_maps())
    kinds = data.draw(typed_fields())
    both_named = {source_kind, target_kind} <= {"instance", "raw"}
    source = place(data.draw, extents, kinds, world, Wish(source_kind, True, both_named))
    target = place(data.draw, extents, kinds, world, Wish(target_kind, False, both_named))
    region, box = region_of(data.draw, extents, source.named or target.named)
    planner = data.draw(st.sampled_from(PLANNERS))
    expected = expected_memory(source, target, box, kinds)
    before = source.memory()
    event = engine.copy(source.array, target.array, region=region, planner=planner)
    event.wait(timeout=20)
    assert event.done()
    assert np.array_equal(target.memory(), expected)
    assert np.array_equal(source.memory(), before)
    assert engine._core.buffer_bytes_in_use == 0
