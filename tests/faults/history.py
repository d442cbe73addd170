"""What a history of a staging service may look like: the checker, a pure function.

A history is a list of operations. Each has a process, a kind, a variable, a version, a box (a range
of indices: the variables here have one dimension), its beginning and its end (None: it has never
ended), a result and, for puts and gets, values. A put writes one number, which no other put of the
history writes, into each cell of its box, so that a get shows of each cell who wrote it.

Results are "ok", "refused" (an error after which nothing can have happened), "unknown" (an error
after which it may have happened, or the process died meanwhile) and "waiting" (a get found nothing
for as long as it waited).
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

FOREVER = float("inf")


@dataclass(frozen=True)
class Operation:
    """One call of one process."""

    process: str
    kind: str
    """put, get, discard, versions or reach (a promise of time alone)"""
    name: str
    version: int = 0
    lower: int = 0
    upper: int = 0
    begin: float = 0.0
    end: float | None = None
    result: str = "ok"
    value: int = 0
    """What a put writes."""
    runs: tuple[tuple[int, int, int], ...] = ()
    """What a get found: (lower, upper, value) of runs of equal values."""
    listed: tuple[int, ...] = ()
    """Versions, in the order in which they came."""
    error: str = ""
    patience: float = FOREVER
    """Seconds that the call may last, by its timeout and what is granted beyond."""

    @property
    def ended(self) -> float:
        return FOREVER if self.end is None else self.end


@dataclass
class Allowed:
    """What the history's servers may do by their options, or by their end."""

    may_vanish: bool = False
    """Versions may go without a discard: a server has died, or keeps a limited number."""
    errors: dict[str, frozenset[str]] = field(default_factory=dict)
    """Kinds of errors that a kind of operation may end with; without an entry: any."""


Key = tuple[str, int]


def covers(put: Operation, cell: int) -> bool:
    return put.lower <= cell < put.upper


def cut(puts: Iterable[Operation], lower: int, upper: int) -> list[tuple[int, int]]:
    """The box in pieces within which the same puts lie."""
    edges = {lower, upper}
    for put in puts:
        edges.update(edge for edge in (put.lower, put.upper) if lower < edge < upper)
    points = sorted(edges)
    return list(itertools.pairwise(points))


