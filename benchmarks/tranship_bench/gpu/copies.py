"""GPUs: links, conversions in device memory, peers, several links at once, urgent copies.

Every case runs beside the bare copy of the driver (cudaMemcpyAsync) of the same number of bytes in
the same run; `ratio` is the fraction of its rate that the engine reaches.

``gpu-link``: 256 MiB, pinned or pageable memory to a GPU and back; both ways at once; beside
`cudaMemcpyAsync` with pinned memory.

``gpu-conversion``: 256 MiB inside a GPU: transposes in 2-D and 3-D, arrays of structures, NHWC and
NCHW; beside the driver's copy inside the GPU.

``gpu-peer``: a GPU to its neighbour, 256 MiB, in the same layout and transposed; beside the
driver's copy to the neighbour.

``gpu-lanes``: 1 GiB of pinned memory to one GPU over the links of all, and back; beside
`cudaMemcpyAsync` over one link.

``gpu-images``: 256 MiB, NHWC in pageable memory to NCHW on a GPU, and back; beside
`cudaMemcpyAsync` with pinned memory.

``gpu-priority``: 1 MiB at high priority behind 8 copies of 1 GiB; beside its time alone.

``gpu-launch``: the caller's time to start a copy of 64 KiB of one hop, beside the driver's call;
and of copies inside a GPU in a stream, beside PyTorch's `copy_`.
"""

from __future__ import annotations

import functools
import importlib
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tranship import _core
from tranship.engine import Engine

from .. import _loops
from ..harness import (
    WAIT_SECONDS_MAX,
    Array,
    Bench,
    Bytes,
    SkippedError,
    Variant,
    as_bytes,
    blank,
    blank_array,
    random_bytes,
    require,
    same,
    take_turns,
    waited,
)
from ..registry import measures

MiB = 1 << 20
SHORT_TIMES = 8
"""Number of copies in a row, where one copy would take less than a millisecond."""

STARTS_AT_ONCE = 32
"""Copies that are started in a row: a full stream would make the caller wait."""
DRIVER = "cudaMemcpyAsync"

Copy = tuple[int, int, int, int]
"""Addresses of source and target, bytes, and the GPU whose stream carries the copy."""


@contextmanager
def gpu_engine(bench: Bench, needed: int = 1, **settings: Any) -> Iterator[Engine]:
    """Yields an engine with at least `needed` GPUs; repetitions are warm and awake from then on."""
    bench.cold, bench.awake = False, True
    with Engine(**settings) as engine:
        gpus = [str(row["name"]) for row in _core.list_gpus(engine._core)[0]]
        if len(gpus) < needed:
            raise SkippedError(f"needs {needed} GPUs, and {len(gpus)} can be used here")
        bench.conditions["gpus"] = f"{len(gpus)} x {gpus[0]}"
        yield engine


def engine_is_emulated(engine: Engine) -> bool:
    """Returns whether the GPUs are emulated in host memory, which PyTorch cannot take."""
    return any(bool(gpu["emulated"]) for gpu in _core.list_gpus(engine._core)[0])


def gpu_count(engine: Engine) -> int:
    """Returns how many GPUs the engine uses."""
    return len(_core.list_gpus(engine._core)[0])


def find_library(engine: Engine, name: str) -> Any:
    """Returns PyTorch or CuPy by its module's name; None where it cannot take the engine's GPUs."""
    if engine_is_emulated(engine):
        return None
    try:
        library = importlib.import_module(name)
    except ImportError:
        return None
    return library if library.cuda.is_available() else None


def address_of(array: Any) -> int:
    """Returns the address of an array's first byte."""
    face = getattr(array, "__cuda_array_interface__", None) or array.__array_interface__
    address: int = face["data"][0]
    return address


def raw(engine: Engine, copies: list[Copy]) -> float:
    """Returns the seconds of bare copies of the driver, all submitted at once."""
    return _loops.time_gpu_copies(copies, engine_is_emulated(engine))


def raw_copy(source: Any, target: Any, device: int = 0) -> Copy:
    """Returns the bare copy of one whole array into another."""
    return (address_of(source), address_of(target), source.nbytes, device)


def bare(engine: Engine, *copies: Copy, times: int = 1, name: str = DRIVER) -> Variant:
    """Returns the variant of bare copies of the driver."""
    run = functools.partial(raw, engine, list(copies) * times)
    return Variant(name, run, conditions={"timed": "core"})


