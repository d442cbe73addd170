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
from ..harness import Bench, Bytes, SkippedError, Variant, random_bytes, same, spoil
from ..registry import measures

MiB = 1 << 20
SHORT_TIMES = 8
"""Number of copies in a row, where one copy would take less than a millisecond."""

STARTS_AT_ONCE = 32

Copy = tuple[int, int, int, int]
"""Addresses of source and target, bytes, and the GPU whose stream carries the copy."""


@contextmanager
def gpu_engine(bench: Bench, needed: int = 1, **settings: Any) -> Iterator[Engine]:
    """Yields an engine with at least `needed` GPUs."""
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


def raw_copy(source: Any, target: Any, device: int) -> Copy:
    """Returns the bare copy of one whole array into another."""
    return (address_of(source), address_of(target), source.nbytes, device)


class Side:
    """An array in one kind of memory, which can be filled, spoiled and read without the engine."""

    def __init__(self, engine: Engine, memory: str, shape: tuple[int, ...], dtype: str) -> None:
        self.engine = engine
        self.memory = memory
        self.device = int(memory[6:]) if memory.startswith("device") else 0
        if memory == "pageable":
            self.array: Any = np.empty(shape, dtype)
        else:
            self.array = engine.empty(shape, dtype, memory=memory)
        self.nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize

    def write(self, data: Bytes) -> None:
        """Fills the array by a bare copy."""
        raw(self.engine, [(address_of(data), address_of(self.array), self.nbytes, self.device)])

    def read(self) -> Bytes:
        """Returns the array's bytes, by a bare copy."""
        data = np.empty(self.nbytes, np.uint8)
        raw(self.engine, [(address_of(self.array), address_of(data), self.nbytes, self.device)])
        return data

    def spoil(self) -> None:
        """Fills the array with the pattern, so that a copy that does nothing is detected."""
        data = np.empty(self.nbytes, np.uint8)
        spoil(data)
        self.write(data)


def engine_seconds(engine: Engine, pairs: list[tuple[Any, Any]], **options: Any) -> float:
    """Returns the seconds from the submission of all copies to the end of the last."""
    begin = time.perf_counter()
    events = [engine.copy(source, target, **options) for source, target in pairs]
    for event in events:
        event.wait(timeout=60)
    return time.perf_counter() - begin


def compare(
    bench: Bench,
    case: str,
    engine: Engine,
    sides: list[tuple[Side, Side]],
    limit: Callable[[], float],
    expected: Callable[[Bytes], Bytes] = lambda data: data,
    views: Callable[[Any, Any], tuple[Any, Any]] = lambda source, target: (source, target),
    times: int = 1,
    others: Sequence[Variant] = (),
) -> None:
    """Measures one case: the engine beside a bare copy of as many bytes, and other variants.

    Short copies are repeated `times` in a row.
    """
    wanted = []
    for k, (source, _) in enumerate(sides):
        data = random_bytes(source.nbytes, k + 1)
        source.write(data)
        wanted.append(expected(data))
    pairs = [views(source.array, target.array) for source, target in sides] * times
    count = sum(source.nbytes for source, _ in sides) * times

    def check() -> bool:
        return all(
            same(target.read(), data) for (_, target), data in zip(sides, wanted, strict=True)
        )

    def prepare() -> None:
        for _, target in sides:
            target.spoil()

    path = str(engine.plan(*pairs[0]))
    bench.measure(
        case,
        [
            Variant(
                "tranship",
                lambda: engine_seconds(engine, pairs),
                check,
                prepare,
                {"path": path, "copies": len(pairs)},
            ),
            Variant("cudaMemcpyAsync", limit, lambda: True, lambda: None, {}),
            *others,
        ],
        count,
        repetitions=bench.pick(7, 1),
        baseline="cudaMemcpyAsync",
        cold=False,
        awake=True,
    )


