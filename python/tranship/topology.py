"""A machine's profile as text."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["channel_rows", "describe", "nodes_text", "source_text"]


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
