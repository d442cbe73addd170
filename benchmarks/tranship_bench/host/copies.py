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

from ..harness import Array, Bench, Bytes, Variant, blank, each, random_bytes, same, spoil
from ..registry import measures
from . import cases


def timed(work: Callable[[], object]) -> Callable[[], float]:
    """Returns a function that times `work`, Python's own cost included."""

    def run() -> float:
        begin = time.perf_counter()
        work()
        return time.perf_counter() - begin

    return run


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
    return each(lambda: engine.copy(source, target).wait(), 1)


def host_variants(
    engine: Engine, source: Any, target: Any, raw: tuple[Bytes, Bytes], expected: Bytes
) -> list[Variant]:
    """Returns two variants: the engine, and memcpy of the same bytes on one thread."""
    raw_source, raw_target = raw

    def prepare() -> None:
        spoil(raw_target)

    return [
        Variant(
            "tranship",
            engine_run(engine, source, target),
            lambda: same(raw_target, expected),
            prepare,
            {"timed": "python", "threads": engine.threads},
        ),
        Variant(
            "memcpy",
            memcpy_run(raw_source, raw_target),
            lambda: same(raw_target, raw_source),
            prepare,
            {"timed": "libc", "threads": 1},
        ),
    ]


def numpy_variant(work: Callable[[], None], raw_target: Bytes, expected: Bytes) -> Variant:
    """Returns the variant of NumPy's own assignment."""
    return Variant(
        "numpy",
        timed(work),
        lambda: same(raw_target, expected),
        lambda: spoil(raw_target),
        {"timed": "python", "threads": 1},
    )


@measures("contiguous", "plain copies of 8 to 256 MiB, beside memcpy and NumPy")
def contiguous(bench: Bench) -> None:
    """Measures plain copies beside memcpy and NumPy."""
    with Engine() as engine:
        sizes = [8, 64, 256] if bench.full else [1, 4]
        source, target = random_bytes(sizes[-1] << 20), blank(sizes[-1] << 20)
        for mebibytes in sizes:
            a, b = source[: mebibytes << 20], target[: mebibytes << 20]
            variants = host_variants(engine, a, b, (a, b), a)

            def assign(a: Array = a, b: Array = b) -> None:
                np.copyto(b, a)

            variants.append(numpy_variant(assign, b, a))
            repetitions = bench.pick(31 if mebibytes <= 8 else 11, 2)
            bench.measure(
                f"{mebibytes} MiB", variants, a.size, repetitions=repetitions, baseline="memcpy"
            )


@measures("conversions", "layouts converted on the way, beside memcpy and NumPy")
def conversions(bench: Bench) -> None:
    """Measures every conversion and the copies that coalesce; reports the medians of the ratios."""
    converted: list[tuple[float, float, int]] = []
    coalesced: list[tuple[float, float, int]] = []
    with Engine() as engine:
        for case in cases.conversion_cases(bench.full):
            medians, baseline = convert(bench, engine, case)
            results = coalesced if case.coalesces else converted
            ratio = medians[baseline] / medians["tranship"]
            results.append((ratio, medians["tranship"], case.raw_source.size))
    for name, results, baseline in (
        ("median of the conversions", converted, "memcpy"),
        ("median of those that coalesce", coalesced, "contiguous"),
    ):
        ratio = statistics.median(ratio for ratio, _, _ in results)
        total = sum(count for _, _, count in results)
        seconds = [sum(seconds for _, seconds, _ in results)]
        bench.emit(name, "tranship", total, seconds, baseline, ratio, {"cases": len(results)})


def convert(bench: Bench, engine: Engine, case: cases.Case) -> tuple[dict[str, float], str]:
    """Measures one case; returns its medians and the name of its baseline."""
    spoil(case.raw_target)
    case.numpy()
    expected = case.raw_target.copy()
    raw = (case.raw_source, case.raw_target)
    variants = host_variants(engine, case.source, case.target, raw, expected)
    baseline = "memcpy"
    if case.coalesces:
        baseline = "contiguous"
        plain = host_variants(engine, *raw, raw, case.raw_source)[0]
        plain.name = baseline
        variants.append(plain)
    variants.append(numpy_variant(case.numpy, case.raw_target, expected))
    medians = bench.measure(
        case.name,
        variants,
        case.raw_source.size,
        repetitions=bench.pick(7, 1),
        baseline=baseline,
    )
    return medians, baseline
