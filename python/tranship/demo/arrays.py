"""NumPy on hosts, CuPy on GPUs: the demo's arithmetic is the same for both."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np

import tranship as ts
from tranship import _core
from tranship.demo.settings import Settings


def usable_gpus() -> int:
    """Returns how many GPUs the demo can use: those of this machine, if CuPy is installed."""
    if importlib.util.find_spec("cupy") is None:
        return 0
    with ts.Engine() as engine:
        return len(_core.list_gpus(engine._core)[0])


def array_module(settings: Settings, rank: int | None = None) -> Any:
    """Returns NumPy or CuPy; given a rank, makes that process's GPU the current one."""
    if settings.gpus == 0:
        return np
    import cupy  # type: ignore[import-not-found,import-untyped,unused-ignore]

    if rank is not None:
        cupy.cuda.Device(rank % settings.gpus).use()
    return cupy


def to_host(values: Any) -> Any:
    """Returns a NumPy array of the same values; the array itself if it is one."""
    if isinstance(values, np.ndarray):
        return values
    return values.numpy() if isinstance(values, ts.DeviceArray) else values.get()
