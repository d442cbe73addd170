"""Conversions of random shapes inside a GPU and between two, beside the driver and PyTorch.

``gpu-shapes``: random shapes inside a GPU (`--seed`, `--cases`, `--sizes`; the shapes of shapes),
quantiles for each class and the worst twenty; beside the driver's copy inside the GPU, and
PyTorch's `copy_` where it is installed.

``gpu-peer-shapes``: the same from one GPU to another (two GPUs); beside the driver's copy between
them, and PyTorch.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tranship.arrays.device import DeviceArray
from tranship.engine import Engine

from ..harness import Bench, Bytes, Variant, random_bytes, same
from ..host.random_shapes import CLASSES, RandomShape, Type, random_shapes
from ..host.shapes import Options, array_in, conditions_of, sizes_of
from ..quantiles import Outcome, report_outcomes
from ..registry import measures
from .copies import SHORT_TIMES, Side, engine_seconds, find_library, gpu_engine, raw, raw_copy

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
        source = target = 0
        for case in cases:
            view, plain = sizes_of(case)
            source = max(source, plain if case.scatters else view, case.payload_bytes)
            target = max(target, view if case.scatters else plain, case.payload_bytes)
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
        self.tensors[1][:count].fill_(0xA5)
        self.torch.cuda.synchronize(self.tensors[1].device)

    def holds(self, expected: Any) -> bool:
        """Returns whether the target begins with the bytes."""
        if self.tensors is None:
            return same(self.target.read()[: expected.size], expected)
        return bool(self.torch.equal(self.tensors[1][: expected.numel()], expected))

    def on_gpu(self, data: Bytes) -> Any:
        """Returns the bytes in the form that `holds` takes."""
        if self.tensors is None:
            return data
        return self.torch.from_numpy(data).to(self.tensors[1].device)

    def ends(self, case: RandomShape) -> tuple[Any, Any]:
        """Returns the source and the target of a case, as arrays of the GPU."""
        view_side, plain_side = self.source, self.target
        if case.scatters:
            view_side, plain_side = plain_side, view_side
        view = place_view(self.engine, view_side.array, case)
        plain = placed(
            self.engine, plain_side.array, case.plain_offset, case.plain_type, case.shape
        )
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


def placed(
    engine: Engine, memory: DeviceArray, offset: int, kind: Type, extents: tuple[int, ...]
) -> DeviceArray:
    """Returns a C-contiguous array in the GPU's memory from `offset` on."""
    count = math.prod(extents) * kind.itemsize
    part: DeviceArray = memory.reshape(-1).view("u1")[offset : offset + count]
    return part.view(kind).reshape(extents)


def place_view(engine: Engine, memory: DeviceArray, case: RandomShape) -> DeviceArray:
    """Returns the view of a case in the GPU's memory."""
    base = placed(engine, memory, case.view_offset, case.view_type, case.base)
    view: DeviceArray = base[case.slices].transpose(case.permutation)
    return view


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
    count = options.cases or bench.pick(90, 6)
    sizes = options.sizes or (bench.pick(256, 1),)
    bench.conditions = {"seed": options.seed, "size_mib": list(sizes)}
    cases = list(random_shapes(options.seed, count, sizes))
    with gpu_engine(bench, gpus) as engine:
        torch = find_library(engine, "torch")
        space = Space(engine, cases, torch, gpus - 1)
        outcomes = [convert(bench, engine, space, case) for case in cases]
    groups = [f"{kind}, {width}" for kind in CLASSES for width in WIDTHS]
    report_outcomes(bench, outcomes, groups, baseline="cudaMemcpyAsync", other="PyTorch")


def expected_bytes(space: Space, case: RandomShape) -> Bytes:
    """Returns the target's memory after the conversion, made by NumPy."""
    view_bytes, plain_bytes = sizes_of(case)
    target = np.full(view_bytes if case.scatters else plain_bytes, 0xA5, np.uint8)
    view_memory, plain_memory = space.data, target
    if case.scatters:
        view_memory, plain_memory = target, space.data
    view = case.view(array_in(view_memory, case.view_offset, case.view_type, case.base))
    plain = array_in(plain_memory, case.plain_offset, case.plain_type, case.shape)
    to, of = (view, plain) if case.scatters else (plain, view)
    for name in case.field_names or (None,):
        np.copyto(to if name is None else to[name], of if name is None else of[name])
    return target


def convert(bench: Bench, engine: Engine, space: Space, case: RandomShape) -> Outcome:
    """Measures one case: the engine and PyTorch beside the driver's copy of as many bytes."""
    source, target = space.ends(case)
    expected = space.on_gpu(expected_bytes(space, case))
    size = case.view_offset + case.base_bytes if case.scatters else 0
    size = max(size, case.plain_offset + case.plain_bytes, case.payload_bytes)
    bare = raw_copy(space.source.array[: case.payload_bytes], space.target.array, 0)

    def through_engine() -> float:
        return engine_seconds(engine, [(source, target)] * SHORT_TIMES)

    def check() -> bool:
        return space.holds(expected)

    def spoil() -> None:
        space.spoil(min(size, space.target.nbytes))

    variants = [
        Variant(
            "tranship", through_engine, check, spoil, {**conditions_of(case), "copies": SHORT_TIMES}
        ),
        Variant("cudaMemcpyAsync", lambda: raw(engine, [bare] * SHORT_TIMES), ok, nothing, {}),
    ]
    tensors = space.torch_ends(case)
    if tensors is not None:
        variants.append(Variant("PyTorch", torch_run(space.torch, *tensors), check, spoil, {}))
    medians = bench.measure(
        case.name,
        variants,
        case.payload_bytes * SHORT_TIMES,
        repetitions=bench.pick(5, 1),
        baseline="cudaMemcpyAsync",
        cold=False,
        awake=True,
    )
    seconds = medians["tranship"]
    over_torch = medians["PyTorch"] / seconds if tensors is not None else None
    return Outcome(
        case.name,
        group_of(case),
        case.payload_bytes,
        seconds / SHORT_TIMES,
        medians["cudaMemcpyAsync"] / seconds,
        over_torch,
    )


def ok() -> bool:
    """Returns that there is nothing to compare: the driver's copy is the measure."""
    return True


def nothing() -> None:
    """Prepares nothing."""


def torch_run(torch: Any, source: Any, target: Any) -> Callable[[], float]:
    """Returns a run of PyTorch's own copies."""

    def synchronize() -> None:
        for device in {source.device, target.device}:
            torch.cuda.synchronize(device)

    def run() -> float:
        synchronize()
        begin = time.perf_counter()
        for _ in range(SHORT_TIMES):
            target.copy_(source)
        synchronize()
        return time.perf_counter() - begin

    return run
