"""`tranship topology`: the memories of a machine and the channels between them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ..topology import channel_rows
from .inputs import JsonOption, MachineOption, bytes_text, profile_of
from .talk import print_json, print_table, say, table_of

__all__ = ["EXAMPLES", "print_profile", "topology"]

EXAMPLES = """
tranship topology
tranship topology --draw machine.png
tranship topology --machine profile.json --json
"""


def topology(
    machine: MachineOption = None,
    draw: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the graph into a .png, .svg or .pdf file."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print and draw the memories of a machine and the channels between them."""
    profile: dict[str, Any] = json.loads(profile_of(machine))
    if draw is not None:
        from ..viz import draw_topology

        draw_topology(profile, draw)
    if as_json:
        print_json(topology_json(profile))
    else:
        print_profile(profile)
    if draw is not None:
        say(f"drawn into {draw}")


def topology_json(profile: dict[str, Any]) -> dict[str, Any]:
    """The graph without the samples."""
    keys = ("host", "date", "comment", "memories", "resources")
    return {key: profile[key] for key in keys} | {"channels": channel_rows(profile)}


def print_profile(profile: dict[str, Any]) -> None:
    """The graph as tables."""
    print(f"{profile['host']}, measured {profile['date']}")
    if profile.get("comment"):
        print(profile["comment"])
    memories = table_of("memory", "kind", ">buffers up to")
    for memory in profile["memories"]:
        limit = memory["buffer_bytes_max"]
        memories.add_row(memory["name"], memory["kind"], bytes_text(limit) if limit else "none")
    channels = table_of(
        "channel", "from", "to", ">GB/s", ">with runs up to 64 B", ">latency", "shares"
    )
    for row in channel_rows(profile):
        short = row["gbps_short_runs"]
        channels.add_row(
            row["name"],
            row["source"],
            row["target"],
            f"{row['gbps']:.2f}",
            f"{short:.2f}" if short is not None else "",
            f"{row['latency_us']:.0f} us",
            ", ".join(row["resources"]),
        )
    for table in (memories, channels):
        print()
        print_table(table)
