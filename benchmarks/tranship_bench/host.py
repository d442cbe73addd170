"""Copies inside this process: contiguous, with a conversion, and on several numbers of cores."""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tranship.engine import Engine

from . import _loops, cases
from .harness import Array, Bench, Bytes, Variant, blank, random_bytes, same, spoil


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
    """Returns a function that times one copy in the core, from the call to the copy's end."""
    return lambda: _loops.time_copies(engine._core, source, target, 1)[0]


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
            {"timed": "core", "threads": engine.threads},
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


def scaling(bench: Bench) -> None:
    """Measures the same copy and transpose on 1, 2, 4, ... up to all cores."""
    with Engine() as probe:
        cores = probe.threads
    counts = sorted({1, cores, *(1 << k for k in range(10) if 1 << k < cores)})
    engines = {count: Engine(threads=count) for count in counts}
    side = bench.pick(6144, 256)
    raw = random_bytes(side * side * 4)
    source = raw.view("f4").reshape(side, side)
    raw_target = blank(raw.size)
    target = raw_target.view("f4").reshape(side, side)
    try:
        for name, view in (("same layout", source), ("transposed", source.T)):
            expected = np.ascontiguousarray(view).reshape(-1).view(np.uint8)
            variants = []
            for count, engine in engines.items():
                way = host_variants(engine, view, target, (raw, raw_target), expected)[0]
                way.name = f"{count} threads" if count > 1 else "1 thread"
                variants.append(way)
            bench.measure(
                f"{name}, f4, {side}x{side}",
                variants,
                raw.size,
                repetitions=bench.pick(9, 1),
                baseline="1 thread",
            )
    finally:
        for engine in engines.values():
            engine.close()
