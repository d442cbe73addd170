"""Figure 8 measured: the time until a transfer of high priority ends on this machine.

- A transfer of 64, 16 or 4 MiB at high priority that starts while 1, 4 or 16 transfers of 64 MiB
  are in progress; pinned memory to a GPU (8a), a GPU to another process (8b). Seconds from its
  submission to its end, at four moments of arrival; every byte is compared.
- Follows: Isometry (ICS'18), section 6.2 and Figure 8; the simulated one is `isometry-figure8`.
- Beside it: Realm-style copier threads, which take the hop of the highest priority and move whole
  instances, with memory for two transfers over several hops, given out in the order of submission;
  and this engine without a priority ("first come").
- Where there is no GPU, 8a is host memory to another process, 8b a file to another process.
"""

from __future__ import annotations

import functools
import heapq
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from ..harness import Bench, require
from ..registry import measures
from .measured import WAIT_S, Batch, Ends, WholeHops
from .real_places import Form, LackingError, World, open_world

LOW_POINTS = 2 << 20
HIGH_POINTS = (2 << 20, 1 << 19, 1 << 17)
SMALL_POINTS = 1 << 12
NUMBERS = (1, 4, 16)
THREADS = (1, 2, 4)
HELD = 2
"""Transfers whose whole instances fit pinned memory, as in the simulated figure."""
LOW_TARGETS = 4
"""Instances that the transfers of low priority move in turns; limited to save memory."""
HIGH_PRIORITY = 10

BASELINE = "Realm-style, 1 thread"
GROUPS: dict[str, tuple[Ends, ...]] = {
    "direct": (("ZCM", "FBM"), ("SYS", "SYS*")),
    "multi-hop": (("FBM", "SYS*"), ("DSK", "SYS*")),
}
"""Source and target of each group; the second pair applies where there is no GPU."""

Hop = Callable[[], object]


Ready = tuple[int, int, list[Hop], int, "Future[None]"]
"""A transfer: its negated priority, its order, the hops that are left, its slot, and its end."""


