"""The MPI library that mpi4py loads, for messages packed in its way."""

from __future__ import annotations

import ctypes
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..harness import Array, Bench, Bytes

__all__ = ["Mpi", "beside", "in_turns", "library_name", "load_mpi"]

TURN_SECONDS = 2e-3
"""Time of a repetition, which is many packs in a row."""


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
    begin = time.perf_counter()
    call()
    call()
    turns = max(int(2 * TURN_SECONDS / max(time.perf_counter() - begin, 1e-7)), 1)

    def seconds() -> float:
        begin = time.perf_counter()
        for _ in range(turns):
            call()
        return (time.perf_counter() - begin) / turns

    return seconds
