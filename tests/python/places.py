"""Strategies for arrays of every kind, with the memory of each and its elements' offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from oracle import Grid, Offsets, strided_offsets
from strategies import layouts

import tranship as ts

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

KINDS = ("instance", "numpy", "raw", "npy", "remote")
TYPES = ("u1", "i2", "f4", "<f8", ">f4", ">i2", "c8", "c16", "b1", "f2", "S3", "V5", "M8[ns]", "U2")


@dataclass
class Place:
    """An array that a test passes to the engine, with its memory and offsets for the oracle.

    Attributes:
        array: an instance, NumPy array, File or array of a peer.
        offsets: for each field, bytes from the start of the memory to every element, in the order
            of the dimensions `extents`.
        memory: function that returns all bytes now, the padding around the elements included.
        named: whether the dimensions have names of their own.
    """

    array: Any
    offsets: Mapping[str, Offsets]
    memory: Callable[[], Bytes]
    named: bool


@dataclass
class World:
    """The folder, engines and exports with which places are made."""

    folder: Path
    owner: ts.Engine
    """Engine that exports the arrays of kind "remote"."""
    peer: ts.Peer
    """The owner, as a peer of the engine under test."""
    numbers: Iterator[int]
    """Numbers for unused names; worlds with the same folder or owner share the iterator."""

    exported: list[str] = field(default_factory=list)

    def withdraw(self) -> None:
        """Withdraws all exports."""
        while self.exported:
            self.owner.withdraw(self.exported.pop())

    def name(self, ending: str = "") -> str:
        """Returns a name that has not been used yet."""
        return f"array{next(self.numbers)}{ending}"


def random_bytes(draw: st.DrawFn, count: int) -> Bytes:
    """Draws a seed and returns random bytes of it; Hypothesis shrinks the seed, not the bytes."""
    return np.random.default_rng(draw(st.integers(0, 2**16))).integers(0, 256, count, np.uint8)


def grid_of(draw: st.DrawFn, extents: Mapping[str, int], fields: Mapping[str, str]) -> Grid:
    """Draws a layout of these dimensions and fields; returns the grid."""
    sizes = {name: np.dtype(kind).itemsize for name, kind in fields.items()}
    return Grid(extents, sizes, draw(layouts(extents)))


def shuffled(draw: st.DrawFn, items: Mapping[str, Any]) -> dict[str, Any]:
    """Draws an order of the items; returns the mapping in that order."""
    return {name: items[name] for name in draw(st.permutations(list(items)))}


def in_order(
    offsets: Mapping[str, Offsets], now: list[str], wanted: list[str]
) -> dict[str, Offsets]:
    """Returns the offsets with the dimensions in the order `wanted` instead of `now`."""
    axes = [now.index(name) for name in wanted]
    return {name: one.transpose(axes) for name, one in offsets.items()}


def instance_place(
    draw: st.DrawFn, extents: Mapping[str, int], fields: Mapping[str, str], shuffle: bool
) -> Place:
    """Draws an instance at any offset of its buffer; `shuffle` permutes its dimensions."""
    mine = shuffled(draw, extents) if shuffle else dict(extents)
    kinds = shuffled(draw, fields)
    grid = grid_of(draw, mine, kinds)
    start = draw(st.integers(0, 9))
    buffer = random_bytes(draw, start + grid.size_bytes + draw(st.integers(0, 5)))
    array = ts.Instance(buffer, extents=mine, fields=kinds, layout=grid.layout, offset=start)
    offsets = {name: one + start for name, one in grid.offsets().items()}
    return Place(array, in_order(offsets, list(mine), list(extents)), buffer.copy, True)


def structured(draw: st.DrawFn, fields: Mapping[str, str]) -> np.dtype[Any]:
    """Draws a dtype of these fields, in any order and with gaps; a single field has no names."""
    if list(fields) == ["f0"]:
        return np.dtype(fields["f0"])
    names = draw(st.permutations(list(fields)))
    at = 0
    places = []
    for name in names:
        at += draw(st.integers(0, 3))
        places.append(at)
        at += np.dtype(fields[name]).itemsize
    return np.dtype(
        {
            "names": names,
            "formats": [fields[name] for name in names],
            "offsets": places,
            "itemsize": at + draw(st.integers(0, 3)),
        }
    )


def numpy_array(
    draw: st.DrawFn, shape: tuple[int, ...], dtype: np.dtype[Any], source: bool
) -> tuple[np.ndarray[Any, Any], Bytes]:
    """Draws a permuted, stepped, reversed or broadcast view of an array; returns both."""
    order = draw(st.permutations(range(len(shape))))
    steps = [draw(st.sampled_from([1, 1, 1, 2, 3, -1, -2])) for _ in shape]
    margins = [draw(st.integers(0, 2)) for _ in shape]
    repeated = [source and draw(st.integers(0, 7)) == 0 for _ in shape]
    extents = [
        1 if again else extent * abs(step) + margin
        for extent, step, margin, again in zip(shape, steps, margins, repeated, strict=True)
    ]
    count = int(np.prod(extents, dtype=np.int64)) * dtype.itemsize
    memory = random_bytes(draw, count)
    base = memory.view(dtype) if count else np.zeros(0, dtype)
    array = base.reshape([extents[k] for k in order]).transpose(np.argsort(order))
    for k, (extent, step, again) in enumerate(zip(shape, steps, repeated, strict=True)):
        where = (slice(None),) * k
        if again:
            continue
        part = slice(0, extent * step, step) if step > 0 else slice(None, None, step)
        array = array[(*where, part)][(*where, slice(0, extent))]
    if any(repeated):
        array = np.broadcast_to(array, shape)
    assert array.shape == shape
    return array, memory


def numpy_place(
    draw: st.DrawFn, extents: Mapping[str, int], fields: Mapping[str, str], source: bool
) -> Place:
    """Draws a NumPy array of any strides."""
    dtype = structured(draw, fields)
    array, memory = numpy_array(draw, tuple(extents.values()), dtype, source)
    base = memory.__array_interface__["data"][0]
    return Place(array, strided_offsets(array, base), memory.copy, False)


def raw_place(
    draw: st.DrawFn,
    extents: Mapping[str, int],
    fields: Mapping[str, str],
    world: World,
    source: bool,
) -> Place:
    """Draws a binary file with any layout behind a header of 0, 1, 100 or 4096 bytes."""
    grid = grid_of(draw, extents, fields)
    start = draw(st.sampled_from([0, 0, 1, 100, 4096]))
    path = world.folder / world.name(".bin")
    random_bytes(draw, start + grid.size_bytes + draw(st.integers(0, 3))).tofile(path)
    array = ts.File(
        path,
        extents=extents,
        fields=fields,
        layout=grid.layout,
        mode=draw(st.sampled_from(["r", "r+"] if source else ["r+"])),
        offset=start,
        direct=draw(st.booleans()),
    )
    offsets = {name: one + start for name, one in grid.offsets().items()}
    return Place(array, offsets, lambda: bytes_of(array), True)


def npy_place(
    draw: st.DrawFn,
    extents: Mapping[str, int],
    fields: Mapping[str, str],
    world: World,
    source: bool,
) -> Place:
    """Draws a .npy file, in C or Fortran order."""
    kinds = shuffled(draw, fields)
    dtype = np.dtype(list(kinds.items())) if list(kinds) != ["f0"] else np.dtype(kinds["f0"])
    shape = tuple(extents.values())
    count = int(np.prod(shape, dtype=np.int64))
    values = random_bytes(draw, count * dtype.itemsize)
    flat = values.view(dtype) if count else np.zeros(0, dtype)
    path = world.folder / world.name(".npy")
    order = draw(st.sampled_from(["C", "F"]))
    np.save(path, flat.reshape(shape, order=order))
    array = ts.File(path, mode="r" if source else "r+")
    start = path.stat().st_size - values.size
    view = np.lib.format.open_memmap(path, mode="r") if count else flat.reshape(shape)
    base = view.__array_interface__["data"][0] - start
    return Place(array, strided_offsets(view, base), lambda: bytes_of(array), False)


def bytes_of(file: ts.File) -> np.ndarray:
    """Flushes a file and returns its bytes."""
    file.flush()
    return np.fromfile(file.path, np.uint8)


def remote_place(draw: st.DrawFn, world: World, inner: Place) -> Place:
    """Exports a place from the world's owner; returns it as an array of a peer."""
    name = world.name()
    world.owner.export(name, inner.array)
    world.exported.append(name)
    return Place(world.peer[name], inner.offsets, inner.memory, inner.named)


