"""Puts to memory of a staging server that no put has used before, beside later ones."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np

from tranship.engine import Engine
from tranship.staging import Staging

from ..gpu.copies import gpu_engine
from ..harness import Bench, require, same, seeded, timed
from ..registry import measures
from .boxes import server_process

LATER = 5
"""Calls behind the first ones, whose median is the baseline."""


@measures("staging-first-use", "first puts to a fresh staging server, beside later ones")
def staging_first_use(bench: Bench) -> None:
    """Measures first puts at once and after a pause, with and without preallocation.

    A server keeps two versions, so that the second put meets fresh memory as well.
    """
    measure_ways(bench, None)


@measures(
    "gpu-staging-first-use", "the first puts of a GPU's array to a fresh server, beside later ones"
)
def gpu_staging_first_use(bench: Bench) -> None:
    """Measures the same with an array of a GPU, whose target the client pins in the background."""
    with gpu_engine(bench):
        pass
    measure_ways(bench, "device0")


@measures("staging-fresh", "puts to fresh memory of a server that keeps every version")
def staging_fresh(bench: Bench) -> None:
    """Measures all puts to fresh memory together, beside as many to memory that they have used.

    Puts follow each other from a second after the server's start on, or come every 50 ms once it
    has cleared its memory, as those of a simulation that computes between them do.
    """
    measure_fresh(bench, None)


@measures("gpu-staging-fresh", "a GPU's puts to fresh memory of a server that keeps every version")
def gpu_staging_fresh(bench: Bench) -> None:
    """Measures the same with an array of a GPU, whose target the client pins in the background."""
    with gpu_engine(bench):
        pass
    measure_fresh(bench, "device0")


def source_of(engine: Engine, data: np.ndarray[Any, Any], memory: str | None) -> Any:
    """Returns an array of that memory with the data; None: the NumPy array itself."""
    if memory is None:
        return data
    source = engine.empty(data.shape, data.dtype, memory=memory)
    engine.copy(data, source).wait(timeout=60)
    return source


def measure_fresh(bench: Bench, memory: str | None) -> None:
    """Measures puts of an array of that memory; None: of a NumPy array."""
    data = seeded((bench.pick(256 << 20, 8 << 20) // 8,), "f8")
    count = bench.pick(48, 4)
    cases = (("one after the other, 1 s after the start", 1.0, 0.0), ("every 50 ms", 4.0, 0.05))
    for case, pause_s, between_s in cases:
        with server_process((count + 16) * data.nbytes, options=("--versions", "0")) as (
            contact,
            _,
        ):
            time.sleep(pause_s)
            with Engine() as engine, Staging(contact, engine=engine) as staging:
                source = source_of(engine, data, memory)
                time.sleep(20 * between_s)
                fresh = put_all(staging, source, range(count), between_s)
                last = np.asarray(staging.get("fresh", count - 1))
                require(same(last, data), f"{case}, the last version")
                for version in range(count):
                    staging.discard("fresh", version)
                used = put_all(staging, source, range(count, 2 * count), between_s)
        seconds = {"fresh memory": [sum(fresh)], "used memory": [sum(used)]}
        bench.report(case, seconds, count * data.nbytes, "used memory")


def put_all(staging: Staging, source: Any, versions: range, between_s: float) -> list[float]:
    """Puts versions, with a pause behind each; returns the seconds of each put."""
    seconds = []
    for version in versions:
        seconds.append(timed(partial(staging.put, "fresh", version, source))())
        time.sleep(between_s)
    return seconds


def measure_ways(bench: Bench, memory: str | None) -> None:
    """Measures puts of an array of that memory; None: of a NumPy array."""
    bytes_each = bench.pick(256, 8) << 20
    data = seeded((bytes_each // 8,), "f8")
    ways = (("at once", 0.0, True), ("after 2 s", 2.0, True), ("not preallocated", 2.0, False))
    for way, pause_s, preallocated in ways:
        options = () if preallocated else ("--preallocate", "0")
        puts: list[float] = []
        with (
            server_process(8 * bytes_each, options=options) as (contact, _),
            Engine() as engine,
            Staging(contact, engine=engine) as staging,
        ):
            source = source_of(engine, data, memory)
            time.sleep(pause_s)
            for version in range(2 + LATER):
                puts.append(timed(partial(staging.put, "first-use", version, source))())
            last = np.asarray(staging.get("first-use", 1 + LATER))
            require(same(last, data), f"{way}, the last version")
        seconds = {"later puts": puts[2:], "first put": puts[:1], "second put": puts[1:2]}
        bench.report(way, seconds, bytes_each, "later puts")
