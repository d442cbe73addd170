"""Types on a GPU: packs and unpacks of DDTBench's patterns and of random types, beside its copy.

Each pattern is repeated until its packed elements have 64 MiB, or its array all the memory given.

- DDTBench's patterns and random types (`--seed`, `--cases`), up to 64 MiB, packed and unpacked on a
  GPU; 64 messages of mixed types at once; beside the driver's copy of the packed bytes, a copy of
  as many bytes as the sectors have that they touch, PyTorch and CuPy.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tranship import types
from tranship.engine import Engine
from tranship.typed_ends import packed_places
from tranship.types import Datatype

from ..gpu.copies import Side, find_library, gpu_engine, raw, raw_copy
from ..gpu.shapes import nothing, ok
from ..harness import Bench, Bytes, Variant, random_bytes, same
from ..quantiles import UPPER_QUANTILES, emit_quantiles
from ..registry import SeedOptions, measures
from .ddtbench import Part, cases, one_of_each
from .random_types import draw_all

SECTOR_BYTES = 32
"""Bytes that a GPU's memory moves at least."""

TIMES = 8
"""Number of copies in a row, whose ends are waited for together."""

MESSAGE_BYTES = 65536


class Room:
    """Memory of a GPU for one message after another, its content, and libraries that see it."""

    def __init__(self, engine: Engine, count: int, torch: Any, cupy: Any) -> None:
        self.engine = engine
        self.torch = torch
        self.cupy = cupy
        self.data = random_bytes(count)
        self.spoiled = np.full(count, 0xA5, np.uint8)
        self.arrays = Side(engine, "device0", (count,), "u1")
        self.packed = Side(engine, "device0", (count,), "u1")
        self.tensors = None
        if torch is not None:
            self.tensors = [
                torch.as_tensor(side.array, device="cuda") for side in (self.arrays, self.packed)
            ]

    def write(self, side: Side, data: Bytes) -> None:
        """Writes the first bytes of a side by a bare copy."""
        raw(self.engine, [raw_copy(data, side.array[: data.size], side.device)])

    def read(self, side: Side, count: int) -> Bytes:
        """Returns the first bytes of a side by a bare copy."""
        data = np.empty(count, np.uint8)
        raw(self.engine, [raw_copy(side.array[:count], data, side.device)])
        return data