@dataclass(frozen=True)
class Wish:
    """The kind of place that a test asks for."""

    kind: str
    source: bool
    shuffle: bool
    """Whether the dimensions may have another order than the extents."""


def place(
    draw: st.DrawFn,
    extents: Mapping[str, int],
    fields: Mapping[str, str],
    world: World,
    wish: Wish,
) -> Place:
    """Draws an array of the wished kind with these extents and fields and random contents."""
    if wish.kind == "remote":
        kind = draw(st.sampled_from(["instance", "numpy", "raw"]))
        inner = Wish(kind, wish.source, False)
        return remote_place(draw, world, place(draw, extents, fields, world, inner))
    if wish.kind == "instance":
        return instance_place(draw, extents, fields, wish.shuffle)
    if wish.kind == "numpy":
        return numpy_place(draw, extents, fields, wish.source)
    make = raw_place if wish.kind == "raw" else npy_place
    return make(draw, extents, fields, world, wish.source)


@st.composite
def typed_fields(draw: st.DrawFn) -> dict[str, str]:
    """Draws one field, or two to four fields of mixed types."""
    if draw(st.booleans()):
        return {"f0": draw(st.sampled_from(TYPES))}
    names = draw(st.lists(st.sampled_from("abcd"), min_size=2, max_size=4, unique=True))
    return {name: draw(st.sampled_from(TYPES)) for name in names}
