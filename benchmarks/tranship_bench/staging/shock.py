"""The shock-hydrodynamics workflow of DataSpaces-GPU (Table 2, Figure 10), with real processes.

- 1, 2 and 4 processes (as there are GPUs) solve the demo's point explosion (`tranship.demo.sedov`),
  each on as many cells of its own (256^3 with CuPy, 128^3 without; weak scaling); energy, pressure
  and density go to as many readers in another decomposition, which compress them with zfp.
- In the place of LULESH-CUDA is the demo's solver, with CuPy if it is installed, else NumPy
  (`arrays` in `conditions`); in the place of ZFP-CUDA `zfpy`, on the host (`zfp_ratio`; 0 if it is
  not installed).
- Times are of all puts, or all gets, of a process in an iteration, without computing and
  compressing: the median over the processes. Designs take turns; what was got is compared byte for
  byte with what the simulation held.
- Follows: DataSpaces-GPU (Euro-Par'23), section 5.2. The simulated figure at the paper's size is
  staging-figure10.
"""

from __future__ import annotations

import importlib.util
import shutil
import statistics
import tempfile
from pathlib import Path

from ..dataspaces.grids import Grid, cube_of
from ..harness import Bench
from ..registry import measures
from .boxes import KEPT, server
from .crew import Crew, together
from .shock_worker import VARIABLES, ShockWorker
from .workflow import IterationOptions, Iterations, Machine, machine_of, reader_boxes

MiB = 1 << 20
MEMORY_FOLDER = Path("/dev/shm")
"""Folder whose files are in memory, on Linux."""


@measures(
    "staging-shock",
    "the demo's blast and its analyses, 1 to 4 processes each, by the same designs",
    IterationOptions,
)
def staging_shock(bench: Bench) -> None:
    """Measures 1, 2 and 4 simulation processes, as far as each has a GPU."""
    quick = bench.options.quick
    machine = machine_of(bench)
    most = machine.gpus or (4 if bench.full and not quick else 2)
    side = (256 if computes_on_gpus(machine) else 128) // (2 if quick else 1)
    for count in (1, 2, 4):
        if count <= most:
            scale(bench, machine, count, side if bench.full else 16)


def computes_on_gpus(machine: Machine) -> bool:
    """Returns whether the solver runs on GPUs; on host processors it is slow."""
    real = machine.gpus > 0 and "emulated" not in machine.words
    return real and importlib.util.find_spec("cupy") is not None


def folder_for(count: int) -> str | None:
    """Returns the folder in memory if it has room for twice `count` bytes; else None."""
    fits = MEMORY_FOLDER.is_dir() and shutil.disk_usage(MEMORY_FOLDER).free > 2 * count
    return str(MEMORY_FOLDER) if fits else None


def scale(bench: Bench, machine: Machine, count: int, side: int) -> None:
    """Reports the lines of one number of processes."""
    options: IterationOptions = bench.options
    parts = cube_of(count)
    grid = Grid(tuple(side * part for part in parts), parts)
    others = Grid(grid.cells, parts[::-1])
    each = 8 * side**3
    version_bytes = len(VARIABLES) * each * count
    with (
        tempfile.TemporaryDirectory(dir=folder_for(2 * version_bytes)) as folder,
        server((KEPT + 2) * version_bytes + 64 * MiB, max(1, count // 2)) as contact,
        Crew(2 * count, contact, ShockWorker) as crew,
    ):
        writers, readers = crew.workers[:count], crew.workers[count:]
        together(crew.workers, "keep_in", folder=folder)
        ranks = [{"rank": k, "memory": machine.memory(k)} for k in range(count)]
        arrays = together(writers, "begin_blast", ranks, cells=grid.cells, parts=grid.parts)
        together(writers, "meet", contacts=crew.contacts[:count])
        for name in VARIABLES:
            together(readers, "read_box", reader_boxes(grid, others, machine), name=name)
        iterations = options.iterations or bench.pick(2 if options.quick else 5, 1)
        work = Iterations(bench, writers, readers, list(VARIABLES), grid)
        case = f"shock, {count} simulation process{'es' if count > 1 else ''}"
        work.run(case, iterations, lambda version: together(writers, "advance", version=version))
        packed = together(readers, "compress")
    work.emit(
        case,
        dict.fromkeys(("put", "get"), each * len(VARIABLES)),
        simulation_processes=count,
        cells_each=side**3,
        iterations=iterations,
        zfp_ratio=statistics.mean(packed),
        arrays=arrays[0],
    )
