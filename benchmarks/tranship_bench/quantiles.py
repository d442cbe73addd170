"""Quantiles of the ratios of many cases, as result lines and as columns of a table."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .harness import Bench

__all__ = [
    *("QUANTILES", "UPPER_QUANTILES", "Outcome", "emit_quantiles", "report_outcomes"),
    "report_ratios",
]

WORST_COUNT = 20
"""Number of slow cases that a table names."""

QUANTILES = {"least": 0.0, "tenth": 0.1, "median": 0.5}
"""Names of the quantiles that are reported of speeds over a baseline's."""

UPPER_QUANTILES = {**QUANTILES, "ninth": 0.9, "greatest": 1.0}
"""The same of times, of which the greatest are the bad ones."""


def quantile(values: Sequence[float], share: float) -> float:
    """Returns the value that a share of the others is below: the nearest rank, rounded down."""
    return sorted(values)[math.floor(share * (len(values) - 1))]


def emit_quantiles(
    bench: Bench,
    group: str,
    values: Sequence[float],
    conditions: Mapping[str, object] | None = None,
    *,
    count: int = 0,
    seconds: float = 0.0,
    baseline: str,
    variant: str = "tranship",
    quantiles: Mapping[str, float] = QUANTILES,
) -> str:
    """Reports a line for each quantile of a group's ratios, and returns them as a table's columns.

    Args:
        bench: The benchmark.
        group: Name of the group.
        values: Ratios over the baseline, one for each case.
        conditions: What else the lines say.
        count: Bytes of all cases.
        seconds: Time of all cases.
        baseline: Variant that the ratios are over.
        variant: Variant that was measured.
        quantiles: The quantiles, by their names.
    """
    columns = ""
    for statistic, share in quantiles.items():
        value = quantile(values, share)
        columns += f" {value:7.2f}"
        known = {"cases": len(values), "statistic": statistic, **(conditions or {})}
        bench.emit(f"{statistic} of {group}", variant, count, [seconds], baseline, value, known)
    return columns


def report_ratios(
    bench: Bench,
    groups: Mapping[str, Sequence[tuple[float, str]]],
    baselines: Mapping[str, str],
    quantiles: Mapping[str, float] = QUANTILES,
) -> None:
    """Reports the quantiles of each group's ratios, and prints them and the worst cases on stderr.

    Args:
        bench: The benchmark.
        groups: Ratio and name of each case, by the group's name.
        baselines: Variant that the ratios of a group are over.
        quantiles: The quantiles, by their names; with `UPPER_QUANTILES` the greatest are the worst.
    """
    for group, found in groups.items():
        baseline = baselines[group]
        ratios = [ratio for ratio, _ in found]
        columns = emit_quantiles(bench, group, ratios, baseline=baseline, quantiles=quantiles)
        print(f"{group}, {len(found)} cases: {', '.join(quantiles)}: {columns}", file=sys.stderr)
        for ratio, case in sorted(found, reverse=quantiles is UPPER_QUANTILES)[:WORST_COUNT]:
            print(f"{ratio:6.2f}  {case}", file=sys.stderr)


@dataclass
class Outcome:
    """The speed of one random case.

    Attributes:
        name: Name of the case.
        group: Group of cases that it belongs to.
        nbytes: Number of bytes that it moves.
        seconds: Its time.
        over: Its rate over that of the baseline.
        over_other: Its rate over that of another library; None where that has no such case.
    """

    name: str
    group: str
    nbytes: int
    seconds: float
    over: float
    over_other: float | None = None

    @classmethod
    def of(
        cls,
        name: str,
        group: str,
        nbytes: int,
        medians: Mapping[str, float],
        variant: str,
        baseline: str,
        other: str,
    ) -> Outcome:
        """Returns the speed of a variant, of the median seconds of all."""
        seconds = medians[variant]
        over_other = medians[other] / seconds if other in medians else None
        return cls(name, group, nbytes, seconds, medians[baseline] / seconds, over_other)


def report_outcomes(
    bench: Bench,
    outcomes: Sequence[Outcome],
    groups: Iterable[str],
    *,
    baseline: str,
    other: str,
    variant: str = "tranship",
) -> None:
    """Reports the quantiles of all cases and of each group, and prints a table on stderr.

    The table names the worst cases, and those that are slower than the other library's.

    Args:
        bench: The benchmark.
        outcomes: The cases.
        groups: Groups in the order of the table; those without cases are left out.
        baseline: Variant that the rates are over.
        other: Name of the other library.
        variant: Variant that was measured.
    """
    heads = " ".join(f"{name:>7}" for name in QUANTILES)
    table = [f"{f'{variant} over {baseline}':36} {'cases':>6} {heads}  slower than {other}"]
    for group in ("all", *groups):
        some = [one for one in outcomes if group in ("all", one.group)]
        if not some:
            continue
        compared = [one.over_other for one in some if one.over_other is not None]
        slower = sum(times < 1 for times in compared)
        word = other.lower()
        row = emit_quantiles(
            bench,
            group,
            [one.over for one in some],
            {f"compared_with_{word}": len(compared), f"slower_than_{word}": slower},
            count=sum(one.nbytes for one in some),
            seconds=sum(one.seconds for one in some),
            baseline=baseline,
            variant=variant,
        )
        table.append(f"{group:36} {len(some):6} {row}  {slower} of {len(compared)}")
    table.append(f"the worst {WORST_COUNT}, and those slower than {other}: both ratios, case")
    by_speed = sorted(outcomes, key=lambda one: one.over)
    for place, one in enumerate(by_speed):
        if place < WORST_COUNT or (one.over_other or 1) < 1:
            beside = "  none" if one.over_other is None else f"{one.over_other:6.2f}"
            table.append(f"{one.over:6.2f} {beside}  {one.name}")
    print("\n".join(table), file=sys.stderr)
