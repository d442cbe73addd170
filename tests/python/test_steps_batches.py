"""Many variables of a step, put and got together.

More random cases come with `TRANSHIP_BATCH_CASES=300 pytest tests/python/test_steps_batches.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from staging_servers import Servers

import tranship as ts

CASES = int(os.environ.get("TRANSHIP_BATCH_CASES", "10"))
DTYPES = ("f8", "f4", "i2", "u1", "c16", "?")


@pytest.fixture(params=[1, 3])
def contact(request: pytest.FixtureRequest, serve: Servers) -> Path:
    return serve("--servers", str(request.param), "--memory", "64MiB")


@pytest.fixture
def sim(contact: Path) -> Iterator[ts.Staging]:
    with ts.Staging(contact, name="simulation") as made:
        yield made


@pytest.fixture
def ana(contact: Path) -> Iterator[ts.Staging]:
    with ts.Staging(contact, name="analysis") as made:
        yield made


def random_array(random: np.random.Generator) -> np.ndarray[Any, Any]:
    """Returns an array of any rank, type and layout, now and then without elements."""
    rank = int(random.integers(0, 4))
    longest = (2, 40_000, 250, 40)[rank]
    shape = tuple(int(random.integers(0 if random.random() < 0.1 else 1, longest)) for _ in "abc")
    array = random.integers(0, 100, shape[:rank]).astype(random.choice(DTYPES))
    if rank > 1 and random.random() < 0.5:
        array = np.asfortranarray(array)
    if rank > 0 and random.random() < 0.3:
        array = array[::-1]
    return array


@pytest.mark.parametrize("seed", range(CASES))
def test_random_variables_arrive_together(sim: ts.Staging, ana: ts.Staging, seed: int) -> None:
    random = np.random.default_rng(seed)
    names = [f"v{k}" for k in range(int(random.integers(1, 150)))]
    kinds = [random_array(random) for _ in names]
    checksum = bool(random.random() < 0.3)
    for number in range(3):
        arrays = {name: np.roll(kind, number) for name, kind in zip(names, kinds, strict=True)}
        lower = {
            name: tuple(int(k) for k in random.integers(-5, 5, array.ndim))
            for name, array in arrays.items()
            if number == 0 and array.ndim > 0 and random.random() < 0.3
        }
        with sim.step(number) as step:
            step.put_all(arrays, lower, checksum=checksum)
        seen = next(ana.steps(number, timeout=30))
        assert set(seen) == set(names)
        got = seen.get_all()
        assert list(got) == list(seen)
        for name, array in arrays.items():
            assert got[name].dtype == array.dtype
            np.testing.assert_array_equal(got[name], array)
            if name in lower and array.size:
                assert tuple(seen[name].lower) == lower[name]
        some = names[:: int(random.integers(1, 4))]
        out = {
            name: np.zeros_like(arrays[name], order="F") for name in some if random.random() < 0.5
        }
        again = seen.get_all(some, out)
        assert list(again) == some
        for name in some:
            np.testing.assert_array_equal(again[name], arrays[name])
            assert name not in out or again[name] is out[name]


def test_several_boxes_and_later_puts_of_one_variable(sim: ts.Staging, ana: ts.Staging) -> None:
    with sim.step(0) as step:
        step.put_all({"a": np.zeros(10), "b": np.full(4, 1.0)})
        step.put_all({"a": np.ones(10)}, {"a": (10,)})
        step.put_all({"b": np.full(2, 7.0)}, {"b": (1,)})
    got = next(ana.steps(0, timeout=30)).get_all()
    np.testing.assert_array_equal(got["a"], np.repeat([0.0, 1.0], 10))
    np.testing.assert_array_equal(got["b"], [1.0, 7.0, 7.0, 1.0])


def test_gaps_are_found_and_the_others_are_named(sim: ts.Staging, ana: ts.Staging) -> None:
    with sim.step(0) as step:
        step.put_all({"a": np.zeros(3), "gap": np.zeros(3)})
        step["gap"].put(np.zeros(3), lower=(9,))
    seen = next(ana.steps(0, timeout=30))
    with pytest.raises(ts.NotFound, match="gap"):
        seen.get_all(timeout=0.2)
    np.testing.assert_array_equal(seen.get_all(["a"])["a"], np.zeros(3))


def test_memory_that_is_full_takes_what_fits_one_by_one(serve: Servers) -> None:
    """Variables that find no room wait for a step that is discarded meanwhile."""
    contact = serve("--memory", "16MiB", "--versions", "1")
    with ts.Staging(contact) as sim, ts.Staging(contact) as ana:
        for number in range(4):
            with sim.step(number, timeout=30) as step:
                step.put_all({f"v{k}": np.full(1 << 17, number + k / 8) for k in range(6)})
            got = next(ana.steps(number, timeout=30)).get_all()
            for k in range(6):
                np.testing.assert_array_equal(got[f"v{k}"], np.full(1 << 17, number + k / 8))


def test_a_deleted_variable_is_put_again(sim: ts.Staging, ana: ts.Staging) -> None:
    with sim.step(0) as step:
        step.put_all({"a": np.zeros(5), "b": np.zeros(5)})
    ana.delete("a")
    with sim.step(1) as step:
        step.put_all({"a": np.ones((2, 2), "i4"), "b": np.ones(5)})
    got = next(ana.steps(1, timeout=30)).get_all()
    np.testing.assert_array_equal(got["a"], np.ones((2, 2), "i4"))
    np.testing.assert_array_equal(got["b"], np.ones(5))


def test_what_a_server_moved_to_disk_is_got(serve: Servers, tmp_path: Path) -> None:
    contact = serve("--memory", "16MiB", "--full", "spill", "--spill", str(tmp_path))
    with ts.Staging(contact) as sim, ts.Staging(contact) as ana:
        for number in range(6):
            with sim.step(number, timeout=30) as step:
                step.put_all({f"v{k}": np.full(1 << 17, number + k / 8) for k in range(6)})
        for number in range(6):
            got = next(ana.steps(number, timeout=30)).get_all()
            for k in range(6):
                np.testing.assert_array_equal(got[f"v{k}"], np.full(1 << 17, number + k / 8))


def test_bad_arguments_put_nothing(sim: ts.Staging, ana: ts.Staging) -> None:
    with sim.step(0) as step:
        with pytest.raises(ts.InvalidArgument, match="dictionary"):
            step.put_all([np.zeros(3)])  # type: ignore[arg-type]
        with pytest.raises(ts.InvalidArgument, match="has no array"):
            step.put_all({"a": np.zeros(3)}, {"b": (0,)})
        with pytest.raises(ts.InvalidArgument, match="indices"):
            step.put_all({"a": np.zeros(3), "b": np.zeros(3)}, {"b": (0, 0)})
        step.put_all({})
        step.put_all({"c": np.zeros(3)})
    seen = next(ana.steps(0, timeout=30))
    assert list(seen) == ["c"]
    assert seen.get_all([]) == {}
    with pytest.raises(ts.NotFound, match="nothing"):
        seen.get_all(["nothing"])
    with pytest.raises(ts.InvalidArgument, match="not got"):
        seen.get_all(["c"], {"d": np.zeros(3)})
    with pytest.raises(ts.InvalidArgument, match="c"):
        seen.get_all(out={"c": np.zeros(4)})
    with pytest.raises(ts.InvalidArgument, match="c"):
        seen.get_all(out={"c": np.zeros(3, "i8")})


def test_a_step_that_is_given_up_leaves_nothing_of_them(sim: ts.Staging, ana: ts.Staging) -> None:
    with pytest.raises(KeyError), sim.step(0) as step:
        step.put_all({"a": np.zeros(3), "b": np.zeros(300_000)})
        raise KeyError(0)
    with sim.step(1) as step:
        step.put_all({"c": np.zeros(3)})
    with pytest.warns(ts.SkippedVersionWarning):
        seen = next(ana.steps(0, timeout=30))
    assert list(seen) == ["c"]
