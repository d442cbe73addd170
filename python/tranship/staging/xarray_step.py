"""Whole steps as lazy xarray.Dataset."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import xarray as xr

from ..arguments import shown
from ..errors import InvalidArgument
from .labels import labels_of
from .reader import VariableBox
from .xarray_labels import StepSource, coordinates, same_values
from .xarray_view import Chunks, open_variable

__all__ = ["open_dataset"]

APART = 'take them one by one, as in step["energy"].to_xarray(), or name those that fit'
"""Hint of errors of variables that do not fit into one data set."""


def open_dataset(
    source: StepSource,
    boxes: Mapping[str, VariableBox],
    attrs: Mapping[str, Any],
    names: Sequence[str] | None,
    chunks: Chunks,
) -> xr.Dataset:
    """Returns variables of a step as a lazy data set; see Step.to_xarray.

    Args:
        source: The step.
        boxes: What it has of each variable.
        attrs: Its attributes.
        names: Variables that are wanted, with the coordinates along their dimensions; None: all.
        chunks: As of Staging.to_xarray.
    """
    variables: dict[Hashable, xr.Variable] = {}
    coords: dict[Hashable, xr.Variable] = {}
    corners: dict[Hashable, tuple[str, int, int]] = {}
    held = held_by_coordinates(source)
    for name in [name for name in boxes if name not in held] if names is None else names:
        array = open_variable(source, name, boxes[name], chunks, None, f"{name}_d")
        attributes = dict(array.attrs)
        if labels_of(name, source.attributes(name)).dims is None:
            attributes = {k: v for k, v in attributes.items() if k not in ("variable", "version")}
        check_corners(corners, name, array.dims, boxes[name])
        variable = array.variable.copy(deep=False)
        variable.attrs = attributes
        variables[name] = variable
        for key, coordinate in array.coords.items():
            add(coords, name, key, coordinate.variable)
    lower = {str(dim): first for dim, (_, first, _) in corners.items()}
    upper = {str(dim): last for dim, (_, _, last) in corners.items()}
    if names is None:
        add_corners(source, boxes, lower, upper)
    for key, coordinate in shared_coordinates(source, lower, upper).items():
        add(coords, "the data set", key, coordinate)
    both = [key for key in coords if key in variables]
    if both:
        raise InvalidArgument(
            f"step {source.step} has a variable and a coordinate with the name {shown(both[0])}",
            APART,
        )
    return xr.Dataset(variables, coords=coords, attrs=dict(attrs))


def held_by_coordinates(source: StepSource) -> set[str]:
    """Returns the variables that hold coordinates."""
    labels = [labels_of(name, attributes) for name, attributes in source.said.items()]
    return {name for one in labels for name in one.coords.values()}


def add_corners(
    source: StepSource,
    boxes: Mapping[str, VariableBox],
    lower: dict[str, int],
    upper: dict[str, int],
) -> None:
    """Adds the bounds of dimensions that only coordinates of a data set have."""
    for name in labels_of("the data set", source.attributes("")).coords.values():
        dims = labels_of(name, source.attributes(name)).dims
        if dims is None or name not in boxes:
            continue
        for dim, first, last in zip(dims, boxes[name].lower, boxes[name].upper, strict=True):
            lower.setdefault(dim, first)
            upper.setdefault(dim, last)


def shared_coordinates(
    source: StepSource, lower: Mapping[str, int], upper: Mapping[str, int]
) -> dict[Hashable, xr.Variable]:
    """Returns the coordinates of data sets that were put, which have these dimensions."""
    labels = labels_of("the data set", source.attributes(""))
    known = {}
    for key, name in labels.coords.items():
        dims = labels_of(name, source.attributes(name)).dims
        if dims is not None and lower.keys() >= set(dims):
            known[key] = name
    return coordinates(source, replace(labels, coords=known), lower, upper)


def check_corners(
    corners: dict[Hashable, tuple[str, int, int]],
    name: str,
    dims: Sequence[Hashable],
    box: VariableBox,
) -> None:
    """Checks that a variable lies where others with the same dimensions lie.

    Raises:
        InvalidArgument: It lies elsewhere.
    """
    for dim, first, last in zip(dims, box.lower, box.upper, strict=True):
        other, *ends = corners.setdefault(dim, (name, first, last))
        if ends != [first, last]:
            raise InvalidArgument(
                f'"{name}" lies from {first} to {last} along {shown(dim)}, and "{other}" from '
                f"{ends[0]} to {ends[1]}",
                APART,
            )


def add(
    coords: dict[Hashable, xr.Variable], name: str, key: Hashable, coordinate: xr.Variable
) -> None:
    """Adds a coordinate of a variable.

    Raises:
        InvalidArgument: Another variable has one of that name with other values.
    """
    if not same_values(coords.setdefault(key, coordinate), coordinate):
        raise InvalidArgument(
            f"the coordinate {shown(key)} of {shown(name)} has other values than that of another "
            "variable",
            APART,
        )
