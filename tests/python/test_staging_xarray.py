"""Arrays of xarray that are put: names, coordinates and attributes come back."""

from __future__ import annotations

import asyncio
import math
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import as_completed
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from gpu_support import EMULATED, on_gpu
from labelled_arrays import blocks_of, random_array

import tranship as ts
from support import PATIENCE

CASES = int(os.environ.get("TRANSHIP_STAGING_XARRAY", "40"))
"""Random cases of each test."""
CLIENTS = 3


@pytest.fixture(scope="module")
def clients(profile: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ts.Staging]]:
    """Yields clients of a group of two servers."""
    contact = tmp_path_factory.mktemp("service") / "contact"
    with (
        ts.StagingServer(contact, memory="64MiB", servers=2, profile=profile),
        ts.StagingServer(contact, memory="64MiB", servers=2, rank=1, profile=profile),
    ):
        opened = [ts.Staging(contact, threads=1, profile=profile) for _ in range(CLIENTS)]
        yield opened
        for client in opened:
            client.close()


@pytest.fixture
def staging(clients: list[ts.Staging]) -> Iterator[ts.Staging]:
    yield clients[0]
    for name in sorted(clients[0]):
        if name in clients[0]:
            clients[0].delete(name)


def energy(**attrs: Any) -> xr.DataArray:
    """Returns an array with all that an array of xarray has."""
    return xr.DataArray(
        np.random.default_rng(3).random((3, 4)),
        {
            "x": ("x", [0.5, 1.5, 2.5, 3.5], {"units": "m"}),
            "time": np.datetime64("2026-01-02T03:04", "ns"),
            "lat": (("y", "x"), np.arange(12.0).reshape(3, 4)),
            "station": ("y", ["Ulm", "Rom", "Reykjavík"]),
        },
        ["y", "x"],
        "energy",
        {"units": "J", **attrs},
    )


@pytest.mark.parametrize("seed", range(3))
def test_blocks_of_several_clients_come_back_as_the_whole(
    clients: list[ts.Staging], staging: ts.Staging, seed: int
) -> None:
    dice = random.Random(seed)
    for number in range(CASES):
        name = f"energy {number % 3}"
        whole = random_array(dice, name)
        version = dice.randint(-5, 5)
        for block, lower in blocks_of(dice, whole, dice.randint(1, 5)):
            client = dice.choice(clients)
            order = dice.sample(list(block.dims), block.ndim)
            turned = block.transpose(*order)
            corner: Any = [lower[dim] for dim in order] if dice.random() < 0.5 else lower
            put = client.put if dice.random() < 0.5 else put_in_background(client)
            put(name, version, turned, corner, checksum=dice.random() < 0.3)
        got = dice.choice(clients).to_xarray(name, version, timeout=PATIENCE)
        # The first block that was put has decided the order.
        ordered = whole.transpose(*whole.dims)  # its coordinates, too
        xr.testing.assert_identical(got.transpose(*whole.dims), ordered)
        staging.delete(name)
        assert not [each for each in staging if each.startswith(name)]


def put_in_background(client: ts.Staging) -> Any:
    return lambda *args, **options: client.put_async(*args, **options).result(PATIENCE)


def test_nothing_is_got_but_coordinates_until_values_are_used(staging: ts.Staging) -> None:
    whole = energy()
    staging.put("energy", 1, whole, (10, 20))
    gets = staging.statistics()
    got = staging.to_xarray("energy", 1)
    assert "energy" not in gets or staging.statistics()["energy"]["gets"] == gets["energy"]["gets"]
    part = got.sel(x=slice(1.0, 3.0)).isel(y=[0, 2])
    assert staging.statistics()["energy"]["gets"]["count"] == 0
    xr.testing.assert_identical(part.load(), whole.sel(x=slice(1.0, 3.0)).isel(y=[0, 2]))
    assert staging.statistics()["energy"]["gets"]["bytes"] == 3 * 2 * 8
    box = staging.to_xarray("energy", 1, (11, 20), (13, 22))
    xr.testing.assert_identical(box, whole.isel(y=slice(1, 3), x=slice(0, 2)))
    chunked = staging.to_xarray("energy", "latest", chunks={"x": 2})
    assert chunked.chunks == ((3,), (2, 2))
    xr.testing.assert_identical(chunked.compute(), whole)
    named = staging.to_xarray("energy", 1, dims=("b", "a"))
    assert named.dims == ("b", "a") and named.b.values.tolist() == [10, 11, 12]
    assert named.attrs == {"variable": "energy", "version": 1, "units": "J"}
    assert staging.get("energy", 1).tolist() == whole.values.tolist()


