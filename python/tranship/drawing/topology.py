"""Pictures of machines. Matplotlib is imported when something is drawn, and not before."""

from __future__ import annotations

import itertools
import math
import os
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InvalidArgument, NotFound
from ..files import save_figure
from ..topology import channel_rows
from ..units import gbps_text
from .scene import BOX_HEIGHT, BOX_WIDTH, LOOP_HEIGHT, Point, Scene

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_topology", "require_matplotlib"]

FORMATS = (".png", ".svg", ".pdf")
DOTS_PER_INCH = 160

# In inches, which are also the units of the drawing.
COLUMN_STEP = 4.1
ROW_STEP = 2.0
NODE_MARGIN = 0.7
NODE_GAP = 1.6

TITLE_COLUMNS_A_INCH = 7
PAIRS_MAX = 20
"""Memories joined two by two, beyond which arrows hide each other and a table is drawn."""

SWEEPS = 2
TRIALS_MAX = 2000

INK = "#1f2933"
MUTED = "#64707d"
PANEL = "#f5f7f9"
PANEL_EDGE = "#cbd2d9"
MEMORY_COLORS = {
    "host": "#dbeafe",
    "pinned": "#d5f0ea",
    "registered": "#e3f4d7",
    "device": "#fde7c8",
    "file": "#ece5f7",
}
MEMORY_WORDS = {
    "host": "host memory",
    "pinned": "pinned host memory",
    "registered": "registered host memory",
    "device": "GPU memory",
    "file": "disk",
}
CHANNEL_COLORS = {
    "memcpy": "#2563a8",
    "file_read": "#7c4dbd",
    "file_write": "#7c4dbd",
    "remote_write": "#c2410c",
    "remote_read": "#c2410c",
    "gpu_read": "#15803d",
    "gpu_write": "#15803d",
    "gpu_copy": "#a16207",
    "gpu_peer": "#a16207",
}
CHANNEL_GROUPS = (
    ("within host memory", "memcpy"),
    ("disk", "file_read"),
    ("other processes and nodes", "remote_write"),
    ("host and GPU", "gpu_read"),
    ("within and between GPUs", "gpu_copy"),
)


@dataclass(frozen=True)
class Panel:
    """The frame around the memories of a node."""

    name: str
    left: float
    bottom: float
    width: float
    height: float


