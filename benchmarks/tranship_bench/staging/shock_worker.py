"""A simulation process or a reader process of `staging_shock`, with the demo's solver."""

from __future__ import annotations

import importlib.util
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from tranship.demo import sedov
from tranship.demo.exchange import HaloExchange, connect
from tranship.demo.settings import Decomposition
from tranship.engine import Engine
from tranship.staging import Staging

from ..harness import same
from ..processes.child import serve
from .designs import Bounds, Receiver, Sender, extents, within
from .shock import VARIABLES
from .worker import Worker, corners

TIMEOUT_S = 60.0
TOLERANCE = 1e-5
"""Tolerance of the compression, as a fraction of the largest value."""


class ShockWorker(Worker):
    """A process that either simulates a block or reads a box of all blocks, by request."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.simulation: Simulation
        self.analysis: Analysis

    def begin_blast(
        self, rank: int, memory: str, cells: list[int], parts: list[int], folder: str
    ) -> dict[str, Any]:
        """Makes the block of a simulation."""
        cut = Decomposition(three(cells), three(parts))
        self.simulation = Simulation(self.engine, self.client, cut, rank, memory, Path(folder))
        return {"arrays": self.simulation.xp.__name__}

    def meet(self, contacts: list[str]) -> dict[str, Any]:
        """Connects the block with the other blocks."""
        self.simulation.meet(contacts)
        return {}

    def advance(self, steps: int) -> dict[str, Any]:
        """Computes `steps` time steps."""
        self.simulation.advance(steps)
        return {}

    def publish(self, version: int, design: str) -> dict[str, Any]:
        """Puts all variables and returns the seconds."""
        return {"seconds": self.simulation.publish(version, design)}

    def begin_reading(
        self, rank: int, memory: str, box: Bounds, objects: list[Any], folder: str
    ) -> dict[str, Any]:
        """Makes the arrays of a reader."""
        held = [(corners(part), corners(whole), writer) for part, whole, writer in objects]
        self.analysis = Analysis(self.engine, self.client, memory, corners(box), held, Path(folder))
        return {}

    def clear_all(self) -> dict[str, Any]:
        """Spoils the arrays of a reader."""
        self.analysis.clear()
        return {}

    def receive(self, version: int, design: str) -> dict[str, Any]:
        """Gets all variables and returns the seconds."""
        return {"seconds": self.analysis.receive(version, design)}

    def verify_all(self, version: int) -> dict[str, Any]:
        """Returns whether the arrays equal the simulation's."""
        return {"same": self.analysis.verify(version)}

    def compress(self) -> dict[str, Any]:
        """Compresses the received data; returns the factor of compression, 0 without zfpy."""
        return {"ratio": self.analysis.compress()}


class Simulation:
    """One block of the blast, which it advances and whose variables it puts.

    The state is a CuPy array on the block's GPU, or a NumPy array in host memory.
    """

    def __init__(
        self,
        engine: Engine,
        client: Staging,
        cut: Decomposition,
        rank: int,
        memory: str,
        folder: Path,
    ) -> None:
        self.engine = engine
        self.cut = cut
        self.rank = rank
        self.folder = folder
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
        self.senders = {name: Sender(engine, client, memory, cut.shape) for name in VARIABLES}
        self.step = 0
        self.sweeps = 0

    def meet(self, contacts: list[str]) -> None:
        """Connects to the other blocks' processes."""
        others = [rank for rank in range(len(contacts)) if rank != self.rank]
        peers = {rank: connect(self.engine, contacts[rank], TIMEOUT_S) for rank in others}
        self.halo.connect(peers)

    def advance(self, steps: int) -> None:
        """Computes `steps` time steps, all blocks together."""
        for _ in range(steps):
            rate = self.halo.maximum(self.block.signal_rate(self.state), self.step)
            time_step = sedov.step_length(rate, 1.0)
            for axis in sedov.SWEEPS[self.step % len(sedov.SWEEPS)]:
                self.halo.exchange(axis, self.sweeps)
                self.block.fill_outer_ghosts(self.state, axis)
                self.block.sweep(self.state, axis, time_step)
                self.sweeps += 1
            self.step += 1

    def publish(self, version: int, design: str) -> float:
        """Puts all variables and returns the seconds; keeps the data in files to compare."""
        values = self.block.primitives(sedov.interior(self.state))
        density, pressure = values[sedov.DENSITY], values[sedov.PRESSURE]
        energy = pressure / ((self.block.blast.gamma - 1.0) * density)
        lower = self.cut.lower(self.rank)
        for name, array in zip(VARIABLES, (energy, pressure, density), strict=True):
            source = self.senders[name].source
            self.engine.copy(array, source).wait(timeout=TIMEOUT_S)
            held = np.empty(self.cut.shape)
            self.engine.copy(source, held).wait(timeout=TIMEOUT_S)
            np.save(reference(self.folder, name, version, self.rank), held)
        begin = time.perf_counter()
        for name, sender in self.senders.items():
            sender.put(design, name, version, lower)
        return time.perf_counter() - begin


