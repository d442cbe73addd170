"""Drawings of packs and unpacks on a GPU: times over that of a copy of the sectors touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tranship.files import save_figure

from .tables import DOTS_PER_INCH, FIXED, Rows

__all__ = ["BENCHES", "draw"]

BENCHES = ("gpu-types",)

LIMIT = "sectors"
SERIES = {
    "tranship": ("Tranship", FIXED["tranship"]),
    "PyTorch": ("PyTorch", "#e07b39"),
    "CuPy": ("CuPy", "#6a994e"),
}
"""Variants with their names and colours."""

AIM = 1.3
NAME_CHARACTERS = 52


def draw(bench: str, machine: str, rows: Rows, path: Path) -> Path:
    """Draws the time of each variant over that of the sectors, packs filled and unpacks hollow.

    Args:
        bench: "gpu-types".
        machine: Machine of the lines.
        rows: Lines of each case by variant.
        path: The picture.

    Returns:
        The picture.
    """
    from matplotlib import pyplot

    cases: dict[str, dict[str, Any]] = {}
    for name, row in rows.items():
        if LIMIT in row:
            pattern, way = name.rsplit(", ", 1)
            cases.setdefault(pattern, {})[way] = row
    height = 1.8 + 0.22 * len(cases)  # inches
    figure, axes = pyplot.subplots(figsize=(9, height))
    for place, ways in enumerate(cases.values()):
        for way, row in ways.items():
            for variant, (_, colour) in SERIES.items():
                if variant in row:
                    over = row[variant]["median_s"] / row[LIMIT]["median_s"]
                    filled = colour if way == "pack" else "none"
                    axes.scatter(over, place, s=24, facecolor=filled, edgecolor=colour)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.axvline(AIM, color="black", linewidth=0.8, linestyle=":")
    axes.set_xscale("log")
    ticks = [1, 1.3, 2, 3, 5, 8]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    names = [
        name if len(name) <= NAME_CHARACTERS else f"{name[:NAME_CHARACTERS]}…" for name in cases
    ]
    axes.set_yticks(range(len(cases)), names, fontsize=7)
    axes.set_ylim(len(cases) - 0.5, -0.5)
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel(
        "time over that of a copy of as many bytes as the touched sectors; dotted: the aim"
    )
    commits = {row[LIMIT]["commit"] for ways in cases.values() for row in ways.values()}
    axes.set_title(f"{bench} on {machine}; commit {', '.join(sorted(commits))}", fontsize=10)
    marks = [
        axes.scatter([], [], s=24, facecolor=colour, edgecolor=colour, label=title)
        for title, colour in SERIES.values()
    ]
    marks += [
        axes.scatter([], [], s=24, facecolor=face, edgecolor="black", label=title)
        for title, face in (("pack", "black"), ("unpack", "none"))
    ]
    figure.legend(handles=marks, loc="lower center", ncols=5, frameon=False, fontsize=8)
    figure.tight_layout(rect=(0, 0.35 / height, 1, 1))
    save_figure(figure, path, dpi=DOTS_PER_INCH)
    pyplot.close(figure)
    return path
