"""Quantiles of the ratios of many cases, as result lines and as a table on stderr."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .harness import Bench

WORST_COUNT = 20
"""Number of slow cases that a table names."""

QUANTILES = {"least": 0.0, "tenth": 0.1, "median": 0.5}
"""Names of the quantiles that are reported of speeds over a baseline's."""

UPPER_QUANTILES = {**QUANTILES, "ninth": 0.9, "greatest": 1.0}
"""The same of times, of which the greatest are the bad ones."""


@dataclass
class Outcome:
    """The speed of one random case.

    Attributes:
        name: Name of the case.
        over: Its rate, or its time, over that of the baseline.
        group: Group of cases that it belongs to.
        nbytes: Number of bytes that it moves.
        seconds: Its time.
        over_other: Its rate over that of another library; None where that has no such case.
    """

    name: str
    over: float
    group: str = ""
    nbytes: int = 0
    seconds: float = 0.0
    over_other: float | None = None

    @classmethod
    def of(
        cls, name: str, group: str, nbytes: int, medians: Mapping[str, float], *variants: str
    ) -> Outcome:
        """Returns the speed of the first variant over the second, and over the third if any."""
        variant, baseline, other = variants
        seconds = medians[variant]
        over_other = medians[other] / seconds if other in medians else None
        return cls(name, medians[baseline] / seconds, group, nbytes, seconds, over_other)


def grouped(outcomes: Sequence[Outcome], order: Iterable[str]) -> dict[str, Sequence[Outcome]]:
    """Returns all cases, and those of each group in this order."""
    groups = {group: [one for one in outcomes if one.group == group] for group in order}
    return {"all": outcomes, **groups}


def quantile(values: Sequence[float], share: float) -> float:
    """Returns the value that a share of the others is below: the nearest rank, rounded down."""
    return sorted(values)[math.floor(share * (len(values) - 1))]


def report_quantiles(
    bench: Bench,
    groups: Mapping[str, Sequence[Outcome]],
    baseline: str,
    *,
    other: str = "",
    variant: str = "tranship",
    quantiles: Mapping[str, float] = QUANTILES,
) -> None:
    """Reports a line for each quantile of each group's ratios, and prints a table on stderr.

    The table names the worst cases, and those that are slower than the other library's.

    Args:
        bench: The benchmark.
        groups: The cases by the groups' names; those without cases are left out.
        baseline: Variant that the ratios are over.
        other: Name of the other library, if there is one.
        variant: Variant that was measured.
        quantiles: The quantiles, by their names; of `UPPER_QUANTILES` the greatest are the worst.
    """
    heads = " ".join(f"{name:>8}" for name in quantiles)
    table = [f"{f'{variant} over {baseline}':36} {'cases':>6} {heads}"]
    for group, outcomes in groups.items():
        if not outcomes:
            continue
        known: dict[str, Any] = {"cases": len(outcomes)}
        if other:
            over_other = [one.over_other for one in outcomes if one.over_other is not None]
            known[f"compared_with_{other.lower()}"] = len(over_other)
            known[f"slower_than_{other.lower()}"] = sum(ratio < 1 for ratio in over_other)
        count, seconds = (sum(one.nbytes for one in outcomes), sum(one.seconds for one in outcomes))
        values = {
            name: quantile([one.over for one in outcomes], share)
            for name, share in quantiles.items()
        }
        for name, value in values.items():
            conditions = {**known, "statistic": name}
            case = f"{name} of {group}"
            bench.emit(case, variant, count, [seconds], baseline, value, conditions)
        row = " ".join(f"{value:8.2f}" for value in values.values())
        slower = f"  {known[f'slower_than_{other.lower()}']} slower than {other}" if other else ""
        table.append(f"{group:36} {len(outcomes):6} {row}{slower}")
    every = {id(one): one for outcomes in groups.values() for one in outcomes}
    upper = quantiles is UPPER_QUANTILES
    by_speed = sorted(every.values(), key=lambda one: one.over, reverse=upper)
    for place, one in enumerate(by_speed):
        if place < WORST_COUNT or (one.over_other or 1) < 1:
            table.append(f"{one.over:8.2f}  {one.name}")
    print("\n".join(table), file=sys.stderr)