class Analysis:
    """A reader of one box of all variables, which it compares and compresses."""

    def __init__(
        self,
        engine: Engine,
        client: Staging,
        memory: str,
        box: Bounds,
        objects: list[tuple[Bounds, Bounds, int]],
        folder: Path,
    ) -> None:
        self.engine = engine
        self.box = box
        self.objects = objects
        self.folder = folder
        parts = [part for part, _, _ in objects]
        self.receivers = {name: Receiver(engine, client, memory, box, parts) for name in VARIABLES}

    def clear(self) -> None:
        """Fills the arrays with a value that no field holds."""
        for receiver in self.receivers.values():
            nothing = np.full(extents(self.box), np.nan)
            self.engine.copy(nothing, receiver.target).wait(timeout=TIMEOUT_S)

    def receive(self, version: int, design: str) -> float:
        """Gets all variables and returns the seconds."""
        begin = time.perf_counter()
        for name, receiver in self.receivers.items():
            receiver.get(design, name, version)
        return time.perf_counter() - begin

    def got(self, name: str) -> Any:
        """Returns the received data of a variable, in host memory."""
        values = np.empty(extents(self.box))
        self.engine.copy(self.receivers[name].target, values).wait(timeout=TIMEOUT_S)
        return values

    def verify(self, version: int) -> bool:
        """Compares the received variables with those of the blocks."""
        for name in VARIABLES:
            values = self.got(name)
            for part, whole, writer in self.objects:
                held = np.load(reference(self.folder, name, version, writer), mmap_mode="r")
                expected = np.ascontiguousarray(held[within(part, whole[0])])
                if not same(np.ascontiguousarray(values[within(part, self.box[0])]), expected):
                    return False
        return True

    def compress(self) -> float:
        """Compresses the received data; returns the factor of compression, 0 without zfpy."""
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


def array_module(memory: str) -> Any:
    """Returns CuPy on the GPU of a memory if both exist; else NumPy."""
    if not memory.startswith("device") or importlib.util.find_spec("cupy") is None:
        return np
    import cupy  # type: ignore[import-not-found,import-untyped,unused-ignore]

    if cupy.cuda.runtime.getDeviceCount() == 0:
        return np  # because the GPUs are emulated
    cupy.cuda.Device(int(memory.removeprefix("device"))).use()
    return cupy


def reference(folder: Path, name: str, version: int, rank: int) -> Path:
    """Returns the file of a block's data; versions take turns, as servers keep few of them."""
    return folder / f"{name}-{version % 2}-{rank}.npy"


def three(numbers: list[int]) -> tuple[int, int, int]:
    """Returns three numbers of a list from JSON."""
    x, y, z = numbers
    return x, y, z


if __name__ == "__main__":
    serve(sys.stdin, sys.stdout, ShockWorker)
