"""A plan as a picture: the memories that it passes, from left to right, and its hops."""

from __future__ import annotations

import os
import textwrap
from typing import TYPE_CHECKING, Any

from ..files import save_figure
from ..units import bytes_text, gbps_text, seconds_text
from .scene import BOX_HEIGHT, BOX_WIDTH, LOOP_HEIGHT, Point, Scene
from .topology import (
    DOTS_PER_INCH,
    INK,
    MUTED,
    NODE_MARGIN,
    Panel,
    draw_memories,
    draw_panels,
    require_drawable,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_plan"]

LANE_COLORS = ("#1d4ed8", "#c2410c", "#15803d", "#7c3aed", "#a16207", "#be185d", "#0e7490", "#444")
HEAD = 1.3
FOOT = 0.6
LINE = 0.22
WIDTH_LEAST = 9.0
COLUMN_STEP = 4.0
ROW_STEP = 1.6
COLUMNS_A_INCH = 13


def draw_plan(profile: dict[str, Any], plan: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Draws the memories that a plan passes, and its hops in the colours of their lanes.

    Args:
        profile: The machine, or the part of it that the plan touches, parsed.
        plan: The content of `tranship plan --json`.
        path: The file to write; .png, .svg or .pdf.

    Raises:
        InvalidArgument: Another kind of file.
        NotFound: Matplotlib is not installed.
    """
    require_drawable(path)
    from matplotlib.figure import Figure

    places = arrange_lanes(plan["hops"])
    loops = any(hop["source"] == hop["target"] for hop in plan["hops"])
    panels = panels_of(places, LOOP_HEIGHT if loops else 0.0)
    width = max(panel.left + panel.width for panel in panels)
    height = max(panel.height for panel in panels)
    span = max(width + 0.6, WIDTH_LEAST)
    lines = lines_of(profile, plan, places, int(span * COLUMNS_A_INCH))
    foot = FOOT + LINE * len(lines)
    figure = Figure(figsize=(span, height + HEAD + foot), dpi=DOTS_PER_INCH, facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(width / 2 - span / 2, width / 2 + span / 2)
    axes.set_ylim(-foot, height + HEAD)
    draw_panels(axes, panels)
    draw_hops(axes, plan, places)
    shown = [memory for memory in profile["memories"] if memory["name"] in places]
    draw_memories(axes, {**profile, "memories": shown}, places)
    left = width / 2 - span / 2 + 0.3
    draw_words(axes, plan, left, height + HEAD - 0.25)
    for k, (words, color) in enumerate(lines):
        axes.text(left, -0.35 - k * LINE, words, va="center", fontsize=8.5, color=color)
    save_figure(figure, path)


def arrange_lanes(hops: list[dict[str, Any]]) -> dict[str, Point]:
    """Returns the centres of the memories: a column for each hop from the source, a row for each
    lane; the ends are in the middle, and lanes without a memory between them as well."""
    lanes: dict[int, list[str]] = {}
    for hop in hops:
        passed = lanes.setdefault(hop["lane"], [hop["source"]])
        if hop["target"] not in passed:
            passed.append(hop["target"])
    columns: dict[str, int] = {}
    for _ in range(max(len(passed) for passed in lanes.values())):
        for passed in lanes.values():
            for before, memory in zip([None, *passed], passed, strict=False):
                least = columns[before] + 1 if before is not None else 0
                columns[memory] = max(columns.get(memory, 0), least)
    through = [passed[1:-1] for passed in lanes.values() if len(passed) > 2]
    middle = (len(through) - 1) / 2 if through else 0.0
    straight = any(len(passed) == 2 for passed in lanes.values()) and bool(through)
    rows: dict[str, float] = {}
    for k, between in enumerate(through):
        # A lane without a memory between its ends takes the row in the middle.
        row = k + (1 if straight and k >= len(through) / 2 else 0)
        for memory in between:
            rows.setdefault(memory, row)
    if straight:
        middle = len(through) // 2 + len(through) % 2
    first = NODE_MARGIN + BOX_WIDTH / 2
    last = max([middle, *rows.values()])
    base = NODE_MARGIN + BOX_HEIGHT / 2
    return {
        memory: (
            first + column * COLUMN_STEP,
            base + (last - rows.get(memory, middle)) * ROW_STEP,
        )
        for memory, column in columns.items()
    }


def panels_of(places: dict[str, Point], above: float) -> list[Panel]:
    """Returns a frame for neighbouring columns of one node; one frame if nodes share a column.

    Args:
        places: The centres of the memories.
        above: Room above the highest box.
    """
    height = max(y for _, y in places.values()) + BOX_HEIGHT / 2 + above + NODE_MARGIN + 0.2
    columns: dict[float, set[str]] = {}
    for name, (x, _) in places.items():
        columns.setdefault(x, set()).add(name.partition("/")[0])
    margin = BOX_WIDTH / 2 + NODE_MARGIN - 0.05
    if any(len(nodes) > 1 for nodes in columns.values()):
        name = ", ".join(sorted(set().union(*columns.values())))
        return [Panel(name, 0.0, 0.0, max(columns) + margin, height)]
    panels: list[Panel] = []
    for x in sorted(columns):
        (node,) = columns[x]
        if panels and panels[-1].name == node:
            left = panels[-1].left
            panels[-1] = Panel(node, left, 0.0, x + margin - left, height)
        else:
            panels.append(Panel(node, x - margin, 0.0, 2 * margin, height))
    return panels


def draw_hops(axes: Axes, plan: dict[str, Any], places: dict[str, Point]) -> None:
    """Draws an arrow for each hop, numbered along its lane; a star where the layout changes."""
    scene = Scene(dict(places))
    number: dict[int, int] = {}
    for hop in plan["hops"]:
        number[hop["lane"]] = number.get(hop["lane"], 0) + 1
        color = LANE_COLORS[hop["lane"] % len(LANE_COLORS)]
        mark = "*" if hop["converts"] else ""
        words = f"{number[hop['lane']]}{mark}: {gbps_text(hop['gbps'])}"
        scene.connect(hop["source"], hop["target"], words, color, 3.0)
    scene.draw(axes)


def draw_words(axes: Axes, plan: dict[str, Any], left: float, top: float) -> None:
    """Writes what is planned above the picture."""
    title = f"{gbps_text(plan['throughput_gbps'])}, bound by {plan['binding']}"
    axes.text(left, top, title, va="top", fontsize=14, fontweight="bold", color=INK)
    note = (
        f"{bytes_text(plan['bytes'])} in {seconds_text(plan['time_s'])} predicted; "
        f"planner {plan['planner']}; {plan['tiles']:,} tiles of {bytes_text(plan['tile_bytes'])}"
    )
    axes.text(left, top - 0.36, note, va="top", fontsize=9.5, color=MUTED)


def lines_of(
    profile: dict[str, Any], plan: dict[str, Any], places: dict[str, Point], columns: int
) -> list[tuple[str, str]]:
    """Returns the hops, what they beat, and the memories that are not passed, with colours."""
    lines: list[tuple[str, str]] = []
    several = len(plan["lanes"]) > 1
    number: dict[int, int] = {}
    for hop in plan["hops"]:
        lane = hop["lane"]
        number[lane] = number.get(lane, 0) + 1
        place = f"lane {lane + 1}, {number[lane]}" if several else f"{number[lane]}"
        layouts = f"<{hop['source_layout']}> to <{hop['target_layout']}>"
        words = f"{place}  {hop['channel']}: {layouts}, pieces of {bytes_text(hop['run_bytes'])}"
        color = LANE_COLORS[lane % len(LANE_COLORS)] if several else INK
        lines.append((words + (" (* converts)" if hop["converts"] else ""), color))
    for other in plan["alternatives"]:
        took = seconds_text(other["time_s"])
        lines.append((f"slower: {other['planner']}, {other['path']}, {took}", MUTED))
    unused = [m["name"] for m in profile["memories"] if m["name"] not in places]
    if unused:
        wrapped = textwrap.wrap(f"not passed: {', '.join(unused)}", columns)
        lines += [(line, MUTED) for line in wrapped]
    return lines
