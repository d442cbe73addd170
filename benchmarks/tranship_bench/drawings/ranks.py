"""Drawings of many cases in ascending order: random shapes by the fraction of a plain copy's rate
that they reach, messages by how many times as fast as another way they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..host.random_shapes import CLASSES
from .tables import FIXED, Rows, colours_of, saved, title_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Line = dict[str, Any]

MESSAGES = {
    "ddtbench": ("mpi", "tranship", "the MPI library"),
    "mpi-messages": ("mpi", "tranship-mpi", "the MPI library"),
    "gpu-messages": ("latency-oriented", "tranship", "the latency-oriented design"),
}
"""Benchmarks: the variant that is the measure, the one that is drawn, and the former's name."""

SHAPES = {"shapes": 1.8, "gpu-shapes": 1.1}
"""End of the vertical axis: two threads may be faster than one thread's copy."""

CASES_MAX = 60
"""More cases than these are drawn in ascending order, without their names."""

KINDS = ("elements of 1 to 3 bytes", "of 4 to 16 bytes", "records of several fields")
"""Rows of the picture of shapes."""

COLOURS = (FIXED["tranship"], "#e07b39", "#6a994e", "#8d5a97")
CURVES = {
    "tranship": ("Tranship", FIXED["tranship"]),
    "numpy": ("NumPy", FIXED["numpy"]),
    "PyTorch": ("PyTorch", "#e07b39"),
}
"""Variants of shapes, with their names and colours."""

TITLES = {"round": "multiples of 16", "odd": "odd extents", "sliced": "slices of odd arrays"}
TICKS = (0.5, 0.8, 1, 1.5, 2, 3, 5, 10, 20)


Curve = tuple[str, Sequence[float], str]
"""The name of a curve, its values and its colour."""


def draw_ranked(axes: Axes, values: Sequence[float], label: str, colour: str) -> None:
    """Draws values in ascending order, over the share of those that are less."""
    places = [100 * k / max(len(values) - 1, 1) for k in range(len(values))]
    axes.plot(places, sorted(values), color=colour, label=label, marker=".", linewidth=1.2)


def ranked(size: tuple[float, float], curves: Iterable[Curve], title: str) -> tuple[Figure, Axes]:
    """Returns a picture of these curves, which says how many values each has, and its axes."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=size, layout="constrained")
    for name, values, colour in curves:
        draw_ranked(axes, values, f"{name}: {len(values)}", colour)
    axes.grid(alpha=0.3)
    axes.set_title(title, fontsize=10)
    axes.legend(frameon=False, fontsize=9)
    return figure, axes


def draw_many(bench: str, machine: str, rows: Rows, path: Path) -> Path:
    """Draws the rates of many cases, a curve for each variant."""
    lines = [line for row in rows.values() for line in row.values()]
    colours = colours_of(dict.fromkeys(line["variant"] for line in lines))
    curves = (
        (name, [line["gbps"] for line in lines if line["variant"] == name], colour)
        for name, colour in colours.items()
    )
    figure, axes = ranked((9, 5), curves, title_of(bench, machine, lines))
    axes.set_xlabel("cases that are slower, %")
    axes.set_ylabel("GB/s, median")
    return saved(figure, path)


def draw_messages(bench: str, machine: str, rows: Rows, path: Path) -> Path:
    """Draws a curve for each group of messages, which the end of a case's name says."""
    baseline, variant, other = MESSAGES[bench]
    groups: dict[str, list[float]] = {}
    for case, row in rows.items():
        if {baseline, variant} <= row.keys():
            words = [word for word in case.split(", ")[1:] if word[0].isalpha()]
            times = row[baseline]["median_s"] / row[variant]["median_s"]
            groups.setdefault(", ".join(words) or "messages", []).append(times)
    curves = [(*group, colour) for group, colour in zip(groups.items(), COLOURS, strict=False)]
    figure, axes = ranked((7, 4), curves, f"{bench} on {machine}")
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_yscale("log")
    all_values = [1.0, *(value for values in groups.values() for value in values)]
    axes.set_ylim(0.9 * min(all_values), 1.1 * max(all_values))
    shown = [tick for tick in TICKS if axes.get_ylim()[0] < tick < axes.get_ylim()[1]]
    axes.set_yticks(shown, [f"{tick:g}" for tick in shown])
    axes.minorticks_off()
    axes.set_xlabel("messages that gain less, %")
    axes.set_ylabel(f"times as fast as {other}")
    return saved(figure, path)


def draw_shapes(bench: str, machine: str, rows: Rows, path: Path) -> Path:
    """Draws the fractions of a plain copy's rate for each class of shapes and kind of elements."""
    from matplotlib import pyplot

    cases = [row for row in rows.values() if "class" in of_tranship(row).get("conditions", {})]
    figure, grid = pyplot.subplots(
        len(KINDS), len(CLASSES), figsize=(11, 8.6), sharex=True, sharey=True, squeeze=False
    )
    for across, elements in zip(grid, KINDS, strict=True):
        for axes, kind in zip(across, CLASSES, strict=True):
            some = [row for row in cases if kind_of(of_tranship(row)) == (kind, elements)]
            draw_class(axes, f"{TITLES[kind]}: {len(some)} shapes", some)
        across[0].set_ylabel(f"{elements}\nfraction of the copy's rate")
    grid[0][0].set_ylim(0, SHAPES[bench])
    for axes in grid[-1]:
        axes.set_xlabel("shapes that reach less, %")
    lines = [of_tranship(row) for row in cases]
    seeds = sorted({line["conditions"]["seed"] for line in lines})
    copy = "one thread's memcpy" if bench == "shapes" else "cudaMemcpyAsync in the same memory"
    figure.suptitle(
        f"{bench}: random conversions on {machine}\n"
        f"the copy: {copy}; seeds {', '.join(map(str, seeds))}; "
        f"commits {', '.join(sorted({line['commit'] for line in lines}))}",
        fontsize=10,
    )
    handles, names = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="lower center", ncols=len(names), frameon=False)
    figure.tight_layout(rect=(0, 0.035, 1, 1))
    return saved(figure, path)


def of_tranship(row: dict[str, Line]) -> Line:
    """Returns Tranship's line of a case; an empty one if it has none."""
    return row.get("tranship", {})


def kind_of(line: Line) -> tuple[str, str]:
    """Returns the class of a case, and its kind of elements, of `KINDS`."""
    known = line["conditions"]
    narrow = 0 if known["element_bytes"] < 4 else 1
    return known["class"], KINDS[2 if known["fields"] > 0 else narrow]


def draw_class(axes: Axes, title: str, cases: Sequence[dict[str, Line]]) -> None:
    """Draws a curve for each variant; cases that a variant cannot do are left out of its curve."""
    axes.set_title(title, fontsize=10)
    axes.axhline(1, color="#999999", linewidth=0.8, linestyle=":")
    axes.grid(alpha=0.25)
    for variant, (name, colour) in CURVES.items():
        if values := [row[variant]["ratio"] for row in cases if variant in row]:
            draw_ranked(axes, values, name, colour)
