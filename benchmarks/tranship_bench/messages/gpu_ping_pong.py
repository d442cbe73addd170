"""Sends strided messages between two GPUs by MPI: one of two MPI processes that `gpu-mpi` starts.

Prints a line of JSON for each case: the seconds of one way, in several samples of each variant.
"""

from __future__ import annotations

import ctypes
import sys
import time
from functools import partial
from typing import Any

from mpi4py import MPI

from tranship.engine import Engine

from ..gpu.copies import Copy, Side, address_of, find_library, gpu_count, raw
from ..harness import random_bytes, same
from .ddtbench import Part, mpi_type
from .mpi import Mpi, Timed, Way, mean_of_both, measure_together
from .ping_pong import box, every_second, way_by

SAMPLE_S = 5e-3
ROUNDS_MAX = 200
BLOCKS_MAX = 2000
"""Blocks that are copied one by one, of which the time of all is scaled up."""


class Case:
    """An array on this process's GPU of which a part is sent, and the ways to send it."""

    def __init__(self, mpi: Mpi, engine: Engine, part: Part) -> None:
        self.mpi = mpi
        self.engine = engine
        self.part = part
        self.world = MPI.COMM_WORLD
        self.gpu = min(self.world.rank, gpu_count(engine) - 1)
        self.array = Side(engine, f"device{self.gpu}", (part.array.nbytes,), "u1")
        self.kind = mpi_type(mpi.mpi, part).Commit()
        self.nbytes = self.kind.Get_size()
        self.host = engine.empty((self.nbytes,), "u1", memory="pinned")
        content = [random_bytes(part.array.nbytes, rank + 1) for rank in (0, 1)]
        self.content = content[self.world.rank]
        self.wanted = self.content.copy()
        index = part.elements()
        kind = part.array.dtype
        self.wanted.view(kind)[index] = content[1 - self.world.rank].view(kind)[index]

    def ways(self) -> dict[str, Way]:
        """Returns the ways to send the part, by the variant's name."""
        process = ctypes.CDLL(None)
        calls = (process.MPI_Send, process.MPI_Recv)
        # The unchanged program's way: an array of the GPU, and its type.
        ours = way_by(self.mpi, calls, address_of(self.array.array), 1, self.kind)
        found = {"tranship-mpi": ours}
        torch = find_library(self.engine, "torch")
        if torch is not None:
            found["PyTorch by hand"] = self.by_hand(torch)
        return found

    def by_hand(self, torch: Any) -> Way:
        """Returns what a program does that packs with PyTorch, and sends from host memory."""
        tensor = torch.as_tensor(self.array.array, device=f"cuda:{self.gpu}")
        kind = {4: torch.float32, 8: torch.float64}[self.part.array.dtype.itemsize]
        extents, strides = self.part.box
        strided = tensor.view(kind).as_strided(extents[::-1], strides[::-1], self.part.begin)
        host = torch.from_numpy(self.host).view(kind).view(strided.shape)
        peer = 1 - self.world.rank

        def send() -> None:
            host.copy_(strided.contiguous())
            self.world.Send(self.host, peer)

        def receive() -> None:
            self.world.Recv(self.host, peer)
            strided.copy_(host.to(tensor.device))
            torch.cuda.synchronize(tensor.device)

        return Way(send, receive)

    def block_by_block(self, _: int) -> float:
        """Returns the seconds of a copy for each block, on both sides, without the message."""
        index = self.part.elements() * self.part.array.dtype.itemsize
        run = self.part.box[0][0]
        begins = index[::run][:BLOCKS_MAX]
        nbytes = run * self.part.array.dtype.itemsize
        base, host = address_of(self.array.array), address_of(self.host)
        there: list[Copy] = [
            (base + int(begin), host + k * nbytes, nbytes, self.gpu)
            for k, begin in enumerate(begins)
        ]
        back = [(to, of, count, gpu) for of, to, count, gpu in there]
        blocks = self.nbytes // nbytes
        # One at a time, as a library does that waits for each copy.
        begin = time.perf_counter()
        for one in there[:100] + back[:100]:
            raw(self.engine, [one])
        alone = (time.perf_counter() - begin) / 100
        together = (raw(self.engine, there) + raw(self.engine, back)) / len(begins)
        seconds: float = min(alone, together) * blocks
        return seconds

    def check(self, way: Way) -> bool:
        """Returns whether a message brings every byte, and no other, in both directions."""
        self.array.write(self.content)  # of which the message replaces a part
        self.world.Barrier()
        if self.world.rank == 0:
            way.send()
            way.receive()
            return self.array.holds(self.wanted)
        way.receive()
        arrived = self.array.read()
        self.array.write(self.content)  # what is sent back is this process's own part
        way.send()
        return same(arrived, self.wanted)


def measure(mpi: Mpi, engine: Engine, name: str, part: Part) -> None:
    """Measures one case and prints its line."""
    case = Case(mpi, engine, part)
    ways = case.ways()
    checks = {variant: partial(case.check, way) for variant, way in ways.items()}
    timers: dict[str, Timed] = {
        variant: partial(mean_of_both, way) for variant, way in ways.items()
    }
    timers["a copy for each block"] = case.block_by_block
    measure_together(name, case.nbytes, checks, timers, SAMPLE_S, ROUNDS_MAX)
    case.kind.Free()


def main(size: str) -> None:
    """Measures all cases; in small size the last two."""
    mpi = Mpi()
    cases = [(f"12 B of 24 B {n}", every_second(n)) for n in (1_000_000, 100_000, 10_000, 1_000)]
    cases.append(("box 128 of 192", box(128)))
    with Engine(threads=1) as engine:
        for name, parts in cases if size == "full" else cases[-2:]:
            measure(mpi, engine, name, parts[0])


if __name__ == "__main__":
    main(sys.argv[1])
