"""Drawings of any result lines: a row for each case, a bar or a dot for each variant."""

from __future__ import annotations

import textwrap
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tranship.files import save_figure

from ..results import Line, is_emulated, is_share
from ..targets import TARGETS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Rows = dict[str, dict[str, Line]]
"""The newest line of each case and variant."""

LATENCY_BENCHES = ("small", "priority", "staging-questions")
"""Benchmarks whose times count, although some of their lines have a rate."""

SHORT_BYTES = 64 << 10
"""Copies of at most so many bytes are drawn as times."""

SPREAD_MAX = 50.0
"""Values whose largest is so many times the least have a logarithmic axis."""

BARS_MAX = 48
"""A drawing with more bars has dots instead, all variants of a case in one row."""

DOTS_PER_INCH = 130

# Colours of variants that many benchmarks have. Any other variant takes one of REST by its name,
# so that it has the same colour in every chart.
FIXED = {
    "tranship": "#0b6e99",
    "memcpy": "#555555",
    "cudaMemcpyAsync": "#555555",
    "numpy": "#bc8034",
    "nixl": "#b23a48",
    "adios2-sst": "#b23a48",
    "plain socket": "#555555",
    "baseline": "#555555",
}
OWN = ("#5aa9c7", "#084c6b", "#8fc7dc", "#2f8f9d", "#00304a", "#74b3ce")
"""Shades of Tranship's colour, for its other variants in one chart."""
REST = (
    *("#e07b39", "#6a994e", "#8d5a97", "#577590", "#d4a017", "#2a9d8f", "#c9748f", "#7f5539"),
    *("#4361ee", "#9a031e", "#90be6d", "#b5838d", "#43aa8b", "#6d597a", "#f28482", "#a68a64"),
)

MARK: dict[str, Any] = {
    "color": "black",
    "marker": "|",
    "markersize": 12,
    "markeredgewidth": 1.6,
    "linestyle": "none",
    "zorder": 3,
}
"""How a predicted or expected value is drawn."""

UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def draw_table(
    bench: str, machine: str, rows: Rows, path: Path, simulated: Rows | None = None
) -> Path:
    """Draws the lines of one benchmark on one machine, and returns the picture's path.

    Lines with a rate and lines that only have a time get axes of their own.

    Args:
        bench: The benchmark.
        machine: Machine of the lines.
        rows: The lines.
        path: The picture.
        simulated: Lines of the simulation of the same figure, which are drawn above.
    """
    from matplotlib import pyplot
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    parts = [
        (part, timed)
        for some in (simulated or {}, rows)
        for part, timed in zip(parts_of(bench, some), (False, True), strict=True)
        if part
    ]
    dots = sum(len(row) for row in rows.values()) > BARS_MAX
    heights = [height_of(part, dots) for part, _ in parts]
    figure, grid = pyplot.subplots(
        len(parts),
        1,
        figsize=(10, max(sum(heights) + 1.6, 2.8)),
        layout="constrained",
        squeeze=False,
        height_ratios=heights,
    )
    everything = [row for part, _ in parts for row in part.values()]
    colours = colours_of(dict.fromkeys(name for row in everything for name in row))
    for axes, (part, timed) in zip(grid[:, 0], parts, strict=True):
        draw_part(axes, part, colours, timed, dots)
    if simulated:
        grid[0, 0].set_title("simulated, on the paper's machine", fontsize=9, loc="left")
        grid[-1, 0].set_title("measured", fontsize=9, loc="left")
    label(figure, grid[-1, 0], bench, machine, rows)
    marked = any(
        mark_of(line, timed)
        for part, timed in parts
        for row in part.values()
        for line in row.values()
    )
    if len(colours) > 1 or marked:
        handles: list[Any] = [Patch(color=colour) for colour in colours.values()]
        if marked:
            handles.append(Line2D([], [], **MARK))
        columns = 4 if max(map(len, colours)) < 30 else 2
        figure.legend(
            handles,
            [*colours, *(["predicted by the plan, or the paper's"] if marked else [])],
            loc="outside lower left",
            ncols=columns,
            fontsize=8,
            frameon=False,
        )
    for axes in grid[:, 0]:
        make_room(figure, axes)
    return saved(figure, path)


