"""The paper's measurements, from a file of ``expected/``, and the check of lines."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tranship.errors import Error, NotFound

__all__ = ["Expectation", "expectations_of", "measure_of", "parse"]

Line = dict[str, Any]
Bound = Literal["near", "at least", "at most"]

FOLDER = Path(__file__).resolve().parents[1] / "expected"
"""Folder with a file for each simulated benchmark."""

BOUNDS: tuple[Bound, ...] = ("near", "at least", "at most")
SIZES = ("any", "full", "small")


@dataclass(frozen=True)
class Expectation:
    """A number that lines of a benchmark should show.

    Attributes:
        case: Case of the lines that are compared; empty: every case.
        variant: Variant of the lines that are compared; empty: every variant.
        measure: Key of the line, or of its "values".
        value: Number of the paper, or one that follows from its numbers.
        tolerance: Fraction of `value` by which a line may differ.
        bound: "near": a line may be off to either side; "at least", "at most": to one side alone.
        machine: Profile for which the value holds.
        size: Size of the benchmark for which the value holds; "any": both.
        reason: Reason for the value and for the tolerance.
    """

    case: str
    variant: str
    measure: str
    value: float
    tolerance: float
    bound: Bound
    machine: str
    size: str
    reason: str

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
            "value": self.value,
            "tolerance": self.tolerance,
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
    values: dict[str, Any] = line.get("values", {})
    found = line.get(measure, values.get(measure))
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
    """Returns the entries of such a file."""
    try:
        content = json.loads(text)
        entries = content["expect"]
        return [read_entry(entry, content) for entry in entries]
    except (ValueError, KeyError, TypeError) as error:
        raise Error(
            f"{path} does not say what is expected ({error!r}); write it as "
            '{"source", "machine", "expect": [{"case", "variant", "measure", "value", '
            '"tolerance", "reason"}]}'
        ) from None


def read_entry(entry: dict[str, Any], content: dict[str, Any]) -> Expectation:
    """Returns one entry; a machine that the file names once applies to all entries."""
    bound = entry.get("bound", "near")
    size = entry.get("size", "any")
    if bound not in BOUNDS or size not in SIZES:
        raise ValueError(f"bound {bound!r}, size {size!r}")
    if not entry["reason"]:
        raise ValueError("an empty reason")
    return Expectation(
        case=entry.get("case", ""),
        variant=entry.get("variant", ""),
        measure=entry["measure"],
        value=float(entry["value"]),
        tolerance=float(entry["tolerance"]),
        bound=bound,
        machine=entry.get("machine", content["machine"]),
        size=size,
        reason=entry["reason"],
    )
