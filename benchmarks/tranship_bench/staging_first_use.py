"""The first puts to and gets from a fresh staging server, beside later ones."""

from __future__ import annotations

import statistics
import sys
import time

import numpy as np

from tranship.engine import Engine
from tranship.staging import Staging

from .data import seeded
from .harness import Bench, MismatchError, same
from .staging import server_process

__all__ = ["staging_first_use"]

LATER = 5
"""Calls behind the first ones, whose median is the baseline."""


def staging_first_use(bench: Bench) -> None:
    """Measures first puts at once and after a pause, with and without preallocation.

    A server keeps two versions, so that the second put meets fresh memory as well.
    """
    bytes_each = bench.pick(256, 8) << 20
    data = seeded((bytes_each // 8,), "f8", 1)
    ways = (("at once", 0.0, True), ("after 2 s", 2.0, True), ("not preallocated", 2.0, False))
    for way, pause_s, preallocated in ways:
        options = () if preallocated else ("--preallocate", "0")
        puts: list[float] = []
        with (
            server_process(8 * bytes_each, options=options) as (contact, _),
            Engine() as engine,
            Staging(contact, engine=engine) as staging,
        ):
            time.sleep(pause_s)
            for version in range(2 + LATER):
                begin = time.perf_counter()
                staging.put("first-use", version, data)
                puts.append(time.perf_counter() - begin)
            if not same(np.asarray(staging.get("first-use", 1 + LATER)), data):
                raise MismatchError("the last version is not what was put")
        later = puts[2:]
        usual = statistics.median(later)
        bench.emit(way, "later puts", bytes_each, later)
        for name, seconds in (("first put", puts[0]), ("second put", puts[1])):
            bench.emit(way, name, bytes_each, [seconds], "later puts", usual / seconds)
            print(f"{way}: {name} {usual / seconds:.2f} of later ones", file=sys.stderr)