def saved(figure: Figure, path: Path) -> Path:
    """Writes and closes a picture; returns its path."""
    from matplotlib import pyplot

    save_figure(figure, path, dpi=DOTS_PER_INCH)
    pyplot.close(figure)
    return path


def make_room(figure: Figure, axes: Axes) -> None:
    """Widens the axes until the texts beside the bars end inside them.

    A text is as long at any scale, and begins where its bar ends.
    """
    figure.draw_without_rendering()
    frame = axes.get_window_extent()
    least, most = axes.get_xlim()
    for text in axes.texts:
        at = axes.transData.transform((text.xy[0], 0))[0] - frame.x0  # type: ignore[attr-defined]
        room = frame.width - (text.get_window_extent().x1 - frame.x0 - at)
        if at <= room or room <= 0:
            continue
        if axes.get_xscale() == "log":
            axes.set_xlim(right=max(axes.get_xlim()[1], least * (most / least) ** (at / room)))
        else:
            axes.set_xlim(right=max(axes.get_xlim()[1], least + (most - least) * at / room))


def expected_of(line: Line, measure: str) -> float | None:
    """Returns the paper's number for a measure of a line; None if there is none."""
    for verdict in line.get("expected", ()):
        if verdict["measure"] == measure:
            return float(verdict["value"])
    return None


def mark_of(line: Line, timed: bool) -> float | None:
    """Returns the seconds, or the rate, that a plan predicted or a paper measured, if any."""
    seconds: float | None = line.get("conditions", {}).get("predicted_s")
    if seconds is not None and "instances" not in line["conditions"]:
        return seconds if timed else line["bytes"] / seconds / 1e9
    return None if timed else expected_of(line, "gbps")


def parts_of(bench: str, rows: Rows) -> tuple[Rows, Rows]:
    """Returns the cases that are drawn as rates, and those that are drawn as times."""
    rates: Rows = {}
    times: Rows = {}
    for case, row in rows.items():
        if any(map(is_share, row.values())):
            continue
        rated = bench not in LATENCY_BENCHES and all(map(has_rate, row.values()))
        (rates if rated else times)[case] = row
    return rates, times


def has_rate(line: Line) -> bool:
    """Returns whether a line moved enough bytes for its rate to say more than its time."""
    return bool(line.get("gbps")) and line.get("bytes", 0) > SHORT_BYTES


def height_of(rows: Rows, dots: bool) -> float:
    """Returns the inches that the axes of some cases need."""
    return sum(0.3 if dots else 0.24 * len(row) + 0.2 for row in rows.values()) + 0.5


def label(figure: Figure, last: Axes, bench: str, machine: str, rows: Rows) -> None:
    """Writes the title and, below the last axes, the targets."""
    lines = [line for row in rows.values() for line in row.values()]
    title = title_of(bench, machine, lines)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
    shares = [f"{line['case']}: {line['median_s']:.0%}." for line in lines if is_share(line)]
    if text := " ".join([*shares, targets_text(bench)]).strip():
        last.set_xlabel(f"{last.get_xlabel()}\n{textwrap.fill(text, 110)}", fontsize=8)


def title_of(bench: str, machine: str, lines: Sequence[Line]) -> str:
    """Returns the title of a picture: what was measured, where and how."""
    emulated = ", GPUs emulated in host memory" if any(map(is_emulated, lines)) else ""
    small = any(line.get("conditions", {}).get("size") == "small" for line in lines)
    machine = machine or ", ".join(dict.fromkeys(line["machine"] for line in lines))
    machine += " (simulated)" if any(line.get("simulated") for line in lines) else ""
    return f"{bench}: {machine}{emulated}{' (small size)' if small else ''}"


