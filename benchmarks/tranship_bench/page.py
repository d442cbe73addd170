"""The page of results, docs/reference/performance.md, made from result lines alone.

`tranship figures --page` writes it. What it shows is in `page.toml`: sections with tables and
pictures. A cell is the median of one line, or what it is beside another line of the same run. A
value that misses its aim is bold; aims are those of `targets`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tranship.errors import NotFound

from .results import Line, folder_of_results, read_lines
from .targets import TARGETS, concerns

UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
CONTENT = Path(__file__).with_name("page.toml")
PAGE = Path("docs/reference/performance.md")
OTHER_RUN = "†"
"""Mark of a time that is from another run than the first one of its row."""

Key = tuple[str, str, str, str]
Lines = Mapping[Key, Line]
"""Lines by benchmark, case, variant and machine."""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        title: Heading.
        machine: Machine of the lines.
        variant: Variant of the lines, for rows that do not name one.
        measure: "ratio" (times as fast as the baseline of the line), "slowdown" (its inverse),
            "time", "rate" (GB/s), "count" (per second), "share", "over" (the time over that of
            `beside`) or "faster" (its inverse).
        beside: Variant of the same case that "over" and "faster" compare with.
        start: What stands for "{}" in the names of the cases in this column.
        ending: What the names of the cases end with in this column.
        aim: Bound of "over", at most; 0: none.
    """

    title: str
    machine: str
    variant: str = "tranship"
    measure: str = "ratio"
    beside: str = ""
    aim: float = 0.0
    start: str = ""
    ending: str = ""


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Attributes:
        title: First cell.
        cases: Cases whose values stand in a cell, with " / " between; "case | variant" names a
            variant, and "{}" stands for the `start` of a column.
        bench: Benchmark, if it is not the table's.
    """

    title: str
    cases: tuple[str, ...]
    bench: str = ""


@dataclass(frozen=True)
class Table:
    """A table: a row for each case, a column for each machine or variant.

    Attributes:
        bench: Benchmark whose lines are shown.
        words: One sentence: what was measured, beside what, and where.
        columns: Columns after the first one; what all of them share stands beside them in the file.
        rows: Rows; in the file, lists of a title and cases. A title alone is the name of a case.
        head: Heading of the first column.
        why: Pages of docs/decisions that say why values miss their aim.
        command: What measures it again; default: the benchmark alone.
    """

    bench: str
    words: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    head: str = "what"
    why: Sequence[str] = ()
    command: str = ""


@dataclass(frozen=True)
class Picture:
    """A picture of all lines of a benchmark on one machine.

    Attributes:
        bench: Benchmark.
        machine: Machine.
        words: One sentence: what it shows.
        only: Pattern of the names of the cases that are drawn; "": all.
    """

    bench: str
    machine: str
    words: str
    only: str = ""

    @property
    def name(self) -> str:
        """Returns the name of the file."""
        words = re.sub("[^a-z0-9]+", "-", f"{self.bench}-{self.machine}".lower())
        return f"{words.strip('-')}.svg"

    def lines(self, known: Lines) -> list[Line]:
        """Returns the lines that it is drawn from."""
        return [
            line
            for line in known.values()
            if line["bench"] == self.bench
            and line["machine"] == self.machine
            and re.search(self.only, line["case"])
        ]

    def digest(self, known: Lines) -> str:
        """Returns a digest of the lines that it is drawn from, which the file names."""
        text = json.dumps(self.lines(known), sort_keys=True)
        return f"{self.bench} {hashlib.sha256(text.encode()).hexdigest()[:16]}"


@dataclass(frozen=True)
class Section:
    """A heading, what is said below it, and its tables and pictures."""

    title: str
    words: str
    parts: Sequence[Table | Picture]
    level: int


def sections() -> tuple[str, list[Section]]:
    """Returns the beginning of the page, and its sections."""
    given = tomllib.loads(CONTENT.read_text(encoding="utf-8"))
    return given["head"].strip(), [
        Section(
            one["title"],
            one.get("words", ""),
            [part_of(dict(part)) for part in one.get("part", ())],
            one.get("level", 2),
        )
        for one in given["section"]
    ]


def part_of(given: dict[str, Any]) -> Table | Picture:
    """Returns a table or a picture as the file describes it."""
    if "picture" in given:
        return Picture(given.pop("picture"), **given)
    shared = {one.name: given.pop(one.name) for one in fields(Column) if one.name in given}
    given["columns"] = [Column(**(shared | one)) for one in given["columns"]]
    given["rows"] = [row_of(one) for one in given["rows"]]
    return Table(**given)


def row_of(given: list[str] | dict[str, Any]) -> Row:
    """Returns a row as the file describes it."""
    words = given if isinstance(given, list) else given["row"]
    bench = "" if isinstance(given, list) else given["bench"]
    return Row(words[0], tuple(words[1:] or words), bench)


def pictures() -> list[Picture]:
    """Returns the pictures of the page."""
    return [part for one in sections()[1] for part in one.parts if isinstance(part, Picture)]


def page_text(lines: Iterable[Line]) -> str:
    """Returns the page as Markdown.

    Raises:
        NotFound: A row has no line.
    """
    head, parts = sections()
    known = by_key(lines)
    blocks = [head]
    for section in parts:
        blocks.append(f"{'#' * section.level} {section.title}")
        if section.words:
            blocks.append(section.words)
        for part in section.parts:
            if isinstance(part, Table):
                blocks += table_blocks(part, known)
            else:
                blocks += [f"![{part.words}](performance/{part.name})", f"*{part.words}*"]
    return "\n\n".join(blocks) + "\n"


def by_key(lines: Iterable[Line]) -> dict[Key, Line]:
    """Returns lines by what tells them apart."""
    return {(line["bench"], line["case"], line["variant"], line["machine"]): line for line in lines}


def table_blocks(table: Table, known: Lines) -> list[str]:
    """Returns a table's sentence, its rows, and where its lines are."""
    found = [row_cells(table, row, known) for row in table.rows]
    aims = [aim for aim, _ in found]
    missed = any("**" in cell for _, cells in found for cell in cells)
    heads = [table.head, *(["aim"] if any(aims) else []), *(one.title for one in table.columns)]
    texts = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for row, (aim, cells) in zip(table.rows, found, strict=True):
        all_cells = [row.title, *([aim] if any(aims) else []), *cells]
        texts.append(f"| {' | '.join(all_cells)} |")
    benches = list(dict.fromkeys([table.bench, *(row.bench for row in table.rows)]))
    names = [name for name in benches if name]
    links = ", ".join(f"[{name}](../../benchmarks/results/{name}.jsonl)" for name in names)
    command = table.command or f"tranship bench {names[0]}"
    end = f"`{command}`; lines: {links}." if len(names) == 1 else f"Lines: {links}."
    if missed and table.why:
        pages = [f"[decision {int(page[:4])}](../decisions/{page})" for page in table.why]
        end += f" Why some miss their aim: {', '.join(pages)}."
    return [table.words, "\n".join(texts), end]


