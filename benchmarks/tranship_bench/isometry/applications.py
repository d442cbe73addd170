"""The three applications of section 6.5 as transfer patterns with compute tasks.

The paper names their kinds of transfers (Table 6 and its text), but neither sizes nor times. The
sizes here follow from what the applications do; each compute time stands for one partition's work
on one node, as the paper counts it. The field `fitted` of an application gives the time's source.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .places import Shape, memory, vector_shape
from .simulated import Run

MEBI = 1 << 20

Endings = list[list[int]]
"""Tasks that end each iteration, node by node."""


@dataclass(frozen=True)
class Application:
    """A pattern of transfers and compute tasks.

    Attributes:
        name: Name as the paper writes it.
        machine: Machine of the paper's run.
        stage: Host memory of the whole instances that Legion makes for it with Realm.
        compute_s: Seconds that a node computes on a partition in each iteration.
        fitted: Source of `compute_s`: what it was fitted to, or how it was estimated.
        build: Function that adds the tasks of some iterations on some nodes to a run.
    """

    name: str
    machine: str
    stage: str
    compute_s: float
    fitted: str
    build: Callable[[Run, int, int, float], Endings]


def iteration_s(run: Run, endings: Endings) -> float:
    """Returns the mean seconds of an iteration after the first, which fills the pipeline."""
    ends = [max(run.end_s(task) for task in tasks) for tasks in endings]
    return (ends[-1] - ends[0]) / (len(ends) - 1)


def others(node: int, nodes: int) -> list[int]:
    """Returns all other nodes, the right neighbour first: no node is the first target of all."""
    return [(node + step) % nodes for step in range(1, nodes)]


VALUES_BYTES = 64 * MEBI
"""Bytes of a PageRank partition: 16 Mi vertices with a float each."""

EDGES_BYTES = 64 * MEBI
"""Bytes of a partition's edges that exceed the GPU's memory and come from pinned memory."""


def build_pagerank(run: Run, nodes: int, iterations: int, compute_s: float) -> Endings:
    """Adds PageRank's tasks: each GPU reads edges from pinned memory of its own node, computes, and
    sends the new ranks of its partition to every GPU.
    """
    values, edges = vector_shape(VALUES_BYTES), vector_shape(EDGES_BYTES)
    endings: Endings = []
    arrived: list[list[int]] = [[] for _ in range(nodes)]
    for _ in range(iterations):
        computed = []
        for node in range(nodes):
            load = run.copy((memory("ZCM", node), memory("FBM", node)), edges, after=arrived[node])
            computed.append(
                run.compute(memory("FBM", node), compute_s, after=[*arrived[node], load])
            )
        arrived = [[task] for task in computed]
        for source in range(nodes):
            for target in others(source, nodes):
                ends = (memory("FBM", source), memory("FBM", target))
                arrived[target].append(run.copy(ends, values, after=[computed[source]]))
        endings.append([task for tasks in arrived for task in tasks])
    return endings


VGG_LAYERS = (
    ("convolutions", 14_714_688),
    ("fc6", 25_088 * 4_096 + 4_096),
    ("fc7", 4_096 * 4_096 + 4_096),
    ("fc8", 4_096 * 1_000 + 1_000),
)
"""Parameters of VGG-16, 138,357,544 in all: its thirteen convolutions go as one message, since
each of them is small."""

IMAGES = 64
"""Images in the batch of a node."""

IMAGE_SHAPE = {"c": 3, "w": 224, "h": 224}


def images() -> Shape:
    """Returns a batch: channels fastest (NHWC) in system memory, width fastest on the GPU."""
    return Shape({**IMAGE_SHAPE, "n": IMAGES}, source_layout="F,c,w,h,n", target_layout="F,w,h,c,n")


def build_vgg(run: Run, nodes: int, iterations: int, compute_s: float) -> Endings:
    """Adds data-parallel training: each node sends its gradients of every other node's part of each
    layer, from the last one on, and gets the new parameters of that part.
    """
    endings: Endings = []
    arrived: list[list[int]] = [[] for _ in range(nodes)]
    for _ in range(iterations):
        computed = [vgg_passes(run, node, compute_s, arrived[node]) for node in range(nodes)]
        gathered = exchange_layers(run, [[task] for task in computed])
        arrived = exchange_layers(run, gathered)
        endings.append([task for tasks in arrived for task in tasks])
    return endings


def vgg_passes(run: Run, node: int, compute_s: float, after: list[int]) -> int:
    """Adds a node's forward and backward pass; returns the task that ends the two."""
    system, gpu = memory("SYS", node), memory("FBM", node)
    loaded = run.copy((system, gpu), images(), after=after)
    labels = run.copy((system, gpu), vector_shape(4 * IMAGES), after=after)
    passes = run.compute(gpu, compute_s, after=[*after, loaded, labels])
    run.copy((gpu, system), vector_shape(4 * IMAGES), after=[passes])
    return passes


