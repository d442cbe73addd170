"""DDTBench: what scientific codes send, packed and unpacked on the host.

- The messages of applications, all cases and sizes of DDTBench (Schneider, Gerstenberger, Hoefler,
  EuroMPI'12, with the corrections of their public code), packed and unpacked on the host: WRF,
  MILC, NAS LU and MG, FFT, SPECFEM3D, LAMMPS; by a prepared copy of the engine, by loops written by
  hand, and by the MPI library that mpi4py loads.
- Follows: Maximal Overlap (IPDPS'16), whose evaluation uses the same messages between GPUs.
- A repetition is as many packs in a row as take 2 ms, so that the caches are warm. Ours and MPI's
  are called from Python (0.25 and 0.6 us a call); loops by hand are timed in C++.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from tranship import types
from tranship.engine import Engine
from tranship.typed_ends import packed_places
from tranship.types import Datatype

from .._loops import time_by_hand
from ..harness import Array, Bench, Bytes, Variant, spoil
from ..host.copies import memcpy_run
from ..registry import measures
from .mpi import TURN_SECONDS, Mpi, beside, in_turns, load_mpi

SEED = 3
WRF_Y = ((32, 52, 23, 3), (27, 41, 19, 3), (24, 34, 16, 3), (22, 30, 14, 3), (19, 24, 11, 3))
WRF_X = ((32, 52, 3, 44), (24, 34, 3, 26), (19, 24, 3, 16))
SPECFEM_CM = (
    ((11797, 834917), (3009, 51153)),
    ((7125, 396849), (1729, 22477)),
    ((3801, 152001), (801, 7209)),
    ((1957, 39929), (245, 1225)),
)
BEGINS_AT = 256
"""Bytes to whose multiples the arrays of a layout are aligned."""

NO_PLACES = np.zeros(0, np.int32)
Four = tuple[int, int, int, int]


@dataclass
class Part:
    """One array of a message, and which of its elements are sent.

    Attributes:
        array: the array.
        type: the same elements as a type; built as the application builds it.
        box: extents and strides, in elements, innermost first; for loops by hand.
        places: blocks of `length` elements, for lists.
        length: elements of a block.
        sub_box: sizes, subsizes and starts, if the type is a subarray.
    """

    array: Array
    type: Datatype
    box: tuple[Four, Four] = ((1, 1, 1, 1), (1, 1, 1, 1))
    begin: int = 0
    places: Array = field(default_factory=lambda: NO_PLACES)
    length: int = 1
    sub_box: tuple[tuple[int, ...], ...] = ()

    def elements(self) -> Array:
        """Returns the indices of the elements, in their order, counted in the flat array."""
        if self.places.size:
            wide = self.places.astype(np.int64)[:, None] * self.length + np.arange(self.length)
            return wide.reshape(-1)
        extents, strides = self.box
        index = np.zeros(1, np.int64)
        for extent, stride in zip(extents, strides, strict=True):
            index = (np.arange(extent)[:, None] * stride + index).reshape(-1)
        return index + self.begin

    def by_hand(self) -> tuple[int, int, Four, Four, Array]:
        """Returns the part as the loops written by hand take it."""
        size = self.array.dtype.itemsize
        address = self.array.ctypes.data + self.begin * size
        extents, strides = self.box
        if self.places.size:
            extents = (self.length, 1, 1, 1)
        return address, size, extents, strides, self.places


def four(*numbers: int) -> Four:
    """Returns four numbers, filled up with 1."""
    a, b, c, d = (*numbers, 1, 1, 1, 1)[:4]
    return a, b, c, d


def blank(count: int, dtype: str) -> Array:
    """Returns an array of random numbers."""
    values = np.random.default_rng(SEED).random(count)
    return values.astype(dtype)


def sub_box(sizes: tuple[int, ...], subsizes: tuple[int, ...], starts: tuple[int, ...]) -> Part:
    """Returns a box of an array of float32; the first dimension is the fastest."""
    strides = [math.prod(sizes[:k]) for k in range(len(sizes))]
    begin = sum(s * t for s, t in zip(starts, strides, strict=True))
    type = types.subarray(sizes, subsizes, starts, "f4", order="F")
    box = (four(*subsizes), four(*strides))
    array = blank(math.prod(sizes), "f4")
    return Part(array, type, box, begin, sub_box=(sizes, subsizes, starts))


def wrf(d1: int, d3: int, s1: int, s3: int) -> list[Part]:
    """Returns the nine arrays of a weather model's face."""
    flat = [sub_box((d1, d3), (s1, s3), (0, 0)) for _ in range(4)]
    deep = [sub_box((d1, 65, d3), (s1, 65, s3), (0, 0, 0)) for _ in range(3)]
    slab = [sub_box((d1, 65, d3, 2), (s1, 65, s3, 1), (0, 0, 0, 1)) for _ in range(2)]
    return flat + deep + slab


