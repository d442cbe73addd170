"""Figures, drawn from result lines alone."""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tranship.errors import Error, NotFound

from . import dataspaces, isometry, remote_gpu_drawings
from .dataspaces import drawings as dataspaces_drawings
from .isometry import drawings
from .targets import TARGETS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw", "read_lines"]

Line = dict[str, Any]
Rows = dict[str, dict[str, Line]]

LATENCY_BENCHES = ("small", "priority", "plan-cache", "staging-questions")
"""Drawn as times instead of GB/s."""

PAPERS = {"remote-gpus": "remote-gpu"}
"""Papers by a name that is not how their benchmarks begin."""

COLOURS = ("#0b6e99", "#e07b39", "#6a994e", "#8d5a97", "#b23a48", "#577590", "#bc8034", "#555555")


def draw(
    name: str | None,
    folder: str | os.PathLike[str],
    *,
    results: str | os.PathLike[str] | None = None,
) -> list[Path]:
    """Draws a figure for each machine and benchmark that there are result lines of.

    Simulated benchmarks have drawings of their own, which look like the paper's.

    The newest line of a case and variant counts. Cases are rows, variants are bars; ratios to the
    baseline stand beside the bars.

    Args:
        name: one benchmark; "isometry" or "staging" for all whose names begin so; None for all
            that there are lines of.
        folder: where the pictures go.
        results: where the ``.jsonl`` files are. Default: ``benchmarks/results`` here, or in the
            source tree.

    Returns:
        The pictures.

    Raises:
        NotFound: there are no such lines.
        Error: matplotlib is not installed.
    """
    try:
        import matplotlib

        matplotlib.use("Agg")
    except ImportError:
        raise Error(
            "figures need matplotlib", "install it with: pip install 'tranship[figures]'"
        ) from None
    found = Path(results) if results is not None else results_folder()
    known = read_lines(found)
    lines = [line for line in known if is_named(name, line["bench"])]
    if not lines:
        what = f"of the benchmark {name} " if name else ""
        raise NotFound(
            f"there are no result lines {what}in {found}",
            f"write some with: tranship bench {name or 'NAME'} --json {found / 'FILE.jsonl'}",
        )
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    groups: dict[tuple[str, str], Rows] = {}
    for line in lines:
        rows = groups.setdefault((line["bench"], group_machine(line)), {})
        rows.setdefault(line["case"], {})[line["variant"]] = line
    drawn: list[Path] = []
    for (bench, machine), rows in groups.items():
        if bench.endswith(drawings.MEASURED):
            drawn.append(draw_measured(bench, machine, rows, known, target))
        else:
            drawn += draw_group(bench, machine, rows, target)
    return drawn


def is_named(name: str | None, bench: str) -> bool:
    """Whether a benchmark is the one named, or one of the paper named."""
    named = PAPERS.get(name or "", name)
    return named in (None, bench) or bench.startswith(f"{named}-")


def group_machine(line: Line) -> str:
    """The machine of a picture; one that shows several applications shows all of their machines."""
    together = line["bench"] in ("isometry-figure12", "isometry-table6", "staging-figure10")
    return "" if together else str(line["machine"])


def results_folder() -> Path:
    """The folder of result lines of the working folder, else of the source tree."""
    here = Path("benchmarks") / "results"
    if here.is_dir():
        return here
    tree = Path(__file__).resolve().parents[2] / here
    return tree if tree.is_dir() else here


def read_lines(folder: str | os.PathLike[str]) -> list[Line]:
    """All result lines of a folder, those of older files first.

    Raises:
        NotFound: there is no such folder. Error: a file has lines that are no results.
    """
    if not Path(folder).is_dir():
        raise NotFound(
            f"there is no folder {os.fspath(folder)} of result lines",
            "make it and write some "
            f"with: tranship bench NAME --json {os.path.join(os.fspath(folder), 'FILE.jsonl')}",
        )
    paths = sorted(Path(folder).glob("*.jsonl"), key=lambda path: (path.stat().st_mtime, path))
    lines: list[Line] = []
    for path in paths:
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if text.strip():
                lines.append(parse_line(path, number, text))
    return lines


def parse_line(path: Path, number: int, text: str) -> Line:
    """One line, which must have been checked."""
    try:
        line: Line = json.loads(text)
        if line["checked"] is not True:
            raise KeyError("checked")
        for key in ("bench", "case", "variant", "machine", "median_s", "gbps"):
            line[key]
    except (ValueError, KeyError, TypeError) as error:
        raise Error(
            f"{path}:{number} is no result line ({error}); each is a JSON object with bench, case, "
            "variant, machine, median_s, gbps and checked: true"
        ) from None
    return line


