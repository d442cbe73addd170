"""Halo exchange: blocks of a grid on one process, on several, on GPUs, and under MPI."""

from __future__ import annotations

import importlib.util
import itertools
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpu_support import content, filled
from hypothesis import given
from hypothesis import strategies as st

import tranship as ts

Array = np.ndarray[Any, np.dtype[Any]]


def cuts_of(extent: int, parts: int, generator: np.random.Generator, least: int) -> list[int]:
    """Cuts a dimension into parts of different sizes, none shorter than `least`."""
    extra = extent - parts * least
    shares = np.sort(generator.integers(0, extra + 1, parts - 1))
    ends = [least * (k + 1) + int(share) for k, share in enumerate(shares)]
    return [0, *ends, extent]


class Grid:
    """A global field, cut into blocks with ghost cells, which are filled with -1."""

    def __init__(
        self,
        field: Array,
        parts: tuple[int, ...],
        widths: tuple[int, ...],
        periodic: tuple[bool, ...],
        generator: np.random.Generator,
    ) -> None:
        self.widths, self.periodic, self.parts = widths, periodic, parts
        self.cuts = [
            cuts_of(extent, count, generator, max(width, 1))
            for extent, count, width in zip(field.shape, parts, widths, strict=True)
        ]
        pads = [(width, width) for width in widths]
        self.padded = np.pad(field, pads, constant_values=-1)
        for axis, (width, wraps) in enumerate(zip(widths, periodic, strict=True)):
            if wraps and width:
                to = np.moveaxis(self.padded, axis, 0)
                to[:width] = to[-2 * width : -width]
                to[-width:] = to[width : 2 * width]
        self.blocks = {}
        for place in np.ndindex(parts):
            block = np.full_like(self.wanted(place), -1)
            inner = tuple(
                slice(w, extent - w) for w, extent in zip(widths, block.shape, strict=True)
            )
            block[inner] = self.wanted(place)[inner]
            self.blocks[place] = block

    def wanted(self, place: tuple[int, ...]) -> Array:
        """Returns a block with its ghost cells as they are to be; -1 outside of the field."""
        where = tuple(
            slice(cuts[k], cuts[k + 1] + 2 * width)
            for cuts, k, width in zip(self.cuts, place, self.widths, strict=True)
        )
        return self.padded[where]

    def neighbours(self, place: tuple[int, ...]) -> dict[tuple[int, ...], tuple[int, ...]]:
        """Returns the places of the neighbours, by direction."""
        found = {}
        steps = [(-1, 0, 1) if width else (0,) for width in self.widths]
        for direction in itertools.product(*steps):
            other = [k + step for k, step in zip(place, direction, strict=True)]
            inside = all(
                wraps or 0 <= k < count
                for k, count, wraps in zip(other, self.parts, self.periodic, strict=True)
            )
            if any(direction) and inside:
                found[direction] = tuple(
                    k % count for k, count in zip(other, self.parts, strict=True)
                )
        return found


@given(st.integers(0, 2**32))
def test_ghost_cells_become_those_of_the_whole_field(seed: int) -> None:
    """Blocks of different sizes, in one process, of two fields, in one to three dimensions."""
    generator = np.random.default_rng(seed)
    rank = int(generator.integers(1, 4))
    widths = tuple(int(one) for one in generator.integers(0, 3, rank))
    parts = tuple(int(one) for one in generator.integers(1, 4, rank))
    periodic = tuple(bool(one) for one in generator.integers(0, 2, rank))
    shape = [
        count * max(width, 1) + int(generator.integers(0, 9))
        for count, width in zip(parts, widths, strict=True)
    ]
    fields = [generator.random(shape), generator.integers(0, 99, shape, np.int32)]
    cut = generator.integers(0, 2**32)
    grids = [Grid(field, parts, widths, periodic, np.random.default_rng(cut)) for field in fields]
    with ts.Engine(threads=1) as engine:
        halos = []
        for place in np.ndindex(parts):
            around = {
                direction: [grid.blocks[other] for grid in grids]
                for direction, other in grids[0].neighbours(place).items()
            }
            mine = [grid.blocks[place] for grid in grids]
            halos.append(engine.halo(mine, widths, around))
        for halo in halos:
            halo.exchange()
        for grid in grids:
            for place, block in grid.blocks.items():
                assert np.array_equal(block, grid.wanted(place)), (place, parts, widths, periodic)


def test_a_block_that_wraps_around_to_itself() -> None:
    field = np.zeros((8, 9))
    field[1:-1, 2:-2] = np.random.default_rng(1).random((6, 5))
    inner = field[1:-1, 2:-2].copy()
    with ts.Engine(threads=1) as engine:
        halo = engine.halo(field, (1, 2), periodic=True)
        assert halo.nbytes == 8 * (8 * 9 - 6 * 5)
        halo.exchange()
        assert np.array_equal(field, np.pad(inner, ((1, 1), (2, 2)), mode="wrap"))
        field[1:-1, 2:-2] += 1
        halo.exchange()
        assert np.array_equal(field, np.pad(inner + 1, ((1, 1), (2, 2)), mode="wrap"))