def test_attributes_are_those_of_the_last_put(
    clients: list[ts.Staging], staging: ts.Staging
) -> None:
    staging["energy"].attributes["code"] = "LBM"
    staging.put("energy", 1, energy(scale=np.float32(1.5), bounds=np.arange(2)))
    attributes = clients[1]["energy"].attributes
    assert dict(attributes) == {"code": "LBM", "units": "J", "scale": 1.5, "bounds": [0, 1]}
    assert dict(clients[1]["energy:x"].attributes) == {"units": "m"}
    staging.put("energy", 2, energy(units="eV"))
    assert dict(attributes) == {"code": "LBM", "units": "eV"} and "scale" not in attributes
    assert clients[1].to_xarray("energy", 1).attrs == {"code": "LBM", "units": "eV"}
    for change in (
        lambda: attributes.__setitem__(":dims", ["a", "b"]),
        lambda: attributes.update({":coords:x": "y"}),
        lambda: attributes.__delitem__(":dims"),
    ):
        with pytest.raises(ts.InvalidArgument, match="does not begin with a colon"):
            change()
    staging.put("plain", 1, np.zeros(3))
    staging["plain"].attributes["units"] = "m"
    plain = staging.to_xarray("plain", 1)
    assert plain.dims == ("d0",)
    assert plain.attrs == {"variable": "plain", "version": 1, "units": "m"}


def test_versions_may_have_another_shape(staging: ts.Staging) -> None:
    for version in range(3):
        staging.put("grid", version, energy().isel(x=slice(version + 2), y=slice(0, 3 - version)))
    for version in range(3):
        whole = energy().isel(x=slice(version + 2), y=slice(0, 3 - version)).rename("grid")
        xr.testing.assert_identical(staging.to_xarray("grid", version), whole)
    xr.testing.assert_identical(staging.to_xarray("grid", "latest"), whole)
    staging.put("none", 1, energy()[:0])
    xr.testing.assert_identical(staging.to_xarray("none", 1), energy()[:0].rename("none"))


def test_several_versions(staging: ts.Staging) -> None:
    arrays = []
    for version in range(3):
        array = energy(run=version).assign_coords(time=np.datetime64(version, "ns"))
        if version == 1:
            array["lat"] = array.lat * 2
        staging.put("energy", version + 5, array)
        arrays.append(array)
    got = staging.to_xarray("energy", "all")
    expected = xr.concat(
        arrays, pd.Index([5, 6, 7], name="version"), coords="different", compat="equals"
    )
    assert got.dims == ("version", "y", "x") and got.lat.dims == ("version", "y", "x")
    xr.testing.assert_identical(got, expected.assign_attrs(run=2))
    assert got.sel(version=6, x=1.5).time == np.datetime64(1, "ns")
    staging.put("energy", 8, energy().assign_coords(x=np.arange(4.0)))
    with pytest.raises(ts.InvalidArgument, match=r"'x' of \"energy\" differs between versions"):
        staging.to_xarray("energy", "all")
    staging.put("energy", 9, energy().drop_vars("lat"))
    with pytest.raises(ts.InvalidArgument, match="version 9 of \"energy\" has no coordinate 'lat'"):
        staging.to_xarray("energy", [7, 9])
    assert staging.to_xarray("energy", [8, 9], dims=("y", "x")).shape == (2, 3, 4)


def test_a_version_is_waited_for_with_its_coordinates(
    clients: list[ts.Staging], staging: ts.Staging
) -> None:
    whole = energy()
    staging.put("energy", 1, whole)
    got: list[xr.DataArray] = []
    waiting = threading.Thread(
        target=lambda: got.append(clients[1].to_xarray("energy", 2, (0, 0), (3, 4)).load())
    )
    waiting.start()
    for block, lower in blocks_of(random.Random(2), whole, 4):
        staging.put("energy", 2, block, lower)
    waiting.join(PATIENCE)
    xr.testing.assert_identical(got[0], whole)


