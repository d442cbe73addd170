"""Variables of the staging service as lazy xarray.DataArray, which get values when used."""

from __future__ import annotations

import importlib.util
import itertools
import uuid
from collections.abc import Hashable, Sequence
from typing import Any, Literal, NoReturn, SupportsIndex

import numpy as np
import numpy.typing as npt
import pandas as pd  # type: ignore[import-untyped,unused-ignore]
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

from ..errors import Closed, Error, InvalidArgument, NotFound, PeerLost, Timeout
from .arguments import corner_of, whole_version
from .reader import GET_S, Corner, Reader, VariableBox

__all__ = ["Chunks", "Versions", "open_array"]

Versions = SupportsIndex | Literal["latest", "all"] | Sequence[SupportsIndex]
Chunks = int | Literal["auto"] | dict[Any, Any] | tuple[Any, ...] | None
Array = npt.NDArray[Any]

VERSION = "version"
"""The dimension along which several versions lie."""


class StagedArray(BackendArray):
    """A lazy array of one variable: each index gets the smallest box that it needs.

    Any thread may index it. Several versions lie along its first dimension, each a get of its own.
    """

    def __init__(
        self,
        staging: Reader,
        name: str,
        versions: int | tuple[int, ...],
        lower: tuple[int, ...],
        upper: tuple[int, ...],
        dtype: np.dtype[Any],
        timeout: float,
    ) -> None:
        self.staging = staging
        self.name = name
        self.versions = versions
        self.lower = lower
        self.timeout = timeout
        self.dtype = dtype
        box = tuple(last - first for first, last in zip(lower, upper, strict=True))
        self.shape = box if isinstance(versions, int) else (len(versions), *box)
        self._token = uuid.uuid4().hex

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Array:
        """Gets integers, slices with any step, a list of indices for each dimension, or points."""
        if isinstance(key, indexing.BasicIndexer | indexing.OuterIndexer):
            return self._fetch(key.tuple)
        found: Array = indexing.explicit_indexing_adapter(
            key, self.shape, indexing.IndexingSupport.OUTER, self._fetch
        )
        return found

    def _fetch(self, key: tuple[Any, ...]) -> Array:
        wanted = [indices_of(k, size) for k, size in zip(key, self.shape, strict=True)]
        if isinstance(self.versions, int):
            versions, cuts = [self.versions], wanted
        else:
            versions, cuts = [self.versions[k] for k in wanted[0]], wanted[1:]
        shape = [max(cut) + 1 - min(cut) if len(cut) else 0 for cut in cuts]
        got = np.empty((len(versions), *shape), self.dtype)
        if got.size:
            lower = tuple(a + min(cut) for a, cut in zip(self.lower, cuts, strict=True))
            upper = tuple(a + n for a, n in zip(lower, shape, strict=True))
            for k, version in enumerate(versions):
                self.staging.get(
                    self.name, version, lower, upper, got[k, ...], timeout=self.timeout
                )
        for axis, cut in enumerate(cuts, 1):
            if not is_run(cut):
                got = np.take(got, np.asarray(cut, np.intp) - min(cut, default=0), axis)
        single = [axis for axis, k in enumerate(key) if not isinstance(k, slice | np.ndarray)]
        if isinstance(self.versions, int):
            single = [0, *(axis + 1 for axis in single)]
        return np.squeeze(got, tuple(single))

    def __dask_tokenize__(self) -> str:
        """Returns a token of this array alone: versions may still be put to."""
        return self._token

    def __deepcopy__(self, memo: dict[int, Any]) -> StagedArray:
        """Returns the same array, which holds no values."""
        return self

    def __reduce__(self) -> NoReturn:
        raise InvalidArgument(
            f'"{self.name}" is read through a connection of this process',
            "load() it before sending it to another one, or compute with Dask's "
            'scheduler="threads"',
        )


def indices_of(key: Any, size: int) -> Sequence[int]:
    """Returns the indices that a key of one dimension stands for, in its order."""
    if isinstance(key, slice):
        return range(*key.indices(size))
    if isinstance(key, np.ndarray):
        return [int(k) for k in np.where(key < 0, key + size, key)]
    return [int(key) + size if key < 0 else int(key)]


def is_run(indices: Sequence[int]) -> bool:
    """Returns whether each index is the one before it plus one."""
    if isinstance(indices, range):
        return indices.step == 1 or len(indices) < 2
    return all(b == a + 1 for a, b in itertools.pairwise(indices))