def require_matplotlib() -> None:
    """Refuses to draw without Matplotlib.

    Raises:
        NotFound: Matplotlib is not installed; the hint says how to install it.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise NotFound(
            "drawing needs Matplotlib, which is not installed", "pip install matplotlib"
        ) from error


def require_drawable(path: str | os.PathLike[str]) -> None:
    """Refuses kinds of files that cannot be drawn.

    Raises:
        InvalidArgument: Another ending than .png, .svg or .pdf.
        NotFound: Matplotlib is not installed.
    """
    if Path(path).suffix.lower() not in FORMATS:
        raise InvalidArgument(
            f"cannot draw into {os.fspath(path)}", f"name a file that ends in {', '.join(FORMATS)}"
        )
    require_matplotlib()


def draw_topology(profile: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Draws the memories of a machine, grouped by node, and the channels between them.

    A machine with too many channels for arrows becomes a table of sources and targets.

    Args:
        profile: The machine's profile, parsed.
        path: The file to write; .png, .svg or .pdf.

    Raises:
        InvalidArgument: Another kind of file.
        NotFound: Matplotlib is not installed.
    """
    require_drawable(path)
    from matplotlib.figure import Figure

    if len({frozenset((c["source"], c["target"])) for c in profile["channels"]}) > PAIRS_MAX:
        from .matrix import draw_matrix

        draw_matrix(
            profile, path, colors=CHANNEL_COLORS, groups=CHANNEL_GROUPS, ink=INK, muted=MUTED
        )
        return
    places, panels = arrange(profile)
    width = max(panel.left + panel.width for panel in panels) + 0.4
    height = max(panel.height for panel in panels) + 1.75
    figure = Figure(figsize=(max(width, 7.0), height), dpi=DOTS_PER_INCH, facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    spare = max(7.0 - width, 0) / 2
    axes.set_xlim(-0.4 - spare + 0.2, width - 0.2 + spare)
    axes.set_ylim(-0.75, height - 0.75)
    draw_panels(axes, panels)
    draw_channels(axes, profile, places)
    draw_memories(axes, profile, places)
    draw_words(axes, profile, height - 0.75)
    save_figure(figure, path)


def arrange(profile: dict[str, Any]) -> tuple[dict[str, Point], list[Panel]]:
    """Returns the centres of the memories, and the frames of the nodes side by side.

    Each memory of a node has a cell in a grid of at most two columns, chosen such that arrows are
    short and cross few boxes and other arrows.
    """
    nodes: dict[str, list[str]] = {}
    for memory in profile["memories"]:
        nodes.setdefault(memory["name"].partition("/")[0], []).append(memory["name"])
    edges = {frozenset((c["source"], c["target"])) for c in profile["channels"]}
    pairs = sorted(tuple(sorted(edge)) for edge in edges if len(edge) == 2)
    rows = max(math.ceil(len(names) / 2) for names in nodes.values())
    height = (rows - 1) * ROW_STEP + BOX_HEIGHT + LOOP_HEIGHT + 2 * NODE_MARGIN + 0.3
    cells: dict[str, list[Point]] = {}
    places: dict[str, Point] = {}
    panels: list[Panel] = []
    left = 0.0
    for node, names in nodes.items():
        columns = min(len(names), 2)
        width = (columns - 1) * COLUMN_STEP + BOX_WIDTH + 2 * NODE_MARGIN
        panels.append(Panel(node, left, 0.0, width, height))
        cells[node] = grid_cells(rows, columns, left, height)
        places |= dict(zip(names, cells[node], strict=False))
        left += width + NODE_GAP
    for _ in range(SWEEPS):
        for node, names in nodes.items():
            places |= best_places(names, cells[node], places, pairs)
    return places, panels


def grid_cells(rows: int, columns: int, left: float, height: float) -> list[Point]:
    """Returns the centres of the cells of a node, row by row from the top."""
    top = height / 2 - LOOP_HEIGHT / 2 - 0.15 + (rows - 1) * ROW_STEP / 2
    first = left + NODE_MARGIN + BOX_WIDTH / 2
    return [
        (first + column * COLUMN_STEP, top - row * ROW_STEP)
        for row in range(rows)
        for column in range(columns)
    ]


def best_places(
    names: Sequence[str],
    cells: Sequence[Point],
    places: dict[str, Point],
    pairs: Sequence[tuple[str, ...]],
) -> dict[str, Point]:
    """Returns the assignment of lowest cost while the other nodes stay, by trying all if few."""
    if math.perm(len(cells), len(names)) > TRIALS_MAX:
        return {name: places[name] for name in names}
    orders = itertools.permutations(cells, len(names))
    trials = [dict(zip(names, order, strict=True)) for order in orders]
    return min(trials, key=lambda trial: cost(places | trial, pairs))


def cost(places: dict[str, Point], pairs: Sequence[tuple[str, ...]]) -> float:
    """Returns the cost of arrows through boxes, arrows that cross, and length."""
    lines = [(a, b) for a, b in pairs if a in places and b in places]
    total = 0.0
    for a, b in lines:
        total += math.dist(places[a], places[b])
        through = [c for c in places if c not in (a, b) and is_near(places, a, b, c)]
        total += 100.0 * len(through)
    for (a, b), (c, d) in itertools.combinations(lines, 2):
        if len({a, b, c, d}) == 4 and is_crossing(places[a], places[b], places[c], places[d]):
            total += 20.0
    return total


def is_near(places: dict[str, Point], a: str, b: str, c: str) -> bool:
    """Whether the line from a to b passes through the box of c."""
    (ax, ay), (bx, by), (cx, cy) = places[a], places[b], places[c]
    for k in range(1, 20):
        x, y = ax + (bx - ax) * k / 20, ay + (by - ay) * k / 20
        if abs(x - cx) < BOX_WIDTH / 2 + 0.1 and abs(y - cy) < BOX_HEIGHT / 2 + 0.1:
            return True
    return False


def is_crossing(a: Point, b: Point, c: Point, d: Point) -> bool:
    """Whether the segments a-b and c-d cross."""

    def side(p: Point, q: Point, r: Point) -> float:
        return (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0])

    return side(a, b, c) * side(a, b, d) < 0 and side(c, d, a) * side(c, d, b) < 0


