"""What a variable's elements may be, and how a variable is indexed: as NumPy has them."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tranship as ts

CASES = int(os.environ.get("TRANSHIP_STAGING_ELEMENTS", "60"))
"""Random cases of each test."""
TIMEOUT = 60.0

TYPES = [
    "?", "i1", "u2", ">i4", "f2", "f8", "c8", "c16", "f16", "c32", "S1", "S5", "S40", "U1", "U7",
    "<U9", "M8[ns]", "M8[D]", "m8[us]", "V3", "V100",
]  # fmt: skip


@pytest.fixture(scope="module")
def staging(profile: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ts.Staging]:
    """Yields a client of a group of two servers."""
    contact = tmp_path_factory.mktemp("service") / "contact"
    with (
        ts.StagingServer(contact, memory="64MiB", servers=2),
        ts.StagingServer(contact, memory="64MiB", servers=2, rank=1),
        ts.Staging(contact, threads=1) as client,
    ):
        yield client


def random_type(dice: random.Random, depth: int = 0) -> np.dtype[Any]:
    """Returns a plain type or a structure, with padding, arrays and structures in it."""
    if depth > 2 or dice.random() < (0.3 if depth == 0 else 0.7):
        return np.dtype(dice.choice(TYPES))
    names = dice.sample(["a", "b", "mass", "größe", "x y", "t'"], dice.randint(1, 4))
    fields: list[Any] = []
    for name in names:
        kind = random_type(dice, depth + 1)
        shape = tuple(dice.randint(1, 3) for _ in range(dice.choice([0, 0, 1, 2])))
        fields.append((name, kind, shape))
    return np.dtype(fields, align=dice.random() < 0.5)


def random_array(dice: random.Random, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    """Returns an array of random bytes that are values of its type."""
    array = np.zeros(shape, dtype)
    fill(dice, array)
    return array


def fill(dice: random.Random, array: Any) -> None:
    if array.dtype.names is not None:
        for name in array.dtype.names:
            fill(dice, array[name])
    elif array.dtype.kind in "SU":
        texts = [dice.choice(["", "a", "bcd", "yz"]) for _ in range(array.size)]
        array[...] = np.array(texts).astype(array.dtype).reshape(array.shape)
    elif array.dtype.kind == "V":
        values = np.frombuffer(dice.randbytes(array.nbytes), array.dtype)
        array[...] = values.reshape(array.shape)
    else:
        numbers = np.array([dice.randint(0, 100) for _ in range(array.size)])
        array[...] = numbers.astype(array.dtype).reshape(array.shape)


def same(one: Any, other: Any) -> bool:
    """Whether arrays have the same type, shape and values."""
    one, other = np.asarray(one), np.asarray(other)
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype.names is not None:
        return all(same(one[name], other[name]) for name in one.dtype.names)
    return bool((one == other).all()) if one.dtype.kind != "V" else one.tobytes() == other.tobytes()


@pytest.mark.parametrize("seed", range(2))
def test_elements_of_any_type_come_back_as_they_are(staging: ts.Staging, seed: int) -> None:
    dice = random.Random(seed)
    for number in range(CASES):
        dtype = random_type(dice)
        shape = tuple(dice.randint(1, 5) for _ in range(dice.randint(0, 3)))
        array = random_array(dice, dtype, shape)
        name = f"{seed}-{number}"
        if dice.random() < 0.3:
            staging.define(name, dtype, (0,) * len(shape), shape)
        given = (
            array[(..., *(slice(None, None, -1) for _ in shape))] if dice.random() < 0.5 else array
        )
        checksum = dice.random() < 0.3
        if dice.random() < 0.5:
            staging.put(name, 0, given, timeout=TIMEOUT, checksum=checksum)
        else:
            put = staging.put_async(name, 0, given, timeout=TIMEOUT, checksum=checksum)
            put.result(TIMEOUT)
        assert staging[name].dtype == dtype and staging[name].shape == shape
        assert same(staging.get(name, 0, timeout=TIMEOUT), given), dtype
        out = np.zeros(shape, dtype)
        staging.get_async(name, 0, out=out, timeout=TIMEOUT).result(TIMEOUT)
        assert same(out, given), dtype
        if shape:
            index = tuple(dice.randrange(-size, size) for size in shape)
            assert same(staging[name][0, *index], given[index]), dtype
        staging.delete(name)


SCALARS = {
    "float": 0.25,
    "int": 3,
    "bool": True,
    "complex": 1 + 2j,
    "text": "step",
    "list": [1, 2, 3],
    "nested": [[1.5, 2], [3, 4]],
    "tuple": (1, 2),
    "texts": ["a", "longer"],
    "float32": np.float32(0.5),
    "date": np.datetime64("2026-11-27"),
    "record": np.zeros(1, "i4, f8")[0],
}


@pytest.mark.parametrize("kind", SCALARS)
def test_scalars_and_lists_are_put_as_arrays(staging: ts.Staging, kind: str) -> None:
    staging.put(kind, 0, SCALARS[kind])
    staging.put_async(kind, 1, SCALARS[kind]).result(TIMEOUT)
    for version in range(2):
        assert same(staging.get(kind, version), SCALARS[kind])
    if np.ndim(SCALARS[kind]) == 0:
        found = staging[kind][0]
        assert isinstance(found, np.generic) and found == np.asarray(SCALARS[kind])[()]


def test_what_is_no_array_is_refused(staging: ts.Staging) -> None:
    for bad in ([[1, 2], [3]], [object()], np.array([None]), {"a": 1}, None):
        for put in (staging.put, staging.put_async):
            with pytest.raises((ts.InvalidArgument, ts.Error)) as refused:
                begun = put("bad", 0, bad)
                assert begun is not None
                begun.result(TIMEOUT)
            assert isinstance(refused.value, ts.Error)
    with pytest.raises(ts.InvalidArgument, match="1048576"):
        staging.put("bad", 0, np.zeros(1, "S2000000"))
    with pytest.raises(ts.InvalidArgument, match="at most 4096"):
        staging.put("bad", 0, np.zeros(1, [(f"field {k}", "f8") for k in range(500)]))
    assert "bad" not in staging


def test_a_target_that_is_read_only_is_an_invalid_argument(staging: ts.Staging) -> None:
    for kind in ("f8", "f8, i4"):
        staging.put(kind, 0, np.zeros(3, kind))
        out = np.zeros(3, kind)
        out.flags.writeable = False
        with pytest.raises(ts.InvalidArgument, match="read-only"):
            staging.get(kind, 0, out=out)


def test_other_structures_are_other_types(staging: ts.Staging) -> None:
    staging.put("particles", 0, np.zeros(3, "f8, i4"))
    with pytest.raises(ts.InvalidArgument, match="elements"):
        staging.put("particles", 1, np.zeros(3, "i4, f8"))
    with pytest.raises(ts.InvalidArgument, match="elements"):
        staging.get("particles", 0, out=np.zeros(3, "i4, f8"))
    with pytest.raises(ts.InvalidArgument, match="elements"):
        staging.get("particles", 0, out=np.zeros(3, "V12"))


def random_cut(dice: random.Random, size: int) -> Any:
    if dice.random() < 0.4:
        return dice.randrange(-size - 1, size + 1)
    ends = [dice.choice([None, dice.randint(-size - 1, size + 1)]) for _ in range(2)]
    return slice(*ends)


def inside(cut: Any, size: int) -> bool:
    """Whether an index lies in a dimension; NumPy cuts ranges, and the service refuses them."""
    if not isinstance(cut, slice):
        return -size <= cut < size
    return all(end is None or -size <= end <= size for end in (cut.start, cut.stop))


@pytest.mark.parametrize("seed", range(2))
def test_indices_mean_what_they_mean_to_numpy(staging: ts.Staging, seed: int) -> None:
    dice = random.Random(seed)
    shape = (4, 3, 5)
    array = np.arange(60).reshape(shape)
    name = f"indexed {seed}"
    for version in (3, 7):
        staging.put(name, version, array + version)
    for _ in range(CASES):
        cuts = [random_cut(dice, size) for size in shape[: dice.randint(0, 3)]]
        if dice.random() < 0.2:
            cuts.insert(dice.randint(0, len(cuts)), Ellipsis)
        version = dice.choice([3, 7, -1, -2, "latest"])
        plain = [cut for cut in cuts if cut is not Ellipsis]
        at = cuts.index(Ellipsis) if Ellipsis in cuts else len(cuts)
        dims = [*range(at), *range(3 - (len(plain) - at), 3)]
        if all(inside(cut, shape[k]) for cut, k in zip(plain, dims, strict=True)):
            wanted = (array + (3 if version in (3, -2) else 7))[tuple(cuts)]
            found = staging[name][version, *cuts]
            assert type(found) is type(wanted) and same(found, wanted), cuts
        else:
            with pytest.raises(IndexError, match="leaves dimension"):
                staging[name][version, *cuts]
    with pytest.raises(IndexError, match="has 2 versions"):
        staging[name][-3]


def test_negative_indices_of_a_domain_are_its_own(staging: ts.Staging) -> None:
    staging.put("centred", -4, np.arange(6), (-3,))
    assert staging["centred"][-4, -1] == 2  # not the last one
    assert (staging["centred"][-4, -3:0] == [0, 1, 2]).all()
    with pytest.raises(ts.OutOfRange, match="-3:3"):
        staging["centred"][-4, -4]
    staging.put("ahead", 0, np.arange(4), (10,))
    staging.define("ahead", "i8", (10,), (14,))
    assert staging["ahead"][0, -1] == 3
    with pytest.raises(ts.OutOfRange, match="10:14"):
        staging["ahead"][0, 0:4]
    assert staging["ahead"][-1, 12:11].shape == (0,)
