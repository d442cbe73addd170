"""Copies that convert numbers, beside copies of either width and NumPy's own conversion."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tranship.engine import Engine

from ..harness import Bench, Variant, as_bytes, blank, blank_array, random_bytes, timed
from ..registry import measures
from .copies import engine_run, into, numpy_variant

PAIRS = (
    *(("f8", "f4"), ("f4", "f8"), ("f4", "f2"), ("f2", "f4"), ("f8", "f2"), ("i8", "f8")),
    *(("f8", "i8"), ("i4", "i8"), ("i8", "i4"), ("u1", "f4"), ("f4", "u1"), ("i1", "i2")),
    *(("c16", "c8"), ("c8", "f4"), (">f4", "f4"), (">f8", "f4")),
    *(("f4", "bfloat16"), ("bfloat16", "f4"), ("f4", "float8_e4m3fn"), ("float8_e4m3fn", "f4")),
    *(("bfloat16", "float8_e5m2"), ("float8_e5m2", "bfloat16")),
)


def dtype_of(name: str) -> np.dtype[Any] | None:
    """Returns the type of that name; None for one of ml_dtypes, if that is not installed."""
    if name.startswith(("bfloat", "float8")):
        try:
            import ml_dtypes  # an extra
        except ImportError:
            return None
        dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return dtype
    return np.dtype(name)


def copy_variant(engine: Engine, name: str, side: int, width: int, transposed: bool) -> Variant:
    """Returns the variant of a copy of as many elements of one width, in the same order."""
    target = blank(side * side * width)
    source = random_bytes(side * side * width).view(f"V{width}").reshape(side, side)
    given = source.T if transposed else source
    expected = as_bytes(np.ascontiguousarray(given))
    run = engine_run(engine, given, target.view(f"V{width}").reshape(side, side))
    return into(target, expected, name, run, timed="python", threads=engine.threads)


def cast_and_wait(engine: Engine, source: Any, target: Any) -> None:
    """Copies and converts."""
    engine.copy(source, target, cast="unsafe").wait()


def measure_pair(
    bench: Bench, engine: Engine, names: tuple[str, str], types: list[np.dtype[Any]], side: int
) -> None:
    """Measures one pair of types in one order, and with the source transposed."""
    values = np.random.default_rng(1).integers(0, 100, (side, side)).astype(types[0])
    target = blank_array((side, side), types[1])
    raw = as_bytes(target)
    widths = [one.itemsize for one in types]
    slower = "copy of the source's width" if widths[0] > widths[1] else "copy of the target's width"
    for form, source in (("", values), (", transposed", values.T)):
        expected = as_bytes(np.ascontiguousarray(source.astype(types[1])))
        cast = timed(partial(cast_and_wait, engine, source, target))
        assign = partial(np.copyto, target, source, casting="unsafe")
        variants = [
            into(raw, expected, "tranship", cast, timed="python", threads=engine.threads),
            numpy_variant(assign, raw, expected),
            copy_variant(engine, "copy of the source's width", side, widths[0], form != ""),
            copy_variant(engine, "copy of the target's width", side, widths[1], form != ""),
        ]
        case = f"{names[0]} to {names[1]}{form}"
        bench.measure(case, variants, values.size * max(widths), 9, slower)


@measures("casts", "numbers converted on the way, beside copies of either width and NumPy")
def casts(bench: Bench) -> None:
    """Measures conversions of numbers; bytes are those of the wider type."""
    with Engine() as engine:
        for names in PAIRS:
            types = [dtype_of(name) for name in names]
            if types[0] is None or types[1] is None:
                bench.say(f"{names[0]} to {names[1]} needs ml_dtypes")
                continue
            measure_pair(bench, engine, names, [types[0], types[1]], bench.pick(4096, 128))
