"""Arrays and data sets of xarray, taken apart into what is put: values, coordinates, labels."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from ..arguments import check_text, shown
from ..errors import InvalidArgument
from .arguments import corner_of, variable_name
from .labels import attribute_texts, own_coordinate
from .reader import Lower

__all__ = ["DatasetParts", "Part", "parts_of_array", "parts_of_dataset"]

TEXT_WIDTH_MIN = 64
"""Shortest text of a coordinate, in characters."""


@dataclass(frozen=True)
class Part:
    """Values that are put as a box of one variable.

    Attributes:
        name: Name of the variable.
        values: The values, in memory.
        lower: First index of the box, by dimension.
        attrs: Attributes of the variable, as JSON texts.
        coords: Variables that hold its coordinates, by the coordinates' names.
    """

    name: str
    values: xr.Variable
    lower: Mapping[str, int]
    attrs: Mapping[str, str]
    coords: Mapping[str, str] = field(default_factory=dict)

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the dimensions, in the order of the values."""
        return tuple(str(dim) for dim in self.values.dims)

    def ordered(self, dims: Iterable[str]) -> tuple[Any, list[int]]:
        """Returns the values, and the lower corner, with dimensions in another order."""
        order = list(dims)
        values = self.values if order == list(self.dims) else self.values.transpose(*order)
        return values.data, [self.lower[dim] for dim in order]


@dataclass(frozen=True)
class DatasetParts:
    """A data set: its coordinates, then its variables.

    Attributes:
        parts: What is put.
        coords: Names of the coordinates.
        attrs: Attributes of the data set, as JSON texts.
    """

    parts: list[Part]
    coords: frozenset[str]
    attrs: Mapping[str, str]


def parts_of_array(name: str, array: xr.DataArray | xr.Variable, lower: Lower | None) -> list[Part]:
    """Returns the coordinates of an array, and then its values.

    Args:
        name: Name of the variable.
        array: The array.
        lower: First indices of the box: in the order of the array's dimensions, or by name.

    Raises:
        InvalidArgument: It has something that a variable cannot have.
    """
    name = variable_name(name)
    if isinstance(array, xr.Variable):
        array = xr.DataArray(array)
    dims = names_of(f'"{name}"', array.dims)
    corner = corner_by_name(f'"{name}"', dims, lower)
    coords = {
        coordinate: own_coordinate(name, coordinate)
        for coordinate in names_of(f'"{name}"', array.coords)
    }
    refuse_multi_index(array)
    parts = [
        coordinate_part(coords[str(key)], str(key), coordinate.variable, corner)
        for key, coordinate in array.coords.items()
    ]
    values = values_of(f'"{name}"', array.variable, is_coordinate=False)
    attrs = attribute_texts(f'"{name}"', array.attrs)
    return [*parts, Part(name, values, corner, attrs, coords)]


def parts_of_dataset(dataset: xr.Dataset, lower: Mapping[str, Any] | None) -> DatasetParts:
    """Returns the coordinates of a data set, and then its variables.

    Args:
        dataset: The data set.
        lower: First indices of the box, by dimension; 0 for those that are not there.

    Raises:
        InvalidArgument: It has something that variables cannot have.
    """
    dims = names_of("the data set", dataset.dims)
    if lower is not None and not isinstance(lower, Mapping):
        raise InvalidArgument(
            f"lower={shown(lower)} names no dimensions of the data set",
            'give first indices by dimension, as in lower={"x": 128}',
        )
    corner = corner_by_name("the data set", dims, lower)
    refuse_multi_index(dataset)
    names = names_of("the data set", dataset.variables)
    coords = frozenset(name for name in names if name in dataset.coords)
    parts = []
    for name in (variable_name(each) for each in names if each in coords):
        parts.append(coordinate_part(name, name, dataset.variables[name], corner))
    for name in (variable_name(each) for each in names if each not in coords):
        variable = dataset.variables[name]
        has = set(variable.dims)
        its = {each: each for each in coords if has.issuperset(dataset.variables[each].dims)}
        values = values_of(f'"{name}"', variable, is_coordinate=False)
        attrs = attribute_texts(f'"{name}"', variable.attrs)
        own = {dim: corner[dim] for dim in names_of(f'"{name}"', variable.dims)}
        parts.append(Part(name, values, own, attrs, its))
    return DatasetParts(parts, coords, attribute_texts("the data set", dataset.attrs))


