"""A simulation process of the demo: advances one block, and offers snapshots to the analyses.

Start it through `tranship demo`; it is `python -m tranship.demo.simulation --settings F --rank N`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tranship.demo import sedov
from tranship.demo.exchange import HaloExchange, Signals, connect, remote_array
from tranship.demo.roles import open_engine, report, start_role
from tranship.demo.settings import ANALYSES, FIELDS, SIMULATIONS, Settings

# In the header of a snapshot: there will be no further one.
END_STEP = -1


class Snapshots:
    """Two slots of exported arrays: while the analyses read one, the next fills the other.

    `ready` on an analysis counts the snapshots that it may read; `released` here counts those that
    an analysis has read. A slot is written again only when every analysis has released it.
    """

    def __init__(self, engine: Any, settings: Settings, rank: int) -> None:
        self.settings = settings
        self.rank = rank
        shape = settings.decomposition().shape
        self.slots = [
            {name: engine.empty(shape, "f8") for name in FIELDS}
            | {"header": engine.empty((2,), "f8")}
            for _ in range(2)
        ]
        self.released = Signals(engine, "released", ANALYSES, settings.timeout_s)
        for number, arrays in enumerate(self.slots):
            for name, array in arrays.items():
                engine.export(f"{name}{number}", array)
        self.ready: list[Any] = []
        self.count = 0

    def connect(self, analyses: list[Any]) -> None:
        """Find the analyses' counters."""
        timeout_s = self.settings.timeout_s
        self.ready = [remote_array(peer, "ready", timeout_s) for peer in analyses]

    def publish(self, step: int, time: float, fields: dict[str, Any]) -> None:
        """Fill the next slot, keep a reference copy on disk, and tell the analyses."""
        arrays = self.slots[self.count % 2]
        self.released.wait(list(range(ANALYSES)), self.count - 2)
        for name, values in fields.items():
            arrays[name][...] = values
            path = self.settings.reference(step, self.rank, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, arrays[name])
        arrays["header"][:] = step, time
        for remote in self.ready:
            self.released.send(remote, self.rank, self.count)
        self.count += 1

    def finish(self) -> None:
        """Tell the analyses that there is nothing more, and wait until they have read it all."""
        self.publish(END_STEP, 0.0, {})
        self.released.wait(list(range(ANALYSES)), self.count - 1)


def fields_of(block: sedov.EulerBlock, state: Any) -> dict[str, Any]:
    """Return the fields of a snapshot: specific internal energy, pressure and density."""
    values = block.primitives(sedov.interior(state))
    density, pressure = values[sedov.DENSITY], values[sedov.PRESSURE]
    energy = pressure / ((block.blast.gamma - 1.0) * density)
    return {"energy": energy, "pressure": pressure, "density": density}


def simulate(settings: Settings, rank: int, halo: HaloExchange, snapshots: Snapshots) -> None:
    """Advance the block to the end, publishing every `settings.every` steps and at the end."""
    cut, blast, state = settings.decomposition(), settings.blast, halo.state
    place = cut.place(rank)
    at_origin = tuple(index == 0 for index in place)
    at_end = tuple(index == count - 1 for index, count in zip(place, cut.blocks, strict=True))
    block = sedov.EulerBlock(blast, at_origin, at_end, np)
    step, time, sweeps = 0, 0.0, 0
    while True:
        finished = step >= settings.steps_max or time >= settings.end_time
        if step % settings.every == 0 or finished:
            mass, energy = sedov.totals(blast, state)
            report("state", rank=rank, step=step, time=time, mass=mass, energy=energy)
            snapshots.publish(step, time, fields_of(block, state))
        if finished:
            break
        # Also what keeps the blocks in step: nobody sends halos while another still needs the last.
        rate = halo.maximum(block.signal_rate(state), step)
        time_step = sedov.step_length(rate, settings.end_time - time)
        for axis in sedov.SWEEPS[step % len(sedov.SWEEPS)]:
            halo.exchange(axis, sweeps)
            block.fill_outer_ghosts(state, axis)
            block.sweep(state, axis, time_step)
            sweeps += 1
        time += time_step
        step += 1
    snapshots.finish()


def connect_to(engine: Any, settings: Settings, role: str, number: int) -> Any:
    """Return the connection to another process of the run."""
    return connect(engine, settings.contact(role, number), settings.timeout_s)


def main() -> None:
    """Run one simulation process to its end."""
    settings, rank, parent = start_role("a simulation process of the Tranship demo")
    sedov.keep_freed_memory(np)
    with open_engine(settings, "simulation", rank) as engine:
        cut = settings.decomposition()
        padded = tuple(extent + 2 * sedov.GHOST for extent in cut.shape)
        state = engine.empty((5, *padded), "f8")
        sedov.initial_state(settings.blast, cut.lower(rank), state, np)
        halo = HaloExchange(engine, state, cut, rank, settings.timeout_s)
        snapshots = Snapshots(engine, settings, rank)
        others = [number for number in range(SIMULATIONS) if number != rank]
        halo.connect(
            {number: connect_to(engine, settings, "simulation", number) for number in others}
        )
        snapshots.connect(
            [connect_to(engine, settings, "analysis", number) for number in range(ANALYSES)]
        )
        simulate(settings, rank, halo, snapshots)
        parent.finish(settings.timeout_s)


if __name__ == "__main__":
    main()
