"""The checker of histories rejects wrong histories, and accepts a short one of real servers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FAULTS = Path(__file__).resolve().parents[1] / "faults"
sys.path.insert(0, str(FAULTS))

from history import Allowed, Operation, check  # noqa: E402


def put(value: int, begin: float, end: float | None, lower: int = 0, upper: int = 10,
        result: str = "ok", version: int = 1) -> Operation:  # fmt: skip
    return Operation("a", "put", "v", version, lower, upper, begin, end, result, value)


def get(begin: float, end: float, *runs: tuple[int, int, int], result: str = "ok",
        patience: float = 100.0, error: str = "") -> Operation:  # fmt: skip
    return Operation("b", "get", "v", 1, 0, 10, begin, end, result, 0, runs, (), error, patience)


def discard(begin: float, end: float, result: str = "ok") -> Operation:
    return Operation("a", "discard", "v", 1, 0, 0, begin, end, result)


def versions(begin: float, end: float, *listed: int) -> Operation:
    return Operation("b", "versions", "v", 0, 0, 10, begin, end, "ok", listed=listed)


GOOD = {
    "a put and a get": [put(7, 0, 1), get(2, 3, (0, 10, 7))],
    "a put in doubt is seen": [put(7, 0, None, result="unknown"), get(2, 3, (0, 10, 7))],
    "a put in doubt is not seen": [put(7, 0, 9, result="unknown"), get(2, 3, result="waiting")],
    "a put beside the get": [put(7, 0, 5), get(2, 3, result="waiting")],
    "the last of two": [put(7, 0, 1), put(8, 2, 3), get(4, 5, (0, 10, 8))],
    "either of two that overlap in time": [put(7, 0, 3), put(8, 1, 2), get(4, 5, (0, 10, 8))],
    "a late one in doubt hides an earlier": [
        put(7, 0, 1, result="unknown"), put(8, 2, 3), get(4, 5, (0, 10, 7)),
    ],
    "two boxes": [put(7, 0, 1, 0, 5), put(8, 0, 1, 5, 10), get(2, 3, (0, 5, 7), (5, 10, 8))],
    "discarded before": [put(7, 0, 1), discard(2, 3), get(4, 5, result="gone")],
    "discarded while it is put": [put(7, 0, 1), discard(2, 4), put(8, 3, 5)],
    "refused after a discard": [put(7, 0, 1), discard(2, 3), put(8, 4, 5, result="unknown")],
    "discarded meanwhile": [put(7, 0, 1), discard(2, 6), get(4, 5, (0, 10, 7))],
    "versions": [put(7, 0, 1), put(8, 0, 1, version=2), versions(2, 3, 1, 2)],
}  # fmt: skip

BAD = {
    "nobody has put": ([put(7, 0, 1), get(2, 3, (0, 10, 9))], "nobody has put"),
    "a refused put is seen": (
        [put(7, 0, 1, result="refused"), get(2, 3, (0, 10, 7))], "nobody has put",
    ),
    "a foreign version": ([put(7, 0, 1, version=2), get(2, 3, (0, 10, 7))], "nobody has put"),
    "outside of its box": (
        [put(7, 0, 1, 0, 5), put(8, 0, 1, 5, 10), get(2, 3, (0, 10, 7))], "nobody has put",
    ),
    "from the future": ([put(7, 4, 5), get(2, 3, (0, 10, 7))], "was put later"),
    "an old value": (
        [put(7, 0, 1), put(8, 2, 3), get(4, 5, (0, 10, 7))], "8 was put after it",
    ),
    "a torn value": ([put(7, 0, 1), get(2, 3, (0, 4, 7), (4, 10, 0))], "holds 0"),
    "a part of an object": (
        [put(7, 0, 1, 0, 10), put(8, 2, None, 0, 4, "unknown"), get(4, 5, (0, 4, 7), (4, 10, 8))],
        "holds 8",
    ),
    "a gap": ([put(7, 0, 1), get(2, 3, (0, 4, 7))], "missing"),
    "lost": ([put(7, 0, 1), get(2, 3, result="waiting")], "all of its box had been put"),
    "lost and said so": ([put(7, 0, 1), get(2, 3, result="gone")], "all of its box had been put"),
    "seen after its end": (
        [put(7, 0, 1), discard(2, 3), get(4, 5, (0, 10, 7))], "was discarded",
    ),
    "put after its end": ([put(7, 0, 1), discard(2, 3), put(8, 4, 5)], "was discarded"),
    "too late": ([put(7, 0, 1), get(2, 30, (0, 10, 7), patience=5)], "it lasted 28.0 s"),
    "versions out of order": (
        [put(7, 0, 1), put(8, 0, 1, version=2), versions(2, 3, 2, 1)], "rising order",
    ),
    "a version twice": ([put(7, 0, 1), versions(2, 3, 1, 1)], "rising order"),
    "a version of nobody": ([put(7, 0, 1), versions(2, 3, 1, 5)], "never put"),
    "a version left out": (
        [put(k, 0, 1, version=k) for k in (1, 2, 3)] + [versions(2, 3, 1, 3)], "left out",
    ),
    "a value twice": ([put(7, 0, 1), put(7, 2, 3)], "the same value"),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_good_histories_are_accepted(name: str) -> None:
    assert check(GOOD[name]) == []


@pytest.mark.parametrize("name", BAD)
def test_bad_histories_are_refused(name: str) -> None:
    history, text = BAD[name]
    found = check(history)
    assert found and any(text in one for one in found), found


def test_errors_are_of_the_promised_kinds() -> None:
    allowed = Allowed(errors={"get": frozenset({"Timeout"})})
    good = get(2, 3, result="waiting", error="Timeout")
    assert check([good], allowed) == []
    bad = get(2, 3, result="unknown", error="RuntimeError")
    assert "not promised" in check([bad], allowed)[0]


def test_what_may_vanish_may_be_missing() -> None:
    history = [put(7, 0, 1), get(2, 3, result="gone")]
    assert check(history, Allowed(may_vanish=True)) == []


@pytest.mark.parametrize(
    "options",
    [
        ("--seed", "1", "--servers", "1"),
        ("--seed", "2", "--servers", "2", "--transport", "network"),
        ("--seed", "3", "--servers", "3", "--kill-server"),
    ],
    ids=["one", "network", "killed"],
)
def test_a_history_of_real_processes(options: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, str(FAULTS / "histories.py"), "--seconds", "8", *options],
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
