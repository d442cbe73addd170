"""The shock-hydrodynamics workflow of DataSpaces-GPU (Table 2, Figure 10), with real processes.

One to four processes solve the demo's point explosion (`tranship.demo.sedov`), each on a block of
its own of as many cells (weak scaling), with CuPy where it is installed. Now and then they put
energy, pressure and density; as many readers get them in another decomposition, and compress
them with zfp where zfpy is installed. The times are those of puts and gets, without the computing.
The received data are compared byte for byte with those of the simulation.

- DataSpaces-GPU's shock-hydrodynamics workflow with real processes: 1, 2 and 4 processes (as there
  are GPUs) solve the demo's point explosion, each on as many cells of its own (256^3 with CuPy,
  128^3 without; weak scaling); energy, pressure and density go to as many readers in another
  decomposition, which compress them with zfp.
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
from typing import Any

from ..dataspaces.grids import Grid, cube_of
from ..harness import Bench, MismatchError
from ..registry import measures
from .boxes import KEPT, server
from .crew import Crew, Member, together
from .workflow import WARM, DesignOptions, Machine, Times, machine_of

__all__ = ["VARIABLES"]

MiB = 1 << 20
VARIABLES = ("energy", "pressure", "density")
STEPS_EACH = 1
"""Time steps between two turns of puts and gets; the paper has 100."""
MEMORY_FOLDER = Path("/dev/shm")
"""Folder whose files are in memory, on Linux."""
MODULE = "tranship_bench.staging.shock_worker"


@measures(
    "staging-shock",
    "the demo's blast and its analyses, 1 to 4 processes each, by the same designs",
    DesignOptions,
)
def staging_shock(bench: Bench) -> None:
    """Measures 1, 2 and 4 simulation processes, as far as each has a GPU."""
    options: DesignOptions = bench.options
    machine = machine_of(bench)
    most = machine.gpus or (4 if bench.full and not options.quick else 2)
    side = (256 if computes_on_gpus(machine) else 128) // (2 if options.quick else 1)
    for count in (1, 2, 4):
        if count <= most:
            scale(bench, options, machine, count, side if bench.full else 16)


def computes_on_gpus(machine: Machine) -> bool:
    """Returns whether the solver runs on GPUs; on host processors it is slow."""
    real = machine.gpus > 0 and "emulated" not in machine.words
    return real and importlib.util.find_spec("cupy") is not None


def folder_for(count: int) -> str | None:
    """Returns the folder in memory if it has room for twice `count` bytes; else None."""
    fits = MEMORY_FOLDER.is_dir() and shutil.disk_usage(MEMORY_FOLDER).free > 2 * count
    return str(MEMORY_FOLDER) if fits else None


def scale(bench: Bench, options: DesignOptions, machine: Machine, count: int, side: int) -> None:
    """Reports the lines of one number of processes."""
    parts = cube_of(count)
    grid = Grid(tuple(side * part for part in parts), parts)
    others = Grid(grid.cells, parts[::-1])
    each = 8 * side**3
    version_bytes = len(VARIABLES) * each * count
    memory = (KEPT + 2) * version_bytes + 64 * MiB
    with (
        tempfile.TemporaryDirectory(dir=folder_for(2 * version_bytes)) as folder,
        server(memory, max(1, count // 2)) as contact,
        Crew(2 * count, contact, MODULE) as crew,
    ):
        writers, readers = crew.workers[:count], crew.workers[count:]
        facts = begin(writers, readers, grid, others, machine, folder)
        times = Times()
        iterations = options.iterations or bench.pick(2 if options.quick else 5, 1)
        version = 0
        warm = WARM if bench.full else 1
        for iteration in range(warm + iterations):
            for sender, receiver in options.pairs():
                version += 1
                together(writers, "advance", steps=STEPS_EACH)
                put = together(writers, "publish", version=version, design=sender)
                together(readers, "clear_all")
                get = together(readers, "receive", version=version, design=receiver)
                check(readers, version, f"{count} processes, {sender}, {receiver}")
                if iteration >= warm:
                    times.add("put", sender, [answer["seconds"] for answer in put])
                    times.add("get", receiver, [answer["seconds"] for answer in get])
        packed = together(readers, "compress")
        ratio = statistics.mean(answer["ratio"] for answer in packed)
    conditions = {**facts, "cells_each": side**3, "iterations": iterations, "zfp_ratio": ratio}
    processes = f"{count} simulation process{'es' if count > 1 else ''}"
    counts = dict.fromkeys(("put", "get"), each * len(VARIABLES))
    times.emit(bench, f"shock, {processes}", counts, **conditions)


def begin(
    writers: list[Member],
    readers: list[Member],
    grid: Grid,
    others: Grid,
    machine: Machine,
    folder: str,
) -> dict[str, Any]:
    """Makes the blocks and the boxes; returns the conditions of the lines."""
    common = {"cells": grid.cells, "parts": grid.parts, "folder": folder}
    ranks = [{"rank": k, "memory": machine.memory(k)} for k in range(len(writers))]
    facts = together(writers, "begin_blast", ranks, **common)
    contacts = [member.contact for member in writers]
    together(writers, "meet", contacts=contacts)
    boxes = [
        {
            **rank,
            "box": others.box(k).corners,
            "objects": [
                (part.corners, grid.box(writer).corners, writer)
                for writer, part in grid.meeting(others.box(k))
            ],
        }
        for k, rank in enumerate(ranks)
    ]
    together(readers, "begin_reading", boxes, folder=folder)
    return {"simulation_processes": len(writers), **facts[0]}


def check(readers: list[Member], version: int, words: str) -> None:
    """Compares the data that the readers have got with those of the simulation."""
    answers = together(readers, "verify_all", version=version)
    if not all(answer["same"] for answer in answers):
        raise MismatchError(
            f"{words}: what readers got differs from what the simulation put. This is a bug: "
            "please report it with this line and `tranship topology`"
        )
