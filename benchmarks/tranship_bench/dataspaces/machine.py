"""Positions of a staging workflow's processes on a cluster, and the costs of messages there."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from tranship import profiles
from tranship.errors import NotFound

GPUS_EACH = 4
SERVERS_EACH = 4

LANES = 4
"""Paths that a copy may take at once: the engine's default."""

SERVICE_S = 21.4e-6
"""Seconds of a server's work on one request: the most that `tranship bench staging-questions`
measured on two shared cores, a put with eight clients
(benchmarks/results/staging-questions.jsonl).
"""


@dataclass(frozen=True)
class Cluster:
    """Writers, readers and servers on separate nodes: one process for each GPU, 4 servers a node.

    Attributes:
        gpus: Number of writers, on the first nodes, and of readers, on the next nodes.
        servers: Number of servers, on the last nodes.
        apart: Whether each process has host memory and a network card of its own, and reaches no
            other; else all processes of a node share its host memory and all of its cards.
    """

    gpus: int
    servers: int
    apart: bool

    @property
    def lanes(self) -> int:
        """Returns how many paths a copy may take at once: one if each process has its own card."""
        return 1 if self.apart else LANES

    @property
    def nodes(self) -> int:
        """Returns the number of nodes."""
        return 2 * nodes_of(self.gpus, GPUS_EACH) + nodes_of(self.servers, SERVERS_EACH)

    def writer(self, rank: int) -> Place:
        """Returns the memories of one writer."""
        return self._place(rank // GPUS_EACH, rank % GPUS_EACH)

    def reader(self, rank: int) -> Place:
        """Returns the memories of one reader."""
        first = nodes_of(self.gpus, GPUS_EACH)
        return self._place(first + rank // GPUS_EACH, rank % GPUS_EACH)

    def server(self, number: int) -> Place:
        """Returns the memories of one server, which needs no GPU."""
        first = 2 * nodes_of(self.gpus, GPUS_EACH)
        return self._place(first + number // SERVERS_EACH, number % SERVERS_EACH)

    def _place(self, node: int, number: int) -> Place:
        return Place(f"node{node}", number, number if self.apart else 0)


@dataclass(frozen=True)
class Place:
    """A process on a node: the memories that it uses, and its own core.

    Attributes:
        node: Name of the node, such as "node3".
        number: Number of the process on its node, and of its GPU.
        host_number: Number of the host memory that the process uses.
    """

    node: str
    number: int
    host_number: int

    @property
    def device(self) -> str:
        """Returns the name of the memory of the process's GPU."""
        return f"{self.node}/device{self.number}"

    @property
    def pinned(self) -> str:
        """Returns the name of the pinned memory, which the cards reach; it holds objects."""
        return f"{self.node}/pinned{self.host_number}"

    @property
    def host(self) -> str:
        """Returns the name of the pageable memory."""
        return f"{self.node}/host{self.host_number}"

    @property
    def core(self) -> str:
        """Returns the name of the process's core, which carries out one task after another."""
        return f"{self.node}/process{self.number}"


class Channels:
    """Throughput and latency of a profile's channels, for costs that no simulated copy covers.

    Raises:
        NotFound: The profile lacks a channel whose rate is needed.
    """

    def __init__(self, machine: str) -> None:
        profile = json.loads(profile_of(machine))
        self._channels: list[dict[str, Any]] = profile["channels"]
        names = {memory["name"] for memory in profile["memories"]}
        self.apart = "node0/pinned1" in names
        """Whether each process of a node has host memory of its own."""

    def message_s(self) -> float:
        """Returns the seconds of a small message to another node: latency and time on the wire."""
        channel = self._find("remote_write", "node0/pinned0", "node1/pinned0")
        request, _, rate = max(least_of(channel), key=lambda sample: sample[1])
        return float(channel["latency_s"]) + request / rate

    def line_rate(self, line_bytes: int) -> float:
        """Returns the bytes per second of one thread that copies line by line within the host."""
        samples = least_of(self._find("memcpy", "node0/host0", "node0/host0"))
        known = [sample for sample in samples if sample[1] <= line_bytes]
        return float(max(known or samples[:1], key=lambda sample: sample[1])[2])

    def _find(self, kind: str, source: str, target: str) -> dict[str, Any]:
        wanted = (kind, source, target)
        for channel in self._channels:
            if (channel["kind"], channel["source"], channel["target"]) == wanted:
                return channel
        raise NotFound(
            f"the machine has no {kind} from {source} to {target}, which a staging workflow needs",
            "take another one, such as --machine perlmutter-processes",
        )


def nodes_of(processes: int, each: int) -> int:
    """Returns the number of nodes that hold `processes`, `each` of them on a node."""
    return -(-processes // each)


def least_of(channel: dict[str, Any]) -> list[list[float]]:
    """Returns the samples of a channel's smallest requests."""
    samples: list[list[float]] = channel["samples"]
    least = min(sample[0] for sample in samples)
    return [sample for sample in samples if sample[0] == least]


@cache
def profile_of(machine: str) -> str:
    """Returns the text of a machine profile."""
    return profiles.load(machine)
