"""Variables of the staging service as lazy xarray.DataArray, which get values when used."""

from __future__ import annotations

import importlib.util
import itertools
import uuid
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal, NoReturn, SupportsIndex

import numpy as np
import numpy.typing as npt
import pandas as pd  # type: ignore[import-untyped,unused-ignore]
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

from ..errors import Closed, Error, InvalidArgument, NotFound, PeerLost, Timeout
from .arguments import corner_of, is_empty, whole_version
from .attributes import is_reserved
from .labels import Labels, labels_of
from .reader import GET_S, Corner, Reader, VariableBox
from .xarray_labels import StepSource, VersionSource, coordinates, same_labels, stacked

__all__ = ["Chunks", "Versions", "open_array", "open_variable"]

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
    check_chunks(chunks)
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
    single = isinstance(versions, int)
    numbers = [versions] if isinstance(versions, int) else list(versions)
    sources = [VersionSource.of(staging, number, seconds) for number in numbers]
    rank = None if dims is not None else len(first)
    its = [
        labels_of(name, without_labels(source.attributes(name), dims), rank) for source in sources
    ]
    labels = same_labels(name, numbers, its) if numbers else Labels()
    if labels.coords:  # they were put before the values
        if single and whole:
            bounds = staging._version_box(name, "exact", numbers[0], seconds)[1]
            first, last = bounds.lower, bounds.upper
        elif not is_empty(first, last):
            for number in numbers:
                staging._core.wait(name, "exact", number, list(first), list(last), seconds)
    several = [] if single else [VERSION]
    boxes = names_of(name, several, dims if labels.dims is None else labels.dims, len(first))
    coords: dict[Hashable, Any] = {}
    attrs: dict[str, Any] = dict(labels.attrs)
    if labels.dims is None:
        coords |= {dim: index_of(dim, a, b) for dim, a, b in zip(boxes, first, last, strict=True)}
        attrs = {"variable": name, **({"version": versions} if single else {}), **attrs}
    else:
        corners = [dict(zip(labels.dims, corner, strict=True)) for corner in (first, last)]
        found = [coordinates(source, labels, *corners) for source in sources]
        coords |= found[0] if single else stacked(name, numbers, found, VERSION)
    if not single:
        coords[VERSION] = numbers
    array = StagedArray(staging, name, versions, first, last, bounds.dtype, seconds)
    return lazy_array(array, [*several, *boxes], coords, attrs, chunks)


def lazy_array(
    array: StagedArray,
    dims: Sequence[Hashable],
    coords: Mapping[Hashable, Any],
    attrs: Mapping[str, Any],
    chunks: Chunks,
) -> xr.DataArray:
    """Returns an array of xarray that gets its values when they are used."""
    lazy = keep(array) if chunks is None else indexing.LazilyIndexedArray(array)
    variable = xr.Variable(dims, lazy, dict(attrs))
    found = xr.DataArray(variable, coords=coords, name=array.name)
    if isinstance(chunks, tuple):
        chunks = dict(zip(found.dims, chunks, strict=True))
    return found if chunks is None else found.chunk(chunks)


def index_of(dim: Hashable, first: int, last: int) -> Any:
    """Returns the variable's own indices as labels of a dimension."""
    return pd.RangeIndex(first, last, name=dim)


def without_labels(attributes: dict[str, Any], dims: object) -> dict[str, Any]:
    """Returns the attributes without labels if the caller has given names of dimensions."""
    if dims is None:
        return attributes
    return {key: value for key, value in attributes.items() if not is_reserved(key)}


def names_of(
    name: str, several: list[str], dims: Sequence[Hashable] | None, rank: int
) -> list[Hashable]:
    """Returns the names of a variable's dimensions: d0, d1 and so on if none were given.

    Raises:
        InvalidArgument: There are more or fewer than dimensions, or one is there twice.
    """
    names: list[Hashable] = [f"d{k}" for k in range(rank)] if dims is None else list(dims)
    if len({*several, *names}) != len(several) + rank:
        raise InvalidArgument(
            f'dims={names} does not name the {rank} dimensions of "{name}"',
            f'give {rank} different names; "{VERSION}" is the dimension of several versions',
        )
    return names


def check_chunks(chunks: Chunks) -> None:
    """Checks that there is what makes chunks.

    Raises:
        Error: Dask is not installed.
    """
    if chunks is not None and importlib.util.find_spec("dask") is None:
        raise Error("to_xarray needs Dask for chunks", "pip install dask, or leave chunks out")


def open_variable(
    source: StepSource,
    name: str,
    box: VariableBox,
    chunks: Chunks,
    dims: Sequence[Hashable] | None,
    unnamed: str = "d",
) -> xr.DataArray:
    """Returns a variable of a whole step as a lazy array.

    Args:
        source: The step.
        name: Name of the variable.
        box: The box that the array has.
        chunks: As of Staging.to_xarray.
        dims: Names of the dimensions; None: those that the step says.
        unnamed: What comes before the numbers of dimensions without names.
    """
    check_chunks(chunks)
    rank = None if dims is not None else len(box.lower)
    labels = labels_of(name, without_labels(source.attributes(name), dims), rank)
    coords: dict[Hashable, Any] = {}
    attrs = dict(labels.attrs)
    names: Sequence[Hashable]
    if labels.dims is None:
        given = [f"{unnamed}{k}" for k in range(len(box.lower))] if dims is None else dims
        names = names_of(name, [], given, len(box.lower))
        corners = zip(names, box.lower, box.upper, strict=True)
        coords |= {dim: index_of(dim, a, b) for dim, a, b in corners}
        attrs = {"variable": name, "version": source.step, **attrs}
    else:
        names = labels.dims
        lower, upper = (dict(zip(labels.dims, one, strict=True)) for one in (box.lower, box.upper))
        coords |= coordinates(source, labels, lower, upper)
    array = StagedArray(source.staging, name, source.step, box.lower, box.upper, box.dtype, GET_S)
    return lazy_array(array, names, coords, attrs, chunks)


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
