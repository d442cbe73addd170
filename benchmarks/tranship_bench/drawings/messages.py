"""Drawings of messages: how many times as fast as another way they are, in ascending order."""

from __future__ import annotations

from pathlib import Path

from tranship.files import save_figure

from .tables import DOTS_PER_INCH, FIXED, Rows

__all__ = ["BENCHES", "draw"]

BENCHES = {
    "ddtbench": ("mpi", "tranship", "the MPI library"),
    "mpi-messages": ("mpi", "tranship-mpi", "the MPI library"),
    "gpu-messages": ("latency-oriented", "tranship", "the latency-oriented design"),
}
"""Benchmarks: the variant that is the measure, the one that is drawn, and the former's name."""

COLOURS = (FIXED["tranship"], "#e07b39", "#6a994e", "#8d5a97")
TICKS = (0.5, 0.8, 1, 1.5, 2, 3, 5, 10, 20)


def draw(bench: str, machine: str, rows: Rows, path: Path) -> Path:
    """Draws a curve for each group of messages.

    Args:
        bench: A benchmark of `BENCHES`.
        machine: Machine of the lines.
        rows: Lines of each case by variant; the end of a case's name says its curve.
        path: The picture.

    Returns:
        The picture.
    """
    from matplotlib import pyplot

    baseline, variant, other = BENCHES[bench]
    curves: dict[str, list[float]] = {}
    for case, row in rows.items():
        if {baseline, variant} <= row.keys():
            words = [word for word in case.split(", ")[1:] if word[0].isalpha()]
            times = row[baseline]["median_s"] / row[variant]["median_s"]
            curves.setdefault(", ".join(words) or "messages", []).append(times)
    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for (name, values), colour in zip(curves.items(), COLOURS, strict=False):
        places = [100 * k / max(len(values) - 1, 1) for k in range(len(values))]
        axes.plot(places, sorted(values), color=colour, label=f"{name}: {len(values)}", marker=".")
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_yscale("log")
    all_values = [1.0, *(value for values in curves.values() for value in values)]
    axes.set_ylim(0.9 * min(all_values), 1.1 * max(all_values))
    shown = [tick for tick in TICKS if axes.get_ylim()[0] < tick < axes.get_ylim()[1]]
    axes.set_yticks(shown, [f"{tick:g}" for tick in shown])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.set_xlabel("messages that gain less, %")
    axes.set_ylabel(f"times as fast as {other}")
    axes.set_title(f"{bench} on {machine}", fontsize=10)
    axes.legend(frameon=False, fontsize=9)
    save_figure(figure, path, dpi=DOTS_PER_INCH)
    pyplot.close(figure)
    return path