def picture(bench: str, machine: str, folder: Path) -> Path:
    """The file of a picture."""
    name = "".join(c if c.isalnum() or c in "-." else "-" for c in f"{bench}-{machine}").lower()
    return folder / f"{name.rstrip('-')}.png"


def draw_measured(bench: str, machine: str, rows: Rows, known: list[Line], folder: Path) -> Path:
    """A measured figure of a paper below the simulated one, if there are lines of that."""
    base = bench.removesuffix(drawings.MEASURED)
    simulated: dict[tuple[str, str], Line] = {}
    for line in known:
        if line["bench"] == base:
            simulated[line["case"], line["variant"]] = line
    machines = {line["machine"] for line in simulated.values()}
    beside = [line for line in simulated.values() if line["machine"] == max(machines)]
    lines = [line for row in rows.values() for line in row.values()]
    return drawings.draw_beside(bench, lines, beside, picture(bench, machine, folder))


def draw_group(bench: str, machine: str, rows: Rows, folder: Path) -> list[Path]:
    """The pictures of a benchmark: most have one, a row of bars for each case."""
    path = picture(bench, machine, folder)
    lines = [line for row in rows.values() for line in row.values()]
    if bench in isometry.BENCHES:
        return [drawings.draw(bench, lines, path)]
    if bench in dataspaces.BENCHES:
        return [dataspaces_drawings.draw(bench, lines, path)]
    if bench == "remote-gpu":
        return remote_gpu_drawings.draw(machine, lines, folder / path.stem)
    return [draw_table(bench, machine, rows, path)]


def draw_table(bench: str, machine: str, rows: Rows, path: Path) -> Path:
    """A row of bars for each case."""
    from matplotlib import pyplot

    latency = bench in LATENCY_BENCHES
    variants = list(dict.fromkeys(variant for row in rows.values() for variant in row))
    height = 1.3 + sum(0.24 * len(row) + 0.2 for row in rows.values())
    figure, axes = pyplot.subplots(figsize=(10, max(height, 2.6)), layout="constrained")
    draw_bars(axes, rows, variants, latency)
    title = f"{bench}: {machine}{emulated_text(rows)}"
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold")
    unit = "microseconds, median (less is better)" if latency else "GB/s, median"
    axes.set_xlabel("\n".join([unit, *textwrap.wrap(asked_text(bench), 120)]), fontsize=9)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", alpha=0.3, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.margins(x=0.22)
    if len(variants) <= len(COLOURS):
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncol=4, fontsize=8, frameon=False)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
    return path


def emulated_text(rows: Rows) -> str:
    """That the GPUs were none, where they were emulated."""
    lines = [line for row in rows.values() for line in row.values()]
    gpus = [str(line.get("conditions", {}).get("gpus", "")) for line in lines]
    return ", GPUs emulated in host memory" if any("emulated" in text for text in gpus) else ""


def draw_bars(axes: Axes, rows: Rows, variants: list[str], latency: bool) -> None:
    """Bars from top to bottom, with their value and ratio beside them."""
    ticks: list[float] = []
    named: set[str] = set()
    y = 0.0
    for row in rows.values():
        first = y
        for variant, line in row.items():
            value = line["median_s"] * 1e6 if latency else line["gbps"]
            colour = COLOURS[variants.index(variant) % len(COLOURS)]
            label = None if variant in named else variant
            named.add(variant)
            axes.barh(y, value, height=0.85, color=colour, label=label)
            axes.annotate(
                value_text(value, line),
                (max(value, 0.0), y),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                fontsize=7,
            )
            y += 1
        ticks.append((first + y - 1) / 2)
        y += 0.8
    axes.set_yticks(ticks, list(rows), fontsize=8)
    axes.invert_yaxis()


def value_text(value: float, line: Line) -> str:
    """The number beside a bar."""
    text = f"{value:.2f}" if value < 10 else f"{value:.0f}"
    return f"{text}  ({line['ratio']:.2f} x {line['baseline']})" if "ratio" in line else text


def asked_text(bench: str) -> str:
    """The targets of a benchmark."""
    targets: Iterable[str] = (
        f"{target.what} {'at most' if target.at_most else 'at least'} {target.text(target.bound)}"
        for target in TARGETS
        if target.bench == bench
    )
    return "asked: " + "; ".join(targets) if any(t.bench == bench for t in TARGETS) else ""
