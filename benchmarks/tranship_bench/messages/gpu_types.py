"""Types on a GPU: packs and unpacks of DDTBench's patterns and of random types, beside its copy.

Each pattern is repeated until its packed elements have 64 MiB, or its array all the memory given;
random types are drawn by `--seed` and `--cases`. 64 messages of mixed types go at once. Beside the
driver's copy of the packed bytes, a copy of as many bytes as the sectors have that they touch,
PyTorch and CuPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from tranship import types
from tranship.engine import Engine
from tranship.types import Datatype

from ..gpu.copies import DRIVER, Side, bare, find_library, gpu_engine, raw_copy
from ..harness import SPOILED, Array, Bench, Bytes, Variant, random_bytes, same, timed, waited
from ..quantiles import UPPER_QUANTILES, Outcome, report_quantiles
from ..registry import SeedOptions, measures
from .ddtbench import Layout, Part, cases, one_of_each, packing
from .random_types import draw_all

__all__ = ["gpu_types"]

SECTOR_BYTES = 32
"""Bytes that a GPU's memory moves at least."""

TIMES = 8
"""Number of copies in a row, whose ends are waited for together."""

MESSAGE_BYTES = 65536

Move = tuple[Callable[[], object], Callable[[], object]]
"""The pack and the unpack of one part of a message by a library."""


class Torch:
    """Packs and unpacks by PyTorch: strided copies of boxes, one index for each list.

    Args:
        module: PyTorch.
        sides: The memory of arrays, and of packed elements.
    """

    def __init__(self, module: Any, sides: tuple[Side, Side]) -> None:
        self.module = module
        self.arrays, self.packed = (self.view(side.array) for side in sides)

    def view(self, array: Any) -> Any:
        """Returns the library's view of an array of the GPU."""
        return self.module.as_tensor(array, device="cuda")

    def synchronize(self) -> None:
        """Waits for the GPU."""
        self.module.cuda.synchronize()

    def listed(self, memory: Any, dense: Any, index: Array) -> Move:
        """Returns the moves between listed elements and packed ones."""
        places = self.module.from_numpy(index).cuda()
        return (
            lambda: self.module.index_select(memory, 0, places, out=dense),
            lambda: memory.index_copy_(0, places, dense),
        )

    def boxed(
        self, memory: Any, dense: Any, shape: list[int], strides: list[int], first: int
    ) -> Move:
        """Returns the moves between a box, with its strides in elements, and packed elements."""
        box = memory.as_strided(shape, strides, memory.storage_offset() + first)
        packed = dense.view(shape)
        return lambda: packed.copy_(box), lambda: box.copy_(packed)

    def moves(self, message: Message, parts: list[Part]) -> Iterator[Move]:
        """Yields the moves of all parts of a message."""
        at = 0
        for part, begin, kind in zip(parts, message.begins, message.kinds, strict=True):
            size = part.array.dtype.itemsize
            items, step = kind.nbytes // part.type.nbytes, part.type.extent // size
            end = begin + kind.true_upper_bound // size * size
            type = getattr(self.module, {4: "int32", 8: "int64", 16: "complex128"}[size])
            memory = self.arrays[begin:end].view(type)
            dense = self.packed[at : at + kind.nbytes].view(type)
            at += kind.nbytes
            if part.places.size:
                rows = part.places.astype(np.int64)[None, :] * part.length
                rows = (rows + np.arange(items)[:, None] * step).reshape(-1, 1)
                yield self.listed(memory, dense, (rows + np.arange(part.length)).reshape(-1))
            else:
                extents, strides = part.box
                box = [items, *extents[::-1]], [step, *strides[::-1]], part.begin
                yield self.boxed(memory, dense, *box)

    def runs(self, message: Message, parts: list[Part]) -> tuple[Callable[[], float], ...]:
        """Returns the timed pack and the timed unpack of a message, some in a row."""
        packs, unpacks = zip(*self.moves(message, parts), strict=True)

        def work(moves: tuple[Callable[[], object], ...]) -> None:
            for _ in range(TIMES):
                for move in moves:
                    move()
            self.synchronize()

        return timed(partial(work, packs)), timed(partial(work, unpacks))


