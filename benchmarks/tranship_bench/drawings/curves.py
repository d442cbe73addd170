"""Drawings of benchmarks whose cases differ in a number: a panel for each series of cases, a curve
for each variant.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..results import Line
from .tables import colours_of, saved, title_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


COLUMNS_MAX = 3
MARKERS = "osv^DPX*"


@dataclass(frozen=True)
class Chart:
    """How the lines of a benchmark are drawn.

    Attributes:
        x: Number of a line along the horizontal axis: a key of its values, or of its conditions.
        x_text: What it is.
        varies: Pattern of what changes from case to case of a panel, in the cases' names.
        y: Number along the vertical axis; "": the median, in milliseconds.
        y_text: What it is.
        words: What the paper says.
    """

    x: str
    x_text: str
    varies: str
    y: str = ""
    y_text: str = "milliseconds"
    words: str = ""


PRIORITIES = Chart(
    "in_progress",
    "transfers of low priority in progress",
    r", \d+ in progress$",
    "normalised",
    "time over Realm-style, 1 thread",
)
DESIGNS = "paper: direct puts take 53 % less than baseline at 8 MB, 34 % at 1 GB; gets up to 33 %"
CHARTS = {
    "isometry-figure8": PRIORITIES,
    "isometry-figure8-measured": PRIORITIES,
    "isometry-figure12": Chart(
        "nodes",
        "nodes (weak scaling)",
        r", \d+ nodes?$",
        words="paper: up to 60 % less time than Realm",
    ),
    "isometry-scale": Chart("gpus", "GPUs", r", \d+ GPUs$"),
    "staging-figure9a": Chart("bytes_each", "bytes of each process", r" \d+ MiB$", words=DESIGNS),
    "staging-figure9b": Chart(
        "bytes_each",
        "bytes of the box",
        r"^\d+ MiB of ",
        "ratio",
        "times as fast as the host, line by line",
        words="paper: up to 90 times, with concurrent launches up to 6000",
    ),
    "staging-figure10": Chart(
        "gpus",
        "GPUs that simulate, and as many that analyse",
        r", \d+ GPUs$",
        words='paper, to 256 GPUs: direct puts take 24 % less, gets 40 % less; "constant"',
    ),
    "remote-gpu": Chart(
        "elements",
        "elements of each vector",
        r"^.* elements$",
        words="paper: with RDMA, data reach the remote GPU as fast as a local one, or faster; "
        "without, a buffer in pinned memory (part 2) plays a vital role",
    ),
}


def number_of(line: Line, key: str) -> float | None:
    """Returns a number of a line by its key."""
    for place in (line.get("values", {}), line.get("conditions", {}), line):
        if isinstance(place.get(key), int | float):
            return float(place[key])
    return None


def draw(bench: str, machine: str, lines: Sequence[Line], path: Path) -> Path:
    """Draws the panels of a benchmark of `CHARTS`, and returns the picture."""
    from matplotlib import pyplot

    chart = CHARTS[bench]
    panels: dict[str, list[Line]] = {}
    for line in lines:
        if number_of(line, chart.x) is not None:
            panels.setdefault(re.sub(chart.varies, "", line["case"]), []).append(line)
    columns = min(len(panels), COLUMNS_MAX)
    rows = -(-len(panels) // columns)
    size = (max(4.6 * columns, 7), 3.6 * rows + 0.8)
    figure, grid = pyplot.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    colours = colours_of(dict.fromkeys(line["variant"] for line in lines))
    for axes, (title, part) in zip(grid.flat, panels.items(), strict=False):
        draw_panel(axes, chart, part, colours)
        axes.set_title(title, fontsize=10, loc="left")
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_axis_off()
    figure.suptitle(title_of(bench, machine, lines), x=0.01, ha="left", fontsize=11)
    words = textwrap.fill(chart.words, round(13 * size[0]))
    figure.supxlabel(f"{chart.x_text}\n{words}".strip(), fontsize=9)
    figure.supylabel(chart.y_text, fontsize=9)
    handles, names = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right upper", fontsize=8, frameon=False)
    return saved(figure, path)


def draw_panel(axes: Axes, chart: Chart, lines: list[Line], colours: dict[str, str]) -> None:
    """Draws a curve for each variant, with its quartiles."""
    for marker, (variant, colour) in zip(MARKERS * 3, colours.items(), strict=False):
        part = [line for line in lines if line["variant"] == variant]
        part.sort(key=lambda line: number_of(line, chart.x) or 0)
        x = [number_of(line, chart.x) for line in part]
        y = [number_of(line, chart.y) if chart.y else 1e3 * line["median_s"] for line in part]
        kept: list[tuple[Any, Any, Line]] = [
            (a, b, line) for a, b, line in zip(x, y, part, strict=True) if b
        ]
        if not kept:
            continue
        xs, ys, drawn = (list(one) for one in zip(*kept, strict=True))
        medians = [line["median_s"] for line in drawn]
        quartiles = [
            [
                b * abs(line["quartiles_s"][k] / m - 1)
                for b, line, m in zip(ys, drawn, medians, strict=True)
            ]
            for k in (0, 1)
        ]
        how: dict[str, Any] = {"marker": marker, "markersize": 4, "linewidth": 1.4, "capsize": 2}
        axes.errorbar(xs, ys, yerr=quartiles, color=colour, label=variant, **how)
    axes.set_xscale("log", base=10 if chart.x == "elements" else 2)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3, linewidth=0.6)