class Side:
    """An array in one kind of memory, which can be filled, spoiled and read without the engine."""

    def __init__(self, engine: Engine, memory: str, shape: tuple[int, ...], dtype: str) -> None:
        self.engine = engine
        self.memory = memory
        self.device = int(memory[6:]) if memory.startswith("device") else 0
        if memory == "pageable":
            self.array: Any = blank_array(shape, dtype)
        else:
            self.array = engine.empty(shape, dtype, memory=memory)
        self.nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize

    def write(self, data: Bytes) -> None:
        """Fills the array, or its first bytes, by a bare copy."""
        if self.memory in ("pageable", "host"):
            as_bytes(self.array)[: data.nbytes] = data
            return
        raw(self.engine, [(address_of(data), address_of(self.array), data.nbytes, self.device)])

    def read(self, count: int | None = None) -> Bytes:
        """Returns the array's bytes, or the first ones, by a bare copy."""
        if self.memory in ("pageable", "host"):
            return as_bytes(self.array)[:count]
        data = np.empty(self.nbytes if count is None else count, np.uint8)
        raw(self.engine, [(address_of(self.array), address_of(data), data.nbytes, self.device)])
        return data

    def holds(self, expected: Array) -> bool:
        """Returns whether the array holds the bytes of another one."""
        return same(self.read(), expected)

    def spoil(self) -> None:
        """Fills the array with the pattern, so that a copy that does nothing is detected."""
        self.write(blank(self.nbytes))

    def variant(
        self, name: str, run: Callable[[], float], expected: Bytes, **conditions: Any
    ) -> Variant:
        """Returns the variant that should bring the expected bytes to the array."""
        return Variant(name, run, lambda: self.holds(expected), self.spoil, conditions)


Sides = Sequence[tuple[Side, Side]]
Order = tuple[int, ...]


def compare(
    bench: Bench,
    case: str,
    engine: Engine,
    sides: Sides,
    order: Order = (0,),
    times: int = 1,
    limit: Sides = (),
    others: Sequence[Variant] = (),
) -> None:
    """Measures one case: the engine beside a bare copy of as many bytes, and other variants.

    `order` is that of the source's dimensions in the target, `times` the number of copies in a row
    where one is short; `limit` is what the driver copies, if not between the same sides.
    """
    wanted = []
    for k, (source, _) in enumerate(sides):
        data = random_bytes(source.nbytes, k + 1)
        source.write(data)
        whole = data.view(source.array.dtype).reshape(source.array.shape)
        wanted.append(as_bytes(np.ascontiguousarray(whole.transpose(order))))
    pairs = [(source.array.transpose(order), target.array) for source, target in sides]

    def check() -> bool:
        ends = zip(sides, wanted, strict=True)
        return all(target.holds(data) for (_, target), data in ends)

    def prepare() -> None:
        for _, target in sides:
            target.spoil()

    run = waited(*(functools.partial(engine.copy, *pair) for pair in pairs), times=times)
    path = str(engine.plan(*pairs[0]))
    ours = Variant("tranship", run, check, prepare, {"path": path, "copies": len(pairs) * times})
    driver = [raw_copy(source.array, target.array) for source, target in limit or sides]
    count = sum(source.nbytes for source, _ in sides) * times
    bench.measure(case, [ours, bare(engine, *driver, times=times), *others], count, 7, DRIVER)


@measures("gpu-link", "host memory to a GPU and back, pinned and pageable")
def link(bench: Bench) -> None:
    """Measures host memory to a GPU and back: pinned and pageable, one way and both at once."""
    with gpu_engine(bench) as engine:
        shape = (bench.pick(256 * MiB, MiB),)
        pinned, back = (Side(engine, "pinned", shape, "u1") for _ in range(2))
        device, source = (Side(engine, "device0", shape, "u1") for _ in range(2))
        compare(bench, "pinned to device", engine, [(pinned, device)])
        compare(bench, "device to pinned", engine, [(source, back)])
        compare(bench, "both at once", engine, [(pinned, device), (source, back)])
        large = (bench.pick(1024 * MiB, MiB),)
        pageable, staged, landed = (
            Side(engine, memory, large, "u1") for memory in ("pageable", "pinned", "device0")
        )
        up, down = [(staged, landed)], [(landed, staged)]
        compare(bench, "pageable to device", engine, [(pageable, landed)], limit=up)
        compare(bench, "device to pageable", engine, [(landed, pageable)], limit=down)


Shape = tuple[str, str, tuple[int, ...], Order]


