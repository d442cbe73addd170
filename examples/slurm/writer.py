"""One of several writers: puts its rows of a field, step by step. Usage: writer.py CONTACT."""

from __future__ import annotations

import os
import sys

import numpy as np

import tranship as ts

SIDE = 240
STEPS = 20
START_S = 120
"""Steps of a job begin in any order; the contact file may come late."""


def field(step, first, last):
    """Rows of the field at a step: each value is its own."""
    return step * SIDE * SIDE + np.arange(first * SIDE, last * SIDE, dtype="f8").reshape(-1, SIDE)


def main():
    """Slurm says which of how many writers this is."""
    rank, ranks = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
    first, last = SIDE * rank // ranks, SIDE * (rank + 1) // ranks
    with ts.Staging(sys.argv[1], timeout=START_S) as staging:
        staging.define("field", "f8", (0, 0), (SIDE, SIDE), writers=ranks)
        for step in range(STEPS):
            staging.put("field", step, field(step, first, last), (first, 0), timeout=START_S)


if __name__ == "__main__":
    main()