class Copiers:
    """Realm's copier threads (5.1, 6.2).

    A transfer gets memory for its instances in the order of submission; its hops then wait for
    threads by priority. A hop that has begun is not interrupted.
    """

    def __init__(self, threads: int, slots: int) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[tuple[int, int, Callable[[int], list[Hop]], Future[None]]] = deque()
        self._ready: list[Ready] = []
        self._free = list(range(slots))
        self._order = 0
        self._stopping = False
        self._threads = [threading.Thread(target=self._serve) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def submit(self, hops_of: Callable[[int], list[Hop]], priority: int = 0) -> Future[None]:
        """Submits a transfer; `hops_of` returns its hops for the slot that holds its instances."""
        done: Future[None] = Future()
        with self._changed:
            self._order += 1
            self._waiting.append((-priority, self._order, hops_of, done))
            self._admit()
        return done

    def _admit(self) -> None:
        while self._waiting and self._free:
            priority, order, hops_of, done = self._waiting.popleft()
            slot = self._free.pop()
            self._enqueue((priority, order, hops_of(slot), slot, done))

    def _enqueue(self, transfer: Ready) -> None:
        heapq.heappush(self._ready, transfer)
        self._changed.notify()

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ready or self._stopping)
                if not self._ready:
                    return
                transfer = heapq.heappop(self._ready)
            _, _, hops, slot, done = transfer
            try:
                hops.pop(0)()
            except Exception as error:
                hops.clear()
                done.set_exception(error)
            with self._changed:
                if hops:
                    self._enqueue(transfer)
                    continue
                self._free.append(slot)
                self._admit()
            if not done.done():
                done.set_result(None)

    def close(self) -> None:
        """Stops the threads after all submitted transfers have ended."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()


@dataclass
class Race:
    """Transfers of low priority, and one of high priority that starts a moment later."""

    low: Batch
    high: Batch
    number: int

    def engine(self, at: float, priority: int) -> float:
        """Runs the race on this engine; returns the seconds of the high-priority transfer."""
        copy = self.low.world.engine.copy
        sources, targets = self.low.source.views, self.low.target.views
        picks = [k % len(sources) for k in range(self.number)]
        events = [copy(sources[k], targets[k]) for k in picks]
        time.sleep(at)
        begin = time.perf_counter()
        event = copy(self.high.source.views[0], self.high.target.views[0], priority=priority)
        event.wait(timeout=WAIT_S)
        elapsed = time.perf_counter() - begin
        for event in events:
            event.wait(timeout=WAIT_S)
        return elapsed

    def copiers(self, at: float, threads: int, hops: tuple[WholeHops, WholeHops]) -> float:
        """Runs the race on copier threads; returns the seconds of the high-priority transfer."""
        multi = hops[0].near is not None or hops[0].far is not None
        copiers = Copiers(threads, HELD if multi else self.number + 1)
        try:
            picks = [k % len(self.low.source.views) for k in range(self.number)]
            ends = [
                copiers.submit(lambda slot, k=k: hops[0].hops(k, slot))  # type: ignore[misc]
                for k in picks
            ]
            time.sleep(at)
            begin = time.perf_counter()
            urgent = copiers.submit(lambda slot: hops[1].hops(0, slot), HIGH_PRIORITY)
            urgent.result(timeout=WAIT_S)
            elapsed = time.perf_counter() - begin
            for end in ends:
                end.result(timeout=WAIT_S)
            return elapsed
        finally:
            copiers.close()

    def prepare(self) -> None:
        """Prepares both batches, before each repetition."""
        self.low.prepare()
        self.high.prepare()

    def right(self) -> bool:
        """Returns whether the instances of both priorities have arrived."""
        return self.high.target.holds() and self.low.target.holds()


@measures("isometry-figure8-measured", "a transfer of high priority beside others, on this machine")
def figure8(bench: Bench) -> None:
    """Measures direct transfers (8a) and transfers over several hops (8b)."""
    with open_world(bench) as world:
        for group, choices in GROUPS.items():
            for ends in choices:
                try:
                    world.need(*ends)
                    measure_group(bench, world, group, ends)
                    break
                except LackingError as reason:
                    bench.say(f"{group}, {ends[0]} to {ends[1]} left out: {reason}")


def measure_group(bench: Bench, world: World, group: str, ends: Ends) -> None:
    """Measures all sizes of the urgent transfer beside all numbers of other transfers."""
    low_form = Form(bench.pick(LOW_POINTS, SMALL_POINTS))
    for number in NUMBERS if bench.full else NUMBERS[:2]:
        low = Batch.make(world, ends, (low_form, low_form), min(number, LOW_TARGETS))
        for points in HIGH_POINTS if bench.full else (SMALL_POINTS, SMALL_POINTS // 4):
            form = Form(points)
            high = Batch.make(world, ends, (form, form), 1)
            hops = (WholeHops(low, HELD), WholeHops(high, HELD))
            measure_mix(bench, group, Race(low, high, number), hops)
            for one in (*hops, high):
                one.close()
        low.close()


def styles(race: Race, hops: tuple[WholeHops, WholeHops]) -> dict[str, Callable[[float], float]]:
    """Returns the styles: copier threads, first come first served, and priorities."""
    found: dict[str, Callable[[float], float]] = {
        f"Realm-style, {threads} thread{'s' if threads > 1 else ''}": functools.partial(
            race.copiers, threads=threads, hops=hops
        )
        for threads in THREADS
    }
    found["tranship, first come"] = functools.partial(race.engine, priority=0)
    found["tranship"] = functools.partial(race.engine, priority=HIGH_PRIORITY)
    return found


def measure_mix(bench: Bench, group: str, race: Race, hops: tuple[WholeHops, WholeHops]) -> None:
    """Reports the lines of all styles for one mix."""
    source, target = race.low.ends
    size = race.high.bytes >> 10
    case = f"{group}, {source} to {target}, {size} KiB, {race.number} in progress"
    ways = styles(race, hops)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    race.prepare()
    alone_s = race.engine(0.0, 0) / (race.number + 1)
    arrivals = bench.pick(4, 1)
    for turn in range(-1, arrivals):
        for name, way in ways.items():
            race.prepare()
            bench.wait_for_quiet()
            elapsed = way((max(turn, 0) + 0.5) / arrivals * alone_s)
            require(race.right(), f"{case}, {name}")
            if turn >= 0:
                seconds[name].append(elapsed)
    base_s = statistics.median(seconds[BASELINE])
    facts = {
        "group": group,
        "source": source,
        "target": target,
        "in_progress": race.number,
        "low_bytes": race.low.source.form.bytes,
    }
    cuts = {name: statistics.median(times) / base_s for name, times in seconds.items()}
    own = {name: {"normalised": over, "cut": 1 - over} for name, over in cuts.items()}
    bench.report(case, seconds, race.high.bytes, BASELINE, facts, own)