class Message:
    """Elements of one array or several, which lie one behind the other in a room."""

    def __init__(self, room: Room, kinds: list[Datatype]) -> None:
        self.room = room
        self.kinds = kinds
        sizes = [-(-kind.true_upper_bound // 256) * 256 for kind in kinds]
        ends = np.cumsum(sizes)
        self.span = int(ends[-1])
        self.begins = [int(end - size) for end, size in zip(ends, sizes, strict=True)]
        self.nbytes = sum(kind.nbytes for kind in kinds)
        self.arrays = [
            room.arrays.array[begin : begin + kind.true_upper_bound]
            for begin, kind in zip(self.begins, kinds, strict=True)
        ]
        self.packed = room.packed.array[: self.nbytes]
        self.content = room.data[: self.span]
        self.wanted = self.on_host(self.content)

    def host_arrays(self, memory: Bytes) -> list[Bytes]:
        """Returns the arrays as they lie in host memory."""
        pairs = zip(self.begins, self.kinds, strict=True)
        return [memory[begin : begin + kind.true_upper_bound] for begin, kind in pairs]

    def on_host(self, memory: Bytes) -> Bytes:
        """Returns the packed elements of arrays in host memory."""
        packed: Bytes = self.room.engine.pack(self.host_arrays(memory), self.kinds)
        return packed

    def unpacked(self, packed: Bytes) -> Bytes:
        """Returns spoiled memory in which the elements were unpacked on the host."""
        memory = self.room.spoiled[: self.span].copy()
        self.room.engine.unpack(packed, self.host_arrays(memory), self.kinds)
        return memory

    def sector_bytes(self) -> int:
        """Returns the bytes of all sectors that the elements and their packed bytes touch."""
        memory = np.zeros(self.span, np.uint8)
        ones = np.full(self.nbytes, 1, np.uint8)
        self.room.engine.unpack(ones, self.host_arrays(memory), self.kinds)
        words = memory.view(np.uint64).reshape(-1, SECTOR_BYTES // 8)
        touched = np.count_nonzero(words[:, 0] | words[:, 1] | words[:, 2] | words[:, 3])
        return SECTOR_BYTES * (int(touched) - (-self.nbytes // SECTOR_BYTES))

    def ready(self, unpacks: bool) -> Any:
        """Returns the prepared copy."""
        places = packed_places(self.kinds)
        if unpacks:
            pairs = [(self.packed, array) for array in self.arrays]
            return self.room.engine.prepare_all(
                pairs, types=list(zip(places, self.kinds, strict=True))
            )
        pairs = [(array, self.packed) for array in self.arrays]
        return self.room.engine.prepare_all(pairs, types=list(zip(self.kinds, places, strict=True)))

    def clear(self, unpacks: bool) -> None:
        """Writes what is read, and spoils what is written."""
        room = self.room
        if unpacks:
            room.write(room.packed, self.wanted)
            room.write(room.arrays, room.spoiled[: self.span])
        else:
            room.write(room.arrays, self.content)
            room.write(room.packed, room.spoiled[: self.nbytes])

    def checking(self, unpacks: bool) -> Callable[[], bool]:
        """Returns a function that compares every byte, between the elements too."""
        room = self.room
        if not unpacks:
            return lambda: same(room.read(room.packed, self.nbytes), self.wanted)
        expected = self.unpacked(self.wanted)
        return lambda: same(room.read(room.arrays, self.span), expected)


def started(ready: Any) -> Callable[[], float]:
    """Returns a run that starts a prepared copy some times, and waits for all."""

    def run() -> float:
        begin = time.perf_counter()
        events = [ready.start() for _ in range(TIMES)]
        for event in events:
            event.wait(timeout=60)
        return time.perf_counter() - begin

    return run


def measure(bench: Bench, case: str, message: Message, others: Mapping[str, Any]) -> list[float]:
    """Measures packs and unpacks of a message; returns their times over that of their sectors."""
    room = message.room
    half = message.sector_bytes() // 2
    sectors = raw_copy(room.arrays.array[:half], room.packed.array, 0)
    bytes_ = raw_copy(room.arrays.array[: message.nbytes], room.packed.array, 0)
    over = []
    for unpacks, way in ((False, "pack"), (True, "unpack")):
        check, clear = message.checking(unpacks), lambda unpacks=unpacks: message.clear(unpacks)
        conditions = {"copies": TIMES, "sector_bytes": 2 * half, "timed": "python"}
        ready = message.ready(unpacks)
        variants = [
            Variant("tranship", started(ready), check, clear, conditions),
            Variant("sectors", lambda: raw(room.engine, [sectors] * TIMES), ok, nothing),
            Variant("cudaMemcpyAsync", lambda: raw(room.engine, [bytes_] * TIMES), ok, nothing),
        ]
        variants += [
            Variant(name, run(unpacks), check, clear) for name, run in others.items() if run
        ]
        medians = bench.measure(
            f"{case}, {way}",
            variants,
            message.nbytes * TIMES,
            repetitions=bench.pick(5, 1),
            baseline="cudaMemcpyAsync",
            cold=False,
            awake=True,
        )
        over.append(medians["tranship"] / medians["sectors"])
    return over


def repeated(kinds: list[Datatype], bytes_max: int, span_max: int) -> list[Datatype]:
    """Returns the types so often, one extent apart, that they have those bytes or span."""
    nbytes = sum(kind.nbytes for kind in kinds)
    span = sum(max(kind.extent, kind.true_upper_bound) for kind in kinds)
    count = max(min(bytes_max // max(nbytes, 1), span_max // max(span, 1) - 1), 1)
    return [types.contiguous(count, kind) for kind in kinds]


@dataclass
class PackedPart:
    """A part of a message for other libraries: its box or list, and its packed elements.

    Attributes:
        begin: Bytes before the part's array in the room's memory.
        end: Bytes before its end.
        packed_begin: Bytes before its packed elements.
        packed_end: Bytes before their end.
        size: Bytes of an element.
        index: Numbers of a list's elements, in the order in which they are packed; None of a box.
        shape: Extents of a box.
        strides: Elements between two neighbours along each dimension of a box.
        first: Number of a box's first element.
    """

    begin: int
    end: int
    packed_begin: int
    packed_end: int
    size: int
    index: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    first: int

    def views(self, arrays: Any, packed: Any, kinds: Mapping[int, Any]) -> tuple[Any, Any]:
        """Returns the elements of the array and the packed ones, by a library's types of sizes."""
        kind = kinds[self.size]
        dense = packed[self.packed_begin : self.packed_end].view(kind)
        return arrays[self.begin : self.end].view(kind), dense


def packed_parts(message: Message, parts: list[Part]) -> list[PackedPart]:
    """Returns the parts as boxes and lists of elements."""
    made = []
    at = 0
    for part, begin, kind in zip(parts, message.begins, message.kinds, strict=True):
        size = part.array.dtype.itemsize
        items = kind.nbytes // part.type.nbytes
        step = part.type.extent // size
        index: Any = None
        shape: tuple[int, ...] = ()
        strides: tuple[int, ...] = ()
        first = 0
        if part.places.size:
            rows = part.places.astype(np.int64)[None, :] * part.length
            rows = (rows + np.arange(items)[:, None] * step).reshape(-1, 1)
            index = (rows + np.arange(part.length)).reshape(-1)
        else:
            extents, inner = part.box
            shape, strides, first = (items, *extents[::-1]), (step, *inner[::-1]), part.begin
        end = begin + kind.true_upper_bound // size * size
        made.append(
            PackedPart(begin, end, at, at + kind.nbytes, size, index, shape, strides, first)
        )
        at += kind.nbytes
    return made


def timed_by(synchronize: Callable[[], None], once: Callable[[bool], None]) -> Any:
    """Returns, for packs or unpacks, a run of some copies in a row."""

    def timed(unpacks: bool) -> Callable[[], float]:
        def run() -> float:
            synchronize()
            begin = time.perf_counter()
            for _ in range(TIMES):
                once(unpacks)
            synchronize()
            return time.perf_counter() - begin

        return run

    return timed


def torch_copies(message: Message, parts: list[PackedPart]) -> Any:
    """Returns PyTorch's way: a strided copy of each box, one index for each list."""
    room = message.room
    if room.tensors is None:
        return None
    torch = room.torch
    arrays, packed = room.tensors
    kinds = {4: torch.int32, 8: torch.int64, 16: torch.complex128}
    moves = []
    for part in parts:
        memory, dense = part.views(arrays, packed, kinds)
        if part.index is not None:
            moves.append((memory, dense, torch.from_numpy(part.index).cuda()))
            continue
        first = memory.storage_offset() + part.first
        box = memory.as_strided(part.shape, part.strides, first)
        moves.append((box, dense.view(part.shape), None))

    def once(unpacks: bool) -> None:
        for box, dense, index in moves:
            if index is None:
                (box if unpacks else dense).copy_(dense if unpacks else box)
            elif unpacks:
                box.index_copy_(0, index, dense)
            else:
                torch.index_select(box, 0, index, out=dense)

    return timed_by(torch.cuda.synchronize, once)


def cupy_copies(message: Message, parts: list[PackedPart]) -> Any:
    """Returns CuPy's way: a strided copy of each box, `take` or an assignment for each list."""
    room = message.room
    if room.cupy is None:
        return None
    cupy = room.cupy
    arrays, packed = (cupy.asarray(side.array) for side in (room.arrays, room.packed))
    kinds = {4: cupy.int32, 8: cupy.int64, 16: cupy.complex128}
    moves = []
    for part in parts:
        memory, dense = part.views(arrays, packed, kinds)
        if part.index is not None:
            moves.append((memory, dense, cupy.asarray(part.index)))
            continue
        strides = tuple(stride * part.size for stride in part.strides)
        box = cupy.lib.stride_tricks.as_strided(memory[part.first :], part.shape, strides)
        moves.append((box, dense.reshape(part.shape), None))

    def once(unpacks: bool) -> None:
        for box, dense, index in moves:
            if index is None:
                cupy.copyto(box if unpacks else dense, dense if unpacks else box)
            elif unpacks:
                box[index] = dense
            else:
                cupy.take(box, index, out=dense)

    return timed_by(cupy.cuda.runtime.deviceSynchronize, once)


def at_once(bench: Bench, room: Room) -> None:
    """Measures 64 messages of 64 KiB of mixed types, at once and one after another."""
    kinds = [
        types.vector(MESSAGE_BYTES // 12, 3, 6, "f4"),
        types.subarray((64, 64, 64), (32, 16, 16), (8, 4, 40), "f8"),
        types.indexed_block(
            2, 2 * np.random.default_rng(1).permutation(8192)[:4096].astype(np.int64), "f8"
        ),
        types.contiguous(1024, types.resized(types.struct([1, 7], [0, 16], ["f8"] * 2), 0, 96)),
    ]
    count = bench.pick(64, 8)
    message = Message(room, [kinds[k % len(kinds)] for k in range(count)])
    places = packed_places(message.kinds)
    pairs = [(array, message.packed) for array in message.arrays]
    given = list(zip(message.kinds, places, strict=True))
    engine = room.engine
    ready = message.ready(False)
    each = [engine.prepare(*pair, types=kind) for pair, kind in zip(pairs, given, strict=True)]

    def timed(work: Callable[[], None]) -> Callable[[], float]:
        def run() -> float:
            begin = time.perf_counter()
            for _ in range(TIMES):
                work()
            return time.perf_counter() - begin

        return run

    def one_by_one() -> None:
        for one in each:
            one.start().wait(timeout=60)

    def together() -> None:
        events = [one.start() for one in each]
        for event in events:
            event.wait(timeout=60)

    check, clear = message.checking(False), lambda: message.clear(False)
    ways: dict[str, Callable[[], None]] = {
        "tranship": lambda: ready.start().wait(timeout=60),
        "tranship, copy_all": lambda: engine.copy_all(pairs, types=given).wait(timeout=60),
        "each of its own, waited for together": together,
        "one after another": one_by_one,
    }
    bench.measure(
        f"{count} messages of {MESSAGE_BYTES // 1024} KiB of mixed types, packed",
        [Variant(name, timed(work), check, clear) for name, work in ways.items()],
        message.nbytes * TIMES,
        repetitions=bench.pick(9, 1),
        baseline="one after another",
        cold=False,
        awake=True,
    )


@measures(
    "gpu-types",
    "DDTBench's and random types packed and unpacked on a GPU, beside its copy and PyTorch",
    SeedOptions,
)
def gpu_types(bench: Bench) -> None:
    """Measures DDTBench's patterns, messages at once and random types; reports quantiles."""
    options = bench.options
    bytes_max, span_max = bench.pick(64 << 20, 1 << 16), bench.pick(1 << 30, 16 << 20)
    with gpu_engine(bench) as engine:
        torch, cupy = (find_library(engine, name) for name in ("torch", "cupy"))
        room = Room(engine, span_max + bytes_max, torch, cupy)
        for name, make in one_of_each(cases(), largest=bench.full):
            parts = make()
            message = Message(room, repeated([part.type for part in parts], bytes_max, span_max))
            others = packed_parts(message, parts)
            ways = {
                "PyTorch": torch_copies(message, others),
                "CuPy": cupy_copies(message, others),
            }
            measure(bench, name, message, ways)
        at_once(bench, room)
        bench.conditions = {**bench.conditions, "seed": options.seed}
        over = []
        for drawn in draw_all(options.seed, options.cases or bench.pick(40, 4)):
            if drawn.type.true_upper_bound > span_max:
                continue
            message = Message(room, repeated([drawn.type], bytes_max, span_max))
            case = f"{drawn.number}: {drawn.type!r}"
            over += [(value, case) for value in measure(bench, case, message, {})]
    columns = emit_quantiles(
        bench,
        "times of random types",
        [ratio for ratio, _ in over],
        baseline="sectors",
        quantiles=UPPER_QUANTILES,
    )
    bench.say(f"random types, time over the sectors': {', '.join(UPPER_QUANTILES)}: {columns}")
    print("\n".join(f"{r:6.2f}  {c}" for r, c in sorted(over)[-20:]), file=sys.stderr)
