"""Figures 4, 5 and 6 of the remote-GPU experiment, drawn from its result lines alone.

The paper prints no numbers beside its figures; the footers of ours quote its text about them.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from tranship.files import save_figure

from ..results import Line
from .options import elements_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw"]

INK = "#1f2933"
MUTED = "#64707d"
LOCAL = "#64707d"
TWO_COPIES = "#b6bec6"
PART_COLOURS = {1: "#e07b39", 2: "#6a994e", 3: "#0b6e99"}
OTHER_DIRECT = ("#8d5a97", "#b23a48")
RDMA = ("InfiniBand", "RoCE")
SELECTED = (10_000, 1_000_000, 28_000_000, 100_000_000)
"""Sizes of the paper's Figures 5 and 6, in elements."""

DOTS_PER_INCH = 130

DIRECT_WORDS = (
    "Paper (section 5): with RDMA, data reach the remote GPU as fast as a local one, or faster; "
    "InfiniBand and RoCE do not differ much."
)
HOST_WORDS = (
    "Paper (section 5): without RDMA, a buffer in pinned memory (part 2) plays a vital role; "
    "InfiniBand is 2 to 3 times as fast as IP over it."
)


def draw(machine: str, lines: list[Line], stem: Path) -> list[Path]:
    """Draws the figures into files whose names begin with `stem`."""
    from matplotlib import pyplot

    near = [line for line in lines if is_direct(line) or line["conditions"]["part"] == 0]
    far = [line for line in lines if not is_direct(line)]
    drawn = []
    for number, words, part in (
        (4, "transfer time by size", near),
        (5, "transfer time, directly to the GPU", near),
        (6, "transfer time without RDMA", far),
    ):
        if not part:
            continue
        size = (11, 4.6) if number == 4 else (12, 1.5 + 0.34 * len(variants_of(part)))
        figure = pyplot.figure(figsize=(size[0], max(size[1], 3.0)), layout="constrained")
        title = f"Remote GPU, Figure {number}: {words}; {machine}"
        figure.suptitle(title + notes_of(part), x=0.01, ha="left", fontsize=11, fontweight="bold")
        if number == 4:
            draw_curves(figure, part)
        else:
            draw_bars(figure, part)
        words = footer_of(number, part)
        figure.supxlabel(textwrap.fill(words, 160), fontsize=8.5, color=MUTED)
        path = stem.with_name(f"{stem.name}-figure{number}.png")
        save_figure(figure, path, dpi=DOTS_PER_INCH)
        pyplot.close(figure)
        drawn.append(path)
    return drawn


def notes_of(lines: list[Line]) -> str:
    """Returns notes for a title: emulated GPUs, sizes of tests."""
    notes = ""
    if any("emulated" in line["case"] for line in lines):
        notes += ", emulated GPU"
    if any(line["conditions"].get("size") == "small" for line in lines):
        notes += " (small)"
    return notes


def footer_of(number: int, lines: list[Line]) -> str:
    """Returns the paper's statement for a figure, and what differs from the paper here."""
    words = [HOST_WORDS if number == 6 else DIRECT_WORDS]
    if number != 4:
        words.insert(0, "x: mean over local's.")
    if number != 6 and not any(line["conditions"]["transport"] in RDMA for line in lines):
        words.append("Measured without an RDMA card: CUDA IPC stands in its place.")
    return " ".join(words)


def is_direct(line: Line) -> bool:
    """Returns whether the data bypass the server's processor, as with RDMA."""
    own = line["conditions"]
    return bool(own["part"] == 3 and own["transport"] != "TCP")


def variants_of(lines: list[Line]) -> list[str]:
    """Returns the variants: local ones first, then each transport's parts."""
    keys = {
        line["variant"]: (line["conditions"]["part"] > 0, line["conditions"]["transport"])
        for line in lines
    }
    return sorted(keys, key=lambda name: (*keys[name], name))


def colours_of(lines: list[Line]) -> dict[str, str]:
    """Returns a colour for each variant, by part; several direct variants differ."""
    colours: dict[str, str] = {}
    direct = 0
    for line in lines:
        name, part = line["variant"], line["conditions"]["part"]
        if name in colours:
            continue
        if part == 0:
            colours[name] = LOCAL if name == "local" else TWO_COPIES
        elif part == 3 and direct:
            colours[name] = OTHER_DIRECT[(direct - 1) % len(OTHER_DIRECT)]
            direct += 1
        else:
            colours[name] = PART_COLOURS[part]
            direct += part == 3
    return colours


