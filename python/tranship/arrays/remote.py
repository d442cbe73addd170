"""Arrays of other processes."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from .. import _core
from .core_array import CoreArray

__all__ = ["RemoteArray"]


class RemoteArray(CoreArray):
    """An array that another process exports; see `Engine.connect`."""

    def __init__(self, core: _core.Array, name: str, engine: _core.EngineCore) -> None:
        self._core = core
        self.name = name
        self._engine = engine

    def _read_into(self, out: npt.NDArray[Any]) -> None:
        self._engine.copy(self._core, out, None, 0, None, "automatic", 0, None).wait()
