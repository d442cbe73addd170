"""Common mistakes: each is an error that says what to do, never a wrong result."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from staging_servers import times_out

import tranship as ts

FIELD = np.arange(12.0).reshape(3, 4)


@pytest.fixture(scope="module")
def server(profile: str) -> Iterator[ts.StagingServer]:
    with ts.StagingServer(memory="64MiB", profile=profile) as opened:
        yield opened


@pytest.fixture(scope="module")
def staging(server: ts.StagingServer) -> Iterator[ts.Staging]:
    """Yields a client of a server that has the versions 0 and 5 of a variable."""
    with ts.Staging(server.contact, threads=1) as client:
        client.put("x", 0, FIELD)
        client.put("x", 5, FIELD + 5)
        yield client


# Versions

NO_VERSIONS = [
    "lastest",
    "Latest",
    "5",
    "",
    1.5,
    5.0,
    True,
    None,
    b"latest",
    (5,),
    slice(None),
    ...,
]


@pytest.mark.parametrize("version", NO_VERSIONS, ids=repr)
def test_what_is_no_version(staging: ts.Staging, version: Any) -> None:
    out = np.full_like(FIELD, -1)
    after: list[Callable[[], Any]] = [
        lambda: staging.put("x", version, FIELD),
        lambda: staging.discard("x", version),
    ]
    if version is not None:
        after += [
            lambda: next(iter(staging["x"].versions(version))),
            lambda: staging.subscribe("x", lambda number, array: None, after=version),
        ]
    for call in after:
        with pytest.raises(ts.InvalidArgument, match=r"is no version; give a whole number"):
            call()
    either = [
        lambda: staging.get("x", version),
        lambda: staging.get("x", version, (0, 0), (3, 4), out),
        lambda: staging.get_async("x", version).result(timeout=60),
        lambda: staging["x"][version, 0:1],
    ]
    if not isinstance(version, tuple):
        either.append(lambda: staging["x"][version])
    for call in either:
        with pytest.raises(ts.InvalidArgument, match=r'whole number, such as 3, or "latest"'):
            call()
    assert (out == -1).all()
    held = {one["name"]: one["versions"] for one in staging.ls()}
    assert [one["version"] for one in held["x"]] == [0, 5]


def test_versions_that_are(staging: ts.Staging) -> None:
    for version in (5, np.int64(5), np.uint8(5), "latest", np.str_("latest")):
        assert np.array_equal(staging.get("x", version), FIELD + 5)  # type: ignore[arg-type]
        assert np.array_equal(staging["x"][version, 1], FIELD[1] + 5)
    for version in (2**63, -(2**63), 10**30):
        with pytest.raises(ts.InvalidArgument, match="too large"):
            staging.get("x", version)
    staging.put("x", -7, FIELD - 7)
    assert np.array_equal(staging.get("x", -7), FIELD - 7)
    staging.discard("x", -7)


@pytest.mark.parametrize("version", ["Latest", "5", 1.5, True, [0, "5"], [0, 1.5]], ids=repr)
def test_what_is_no_version_for_xarray(staging: ts.Staging, version: Any) -> None:
    pytest.importorskip("xarray")
    with pytest.raises(ts.InvalidArgument, match=r'"latest" or "all"|True is no version'):
        staging.to_xarray("x", version)


# A service and its variables


def test_a_service_iterates_over_its_variables(staging: ts.Staging) -> None:
    staging.put("y", 1, FIELD)
    assert sorted(staging) == sorted(one["name"] for one in staging.ls())
    assert len(staging) == len(list(staging)) >= 2
    assert "x" in staging and "z" not in staging and 3 not in staging
    assert [name for name in staging if name == "y"] == ["y"]
    with pytest.raises(ts.InvalidArgument, match="index by name"):
        staging[0]  # type: ignore[index]
    assert 5 in staging["x"] and 6 not in staging["x"] and 5 not in staging["z"]
    with pytest.raises(TypeError, match=r"versions\(\)"):
        list(staging["x"])  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"take one.*latest"):
        np.asarray(staging["x"])
    assert repr(staging["x"]) == f"<Variable 'x' of {staging!r}>"


def test_a_service_without_variables(profile: str) -> None:
    with (
        ts.StagingServer(memory=1 << 26, profile=profile) as server,
        ts.Staging(server.contact, threads=1) as client,
    ):
        assert list(client) == [] and len(client) == 0 and client and "x" not in client
        times_out(lambda: client.get("x", 0, timeout=0.1), "the variables are none")
        client.put("energy", 0, FIELD)
        times_out(
            lambda: client.get("enrgy", 0, timeout=0.1),
            "look at its name: the variables are energy",
        )


BAD_INDICES: dict[str, tuple[Any, str]] = {
    "step": ((0, slice(0, 2, 2)), "no steps"),
    "many": ((0, 1, 2, 3), "2 dimensions, and 3"),
    "list": ((0, [0, 1]), "whole numbers and ranges"),
    "mask": ((0, FIELD > 3), "whole numbers and ranges"),
    "float": ((0, 1.5), "whole numbers and ranges"),
    "float in a range": ((0, slice(0, 1.5)), "whole numbers and ranges"),
    "truth": ((0, True), "whole numbers and ranges"),
    "name": ((0, "d0"), "whole numbers and ranges"),
    "new axis": ((0, None), "whole numbers and ranges"),
    "ellipses": ((0, ..., ...), "one ellipsis"),
    "beyond the end": ((0, 3), "the index 3 leaves dimension 0 of"),
    "a range beyond the end": ((0, slice(0, 9)), "the range 0:9 leaves dimension 0 of"),
}


@pytest.mark.parametrize("case", BAD_INDICES)
def test_bad_indices_of_a_variable(staging: ts.Staging, case: str) -> None:
    index, text = BAD_INDICES[case]
    with pytest.raises(ts.InvalidArgument, match=text):
        staging["x"][index]


def test_indices_of_a_variable(staging: ts.Staging) -> None:
    variable = staging["x"]
    assert np.array_equal(variable[0, ...], FIELD)
    assert np.array_equal(variable[0, ..., 1:3], FIELD[:, 1:3])
    assert np.array_equal(variable[0, 1, ...], FIELD[1])
    assert np.array_equal(variable[0, np.int64(1) :, 2], FIELD[1:, 2])


def test_boxes_that_are_none(staging: ts.Staging) -> None:
    for lower, upper in (((2, 0), (1, 4)), ((0,), (3, 4))):
        with pytest.raises(ts.InvalidArgument, match=r"is no box; give a lower and an upper"):
            staging.get("x", 0, lower, upper)


def test_what_cannot_be_put(staging: ts.Staging) -> None:
    for value in (None, {}, object()):
        with pytest.raises(ts.InvalidArgument, match="cannot be read as an array"):
            staging.put("x", 1, value)


def test_sizes_of_a_server(profile: str) -> None:
    for size in ("much", 1.5, None):
        with pytest.raises(ts.InvalidArgument, match=r'memory=.* is not a size; give.*"64MiB"'):
            ts.StagingServer(memory=size, profile=profile)  # type: ignore[arg-type]


# NumPy's conversions


@pytest.mark.parametrize("name", ["f.npy", "f.bin"])
def test_numpy_reads_files(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    np.save(path, FIELD) if name == "f.npy" else FIELD.tofile(path)
    file = ts.File(path) if name == "f.npy" else ts.File(path, extents=FIELD.shape)
    assert np.asarray(file).dtype == "f8" and np.array_equal(np.asarray(file), FIELD)
    assert np.array_equal(np.asarray(file[1:, ::-2]), FIELD[1:, ::-2])
    assert np.array_equal(np.array(file, "f4"), FIELD.astype("f4"))
    assert np.sum(file) == FIELD.sum() and np.max(file[0]) == 3
    assert np.asarray(file[2, 3]).shape == () and np.asarray(file[2:2]).shape == (0, 4)
    with pytest.raises(ValueError, match="leave copy=False out"):
        np.array(file, copy=False)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(ts.Error, match=r"(cut short|truncated) after it was opened"):
        np.asarray(file)
    assert np.array_equal(np.asarray(file[:2]), FIELD[:2])


def test_numpy_reads_instances() -> None:
    grid = ts.Instance(
        extents={"x": 5, "y": 7}, fields={"a": "f4", "b": "<i2"}, layout="x:2, F, y, x"
    )
    grid.buffer[:] = np.arange(grid.buffer.size) % 100
    got = np.asarray(grid)
    assert got.shape == (5, 7) and got.dtype == [("a", "f4"), ("b", "i2")]
    with ts.Engine(threads=1) as engine:
        expected = np.zeros((5, 7), got.dtype)
        engine.copy(grid, expected).wait()
    assert np.array_equal(got, expected)
    one = ts.Instance(np.arange(6.0), extents={"x": 2, "y": 3}, layout="x, y")
    assert np.sum(one) == 15 and np.array_equal(np.asarray(one), np.arange(6.0).reshape(3, 2).T)


def test_numpy_reads_remote_arrays(engine: ts.Engine, profile: str) -> None:
    with ts.Engine(contact=True, profile=profile, threads=1) as owner:
        owner.export("field", FIELD)
        remote = engine.connect(owner.contact)["field"]
        assert np.array_equal(np.asarray(remote), FIELD)
        assert np.array_equal(np.asarray(remote[1:, 2]), FIELD[1:, 2])
        assert np.sum(remote) == FIELD.sum()


def test_shapes_may_be_numpys(engine: ts.Engine) -> None:
    assert engine.empty(np.int64(4)).shape == (4,)  # type: ignore[arg-type]
    assert engine.empty((np.int64(2), 3)).shape == (2, 3)


# The command line


def run(*words: object) -> tuple[int, str]:
    """Runs a command in another process; returns its exit code and output."""
    done = subprocess.run(
        [sys.executable, "-m", "tranship.cli", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stderr


def test_archives_on_the_command_line(
    server: ts.StagingServer, staging: ts.Staging, tmp_path: Path
) -> None:
    archive = tmp_path / "z.npz"
    np.savez(archive, density=FIELD, energy=FIELD + 1)
    code, err = run("put", server.contact, "z", 0, archive)
    assert code == 2 and "archive of several arrays" in err and "density, energy" in err
    code, err = run("put", server.contact, "z", 0, archive, "--member", "mass")
    assert code == 2 and "no array 'mass'" in err and "density, energy" in err
    assert "z" not in staging
    assert run("put", server.contact, "z", 0, archive, "--member", "energy")[0] == 0
    assert np.array_equal(staging.get("z", 0), FIELD + 1)
    np.save(tmp_path / "a.npy", FIELD)
    code, err = run("put", server.contact, "z", 1, tmp_path / "a.npy", "--member", "a")
    assert code == 2 and "is not an archive" in err


NO_ARRAYS: dict[str, tuple[Callable[[Path], object], str]] = {
    "text": (lambda path: path.write_text("1 2 3\n"), "not a readable .npy file"),
    "nothing": (lambda path: path.write_bytes(b""), "not a readable .npy file"),
    "objects": (lambda path: np.save(path, np.array([None, 1])), "Python objects"),
    "broken archive": (lambda path: path.write_bytes(b"PK\x03\x04" + bytes(50)), "no.* array|zip"),
    "writers": (
        lambda path: path.write_bytes(b"\x93TS~\x02\x00" + npy_bytes(path)[6:]),
        "2 writers that change it in place",
    ),
}


def npy_bytes(path: Path) -> bytes:
    np.save(path, FIELD)
    return path.read_bytes()


@pytest.mark.parametrize("case", NO_ARRAYS)
def test_files_that_cannot_be_put(server: ts.StagingServer, tmp_path: Path, case: str) -> None:
    make, text = NO_ARRAYS[case]
    make(tmp_path / "f.npy")
    code, err = run("put", server.contact, "no array", 0, tmp_path / "f.npy")
    assert code in (1, 2) and "hint:" in err
    assert any(word in err for word in text.replace(".*", "|").split("|")), err


def test_negative_versions_on_the_command_line(
    server: ts.StagingServer, staging: ts.Staging, tmp_path: Path
) -> None:
    np.save(tmp_path / "a.npy", FIELD)
    words = (server.contact, "n", "-1", tmp_path / "a.npy", "--lower", "-3,-4")
    assert run("put", *words)[0] == 0
    assert np.array_equal(staging.get("n", -1, (-3, -4), (0, 0)), FIELD)
    assert run("put", "--lower", "-3,-4", "--", server.contact, "n", -2, tmp_path / "a.npy")[0] == 0
    for words in (("get",), ("get", "--")):
        assert run(*words, server.contact, "n", "-1", tmp_path / "b.npy")[0] == 0
        assert np.array_equal(np.load(tmp_path / "b.npy"), FIELD)
        (tmp_path / "b.npy").unlink()


def test_outputs_that_cannot_be_written(
    server: ts.StagingServer, staging: ts.Staging, tmp_path: Path
) -> None:
    code, err = run("get", server.contact, "x", 0, tmp_path / "none" / "out.npy")
    assert code == 1 and "out.npy'" in err and "part" not in err and "check the path" in err
    (tmp_path / "out.npy").write_bytes(b"old")
    assert run("get", server.contact, "x", 0, tmp_path / "out.npy")[0] == 0
    assert np.array_equal(np.load(tmp_path / "out.npy"), FIELD)
    assert [path.name for path in tmp_path.iterdir()] == ["out.npy"]


# Arrays with labels


def test_data_arrays_are_copied_by_the_names_of_their_dimensions(engine: ts.Engine) -> None:
    xr = pytest.importorskip("xarray")
    source = xr.DataArray(FIELD, dims=("y", "x"), coords={"x": [10, 20, 30, 40]})
    target = np.zeros((3, 4))
    engine.copy(source, target).wait(timeout=60)
    assert np.array_equal(target, FIELD)
    turned = xr.DataArray(np.zeros((4, 3)), dims=("x", "y"))
    engine.copy(source, turned).wait(timeout=60)
    assert np.array_equal(turned.values, FIELD.T)
    grid = ts.Instance(extents={"x": 4, "y": 3})
    engine.copy(source, grid).wait(timeout=60)
    assert np.array_equal(np.asarray(grid), FIELD.T)
    with pytest.raises(ts.InvalidArgument, match='dimension "y"'):
        engine.copy(source, xr.DataArray(np.zeros((3, 4)), dims=("z", "x")))
    engine.copy(source, target, region={"x": (0, 2)}).wait(timeout=60)


def test_data_arrays_are_put(staging: ts.Staging) -> None:
    xr = pytest.importorskip("xarray")
    staging.put("labelled", 0, xr.DataArray(FIELD, dims=("y", "x"))[:, ::2])
    assert np.array_equal(staging.get("labelled", 0), FIELD[:, ::2])


def test_tables_are_read_through_their_values(engine: ts.Engine) -> None:
    pd = pytest.importorskip("pandas")
    xr = pytest.importorskip("xarray")
    for table in (pd.Series([1.0, 2.0, 3.0]), pd.DataFrame({"a": [1.0, 2.0, 3.0]})):
        with pytest.raises(ts.InvalidArgument, match=r"copy its values.*x\.values"):
            engine.copy(table, np.zeros(3))
    with pytest.raises(ts.InvalidArgument, match="Dataset cannot be read"):
        engine.copy(xr.Dataset({"a": ("x", np.zeros(3))}), np.zeros(3))
