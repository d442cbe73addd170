"""Halo exchanges between two MPI processes: `engine.halo` beside MPI types and NumPy's slices.

The largest case has the cells, fields and widths of the exchange of a weather model (MeteoSwiss's,
as Maximal Overlap, IPDPS'16, uses it), which makes its types anew for every exchange.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from .harness import Bench, SkippedError
from .mpi_processes import emit_case, two_processes

__all__ = ["halo"]


def halo(bench: Bench) -> None:
    """Measures all cases; reports a line for each way to exchange."""
    beside = Path(sys.executable).with_name("mpiexec")
    launcher = str(beside) if beside.exists() else shutil.which("mpiexec")
    if launcher is None:
        raise SkippedError("there is no mpiexec: pip install mpich mpi4py")
    for found in two_processes(bench, [launcher], "halo_exchange", {}):
        emit_case(bench, found, "mpi, types anew")