def milc(x: int, y: int, z: int, t: int) -> list[Part]:
    """Returns a slice in z of a lattice of 6 floats."""
    inner = types.vector(t, x * y // 2, x * y * z // 2, types.contiguous(6, "f4"))
    type = types.hvector(2, 1, 12 * x * y * z * t, inner)
    run, volume = 6 * x * y // 2, 6 * x * y * z
    box = (four(run, t, 2), four(1, volume // 2, volume * t // 2))
    return [Part(blank(volume * t, "f4"), type, box)]


def nas_lu(n: int, is_y: bool) -> list[Part]:
    """Returns an edge of a plane of 5 doubles."""
    if not is_y:
        box = (four(5 * n), four(1))
        return [Part(blank(5 * (n + 2) ** 2, "f8"), types.contiguous(5 * n, "f8"), box)]
    type = types.vector(n, 1, n + 2, types.contiguous(5, "f8"))
    return [Part(blank(5 * (n + 2) ** 2, "f8"), type, (four(5, n), four(1, 5 * (n + 2))))]


def nas_mg(face: str, x: int, y: int, z: int) -> list[Part]:
    """Returns a face of a grid of doubles."""
    plane = x * y
    if face == "x":
        type = types.hvector(z - 2, 1, 8 * plane, types.vector(y - 2, 1, x, "f8"))
        box = (four(1, y - 2, z - 2), four(1, x, plane))
    elif face == "y":
        type, box = types.vector(z - 2, x - 2, plane, "f8"), (four(x - 2, z - 2), four(1, plane))
    else:
        type, box = types.vector(y - 2, x - 2, x, "f8"), (four(x - 2, y - 2), four(1, x))
    return [Part(blank(plane * z, "f8"), type, box)]


def fft(n: int, processes: int = 4) -> list[Part]:
    """Returns what one process sends to another of a matrix of complex numbers."""
    share = n // processes
    type = types.vector(share, share, n, "c16")
    return [Part(blank(share * n, "c16"), type, (four(share, share), four(1, n)))]


def scattered(count: int, of: int, length: int, dtype: str, seed: int = SEED) -> Part:
    """Returns blocks at random places."""
    places = np.random.default_rng(seed).permutation(of)[:count].astype(np.int32)
    type = types.indexed_block(length, places.astype(np.int64) * length, dtype)
    return Part(blank(of * length, dtype), type, places=places, length=length)


def specfem_cm(first: tuple[int, int], second: tuple[int, int]) -> list[Part]:
    """Returns points of two meshes, three floats each."""
    return [scattered(*first, 3, "f4"), scattered(*second, 3, "f4", SEED + 1)]


def specfem_mt(n: int) -> list[Part]:
    """Returns every second one of vectors of three floats."""
    type = types.vector(n, 1, 2, types.contiguous(3, "f4"))
    return [Part(blank(6 * n, "f4"), type, (four(3, n), four(1, 6)))]


def lammps(arrays: int, count: int, of: int) -> list[Part]:
    """Returns atoms: their positions, and some numbers of each, by one list."""
    return [scattered(count, of, 3, "f8"), *(scattered(count, of, 1, "f8") for _ in range(arrays))]


def one_list(count: int, of: int) -> list[Part]:
    """Returns single floats at random places."""
    return [scattered(count, of, 1, "f4")]


Make = Callable[[], list[Part]]


def cases() -> Iterator[tuple[str, Make]]:
    """Yields the cases, each with its largest size first."""
    for size in WRF_Y:
        yield f"WRF_y_sa {size[0]} {size[1]}", partial(wrf, *size)
    for size in WRF_X:
        yield f"WRF_x_sa {size[0]} {size[1]}", partial(wrf, *size)
    for lattice in ((16, 16, 16, 16), (8, 16, 16, 16), (8, 8, 8, 16), (8, 8, 8, 8)):
        yield f"MILC_su3_zd {lattice}", partial(milc, *lattice)
    for edge in ("x", "y"):
        for n in (1020, 408, 162, 102, 64, 33, 12):
            yield f"NAS_LU_{edge} {n}", partial(nas_lu, n, edge == "y")
    for face in ("x", "y", "z"):
        for grid in ((514, 258, 258), (258, 130, 130), (130, 66, 66), (34, 18, 18)):
            yield f"NAS_MG_{face} {grid}", partial(nas_mg, face, *grid)
    for n in (1536, 1024, 768, 512, 256):
        yield f"FFT {n}", partial(fft, n)
    for count, of in ((3225, 88881), (1897, 38585), (877, 12857), (493, 3697)):
        yield f"SPECFEM3D_oc {count}", partial(one_list, count, of)
    for first, second in SPECFEM_CM:
        yield f"SPECFEM3D_cm {first[0]}", partial(specfem_cm, first, second)
    for n in (7600, 6400, 6200, 5600):
        yield f"SPECFEM3D_mt {n}", partial(specfem_mt, n)
    for count, of in ((3062, 3534), (2243, 2597), (1662, 1907)):
        yield f"LAMMPS_full {count}", partial(lammps, 5, count, of)
    for count, of in ((243, 4084), (145, 2157), (114, 1217)):
        yield f"LAMMPS_atomic {count}", partial(lammps, 3, count, of)


def one_of_each(
    all_cases: Iterable[tuple[str, Make]], *, largest: bool = False
) -> Iterator[tuple[str, Make]]:
    """Yields each pattern once: in the smallest size, which comes last, or in the largest."""
    found: dict[str, tuple[str, Make]] = {}
    for name, make in all_cases:
        if not largest or name.split()[0] not in found:
            found[name.split()[0]] = (name, make)
    yield from found.values()


class Layout:
    """Arrays of one message that lie one behind the other in a block of memory.

    Attributes:
        kinds: Types of the arrays.
        begins: Where in the block each array begins.
        span: Bytes of the block.
        nbytes: Bytes of the elements that are sent.
    """

    def __init__(self, kinds: list[Datatype]) -> None:
        self.kinds = kinds
        sizes = [-(-kind.true_upper_bound // BEGINS_AT) * BEGINS_AT for kind in kinds]
        ends = [int(end) for end in np.cumsum(sizes)]
        self.begins = [0, *ends[:-1]]
        self.span = ends[-1]
        self.nbytes = sum(kind.nbytes for kind in kinds)

    def arrays_in(self, memory: Any) -> list[Any]:
        """Returns the arrays in a block of memory of the host or of a GPU."""
        pairs = zip(self.begins, self.kinds, strict=True)
        return [memory[begin : begin + kind.true_upper_bound] for begin, kind in pairs]


def packing(
    arrays: list[Any], packed: Any, kinds: list[Datatype], unpacks: bool = False
) -> tuple[list[Any], list[Any]]:
    """Returns the pairs of arrays of a pack or an unpack, and their types."""
    pairs = [(array, packed) for array in arrays]
    given = list(zip(kinds, packed_places(kinds), strict=True))
    if unpacks:
        return [pair[::-1] for pair in pairs], [types[::-1] for types in given]
    return pairs, given


def mpi_type(mpi: Any, part: Part) -> Any:
    """Returns the elements of a part as an MPI type: a list of blocks, or nested vectors."""
    base = {4: mpi.FLOAT, 8: mpi.DOUBLE, 16: mpi.C_DOUBLE_COMPLEX}[part.array.dtype.itemsize]
    size = part.array.dtype.itemsize
    if part.places.size:
        places = part.places * part.length
        return base.Create_indexed_block(part.length, places)
    extents, strides = part.box
    if part.sub_box:
        return base.Create_subarray(*part.sub_box, order=mpi.ORDER_F)
    made = base.Create_contiguous(extents[0]) if extents[0] > 1 else base
    for extent, stride in zip(extents[1:], strides[1:], strict=True):
        if extent > 1:
            made = made.Create_hvector(extent, 1, stride * size)
    return made


class Message:
    """The arrays of one case, their packed elements, and the ways to pack and unpack them."""

    def __init__(self, engine: Engine, mpi: Mpi | None, parts: list[Part]) -> None:
        self.engine = engine
        self.mpi = mpi
        self.parts = parts
        self.elements = [part.elements() for part in parts]
        self.wanted = self.content()
        self.packed = np.zeros(self.wanted.nbytes, np.uint8)

    def content(self) -> Bytes:
        """Returns the elements of all arrays, packed by NumPy."""
        pairs = zip(self.parts, self.elements, strict=True)
        return np.concatenate([part.array[index].view(np.uint8) for part, index in pairs])

    def prepare(self, unpacks: bool) -> None:
        """Clears what is written."""
        if not unpacks:
            return spoil(self.packed)
        self.packed[:] = self.wanted
        for part, index in zip(self.parts, self.elements, strict=True):
            part.array[index] = 0
        return None

    def check(self, unpacks: bool) -> bool:
        """Returns whether all bytes arrived."""
        return bool(((self.content() if unpacks else self.packed) == self.wanted).all())

    def ours(self, unpacks: bool) -> Callable[[], None]:
        """Returns a prepared copy of the engine, started and waited for."""
        arrays, kinds = [part.array for part in self.parts], [part.type for part in self.parts]
        pairs, given = packing(arrays, self.packed, kinds, unpacks)
        ready = self.engine.prepare_all(pairs, types=given)
        return lambda: ready.start().wait()

    def by_hand(self, unpacks: bool) -> Callable[[], float]:
        """Returns loops written by hand."""
        given = [part.by_hand() for part in self.parts], self.packed.ctypes.data, unpacks
        turns = max(int(TURN_SECONDS / max(time_by_hand(*given, 2), 1e-7)), 1)
        return lambda: time_by_hand(*given, turns)

    def variants(self, unpacks: bool) -> Iterator[Variant]:
        """Yields all ways to pack, or to unpack."""
        self.prepare(unpacks)
        runs: dict[str, tuple[Callable[[], float], dict[str, Any]]] = {
            "tranship": (in_turns(self.ours(unpacks)), {}),
            "by hand": (self.by_hand(unpacks), {"timed": "c++"}),
        }
        if self.mpi is not None:
            made = [mpi_type(self.mpi.mpi, part) for part in self.parts]
            whole = self.mpi.message([part.array for part in self.parts], made)
            call = in_turns(self.mpi.call(whole, self.packed, unpacks))
            runs["mpi"] = (call, {"library": self.mpi.name})
        for name, (run, how) in runs.items():
            yield Variant(
                name, run, partial(self.check, unpacks), partial(self.prepare, unpacks), how
            )
        yield Variant("memcpy", memcpy_run(self.packed, np.empty_like(self.packed)))


@measures("ddtbench", "DDTBench: messages of applications packed and unpacked, beside MPI")
def ddtbench(bench: Bench) -> None:
    """Measures every case of DDTBench; in small size, the smallest of each."""
    bench.cold = False
    mpi = load_mpi(bench)
    all_cases = cases() if bench.full else one_of_each(cases())
    with Engine() as engine:
        for name, make in all_cases:
            message = Message(engine, mpi, make())
            for unpacks, way in ((False, "pack"), (True, "unpack")):
                case = beside(mpi, f"{name}, {way}")
                count = message.wanted.nbytes
                bench.measure(case, message.variants(unpacks), count, 9, "by hand")
