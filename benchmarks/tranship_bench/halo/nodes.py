"""A weather model's halo exchange on 1 to 32 GPU nodes, simulated, by two designs.

- 520 x 350 cells of 60 levels, three fields, width 2, eight neighbours, periodic in one dimension,
  as in MeteoSwiss's exchange.
- Follows: Maximal Overlap (IPDPS'16), whose application kernel models that exchange on up to 32 GPU
  nodes. The paper: up to 33 % less execution time than latency-oriented designs.

What is simulated: kernels that pack and unpack, messages between GPUs, and waits, on the profile
`perlmutter` (A100s and Slingshot, rates and launches derived); real plans and the scheduler run on
virtual time. *latency-oriented*, as CUDA-aware MPI libraries were, launches a kernel for each
message, waits for it, sends, and packs the next one; it unpacks alike. *tranship* packs all
messages by one launch and unpacks what has come beside the rest. A wait costs 5 us beyond its work.
The paper's 33 % are of an application kernel on K20s, with computing and types made anew; here it
is the exchange alone, where the waits are most of the time: the fewer cells a node has, the more.
Runs of 16 bytes are packed at the profile's rate for contiguous data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..isometry.places import Shape
from ..isometry.simulated import TRANSHIP as STYLE
from ..isometry.simulated import Run, SimulatedBench
from ..registry import simulates

MACHINE = "perlmutter"
CELLS = (520, 350)
LEVELS = 60
WIDTH = 2
FIELDS = 3
NODES = (1, 2, 4, 8, 16, 32)
EXCHANGES = 4
LATENCY_ORIENTED = "latency-oriented"
WAIT_S = 5e-6
"""Time of a blocking wait for a GPU beyond the work that it waits for: some 5 us between a kernel's
end and the thread's return, on the GPU machines of docs/reference/performance.md."""

Direction = tuple[int, int]


@dataclass(frozen=True)
class Message:
    """What one node sends to a neighbour."""

    source: int
    target: int
    cells: int

    @property
    def shape(self) -> Shape:
        """Returns the shape of the packed message."""
        return Shape({"x": self.cells}, {"value": "f8"})


def sides_of(nodes: int) -> tuple[int, int]:
    """Returns the sides of the grid of nodes, as near to the cells' as possible."""
    pairs = [(k, nodes // k) for k in range(1, nodes + 1) if nodes % k == 0]
    return min(pairs, key=lambda pair: abs(math.log(CELLS[0] / pair[0] / (CELLS[1] / pair[1]))))


def directions() -> Iterator[Direction]:
    """Yields the directions of the eight neighbours."""
    return ((i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0))


def messages_of(nodes: int) -> list[list[Message]]:
    """Returns the messages of each node; the grid is periodic in its second dimension."""
    sides = sides_of(nodes)
    block = [math.ceil(cells / side) for cells, side in zip(CELLS, sides, strict=True)]
    all_messages = []
    for node in range(nodes):
        place = divmod(node, sides[1])
        own = []
        for i, j in directions():
            row, column = place[0] + i, (place[1] + j) % sides[1]
            if not 0 <= row < sides[0]:
                continue
            extents = [WIDTH if step else size for step, size in zip((i, j), block, strict=True)]
            cells = math.prod(extents) * LEVELS * FIELDS
            own.append(Message(node, row * sides[1] + column, cells))
        all_messages.append(own)
    return all_messages


def device(node: int) -> str:
    """Returns the memory of a node's GPU."""
    return f"node{node}/device0"


Before = dict[int, list[int]]
"""Tasks of each node that must have ended before its next exchange."""


def launch(simulated: Run, node: int, shape: Shape, after: list[int]) -> int:
    """Adds a kernel that packs or unpacks, and returns its number."""
    memory = device(node)
    return simulated.copy((memory, memory), shape, after=after, through=[memory, memory])


def send(simulated: Run, message: Message, after: list[int]) -> int:
    """Adds a message, and returns the number of what brings it."""
    if message.source == message.target:
        return after[-1]
    ends = (device(message.source), device(message.target))
    return simulated.copy(ends, message.shape, after=after)


def waited(simulated: Run, node: int, task: int) -> int:
    """Adds a thread's blocking wait for a task."""
    return simulated.compute(f"node{node}/thread", WAIT_S, after=[task])


def latency_oriented(simulated: Run, messages: list[list[Message]], before: Before) -> Before:
    """Adds one exchange: a launch and a wait for each message, one after the other."""
    arrived: dict[int, list[tuple[Message, int]]] = {node: [] for node in range(len(messages))}
    for node, own in enumerate(messages):
        last = before[node]
        for message in own:
            packed = waited(simulated, node, launch(simulated, node, message.shape, last))
            last = [packed]
            sent = send(simulated, message, last)
            arrived[message.target].append((message, sent))
    after: Before = {}
    for node, incoming in arrived.items():
        last = []
        for message, sent in incoming:
            unpacked = launch(simulated, node, message.shape, [*last, sent])
            last = [waited(simulated, node, unpacked)]
        after[node] = last
    return after


def overlapped(simulated: Run, messages: list[list[Message]], before: Before) -> Before:
    """Adds one exchange: one launch packs, and what has come is unpacked beside the rest."""
    arrived: dict[int, list[tuple[Message, int]]] = {node: [] for node in range(len(messages))}
    for node, own in enumerate(messages):
        cells = sum(message.cells for message in own)
        packed = launch(simulated, node, Shape({"x": cells}, {"value": "f8"}), before[node])
        for message in own:
            arrived[message.target].append((message, send(simulated, message, [packed])))
    after: Before = {}
    for node, incoming in arrived.items():
        after[node] = [launch(simulated, node, message.shape, [sent]) for message, sent in incoming]
    return after


Design = Callable[[Run, list[list[Message]], Before], Before]
DESIGNS: dict[str, Design] = {LATENCY_ORIENTED: latency_oriented, "tranship": overlapped}


@simulates("halo-nodes", "a weather model's halo exchange on 1 to 32 nodes, simulated")
def halo_nodes(bench: SimulatedBench) -> None:
    """Simulates some exchanges in a row on each number of nodes."""
    machine = bench.on(MACHINE)
    for nodes in bench.pick(NODES, NODES[:2]):
        messages = messages_of(nodes)
        count = 8 * sum(message.cells for own in messages for message in own)
        rows, columns = sides_of(nodes)
        for name, design in DESIGNS.items():
            simulated = Run(machine, STYLE, nodes=nodes)
            before: Before = {node: [] for node in range(nodes)}
            for _ in range(EXCHANGES):
                before = design(simulated, messages, before)
            seconds = simulated.finish() / EXCHANGES
            case = f"{nodes} node" + ("s" if nodes > 1 else "")
            values: dict[str, float] = {"messages": sum(map(len, messages))}
            facts = {"grid": f"{rows}x{columns}", "wait_us": 1e6 * WAIT_S}
            bench.simulated(case, name, count, seconds, LATENCY_ORIENTED, values, **facts)
