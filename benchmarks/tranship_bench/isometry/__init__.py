"""Isometry's evaluation (ICS'18, section 6), simulated on profiles of the paper's clusters.

Each benchmark is one figure or table. Real plans, descriptors, workers and priorities run on
virtual time; the channels are the profile's throughput functions. Result lines say so:
``"simulated": true``, and their ``machine`` is the profile. ``checked`` means that every simulated
transfer ended and that the bytes add up. The paper's measurements are in
``benchmarks/NAME/expected.json``; a line with a number to compare has ``expected``, and ``within``
says whether the two agree.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from . import channels, clusters, pipelining, planners, priorities, scaling
from .simulated import IncompleteError, OffError, SimulatedBench, run_one

__all__ = ["BENCHES", "IncompleteError", "OffError", "run"]

Body = Callable[[SimulatedBench], None]

BENCHES: dict[str, tuple[str, Body]] = {
    "isometry-table5": ("each channel of Sapling, simulated", channels.table5),
    "isometry-figure7": (
        "pipelined hops beside sequential hops of whole instances, simulated",
        pipelining.figure7,
    ),
    "isometry-figure8": (
        "a transfer of high priority beside others, simulated",
        priorities.figure8,
    ),
    "isometry-figure9a": ("full and simple paths, simulated", planners.figure9a),
    "isometry-figure9b": (
        "full, simple, SPSL and SPDL paths with a conversion, simulated",
        planners.figure9b,
    ),
    "isometry-figure10": ("two paths between system memories, simulated", planners.figure10),
    "isometry-figure12": (
        "PageRank, VGG-16 and Circuit by number of nodes, simulated",
        scaling.figure12,
    ),
    "isometry-figure13": ("PageRank without paths and pipelining, simulated", scaling.figure13),
    "isometry-table6": ("paths planned by the applications, simulated", scaling.table6),
    "isometry-scale": ("clusters of 2 to 100,000 GPUs, simulated", clusters.scale),
}


run = partial(run_one, BENCHES)
