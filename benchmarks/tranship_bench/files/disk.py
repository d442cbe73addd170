"""Files: read and written in bounded memory, and as the two ends of a path of three hops.

``file``: 1 GiB of f32 between a file and memory, same layout and transposed, with 64 MiB of
buffers.
- Follows: Isometry (ICS'18), section 6: files as memories.
- Files are dropped from the page cache before each repetition; writing ends when `File.flush`
  returns.

# file-parts
- Random parts of files (boxes, columns, steps, fields of records, random rows), read and written in
  place, with seeds. Each is compared with `numpy.memmap`, which makes its map within the time, and,
  dropped from the page cache, with reads of the pages that the part lies on, by four threads.
- Lines are quantiles of our time over the baseline's. The worst cases are printed on stderr.

``three-hops``: 256 MiB from a file over host memory and another process to a file there, beside
each hop alone.
- Follows: Isometry (ICS'18), section 3: hops that overlap by tiles.
- Both files are on one disk: "both file hops at once" says what that disk makes of the two.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from tranship.arrays import File
from tranship.engine import Engine

from ..harness import CHUNK_BYTES, Array, Bench, Variant, as_bytes, blank, same, spoil
from ..processes.data import seeded
from ..processes.peer import Other
from ..processes.remote import SEED_HERE
from ..registry import measures

BUFFER_BYTES = 64 << 20
"""Most bytes of the intermediate buffers of one copy."""


def forget(path: Path) -> None:
    """Writes a file to disk and drops it from the page cache, so that a read reaches the disk."""
    with open(path, "rb+") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def write_file(path: Path, array: Array | None, count: int) -> None:
    """Writes the bytes of `array`, or the pattern, to a file and drops it from the page cache."""
    chunk = blank(CHUNK_BYTES)
    with open(path, "wb") as file:
        if array is not None:
            file.write(as_bytes(array).data)
        else:
            for begin in range(0, count, CHUNK_BYTES):
                file.write(chunk[: min(CHUNK_BYTES, count - begin)].data)
    forget(path)


def spoil_file(path: Path) -> None:
    """Overwrites a file in place with the pattern."""
    left = path.stat().st_size
    chunk = blank(CHUNK_BYTES).data
    with open(path, "rb+") as file:
        while left > 0:
            left -= file.write(chunk[: min(CHUNK_BYTES, left)])
    forget(path)


def file_holds(path: Path, array: Array) -> bool:
    """Returns whether the file on the disk, not in the page cache, holds the bytes of `array`."""
    forget(path)
    wanted = as_bytes(array)
    if path.stat().st_size != wanted.size:
        return False
    with open(path, "rb") as file:
        for k in range(0, wanted.size, CHUNK_BYTES):
            piece = wanted[k : k + CHUNK_BYTES]
            if not np.array_equal(np.frombuffer(file.read(piece.size), np.uint8), piece):
                return False
    return True


def timed_copy(
    engine: Engine, source: Any, target: Any, finish: Callable[[], object] | None = None
) -> Callable[[], float]:
    """Returns a function that times a copy in bounded memory, and `finish` after it."""

    def run() -> float:
        begin = time.perf_counter()
        engine.copy(source, target, buffer_bytes=BUFFER_BYTES).wait()
        if finish is not None:
            finish()
        return time.perf_counter() - begin

    return run


def bench_folder() -> tempfile.TemporaryDirectory[str]:
    """Returns a temporary folder, on the disk of the system's temporary folder."""
    return tempfile.TemporaryDirectory(prefix="tranship-bench-")


@measures("file", "files read and written, in the same layout or transposed")
def file(bench: Bench) -> None:
    """Measures reads and writes of files, in the same layout and transposed."""
    shape = (16384, 16384) if bench.full else (256, 512)
    array = seeded(shape, "f4", SEED_HERE)
    transposed = np.ascontiguousarray(array.T)
    bench.conditions |= {"buffer_bytes": BUFFER_BYTES, "timed": "python"}
    size = f"f4, {shape[0]}x{shape[1]}"
    with bench_folder() as folder, Engine() as engine:
        paths = {name: Path(folder) / f"{name}.bin" for name in ("in", "same", "transposed")}
        write_file(paths["in"], array, array.nbytes)
        for name in ("same", "transposed"):
            write_file(paths[name], None, array.nbytes)
        ways = [
            reading(engine, paths["in"], "same layout", array, shape),
            reading(engine, paths["in"], "transposed", transposed, shape),
            writing(engine, paths["same"], "same layout", array, array),
            writing(engine, paths["transposed"], "transposed", array.T, transposed),
        ]
        repetitions = bench.pick(5, 1)
        for case, variants in (("file to memory", ways[:2]), ("memory to file", ways[2:])):
            bench.measure(
                f"{case}, {size}",
                variants,
                array.nbytes,
                repetitions=repetitions,
                baseline="same layout",
                cold=False,
            )


