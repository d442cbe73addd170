"""Follows a melt: the temperature of its atoms and their radial distribution, step by step.

Usage: analysis.py CONTACT. It ends when LAMMPS has; its status is 1 if the temperature that it
computes from the velocities is not the one that LAMMPS gives.
"""

from __future__ import annotations

import sys

import numpy as np

import tranship as ts

BINS = 60
ROWS = 256
"""Atoms whose distances to all others are computed at once."""


def temperature(velocities):
    """In Lennard-Jones units; the momentum of the whole is no temperature."""
    return float((velocities**2).sum() / (3 * (len(velocities) - 1)))


def radial_distribution(positions, sides):
    """How many times as dense as on average it is around an atom, and at which distances."""
    edges = np.linspace(0, min(sides) / 2, BINS + 1)
    counts = np.zeros(BINS)
    for first in range(0, len(positions), ROWS):
        apart = positions[first : first + ROWS, None] - positions[None]
        apart -= sides * np.round(apart / sides)  # to the nearest image
        counts += np.histogram(np.sqrt((apart**2).sum(axis=2)), edges)[0]
    counts[0] -= len(positions)  # each is at distance 0 of itself
    shells = 4 / 3 * np.pi * np.diff(edges**3)
    density = len(positions) / np.prod(sides)
    return (edges[1:] + edges[:-1]) / 2, counts / (len(positions) * density * shells)


def main():
    """A line for each step."""
    right = True
    with ts.Staging(sys.argv[1], timeout=60) as staging:
        for step in staging["state"].versions():
            atoms, expected, *sides = staging.get("state", step)
            box = (0, 0), (int(atoms), 3)
            positions = staging.get("positions", step, *box)
            velocities = staging.get("velocities", step, *box)
            for name in ("positions", "velocities", "state"):
                staging.discard(name, step)
            found = temperature(velocities)
            right &= bool(np.isclose(found, expected, rtol=1e-9))
            distance, times = radial_distribution(positions, np.array(sides))
            peak = int(times.argmax())
            print(
                f"step {step:5} of {int(atoms)} atoms: temperature {found:.6f} (LAMMPS: "
                f"{expected:.6f}), densest at {distance[peak]:.2f}: {times[peak]:.2f} times",
                flush=True,
            )
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
