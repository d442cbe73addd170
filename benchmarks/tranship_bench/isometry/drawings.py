"""Pictures of the simulated benchmarks, drawn from their result lines alone.

Black marks show the paper's numbers, which are the expected values in the lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tranship.files import save_figure

from ..results import Line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

__all__ = ["DRAWINGS", "MEASURED", "draw", "draw_beside"]

MEASURED = "-measured"
"""Suffix of the names of measured figures."""

INK = "#1f2933"
MUTED = "#64707d"
OURS = "#0b6e99"
REALM = "#e07b39"
SHADES = ("#f3c9a8", "#eaa06a", "#cf6a24", "#8f4310")
PLANNER_COLOURS = {"full": OURS, "simple": "#6a994e", "spsl": "#bc8034", "spdl": "#8d5a97"}
DOTS_PER_INCH = 130
LOGARITHMIC_FROM = 20
"""Rates further apart than this are drawn on a logarithmic axis."""

Drawing = Callable[["FigureBase", list[Line]], None]


def draw(bench: str, lines: list[Line], path: Path) -> Path:
    """Draws one benchmark into `path`."""
    from matplotlib import pyplot

    _, size, _ = DRAWINGS[bench]
    figure = pyplot.figure(figsize=size, layout="constrained")
    draw_into(figure, bench, lines)
    save_figure(figure, path, dpi=DOTS_PER_INCH)
    pyplot.close(figure)
    return path


def draw_beside(bench: str, lines: list[Line], simulated: list[Line], path: Path) -> Path:
    """Draws a measured benchmark below the simulation of the paper's machine.

    Args:
        bench: Name of the measured benchmark.
        lines: Lines of the measured benchmark.
        simulated: Lines of the simulated benchmark of the same figure; there may be none.
        path: Path of the picture.
    """
    from matplotlib import pyplot

    parts = [(bench.removesuffix(MEASURED), simulated)] if simulated else []
    parts.append((bench, lines))
    wide, high = DRAWINGS[bench][1]
    figure = pyplot.figure(figsize=(wide, high * len(parts)), layout="constrained")
    shown = figure.subfigures(len(parts), 1, squeeze=False)[:, 0]
    for part, (name, part_lines) in zip(shown, parts, strict=True):
        draw_into(part, name, part_lines)
    save_figure(figure, path, dpi=DOTS_PER_INCH)
    pyplot.close(figure)
    return path


def draw_into(figure: FigureBase, bench: str, lines: list[Line]) -> None:
    """Draws a picture with its title."""
    words, _, drawing = DRAWINGS[bench]
    machines = ", ".join(dict.fromkeys(line["machine"] for line in lines))
    conditions = lines[0]["conditions"]
    how = "simulated" if is_simulated(lines) else "measured"
    if conditions.get("emulated"):
        how += " with GPUs emulated in host memory"
    title = f"{words}: {machines}, {how}"
    if any(line["conditions"].get("size") == "small" for line in lines):
        title += " (small)"
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    drawing(figure, lines)


def expected_of(line: Line, measure: str) -> float | None:
    """Returns the paper's number for a measure of a line; None if there is none."""
    for verdict in line.get("expected", ()):
        if verdict["measure"] == measure:
            return float(verdict["value"])
    return None


def tidy_axes(axes: Axes, grid: str) -> None:
    """Reduces the frame and draws a light grid behind the data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis=grid, alpha=0.3, linewidth=0.6)  # type: ignore[arg-type]
    axes.set_axisbelow(True)


def unique(values: Sequence[Any]) -> list[Any]:
    """Returns each value once, in the order of first appearance."""
    return list(dict.fromkeys(values))


def arrow_text(case: str) -> str:
    """Returns a case such as "FBM to FBM*" with an arrow, on two lines."""
    source, _, target = case.partition(" to ")
    return f"{source}\n\N{RIGHTWARDS ARROW} {target}"


def grouped_bars(
    axes: Axes, lines: list[Line], colours: dict[str, str], note: Callable[[Line], str]
) -> None:
    """Draws a group for each case, a bar in GB/s for each variant, and a note over each bar."""
    cases = unique([line["case"] for line in lines])
    variants = unique([line["variant"] for line in lines])
    width = 0.84 / len(variants)
    named: set[str] = set()
    for line in lines:
        k = variants.index(line["variant"])
        x = cases.index(line["case"]) + (k - (len(variants) - 1) / 2) * width
        label = None if line["variant"] in named else line["variant"]
        named.add(line["variant"])
        colour = colours[line["variant"]]
        axes.bar(x, line["gbps"], width * 0.94, color=colour, label=label)
        axes.annotate(
            note(line),
            (x, line["gbps"]),
            xytext=(0, 2),
            textcoords="offset points",
            ha="center",
            rotation=90 if width < 0.25 else 0,
            fontsize=7.5,
            color=INK,
            zorder=5,
        )
        paper = expected_of(line, "gbps")
        if paper is not None:
            half = width * 0.47
            axes.plot([x - half, x + half], [paper, paper], color="black", linewidth=1.6, zorder=4)
    axes.set_xticks(range(len(cases)), [arrow_text(case) for case in cases], fontsize=8.5)
    axes.set_xlim(-0.6, len(cases) - 0.4)
    tidy_axes(axes, "y")


def mark_legend(axes: Axes, words: str, **where: Any) -> None:
    """Draws a legend with an entry for the paper's marks."""
    from matplotlib.lines import Line2D

    handles, labels = axes.get_legend_handles_labels()
    mark = Line2D([], [], color="black", linewidth=1.6)
    axes.legend([*handles, mark], [*labels, words], fontsize=8, frameon=False, **where)


