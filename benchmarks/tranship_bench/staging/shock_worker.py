"""A simulation process or a reader process of `staging-shock`, with the demo's solver."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tranship.demo import sedov
from tranship.demo.exchange import HaloExchange, connect
from tranship.demo.settings import Decomposition
from tranship.engine import Engine

from ..harness import same
from .designs import Bounds, Receiver, Sender, within
from .worker import Part, Worker

VARIABLES = ("energy", "pressure", "density")
TIMEOUT_S = 60.0
Three = tuple[int, int, int]
TOLERANCE = 1e-5
"""Tolerance of the compression, as a fraction of the largest value."""


class ShockWorker(Worker):
    """A process that either simulates a block or reads a box of all blocks, by request.

    The data of a version are kept in files, which the readers compare with what they got.
    """

    simulation: Simulation
    folder: Path
    objects: Sequence[Part]

    def keep_in(self, folder: str) -> None:
        """Sets the folder of the files."""
        self.folder = Path(folder)

    def begin_blast(self, rank: int, memory: str, cells: Three, parts: Three) -> str:
        """Makes the block of a simulation; returns the name of the library of its arrays."""
        cut = Decomposition(cells, parts)
        self.simulation = Simulation(self.engine, cut, rank, memory)
        for name in VARIABLES:
            sender = Sender(self.engine, self.client, memory, cut.shape)
            self.senders[name] = (sender, np.empty(cut.shape))
        return str(self.simulation.xp.__name__)

    def meet(self, contacts: Sequence[str]) -> None:
        """Connects the block with the other blocks."""
        self.simulation.meet(contacts)

    def advance(self, version: int) -> None:
        """Computes a time step (the paper has 100), and keeps the data that it made."""
        self.simulation.advance()
        for name, array in zip(VARIABLES, self.simulation.variables(), strict=True):
            sender, held = self.senders[name]
            self.engine.copy(array, sender.source).wait(timeout=TIMEOUT_S)
            self.engine.copy(sender.source, held).wait(timeout=TIMEOUT_S)
            np.save(self.file_of(name, version, self.simulation.rank), held)

    def file_of(self, name: str, version: int, rank: int) -> Path:
        """Returns the file of a block's data; versions take turns, as servers keep few of them."""
        return self.folder / f"{name}-{version % 2}-{rank}.npy"

    def read_box(self, name: str, memory: str, box: Bounds, objects: Sequence[Part]) -> None:
        """Makes the array that `get` fills."""
        self.objects = objects
        parts = [part for part, _, _ in objects]
        receiver = Receiver(self.engine, self.client, memory, box, parts)
        self.receivers[name] = (receiver, np.empty(0))

    def holds(self, name: str, version: int) -> bool:
        """Returns whether an array equals what the simulation held, byte for byte."""
        values, lower = self.got(name), self.receivers[name][0].box[0]
        for part, whole, writer in self.objects:
            held = np.load(self.file_of(name, version, writer), mmap_mode="r")
            expected = np.ascontiguousarray(held[within(part, whole[0])])
            if not same(np.ascontiguousarray(values[within(part, lower)]), expected):
                return False
        return True

    def compress(self) -> float:
        """Compresses what was got; returns the factor of compression, 0 without zfpy."""
        if importlib.util.find_spec("zfpy") is None:
            return 0.0
        import zfpy  # type: ignore[import-not-found,import-untyped,unused-ignore]

        plain, packed = 0, 0
        for name in VARIABLES:
            values = self.got(name)
            tolerance = TOLERANCE * float(np.abs(values).max())
            plain += values.nbytes
            packed += len(zfpy.compress_numpy(values, tolerance=tolerance))
        return plain / packed


class Simulation:
    """One block of the blast: a CuPy array on its GPU, or a NumPy array in host memory."""

    def __init__(self, engine: Engine, cut: Decomposition, rank: int, memory: str) -> None:
        self.engine = engine
        self.rank = rank
        self.xp = array_module(memory)
        blast = sedov.Blast(cut.shape[0])
        place = cut.place(rank)
        at_origin = tuple(index == 0 for index in place)
        at_end = tuple(index == count - 1 for index, count in zip(place, cut.blocks, strict=True))
        self.block = sedov.EulerBlock(blast, at_origin, at_end, self.xp)
        padded = tuple(extent + 2 * sedov.GHOST for extent in cut.shape)
        where = "host" if self.xp is np else memory
        shared = engine.empty((5, *padded), "f8", memory=where)
        self.state = self.xp.asarray(shared)
        sedov.initial_state(blast, cut.lower(rank), self.state, self.xp)
        self.halo = HaloExchange(engine, self.state, shared, cut, rank, TIMEOUT_S)
        self.step = 0
        self.sweeps = 0

    def meet(self, contacts: Sequence[str]) -> None:
        """Connects to the other blocks' processes."""
        others = [rank for rank in range(len(contacts)) if rank != self.rank]
        peers = {rank: connect(self.engine, contacts[rank], TIMEOUT_S) for rank in others}
        self.halo.connect(peers)

    def advance(self) -> None:
        """Computes a time step, all blocks together."""
        rate = self.halo.maximum(self.block.signal_rate(self.state), self.step)
        time_step = sedov.step_length(rate, 1.0)
        for axis in sedov.SWEEPS[self.step % len(sedov.SWEEPS)]:
            self.halo.exchange(axis, self.sweeps)
            self.block.fill_outer_ghosts(self.state, axis)
            self.block.sweep(self.state, axis, time_step)
            self.sweeps += 1
        self.step += 1

    def variables(self) -> tuple[Any, Any, Any]:
        """Returns energy, pressure and density."""
        values = self.block.primitives(sedov.interior(self.state))
        density, pressure = values[sedov.DENSITY], values[sedov.PRESSURE]
        return pressure / ((self.block.blast.gamma - 1.0) * density), pressure, density


def array_module(memory: str) -> Any:
    """Returns CuPy on the GPU of a memory if both exist; else NumPy."""
    if not memory.startswith("device") or importlib.util.find_spec("cupy") is None:
        return np
    import cupy  # type: ignore[import-not-found,import-untyped,unused-ignore]

    if cupy.cuda.runtime.getDeviceCount() == 0:
        return np  # because the GPUs are emulated
    cupy.cuda.Device(int(memory.removeprefix("device"))).use()
    return cupy
