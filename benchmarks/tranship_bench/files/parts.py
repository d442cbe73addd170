"""Random parts of files (boxes, columns, steps, fields, rows), beside NumPy's memory maps.

Lines are quantiles of our time over the baseline's; the worst cases are printed on stderr.

From the page cache, the time includes making the map, as `np.load(mmap_mode="r")[part]` does; the
file is open in both cases. From the disk, the baseline reads the pages that the part lies on, each
run of them once, on four threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tranship.arrays import File
from tranship.engine import Engine

from ..harness import Array, Bench, require, take_turns, timed
from ..quantiles import UPPER_QUANTILES, Outcome, report_quantiles
from ..registry import SeedOptions, measures
from .disk import bench_folder, forget

PAGE_BYTES = 4096
READERS = 4
KINDS = ("box", "column", "step", "steps", "field", "rows")
TYPES = ("u1", "i2", "f4", "f8", "c16")


@dataclass
class Part:
    """A file and a part of it.

    Attributes:
        what: Description.
        values: Content of the file.
        key: Index of the part; of rows, their numbers.
        rows: Whether `key` is a list of rows.
    """

    what: str
    values: Array
    key: Any
    rows: bool = False


@measures(
    "file-parts", "random parts of files, beside memory maps and reads of their pages", SeedOptions
)
def file_parts(bench: Bench) -> None:
    """Measures random parts, reports quantiles of the time over a map's, and prints the worst."""
    count = bench.draw_count(200, 12)
    bench.conditions["timed"] = "python"
    outcomes: dict[str, list[Outcome]] = {}
    with bench_folder() as folder, Engine() as engine:
        for number in range(count):
            generator = np.random.default_rng([bench.options.seed, number])
            part = draw(generator, bench.pick(64 << 20, 1 << 20))
            for group, ratio in compare(bench, engine, Path(folder), part):
                outcome = Outcome(f"{number}: {part.what}", ratio)
                outcomes.setdefault(group, []).append(outcome)
    for group, found in outcomes.items():
        baseline = group.split()[2].rstrip(",")
        report_quantiles(bench, {group: found}, baseline, quantiles=UPPER_QUANTILES)


