"""Drawings of messages between two GPUs: the improvement over the latency-oriented design."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tranship.files import save_figure

from .tables import DOTS_PER_INCH, FIXED, Rows

__all__ = ["BENCHES", "SHARES", "draw", "draw_shares"]

BENCHES = ("gpu-halo", "gpu-messages")

BASELINE = "latency-oriented"
SERIES = {
    "tranship": ("Tranship, straight from type to type", FIXED["tranship"], "o"),
    "tranship, packed": ("packed and sent without a wait between", "#e07b39", "s"),
    "wire alone": ("the packed bytes alone", "#888888", "|"),
}
"""Variants with their names, colours and marks."""

SHARES = {"ddtbench": "tranship", "mpi-messages": "tranship-mpi"}
"""Benchmarks of messages beside an MPI library, with the variant that is drawn over it."""

COLOURS = (FIXED["tranship"], "#e07b39", "#6a994e", "#8d5a97")


def draw(bench: str, machine: str, rows: Rows, path: Path) -> Path:
    """Draws how many times as fast as the latency-oriented design each variant is.

    Args:
        bench: "gpu-halo" or "gpu-messages".
        machine: Machine of the lines.
        rows: Lines of each case by variant.
        path: The picture.

    Returns:
        The picture.
    """
    from matplotlib import pyplot

    cases = {name: row for name, row in rows.items() if BASELINE in row}
    height = 1.9 + 0.2 * len(cases)  # inches
    figure, axes = pyplot.subplots(figsize=(9, height))
    for variant, (title, colour, mark) in SERIES.items():
        points = [
            (row[BASELINE]["median_s"] / row[variant]["median_s"], place)
            for place, row in enumerate(cases.values())
            if variant in row
        ]
        if points:
            times, places = zip(*points, strict=True)
            axes.scatter(times, places, s=22, color=colour, marker=mark, label=title)
    axes.axvline(1, color="black", linewidth=0.8)
    names = [name_of(case, row[BASELINE]) for case, row in cases.items()]
    axes.set_yticks(range(len(cases)), names, fontsize=7)
    axes.set_ylim(len(cases) - 0.5, -0.5)
    axes.set_xlim(0)
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel("times as fast as the latency-oriented design, whose time is on the left")
    commits = {row[BASELINE]["commit"] for row in cases.values()}
    axes.set_title(f"{bench} on {machine}; commit {', '.join(sorted(commits))}", fontsize=10)
    handles, titles = axes.get_legend_handles_labels()
    figure.legend(handles, titles, loc="lower center", ncols=3, frameon=False, fontsize=8)
    figure.tight_layout(rect=(0, 0.35 / height, 1, 1))
    save_figure(figure, path, dpi=DOTS_PER_INCH)
    pyplot.close(figure)
    return path


def draw_shares(bench: str, machine: str, rows: Rows, path: Path) -> Path:
    """Draws how many times as fast as an MPI library the messages are, in ascending order.

    Args:
        bench: A benchmark of `SHARES`.
        machine: Machine of the lines.
        rows: Lines of each case by variant; the end of a case's name says its curve.
        path: The picture.

    Returns:
        The picture.
    """
    from matplotlib import pyplot

    curves: dict[str, list[float]] = {}
    for case, row in rows.items():
        if {"mpi", SHARES[bench]} <= row.keys():
            words = [word for word in case.split(", ")[1:] if word[0].isalpha()]
            times = row["mpi"]["median_s"] / row[SHARES[bench]]["median_s"]
            curves.setdefault(", ".join(words), []).append(times)
    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for (name, values), colour in zip(curves.items(), COLOURS, strict=False):
        places = [100 * k / max(len(values) - 1, 1) for k in range(len(values))]
        axes.plot(places, sorted(values), color=colour, label=f"{name}: {len(values)}", marker=".")
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_yscale("log")
    all_values = [value for values in curves.values() for value in values]
    axes.set_ylim(0.9 * min(all_values), 1.1 * max(all_values))
    ticks = [0.5, 0.8, 1, 1.5, 2, 3, 5, 10, 20]
    shown = [tick for tick in ticks if axes.get_ylim()[0] < tick < axes.get_ylim()[1]]
    axes.set_yticks(shown, [f"{tick:g}" for tick in shown])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.set_xlabel("messages that gain less, %")
    axes.set_ylabel("times as fast as the MPI library")
    axes.set_title(f"{bench} on {machine}", fontsize=10)
    axes.legend(frameon=False, fontsize=9)
    save_figure(figure, path, dpi=DOTS_PER_INCH)
    pyplot.close(figure)
    return path


def name_of(case: str, line: Mapping[str, Any]) -> str:
    """Returns the case with its bytes, and the time of the latency-oriented design."""
    return f"{case}: {line['bytes'] / 1000:,.4g} KB, {line['median_s'] * 1e6:,.0f} µs"
