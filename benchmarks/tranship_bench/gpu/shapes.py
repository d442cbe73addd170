"""Conversions of random shapes inside a GPU and between two, beside the driver and PyTorch.

``gpu-shapes``: random shapes inside a GPU (`--seed`, `--cases`, `--sizes`; the shapes of shapes),
quantiles for each class and the worst twenty; beside the driver's copy inside the GPU, and
PyTorch's `copy_` where it is installed.

``gpu-peer-shapes``: the same from one GPU to another (two GPUs); beside the driver's copy between
them, and PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tranship.arrays.device import DeviceArray
from tranship.engine import Engine

from ..harness import SPOILED, Bench, Bytes, Variant, random_bytes, same, timed, waited
from ..host.random_shapes import CLASSES, RandomShape, Type, random_shapes
from ..host.shapes import Options, assign, conditions_of, ends_in, room_for, sizes_of
from ..quantiles import Outcome, grouped, report_quantiles
from ..registry import measures
from .copies import DRIVER, SHORT_TIMES, Side, bare, find_library, gpu_engine, raw_copy

WIDTHS = ("1 to 3 bytes", "4 to 16 bytes", "records")
"""Widths of elements, by which the quantiles are told apart."""

TORCH_TYPES = {1: "uint8", 2: "int16", 4: "int32", 8: "int64", 16: "complex128"}
"""Types of PyTorch by their bytes; it has none of 3 bytes, and no records."""


def group_of(case: RandomShape) -> str:
    """Returns the class of a case and the width of its elements, of `WIDTHS`."""
    narrow = 0 if case.view_type.itemsize < 4 else 1
    return f"{case.kind}, {WIDTHS[2 if case.field_names else narrow]}"


class Space:
    """Memory for the ends of one case after another, with what PyTorch sees of it.

    The sources lie on the first GPU, the targets on GPU `target_gpu`.
    """

    def __init__(
        self, engine: Engine, cases: list[RandomShape], torch: Any, target_gpu: int = 0
    ) -> None:
        source, target = room_for(cases)
        self.engine, self.torch = engine, torch
        self.data = random_bytes(source)
        self.source = Side(engine, "device0", (source,), "u1")
        self.target = Side(engine, f"device{target_gpu}", (target,), "u1")
        self.source.write(self.data)
        self.tensors: tuple[Any, Any] | None = None
        if torch is not None:
            self.tensors = (
                torch.as_tensor(self.source.array, device="cuda:0"),
                torch.as_tensor(self.target.array, device=f"cuda:{target_gpu}"),
            )

    def spoil(self, count: int) -> None:
        """Fills the first bytes of the target, so that a copy that does nothing is detected."""
        if self.tensors is None:
            self.target.spoil()
            return
        self.tensors[1][:count].fill_(SPOILED)
        self.torch.cuda.synchronize(self.tensors[1].device)

    def checking(self, expected: Bytes) -> Callable[[], bool]:
        """Returns a function that compares the first bytes of the target."""
        if self.tensors is None:
            return lambda: same(self.target.read(expected.size), expected)
        target = self.tensors[1]
        wanted = self.torch.from_numpy(expected).to(target.device)
        return lambda: bool(self.torch.equal(target[: expected.size], wanted))

    def ends(self, case: RandomShape) -> tuple[Any, Any]:
        """Returns the source and the target of a case, as arrays of the GPU."""
        view_side, plain_side = self.source.array, self.target.array
        if case.scatters:
            view_side, plain_side = plain_side, view_side
        base = placed(view_side, case.view_offset, case.view_type, case.base)
        view = base[case.slices].transpose(case.permutation)
        plain = placed(plain_side, case.plain_offset, case.plain_type, case.shape)
        return (plain, view) if case.scatters else (view, plain)

    def torch_ends(self, case: RandomShape) -> tuple[Any, Any] | None:
        """Returns the source and the target as tensors; None where PyTorch has no such arrays."""
        reversed_ = any(cut.step < 0 for cut in case.slices)
        if self.tensors is None or reversed_ or case.view_type.itemsize not in TORCH_TYPES:
            return None
        if case.field_names:
            return None
        view_tensor, plain_tensor = self.tensors
        if case.scatters:
            view_tensor, plain_tensor = plain_tensor, view_tensor
        kind = getattr(self.torch, TORCH_TYPES[case.view_type.itemsize])

        def tensor(memory: Any, offset: int, extents: tuple[int, ...]) -> Any:
            count = math.prod(extents) * case.view_type.itemsize
            return memory[offset : offset + count].view(kind).view(extents)

        base = tensor(view_tensor, case.view_offset, case.base)
        view = base[case.slices].permute(case.permutation)
        plain = tensor(plain_tensor, case.plain_offset, case.shape)
        return (plain, view) if case.scatters else (view, plain)


def placed(memory: DeviceArray, offset: int, kind: Type, extents: tuple[int, ...]) -> DeviceArray:
    """Returns a C-contiguous array in the GPU's memory from `offset` on."""
    count = math.prod(extents) * kind.itemsize
    part: DeviceArray = memory.reshape(-1).view("u1")[offset : offset + count]
    return part.view(kind).reshape(extents)