def coordinate_part(
    name: str, coordinate: str, variable: xr.Variable, corner: Mapping[str, int]
) -> Part:
    """Returns a coordinate as what is put.

    Args:
        name: Name of the variable that holds it.
        coordinate: Its own name.
        variable: Its values.
        corner: First indices of the box, by dimension.
    """
    whose = f"the coordinate {coordinate!r}"
    dims = names_of(whose, variable.dims)
    unknown = [dim for dim in dims if dim not in corner]
    if unknown:  # as of an index that has one index more than cells
        raise InvalidArgument(
            f"{whose} has the dimension {unknown[0]!r}, which the array has not",
            f"leave it out, as in array.drop_vars({coordinate!r})",
        )
    values = values_of(whose, variable, is_coordinate=True)
    attrs = attribute_texts(whose, variable.attrs)
    return Part(name, values, {dim: corner[dim] for dim in dims}, attrs)


def names_of(whose: str, names: Iterable[Hashable]) -> list[str]:
    """Returns the names of dimensions, coordinates or variables.

    Raises:
        InvalidArgument: One of them is no text, or is there twice.
    """
    texts = [check_text(f"a name in {whose}", name) for name in names]
    twice = [text for text in texts if texts.count(text) > 1]
    if twice:
        raise InvalidArgument(
            f"{whose} has the dimension {twice[0]!r} twice", "give each dimension a name of its own"
        )
    return texts


def corner_by_name(whose: str, dims: list[str], lower: Any) -> dict[str, int]:
    """Returns the first indices of a box by dimension.

    Raises:
        InvalidArgument: They name other dimensions, or are not as many.
    """
    if lower is None:
        return dict.fromkeys(dims, 0)
    if isinstance(lower, Mapping):
        unknown = [key for key in lower if key not in dims]
        if unknown:
            raise InvalidArgument(
                f"lower={shown(dict(lower))} has the dimension {shown(unknown[0])}, and {whose} "
                f"has {shown(tuple(dims))}",
                "give first indices of these",
            )
        return dict(zip(dims, corner_of("lower", [lower.get(dim, 0) for dim in dims]), strict=True))
    corner = corner_of("lower", lower)
    if len(corner) != len(dims):
        raise InvalidArgument(
            f"the lower corner has {len(corner)} indices, and {whose} has {len(dims)} dimensions",
            "give one for each, in their order, or by name",
        )
    return dict(zip(dims, corner, strict=True))


def refuse_multi_index(array: xr.DataArray | xr.Dataset) -> None:
    """Refuses coordinates whose labels are tuples.

    Raises:
        InvalidArgument: There is one.
    """
    for name, index in array.xindexes.items():
        if isinstance(index, xr.indexes.PandasMultiIndex):
            raise InvalidArgument(
                f"the coordinate {shown(name)} belongs to a MultiIndex, whose labels are tuples",
                f"make its levels coordinates of their own, as in array.reset_index({index.dim!r})",
            )


def values_of(whose: str, variable: xr.Variable, *, is_coordinate: bool) -> xr.Variable:
    """Returns values that can be put: in memory, and of a type that variables have.

    Dask arrays are computed. Texts of a coordinate get a length that is a power of two, so that
    blocks and versions with texts of other lengths fit.

    Raises:
        InvalidArgument: They are Python objects.
    """
    if variable.chunks is not None:
        variable = variable.compute()
    is_index = isinstance(variable, xr.IndexVariable)
    data: Any = variable.values if is_index else variable.data
    if is_extension(data):
        data = np.asarray(data, dtype=object)
    kind = data.dtype.kind if isinstance(data.dtype, np.dtype) else ""
    if kind in "OT" and kind:
        data = as_texts(whose, data.astype(object))
    elif is_coordinate and kind in "SU" and kind:
        size = data.dtype.itemsize // (4 if kind == "U" else 1)
        data = data.astype(f"{kind}{text_width(size)}")
    return xr.Variable(variable.dims, data, fastpath=True)


def is_extension(data: Any) -> bool:
    """Returns whether an array is one of pandas's own."""
    return type(getattr(data, "dtype", None)).__module__.partition(".")[0] == "pandas"


def as_texts(whose: str, data: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns texts that were Python objects as elements of a fixed length.

    Raises:
        InvalidArgument: One of them is something else, or cannot be such an element.
    """
    odd = [one for one in data.flat if not isinstance(one, str)]
    if odd:
        raise InvalidArgument(
            f"{whose} has Python objects, such as {shown(odd[0])}",
            "convert them to numbers, texts, or datetime64",
        )
    width = max((len(one) for one in data.flat), default=0)
    texts = data.astype(f"U{text_width(width)}")
    if any(one.endswith("\0") for one in data.flat):
        raise InvalidArgument(f"{whose} has a text that ends with NUL", "leave the NUL out")
    return texts


def text_width(least: int) -> int:
    """Returns the length of the elements for texts of a length: a power of two."""
    return max(TEXT_WIDTH_MIN, 1 << (max(least, 1) - 1).bit_length())
