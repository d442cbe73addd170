"""The remote-GPU experiment (Marafi and Bocci, "Data Transfer to Remote GPUs Over High-Performance
Networks", its two programs and Figures 4, 5 and 6).

- Two vectors of 10 to 400 million float32 go to a GPU, are summed there, and the result comes back:
  on the GPU of this process (*local*), and from a client to the GPU of a server, through its
  pageable memory (*part 1*), its pinned memory (*part 2*), or straight into the GPU's memory (*part
  3*).
- Needs a GPU, and CuPy or PyTorch to compute on it. `TRANSHIP_EMULATED_GPUS=1` tries it without:
  NumPy computes, and every line says that the GPU is emulated; its times say nothing of GPUs.

## Procedure
- Latency is the paper's: input, operations and output as the client sees them, minus the time that
  the GPU computes, measured by events on its stream. The lines are about six
  measurements; `conditions` has their mean and deviation and the mean of each phase. `gbps` is 12
  bytes an element over the median.
- Part 1 runs three times before anything counts. For each size and way there are ten runs of six
  measurements, as far as its share of ten minutes allows (`conditions.runs`); the run of the
  smallest deviation counts. One more experiment before them, for plans and pages, does not count:
  the paper does not have it.
- Every element of every result is compared with the processor's sum. Each experiment takes its
  vectors 64 elements further on, so that what an earlier one left is never right.
- Beside the paper's parts: "local" copies with the engine, straight between pageable memory and the
  GPU; "local, two copies" does what the paper's program does: the processor copies to pinned
  memory, then the driver to the GPU. `ratio` is against "local".

## Transports
- `shared` (parts 1 and 2) and `ipc` (part 3): client and server on one machine, through shared
  memory and CUDA IPC, which stands in the place of RDMA.
- `tcp` (all parts): where `ip netns` may be used the server is in a network namespace of its own,
  joined by a veth pair; else over loopback. `conditions.link` says which. GPU memory then goes
  through slots in the host memory of both.
- `rdma` (all parts): what UCX chooses between two machines that have a card with an active port:
  `--transports rdma --launch "ssh gpu2" --addresses CLIENT,SERVER`, with Tranship in the same place
  on both. The line says InfiniBand or RoCE, by the card's port. Without a card, on one machine, or
  with a UCX that was built without verbs it is left out, and stderr says so.
- The paper's text: with RDMA, data reach the remote GPU as fast as a local one, or faster; without
  it, a buffer in pinned memory plays a vital role. It gives no numbers of its figures.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tranship.engine import Engine
from tranship.errors import Error, InvalidArgument

from ..harness import Bench, SkippedError
from ..processes.namespaces import Link, network_namespace, why_no_namespaces
from ..registry import elements as elements_of
from ..registry import measures, names, option
from .server import DIRECT, PAGEABLE, PARTS, PINNED
from .sum import computed_by, first_gpu
from .ways import Local, Remote, Sample, ServerProgram, Session, TwoCopies, Vectors, Way

TRANSPORTS = ("shared", "ipc", "tcp", "rdma")

FULL_SIZES = (
    *(10, 100, 1_000, 10_000, 100_000, 1_000_000, 4_000_000),
    *(10_000_000, 28_000_000, 100_000_000, 200_000_000, 400_000_000),
)
"""Sizes of the paper's range, in elements, with the four sizes of its Figures 5 and 6."""

QUICK_SIZES = (10, 10_000, 1_000_000, 28_000_000, 100_000_000)
SMALL_SIZES = (10, 1_000, 10_000)

MEMORY_SHARE = 0.5
"""Share of the free memory that the experiment takes at most."""

WARM_UPS = 3
"""Experiments of part 1 before anything counts, as in the paper."""

WARM_UP_ELEMENTS = 1_000_000
MEASUREMENTS, RUNS = 6, 10

SECONDS = 600.0
"""Time that all runs may take, in equal shares; a run that has begun is finished."""