def split_by_disk(lines: list[Line]) -> tuple[list[Line], list[Line]]:
    """Returns the lines that neither begin nor end on a disk, and the others."""
    return (
        [line for line in lines if "DSK" not in line["case"]],
        [line for line in lines if "DSK" in line["case"]],
    )


def panels(
    figure: FigureBase, parts: tuple[list[Line], list[Line]]
) -> list[tuple[Axes, list[Line]]]:
    """Returns axes for each part that is not empty, with widths by the number of cases."""
    filled = [part for part in parts if part]
    widths = [len({line["case"] for line in part}) for part in filled]
    axes = figure.subplots(1, len(filled), squeeze=False, width_ratios=widths)[0]
    return list(zip(axes, filled, strict=True))


def draw_figure7(figure: FigureBase, lines: list[Line]) -> None:
    """Draws the throughput of all scenarios; lines show the rates of the network and the disk."""
    bare = [line for line in lines if line["variant"] == "direct copy"]
    batches = [line for line in lines if line["variant"] != "direct copy"]
    variants = unique([line["variant"] for line in batches])
    colours = dict(zip(variants, ("#e07b39", "#f3c9a8", OURS), strict=False))
    shown = panels(figure, split_by_disk(batches))
    for axes, part in shown:
        name, colour = ("disk", "#c1121f") if "DSK" in part[0]["case"] else ("network", "#1d4ed8")
        grouped_bars(axes, part, colours, ratio_note)
        for line in bare:
            if line["case"].startswith(name):
                words = line["case"].partition(":")[0]
                style = "--" if "read" in words else "-"
                axes.axhline(
                    line["gbps"], color=colour, linewidth=1.3, label=words, linestyle=style
                )
        scale_rates(axes, part)
        if is_simulated(lines):
            mark_legend(axes, "expected (6.1)", loc="upper left", ncols=2)
        else:
            axes.legend(fontsize=8, frameon=False, loc="upper left", ncols=2)
    figure.supxlabel(
        "number over a bar: times as fast as one instance at a time; paper: up to 2.2; "
        + star_text(lines),
        fontsize=9,
    )


def scale_rates(axes: Axes, lines: list[Line], room: float = 1.3) -> None:
    """Sets an axis from zero, so that bars compare; logarithmic if the rates differ too much."""
    rates = [line["gbps"] for line in lines]
    if max(rates) > LOGARITHMIC_FROM * min(rates):
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        axes.set_ylim(low / 1.3, high * 3)
        axes.set_ylabel("GB/s, logarithmic")
    else:
        axes.set_ylim(0, max(axes.get_ylim()[1], max(rates)) * room)
        axes.set_ylabel("GB/s")


def is_simulated(lines: list[Line]) -> bool:
    """Returns whether the lines are of a simulation."""
    return bool(lines[0].get("simulated"))


def star_text(lines: list[Line]) -> str:
    """Returns the meaning of a star behind a memory."""
    return "* another node" if is_simulated(lines) else "* another process of this machine"


def ratio_note(line: Line) -> str:
    """Returns a line's ratio to its baseline as text; "" if it has none."""
    return f"{line['ratio']:.2f}" if "ratio" in line else ""


