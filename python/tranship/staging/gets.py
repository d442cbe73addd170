"""How a client gets boxes: by their corners, or whole versions by their own bounds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..arguments import check_seconds
from ..arrays.dtypes import dtype_of
from ..errors import Error, InvalidArgument, NotFound, Timeout
from .arguments import as_elements, check_shape, corner_of, is_empty, variable_name, which_version
from .futures import WAITS, Waits
from .reader import GET_S, Corner, Info, VariableBox, Version
from .waiting import QUIET_S, say_waiting

__all__ = ["ALONE_S", "Gets"]

NAMES_MAX = 20
"""Variables that a message lists."""
ALONE_S = 0.5
"""Seconds that it waits for a variable that nobody else could put."""
KNOWN_MAX = 4096
"""Names of variables that a client remembers to exist."""
LOOKS = 8
"""Versions that a get of the latest one tries, while each of them is discarded meanwhile."""


class Gets:
    """What the gets, variables and followers of a client have in common."""

    _core: _core.StagingClientCore
    _known: set[str]
    """Names of variables that exist."""

    def _get(
        self,
        name: str,
        version: Version,
        lower: Corner | None,
        upper: Corner | None,
        out: Any,
        seconds: float,
        waits: bool = True,
        copy: bool | None = True,
    ) -> Any:
        """Gets a box; returns `WAITS` if it would have to wait, and must not."""
        which, number = which_version(version)
        name = variable_name(name)
        if lower is None and upper is None:
            return self._get_whole(name, which, number, out, seconds, waits, copy)
        viewed = copy is not True and out is None
        if lower is None or upper is None or (out is None and not viewed):
            box = self._describe(name, lower, upper, seconds, waits)
            if box is None:
                return WAITS
            lower, upper = box.lower, box.upper
            out = box.empty() if out is None and not viewed else out
        first, last = corner_of("lower", lower), corner_of("upper", upper)
        if viewed and not is_empty(first, last):
            view = self._view_box(name, which, number, first, last, seconds, waits, copy)
            if view is not None:
                return view
        if viewed:
            box = self._describe(name, lower, upper, seconds, waits)
            if box is None:
                return WAITS
            out = box.empty()
        got = self._get_box(name, which, number, first, last, out, seconds, waits)
        return WAITS if got is None else out

    def _view_box(
        self,
        name: str,
        which: str,
        number: int,
        first: Sequence[int],
        last: Sequence[int],
        seconds: float,
        waits: bool,
        copy: bool | None,
    ) -> npt.NDArray[Any] | Waits | None:
        """Returns a view of a box in a server's memory; `WAITS` as `_get` does; None if there can
        be none and it may be copied.
        """
        try:
            view = self._core.view(name, which, number, list(first), list(last), seconds, waits)
        except Timeout as error:
            raise self._with_names(name, error) from None
        if view is None:
            return WAITS
        if isinstance(view, tuple):
            if copy is None:
                return None
            raise InvalidArgument(f"copy=False: {view[0]}", f"{view[1]}, with copy=None or True")
        memory: Any = view  # it has the buffer protocol, of which types say nothing yet
        return np.ndarray(view.shape, dtype_of(view.type), memory, strides=view.strides)

    def _get_box(
        self,
        name: str,
        which: str,
        number: int,
        first: Sequence[int],
        last: Sequence[int],
        out: Any,
        seconds: float,
        waits: bool,
    ) -> int | None:
        """Gets a box into `out`; returns None if it would have to wait, and must not."""
        if is_empty(first, last):
            check_shape(out, first, last)
            return number
        target, text = as_elements(out)
        try:
            return self._core.get(
                name, which, number, list(first), list(last), target, seconds, text, waits
            )
        except Timeout as error:
            raise self._with_names(name, error) from None

    def _get_whole(
        self,
        name: str,
        which: str,
        number: int,
        out: Any,
        seconds: float,
        waits: bool,
        copy: bool | None = True,
    ) -> Any:
        """Gets a version by its own bounds; returns `WAITS` as `_get` does."""
        end = time.monotonic() + seconds
        for attempt in range(LOOKS):
            left = max(end - time.monotonic(), 0.0) if attempt else seconds
            found = self._find_version(name, which, number, left, waits)
            if found is None:
                return WAITS
            version, box = found
            first, last = box.lower, box.upper
            viewed = out is None and copy is not True and not is_empty(first, last)
            left = max(end - time.monotonic(), 0.0)
            try:
                if viewed:
                    view = self._view_box(name, "exact", version, first, last, left, waits, copy)
                    if view is not None:
                        return view
                target = box.empty() if out is None else out
                got = self._get_box(name, "exact", version, first, last, target, left, waits)
            except NotFound:  # it was discarded since it was found
                if which == "exact" or attempt + 1 == LOOKS:
                    raise
            else:
                return WAITS if got is None else target
        raise AssertionError("the last attempt returns or raises")

    def _find_version(
        self, name: str, which: str, number: int, timeout: float, waits: bool = True
    ) -> tuple[int, VariableBox] | None:
        """Waits until a version is whole, and returns its number and its box; None if it would have
        to wait, and must not.
        """
        try:
            version, lower, upper, kind, _ = self._core.find_version(
                name, which, number, timeout, waits
            )
        except Timeout as error:
            raise self._with_names(name, error) from None
        if version is None:
            return None
        return version, VariableBox(tuple(lower), tuple(upper), dtype_of(kind))

    def _version_box(
        self, name: str, which: str, number: int, timeout: float
    ) -> tuple[int, VariableBox]:
        """Waits until a version is whole, and returns its number and its box."""
        found = self._find_version(name, which, number, timeout)
        assert found is not None, "a wait has an end"
        return found

    def _await_variable(self, name: str, timeout: float | None) -> float:
        """Waits until a variable exists, and returns the seconds that are left then.

        Raises:
            NotFound: No timeout was given, and nobody else is there who could put the variable.
        """
        seconds = GET_S if timeout is None else check_seconds("timeout", timeout)
        if name in self._known:
            return seconds
        end = time.monotonic() + seconds
        for first, limit in ((True, ALONE_S), (False, max(QUIET_S - ALONE_S, 0.0))):
            left = max(end - time.monotonic(), 0.0)
            try:
                self._describe(name, (), (), min(limit, left))
            except Timeout:
                if left <= limit:
                    raise
            else:
                return max(end - time.monotonic(), 0.0)
            if timeout is None and first:
                self._check_expected(name)
        say_waiting(f'the variable "{name}"', end - time.monotonic())
        self._describe(name, (), (), max(end - time.monotonic(), 0.0))
        return max(end - time.monotonic(), 0.0)

    def _check_expected(self, name: str) -> None:
        """Refuses to wait for a variable that nobody else could put.

        Raises:
            NotFound: There is no other client, and no such variable.
        """
        if name in self._known:
            return
        try:
            if self._core.clients(ALONE_S) > 1:
                return
            names = self._names()
        except Timeout:  # A server stands still: other clients may be connected.
            return
        if name not in names:
            raise NotFound(
                f'there is no variable "{name}", and no other client is connected to put it',
                f"{names_hint(names)}; to wait for it all the same, give a timeout",
            )

    def _describe(
        self,
        name: str,
        lower: Corner | None,
        upper: Corner | None,
        seconds: float,
        waits: bool = True,
    ) -> VariableBox | None:
        """Waits until a variable exists, and returns a box of it; None for a corner: that of all
        that was put. Returns None if it would have to wait, and must not.
        """
        first = None if lower is None else tuple(corner_of("lower", lower))
        last = None if upper is None else tuple(corner_of("upper", upper))
        bounds = first is None or last is None
        try:
            found = self._core.describe(name, bounds, seconds, waits)
        except Timeout as error:
            raise self._with_names(name, error) from None
        if found is None:
            return None
        info: Info = dict(found)
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known.add(name)
        return VariableBox(
            tuple(info["lower"]) if first is None else first,
            tuple(info["upper"]) if last is None else last,
            dtype_of(info["type"]),
        )

    def _box(
        self, name: str, lower: Corner | None, upper: Corner | None, timeout: float | None
    ) -> VariableBox:
        """Waits until a variable exists, and returns a box of it; None: the bounds of all that
        was put.
        """
        name = variable_name(name)
        left = self._await_variable(name, timeout)
        box = self._describe(name, lower, upper, left)
        assert box is not None, "a wait has an end"
        return box

    def _with_names(self, name: str, error: Timeout) -> Timeout:
        """Returns the error of a wait, which lists the variables if there is none of that name."""
        if "did not answer" in error.message:
            return error  # a server that does not answer does not list its variables either
        try:
            names = self._names()
        except Error:
            return error
        if name in names:
            return error
        return Timeout(error.message, names_hint(names))

    def _names(self) -> list[str]:
        return [str(info["name"]) for info in self._core.variables()]


def names_hint(names: list[str]) -> str:
    """Returns the hint for a variable that does not exist."""
    held = ", ".join(names[:NAMES_MAX]) + (", ..." if len(names) > NAMES_MAX else "")
    return f"look at its name: the variables are {held or 'none'}"