class Checker:
    """Finds what is wrong in a history."""

    def __init__(self, history: Iterable[Operation], allowed: Allowed | None = None) -> None:
        self.history = sorted(history, key=lambda one: one.begin)
        self.allowed = allowed or Allowed()
        self.puts: dict[Key, list[Operation]] = defaultdict(list)
        self.discards: dict[Key, list[Operation]] = defaultdict(list)
        self.wrong: list[str] = []
        for one in self.history:
            key = (one.name, one.version)
            if one.kind == "put" and one.result != "refused":
                self.puts[key].append(one)
            if one.kind == "discard" and one.result != "refused":
                self.discards[key].append(one)

    def check(self) -> list[str]:
        values = [one.value for one in self.history if one.kind == "put"]
        if len(values) != len(set(values)):
            self.wrong.append("two puts of the history write the same value")
        for one in self.history:
            self.check_time(one)
            self.check_error(one)
            if one.kind in ("put", "get") and one.result == "ok":
                self.check_discarded(one)
            if one.kind == "get" and one.result == "ok":
                self.check_values(one)
            if one.kind == "get" and one.result in ("waiting", "gone"):
                self.check_absence(one)
            if one.kind == "versions" and one.result == "ok":
                self.check_versions(one)
        return self.wrong

    def say(self, one: Operation, text: str) -> None:
        self.wrong.append(
            f"{one.process} {one.kind} {one.name}@{one.version} [{one.lower}, {one.upper}) "
            f"from {one.begin:.3f} to {one.ended:.3f}: {text}"
        )

    def check_time(self, one: Operation) -> None:
        if one.end is not None and one.end - one.begin > one.patience:
            self.say(one, f"it lasted {one.end - one.begin:.1f} s, and may last {one.patience}")

    def check_error(self, one: Operation) -> None:
        known = self.allowed.errors.get(one.kind)
        if one.error and known is not None and one.error not in known:
            self.say(one, f"it failed with {one.error}, which is not promised")

    def check_values(self, get: Operation) -> None:
        """Each cell shows a put that covers it and that no later one hides."""
        puts = self.puts[(get.name, get.version)]
        place = get.lower
        for lower, upper, value in get.runs:
            if lower != place or upper <= lower:
                self.say(get, f"its cells from {place} on are missing")
            place = upper
            for low, high in cut(puts, lower, upper):
                self.check_cell(get, puts, low, high, value)
        if place != get.upper:
            self.say(get, f"its cells from {place} on are missing")
        self.check_whole(get, puts)

    def check_cell(
        self, get: Operation, puts: list[Operation], low: int, high: int, value: int
    ) -> None:
        writers = [put for put in puts if put.value == value and covers(put, low)]
        if not writers:
            return self.say(get, f"[{low}, {high}) holds {value}, which nobody has put there")
        writer = writers[0]
        if writer.begin > get.ended:
            return self.say(get, f"[{low}, {high}) holds {value}, which was put later")
        for put in puts:
            hidden = (
                put is not writer
                and put.result == "ok"
                and covers(put, low)
                and put.begin > writer.ended
                and put.ended < get.begin
            )
            if hidden and writer.result == "ok":
                self.say(get, f"[{low}, {high}) holds {value}, and {put.value} was put after it")
        return None

    def check_whole(self, get: Operation, puts: list[Operation]) -> None:
        """An object is seen whole: where a get shows some of a put, and no other put that could
        hide the rest lies there, it shows the rest as well."""
        shown = {value for _, _, value in get.runs}
        for put in puts:
            if put.value not in shown:
                continue
            for low, high in cut(puts, max(put.lower, get.lower), min(put.upper, get.upper)):
                others = [
                    o for o in puts if o is not put and covers(o, low) and o.begin < get.ended
                ]
                here = next((v for a, b, v in get.runs if a <= low < b), None)
                if not others and here != put.value:
                    self.say(get, f"[{low}, {high}) holds {here}, and only {put.value} was put")

    def check_discarded(self, one: Operation) -> None:
        """Nothing is found or put after a discard, unless the call had begun before."""
        for discard in self.discards[(one.name, one.version)]:
            if discard.result == "ok" and discard.ended < one.begin:
                self.say(one, f"the version was discarded at {discard.ended:.3f}")

    def check_absence(self, get: Operation) -> None:
        """What was acknowledged before the get began, and never discarded, is found."""
        key = (get.name, get.version)
        if self.allowed.may_vanish:
            return
        if any(discard.begin < get.ended for discard in self.discards[key]):
            return
        puts = [p for p in self.puts[key] if p.result == "ok" and p.ended < get.begin]
        pieces = cut(puts, get.lower, get.upper)
        if all(any(covers(put, low) for put in puts) for low, _ in pieces):
            self.say(get, "it found nothing, and all of its box had been put before")

    def check_versions(self, listing: Operation) -> None:
        """In rising order, each of them put, and none missing between those that stay."""
        listed = listing.listed
        if list(listed) != sorted(set(listed)):
            self.say(listing, f"the versions {listed} are not in rising order")
        for version in listed:
            if not any(put.begin < listing.ended for put in self.puts[(listing.name, version)]):
                self.say(listing, f"version {version} was never put")
        if self.allowed.may_vanish or not listed:
            return
        for (name, version), puts in self.puts.items():
            lasting = name == listing.name and not self.discards[(name, version)]
            between = listed[0] < version < listed[-1] and version not in listed
            there = any(
                put.result == "ok"
                and put.ended < listing.begin
                and put.lower <= listing.lower
                and put.upper >= listing.upper
                for put in puts
            )
            if lasting and between and there:
                self.say(listing, f"version {version} was put before, and is left out")


def check(history: Iterable[Operation], allowed: Allowed | None = None) -> list[str]:
    """What breaks the promises of docs/concepts/staging.md; empty: nothing does."""
    return Checker(history, allowed).check()
