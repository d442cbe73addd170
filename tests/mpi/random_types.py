"""Messages of random MPI types between the processes of a ring.

Prints a hash of all that was received; the hash does not depend on who packs. Arguments: a seed and
a number of types.
"""

from __future__ import annotations

import hashlib
import random
import sys

import numpy as np
from mpi4py import MPI

SPAN = 1 << 16
BASIC = [MPI.BYTE, MPI.SHORT, MPI.INT, MPI.DOUBLE, MPI.COMPLEX]


def random_type(draw: random.Random, depth: int) -> MPI.Datatype:
    """Returns a type that was not committed; bases are shared or duplicates."""
    if depth == 0:
        return draw.choice(BASIC)
    base = random_type(draw, depth - 1)
    count, length = draw.randint(1, 4), draw.randint(1, 3)
    lengths = [draw.randint(0, 3) for _ in range(count)]
    extent = max(base.extent, 1)
    places = [4 * k + draw.randint(0, 1) for k in draw.sample(range(count), count)]
    kind = draw.randrange(10)
    if kind == 0:
        return base.Create_contiguous(count)
    if kind == 1:
        return base.Create_vector(count, length, length + draw.randint(0, 3))
    if kind == 2:
        return base.Create_hvector(count, length, extent * length + draw.randint(0, 9))
    if kind == 3:
        return base.Create_indexed(lengths, places)
    if kind == 4:
        return base.Create_hindexed(lengths, [extent * place + 1 for place in places])
    if kind == 5:
        return base.Create_indexed_block(length, places)
    if kind == 6:
        return base.Create_hindexed_block(length, [extent * place + 2 for place in places])
    if kind == 7:
        other = draw.choice(BASIC)
        far = 4 * extent * count + 16
        return MPI.Datatype.Create_struct([1, 2], [0, far], [base, other])
    if kind == 8:
        sizes = [draw.randint(1, 5), draw.randint(1, 5)]
        part = [draw.randint(1, size) for size in sizes]
        starts = [draw.randint(0, size - some) for size, some in zip(sizes, part, strict=True)]
        order = draw.choice([MPI.ORDER_C, MPI.ORDER_F])
        return base.Create_subarray(sizes, part, starts, order)
    return base.Dup().Create_resized(0, base.extent + draw.randint(0, 20))


def drawn_type(draw: random.Random, items: int) -> MPI.Datatype:
    """Returns a committed type of some bytes whose items fit the arrays."""
    while True:
        made = random_type(draw, draw.randint(1, 3))
        lower, size = made.Get_true_extent()
        fits = lower >= 0 and lower + size + (items - 1) * made.extent <= SPAN
        if fits and made.Get_size() > 0 and made.extent >= size:
            return made.Commit()


def exchange(draw: random.Random, made: MPI.Datatype, items: int, received: np.ndarray) -> None:
    """Sends to the next process and receives from the last, in one of several ways."""
    comm = MPI.COMM_WORLD
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    sent = np.random.default_rng(draw.randrange(1 << 30) + comm.rank).integers(
        0, 255, SPAN, dtype=np.uint8
    )
    way = draw.randrange(4)
    fewer = draw.randint(0, items)
    if way == 0:
        comm.Sendrecv([sent, items, made], right, 1, [received, items, made], left, 1)
    elif way == 1:
        requests = [
            comm.Irecv([received, items, made], left, 2),
            comm.Isend([sent, fewer, made], right, 2),
        ]
        MPI.Request.Waitall(requests)
    elif way == 2:
        packed = np.zeros(items * made.Get_size(), np.uint8)
        request = comm.Irecv(packed, left, 3)
        comm.Send([sent, items, made], right, 3)
        request.Wait()
        received[: packed.size] = packed[: received.size]
    else:
        request = comm.Recv_init([received, items, made], left, 4)
        request.Start()
        comm.Ssend([sent, items, made], right, 4)
        request.Wait()
        request.Free()


def main(seed: int, count: int) -> None:
    """Exchanges messages of so many types."""
    draw = random.Random(seed)
    digest = hashlib.sha256()
    for _ in range(count):
        items = draw.randint(1, 5)
        made = drawn_type(draw, items)
        received = np.full(SPAN, 255, np.uint8)
        exchange(draw, made, items, received)
        digest.update(received.tobytes())
        made.Free()
    hashes = MPI.COMM_WORLD.gather(digest.hexdigest())
    if MPI.COMM_WORLD.rank == 0:
        print("received", *hashes)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
