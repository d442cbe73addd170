"""Quantiles of the ratios of many cases, as result lines and as columns of a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from .harness import Bench

__all__ = ["QUANTILES", "UPPER_QUANTILES", "emit_quantiles"]

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
