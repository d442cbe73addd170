"""Steps of arrays and data sets of xarray: what is put comes back, with all its labels."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import xarray as xr
from labelled_arrays import blocks_of, random_array, random_dataset

import tranship as ts
from support import PATIENCE

CASES = int(os.environ.get("TRANSHIP_STAGING_XARRAY", "40")) // 2
"""Random cases of each test."""
CLIENTS = 3


@pytest.fixture
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


def plate(step: int = 0) -> xr.Dataset:
    """Returns a data set with all that a data set has."""
    values = np.random.default_rng(step).random((3, 4))
    return xr.Dataset(
        {
            "heat": (("y", "x"), values, {"units": "K"}),
            "flux": ("x", values[0], {"units": "W"}),
            "total": values.sum(),
        },
        {
            "x": ("x", [0.5, 1.5, 2.5, 3.5], {"units": "m"}),
            "lat": (("y", "x"), values * 90),
            "time": np.datetime64(step, "ns"),
            "probe": ("z", ["a", "b"]),
        },
        {"title": "a plate", "run": 3},
    )


def write_blocks(dice: random.Random, clients: list[ts.Staging], number: int, whole: Any) -> None:
    """Writes a step of which each client has some blocks."""
    shares: list[list[Any]] = [[] for _ in clients]
    for k, block in enumerate(blocks_of(dice, whole, dice.randint(len(clients), 7))):
        shares[k % len(clients)].append(block)
    steps = [client.step(number, writers=len(clients)) for client in clients]
    for step, share in zip(steps, shares, strict=True):
        step.__enter__()
        for block, lower in share:
            if isinstance(block, xr.Dataset):
                step.put_dataset(block, lower)
            elif dice.random() < 0.5:
                step[str(whole.name)].put(block, lower)
            else:
                step[str(whole.name)].put_async(block, [lower[dim] for dim in block.dims])
    for step in steps:
        step.end()


@pytest.mark.parametrize("seed", range(2))
def test_data_sets_in_blocks_come_back_as_the_whole(clients: list[ts.Staging], seed: int) -> None:
    dice = random.Random(seed)
    written = []
    for number in range(CASES):
        whole = random_dataset(dice)
        names: Any = {name: f"{name} {number}" for name in whole.variables}
        dims = {name: new for name, new in names.items() if name in whole.dims}
        whole = whole.rename(names if dice.random() < 0.5 else dims)
        write_blocks(dice, clients[: dice.randint(1, CLIENTS)], number, whole)
        written.append(whole)
        step = next(dice.choice(clients).steps(start=number, timeout=PATIENCE))
        chunks = {} if dice.random() < 0.3 else None
        xr.testing.assert_identical(step.to_xarray(chunks=chunks).compute(), whole)
        for name in whole.data_vars:
            got = step[str(name)].to_xarray()
            xr.testing.assert_identical(got, whole[name])
            xr.testing.assert_identical(clients[0].to_xarray(str(name), number), whole[name])
        for name in whole.variables:
            clients[0].delete(str(name))


@pytest.mark.parametrize("seed", range(2))
def test_arrays_in_blocks_come_back_as_the_whole(clients: list[ts.Staging], seed: int) -> None:
    dice = random.Random(seed)
    for number in range(CASES):
        whole = random_array(dice, f"energy {number}")
        write_blocks(dice, clients, number, whole)
        step = next(dice.choice(clients).steps(start=number, timeout=PATIENCE))
        xr.testing.assert_identical(step[f"energy {number}"].to_xarray(), whole)
        assert list(step.to_xarray().data_vars) == [f"energy {number}"]
        xr.testing.assert_identical(step.to_xarray()[f"energy {number}"], whole)


def test_a_reader_follows_data_sets(clients: list[ts.Staging]) -> None:
    writer, reader = clients[:2]

    def write() -> None:
        for number in range(5):
            with writer.step(number) as step:
                step.attributes["number"] = number
                step.put_dataset(plate(number))
        writer.close()

    writing = threading.Thread(target=write)
    writing.start()
    seen = []
    for step in reader.steps(timeout=PATIENCE):
        got = step.to_xarray()
        xr.testing.assert_identical(got, plate(step.number).assign_attrs(number=step.number))
        part = step["heat"].to_xarray((1, 0), (3, 2), chunks={"x": 1})
        xr.testing.assert_identical(
            part.compute(), plate(step.number).heat.isel(y=slice(1, 3), x=slice(0, 2))
        )
        seen.append(step.number)
    writing.join(PATIENCE)
    assert seen == list(range(5))
    times = reader.to_xarray("heat", "all").time
    assert times.dims == ("version",) and times.values.astype(int).tolist() == seen


def test_values_are_got_when_they_are_used(clients: list[ts.Staging]) -> None:
    with clients[0].step(1) as step:
        step.put_dataset(plate(1), {"x": 100, "y": -7})
    whole = next(clients[1].steps(timeout=PATIENCE))
    got = whole.to_xarray()
    assert whole["heat"].lower == (-7, 100) and whole["x"].lower == (100,)
    assert "heat" not in clients[1].statistics()
    part = got.heat.sel(x=slice(1, 3))
    xr.testing.assert_identical(part.load(), plate(1).heat.sel(x=slice(1, 3)))
    assert clients[1].statistics()["heat"]["gets"]["bytes"] == 3 * 2 * 8
    assert dict(whole.attributes) == plate().attrs and dict(whole["heat"].attributes) == {
        "units": "K"
    }
    clients[0].discard_step(1)
    with pytest.raises(ts.NotFound):
        got.flux.load()


def test_variables_without_names_and_some_variables(clients: list[ts.Staging]) -> None:
    with clients[0].step(1) as step:
        step.put("plain", np.arange(6.0).reshape(2, 3), (4, 0))
        step.put("other", np.arange(3.0))
        step["other"].attributes["units"] = "m"
        step["heat"].put(plate().heat)
        step["cold"].put(plate().heat.assign_coords(x=np.arange(4.0)))
        step["far"].put(plate().heat.drop_vars(["x", "lat", "time"]), {"x": 4})
        step["x"].put(np.zeros(3))
    whole = next(clients[1].steps(timeout=PATIENCE))
    got = whole.to_xarray(["plain", "other"])
    assert got.plain.dims == ("plain_d0", "plain_d1") and got.plain.plain_d0.values.tolist() == [
        4,
        5,
    ]
    assert got.other.attrs == {"units": "m"} and got.plain.attrs == {}
    assert whole["other"].to_xarray(dims=["a"]).dims == ("a",)
    assert whole["plain"].to_xarray().attrs == {"variable": "plain", "version": 1}
    xr.testing.assert_identical(whole.to_xarray("heat").heat, plate().heat)
    for names, message in (
        (["heat", "cold"], "the coordinate 'x' of 'cold' has other values"),
        (["heat", "far"], '"far" lies from 4 to 8 along \'x\', and "heat" from 0 to 4'),
        (["heat", "x"], "has a variable and a coordinate with the name 'x'"),
    ):
        with pytest.raises(ts.InvalidArgument, match=message):
            whole.to_xarray(names)
    with pytest.raises(ts.InvalidArgument, match="one by one"):
        whole.to_xarray()
    with pytest.raises(ts.NotFound, match="has no variable 'warm'"):
        whole.to_xarray(["warm"])
    with pytest.raises(ts.InvalidArgument, match="does not name the 2 dimensions"):
        whole["heat"].to_xarray(dims=["a"])
    with pytest.raises(ts.InvalidArgument, match="is no box of"):
        whole["heat"].to_xarray((0,), (1,))


def test_writers_with_other_dimensions_break_the_step(clients: list[ts.Staging]) -> None:
    first, second = clients[0].step(1, writers=2), clients[1].step(1, writers=2)
    first.__enter__(), second.__enter__()
    heat = plate().heat.drop_vars(["lat", "x", "time"])
    first["heat"].put(heat[:, :2])
    first["heat"].put(heat[:, 2:].T, {"x": 2})  # one process: by name
    second["heat"].put(heat.T)
    first.end()
    with pytest.raises(
        ts.InvalidArgument, match=r'dimensions \["y", "x"\] in step 1 by another wr'
    ):
        second.end()
    with clients[0].step(2) as step:  # nothing of it is kept
        step["heat"].put(heat[:, :2].T)
        with pytest.raises(
            ts.InvalidArgument, match=r"\('x', 'y'\), and the array has \('y', 'a'\)"
        ):
            step["heat"].put(heat.rename(x="a"))
        step["heat"].put(heat[:, 2:], {"x": 2})
    with pytest.warns(ts.SkippedVersionWarning):
        whole = next(clients[2].steps(timeout=PATIENCE))
    xr.testing.assert_identical(whole["heat"].to_xarray(), heat.T)


def test_shared_coordinates_have_the_same_values(clients: list[ts.Staging]) -> None:
    whole = plate()
    with clients[0].step(1) as step:
        step.put_dataset(whole.isel(x=slice(0, 3)))
        step.put_dataset(whole.isel(x=slice(2, 4)), {"x": 2})
        other = whole.assign_coords(x=whole.x + 1).isel(x=slice(1, 2))
        with pytest.raises(ts.InvalidArgument, match=r"'x' has other values.*rename\(x="):
            step.put_dataset(other, {"x": 1})
        step.put_dataset(other[["flux"]].rename(x="w", flux="f"))
    written = next(clients[1].steps(timeout=PATIENCE))
    xr.testing.assert_identical(
        written.to_xarray(["heat", "flux", "total"]), whole.drop_vars("probe")
    )
    xr.testing.assert_identical(written.to_xarray("total"), whole[["total"]])
    assert set(written.to_xarray().coords) == {"x", "lat", "time", "probe", "w"}


def test_what_cannot_be_kept_is_named_and_nothing_is_put(clients: list[ts.Staging]) -> None:
    with clients[0].step(1) as step:
        for change, message in (
            ({"attrs": {"f": print}}, "the data set: the attribute 'f' cannot be"),
            ({"attrs": {":a": 1}}, "the data set has an attribute with the name"),
        ):
            with pytest.raises(ts.InvalidArgument, match=message):
                step.put_dataset(xr.Dataset(**change))  # type: ignore[arg-type]
        with pytest.raises(ts.InvalidArgument, match='"heat": the attribute'):
            step.put_dataset(plate().assign(heat=plate().heat.assign_attrs(a=print)))
        with pytest.raises(ts.InvalidArgument, match="MultiIndex"):
            step.put_dataset(plate().stack(c=("y", "x")))
        with pytest.raises(ts.InvalidArgument, match="names no dimensions of the data set"):
            step.put_dataset(plate(), (1, 2))  # type: ignore[arg-type]
        with pytest.raises(ts.InvalidArgument, match="has the dimension 'v'"):
            step.put_dataset(plate(), {"v": 2})
        with pytest.raises(ts.InvalidArgument, match=r"is no xarray\.Dataset"):
            step.put_dataset(plate().heat)  # type: ignore[arg-type]
        with pytest.raises(ts.InvalidArgument, match=r"step\.put_dataset\(dataset\)"):
            step["heat"].put(plate())
        with pytest.raises(ts.InvalidArgument, match="does not begin with a colon"):
            step.attributes[":dims"] = ["x"]
    assert next(clients[1].steps(timeout=PATIENCE)).variables == () and list(clients[1]) == []
    with pytest.raises(ts.InvalidArgument, match="step 1 has ended"):
        step.put_dataset(plate())


def test_a_part_of_a_coordinate_is_an_error(clients: list[ts.Staging]) -> None:
    with clients[0].step(1) as step:
        step.put_dataset(plate().isel(x=slice(0, 2)))
        step.put_dataset(plate().isel(x=slice(2, 4)).drop_vars("x"), {"x": 2})
    whole = next(clients[1].steps(timeout=PATIENCE))
    with pytest.raises(
        ts.NotFound, match=r'not have all of the coordinate "x" from \(0,\) to \(4,'
    ):
        whole.to_xarray()
    assert whole["heat"].to_xarray(dims=("y", "x")).shape == (3, 4)
    assert whole["heat"].to_xarray((0, 0), (3, 2)).x.values.tolist() == [0.5, 1.5]


def test_a_step_may_have_other_dimensions_than_the_last(clients: list[ts.Staging]) -> None:
    heat = plate().heat
    for number, array in enumerate((heat, heat.T, heat.rename(x="lon"))):
        with clients[0].step(number) as step:
            step["heat"].put(array)
    for step, array in zip(
        clients[1].steps(timeout=PATIENCE), (heat, heat.T, heat.rename(x="lon")), strict=False
    ):
        xr.testing.assert_identical(step["heat"].to_xarray(), array)
        if step.number == 2:
            break
    with pytest.raises(ts.InvalidArgument, match=r"\('y', 'x'\) in version 0, and \('x', 'y'\) in"):
        clients[1].to_xarray("heat", "all")
    assert clients[1].to_xarray("heat", "all", (0, 0), (3, 3), dims="ab").shape == (3, 3, 3)
