"""Files and GPUs: read into and written from device memory, beside the file alone in the same run.

The file alone is a copy of as many bytes by the same engine between the file and pinned memory;
`ratio` is the fraction of its rate that remains when the other end is a GPU, with or without a
conversion on the way.

- 512 MiB of f32 from a file to device memory and back: in the same layout, transposed, and NHWC to
  NCHW; with 64 MiB of buffers in each memory on the way.
- Follows: Isometry (ICS'18), section 6: files as memories, FBM to DSK and back.
- The file alone: as many bytes between the file and pinned memory (large pages), by the same engine
  in the same turns; beside it the same with pageable memory.
- Files are dropped from the page cache before each repetition; writing ends when `File.flush`
  returns. Device memory is filled, spoiled and read by bare copies of the driver.
- Bytes go device, pinned memory, file; GPUDirect Storage is not used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tranship.arrays import File
from tranship.engine import Engine

from ..gpu.copies import Side, gpu_engine
from ..harness import Array, Bench, Variant, as_bytes, same
from ..processes.data import seeded
from ..processes.remote import SEED_HERE
from ..registry import measures
from .disk import BUFFER_BYTES, bench_folder, file_holds, forget, spoil_file, timed_copy, write_file

ALONE = "file alone, pinned"
PLACES = ((ALONE, "pinned"), ("file alone, pageable", "pageable"), ("device", "device0"))


@dataclass(frozen=True)
class Conversion:
    """A shape in the source, and the order of its dimensions in the target."""

    name: str
    shape: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def turned(self) -> tuple[int, ...]:
        """Returns the shape in the target."""
        return tuple(self.shape[k] for k in self.order)

    @property
    def inverse(self) -> tuple[int, ...]:
        """Returns the order that brings the target's dimensions back."""
        return tuple(int(k) for k in np.argsort(self.order))

    def applied(self, array: Array) -> Array:
        """Returns the array that is expected in the target."""
        return np.ascontiguousarray(array.reshape(self.shape).transpose(self.order))


def conversions(full: bool) -> list[Conversion]:
    """Returns the conversions, of 512 MiB of f32 each in full size."""
    rows, columns = (8192, 16384) if full else (256, 512)
    images, pixels = (128, 512 * 512) if full else (2, 128 * 128)
    return [
        Conversion("transposed", (rows, columns), (1, 0)),
        Conversion("NHWC to NCHW", (images, pixels, 4), (0, 2, 1)),
    ]


@measures("gpu-file", "files read and written from a GPU, beside the file alone")
def gpu_file(bench: Bench) -> None:
    """Measures reads and writes of files, in the same layout and converted on the way."""
    plain = Conversion("same layout", (8192, 16384) if bench.full else (256, 512), (0, 1))
    bench.conditions |= {"buffer_bytes": BUFFER_BYTES, "timed": "python"}
    with bench_folder() as folder, gpu_engine(bench) as engine:
        array = seeded(plain.shape, "f4", SEED_HERE)
        path = Path(folder) / "file.bin"
        for direction, variant_of in (("file to device", reading), ("device to file", writing)):
            write_file(path, array, array.nbytes)
            ways = [variant_of(engine, path, name, memory, plain, array) for name, memory in PLACES]
            for conversion in conversions(bench.full):
                name = f"device, {conversion.name}"
                ways.append(variant_of(engine, path, name, "device0", conversion, array))
            bench.measure(
                f"{direction}, f4, {'x'.join(map(str, plain.shape))}",
                ways,
                array.nbytes,
                repetitions=bench.pick(5, 1),
                baseline=ALONE,
                cold=False,
            )


def reading(
    engine: Engine, path: Path, name: str, memory: str, conversion: Conversion, array: Array
) -> Variant:
    """Returns the variant that reads the file, which holds `array`, into new memory."""
    source = File(path, extents=conversion.shape, fields="f4")
    target = Side(engine, memory, conversion.turned, "f4")
    view = target.array.transpose(conversion.inverse)
    expected = as_bytes(conversion.applied(array))

    def prepare() -> None:
        target.spoil()
        forget(path)

    return variant(
        engine,
        name,
        (source, view),
        timed_copy(engine, source, view),
        lambda: same(target.read(), expected),
        prepare,
    )


def writing(
    engine: Engine, path: Path, name: str, memory: str, conversion: Conversion, array: Array
) -> Variant:
    """Returns the variant that writes to the file, with blocks allocated, and flushes it."""
    source = Side(engine, memory, conversion.shape, "f4")
    source.write(as_bytes(array))
    view = source.array.transpose(conversion.order)
    target = File(path, extents=conversion.turned, fields="f4", mode="r+")
    expected = conversion.applied(array)
    return variant(
        engine,
        name,
        (view, target),
        timed_copy(engine, view, target, target.flush),
        lambda: file_holds(path, expected),
        lambda: spoil_file(path),
    )


def variant(
    engine: Engine,
    name: str,
    ends: tuple[Any, Any],
    run: Callable[[], float],
    check: Callable[[], bool],
    prepare: Callable[[], None],
) -> Variant:
    """Returns a variant whose conditions name the path of its plan."""
    plan = engine.plan(*ends, buffer_bytes=BUFFER_BYTES)
    flushed = {"flushed": True} if isinstance(ends[1], File) else {}
    return Variant(name, run, check, prepare, {"path": str(plan), **flushed})
