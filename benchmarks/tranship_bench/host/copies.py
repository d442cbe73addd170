"""Copies inside this process: contiguous, with a conversion, and on several numbers of cores.

``contiguous``: Plain copies of 8, 64 and 256 MiB from cold memory, beside `memcpy` on one thread
and NumPy.
- Follows: Isometry (ICS'18), section 5: what a channel of host memory is worth.
- The caches are flushed and the target is spoiled before each repetition; large copies bypass the
  cache.

``conversions``: AOS and SOA, 2-D and 3-D transposes, images, blocked layouts, and copies that only
look like conversions.
- Follows: Isometry (ICS'18), sections 2 and 5: layouts and the cost of changing them.
- The last two lines are the medians over the cases. NumPy's own assignment is both the oracle and a
  peer.
"""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tranship.engine import Engine

from ..harness import Bench, Bytes, Variant, blank, mean_of, random_bytes, same, spoil, timed
from ..registry import measures
from . import cases


def memcpy_run(source: Bytes, target: Bytes) -> Callable[[], float]:
    """Returns a function that times one call of the C library's memcpy, called by its address.

    A call by address keeps a compiler's inline code out. The call from Python costs about 1 us,
    which is small beside a copy of many microseconds.
    """
    call = ctypes.CDLL(None).memcpy
    call.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    call.restype = ctypes.c_void_p
    arrays = source, target  # the addresses alone do not keep them
    to, of, count = target.ctypes.data, source.ctypes.data, source.nbytes

    def run(_: object = arrays) -> float:
        begin = time.perf_counter()
        call(to, of, count)
        return time.perf_counter() - begin

    return run


def engine_run(engine: Engine, source: Any, target: Any) -> Callable[[], float]:
    """Returns a function that times one copy, from the call to the copy's end."""
    return timed(lambda: engine.copy(source, target).wait())


def many(engine: Engine, source: Any, target: Any, count: int) -> Callable[[], float]:
    """Returns a function that times one copy of `count` in a row, each waited for."""
    return mean_of(lambda: engine.copy(source, target).wait(), count)


def into(
    target: Bytes, expected: Bytes, name: str, run: Callable[[], float], **how: Any
) -> Variant:
    """Returns the variant that should bring the expected bytes to the target."""
    return Variant(name, run, lambda: same(target, expected), lambda: spoil(target), how)


def engine_variant(
    engine: Engine, source: Any, target: Any, raw_target: Bytes, expected: Bytes, **how: Any
) -> Variant:
    """Returns the variant of the engine's copy."""
    run = engine_run(engine, source, target)
    threads = engine.threads
    return into(raw_target, expected, "tranship", run, threads=threads, **how)


def memcpy_variant(source: Bytes, target: Bytes) -> Variant:
    """Returns the variant of memcpy on one thread."""
    return into(target, source, "memcpy", memcpy_run(source, target), timed="libc", threads=1)


def numpy_variant(work: Callable[[], object], raw_target: Bytes, expected: Bytes) -> Variant:
    """Returns the variant of NumPy's own assignment."""
    return into(raw_target, expected, "numpy", timed(work), threads=1)


@measures("contiguous", "plain copies of 8 to 256 MiB, beside memcpy and NumPy")
def contiguous(bench: Bench) -> None:
    """Measures plain copies beside memcpy and NumPy."""
    with Engine() as engine:
        sizes = [8, 64, 256] if bench.full else [1, 4]
        source, target = random_bytes(sizes[-1] << 20), blank(sizes[-1] << 20)
        for mebibytes in sizes:
            a, b = source[: mebibytes << 20], target[: mebibytes << 20]
            variants = [
                engine_variant(engine, a, b, b, a),
                memcpy_variant(a, b),
                numpy_variant(lambda a=a, b=b: np.copyto(b, a), b, a),  # type: ignore[misc]
            ]
            repetitions = 31 if mebibytes <= 8 else 11
            bench.measure(f"{mebibytes} MiB", variants, a.size, repetitions, "memcpy")


@measures("conversions", "layouts converted on the way, beside memcpy and NumPy")
def conversions(bench: Bench) -> None:
    """Measures every conversion and the copies that coalesce; reports the medians of the ratios."""
    groups: dict[str, list[tuple[float, float, int]]] = {"memcpy": [], "contiguous": []}
    with Engine() as engine:
        for case in cases.conversion_cases(bench.full):
            medians, baseline = convert(bench, engine, case)
            ratio = medians[baseline] / medians["tranship"]
            groups[baseline].append((ratio, medians["tranship"], case.raw_source.size))
    for name, baseline in (
        ("median of the conversions", "memcpy"),
        ("median of those that coalesce", "contiguous"),
    ):
        ratios, seconds, counts = zip(*groups[baseline], strict=True)
        ratio, known = statistics.median(ratios), {"cases": len(ratios)}
        bench.emit(name, "tranship", sum(counts), [sum(seconds)], baseline, ratio, known)


def convert(bench: Bench, engine: Engine, case: cases.Case) -> tuple[dict[str, float], str]:
    """Measures one case; returns its medians and the name of its baseline."""
    raw_source, raw_target = case.raw_source, case.raw_target
    spoil(raw_target)
    case.numpy()
    expected = raw_target.copy()
    variants = [
        engine_variant(engine, case.source, case.target, raw_target, expected),
        memcpy_variant(raw_source, raw_target),
        numpy_variant(case.numpy, raw_target, expected),
    ]
    baseline = "contiguous" if case.coalesces else "memcpy"
    if case.coalesces:
        plain = engine_variant(engine, raw_source, raw_target, raw_target, raw_source)
        plain.name = baseline
        variants.append(plain)
    return bench.measure(case.name, variants, raw_source.size, 7, baseline), baseline
