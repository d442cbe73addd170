"""Copies to and from another process of this machine.

``process``: 256 MiB to and from another process, plain and shared memory, in the same layout and
transposed.
- Follows: DataSpaces-GPU (Euro-Par'23) moves fields like this; here without a server.
- The other process makes the same seeded bytes and compares; only then is there a line.

``pieces``: 8 MiB as 16,384 pieces of 512 B, a stride of 1,024 B on both sides, to another process.
- Follows: Maximal Overlap (IPDPS'16): non-contiguous data at throughput.
- NIXL (`pip install --no-deps nixl-cu13 numpy`) does the same in the same turns:
  `tranship_bench/peers/nixl.py`.
- Warm, as other libraries are measured. NIXL's processes are stopped while it is not their turn:
  they look for work without pause, and there may be no cores to spare.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import numpy as np

from tranship.engine import Engine

from ..harness import Array, Bench, SkippedError, Variant, as_bytes, blank_array, seeded
from ..host.copies import engine_run, into
from ..registry import measures
from .nixl import Nixl
from .peer import Other

SEED_THERE = 2
KINDS = ("plain", "shared")
"""Memories of the other process."""
PIECES, PIECE_BYTES = 16384, 512


@measures("process", "256 MiB to and from another process, in the same layout or not")
def process(bench: Bench) -> None:
    """Measures copies to and from plain and shared arrays, in the same layout and transposed."""
    shape = (8192, 8192) if bench.full else (256, 512)
    with Engine() as engine, Other(engine) as other:
        sources = {kind: other.array(f"{kind} source", kind, shape, "f4") for kind in KINDS}
        for kind in KINDS:
            other.ask("fill", name=f"{kind} source", seed=SEED_THERE)
        for transposed in (False, True):
            measure_layout(bench, engine, other, sources, transposed)


def measure_layout(
    bench: Bench, engine: Engine, other: Other, sources: dict[str, Any], transposed: bool
) -> None:
    """Measures puts and gets in one layout, beside the engine's copy in this process."""

    def laid(array: Array) -> Array:
        return array.T if transposed else array

    shape = sources["plain"].shape
    source = laid(seeded(shape, "f4"))
    target, final = (blank_array(source.shape, "f4") for _ in range(2))
    expected = as_bytes(np.ascontiguousarray(source))
    got = as_bytes(np.ascontiguousarray(laid(seeded(shape, "f4", SEED_THERE))))
    run = engine_run(engine, source, target)
    variants = [into(as_bytes(target), expected, "in this process", run, threads=engine.threads)]
    for kind in KINDS:
        name = f"{kind} transposed" if transposed else kind
        there = other.array(name, kind, source.shape, "f4")
        run = engine_run(engine, source, there)
        words = f"to a {kind} array"
        variants.append(other.variant(words, run, name, transposed))
        run = engine_run(engine, sources[kind], laid(final))
        variants.append(into(as_bytes(final), got, f"from a {kind} array", run))
    case = f"{'transposed' if transposed else 'same layout'}, f4, {shape[0]}x{shape[1]}"
    bench.measure(case, variants, source.nbytes, 9, "in this process")


@measures("pieces", "8 MiB as 16,384 pieces to another process, beside NIXL")
def pieces(bench: Bench) -> None:
    """Measures many short pieces to another process, beside NIXL where it is installed."""
    bench.cold = False
    count = bench.pick(PIECES, 256)
    columns, stride = PIECE_BYTES // 8, 2 * PIECE_BYTES // 8
    shape = (count, stride)
    source = blank_array(shape, "f8")[:, :columns]
    source[...] = seeded((count, columns), "f8")
    with Engine() as engine, Other(engine) as other:
        variants = []
        for kind in KINDS:
            run = engine_run(engine, source, other.array(kind, kind, shape, "f8")[:, :columns])
            name = f"tranship, {kind} array"
            variant = other.variant(name, run, kind, columns=columns)
            variants.append(variant)
        bench.conditions["stride_bytes"] = stride * 8
        case = f"{count} pieces of {PIECE_BYTES} B"
        measure_beside_nixl(bench, case, variants, (count, PIECE_BYTES), 31)


def measure_beside_nixl(
    bench: Bench,
    case: str,
    variants: list[Variant],
    pieces: tuple[int, int],
    repetitions: int,
    operations: int = 1,
) -> None:
    """Measures our variants, and NIXL's in the same turns if NIXL is installed.

    `pieces` are their number and bytes; of `operations` writes of NIXL in a row the mean counts.
    """
    count, piece_bytes = pieces
    baseline = None
    with ExitStack() as stack:
        try:
            nixl = stack.enter_context(Nixl(count, piece_bytes, 2 * piece_bytes))
            variants, baseline = [*variants, nixl.variant(operations)], "nixl"
        except SkippedError as reason:
            bench.say(f"{case}: not beside NIXL: {reason}")
        bench.measure(case, variants, count * piece_bytes, repetitions, baseline)
