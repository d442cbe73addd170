"""`tranship topology`: the memories of a machine and the channels between them."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from .. import profiles
from ..hardware import hardware
from ..topology import (
    channel_rows,
    gpu_lines,
    nodes_text,
    rdma_lines,
    source_text,
    storage_line,
)
from ..units import bytes_text, gbps_text, seconds_text
from .inputs import JsonOption, MachineOption, profile_of
from .talk import columns, print_json, print_table, say, table_of

__all__ = ["EXAMPLES", "print_profile", "topology"]

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
        print_profile(profile, emulated=present is not None and is_emulated(present["gpus"]))
        if present:
            print_hardware(present, profile)
    if draw is not None:
        say(f"drawn into {draw}")


def topology_json(profile: dict[str, Any]) -> dict[str, Any]:
    """Returns the graph without the samples."""
    keys = ("host", "date", "comment", "nodes", "memories", "resources")
    known = {key: profile[key] for key in keys if key in profile}
    return known | {"channels": channel_rows(profile)}


def print_profile(profile: dict[str, Any], *, emulated: bool = False) -> None:
    """Prints the graph as tables; `emulated` says that its GPUs are."""
    print(filled(source_text(profile)))
    if nodes_text(profile):
        print(nodes_text(profile))
    for text in (profile.get("comment"), profiles.busy_text(profile)):
        if text:
            print(filled(text))
    for table in (
        memory_table(profile, emulated),
        resource_table(profile),
        channel_table(profile, emulated),
    ):
        if table.row_count:
            print()
            print_table(table)


def print_hardware(present: dict[str, Any], profile: dict[str, Any]) -> None:
    """Prints GPUs and what reaches them, and which GPUs the profile lacks."""
    gpus = present["gpus"]
    print()
    for line in gpu_lines(gpus, present["no_gpus_because"] or ""):
        print(filled(line))
    missing = absent_gpus(gpus, profile)
    if missing:
        print(f"  not in the profile: {', '.join(missing)}; measure again: tranship calibrate")
    for line in (*rdma_lines(), storage_line(present["gpu_direct_storage"])):
        print(filled(line))


def absent_gpus(gpus: list[dict[str, Any]], profile: dict[str, Any]) -> list[str]:
    """Returns the names of GPUs that the profile lacks because it was measured without them."""
    known = {memory["name"] for memory in profile["memories"]}
    names = [f"device{gpu['device']}" for gpu in gpus]
    return [name for name in names if f"node0/{name}" not in known]


def filled(text: str) -> str:
    """Returns running text in lines; what continues a list's entry is indented further."""
    indent = " " * (len(text) - len(text.lstrip()) + 2) if text.startswith(" ") else ""
    return textwrap.fill(
        text, columns(), break_on_hyphens=False, break_long_words=False, subsequent_indent=indent
    )


def memory_table(profile: dict[str, Any], emulated: bool) -> Table:
    """Returns what intermediate buffers may take, and how large a tile may be, by memory."""
    limited = any(memory.get("threshold_bytes") for memory in profile["memories"])
    table = table_of("memory", "kind", ">buffers up to", *([">tiles up to"] if limited else []))
    for memory in profile["memories"]:
        limit, threshold = memory["buffer_bytes_max"], memory.get("threshold_bytes", 0)
        kind = memory["kind"]
        kind += " (emulated)" if emulated and kind == "device" else ""
        row = [memory["name"], kind, bytes_text(limit) if limit else "none"]
        if limited:
            row.append(bytes_text(threshold) if threshold else "")
        table.add_row(*row)
    return table


def resource_table(profile: dict[str, Any]) -> Table:
    """Returns what channels share; names that differ in a number alone are on one line."""
    alike: dict[tuple[str, float], list[str]] = {}
    for resource in profile["resources"]:
        node, slash, name = resource["name"].rpartition("/")
        pattern = node + slash + re.sub(r"\d+", "*", name)
        alike.setdefault((pattern, resource["bytes_per_second"]), []).append(resource["name"])
    table = table_of("shared by channels", ">rate of each")
    for (pattern, rate), names in alike.items():
        name = names[0] if len(names) == 1 else f"{pattern} ({len(names)})"
        table.add_row(name, gbps_text(rate / 1e9) if rate else "take turns")
    return table


def channel_table(profile: dict[str, Any], emulated: bool) -> Table:
    """Returns a row for each channel; names that tell both memories need no column for them.

    "short runs" is the rate with runs of up to 64 bytes.
    """
    note = " (emulated)" if emulated else ""
    rows = channel_rows(profile)
    of_gpus = {memory["name"] for memory in profile["memories"] if memory["kind"] == "device"}
    told = all(" > " in row["name"] for row in rows)
    name = [] if told else ["~channel"]
    table = table_of(
        "~channel" if told else "from > to", ">rate", ">short runs", ">latency", *name, "~shares"
    )
    for row in rows:
        short = row["gbps_short_runs"]
        named = row["name"] + (note if {row["source"], row["target"]} & of_gpus else "")
        ends = f"{of_first_node(row['source'])} > {of_first_node(row['target'])}"
        table.add_row(
            named if told else ends,
            gbps_text(row["gbps"]),
            gbps_text(short) if short is not None else "",
            seconds_text(row["latency_us"] * 1e-6),
            *([] if told else [named]),
            ", ".join(row["resources"]),
        )
    return table


def of_first_node(memory: str) -> str:
    """Returns a memory's name; the first node goes without saying."""
    return memory.removeprefix("node0/")


def is_emulated(gpus: list[dict[str, Any]]) -> bool:
    """Whether GPUs are emulated in host memory."""
    return any(gpu["emulated"] for gpu in gpus)
