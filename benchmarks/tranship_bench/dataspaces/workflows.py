"""Figures 9a and 10: iterations of puts and gets, simulated on Perlmutter's nodes.

``staging-figure9a``: Table 1's workflow: 64 writers put a variable, 64 readers get it in another
decomposition, 32 servers on 8 nodes keep it; 8 MiB to 1 GiB of each writer, ten iterations, one
every 2 s; by the designs of sender and receiver; simulated.
- Follows: DataSpaces-GPU (Euro-Par'23), section 5.1, Table 1 and Figure 9a.
- The paper: direct (GPUDirect RDMA) puts take 53 % less than its baseline at 8 MB, 34 % at 1024 MB;
  pipeline is as slow as the baseline; gets take up to 28 % (hybrid) and 33 % (direct) less.

What is simulated: copies by the real planner and scheduler on virtual time, on the nodes of the
profile `perlmutter-processes` (four processes a node, each with a GPU and a card; all rates
derived, none measured there). Objects lie on the servers that the service's own placement names.
Requests are part of the time: a put sends two to its primary; a get sends one to each index server
of its box, and one to each server that lent it memory. Each is two messages of the profile's
smallest size and 21.4 us of the server's only core, which is what `tranship bench
staging-questions` measured at most. Times are those until the last process was done, `mean_s`
the mean of all, of which the `less_than_…` are taken; the paper does not say which of the two it
shows.

- *baseline*: GPU to pageable memory (8 GB/s), then copied to pinned memory and over the network; a
  get is put together by one thread, line by line, and goes to the GPU from pageable memory.
- *pipeline*: the same, and the request to the server runs while the GPU's array is copied.
- *strong baseline*: the same through pinned memory that was there, put together by all threads.
- *hybrid*: objects to pinned memory, and each from there to the GPU by a launch.
- *direct*: between the GPU and the server's pinned memory in one hop; a launch for each object.
- *tranship*: what the planner chooses (`path_of_a_put`: the direct way), in one launch.

``staging-figure10``: Weak scaling of the shock-hydrodynamics workflow's puts and gets: 256^3 cells
of three variables of each GPU, on 8 to 256 GPUs with Table 2's servers, and on to 16,384 with as
many GPUs a server; by design; simulated.
- Follows: DataSpaces-GPU (Euro-Par'23), section 5.2, Table 2 and Figure 10.
- The paper: direct puts take about 24 % less than others, direct gets 40 % less than the baseline's
  and 17 % less than hybrid ones; the time is "relatively constant" to 256 GPUs.

What is simulated is as on staging-figure9a. The planner's own way is simulated on the profile
`perlmutter` too, where a process may use all cards of its node: there, each copy takes four lanes.
`relative` is the time of the slowest process over that on 8 GPUs, `relative_mean` that of the mean
process.
- Ten iterations to 256 GPUs, as in the paper; one beyond, since all take the same virtual time.
- Domains are products of factors as near to a cube as they can be: 2048 x 2048 x 1024 cells for 256
  GPUs, where Table 2 has the cubes 1280^3 and 1536^3, which are those of 125 and 216 processes; its
  total sizes are not those of 256^3 cells a GPU either, but for 8.
- Readers cut the domain finer along the first dimension and coarser along the last: each gets half
  (with 27 GPUs a third) of two (three) objects, as whole slabs. One decomposition for both would
  leave nothing to put together.
- Servers know the domain before the first put (`Staging.define`). 27 objects of a variable lie on
  16 servers: one or two on each, where on 8 GPUs each has two. Without that, some would have three.
- Node counts beyond the profile's 1536 repeat its node; the network has no switch that is shared.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ..harness import machine_name
from ..isometry.simulated import TRANSHIP as STYLE
from ..isometry.simulated import Run, SimulatedBench
from ..registry import simulates
from .grids import Grid, cube_of
from .machine import SERVICE_S, Channels, Cluster
from .transfers import ELEMENT_BYTES, TRANSHIP, Workflow

MACHINE = "perlmutter-processes"
"""Profile in which each process has a GPU and a card of its own, as in the paper."""
SHARED_MACHINE = "perlmutter"
"""Profile of the same nodes in which a process may use all cards."""
INTERVAL_S = 2.0
"""Seconds between the begins of iterations: no iteration waits for the last one (Table 1)."""
ITERATIONS = 10

SYNTHETIC_GPUS = 64
SYNTHETIC_SERVERS = 32
"""Number of servers in Table 1."""
SYNTHETIC_BYTES = tuple((8 << k) << 20 for k in range(8))

SHOCK_VARIABLES = ("energy", "pressure", "mass")
SHOCK_CELLS = 256
"""Cells of a process along each side (Table 2)."""
SHOCK_SERVERS = {8: 4, 27: 16, 64: 32, 128: 64, 256: 128}
"""Number of servers by number of GPUs (Table 2); for more GPUs, in the same ratio."""
FURTHER = (512, 1024, 2048, 4096, 8192, 16384)
FURTHER_ITERATIONS = 1
"""Iterations on more GPUs than in the paper: all take the same virtual time."""


@dataclass(frozen=True)
class Pair:
    """A design of puts and a design of gets that are simulated together."""

    sender: str
    receiver: str

    def design(self, way: str) -> str:
        """Returns the name in result lines of the put, of the get, or of the two together."""
        both = self.sender if self.sender == self.receiver else f"{self.sender}, {self.receiver}"
        return {"put": self.sender, "get": self.receiver}.get(way, both)


PAIRS = (
    Pair("baseline", "baseline"),
    Pair("strong baseline", "strong baseline"),
    Pair("pipeline", "hybrid"),
    Pair("direct", "direct"),
    Pair(TRANSHIP, TRANSHIP),
)
OWN = PAIRS[-1]


@dataclass(frozen=True)
class Workload:
    """The parameters of one case.

    Attributes:
        machine: Machine profile.
        gpus: Number of GPUs of the writers, and of the readers.
        servers: Number of processes that keep the objects.
        grid: Domain, as the writers decompose it.
        variables: Names of the variables, which each process puts and gets one after another.
        iterations: Number of iterations.
    """

    machine: str
    gpus: int
    servers: int
    grid: Grid
    variables: tuple[str, ...]
    iterations: int

    @property
    def bytes(self) -> int:
        """Returns the bytes that are put in an iteration; as many are got."""
        return math.prod(self.grid.cells) * ELEMENT_BYTES * len(self.variables)


@dataclass(frozen=True)
class Simulated:
    """The results of one workload with one pair of designs.

    Attributes:
        slowest: Seconds until the last process has ended in each iteration, by "put", "get", and
            "iteration" for both.
        mean: Mean seconds of the processes in each iteration, alike.
        path: Path of the bytes of a put.
        costs: Costs of the simulation itself.
    """

    slowest: dict[str, list[float]]
    mean: dict[str, list[float]]
    path: str
    costs: dict[str, float]

    def slowest_s(self, way: str) -> float:
        """Returns the median over iterations of the slowest process's seconds."""
        return statistics.median(self.slowest[way])

    def mean_s(self, way: str) -> float:
        """Returns the median over iterations of the mean process's seconds."""
        return statistics.median(self.mean[way])


