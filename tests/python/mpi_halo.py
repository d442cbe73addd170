"""Exchanges the ghost cells of blocks of a grid between processes of MPI."""

from __future__ import annotations

import sys

import numpy as np
from gpu_support import content, filled
from mpi4py import MPI

import tranship as ts

SHAPE, WIDTH = (23, 19, 4), 2
PERIODIC = (False, True)
MEMORY = sys.argv[1]


def start_late(halo: ts.Halo, world: MPI.Comm) -> None:
    """Lets all processes but the first begin only once its first wait has come to its limit."""
    if world.Get_rank() > 0:
        world.recv(source=0, tag=1000)
        halo.start()
    else:
        halo.start()
        if world.Get_size() > 1:
            try:
                halo.wait(0.05)
            except ts.Timeout as error:
                assert "has not come within 0.05 s" in str(error), error
            else:
                raise AssertionError("the first process did not wait for the others")
        for rank in range(1, world.Get_size()):
            world.send("begin", dest=rank, tag=1000)
    halo.wait(30)


def main() -> None:
    world = MPI.COMM_WORLD
    dims = MPI.Compute_dims(world.Get_size(), 2)
    cart = world.Create_cart(dims, periods=PERIODIC)
    place = cart.Get_coords(cart.Get_rank())
    generator = np.random.default_rng(4)
    fields = [generator.random(SHAPE), generator.integers(0, 99, SHAPE, np.int16)]
    cuts = [
        [extent * k // count for k in range(count + 1)]
        for extent, count in zip(SHAPE, dims, strict=False)
    ]
    where = tuple(
        slice(edges[k], edges[k + 1] + 2 * WIDTH) for edges, k in zip(cuts, place, strict=True)
    )
    wanted, blocks = [], []
    for field in fields:
        padded = np.pad(field, ((WIDTH, WIDTH), (0, 0), (0, 0)), constant_values=-1)
        padded = np.pad(padded, ((0, 0), (WIDTH, WIDTH), (0, 0)), mode="wrap")
        wanted.append(padded[where])
        block = np.full_like(padded[where], -1)
        block[WIDTH:-WIDTH, WIDTH:-WIDTH] = wanted[-1][WIDTH:-WIDTH, WIDTH:-WIDTH]
        blocks.append(block)
    with ts.Engine(threads=1, emulated_gpus=1 if MEMORY != "host" else 0) as engine:
        arrays = [filled(engine, block, MEMORY) for block in blocks]
        halo = engine.halo(arrays, (WIDTH, WIDTH, 0), comm=cart)
        for turn in range(3):
            if turn == 0:
                start_late(halo, world)
            else:
                halo.exchange()
            for array, expected in zip(arrays, wanted, strict=True):
                block = np.asarray(content(engine, array)).view(expected.dtype)
                block = block.reshape(expected.shape)
                inner = block[WIDTH:-WIDTH, WIDTH:-WIDTH]
                known = expected >= 0
                assert np.array_equal(block[known], (expected + turn)[known]), (place, turn)
                assert (block[~known] == -1).all(), (place, turn)
                inner += 1
                engine.copy(block, array).wait()
            world.Barrier()
    print("exchanged", flush=True)


main()
