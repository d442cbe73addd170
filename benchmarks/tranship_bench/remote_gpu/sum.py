"""The pairwise sum on a GPU, timed by the GPU: with CuPy or PyTorch.

On emulated GPUs, NumPy computes the sum in place, and the processor's clock times it.
"""

from __future__ import annotations

import ctypes
import importlib
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tranship import _core
from tranship.arrays import DeviceArray
from tranship.engine import Engine
from tranship.errors import Error

from ..harness import Array

__all__ = ["Triple", "computed_by", "first_gpu", "prepare"]

Triple = tuple[DeviceArray, DeviceArray, DeviceArray]
"""The two inputs and the result."""

Sum = Callable[[int], float]
"""A function that computes the sum a number of times and returns the seconds of the GPU."""

TRIAL = 1 << 10
"""Elements of the sum that shows whether a library works here."""


def first_gpu(engine: Engine) -> dict[str, Any]:
    """Returns the properties of GPU 0.

    Raises:
        Error: There is no GPU.
    """
    gpus, reason = _core.list_gpus(engine._core)
    if not gpus:
        raise Error(
            f"there is no GPU ({reason})",
            "run it where one is, or emulate one: TRANSHIP_EMULATED_GPUS=1",
        )
    return dict(gpus[0])


def address_of(array: DeviceArray) -> int:
    """Returns the address of an array in GPU memory."""
    address: int = array.__cuda_array_interface__["data"][0]
    return address


def with_numpy(arrays: Triple) -> Sum:
    """Returns a sum by NumPy on emulated GPUs, whose memory NumPy reaches."""
    views: list[Array] = []
    for array in arrays:
        memory = (ctypes.c_float * array.shape[0]).from_address(address_of(array))
        views.append(np.ctypeslib.as_array(memory))
    left, right, total = views

    def run(repeats: int) -> float:
        begin = time.perf_counter()
        for _ in range(repeats):
            np.add(left, right, out=total)
        return time.perf_counter() - begin

    return run


def with_cupy(arrays: Triple) -> Sum:
    """Returns a sum by CuPy's kernel, timed by two events of its stream."""
    cupy = importlib.import_module("cupy")
    with cupy.cuda.Device(arrays[0].device):
        views = [cupy.asarray(array) for array in arrays]
        check_addresses("CuPy", arrays, [view.data.ptr for view in views])
        left, right, total = views
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()

    def run(repeats: int) -> float:
        with cupy.cuda.Device(arrays[0].device):
            begin.record()
            for _ in range(repeats):
                cupy.add(left, right, out=total)
            end.record()
            end.synchronize()
            return float(cupy.cuda.get_elapsed_time(begin, end)) / 1e3

    return run


def with_torch(arrays: Triple) -> Sum:
    """Returns a sum by PyTorch's kernel, timed by two events of its stream."""
    torch = importlib.import_module("torch")
    device = f"cuda:{arrays[0].device}"
    views = [torch.as_tensor(array, device=device) for array in arrays]
    check_addresses("PyTorch", arrays, [view.data_ptr() for view in views])
    left, right, total = views
    with torch.cuda.device(device):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def run(repeats: int) -> float:
        with torch.cuda.device(device):
            begin.record()
            for _ in range(repeats):
                torch.add(left, right, out=total)
            end.record()
            end.synchronize()
            return float(begin.elapsed_time(end)) / 1e3

    return run


def check_addresses(library: str, arrays: Triple, addresses: list[int]) -> None:
    """Checks that a library has not copied the arrays: its sum would go to the copy."""
    if [address_of(array) for array in arrays] != list(addresses):
        raise Error(f"{library} copied the arrays instead of taking them where they lie")


LIBRARIES: tuple[tuple[str, str, Callable[[Triple], Sum]], ...] = (
    ("cupy", "CuPy", with_cupy),
    ("torch", "PyTorch", with_torch),
)


@cache
def library_for(engine: Engine) -> tuple[str, Callable[[Triple], Sum]]:
    """Returns the first library that computes a small sum right, by name and version.

    Raises:
        Error: No library does; the text gives the reason for each.
    """
    if first_gpu(engine)["emulated"]:
        return f"NumPy {np.__version__} on emulated GPUs", with_numpy
    reasons = []
    for module, name, make in LIBRARIES:
        try:
            try_out(engine, make)
            version = importlib.import_module(module).__version__
        except Exception as error:  # libraries raise various exceptions; the next library may work
            reasons.append(f"{name}: {type(error).__name__}: {error}")
            continue
        return f"{name} {version}", make
    raise Error(
        "computing on the GPU needs CuPy or PyTorch",
        "install one that fits its driver, such as "
        f"`pip install cupy-cuda13x` ({'; '.join(reasons)})",
    )


def try_out(engine: Engine, make: Callable[[Triple], Sum]) -> None:
    """Computes a small sum on the GPU and compares it."""
    left = np.arange(TRIAL, dtype="f4")
    right = np.ones(TRIAL, "f4")
    arrays = device_triple(engine, TRIAL)
    engine.copy(left, arrays[0]).wait(timeout=30)
    engine.copy(right, arrays[1]).wait(timeout=30)
    make(arrays)(1)
    if not np.array_equal(arrays[2].numpy(), left + right):
        raise Error("its sum is wrong")


def device_triple(engine: Engine, elements: int) -> Triple:
    """Returns three vectors on GPU 0."""
    made = [engine.empty(elements, "f4", memory="device0") for _ in range(3)]
    left, right, total = (array for array in made if isinstance(array, DeviceArray))
    return left, right, total


def computed_by(engine: Engine) -> str:
    """Returns the name and version of the library that computes."""
    return library_for(engine)[0]


def prepare(engine: Engine, arrays: Triple) -> Sum:
    """Returns a function that sums these arrays."""
    return library_for(engine)[1](arrays)
