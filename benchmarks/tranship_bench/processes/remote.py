"""Copies to and from another process of this machine.

``process``: 256 MiB to and from another process, plain and shared memory, in the same layout and
transposed.
- Follows: DataSpaces-GPU (Euro-Par'23) moves fields like this; here without a server.
- The other process makes the same seeded bytes and compares; only then is there a line.

``pieces``: 8 MiB as 16,384 pieces of 512 B, a stride of 1,024 B on both sides, to another process.
- Follows: Maximal Overlap (IPDPS'16): non-contiguous data at throughput.
- NIXL (`pip install --no-deps nixl-cu13 numpy`) does the same in the same turns:
  `tranship_bench/peers/nixl.py`.
- Warm, as other libraries are measured, and cold. NIXL's processes are stopped while it is not
  their turn: they look for work without pause, and there may be no cores to spare.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tranship.engine import Engine

from ..harness import Array, Bench, SkippedError, Variant, blank, same, spoil
from ..host.copies import engine_run
from ..registry import measures
from . import nixl as peers
from .data import seeded
from .peer import Other

SEED_HERE, SEED_THERE = 1, 2
PIECES, PIECE_BYTES = 16384, 512


@measures("process", "256 MiB to and from another process, in the same layout or not")
def process(bench: Bench) -> None:
    """Measures copies to and from plain and shared arrays, in the same layout and transposed."""
    shape = (8192, 8192) if bench.full else (256, 512)
    with Engine() as engine, Other(engine) as other:
        layouts = ProcessLayouts(bench, engine, other, shape)
        for transposed in (False, True):
            layouts.measure(transposed)


class ProcessLayouts:
    """Arrays here and in the other process, f32, 256 MiB each in full size."""

    def __init__(self, bench: Bench, engine: Engine, other: Other, shape: tuple[int, int]) -> None:
        self.bench = bench
        self.engine = engine
        self.other = other
        self.shape = shape
        self.source = seeded(shape, "f4", SEED_HERE)
        self.there: dict[str, Any] = {}
        for kind in ("plain", "shared"):
            self.there[f"{kind} source"] = other.array(f"{kind} source", kind, shape, "f4")
            other.ask("fill", name=f"{kind} source", seed=SEED_THERE)

    def measure(self, transposed: bool) -> None:
        """Measures all variants of one case, beside the engine's copy in this process."""
        source = self.source.T if transposed else self.source
        target = blank(self.source.nbytes).view("f4").reshape(source.shape)
        expected = np.ascontiguousarray(source)
        got = np.ascontiguousarray(self.got(transposed))
        # A peer's array has no .T: a read into a transposed target here has the same effect.
        final = blank(self.source.nbytes).view("f4").reshape(source.shape)
        variants = [self.here(source, target, expected)]
        for kind in ("plain", "shared"):
            variants.append(self.put(kind, source, transposed))
            variants.append(self.get(kind, final, got, transposed))
        self.bench.measure(
            f"{'transposed' if transposed else 'same layout'}, f4, {self.shape[0]}x{self.shape[1]}",
            variants,
            self.source.nbytes,
            repetitions=self.bench.pick(9, 1),
            baseline="in this process",
        )

    def got(self, transposed: bool) -> Array:
        """Returns the array that a read should bring."""
        there = seeded(self.shape, "f4", SEED_THERE)
        return there.T if transposed else there

    def here(self, source: Array, target: Array, expected: Array) -> Variant:
        """Returns the variant of the engine's copy of the same shape in this process."""
        return Variant(
            "in this process",
            engine_run(self.engine, source, target),
            lambda: same(target, expected),
            lambda: spoil(target),
            {"timed": "python", "threads": self.engine.threads},
        )

    def put(self, kind: str, source: Array, transposed: bool) -> Variant:
        """Returns the variant from here to an array of the other process, which compares it."""
        name = f"{kind} transposed" if transposed else kind
        if name not in self.there:
            self.there[name] = self.other.array(name, kind, source.shape, "f4")
        return Variant(
            f"to a {kind} array",
            engine_run(self.engine, source, self.there[name]),
            self.other.checking(name, SEED_HERE, transposed),
            self.other.preparing(name),
            {"timed": "python"},
        )

    def get(self, kind: str, final: Array, got: Array, transposed: bool) -> Variant:
        """Returns the variant from an array of the other process to memory here."""
        remote = self.there[f"{kind} source"]
        target = final.T if transposed else final
        return Variant(
            f"from a {kind} array",
            engine_run(self.engine, remote, target),
            lambda: same(final, got),
            lambda: spoil(final),
            {"timed": "python"},
        )


@measures("pieces", "8 MiB as 16,384 pieces to another process, beside NIXL")
def pieces(bench: Bench) -> None:
    """Measures many short pieces to another process, beside NIXL where it is installed."""
    count = bench.pick(PIECES, 256)
    columns, stride = PIECE_BYTES // 8, 2 * PIECE_BYTES // 8
    shape = (count, stride)
    source = blank(count * stride * 8).view("f8").reshape(shape)[:, :columns]
    source[...] = seeded((count, columns), "f8", SEED_HERE)
    with Engine() as engine, Other(engine) as other:
        variants = []
        for kind in ("plain", "shared"):
            remote = other.array(kind, kind, shape, "f8")[:, :columns]
            variants.append(
                Variant(
                    f"tranship, {kind} array",
                    engine_run(engine, source, remote),
                    other.checking(kind, SEED_HERE, columns=columns),
                    other.preparing(kind),
                    {"timed": "python"},
                )
            )
        bench.conditions["stride_bytes"] = stride * 8
        case = f"{count} pieces of {PIECE_BYTES} B"
        for cold in (False, True):
            measure_beside_nixl(
                bench,
                f"{case}, cold" if cold else case,
                variants,
                Pieces(count, PIECE_BYTES),
                repetitions=bench.pick(31, 2),
                cold=cold,
            )


@dataclass(frozen=True)
class Pieces:
    """Number of pieces, and bytes of each."""

    count: int
    bytes: int


def measure_beside_nixl(
    bench: Bench,
    case: str,
    variants: list[Variant],
    pieces: Pieces,
    *,
    repetitions: int,
    operations: int = 1,
    cold: bool = False,
) -> dict[str, float]:
    """Measures our variants, and NIXL's in the same turns if NIXL is installed."""
    total = pieces.count * pieces.bytes
    try:
        adapter = peers.Nixl(pieces.count, pieces.bytes, 2 * pieces.bytes)
    except SkippedError as reason:
        bench.say(f"{case}: not beside NIXL: {reason}")
        return bench.measure(case, variants, total, repetitions=repetitions, cold=cold)
    with adapter:
        variants = [*variants, adapter.variant(operations)]
        return bench.measure(
            case, variants, total, repetitions=repetitions, baseline="nixl", cold=cold
        )
