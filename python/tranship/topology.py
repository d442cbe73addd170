"""A machine's profile as text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = [
    "channel_rows",
    "describe",
    "gpu_lines",
    "hardware_lines",
    "nodes_text",
    "rdma_lines",
    "source_text",
]

RDMA_FOLDER = Path("/sys/class/infiniband")
"""Where the kernel lists cards that read and write the memory of other machines."""


def channel_rows(profile: dict[str, Any]) -> list[dict[str, Any]]:
    """One row a channel: its ends, best rate in GB/s, rate with runs of 64 bytes, latency."""
    rows = []
    for channel in profile["channels"]:
        samples = channel["samples"]
        best = max(rate for _, _, rate in samples)
        short = [rate for _, run, rate in samples if run <= 64]
        rows.append(
            {
                "name": channel["name"],
                "kind": channel["kind"],
                "source": channel["source"],
                "target": channel["target"],
                "gbps": best / 1e9,
                "gbps_short_runs": max(short) / 1e9 if short else None,
                "latency_us": channel["latency_s"] * 1e6,
                "resources": channel["resources"],
            }
        )
    return rows


def source_text(profile: dict[str, Any]) -> str:
    """Where the figures come from; what has a list of sources was not measured here."""
    if profile.get("comment"):
        return f"{profile['host']} ({profile['date']})"
    return f"{profile['host']}, measured {profile['date']}"


def nodes_text(profile: dict[str, Any]) -> str:
    """How many nodes the profile stands for; empty if it lists them all."""
    nodes = profile.get("nodes", 0)
    return f"{nodes} equal nodes; node0 and its ways to node1 stand for all" if nodes > 0 else ""


def describe(profile_json: str) -> str:
    """Memories and channels, one a line."""
    profile = json.loads(profile_json)
    lines = [source_text(profile)]
    if nodes_text(profile):
        lines.append(nodes_text(profile))
    if profile.get("comment"):
        lines.append(profile["comment"])
    lines.append("memories: " + ", ".join(memory["name"] for memory in profile["memories"]))
    for row in channel_rows(profile):
        arrow = f"{row['source']} > {row['target']}"
        short = row["gbps_short_runs"]
        tail = f", {short:.2f} with runs up to 64 B" if short is not None else ""
        lines.append(
            f"  {arrow:28} {row['name']:20} {row['gbps']:7.2f} GB/s{tail}, "
            f"{row['latency_us']:.0f} us"
        )
    return "\n".join(lines)


def hardware_lines(gpus: Sequence[Mapping[str, Any]], reason: str) -> list[str]:
    """What is there besides the memories: GPUs, and cards for RDMA; or that there are none."""
    return [*gpu_lines(gpus, reason), *rdma_lines()]


def gpu_lines(gpus: Sequence[Mapping[str, Any]], reason: str) -> list[str]:
    """One line a GPU; without one, the reason."""
    if not gpus:
        return [f"GPUs: none ({reason})"]
    lines = ["GPUs:"]
    for gpu in gpus:
        parts = [str(gpu["name"]), f"{gpu['memory_bytes'] / 2**30:.1f} GiB"]
        if gpu["bus"]:
            parts.append(f"bus {gpu['bus']}")
        if gpu["numa_node"] >= 0:
            parts.append(f"NUMA node {gpu['numa_node']}")
        peers = [f"device{peer}" for peer in gpu["peers"]]
        parts.append(f"reaches {', '.join(peers)}" if peers else "reaches no other GPU directly")
        if gpu["emulated"]:
            parts.append("emulated in host memory")
        lines.append(f"  device{gpu['device']:<3} {', '.join(parts)}")
    return lines


def rdma_lines(folder: Path = RDMA_FOLDER) -> list[str]:
    """Cards for RDMA and the state of their ports, as the kernel has them."""
    cards = sorted(folder.iterdir()) if folder.is_dir() else []
    if not cards:
        return [f"RDMA cards: none ({folder} lists none)"]
    lines = ["RDMA cards:"]
    for card in cards:
        ports = sorted((card / "ports").iterdir()) if (card / "ports").is_dir() else []
        states = [port_text(port) for port in ports] or ["no ports"]
        lines.append(f"  {card.name:<9} {'; '.join(states)}")
    return lines


def port_text(port: Path) -> str:
    """Link, rate and state of a port."""
    words = []
    for name in ("link_layer", "rate", "state"):
        try:
            words.append((port / name).read_text(encoding="utf-8").strip())
        except OSError:
            continue  # a driver need not have all of them
    return f"port {port.name}: {', '.join(words) or 'state unknown'}"
