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

from collections.abc import Callable
from functools import partial

import numpy as np

from tranship.engine import Engine

from .. import _loops
from ..harness import Bench, Variant, blank, mean_of, random_bytes, same, seeded, spoil, timed
from ..processes.peer import Other
from ..processes.remote import measure_beside_nixl
from ..registry import measures
from .copies import into, many

LARGE_COPIES = 6


@measures("small", "4 KiB in a process, 8 B to another one")
def small(bench: Bench) -> None:
    """Measures 4 KiB in this process and 8 B to another one."""
    bench.cold = False
    with Engine() as engine:
        small_here(bench, engine)
        many_here(bench, engine)
        with Other(engine) as other:
            small_there(bench, engine, other)


def small_here(bench: Bench, engine: Engine) -> None:
    """Measures the engine's time for each copy less memcpy's, in each round."""
    source, target = random_bytes(4096), blank(4096)
    count = bench.pick(20000, 500)
    prepared = engine.prepare(source, target)
    addresses = source.ctypes.data, target.ctypes.data, source.nbytes
    python: dict[str, Callable[[], object]] = {
        "tranship from Python": lambda: engine.copy(source, target),
        "tranship prepared, from Python": prepared.start,
        "numpy": lambda: np.copyto(target, source),
    }
    variants = [
        into(target, source, name, mean_of(work, count), copies=count)
        for name, work in python.items()
    ]
    memcpy = partial(_loops.time_memcpy, *addresses, count)
    variants.insert(0, into(target, source, "memcpy", memcpy, timed="core", copies=count))
    case = "4 KiB in this process"
    bench.measure(case, variants, 4096, 15)
    samples = bench.seconds
    for name in list(python)[:2]:
        over = [a - b for a, b in zip(samples[name], samples["memcpy"], strict=True)]
        bench.emit(f"{case}, {name} over memcpy", "difference", 0, over)


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

    def each(work: Callable[[], object]) -> Callable[[], float]:
        run = mean_of(work, rounds)
        return lambda: run() / count

    variants = [into(target, source, name, each(work), pairs=count) for name, work in ways.items()]
    bench.measure(f"{count} pairs of 512 B in this process, each", variants, 0, 15)


def small_there(bench: Bench, engine: Engine, other: Other) -> None:
    """Measures 8 B to a plain and to a shared array, each copy waited for."""
    count = bench.pick(5000, 50)
    source = seeded((1,), "f8")
    variants = []
    for kind in ("plain", "shared"):
        run = many(engine, source, other.array(kind, kind, (1,), "f8"), count)
        name = f"tranship, {kind} array, from Python"
        variants.append(other.variant(name, run, kind, copies=count))
    measure_beside_nixl(bench, "8 B to another process", variants, (1, 8), 15, operations=count)


@measures("priority", "1 MiB at high priority behind six large copies")
def priority(bench: Bench) -> None:
    """Measures from the submission of the small copy to its end, alone and behind large copies."""
    small, target = random_bytes(1 << 20), blank(1 << 20)
    large = random_bytes(bench.pick(64, 2) << 20, 2)
    large_targets = [blank(large.size) for _ in range(LARGE_COPIES)]
    left: list[int] = []  # large copies that had not ended when the small one had

    def prepare() -> None:
        for one in (target, *large_targets):
            spoil(one)

    def arrived() -> bool:
        return same(target, small)

    def all_arrived() -> bool:
        return arrived() and all(same(one, large) for one in large_targets)

    with Engine() as engine:
        alone = timed(lambda: engine.copy(small, target, priority=10).wait())

        def behind() -> float:
            events = [engine.copy(large, one) for one in large_targets]
            elapsed = alone()
            left.append(sum(not event.done() for event in events))
            for event in events:
                event.wait()
            return elapsed

        words = f"behind {LARGE_COPIES} x {large.size >> 20} MiB"
        ways = [
            Variant("alone", alone, arrived, prepare),
            Variant(words, behind, all_arrived, prepare),
        ]
        case = "1 MiB at high priority"
        bench.measure(case, ways, small.size, 41, "alone")
    ninth = {name: [float(np.quantile(found, 0.9))] for name, found in bench.seconds.items()}
    conditions = {"statistic": "90th percentile", "large_copies_left": left[1:]}
    bench.report(f"{case}, 90th percentile", ninth, small.size, "alone", conditions)
