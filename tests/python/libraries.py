"""A GPU library as others are, on emulated GPUs: it works in streams, and has a current one."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from exchange_tables import CUDA, FLOAT, Current, Given, Table, capsule, to_managed, to_tensor

import tranship as ts
from tranship import _core

CURRENT: dict[int, int] = {}
"""Handle of the library's current stream on each GPU; 0: the default stream."""


@Current
def current_stream(device_type: int, device: int, stream: Any) -> int:
    stream[0] = CURRENT.get(device, 0) or None
    return 0


TABLE = Table(1, 3, None, None, to_managed, None, to_tensor, current_stream)


class Library:
    """Makes arrays on emulated GPUs, and puts kernels into streams, which a test holds."""

    def __init__(self, engine: ts.Engine, devices: int = 2) -> None:
        self.engine = engine
        self.streams = [[self.new_stream(device) for _ in range(2)] for device in range(devices)]
        self.use([streams[0] for streams in self.streams])

    def new_stream(self, device: int) -> Any:
        stream = _core.EmulatedStream(self.engine._core, device)
        stream.let_go()
        return stream

    def use(self, streams: list[Any]) -> None:
        """Makes these the current streams, one of each GPU."""
        self.current = streams
        CURRENT.update({device: stream.handle for device, stream in enumerate(streams)})

    def close(self) -> None:
        CURRENT.clear()
        for streams in self.streams:
            for stream in streams:
                stream.let_go()


class TableArray(Given):
    """An array of the library with DLPack's exchange table, as PyTorch's."""

    __dlpack_c_exchange_api__: ClassVar[Any] = capsule(TABLE)
    __module__ = "torch"

    def __init__(self, library: Library, shape: tuple[int, ...], device: int) -> None:
        self.library, self.device = library, device
        self.on_gpu = library.engine.empty(shape, "f4", memory=f"device{device}")
        address = self.on_gpu.__cuda_array_interface__["data"][0]
        super().__init__(np.zeros(shape, "f4"), CUDA, device, address, FLOAT)
        self.fill(0)

    def fill(self, value: int) -> None:
        """Sets all bytes, by a kernel in the current stream."""
        address = self.on_gpu.__cuda_array_interface__["data"][0]
        nbytes = 4 * int(np.prod(self.on_gpu.shape))
        self.library.current[self.device].fill(address, nbytes, value)


class InterfaceArray:
    """An array of the library with the CUDA array interface, as CuPy's."""

    def __init__(self, library: Library, shape: tuple[int, ...], device: int) -> None:
        self.library, self.device = library, device
        self.on_gpu = library.engine.empty(shape, "f4", memory=f"device{device}")
        self.fill(0)

    fill = TableArray.fill

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        stream = self.library.current[self.device].handle
        return dict(self.on_gpu.__cuda_array_interface__) | {"stream": stream}
