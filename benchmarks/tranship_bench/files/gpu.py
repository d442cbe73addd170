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

from pathlib import Path

from ..gpu.copies import gpu_engine
from ..harness import Bench, seeded
from ..registry import measures
from .disk import BUFFER_BYTES, Conversion, bench_folder, reading, write_file, writing

ALONE = "file alone, pinned"
PLACES = ((ALONE, "pinned"), ("file alone, pageable", "pageable"), ("device", "device0"))


@measures("gpu-file", "files read and written from a GPU, beside the file alone")
def gpu_file(bench: Bench) -> None:
    """Measures reads and writes of files, in the same layout and converted on the way."""
    rows, columns = (8192, 16384) if bench.full else (256, 512)
    images, pixels = (128, 512 * 512) if bench.full else (2, 128 * 128)
    plain = Conversion((rows, columns), (0, 1))
    ways = [
        *((*place, plain) for place in PLACES),
        ("device, transposed", "device0", Conversion((rows, columns), (1, 0))),
        ("device, NHWC to NCHW", "device0", Conversion((images, pixels, 4), (0, 2, 1))),
    ]
    bench.conditions |= {"buffer_bytes": BUFFER_BYTES, "timed": "python"}
    with bench_folder() as folder, gpu_engine(bench) as engine:
        bench.awake = False
        array = seeded(plain.shape, "f4")
        path = Path(folder) / "file.bin"
        for direction, variant_of in (("file to device", reading), ("device to file", writing)):
            write_file(path, array, array.nbytes)
            variants = [variant_of(engine, path, *way, array) for way in ways]
            case = f"{direction}, f4, {rows}x{columns}"
            bench.measure(case, variants, array.nbytes, 5, ALONE)
