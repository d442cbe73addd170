"""Halo exchanges between two MPI processes, in host memory.

- `engine.halo` (`tranship`), MPI types made once (`mpi`) and for every exchange (`mpi, types
  anew`), NumPy's slices (`numpy`), and the messages without any packing (`contiguous`). All
  neighbours are the other process, or the process itself.
- Follows: Maximal Overlap (IPDPS'16), whose application is MeteoSwiss's exchange: 520 x 350 cells
  of 60 levels, three fields, width 2, types that are made anew each time.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from ..harness import Bench, SkippedError
from ..messages.mpi import run_two_processes
from ..registry import measures


@measures("halo", "halo exchanges between two MPI processes, beside MPI types and NumPy")
def halo(bench: Bench) -> None:
    """Measures all cases; reports a line for each way to exchange."""
    beside = Path(sys.executable).with_name("mpiexec")
    launcher = str(beside) if beside.exists() else shutil.which("mpiexec")
    if launcher is None:
        raise SkippedError("there is no mpiexec: pip install mpich mpi4py")
    run_two_processes(bench, [launcher], "halo.exchange", {}, "mpi, types anew")