@measures("gpu-link", "host memory to a GPU and back, pinned and pageable")
def link(bench: Bench) -> None:
    """Measures host memory to a GPU and back: pinned and pageable, one way and both at once."""
    with gpu_engine(bench) as engine:
        shape = (bench.pick(256 * MiB, MiB),)
        pinned = [Side(engine, "pinned", shape, "u1") for _ in range(2)]
        device = [Side(engine, "device0", shape, "u1") for _ in range(2)]
        large = (bench.pick(1024 * MiB, MiB),)
        pageable = Side(engine, "pageable", large, "u1")
        landed = Side(engine, "device0", large, "u1")
        staged = Side(engine, "pinned", large, "u1")
        up = raw_copy(pinned[0].array, device[0].array, 0)
        down = raw_copy(device[1].array, pinned[1].array, 0)

        def limit(*copies: Copy) -> Callable[[], float]:
            return lambda: raw(engine, list(copies))

        compare(bench, "pinned to device", engine, [(pinned[0], device[0])], limit(up))
        compare(bench, "device to pinned", engine, [(device[1], pinned[1])], limit(down))
        both = [(pinned[0], device[0]), (device[1], pinned[1])]
        compare(bench, "both at once", engine, both, limit(up, down))
        up = raw_copy(staged.array, landed.array, 0)
        down = raw_copy(landed.array, staged.array, 0)
        compare(bench, "pageable to device", engine, [(pageable, landed)], limit(up))
        compare(bench, "device to pageable", engine, [(landed, pageable)], limit(down))


Shape = tuple[str, str, tuple[int, ...], tuple[int, ...]]
CONVERSIONS: list[Shape] = [
    ("2-D f16", "f2", (8192, 16384), (1, 0)),
    ("2-D f32", "f4", (8192, 8192), (1, 0)),
    ("2-D f64", "f8", (8192, 4096), (1, 0)),
    ("2-D 16 bytes", "c16", (4096, 4096), (1, 0)),
    ("3-D f32 (0, 2, 1)", "f4", (256, 512, 512), (0, 2, 1)),
    ("3-D f32 (1, 0, 2)", "f4", (256, 512, 512), (1, 0, 2)),
    ("3-D f32 (1, 2, 0)", "f4", (256, 512, 512), (1, 2, 0)),
    ("3-D f32 (2, 0, 1)", "f4", (256, 512, 512), (2, 0, 1)),
    ("3-D f32 (2, 1, 0)", "f4", (256, 512, 512), (2, 1, 0)),
]


def conversion_shapes() -> list[Shape]:
    """Returns the shapes of transposes, arrays of structures and images: 256 MiB each."""
    shapes = list(CONVERSIONS)
    for fields in (2, 3, 4, 8, 16):
        points = (1 << 26) // fields
        shapes.append((f"AOS to SOA {fields} x f32", "f4", (points, fields), (1, 0)))
        shapes.append((f"SOA to AOS {fields} x f32", "f4", (fields, points), (1, 0)))
    points = (1 << 25) // 3
    shapes.append(("AOS to SOA 3 x f64", "f8", (points, 3), (1, 0)))
    shapes.append(("SOA to AOS 3 x f64", "f8", (3, points), (1, 0)))
    for channels in (3, 16, 64, 256):
        pixels = (1 << 26) // 16 // channels
        shapes.append((f"NHWC to NCHW C={channels}", "f4", (16, pixels, channels), (0, 2, 1)))
        shapes.append((f"NCHW to NHWC C={channels}", "f4", (16, channels, pixels), (0, 2, 1)))
    return shapes


@measures("gpu-conversion", "layouts converted inside a GPU, beside its copy")
def conversion(bench: Bench) -> None:
    """Measures the conversion of layouts inside one GPU."""
    with gpu_engine(bench) as engine:
        for name, dtype, full_shape, order in conversion_shapes():
            shape = full_shape if bench.full else tuple(min(n, 48) for n in full_shape)
            permuted = tuple(shape[k] for k in order)
            source = Side(engine, "device0", shape, dtype)
            target = Side(engine, "device0", permuted, dtype)
            copy = raw_copy(source.array, target.array, 0)

            def turned(
                data: Bytes,
                dtype: str = dtype,
                shape: tuple[int, ...] = shape,
                order: tuple[int, ...] = order,
            ) -> Bytes:
                grid = np.ascontiguousarray(data.view(dtype).reshape(shape).transpose(order))
                return grid.reshape(-1).view(np.uint8)

            compare(
                bench,
                name,
                engine,
                [(source, target)],
                lambda copy=copy: raw(engine, [copy] * SHORT_TIMES),  # type: ignore[misc]
                turned,
                lambda a, b, order=order: (a.transpose(order), b),  # type: ignore[misc]
                SHORT_TIMES,
            )
            del source, target


