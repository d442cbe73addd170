"""Sends messages to another process and back: one of two MPI processes that `mpi-messages` starts.

Prints a line of JSON for each case: the seconds of one way, in several samples of each variant.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from mpi4py import MPI

from ..harness import same
from .ddtbench import Part, cases, four, mpi_type, one_of_each, sub_box
from .mpi import Mpi, Way, mean_of_both, measure_together

SAMPLE_S = 5e-3
ROUNDS_MAX = 2000


def more_cases() -> Iterator[tuple[str, Callable[[], list[Part]]]]:
    """Yields DDTBench's cases, and two that MPI libraries find hard."""
    yield from cases()
    for count in (1_000_000, 100_000, 10_000, 1_000):
        yield f"12 B of 24 B {count}", partial(every_second, count)
    for side in (128, 64, 32):
        yield f"box {side} of 192", partial(box, side)


def every_second(count: int) -> list[Part]:
    """Returns three of every six floats."""
    from tranship import types

    array = np.random.default_rng(1).random(6 * count).astype("f4")
    made = types.vector(count, 3, 6, "f4")
    return [Part(array, made, (four(3, count), four(1, 6)))]


def box(side: int) -> list[Part]:
    """Returns a box of an array of 192 x 192 x 192 doubles, as a sub-array."""
    part = sub_box((192, 192, 192), (side, side, side), (8, 8, 8))
    part.array = np.random.default_rng(1).random(192**3)
    return [part]


class Case:
    """One message: two ways to send it, and its bytes side by side."""

    def __init__(self, mpi: Mpi, parts: list[Part]) -> None:
        self.mpi = mpi
        self.parts = parts
        self.elements = [part.elements() for part in parts]
        made = [mpi_type(mpi.mpi, part) for part in parts]
        self.address = 0  # of several arrays: their types have absolute addresses
        if len(parts) == 1:
            self.address = parts[0].array.ctypes.data
            self.whole = made[0].Commit()
        else:
            self.whole = mpi.message([part.array for part in parts], made)
        self.dense = np.zeros(self.whole.Get_size(), np.uint8)

    def ways(self) -> dict[str, Way]:
        """Returns the ways to send the message, by the variant's name."""
        process = ctypes.CDLL(None)
        alone = (self.mpi.library.PMPI_Send, self.mpi.library.PMPI_Recv)
        packed = (process.MPI_Send, process.MPI_Recv)
        dense = self.dense.ctypes.data
        return {
            "mpi": way_by(self.mpi, alone, self.address, 1, self.whole),
            "tranship-mpi": way_by(self.mpi, packed, self.address, 1, self.whole),
            "contiguous": way_by(self.mpi, alone, dense, self.dense.nbytes, MPI.BYTE),
        }

    def check(self, way: Way) -> bool:
        """Returns whether a message brings every byte, and no other, in both directions."""
        before = [part.array.copy() for part in self.parts]
        for receiver in (0, 1):
            if MPI.COMM_WORLD.rank == receiver:
                for part, index in zip(self.parts, self.elements, strict=True):
                    part.array[index] = 0
                way.receive()
            else:
                way.send()
        pairs = zip(self.parts, before, strict=True)
        return all(same(part.array, array) for part, array in pairs)


def way_by(mpi: Mpi, calls: tuple[Any, Any], address: int, count: int, kind: Any) -> Way:
    """Returns the way by the two functions that send and receive elements of a type."""
    send, receive = calls
    handle, world = (mpi.handle(MPI._handleof(one)) for one in (kind, MPI.COMM_WORLD))
    peer, tag = ctypes.c_int(1 - MPI.COMM_WORLD.rank), ctypes.c_int(0)
    items, number = ctypes.c_void_p(address), ctypes.c_int(count)
    status = ctypes.create_string_buffer(MPI._sizeof(MPI.Status))
    return Way(
        lambda: send(items, number, handle, peer, tag, world),
        lambda: receive(items, number, handle, peer, tag, world, status),
    )


def measure(mpi: Mpi, name: str, parts: list[Part]) -> None:
    """Measures one case and prints its line."""
    case = Case(mpi, parts)
    ways = case.ways()
    checks = {variant: partial(case.check, ways[variant]) for variant in ("mpi", "tranship-mpi")}
    timers = {variant: partial(mean_of_both, way) for variant, way in ways.items()}
    measure_together(name, case.dense.nbytes, checks, timers, SAMPLE_S / 2, ROUNDS_MAX)
    case.whole.Free()


def main(size: str) -> None:
    """Measures all cases; in small size the smallest of each."""
    mpi = Mpi()
    for name, make in one_of_each(more_cases()) if size == "small" else more_cases():
        measure(mpi, name, make())


if __name__ == "__main__":
    main(sys.argv[1])
