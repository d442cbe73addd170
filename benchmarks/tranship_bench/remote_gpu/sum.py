"""The pairwise sum on a GPU, timed by the GPU: with CuPy or PyTorch.

On emulated GPUs, NumPy computes the sum in place, and the processor's clock times it.
"""

from __future__ import annotations

import ctypes
import importlib
import time
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from tranship import _core
from tranship.engine import Engine
from tranship.errors import Error

from ..gpu.copies import address_of

Sum = Callable[[int], float]
"""A function that computes the sum a number of times and returns the seconds of the GPU."""

LIBRARIES = {"cupy": "CuPy", "torch": "PyTorch"}
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


def device_triple(engine: Engine, elements: int) -> list[Any]:
    """Returns three vectors on GPU 0: the two inputs and the result."""
    return [engine.empty(elements, "f4", memory="device0") for _ in range(3)]


def with_numpy(arrays: list[Any]) -> Sum:
    """Returns a sum by NumPy on emulated GPUs, whose memory NumPy reaches."""
    memories = [(ctypes.c_float * one.shape[0]).from_address(address_of(one)) for one in arrays]
    left, right, total = (np.ctypeslib.as_array(memory) for memory in memories)

    def run(repeats: int) -> float:
        begin = time.perf_counter()
        for _ in range(repeats):
            np.add(left, right, out=total)
        return time.perf_counter() - begin

    return run


def with_library(module: str, arrays: list[Any]) -> Sum:
    """Returns a sum by the kernel of CuPy or PyTorch, timed by two events of its stream.

    Raises:
        Error: The library has copied the arrays: its sum would go to the copy.
    """
    library = importlib.import_module(module)
    cuda, device = library.cuda, arrays[0].device
    scope = partial(cuda.device if module == "torch" else cuda.Device, device)
    with scope():
        if module == "torch":
            views = [library.as_tensor(array, device=f"cuda:{device}") for array in arrays]
            addresses = [view.data_ptr() for view in views]
            begin, end = (cuda.Event(enable_timing=True) for _ in range(2))
            elapsed_ms = begin.elapsed_time
        else:
            views = [library.asarray(array) for array in arrays]
            addresses = [view.data.ptr for view in views]
            begin, end = cuda.Event(), cuda.Event()
            elapsed_ms = partial(cuda.get_elapsed_time, begin)
    if [address_of(array) for array in arrays] != addresses:
        raise Error(f"{LIBRARIES[module]} copied the arrays instead of taking them where they lie")
    left, right, total = views

    def run(repeats: int) -> float:
        with scope():
            begin.record()
            for _ in range(repeats):
                library.add(left, right, out=total)
            end.record()
            end.synchronize()
            return float(elapsed_ms(end)) / 1e3

    return run


@cache
def library_for(engine: Engine) -> tuple[str, Callable[[list[Any]], Sum]]:
    """Returns the first library that computes a small sum right, by name and version.

    Raises:
        Error: No library does; the text gives the reason for each.
    """
    if first_gpu(engine)["emulated"]:
        return f"NumPy {np.__version__} on emulated GPUs", with_numpy
    reasons = []
    for module, name in LIBRARIES.items():
        make = partial(with_library, module)
        try:
            try_out(engine, make)
            return f"{name} {importlib.import_module(module).__version__}", make
        except Exception as error:  # libraries raise various exceptions; the next library may work
            reasons.append(f"{name}: {type(error).__name__}: {error}")
    raise Error(
        "computing on the GPU needs CuPy or PyTorch",
        "install one that fits its driver, such as "
        f"`pip install cupy-cuda13x` ({'; '.join(reasons)})",
    )


def try_out(engine: Engine, make: Callable[[list[Any]], Sum]) -> None:
    """Computes a small sum on the GPU and compares it."""
    left, right = np.arange(TRIAL, dtype="f4"), np.ones(TRIAL, "f4")
    arrays = device_triple(engine, TRIAL)
    for source, target in zip((left, right), arrays, strict=False):
        engine.copy(source, target).wait(timeout=30)
    make(arrays)(1)
    if not np.array_equal(arrays[2].numpy(), left + right):
        raise Error("its sum is wrong")


def computed_by(engine: Engine) -> str:
    """Returns the name and version of the library that computes."""
    return library_for(engine)[0]


def prepare(engine: Engine, arrays: list[Any]) -> Sum:
    """Returns a function that sums these arrays."""
    return library_for(engine)[1](arrays)