def row_cells(table: Table, row: Row, known: Lines) -> tuple[str, list[str]]:
    """Returns the aim of a row, and its cells.

    Raises:
        NotFound: The row has no line at all.
    """
    aims: dict[str, None] = {}
    cells: list[str] = []
    runs: dict[str, str] = {}
    for column in table.columns:
        found: list[tuple[str, str]] = []
        for case in row.cases:
            name, _, own = (part.strip() for part in case.partition(" | "))
            name = name.replace("{}", column.start) + column.ending
            key = (row.bench or table.bench, name, own or column.variant, column.machine)
            line = known.get(key)
            text, aim = cell(line, column, known) if line else ("", "")
            if line and column.measure in ("time", "rate", "count"):
                first = runs.setdefault(column.machine, line["commit"])
                text += "" if first == line["commit"] else f" {OTHER_RUN}"
            found.append((text, aim))
        values, bounds = zip(*found, strict=True)
        cells.append(" / ".join(values) if any(values) else "")
        if any(bounds):
            aims.setdefault(joined(bounds))
    if not any(cells):
        raise NotFound(f"there are no lines of {row.bench or table.bench}, {row.cases}")
    return ", ".join(aims), cells


def joined(bounds: Sequence[str]) -> str:
    """Returns aims such as "≥ 0.7 / 0.5": a word is not repeated if all are alike."""
    if len(set(bounds)) == 1:
        return bounds[0]
    return " / ".join(bound or "-" for bound in bounds)


