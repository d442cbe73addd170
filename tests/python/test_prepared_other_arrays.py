"""What `prepare` accepts, `start` accepts with other arrays of the same shape, beside NumPy.

TRANSHIP_PREPARED_SEEDS tries so many seeds.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tranship as ts

Array = np.ndarray[Any, Any]
Apply = Callable[[Array, Array], None]

SEEDS = int(os.environ.get("TRANSHIP_PREPARED_SEEDS", "60"))
STARTS = 3
DTYPES: list[Any] = [
    "f8",
    "i2",
    "c16",
    [("a", "f8"), ("b", "i4")],
    {"names": ["a", "b"], "formats": ["u1", "f8"], "offsets": [0, 8], "itemsize": 24},
]


@pytest.fixture(scope="module")
def engine() -> Iterator[ts.Engine]:
    with ts.Engine(threads=1) as opened:
        yield opened


def made(chance: random.Random, shape: tuple[int, ...], dtype: Any, form: str) -> Array:
    """Returns an array of random bytes whose strides follow from its form."""
    kind = np.dtype(dtype)
    steps = tuple(2 * extent for extent in shape) if form == "steps" else shape
    whole = np.zeros(steps, kind, order="F" if form == "F" else "C")
    names = kind.names or ()
    for part in [whole[name] for name in names] or [whole]:
        part[...] = chance.getrandbits(30) % 120 + np.arange(part.size).reshape(part.shape) % 7
    cut = {"steps": slice(None, None, 2), "backwards": slice(None, None, -1)}.get(form, slice(None))
    return whole[(cut,) * len(shape)]


def some_region(chance: random.Random, shape: tuple[int, ...]) -> dict[str, tuple[int, int]]:
    """Returns ranges of some dimensions."""
    region = {}
    for k, extent in enumerate(shape):
        if k == 0 or chance.random() < 0.5:
            low, high = sorted((chance.randint(0, extent), chance.randint(0, extent)))
            region[f"d{k}"] = (low, high)
    return region


def some_copy(
    chance: random.Random, engine: ts.Engine, source: Array, target: Array
) -> tuple[str, ts.PreparedCopy, Apply]:
    """Returns a prepared copy, and what it does in NumPy."""
    kinds = ["whole", "region", "pages"]
    if source.flags.c_contiguous and target.flags.c_contiguous:
        kinds += ["types", "types"]
        if source.dtype != np.dtype(DTYPES[-1]):  # which has gaps
            kinds.append("pieces")
    kind = chance.choice(kinds)
    if kind == "whole":
        return kind, engine.prepare(source, target), lambda a, b: np.copyto(b, a)
    if kind == "region":
        region = some_region(chance, source.shape)
        box = tuple(slice(*region.get(f"d{k}", (0, n))) for k, n in enumerate(source.shape))
        return (
            kind,
            engine.prepare(source, target, region=region),
            lambda a, b: np.copyto(b[box], a[box]),
        )
    count = chance.randint(0, len(source))
    if kind == "pages":
        read = [chance.randrange(len(source)) for _ in range(count)]
        write = chance.sample(range(len(target)), count)

        def move(a: Array, b: Array) -> None:
            b[write] = a[read]

        return kind, engine.prepare_pages(source, target, read, write), move
    size = source.dtype.itemsize
    if kind == "pieces":
        length = chance.randint(0, size)
        begins = [size * k for k in chance.sample(range(source.size), count)]

        def copy_pieces(a: Array, b: Array) -> None:
            raw, into = (x.reshape(-1).view(f"V{size}").view("u1") for x in (a, b))
            for k in begins:
                into[k : k + length] = raw[k : k + length]

        return kind, engine.prepare_pieces(source, target, begins, begins, length), copy_pieces
    picked = sorted(chance.sample(range(source.size), count))
    places = ts.types.hindexed_block(1, [size * k for k in picked], f"V{size}")

    def copy_types(a: Array, b: Array) -> None:
        raw, into = (x.reshape(-1).view(f"V{size}") for x in (a, b))
        into[picked] = raw[picked]

    return kind, engine.prepare(source, target, types=(places, places)), copy_types


def twin(array: Array) -> Array:
    """Returns a copy, with the bytes between fields where the array is dense."""
    if not array.flags.c_contiguous:
        return array.copy()
    return np.frombuffer(bytearray(array.tobytes()), array.dtype).reshape(array.shape)


def same(one: Array, other: Array, *, raw: bool) -> bool:
    """Returns whether two arrays hold the same: all bytes, or all fields."""
    if raw:
        return one.tobytes() == other.tobytes()
    return all((one[name] == other[name]).all() for name in one.dtype.names or (...,))


@pytest.mark.parametrize("block", range(4))
def test_other_arrays_of_the_same_shape(engine: ts.Engine, block: int) -> None:
    for seed in range(block, SEEDS, 4):
        chance = random.Random(seed)
        shape = tuple(chance.randint(1, 6) for _ in range(chance.randint(1, 3)))
        dtype = chance.choice(DTYPES)
        forms = [chance.choice(("C", "C", "F", "steps", "backwards")) for _ in range(2)]
        if chance.random() < 0.5:
            forms = ["C", "C"]
        source, target = (made(chance, shape, dtype, form) for form in forms)
        kind, copy, apply = some_copy(chance, engine, source, target)
        for _ in range(STARTS):
            ends: dict[str, Array] = {}
            if chance.random() < 0.6:
                ends["source"] = made(chance, shape, dtype, forms[0])
            if chance.random() < 0.6:
                ends["target"] = made(chance, shape, dtype, forms[1])
            a, b = ends.get("source", source), ends.get("target", target)
            expected = twin(b)
            apply(a, expected)
            copy.start(**ends).wait(60)
            where = f"seed {seed}: {kind} of {shape} {dtype} {forms}, started with {sorted(ends)}"
            assert same(b, expected, raw=kind in ("pieces", "types")), where
