"""Chains, nesting and names of any length: work and memory grow with them, and nothing overflows.

TRANSHIP_CHAIN gives the length of the chains.
"""

from __future__ import annotations

import concurrent.futures
import os
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tranship as ts
from support import PATIENCE, run_script

LENGTH = int(os.environ.get("TRANSHIP_CHAIN", "20000"))

CHAIN = """
import sys
import numpy as np, tranship as ts
length, how = int(sys.argv[1]), sys.argv[2]
engine = ts.Engine(threads=1)
wide, tall = np.ones((2000, 2000)), np.zeros((2000, 2000))
one, other = np.ones(10), np.zeros(10)
slow = [engine.copy(wide, tall.T)]
for _ in range(5000 if how != "end" else 2):
    slow.append(engine.copy(wide, tall.T, after=slow[-1]))
head, last = slow[0], slow[-1]
for _ in range(length):
    last = engine.copy(one, other, after=last)
if how == "cancel":
    assert slow[-1].cancel()
if how == "close":
    engine.close()
if how == "drop":
    slow.clear()
    last = head = None
    engine.close()
if last is not None:
    error = last.exception(60)
    assert how == "end" or isinstance(error, (ts.Cancelled, ts.Closed)), error
    assert len(str(error)) < 1000, len(str(error))
engine.close()
"""


@pytest.fixture
def engine() -> Iterator[ts.Engine]:
    with ts.Engine(threads=1) as opened:
        yield opened


@pytest.mark.parametrize("how", ["end", "cancel", "close", "drop"])
def test_a_chain_of_copies(how: str) -> None:
    run_script(CHAIN, LENGTH, how, seconds=2 * PATIENCE)


def test_many_events_before_one_copy(engine: ts.Engine) -> None:
    a, b = np.ones(10), np.zeros(10)
    events = [engine.copy(a, b) for _ in range(LENGTH)]
    engine.copy(a, b, after=events).wait(PATIENCE)
    done, rest = concurrent.futures.wait(events, timeout=PATIENCE)
    assert len(done) == LENGTH and not rest


def nested(levels: int, **aligned: Any) -> np.dtype[Any]:
    """Returns a structure in a structure in a structure."""
    dtype: np.dtype[Any] = np.dtype("f8")
    for _ in range(levels):
        dtype = np.dtype([("tag", "u1"), ("a", dtype)], **aligned)
    return dtype


@pytest.mark.parametrize("aligned", [False, True])
def test_structures_within_structures(engine: ts.Engine, aligned: bool) -> None:
    for levels in (1, 2, 10, 30, 50):
        dtype = nested(levels, align=aligned)
        a, b = np.ones(3, dtype), np.zeros(3, dtype)
        engine.copy(a, b).wait(PATIENCE)
        assert (a == b).all()
        held = ts.Instance(extents=3, fields={"x": dtype})
        assert held.dtype == dtype
    with pytest.raises(ts.InvalidArgument, match="nested more than 60 levels"):
        engine.copy(np.ones(3, nested(400)), np.zeros(3, nested(400)))
    with pytest.raises(ts.Error):
        ts.types.as_type(nested(400))


def test_texts_of_structures_say_all(engine: ts.Engine) -> None:
    """Types that differ deep within have different texts."""
    leaves = ["f8", "i8", ">f8", ("f4", (2,)), ("i4", (2, 1)), [("a", "f8")], [("b", "f8")]]
    dtypes = [np.dtype([("x", [("y", [("z", leaf)])])]) for leaf in leaves]
    for one, other in pairwise(dtypes):
        with pytest.raises(ts.InvalidArgument):
            engine.copy(np.zeros(2, one), np.zeros(2, other))
    for dtype in dtypes:
        assert ts.Instance(extents=2, fields={"f": dtype}).dtype == dtype


def test_types_of_types() -> None:
    made = ts.types.as_type("f8")
    with pytest.raises(ts.Error, match="nested deeper"):
        for _ in range(1000):
            made = ts.types.vector(2, 1, 3, made)
    made = ts.types.as_type("u1")
    with pytest.raises(ts.Error):
        for _ in range(1000):
            made = ts.types.struct([1, 1], [0, made.extent], [made, made])
            assert len(repr(made)) < 100_000


def test_deep_profiles() -> None:
    for text in ("[" * 1_000_000, '{"a":' * 500_000, "{" + "[" * 100_000 + "]" * 100_000 + "}"):
        with pytest.raises(ts.Error):
            ts.Engine(profile="{" + text)


@pytest.mark.parametrize("characters", [1_000, 100_000, 1_000_000])
def test_long_names(engine: ts.Engine, characters: int) -> None:
    name = "n" * characters
    accepting = ts.Engine(contact=True, threads=1)
    for call in (
        lambda: accepting.export(name, np.zeros(3)),
        lambda: engine.connect(name, timeout=0.1),
        lambda: ts.File(name, extents=3),
        lambda: ts.File(name + ".npy", extents=3, mode="w"),
        lambda: ts.Instance(extents={name: 3}),
        lambda: ts.Instance(extents=3, layout=", ".join(["F", *name])),
        lambda: ts.Engine(contact="/" + name),
        lambda: engine.copy(np.zeros(3), np.zeros(3), planner=name),  # type: ignore[arg-type]
    ):
        try:
            call()
        except ts.Error as error:
            assert len(str(error)) < 3 * characters + 2000
    accepting.close()