class Cupy(Torch):
    """Packs and unpacks by CuPy."""

    def view(self, array: Any) -> Any:
        return self.module.asarray(array)

    def synchronize(self) -> None:
        self.module.cuda.runtime.deviceSynchronize()

    def listed(self, memory: Any, dense: Any, index: Array) -> Move:
        places = self.module.asarray(index)
        return (
            lambda: self.module.take(memory, places, out=dense),
            lambda: memory.__setitem__(places, dense),
        )

    def boxed(
        self, memory: Any, dense: Any, shape: list[int], strides: list[int], first: int
    ) -> Move:
        steps = [stride * memory.itemsize for stride in strides]
        box = self.module.lib.stride_tricks.as_strided(memory[first:], shape, steps)
        packed = dense.reshape(shape)
        copyto = self.module.copyto
        return lambda: copyto(packed, box), lambda: copyto(box, packed)


class Room:
    """Memory of a GPU for one message after another, its content, and libraries that see it."""

    def __init__(self, engine: Engine, count: int) -> None:
        self.engine = engine
        self.data = random_bytes(count)
        self.spoiled = np.full(count, SPOILED, np.uint8)
        self.arrays, self.packed = (Side(engine, "device0", (count,), "u1") for _ in range(2))
        self.libraries: dict[str, Torch] = {}
        for name, kind, module in (("PyTorch", Torch, "torch"), ("CuPy", Cupy, "cupy")):
            if (library := find_library(engine, module)) is not None:
                self.libraries[name] = kind(library, (self.arrays, self.packed))


