"""Memory that is reached in several ways, for tests of what overlaps.

Run as a program, it tries many more random aliases than the tests do:
``python tests/python/aliases.py --cases 100000 --seed 1``.
"""

from __future__ import annotations

import argparse
import mmap
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any

import numpy as np
from gpu_support import EMULATED

import tranship as ts

Array = np.ndarray[Any, Any]
TYPES = ("u1", "i2", "f4", "f8", "c16", "V3")


@dataclass
class Ground:
    """Bytes that several arrays show.

    Attributes:
        name: What it is, for messages.
        dtype, shape: Of each array that shows all of it.
        ways: Arrays over the bytes, by name.
        view: The bytes as their owner sees them.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    ways: dict[str, Any]
    view: Callable[[], Array]
    set_bytes: Callable[[Array], None]
    read_only: set[str] = field(default_factory=set)
    exact: bool = True


class World:
    """Engines and connections, and grounds that are reached through them."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.folder = folder
        self.stack = stack
        self.engine = stack.enter_context(
            ts.Engine(emulated_gpus=EMULATED, threads=2, contact=True)
        )
        self.near = stack.enter_context(ts.Engine(emulated_gpus=EMULATED, threads=2, contact=True))
        self.far = stack.enter_context(ts.Engine(transport="network", threads=2, contact=True))
        connect = self.engine.connect
        self.peers = {
            "itself": connect(self.engine.contact),
            "near one": connect(self.near.contact),
            "near two": connect(self.near.contact),
            "far one": connect(self.far.contact),
            "far two": connect(self.far.contact),
        }
        self.count = 0

    def exported(self, owner: ts.Engine, array: Any, *peers: str) -> dict[str, Any]:
        """Exports an array; returns it as each of these connections shows it."""
        self.count += 1
        name = f"array {self.count}"
        owner.export(name, array)
        self.stack.callback(owner.withdraw, name)
        return {f"through {peer}": self.peers[peer][name] for peer in peers}

    def grounds(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> list[Ground]:
        """Makes one of each kind."""
        return [
            self.plain(dtype, shape),
            self.shared(dtype, shape),
            self.file(dtype, shape),
            self.segment(dtype, shape),
            self.memfd(dtype, shape),
            self.gpu(dtype, shape),
        ]

    def plain(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Ground:
        array = np.zeros(shape, dtype)
        ways = {"array": array, "buffer": np.frombuffer(memoryview(raw(array)), dtype)}
        ways["buffer"] = ways["buffer"].reshape(shape)
        ways |= self.exported(self.engine, array, "itself")
        ways |= self.exported(self.near, array, "near one", "near two")
        ways |= self.exported(self.far, array, "far one", "far two")
        return host_ground("memory", array, ways)

    def shared(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Ground:
        array = self.near.empty(shape, dtype)
        ways = {"array": array} | self.exported(self.near, array, "near one", "near two")
        ways |= self.exported(self.engine, array, "itself")
        return host_ground("engine's memory", array, ways)

    def file(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Ground:
        path = Path(tempfile.mkdtemp(dir=self.folder)) / "values.bin"
        path.write_bytes(bytes(int(np.prod(shape)) * dtype.itemsize))
        link, hard = path.with_suffix(".link"), path.with_suffix(".hard")
        link.symlink_to(path)
        os.link(path, hard)
        maps = [np.memmap(one, dtype, "r+", shape=shape) for one in (path, hard)]
        copied = np.memmap(link, dtype, "c", shape=shape)
        files = [
            self.stack.enter_context(
                ts.File(one, extents=shape, fields=dtype_text(dtype), mode="r+")
            )
            for one in (path, link)
        ]
        ways = {"map": maps[0], "other map": np.asarray(maps[1]), "private map": copied}
        ways |= {"file": files[0], "linked file": files[1]}
        ways |= self.exported(self.engine, maps[0], "itself")
        ways |= self.exported(self.near, maps[1], "near one")
        ways |= {
            f"file {way}": of for way, of in self.exported(self.far, files[0], "far one").items()
        }
        ground = host_ground("file", maps[0], ways)
        ground.read_only = {"private map"}
        return ground

    def segment(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Ground:
        count = int(np.prod(shape)) * dtype.itemsize
        one = shared_memory.SharedMemory(create=True, size=count)
        other = shared_memory.SharedMemory(one.name)
        arrays = [
            np.frombuffer(each.buf, dtype, int(np.prod(shape))).reshape(shape)
            for each in (one, other)
        ]
        one.unlink()
        ways = {"segment": arrays[0], "opened again": arrays[1]}
        ways |= self.exported(self.engine, arrays[0], "itself")
        self.stack.callback(keep_open, one, other)
        return host_ground("segment", arrays[0], ways)

    def memfd(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Ground:
        count = int(np.prod(shape)) * dtype.itemsize
        descriptor = os.memfd_create("aliases")
        os.truncate(descriptor, count)
        maps = [mmap.mmap(descriptor, count) for _ in range(2)]
        os.close(descriptor)
        arrays = [np.frombuffer(one, dtype).reshape(shape) for one in maps]
        return host_ground("memfd", arrays[0], {"map": arrays[0], "other map": arrays[1]})

    def gpu(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Ground:
        array = self.near.empty(shape, dtype, memory="device1")
        ways: dict[str, Any] = self.exported(self.near, array, "near one", "near two")

        def view() -> Array:
            return np.asarray(array.numpy())

        def set_bytes(values: Array) -> None:
            self.near.copy(values.view(dtype).reshape(shape), array).wait(timeout=60)

        return Ground("GPU memory", dtype, shape, ways, view, set_bytes)


def keep_open(*segments: shared_memory.SharedMemory) -> None:
    """Leaves segments open whose arrays may still live; they end with the process."""
    for segment in segments:
        segment._mmap = segment._buf = None  # type: ignore[attr-defined]
        segment.close()


def dtype_text(dtype: np.dtype[Any]) -> str:
    return dtype.str


def raw(array: Array) -> Array:
    """Returns the bytes of a contiguous array, in place."""
    return array.reshape(-1).view(np.uint8)


def host_ground(name: str, array: Array, ways: dict[str, Any]) -> Ground:
    def set_bytes(values: Array) -> None:
        raw(array)[:] = values

    return Ground(name, array.dtype, array.shape, ways, lambda: array, set_bytes)


@dataclass
class Outcome:
    """How many calls were tried, by what they should and did do."""

    accepted: int = 0
    refused: int = 0

    @property
    def cases(self) -> int:
        return self.accepted + self.refused


class Attack:
    """Random copies between two ways to the same bytes, or to different ones."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.random = np.random.default_rng(seed)
        self.outcome = Outcome()
        dtype = np.dtype(TYPES[int(self.random.integers(len(TYPES)))])
        rank = int(self.random.integers(1, 4))
        shape = tuple(int(one) for one in self.random.integers(2, (80, 14, 7)[rank - 1], rank))
        self.grounds = world.grounds(dtype, shape)
        self.shape, self.dtype = shape, dtype
        count = int(np.prod(shape)) * dtype.itemsize
        self.numbers = np.arange(count).reshape((*shape, dtype.itemsize))

    def choose(self, items: list[Any]) -> Any:
        return items[int(self.random.integers(len(items)))]

    def along(self, extent: int, count: int) -> slice:
        """Draws a range of `count` indices."""
        most = (extent - 1) // max(count - 1, 1)
        step = int(self.random.integers(1, most + 1)) if self.random.random() < 0.4 else 1
        reach = (count - 1) * step
        first = int(self.random.integers(0, extent - reach))
        if self.random.random() < 0.3 and first > 0:
            return slice(first + reach, first - 1, -step)
        return slice(first, first + reach + 1, step)

    def boxes(self) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        counts = [int(self.random.integers(1, extent + 1)) for extent in self.shape]
        if self.random.random() < 0.5:
            counts = [
                min(count, max(1, extent // 2))
                for count, extent in zip(counts, self.shape, strict=True)
            ]
        one, other = (
            tuple(
                self.along(extent, count) for extent, count in zip(self.shape, counts, strict=True)
            )
            for _ in range(2)
        )
        return one, other

    def case(self) -> None:
        """Makes one call, and compares with NumPy."""
        ground = self.choose(self.grounds)
        source_way = self.choose(list(ground.ways))
        same = self.random.random() < 0.85
        target_ground = ground if same else self.choose(self.grounds)
        target_way = self.choose(
            [k for k in target_ground.ways if k not in target_ground.read_only]
        )
        for one in {id(ground): ground, id(target_ground): target_ground}.values():
            one.set_bytes(self.random.integers(0, 256, self.numbers.size, np.uint8))
        source, target = ground.ways[source_way], target_ground.ways[target_way]
        before = np.array(target_ground.view())
        values = np.array(ground.view())
        call = self.choose([self.copy, self.copy, self.pages, self.pieces])
        shares, start, expect = call(source, target, values, target_ground is ground)
        text = f"{call.__name__} {ground.name}: {source_way} to {target_ground.name}: {target_way}"
        wanted = np.array(before)
        try:
            start()
        except ts.InvalidArgument as error:
            assert shares, f"{text}: refused: {error}"
            self.outcome.refused += 1
        else:
            expect(wanted)
            self.outcome.accepted += 1
        got = np.array(target_ground.view())
        wrong = int((raw(got) != raw(wanted)).sum())
        assert wrong == 0, f"{text}: {wrong} wrong bytes (shares: {shares})"
        assert not shares or bytes(raw(got)) == bytes(raw(wanted))

    def copy(self, source: Any, target: Any, values: Array, same: bool) -> tuple[Any, Any, Any]:
        read, written = self.boxes()
        shares = same and bool(np.intersect1d(self.numbers[read], self.numbers[written]).size)
        engine = self.world.engine
        kind = int(self.random.integers(4))

        def start() -> None:
            one, other = source[read], target[written]
            if kind == 0:
                engine.copy_all([(one, other)]).wait(timeout=60)
            elif kind == 1:
                engine.prepare(one, other).start().wait(timeout=60)
            else:
                engine.copy(one, other).wait(timeout=60)

        def expect(wanted: Array) -> None:
            wanted[written] = values[read]

        return shares, start, expect

    def pages(self, source: Any, target: Any, values: Array, same: bool) -> tuple[Any, Any, Any]:
        extent = self.shape[0]
        count = int(self.random.integers(1, extent // 2 + 1))
        order = self.random.permutation(extent)
        written = order[:count]
        read = (
            order[-count:] if self.random.random() < 0.5 else self.random.integers(0, extent, count)
        )
        shares = same and bool(np.intersect1d(read, written).size)

        def start() -> None:
            self.world.engine.copy_pages(source, target, read, written).wait(timeout=60)

        def expect(wanted: Array) -> None:
            wanted[written] = values[read]

        return shares, start, expect

    def pieces(self, source: Any, target: Any, values: Array, same: bool) -> tuple[Any, Any, Any]:
        total = self.numbers.size
        length = int(self.random.integers(1, max(2, total // 6)))
        places = self.random.permutation(total // length)[:3]
        written = places * length
        read = self.random.integers(0, total - length + 1, len(written))
        covered = [np.arange(at, at + length) for at in written]
        reads = [np.arange(at, at + length) for at in read]
        shares = same and bool(np.intersect1d(np.concatenate(covered), np.concatenate(reads)).size)

        def start() -> None:
            lengths = np.full(len(written), length)
            self.world.engine.copy_pieces(source, target, read, written, lengths).wait(timeout=60)

        def expect(wanted: Array) -> None:
            for at, to in zip(reads, covered, strict=True):
                raw(wanted)[to] = raw(values)[at]

        return shares, start, expect


def attack(folder: Path, seed: int, cases: int, worlds: int) -> Outcome:
    """Tries `cases` copies, between arrays of `worlds` types and shapes."""
    total = Outcome()
    for number in range(worlds):
        with ExitStack() as stack:
            one = Attack(World(stack, folder), seed * 1000 + number)
            for _ in range(cases // worlds):
                one.case()
            total.accepted += one.outcome.accepted
            total.refused += one.outcome.refused
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        done = attack(Path(folder), options.seed, options.cases, max(1, options.cases // 500))
    print(f"{done.cases} aliases: {done.accepted} copied, {done.refused} refused")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