def draw(generator: np.random.Generator, bytes_max: int) -> Part:
    """Draws an array and a part of it."""
    kind = str(generator.choice(KINDS))
    count = int(10 ** generator.uniform(4, np.log10(bytes_max)))
    if kind == "field":
        widths = [int(n) for n in 10 ** generator.uniform(0, 3, generator.integers(2, 6))]
        dtype = np.dtype([(f"f{k}", f"V{n}") for k, n in enumerate(widths)])
        values = filled((max(count // dtype.itemsize, 1),), dtype, generator)
        name = f"f{generator.integers(len(widths))}"
        return Part(f"field {name} of {widths} bytes, {len(values)} records", values, name)
    dtype = np.dtype(str(generator.choice(TYPES)))
    rank = 2 if kind in ("column", "rows") else int(generator.integers(1, 4))
    elements = max(count // dtype.itemsize, 16)
    shares = generator.dirichlet(np.ones(rank))
    shape = tuple(max(int(elements**share), 1) for share in shares)
    values = filled(shape, dtype, generator)
    text = f"{kind} of {dtype} {shape}"
    if kind == "rows":
        rows = generator.integers(0, shape[0], max(int(shape[0] * generator.random()), 1))
        return Part(f"{len(rows)} {text}", values, rows, True)
    key = tuple(cut(kind, n, generator) for n in shape)
    return Part(f"{text} {key}", values, key)


def filled(shape: tuple[int, ...], dtype: Any, generator: np.random.Generator) -> Array:
    """Returns an array of random bytes."""
    values: Array = np.zeros(shape, dtype)
    flat = values.reshape(-1).view(np.uint8)
    flat[:] = generator.integers(0, 256, flat.size, np.uint8)
    return values


def cut(kind: str, extent: int, generator: np.random.Generator) -> slice:
    """Draws a range of one dimension."""
    if kind == "column":
        start = int(generator.integers(0, extent))
        wide = generator.random() < 0.5
        return slice(None) if wide else slice(start, min(extent, start + 1))
    if kind == "step" and generator.random() < 0.5:
        return slice(None)
    if kind in ("step", "steps"):
        return slice(int(generator.integers(0, 2)) % extent, None, int(generator.integers(1, 20)))
    lower, upper = sorted(int(n) for n in generator.integers(0, extent + 1, 2))
    return slice(lower, max(upper, lower + 1)) if lower < extent else slice(extent - 1, extent)


def compare(bench: Bench, engine: Engine, folder: Path, part: Part) -> list[tuple[str, float]]:
    """Measures one part; returns our time over the baseline's, for each group of lines."""
    values, key = part.values, part.key
    ours, other = folder / "ours.bin", folder / "other.bin"
    for path in (ours, other):
        values.tofile(path)
    picked = np.ascontiguousarray(values[key])
    if picked.size == 0:
        return []
    fields = values.dtype
    file = File(ours, extents=values.shape, fields=fields, mode="r+")
    view = file if part.rows else file[key]
    out = np.zeros_like(picked)
    pages = np.arange(len(picked))

    def read() -> None:
        if part.rows:
            engine.copy_pages(view, out, key, pages).wait()
        else:
            engine.copy(view, out).wait()

    def read_map() -> None:
        np.array(np.memmap(other, fields, "r", shape=values.shape)[key])

    def write() -> None:
        if part.rows:
            engine.copy_pages(picked, view, pages[: len(unique)], unique).wait()
        else:
            engine.copy(picked, view).wait()

    def write_map() -> None:
        held = np.memmap(other, fields, "r+", shape=values.shape)
        held[unique if part.rows else key] = picked[: len(unique)] if part.rows else picked

    unique = np.unique(key) if part.rows else np.empty(0, np.int64)
    repetitions = bench.pick(7, 2)
    found = [("time over memmap, read", in_turns(read, read_map, repetitions))]
    require(out.tobytes() == picked.tobytes(), part.what)  # bytes: random floats may be no numbers
    found.append(("time over memmap, written", in_turns(write, write_map, repetitions)))
    file.flush()
    require(ours.read_bytes() == other.read_bytes(), part.what)
    ranges = pages_of(values, part)
    cold = in_turns(read, lambda: read_pages(other, ranges), bench.pick(4, 1), (ours, other))
    return [*found, ("time over pread, read from disk", cold)]


def in_turns(
    ours: Callable[[], object],
    other: Callable[[], object],
    repetitions: int,
    cold: tuple[Path, ...] = (),
) -> float:
    """Returns the least time of ours over the other's; files that are `cold` are not in memory."""

    def run(work: Callable[[], object]) -> float:
        for path in cold:
            forget(path)
        return timed(work)()

    seconds = take_turns({"ours": partial(run, ours), "other": partial(run, other)}, repetitions)
    return min(seconds["ours"]) / min(seconds["other"])


def pages_of(values: Array, part: Part) -> list[tuple[int, int]]:
    """Returns the runs of pages on which a part lies, as offsets and bytes."""
    base, step = values.__array_interface__["data"][0], values.dtype.itemsize
    if part.rows:
        row = values.strides[0]
        first = np.unique(part.key) * row
        last = first + row - 1
    else:
        picked = values[part.key]
        width = picked.dtype.itemsize if picked.dtype.names is None else step
        start = picked.__array_interface__["data"][0] - base
        offsets = np.array([start])
        for extent, stride in zip(picked.shape, picked.strides, strict=True):
            offsets = (offsets[:, None] + np.arange(extent) * stride).reshape(-1)
        first, last = offsets, offsets + width - 1
    pages = np.zeros(values.nbytes // PAGE_BYTES + 2, np.int64)
    np.add.at(pages, first // PAGE_BYTES, 1)
    np.add.at(pages, last // PAGE_BYTES + 1, -1)
    touched = np.concatenate([[0], (np.cumsum(pages) > 0).astype(np.int8), [0]])
    edges = np.flatnonzero(np.diff(touched))
    return [
        (int(a) * PAGE_BYTES, int(b - a) * PAGE_BYTES)
        for a, b in zip(edges[::2], edges[1::2], strict=True)
    ]


def read_pages(path: Path, ranges: list[tuple[int, int]]) -> None:
    """Reads runs of pages on several threads."""
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)

    def some(number: int) -> None:
        for offset, count in ranges[number::READERS]:
            os.pread(descriptor, count, offset)

    with ThreadPoolExecutor(READERS) as pool:
        list(pool.map(some, range(READERS)))
    os.close(descriptor)
