"""An analysis process of the demo: reads boxes of the running simulation, checks, compresses.

Its box is cut differently from the simulation's blocks (half of the domain along z, so that it
spans them all), and its arrays have the other layout (x fastest instead of z): one `engine.copy`
for each piece both gathers and transposes.

Start it through `tranship demo`; it is `python -m tranship.demo.analysis --settings F --rank N`.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import zfpy  # type: ignore[import-not-found,import-untyped,unused-ignore]

from tranship.demo import profiles
from tranship.demo.exchange import Signals, connect, remote_array
from tranship.demo.roles import open_engine, report, start_role
from tranship.demo.settings import ANALYSES, FIELDS, SIMULATIONS, Settings
from tranship.demo.simulation import END_STEP

# Compressed values differ by at most this fraction of the field's largest; density not at all.
TOLERANCE = 1e-5
LOSSLESS = "density"


class BoxReader:
    """Reads this process's box of each snapshot into arrays with x as the fastest dimension.

    Owns the arrays (`received`); they are overwritten by the next `read`.
    """

    def __init__(self, engine: Any, settings: Settings, rank: int) -> None:
        self.engine = engine
        self.settings = settings
        thickness = settings.cells // ANALYSES
        self.box = (
            slice(0, settings.cells),
            slice(0, settings.cells),
            slice(rank * thickness, (rank + 1) * thickness),
        )
        shape = tuple(part.stop - part.start for part in self.box)
        # The transpose of an array in C order is the array in Fortran order.
        self.received = {name: engine.empty(shape[::-1], "f8").T for name in FIELDS}
        self.header = engine.empty((2,), "f8")
        self.simulations: list[dict[str, Any]] = []
        self.predicted_gbps = 0.0

    def connect(self, peers: list[Any]) -> None:
        """Look up the simulation processes' snapshot arrays."""
        names = [f"{name}{slot}" for name in (*FIELDS, "header") for slot in range(2)]
        timeout_s = self.settings.timeout_s
        for peer in peers:
            self.simulations.append({name: remote_array(peer, name, timeout_s) for name in names})

    def read_header(self, slot: int) -> tuple[int, float]:
        """Return the step and the time of the snapshot in `slot`."""
        source = self.simulations[0][f"header{slot}"]
        self.engine.copy(source, self.header).wait(timeout=self.settings.timeout_s)
        return int(self.header[0]), float(self.header[1])

    def read(self, slot: int) -> dict[str, Any]:
        """Copy the box of every field out of all blocks; return bytes, seconds and the path."""
        pieces = [
            (self.simulations[rank][f"{name}{slot}"][theirs], self.received[name][mine])
            for name in FIELDS
            for rank, (theirs, mine) in enumerate(self.pieces())
        ]
        if not self.predicted_gbps:
            self.predicted_gbps = float(self.engine.plan(*pieces[0]).throughput_gbps)
        begin = time.perf_counter()
        events = [self.engine.copy(source, target) for source, target in pieces]
        for event in events:
            event.wait(timeout=self.settings.timeout_s)
        seconds = time.perf_counter() - begin
        count = sum(target.nbytes for _, target in pieces)
        return {
            "bytes": count,
            "seconds": seconds,
            "gbps": count / seconds / 1e9,
            "predicted_gbps": self.predicted_gbps,
            "path": str(events[0].plan),
        }

    def pieces(self) -> list[tuple[tuple[slice, ...], tuple[slice, ...]]]:
        """Return, for each simulation, the common box in its block's and in our coordinates."""
        cut = self.settings.decomposition()
        result = []
        for rank in range(SIMULATIONS):
            theirs, mine = [], []
            for block, ours in zip(cut.box(rank), self.box, strict=True):
                low, high = max(block.start, ours.start), min(block.stop, ours.stop)
                theirs.append(slice(low - block.start, high - block.start))
                mine.append(slice(low - ours.start, high - ours.start))
            result.append((tuple(theirs), tuple(mine)))
        return result

    def differing_bytes(self, step: int) -> int:
        """Compare what was received with what the simulation held; return the unequal bytes."""
        differing = 0
        for name in FIELDS:
            for rank, (theirs, mine) in enumerate(self.pieces()):
                held = np.load(self.settings.reference(step, rank, name), mmap_mode="r")[theirs]
                received = np.ascontiguousarray(self.received[name][mine])
                if not np.array_equal(held.view("i8"), received.view("i8")):
                    expected = np.ascontiguousarray(held).view("u1")
                    differing += int(np.count_nonzero(expected != received.view("u1")))
        return differing


def compress(values: Any, name: str, path: Path) -> dict[str, Any]:
    """Compress one field into `path`, read it back, and return its size, error and bound."""
    fastest_last = values.T
    scale = float(np.abs(fastest_last).max())
    tolerance = 0.0 if name == LOSSLESS else TOLERANCE * scale
    # Without a tolerance zfp is lossless.
    options = {} if name == LOSSLESS else {"tolerance": tolerance}
    path.write_bytes(zfpy.compress_numpy(fastest_last, **options))
    restored = zfpy.decompress_numpy(path.read_bytes())
    error = float(np.abs(restored - fastest_last).max())
    return {
        "compressed_bytes": path.stat().st_size,
        "error": error / scale,
        "bound": tolerance / scale,
        "within": error <= tolerance,
    }


def sample(settings: Settings, rank: int, reader: BoxReader, shell: Any, step: int) -> Any:
    """Check and compress what was read at `step`; return the values to report."""
    differing = reader.differing_bytes(step)
    folder = Path(settings.out) / "compressed" / f"step_{step:05d}"
    folder.mkdir(parents=True, exist_ok=True)
    compressed = {
        name: compress(reader.received[name], name, folder / f"{name}-{rank}.zfp")
        for name in FIELDS
    }
    sums = profiles.shell_sums(reader.received["density"], shell, settings.cells)
    return {
        "verified": differing == 0,
        "differing_bytes": differing,
        "compression": compressed,
        "density_sums": sums.tolist(),
    }


def analyse(settings: Settings, rank: int, reader: BoxReader, ready: Signals, peers: Any) -> None:
    """Follow the simulation to its end, reporting one line for each snapshot."""
    released = [remote_array(peer, "released", settings.timeout_s) for peer in peers]
    shell = profiles.shells(settings.cells, reader.box)
    count = 0
    while True:
        ready.wait(list(range(SIMULATIONS)), count)
        step, moment = reader.read_header(count % 2)
        transfer = {} if step == END_STEP else reader.read(count % 2)
        for remote in released:
            ready.send(remote, rank, count)
        count += 1
        if step == END_STEP:
            break
        checks = sample(settings, rank, reader, shell, step)
        report("sample", rank=rank, step=step, time=moment, **transfer, **checks)
    np.savez(Path(settings.out) / "fields" / f"analysis-{rank}.npz", **reader.received)


def main() -> None:
    """Run one analysis process to its end."""
    settings, rank, parent = start_role("an analysis process of the Tranship demo")
    with open_engine(settings, "analysis", rank) as engine:
        ready = Signals(engine, "ready", SIMULATIONS, settings.timeout_s)
        reader = BoxReader(engine, settings, rank)
        peers = [
            connect(engine, settings.contact("simulation", number), settings.timeout_s)
            for number in range(SIMULATIONS)
        ]
        reader.connect(peers)
        analyse(settings, rank, reader, ready, peers)
        parent.finish(settings.timeout_s)


if __name__ == "__main__":
    main()
