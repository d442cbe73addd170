"""Clusters of 2 to 100,000 GPUs: the cost of simulating them.

- Clusters of 2 to 100,000 GPUs (H200 nodes of 8): every GPU sends 1 GiB to the one in its place on
  the next node (shift), or 2 MiB to both neighbours in a ring (halo); simulated.
- Follows: the design's own goals: a million simulated events a second, planning independent of the
  cluster's size.
- A shift is many requests a copy, and shows the events; a halo is one, and shows what starting a
  copy costs.
- The median is simulated time; `wall_s`, `events_per_second`, `planning_s` and `peak_rss_bytes` are
  of the machine that simulated (`simulated_on`).
- Node counts beyond the profile's repeat its node; the network has no switch that would be shared
  by all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..harness import machine_name
from ..registry import simulates
from .places import vector_shape
from .simulated import TRANSHIP, Run, SimulatedBench

GPUS_EACH = 8
MESSAGE_BYTES = 1 << 30
HALO_BYTES = 2 << 20

Pattern = Callable[[Run, int], None]


def place(gpu: int) -> str:
    """Returns the memory of a GPU, by the GPU's number."""
    return f"node{gpu // GPUS_EACH}/device{gpu % GPUS_EACH}"


def shift(run: Run, gpus: int) -> None:
    """Adds copies from each GPU to its counterpart on the next node; within a node, to the next."""
    step = GPUS_EACH if gpus > GPUS_EACH else 1
    shape = vector_shape(MESSAGE_BYTES)
    for gpu in range(gpus):
        run.copy((place(gpu), place((gpu + step) % gpus)), shape)


def halo(run: Run, gpus: int) -> None:
    """Adds copies from every GPU to both neighbours in a ring; most stay within the nodes."""
    shape = vector_shape(HALO_BYTES)
    for gpu in range(gpus):
        for target in sorted({(gpu + 1) % gpus, (gpu - 1) % gpus}):
            run.copy((place(gpu), place(target)), shape)


@simulates("isometry-scale", "clusters of 2 to 100,000 GPUs, simulated")
def scale(bench: SimulatedBench) -> None:
    """Simulates both patterns over the range of sizes."""
    machine = bench.on("h200-8")
    sizes = bench.pick((2, 8, 16, 80, 800, 8_000, 100_000), (2, 8, 16, 160))
    patterns: tuple[tuple[str, Pattern], ...] = (("shift", shift), ("halo", halo))
    # The peak of memory is the whole process's: in ascending order, it belongs to each size.
    for gpus in sizes:
        for name, pattern in patterns:
            run = Run(machine, TRANSHIP, nodes=-(-gpus // GPUS_EACH))
            pattern(run, gpus)
            seconds = run.finish()
            found = run.simulation.statistics
            values: dict[str, float] = {
                "gpus": gpus,
                "copies": len(run.copies),
                "events": int(found["events"]),
                "wall_s": float(found["run_s"]),
                "events_per_second": float(found["events_per_second"]),
                "plans": run.plans_made(),
                "planning_s": float(found["planning_s"]),
                "planning_each_s": float(found["planning_s"]) / len(run.copies),
                "peak_rss_bytes": int(found["peak_rss_bytes"]),
            }
            where: dict[str, Any] = {"pattern": name, "simulated_on": machine_name()}
            case = f"{name}, {gpus} GPUs"
            bench.simulated(case, "tranship", run.bytes, seconds, values=values, **where)
