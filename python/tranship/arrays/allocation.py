"""New arrays in host memory, pinned memory and the memory of GPUs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from .device import DeviceArray, empty_device
from .memories import device_number, memory_name

__all__ = ["new_array"]


class MemoryBuffer:
    """Keeps shared or pinned memory alive for the NumPy array over it."""

    def __init__(self, memory: _core.SharedMemory | _core.DeviceMemory, count: int) -> None:
        self.memory = memory
        self.__array_interface__ = {
            "version": 3,
            "shape": (count,),
            "typestr": "|u1",
            "data": (memory.address, False),
        }


_core.note_shared_buffers(MemoryBuffer)


def new_array(
    engine: _core.EngineCore, shape: tuple[int, ...], dtype: np.dtype[Any], memory: Any
) -> npt.NDArray[Any] | DeviceArray:
    """Returns a dense array: zeros in "host", undefined contents in "pinned" and "device<k>"."""
    where = memory_name(memory)
    if where not in ("host", "pinned"):
        return empty_device(engine, shape, dtype, device_number(where))
    count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    held: _core.DeviceMemory | _core.SharedMemory
    if where == "pinned":
        held = _core.allocate(engine, "pinned", -1, max(count, 1))
    else:
        held = _core.allocate_shared(engine, max(count, 1))
    buffer = MemoryBuffer(held, max(count, 1))
    return np.asarray(buffer)[:count].view(dtype).reshape(shape)
