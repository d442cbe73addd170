"""Puts of arrays that have labels: names of dimensions, coordinates and attributes."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _core
from ..arguments import shown
from ..arrays.dtypes import dtype_of
from ..errors import Error, InvalidArgument, NotFound
from .arguments import put_array, whole_version
from .labels import DIMS, coordinate_key, decoded_all, label_text, labels_of
from .reader import Lower

if TYPE_CHECKING:
    from .xarray_parts import Part

__all__ = ["LabelledPuts", "ReadyPut", "StepLabels", "is_dataset", "taken_apart"]

ATTEMPTS = 8
"""Times that a put asks again for the names of dimensions, while others delete the variable."""
KNOWN_MAX = 4096
"""Variables whose names of dimensions a client remembers."""


@dataclass(frozen=True)
class ReadyPut:
    """An array that is put as a box of a variable."""

    name: str
    array: Any
    lower: Any = None


def is_dataset(array: Any) -> bool:
    """Returns whether a value is an xarray.Dataset, without importing xarray."""
    xarray = sys.modules.get("xarray")
    return isinstance(array, getattr(xarray, "Dataset", ()))


def taken_apart(name: str, array: Any, lower: Lower | None) -> list[Part] | None:
    """Returns the parts of an array of xarray, coordinates first; None for all other arrays.

    xarray is not imported: without it, no array is one of its own.

    Raises:
        InvalidArgument: The array has something that a variable cannot have, or is a data set.
    """
    xarray = None if type(array) is np.ndarray else sys.modules.get("xarray")
    if xarray is None:
        return None
    if is_dataset(array) or isinstance(array, getattr(xarray, "DataTree", ())):
        raise InvalidArgument(
            f"an xarray.{type(array).__name__} is no array",
            "put a Dataset as a step, as in: with staging.step(3) as step: "
            "step.put_dataset(dataset)",
        )
    kinds = getattr(xarray, "DataArray", ()), getattr(xarray, "Variable", ())
    if not isinstance(array, kinds):
        return None
    from .xarray_parts import parts_of_array

    return parts_of_array(name, array, lower)


@dataclass(frozen=True)
class Known:
    """What a client has put to a variable: names of dimensions, element type, attributes."""

    dims: tuple[str, ...]
    dtype: np.dtype[Any]
    attrs: frozenset[str]


class LabelledPuts:
    """Labels of the variables that a client puts outside of steps. Any thread may use it.

    Each put sends them with one request, before its data: so readers that see the data see the
    labels. The servers keep the first names of a variable's dimensions; arrays with the same names
    in another order are transposed.
    """

    def __init__(self, core: _core.StagingClientCore) -> None:
        self._core = core
        self._lock = threading.Lock()
        self._known: dict[str, Known] = {}

    def ready(
        self, name: str, version: Any, array: Any, lower: Lower | None, seconds: float
    ) -> list[ReadyPut] | None:
        """Sends the labels of an array, and returns what is put for it, the values last.

        Returns:
            None for arrays without labels.

        Raises:
            InvalidArgument: The array does not fit the variable, or has something that it cannot
                have; nothing was put.
        """
        parts = taken_apart(name, array, lower)
        if parts is None:
            return None
        whole_version(version)
        for part in parts:
            self._check_fits(part, seconds)
        orders = {part.name: self._order(part) for part in parts}
        self._agree(parts, orders)
        self._remember(parts, orders)
        return ready_parts(parts, orders)

    def forget(self, name: str) -> list[str]:
        """Forgets a variable that will be deleted; returns the variables of its coordinates."""
        coordinates = self.coordinates(name)
        with self._lock:
            for each in (name, *coordinates):
                self._known.pop(each, None)
        return coordinates

    def delete(self, coordinates: list[str]) -> None:
        """Deletes the variables of coordinates."""
        for coordinate in coordinates:
            with contextlib.suppress(NotFound):
                self._core.remove(coordinate)

    def discard_coordinates(self, name: str, version: int) -> None:
        """Discards a version of the coordinates of a variable."""
        for coordinate in self.coordinates(name):
            with contextlib.suppress(NotFound):
                self._core.discard(coordinate, version)

    def coordinates(self, name: str) -> list[str]:
        """Returns the variables that hold coordinates of a variable, and of no other."""
        try:
            coords = labels_of(name, decoded_all(self._core.attributes_of(name))).coords
        except Error:  # they are no labels, or the first server has exited: the caller goes on
            return []
        return [each for each in coords.values() if each.startswith(f"{name}:")]

    def _order(self, part: Part) -> tuple[str, ...]:
        with self._lock:
            known = self._known.get(part.name)
        same = known is not None and set(known.dims) == set(part.dims)
        return known.dims if same and known is not None else part.dims

    def _check_fits(self, part: Part, seconds: float) -> None:
        """Checks that a variable can have such values, before it gets their labels.

        Raises:
            InvalidArgument: It has other elements, or another number of dimensions.
        """
        with self._lock:
            known = self._known.get(part.name)
        dtype, rank = part.values.dtype, len(part.dims)
        if known is not None and known.dtype == dtype and len(known.dims) == rank:
            return
        found: Any = self._core.describe(part.name, False, seconds, False)
        if found is None:
            return
        has = dtype_of(found["type"])
        if has != dtype or len(found["lower"]) != rank:
            raise InvalidArgument(
                f'"{part.name}" has {len(found["lower"])} dimensions of {has}, and the array has '
                f"{rank} of {dtype}",
                "convert it, put it under another name, or delete the variable",
            )

    def _agree(self, parts: list[Part], orders: dict[str, tuple[str, ...]]) -> None:
        """Sends the labels; `orders` gets the order of the dimensions that the variables have."""
        for attempt in range(ATTEMPTS):
            try:
                self._core.set_attributes(self._pairs(parts, orders))
            except InvalidArgument:
                if attempt + 1 == ATTEMPTS or not self._learn(parts, orders):
                    raise
            else:
                return

    def _pairs(
        self, parts: list[Part], orders: Mapping[str, tuple[str, ...]]
    ) -> list[tuple[str, str, str]]:
        """Returns the attributes of all parts; names of dimensions first, which may be refused."""
        pairs = [(part.name, DIMS, label_text(orders[part.name])) for part in parts]
        with self._lock:
            before = {part.name: self._known.get(part.name) for part in parts}
        for part in parts:
            for coordinate, variable in part.coords.items():
                pairs.append((part.name, coordinate_key(coordinate), label_text(variable)))
            pairs += [(part.name, key, text) for key, text in part.attrs.items()]
            known = before[part.name]
            gone = known.attrs.difference(part.attrs) if known is not None else ()
            pairs += [(part.name, key, "") for key in sorted(gone)]
        return pairs

    def _learn(self, parts: list[Part], orders: dict[str, tuple[str, ...]]) -> bool:
        """Asks for the order of the dimensions; returns whether it is another one.

        Raises:
            InvalidArgument: A variable has other dimensions.
        """
        changed = False
        for part in parts:
            attributes = decoded_all(self._core.attributes_of(part.name))
            dims = labels_of(part.name, attributes).dims
            if dims is None or dims == orders[part.name]:
                continue
            check_names(part, dims)
            orders[part.name] = dims
            changed = True
        return changed

    def _remember(self, parts: list[Part], orders: Mapping[str, tuple[str, ...]]) -> None:
        with self._lock:
            if len(self._known) + len(parts) > KNOWN_MAX:
                self._known.clear()
            for part in parts:
                attrs = frozenset(part.attrs)
                self._known[part.name] = Known(orders[part.name], part.values.dtype, attrs)


def check_names(part: Part, dims: tuple[str, ...]) -> None:
    """Checks that an array has the dimensions of a variable, in whatever order.

    Raises:
        InvalidArgument: It has others.
    """
    if set(dims) != set(part.dims):
        raise InvalidArgument(
            f'"{part.name}" has the dimensions {shown(dims)}, and the array has {shown(part.dims)}',
            "rename those of the array, put it under another name, or delete the variable",
        )


def ready_parts(parts: list[Part], orders: Mapping[str, tuple[str, ...]]) -> list[ReadyPut]:
    """Returns what is put, with dimensions in the order of the variables."""
    puts = []
    for part in parts:
        data, corner = part.ordered(orders[part.name])
        puts.append(ReadyPut(part.name, put_array(data), corner))
    return puts


class StepLabels:
    """Labels of the variables of a step that is written; they are sent with its end.

    A step has its own: what another step, or a put outside of steps, says does not matter.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._orders: dict[str, tuple[str, ...]] = {}
        self._texts: dict[tuple[str, str], str] = {}
        self._shared: dict[str, list[Part]] = {}

    def ready(self, parts: list[Part], shared: frozenset[str] = frozenset()) -> list[ReadyPut]:
        """Adds the labels of parts, and returns what is put.

        Args:
            parts: The parts of an array or a data set.
            shared: Names of those that several variables have as a coordinate.

        Raises:
            InvalidArgument: A variable has other dimensions in this step, or a shared coordinate
                other values.
        """
        with self._lock:
            orders = {part.name: self._orders.get(part.name, part.dims) for part in parts}
            for part in parts:
                check_names(part, orders[part.name])
            for part in parts:
                if part.name in shared:
                    for before in self._shared.get(part.name, []):
                        check_same(before, part)
            for part in parts:
                self._orders[part.name] = orders[part.name]
                self._texts[part.name, DIMS] = label_text(orders[part.name])
                for coordinate, variable in part.coords.items():
                    self._texts[part.name, coordinate_key(coordinate)] = label_text(variable)
                if part.name in shared:
                    self._texts["", coordinate_key(part.name)] = label_text(part.name)
                    self._shared.setdefault(part.name, []).append(part)
        return ready_parts(parts, orders)

    def items(self) -> list[tuple[str, str, str]]:
        """Returns the labels: variable (empty: the step), key, and JSON text."""
        with self._lock:
            return [(*key, text) for key, text in self._texts.items()]


def check_same(before: Part, part: Part) -> None:
    """Checks that two blocks of a coordinate have the same values where both are.

    Raises:
        InvalidArgument: They have not.
    """
    cuts: list[dict[str, slice]] = [{}, {}]
    for dim in part.dims:
        starts = before.lower[dim], part.lower[dim]
        ends = [
            start + block.values.sizes[dim]
            for start, block in zip(starts, (before, part), strict=True)
        ]
        first, last = max(starts), max(max(starts), min(ends))
        for cut, start in zip(cuts, starts, strict=True):
            cut[dim] = slice(first - start, last - start)
    one, other = before.values.isel(cuts[0]), part.values.isel(cuts[1])
    equal: Any = one.equals
    if one.size and not equal(other):
        raise InvalidArgument(
            f"the coordinate {part.name!r} has other values than in a data set that was put to the "
            "step before",
            f"rename it in one of them, as in dataset.rename({part.name}=...)",
        )
