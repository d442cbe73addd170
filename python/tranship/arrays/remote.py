"""Arrays of other processes."""

from __future__ import annotations

from .. import _core
from .core_array import CoreArray

__all__ = ["RemoteArray"]


class RemoteArray(CoreArray):
    """An array that another process exports; see `Engine.connect`.

    It is read and written as a NumPy array is: ``peer["a"][2:5] = x``. Each such access is a copy
    between the processes, and waits for its end.
    """

    _bound = True

    def __init__(self, core: _core.Array, name: str, engine: _core.EngineCore) -> None:
        self._core = core
        self.name = name
        self._engine = engine
