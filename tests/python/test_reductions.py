"""Numbers that servers reduce where they lie, beside what NumPy makes of the same numbers."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from staging_servers import Servers

import tranship as ts
from support import PATIENCE
from tranship.staging import Summary

# fmt: off
NUMBERS = [
    "f2", "f4", "f8", ">f4", ">f8", "i1", "i2", "i4", "i8", ">i4", "u1", "u2", "u4", "u8", ">u2",
    "?", "c8", "c16", ">c8",
]
# fmt: on
SEED = int(os.environ.get("TRANSHIP_SEED", "20261129"))


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    started = Servers(tmp_path)
    yield started
    started.end()


@pytest.fixture
def client(tmp_path: Path, profile: str) -> Iterator[ts.Staging]:
    with (
        ts.StagingServer(tmp_path / "contact", memory="64MiB", profile=profile) as server,
        ts.Staging(server.contact) as opened,
    ):
        yield opened


def some_numbers(draw: random.Random, kind: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Returns random numbers, of integers any that the type has."""
    dtype = np.dtype(kind)
    made = np.random.default_rng(draw.getrandbits(32))
    if dtype.kind == "b":
        return np.asarray(made.integers(0, 2, shape), dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        native = dtype.newbyteorder("=")
        drawn = made.integers(info.min, info.max, shape, native, endpoint=True)
        return np.asarray(drawn).astype(dtype)
    numbers = np.asarray(made.normal(size=shape))
    return (numbers + 1j * made.normal(size=shape) if dtype.kind == "c" else numbers).astype(dtype)


def check_summary(found: Summary, numbers: npt.NDArray[Any]) -> None:
    assert found.count == numbers.size
    if numbers.dtype.kind in "iub":
        assert found.sum == numbers.sum() and isinstance(found.sum, int)
        assert found.min == numbers.min() and found.max == numbers.max()
        assert found.mean == found.sum / found.count
        return
    wide = numbers.astype("c16" if numbers.dtype.kind == "c" else "f8")
    scale = np.abs(wide).sum()
    assert abs(found.sum - wide.sum()) <= 1e-14 * scale
    assert abs(found.mean - wide.mean()) <= 1e-14 * scale
    if numbers.dtype.kind == "c":
        assert found.min is None and found.max is None
    else:
        assert found.min == wide.min() and found.max == wide.max()


def check_histogram(
    found: tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]],
    numbers: npt.NDArray[Any],
    edges: npt.NDArray[np.float64],
) -> None:
    counts, where = found
    assert np.array_equal(where, edges)
    wide = np.sort(numbers.astype("f8").ravel())
    below = np.searchsorted(wide, edges, "left")
    below[-1] = np.searchsorted(wide, edges[-1], "right")
    assert counts.dtype == np.int64 and np.array_equal(counts, np.diff(below))