ONE_LINK: dict[str, Any] = {"lanes": 1}
"""Engine settings: all ways use the link of one GPU, as in the paper, not those of other GPUs."""


@dataclass(frozen=True)
class Options:
    """The options of `tranship bench remote-gpu`."""

    quick: bool = option(False, "Fewer runs and sizes: a minute or two.", values="")
    limit: int = option(
        0, "Largest vector, as in 28M. Default: 400M, or what fits.", elements_of, "ELEMENTS"
    )
    repeats: int = option(1, "Number of sums that the GPU computes.")
    transports: tuple[str, ...] = option(
        TRANSPORTS, "Transports among shared,ipc,tcp,rdma. Default: all.", names, "LIST"
    )
    launch: str = option(
        "",
        "Command that starts the server elsewhere, as in 'ssh gpu2'; needs --addresses.",
        str,
        "WORDS",
    )
    addresses: str = option(
        "", "Addresses on which the two processes listen.", str, "CLIENT,SERVER"
    )

    def __post_init__(self) -> None:
        for name in self.transports:
            if name not in TRANSPORTS:
                raise InvalidArgument(
                    f"there is no transport {name!r}; there are {', '.join(TRANSPORTS)}"
                )
        if self.limit < 0 or self.repeats < 1:
            raise InvalidArgument("limit is not negative, and repeats is at least 1")
        if bool(self.launch) != (self.addresses.count(",") == 1):
            raise InvalidArgument(
                "to start the server on another machine, give both its --launch and --addresses, "
                "as in --launch 'ssh gpu2' --addresses 10.0.0.1,10.0.0.2"
            )

    def sizes(self, bench: Bench, fitting: int) -> list[int]:
        """Returns the sizes in elements that fit; a note says which are left out."""
        sizes = (QUICK_SIZES if self.quick else FULL_SIZES) if bench.full else SMALL_SIZES
        limit = min(self.limit or sizes[-1], sizes[-1])
        if limit > fitting:
            bench.say(f"memory for {elements_text(fitting)} elements: larger sizes are left out")
            limit = fitting
        return [size for size in sizes if size <= limit] or [limit]


Group = tuple[dict[int, str], Link, dict[str, Any]]
"""Ways that share a server: transports by part, how to reach it, and its settings."""


@dataclass
class Experiment:
    """One run of the benchmark: its options, its machine and its results.

    Attributes:
        local_s: Median seconds of the local GPU, by size.
        share_s: Time that the runs of one size and way may take.
    """

    bench: Bench
    options: Options
    sizes: list[int]
    vectors: Vectors
    emulated: bool
    share_s: float = 0.0
    failures: list[str] = field(default_factory=list)
    local_s: dict[int, float] = field(default_factory=dict)

    def fail(self, what: str, error: Exception) -> None:
        """Records and prints a measurement that failed; the others continue."""
        self.failures.append(f"{what}: {error}")
        self.bench.say(f"{what} FAILED: {error}")


@measures("remote-gpu", "vectors to a remote GPU, summed there, and back: CERN's", Options)
def remote_gpu(bench: Bench) -> None:
    """Measures the local GPU, and each group of ways to a server."""
    options: Options = bench.options
    with ExitStack() as stack, Engine(**ONE_LINK) as engine:
        try:
            gpu = first_gpu(engine)
        except Error as reason:
            raise SkippedError(str(reason)) from None
        bench.conditions |= {"gpu": gpu["name"], "computed_by": computed_by(engine)}
        sizes = options.sizes(bench, fitting_elements(gpu))
        vectors = Vectors(sizes[-1])
        experiment = Experiment(bench, options, sizes, vectors, bool(gpu["emulated"]))
        groups = remote_groups(experiment, stack)
        ways = 2 + sum(len(transports) for transports, _, _ in groups)
        experiment.share_s = SECONDS / (ways * len(sizes))
        local: list[Way] = [make(engine, vectors, sizes[-1]) for make in (Local, TwoCopies)]
        measure_group(experiment, local, {})
        for group in groups:
            measure_remote(experiment, *group)
    if experiment.failures:
        raise Error("; ".join(experiment.failures))