@measures("gpu-peer", "a GPU to its neighbour, in the same layout or transposed")
def peer(bench: Bench) -> None:
    """Measures a GPU to its neighbour, in the same layout and transposed."""
    with gpu_engine(bench, 2) as engine:
        side = bench.pick(8192, 64)
        source = Side(engine, "device0", (side, side), "f4")
        target = Side(engine, "device1", (side, side), "f4")
        copy = raw_copy(source.array, target.array, 0)

        def limit() -> float:
            return raw(engine, [copy] * SHORT_TIMES)

        def turned(data: Bytes) -> Bytes:
            return np.ascontiguousarray(data.view("f4").reshape(side, side).T).view(np.uint8)

        compare(bench, "peer", engine, [(source, target)], limit, times=SHORT_TIMES)
        compare(
            bench,
            "peer, transposed",
            engine,
            [(source, target)],
            limit,
            lambda data: turned(data).reshape(-1),
            lambda a, b: (a.transpose((1, 0)), b),
            SHORT_TIMES,
        )


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
        shares = [Side(engine, f"device{k}", (share,), "u1") for k in range(links)]
        part = [pinned.array[k * share : (k + 1) * share] for k in range(links)]
        ways = [
            (
                "pinned to device",
                (pinned, device),
                [raw_copy(part[k], shares[k].array, k) for k in range(links)],
            ),
            (
                "device to pinned",
                (device, pinned),
                [raw_copy(shares[k].array, part[k], k) for k in range(links)],
            ),
        ]
        for way, (source, target), all_links in ways:
            case = f"{way} over {links} links"
            one_link = raw_copy(source.array, target.array, 0)
            limit = functools.partial(raw, engine, [one_link])
            over_all = Variant(
                "cudaMemcpyAsync on all links",
                functools.partial(raw, engine, all_links),
                lambda: True,
                lambda: None,
            )
            compare(bench, case, engine, [(source, target)], limit, others=[over_all])


@measures("gpu-images", "NHWC in pageable memory to NCHW on a GPU, and back")
def images(bench: Bench) -> None:
    """Measures images in pageable memory, NHWC, to a GPU as NCHW, and back."""
    with gpu_engine(bench) as engine:
        count, pixels, channels = bench.pick(64, 2), bench.pick(512 * 512, 64), 4
        shape = (count, pixels, channels)
        turned_shape = (count, channels, pixels)
        host = Side(engine, "pageable", shape, "f4")
        back = Side(engine, "pageable", shape, "f4")
        pinned = Side(engine, "pinned", shape, "f4")
        device = Side(engine, "device0", turned_shape, "f4")
        up = raw_copy(pinned.array, device.array, 0)
        down = raw_copy(device.array, pinned.array, 0)

        def turn(shape: tuple[int, ...]) -> Callable[[Bytes], Bytes]:
            return lambda data: (
                np.ascontiguousarray(data.view("f4").reshape(shape).transpose(0, 2, 1))
                .reshape(-1)
                .view(np.uint8)
            )

        def views(a: Any, b: Any) -> tuple[Any, Any]:
            return a.transpose((0, 2, 1)), b

        compare(
            bench,
            "NHWC on the host to NCHW on the GPU",
            engine,
            [(host, device)],
            lambda: raw(engine, [up]),
            turn(shape),
            views,
        )
        compare(
            bench,
            "NCHW on the GPU to NHWC on the host",
            engine,
            [(device, back)],
            lambda: raw(engine, [down]),
            turn(turned_shape),
            views,
        )


