"""Files: read and written in bounded memory, and as the two ends of a path of three hops.

``file``: 1 GiB of f32 between a file and memory, same layout and transposed, with 64 MiB of
buffers.
- Follows: Isometry (ICS'18), section 6: files as memories.
- Files are dropped from the page cache before each repetition; writing ends when `File.flush`
  returns.

``three-hops``: 256 MiB from a file over host memory and another process to a file there, beside
each hop alone.
- Follows: Isometry (ICS'18), section 3: hops that overlap by tiles.
- Both files are on one disk: "both file hops at once" says what that disk makes of the two.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tranship.arrays import File
from tranship.engine import Engine

from ..gpu.copies import Side
from ..harness import (
    CHUNK_BYTES,
    Array,
    Bench,
    Variant,
    as_bytes,
    blank,
    seeded,
    timed,
)
from ..processes.peer import Other
from ..registry import measures

BUFFER_BYTES = 64 << 20
"""Most bytes of the intermediate buffers of one copy."""


def forget(path: Path) -> None:
    """Writes a file to disk and drops it from the page cache, so that a read reaches the disk."""
    with open(path, "rb+") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def write_file(path: Path, array: Array | None, count: int) -> None:
    """Writes the bytes of an array, or `count` of the pattern, over a file, and forgets it."""
    chunk = blank(CHUNK_BYTES)
    with open(path, "rb+" if path.exists() else "wb") as file:
        if array is not None:
            file.write(as_bytes(array).data)
        else:
            for begin in range(0, count, CHUNK_BYTES):
                file.write(chunk[: min(CHUNK_BYTES, count - begin)].data)
    forget(path)


class FileSide:
    """An array in a file, which can be filled, spoiled and compared without the engine, as `Side`.

    The file on the disk counts, not the page cache.
    """

    def __init__(self, path: Path, **how: Any) -> None:
        self.path = path
        self.array = File(path, mode="r+", **how)
        self.flush = self.array.flush

    def write(self, data: Array) -> None:
        """Fills the file."""
        write_file(self.path, data, data.nbytes)

    def spoil(self) -> None:
        """Fills the file with the pattern; its blocks stay allocated."""
        write_file(self.path, None, self.path.stat().st_size)

    def holds(self, expected: Array) -> bool:
        """Returns whether the file holds the bytes of an array."""
        self.forget()
        wanted = as_bytes(expected)
        if self.path.stat().st_size != wanted.size:
            return False
        with open(self.path, "rb") as file:
            for k in range(0, wanted.size, CHUNK_BYTES):
                piece = wanted[k : k + CHUNK_BYTES]
                if not np.array_equal(np.frombuffer(file.read(piece.size), np.uint8), piece):
                    return False
        return True

    def forget(self) -> None:
        """Drops the file from the page cache."""
        forget(self.path)

    def close(self) -> None:
        """Removes the file."""
        self.path.unlink(missing_ok=True)

    def variant(
        self, name: str, run: Callable[[], float], expected: Array, **conditions: Any
    ) -> Variant:
        """Returns the variant that should bring the expected bytes to the file."""
        known = {"flushed": True, **conditions}
        return Variant(name, run, lambda: self.holds(expected), self.spoil, known)


def timed_copy(
    engine: Engine, source: Any, target: Any, finish: Callable[[], object] | None = None
) -> Callable[[], float]:
    """Returns a function that times a copy in bounded memory, and `finish` after it."""

    def copy() -> None:
        engine.copy(source, target, buffer_bytes=BUFFER_BYTES).wait()
        if finish is not None:
            finish()

    return timed(copy)


def bench_folder() -> tempfile.TemporaryDirectory[str]:
    """Returns a temporary folder, on the disk of the system's temporary folder."""
    return tempfile.TemporaryDirectory(prefix="tranship-bench-")


@dataclass(frozen=True)
class Conversion:
    """A shape in the source, and the order of its dimensions in the target."""

    shape: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def turned(self) -> tuple[int, ...]:
        """Returns the shape in the target."""
        return tuple(self.shape[k] for k in self.order)

    def applied(self, array: Array) -> Array:
        """Returns the array that is expected in the target."""
        return np.ascontiguousarray(array.reshape(self.shape).transpose(self.order))


