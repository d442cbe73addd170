"""The first puts to and gets from a fresh staging server, beside later ones."""

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
            source: Any = data
            if memory is not None:
                source = engine.empty(data.shape, "f8", memory=memory)
                engine.copy(data, source).wait(timeout=60)
            time.sleep(pause_s)
            for version in range(2 + LATER):
                puts.append(timed(partial(staging.put, "first-use", version, source))())
            last = np.asarray(staging.get("first-use", 1 + LATER))
            require(same(last, data), f"{way}, the last version")
        seconds = {"later puts": puts[2:], "first put": puts[:1], "second put": puts[1:2]}
        bench.report(way, seconds, bytes_each, "later puts")
