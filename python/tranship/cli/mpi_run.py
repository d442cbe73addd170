"""`tranship mpi-run`: an MPI program whose messages are packed by Tranship."""

from __future__ import annotations

import os
import shlex
import shutil
from enum import StrEnum
from typing import Annotated

import typer

from .. import mpi_library, profiles
from ..hardware import hardware
from .talk import CommandError, progress_bar, say

__all__ = ["EXAMPLES", "mpi_run"]

EXAMPLES = """
tranship mpi-run -n 4 ./program input.nml
tranship mpi-run -n 4 --report python program.py
tranship mpi-run --mpicxx mpicxx_abi -n 2 ./program
tranship mpi-run --mpiexec "mpiexec --oversubscribe" -n 8 ./program
eval srun -n 64 $(tranship mpi-run --show) ./program
"""

LAUNCHERS = ("mpiexec", "mpirun")


class Pack(StrEnum):
    """Which messages in host memory are packed by Tranship."""

    measured = "measured"
    always = "always"
    never = "never"


def mpi_run(
    program: Annotated[
        list[str] | None,
        typer.Argument(metavar="PROGRAM", help="The program and its arguments."),
    ] = None,
    processes: Annotated[
        int, typer.Option("-n", "--processes", metavar="N", min=1, help="Number of processes.")
    ] = 1,
    mpiexec: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND",
            help="The launcher, with its options. Default: mpiexec beside the compiler.",
        ),
    ] = None,
    mpicxx: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="C++ compiler of the program's MPI library. Default: $MPICXX, or mpicxx on PATH.",
        ),
    ] = None,
    pack: Annotated[
        Pack,
        typer.Option(
            help="Which messages in host memory are packed: those for which it was measured to be "
            "faster, all, or none."
        ),
    ] = Pack.measured,
    report: Annotated[
        bool, typer.Option("--report", help="Print what was packed, and what was left to MPI.")
    ] = False,
    show: Annotated[
        bool,
        typer.Option(
            "--show",
            help="Print the words that belong in front of the program, for another launcher.",
        ),
    ] = False,
) -> None:
    """Run an unchanged MPI program with its messages of derived types packed by Tranship.

    The first run with an MPI library compiles libtranship-mpi.so for it and measures which messages
    it should pack: about a minute of processor time. Both are kept.
    """
    if not program and not show:
        raise CommandError("there is no program to run", "name it after the options")
    if program and shutil.which(program[0]) is None:
        raise CommandError(
            f"there is no program {program[0]!r} that can be run here",
            "give its path, such as ./program; if only other machines have it, start it with their "
            "launcher and `tranship mpi-run --show`",
        )
    compiler = mpi_library.find_compiler(mpicxx)
    launcher = shlex.split(mpiexec) if mpiexec else [find_launcher(compiler)]
    library = mpi_library.MpiLibrary(compiler)
    if hardware()["gpus"]:
        profiles.of_this_machine()  # so that the processes do not measure it all at once
    words = ["env", f"LD_PRELOAD={preloaded(str(built(library)))}", f"TRANSHIP_MPI_PACK={pack}"]
    if pack == Pack.measured:
        words.append(f"TRANSHIP_MPI_CHOICES={measured(library, launcher)}")
    if report:
        words.append("TRANSHIP_MPI_REPORT=1")
    if show:
        print(shlex.join(words))
        return
    assert program is not None
    command = [*launcher, "-n", str(processes), *words, *program]
    try:
        os.execvp(command[0], command)
    except OSError as error:
        raise CommandError(
            f"{command[0]} cannot be started: {error.strerror}", "name the launcher with --mpiexec"
        ) from None


def preloaded(library: str) -> str:
    """Returns what is to be preloaded: the library before what the environment asks for."""
    return " ".join([library, *filter(None, [os.environ.get("LD_PRELOAD")])])


def find_launcher(compiler: str) -> str:
    """Returns the launcher of the compiler's MPI library, or the one on PATH.

    Raises:
        CommandError: There is none.
    """
    beside = [os.path.join(os.path.dirname(compiler), name) for name in LAUNCHERS]
    for each in (*beside, *LAUNCHERS):
        found = shutil.which(each)
        if found:
            return found
    raise CommandError("there is no mpiexec", "name the launcher with --mpiexec")


def built(library: mpi_library.MpiLibrary) -> str:
    """Returns the path of the library; says so when it is being compiled."""
    if not (library.folder / "libtranship-mpi.so").exists():
        say(f"compiling libtranship-mpi.so with {library.compiler}, once …")
    with progress_bar("compiling") as report:
        return str(library.library(report))


def measured(library: mpi_library.MpiLibrary, launcher: list[str]) -> str:
    """Returns the path of the measured choices; says so when they are being measured."""
    if not any(library.folder.glob(f"choices-{os.uname().nodename}.txt")):
        say("measuring which messages to pack, once …")
    with progress_bar("measuring") as report:
        return str(library.choices(launcher, report))
