"""Coordinates and attributes of staged variables, read as xarray has them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import xarray as xr

from ..arguments import shown
from ..arrays.dtypes import dtype_of
from ..errors import Closed, Error, InvalidArgument, NotFound, PeerLost
from .attributes import decoded
from .futures import WAITS
from .labels import Labels, decoded_all, labels_of
from .reader import GET_S, Info, Reader, VariableBox

__all__ = [
    "Source",
    "StepSource",
    "VersionSource",
    "coordinates",
    "same_labels",
    "same_values",
    "stacked",
]

Array = npt.NDArray[Any]
WITHOUT = "give dims= to read the variable without its coordinates"
"""Hint of errors of coordinates."""


class Source(Protocol):
    """Variables at one version."""

    def attributes(self, name: str) -> dict[str, Any]:
        """Returns the attributes of a variable, with its labels."""
        ...

    def values(self, name: str, lower: Sequence[int], upper: Sequence[int]) -> Array | None:
        """Returns a box of a variable that is there as soon as what it belongs to is.

        Returns:
            None if the version has nothing of the variable.

        Raises:
            NotFound: It has only a part of the box, or was discarded.
        """
        ...


@dataclass(frozen=True)
class VersionSource:
    """Variables at one version, which may be a step.

    Attributes:
        staging: Client that is used.
        version: The version.
        seconds: Seconds for each get.
        names: Variables of the step of that number, if it is whole.
        said: What the step says of them: variable, key and JSON text.
    """

    staging: Reader
    version: int
    seconds: float
    names: frozenset[str]
    said: Sequence[tuple[str, str, str]]

    @staticmethod
    def of(staging: Reader, version: int, seconds: float) -> VersionSource:
        """Looks whether the version is a step that is whole."""
        try:
            _, number, variables, said, _ = staging._core.find_step("exact", version, GET_S, False)
        except (NotFound, Closed, PeerLost):  # no step of that number was ever whole, or is kept
            number = None
        if number is None:
            return VersionSource(staging, version, seconds, frozenset(), ())
        names = frozenset(str(info["name"]) for info in variables)
        return VersionSource(staging, version, seconds, names, said)

    def attributes(self, name: str) -> dict[str, Any]:
        """Returns those of the variable; those that the step has of it hide them."""
        found = decoded_all(self.staging._core.attributes_of(name))
        if name in self.names:
            found |= {key: decoded(key, text) for of, key, text in self.said if of == name}
        return found

    def values(self, name: str, lower: Sequence[int], upper: Sequence[int]) -> Array | None:
        """Returns a box as soon as it can be had, without waiting for it to be put."""
        info: Any = self.staging._core.describe(name, False, self.seconds, False)
        if info is None:
            return None
        check_rank(name, len(info["lower"]), len(lower))
        out = VariableBox(tuple(lower), tuple(upper), dtype_of(info["type"])).empty()
        try:
            got = self.staging._get(name, self.version, lower, upper, out, self.seconds, False)
        except NotFound as error:
            raise NotFound(error.message, WITHOUT) from None
        except (Closed, PeerLost):  # nobody will put more; a server that has exited fails ls(), too
            got = WAITS
        if got is not WAITS:
            return out
        held = (info["versions"] for info in self.staging.ls() if info["name"] == name)
        if not any(one["version"] == self.version for versions in held for one in versions):
            return None
        raise part_of(name, f"version {self.version}", lower, upper)


@dataclass(frozen=True)
class StepSource:
    """Variables of a whole step.

    Attributes:
        staging: Client that is used.
        step: Its number.
        infos: Its variables.
        said: What it says of them: attributes by variable.
    """

    staging: Reader
    step: int
    infos: Mapping[str, Info]
    said: Mapping[str, Mapping[str, Any]]

    def attributes(self, name: str) -> dict[str, Any]:
        """Returns what the step says of the variable, or else what was said outside of steps."""
        said = dict(self.said.get(name, {}))
        if labels_of(name, said).dims is None and name:
            said = decoded_all(self.staging._core.attributes_of(name)) | said
        return said

    def values(self, name: str, lower: Sequence[int], upper: Sequence[int]) -> Array | None:
        """Returns a box of the step."""
        info = self.infos.get(name)
        if info is None:
            return None
        out = VariableBox(tuple(lower), tuple(upper), dtype_of(info["type"])).empty()
        if info["bounds"] is not None:
            check_rank(name, len(info["bounds"][0]), len(lower))
        got = self.staging._get(name, self.step, lower, upper, out, GET_S, False)
        if got is WAITS:
            raise part_of(name, f"step {self.step}", lower, upper)
        return out


def check_rank(name: str, rank: int, wanted: int) -> None:
    """Checks the number of dimensions of a coordinate's variable.

    Raises:
        Error: It is another one than its labels say.
    """
    if rank != wanted:
        raise Error(f'"{name}" has {rank} dimensions, and {wanted} names of dimensions', WITHOUT)


def part_of(whose: str, what: str, lower: Sequence[int], upper: Sequence[int]) -> NotFound:
    """Returns the error of a coordinate that is only there in part."""
    return NotFound(
        f'{what} does not have all of the coordinate "{whose}" from {tuple(lower)} to '
        f"{tuple(upper)}",
        f"put it with each block, or {WITHOUT}",
    )


def coordinates(
    source: Source, labels: Labels, lower: Mapping[str, int], upper: Mapping[str, int]
) -> dict[Hashable, xr.Variable]:
    """Returns the coordinates of a variable.

    Args:
        source: Where they are.
        labels: Those of the variable.
        lower: First indices of the variable's box, by dimension.
        upper: One past the last indices.

    Returns:
        Those that the version has.

    Raises:
        NotFound: The version has only a part of one, or it was discarded.
        Error: The labels of one cannot be read.
    """
    found: dict[Hashable, xr.Variable] = {}
    for coordinate, name in labels.coords.items():
        its = labels_of(name, source.attributes(name))
        if its.dims is None:
            continue  # its variable was deleted
        if not set(its.dims) <= set(lower):
            raise Error(
                f"the coordinate {shown(coordinate)} has the dimensions {shown(its.dims)}, and its "
                f"variable has {shown(tuple(lower))}",
                WITHOUT,
            )
        values = source.values(
            name, [lower[dim] for dim in its.dims], [upper[dim] for dim in its.dims]
        )
        if values is not None:
            found[coordinate] = xr.Variable(its.dims, shortened(values), dict(its.attrs))
    return found


def same_values(one: Any, other: Any) -> bool:
    """Returns whether two variables have the same dimensions and values."""
    return bool(one.equals(other))


def shortened(values: Array) -> Array:
    """Returns texts as elements of the length that they need."""
    if values.dtype.kind not in "SU":
        return values
    width = int(np.strings.str_len(values).max(initial=1))
    return values.astype(f"{values.dtype.kind}{max(width, 1)}")


def same_labels(name: str, versions: Sequence[int], labels: Sequence[Labels]) -> Labels:
    """Returns the labels that several versions of a variable have; attributes that differ go.

    Raises:
        InvalidArgument: Their dimensions have other names.
    """
    first = labels[0]
    for version, one in zip(versions, labels, strict=True):
        if one.dims != first.dims:
            raise InvalidArgument(
                f'the dimensions of "{name}" are {shown(first.dims)} in version {versions[0]}, and '
                f"{shown(one.dims)} in version {version}",
                "take the versions one by one, or give dims=",
            )
    attrs = {
        key: value
        for key, value in first.attrs.items()
        if all(key in one.attrs and one.attrs[key] == value for one in labels)
    }
    coords = {key: name for one in labels for key, name in one.coords.items()}
    return Labels(first.dims, coords, attrs)


def stacked(
    name: str,
    versions: Sequence[int],
    found: Sequence[Mapping[Hashable, xr.Variable]],
    along: str,
) -> dict[Hashable, xr.Variable]:
    """Returns the coordinates of several versions: one that differs lies along their dimension.

    Raises:
        InvalidArgument: One is missing in some of them; or it labels a dimension, and differs.
    """
    stack: dict[Hashable, xr.Variable] = {}
    for coordinate in dict.fromkeys(key for one in found for key in one):
        for version, one in zip(versions, found, strict=True):
            if coordinate not in one:
                raise InvalidArgument(
                    f'version {version} of "{name}" has no coordinate {shown(coordinate)}, and '
                    "other versions have",
                    "take the versions one by one, or give dims=",
                )
        variables = [one[coordinate] for one in found]
        first = variables[0]
        if all(same_values(first, one) for one in variables[1:]):
            stack[coordinate] = first
        elif coordinate in first.dims:
            raise InvalidArgument(
                f'the coordinate {shown(coordinate)} of "{name}" differs between versions',
                "take them one by one, or give dims=",
            )
        else:
            concat: Any = xr.Variable.concat
            stack[coordinate] = concat(variables, along)
    return stack