@measures("gpu-shapes", "conversions of random shapes inside a GPU, beside PyTorch", Options)
def gpu_shapes(bench: Bench) -> None:
    """Measures random shapes, reports their quantiles, and prints a table of them."""
    measure_shapes(bench, 1)


@measures(
    "gpu-peer-shapes",
    "conversions of random shapes from one GPU to another, beside PyTorch",
    Options,
)
def gpu_peer_shapes(bench: Bench) -> None:
    """Measures random shapes from one GPU to another, as `gpu_shapes` does."""
    measure_shapes(bench, 2)


def measure_shapes(bench: Bench, gpus: int) -> None:
    """Measures random shapes from the first of one or two GPUs to the last."""
    options = bench.options
    count = bench.draw_count(90, 6)
    sizes = options.sizes or (bench.pick(256, 1),)
    bench.conditions["size_mib"] = list(sizes)
    cases = list(random_shapes(options.seed, count, sizes))
    with gpu_engine(bench, gpus) as engine:
        torch = find_library(engine, "torch")
        space = Space(engine, cases, torch, gpus - 1)
        outcomes = [convert(bench, engine, space, case) for case in cases]
    groups = grouped(outcomes, [f"{kind}, {width}" for kind in CLASSES for width in WIDTHS])
    report_quantiles(bench, groups, DRIVER, other="PyTorch")


def convert(bench: Bench, engine: Engine, space: Space, case: RandomShape) -> Outcome:
    """Measures one case: the engine, the driver's copy of as many bytes, and PyTorch's `copy_`."""
    expected = np.full(sizes_of(case)[0 if case.scatters else 1], SPOILED, np.uint8)
    assign(case, *ends_in(case, space.data, expected))
    ends = space.ends(case)
    count = case.payload_bytes
    check, prepare = space.checking(expected), partial(space.spoil, expected.size)
    run = waited(partial(engine.copy, *ends), times=SHORT_TIMES)
    conditions = {**conditions_of(case), "copies": SHORT_TIMES}
    copy = raw_copy(space.source.array[:count], space.target.array[:count])
    variants = [
        Variant("tranship", run, check, prepare, conditions),
        bare(engine, copy, times=SHORT_TIMES),
    ]
    if (tensors := space.torch_ends(case)) is not None:
        variants.append(Variant("PyTorch", torch_run(space.torch, *tensors), check, prepare))
    medians = bench.measure(case.name, variants, count * SHORT_TIMES, 5, DRIVER)
    each = {name: seconds / SHORT_TIMES for name, seconds in medians.items()}
    return Outcome.of(case.name, group_of(case), count, each, "tranship", DRIVER, "PyTorch")


def torch_run(torch: Any, source: Any, target: Any) -> Callable[[], float]:
    """Returns a function that times PyTorch's copies in a row."""

    def copy() -> None:
        for _ in range(SHORT_TIMES):
            target.copy_(source)
        for device in {source.device, target.device}:
            torch.cuda.synchronize(device)

    return timed(copy)
