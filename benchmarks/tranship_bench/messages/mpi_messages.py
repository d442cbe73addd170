"""DDTBench's messages between two MPI processes, with `libtranship-mpi.so` and without.

``mpi-messages``: DDTBench's messages, every second three floats of a vector, and boxes of 192 x 192
x 192 doubles, there and back between two processes of an MPI program: by the MPI library alone
(`mpi`), with `libtranship-mpi.so` in front of it (`tranship-mpi`), and the same bytes side by side
(`contiguous`), which no packing beats.
- Follows: Maximal Overlap (IPDPS'16), which sends them between GPUs.
- One run has all variants, in turns: MPI alone is measured by its `PMPI_` functions. All are called
  from Python (some 0.6 us a call).

``gpu-mpi``: strided messages between the GPUs of two MPI processes with `libtranship-mpi.so`;
beside a copy for each block, and packing with PyTorch.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tranship import mpi_library
from tranship.errors import Error

from ..gpu.copies import gpu_engine
from ..harness import Bench, SkippedError
from ..registry import measures
from .mpi import run_two_processes


@measures(
    "mpi-messages", "DDTBench's messages between two MPI processes, packed by libtranship-mpi.so"
)
def mpi_messages(bench: Bench) -> None:
    """Measures all cases; reports a line for each way to send each. In small size all messages are
    packed, and nothing is measured before.
    """
    launcher, variables = with_library(bench.full)
    run_two_processes(bench, launcher, "messages.ping_pong", variables, "mpi")


@measures(
    "gpu-mpi", "strided messages between GPUs by MPI with libtranship-mpi.so, and packed by hand"
)
def gpu_mpi(bench: Bench) -> None:
    """Measures strided messages between GPUs, sent by MPI with the library."""
    with gpu_engine(bench):
        pass  # there is a GPU; emulated ones are host memory to the library
    launcher, variables = with_library(False)
    block_by_block = "a copy for each block"
    run_two_processes(bench, launcher, "messages.gpu_ping_pong", variables, block_by_block)


def with_library(measured: bool) -> tuple[list[str], dict[str, str]]:
    """Returns the launcher, and the variables of processes in which the library packs.

    Args:
        measured: Whether it packs in host memory what was measured to gain, or everything.

    Raises:
        SkippedError: There is no MPI library.
    """
    beside = Path(sys.executable).with_name("mpicxx")
    given = "MPICXX" in os.environ or not beside.exists()
    try:
        compiler = mpi_library.find_compiler(None if given else str(beside))
        library = mpi_library.MpiLibrary(compiler)
        launcher = [os.path.join(os.path.dirname(compiler), "mpiexec")]
        variables = {"LD_PRELOAD": str(library.library()), "TRANSHIP_MPI_PACK": "always"}
        if measured:
            choices = str(library.choices(launcher))
            variables |= {"TRANSHIP_MPI_PACK": "measured", "TRANSHIP_MPI_CHOICES": choices}
    except Error as error:
        raise SkippedError(str(error)) from None
    return launcher, variables