def test_a_coordinate_that_a_version_lacks_is_left_out_and_a_part_of_one_is_an_error(
    staging: ts.Staging,
) -> None:
    staging.put("energy", 1, energy())
    staging.put("energy", 2, energy().drop_vars(["x", "station"]))
    got = staging.to_xarray("energy", 2)
    xr.testing.assert_identical(got, energy().drop_vars(["x", "station"]))
    staging.put("energy", 3, energy().values)
    assert staging.to_xarray("energy", 3).dims == ("y", "x")
    assert not staging.to_xarray("energy", 3).coords
    staging.put("energy", 4, energy()[:, :2])
    staging.put("energy", 4, energy()[:, 2:].drop_vars("x"), {"x": 2})
    with pytest.raises(ts.NotFound, match=r'all of the coordinate "energy:x" from \(0,\) to \(4,'):
        staging.to_xarray("energy", 4)
    assert staging.to_xarray("energy", 4, dims=("y", "x")).shape == (3, 4)
    staging.put("energy", 5, energy())
    staging._core.discard("energy:x", 5)
    with pytest.raises(ts.NotFound, match="give dims="):
        staging.to_xarray("energy", 5)
    staging.discard("energy", 1)
    assert 1 not in staging["energy"] and 1 not in staging["energy:x"]