def tidy_axes(axes: Axes, grid: str) -> None:
    """Reduces the frame and draws a light grid behind the data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis=grid, alpha=0.3, linewidth=0.6)  # type: ignore[arg-type]
    axes.set_axisbelow(True)


def draw_curves(figure: Figure, lines: list[Line]) -> None:
    """Draws time and throughput against the number of elements."""
    times, rates = figure.subplots(1, 2)
    colours = colours_of(lines)
    for name in variants_of(lines):
        part = [line for line in lines if line["variant"] == name]
        part.sort(key=lambda line: int(line["conditions"]["elements"]))
        x = [line["conditions"]["elements"] for line in part]
        mean = [1e3 * line["conditions"]["mean_s"] for line in part]
        # A logarithmic axis cannot show a deviation as large as its mean.
        low = [
            min(1e3 * line["conditions"]["deviation_s"], 0.9 * value)
            for line, value in zip(part, mean, strict=True)
        ]
        high = [1e3 * line["conditions"]["deviation_s"] for line in part]
        style = {"color": colours[name], "marker": "o", "markersize": 4.0, "linewidth": 1.6}
        times.errorbar(x, mean, yerr=[low, high], elinewidth=0.8, capsize=2, label=name, **style)
        rates.plot(x, [line["gbps"] for line in part], label=name, **style)
    sizes = sorted({line["conditions"]["elements"] for line in lines})
    for axes, words in ((times, "milliseconds, mean of six"), (rates, "GB/s")):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("elements of each vector", fontsize=9)
        axes.set_ylabel(words, fontsize=9)
        powers = [10**k for k in range(1, 9) if sizes[0] <= 10**k <= sizes[-1]]
        axes.set_xticks(powers, [elements_text(power) for power in powers])
        axes.yaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
        tidy_axes(axes, "both")
    times.set_title("all copies, without the GPU's computing time", loc="left", fontsize=9.5)
    rates.set_title("12 bytes an element, over that time", loc="left", fontsize=9.5)
    times.legend(fontsize=8.5, frameon=False, loc="upper left")


def draw_bars(figure: Figure, lines: list[Line]) -> None:
    """Draws a panel for each selected size with its own scale, and a bar for each way."""
    measured = sorted({line["conditions"]["elements"] for line in lines})
    sizes = [size for size in SELECTED if size in measured] or measured[-4:]
    names = variants_of(lines)
    colours = colours_of(lines)
    grid = figure.subplots(1, len(sizes), sharey=True, squeeze=False)[0]
    for axes, size in zip(grid, sizes, strict=True):
        part = [line for line in lines if line["conditions"]["elements"] == size]
        local_s = [line["conditions"]["mean_s"] for line in part if line["variant"] == "local"]
        ends = [0.0]
        for line in part:
            own = line["conditions"]
            y, mean = names.index(line["variant"]), 1e3 * own["mean_s"]
            # Longer bars would push the numbers out of the picture.
            deviation = min(1e3 * own["deviation_s"], 0.4 * mean)
            ends.append(mean + deviation)
            axes.barh(y, mean, 0.78, color=colours[line["variant"]])
            axes.plot([mean - deviation, ends[-1]], [y, y], color=INK, linewidth=1.0)
            axes.annotate(
                bar_text(own["mean_s"], local_s[0] if local_s else 0.0),
                (ends[-1], y),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                fontsize=7.5,
            )
        axes.set_xlim(0, 1.7 * max(ends))
        axes.set_title(f"{elements_text(size)} elements", loc="left", fontsize=9.5)
        axes.set_xlabel("ms", fontsize=8.5)
        axes.tick_params(axis="x", labelsize=8)
        axes.tick_params(axis="y", length=0)
        tidy_axes(axes, "x")
        axes.locator_params(axis="x", nbins=4)
    grid[0].set_yticks(range(len(names)), names, fontsize=8.5)
    grid[0].set_ylim(len(names) - 0.5, -0.5)


def bar_text(mean_s: float, local_s: float) -> str:
    """Returns the text of a bar: milliseconds, and the ratio to the local time."""
    mean = 1e3 * mean_s
    text = f"{mean:.0f}" if mean >= 100 else f"{mean:.3g}"
    return f"{text}  ({mean_s / local_s:.2f} x)" if local_s else text
