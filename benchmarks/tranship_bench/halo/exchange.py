"""Exchanges halos with the other process: one of two MPI processes that `halo` starts.

Prints a line of JSON for each case: the seconds of one exchange, in samples of each variant.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from mpi4py import MPI

from tranship.engine import Engine
from tranship.halo import Field, all_directions

from ..harness import mean_of
from ..messages.mpi import measure_together
from .cases import CASES, fields_of_block, inside_of

SAMPLE_S = 0.05
ROUNDS_MAX = 500
PERIODIC = (True, True, True)
Exchange = Callable[[], None]
Direction = tuple[int, ...]


class Block:
    """The fields of this process's half of a grid, and its neighbours in a ring."""

    def __init__(self, cells: tuple[int, ...], fields: int, widths: tuple[int, ...]) -> None:
        self.cells = cells
        self.widths = widths
        grid = (MPI.COMM_WORLD.size, 1, 1)
        self.comm = MPI.COMM_WORLD.Create_cart(grid, PERIODIC)
        self.wanted = fields_of_block(cells, fields, widths, grid, tuple(self.comm.coords))
        self.arrays = [array.copy() for array in self.wanted]
        self.fields = [Field(array, widths, "field") for array in self.arrays]

    def filled_by(self, exchange: Exchange) -> bool:
        """Clears the ghost cells; returns whether an exchange makes them those of the others."""
        inside = inside_of(self.widths)
        for array in self.arrays:
            kept = array[inside].copy()
            array[...] = -1
            array[inside] = kept
        exchange()
        pairs = zip(self.arrays, self.wanted, strict=True)
        return all(np.array_equal(array, wanted) for array, wanted in pairs)


def tagged(block: Block) -> Iterator[tuple[Direction, int, int, int]]:
    """Yields each direction, its neighbour's rank, and the tags of what is sent and received."""
    numbers = {each: number for number, each in enumerate(all_directions(block.widths))}
    for direction, number in numbers.items():
        rank = (block.comm.rank + direction[0]) % block.comm.size
        yield direction, rank, number, numbers[tuple(-one for one in direction)]


def with_types(block: Block, anew: bool) -> Exchange:
    """Returns an exchange by MPI types: sub-arrays of all fields in one struct for a neighbour."""

    def made(direction: Direction, inwards: int) -> Any:
        parts, places = [], []
        for field in block.fields:
            slices = field.slices(direction, inwards)
            extents = [part.stop - part.start for part in slices]
            starts = [part.start for part in slices]
            parts.append(MPI.DOUBLE.Create_subarray(field.shape, extents, starts))
            places.append(MPI.Get_address(field.array))
        whole = MPI.Datatype.Create_struct([1] * len(parts), places, parts).Commit()
        for part in parts:
            part.Free()
        return whole

    def make_all() -> list[tuple[Any, Any, int, int, int]]:
        return [
            (made(direction, 1), made(direction, 0), rank, sent, received)
            for direction, rank, sent, received in tagged(block)
        ]

    kept = [] if anew else make_all()

    def exchange() -> None:
        messages = make_all() if anew else kept
        requests = [
            block.comm.Irecv([MPI.BOTTOM, 1, ghosts], rank, tag)
            for _, ghosts, rank, _, tag in messages
        ]
        requests += [
            block.comm.Isend([MPI.BOTTOM, 1, border], rank, tag)
            for border, _, rank, tag, _ in messages
        ]
        MPI.Request.Waitall(requests)
        if anew:
            for border, ghosts, *_ in messages:
                border.Free()
                ghosts.Free()

    return exchange


def with_numpy(block: Block, packs: bool = True) -> Exchange:
    """Returns an exchange that packs and unpacks with NumPy's slices; or its messages alone, which
    any exchange sends.
    """
    messages = []
    for direction, rank, sent, received in tagged(block):
        borders = [field.border(direction) for field in block.fields]
        ghosts = [field.ghosts(direction) for field in block.fields]
        out, got = (np.zeros((len(boxes), *boxes[0].shape)) for boxes in (borders, ghosts))
        messages.append((borders, ghosts, out, got, rank, sent, received))

    def exchange() -> None:
        requests = [block.comm.Irecv(got, rank, tag) for _, _, _, got, rank, _, tag in messages]
        for borders, _, out, _, rank, tag, _ in messages:
            for k, border in enumerate(borders if packs else ()):
                out[k] = border
            requests.append(block.comm.Isend(out, rank, tag))
        MPI.Request.Waitall(requests)
        for _, ghosts, _, got, *_ in messages:
            for k, ghost in enumerate(ghosts if packs else ()):
                ghost[...] = got[k]

    return exchange


def timed(exchange: Exchange, rounds: int) -> float:
    """Returns the seconds of one exchange, as the mean of some."""
    MPI.COMM_WORLD.Barrier()
    return mean_of(exchange, rounds)()


def measure(engine: Engine, name: str, block: Block) -> None:
    """Measures one case and prints its line."""
    halo = engine.halo(block.arrays, block.widths, comm=block.comm)
    ways: dict[str, Exchange] = {
        "tranship": halo.exchange,
        "mpi": with_types(block, anew=False),
        "mpi, types anew": with_types(block, anew=True),
        "numpy": with_numpy(block),
    }
    checks = {variant: partial(block.filled_by, exchange) for variant, exchange in ways.items()}
    ways["contiguous"] = with_numpy(block, packs=False)
    timers = {variant: partial(timed, exchange) for variant, exchange in ways.items()}
    measure_together(name, halo.nbytes, checks, timers, SAMPLE_S, ROUNDS_MAX)


def main(size: str) -> None:
    """Measures all cases; in small size the last alone."""
    cases = list(CASES.items())
    with Engine(threads=1) as engine:
        for name, shape in cases if size == "full" else cases[-1:]:
            measure(engine, name, Block(*shape))


if __name__ == "__main__":
    main(sys.argv[1])