class Message(Layout):
    """Elements of one array or several in a room."""

    def __init__(self, room: Room, kinds: list[Datatype]) -> None:
        super().__init__(kinds)
        self.room = room
        self.packed = room.packed.array[: self.nbytes]
        self.content = room.data[: self.span]
        self.wanted: Bytes = room.engine.pack(self.arrays_in(self.content), kinds)

    def unpacked(self, packed: Bytes, memory: Bytes) -> Bytes:
        """Returns memory of the host in which the elements were unpacked."""
        self.room.engine.unpack(packed, self.arrays_in(memory), self.kinds)
        return memory

    def sector_bytes(self) -> int:
        """Returns the bytes of all sectors that the elements and their packed bytes touch."""
        memory = self.unpacked(np.full(self.nbytes, 1, np.uint8), np.zeros(self.span, np.uint8))
        words = memory.view(np.uint64).reshape(-1, SECTOR_BYTES // 8)
        touched = np.count_nonzero(words[:, 0] | words[:, 1] | words[:, 2] | words[:, 3])
        return SECTOR_BYTES * (int(touched) - (-self.nbytes // SECTOR_BYTES))

    def ends(self, unpacks: bool) -> tuple[list[Any], list[Any]]:
        """Returns the pairs of arrays of a pack or an unpack, and their types."""
        arrays = self.arrays_in(self.room.arrays.array)
        return packing(arrays, self.packed, self.kinds, unpacks)

    def ready(self, unpacks: bool) -> Any:
        """Returns the prepared copy."""
        pairs, kinds = self.ends(unpacks)
        return self.room.engine.prepare_all(pairs, types=kinds)

    def variants(self, unpacks: bool, runs: dict[str, Callable[[], float]]) -> list[Variant]:
        """Returns variants that write what is read, spoil what is written, and compare every byte,
        between the elements too.
        """
        room = self.room
        written, read = (room.arrays, room.packed) if unpacks else (room.packed, room.arrays)
        content, expected = self.content, self.wanted
        if unpacks:
            content, expected = (
                self.wanted,
                self.unpacked(self.wanted, room.spoiled[: self.span].copy()),
            )

        def clear() -> None:
            read.write(content)
            written.write(room.spoiled[: expected.size])

        def check() -> bool:
            return same(written.read(expected.size), expected)

        conditions = {"copies": TIMES}
        return [Variant(name, run, check, clear, dict(conditions)) for name, run in runs.items()]


def measure(bench: Bench, case: str, message: Message, parts: list[Part] | None) -> list[float]:
    """Measures packs and unpacks of a message; returns their times over that of their sectors.

    `parts` are the same elements for other libraries; None: without these.
    """
    room = message.room
    half = message.sector_bytes() // 2
    sectors = raw_copy(room.arrays.array[:half], room.packed.array)
    nbytes = raw_copy(room.arrays.array[: message.nbytes], room.packed.array)
    others = {name: one.runs(message, parts) for name, one in room.libraries.items() if parts}
    over = []
    for unpacks, way in ((False, "pack"), (True, "unpack")):
        runs = {"tranship": waited(message.ready(unpacks).start, times=TIMES)}
        runs |= {name: both[unpacks] for name, both in others.items()}
        variants = message.variants(unpacks, runs)
        variants[0].conditions["sector_bytes"] = 2 * half
        variants.append(bare(room.engine, sectors, times=TIMES, name="sectors"))
        variants.append(bare(room.engine, nbytes, times=TIMES))
        count = message.nbytes * TIMES
        medians = bench.measure(f"{case}, {way}", variants, count, 5, DRIVER)
        over.append(medians["tranship"] / medians["sectors"])
    return over


def repeated(kinds: list[Datatype], bytes_max: int, span_max: int) -> list[Datatype]:
    """Returns the types so often, one extent apart, that they have those bytes or span."""
    nbytes = sum(kind.nbytes for kind in kinds)
    span = sum(max(kind.extent, kind.true_upper_bound) for kind in kinds)
    count = max(min(bytes_max // max(nbytes, 1), span_max // max(span, 1) - 1), 1)
    return [types.contiguous(count, kind) for kind in kinds]


def at_once(bench: Bench, room: Room) -> None:
    """Measures 64 messages of 64 KiB of mixed types, at once and one after another."""
    order = 2 * np.random.default_rng(1).permutation(8192)[:4096].astype(np.int64)
    kinds = [
        types.vector(MESSAGE_BYTES // 12, 3, 6, "f4"),
        types.subarray((64, 64, 64), (32, 16, 16), (8, 4, 40), "f8"),
        types.indexed_block(2, order, "f8"),
        types.contiguous(1024, types.resized(types.struct([1, 7], [0, 16], ["f8"] * 2), 0, 96)),
    ]
    count = bench.pick(64, 8)
    message = Message(room, [kinds[k % len(kinds)] for k in range(count)])
    pairs, given = message.ends(False)
    engine = room.engine
    ready = message.ready(False)
    each = [engine.prepare(*pair, types=kind) for pair, kind in zip(pairs, given, strict=True)]
    together = waited(*(one.start for one in each))

    def one_by_one() -> None:
        for one in each:
            one.start().wait(timeout=60)

    ways: dict[str, Callable[[], object]] = {
        "tranship": lambda: ready.start().wait(timeout=60),
        "tranship, copy_all": lambda: engine.copy_all(pairs, types=given).wait(timeout=60),
        "each of its own, waited for together": together,
        "one after another": one_by_one,
    }
    variants = message.variants(False, {name: timed(work, TIMES) for name, work in ways.items()})
    case = f"{count} messages of {MESSAGE_BYTES // 1024} KiB of mixed types, packed"
    bench.measure(case, variants, message.nbytes * TIMES, 9, "one after another")


@measures(
    "gpu-types",
    "DDTBench's and random types packed and unpacked on a GPU, beside its copy and PyTorch",
    SeedOptions,
)
def gpu_types(bench: Bench) -> None:
    """Measures DDTBench's patterns, messages at once and random types; reports quantiles."""
    bytes_max, span_max = bench.pick(64 << 20, 1 << 16), bench.pick(1 << 30, 16 << 20)
    with gpu_engine(bench) as engine:
        room = Room(engine, span_max + bytes_max)
        for name, make in one_of_each(cases(), largest=bench.full):
            parts = make()
            message = Message(room, repeated([part.type for part in parts], bytes_max, span_max))
            measure(bench, name, message, parts)
        at_once(bench, room)
        count = bench.draw_count(40, 4)
        over = []
        for drawn in draw_all(bench.options.seed, count):
            if drawn.type.true_upper_bound > span_max:
                continue
            message = Message(room, repeated([drawn.type], bytes_max, span_max))
            case = f"{drawn.number}: {drawn.type!r}"
            over += [Outcome(case, ratio) for ratio in measure(bench, case, message, None)]
    groups = {"times of random types": over}
    report_quantiles(bench, groups, "sectors", quantiles=UPPER_QUANTILES)
