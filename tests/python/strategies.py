"""Strategies of Hypothesis for index spaces, field spaces, layouts, grids and boxes."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import strategies as st
from oracle import Grid

NAMES = ("x", "y", "z", "t", "u", "v", "w")
POINTS_MAX = 600


@st.composite
def extent_maps(draw: st.DrawFn, *, extents_min: int = 0, rank_min: int = 0) -> dict[str, int]:
    """Draws the extents of up to seven named dimensions, with few points in all."""
    rank = draw(st.integers(rank_min, 7))
    extents: dict[str, int] = {}
    points = 1
    for name in NAMES[:rank]:
        most = max(min(9, POINTS_MAX // max(points, 1)), 1)
        extents[name] = draw(st.integers(max(extents_min, 1), most))
        points *= extents[name]
    if extents and extents_min == 0 and draw(st.integers(0, 19)) == 0:
        extents[draw(st.sampled_from(sorted(extents)))] = 0
    return extents


def field_maps() -> st.SearchStrategy[dict[str, int]]:
    """Returns a strategy for one to four fields of mixed sizes, in bytes."""
    sizes = st.sampled_from([1, 2, 3, 4, 8, 16])
    names = st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1, max_size=4, unique=True)
    return names.flatmap(lambda drawn: st.fixed_dictionaries({name: sizes for name in drawn}))


@st.composite
def layouts(draw: st.DrawFn, extents: Mapping[str, int]) -> str:
    """Draws a layout: the fields, the dimensions and up to two blocks of each, in any order."""
    terms = ["F", *extents]
    for name in extents:
        if draw(st.integers(0, 2)) == 0:
            blocks = draw(st.lists(st.integers(1, 5), min_size=1, max_size=2))
            terms += [f"{name}:{block}" for block in blocks]
    order = draw(st.permutations(terms))
    return ", ".join(order)


@st.composite
def grids(draw: st.DrawFn, *, extents_min: int = 0) -> Grid:
    """Draws a grid with up to seven dimensions."""
    extents = draw(extent_maps(extents_min=extents_min))
    return Grid(extents, draw(field_maps()), draw(layouts(extents)))


@st.composite
def grid_pairs(draw: st.DrawFn) -> tuple[Grid, Grid]:
    """Draws two grids that differ in layout and in the order of their fields."""
    one = draw(grids())
    order = draw(st.permutations(list(one.fields)))
    fields = {name: one.fields[name] for name in order}
    return one, Grid(one.extents, fields, draw(layouts(one.extents)))


@st.composite
def boxes(draw: st.DrawFn, extents: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Draws a half-open range in each dimension, empty only where the extent is 0."""
    box = {}
    for name, extent in extents.items():
        low = draw(st.integers(0, max(extent - 1, 0)))
        box[name] = (low, draw(st.integers(min(low + 1, extent), extent)))
    return box