def draw_figure8(figure: FigureBase, lines: list[Line]) -> None:
    """Draws the normalised completion times by the number of transfers in progress."""
    curves = [line for line in lines if "in_progress" in facts_of(line)]
    best = {line["conditions"]["group"]: line for line in lines if "largest" in line["case"]}
    groups = unique([line["conditions"]["group"] for line in curves])
    sizes = sorted({line["bytes"] for line in curves}, reverse=True)
    grid = figure.subplots(len(groups), len(sizes), squeeze=False)
    variants = unique([line["variant"] for line in curves])
    colours = priority_colours(variants)
    for row, group in enumerate(groups):
        for column, size in enumerate(sizes):
            axes = grid[row][column]
            part = [
                line
                for line in curves
                if line["conditions"]["group"] == group and line["bytes"] == size
            ]
            draw_completions(axes, part, colours)
            ends = f"{part[0]['conditions']['source']} to {part[0]['conditions']['target']}"
            beside = part[0]["conditions"].get("low_bytes", LOW_BYTES)
            letter = "8a, direct" if group == "direct" else "8b, multi-hop"
            axes.set_title(
                f"{letter}: {ends}, {mebibytes(size)} beside {mebibytes(beside)} each",
                fontsize=9.5,
                loc="left",
            )
            cut = expected_of(best[group], "cut") if group in best else None
            if cut is not None:
                axes.axhline(1 - cut, color="black", linewidth=1.2, linestyle=(0, (4, 3)))
                axes.annotate(
                    f"paper, up to {cut:.0%} less",
                    (1.0, 1 - cut),
                    xycoords=("axes fraction", "data"),
                    xytext=(-2, 3),
                    textcoords="offset points",
                    ha="right",
                    fontsize=7.5,
                )
    grid[0][0].legend(fontsize=8, frameon=False, loc="best")
    figure.supxlabel("transfers of low priority in progress", fontsize=10)
    figure.supylabel(
        "completion time over Realm-style with 1 thread, logarithmic; bars: range over arrivals",
        fontsize=9,
    )


LOW_BYTES = 128 << 20
"""Bytes of a transfer of low priority in the paper."""


def mebibytes(count: int) -> str:
    """Returns a number of bytes in MiB, as text for a title."""
    return f"{count / (1 << 20):.4g} MiB"


def facts_of(line: Line) -> dict[str, Any]:
    """Returns the further numbers of a line; measured lines have them among their conditions."""
    facts: dict[str, Any] = line.get("values") or line["conditions"]
    return facts


def priority_colours(variants: Sequence[str]) -> dict[str, str]:
    """Returns shades for Realm's threads, and separate colours for first come and priorities."""
    shades = iter(SHADES)
    fixed = {"tranship": OURS, "tranship, first come": PLANNER_COLOURS["simple"]}
    return {name: fixed.get(name) or next(shades) for name in variants}


def draw_completions(axes: Axes, lines: list[Line], colours: dict[str, str]) -> None:
    """Draws a curve for each variant, with the quartiles over the moments of arrival."""
    for variant, colour in colours.items():
        part = [line for line in lines if line["variant"] == variant]
        x = [facts_of(line)["in_progress"] for line in part]
        y = [facts_of(line)["normalised"] for line in part]
        low = [
            value * (1 - line["quartiles_s"][0] / line["median_s"])
            for value, line in zip(y, part, strict=True)
        ]
        high = [
            value * (line["quartiles_s"][1] / line["median_s"] - 1)
            for value, line in zip(y, part, strict=True)
        ]
        axes.errorbar(
            x,
            y,
            yerr=[low, high],
            color=colour,
            marker="o",
            markersize=4,
            linewidth=1.6,
            elinewidth=0.8,
            capsize=2,
            label=variant,
        )
    counts = sorted({facts_of(line)["in_progress"] for line in lines})
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.minorticks_off()
    ticks = (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20)
    bottom, top = axes.get_ylim()
    shown = [tick for tick in ticks if bottom <= tick <= top]
    axes.set_yticks(shown, [f"{tick:g}" for tick in shown])
    tidy_axes(axes, "y")


def draw_planners(figure: FigureBase, lines: list[Line]) -> None:
    """Draws the throughput by planner, with each planner's number."""
    for axes, part in panels(figure, split_by_disk(lines)):
        grouped_bars(axes, part, PLANNER_COLOURS, lambda line: rate_text(line["gbps"]))
        scale_rates(axes, part, 1.2)
        for line in part:
            paper = expected_of(line, "ratio")
            if line["variant"] == "full" and paper is not None and paper > 1.001:
                axes.set_title(
                    f"{line['case']}: full is {line['ratio']:.3f} x simple (paper {paper:.3f})",
                    fontsize=9.5,
                    loc="left",
                )
        if any(expected_of(line, "gbps") for line in part):
            mark_legend(axes, "expected (Table 5)", loc="upper right", ncols=5)
        else:
            axes.legend(fontsize=8, frameon=False, loc="upper right", ncols=4)
    figure.supxlabel(star_text(lines), fontsize=9)


def rate_text(gbps: float) -> str:
    """Returns a rate with three digits."""
    return f"{gbps:.3g}"