def reading(
    engine: Engine, path: Path, name: str, expected: Array, shape: tuple[int, int]
) -> Variant:
    """Returns the variant that reads the file into a new array; transposed if so expected."""
    target = blank(expected.nbytes).view(expected.dtype).reshape(expected.shape)
    view = target if name == "same layout" else target.T

    def prepare() -> None:
        spoil(target)
        forget(path)

    source = File(path, extents=shape, fields="f4")
    run = timed_copy(engine, source, view)
    return Variant(name, run, lambda: same(target, expected), prepare)


def writing(engine: Engine, path: Path, name: str, source: Array, expected: Array) -> Variant:
    """Returns the variant that writes an array to a file with allocated blocks and flushes it."""
    target = File(path, extents=source.shape, fields="f4", mode="r+")
    return Variant(
        name,
        timed_copy(engine, source, target, target.flush),
        lambda: file_holds(path, expected),
        lambda: spoil_file(path),
        {"flushed": True},
    )


@measures("three-hops", "file to host to another process to its file")
def three_hops(bench: Bench) -> None:
    """Measures file to host to another process to its file, beside each hop alone."""
    shape = (8192, 8192) if bench.full else (256, 512)
    array = seeded(shape, "f4", SEED_HERE)
    bench.conditions |= {"buffer_bytes": BUFFER_BYTES, "timed": "python"}
    with bench_folder() as folder, Engine() as engine, Other(engine) as other:
        paths = {name: Path(folder) / f"{name}.bin" for name in ("in", "out", "alone")}
        write_file(paths["in"], array, array.nbytes)
        for name in ("out", "alone"):
            write_file(paths[name], None, array.nbytes)
        path = os.fspath(paths["out"])
        other.ask("file", name="out", path=path, shape=shape, dtype="f4")
        plain = other.array("plain", "plain", shape, "f4")
        read = reading(engine, paths["in"], "same layout", array, shape)
        write = writing(engine, paths["alone"], "hop", array, array)
        hops = [
            named("file_read alone", read),
            Variant(
                "remote_write alone",
                timed_copy(engine, array, plain),
                other.checking("plain", SEED_HERE),
                other.preparing("plain"),
            ),
            named("file_write alone", write),
            both_files(read, write),
        ]
        whole = three_hops_variant(engine, other, paths, shape, array)
        measure_hops(bench, [*hops, whole], array.nbytes, f"f4, {shape[0]}x{shape[1]}")


def named(name: str, way: Variant) -> Variant:
    """Returns the same variant under another name."""
    way.name = name
    return way


def both_files(read: Variant, write: Variant) -> Variant:
    """Returns the variant of both file hops at once: their rate when they share one disk."""
    read_run, write_run = read.run, write.run

    def prepare() -> None:
        read.prepare()
        write.prepare()

    def run() -> float:
        begin = time.perf_counter()
        with ThreadPoolExecutor(2) as pool:
            for future in [pool.submit(read_run), pool.submit(write_run)]:
                future.result()
        return time.perf_counter() - begin

    return Variant("both file hops at once", run, lambda: read.check() and write.check(), prepare)


def three_hops_variant(
    engine: Engine, other: Other, paths: dict[str, Path], shape: tuple[int, int], array: Array
) -> Variant:
    """Returns the variant of the whole path, until the other process's file is on the disk."""
    source = File(paths["in"], extents=shape, fields="f4")

    def prepare() -> None:
        spoil_file(paths["out"])
        forget(paths["in"])

    def flush() -> None:
        other.ask("flush", name="out")

    return Variant(
        "three hops",
        timed_copy(engine, source, other.peer["out"], flush),
        lambda: file_holds(paths["out"], array),
        prepare,
        {"flushed": True, "path": str(engine.plan(source, other.peer["out"]))},
    )


def measure_hops(bench: Bench, ways: list[Variant], count: int, size: str) -> None:
    """Reports the lines of the hops, and then the whole path relative to the slowest hop."""
    seconds: dict[str, list[float]] = {way.name: [] for way in ways}
    for way in ways:
        run = way.run

        def kept(run: Callable[[], float] = run, name: str = way.name) -> float:
            seconds[name].append(run())
            return seconds[name][-1]

        way.run = kept
    repetitions = bench.pick(9, 1)
    medians = bench.measure(size, ways, count, repetitions=repetitions, cold=False)
    slowest = max((way.name for way in ways[:3]), key=lambda name: medians[name])
    ratio = medians[slowest] / medians["three hops"]
    case = f"{size}, against the slowest hop"
    bench.emit(case, "three hops", count, seconds["three hops"][1:], slowest, ratio)
