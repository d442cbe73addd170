"""The page of results is what `tranship figures --page` makes of the result lines."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tranship import NotFound
from tranship.cli import main
from tranship_bench import page
from tranship_bench.page import Column, Row, Table
from tranship_bench.results import Line, make_line, read_lines

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "performance.md"
RESULTS = ROOT / "benchmarks" / "results"


def line(variant: str, seconds: float, ratio: float = 0.0, **changes: Any) -> Line:
    """Returns a line of 8 MiB of the benchmark `contiguous`."""
    made = make_line("contiguous", "8 MiB", variant, "m", "abc", 10**9, [seconds])
    return made | ({"ratio": ratio, "baseline": "memcpy"} if ratio else {}) | changes


def cells(columns: list[Column], *lines: Line) -> tuple[str, list[str]]:
    """Returns the aim and the cells of a row of 8 MiB."""
    row = Row("8 MiB", ("8 MiB",))
    return page.row_cells(Table("contiguous", "", columns, [row]), row, page.by_key(lines))


def test_the_committed_page_is_what_the_command_makes() -> None:
    assert PAGE.read_text(encoding="utf-8") == page.page_text(read_lines(RESULTS)), (
        "make it again with: tranship figures --page"
    )


def test_the_committed_pictures_were_drawn_from_the_lines() -> None:
    lines = read_lines(RESULTS)
    folder = PAGE.with_suffix("")
    assert {path.name for path in folder.iterdir()} == {one.name for one in page.pictures()}
    for one in page.pictures():
        assert page.picture_is_current(folder / one.name, one, lines), one.name


def test_every_kept_benchmark_is_on_a_page() -> None:
    pages = [PAGE, PAGE.with_name("staging-evaluation.md"), *(ROOT / "docs").glob("*/*.md")]
    text = "\n".join(one.read_text(encoding="utf-8") for one in pages)
    benches = {one["bench"] for one in read_lines(RESULTS)}
    assert not [name for name in benches if not re.search(rf"\b{name}\b", text)]


def test_the_command_writes_the_page_where_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "docs" / "reference").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert main(["figures", "--page", str(RESULTS)]) == 0
    written = [Path(name) for name in capsys.readouterr().out.split()]
    assert written[0] == Path("docs/reference/performance.md")
    assert written[0].read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")
    assert all(path.suffix == ".svg" and path.stat().st_size > 5000 for path in written[1:])
    assert main(["figures", "contiguous", "--page"]) == 2
    assert "--page draws all benchmarks, not contiguous" in capsys.readouterr().err


def test_a_value_that_misses_its_aim_is_bold() -> None:
    lines = (line("tranship", 1.0, 1.2), line("numpy", 2.0, 1.5))
    columns = [Column("ours", "m"), Column("theirs", "m", "numpy")]
    assert cells(columns, *lines) == ("≥ 1.3", ["**1.20**", "1.50"])


def test_times_of_another_run_are_marked_and_not_compared() -> None:
    columns = [
        Column("ours", "m", measure="time"),
        Column("theirs", "m", "numpy", "time"),
        Column("over", "m", measure="over", beside="numpy", aim=0.4),
    ]
    ours, theirs = line("tranship", 1.0), line("numpy", 2.0)
    assert cells(columns, ours, theirs) == ("≤ 0.4", ["1.00 s", "2.00 s", "**0.50**"])
    later = theirs | {"commit": "later"}
    assert cells(columns, ours, later) == ("", ["1.00 s", "2.00 s †", ""])


def test_numbers_have_as_many_digits_as_say_something() -> None:
    assert [page.text_of(value, "time") for value in (2.5e-7, 9.999e-6, 0.0123, 1.0)] == [
        *("250 ns", "10.0 µs", "12.3 ms", "1.00 s")
    ]
    assert page.text_of(0.683, "share") == "68%"
    assert page.text_of(94976.4, "count") == "94,976"


def test_a_row_without_lines_is_an_error() -> None:
    with pytest.raises(NotFound, match="no lines of contiguous"):
        cells([Column("ours", "elsewhere")], line("tranship", 1.0))