def test_clients_that_put_at_once_agree_on_the_order(
    clients: list[ts.Staging], staging: ts.Staging
) -> None:
    """The server decides: with orders of their own, some blocks would lie elsewhere."""
    whole = xr.DataArray(np.arange(36.0).reshape(6, 6), dims=["y", "x"], name="w")
    for number in range(20):
        meeting = threading.Barrier(CLIENTS, timeout=PATIENCE)

        def put(k: int, name: str = f"w{number}", meeting: threading.Barrier = meeting) -> None:
            block = whole[2 * k : 2 * k + 2]
            meeting.wait()
            clients[k].put(name, 1, block.T if k % 2 else block, {"y": 2 * k})

        threads = [threading.Thread(target=put, args=(k,)) for k in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        got = staging.to_xarray(f"w{number}", 1, timeout=PATIENCE)
        assert got.name == f"w{number}"
        xr.testing.assert_identical(got.transpose("y", "x").rename("w"), whole)


def test_a_variable_that_was_deleted_by_another_client_has_new_names(
    clients: list[ts.Staging], staging: ts.Staging
) -> None:
    staging.put("energy", 1, energy())
    clients[1].delete("energy")
    clients[1].put("energy", 1, energy().T[:2])
    staging.put("energy", 1, energy()[:, 2:], {"x": 2})
    xr.testing.assert_identical(staging.to_xarray("energy", 1), energy().T)
    clients[1].delete("energy")
    staging.put("energy", 1, energy().rename(x="z"))
    xr.testing.assert_identical(staging.to_xarray("energy", 1), energy().rename(x="z"))


WRONG: dict[str, tuple[Any, str]] = {
    "an attribute": (
        lambda: energy(when=np.datetime64("2020-01-01")),
        r"\"energy\": the attribute 'when' cannot be .*datetime64 is no JSON value",
    ),
    "an attribute of a coordinate": (
        lambda: energy().assign_coords(x=("x", range(4), {"f": print})),
        "the coordinate 'x': the attribute 'f' cannot be",
    ),
    "a key in an attribute": (lambda: energy(m={1: 2}), "'m' has a mapping with the key 1"),
    "the name of an attribute": (lambda: energy(**{":dims": 1}), "an attribute with the name"),
    "a control character": (lambda: energy(**{"a\n": 1}), "an attribute with the name"),
    "a multi-index": (
        lambda: energy().stack(cell=("y", "x")),
        r"'cell' belongs to a MultiIndex.*reset_index\('cell'\)",
    ),
    "objects": (lambda: energy().astype(object), '"energy" has Python objects, such as'),
    "objects in a coordinate": (
        lambda: energy().assign_coords(station=("y", np.array(["a", 2, "b"], object))),
        "the coordinate 'station' has Python objects, such as 2",
    ),
    "a time zone": (
        lambda: energy().assign_coords(
            x=pd.date_range("2020", periods=4, tz="Europe/Berlin").astype(object)
        ),
        "the coordinate 'x' has Python objects",
    ),
    "a number as a dimension": (
        lambda: xr.DataArray(np.zeros((2, 3)), dims=["y", 3]),
        'a name in "energy"=3 is not a text',
    ),
    "a text with a NUL": (
        lambda: energy().assign_coords(station=("y", np.array(["a", "b\0", "c"], object))),
        "ends with NUL",
    ),
    "a data set": (lambda: energy().to_dataset(), r"with staging\.step\(3\) as step: step\.put_da"),
    "categories": (
        lambda: energy().assign_coords(station=("y", pd.Categorical([1, 2, 1]))),
        "the coordinate 'station' has Python objects",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_kept_is_named_and_nothing_is_put(staging: ts.Staging, name: str) -> None:
    make, message = WRONG[name]
    for put in (staging.put, staging.put_async):
        with pytest.raises(ts.InvalidArgument, match=message):
            put("energy", 1, make())
    assert list(staging) == [] and staging._core.attributes_of("energy") == []


def test_an_array_that_does_not_fit_leaves_no_labels(staging: ts.Staging) -> None:
    array = energy().drop_vars(["x", "lat", "station", "time"])
    staging.put("energy", 1, array.values)
    for wrong in (array[0], array.astype("f4"), array.expand_dims("z")):
        with pytest.raises(ts.InvalidArgument, match=r'"energy" has 2 dimensions of float64, and'):
            staging.put("energy", 2, wrong)
    assert staging._core.attributes_of("energy") == []
    staging.put("energy", 2, array)
    with pytest.raises(ts.InvalidArgument, match=r"\('y', 'x'\), and the array has \('y', 'z'\)"):
        staging.put("energy", 3, array.rename(x="z"))
    with pytest.raises(ts.InvalidArgument, match=r"has 1 indices, and .* has 2 dimensions"):
        staging.put("energy", 3, array, (1,))
    with pytest.raises(ts.InvalidArgument, match=r"has the dimension 'z', and \"energy\" has"):
        staging.put("energy", 3, array, {"z": 1})
    with pytest.raises(ts.InvalidArgument, match="is no version"):
        staging.put("other", 1.5, array)  # type: ignore[arg-type]
    assert staging._core.attributes_of("other") == []
    assert staging["energy"]._held() == [1, 2]


def test_variables_texts_and_pandas(staging: ts.Staging) -> None:
    staging.put("v", 1, xr.Variable(("a",), [1, 2], {"units": "m"}))
    xr.testing.assert_identical(
        staging.to_xarray("v", 1), xr.DataArray([1, 2], dims="a", name="v", attrs={"units": "m"})
    )
    for version, names in enumerate((["a", "bc"], ["a name that is longer than all before", ""])):
        array = xr.DataArray(np.zeros(2), {"s": pd.Index(names)}, name="t")
        staging.put("t", version, array)
        xr.testing.assert_identical(staging.to_xarray("t", version), array)
    texts = xr.DataArray(np.array(["a", "bcd"], object), dims="x", name="o")
    staging.put("o", 1, texts)
    assert staging.to_xarray("o", 1).values.tolist() == ["a", "bcd"]


def test_arrays_of_dask_are_computed(staging: ts.Staging) -> None:
    whole = energy()
    staging.put("energy", 1, whole.chunk({"x": 3, "y": 1}).transpose("x", "y"))
    staging.put("energy", 2, staging.to_xarray("energy", 1, chunks={"x": 1}) * 1.0)
    for version in (1, 2):
        got = staging.to_xarray("energy", version).transpose("y", "x")
        xr.testing.assert_equal(got, whole)


class Duck:
    """An array of another library, which is not converted without being asked, as CuPy's."""

    def __init__(self, owner: Any, interface: str, described: dict[str, Any]) -> None:
        self.owner, self.interface, self.described = owner, interface, described
        self.shape, self.dtype = described["shape"], np.dtype(described["typestr"])
        self.ndim = len(self.shape)
        setattr(self, interface, described)

    def __array__(self, *args: Any, **options: Any) -> Any:
        raise TypeError("it is not converted without being asked")

    def __array_ufunc__(self, *args: Any, **options: Any) -> Any:
        return NotImplemented

    def __array_function__(self, *args: Any, **options: Any) -> Any:
        return NotImplemented

    def transpose(self, axes: Any) -> Duck:
        strides = self.described.get("strides")
        if strides is None:
            sizes = [math.prod(self.shape[k + 1 :]) for k in range(self.ndim)]
            strides = tuple(self.dtype.itemsize * size for size in sizes)
        turned = {
            "shape": tuple(self.shape[k] for k in axes),
            "strides": tuple(strides[k] for k in axes),
        }
        return Duck(self.owner, self.interface, self.described | turned)


@pytest.mark.parametrize("interface", ["__array_interface__", "__cuda_array_interface__"])
def test_arrays_of_other_libraries_are_put_as_they_are(staging: ts.Staging, interface: str) -> None:
    values = np.arange(6.0).reshape(2, 3)
    turned = values.T.copy()
    number = len(interface)  # steps rise
    with ts.Engine(
        threads=1, **({"emulated_gpus": EMULATED} if "cuda" in interface else {})
    ) as engine:
        owner = on_gpu(engine, turned) if "cuda" in interface else turned
        duck = Duck(owner, interface, dict(getattr(owner, interface)))
        with ts.Staging(staging._core.contact, engine=engine) as client:
            client.put("duck", 1, xr.DataArray(values, dims=("a", "b")))
            client.put("duck", 2, xr.DataArray(duck, dims=("b", "a")))
            with client.step(number) as step:
                step.put_dataset(xr.Dataset({"duck": (("b", "a"), duck)}))
    assert staging.get("duck", 2).tolist() == values.tolist()
    xr.testing.assert_equal(staging.to_xarray("duck", 1), staging.to_xarray("duck", 2))
    assert staging.to_xarray("duck", number).dims == ("b", "a")
    assert staging.get("duck", number).tolist() == turned.tolist()


def test_events_and_coroutines(staging: ts.Staging) -> None:
    source, target = np.arange(12.0).reshape(3, 4), np.zeros((3, 4))
    array = xr.DataArray(target, {"x": [1, 2, 3, 4]}, ["y", "x"], "late")
    with ts.Engine(threads=1) as engine:
        staging.put("late", 1, array, after=engine.copy(source, target))
        assert (staging.get("late", 1) == source).all()
        target[:] = 0
        event = engine.copy(source, target)

        async def put() -> None:
            await staging.put_async("late", 2, array, after=event)

        asyncio.run(put())
    xr.testing.assert_identical(staging.to_xarray("late", 2), array)


def test_a_full_memory_holds_coordinates_back_too(profile: str, tmp_path: Path) -> None:
    """Puts that wait for memory put each part once."""
    array = xr.DataArray(np.zeros((64, 512)), {"x": np.arange(512.0)}, ["y", "x"], "big")
    with (
        ts.StagingServer(tmp_path / "contact", memory="1MiB", profile=profile) as server,
        ts.Staging(server.contact, threads=1) as client,
    ):
        puts = {client.put_async("big", version, array): version for version in range(6)}
        for put in as_completed(puts, PATIENCE):  # memory that is free goes to any of them
            put.result()
            version = puts[put]
            xr.testing.assert_identical(client.to_xarray("big", version).load(), array)
            client.discard("big", version)
        assert client.statistics()["big:x"]["puts"]["count"] == 6


def test_xarray_is_not_imported_for_other_arrays(profile: str, tmp_path: Path) -> None:
    program = """
import sys, numpy as np, tranship as ts
with ts.StagingServer(sys.argv[1]) as server, ts.Staging(server.contact) as staging:
    staging.put("a", 1, np.zeros(3))
    staging.put("a", 2, [1.0, 2.0, 3.0])
    with staging.step(3) as step:
        step["b"].put(np.zeros(3))
    with staging.step(4) as step:
        step["c"].put_async(memoryview(b"abc"))
    staging.discard("a", 1)
    staging.delete("a")
assert "xarray" not in sys.modules and "pandas" not in sys.modules
"""
    subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "contact")], check=True, timeout=PATIENCE
    )
