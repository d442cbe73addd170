"""Result lines: their form, how new ones replace old ones, and the folder that keeps them."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import pytest

from tranship import Error, InvalidArgument
from tranship_bench import benches, results
from tranship_bench.results import key_of, make_line, merge, read_lines

FOLDER = Path(__file__).parents[2] / "benchmarks" / "results"
BYTES_MAX = 2_000_000
"""Largest size of all result lines of the source tree."""


def line(**changes: Any) -> results.Line:
    """Returns a result line with changes; `seed` goes into its conditions."""
    conditions = {name: changes.pop(name) for name in ("seed", "size") if name in changes}
    made = make_line("shapes", "a case", "tranship", "a machine", "abc", 8, [1.0, 2.0, 4.0])
    return made | changes | ({"conditions": conditions} if conditions else {})


def test_a_line_has_the_median_and_the_quartiles_of_its_repetitions() -> None:
    seconds = [0.1, 0.4, 0.2, 0.3, 0.123456789]
    made = make_line("small", "8 B", "tranship", "a machine", "abc", 10**9, seconds)
    first, _, third = statistics.quantiles(seconds, n=4, method="inclusive")
    assert made["median_s"] == 0.2 and made["count"] == 5
    assert made["quartiles_s"] == [pytest.approx(first, rel=1e-4), third]
    assert made["gbps"] == 5.0 and made["checked"] is True
    assert len(str(made["quartiles_s"][0])) == len("0.12346")
    once = make_line("small", "8 B", "tranship", "a machine", "abc", 0, [2e-7])
    assert once["quartiles_s"] == [2e-7, 2e-7] and once["gbps"] == 0.0


def test_the_newest_line_of_a_case_stays(tmp_path: Path) -> None:
    assert merge([line(), line(case="other"), line(bench="small")], tmp_path) == {
        "shapes": 2,
        "small": 1,
    }
    merge([line(commit="new"), line(machine="another", commit="new")], tmp_path)
    kept = read_lines(tmp_path)
    assert [(one["bench"], one["case"], one["machine"], one["commit"]) for one in kept] == [
        ("shapes", "other", "a machine", "abc"),
        ("shapes", "a case", "a machine", "new"),
        ("shapes", "a case", "another", "new"),
        ("small", "a case", "a machine", "abc"),
    ]


def test_a_new_seed_replaces_the_cases_of_another_one_on_the_same_machine(tmp_path: Path) -> None:
    merge([line(case="old", seed=1), line(case="fixed"), line(machine="m", seed=1)], tmp_path)
    merge([line(case="new", seed=2)], tmp_path)
    assert {(one["case"], one["machine"]) for one in read_lines(tmp_path)} == {
        ("fixed", "a machine"),
        ("a case", "m"),
        ("new", "a machine"),
    }


@pytest.mark.parametrize("change", [{"size": "small"}, {"case": "emulated GPUs"}])
def test_small_and_emulated_lines_are_not_kept(tmp_path: Path, change: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument, match=r"small size|emulated GPUs"):
        merge([line(), line(**change)], tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("missing", ["bench", "median_s", "quartiles_s", "count", "checked"])
def test_a_line_without_a_key_is_no_result(tmp_path: Path, missing: str) -> None:
    made = line()
    del made[missing]
    (tmp_path / "a.jsonl").write_text(json.dumps(line()) + "\n" + json.dumps(made) + "\n")
    with pytest.raises(Error, match=r"a\.jsonl:2 is no result line .*" + missing):
        read_lines(tmp_path)


def test_the_command_adds_what_a_benchmark_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "benchmarks" / "results"
    folder.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    lines: list[results.Line] = []
    assert benches.run("planning", size="small", machine="m", report=lines.append) == 0
    for one in lines:
        del one["conditions"]["size"]
    Path("new.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    assert results.main(["new.jsonl"]) == 0
    assert capsys.readouterr().out == f"planning: {len(lines)} lines\n"
    assert read_lines(folder) == lines
    assert results.main(["absent.jsonl"]) == 1
    assert "no file or folder absent.jsonl" in capsys.readouterr().err
    assert results.main([]) == 2


def test_the_results_of_the_source_tree_are_small_and_have_each_case_once() -> None:
    paths = sorted(FOLDER.iterdir())
    assert sum(path.stat().st_size for path in paths) <= BYTES_MAX
    known = dict(benches.list_benches())
    kept = read_lines(FOLDER)
    assert {path.name for path in paths} == {f"{one['bench']}.jsonl" for one in kept}
    assert {one["bench"] for one in kept} <= set(known)
    assert len({key_of(one) for one in kept}) == len(kept) > 1000
    assert not any("seconds" in one or one.get("conditions", {}).get("size") for one in kept)