def draw_panels(axes: Axes, panels: Sequence[Panel]) -> None:
    """Draws the frames of the nodes with their names."""
    from matplotlib.patches import FancyBboxPatch

    for panel in panels:
        frame = FancyBboxPatch(
            (panel.left, panel.bottom),
            panel.width,
            panel.height,
            boxstyle="round,pad=0,rounding_size=0.18",
            facecolor=PANEL,
            edgecolor=PANEL_EDGE,
            zorder=1,
        )
        axes.add_patch(frame)
        axes.text(
            panel.left + 0.22,
            panel.bottom + panel.height - 0.2,
            panel.name,
            va="top",
            color=MUTED,
            fontsize=10,
            fontweight="bold",
            zorder=2,
        )


def draw_memories(axes: Axes, profile: dict[str, Any], places: dict[str, Point]) -> None:
    """Draws a box for each memory."""
    from matplotlib.patches import FancyBboxPatch

    for memory in profile["memories"]:
        x, y = places[memory["name"]]
        box = FancyBboxPatch(
            (x - BOX_WIDTH / 2, y - BOX_HEIGHT / 2),
            BOX_WIDTH,
            BOX_HEIGHT,
            boxstyle="round,pad=0,rounding_size=0.1",
            facecolor=MEMORY_COLORS[memory["kind"]],
            edgecolor=INK,
            linewidth=0.9,
            zorder=5,
        )
        axes.add_patch(box)
        name = memory["name"].partition("/")[2]
        axes.text(
            x,
            y + 0.13,
            name,
            ha="center",
            va="center",
            color=INK,
            fontsize=11,
            zorder=6,
            fontweight="bold",
        )
        axes.text(
            x,
            y - 0.15,
            words_of(memory, profile),
            ha="center",
            va="center",
            color=INK,
            fontsize=8,
            zorder=6,
        )


def words_of(memory: dict[str, Any], profile: dict[str, Any]) -> str:
    """Returns what a memory is; only remote channels reach that of another process."""
    name = memory["name"]
    kinds = {c["kind"] for c in profile["channels"] if name in (c["source"], c["target"])}
    if memory["kind"] == "host" and kinds and all(kind.startswith("remote") for kind in kinds):
        return "of another process"
    return MEMORY_WORDS[memory["kind"]]


def draw_channels(axes: Axes, profile: dict[str, Any], places: dict[str, Point]) -> None:
    """Draws an arrow with its rate for each channel."""
    rows = channel_rows(profile)
    fastest = max((row["gbps"] for row in rows), default=1.0)
    scene = Scene(dict(places))
    for row in rows:
        width = 1.0 + 2.2 * max(0.0, 1 + math.log10(max(row["gbps"], 1e-3) / fastest) / 2)
        color = CHANNEL_COLORS[row["kind"]]
        scene.connect(row["source"], row["target"], gbps_text(row["gbps"]), color, width)
    scene.draw(axes)


def draw_words(axes: Axes, profile: dict[str, Any], top: float) -> None:
    """Writes the title, and what the colours of the arrows mean."""
    room = int((axes.get_xlim()[1] - axes.get_xlim()[0]) * TITLE_COLUMNS_A_INCH)
    title = textwrap.shorten(profile["host"], room, placeholder=" ...")
    axes.text(0.0, top - 0.2, title, va="top", fontsize=15, fontweight="bold", color=INK)
    when = "as of" if profile.get("comment") else "measured"
    note = f"{when} {profile['date'][:10]}; best rate of each channel"
    axes.text(0.0, top - 0.55, note, va="top", fontsize=9, color=MUTED)
    kinds = {CHANNEL_COLORS[channel["kind"]] for channel in profile["channels"]}
    x = 0.0
    for words, kind in CHANNEL_GROUPS:
        color = CHANNEL_COLORS[kind]
        if color not in kinds:
            continue
        axes.plot([x, x + 0.35], [-0.38, -0.38], color=color, linewidth=3, zorder=3)
        axes.text(x + 0.45, -0.38, words, va="center", fontsize=9, color=INK)
        x += 0.85 + 0.072 * len(words)
