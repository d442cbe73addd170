"""Random lists of pieces and pages inside a GPU, beside one piece of as many bytes and PyTorch.

- random lists of pieces and pages inside a GPU, up to 128 MiB (`--seed`, `--cases`): of one length
  and of any, scattered, ascending and in runs of eight; each waited for, not prepared and prepared;
  beside one piece of as many bytes, and PyTorch's indexing with the lists in host memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tranship.engine import Engine

from ..harness import Bench, Bytes, Variant, random_bytes, same, timed, waited
from ..quantiles import Outcome, grouped, report_quantiles
from ..registry import SeedOptions, measures
from .copies import Side, find_library, gpu_engine
from .shapes import placed

KINDS = ("pieces of one length", "pieces of any lengths", "pages")
VARIANTS = ("tranship", "tranship, prepared")
ORDERS = ("scattered", "ascending", "in runs of 8")
COUNT_MAX = 1 << 17
"""Most pieces of a list."""

Offsets = npt.NDArray[np.int64]


@dataclass
class RandomList:
    """Pieces of a block of memory; no two overlap in the target."""

    name: str
    kind: str
    read: Offsets
    written: Offsets
    lengths: Offsets
    page_bytes: int = 0
    """Bytes of each page, if it is a list of pages."""

    @property
    def nbytes(self) -> int:
        """Bytes of all pieces."""
        return int(self.lengths.sum())

    @property
    def extent(self) -> int:
        """Bytes of each of the two blocks."""
        ends = (self.read + self.lengths).max(), (self.written + self.lengths).max()
        return int(max(ends))

    def moved(self, source: Bytes, target: Bytes) -> Bytes:
        """Returns the target after a copy of each piece by NumPy."""
        result = target.copy()
        lists = (self.read.tolist(), self.written.tolist(), self.lengths.tolist())
        for begin, to, length in zip(*lists, strict=True):
            result[to : to + length] = source[begin : begin + length]
        return result


def random_lists(seed: int, count: int, bytes_most: int) -> Iterator[RandomList]:
    """Yields lists of at most `bytes_most` bytes: of each kind in turn, in any order and size."""
    generator = np.random.default_rng(seed)
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        order = str(generator.choice(ORDERS, p=(0.6, 0.2, 0.2)))
        total = int(np.exp(generator.uniform(np.log(bytes_most / 64), np.log(bytes_most))))
        unit = int(generator.choice([1, 4, 16, 256]))
        most = max(min(64 << 10, total // 16), 2 * unit)
        mean = int(np.exp(generator.uniform(np.log(max(unit, 64)), np.log(most))))
        mean = max(mean // unit, 1) * unit
        places = min(max(total // mean, 8), COUNT_MAX)
        draw = any_lengths if kind == KINDS[1] else one_length
        lists = draw(generator, max(places // 2, 4), places, mean, unit)
        read, written, lengths = ordered(generator, order, *lists)
        name = f"{kind} {number}: {len(read)} of some {mean} B, {order}, in units of {unit} B"
        page_bytes = mean if kind == KINDS[2] else 0
        yield RandomList(name, kind, read, written, lengths, page_bytes)


def one_length(
    generator: np.random.Generator, count: int, places: int, mean: int, _: int
) -> tuple[Offsets, Offsets, Offsets]:
    """Draws some of the places of a grid, in ascending order of the target."""
    written = np.sort(generator.permutation(places)[:count]) * mean
    read = np.sort(generator.permutation(places)[:count]) * mean
    return read, written, np.full(count, mean)


def any_lengths(
    generator: np.random.Generator, count: int, _: int, mean: int, unit: int
) -> tuple[Offsets, Offsets, Offsets]:
    """Draws pieces of lengths up to four times the mean, with gaps between them."""
    lengths = (generator.exponential(mean / unit, count).clip(1, 4 * mean / unit)).astype(int)
    gaps = generator.integers(0, max(mean // unit, 1) + 1, (2, count))
    ends = np.cumsum(lengths + gaps, axis=1)
    read, written = (ends - lengths) * unit
    return read, written, lengths * unit


def ordered(
    generator: np.random.Generator, order: str, read: Offsets, written: Offsets, lengths: Offsets
) -> tuple[Offsets, Offsets, Offsets]:
    """Brings ascending pieces into their order: all, none or groups of eight are scattered."""
    group = {"scattered": 1, "ascending": len(read), "in runs of 8": 8}[order]
    groups = -(-len(read) // group)
    moved = (generator.permutation(groups)[:, None] * group + np.arange(group)).reshape(-1)
    moved = moved[moved < len(read)]
    return read[moved], written[moved], lengths[moved]


@measures(
    "gpu-random-lists",
    "random lists of pieces and pages inside a GPU, beside one piece and PyTorch",
    SeedOptions,
)
def gpu_random_lists(bench: Bench) -> None:
    """Measures random lists inside a GPU, reports their quantiles, and prints a table of them."""
    count = bench.draw_count(36, 6)
    cases = list(random_lists(bench.options.seed, count, bench.pick(128 << 20, 1 << 18)))
    room = max(max(case.extent, case.nbytes) for case in cases)
    with gpu_engine(bench) as engine:
        bench.awake = False
        source, target = (Side(engine, "device0", (room,), "u1") for _ in range(2))
        source.write(random_bytes(room))
        torch = find_library(engine, "torch")
        outcomes = [copy_list(bench, engine, torch, source, target, case) for case in cases]
    for variant in VARIANTS:
        groups = grouped([outcome[variant] for outcome in outcomes], KINDS)
        report_quantiles(bench, groups, "one piece", other="PyTorch", variant=variant)


def copy_list(
    bench: Bench, engine: Engine, torch: Any, source: Side, target: Side, case: RandomList
) -> dict[str, Outcome]:
    """Measures one list, not prepared and prepared, beside one piece and PyTorch's indexing."""
    here, there = source.array[: case.extent], target.array[: case.extent]
    target.spoil()
    wanted = case.moved(source.read(case.extent), target.read(case.extent))
    start, prepared = starts_of(engine, here, there, case)
    piece = partial(engine.copy, source.array[: case.nbytes], target.array[: case.nbytes])

    def check() -> bool:
        return same(target.read(case.extent), wanted)

    pieces = {"pieces": len(case.read)}
    variants = [
        Variant("tranship", waited(start), check, target.spoil, pieces),
        Variant("tranship, prepared", waited(prepared.start), check, target.spoil),
        Variant("one piece", waited(piece)),
    ]
    if torch is not None and case.kind != KINDS[1]:
        run = torch_run(torch, here, there, case)
        variants.append(Variant("PyTorch", run, check, target.spoil))
    medians = bench.measure(case.name, variants, case.nbytes, 7, "one piece")
    known = case.name, case.kind, case.nbytes, medians
    return {name: Outcome.of(*known, name, "one piece", "PyTorch") for name in VARIANTS}


