"""Lists of pieces between memories: 64 MiB in scattered pieces of 4 KiB and of 512 B.

Each case runs beside one piece of as many bytes along the same way, so that the ratio says what the
list costs.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np

from tranship.engine import Engine

from ..gpu.copies import SHORT_TIMES, Side, engine_seconds, gpu_engine
from ..gpu.process import Ways
from ..harness import Array, Bench, Bytes, Variant, blank, same, spoil
from ..processes.data import seeded
from ..processes.peer import Other
from ..registry import measures
from .copies import memcpy_run

TOTAL_BYTES = 64 << 20
PIECE_BYTES = (4096, 512)
SEED = 1
TIMEOUT = 60.0


class Scattered:
    """Pieces in random order on both sides. The target becomes `wanted` once they have arrived."""

    def __init__(self, bench: Bench, piece_bytes: int) -> None:
        self.bytes = bench.pick(TOTAL_BYTES, 64 * piece_bytes)
        count = self.bytes // piece_bytes
        order = np.random.default_rng(SEED)
        read, written = order.permutation(count), order.permutation(count)
        self.offsets = read * piece_bytes, written * piece_bytes, np.full(count, piece_bytes)
        self.wanted: Bytes = seeded((self.bytes,), "u1", SEED)
        self.source = np.empty_like(self.wanted)
        self.source.reshape(count, -1)[read] = self.wanted.reshape(count, -1)[written]
        self.indices = read, written
        self.case = f"{self.bytes >> 20} MiB in {count} scattered pieces of {piece_bytes} B"

    def run(self, engine: Engine, source: Any, target: Any, times: int = 1) -> Callable[[], float]:
        """Returns a timed copy of the pieces, repeated `times` in a row."""

        def seconds() -> float:
            begin = time.perf_counter()
            events = [engine.copy_pieces(source, target, *self.offsets) for _ in range(times)]
            for event in events:
                event.wait(timeout=TIMEOUT)
            return time.perf_counter() - begin

        return seconds


def whole(engine: Engine, source: Any, target: Any, times: int = 1) -> Variant:
    """Returns the variant of one piece; the case's own variant checks what arrives."""
    return Variant(
        "one piece",
        lambda: engine_seconds(engine, [(source, target)] * times),
        lambda: True,
        lambda: None,
        {"timed": "python"},
    )


def memcpy(source: Bytes, target: Bytes) -> Variant:
    """Returns the variant of one thread's memcpy within this process."""
    return Variant("memcpy", memcpy_run(source, target), lambda: True, lambda: None)


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
            within(bench, engine, pieces)
            for kind in ("plain", "shared"):
                way = f"to another process's {kind} memory"
                between(bench, engine, other, kind, way, pieces)
            between(bench, far, distant, "plain", "to another process over TCP on loopback", pieces)


def within(bench: Bench, engine: Engine, pieces: Scattered) -> None:
    """Measures pieces within this process, beside NumPy's indexing."""
    target: Array = blank(pieces.bytes).view(np.uint8)
    read, written = pieces.indices

    def indexed() -> float:
        rows = target.reshape(len(read), -1)
        begin = time.perf_counter()
        rows[written] = pieces.source.reshape(len(read), -1)[read]
        return time.perf_counter() - begin

    def check() -> bool:
        return same(target, pieces.wanted)

    def prepare() -> None:
        spoil(target)

    ours = pieces.run(engine, pieces.source, target)
    bench.measure(
        f"{pieces.case}, within a process",
        [
            Variant("tranship", ours, check, prepare, {"timed": "python"}),
            whole(engine, pieces.source, target),
            Variant("NumPy's indexing", indexed, check, prepare, {"timed": "python"}),
            memcpy(pieces.source, target),
        ],
        pieces.bytes,
        repetitions=bench.pick(9, 1),
        baseline="one piece",
    )


def between(
    bench: Bench, engine: Engine, other: Other, kind: str, way: str, pieces: Scattered
) -> None:
    """Measures pieces to an array of another process, beside one thread's memcpy."""
    there = other.array("pieces", kind, (pieces.bytes,), "u1")
    here: Array = blank(pieces.bytes).view(np.uint8)
    ours = Variant(
        "tranship",
        pieces.run(engine, pieces.source, there),
        other.checking("pieces", SEED),
        other.preparing("pieces"),
        {"timed": "python", "path": str(engine.plan(pieces.source, there))},
    )
    bench.measure(
        f"{pieces.case}, {way}",
        [ours, whole(engine, pieces.source, there), memcpy(pieces.source, here)],
        pieces.bytes,
        repetitions=bench.pick(9, 1),
        baseline="one piece",
    )
    other.ask("withdraw", name="pieces")


@measures("gpu-lists", "64 MiB of a GPU in scattered pieces, within it and to another process")
def gpu_lists(bench: Bench) -> None:
    """Measures pieces of a GPU: within it, and to the memories of another process."""
    with gpu_engine(bench) as engine, Other(engine) as other:
        ways = Ways(bench, engine, other)
        for piece_bytes in PIECE_BYTES:
            pieces = Scattered(bench, piece_bytes)
            here = Side(engine, "device0", (pieces.bytes,), "u1")
            here.write(pieces.source)
            inside(bench, engine, here, pieces)
            for kind in (ways.far_gpu, "shared", "plain"):
                outside(bench, ways, here, kind, pieces)


def inside(bench: Bench, engine: Engine, here: Side, pieces: Scattered) -> None:
    """Measures pieces within a GPU."""
    target = Side(engine, "device0", (pieces.bytes,), "u1")
    ours = pieces.run(engine, here.array, target.array, SHORT_TIMES)
    bench.measure(
        f"{pieces.case}, within a GPU",
        [
            Variant("tranship", ours, lambda: same(target.read(), pieces.wanted), target.spoil),
            whole(engine, here.array, target.array, SHORT_TIMES),
        ],
        pieces.bytes * SHORT_TIMES,
        repetitions=bench.pick(7, 1),
        baseline="one piece",
        cold=False,
        awake=True,
    )


def outside(bench: Bench, ways: Ways, here: Side, kind: str, pieces: Scattered) -> None:
    """Measures pieces of a GPU to an array of another process."""
    other, engine = ways.other, ways.engine
    there = other.array("pieces", kind, (pieces.bytes,), "u1")
    times = SHORT_TIMES if kind == ways.far_gpu else 1
    name = "GPU" if kind == ways.far_gpu else f"{kind} memory"
    ours = Variant(
        "tranship",
        pieces.run(engine, here.array, there, times),
        other.checking("pieces", SEED),
        other.preparing("pieces"),
        {"path": str(engine.plan(here.array, there))},
    )
    bench.measure(
        f"{pieces.case}, GPU to another process's {name}",
        [ours, whole(engine, here.array, there, times)],
        pieces.bytes * times,
        repetitions=bench.pick(7, 1),
        baseline="one piece",
        cold=False,
        awake=True,
    )
    other.ask("withdraw", name="pieces")
