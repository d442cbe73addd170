"""The demo's two pictures: the blast wave, and what was moved when."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Arc, Patch

from tranship.demo import profiles
from tranship.demo.exact import SedovSolution
from tranship.demo.settings import Settings
from tranship.files import save_figure
from tranship.tracing import MergedTrace

EXACT_COLOUR = "#d62728"
CELL_COLOUR = "#4c78a8"
# What a process waits for when it moves something: what the spans of the trace are called.
KINDS = {
    "signal": ("signals and the time step", "#9e9e9e"),
    "halo": ("halo slabs", "#4c78a8"),
    "put": ("put: blocks into the staging servers", "#59a14f"),
    "get": ("get: boxes out of them, transposed", "#f28e2b"),
}


def draw_shock(
    settings: Settings, exact: SedovSolution, fields: dict[str, Any], last: Any, path: Path
) -> None:
    """Draws a slice of the density, and radial profiles of density and pressure."""
    figure = Figure(figsize=(13.5, 4.6), layout="constrained", dpi=130)
    FigureCanvasAgg(figure)
    figure.get_layout_engine().set(wspace=0.06)  # type: ignore[union-attr, call-arg]
    left, middle, right = figure.subplots(1, 3, width_ratios=(1.12, 1.0, 1.0))
    moment, radius = last["time"], last["exact_radius"]
    figure.suptitle(
        f"Sedov blast wave, {settings.cells}³ cells, t = {moment:.3f}, "
        f"step {last['step']} (as got by the analysis processes)"
    )
    side = settings.blast.side
    image = left.imshow(
        fields["density"][:, :, 0].T, origin="lower", extent=(0, side, 0, side), cmap="magma"
    )
    left.add_patch(
        Arc((0, 0), 2 * radius, 2 * radius, theta1=0, theta2=90, color="white", ls="--", lw=1.2)
    )
    left.text(
        0.97,
        0.97,
        f"dashed: exact shock, R = {radius:.3f}",
        transform=left.transAxes,
        color="white",
        ha="right",
        va="top",
        fontsize=9,
    )
    left.set(xlabel="x [side of the cube]", ylabel="y [side of the cube]", title="z = 0 plane")
    figure.colorbar(image, ax=left, label="density [density of the gas ahead]", shrink=0.88)

    distance = profiles.radii(settings.cells, profiles.whole(settings.cells)).ravel()
    distance = distance * settings.blast.spacing
    chosen = np.random.default_rng(1).choice(distance.size, min(6000, distance.size), replace=False)
    chosen = chosen[distance[chosen] < 1.05 * side]
    line = np.unique(np.append(np.linspace(0.0, 1.05 * side, 1200), [radius, radius * (1 + 1e-9)]))
    density, _, pressure = exact.profiles(line, moment)
    for axes, name, curve, label in (
        (middle, "density", density, "density [density of the gas ahead]"),
        (right, "pressure", pressure, "pressure [energy / side³]"),
    ):
        values = fields[name].ravel(order="C")[chosen]
        axes.plot(distance[chosen], values, ".", ms=2, color=CELL_COLOUR, label="cells (sample)")
        axes.plot(line, curve, color=EXACT_COLOUR, lw=1.5, label="exact (Sedov-Taylor)")
        axes.set(xlabel="distance from the origin [side of the cube]", ylabel=label, title=name)
        axes.set_xlim(0, 1.05 * side)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.25)
        axes.legend(loc="upper left", framealpha=0.9, markerscale=4)
    save_figure(figure, path)


def kind_of(event: dict[str, Any]) -> str:
    """Returns which of KINDS a span is, or its own name."""
    return str(event.get("args", {}).get("call", event["name"]))


def event_bytes(event: dict[str, Any]) -> int:
    """Returns the bytes that a trace event says it moved (0 if it names none)."""
    arguments = event.get("args") or {}
    return int(arguments.get("bytes", 0))


def draw_timeline(trace: MergedTrace, path: Path) -> None:
    """Draws one row for each process: above the whole run's rates, below a few steps' transfers."""
    transfers = [
        {**event, "process": trace.processes[event["pid"]]}
        for event in trace.events
        if event["ph"] == "X" and kind_of(event) in KINDS
    ]
    processes = sorted({str(event["process"]) for event in transfers}, key=row_order)
    figure = Figure(figsize=(13.5, 7.4), layout="constrained", dpi=130)
    FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1)
    draw_rates(above, transfers, processes)
    above.set(title="The whole run: rate of the transfers that each process starts")
    above.set(xlabel="time [s]")
    draw_bars(below, transfers, processes, snapshot_window(transfers))
    below.set(title="A few steps around one snapshot: each transfer", xlabel="time [ms]")
    handles = [Patch(color=colour, label=label) for label, colour in KINDS.values()]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
    save_figure(figure, path)


def row_order(process: str) -> tuple[bool, str]:
    """Returns the sorting key that puts the simulations above the analyses."""
    return process.startswith("analysis"), process


def snapshot_window(transfers: list[dict[str, Any]]) -> tuple[float, float]:
    """Returns an interval around a snapshot in the middle of the run, in us."""
    end = max(float(event["ts"]) + float(event["dur"]) for event in transfers)
    reads = [float(event["ts"]) for event in transfers if kind_of(event) == "put"]
    centre = min(reads, key=lambda begin: abs(begin - end / 2), default=end / 2)
    halos = np.array([float(event["ts"]) for event in transfers if kind_of(event) == "halo"])
    before, after = np.sort(halos[halos < centre]), np.sort(halos[halos > centre])
    # A step has eight of them (two axes, four processes).
    first = float(before[-min(9, len(before))]) if len(before) else 0.0
    last = float(after[min(17, len(after) - 1)]) if len(after) else end
    margin = 0.02 * (last - first)
    return first - margin, last + margin


def draw_rates(axes: Any, transfers: list[dict[str, Any]], processes: list[str]) -> None:
    """Draws bytes per time for each process, each row in units of its own largest value."""
    end = max(float(event["ts"]) + float(event["dur"]) for event in transfers)
    edges = np.linspace(0.0, end, 301)
    labels = []
    for row, process in enumerate(processes):
        mine = [event for event in transfers if event["process"] == process]
        staged = [event for event in mine if kind_of(event) in ("put", "get")]
        others = [event for event in mine if kind_of(event) not in ("put", "get")]
        below, above = (rates_of(part, edges) for part in (others, staged))
        highest = max(float((below + above).max()), 1e-9)
        colour = KINDS["get" if process.startswith("analysis") else "put"][1]
        base = row + 0.42
        for rates, fill in ((below + above, colour), (below, KINDS["halo"][1])):
            axes.stairs(
                base - 0.84 * rates / highest, edges * 1e-6, baseline=base, fill=True, fc=fill
            )
        labels.append(f"{process}\npeak {highest:.3g} MB/s")
    axes.set_xlim(0, end * 1e-6)
    finish_rows(axes, labels)


def rates_of(events: list[dict[str, Any]], edges: Any) -> Any:
    """Returns the bytes per microsecond that begin between each two of `edges`."""
    moments = [float(event["ts"]) for event in events]
    moved, _ = np.histogram(moments, edges, weights=[event_bytes(event) for event in events])
    return moved / (edges[1] - edges[0])


def draw_bars(
    axes: Any, transfers: list[dict[str, Any]], processes: list[str], window: tuple[float, float]
) -> None:
    """Draws the transfers inside `window` (us) as bars, none thinner than can be seen."""
    first, last = window
    thinnest = (last - first) / 700
    bars: dict[str, list[Any]] = {}
    for event in transfers:
        begin = float(event["ts"])
        finish = begin + max(float(event["dur"]), thinnest)
        if finish < first or begin > last:
            continue
        low, high = (row + processes.index(str(event["process"])) for row in (-0.38, 0.38))
        left, right = (begin - first) * 1e-3, (finish - first) * 1e-3
        box = [(left, low), (right, low), (right, high), (left, high)]
        bars.setdefault(kind_of(event), []).append(box)
    for kind, (_, colour) in KINDS.items():
        axes.add_collection(PolyCollection(bars.get(kind, []), facecolors=colour, lw=0))
    axes.set_xlim(0, (last - first) * 1e-3)
    finish_rows(axes, processes)


def finish_rows(axes: Any, labels: list[str]) -> None:
    """Labels the rows, the first at the top."""
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set_yticks(range(len(labels)), labels)
    axes.grid(axis="x", alpha=0.25)
    axes.set_axisbelow(True)
