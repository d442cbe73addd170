"""The laws of layouts and lowering, checked against the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import strategies
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracle import Grid, copy_elements, nest_points, run_nests

import tranship as ts
from tranship import _core

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def core_of(grid: Grid, buffer: Bytes) -> _core.Array:
    extents = list(grid.extents.items())
    fields = [(name, f"V{size}", size) for name, size in grid.fields.items()]
    return _core.instance(buffer, extents, fields, grid.layout, 0)


def random_bytes(count: int, seed: int) -> Bytes:
    return np.random.default_rng(seed).integers(0, 256, count, np.uint8)


@given(strategies.grids())
def test_layouts_are_injective_and_stay_inside_their_size(grid: Grid) -> None:
    used = np.zeros(grid.size_bytes, np.int64)
    for name, offsets in grid.offsets().items():
        for byte in range(grid.fields[name]):
            np.add.at(used, offsets.ravel() + byte, 1)
    assert used.max(initial=0) <= 1
    fields = [(name, f"V{size}", size) for name, size in grid.fields.items()]
    extents = list(grid.extents.items())
    assert _core.layout_bytes(extents, fields, grid.layout) == grid.size_bytes


def test_layouts_of_one_dimension_exhaustively() -> None:
    orders = ("{a}, F, x", "F, {a}, x", "{a}, x, F")
    for extent in range(10):
        for block in range(1, 6):
            for inner in range(1, 4):
                for text in (f"x:{block}", f"x:{inner}, x:{block}"):
                    for order in orders:
                        grid = Grid({"x": extent}, {"p": 1, "q": 2}, order.format(a=text))
                        check_offsets_of_the_core(grid)


def check_offsets_of_the_core(grid: Grid) -> None:
    """Checks the offsets of the core: a copy to a dense array takes each element from there."""
    source = random_bytes(grid.size_bytes, 1)
    dense = Grid(grid.extents, grid.fields, ", ".join(["F", *grid.extents]))
    target = np.zeros(dense.size_bytes, np.uint8)
    moved = run_nests(_core.lower(core_of(grid, source), core_of(dense, target)), source, target)
    assert moved == target.size
    expected = np.zeros_like(target)
    where = dense.offsets()
    for name, offsets in grid.offsets().items():
        copy_elements(source, offsets, expected, where[name], grid.fields[name])
    assert np.array_equal(target, expected), grid


@given(strategies.grid_pairs(), st.data())
def test_lowering_and_copying_equals_indexing(pair: tuple[Grid, Grid], data: st.DataObject) -> None:
    one, other = pair
    source = random_bytes(one.size_bytes, 2)
    target = random_bytes(other.size_bytes, 3)
    box = data.draw(strategies.boxes(one.extents))
    cuts = [(low, high - low, 1, False) for low, high in box.values()]
    nests = _core.lower(core_of(one, source).slice(cuts), core_of(other, target).slice(cuts))
    part = tuple(slice(low, high) for low, high in box.values())
    expected = target.copy()
    for name, offsets in one.offsets().items():
        where = other.offsets()[name]
        copy_elements(source, offsets[part], expected, where[part], one.fields[name])
    points = int(np.prod([high - low for low, high in box.values()], dtype=np.int64))
    assert run_nests(nests, source, target) == points * sum(one.fields.values())
    assert np.array_equal(target, expected)


@given(strategies.grid_pairs())
def test_coalescing_changes_nothing_but_the_number_of_pieces(pair: tuple[Grid, Grid]) -> None:
    """The nests write every byte to the oracle's offset, once, in no more pieces than elements."""
    one, other = pair
    points = int(np.prod(list(one.extents.values()), dtype=np.int64))
    assume(points > 0)
    source, target = np.zeros(one.size_bytes, np.uint8), np.zeros(other.size_bytes, np.uint8)
    nests = _core.lower(core_of(one, source), core_of(other, target))
    moves = set()
    pieces = 0
    for nest in nests:
        for begin, end in nest_points(nest):
            pieces += 1
            for byte in range(nest[0]):
                assert (begin + byte, end + byte) not in moves
                moves.add((begin + byte, end + byte))
    expected = set()
    for name, offsets in one.offsets().items():
        for begin, end in zip(offsets.ravel(), other.offsets()[name].ravel(), strict=True):
            expected |= {(begin + byte, end + byte) for byte in range(one.fields[name])}
    assert moves == expected
    assert pieces <= points * len(one.fields)


@given(strategies.grids(extents_min=1))
def test_equal_layouts_that_divide_coalesce_to_one_run(grid: Grid) -> None:
    dense = grid.size_bytes == sum(grid.fields.values()) * int(
        np.prod(list(grid.extents.values()), dtype=np.int64)
    )
    assume(dense)
    buffer = np.zeros(grid.size_bytes, np.uint8)
    nests = _core.lower(core_of(grid, buffer), core_of(grid, buffer))
    assert [tuple(nest) for nest in nests] == [(grid.size_bytes, 0, 0, [])]


@settings(max_examples=50)
@given(strategies.grids())
def test_layouts_print_as_they_parse(grid: Grid) -> None:
    buffer = np.zeros(grid.size_bytes, np.uint8)
    assert core_of(grid, buffer).layout == grid.layout


BAD_LAYOUTS = {
    "": "is not a term",
    "x, x, y": "exactly once",
    "x": "must name dimension",
    "x, y, z": "does not have",
    "x:0, x, y": "positive whole number",
    "x:-2, x, y": "positive whole number",
    "x:two, x, y": "positive whole number",
    "F, F, x, y": "F more than once",
    "F:2, x, y": "cannot be blocked",
    "x:2, y": "without a block",
    "x y": "is not a term",
    "x,, y": "is not a term",
    "x:2, x:2, x:2, x:2, x:2, x:2, x:2, x, y": "more than",
}


@pytest.mark.parametrize("layout", BAD_LAYOUTS)
def test_unusable_layouts_say_why(layout: str) -> None:
    with pytest.raises(ts.InvalidArgument, match=BAD_LAYOUTS[layout]):
        ts.Instance(extents={"x": 4, "y": 4}, fields={"a": "f4"}, layout=layout)
