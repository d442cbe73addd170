"""Arrays in the memory of a GPU, for programs that use no other GPU library."""

from __future__ import annotations

from typing import Any, NoReturn, Self

import numpy as np
import numpy.typing as npt

from .. import _core
from ..arguments import guard_methods
from ..closing import refuse_pickling
from .core_array import CPU, CUDA, Core, CoreArray
from .dtypes import dtype_fields, interface_fields
from .points import record_of
from .views import c_strides

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

    _dtype: np.dtype[Any]

    def __init__(
        self,
        engine: _core.EngineCore,
        memory: _core.DeviceMemory,
        core: _core.Array,
        dtype: np.dtype[Any],
    ) -> None:
        self._engine = engine
        self._memory = memory
        self._core = core
        self._dtype = dtype

    @property
    def device(self) -> int:
        """Number of the GPU."""
        return self._memory.device

    def _with(self, core: Core, dtype: np.dtype[Any] | None) -> Self:
        """Returns other elements of the same memory, described from their own first byte on.

        Parts of one shape then differ in their addresses alone: they share plans, and a prepared
        copy starts on any of them.
        """
        kind = self._dtype if dtype is None else dtype
        fields, strides = record_of(core)
        placed = dtype_fields(kind)
        shape = [extent for _, extent in core.extents]
        empty = 0 in shape
        start = 0 if empty else fields[0][3] - placed[0][3]
        address = _core.address(core) + start
        moved = _core.strided(self._memory, address, shape, strides, placed, True)
        if not empty:
            moved = _core.placed(moved, "device", self._memory.device, None)
        return super()._with(moved, kind)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """What GPU libraries read. No stream: nothing is outstanding once a copy was waited for."""
        empty = 0 in self.shape
        fields, strides = record_of(self._core)
        start = fields[0][3] - dtype_fields(self.dtype)[0][3]
        interface = {
            "version": 3,
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (0 if empty else _core.address(self._core) + start, False),
            "strides": None if empty else strides,
            "stream": None,
        }
        descr = interface_fields(self.dtype)
        return interface if descr is None else interface | {"descr": descr}

    def __dlpack_device__(self) -> tuple[int, int]:
        """Returns type and number of the device, as DLPack counts them: CUDA and the GPU's number;
        the host for an emulated GPU.
        """
        return (CPU, 0) if self.emulated else (CUDA, self.device)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Any:
        """Refused, so that a copy over the bus is visible in the program."""
        self._check_implicit_read()

    def _check_implicit_read(self) -> None:
        raise TypeError("the array lies on a GPU; use .numpy() for a copy in host memory")

    def copy(self) -> DeviceArray:
        """Returns a dense copy on the same GPU."""
        out = self._empty_like(self.shape, self.dtype)
        out._write(self)
        return out

    def _empty_like(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> DeviceArray:
        assert self._engine is not None
        return empty_device(self._engine, shape, dtype, self.device)

    def __reduce__(self) -> NoReturn:
        refuse_pickling(self, "send array.numpy(), or export it with Engine.export()")

    @property
    def emulated(self) -> bool:
        """Whether the GPU is emulated in host memory."""
        assert self._engine is not None
        gpus, _ = _core.list_gpus(self._engine)
        return any(gpu["emulated"] for gpu in gpus if gpu["device"] == self.device)

    def __repr__(self) -> str:
        where = f"device{self.device}" + (" (emulated)" if self.emulated else "")
        return f"<DeviceArray on {where}: shape {self.shape}, {self.dtype}>"


def empty_device(
    engine: _core.EngineCore,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    device: int,
) -> DeviceArray:
    """Returns a dense array on a GPU with undefined contents."""
    count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    memory = _core.allocate(engine, "device", device, max(count, 1))
    strides = c_strides(shape, dtype.itemsize)
    core = _core.strided(memory, memory.address, shape, strides, dtype_fields(dtype), True)
    return DeviceArray(engine, memory, _core.placed(core, "device", memory.device, None), dtype)
