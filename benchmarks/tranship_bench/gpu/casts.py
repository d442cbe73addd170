"""Numbers converted on the way inside a GPU, beside copies of either width and PyTorch's copies.

Matrices of the pairs of types that `casts` measures on hosts, in one order and transposed; then
random shapes, orders, steps and types, of which every second case fits into the GPU's cache. The
rate is over that of the slower of both widths' copies of the same shape; a table on stderr names
the worst cases.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tranship.engine import Engine

from ..harness import Bench, Bytes, Variant, blank, same, waited
from ..host.casts import (
    IN_ORDER,
    OF_WIDTH,
    TRANSPOSED,
    Cast,
    known_pairs,
    outcome_of,
    random_casts,
)
from ..quantiles import Outcome, grouped, report_quantiles
from ..registry import SeedOptions, measures
from .copies import SHORT_TIMES, Side, find_library, gpu_engine
from .shapes import placed, torch_run

TORCH_NAMES = {"complex64", "complex128", "bool", "float8_e4m3fn", "float8_e5m2", "bfloat16"} | {
    f"{kind}{bits}" for kind in ("int", "float") for bits in (16, 32, 64)
}
"""Types that PyTorch converts."""


class Room:
    """Memory of a GPU for the two sides of one case after another."""

    def __init__(self, engine: Engine, torch: Any, nbytes: int) -> None:
        self.torch = torch
        self.sides = [Side(engine, "device0", (nbytes,), "u1") for _ in range(2)]

    def array(self, case: Cast, dtype: np.dtype[Any], side: int) -> Any:
        """Returns one side of a case as an array of the GPU, of numbers of any type."""
        whole = placed(self.sides[side].array, 0, dtype, case.extents(side))
        return whole[..., :: case.step_of(side)].transpose(*case.permutation(side))

    def tensor(self, case: Cast, side: int) -> Any:
        """Returns one side as a tensor; None if PyTorch has no such numbers."""
        dtype = case.types[side]
        if self.torch is None or not dtype.isnative or dtype.name not in TORCH_NAMES:
            return None
        memory = self.torch.as_tensor(self.sides[side].array, device="cuda:0")
        extents = case.extents(side)
        kind = getattr(self.torch, dtype.name)
        whole = memory[: math.prod(extents) * dtype.itemsize].view(kind).view(extents)
        return whole[..., :: case.step_of(side)].permute(case.permutation(side))


def matrices(bench: Bench, nbytes: int) -> list[Cast]:
    """Returns the named pairs of types, of matrices whose wider side has so many bytes."""
    cases = []
    for _, types in known_pairs(bench):
        side = math.isqrt(nbytes // max(one.itemsize for one in types)) // 64 * 64
        cases += [Cast(types, (side, side), orders) for orders in (IN_ORDER, TRANSPOSED)]
    return cases


def bytes_of(case: Cast) -> int:
    """Returns the bytes of the larger side of a case, and of copies of either width."""
    widest = max(one.itemsize for one in case.types)
    return max(math.prod(case.extents(side)) for side in range(2)) * widest


def ends_of(case: Cast) -> tuple[Bytes, Bytes]:
    """Returns the bytes of the source, and those that the target is to have."""
    memories = [
        np.zeros(math.prod(case.extents(side)) * case.types[side].itemsize, np.uint8)
        for side in range(2)
    ]
    source, target = (case.array(memories[side], case.types[side], side) for side in range(2))
    numbers = np.arange(source.size, dtype=np.int64) % 101
    source[...] = numbers.reshape(case.shape).astype(case.types[0])
    np.copyto(target, source, casting="unsafe")
    return memories[0], memories[1]


def convert(bench: Bench, engine: Engine, room: Room, case: Cast) -> Outcome:
    """Measures one case: the conversion, plain copies of both widths, and PyTorch's `copy_`."""
    given, wanted = ends_of(case)
    room.sides[0].write(given)
    target = room.sides[1]

    def check() -> bool:
        return same(target.read(wanted.size), wanted)

    def spoil() -> None:
        target.write(blank(wanted.size))

    def run(*kinds: np.dtype[Any]) -> Callable[[], float]:
        ends = [room.array(case, kind, side) for side, kind in enumerate(kinds)]
        return waited(partial(engine.copy, *ends, cast="unsafe"), times=SHORT_TIMES)

    variants = [Variant("tranship", run(*case.types), check, spoil)]
    for side, name in enumerate(("source", "target")):
        kind = np.dtype(OF_WIDTH[case.types[side].itemsize])
        variants.append(Variant(f"copy of the {name}'s width", run(kind, kind)))
    tensors = [room.tensor(case, side) for side in range(2)]
    if tensors[0] is not None and tensors[1] is not None:
        variants.append(Variant("PyTorch", torch_run(room.torch, *tensors), check, spoil))
    nbytes = math.prod(case.shape) * max(one.itemsize for one in case.types)
    medians = bench.measure(case.name, variants, nbytes * SHORT_TIMES, 5)
    each = {name: seconds / SHORT_TIMES for name, seconds in medians.items()}
    group = case.group.replace("cached", "in its cache").replace("memory", "in its memory")
    return outcome_of(case, group, each, "PyTorch")


@measures("gpu-casts", "numbers converted on the way inside a GPU, beside PyTorch", SeedOptions)
def gpu_casts(bench: Bench) -> None:
    """Measures named and random conversions, reports their quantiles, and prints a table."""
    count = bench.draw_count(60, 6)
    named = matrices(bench, bench.pick(128 << 20, 16 << 10))
    drawn = random_casts(bench.options.seed, count, bench.pick(16 << 10, 64), bench.pick(128, 1))
    with gpu_engine(bench) as engine:
        torch = find_library(engine, "torch")
        room = Room(engine, torch, max(bytes_of(case) for case in (*named, *drawn)))
        for title, cases in (("matrices", named), ("random", drawn)):
            outcomes = [convert(bench, engine, room, case) for case in cases]
            groups = grouped(outcomes, sorted({one.group for one in outcomes}))
            titled = {f"{title}, {group}": some for group, some in groups.items()}
            report_quantiles(bench, titled, "slower copy", other="PyTorch")
