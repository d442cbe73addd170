"""Arrays that two processes make from the same seed, so that each can compare what arrives."""

from __future__ import annotations

from functools import cache

import numpy as np

from ..harness import Array, blank, random_bytes


def seeded(shape: tuple[int, ...], dtype: str, seed: int) -> Array:
    """Returns a random array that every process can make from the seed."""
    kind = np.dtype(dtype)
    count = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    return random_bytes(count, seed).view(kind).reshape(shape)


@cache
def expected(
    shape: tuple[int, ...], dtype: str, seed: int, transposed: bool, columns: int
) -> Array:
    """Returns the expected array: seeded bytes, their transpose, or them in the first columns."""
    if transposed:
        return np.ascontiguousarray(seeded(shape[::-1], dtype, seed).T)
    if not columns:
        return seeded(shape, dtype, seed)
    count = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    array = blank(count).view(dtype).reshape(shape)
    array[:, :columns] = seeded((shape[0], columns), dtype, seed)
    return array
