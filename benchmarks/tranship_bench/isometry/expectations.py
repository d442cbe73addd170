"""The paper's measurements, from a file of ``expected/``, and the check of lines."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tranship.errors import Error, NotFound

Line = dict[str, Any]

FOLDER = Path(__file__).resolve().parents[1] / "expected"
"""Folder with a file for each simulated benchmark."""


@dataclass(frozen=True)
class Expectation:
    """A number that lines of a benchmark should show.

    Attributes:
        measure: Key of the line, or of its "values".
        value: Number of the paper, or one that follows from its numbers.
        tolerance: Fraction of `value` by which a line may differ.
        reason: Reason for the value and for the tolerance.
        machine: Profile for which the value holds.
        case: Case of the lines that are compared; empty: every case.
        variant: Variant of the lines that are compared; empty: every variant.
        bound: "near": a line may be off to either side; "at least", "at most": to one side alone.
        size: Size of the benchmark for which the value holds; "any": both.
    """

    measure: str
    value: float
    tolerance: float
    reason: str
    machine: str
    case: str = ""
    variant: str = ""
    bound: str = "near"
    size: str = "any"

    def __post_init__(self) -> None:
        if self.bound not in ("near", "at least", "at most"):
            raise ValueError(f"bound {self.bound!r}")
        if self.size not in ("any", "full", "small"):
            raise ValueError(f"size {self.size!r}")
        if not self.reason or not abs(self.value * self.tolerance) < float("inf"):
            raise ValueError("an empty reason, or no number")

    def concerns(self, line: Line, size: str) -> bool:
        """Returns whether the expectation applies to a line of a size."""
        return (
            self.case in ("", line["case"])
            and self.variant in ("", line["variant"])
            and self.machine == line["machine"]
            and self.size in ("any", size)
        )

    def holds(self, measured: float) -> bool:
        """Returns whether a measured number agrees."""
        slack = abs(self.value) * self.tolerance
        low = measured >= self.value - slack
        high = measured <= self.value + slack
        return (low or self.bound == "at most") and (high or self.bound == "at least")

    def as_line(self) -> dict[str, Any]:
        """Returns the expectation's entry in a result line."""
        return {
            "measure": self.measure,
            "value": float(self.value),
            "tolerance": float(self.tolerance),
            "bound": self.bound,
        }

    def text(self, line: Line, measured: float) -> str:
        """Returns a description of how a line deviates."""
        return (
            f"{line['case']}, {line['variant']}: {self.measure} is {measured:.4g}, expected "
            f"{self.bound} {self.value:.4g} (tolerance {self.tolerance:.1%})"
        )


def measure_of(line: Line, measure: str) -> float | None:
    """Returns a number of a line by its name; None if the line has no such number."""
    found = line.get(measure, line.get("values", {}).get(measure))
    return float(found) if isinstance(found, int | float) else None


def expectations_of(bench: str) -> list[Expectation]:
    """Returns the expectations of a benchmark.

    Raises:
        NotFound: The benchmark has no file of them.
        Error: The file is malformed.
    """
    path = FOLDER / f"{bench}.json"
    if not path.is_file():
        raise NotFound(f"there is no file {path}", "install the package again")
    return parse(path.read_text(encoding="utf-8"), path)


def parse(text: str, path: Path) -> list[Expectation]:
    """Returns the entries of such a file; a machine that it names once applies to all."""
    try:
        content = json.loads(text)
        machine = {"machine": content["machine"]}
        return [Expectation(**(machine | entry)) for entry in content["expect"]]
    except (ValueError, KeyError, TypeError) as error:
        raise Error(
            f"{path} does not say what is expected ({error!r}); write it as "
            '{"source", "machine", "expect": [{"case", "variant", "measure", "value", '
            '"tolerance", "reason"}]}'
        ) from None
