"""Sources broadcast to their targets, scalars fill them, and selections are ends of copies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exporters import Exporter
from gpu_support import EMULATED
from test_array_manners import KINDS, House, random_shape

import tranship as ts

Start = Callable[..., Exporter]
ENDS = ("numpy", *KINDS)


@pytest.fixture(scope="module")
def engine() -> Iterator[ts.Engine]:
    with ts.Engine(emulated_gpus=EMULATED, threads=2, contact=True) as opened:
        yield opened


@pytest.fixture
def house(engine: ts.Engine, tmp_path: Path) -> Iterator[House]:
    with ExitStack() as stack:
        yield House(engine, tmp_path, stack)


def put(house: House, values: np.ndarray[Any, Any], kind: str) -> Any:
    return values.copy() if kind == "numpy" else house.put(values, kind)


def read(house: House, array: Any) -> np.ndarray[Any, Any]:
    out = np.empty(array.shape, array.dtype)
    house.engine.copy(array, out).wait(timeout=60)
    return out


def narrowed(random: np.random.Generator, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Draws a shape that broadcasts to another one."""
    extents = [n if random.random() < 0.6 else 1 for n in shape]
    kept = tuple(extents[int(random.integers(0, len(extents) + 1)) :])
    return (1,) * int(random.integers(0, 3)) + kept if random.random() < 0.3 else kept


def start(engine: ts.Engine, way: str, source: Any, target: Any) -> ts.Event:
    if way == "copy":
        return engine.copy(source, target)
    if way == "copy_all":
        return engine.copy_all([(source, target)])
    if way == "prepare":
        return engine.prepare(source, target).start()
    return engine.prepare_all([(source, target)]).start()


@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.parametrize("seed", range(12))
def test_sources_broadcast(house: House, kind: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    shape = random_shape(random, int(random.integers(1, 5)))
    for of in ENDS:
        base = random.integers(0, 100, shape).astype("i4")
        values = random.integers(0, 100, narrowed(random, shape)).astype("i4")
        wanted = np.empty_like(base)
        wanted[...] = values
        for way in ("copy", "copy_all", "prepare", "prepare_all"):
            target, source = put(house, base, kind), put(house, values, of)
            start(house.engine, way, source, target).wait(timeout=60)
            assert np.array_equal(read(house, target), wanted), way
        assert house.engine.plan(source, target).explain()


@pytest.mark.parametrize("kind", ENDS)
def test_scalars_fill(house: House, kind: str) -> None:
    engine = house.engine
    for dtype in ("u1", "i2", "f4", "f8", "c16", ">i4"):
        target = put(house, np.zeros((3, 40, 5), dtype), kind)
        engine.copy(7, target).wait(timeout=60)
        assert (read(house, target) == 7).all()
        engine.copy(np.float64(3), target[:, ::-2].T).wait(timeout=60)
        engine.copy_all([(True, target[1]), (2.0, target[2])]).wait(timeout=60)
        wanted = np.full((3, 40, 5), 7, dtype)
        wanted[:, ::-2] = 3
        wanted[1], wanted[2] = 1, 2
        assert np.array_equal(read(house, target), wanted)
        single = put(house, np.zeros((), dtype), kind)
        engine.copy(5, single).wait(timeout=60)
        assert read(house, single) == 5
    integers = put(house, np.zeros(3, "u1"), kind)
    for value in (300, -1, 1 << 80):
        with pytest.raises(ts.InvalidArgument, match="does not convert to uint8"):
            engine.copy(value, integers)
    assert not read(house, integers).any()


def test_repeated_elements_do_not_cross_the_bus(engine: ts.Engine) -> None:
    """Filling a GPU's memory is a copy within the GPU."""
    target = engine.empty((64, 1000), "f4", memory="device0")
    for source in (2, np.arange(1000, dtype="f4")):
        event = engine.copy(source, target)
        event.wait(timeout=60)
        assert "device0" in repr(event) and "host" not in repr(event)
        assert np.array_equal(target.numpy(), np.broadcast_to(np.float32(source), (64, 1000)))
    events = [engine.copy(k, target[k]) for k in range(64)]
    for event in events:
        event.wait(timeout=60)
    assert np.array_equal(target.numpy()[:, 7], np.arange(64))


@pytest.mark.parametrize("way", ["shared", "network"])
@pytest.mark.parametrize("name", ["plain", "shared", "device"])
def test_arrays_of_another_process(
    engine: ts.Engine, exporter: Start, way: str, name: str, tmp_path: Path
) -> None:
    if name == "device" and "device1" not in KINDS:
        pytest.skip("needs two GPUs")
    gpus = {"TRANSHIP_EMULATED_GPUS": str(EMULATED)} if EMULATED else {}
    other = exporter(
        *["--bytes", "240000", *(["--gpu"] if name == "device" else [])],
        TRANSHIP_TRANSPORT=way,
        **gpus,
    )
    peer = engine.connect(other.contact)
    array = peer[name].view("f4").reshape(200, 300)
    wanted = np.zeros((200, 300), "f4")

    def check() -> None:
        other.ask(f"dump {name} {tmp_path / 'dump'}")
        assert np.array_equal(np.fromfile(tmp_path / "dump", "f4").reshape(wanted.shape), wanted)

    engine.copy(0.5, array).wait(timeout=60)
    wanted[:] = 0.5
    check()
    row = np.arange(300, dtype="f4")
    engine.copy(row, array).wait(timeout=60)
    wanted[:] = row
    check()
    column = np.arange(200, dtype="f4").reshape(-1, 1)
    engine.copy(column, array[:, ::-3]).wait(timeout=60)
    wanted[:, ::-3] = column
    check()
    out = np.zeros((4, 200, 300), "f4")
    engine.copy(array, out).wait(timeout=60)  # a peer's array is the source
    assert all(np.array_equal(one, wanted) for one in out)
    rows = [3, 7, 150]
    engine.copy(row, array[rows]).wait(timeout=60)
    wanted[rows] = row
    check()
    engine.copy(array[rows, ::2], out[0, :3, :150]).wait(timeout=60)
    assert np.array_equal(out[0, :3, :150], wanted[rows, ::2])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(8))