def simulate(load: Workload, pair: Pair) -> Simulated:
    """Simulates all iterations: all writers put, and after the last put all readers get."""
    channels = Channels(load.machine)
    cluster = Cluster(load.gpus, load.servers, channels.apart)
    run = Run(load.machine, STYLE, nodes=cluster.nodes)
    work = Workflow(run, cluster, channels, load.grid)
    phases: dict[str, list[tuple[int, list[int]]]] = {"put": [], "get": []}
    for iteration in range(load.iterations):
        clock = run.compute("clock", 0.0, at=iteration * INTERVAL_S)
        for way, each, design in (
            ("put", work.put, pair.sender),
            ("get", work.get, pair.receiver),
        ):
            ends = []
            for rank in range(load.gpus):
                tasks = [clock]
                for variable in load.variables:
                    tasks = each(design, rank, variable, tasks)
                ends.append(run.compute("ends", 0.0, after=tasks))
            phases[way].append((clock, ends))
            clock = run.compute("clock", 0.0, after=ends)
    run.finish()
    times = np.asarray(run.simulation.times())[:, 1]
    slowest: dict[str, list[float]] = {}
    mean: dict[str, list[float]] = {}
    for way, pairs in phases.items():
        seconds = [times[ends] - times[begin] for begin, ends in pairs]
        slowest[way] = [float(one.max()) for one in seconds]
        mean[way] = [float(one.mean()) for one in seconds]
    for found in (slowest, mean):
        found["iteration"] = [a + b for a, b in zip(found["put"], found["get"], strict=True)]
    known = run.simulation.statistics
    costs = {
        "tasks": int(known["tasks"]),
        "events": int(known["events"]),
        "simulating_s": float(known["run_s"]),
        "peak_rss_bytes": int(known["peak_rss_bytes"]),
    }
    return Simulated(slowest, mean, " > ".join(run.path_of(min(run.copies))), costs)