def draw_figure12(figure: FigureBase, lines: list[Line]) -> None:
    """Draws the time of an iteration by number of nodes, and below it what this engine saves."""
    names = unique([line["conditions"]["application"] for line in lines])
    grid = figure.subplots(2, len(names), squeeze=False, height_ratios=(3, 2))
    for column, name in enumerate(names):
        part = [line for line in lines if line["conditions"]["application"] == name]
        draw_times(grid[0][column], part)
        grid[0][column].set_title(f"{name}, {part[0]['machine']}", fontsize=10.5, loc="left")
        draw_cuts(grid[1][column], part)
    grid[0][0].set_ylabel("seconds an iteration")
    grid[1][0].set_ylabel("less than Realm-style, %")
    grid[0][0].legend(fontsize=8, frameon=False)
    mark_legend(grid[1][0], "paper", loc="lower right")
    figure.supxlabel("nodes (weak scaling)", fontsize=10)


def node_axis(axes: Axes, counts: Sequence[int]) -> None:
    """Labels an axis with numbers of nodes, each twice the one before."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(counts), [str(count) for count in counts])
    axes.minorticks_off()
    tidy_axes(axes, "y")


def draw_times(axes: Axes, lines: list[Line]) -> None:
    """Draws the times of both engines, and the compute time that is common to both."""
    counts = sorted({line["values"]["nodes"] for line in lines})
    for variant, colour in (("Realm-style", REALM), ("tranship", OURS)):
        part = [line for line in lines if line["variant"] == variant]
        axes.plot(
            [line["values"]["nodes"] for line in part],
            [line["median_s"] for line in part],
            color=colour,
            marker="o",
            markersize=4,
            label=variant,
        )
    computing = lines[0]["values"]["compute_s"]
    axes.axhline(computing, color=MUTED, linestyle=(0, (4, 3)), linewidth=1.2, label="computation")
    axes.set_ylim(0, None)
    node_axis(axes, counts)


def draw_cuts(axes: Axes, lines: list[Line]) -> None:
    """Draws the savings in communication and in all; marks show the paper's numbers."""
    part = [line for line in lines if "overall_cut" in line["values"]]
    for measure, words, marker in (
        ("overhead_cut", "communication overhead", "o"),
        ("overall_cut", "all of the time", "s"),
    ):
        found = [line for line in part if measure in line["values"]]
        axes.plot(
            [line["values"]["nodes"] for line in found],
            [100 * line["values"][measure] for line in found],
            color=OURS,
            alpha=1 if marker == "o" else 0.55,
            marker=marker,
            markersize=4,
            label=words,
        )
        for line in found:
            paper = expected_of(line, measure)
            if paper is None:
                continue
            verdict = next(v for v in line["expected"] if v["measure"] == measure)
            slack = 100 * paper * verdict["tolerance"]
            axes.errorbar(
                line["values"]["nodes"],
                100 * paper,
                yerr=slack,
                color="black",
                marker="_",
                markersize=11,
                elinewidth=0.9,
                capsize=2,
                zorder=1,
            )
    axes.set_ylim(-3, 100)
    node_axis(axes, sorted({line["values"]["nodes"] for line in part}))


def draw_figure11(figure: FigureBase, lines: list[Line]) -> None:
    """Draws the copies between the GPUs of two processes, beside copies by hand."""
    axes = figure.subplots()
    by_hand = {line["variant"]: REALM for line in lines}
    grouped_bars(axes, lines, {**by_hand, "tranship": OURS}, ratio_note)
    scale_rates(axes, lines)
    axes.legend(fontsize=8, frameon=False, loc="upper left", ncols=3)
    figure.supxlabel(
        "number over a bar: times as fast as by hand; the paper's: beside MVAPICH2-GPU, 1 in the "
        "same layout, some 4 converted; " + star_text(lines),
        fontsize=9,
    )


DRAWINGS: dict[str, tuple[str, tuple[float, float], Drawing]] = {
    "isometry-figure7": ("Figure 7, pipelined and sequential hops", (14, 5.4), draw_figure7),
    "isometry-figure8": ("Figure 8, a transfer of high priority", (14, 8.5), draw_figure8),
    "isometry-figure9a": ("Figure 9a, the two planners", (14, 5), draw_planners),
    "isometry-figure9b": (
        "Figure 9b, planners with a conversion from AOS to SOA",
        (15, 5.4),
        draw_planners,
    ),
    "isometry-figure12": ("Figure 12, weak scaling", (13, 7), draw_figure12),
    "isometry-figure11-measured": ("Figure 11, beside sending by hand", (11, 4.6), draw_figure11),
}
for _figure in ("figure7", "figure8", "figure9a", "figure9b"):
    DRAWINGS[f"isometry-{_figure}{MEASURED}"] = DRAWINGS[f"isometry-{_figure}"]
