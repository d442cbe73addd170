"""Figure 7: transfers over several hops at once, beside sequential hops of whole instances.

- 8 GB as 64 instances of 4 Mi points with 8 integers, submitted at once, over up to four hops; this
  engine beside Realm-style sequential hops of whole instances; simulated.
- Follows: Isometry (ICS'18), section 6.1 and Figure 7.
- Realm-style: each hop is a transfer of its own after the one before has ended, one copier thread a
  node, through instances of 128 MiB in pinned memory.
- "An instance at a time": the instances on the way take the pinned memory of both nodes, so the
  next transfer waits until they are released. This is how the paper's 2.2 comes about: through ZCM
  one after the other, the hops make 1 / (1/6418 + 1/2701 + 1/5941) = 1440 MB/s, and 3180 / 1440 =
  2.21.
- "Instances overlap": as many as fit pinned memory are on their way, and the two nodes' threads
  work at the same time. It is the kinder model of Realm, and the ratio to it is smaller: 1.7.
"""

from __future__ import annotations

from typing import Any

from ..registry import simulates
from .channels import channel_rates
from .places import instance_shape, memory
from .simulated import Run, SimulatedBench, Style

SCENARIOS = (
    ("FBM", "FBM*"),
    ("SYS", "SYS*"),
    ("FBM", "SYS*"),
    ("SYS", "FBM*"),
    ("FBM", "DSK"),
    ("DSK", "FBM"),
    ("FBM", "DSK*"),
    ("DSK", "FBM*"),
    ("SYS", "DSK*"),
)

BANDWIDTHS = (
    ("network bandwidth", ("REG", "REG*")),
    ("disk bandwidth, writing", ("SYS", "DSK")),
    ("disk bandwidth, reading", ("DSK", "SYS")),
)

IN_TURN = Style.realm("Realm-style, an instance at a time", stage="pinned0", held=1)

OVERLAPPED = Style.realm("Realm-style, instances overlap", stage="pinned0")


@simulates(
    "isometry-figure7", "pipelined hops beside sequential hops of whole instances, simulated"
)
def figure7(bench: SimulatedBench) -> None:
    """Simulates 8 GB as 64 instances, submitted at once, in all scenarios."""
    machine = bench.on("sapling")
    shape = instance_shape()
    number = bench.pick(64, 8)
    for name, ends in BANDWIDTHS:
        seconds = channel_rates(machine, *ends, shape.bytes)
        bench.simulated(f"{name}: {ends[0]} to {ends[1]}", "direct copy", shape.bytes, seconds)
    for source, target in bench.pick(SCENARIOS, SCENARIOS[:6]):
        case = f"{source} to {target}"
        for style in (IN_TURN, OVERLAPPED, Style("tranship")):
            run = Run(machine, style)
            run.batch((memory(source), memory(target)), shape, number)
            seconds = run.finish()
            facts: dict[str, Any] = {"instances": number, "path": run.path_of(0)}
            bench.simulated(case, style.name, run.bytes, seconds, IN_TURN.name, **facts)
