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
from typing import Literal

from ..harness import Report
from . import channels, clusters, pipelining, planners, priorities, scaling
from .simulated import IncompleteError, OffError, SimulatedBench

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


def run(name: str, *, size: Literal["small", "full"], machine: str | None, report: Report) -> None:
    """Runs one simulated benchmark of Isometry.

    Raises:
        OffError: A result is not as expected; its lines are reported.
        IncompleteError: A simulated transfer did not end.
    """
    bench = SimulatedBench(name, size=size, machine=machine, report=report)
    BENCHES[name][1](bench)
    bench.close()
