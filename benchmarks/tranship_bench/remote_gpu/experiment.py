"""The remote-GPU experiment (Marafi and Bocci, "Data Transfer to Remote GPUs Over High-Performance
Networks"): two vectors go to a GPU, are summed there, and the result comes back.

Locally, and from a client to the GPU of a server: through the server's pageable memory (part 1),
its pinned memory (part 2), or directly (part 3). Latency is defined as in the paper: all of the
client's time without the GPU's computing time. Every element of every result is compared.

- Two vectors of 10 to 400 million float32 go to a GPU, are summed there, and the result comes back:
  on the GPU of this process (*local*), and from a client to the GPU of a server, through its
  pageable memory (*part 1*), its pinned memory (*part 2*), or straight into the GPU's memory (*part
  3*).
- Follows: Marafi and Bocci, "Data Transfer to Remote GPUs Over High-Performance Networks", its two
  programs and Figures 4, 5 and 6.
- Needs a GPU, and CuPy or PyTorch to compute on it. `TRANSHIP_EMULATED_GPUS=1` tries it without:
  NumPy computes, and every line says that the GPU is emulated; its times say nothing of GPUs.

## Procedure
- Latency is the paper's: input, operations and output as the client sees them, minus the time that
  the GPU computes, measured by events on its stream. The lines are about six
  measurements; `conditions` has their mean and deviation and the mean of each phase. `gbps` is 12
  bytes an element over the median.
- Part 1 runs three times before anything counts. For each size and way there are ten runs of six
  measurements, as far as the time allows (`conditions.runs`); the run of the smallest deviation
  counts. One more experiment before them, for plans and pages, does not count: the paper does not
  have it.
- Every element of every result is compared with the processor's sum. Each experiment takes its
  vectors 64 elements further on, so that what an earlier one left is never right.
- Beside the paper's parts: "local" copies with the engine, straight between pageable memory and the
  GPU; "local, two copies" does what the paper's program does: the processor copies to pinned
  memory, then the driver to the GPU. `ratio` is against "local".

## Transports
- `shared` (parts 1 and 2) and `ipc` (part 3): client and server on one machine, through shared
  memory and CUDA IPC.
- `tcp` (all parts): where `ip netns` may be used the server is in a network namespace of its own,
  joined by a veth pair; else over loopback. `conditions.link` says which, and why. GPU memory then
  goes through slots in the host memory of both.
- `rdma` (all parts): what UCX chooses between two machines that have a card with an active port:
  `--transports rdma --launch "ssh gpu2" --addresses CLIENT,SERVER`, with Tranship in the same place
  on both. The line says InfiniBand or RoCE, by the card's port. Without a card, on one machine, or
  with a UCX that was built without verbs it is left out, and stderr says so; CUDA IPC then stands
  in the place of RDMA in Figures 4 and 5.
- The paper's text gives no numbers of its figures, so no line has an expected one; what it says of
  them is under each drawing.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from tranship.engine import Engine
from tranship.errors import Error

from ..harness import Bench, SkippedError
from ..registry import measures
from .client import Local, Remote, Sample, ServerProgram, Session, TwoCopies, Vectors, Way
from .network import LOOPBACK, Link, namespaces, rdma_kind, ucx_has_verbs
from .options import Options, Procedure, elements_text, fitting_elements
from .parts import DIRECT, PAGEABLE, PARTS, PINNED
from .sum import computed_by, first_gpu
from .table import table_lines

WARM_UPS = 3
"""Experiments of part 1 before anything counts, as in the paper."""

WARM_UP_ELEMENTS = 1_000_000


@dataclass
class Group:
    """Ways that share a server (or the local GPU): transports by part, and how to reach it."""

    transports: dict[int, str]
    link: Link
    settings: dict[str, Any]


@dataclass
class Experiment:
    """One run of the benchmark: its options, its machine and its results."""

    bench: Bench
    options: Options
    procedure: Procedure
    vectors: Vectors
    emulated: bool
    deadline: float
    lines: list[dict[str, Any]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    local_s: dict[int, float] = field(default_factory=dict)

    def fail(self, what: str, error: Exception) -> None:
        """Records and prints a measurement that failed; the others continue."""
        self.failures.append(f"{what}: {error}")
        self.bench.say(f"{what} FAILED: {error}")


ONE_LINK: dict[str, Any] = {"lanes": 1}
"""Engine settings: all ways use the link of one GPU, as in the paper, not those of other GPUs."""


@measures("remote-gpu", "vectors to a remote GPU, summed there, and back: CERN's", Options)
def remote_gpu(bench: Bench) -> None:
    """Runs the whole experiment; the table at its end is on stderr."""
    options: Options = bench.options
    begin = time.monotonic()
    with Engine(**ONE_LINK) as engine:
        try:
            gpu = first_gpu(engine)
        except Error as reason:
            raise SkippedError(str(reason)) from None
        bench.conditions |= {"gpu": gpu["name"], "computed_by": computed_by(engine)}
        procedure = Procedure.of(bench, options, fitting_elements(gpu))
        experiment = Experiment(
            bench,
            options,
            procedure,
            Vectors(procedure.sizes[-1]),
            bool(gpu["emulated"]),
            begin + procedure.seconds,
        )
        with ExitStack() as stack:
            groups = remote_groups(experiment, stack)
            measure_local(experiment, engine, share_of(experiment, len(groups) + 1))
            for k, group in enumerate(groups):
                measure_remote(experiment, group, share_of(experiment, len(groups) - k))
    for line in table_lines(experiment.lines):
        bench.say(line)
    if experiment.failures:
        raise Error("; ".join(experiment.failures))


def share_of(experiment: Experiment, groups: int) -> float:
    """Returns the time at which the next of `groups` remaining groups should end."""
    now = time.monotonic()
    return now + max(experiment.deadline - now, 0) / groups


def remote_groups(experiment: Experiment, stack: ExitStack) -> list[Group]:
    """Returns the groups of the servers to start; prints what is left out and why."""
    asked = experiment.options.transports
    say = experiment.bench.say
    far = far_link(experiment.options)
    groups = []
    near: dict[int, str] = {}
    if "shared" in asked:
        near |= {PAGEABLE: "shared memory", PINNED: "shared memory"}
    if "ipc" in asked:
        near[DIRECT] = "emulated CUDA IPC" if experiment.emulated else "CUDA IPC"
    if near and far is None:
        groups.append(Group(near, LOOPBACK, {"transport": "shared"}))
    elif near:
        say("shared memory and CUDA IPC are left out: the server is on another machine")
    if "tcp" in asked:
        link = far or tcp_link(experiment, stack)
        groups.append(Group(dict.fromkeys(PARTS, "TCP"), link, {"transport": "network"}))
    if "rdma" in asked:
        kind = rdma_kind()
        if kind is None:
            say("InfiniBand and RoCE are left out: no card with an active port is here")
        elif far is None:
            say(f"{kind} is left out: on one machine it is not used; see --launch")
        elif not ucx_has_verbs():
            say(f"{kind} is left out: this UCX was built without verbs; install the system's UCX")
        else:
            groups.append(Group(dict.fromkeys(PARTS, kind), far, {"transport": "automatic"}))
    return groups


def far_link(options: Options) -> Link | None:
    """Returns the link to a server on another machine; None if there is none."""
    if not options.launch:
        return None
    client, _, server = options.addresses.partition(",")
    words = tuple(options.launch.split())
    return Link(f"two machines: {client} and {server}", words, client, server, far=True)


def tcp_link(experiment: Experiment, stack: ExitStack) -> Link:
    """Returns a link between namespaces where they can be made; loopback in tests or on request."""
    if experiment.options.loopback or not experiment.bench.full:
        return LOOPBACK
    link = stack.enter_context(namespaces())
    experiment.bench.say(f"TCP runs over {link.words}")
    return link


def measure_local(experiment: Experiment, engine: Engine, deadline: float) -> None:
    """Measures the GPU of this process; there is no second one."""
    elements = experiment.procedure.sizes[-1]
    ways: list[Way] = [make(engine, experiment.vectors, elements) for make in (Local, TwoCopies)]
    measure_group(experiment, ways, LOOPBACK, deadline)


def measure_remote(experiment: Experiment, group: Group, deadline: float) -> None:
    """Starts a server and measures all parts of a group; records and prints failures."""
    names = ", ".join(dict.fromkeys(group.transports.values()))
    elements = experiment.procedure.sizes[-1]
    try:
        with served(experiment, group) as session:
            # Part 1 warms up every group, even if part 1 itself is not measured.
            ways: list[Way] = []
            for part, transport in ({PAGEABLE: names} | group.transports).items():
                try:
                    way = Remote(session, part, transport, elements)
                except Error as error:
                    experiment.fail(variant_of(part, transport), error)
                    continue
                if not ways:
                    size = min(elements, WARM_UP_ELEMENTS)
                    way.round(size, WARM_UPS, experiment.options.repeats)
                if part in group.transports:
                    ways.append(way)
            measure_group(experiment, ways, group.link, deadline)
    except (Error, OSError) as error:
        experiment.fail(names, error)


@contextmanager
def served(experiment: Experiment, group: Group) -> Iterator[Session]:
    """Yields a session: a server, and an engine that is connected to it."""
    link = group.link
    with (
        ServerProgram(link, group.settings | ONE_LINK | {"listen": f"{link.server}:0"}) as program,
        Engine(
            contact=True,
            **ONE_LINK,
            **group.settings,
            listen=f"{link.client}:0",
            key=program.key,
        ) as engine,
    ):
        yield Session(engine, program, experiment.vectors)


def measure_group(experiment: Experiment, ways: list[Way], link: Link, deadline: float) -> None:
    """Measures all sizes in ascending order, the ways of each size in turn."""
    cases = [(elements, way) for elements in experiment.procedure.sizes for way in ways]
    late = []
    for k, (elements, way) in enumerate(cases):
        now = time.monotonic()
        name = variant_of(way.part, way.transport)
        if now > deadline:
            late.append(f"{name} at {elements_text(elements)}")
            continue
        case_deadline = now + (deadline - now) / (len(cases) - k)
        measure_case(experiment, way, elements, link, case_deadline)
    if late:
        experiment.bench.say(f"left out, for want of time (see --minutes): {', '.join(late)}")


def measure_case(
    experiment: Experiment, way: Way, elements: int, link: Link, deadline: float
) -> None:
    """Makes runs of several measurements; the run of the smallest deviation is the result."""
    procedure, repeats = experiment.procedure, experiment.options.repeats
    best: list[Sample] = []
    least_s = float("inf")
    runs = 0
    gc.collect()
    gc.disable()
    try:
        way.round(elements, 1, repeats)  # makes plans and faults pages in; not counted
        while runs < procedure.runs and (runs == 0 or time.monotonic() < deadline):
            samples = way.round(elements, procedure.measurements, repeats)
            deviation_s = statistics.stdev(sample.latency_s for sample in samples)
            if deviation_s < least_s:
                best, least_s = samples, deviation_s
            runs += 1
    finally:
        gc.enable()
    report_case(experiment, way, elements, best, {"runs": runs, "link": link.words})


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
    variant = variant_of(way.part, way.transport)
    local_s = experiment.local_s.get(elements)
    if variant == "local":
        experiment.local_s[elements] = median_s
    means = {
        name: statistics.mean(getattr(sample, name) for sample in samples)
        for name in ("input_s", "operations_s", "output_s", "gpu_s")
    }
    size = elements_text(elements)
    line = experiment.bench.emit(
        f"{size} elements" if not experiment.emulated else f"emulated GPU: {size} elements",
        variant,
        12 * elements,
        latencies_s,
        "local" if local_s else None,
        local_s / median_s if local_s else None,
        {
            "elements": elements,
            "part": way.part,
            "transport": way.transport if way.part else "none",
            "mean_s": statistics.mean(latencies_s),
            "deviation_s": statistics.stdev(latencies_s),
            "repeats": experiment.options.repeats,
            "path": way.path(elements),
            **means,
            **(conditions if way.part else {"runs": conditions["runs"]}),
        },
    )
    experiment.lines.append(line)


def variant_of(part: int, transport: str) -> str:
    """Returns the name of a way in result lines."""
    if part == 0:
        return "local" if transport == "engine" else f"local, {transport}"
    return f"part {part}, {transport}"
