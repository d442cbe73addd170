"""A simulation process of the demo: advances one block, and puts its fields into staging.

Start it through `tranship demo`; it is `python -m tranship.demo.simulation --settings F --rank N`.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from tranship.demo import sedov
from tranship.demo.arrays import array_module, to_host
from tranship.demo.exchange import HaloExchange, connect
from tranship.demo.roles import open_engine, open_staging, report, start_role
from tranship.demo.settings import FIELDS, SIMULATIONS, Settings
from tranship.files import new_file


class Snapshots:
    """Puts this process's block of each field, step by step: readers see a step when all processes
    have put theirs.

    The same call for arrays on hosts and GPUs. It waits while the servers are full.
    """

    def __init__(self, staging: Any, settings: Settings, rank: int) -> None:
        self.staging = staging
        self.settings = settings
        self.rank = rank
        self.lower = settings.decomposition().lower(rank)
        for name in FIELDS:
            staging.define(name, "f8", (0, 0, 0), (settings.cells,) * 3, writers=SIMULATIONS)

    def publish(self, step: int, moment: float, fields: dict[str, Any]) -> dict[str, Any]:
        """Writes a reference copy to disk, puts all fields, and returns bytes and seconds."""
        for name, values in fields.items():
            path = self.settings.reference(step, self.rank, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            with new_file(path) as file:
                np.save(file, to_host(values))
        patience = self.settings.timeout_s
        begin = time.perf_counter()
        with self.staging.step(step, writers=SIMULATIONS, timeout=patience) as snapshot:
            snapshot.attributes["time"] = moment
            for name, values in fields.items():
                snapshot[name].put(values, self.lower, timeout=patience)
        seconds = time.perf_counter() - begin
        return {"bytes": sum(int(values.nbytes) for values in fields.values()), "seconds": seconds}


def fields_of(block: sedov.EulerBlock, state: Any) -> dict[str, Any]:
    """Returns the fields of a snapshot: specific internal energy, pressure and density."""
    values = block.primitives(sedov.interior(state))
    density, pressure = values[sedov.DENSITY], values[sedov.PRESSURE]
    energy = pressure / ((block.blast.gamma - 1.0) * density)
    return {"energy": energy, "pressure": pressure, "density": density}


def simulate(settings: Settings, rank: int, halo: HaloExchange, snapshots: Snapshots) -> None:
    """Advances the block to the end, putting every `settings.every` steps and at the end."""
    cut, blast, state = settings.decomposition(), settings.blast, halo.state
    place = cut.place(rank)
    at_origin = tuple(index == 0 for index in place)
    at_end = tuple(index == count - 1 for index, count in zip(place, cut.blocks, strict=True))
    block = sedov.EulerBlock(blast, at_origin, at_end, array_module(settings))
    step, moment, sweeps = 0, 0.0, 0
    while True:
        finished = step >= settings.steps_max or moment >= settings.end_time
        if step % settings.every == 0 or finished:
            mass, energy = sedov.totals(blast, state)
            put = snapshots.publish(step, moment, fields_of(block, state))
            report("state", rank=rank, step=step, time=moment, mass=mass, energy=energy, **put)
        if finished:
            break
        # Also what keeps the blocks in step: nobody sends halos while another still needs the last.
        rate = halo.maximum(block.signal_rate(state), step)
        time_step = sedov.step_length(rate, settings.end_time - moment)
        for axis in sedov.SWEEPS[step % len(sedov.SWEEPS)]:
            halo.exchange(axis, sweeps)
            block.fill_outer_ghosts(state, axis)
            block.sweep(state, axis, time_step)
            sweeps += 1
        moment += time_step
        step += 1


def connect_to(engine: Any, settings: Settings, role: str, number: int) -> Any:
    """Returns the connection to another process of the run."""
    return connect(engine, settings.contact(role, number), settings.timeout_s)


def main() -> None:
    """Runs one simulation process to its end."""
    settings, rank, parent = start_role("a simulation process of the Tranship demo")
    sedov.keep_freed_memory(np)
    with open_engine(settings, "simulation", rank) as engine:
        cut = settings.decomposition()
        padded = tuple(extent + 2 * sedov.GHOST for extent in cut.shape)
        shared = engine.empty((5, *padded), "f8", memory=settings.memory(rank))
        xp = array_module(settings, rank)
        state = xp.asarray(shared)
        sedov.initial_state(settings.blast, cut.lower(rank), state, xp)
        halo = HaloExchange(engine, state, shared, cut, rank, settings.timeout_s)
        others = [number for number in range(SIMULATIONS) if number != rank]
        halo.connect(
            {number: connect_to(engine, settings, "simulation", number) for number in others}
        )
        with open_staging(settings, engine, f"simulation-{rank}") as staging:
            simulate(settings, rank, halo, Snapshots(staging, settings, rank))
        parent.finish(settings.timeout_s)


if __name__ == "__main__":
    main()
