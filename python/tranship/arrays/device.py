"""Arrays in the memory of a GPU, for programs that use no other GPU library."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import InvalidArgument
from .core_array import CoreArray, c_strides, cuts_of
from .dtypes import dtype_fields

__all__ = ["DeviceArray"]


class DeviceArray(CoreArray):
    """An array in GPU memory, made by `Engine.empty`; slices refer to the same memory.

    GPU libraries take it as it is through ``__cuda_array_interface__`` (``cupy.asarray(array)``,
    ``torch.as_tensor(array, device="cuda")``), and `Engine.copy` as source and target. The memory
    lives as long as an array that refers to it, whatever becomes of the engine. On emulated GPUs it
    is memory of the host, which no other library may take for a GPU's.
    """

    def __init__(
        self,
        engine: _core.EngineCore,
        memory: _core.DeviceMemory,
        address: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: np.dtype[Any],
    ) -> None:
        self._engine = engine
        self._memory = memory
        self._address = address
        self._strides = strides
        self._dtype = dtype
        core = _core.strided(memory, address, shape, strides, dtype_fields(dtype), True)
        self._core = core if 0 in shape else _core.placed(core, "device", memory.device, None)

    @property
    def device(self) -> int:
        """Number of the GPU."""
        return self._memory.device

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one index to the next in each dimension."""
        return self._strides

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of an element, as NumPy has it."""
        assert self._dtype is not None
        return self._dtype

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """What GPU libraries read. No stream: nothing is outstanding once a copy was waited for."""
        empty = 0 in self.shape
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": self.dtype.str,
            "descr": self.dtype.descr,
            "data": (0 if empty else self._address, False),
            "strides": None if empty else self._strides,
            "stream": None,
        }

    def numpy(self) -> npt.NDArray[Any]:
        """A copy of it in host memory."""
        out = np.empty(self.shape, self.dtype)
        self._engine.copy(self._core, out, None, 0, None, "automatic", 0, None).wait()
        return out

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Any:
        """Refused: a copy over the bus should be seen in the program."""
        raise TypeError("the array lies on a GPU; use .numpy() for a copy in host memory")

    def __getitem__(self, key: Any) -> DeviceArray:
        """A part, as NumPy's basic indexing has it: numbers, ranges with steps, one ellipsis."""
        address = self._address
        shape: list[int] = []
        strides: list[int] = []
        cuts = cuts_of(key, self.shape)
        for (start, count, step, drop), stride in zip(cuts, self._strides, strict=True):
            address += start * stride if count else 0
            if not drop:
                shape.append(count)
                strides.append(step * stride)
        return DeviceArray(
            self._engine, self._memory, address, tuple(shape), tuple(strides), self.dtype
        )

    def transpose(self, order: tuple[int, ...] | None = None) -> DeviceArray:
        """The same memory with its dimensions in another order (None: reversed)."""
        order = tuple(reversed(range(len(self.shape)))) if order is None else order
        if sorted(order) != list(range(len(self.shape))):
            raise InvalidArgument(f"{order} is no order of {len(self.shape)} dimensions")
        shape = tuple(self.shape[k] for k in order)
        strides = tuple(self._strides[k] for k in order)
        return DeviceArray(self._engine, self._memory, self._address, shape, strides, self.dtype)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return self.shape[0]

    def __iter__(self) -> Iterator[DeviceArray]:
        return (self[k] for k in range(len(self)))

    def __repr__(self) -> str:
        return f"<DeviceArray on device{self.device}: shape {self.shape}, {self.dtype}>"


def device_number(memory: str) -> int:
    """The number in "device", "device0", "device1".

    Raises:
        InvalidArgument: it is the name of no memory.
    """
    found = re.fullmatch(r"device(\d*)", memory)
    if found is None:
        raise InvalidArgument(
            f'memory is "host", "pinned", "device0", "device1" and so on, not {memory!r}'
        )
    return int(found[1] or 0)


def empty_device(
    engine: _core.EngineCore,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    device: int,
) -> DeviceArray:
    """A dense array on a GPU; its contents are whatever lay there."""
    count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    memory = _core.allocate(engine, "device", device, max(count, 1))
    strides = tuple(c_strides(shape, dtype.itemsize))
    return DeviceArray(engine, memory, memory.address, shape, strides, dtype)
