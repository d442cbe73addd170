"""Wrong types and values: each error names the argument, its value and what is expected."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

import tranship as ts
from tranship import _core
from tranship.settings import Settings

WRONG: list[Any] = [None, 1.5, "x", object(), b"y", [1], {}]


@pytest.fixture(scope="module")
def engine(profile: str) -> Iterator[ts.Engine]:
    with ts.Engine(profile=profile, contact=True, threads=1) as opened:
        yield opened


@pytest.fixture(scope="module")
def peer(engine: ts.Engine) -> ts.Peer:
    return engine.connect(engine.contact)


def refused(call: Callable[[], Any], match: str = "") -> ts.InvalidArgument:
    with pytest.raises(ts.InvalidArgument, match=match) as raised:
        call()
    assert raised.value.hint, raised.value
    return raised.value


NUMBERS = ("priority", "buffer_bytes")


@pytest.mark.parametrize("value", WRONG, ids=lambda value: type(value).__name__)
def test_options_of_copies(engine: ts.Engine, value: Any) -> None:
    a, b = np.zeros((4, 4)), np.zeros((4, 4))
    for name in NUMBERS:
        for method in (engine.copy, engine.plan):
            refused(lambda m=method, n=name: m(a, b, **{n: value}), f"{name}=.*not a whole number")
    refused(lambda: engine.copy_all([(a, b)], priority=value), "priority=")
    refused(lambda: engine.copy_pages(a, b, [0], [1], priority=value), "priority=")
    refused(lambda: engine.copy_pieces(a, b, [0], [1], [1], priority=value), "priority=")
    if not isinstance(value, str):
        refused(lambda: engine.copy(a, b, planner=value), "planner=")


# Each call must raise the package's own error, not that of the binding or of Python.
CALLS: dict[str, Callable[[ts.Engine, ts.Peer, Any], Any]] = {
    "source": lambda engine, _, x: engine.copy(x, np.zeros(3)),
    "target": lambda engine, _, x: engine.copy(np.zeros(3), x),
    "region": lambda engine, _, x: engine.copy(np.zeros(3), np.zeros(3), region=x),
    "after": lambda engine, _, x: engine.copy(np.zeros(3), np.zeros(3), after=x),
    "stream": lambda engine, _, x: engine.copy(np.zeros(3), np.zeros(3), stream=x),
    "pairs": lambda engine, _, x: engine.copy_all(x),
    "pages": lambda engine, _, x: engine.copy_pages(np.zeros(3), np.zeros(3), x, [0]),
    "pieces": lambda engine, _, x: engine.copy_pieces(np.zeros(3), np.zeros(3), [0], [0], x),
    "plan": lambda engine, _, x: engine.plan(np.zeros(3), x),
    "pin": lambda engine, _, x: engine.pin(x),
    "shape": lambda engine, _, x: engine.empty(x),
    "extent": lambda engine, _, x: engine.empty((4, x)),
    "dtype": lambda engine, _, x: engine.empty(3, x),
    "memory": lambda engine, _, x: engine.empty(3, memory=x),
    "export name": lambda engine, _, x: engine.export(x, np.zeros(3)),
    "export": lambda engine, _, x: engine.export("taken", x),
    "withdraw": lambda engine, _, x: engine.withdraw(x),
    "contact": lambda engine, _, x: engine.connect(x, timeout=0.1),
    "timeout": lambda engine, _, x: engine.connect(engine.contact, timeout=x),
    "peer": lambda _, peer, x: peer[x],
    "wait": lambda engine, _, x: engine.copy(np.zeros(3), np.zeros(3)).wait(x),
    "callback": lambda engine, _, x: engine.copy(np.ones(3), np.ones(3)).add_done_callback(x),
    "instance": lambda *three: ts.Instance(three[2], extents={"x": 4}),
    "extents": lambda *three: ts.Instance(extents=three[2]),
    "named extent": lambda *three: ts.Instance(extents={"x": three[2]}),
    "dimension": lambda *three: ts.Instance(extents={three[2]: 4}),
    "fields": lambda *three: ts.Instance(extents={"x": 4}, fields=three[2]),
    "field": lambda *three: ts.Instance(extents={"x": 4}, fields={"a": three[2]}),
    "layout": lambda *three: ts.Instance(extents={"x": 4}, layout=three[2]),
    "offset": lambda *three: ts.Instance(extents={"x": 4}, offset=three[2]),
    "path": lambda *three: ts.File(three[2]),
    "mode": lambda *three: ts.File("new.bin", extents=(4,), mode=three[2]),
    "index": lambda *three: ts.Instance(extents={"x": 4})[three[2]],
    "engine's contact": lambda *three: ts.Engine(three[2], threads=1).close(),
    "profile": lambda *three: ts.Engine(profile=three[2], threads=1).close(),
    "trace": lambda *three: ts.Engine(trace=three[2], threads=1).close(),
}


@pytest.mark.parametrize("name", CALLS)
def test_nothing_of_the_binding_is_shown(
    engine: ts.Engine, peer: ts.Peer, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    failed = 0
    for value in WRONG:
        if name == "dimension" and isinstance(value, list | dict):
            continue  # A list or dict cannot be a key of a dictionary.
        try:
            CALLS[name](engine, peer, value)
        except ts.Error as error:
            failed += 1
            assert "argument types" not in str(error)
    assert failed >= 2


def test_shapes(engine: ts.Engine) -> None:
    assert engine.empty(np.int64(4)).shape == (4,)
    assert engine.empty([np.int32(2), 3]).shape == (2, 3)
    assert engine.empty(()).shape == ()
    assert "256 TiB" in refused(lambda: engine.empty(1 << 45), f"shape={1 << 45}").message
    refused(lambda: engine.empty(1 << 80), "more than any memory")
    refused(lambda: engine.empty((2, -1)), r"shape=\(2, -1\) has a negative extent")


def test_numbers_that_do_not_fit(engine: ts.Engine) -> None:
    a, b = np.zeros(3), np.zeros(3)
    refused(lambda: engine.copy(a, b, priority=1 << 40), "priority=1099511627776 is too large")
    refused(lambda: engine.copy(a, b, buffer_bytes=-1), "buffer_bytes=-1 is negative")
    engine.copy(a, b, priority=np.int32(3)).wait()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"threads": "many"}, "threads='many' is not a whole number; write a number, such as 4"),
        ({"threads": 1.5}, r"threads=1.5 is not a value of a setting; give.*one a core"),
        ({"buffer_bytes": "lots"}, "buffer_bytes='lots' is not a size; .*64MiB"),
        ({"gpus": 7}, "gpus=7 is neither 0"),
        ({"thread": 4}, "no setting 'thread'; did you mean threads"),
    ],
    ids=str,
)
def test_settings(settings: dict[str, Any], words: str) -> None:
    error = refused(lambda: ts.Engine(**settings), words)
    assert "TRANSHIP_" not in error.message


def test_a_setting_of_the_environment(monkeypatch: pytest.MonkeyPatch, profile: str) -> None:
    monkeypatch.setenv("TRANSHIP_THREADS", "many")
    refused(lambda: ts.Engine(profile=profile), 'TRANSHIP_THREADS: "many" is not a whole number')
    monkeypatch.setenv("TRANSHIP_THREADS", "1")
    ts.Engine(profile=profile, spin_us=-1).close()
    refused(lambda: ts.Engine(profile=profile, clients_max=-1), "clients_max=-1")


def test_the_typed_settings_are_all_there_are() -> None:
    described = {name: value for name, value, _, _ in _core.describe_config({})}
    hints = get_type_hints(Settings)
    assert set(hints) == set(described)
    for name, hint in hints.items():
        sized = int in get_args(hint) and str in get_args(hint)
        assert sized == name.endswith("_bytes"), name


def test_indices() -> None:
    array = ts.Instance(np.arange(12.0), extents={"x": 3, "y": 4})
    whole = np.asarray(array)
    assert np.array_equal(array[...], whole) and np.array_equal(array[::], whole)
    assert np.array_equal(array[-1], whole[-1]) and np.array_equal(array[..., ::-2], whole[:, ::-2])
    for index in (1.5, [0.5, 1], np.array([0, 3]), {1}, "x"):
        with pytest.raises(ts.Error) as raised:
            array[index]
        assert raised.value.hint
    refused(lambda: array[..., ...], "several ellipses")
    refused(lambda: array[0, 0, 0], "3 entries for 2 dimensions")
    refused(lambda: array[::0], "cannot be used as an index")
    refused(lambda: array[3], "3 lies outside a dimension of 3")


def test_simulations() -> None:
    from tranship.simulation import Simulation

    opened = Simulation("sapling", nodes=2)
    ends = ("node0/host0", "node1/host0")
    for name in ("nodes", "copier_threads", "full_from_bytes", "planner"):
        refused(lambda n=name: Simulation("sapling", **{n: 1.5}), f"{name}=1.5 is not")
    refused(lambda: Simulation(None), "machine=None is not a path")
    for name in ("priority", "lanes", "source_layout", "target_layout", "planner"):
        call = {name: 1.5, "extents": {"x": 4}}
        refused(lambda c=call: opened.copy(*ends, **c), f"{name}=1.5 is not")


# Objects of other libraries


class Frame:
    """An object that makes its values on request, as a pandas DataFrame does."""

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return np.zeros((3, 4))

    to_numpy = __array__


def test_what_has_values(engine: ts.Engine) -> None:
    out = np.zeros((3, 4))
    refused(lambda: engine.copy(Frame(), out), r"a Frame cannot be read.*x\.to_numpy\(\)")
    refused(lambda: engine.copy([1, 2], np.zeros(2)), r"a list cannot be read.*np\.asarray")
    refused(lambda: engine.copy(None, out), "None cannot be read as an array; give a NumPy array")


def test_pandas(engine: ts.Engine) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": np.arange(3.0), "b": np.arange(3.0)})
    out = np.zeros((3, 2))
    refused(lambda: engine.copy(frame, out), r"a DataFrame cannot be read.*x\.to_numpy\(\).*values")
    refused(lambda: engine.copy(frame["a"], out[:, 0]), r"a Series.*x\.to_numpy\(\)")
    refused(lambda: engine.copy(out, frame), "cannot be written.*copy into a NumPy array")
    engine.copy(frame.to_numpy(), out).wait()
    assert np.array_equal(out, frame.values)


def test_xarray_and_dask(engine: ts.Engine) -> None:
    xarray = pytest.importorskip("xarray")
    dask = pytest.importorskip("dask.array")
    values = np.arange(12.0).reshape(3, 4)
    array = xarray.DataArray(values, dims=("x", "y"))
    for one in (array, array.variable):
        out = np.zeros((3, 4))
        engine.copy(one, out, region={"x": (0, 2)}).wait()
        assert np.array_equal(out[:2], values[:2]) and not out[2].any()
    turned = ts.Instance(extents={"y": 4, "x": 3})
    engine.copy(array, turned).wait()  # Dimensions match by name, in any order.
    assert np.array_equal(np.asarray(turned), values.T)
    into = xarray.DataArray(np.zeros((3, 4)), dims=("x", "y"))
    engine.copy(values, into).wait()
    assert np.array_equal(into.values, values)
    out = np.zeros((3, 4))
    refused(lambda: engine.copy(array.chunk(), out), r"x\.compute\(\)")
    refused(lambda: engine.copy(dask.zeros((3, 4)), out), r"x\.compute\(\)")
    refused(lambda: engine.copy(out, dask.zeros((3, 4))), "copy into a NumPy array")
    refused(lambda: engine.copy(array.to_dataset(name="a"), out), r"Dataset.*x\['name'\]")


def test_read_only_targets_say_what_to_do(engine: ts.Engine, tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", np.zeros(3))
    fixed = np.zeros(3)
    fixed.flags.writeable = False
    for target in (fixed, ts.File(tmp_path / "f.npy")):
        refused(lambda t=target: engine.copy(np.zeros(3), t), "read-only.*copy to an array that")