def means_of(numbers: npt.NDArray[Any], factors: list[int]) -> npt.NDArray[np.float64]:
    """Returns the means of blocks, one block after the other."""
    shape = [-(-n // factor) for n, factor in zip(numbers.shape, factors, strict=True)]
    means = np.empty(shape)
    for block in np.ndindex(*shape):
        corner = zip(block, factors, strict=True)
        means[block] = numbers[tuple(slice(k * f, (k + 1) * f) for k, f in corner)].mean(dtype="f8")
    return means


def check_all(
    client: ts.Staging, name: str, numbers: npt.NDArray[Any], draw: random.Random
) -> None:
    """Checks all reductions of a random box of version 1."""
    first = [draw.randrange(n) for n in numbers.shape]
    last = [draw.randint(a + 1, n) for a, n in zip(first, numbers.shape, strict=True)]
    box = numbers[tuple(slice(a, b) for a, b in zip(first, last, strict=True))]
    whole = draw.random() < 0.3
    corners: dict[str, Any] = {} if whole else {"lower": first, "upper": last}
    box = np.asarray(numbers if whole else box)
    found = client.summary(name, draw.choice([1, "latest"]), **corners)
    assert found.version == 1
    check_summary(found, box)
    if box.dtype.kind == "c":
        return
    wide = box.astype("f8")
    count = draw.randint(1, 40)
    low, high = float(wide.min()), float(wide.max())
    if low < high:
        edges = np.histogram_bin_edges(wide, count)
        check_histogram(client.histogram(name, count, 1, **corners), box, edges)
    edges = np.sort(np.random.default_rng(draw.getrandbits(32)).uniform(low, high, count + 1))
    check_histogram(client.histogram(name, edges, 1, **corners), box, edges)
    if box.dtype.kind != "b":
        factors = [draw.randint(1, n + 2) for n in box.shape]
        means = client.coarsen(name, factors, 1, **corners)
        expected = means_of(box, factors)
        assert means.shape == expected.shape
        assert np.allclose(means, expected, rtol=1e-9, atol=1e-12 * np.abs(wide).max())


@pytest.mark.parametrize("kind", NUMBERS)
def test_boxes_of_one_object_come_to_what_numpy_says(client: ts.Staging, kind: str) -> None:
    draw = random.Random(f"{SEED} {kind}")
    shapes = [(), (1,), (7,), (5000,), (3, 5), (400, 700), (30, 1, 41), (2, 3, 4, 5, 6)]
    for k, shape in enumerate(shapes):
        numbers = some_numbers(draw, kind, shape)
        client.put(f"x{k}", 1, numbers)
        for _ in range(3):
            check_all(client, f"x{k}", numbers, draw)


@pytest.mark.parametrize("many", [1, 3])
def test_boxes_of_many_objects_of_several_servers_come_to_what_numpy_says(
    servers: Servers, many: int
) -> None:
    """Objects lie over each other: what was put last counts."""
    draw = random.Random(f"{SEED} {many}")
    contact = servers("--servers", str(many), "--memory", "32MiB")
    with ts.Staging(contact) as client:
        for k in range(12):
            kind = draw.choice(NUMBERS)
            shape = tuple(draw.randint(1, 90) for _ in range(draw.randint(1, 3)))
            numbers = some_numbers(draw, kind, shape)
            client.put(f"y{k}", 1, some_numbers(draw, kind, shape))
            cut = draw.randrange(shape[0] + 1)
            for lower in (0, cut):
                part = numbers[lower : cut if lower < cut else None]
                if part.size:
                    client.put(f"y{k}", 1, part, (lower,) + (0,) * (len(shape) - 1))
            if cut:
                client.put(f"y{k}", 1, numbers[:cut])
            for _ in range(3):
                check_all(client, f"y{k}", numbers, draw)


def test_objects_on_disk_are_brought_back(servers: Servers, tmp_path: Path) -> None:
    spill = tmp_path / "spill"
    spill.mkdir()
    contact = servers("--memory", "4MiB", "--full", "spill", "--spill", str(spill))
    draw = random.Random(f"{SEED} disk")
    with ts.Staging(contact) as client:
        numbers = [some_numbers(draw, "f8", (8, 128, 256)) for _ in range(6)]  # 2 MiB each
        for k, one in enumerate(numbers):
            for lower in range(0, 8, 2):
                client.put(f"z{k}", 1, one[lower : lower + 2], (lower, 0, 0))
        for k, one in enumerate(numbers):
            check_all(client, f"z{k}", one, draw)


def test_large_boxes_are_reduced_in_pieces(client: ts.Staging) -> None:
    numbers = np.arange(5 << 20, dtype="i8").reshape(5, 1 << 20)  # two pieces of 32 MiB
    client.put("large", 1, numbers)
    found = client.summary("large")
    assert (found.sum, found.min, found.max) == (numbers.sum(), 0, numbers.size - 1)
    assert found.count == numbers.size
    counts, _ = client.histogram("large", 8)
    assert list(counts) == [numbers.size // 8] * 8
    assert np.array_equal(
        client.coarsen("large", (2, 1 << 18))[:, 1], [917503.5, 3014655.5, 4587519.5]
    )
    # more blocks than fit one message
    fine = client.coarsen("large", (1, 16))
    assert np.array_equal(fine, numbers.reshape(5, -1, 16).mean(axis=2))


def test_what_is_no_number_makes_the_bounds_none(client: ts.Staging) -> None:
    numbers = np.ones((300, 300))
    numbers[137, 205] = np.nan
    client.put("x", 1, numbers)
    found = client.summary("x")
    assert np.isnan([found.sum, found.mean, found.min, found.max]).all() and found.count == 90000
    counts, _ = client.histogram("x", [0.5, 1.0, 2.0])
    assert list(counts) == [0, 89999]
    with pytest.raises(ts.InvalidArgument, match="no bins from nan"):
        client.histogram("x")
    numbers[137, 205] = -np.inf
    client.put("x", 2, numbers)
    found = client.summary("x")
    assert (found.min, found.max, found.sum) == (-np.inf, 1.0, -np.inf)


def test_an_empty_box_comes_to_nothing(client: ts.Staging) -> None:
    client.put("x", 4, np.ones((3, 5)))
    for version in (4, "latest"):
        found = client.summary("x", version, (1, 2), (1, 4))  # type: ignore[arg-type]
        assert found == Summary(4, 0, 0, None, None) and np.isnan(found.mean)
        counts, edges = client.histogram("x", 4, version, (1, 2), (1, 4))  # type: ignore[arg-type]
        assert list(counts) == [0] * 4 and list(edges) == [0, 0.25, 0.5, 0.75, 1]
        blocks = client.coarsen("x", (2, 2), version, (1, 2), (1, 5))  # type: ignore[arg-type]
        assert blocks.shape == (0, 2)
    client.put("none", 1, np.ones((0, 5)))
    assert client.summary("none").count == 0


def test_a_step_reduces_what_it_has(client: ts.Staging) -> None:
    numbers = np.arange(24.0).reshape(4, 6)
    with client.step(3) as step:
        step["x"].put(numbers)
    client.put("x", 7, numbers + 100)
    with client.steps(start=3, timeout=PATIENCE) as steps:
        step = next(steps)
        assert step["x"].summary() == Summary(3, 24, 276.0, 0.0, 23.0)
        assert step["x"].summary((1, 2), (3, 4)).sum == numbers[1:3, 2:4].sum()
        counts, _ = step["x"].histogram(2, range=(0, 24))
        assert list(counts) == [12, 12]
        assert np.array_equal(step["x"].coarsen((2, 3)), means_of(numbers, [2, 3]))
        with pytest.raises(ts.NotFound, match="step 3"):
            step["x"].summary((0, 0), (5, 6))


def test_bad_arguments_say_what_to_do(client: ts.Staging) -> None:
    client.put("x", 1, np.ones((3, 4)))
    client.put("pairs", 1, np.ones(3, "c16"))
    client.put("records", 1, np.zeros(3, [("a", "f4"), ("b", "i2")]))
    bad: Any = client
    for call, message in (
        (lambda: bad.summary("records"), "no numbers"),
        (lambda: bad.histogram("pairs", [0, 1]), "complex"),
        (lambda: bad.histogram("pairs"), "no bins from"),
        (lambda: bad.coarsen("pairs", [1]), "complex"),
        (lambda: bad.histogram("x", 0), "bins=0"),
        (lambda: bad.histogram("x", 385), "385 bins"),
        (lambda: bad.histogram("x", [0.0]), "0 bins"),
        (lambda: bad.histogram("x", np.arange(400)), "399 bins"),
        (lambda: bad.histogram("x", [1, 0]), "rise"),
        (lambda: bad.histogram("x", [0, np.nan]), "rise"),
        (lambda: bad.histogram("x", [[0, 1]]), "rise"),
        (lambda: bad.histogram("x", ["a", "b"]), "rise"),
        (lambda: bad.histogram("x", 4, range=(2, 1)), "no bins from 2 to 1"),
        (lambda: bad.histogram("x", 4, range=(0, np.inf)), "no bins from"),
        (lambda: bad.histogram("x", 4, range=(1e19, 1e19)), "float64 has no 4 bins"),
        (lambda: bad.coarsen("x", [2]), "1 extents"),
        (lambda: bad.coarsen("x", [2, 0]), "factors=0"),
        (lambda: bad.coarsen("x", [2, 1.5]), "factors=1.5"),
        (lambda: bad.summary("x", 1, (0,), (3,)), "dimension"),
    ):
        with pytest.raises(ts.InvalidArgument, match=message):
            call()
    with pytest.raises(ts.Timeout, match="is not there"):
        client.summary("x", 2, timeout=0.1)
    with pytest.raises(ts.NotFound):
        client.summary("nothing")


def test_what_another_process_offers_is_not_reduced(client: ts.Staging, tmp_path: Path) -> None:
    client.put("x", 1, np.ones(4000))
    with ts.Staging(tmp_path / "contact", offers=True) as producer:
        offer = producer.offer("x", 1, np.full(4000, 2.0), (4000,))
        assert client.summary("x", 1, (0,), (4000,)).sum == 4000
        for lower in (0, 4000):
            with pytest.raises(ts.Error, match="offers it"):
                client.summary("x", 1, (lower,), (8000,))
        assert client.get("x", 1).sum() == 12000
        offer.withdraw()


def test_a_call_waits_for_its_numbers(client: ts.Staging) -> None:
    client.put("x", 1, np.ones(8))
    found: list[Summary] = []
    waiter = threading.Thread(
        target=lambda: found.append(client.summary("x", 2, (0,), (8,), timeout=PATIENCE))
    )
    waiter.start()
    client.put("x", 2, np.full(4, 3.0))
    client.put("x", 2, np.full(4, 5.0), (4,))
    waiter.join(PATIENCE)
    assert found == [Summary(2, 8, 32.0, 3.0, 5.0)]


def test_others_go_on_when_a_client_is_killed_that_reduces(
    client: ts.Staging, tmp_path: Path
) -> None:
    client.put("x", 1, np.ones((4, 1 << 20)))
    program = """
import sys, tranship as ts
with ts.Staging(sys.argv[1]) as client:
    client.summary("x")
    print("begun", flush=True)
    while True:
        client.summary("x")
"""
    contact = str(tmp_path / "contact")
    for _ in range(3):
        other = subprocess.Popen(
            [sys.executable, "-c", program, contact], stdout=subprocess.PIPE, text=True
        )
        assert other.stdout is not None and other.stdout.readline() == "begun\n"
        other.kill()
        other.wait(PATIENCE)
        other.stdout.close()
        assert client.summary("x").sum == 4 << 20
