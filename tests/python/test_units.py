"""Numbers in output: the right unit, three digits, no exponents."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tranship.units import bytes_text, digits, gbps_text, rate_text, seconds_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (2.5e-9, "2.5 ns"),
        (1.06e-3, "1.06 ms"),
        (999.6e-6, "1 ms"),
        (0.08695, "87 ms"),
        (86.95, "86.95 s"),
        (2.3456, "2.346 s"),
        (3600, "3,600 s"),
    ],
)
def test_seconds(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(
    ("rate", "text"),
    [(4.2e4, "42 kB/s"), (3.8e6, "3.8 MB/s"), (12.345e9, "12.3 GB/s"), (4.17e12, "4.17 TB/s")],
)
def test_rates(rate: float, text: str) -> None:
    assert rate_text(rate) == gbps_text(rate / 1e9) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1000, "1,000 B"),
        (1 << 30, "1 GiB"),
        ((1 << 30) - 1, "1 GiB"),
        (1536, "1.5 KiB"),
    ],
)
def test_bytes(count: int, text: str) -> None:
    assert bytes_text(count) == text


@given(st.floats(1e-12, 1e18), st.sampled_from([bytes_text, rate_text, seconds_text, digits]))
def test_no_exponents_and_no_empty_numbers(value: float, form) -> None:
    text = form(value)
    assert "e+" not in text and "e-" not in text
    assert any(letter in "123456789" for letter in text), text
