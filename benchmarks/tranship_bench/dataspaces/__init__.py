"""DataSpaces-GPU's evaluation (Euro-Par 2023, section 5), simulated on Perlmutter's nodes.

Each benchmark is one figure. Real plans and the scheduler run on virtual time, objects lie where
the service's own placement puts them, and requests to servers take simulated time. Each result line
says so: ``"simulated": true``. ``checked`` means that every simulated task ended and that the bytes
add up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..isometry.simulated import SimulatedBench, run_one
from . import reassembly, workflows

__all__ = ["BENCHES", "run"]

Body = Callable[[SimulatedBench], None]

BENCHES: dict[str, tuple[str, Body]] = {
    "staging-figure9a": (
        "puts and gets by design, 64 writers and 64 readers, simulated",
        workflows.figure9a,
    ),
    "staging-figure9b": ("objects put together, by design, simulated", reassembly.figure9b),
    "staging-figure10": (
        "weak scaling of a workflow on 8 to 16,384 GPUs, simulated",
        workflows.figure10,
    ),
}


run = partial(run_one, BENCHES)
