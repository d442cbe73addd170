"""`tranship topology`: the memories of a machine and the channels between them."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from ..hardware import hardware
from ..topology import (
    channel_rows,
    gpu_lines,
    nodes_text,
    rdma_lines,
    source_text,
    storage_line,
)
from .inputs import JsonOption, MachineOption, bytes_text, profile_of
from .talk import print_json, print_table, say, table_of

__all__ = ["EXAMPLES", "print_profile", "topology"]

COLUMNS = 100
"""Width of running text."""

EXAMPLES = """
tranship topology
tranship topology --draw machine.png
tranship topology --machine sapling
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
    """Print and draw the memories of a machine, the channels between them, and its GPUs."""
    profile: dict[str, Any] = json.loads(profile_of(machine))
    if draw is not None:
        from ..drawing.topology import draw_topology

        draw_topology(profile, draw)
    # A profile of another machine says nothing of what this one has.
    present = hardware() if machine is None else None
    if as_json:
        print_json(topology_json(profile) | ({"hardware": present} if present else {}))
    else:
        print_profile(profile)
        if present:
            print_hardware(present, profile)
    if draw is not None:
        say(f"drawn into {draw}")


def topology_json(profile: dict[str, Any]) -> dict[str, Any]:
    """The graph without the samples."""
    keys = ("host", "date", "comment", "nodes", "memories", "resources")
    known = {key: profile[key] for key in keys if key in profile}
    return known | {"channels": channel_rows(profile)}


def print_profile(profile: dict[str, Any]) -> None:
    """The graph as tables."""
    print(filled(source_text(profile)))
    if nodes_text(profile):
        print(nodes_text(profile))
    if profile.get("comment"):
        print(filled(profile["comment"]))
    for table in (memory_table(profile), resource_table(profile), channel_table(profile)):
        if table.row_count:
            print()
            print_table(table)


def print_hardware(present: dict[str, Any], profile: dict[str, Any]) -> None:
    """GPUs and what reaches them; says where the profile lacks them."""
    gpus = present["gpus"]
    print()
    for line in gpu_lines(gpus, present["no_gpus_because"] or ""):
        print(line)
    missing = absent_gpus(gpus, profile)
    if missing:
        print(f"  not in the profile: {', '.join(missing)}; measure again: tranship calibrate")
    for line in (*rdma_lines(), storage_line(present["gpu_direct_storage"])):
        print(line)


def absent_gpus(gpus: list[dict[str, Any]], profile: dict[str, Any]) -> list[str]:
    """GPUs that the profile, measured without them, does not know."""
    known = {memory["name"] for memory in profile["memories"]}
    names = [f"device{gpu['device']}" for gpu in gpus]
    return [name for name in names if f"node0/{name}" not in known]


def filled(text: str) -> str:
    """Running text in lines."""
    return textwrap.fill(text, COLUMNS, break_on_hyphens=False, break_long_words=False)


def memory_table(profile: dict[str, Any]) -> Table:
    """What intermediate buffers may take, and how large a tile may be, where it is said."""
    limited = any(memory.get("threshold_bytes") for memory in profile["memories"])
    table = table_of("memory", "kind", ">buffers up to", *([">tiles up to"] if limited else []))
    for memory in profile["memories"]:
        limit, threshold = memory["buffer_bytes_max"], memory.get("threshold_bytes", 0)
        row = [memory["name"], memory["kind"], bytes_text(limit) if limit else "none"]
        if limited:
            row.append(bytes_text(threshold) if threshold else "")
        table.add_row(*row)
    return table


def resource_table(profile: dict[str, Any]) -> Table:
    """What channels share; those that differ in a number alone are on one line."""
    alike: dict[tuple[str, float], list[str]] = {}
    for resource in profile["resources"]:
        node, slash, name = resource["name"].rpartition("/")
        pattern = node + slash + re.sub(r"\d+", "*", name)
        alike.setdefault((pattern, resource["bytes_per_second"]), []).append(resource["name"])
    table = table_of("shared by channels", ">GB/s each")
    for (pattern, rate), names in alike.items():
        name = names[0] if len(names) == 1 else f"{pattern} ({len(names)})"
        table.add_row(name, f"{rate / 1e9:.2f}" if rate else "take turns")
    return table


def channel_table(profile: dict[str, Any]) -> Table:
    """A row a channel; names that tell the two memories need no columns for them."""
    rows = channel_rows(profile)
    told = all(" > " in row["name"] for row in rows)
    ends = [] if told else ["from", "to"]
    table = table_of("channel", *ends, ">GB/s", ">runs to 64 B", ">latency", "shares")
    for row in rows:
        short = row["gbps_short_runs"]
        table.add_row(
            row["name"],
            *([] if told else [row["source"], row["target"]]),
            f"{row['gbps']:.2f}",
            f"{short:.2f}" if short is not None else "",
            f"{row['latency_us']:.3g} us",
            ", ".join(row["resources"]),
        )
    return table
