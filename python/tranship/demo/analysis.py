"""An analysis process of the demo: gets boxes of the running simulation, checks, compresses.

Its box is cut differently from the simulation's blocks (half of the domain along z, so that it
spans them all), and its arrays have the other layout (x fastest instead of z): one `get`
both gathers and transposes. It may start late: steps wait until it has seen them.

Start it through `tranship demo`; it is `python -m tranship.demo.analysis --settings F --rank N`.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import zfpy  # type: ignore[import-not-found,import-untyped,unused-ignore]

import tranship as ts
from tranship.demo import profiles
from tranship.demo.arrays import to_host
from tranship.demo.roles import open_engine, open_staging, report, start_role
from tranship.demo.settings import ANALYSES, FIELDS, SIMULATIONS, Settings
from tranship.files import new_file

# Compressed values differ by at most this fraction of the field's largest; density not at all.
TOLERANCE = 1e-5
LOSSLESS = "density"


class BoxReader:
    """Gets this process's box of each step into arrays with x as the fastest dimension.

    Owns the arrays; they are overwritten by the next `read`. `received` are they, or their copies
    on the host.
    """

    def __init__(self, engine: Any, staging: Any, settings: Settings, rank: int) -> None:
        self.staging = staging
        self.settings = settings
        thickness = settings.cells // ANALYSES
        self.lower = (0, 0, rank * thickness)
        self.upper = (settings.cells, settings.cells, (rank + 1) * thickness)
        self.box = tuple(slice(a, b) for a, b in zip(self.lower, self.upper, strict=True))
        shape = tuple(b - a for a, b in zip(self.lower, self.upper, strict=True))
        # The first analysis works where the simulation does, the other on the host. The transpose
        # of an array in C order is the array in Fortran order.
        memory = settings.memory(rank) if rank == 0 else "host"
        self.arrays = {
            name: engine.empty(shape[::-1], "f8", memory=memory).transpose((2, 1, 0))
            for name in FIELDS
        }
        self.received = {name: to_host(array) for name, array in self.arrays.items()}

    def read(self, step: ts.Step) -> dict[str, Any]:
        """Gets the box of every field and returns the time of the step, bytes and seconds."""
        patience = self.settings.timeout_s
        moment = step.attributes["time"]
        begin = time.perf_counter()
        for name, array in self.arrays.items():
            step[name].get(self.lower, self.upper, array, timeout=patience)
        seconds = time.perf_counter() - begin
        self.received = {name: to_host(array) for name, array in self.arrays.items()}
        count = sum(int(array.nbytes) for array in self.arrays.values())
        return {"time": moment, "bytes": count, "seconds": seconds}

    def pieces(self) -> list[tuple[tuple[slice, ...], tuple[slice, ...]]]:
        """Returns the common box with each simulation, in coordinates of either box."""
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
        """Compares received with reference fields and returns the number of unequal bytes."""
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
    """Compresses one field into `path`, reads it back, and returns its size, error and bound."""
    fastest_last = values.T
    scale = float(np.abs(fastest_last).max())
    tolerance = 0.0 if name == LOSSLESS else TOLERANCE * scale
    # Without a tolerance zfp is lossless.
    options = {} if name == LOSSLESS else {"tolerance": tolerance}
    with new_file(path) as file:
        file.write(zfpy.compress_numpy(fastest_last, **options))
    restored = zfpy.decompress_numpy(path.read_bytes())
    error = float(np.abs(restored - fastest_last).max())
    return {
        "compressed_bytes": path.stat().st_size,
        "error": error / scale,
        "bound": tolerance / scale,
        "within": error <= tolerance,
    }


def sample(settings: Settings, rank: int, reader: BoxReader, shell: Any, step: int) -> Any:
    """Checks and compresses the fields of `step`, and returns the values to report."""
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


def analyse(settings: Settings, rank: int, reader: BoxReader) -> None:
    """Follows the simulation to its end, reporting one line for each step that it puts."""
    shell = profiles.shells(settings.cells, reader.box)
    for step in reader.staging.steps(timeout=settings.timeout_s):
        transfer = reader.read(step)
        checks = sample(settings, rank, reader, shell, step.number)
        report("sample", rank=rank, step=step.number, **transfer, **checks)
    with new_file(Path(settings.out) / "fields" / f"analysis-{rank}.npz") as file:
        np.savez(file, **reader.received)


def main() -> None:
    """Runs one analysis process to its end."""
    settings, rank, parent = start_role("an analysis process of the Tranship demo")
    with open_engine(settings, "analysis", rank) as engine:
        with open_staging(settings, engine, f"analysis-{rank}") as staging:
            analyse(settings, rank, BoxReader(engine, staging, settings, rank))
        parent.finish(settings.timeout_s)


if __name__ == "__main__":
    main()
