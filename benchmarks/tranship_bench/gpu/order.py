"""Plain calls from Python, in the order of the arrays' streams, beside PyTorch.

- plain calls from Python without `stream=`: 4 KiB inside a GPU, NumPy arrays of 4 KiB to 256 MiB to
  a GPU and back; beside PyTorch's `copy_`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from tranship.engine import Engine

from ..harness import Bench, nothing, require
from ..registry import measures
from .copies import find_library, gpu_engine

__all__ = ["gpu_order"]

SMALL = 4096
TENSORS = 64
TIMEOUT = 60.0
ROUNDS = 7
Ways = dict[str, Callable[[], object]]


@measures("gpu-order", "plain calls in the order of the arrays' streams, beside PyTorch")
def gpu_order(bench: Bench) -> None:
    """Measures calls in a row, without `stream=`, until the GPU has carried the last one."""
    with gpu_engine(bench) as engine:
        new = Arrays(engine, find_library(engine, "torch"))
        inside(bench, engine, new)
        for nbytes in (SMALL, 1 << 20, bench.pick(256 << 20, 2 << 20)):
            over_the_link(bench, engine, new, nbytes)


class Arrays:
    """Arrays of float32 on the GPU: PyTorch's where it is there, else the engine's."""

    def __init__(self, engine: Engine, torch: Any) -> None:
        self.engine = engine
        self.torch = torch
        self.wait = nothing if torch is None else torch.cuda.synchronize

    def empty(self, nbytes: int) -> Any:
        if self.torch is None:
            return self.engine.empty(nbytes // 4, "f4", memory="device0")
        return self.torch.zeros(nbytes // 4, device="cuda")

    def check(self, source: Any, target: Any, value: float) -> None:
        """Copies an array of one value over two others, and refuses wrong data."""
        host, back = np.full(source.shape, value, "f4"), np.zeros(source.shape, "f4")
        for one, other in ((host, source), (source, target), (target, back)):
            self.engine.copy(one, other).wait(timeout=TIMEOUT)
        require(bool((back == value).all()), f"an array of {value}")


def inside(bench: Bench, engine: Engine, new: Arrays) -> None:
    """Measures 4 KiB inside the GPU: the same two arrays, and 64 pairs in turns."""
    pairs = [(new.empty(SMALL), new.empty(SMALL)) for _ in range(TENSORS)]
    for number, pair in enumerate(pairs):
        new.check(*pair, number + 1)
    source, target = pairs[0]
    prepared = engine.prepare(source, target)
    ours, theirs = itertools.cycle(pairs), itertools.cycle(pairs)
    same: Ways = {
        "copy": lambda: engine.copy(source, target),
        "copy, stream=none": lambda: engine.copy(source, target, stream="none"),
        "prepared": lambda: prepared.start(),
    }
    any_of: Ways = {"copy": lambda: engine.copy(*next(ours))}
    if new.torch is not None:
        same["PyTorch, copy_"] = lambda: target.copy_(source)

        def by_torch() -> None:
            one, other = next(theirs)
            other.copy_(one)

        any_of["PyTorch, copy_"] = by_torch
    calls, rounds = bench.pick(2000, 20), bench.pick(ROUNDS, 1)
    case = "4 KiB inside the GPU"
    bench.measure_calls(f"{case}, the same arrays", same, SMALL, calls, rounds, new.wait)
    case = f"{case}, {TENSORS} pairs in turns"
    bench.measure_calls(case, any_of, SMALL, calls, rounds, new.wait)


def over_the_link(bench: Bench, engine: Engine, new: Arrays, nbytes: int) -> None:
    """Measures a NumPy array to the GPU and back."""
    device, host = new.empty(nbytes), np.full(nbytes // 4, 3, "f4")
    back = np.zeros_like(host)
    new.check(host, device, 3)
    up: Ways = {
        "copy": lambda: engine.copy(host, device),
        "copy, stream=none": lambda: engine.copy(host, device, stream="none").wait(timeout=TIMEOUT),
    }
    down: Ways = {"copy": lambda: engine.copy(device, back).wait(timeout=TIMEOUT)}
    if new.torch is not None:
        theirs, received = new.torch.from_numpy(host), new.torch.from_numpy(back)
        up["PyTorch, copy_"] = lambda: device.copy_(theirs)
        down["PyTorch, copy_"] = lambda: received.copy_(device)
    calls, rounds = bench.pick(max(5, min(500, (64 << 20) // nbytes)), 2), bench.pick(ROUNDS, 1)
    size = f"{nbytes >> 20} MiB" if nbytes >= 1 << 20 else f"{nbytes >> 10} KiB"
    bench.measure_calls(f"{size} from NumPy to the GPU", up, nbytes, calls, rounds, new.wait)
    bench.measure_calls(f"{size} from the GPU to NumPy", down, nbytes, calls, rounds, new.wait)