def test_neighbours_in_one_dimension_that_wraps_in_the_other() -> None:
    """Two blocks side by side in a ring, of which each is its own neighbour above and below."""
    field = np.random.default_rng(6).random((6, 8))
    padded = np.pad(field, 1, mode="wrap")
    wanted = [padded[:, 0:6], padded[:, 4:10]]
    blocks = [np.full_like(one, -1) for one in wanted]
    for block, one in zip(blocks, wanted, strict=True):
        block[1:-1, 1:-1] = one[1:-1, 1:-1]
    with ts.Engine(threads=1) as engine:
        for mine, other in (blocks, blocks[::-1]):
            around = {(0, 1): other, (0, -1): other}
            engine.halo(mine, 1, around, periodic=True).exchange()
    assert all(np.array_equal(*both) for both in zip(blocks, wanted, strict=True))


@pytest.mark.parametrize("place", ["pinned", "device0", "device1"])
def test_blocks_on_gpus(place: str) -> None:
    """Two blocks, on two emulated GPUs or in pinned memory."""
    values = np.random.default_rng(2).random((2, 10, 12))
    with ts.Engine(emulated_gpus=2, threads=1) as engine:
        left, right = filled(engine, values[0], "device0"), filled(engine, values[1], place)
        halo = engine.halo(left, (2, 0), {(1, 0): right})
        halo.exchange()
        got = np.asarray(content(engine, left)).view("f8").reshape(10, 12)
        assert np.array_equal(got[:8], values[0][:8])
        assert np.array_equal(got[8:], values[1][2:4])


def test_a_block_of_another_engine() -> None:
    values = np.random.default_rng(3).random((2, 7, 6))
    with ts.Engine(threads=1, contact=True) as owner, ts.Engine(threads=1) as engine:
        theirs = owner.empty((7, 6))
        theirs[...] = values[1]
        owner.export("block", theirs)
        peer = engine.connect(owner.contact)
        mine = values[0].copy()
        halo = engine.halo([mine], (0, 2), {(0, -1): [peer["block"]]})
        halo.start()
        with pytest.raises(ts.InvalidArgument, match="has not been waited for"):
            halo.start()
        halo.wait(60)
        assert np.array_equal(mine[:, :2], values[1][:, 2:4])
        assert np.array_equal(mine[:, 2:], values[0][:, 2:])


Plan = Callable[[ts.Engine], object]
REFUSED: dict[str, tuple[str, Plan]] = {
    "small": (
        "fewer than ghost cells and borders of 2",
        lambda engine: engine.halo(np.zeros((5, 9)), 2, periodic=True),
    ),
    "widths": (
        "field 0 has 2 dimensions, and widths",
        lambda engine: engine.halo(np.zeros((9, 9)), (1, 1, 1)),
    ),
    "negative": (
        "widths=-1 is too small",
        lambda engine: engine.halo(np.zeros((9, 9)), -1),
    ),
    "fields": (
        r"the neighbour at \(1, 0\) has 1 fields, and this block 2",
        lambda engine: engine.halo([np.zeros((9, 9))] * 2, 1, {(1, 0): [np.zeros((9, 9))]}),
    ),
    "direction": (
        r"\(1, 1\) is no direction",
        lambda engine: engine.halo(np.zeros((9, 9)), (1, 0), {(1, 1): np.zeros((9, 9))}),
    ),
    "shape": (
        "differ in extent",
        lambda engine: engine.halo(np.zeros((9, 9)), 1, {(1, 0): np.zeros((9, 8))}),
    ),
    "nothing": ("has no fields", lambda engine: engine.halo([], 1)),
    "periodic": (
        "has 3 values for 2 dimensions",
        lambda engine: engine.halo(np.zeros((9, 9)), 1, periodic=(True, True, False)),
    ),
    "communicator": (
        "is not a Cartesian communicator",
        lambda engine: engine.halo(np.zeros((9, 9)), 1, comm=object()),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_halo_is_refused(case: str) -> None:
    message, plan = REFUSED[case]
    with ts.Engine(threads=1) as engine, pytest.raises(ts.InvalidArgument, match=message):
        plan(engine)


@pytest.mark.parametrize(("ranks", "memory"), [(1, "host"), (4, "host"), (2, "device0")])
def test_processes_of_mpi_exchange(ranks: int, memory: str) -> None:
    """Blocks of different sizes on a Cartesian communicator, periodic in one dimension."""
    if importlib.util.find_spec("mpi4py") is None:
        pytest.skip("mpi4py is not installed")
    beside = Path(sys.executable).with_name("mpiexec")
    mpiexec = str(beside) if beside.is_file() else shutil.which("mpiexec")
    if mpiexec is None:
        pytest.skip("there is no mpiexec")
    script = Path(__file__).with_name("mpi_halo.py")
    done = subprocess.run(
        [mpiexec, "-n", str(ranks), sys.executable, "-m", "mpi4py", script, memory],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("exchanged") == ranks