@measures("file", "files read and written, in the same layout or transposed")
def file(bench: Bench) -> None:
    """Measures reads and writes of files, in the same layout and transposed."""
    bench.cold = False
    shape = (16384, 16384) if bench.full else (256, 512)
    array = seeded(shape, "f4")
    ways = {"same layout": Conversion(shape, (0, 1)), "transposed": Conversion(shape, (1, 0))}
    bench.conditions |= {"buffer_bytes": BUFFER_BYTES, "timed": "python"}
    with bench_folder() as folder, Engine() as engine:
        paths = [Path(folder) / f"{k}.bin" for k in range(2)]
        for way, variant_of in (("file to memory", reading), ("memory to file", writing)):
            for path in paths:
                write_file(path, array, array.nbytes)
            variants = [
                variant_of(engine, path, name, "pageable", conversion, array)
                for path, (name, conversion) in zip(paths, ways.items(), strict=True)
            ]
            case = f"{way}, f4, {shape[0]}x{shape[1]}"
            bench.measure(case, variants, array.nbytes, 5, "same layout")


def reading(
    engine: Engine, path: Path, name: str, memory: str, conversion: Conversion, array: Array
) -> Variant:
    """Returns the variant that reads the file, which holds `array`, into new memory."""
    source = FileSide(path, extents=conversion.shape, fields="f4")
    target = Side(engine, memory, conversion.turned, "f4")
    view = target.array.transpose(tuple(int(k) for k in np.argsort(conversion.order)))
    expected = as_bytes(conversion.applied(array))
    run = timed_copy(engine, source.array, view)
    plan = engine.plan(source.array, view, buffer_bytes=BUFFER_BYTES)
    way = target.variant(name, run, expected, path=str(plan))
    way.prepare = both_of(target.spoil, source.forget)
    return way


def writing(
    engine: Engine, path: Path, name: str, memory: str, conversion: Conversion, array: Array
) -> Variant:
    """Returns the variant that writes to the file, with blocks allocated, and flushes it."""
    source = Side(engine, memory, conversion.shape, "f4")
    source.write(as_bytes(array))
    view = source.array.transpose(conversion.order)
    target = FileSide(path, extents=conversion.turned, fields="f4")
    run = timed_copy(engine, view, target.array, target.flush)
    plan = engine.plan(view, target.array, buffer_bytes=BUFFER_BYTES)
    expected = conversion.applied(array)
    return target.variant(name, run, expected, path=str(plan))


@measures("three-hops", "file to host to another process to its file")
def three_hops(bench: Bench) -> None:
    """Measures file to host to another process to its file, beside each hop alone."""
    bench.cold = False
    shape = (8192, 8192) if bench.full else (256, 512)
    array = seeded(shape, "f4")
    bench.conditions |= {"buffer_bytes": BUFFER_BYTES, "timed": "python"}
    with bench_folder() as folder, Engine() as engine, Other(engine) as other:
        start, end, alone = (Path(folder) / f"{name}.bin" for name in ("in", "out", "alone"))
        write_file(start, array, array.nbytes)
        for made in (end, alone):
            write_file(made, None, array.nbytes)
        other.ask("file", name="out", path=os.fspath(end), shape=shape, dtype="f4")
        plain = Conversion(shape, (0, 1))
        read = reading(engine, start, "file_read alone", "pageable", plain, array)
        write = writing(engine, alone, "file_write alone", "pageable", plain, array)
        both = both_files(read, write)
        send = timed_copy(engine, array, other.array("plain", "plain", shape, "f4"))
        sending = other.variant("remote_write alone", send, "plain")
        source, landed = (FileSide(path, extents=shape, fields="f4") for path in (start, end))
        out = other.peer["out"]
        run = timed_copy(engine, source.array, out, lambda: other.ask("flush", name="out"))
        path = str(engine.plan(source.array, out))
        whole = landed.variant("three hops", run, array, path=path)
        whole.prepare = both_of(whole.prepare, source.forget)
        hops = [read, sending, write]
        case = f"f4, {shape[0]}x{shape[1]}"
        medians = bench.measure(case, [*hops, both, whole], array.nbytes, 9)
        slowest = max((hop.name for hop in hops), key=lambda name: medians[name])
    seconds, ratio = bench.seconds["three hops"], medians[slowest] / medians["three hops"]
    case = f"{case}, against the slowest hop"
    bench.emit(case, "three hops", array.nbytes, seconds, slowest, ratio)


def both_files(read: Variant, write: Variant) -> Variant:
    """Returns the variant of both file hops at once: their rate when they share one disk."""

    def at_once() -> None:
        with ThreadPoolExecutor(2) as pool:
            for future in [pool.submit(read.run), pool.submit(write.run)]:
                future.result()

    prepare = both_of(read.prepare, write.prepare)
    run = timed(at_once)
    return Variant("both file hops at once", run, lambda: read.check() and write.check(), prepare)


def both_of(first: Callable[[], object], second: Callable[[], object]) -> Callable[[], None]:
    """Returns a function that calls both."""

    def run() -> None:
        first()
        second()

    return run
