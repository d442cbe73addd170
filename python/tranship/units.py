"""Numbers with their units, for people: the same in text and in pictures.

Sizes are in binary units, as memory is counted (1 GiB = 2^30 bytes); rates in decimal units, as
bandwidths are (1 GB/s = 10^9 bytes a second). Three digits, or four of sizes and seconds, and never
an exponent.
"""

from __future__ import annotations

import math

__all__ = ["bytes_text", "digits", "gbps_text", "rate_text", "seconds_text"]

BYTES = (("B", 1.0), ("KiB", 2.0**10), ("MiB", 2.0**20), ("GiB", 2.0**30), ("TiB", 2.0**40))
RATES = (("B/s", 1.0), ("kB/s", 1e3), ("MB/s", 1e6), ("GB/s", 1e9), ("TB/s", 1e12))
SECONDS = (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0))


def digits(value: float, count: int = 3) -> str:
    """Returns a number with so many significant digits, whole numbers with all of theirs."""
    if value == 0 or not math.isfinite(value):
        return f"{value:.0f}"
    decimals = count - 1 - math.floor(math.log10(abs(value)))
    text = f"{value:,.{max(decimals, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def in_unit(value: float, units: tuple[tuple[str, float], ...], step: float, count: int) -> str:
    """Returns a number in the largest unit of which there is at least one, when rounded."""
    for unit, scale in units:
        number = value / scale
        if abs(number) < step - 0.5 * 10.0 ** (4 - count) or (unit, scale) == units[-1]:
            return f"{digits(number, count)} {unit}"
    raise AssertionError("no unit")


def bytes_text(count: float) -> str:
    """Returns a number of bytes, such as "1.5 GiB"."""
    return in_unit(count, BYTES, 1024.0, 4)


def rate_text(bytes_per_second: float) -> str:
    """Returns a rate, such as "12.3 GB/s"."""
    return in_unit(bytes_per_second, RATES, 1000.0, 3)


def gbps_text(gbps: float) -> str:
    """Returns a rate given in 10^9 bytes a second."""
    return rate_text(gbps * 1e9)


def seconds_text(seconds: float) -> str:
    """Returns a time, such as "86.9 ms", or "86.95 s"."""
    if seconds == 0:
        return "0 s"
    return in_unit(seconds, SECONDS, 1000.0, 4 if seconds >= 1 else 3)
