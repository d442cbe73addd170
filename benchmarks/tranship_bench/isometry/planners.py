"""Figures 9 and 10: the full and the simple planner, and the two baselines.

``isometry-figure9a``: 8 GB as 64 instances in one layout between pairs of memories, with the full
and the simple planner; simulated.
- Follows: Isometry (ICS'18), section 6.3 and Figure 9a.

``isometry-figure9b``: The same from an array of structures to a structure of arrays of 8 integers,
with the two baselines SPSL and SPDL, too; simulated.
- Follows: Isometry (ICS'18), section 6.3 and Figure 9b.
- SPSL converts in the last hop, SPDL in the first. The figure is a picture; "poor" is taken as less
  than half of full.
- How poor is not the paper's: the profile charges every contiguous piece an overhead that was
  fitted to pieces of 16 and 32 KiB (the worked example of section 4.3), and here pieces have 4
  bytes. Hardware that gathers rows would be kinder.

``isometry-figure10``: The paths of both planners between the system memories of two nodes, on the
transfer graph; simulated.
- Follows: Isometry (ICS'18), section 6.3 and Figure 10.
- The lines carry the graph (channels and their peaks) and the paths, so that the picture is drawn
  from them alone.
"""

from __future__ import annotations

import json
from typing import Any

from tranship import profiles

from ..registry import simulates
from .places import WORDS, Shape, instance_shape, memory, node_of
from .simulated import Run, SimulatedBench, Style

PAIRS = (
    ("SYS", "SYS*"),
    ("FBM", "FBM*"),
    ("FBM", "SYS*"),
    ("SYS", "FBM*"),
    ("SYS", "FBM"),
    ("FBM", "SYS"),
    ("SYS", "DSK"),
    ("DSK", "SYS"),
    ("FBM", "DSK"),
    ("DSK", "FBM"),
    ("FBM", "DSK*"),
    ("DSK", "FBM*"),
)

PLAIN_PLANNERS = ("simple", "full")
ALL_PLANNERS = ("simple", "full", "spsl", "spdl")


def baseline_of(planner: str) -> str:
    """Returns the planner that another one is compared with; "" for the simple one."""
    return {"full": "simple", "simple": ""}.get(planner, "full")


@simulates("isometry-figure9a", "full and simple paths, simulated")
def figure9a(bench: SimulatedBench) -> None:
    """Simulates 8 GB as 64 instances, in the same layout in source and target."""
    compare(bench, PLAIN_PLANNERS, instance_shape())


@simulates("isometry-figure9b", "full, simple, SPSL and SPDL paths with a conversion, simulated")
def figure9b(bench: SimulatedBench) -> None:
    """Simulates the same from an array of structures to a structure of arrays."""
    compare(bench, ALL_PLANNERS, instance_shape(converts=True))


def compare(bench: SimulatedBench, planners: tuple[str, ...], shape: Shape) -> None:
    """Simulates all pairs of memories: full beside simple, the other planners beside full."""
    machine = bench.on("sapling")
    number = bench.pick(64, 8)
    small = [pair for pair in PAIRS if pair in (("SYS", "SYS*"), ("SYS", "DSK"), ("FBM", "DSK"))]
    for source, target in bench.pick(PAIRS, small):
        for planner in planners:
            run = Run(machine, Style(planner, planner=planner))
            run.batch((memory(source), memory(target)), shape, number)
            seconds = run.finish()
            facts: dict[str, Any] = {"instances": number, "path": run.path_of(0)}
            case = f"{source} to {target}"
            bench.simulated(case, planner, run.bytes, seconds, baseline_of(planner), **facts)


def transfer_graph(machine: str) -> list[dict[str, Any]]:
    """Returns the channels inside node 0 and from node 0 to node 1 between the paper's memories."""
    channels = json.loads(profiles.load(machine))["channels"]
    edges = []
    for channel in channels:
        ends = (channel["source"], channel["target"])
        words = {name.partition("/")[2] for name in ends}
        if node_of(ends[0]) == "node0" and words <= set(WORDS.values()):
            peak = max(sample[-1] for sample in channel["samples"])
            edges.append({"source": ends[0], "target": ends[1], "gbps": peak / 1e9})
    return edges


@simulates("isometry-figure10", "two paths between system memories, simulated")
def figure10(bench: SimulatedBench) -> None:
    """Simulates one instance between the system memories of two nodes, by both planners."""
    machine = bench.on("sapling")
    graph = transfer_graph(machine)
    for planner in PLAIN_PLANNERS:
        run = Run(machine, Style(planner, planner=planner))
        task = run.copy((memory("SYS"), memory("SYS*")), instance_shape())
        seconds = run.finish()
        path = run.path_of(task)
        values: dict[str, float] = {"hops": len(path) - 1}
        facts = {"path": path, "graph": graph}
        other = baseline_of(planner)
        bench.simulated("SYS to SYS*", planner, run.bytes, seconds, other, values, **facts)