@simulates("staging-figure9a", "puts and gets by design, 64 writers and 64 readers, simulated")
def figure9a(bench: SimulatedBench) -> None:
    """Simulates Table 1: one variable, 8 MiB to 1 GiB of each writer."""
    machine = bench.on(MACHINE)
    gpus = bench.pick(SYNTHETIC_GPUS, 8)
    parts = cube_of(gpus)
    for size in bench.pick(SYNTHETIC_BYTES, SYNTHETIC_BYTES[:2]):
        block = cube_of(size // ELEMENT_BYTES)
        cells = tuple(a * b for a, b in zip(parts, block, strict=True))
        servers = gpus * SYNTHETIC_SERVERS // SYNTHETIC_GPUS
        iterations = bench.pick(ITERATIONS, 2)
        load = Workload(machine, gpus, servers, Grid(cells, parts), ("field",), iterations)
        found = {pair: simulate(load, pair) for pair in PAIRS}
        values = {pair: {"bytes_each": float(size)} for pair in PAIRS}
        for way in ("put", "get"):
            emit(bench, f"{way} {size >> 20} MiB", way, load, found, values)


@simulates("staging-figure10", "weak scaling of a workflow on 8 to 16,384 GPUs, simulated")
def figure10(bench: SimulatedBench) -> None:
    """Simulates Table 2: 256^3 cells of three variables of each GPU, on 8 to 16,384 GPUs."""
    scale(bench, bench.on(MACHINE), PAIRS)
    if bench.chosen_machine is None:
        scale(bench, bench.on(SHARED_MACHINE), (OWN,))


def scale(bench: SimulatedBench, machine: str, pairs: Iterable[Pair]) -> None:
    """Simulates all numbers of GPUs on one machine."""
    first: dict[Pair, Simulated] = {}
    for gpus in bench.pick((*SHOCK_SERVERS, *FURTHER), (8, 64)):
        parts = cube_of(gpus)
        cells = tuple(bench.pick(SHOCK_CELLS, SHOCK_CELLS // 4) * part for part in parts)
        iterations = bench.pick(ITERATIONS if gpus in SHOCK_SERVERS else FURTHER_ITERATIONS, 2)
        servers = SHOCK_SERVERS.get(gpus, gpus // 2)
        load = Workload(machine, gpus, servers, Grid(cells, parts), SHOCK_VARIABLES, iterations)
        found = {pair: simulate(load, pair) for pair in pairs}
        first = first or found
        for way in ("put", "get", "iteration"):
            values = {
                pair: {
                    "gpus": gpus,
                    "relative": one.slowest_s(way) / first[pair].slowest_s(way),
                    "relative_mean": one.mean_s(way) / first[pair].mean_s(way),
                }
                for pair, one in found.items()
            }
            emit(bench, f"{way}, {gpus} GPUs", way, load, found, values)


def emit(
    bench: SimulatedBench,
    case: str,
    way: str,
    load: Workload,
    found: dict[Pair, Simulated],
    values: dict[Pair, dict[str, float]],
) -> None:
    """Reports the lines of the puts, the gets or whole iterations of all designs: seconds until the
    last process has ended, and the mean of all.
    """
    count = load.bytes * (2 if way == "iteration" else 1)
    for pair, one in found.items():
        variant = pair.design(way)
        if pair == OWN and load.machine == SHARED_MACHINE:
            variant = f"{variant}, all cards"
        mean_s = one.mean_s(way)
        less = {
            f"less_than_{other.design(way).replace(' ', '_')}": 1 - mean_s / theirs.mean_s(way)
            for other, theirs in found.items()
            if other not in (pair, OWN) and way != "iteration"
        }
        numbers = {**values[pair], **less, "mean_s": mean_s, **one.costs}
        bench.simulated(
            case,
            variant,
            count,
            one.slowest[way],
            values=numbers,
            gpus=load.gpus,
            servers=load.servers,
            iterations=load.iterations,
            path_of_a_put=one.path,
            question_us=1e6 * (2 * Channels(load.machine).message_s() + SERVICE_S),
            service_us=1e6 * SERVICE_S,
            simulated_on=machine_name(),
        )
