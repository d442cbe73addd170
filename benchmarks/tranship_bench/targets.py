"""Targets of the benchmarks, which `targets.toml` has, and whether result lines reach them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .results import Line

FILE = Path(__file__).with_name("targets.toml")


@dataclass(frozen=True)
class Target:
    """A bound on a number of the lines of a benchmark.

    Attributes:
        bench: Name of the benchmark.
        case: Pattern that the case's name begins with.
        variant: Pattern that the variant's name begins with.
        measure: "ratio" (times as fast as the baseline), "slowdown" (its inverse), "gbps",
            "median_s" or "share" (of the cases).
        bound: Least value; for "slowdown" and "median_s", the largest value.
        baseline: Baseline of the lines; "": any.
    """

    bench: str
    case: str
    variant: str
    measure: str
    bound: float
    baseline: str = ""

    @property
    def what(self) -> str:
        """Returns what is bounded, in words."""
        words = f"{self.case or 'each case'}, {self.variant}".removesuffix(", ")
        words = re.sub(r"[()$]|\.\*", "", words.replace("|", " or ")).strip()
        return f"{words}, over {self.baseline}" if self.baseline else words

    @property
    def at_most(self) -> bool:
        """Returns whether less is better."""
        return self.measure in ("slowdown", "median_s")

    def text(self, value: float) -> str:
        """Returns a value of this measure with its unit."""
        if self.measure == "median_s":
            return f"{value * 1e6:.2f} us"
        if self.measure == "share":
            return f"{value:.0%}"
        return f"{value:.2f} GB/s" if self.measure == "gbps" else f"{value:.2f} x"


TARGETS = [
    Target(bench, case, variant, measure, bound, *baseline)
    for measure, benches in tomllib.loads(FILE.read_text(encoding="utf-8")).items()
    for bench, rows in benches.items()
    for case, variant, bound, *baseline in rows
]


@dataclass(frozen=True)
class Verdict:
    """A target and the value of a line that it applies to."""

    target: Target
    line: Line
    value: float

    @property
    def met(self) -> bool:
        """Returns whether the target is reached."""
        if self.target.at_most:
            return self.value <= self.target.bound
        return self.value >= self.target.bound


def value_of(measure: str, line: Line) -> float | None:
    """Returns the number that a target bounds; None if the line does not have it."""
    if measure in ("ratio", "slowdown"):
        ratio = line.get("ratio")
        if not ratio:
            return None
        return float(ratio) if measure == "ratio" else 1 / float(ratio)
    return float(line["median_s" if measure == "share" else measure])


def concerns(target: Target, line: Line) -> bool:
    """Returns whether a target applies to a line."""
    return (
        line["bench"] == target.bench
        and target.baseline in ("", line.get("baseline"))
        and re.match(target.case, line["case"]) is not None
        and re.match(target.variant, line["variant"]) is not None
    )


def judge(lines: Iterable[Line]) -> Iterator[Verdict]:
    """Yields a verdict for each line and measure with a target; lines of small size do not count.

    Of several targets with one measure, the first one applies.
    """
    for line in lines:
        if line.get("conditions", {}).get("size") == "small":
            continue
        judged = set()
        for target in TARGETS:
            if target.measure in judged or not concerns(target, line):
                continue
            judged.add(target.measure)
            value = value_of(target.measure, line)
            if value is not None:
                yield Verdict(target, line, value)