def remote_groups(experiment: Experiment, stack: ExitStack) -> list[Group]:
    """Returns the groups of the servers to start; prints what is left out and why."""
    asked, say = experiment.options.transports, experiment.bench.say
    far = far_link(experiment.options)
    groups: list[Group] = []
    near: dict[int, str] = {}
    if "shared" in asked:
        near |= {PAGEABLE: "shared memory", PINNED: "shared memory"}
    if "ipc" in asked:
        near[DIRECT] = "emulated CUDA IPC" if experiment.emulated else "CUDA IPC"
    if near and far is None:
        groups.append((near, Link(), {"transport": "shared"}))
    elif near:
        say("shared memory and CUDA IPC are left out: the server is on another machine")
    if "tcp" in asked:
        link = far or tcp_link(experiment.bench, stack)
        groups.append((dict.fromkeys(PARTS, "TCP"), link, {"transport": "network"}))
    if "rdma" in asked:
        kind = rdma_kind()
        if kind is None:
            say("InfiniBand and RoCE are left out: no card with an active port is here")
        elif far is None:
            say(f"{kind} is left out: on one machine it is not used; see --launch")
        elif not ucx_has_verbs():
            say(f"{kind} is left out: this UCX was built without verbs; install the system's UCX")
        else:
            groups.append((dict.fromkeys(PARTS, kind), far, {"transport": "automatic"}))
    return groups


def far_link(options: Options) -> Link | None:
    """Returns the link to a server on another machine; None if there is none."""
    if not options.launch:
        return None
    client, _, server = options.addresses.partition(",")
    words = tuple(options.launch.split())
    return Link(f"two machines: {client} and {server}", words, client, server, is_far=True)


def tcp_link(bench: Bench, stack: ExitStack) -> Link:
    """Returns a link between namespaces where they can be made; loopback in small size."""
    if not bench.full:
        return Link()
    if why := why_no_namespaces():
        return Link(f"loopback ({why})")
    return stack.enter_context(network_namespace("veth between two network namespaces"))


def measure_remote(
    experiment: Experiment, transports: dict[int, str], link: Link, settings: dict[str, Any]
) -> None:
    """Starts a server and measures all parts of a group; records and prints failures."""
    names_of_all = ", ".join(dict.fromkeys(transports.values()))
    elements = experiment.sizes[-1]
    settings = settings | ONE_LINK
    try:
        with (
            ServerProgram(link, settings | {"listen": f"{link.there}:0"}) as program,
            Engine(contact=True, listen=f"{link.here}:0", key=program.key, **settings) as engine,
        ):
            session = Session(engine, program, experiment.vectors)
            # Part 1 warms up every group, even if part 1 itself is not measured.
            ways: list[Way] = []
            for part, transport in ({PAGEABLE: names_of_all} | transports).items():
                try:
                    way = Remote(session, part, transport, elements)
                except Error as error:
                    experiment.fail(f"part {part}, {transport}", error)
                    continue
                if not ways:
                    size = min(elements, WARM_UP_ELEMENTS)
                    way.round(size, WARM_UPS, experiment.options.repeats)
                if part in transports:
                    ways.append(way)
            measure_group(experiment, ways, {"link": link.words})
    except (Error, OSError) as error:
        experiment.fail(names_of_all, error)


def measure_group(experiment: Experiment, ways: list[Way], conditions: dict[str, Any]) -> None:
    """Measures all sizes in ascending order, the ways of each size in turn."""
    for elements in experiment.sizes:
        for way in ways:
            samples, runs = measure_case(experiment, way, elements)
            report_case(experiment, way, elements, samples, {"runs": runs, **conditions})


