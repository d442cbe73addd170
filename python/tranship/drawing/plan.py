"""A plan as a picture: the transfer graph of the nodes that it touches, with the chosen path."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from .topology import (
    DOTS_PER_INCH,
    INK,
    MUTED,
    PANEL_EDGE,
    arrange,
    draw_arrow,
    draw_loop,
    draw_memories,
    draw_panels,
    require_drawable,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_plan"]

LANE_COLORS = ("#1d4ed8", "#c2410c", "#15803d", "#7c3aed", "#a16207", "#be185d", "#0e7490", "#444")
HEAD = 1.75
FOOT = 0.75
WIDTH_LEAST = 9.0


def draw_plan(profile: dict[str, Any], plan: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Draws the memories of a machine, its channels in grey, and the hops of a plan in colour.

    Args:
        profile: the machine, or the part of it that the plan touches, parsed.
        plan: as `tranship plan --json` prints it.
        path: the file to write; .png, .svg or .pdf.

    Raises:
        InvalidArgument: another kind of file. NotFound: Matplotlib is not installed.
    """
    require_drawable(path)
    from matplotlib.figure import Figure

    places, panels = arrange({"memories": profile["memories"], "channels": plan["hops"]})
    width = max(panel.left + panel.width for panel in panels)
    height = max(panel.height for panel in panels)
    foot = FOOT + 0.22 * (len(plan["hops"]) + len(plan["alternatives"]))
    span = max(width + 0.6, WIDTH_LEAST)
    figure = Figure(figsize=(span, height + HEAD + foot), dpi=DOTS_PER_INCH, facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(width / 2 - span / 2, width / 2 + span / 2)
    axes.set_ylim(-foot, height + HEAD - 0.4)
    draw_panels(axes, panels)
    draw_graph(axes, profile, places)
    draw_hops(axes, plan, places)
    draw_memories(axes, profile, places)
    left = width / 2 - span / 2 + 0.3
    draw_words(axes, plan, left, height + HEAD - 0.6)
    figure.savefig(path)


def draw_graph(axes: Axes, profile: dict[str, Any], places: dict[str, tuple[float, float]]) -> None:
    """A thin line for every two memories that a channel joins."""
    pairs = {frozenset((c["source"], c["target"])) for c in profile["channels"]}
    for pair in sorted(pairs, key=sorted):
        if len(pair) == 2:
            (ax, ay), (bx, by) = (places[name] for name in sorted(pair))
            axes.plot([ax, bx], [ay, by], color=PANEL_EDGE, linewidth=0.8, zorder=2)


def draw_hops(axes: Axes, plan: dict[str, Any], places: dict[str, tuple[float, float]]) -> None:
    """An arrow for each hop, numbered along its lane; a star where the layout changes."""
    number: dict[int, int] = {}
    drawn: dict[tuple[str, str], int] = {}
    for hop in plan["hops"]:
        number[hop["lane"]] = number.get(hop["lane"], 0) + 1
        ends = (hop["source"], hop["target"])
        rank = drawn.get(ends, 0)
        drawn[ends] = rank + 1
        color = LANE_COLORS[hop["lane"] % len(LANE_COLORS)]
        mark = "*" if hop["converts"] else ""
        words = f"{number[hop['lane']]}{mark}: {hop['gbps']:.3g} GB/s"
        if ends[0] == ends[1]:
            draw_loop(axes, places[ends[0]], words, rank, color, 3.0)
        else:
            draw_arrow(axes, places[ends[0]], places[ends[1]], words, rank, color, 3.0)


def draw_words(axes: Axes, plan: dict[str, Any], left: float, top: float) -> None:
    """What is planned above the graph, the hops and what they beat below it."""
    title = f"{plan['throughput_gbps']:.3g} GB/s, bound by {plan['binding']}"
    axes.text(left, top, title, va="top", fontsize=14, fontweight="bold", color=INK)
    note = (
        f"{plan['bytes'] / 1e6:,.0f} MB in {plan['time_s'] * 1e3:.4g} ms predicted; "
        f"planner {plan['planner']}; {plan['tiles']:,} tiles of "
        f"{plan['tile_bytes'] / 1024:,.0f} KiB"
    )
    axes.text(left, top - 0.36, note, va="top", fontsize=9.5, color=MUTED)
    y = -0.35
    several = len(plan["lanes"]) > 1
    number: dict[int, int] = {}
    for hop in plan["hops"]:
        lane = hop["lane"]
        number[lane] = number.get(lane, 0) + 1
        place = f"lane {lane + 1}, {number[lane]}" if several else f"{number[lane]}"
        layouts = f"<{hop['source_layout']}> to <{hop['target_layout']}>"
        words = f"{place}  {hop['channel']}: {layouts}, pieces of {hop['run_bytes']:,} B"
        if hop["converts"]:
            words += " (* converts)"
        color = LANE_COLORS[lane % len(LANE_COLORS)] if several else INK
        axes.text(left, y, words, va="center", fontsize=8.5, color=color)
        y -= 0.22
    for other in plan["alternatives"]:
        words = f"beaten: {other['planner']}, {other['path']}, {other['time_s'] * 1e3:.4g} ms"
        axes.text(left, y, words, va="center", fontsize=8.5, color=MUTED)
        y -= 0.22
