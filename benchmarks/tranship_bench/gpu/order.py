"""Plain calls from Python, in the order of the arrays' streams, beside PyTorch.

- plain calls from Python without `stream=`: 4 KiB inside a GPU, NumPy arrays of 4 KiB to 256 MiB to
  a GPU and back; beside PyTorch's `copy_`.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tranship.engine import Engine

from ..harness import Bench
from ..registry import measures
from .copies import find_library, gpu_engine

__all__ = ["gpu_order"]

SMALL = 4096
TENSORS = 64
TIMEOUT = 60.0
Ways = dict[str, Callable[[], object]]


@measures("gpu-order", "plain calls in the order of the arrays' streams, beside PyTorch")
def gpu_order(bench: Bench) -> None:
    """Measures calls in a row, without `stream=`, until the GPU has carried the last one."""
    with gpu_engine(bench) as engine:
        torch = find_library(engine, "torch")
        new = Arrays(engine, torch)
        inside(bench, engine, new)
        for nbytes in (SMALL, 1 << 20, bench.pick(256 << 20, 2 << 20)):
            over_the_link(bench, engine, new, nbytes)


class Arrays:
    """Arrays of float32 on the GPU: PyTorch's where it is there, else the engine's."""

    def __init__(self, engine: Engine, torch: Any) -> None:
        self.engine = engine
        self.torch = torch

    def empty(self, nbytes: int) -> Any:
        if self.torch is None:
            return self.engine.empty(nbytes // 4, "f4", memory="device0")
        return self.torch.zeros(nbytes // 4, device="cuda")

    def holds(self, array: Any, value: float) -> bool:
        host = np.zeros(array.shape, "f4")
        self.engine.copy(array, host).wait(timeout=TIMEOUT)
        return bool((host == value).all())

    def write(self, array: Any, value: float) -> None:
        self.engine.copy(np.full(array.shape, value, "f4"), array).wait(timeout=TIMEOUT)

    def wait(self) -> None:
        if self.torch is not None:
            self.torch.cuda.synchronize()

    def measure(self, bench: Bench, case: str, nbytes: int, ways: Ways, calls: int) -> None:
        """Reports the seconds of one call of each way; the ways take turns."""
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(bench.pick(8, 2)):
            for name, work in ways.items():
                self.wait()
                begin = time.perf_counter()
                for _ in range(calls):
                    work()
                self.wait()
                if turn > 0:  # the first one loads kernels and fills caches
                    seconds[name].append((time.perf_counter() - begin) / calls)
        for name, times in seconds.items():
            bench.emit(case, name, nbytes, times, conditions={"timed": "python"})


def inside(bench: Bench, engine: Engine, new: Arrays) -> None:
    """Measures 4 KiB inside the GPU: the same two arrays, and 64 pairs in turns."""
    pairs = [(new.empty(SMALL), new.empty(SMALL)) for _ in range(TENSORS)]
    source, target = pairs[0]
    prepared = engine.prepare(source, target)
    turns = {name: itertools.cycle(pairs) for name in ("ours", "theirs")}
    same: Ways = {
        "copy": lambda: engine.copy(source, target),
        "copy, stream=none": lambda: engine.copy(source, target, stream="none"),
        "prepared": lambda: prepared.start(),
    }
    any_of: Ways = {"copy": lambda: engine.copy(*next(turns["ours"]))}
    if new.torch is not None:
        same["PyTorch, copy_"] = lambda: target.copy_(source)

        def theirs() -> None:
            one, other = next(turns["theirs"])
            other.copy_(one)

        any_of["PyTorch, copy_"] = theirs
    for number, (one, other) in enumerate(pairs):
        new.write(one, number + 1)
        engine.copy(one, other).wait(timeout=TIMEOUT)
        if not new.holds(other, number + 1):
            raise AssertionError(f"pair {number} arrived changed")
    calls = bench.pick(2000, 20)
    new.measure(bench, "4 KiB inside the GPU, the same arrays", SMALL, same, calls)
    new.measure(bench, f"4 KiB inside the GPU, {TENSORS} pairs in turns", SMALL, any_of, calls)


def over_the_link(bench: Bench, engine: Engine, new: Arrays, nbytes: int) -> None:
    """Measures a NumPy array to the GPU and back."""
    device, host = new.empty(nbytes), np.full(nbytes // 4, 3, "f4")
    back = np.zeros_like(host)
    engine.copy(host, device).wait(timeout=TIMEOUT)
    engine.copy(device, back).wait(timeout=TIMEOUT)
    if not (back == 3).all():
        raise AssertionError(f"{nbytes} bytes arrived changed")
    up: Ways = {
        "copy": lambda: engine.copy(host, device),
        "copy, stream=none": lambda: engine.copy(host, device, stream="none").wait(timeout=TIMEOUT),
    }
    down: Ways = {"copy": lambda: engine.copy(device, back).wait(timeout=TIMEOUT)}
    if new.torch is not None:
        theirs, received = new.torch.from_numpy(host), new.torch.from_numpy(back)
        up["PyTorch, copy_"] = lambda: device.copy_(theirs)
        down["PyTorch, copy_"] = lambda: received.copy_(device)
    calls = bench.pick(max(5, min(500, (64 << 20) // nbytes)), 2)
    size = f"{nbytes >> 20} MiB" if nbytes >= 1 << 20 else f"{nbytes >> 10} KiB"
    new.measure(bench, f"{size} from NumPy to the GPU", nbytes, up, calls)
    new.measure(bench, f"{size} from the GPU to NumPy", nbytes, down, calls)