def open_array(
    staging: Reader,
    name: str,
    version: Versions,
    lower: Corner | None,
    upper: Corner | None,
    chunks: Chunks,
    dims: Sequence[Hashable] | None,
    timeout: float | None,
) -> xr.DataArray:
    """Returns a lazy array; see Staging.to_xarray."""
    if chunks is not None and importlib.util.find_spec("dask") is None:
        raise Error("to_xarray needs Dask for chunks", "pip install dask, or leave chunks out")
    seconds = GET_S if timeout is None else timeout
    whole = lower is None and upper is None
    bounds = staging._box(name, None, None, timeout)
    bounds, version = bounds_of(staging, name, version, bounds, seconds if whole else None)
    first = bounds.lower if lower is None else tuple(corner_of("lower", lower))
    last = bounds.upper if upper is None else tuple(corner_of("upper", upper))
    sides = [b - a for a, b in zip(first, last, strict=False)]
    if not len(first) == len(last) == len(bounds.lower) or min(sides, default=0) < 0:
        raise InvalidArgument(
            f'from {first} to {last} is no box of "{name}", {box_text(bounds)}',
            "give a lower and an upper bound for each dimension, the lower one not above the other",
        )
    versions = versions_of(staging, name, version, first, last, seconds)
    several = [] if isinstance(versions, int) else [VERSION]
    boxes = [f"d{k}" for k in range(len(first))] if dims is None else list(dims)
    if len({*several, *boxes}) != len(several) + len(first):
        raise InvalidArgument(
            f'dims={boxes} does not name the {len(first)} dimensions of "{name}"',
            f'give {len(first)} different names; "{VERSION}" is the dimension of several versions',
        )
    coords: dict[Hashable, Any] = {
        dim: pd.RangeIndex(a, b, name=dim) for dim, a, b in zip(boxes, first, last, strict=True)
    }
    attrs: dict[str, Any] = {"variable": name}
    if isinstance(versions, int):
        attrs["version"] = versions
    else:
        coords[VERSION] = list(versions)
    array = StagedArray(staging, name, versions, first, last, bounds.dtype, seconds)
    lazy = keep(array) if chunks is None else indexing.LazilyIndexedArray(array)
    variable = xr.Variable([*several, *boxes], lazy, attrs)
    found = xr.DataArray(variable, coords=coords, name=name)
    if isinstance(chunks, tuple):
        chunks = dict(zip(found.dims, chunks, strict=True))
    return found if chunks is None else found.chunk(chunks)


def bounds_of(
    staging: Reader, name: str, version: Versions, bounds: VariableBox, seconds: float | None
) -> tuple[VariableBox, Versions]:
    """Returns the bounds of the version if it is whole, or of all that was put; and the version.

    Args:
        staging: Client that is used.
        name: Variable name.
        version: The version or versions that are asked for.
        bounds: Bounds of all that was put.
        seconds: How long to wait for "latest"; None: a box was given, and bounds are not asked for.
    """
    single = isinstance(version, SupportsIndex) and not isinstance(version, str)
    if seconds is not None and version == "latest":
        number, bounds = staging._version_box(name, "latest", 0, seconds)
        return bounds, number
    if seconds is not None and single:
        try:
            bounds = staging._version_box(name, "exact", whole_version(version), 0.0)[1]
        except (Timeout, Closed, PeerLost):
            return bounds, version
    return bounds, version


def keep(array: StagedArray) -> Any:
    """Returns a lazy array that keeps values once they were got, and that may be assigned to."""
    wrappers: Any = indexing
    lazy = wrappers.LazilyIndexedArray(array)
    return wrappers.MemoryCachedArray(wrappers.CopyOnWriteArray(lazy))


def versions_of(
    staging: Reader,
    name: str,
    version: Versions,
    lower: tuple[int, ...],
    upper: tuple[int, ...],
    timeout: float,
) -> int | tuple[int, ...]:
    """Returns the whole numbers of versions, which may be given as "latest" or "all"."""
    if version == "latest":
        box = list(lower), list(upper)
        return int(staging._core.wait(name, "latest", 0, *box, timeout))
    if version == "all":
        held = [info["versions"] for info in staging.ls() if info["name"] == name]
        found = tuple(int(each["version"]) for versions in held for each in versions)
        if not found:
            raise NotFound(f'no version of "{name}" is held', "look at: tranship ls")
        return found
    spellings = ', several of them, "latest" or "all"'
    if isinstance(version, str | bytes) or not isinstance(version, Sequence):
        return whole_version(version, spellings)
    return tuple(whole_version(one, spellings) for one in version)


def box_text(bounds: VariableBox) -> str:
    """Returns the bounds of a variable for messages."""
    cuts = (f"{a}:{b}" for a, b in zip(bounds.lower, bounds.upper, strict=True))
    return f"which lies in ({', '.join(cuts)})"
