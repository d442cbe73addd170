"""Short operations: small copies, a small copy that overtakes large ones.

``small``: 4 KiB inside a process, and 8 B to another process, one after another.
- Follows: Isometry (ICS'18), section 5: the cost of a transfer that moves next to nothing.
- "over memcpy" is the difference in each round; times "from Python" include the interpreter.

``priority``: 1 MiB at high priority behind six copies of 64 MiB at low priority, beside itself
alone.
- Follows: Isometry (ICS'18), section 3.3: workers serve by priority.
- From the submission to the end, with the 90th percentile; `large_copies_left` counts what it
  overtook.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tranship.engine import Engine

from .. import _loops
from ..harness import Bench, Variant, blank, each, random_bytes, same, spoil
from ..processes.data import seeded
from ..processes.peer import Other
from ..processes.remote import SEED_HERE, Pieces, measure_beside_nixl
from ..registry import measures

LARGE_COPIES = 6


@measures("small", "4 KiB in a process, 8 B to another one")
def small(bench: Bench) -> None:
    """Measures 4 KiB in this process and 8 B to another one."""
    with Engine() as engine:
        small_here(bench, engine)
        many_here(bench, engine)
        with Other(engine) as other:
            small_there(bench, engine, other)


def small_here(bench: Bench, engine: Engine) -> None:
    """Measures the engine's time for each copy less memcpy's, in each round."""
    source, target = random_bytes(4096), blank(4096)
    count = bench.pick(20000, 500)

    def variant(name: str, run: Callable[[], float], timed: str) -> Variant:
        return Variant(
            name,
            run,
            lambda: same(target, source),
            lambda: spoil(target),
            {"timed": timed, "copies": count},
        )

    prepared = engine.prepare(source, target)
    names = ("memcpy", "tranship from Python", "tranship prepared, from Python")
    samples: dict[str, list[float]] = {name: [] for name in names}

    def keeping(name: str, run: Callable[[], float]) -> Callable[[], float]:
        def kept() -> float:
            samples[name].append(run())
            return samples[name][-1]

        return kept

    runs: dict[str, tuple[Callable[[], float], str]] = {
        "memcpy": (
            lambda: _loops.time_memcpy(
                source.ctypes.data, target.ctypes.data, source.nbytes, count
            ),
            "core",
        ),
        "tranship from Python": (each(lambda: engine.copy(source, target), count), "python"),
        "tranship prepared, from Python": (each(prepared.start, count), "python"),
    }
    variants = [variant(name, keeping(name, run), timed) for name, (run, timed) in runs.items()]
    numpy_run = each(lambda: np.copyto(target, source), count)
    variants.append(variant("numpy", numpy_run, "python"))
    repetitions = bench.pick(15, 2)
    bench.measure("4 KiB in this process", variants, 4096, repetitions=repetitions, cold=False)
    for name in names[1:]:
        over = [a - b for a, b in zip(samples[name], samples["memcpy"], strict=True)][1:]
        bench.emit(f"4 KiB in this process, {name} over memcpy", "difference", 0, over)


def many_here(bench: Bench, engine: Engine) -> None:
    """Measures many short copies in this process, asked for together; seconds of each of them."""
    count, rounds = bench.pick(1000, 20), bench.pick(20, 2)
    source = random_bytes(count * 512).reshape(count, 512)
    target = blank(source.size).reshape(source.shape)
    pairs = list(zip(source, target, strict=True))
    prepared = engine.prepare_all(pairs)

    def by_numpy() -> None:
        for one, other in pairs:
            np.copyto(other, one)

    ways: dict[str, Callable[[], object]] = {
        "copy_all": lambda: engine.copy_all(pairs).wait(),
        "tranship prepared": lambda: prepared.start().wait(),
        "numpy": by_numpy,
    }

    def run(work: Callable[[], object]) -> Callable[[], float]:
        timed = each(work, rounds)
        return lambda: timed() / count

    conditions = {"timed": "python", "pairs": count}
    variants = [
        Variant(
            name, run(work), lambda: same(target, source), lambda: spoil(target), dict(conditions)
        )
        for name, work in ways.items()
    ]
    repetitions = bench.pick(15, 2)
    case = f"{count} pairs of 512 B in this process, each"
    bench.measure(case, variants, 0, repetitions=repetitions, cold=False)


def small_there(bench: Bench, engine: Engine, other: Other) -> None:
    """Measures 8 B to a plain and to a shared array, each copy waited for."""
    count = bench.pick(5000, 50)
    source = seeded((1,), "f8", SEED_HERE)
    variants = []

    def variant(name: str, there: str, run: Callable[[], float], timed: str) -> Variant:
        return Variant(
            name,
            run,
            other.checking(there, SEED_HERE),
            other.preparing(there),
            {"timed": timed, "copies": count},
        )

    for kind in ("plain", "shared"):
        remote = other.array(kind, kind, (1,), "f8")
        name = f"tranship, {kind} array, from Python"

        def copy(remote: Any = remote) -> None:
            engine.copy(source, remote).wait()

        variants.append(variant(name, kind, each(copy, count), "python"))
    measure_beside_nixl(
        bench,
        "8 B to another process",
        variants,
        Pieces(1, 8),
        repetitions=bench.pick(15, 2),
        operations=count,
    )


@measures("priority", "1 MiB at high priority behind six large copies")
def priority(bench: Bench) -> None:
    """Measures from the submission of the small copy to its end, alone and behind large copies."""
    large = bench.pick(64, 2) << 20
    with Engine() as engine:
        race = Race(engine, large)
        times: dict[str, list[float]] = {"alone": [], "behind": []}
        alone = Variant("alone", race.alone, race.check_small, race.prepare, {"timed": "python"})
        behind = Variant(
            f"behind {LARGE_COPIES} x {large >> 20} MiB",
            race.behind,
            race.check_all,
            race.prepare,
            {"timed": "python"},
        )
        for name, way in (("alone", alone), ("behind", behind)):
            run = way.run

            def kept(run: Callable[[], float] = run, name: str = name) -> float:
                times[name].append(run())
                return times[name][-1]

            way.run = kept
        repetitions = bench.pick(41, 2)
        bench.measure(
            "1 MiB at high priority",
            [alone, behind],
            race.small.size,
            repetitions=repetitions,
            baseline="alone",
        )
        ninth = {name: float(np.quantile(found[1:], 0.9)) for name, found in times.items()}
        conditions = {"statistic": "90th percentile", "large_copies_left": race.left[1:]}
        ratio = ninth["alone"] / ninth["behind"]
        case = "1 MiB at high priority, 90th percentile"
        bench.emit(case, alone.name, race.small.size, [ninth["alone"]], conditions=conditions)
        seconds = [ninth["behind"]]
        bench.emit(case, behind.name, race.small.size, seconds, "alone", ratio, conditions)


class Race:
    """A small copy and the large ones that it should overtake.

    `left` counts, for each race, the large copies that had not ended when the small one had.
    """

    def __init__(self, engine: Engine, large: int) -> None:
        self.engine = engine
        self.small = random_bytes(1 << 20)
        self.small_target = blank(1 << 20)
        self.large = random_bytes(large, 2)
        self.large_targets = [blank(large) for _ in range(LARGE_COPIES)]
        self.left: list[int] = []

    def prepare(self) -> None:
        """Spoils all targets."""
        for target in (self.small_target, *self.large_targets):
            spoil(target)

    def timed_small(self) -> float:
        """Returns the seconds of the small copy at high priority."""
        begin = time.perf_counter()
        self.engine.copy(self.small, self.small_target, priority=10).wait()
        return time.perf_counter() - begin

    def alone(self) -> float:
        """Returns the seconds of the small copy alone."""
        return self.timed_small()

    def behind(self) -> float:
        """Returns the seconds of the small copy behind large ones; waits for those, too."""
        events = [self.engine.copy(self.large, target) for target in self.large_targets]
        elapsed = self.timed_small()
        self.left.append(sum(not event.done() for event in events))
        for event in events:
            event.wait()
        return elapsed

    def check_small(self) -> bool:
        """Returns whether the small copy arrived."""
        return same(self.small_target, self.small)

    def check_all(self) -> bool:
        """Returns whether all copies arrived."""
        large = all(same(target, self.large) for target in self.large_targets)
        return large and self.check_small()
