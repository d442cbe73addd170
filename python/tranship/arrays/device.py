"""Arrays in the memory of a GPU, for programs that use no other GPU library."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NoReturn, Self, SupportsIndex, cast

import numpy as np
import numpy.typing as npt

from .. import _core
from ..arguments import guard_methods, shown
from ..closing import refuse_pickling
from ..errors import InvalidArgument, NotFound
from .core_array import CoreArray, c_strides, cuts_of
from .dtypes import dtype_fields, interface_fields

__all__ = ["DeviceArray"]


@guard_methods
class DeviceArray(CoreArray):
    """An array in GPU memory, made by `Engine.empty`; slices refer to the same memory.

    `Engine.copy` takes it as source and target, and GPU libraries take it without a copy through
    ``__cuda_array_interface__`` (``cupy.asarray(array)``,
    ``torch.as_tensor(array, device="cuda")``). The memory is freed with the last array that refers
    to it, even after the engine was closed. On emulated GPUs the array lies in host memory, which
    no other library may take for a GPU's.
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
        interface = {
            "version": 3,
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (0 if empty else self._address, False),
            "strides": None if empty else self._strides,
            "stream": None,
        }
        descr = interface_fields(self.dtype)
        return interface if descr is None else interface | {"descr": descr}

    def numpy(self) -> npt.NDArray[Any]:
        """Returns a copy in host memory."""
        out = np.empty(self.shape, self.dtype)
        self._engine.copy(self._core, out, None, 0, None, "automatic", 0, None).wait()
        return out

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Any:
        """Refused, so that a copy over the bus is visible in the program."""
        raise TypeError("the array lies on a GPU; use .numpy() for a copy in host memory")

    def __reduce__(self) -> NoReturn:
        refuse_pickling(self, "send array.numpy(), or export it with Engine.export()")

    def __getitem__(self, key: Any) -> Self:
        """Returns a part, which refers to the same memory.

        Args:
            key: Indices, ranges with steps and one ellipsis, as in NumPy's basic indexing; or the
                name of a field.
        """
        if isinstance(key, str):
            return self._field(key)
        address = self._address
        shape: list[int] = []
        strides: list[int] = []
        cuts = cuts_of(key, self.shape)
        for (start, count, step, drop), stride in zip(cuts, self._strides, strict=True):
            address += start * stride if count else 0
            if not drop:
                shape.append(count)
                strides.append(step * stride)
        return self._view(address, tuple(shape), tuple(strides), self.dtype)

    def _view(
        self,
        address: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: np.dtype[Any],
    ) -> Self:
        return type(self)(self._engine, self._memory, address, shape, strides, dtype)

    def _field(self, name: str) -> Self:
        fields: Any = self.dtype.fields or {}
        if name not in fields:
            known = ", ".join(fields)
            raise NotFound(
                f"the array has no field {name!r}",
                f"name one of its fields: {known}" if known else f"its type is {self.dtype}",
            )
        dtype, offset = fields[name][:2]
        return self._view(self._address + offset, self.shape, self._strides, dtype)

    def transpose(self, *order: SupportsIndex | Sequence[SupportsIndex] | None) -> Self:
        """Returns the same memory with its dimensions in another order, as NumPy's `transpose`.

        Args:
            order: The dimensions in their new order, as ``transpose(1, 0)`` or
                ``transpose((1, 0))``. Default: reversed.

        Raises:
            InvalidArgument: Not every dimension is named once.
        """
        rank = len(self.shape)
        given: Any = order[0] if len(order) == 1 and not hasattr(order[0], "__index__") else order
        try:
            axes = [int(axis) for axis in cast("Sequence[Any]", given)] if given else None
        except (TypeError, ValueError):
            axes = []
        axes = list(reversed(range(rank))) if axes is None else axes
        axes = [axis + rank if axis < 0 else axis for axis in axes]
        if sorted(axes) != list(range(rank)):
            raise InvalidArgument(
                f"{shown(given)} is not an order of {rank} dimensions",
                f"name each dimension from 0 to {rank - 1} once",
            )
        shape = tuple(self.shape[k] for k in axes)
        strides = tuple(self._strides[k] for k in axes)
        return self._view(self._address, shape, strides, self.dtype)

    @property
    def T(self) -> Self:  # noqa: N802
        """The same memory with its dimensions reversed."""
        return self.transpose()

    @property
    def emulated(self) -> bool:
        """Whether the GPU is emulated in host memory."""
        gpus, _ = _core.list_gpus(self._engine)
        return any(gpu["emulated"] for gpu in gpus if gpu["device"] == self.device)

    def __repr__(self) -> str:
        where = f"device{self.device}" + (" (emulated)" if self.emulated else "")
        return f"<DeviceArray on {where}: shape {self.shape}, {self.dtype}>"


def device_number(memory: str) -> int:
    """Returns the number in "device", "device0", "device1".

    Raises:
        InvalidArgument: There is no such memory.
    """
    found = re.fullmatch(r"device(\d{0,3})", memory, re.ASCII)
    if found is None:
        raise InvalidArgument(
            f"memory={shown(memory)} is not a memory",
            'give "host", "pinned", "device0", "device1", …',
        )
    return int(found[1] or 0)


def empty_device(
    engine: _core.EngineCore,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    device: int,
) -> DeviceArray:
    """Returns a dense array on a GPU with undefined contents."""
    count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    memory = _core.allocate(engine, "device", device, max(count, 1))
    strides = tuple(c_strides(shape, dtype.itemsize))
    return DeviceArray(engine, memory, memory.address, shape, strides, dtype)