def conversion_shapes() -> Iterator[Shape]:
    """Yields the shapes of transposes, arrays of structures and images: 256 MiB each."""
    yield "2-D f16", "f2", (8192, 16384), (1, 0)
    yield "2-D f32", "f4", (8192, 8192), (1, 0)
    yield "2-D f64", "f8", (8192, 4096), (1, 0)
    yield "2-D 16 bytes", "c16", (4096, 4096), (1, 0)
    for order in ((0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
        yield f"3-D f32 {order}", "f4", (256, 512, 512), order
    for fields, kind in ((2, 4), (3, 4), (4, 4), (8, 4), (16, 4), (3, 8)):
        points = (1 << 28) // kind // fields
        yield f"AOS to SOA {fields} x f{8 * kind}", f"f{kind}", (points, fields), (1, 0)
        yield f"SOA to AOS {fields} x f{8 * kind}", f"f{kind}", (fields, points), (1, 0)
    for channels in (3, 16, 64, 256):
        pixels = (1 << 26) // 16 // channels
        yield f"NHWC to NCHW C={channels}", "f4", (16, pixels, channels), (0, 2, 1)
        yield f"NCHW to NHWC C={channels}", "f4", (16, channels, pixels), (0, 2, 1)


@measures("gpu-conversion", "layouts converted inside a GPU, beside its copy")
def conversion(bench: Bench) -> None:
    """Measures the conversion of layouts inside one GPU."""
    with gpu_engine(bench) as engine:
        for name, dtype, full_shape, order in conversion_shapes():
            shape = full_shape if bench.full else tuple(min(n, 48) for n in full_shape)
            source = Side(engine, "device0", shape, dtype)
            target = Side(engine, "device0", tuple(shape[k] for k in order), dtype)
            compare(bench, name, engine, [(source, target)], order, SHORT_TIMES)
            del source, target


@measures("gpu-peer", "a GPU to its neighbour, in the same layout or transposed")
def peer(bench: Bench) -> None:
    """Measures a GPU to its neighbour, in the same layout and transposed."""
    with gpu_engine(bench, 2) as engine:
        side = bench.pick(8192, 64)
        ends = [tuple(Side(engine, f"device{k}", (side, side), "f4") for k in range(2))]
        for case, order in (("peer", (0, 1)), ("peer, transposed", (1, 0))):
            compare(bench, case, engine, ends, order, SHORT_TIMES)  # type: ignore[arg-type]


@measures("gpu-lanes", "host memory to one GPU over the links of all")
def lanes(bench: Bench) -> None:
    """Measures pinned memory to one GPU over the links of all GPUs, and back.

    The driver's bare copies over all links at once, each GPU with a share of its own, run beside.
    """
    with gpu_engine(bench, 2) as engine:
        size = bench.pick(1024 * MiB, MiB)
        pinned = Side(engine, "pinned", (size,), "u1")
        device = Side(engine, "device0", (size,), "u1")
        links = gpu_count(engine)
        share = size // links
        shares = [Side(engine, f"device{k}", (share,), "u1").array for k in range(links)]
        parts = [pinned.array[k * share : (k + 1) * share] for k in range(links)]
        up = [raw_copy(parts[k], shares[k], k) for k in range(links)]
        down = [raw_copy(shares[k], parts[k], k) for k in range(links)]
        for way, ends, copies in (
            ("pinned to device", (pinned, device), up),
            ("device to pinned", (device, pinned), down),
        ):
            over_all = bare(engine, *copies, name="cudaMemcpyAsync on all links")
            compare(bench, f"{way} over {links} links", engine, [ends], others=[over_all])


@measures("gpu-images", "NHWC in pageable memory to NCHW on a GPU, and back")
def images(bench: Bench) -> None:
    """Measures images in pageable memory, NHWC, to a GPU as NCHW, and back."""
    with gpu_engine(bench) as engine:
        count, pixels, channels = bench.pick(64, 2), bench.pick(512 * 512, 64), 4
        shape, turned = (count, pixels, channels), (count, channels, pixels)
        host, pinned = (Side(engine, memory, shape, "f4") for memory in ("pageable", "pinned"))
        device = Side(engine, "device0", turned, "f4")
        for case, ends, limit in (
            ("NHWC on the host to NCHW on the GPU", (host, device), (pinned, device)),
            ("NCHW on the GPU to NHWC on the host", (device, host), (device, pinned)),
        ):
            compare(bench, case, engine, [ends], (0, 2, 1), limit=[limit])


@measures("gpu-priority", "1 MiB at high priority behind large copies to a GPU")
def urgent(bench: Bench) -> None:
    """Measures 1 MiB at high priority behind large copies, beside its time alone."""
    with gpu_engine(bench) as engine:
        bench.awake = False
        large = [Side(engine, "pinned", (bench.pick(1024, 1) * MiB,), "u1") for _ in range(2)]
        landed = [Side(engine, "device0", (large[0].nbytes,), "u1") for _ in range(2)]
        small = Side(engine, "pinned", (MiB,), "u1")
        target = Side(engine, "device0", (MiB,), "u1")
        data = random_bytes(MiB)
        small.write(data)
        alone = waited(lambda: engine.copy(small.array, target.array, priority=10))

        def behind() -> float:
            events = [engine.copy(large[k % 2].array, landed[k % 2].array) for k in range(8)]
            elapsed = alone()
            for event in events:
                event.wait(timeout=60)
            return elapsed

        works = {
            name: functools.partial(
                bench.repeat_once, f"1 MiB {name}", target.variant("tranship", run, data)
            )
            for name, run in (("alone", alone), ("behind", behind))
        }
        seconds = take_turns(works, bench.pick(11, 1))
        ratio = statistics.median(seconds["alone"]) / statistics.median(seconds["behind"])
        bench.emit("1 MiB alone", "tranship", MiB, seconds["alone"])
        bench.emit("1 MiB behind 8 large", "tranship", MiB, seconds["behind"], "alone", ratio)


@measures("gpu-launch", "what a start costs beyond the driver's call")
def launch(bench: Bench) -> None:
    """Measures the caller's cost of starting a 64 KiB copy of one hop, beyond the driver's call."""
    with gpu_engine(bench) as engine:
        source = Side(engine, "pinned", (65536,), "u1")
        target = Side(engine, "device0", (65536,), "u1")
        data = random_bytes(65536)
        source.write(data)
        count = bench.pick(3200, 32)
        copy, emulated = raw_copy(source.array, target.array), engine_is_emulated(engine)
        start = functools.partial(engine.copy, source.array, target.array)
        works: dict[str, Callable[[], float]] = {
            DRIVER: lambda: _loops.time_gpu_starts(copy, emulated, count),
            "tranship": lambda: caller_seconds(start, count),
        }
        seconds = take_turns(works, 7)
        require(target.holds(data), "start of a copy")
        bench.report("start of a copy", seconds, 0, DRIVER)
        launch_from_python(bench, engine)


def launch_from_python(bench: Bench, engine: Engine) -> None:
    """Measures the caller's time for copies inside a GPU in a stream, beside PyTorch's `copy_`.

    64 KiB as they are, and turned: a float32 matrix of 128 x 128.
    """
    torch = find_library(engine, "torch")
    stream = 1 if torch is None else torch.cuda.current_stream()
    source, target, last = (Side(engine, "device0", (128, 128), "f4") for _ in range(3))
    data = random_bytes(65536)
    source.write(data)
    turned = as_bytes(np.ascontiguousarray(data.view("f4").reshape(128, 128).T))

    def wait(_: object) -> None:
        engine.copy(source.array, last.array, stream=stream).wait(timeout=WAIT_SECONDS_MAX)

    for case, array, expected in (
        ("start in a stream, from Python", source.array, data),
        ("start in a stream, turned, from Python", source.array.transpose((1, 0)), turned),
    ):
        prepared = engine.prepare(array, target.array)
        starts: dict[str, Callable[[], Any]] = {
            "tranship": functools.partial(engine.copy, array, target.array, stream=stream),
            "tranship prepared": functools.partial(prepared.start, stream=stream),
        }
        if torch is not None:
            tensors = [torch.as_tensor(one.array, device="cuda") for one in (source, target)]
            given = tensors[0] if array is source.array else tensors[0].t()
            ours = functools.partial(engine.copy, given, tensors[1], stream=stream)
            starts["tranship, tensors"] = ours
            starts["PyTorch"] = functools.partial(tensors[1].copy_, given)
        for name, start in starts.items():
            target.spoil()
            seconds = [caller_seconds(start, bench.pick(640, 32), wait) for _ in range(8)]
            require(target.holds(expected), f"{case}, {name}")
            bench.emit(case, name, 0, seconds[1:], conditions={"timed": "python"})


def wait_for_all(events: list[Any]) -> None:
    """Waits for copies."""
    for event in events:
        event.wait(timeout=WAIT_SECONDS_MAX)


def caller_seconds(
    start: Callable[[], Any], count: int, wait: Callable[[list[Any]], None] = wait_for_all
) -> float:
    """Returns the caller's mean seconds to start a copy; the waits for their ends do not count."""
    seconds = 0.0
    for _ in range(0, count, STARTS_AT_ONCE):
        begin = time.perf_counter()
        events = [start() for _ in range(STARTS_AT_ONCE)]
        seconds += time.perf_counter() - begin
        wait(events)
    return seconds / count
