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

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tranship.arrays import File
from tranship.engine import Engine

from ..gpu.copies import Side, gpu_engine
from ..harness import Array, Bench, Variant, as_bytes
from ..processes.data import seeded
from ..processes.remote import SEED_HERE
from ..registry import measures
from .disk import BUFFER_BYTES, bench_folder, both_of, file_variant, forget, timed_copy, write_file

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

    def applied(self, array: Array) -> Array:
        """Returns the array that is expected in the target."""
        return np.ascontiguousarray(array.reshape(self.shape).transpose(self.order))


@measures("gpu-file", "files read and written from a GPU, beside the file alone")
def gpu_file(bench: Bench) -> None:
    """Measures reads and writes of files, in the same layout and converted on the way."""
    rows, columns = (8192, 16384) if bench.full else (256, 512)
    images, pixels = (128, 512 * 512) if bench.full else (2, 128 * 128)
    plain = Conversion("", (rows, columns), (0, 1))
    converted = [
        Conversion(", transposed", (rows, columns), (1, 0)),
        Conversion(", NHWC to NCHW", (images, pixels, 4), (0, 2, 1)),
    ]
    ways = [*((*place, plain) for place in PLACES), *(("device", "device0", c) for c in converted)]
    bench.conditions |= {"buffer_bytes": BUFFER_BYTES, "timed": "python"}
    with bench_folder() as folder, gpu_engine(bench) as engine:
        bench.awake = False
        array = seeded(plain.shape, "f4", SEED_HERE)
        path = Path(folder) / "file.bin"
        for direction, variant_of in (("file to device", reading), ("device to file", writing)):
            write_file(path, array, array.nbytes)
            variants = [variant_of(engine, path, *way, array) for way in ways]
            case = f"{direction}, f4, {rows}x{columns}"
            bench.measure(case, variants, array.nbytes, 5, ALONE)


def reading(
    engine: Engine, path: Path, name: str, memory: str, conversion: Conversion, array: Array
) -> Variant:
    """Returns the variant that reads the file, which holds `array`, into new memory."""
    source = File(path, extents=conversion.shape, fields="f4")
    target = Side(engine, memory, conversion.turned, "f4")
    view = target.array.transpose(tuple(int(k) for k in np.argsort(conversion.order)))
    expected = as_bytes(conversion.applied(array))
    run = timed_copy(engine, source, view)
    plan = engine.plan(source, view, buffer_bytes=BUFFER_BYTES)
    way = target.variant(f"{name}{conversion.name}", run, expected, path=str(plan))
    way.prepare = both_of(target.spoil, lambda: forget(path))
    return way


def writing(
    engine: Engine, path: Path, name: str, memory: str, conversion: Conversion, array: Array
) -> Variant:
    """Returns the variant that writes to the file, with blocks allocated, and flushes it."""
    source = Side(engine, memory, conversion.shape, "f4")
    source.write(as_bytes(array))
    view = source.array.transpose(conversion.order)
    target = File(path, extents=conversion.turned, fields="f4", mode="r+")
    run = timed_copy(engine, view, target, target.flush)
    plan = engine.plan(view, target, buffer_bytes=BUFFER_BYTES)
    expected = conversion.applied(array)
    return file_variant(f"{name}{conversion.name}", run, path, expected, path=str(plan))
