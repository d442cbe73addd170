"""Figures, drawn from result lines alone."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from tranship.errors import Error, NotFound

from .drawings import curves, ranks
from .drawings.tables import Rows, draw_table
from .results import Line, folder_of_results, read_lines

PAPERS = {"remote-gpus": "remote-gpu"}
"""Names of papers that differ from the prefix of their benchmarks, with that prefix."""

MEASURED = "-measured"
"""Suffix of the names of measured figures of a paper, which are also simulated."""


def draw(
    name: str | None,
    folder: str | os.PathLike[str],
    *,
    results: Sequence[str | os.PathLike[str]] | str | os.PathLike[str] | None = None,
) -> list[Path]:
    """Draws a figure for each machine and benchmark that has result lines.

    Of all lines of one case and variant, the newest is drawn.

    Args:
        name: One benchmark; "isometry", "staging" or "remote-gpus" for those of a paper; None for
            all that there are lines of.
        folder: Folder of the pictures, which is made.
        results: Files of result lines, or folders with ``.jsonl`` files; one or several. Default:
            ``benchmarks/results`` of the working folder, then of the source tree.

    Returns:
        The pictures.

    Raises:
        NotFound: There are no such lines.
        Error: A line is no result, or matplotlib is not installed.
    """
    try:
        import matplotlib

        matplotlib.use("Agg")
    except ImportError:
        raise Error("figures need matplotlib", "install it with: pip install matplotlib") from None
    if results is None:
        paths = [folder_of_results()]
    elif isinstance(results, str | os.PathLike):
        paths = [Path(results)]
    else:
        paths = [Path(path) for path in results]
    known = [line for path in paths for line in read_lines(path)]
    lines = [line for line in known if is_named(name, line["bench"])]
    if not lines:
        what = f"of the benchmark {name} " if name else ""
        raise NotFound(
            f"there are no result lines {what}in {', '.join(str(path) for path in paths)}",
            f"write some with: tranship bench {name or 'NAME'} --json FILE.jsonl",
        )
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        # Some pictures show applications of all machines.
        together = line["bench"] in ("isometry-figure12", "staging-figure10")
        machine = "" if together else line["machine"]
        groups.setdefault((line["bench"], machine), []).append(line)
    return [
        draw_lines(bench, machine, some, known, picture(bench, machine, target))
        for (bench, machine), some in groups.items()
    ]


def is_named(name: str | None, bench: str) -> bool:
    """Returns whether a benchmark is the one named, or one of the paper named."""
    named = PAPERS.get(name or "", name)
    return named in (None, bench) or bench.startswith(f"{named}-")


def picture(bench: str, machine: str, folder: Path) -> Path:
    """Returns the path of a picture."""
    name = "".join(c if c.isalnum() or c in "-." else "-" for c in f"{bench}-{machine}").lower()
    return folder / f"{name.rstrip('-')}.png"


def rows_of(lines: Iterable[Line]) -> Rows:
    """Returns lines by case and variant, of each the newest."""
    rows: Rows = {}
    for line in lines:
        rows.setdefault(line["case"], {})[line["variant"]] = line
    return rows


def draw_lines(bench: str, machine: str, lines: list[Line], known: list[Line], path: Path) -> Path:
    """Draws one picture of lines of a benchmark on one machine, and returns its path.

    Most have a row of bars for each case. A measured figure of a paper finds the simulated one
    among all lines that are known.
    """
    rows = rows_of(lines)
    if bench in curves.CHARTS:
        newest = [line for row in rows.values() for line in row.values()]
        return curves.draw(bench, machine, newest, path)
    if bench in ranks.MESSAGES:
        return ranks.draw_messages(bench, machine, rows, path)
    if bench in ranks.SHAPES:
        return ranks.draw_shapes(bench, machine, rows, path)
    if len(rows) > ranks.CASES_MAX:
        return ranks.draw_many(bench, machine, rows, path)
    base = bench.removesuffix(MEASURED)
    simulated = [line for line in known if line["bench"] == base != bench]
    papers = max((line["machine"] for line in simulated), default="")
    beside = rows_of(line for line in simulated if line["machine"] == papers)
    return draw_table(bench, machine, rows, path, beside)