def test_selections_are_ends(house: House, kind: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    base = random.integers(0, 100, (9, 7, 5)).astype("i4")
    rows, columns = random.permutation(9)[:4], random.permutation(7)[:4]
    engine = house.engine
    array = house.put(base, kind)
    out = np.zeros((4, 5), "i4")
    engine.copy(array[rows, columns], out).wait(timeout=60)
    assert np.array_equal(out, base[rows, columns])
    engine.prepare(array[rows, columns, ::-1], out).start().wait(timeout=60)
    assert np.array_equal(out, base[rows, columns, ::-1])
    for of in KINDS:
        values = random.integers(0, 100, (7, 5)).astype("i4")
        engine.copy(house.put(values, of), array[rows]).wait(timeout=60)
        base[rows] = values
        assert np.array_equal(array.numpy(), base)
        other = house.put(base, of)
        engine.copy(other[columns], array[rows]).wait(timeout=60)
        base[rows] = base[columns]
        assert np.array_equal(array.numpy(), base)
        engine.copy(4, array[:, columns]).wait(timeout=60)
        base[:, columns] = 4
        assert np.array_equal(array.numpy(), base)


def test_dimensions_with_names_match_by_name(engine: ts.Engine) -> None:
    target = ts.Instance(extents={"x": 3, "y": 4, "z": 2}, fields="f8")
    source = ts.Instance(np.arange(6.0), extents={"z": 2, "x": 3}, fields="f8")
    engine.copy(source, target).wait()
    wanted = np.broadcast_to(source.numpy().T[:, None, :], (3, 4, 2))
    assert np.array_equal(target.numpy(), wanted)
    engine.copy(source[:, :1], target).wait()
    assert np.array_equal(target.numpy(), np.broadcast_to(source.numpy()[:, 0], (3, 4, 2)))
    other = ts.Instance(extents={"w": 2}, fields="f8")
    with pytest.raises(ts.InvalidArgument, match=r"\(w=2\) and the target 3"):
        engine.copy(other, target)
    engine.copy(np.arange(2.0), target, region={"x": (1, 2)}).wait()
    assert target.numpy()[1].tolist() == [[0, 1]] * 4


BAD: dict[str, tuple[Any, Any, str]] = {
    "longer": (np.zeros((3, 5)), np.zeros((3, 4)), r"\(d0=3, d1=5\).*\(d0=3, d1=4\)"),
    "more": (np.zeros((2, 3, 4)), np.zeros((3, 4)), r"\(d0=2, d1=3, d2=4\).*\(d0=3, d1=4\)"),
    "a type": (np.zeros(4, "f4"), np.zeros((3, 4)), "f4 in the source and f8"),
    "a list": ([1.0, 2.0], np.zeros((3, 2)), "a list cannot be read"),
    "a text": ("x", np.zeros(3), "a str cannot be read"),
    "both scalars": (0.0, 1.0, "a float cannot be written|a float cannot be read"),
    "a complex": (1j, np.zeros(3), "does not convert to float64"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_does_not_broadcast(engine: ts.Engine, case: str) -> None:
    source, target, text = BAD[case]
    calls: list[Callable[[], object]] = [
        lambda: engine.copy(source, target),
        lambda: engine.copy_all([(np.zeros(3), np.zeros(3)), (source, target)]),
        lambda: engine.prepare(source, target),
        lambda: engine.plan(source, target),
    ]
    for call in calls:
        with pytest.raises(ts.InvalidArgument, match=text):
            call()
    assert case == "both scalars" or not np.any(target)


def test_options_of_selections(engine: ts.Engine) -> None:
    array = ts.Instance(np.zeros((4, 4)), extents=(4, 4))
    out = np.zeros((2, 4))
    options: list[dict[str, Any]] = [
        {"region": {"d0": (0, 1)}},
        {"planner": "simple"},
        {"buffer_bytes": 4096},
    ]
    for option in options:
        with pytest.raises(ts.InvalidArgument, match=f"leave out {next(iter(option))}"):
            engine.copy(array[[0, 1]], out, **option)
    with pytest.raises(ts.InvalidArgument, match=r"without cast"):
        engine.copy_all([(np.zeros(3), np.zeros(3)), (array[[0, 1]], out)], cast="unsafe")
    with pytest.raises(ts.InvalidArgument, match=r"look at the plan of the event"):
        engine.plan(array[[0, 1]], out)
    with pytest.raises(ts.InvalidArgument, match=r"shape \(2, 4\), .* of the target, \(3, 4\)"):
        engine.copy(array[[0, 1]], np.zeros((3, 4)))
    with pytest.raises(ts.InvalidArgument, match="are not those of the target"):
        engine.copy(array[[0, 1]], np.zeros((2, 4), "f4"))
    with pytest.raises(ts.InvalidArgument, match="overlaps the target"):
        engine.copy(array[[0, 1]], array[[1, 2]])
    event = engine.copy(array[[0, 1]], out)
    event.wait()
    assert event.plan.explain()