def targets_text(bench: str) -> str:
    """Returns the targets of a benchmark as a sentence; empty if it has none."""
    targets = [
        f"{target.what} {'at most' if target.at_most else 'at least'} {target.text(target.bound)}"
        for target in TARGETS
        if target.bench == bench
    ]
    return f"Targets: {'; '.join(targets)}." if targets else ""


def colours_of(variants: Sequence[str] | dict[str, None]) -> dict[str, str]:
    """Returns a colour for each variant. A variant's colour depends on its name, not on the chart,
    unless two variants of one chart would share a colour. All of Tranship are shades of one."""
    colours: dict[str, str] = {}
    ours = [name for name in variants if name.startswith("tranship")]
    for name in sorted(variants):
        shades = OWN if name in ours else REST
        main = FIXED["tranship"] if ours == [name] else FIXED.get(name)
        colour = main or shades[zlib.crc32(name.encode()) % len(shades)]
        if colour in colours.values():
            free = [other for other in shades if other not in colours.values()]
            colour = free[zlib.crc32(name.encode()) % len(free)] if free else colour
        colours[name] = colour
    return {name: colours[name] for name in variants}


def unit_of(seconds: float) -> tuple[float, str]:
    """Returns the seconds of the unit in which a time is at least 1, and the unit's name."""
    return next((unit for unit in UNITS if seconds >= unit[0]), UNITS[-1])


def draw_part(axes: Axes, rows: Rows, colours: dict[str, str], timed: bool, dots: bool) -> None:
    """Draws cases as rates, or as times if `timed`; in dots or in bars."""
    lines = [line for row in rows.values() for line in row.values()]
    scale, unit = unit_of(max(line["median_s"] for line in lines))
    values = [line["median_s" if timed else "gbps"] for line in lines]
    wide = max(values) > SPREAD_MAX * min(values) > 0
    ticks: list[float] = []
    y = 0.0
    for row in rows.values():
        first = y
        for name, line in row.items():
            value = line["median_s"] / scale if timed else line["gbps"]
            if (mark := mark_of(line, timed)) is not None:
                axes.plot(mark / scale if timed else mark, first if dots else y, **MARK)
            if dots:
                axes.plot(value, first, "o", color=colours[name], markersize=6, alpha=0.9)
                continue
            axes.barh(y, value, height=0.85, color=colours[name])
            axes.annotate(
                value_text(line, timed),
                (value, y),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                fontsize=7,
            )
            y += 1
        if dots:
            y += 1
        ticks.append(first if dots else (first + y - 1) / 2)
        y += 0.0 if dots else 0.8
    axes.set_yticks(ticks, [textwrap.shorten(case, 70, placeholder="…") for case in rows])
    axes.set_ylim(y - 0.2, -0.8)
    axes.margins(x=0.05 if dots else 0.25)
    if wide:
        axes.set_xscale("log")
    else:
        axes.set_xlim(left=0)
    axes.set_xlabel(f"{unit}, median (less is better)" if timed else "GB/s, median", fontsize=9)
    tidy(axes, both=dots)


def tidy(axes: Axes, *, both: bool) -> None:
    """Removes the frame and draws a light grid; `both`: along the rows as well."""
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0, labelsize=8)
    axes.grid(axis="both" if both else "x", alpha=0.3, linewidth=0.6)
    axes.set_axisbelow(True)


def value_text(line: Line, timed: bool) -> str:
    """Returns the text beside a bar: the value, and the ratio if there is one."""
    scale, unit = unit_of(line["median_s"]) if timed else (1.0, "")
    value = line["median_s"] / scale if timed else line["gbps"]
    text = (f"{value:.3g}" if value < 100 else f"{value:,.0f}") + (f" {unit}" if unit else "")
    return f"{text}  ({line['ratio']:.2f} x {line['baseline']})" if "ratio" in line else text
