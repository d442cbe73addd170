"""One of several readers: follows its columns of the field, and checks every value.

Usage: reader.py CONTACT. Ends when the writers have; its status is 1 if a step is wrong or missing.
"""

from __future__ import annotations

import os
import sys

import numpy as np
from writer import SIDE, START_S, STEPS, field

import tranship as ts


def main():
    """Slurm says which of how many readers this is."""
    rank, ranks = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
    left, right = SIDE * rank // ranks, SIDE * (rank + 1) // ranks
    seen = []
    with ts.Staging(sys.argv[1], timeout=START_S) as staging:
        box = (0, left), (SIDE, right)
        columns = staging["field"]
        for step in columns.versions(lower=box[0], upper=box[1], timeout=START_S):
            got = staging.get("field", step, *box)
            if np.array_equal(got, field(step, 0, SIDE)[:, left:right]):
                seen.append(step)
    print(f"reader {rank} of {ranks}: {len(seen)} of {STEPS} steps as written", flush=True)
    return 0 if seen == list(range(STEPS)) else 1


if __name__ == "__main__":
    sys.exit(main())
