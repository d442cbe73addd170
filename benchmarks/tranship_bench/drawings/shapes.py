"""Drawings of random shapes: how many of them reach which fraction of a plain copy's rate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tranship.files import save_figure

from ..host.random_shapes import CLASSES
from .tables import DOTS_PER_INCH, FIXED, Rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["BENCHES", "draw"]

Line = dict[str, Any]

BENCHES = ("shapes", "gpu-shapes")

KINDS = ("elements of 1 to 3 bytes", "of 4 to 16 bytes", "records of several fields")
"""Rows of the picture."""

FRACTION_MAX = {"shapes": 1.8, "gpu-shapes": 1.1}
"""End of the vertical axis: two threads may be faster than one thread's copy."""

OTHERS = {"numpy": ("NumPy", FIXED["numpy"]), "PyTorch": ("PyTorch", "#e07b39")}
"""Variants beside Tranship, with their names and colours."""

TITLES = {"round": "multiples of 16", "odd": "odd extents", "sliced": "slices of odd arrays"}


def draw(bench: str, machine: str, rows: Rows, path: Path) -> Path:
    """Draws the fractions of a plain copy's rate, in ascending order, for each class of shapes.

    Args:
        bench: "shapes" or "gpu-shapes".
        machine: Machine of the lines.
        rows: Lines of each case by variant.
        path: The picture.

    Returns:
        The picture.
    """
    from matplotlib import pyplot

    cases = [row for row in rows.values() if "class" in of_tranship(row).get("conditions", {})]
    figure, grid = pyplot.subplots(
        len(KINDS), len(CLASSES), figsize=(11, 8.6), sharex=True, sharey=True, squeeze=False
    )
    for across, elements in zip(grid, KINDS, strict=True):
        for axes, kind in zip(across, CLASSES, strict=True):
            conditions = [of_tranship(row)["conditions"] for row in cases]
            some = [
                row
                for row, its in zip(cases, conditions, strict=True)
                if its["class"] == kind and elements_of(its) == elements
            ]
            draw_class(axes, f"{TITLES[kind]}: {len(some)} shapes", some)
        across[0].set_ylabel(f"{elements}\nfraction of the copy's rate")
    grid[0][0].set_ylim(0, FRACTION_MAX[bench])
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
    save_figure(figure, path, dpi=DOTS_PER_INCH)
    pyplot.close(figure)
    return path


def of_tranship(row: dict[str, Line]) -> Line:
    """Returns Tranship's line of a case; an empty one if it has none."""
    return row.get("tranship", {})


def elements_of(conditions: dict[str, Any]) -> str:
    """Returns the row of the picture, of `KINDS`, that a case belongs to."""
    if conditions["fields"] > 0:
        return KINDS[2]
    return KINDS[0 if conditions["element_bytes"] < 4 else 1]


def draw_class(axes: Axes, title: str, cases: Sequence[dict[str, Line]]) -> None:
    """Draws a curve for each variant; cases that a variant cannot do are left out of its curve."""
    axes.set_title(title, fontsize=10)
    axes.axhline(1, color="#999999", linewidth=0.8, linestyle=":")
    axes.grid(alpha=0.25)
    for variant, (name, colour) in {"tranship": ("Tranship", FIXED["tranship"]), **OTHERS}.items():
        values = sorted(row[variant]["ratio"] for row in cases if variant in row)
        if not values:
            continue
        places = [100 * k / max(len(values) - 1, 1) for k in range(len(values))]
        axes.plot(places, values, color=colour, label=name, marker=".", markersize=4, linewidth=1.2)