def starts_of(
    engine: Engine, here: Any, there: Any, case: RandomList
) -> tuple[Callable[[], Any], Any]:
    """Returns a call that starts the copy of a list, and the prepared copy."""
    if case.page_bytes == 0:
        lists = case.read, case.written, case.lengths
        return (
            lambda: engine.copy_pieces(here, there, *lists),
            engine.prepare_pieces(here, there, *lists),
        )
    read, written = case.read // case.page_bytes, case.written // case.page_bytes
    shape = (case.extent // case.page_bytes, case.page_bytes)
    source, target = (placed(side, 0, np.dtype("u1"), shape) for side in (here, there))
    return (
        lambda: engine.copy_pages(source, target, read, written),
        engine.prepare_pages(source, target, read, written),
    )


def torch_run(torch: Any, here: Any, there: Any, case: RandomList) -> Callable[[], float]:
    """Returns a timed copy by indexing, whose lists lie in host memory as the engine's do."""
    length = int(case.lengths[0])
    count = case.extent // length
    source, target = (
        torch.as_tensor(side[: count * length], device="cuda").view(count, length)
        for side in (here, there)
    )
    read, written = (torch.from_numpy(side // length) for side in (case.read, case.written))

    def copy() -> None:
        target[written.cuda()] = source[read.cuda()]
        torch.cuda.synchronize()

    return timed(copy)
