"""The MPI library that mpi4py loads: messages packed in its way, and two processes that measure
together and print their results.
"""

from __future__ import annotations

import ctypes
import json
import math
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..harness import Array, Bench, Bytes, MismatchError, mean_of

TURN_SECONDS = 2e-3
"""Time of a repetition, which is many packs in a row."""

PATIENCE_S = 1500.0
SAMPLES = 9

Timed = Callable[[int], float]
"""Does the work so many times; returns the seconds of one."""


class Way(NamedTuple):
    """One way to send and to receive a message."""

    send: Callable[[], object]
    receive: Callable[[], object]


class Mpi:
    """MPI_Pack and MPI_Unpack of the library that mpi4py loads, called by their addresses."""

    def __init__(self) -> None:
        from mpi4py import MPI

        self.mpi = MPI
        maps = Path("/proc/self/maps").read_text().split()
        path = next(word for word in maps if "/libmpi" in word and ".so" in word)
        self.library = ctypes.CDLL(path)
        self.handle = ctypes.c_int if MPI._sizeof(MPI.Datatype) == 4 else ctypes.c_void_p
        self.name = library_name(MPI.Get_library_version())

    def message(self, arrays: Sequence[Array], types: Sequence[Any]) -> Any:
        """Returns one committed type of arrays and their types, with absolute addresses."""
        addresses = [array.ctypes.data for array in arrays]
        whole = self.mpi.Datatype.Create_struct([1] * len(arrays), addresses, types)
        return whole.Commit()

    def call(self, whole: Any, packed: Bytes, unpacks: bool) -> Callable[[], None]:
        """Returns a call that packs or unpacks the message."""
        handle = self.handle(self.mpi._handleof(whole))
        communicator = self.handle(self.mpi._handleof(self.mpi.COMM_SELF))
        position, size = ctypes.c_int(0), ctypes.c_int(packed.nbytes)
        buffer, bottom, one = (
            ctypes.c_void_p(packed.ctypes.data),
            ctypes.c_void_p(0),
            ctypes.c_int(1),
        )
        place = ctypes.byref(position)
        pack, unpack = self.library.MPI_Pack, self.library.MPI_Unpack

        def run_pack() -> None:
            position.value = 0
            pack(bottom, one, handle, buffer, size, place, communicator)

        def run_unpack() -> None:
            position.value = 0
            unpack(buffer, size, place, bottom, one, handle, communicator)

        return run_unpack if unpacks else run_pack


def library_name(text: str) -> str:
    """Returns an MPI library's name and version, of what it says of itself."""
    words = re.match(r"(Open MPI|MPICH|Intel\(R\) MPI)\D*([\d.]+)", text)
    return f"{words[1]} {words[2]}" if words else f"{text} ?"


def beside(mpi: Mpi | None, case: str) -> str:
    """Returns the name of a case that was measured beside an MPI library."""
    return f"{case}, {mpi.name.rpartition(' ')[0]}" if mpi else case


def load_mpi(bench: Bench) -> Mpi | None:
    """Returns the library; says why and returns None if there is none."""
    try:
        return Mpi()
    except (ImportError, RuntimeError, OSError, StopIteration) as error:
        bench.say(f"without an MPI library: {error}")
        return None


def in_turns(call: Callable[[], object]) -> Callable[[], float]:
    """Returns a function that times one call, as the mean of many in a row."""
    once = mean_of(call, 2)()
    return mean_of(call, max(int(TURN_SECONDS / max(once, 1e-7)), 1))


def mean_of_both(way: Way, rounds: int) -> float:
    """Returns the seconds of one message, as the mean of some rounds there and back."""
    from mpi4py import MPI

    first, second = way.send, way.receive
    if MPI.COMM_WORLD.rank == 1:
        first, second = second, first

    def there_and_back() -> None:
        first()
        second()

    MPI.COMM_WORLD.Barrier()
    return mean_of(there_and_back, rounds)() / 2


def measure_together(
    case: str,
    count: int,
    checks: Mapping[str, Callable[[], bool]],
    ways: Mapping[str, Timed],
    sample_s: float,
    rounds_max: int,
) -> None:
    """Checks ways, and takes samples of all in turns; the first process prints a line of JSON.

    Args:
        case: Name of the case.
        count: Bytes that each way moves.
        checks: Whether what a way writes is right, by the variant's name.
        ways: Each variant's work.
        sample_s: Seconds that a sample should take.
        rounds_max: Most times that the work is done for one.
    """
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    for variant, check in checks.items():
        if not world.allreduce(check(), MPI.LAND):
            words = f"{case}, {variant}: what arrived differs from what was sent"
            print(words, file=sys.stderr, flush=True)
            world.Abort(1)
    rounds = {}
    for variant, timed in ways.items():
        once = world.bcast(timed(3))
        rounds[variant] = min(max(math.ceil(sample_s / once), 2), rounds_max)
    seconds: dict[str, list[float]] = {variant: [] for variant in ways}
    for _ in range(SAMPLES):
        for variant, timed in ways.items():
            seconds[variant].append(float(f"{timed(rounds[variant]):.4g}"))
    if world.rank == 0:
        library = MPI.Get_library_version().split("\n")[0].strip()
        line = {"case": case, "bytes": count, "library": library, "seconds": seconds}
        print(json.dumps(line), flush=True)


def run_two_processes(
    bench: Bench, launcher: Sequence[str], module: str, variables: Mapping[str, str], baseline: str
) -> None:
    """Runs a module of this package on two processes, and reports the lines that it prints.

    Raises:
        MismatchError: A process failed.
    """
    words = [f"{name}={value}" for name, value in variables.items()]
    program = [sys.executable, "-m", f"tranship_bench.{module}"]
    size = "full" if bench.full else "small"
    command = [*launcher, "-n", "2", "env", *words, *program, size]
    bench.say(f"running {shlex.join(command)}")
    outcome = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=False
    )
    if outcome.returncode != 0:
        raise MismatchError(f"the processes failed with exit code {outcome.returncode}")
    for line in outcome.stdout.splitlines():
        found = json.loads(line)
        library = library_name(found["library"])
        conditions = {"library": library, "cold": False, "timed": "python"}
        case = f"{found['case']}, {library.rpartition(' ')[0]}"
        bench.report(case, found["seconds"], found["bytes"], baseline, conditions)