def cell(line: Line, column: Column, known: Lines) -> tuple[str, str]:
    """Returns the text of a line's value, bold if it misses its aim, and the aim."""
    value = value_of(line, column, known)
    if value is None:
        return "", ""
    measure = {"time": "median_s", "rate": "gbps"}.get(column.measure, column.measure)
    text = text_of(value, column.measure)
    if column.aim:
        at_most, limit, bound = True, column.aim, f"{column.aim:g}"
    else:
        aims = (one for one in TARGETS if one.measure == measure and concerns(one, line))
        target = next(aims, None)
        if target is None:
            return text, ""
        at_most, limit = target.at_most, target.bound
        bound = text_of(limit, column.measure)
        bound = re.sub(r"\.?0+(?=$| )", "", bound) if "." in bound else bound
    missed = value > limit if at_most else value < limit
    return (f"**{text}**" if missed else text), f"{'≤' if at_most else '≥'} {bound}"


def value_of(line: Line, column: Column, known: Lines) -> float | None:
    """Returns the number that a column shows of a line; None if the line does not have it."""
    if column.measure in ("over", "faster"):
        other = known.get((line["bench"], line["case"], column.beside, line["machine"]))
        same_run = other is not None and other["commit"] == line["commit"]
        if other is None or not same_run:
            return None
        times = float(line["median_s"] / other["median_s"])
        return times if column.measure == "over" else 1 / times
    if column.measure in ("ratio", "slowdown"):
        ratio = float(line.get("ratio", 0))
        return None if not ratio else ratio if column.measure == "ratio" else 1 / ratio
    if column.measure == "count":
        return 1 / float(line["median_s"])
    return float(line["gbps" if column.measure == "rate" else "median_s"])


def text_of(value: float, measure: str) -> str:
    """Returns a number with as many digits as say something."""
    if measure == "time":
        scale, unit = next((one for one in UNITS if value >= one[0]), UNITS[-1])
        return f"{digits(value / scale)} {unit}"
    if measure == "share":
        return f"{value:.0%}"
    if measure == "count":
        return f"{value:,.0f}"
    return digits(value)


def digits(value: float) -> str:
    """Returns two decimals below 10, then one, then none."""
    return f"{value:,.{2 if value < 9.995 else 1 if value < 99.95 else 0}f}"


def draw_pictures(lines: Iterable[Line], folder: Path) -> list[Path]:
    """Draws the pictures of the page into a folder; each names the lines that it was drawn from."""
    import matplotlib

    from .figures import draw_lines

    matplotlib.use("Agg")
    known = by_key(lines)
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    with matplotlib.rc_context({"svg.hashsalt": "tranship", "svg.fonttype": "none"}):
        for part in pictures():
            path = folder / part.name
            draw_lines(part.bench, part.machine, part.lines(known), list(known.values()), path)
            text = re.sub(r"<dc:date>[^<]*</dc:date>", "", path.read_text(encoding="utf-8"))
            text = "\n".join(words.rstrip() for words in text.splitlines())
            path.write_text(f"{text}\n<!-- lines: {part.digest(known)} -->\n", encoding="utf-8")
            drawn.append(path)
    return drawn


def picture_is_current(path: Path, part: Picture, lines: Iterable[Line]) -> bool:
    """Returns whether a picture was drawn from these lines."""
    mark = f"<!-- lines: {part.digest(by_key(lines))} -->"
    return path.exists() and path.read_text(encoding="utf-8").rstrip().endswith(mark)


def write_page(
    path: str | os.PathLike[str] | None = None,
    results: Sequence[str | os.PathLike[str]] | None = None,
) -> list[Path]:
    """Writes the page and its pictures, in a folder beside it; returns the files.

    Args:
        path: The page; default: docs/reference/performance.md of the working folder, then of the
            source tree.
        results: Files of result lines, or folders of them; default: `benchmarks/results`.

    Raises:
        NotFound: There is no folder for the page, or a row has no line.
    """
    lines: list[dict[str, Any]] = []
    for one in results or [folder_of_results()]:
        lines += read_lines(one)
    page = Path(path) if path is not None else PAGE
    if path is None and not page.parent.is_dir():
        page = Path(__file__).resolve().parents[2] / PAGE
    if not page.parent.is_dir():
        raise NotFound(
            f"there is no folder {page.parent} for the page", "run this in the source tree"
        )
    page.write_text(page_text(lines), encoding="utf-8")
    return [page, *draw_pictures(lines, page.with_suffix(""))]
