"""Table 5: the rate of each channel of the cluster, with one direct copy at a time.

- Each channel of Sapling, one direct copy of 128 MiB; simulated.
- Follows: Isometry (ICS'18), Table 5.
- The profile's peaks are the table's, so this checks that one transfer reaches a channel's peak:
  that tiles are large enough and latencies hidden or small.
"""

from __future__ import annotations

from ..registry import simulates
from .places import instance_shape, memory, vector_shape
from .simulated import Run, SimulatedBench, Style

HOST = ("ZCM", "REG", "SYS")

ROWS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("memcpy", HOST, HOST),
    ("gpu_write", ("ZCM",), ("FBM",)),
    ("gpu_write", ("REG", "SYS"), ("FBM",)),
    ("gpu_read", ("FBM",), ("ZCM",)),
    ("gpu_read", ("FBM",), ("REG", "SYS")),
    ("gpu_copy", ("FBM",), ("FBM",)),
    ("file_write", HOST, ("DSK",)),
    ("file_read", ("DSK",), HOST),
    ("remote_write", ("REG",), ("ZCM*", "REG*", "SYS*")),
    ("remote_write", ("ZCM", "SYS"), ("ZCM*", "REG*", "SYS*")),
)
"""The rows of Table 5: a channel, its sources, its targets; a star is memory of another node."""


def channel_rates(machine: str, source: str, target: str, count: int) -> float:
    """Returns the simulated seconds of one direct copy of `count` bytes."""
    ends = (memory(source), memory(target))
    run = Run(machine, Style("direct copy", planner="simple"))
    run.copy(ends, vector_shape(count), through=list(ends))
    return run.finish()


@simulates("isometry-table5", "each channel of Sapling, simulated")
def table5(bench: SimulatedBench) -> None:
    """Simulates a direct copy over every pair of memories of every row."""
    machine = bench.on("sapling")
    count = instance_shape().bytes
    for kind, sources, targets in ROWS:
        for source in sources:
            for target in targets:
                seconds = channel_rates(machine, source, target, count)
                bench.simulated(f"{source} to {target}", kind, count, seconds)