def exchange_layers(run: Run, ready: list[list[int]]) -> list[list[int]]:
    """Adds copies of each layer's parts between all nodes; returns each node's tasks to await."""
    nodes = len(ready)
    arrived: list[list[int]] = [list(tasks) for tasks in ready]
    for _, parameters in reversed(VGG_LAYERS):
        part = vector_shape(parameters * 4 // nodes)
        for source in range(nodes):
            for target in others(source, nodes):
                ends = (memory("FBM", source), memory("FBM", target))
                arrived[target].append(run.copy(ends, part, after=ready[source]))
    return arrived


SHARED_BYTES = (24 * MEBI, 20 * MEBI, 16 * MEBI)
"""State of the shared circuit nodes of a piece: pieces of a random graph differ, and take turns."""

GHOST_BYTES = (2 * MEBI, 3 * MEBI, 1 * MEBI)
"""Ghost circuit nodes between neighbouring pieces."""

CONTROL_BYTES = MEBI // 4

CIRCUIT_GPUS = ("device0", "device1")


def build_circuit(run: Run, nodes: int, iterations: int, compute_s: float) -> Endings:
    """Adds a circuit simulation: currents are computed on both GPUs of each node, charges go to the
    neighbours and the master, node 0, which sends the shared state to both GPUs of every node.
    """
    endings: Endings = []
    arrived: list[list[int]] = [[] for _ in range(nodes)]
    for _ in range(iterations):
        currents = circuit_phase(run, compute_s * 0.8, arrived)
        charged = send_charges(run, currents)
        updated = circuit_phase(run, compute_s * 0.2, charged)
        arrived = send_state(run, updated)
        endings.append([task for tasks in arrived for task in tasks])
    return endings


def circuit_phase(run: Run, seconds: float, after: list[list[int]]) -> list[list[int]]:
    """Adds a compute task on every GPU of every node."""
    return [
        [run.compute(f"node{node}/{gpu}", seconds, after=tasks) for gpu in CIRCUIT_GPUS]
        for node, tasks in enumerate(after)
    ]


def send_charges(run: Run, currents: list[list[int]]) -> list[list[int]]:
    """Adds copies to the neighbours and the master; returns each node's tasks to await."""
    nodes = len(currents)
    charged = [list(tasks) for tasks in currents]
    for node in range(nodes):
        for other in sorted({(node + 1) % nodes, (node - 1) % nodes} - {node}):
            ghost = vector_shape(GHOST_BYTES[node % len(GHOST_BYTES)])
            ends = (memory("FBM", node), memory("FBM", other))
            charged[other].append(run.copy(ends, ghost, after=currents[node]))
    for node in range(1, nodes):
        ends = (memory("FBM", node), memory("FBM", 0))
        charged[0].append(run.copy(ends, shared_shape(node), after=currents[node]))
    return charged


def send_state(run: Run, updated: list[list[int]]) -> list[list[int]]:
    """Adds copies from the master to all others; returns each node's tasks to await."""
    arrived = [list(tasks) for tasks in updated]
    for node in range(1, len(updated)):
        for source in CIRCUIT_GPUS:
            for target in CIRCUIT_GPUS:
                ends = (f"node0/{source}", f"node{node}/{target}")
                arrived[node].append(run.copy(ends, shared_shape(node), after=updated[0]))
        for target in ("host0", *CIRCUIT_GPUS):
            ends = (memory("SYS", 0), f"node{node}/{target}")
            arrived[node].append(run.copy(ends, vector_shape(CONTROL_BYTES), after=updated[0]))
    return arrived


def shared_shape(node: int) -> Shape:
    """Returns the shape of the state that the pieces of a node share with others."""
    return vector_shape(SHARED_BYTES[node % len(SHARED_BYTES)])


APPLICATIONS = (
    Application(
        "PageRank",
        "xstream",
        "host0",
        0.23,
        "fitted: the time per iteration on 16 nodes falls by 60 %, the paper's largest",
        build_pagerank,
    ),
    Application(
        "VGG-16",
        "xstream",
        "host0",
        2.0,
        "estimated: 93 Gflop an image, 64 images, 3 Tflop/s sustained by the GPU",
        build_vgg,
    ),
    Application(
        "Circuit",
        "moonlight",
        "host0",
        5.7,
        "fitted: communication takes 36 % of the time on 64 nodes with Realm",
        build_circuit,
    ),
)
