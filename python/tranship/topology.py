"""A machine's profile as text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import hardware, profiles
from .hardware import RDMA_FOLDER
from .units import bytes_text, gbps_text, seconds_text

__all__ = [
    "RDMA_FOLDER",
    "channel_rows",
    "describe",
    "describe_here",
    "gpu_lines",
    "gpu_rdma_text",
    "hardware_lines",
    "nodes_text",
    "rdma_lines",
    "source_text",
    "storage_line",
]


def channel_rows(profile: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns a row for each channel: ends, best rate, rate with runs of 64 bytes, latency."""
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
    """Returns where the figures come from; a profile with a comment was not measured here."""
    if profile.get("comment"):
        return f"{profile['host']} ({profile['date']})"
    return f"{profile['host']}, measured {profile['date']}"


def nodes_text(profile: dict[str, Any]) -> str:
    """Returns how many nodes the profile stands for; empty if it lists them all."""
    nodes = profile.get("nodes", 0)
    return f"{nodes} equal nodes; node0 and its ways to node1 stand for all" if nodes > 0 else ""


def describe(profile_json: str, *, emulated: bool = False) -> str:
    """Returns memories and channels, a line each; `emulated` says that the GPUs are."""
    profile = json.loads(profile_json)
    lines = [source_text(profile)]
    if nodes_text(profile):
        lines.append(nodes_text(profile))
    if profile.get("comment"):
        lines.append(profile["comment"])
    if profiles.busy_text(profile):
        lines.append(profiles.busy_text(profile))
    lines.append("memories: " + ", ".join(memory["name"] for memory in profile["memories"]))
    for row in channel_rows(profile):
        arrow = f"{row['source']} > {row['target']}"
        short = row["gbps_short_runs"]
        tail = f", {gbps_text(short)} with runs up to 64 B" if short is not None else ""
        latency = seconds_text(row["latency_us"] * 1e-6)
        note = " (emulated)" if emulated and "/device" in arrow else ""
        lines.append(
            f"  {arrow:28} {row['name'] + note:20} {gbps_text(row['gbps'])}{tail}, {latency}"
        )
    return "\n".join(lines)


def describe_here(profile_json: str, gpus: Sequence[Mapping[str, Any]], reason: str) -> str:
    """Returns memories, channels and hardware of this machine."""
    emulated = any(gpu["emulated"] for gpu in gpus)
    return "\n".join([describe(profile_json, emulated=emulated), *hardware_lines(gpus, reason)])


def hardware_lines(gpus: Sequence[Mapping[str, Any]], reason: str) -> list[str]:
    """Returns lines on GPUs, RDMA cards and GPUDirect Storage."""
    storage = storage_line(hardware.gpu_direct_storage())
    return [*gpu_lines(gpus, reason), *rdma_lines(), storage]


def gpu_lines(gpus: Sequence[Mapping[str, Any]], reason: str) -> list[str]:
    """Returns a line for each GPU; without a GPU, the reason."""
    if not gpus:
        return [f"GPUs: none ({reason})"]
    return ["GPUs:", *(f"  device{gpu['device']:<3} {gpu_text(gpu)}" for gpu in gpus)]


def gpu_text(gpu: Mapping[str, Any]) -> str:
    """Returns name, memory and neighbours of a GPU."""
    parts = [str(gpu["name"]) + (" (emulated in host memory)" if gpu["emulated"] else "")]
    parts.append(bytes_text(gpu["memory_bytes"]))
    if gpu["bus"]:
        parts.append(f"bus {gpu['bus']}")
    if gpu["numa_node"] >= 0:
        parts.append(f"NUMA node {gpu['numa_node']}")
    peers = [f"device{peer}" for peer in gpu["peers"]]
    parts.append(f"reaches {', '.join(peers)}" if peers else "reaches no other GPU directly")
    return ", ".join(parts)


def rdma_lines(folder: Path = RDMA_FOLDER) -> list[str]:
    """Returns lines on RDMA cards, their ports, and whether UCX and GPUs use them."""
    rdma = hardware.rdma(folder)
    if not rdma["cards"]:
        return [f"RDMA cards: none ({folder} lists none), so no GPUDirect RDMA"]
    lines = ["RDMA cards:"]
    for card in rdma["cards"]:
        states = [port_text(port) for port in card["ports"]] or ["no ports"]
        lines.append(f"  {card['name']:<9} {'; '.join(states)}")
    if not rdma["in_ucx"]:
        lines.append("  not used: no UCX with RDMA is loaded here; without one, bytes go over TCP")
    return [*lines, f"GPUDirect RDMA: {gpu_rdma_text(rdma)}"]


def gpu_rdma_text(rdma: Mapping[str, Any]) -> str:
    """Returns how RDMA cards reach GPU memory."""
    if rdma["nvidia_peermem"]:
        return "by the kernel module nvidia_peermem"
    if rdma["dma_buf"]:
        return "by dma-buf, where the card's driver has it (the GPU driver's open kernel module)"
    return "none (nvidia_peermem is not loaded, and the GPU driver has no open kernel module)"


def port_text(port: Mapping[str, str]) -> str:
    """Returns link, rate and state of a port."""
    words = [port[name] for name in ("link_layer", "rate", "state") if name in port]
    return f"port {port['port']}: {', '.join(words) or 'state unknown'}"


def storage_line(storage: Mapping[str, Any]) -> str:
    """Returns a line on GPUDirect Storage, and whether copies use it."""
    way = "copies between GPUs and files go through pinned memory"
    if storage["used"]:
        return (
            f"GPUDirect Storage: {storage['library']}; files reach GPUs without host memory "
            "between where the profile finds that faster"
        )
    if not storage["present"]:
        return f"GPUDirect Storage: none ({'; '.join(storage['lacks'])}); {way}"
    return f"GPUDirect Storage: found ({storage['library']}), but the setting is off; {way}"
