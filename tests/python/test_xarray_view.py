"""Staged variables as xarray.DataArray: all values are right, and gets are not too large."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from staging_servers import times_out

import tranship as ts
from support import PATIENCE

LOWER = (-5, 100, 0)
SHAPE = (12, 10, 7)
UPPER = tuple(a + n for a, n in zip(LOWER, SHAPE, strict=True))
DOMAIN = np.random.default_rng(1).random(SHAPE)

Boxes = list[tuple[int, tuple[int, ...], tuple[int, ...]]]


class Counted(ts.Staging):
    """A client that notes the version and box of each get."""

    def __init__(self, contact: str) -> None:
        self.boxes: Boxes = []
        super().__init__(contact, threads=2)

    def get(self, name: str, version: Any, lower: Any = None, *rest: Any, **options: Any) -> Any:
        self.boxes.append((version, lower, rest[0]))
        return super().get(name, version, lower, *rest, **options)


@pytest.fixture(scope="module")
def client(profile: str) -> Iterator[Counted]:
    with ts.StagingServer(profile=profile) as server, Counted(server.contact) as opened:
        opened.put("energy", 3, DOMAIN, LOWER)
        yield opened


@pytest.fixture
def staging(client: Counted) -> Counted:
    client.boxes.clear()
    return client


def test_it_says_what_it_is_and_gets_nothing(staging: Counted) -> None:
    array = staging.to_xarray("energy", 3, dims=("z", "y", "x"))
    assert isinstance(array, xr.DataArray)
    assert array.dims == ("z", "y", "x") and array.shape == SHAPE and array.dtype == DOMAIN.dtype
    assert array.name == "energy" and array.attrs == {"variable": "energy", "version": 3}
    for dim, first, last in zip("zyx", LOWER, UPPER, strict=True):
        assert array[dim].values.tolist() == list(range(first, last))
    assert "energy" in repr(array) and array.isel(z=0).shape == (10, 7)
    assert staging.boxes == []
    assert np.array_equal(array.values, DOMAIN)
    assert staging.to_xarray("energy", 3).dims == ("d0", "d1", "d2")


def test_values_are_got_once_and_may_be_assigned_to(staging: Counted) -> None:
    array = staging.to_xarray("energy", 3)
    assert array.max() == DOMAIN.max() and array.min() == DOMAIN.min()
    assert len(staging.boxes) == 1
    changed = array.copy(deep=True)
    changed[0, 0, 0] = 7.0
    assert changed[0, 0, 0] == 7.0 and array[0, 0, 0] == DOMAIN[0, 0, 0]
    lazy = copy.deepcopy(staging.to_xarray("energy", 3))
    assert np.array_equal(lazy, DOMAIN)


CUTS = [
    (np.s_[2:5], (-3, 100, 0), (0, 110, 7)),
    (np.s_[4, 3:9, -1], (-1, 103, 6), (0, 109, 7)),
    (np.s_[:, ::4, 1:6:3], (-5, 100, 1), (7, 109, 5)),
    (np.s_[::-1, 8:2:-3, ::-6], (-5, 105, 0), (7, 109, 7)),
    (np.s_[[3, 9, 4]], (-2, 100, 0), (5, 110, 7)),
    (np.s_[1:2, [5, 5, 2], 3], (-4, 102, 3), (-3, 106, 4)),
]


@pytest.mark.parametrize(("cut", "lower", "upper"), CUTS)
def test_the_smallest_box_is_got(staging: Counted, cut: Any, lower: Any, upper: Any) -> None:
    got = staging.to_xarray("energy", 3)[cut]
    assert staging.boxes == []
    assert np.array_equal(got.values, DOMAIN[cut])
    assert staging.boxes == [(3, lower, upper)]


def test_indices_and_labels(staging: Counted) -> None:
    array = staging.to_xarray("energy", 3, dims=("z", "y", "x"))
    lists = [7, 0, -3, 7], [2, 9, 2]
    assert np.array_equal(array.isel(z=lists[0], y=lists[1]), DOMAIN[np.ix_(*lists)])
    points = xr.DataArray([0, 11, 4], dims="point"), xr.DataArray([-1, 3, 3], dims="point")
    got = array.isel(z=points[0], x=points[1])
    assert got.dims == ("point", "y")
    assert np.array_equal(got, DOMAIN[[0, 11, 4], :, [-1, 3, 3]])
    assert np.array_equal(array.sel(z=slice(-3, 2), y=104), DOMAIN[2:8, 4])
    assert float(array.sel(z=-5, y=100, x=0)) == DOMAIN[0, 0, 0]
    assert np.array_equal(array[2:10][::2][1:3, ::-1], DOMAIN[2:10][::2][1:3, ::-1])
    count = len(staging.boxes)
    assert array.isel(z=slice(4, 4)).values.shape == (0, 10, 7)
    assert array.isel(y=[]).values.shape == (12, 0, 7)
    assert len(staging.boxes) == count


def keys(size: int) -> st.SearchStrategy[Any]:
    # xarray reads a backward slice that begins below -size as one that begins at the end.
    bound = st.none() | st.integers(-size, size + 2)
    steps = st.none() | st.sampled_from([-3, -2, -1, 1, 2, 5])
    index = st.integers(-size, size - 1)
    return st.builds(slice, bound, bound, steps) | index | st.lists(index, max_size=5)


@given(st.tuples(*(keys(size) for size in SHAPE)), st.booleans())
def test_any_index_is_as_of_the_values(client: Counted, key: Any, chunked: bool) -> None:
    chunks = (5, 10, 3) if chunked else None
    array = client.to_xarray("energy", 3, dims=("z", "y", "x"), chunks=chunks)
    cut = dict(zip("zyx", key, strict=True))
    expected = xr.DataArray(DOMAIN, dims=("z", "y", "x")).isel(cut)
    got = array.isel(cut)
    assert got.dims == expected.dims and np.array_equal(got.values, expected.values)


def test_only_the_part_that_is_read_need_be_there(staging: Counted) -> None:
    staging.put("energy", 4, DOMAIN[:6], LOWER)  # The other half is never put.
    array = staging.to_xarray("energy", 4, timeout=PATIENCE)
    assert np.array_equal(array[1:6, 3], DOMAIN[1:6, 3])
    assert array.shape == DOMAIN[:6].shape  # a version has its own bounds
    lower, upper = LOWER, tuple(low + size for low, size in zip(LOWER, DOMAIN.shape, strict=True))
    times_out(lambda: staging.get("energy", 4, lower, upper, timeout=0.2), "version 4")


def test_a_version_may_come_later(staging: Counted) -> None:
    array = staging.to_xarray("energy", 17, timeout=PATIENCE)
    threading.Timer(0.2, lambda: staging.put("energy", 17, 2 * DOMAIN, LOWER)).start()
    assert np.array_equal(array, 2 * DOMAIN)


def test_a_box_of_its_own_and_latest(staging: Counted) -> None:
    staging.put("growing", 1, np.arange(10.0), (-4,))
    staging.put("growing", 2, np.arange(4.0), (-4,))
    array = staging.to_xarray("growing", "latest", (-2,), (4,))
    assert array.attrs["version"] == 1 and array.d0.values.tolist() == list(range(-2, 4))
    assert array.values.tolist() == [2, 3, 4, 5, 6, 7]
    assert staging.to_xarray("growing", "latest", upper=(0,)).attrs["version"] == 2
    staging.put("scalar", 1, np.float32(5))
    scalar = staging.to_xarray("scalar", 1)
    assert scalar.dims == () and scalar.dtype == np.float32 and scalar == 5


def test_several_versions_lie_along_a_dimension(staging: Counted) -> None:
    for version in (-1, 4, 6):
        staging.put("steps", version, np.full((3, 4), version, "i4"))
    array = staging.to_xarray("steps", "all", dims=("y", "x"))
    assert array.dims == ("version", "y", "x") and array.attrs == {"variable": "steps"}
    assert array.version.values.tolist() == [-1, 4, 6]
    assert array.sel(version=[6, -1])[:, 1, 2:].values.tolist() == [[6, 6], [-1, -1]]
    box = ((1, 2), (2, 4))
    assert sorted(staging.boxes) == [(-1, *box), (6, *box)]
    assert (array.sel(version=4) == 4).all() and array.mean("version")[0, 0] == 3
    some = staging.to_xarray("steps", [6, 4], chunks={"version": 1})
    assert some.chunks == ((1, 1), (3,), (4,)) and some.sum(("d0", "d1")).values.tolist() == [
        72,
        48,
    ]
    scalars = [staging.put("scalars", version, np.float64(version)) for version in range(3)]
    assert staging.to_xarray("scalars", "all").values.tolist() == list(range(len(scalars)))


def test_chunks_are_gets_of_their_own_on_several_threads(staging: Counted) -> None:
    array = staging.to_xarray("energy", 3, chunks={"d0": 4, "d1": 10, "d2": 7})
    assert array.chunks == ((4, 4, 4), (10,), (7,)) and staging.boxes == []
    meeting = threading.Barrier(3, timeout=PATIENCE)

    def meet(block: Any) -> Any:
        meeting.wait()  # It raises unless three threads meet.
        return block

    met = array.copy(data=array.data.map_blocks(meet, dtype=array.dtype, meta=np.empty((0, 0, 0))))
    assert np.array_equal(met.compute(scheduler="threads", num_workers=3), DOMAIN)
    ends = [((a, 100, 0), (a + 4, 110, 7)) for a in (-5, -1, 3)]
    assert sorted(staging.boxes) == [(3, *end) for end in ends]
    staging.boxes.clear()
    assert array[5:7].sum().compute() == pytest.approx(DOMAIN[5:7].sum())
    (box,) = staging.boxes
    assert box == (3, (0, 100, 0), (2, 110, 7))
    again = staging.to_xarray("energy", 3, chunks="auto")
    assert np.allclose((again - array).compute(), 0)


def test_gets_of_several_threads_are_under_way_at_once(staging: Counted) -> None:
    lower = (20, 100, 0)
    array = staging.to_xarray("energy", 21, lower, (22, 110, 7), chunks=(1, 10, 7))
    got: list[Any] = []
    waiting = threading.Thread(target=lambda: got.append(array.compute(num_workers=2)))
    waiting.start()
    staging.put("energy", 21, DOMAIN[1:2], (21, 100, 0))  # Either get may come first.
    staging.put("energy", 21, DOMAIN[:1], lower)
    waiting.join(PATIENCE)
    assert np.array_equal(got[0], DOMAIN[:2])


def test_what_does_not_fit_is_said(staging: Counted) -> None:
    with pytest.raises(ts.InvalidArgument, match=r"is no box of \"energy\", which lies in \(-5:"):
        staging.to_xarray("energy", 3, (0, 0), (1, 1))
    with pytest.raises(ts.InvalidArgument, match="is no box"):
        staging.to_xarray("energy", 3, (0, 0, 0), (1, -1, 1))
    with pytest.raises(ts.InvalidArgument, match="does not name the 3 dimensions"):
        staging.to_xarray("energy", 3, dims=("x", "y"))
    with pytest.raises(ts.InvalidArgument, match='"version" is the dimension'):
        staging.to_xarray("energy", [3], dims=("x", "y", "version"))
    with pytest.raises(ts.InvalidArgument, match="whole number"):
        staging.to_xarray("energy", "last")  # type: ignore[arg-type]
    times_out(lambda: staging.to_xarray("never", 1, timeout=0.2), "nothing has been put")
    staging.put("gone", 1, np.zeros(3))
    staging.discard("gone", 1)
    with pytest.raises(ts.NotFound, match='no version of "gone" is held'):
        staging.to_xarray("gone", "all")
    with pytest.raises(ts.NotFound, match="was discarded"):
        staging.to_xarray("gone", 1).load()
    with pytest.raises(ts.InvalidArgument, match=r"load\(\) it before"):
        pickle.dumps(staging.to_xarray("energy", 3))


def test_what_is_not_installed_is_named(staging: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ts.Error, match="pip install dask"):
        staging.to_xarray("energy", 3, chunks={})
    monkeypatch.delitem(sys.modules, "tranship.staging.xarray_view")
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(ts.Error, match="pip install xarray"):
        staging.to_xarray("energy", 3)
