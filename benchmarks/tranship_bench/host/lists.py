"""Lists of pieces between memories: 64 MiB in scattered pieces of 4 KiB and of 512 B.

Each case runs beside one piece of as many bytes along the same way, so that the ratio says what the
list costs.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np

from tranship.engine import Engine

from ..gpu.copies import SHORT_TIMES, Side, gpu_count, gpu_engine
from ..harness import Bench, Bytes, Variant, blank, seeded, waited
from ..processes.peer import Other
from ..registry import measures
from .copies import into

TOTAL_BYTES = 64 << 20
PIECE_BYTES = (4096, 512)


class Scattered:
    """Pieces in random order on both sides. The target becomes `wanted` once they have arrived."""

    def __init__(self, bench: Bench, piece_bytes: int) -> None:
        self.bytes = bench.pick(TOTAL_BYTES, 64 * piece_bytes)
        count = self.bytes // piece_bytes
        order = np.random.default_rng(1)
        read, written = order.permutation(count), order.permutation(count)
        self.offsets = read * piece_bytes, written * piece_bytes, np.full(count, piece_bytes)
        self.wanted: Bytes = seeded((self.bytes,), "u1")
        self.source = np.empty_like(self.wanted)
        self.source.reshape(count, -1)[read] = self.wanted.reshape(count, -1)[written]
        self.case = f"{self.bytes >> 20} MiB in {count} scattered pieces of {piece_bytes} B"

    def run(self, engine: Engine, source: Any, target: Any, times: int = 1) -> Callable[[], float]:
        """Returns a timed copy of the pieces, repeated `times` in a row."""
        return waited(partial(engine.copy_pieces, source, target, *self.offsets), times=times)


def whole(engine: Engine, source: Any, target: Any, times: int = 1) -> Variant:
    """Returns the variant of one piece; the case's own variant checks what arrives."""
    run = waited(partial(engine.copy, source, target), times=times)
    return Variant("one piece", run)


@measures("lists", "64 MiB in scattered pieces, within a process and to another one")
def lists(bench: Bench) -> None:
    """Measures pieces within this process, to another one, and over TCP on loopback."""
    key = secrets.token_hex(32)
    with ExitStack() as stack:
        engine = stack.enter_context(Engine())
        other = stack.enter_context(Other(engine))
        far = stack.enter_context(Engine(transport="network", key=key))
        theirs = {"TRANSHIP_TRANSPORT": "network", "TRANSHIP_KEY": key}
        theirs["TRANSHIP_LISTEN"] = "127.0.0.1:0"
        distant = stack.enter_context(Other(far, theirs))
        for piece_bytes in PIECE_BYTES:
            pieces = Scattered(bench, piece_bytes)
            target = blank(pieces.bytes)
            run = pieces.run(engine, pieces.source, target)
            variants = [
                into(target, pieces.wanted, "tranship", run),
                whole(engine, pieces.source, target),
            ]
            case = f"{pieces.case}, within a process"
            bench.measure(case, variants, pieces.bytes, 9, "one piece")
            for kind in ("plain", "shared"):
                case = f"{pieces.case}, to another process's {kind} memory"
                between(bench, engine, other, pieces.source, kind, case, pieces)
            case = f"{pieces.case}, to another process over TCP on loopback"
            between(bench, far, distant, pieces.source, "plain", case, pieces)


def between(
    bench: Bench,
    engine: Engine,
    other: Other,
    source: Any,
    kind: str,
    case: str,
    pieces: Scattered,
    times: int = 1,
) -> None:
    """Measures pieces to an array of another process."""
    there = other.array("pieces", kind, (pieces.bytes,), "u1")
    path = str(engine.plan(source, there))
    run = pieces.run(engine, source, there, times)
    ours = other.variant("tranship", run, "pieces", path=path)
    variants = [ours, whole(engine, source, there, times)]
    bench.measure(case, variants, pieces.bytes * times, 9, "one piece")
    other.ask("withdraw", name="pieces")


@measures("gpu-lists", "64 MiB of a GPU in scattered pieces, within it and to another process")
def gpu_lists(bench: Bench) -> None:
    """Measures pieces of a GPU: within it, and to the memories of another process."""
    with gpu_engine(bench) as engine, Other(engine) as other:
        far_gpu = f"device{gpu_count(engine) - 1}"
        for piece_bytes in PIECE_BYTES:
            pieces = Scattered(bench, piece_bytes)
            here, target = (Side(engine, "device0", (pieces.bytes,), "u1") for _ in range(2))
            here.write(pieces.source)
            run = pieces.run(engine, here.array, target.array, SHORT_TIMES)
            variants = [
                target.variant("tranship", run, pieces.wanted),
                whole(engine, here.array, target.array, SHORT_TIMES),
            ]
            count = pieces.bytes * SHORT_TIMES
            bench.measure(f"{pieces.case}, within a GPU", variants, count, 7, "one piece")
            for kind in (far_gpu, "shared", "plain"):
                on_gpu = kind == far_gpu
                memory = "GPU" if on_gpu else f"{kind} memory"
                case = f"{pieces.case}, GPU to another process's {memory}"
                times = SHORT_TIMES if on_gpu else 1
                between(bench, engine, other, here.array, kind, case, pieces, times)