@measures("gpu-priority", "1 MiB at high priority behind large copies to a GPU")
def urgent(bench: Bench) -> None:
    """Measures 1 MiB at high priority behind large copies, beside its time alone."""
    with gpu_engine(bench) as engine:
        large = [Side(engine, "pinned", (bench.pick(1024, 1) * MiB,), "u1") for _ in range(2)]
        landed = [Side(engine, "device0", (large[0].nbytes,), "u1") for _ in range(2)]
        small = Side(engine, "pinned", (MiB,), "u1")
        target = Side(engine, "device0", (MiB,), "u1")
        data = random_bytes(MiB)
        small.write(data)
        seconds: dict[str, list[float]] = {"alone": [], "behind": []}
        for turn in range(bench.pick(12, 2)):
            for name, times in seconds.items():
                target.spoil()
                events = []
                if name == "behind":
                    for k in range(8):
                        events.append(engine.copy(large[k % 2].array, landed[k % 2].array))
                elapsed = engine_seconds(engine, [(small.array, target.array)], priority=10)
                for event in events:
                    event.wait(timeout=60)
                if not same(target.read(), data):
                    raise AssertionError("an urgent copy arrived changed")
                if turn > 0:
                    times.append(elapsed)
        alone = statistics.median(seconds["alone"])
        behind = statistics.median(seconds["behind"])
        bench.emit("1 MiB alone", "tranship", MiB, seconds["alone"])
        bench.emit(
            "1 MiB behind 8 large", "tranship", MiB, seconds["behind"], "alone", alone / behind
        )


@measures("gpu-launch", "what a start costs beyond the driver's call")
def launch(bench: Bench) -> None:
    """Measures the caller's cost of starting a 64 KiB copy of one hop, beyond the driver's call."""
    with gpu_engine(bench) as engine:
        source = Side(engine, "pinned", (65536,), "u1")
        target = Side(engine, "device0", (65536,), "u1")
        data = random_bytes(65536)
        source.write(data)
        count = bench.pick(3200, 32)
        driver = raw_copy(source.array, target.array, 0)
        emulated = engine_is_emulated(engine)
        times = [
            (
                time_starts(lambda: engine.copy(source.array, target.array), count),
                _loops.time_gpu_starts(driver, emulated, count),
            )
            for _ in range(8)
        ][1:]
        if not same(target.read(), data):
            raise AssertionError("a copy arrived changed")
        ours, bare = ([pair[k] for pair in times] for k in (0, 1))
        more_s = statistics.median(ours) - statistics.median(bare)
        ratio = statistics.median(bare) / statistics.median(ours)
        bench.emit("start of a copy", "cudaMemcpyAsync", 0, bare)
        bench.emit("start of a copy", "tranship", 0, ours, "cudaMemcpyAsync", ratio)
        bench.say(f"a start costs {more_s * 1e6:.2f} us more than the bare call")
        launch_from_python(bench, engine)


def time_starts(start: Callable[[], Any], count: int) -> float:
    """Returns the caller's mean seconds to start a copy; the waits for their ends do not count."""
    at_once = 32  # a full stream makes the caller wait
    seconds = 0.0
    for _ in range(0, count, at_once):
        begin = time.perf_counter()
        events = [start() for _ in range(at_once)]
        seconds += (time.perf_counter() - begin) / count
        for event in events:
            event.wait(timeout=60)
    return seconds


def launch_from_python(bench: Bench, engine: Engine) -> None:
    """Measures the caller's time for copies inside a GPU in a stream, beside PyTorch's `copy_`.

    64 KiB as they are, and turned: a float32 matrix of 128 x 128.
    """
    torch = find_library(engine, "torch")
    stream = 1 if torch is None else torch.cuda.current_stream()
    source, target, last = (Side(engine, "device0", (128, 128), "f4") for _ in range(3))
    data = random_bytes(65536)
    source.write(data)
    turned = np.ascontiguousarray(data.view("f4").reshape(128, 128).T).reshape(-1).view(np.uint8)

    def wait() -> None:
        engine.copy(source.array, last.array, stream=stream).wait(timeout=60)

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
            starts["tranship, tensors"] = functools.partial(
                engine.copy, given, tensors[1], stream=stream
            )
            starts["PyTorch"] = functools.partial(tensors[1].copy_, given)
        for name, start in starts.items():
            target.spoil()
            seconds = [caller_seconds(start, wait, bench.pick(640, 32)) for _ in range(8)]
            if not same(target.read(), expected):
                raise AssertionError(f"{name}: a copy arrived changed")
            bench.emit(case, name, 0, seconds[1:], conditions={"timed": "python"})


def caller_seconds(start: Callable[[], Any], wait: Callable[[], None], count: int) -> float:
    """Returns the caller's seconds for one start; a full stream would make the caller wait."""
    seconds = 0.0
    for _ in range(0, count, STARTS_AT_ONCE):
        begin = time.perf_counter()
        for _ in range(STARTS_AT_ONCE):
            start()
        seconds += time.perf_counter() - begin
        wait()
    return seconds / count
