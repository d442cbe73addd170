"""Boxes of GPUs to all other GPUs of one process by `copy_all`, plain and transposed.

A matrix of 256 MiB of each GPU goes in blocks to all other GPUs: broadcast, scatter, all to all.
Beside the driver's bare copies of as many bytes, all submitted at once, and PyTorch's copies. The
driver's are each in a stream of its source, and the targets take turns.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tranship.engine import Engine

from ..harness import Bench, Variant, as_bytes, random_bytes, timed, waited
from ..registry import measures
from .copies import DRIVER, Copy, Side, address_of, bare, find_library, gpu_count, gpu_engine

IN_TURNS = f"{DRIVER} in turns"
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
        self.nbytes = len(moves) * self.rows * side * 4
        self.sources = [Side(engine, f"device{k}", (side, side), "f4") for k in range(gpus)]
        contents = [random_bytes(4 * side * side, k + 1) for k in range(gpus)]
        for source, content in zip(self.sources, contents, strict=True):
            source.write(content)
        self.targets: dict[int, Side] = {}
        wanted: dict[int, Any] = {}
        for gpu in sorted({to for _, _, to, _ in moves}):
            rows = self.rows * (1 + max(place for _, _, to, place in moves if to == gpu))
            shape = (side, rows) if transposed else (rows, side)
            self.targets[gpu] = Side(engine, f"device{gpu}", shape, "f4")
            wanted[gpu] = np.empty(shape, "f4")
        for box, into in self.pairs(
            [one.view("f4").reshape(side, side) for one in contents], wanted
        ):
            into[...] = box
        self.wanted = {gpu: as_bytes(array) for gpu, array in wanted.items()}

    def pairs(self, sources: list[Any], targets: dict[int, Any]) -> list[tuple[Any, Any]]:
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

    def arrays(self, given: Callable[[Side], Any]) -> list[tuple[Any, Any]]:
        """Returns the pairs of boxes of what `given` makes of each side's array."""
        targets = {gpu: given(side) for gpu, side in self.targets.items()}
        return self.pairs([given(side) for side in self.sources], targets)

    def bare(self) -> Variant:
        """Returns the driver's copies of as many bytes, each in a stream of its source.

        The first targets of all sources are different GPUs, and so the second ones.
        """
        gpus = len(self.sources)
        count = self.nbytes // len(self.moves)
        copies: list[Copy] = []
        for one, block, to, place in sorted(
            self.moves, key=lambda move: (move[2] - move[0]) % gpus
        ):
            source_at = address_of(self.sources[one].array) + block * count
            target_at = address_of(self.targets[to].array) + place * count
            copies.append((source_at, target_at, count, one))
        return bare(self.engine, *copies, times=TIMES, name=IN_TURNS)

    def spoil(self) -> None:
        """Spoils all targets."""
        for target in self.targets.values():
            target.spoil()

    def right(self) -> bool:
        """Compares all targets with what the sources sent, byte by byte."""
        return all(side.holds(self.wanted[gpu]) for gpu, side in self.targets.items())


def by_torch(arrays: Arrays, torch: Any) -> Callable[[], float]:
    """Returns PyTorch's way: a copy of each box."""
    pairs = arrays.arrays(lambda side: torch.as_tensor(side.array, device=f"cuda:{side.device}"))

    def copy() -> None:
        for _ in range(TIMES):
            for box, into in pairs:
                into.copy_(box, non_blocking=True)
        for k in range(len(arrays.sources)):
            torch.cuda.synchronize(k)

    return timed(copy)


def measure(bench: Bench, engine: Engine, case: str, arrays: Arrays, torch: Any) -> None:
    """Measures one operation."""
    pairs = arrays.arrays(lambda side: side.array)
    check, clear = arrays.right, arrays.spoil
    conditions = {"copies": TIMES, "pairs": len(pairs)}
    run = waited(partial(engine.copy_all, pairs), times=TIMES)
    variants = [Variant("tranship", run, check, clear, conditions), arrays.bare()]
    if torch is not None:
        variants.append(Variant("PyTorch", by_torch(arrays, torch), check, clear))
    bench.measure(case, variants, arrays.nbytes * TIMES, 7, IN_TURNS)


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