def measure_case(experiment: Experiment, way: Way, elements: int) -> tuple[list[Sample], int]:
    """Makes runs of several measurements; returns that of the smallest deviation, and how many."""
    bench, options = experiment.bench, experiment.options
    measurements = bench.pick(MEASUREMENTS, 2)
    runs_max = bench.pick(1 if options.quick else RUNS, 1)
    best: list[Sample] = []
    least_s = float("inf")
    runs = 0
    gc.collect()
    gc.disable()
    try:
        way.round(elements, 1, options.repeats)  # makes plans and faults pages in; not counted
        begin = time.monotonic()
        while runs < runs_max and (runs == 0 or time.monotonic() - begin < experiment.share_s):
            samples = way.round(elements, measurements, options.repeats)
            deviation_s = statistics.stdev(sample.latency_s for sample in samples)
            if deviation_s < least_s:
                best, least_s = samples, deviation_s
            runs += 1
    finally:
        gc.enable()
    return best, runs


def report_case(
    experiment: Experiment,
    way: Way,
    elements: int,
    samples: list[Sample],
    conditions: dict[str, Any],
) -> None:
    """Reports a line of what was measured and verified."""
    latencies_s = [sample.latency_s for sample in samples]
    median_s = statistics.median(latencies_s)
    local_s = experiment.local_s.get(elements)
    experiment.local_s.setdefault(elements, median_s)  # the local GPU comes first
    phases = ("input_s", "operations_s", "output_s", "gpu_s")
    case = f"{elements_text(elements)} elements"
    experiment.bench.emit(
        f"emulated GPU: {case}" if experiment.emulated else case,
        way.name,
        12 * elements,
        latencies_s,
        "local" if local_s else None,
        local_s / median_s if local_s else None,
        {
            "elements": elements,
            "part": way.part,
            "transport": way.name.partition(", ")[2] if way.part else "none",
            "mean_s": statistics.mean(latencies_s),
            "deviation_s": statistics.stdev(latencies_s),
            "repeats": experiment.options.repeats,
            "path": way.path(elements),
            **{name: statistics.mean(getattr(one, name) for one in samples) for name in phases},
            **conditions,
        },
    )


def fitting_elements(gpu: Mapping[str, Any]) -> int:
    """Returns the number of elements for which host and GPU have room."""
    # Three vectors each of the client, of the server in pageable and in pinned memory, and of the
    # local experiment; three more on the GPU if it is emulated.
    vectors = 15 if gpu["emulated"] else 12
    host = int(MEMORY_SHARE * free_bytes()) // (4 * vectors)
    return min(host, int(0.8 * gpu["memory_bytes"]) // 12)


def free_bytes() -> int:
    """Returns the bytes of free host memory that this process may use."""
    free = 1 << 34
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) << 10
    try:
        group = Path("/sys/fs/cgroup")
        limit = int((group / "memory.max").read_text())
        free = min(free, limit - int((group / "memory.current").read_text()))
    except (OSError, ValueError):
        pass  # no limit
    return max(free, 0)


def elements_text(count: int) -> str:
    """Returns a number of elements as text, such as "10", "10k", "28M"."""
    for unit, letter in ((10**6, "M"), (10**3, "k")):
        if count >= unit and count % (unit // 10) == 0:
            return f"{count / unit:g}{letter}"
    return str(count)


def rdma_kind(folder: Path = Path("/sys/class/infiniband")) -> str | None:
    """Returns "InfiniBand" or "RoCE" by the first active port of a card; None if there is none."""
    for port in sorted(folder.glob("*/ports/*")):
        try:
            state = (port / "state").read_text()
            layer = (port / "link_layer").read_text().strip()
        except OSError:
            continue
        if "ACTIVE" in state:
            return "RoCE" if layer == "Ethernet" else layer
    return None


def ucx_has_verbs(maps: Path = Path("/proc/self/maps")) -> bool:
    """Returns whether the UCX of this process can use RDMA cards: it has a module for them.

    Builds without that module are common, such as those of the package index; they use TCP.
    """
    loaded = {
        Path(words[5]) for line in maps.read_text().splitlines() if len(words := line.split()) > 5
    }
    folders = {path.parent for path in loaded if path.name.startswith("libuct.so")}
    return any(found for folder in folders for found in (folder / "ucx").glob("libuct_ib.so*"))
