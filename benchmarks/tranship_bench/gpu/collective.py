"""Boxes of GPUs to all other GPUs of one process by `copy_all`, plain and transposed.

Beside the driver's bare copies of as many bytes, all submitted at once, and PyTorch's copies. The
driver's are each in a stream of its source, the targets one after another or in turns, or in a
stream of its target.

- a matrix of 256 MiB of each GPU in blocks to all other GPUs by `copy_all`: broadcast, scatter, all
  to all; plain and transposed; beside the driver's copies of as many bytes, all at once, in streams
  of their sources or targets, and PyTorch's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tranship.engine import Engine

from ..harness import Bench, Bytes, Variant, random_bytes, same
from ..registry import measures
from .copies import Copy, Side, address_of, find_library, gpu_count, gpu_engine, raw

TIMES = 4
"""Number of operations in a row, whose ends are waited for together."""

Move = tuple[int, int, int, int]
"""GPU and number of the block that is sent; GPU and place of the block among those received."""


def moves_of(operation: str, gpus: int) -> list[Move]:
    """Returns the blocks of an operation that go from one GPU to another."""
    if operation == "broadcast":
        return [(0, block, to, block) for to in range(1, gpus) for block in range(gpus)]
    if operation == "scatter":
        return [(0, to, to, 0) for to in range(1, gpus)]
    pairs = [(one, to) for one in range(gpus) for to in range(gpus) if one != to]
    return [(one, to, to, one - (one > to)) for one, to in pairs]


class Arrays:
    """A matrix on each GPU, cut into blocks of rows, and the blocks that each GPU receives."""

    def __init__(self, engine: Engine, side: int, moves: list[Move], transposed: bool) -> None:
        self.engine = engine
        self.moves = moves
        self.transposed = transposed
        gpus = gpu_count(engine)
        self.rows = side // gpus
        self.received = [
            1 + max((k for _, _, to, k in moves if to == g), default=-1) for g in range(gpus)
        ]
        self.sources = [Side(engine, f"device{k}", (side, side), "f4") for k in range(gpus)]
        self.targets = [
            Side(engine, f"device{k}", self.target_shape(count, side), "f4") if count else None
            for k, count in enumerate(self.received)
        ]
        self.contents = [
            random_bytes(source.nbytes, k + 1) for k, source in enumerate(self.sources)
        ]
        for source, content in zip(self.sources, self.contents, strict=True):
            source.write(content)
        self.nbytes = len(moves) * self.rows * side * 4
        self.wanted = self.expected()

    def target_shape(self, blocks: int, side: int) -> tuple[int, int]:
        """Returns the extents of the array of so many received blocks."""
        rows = blocks * self.rows
        return (side, rows) if self.transposed else (rows, side)

    def pairs(self, sources: list[Any], targets: list[Any]) -> list[tuple[Any, Any]]:
        """Returns the pairs of boxes that are copied."""
        made = []
        for one, block, to, place in self.moves:
            box = sources[one][block * self.rows : (block + 1) * self.rows]
            span = slice(place * self.rows, (place + 1) * self.rows)
            if self.transposed:
                made.append((box.transpose(1, 0), targets[to][:, span]))
            else:
                made.append((box, targets[to][span]))
        return made

    def of_engine(self) -> list[tuple[Any, Any]]:
        """Returns the pairs of the engine's arrays."""
        return self.pairs(
            [source.array for source in self.sources],
            [target.array if target else None for target in self.targets],
        )

    def bare(self, by_source: bool, in_turns: bool) -> list[Copy]:
        """Returns the driver's copies of as many bytes, each in a stream of one of its two GPUs.

        In turns, the first targets of all sources are different GPUs, and so the second ones.
        """
        gpus = len(self.sources)
        copies = []
        for one, block, to, place in sorted(
            self.moves, key=lambda move: (move[2] - move[0]) % gpus if in_turns else 0
        ):
            target = self.targets[to]
            assert target is not None
            count = self.nbytes // len(self.moves)
            source_at = address_of(self.sources[one].array) + block * count
            target_at = address_of(target.array) + place * count
            copies.append((source_at, target_at, count, one if by_source else to))
        return copies

    def spoil(self) -> None:
        """Spoils all targets."""
        for target in self.targets:
            if target:
                target.spoil()

    def expected(self) -> list[Bytes]:
        """Returns what all targets must hold, made by NumPy."""
        sources = [
            content.view(np.float32).reshape(len(content) // 4 // self.side, self.side)
            for content in self.contents
        ]
        wanted: list[Any] = [
            np.empty(self.target_shape(count, self.side), np.float32) for count in self.received
        ]
        for box, into in self.pairs(sources, wanted):
            into[...] = box
        return [array.reshape(-1).view(np.uint8) for array in wanted]

    def right(self) -> bool:
        """Compares all targets with what the sources sent, byte by byte."""
        return all(
            target is None or same(target.read(), data)
            for target, data in zip(self.targets, self.wanted, strict=True)
        )

    @property
    def side(self) -> int:
        """Rows of a matrix."""
        return self.rows * len(self.sources)


def timed(work: Callable[[], Any], wait: Callable[[list[Any]], None]) -> Callable[[], float]:
    """Returns a run that starts some operations in a row, and waits for all."""

    def run() -> float:
        begin = time.perf_counter()
        wait([work() for _ in range(TIMES)])
        return time.perf_counter() - begin

    return run


def torch_variant(arrays: Arrays, torch: Any) -> Callable[[], float]:
    """Returns PyTorch's way: a copy of each box."""
    sources = [
        torch.as_tensor(side.array, device=f"cuda:{k}") for k, side in enumerate(arrays.sources)
    ]
    targets = [
        torch.as_tensor(side.array, device=f"cuda:{k}") if side else None
        for k, side in enumerate(arrays.targets)
    ]
    pairs = arrays.pairs(sources, targets)

    def copy() -> None:
        for box, into in pairs:
            into.copy_(box, non_blocking=True)

    def wait(_: list[Any]) -> None:
        for k in range(len(sources)):
            torch.cuda.synchronize(k)

    return timed(copy, wait)


def measure(bench: Bench, engine: Engine, case: str, arrays: Arrays, torch: Any) -> None:
    """Measures one operation."""
    pairs = arrays.of_engine()

    def wait(events: list[Any]) -> None:
        for event in events:
            event.wait(timeout=60)

    def bare(by_source: bool, in_turns: bool = False) -> Callable[[], float]:
        copies = arrays.bare(by_source, in_turns) * TIMES
        return lambda: raw(engine, copies)

    check, clear = arrays.right, arrays.spoil
    conditions = {"copies": TIMES, "pairs": len(pairs)}
    variants = [
        Variant("tranship", timed(lambda: engine.copy_all(pairs), wait), check, clear, conditions),
        Variant("cudaMemcpyAsync", bare(True), lambda: True, lambda: None, {}),
        Variant("cudaMemcpyAsync in turns", bare(True, True), lambda: True, lambda: None, {}),
        Variant("cudaMemcpyAsync of the targets", bare(False), lambda: True, lambda: None, {}),
    ]
    if torch is not None:
        variants.append(Variant("PyTorch", torch_variant(arrays, torch), check, clear, {}))
    bench.measure(
        case,
        variants,
        arrays.nbytes * TIMES,
        repetitions=bench.pick(7, 1),
        baseline="cudaMemcpyAsync in turns",
        cold=False,
        awake=True,
    )


@measures("gpu-collective", "boxes of GPUs to all other GPUs: broadcast, scatter, all to all")
def gpu_collective(bench: Bench) -> None:
    """Measures broadcasts, scatters and exchanges of all with all."""
    with gpu_engine(bench, 2) as engine:
        gpus = gpu_count(engine)
        torch = find_library(engine, "torch")
        side = bench.pick(8192, 64) // gpus * gpus
        for operation in ("broadcast", "scatter", "all to all"):
            for transposed in (False, True):
                arrays = Arrays(engine, side, moves_of(operation, gpus), transposed)
                layout = "transposed" if transposed else "plain"
                measure(bench, engine, f"{operation}, {gpus} GPUs, {layout}", arrays, torch)
