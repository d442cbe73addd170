"""Large topologies as a table: a row for each source, a column for each target."""

from __future__ import annotations

import os
import textwrap
from typing import TYPE_CHECKING, Any

from ..files import save_figure
from ..topology import channel_rows, nodes_text, source_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_matrix"]

CELL_WIDTH = 0.95
CELL_HEIGHT = 0.5
MARGIN_LEFT = 1.75
MARGIN_RIGHT = 0.8
MARGIN_TOP = 1.2
LINE_HEIGHT = 0.19
NOTE_SIZE = 8.5
COLUMNS_A_INCH = 14.0
TITLE_SHARE = 0.6
"""Of the columns, as the title's letters are larger."""


def draw_matrix(
    profile: dict[str, Any],
    path: str | os.PathLike[str],
    *,
    colors: dict[str, str],
    groups: tuple[tuple[str, str], ...],
    ink: str,
    muted: str,
) -> None:
    """Draws the best rate of the channels between every two memories, coloured by their kind.

    Args:
        profile: The machine's profile, parsed.
        path: The file to write.
        colors: Colours by kind of channel.
        groups: Words of the legend, and a kind of channel in their colour.
        ink: Colour of names.
        muted: Colour of notes.
    """
    from matplotlib.figure import Figure

    rows = channel_rows(profile)
    names = [memory["name"] for memory in profile["memories"]]
    sources = [name for name in names if any(row["source"] == name for row in rows)]
    targets = [name for name in names if any(row["target"] == name for row in rows)]
    width = max(MARGIN_LEFT + len(targets) * CELL_WIDTH + MARGIN_RIGHT, 8.0)
    table_height = len(sources) * CELL_HEIGHT
    title = textwrap.wrap(source_text(profile), int(width * COLUMNS_A_INCH * TITLE_SHARE))
    about = " ".join(part for part in (nodes_text(profile), profile.get("comment", "")) if part)
    note = textwrap.wrap(about.replace("stand for all ", "stand for all. "),
                         int(width * COLUMNS_A_INCH))  # fmt: skip
    words = (len(title) * 1.35 + len(note)) * LINE_HEIGHT + 0.55
    height = words + MARGIN_TOP + table_height + 0.9
    figure = Figure(figsize=(width, height), dpi=160, facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)  # downwards, as one reads
    axes.text(0.25, 0.25, "\n".join(title), va="top", fontsize=12, fontweight="bold", color=ink)
    at = 0.35 + len(title) * 1.35 * LINE_HEIGHT
    axes.text(0.25, at, "\n".join(note), va="top", fontsize=NOTE_SIZE, color=muted)
    top = words + MARGIN_TOP
    draw_names(axes, sources, targets, top, ink)
    draw_cells(axes, rows, sources, targets, top, colors)
    legend = [(text, colors[kind]) for text, kind in groups]
    used = {colors[row["kind"]] for row in rows}
    draw_legend(axes, [one for one in legend if one[1] in used], top + table_height + 0.45, ink)
    save_figure(figure, path)


def draw_names(axes: Axes, sources: list[str], targets: list[str], top: float, ink: str) -> None:
    """Writes sources down the side, targets along the top; draws a line where a node ends."""
    for k, name in enumerate(sources):
        y = top + (k + 0.5) * CELL_HEIGHT
        axes.text(MARGIN_LEFT - 0.12, y, name, ha="right", va="center", fontsize=9, color=ink)
    for k, name in enumerate(targets):
        x = MARGIN_LEFT + (k + 0.5) * CELL_WIDTH
        axes.text(x - 0.1, top - 0.1, name, ha="left", va="bottom", rotation=35, fontsize=9,
                  color=ink, rotation_mode="anchor")  # fmt: skip
    axes.text(MARGIN_LEFT - 0.12, top - 0.12, "GB/s from", ha="right", va="bottom", fontsize=9,
              fontweight="bold", color=ink)  # fmt: skip
    bottom = top + len(sources) * CELL_HEIGHT
    for k in range(1, len(targets)):
        if targets[k].partition("/")[0] != targets[k - 1].partition("/")[0]:
            x = MARGIN_LEFT + k * CELL_WIDTH
            axes.plot([x, x], [top - 0.05, bottom + 0.05], color=ink, linewidth=1.2, zorder=3)


def draw_cells(
    axes: Axes,
    rows: list[dict[str, Any]],
    sources: list[str],
    targets: list[str],
    top: float,
    colors: dict[str, str],
) -> None:
    """Draws the best channel of each pair; where there are several, their number."""
    from matplotlib.patches import Rectangle

    pairs: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        pairs.setdefault((row["source"], row["target"]), []).append(row)
    for y, source in enumerate(sources):
        for x, target in enumerate(targets):
            channels = pairs.get((source, target), [])
            best = max(channels, key=lambda row: row["gbps"], default=None)
            corner = (MARGIN_LEFT + x * CELL_WIDTH, top + y * CELL_HEIGHT)
            face = colors[best["kind"]] if best else "#f5f7f9"
            axes.add_patch(Rectangle(corner, CELL_WIDTH, CELL_HEIGHT, facecolor=face, linewidth=1.5,
                                     edgecolor="white", zorder=2))  # fmt: skip
            if best is None:
                continue
            text = f"{best['gbps']:.3g}" if best["gbps"] < 1000 else f"{best['gbps']:.0f}"
            if len(channels) > 1:
                text = f"{len(channels)} x {text}"
            axes.text(corner[0] + CELL_WIDTH / 2, corner[1] + CELL_HEIGHT / 2, text, ha="center",
                      va="center", fontsize=9, color="white", fontweight="bold",
                      zorder=4)  # fmt: skip


def draw_legend(axes: Axes, entries: list[tuple[str, str]], y: float, ink: str) -> None:
    """Draws what the colours mean."""
    x = 0.3
    for words, color in entries:
        axes.plot([x, x + 0.3], [y, y], color=color, linewidth=7, solid_capstyle="butt")
        axes.text(x + 0.4, y, words, va="center", fontsize=9, color=ink)
        x += 0.75 + 0.075 * len(words)
