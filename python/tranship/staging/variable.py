"""One variable of the staging service, indexed as NumPy users write it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn, SupportsIndex, cast

import numpy as np
import numpy.typing as npt

from ..arguments import check_seconds
from ..closing import refuse_pickling
from ..errors import Closed, InvalidArgument, OutOfRange, Timeout
from .arguments import box_of_index, variable_name, which_version, whole_version
from .reader import FIRST, Corner, Reader, VariableBox, Version
from .waiting import QUIET_S, on_terminal, say_waiting

__all__ = ["Variable"]


class Variable:
    """A variable of a staging service: ``staging["energy"]``.

    ``variable[version, 0:64, :, 7]`` gets a box, ``version in variable`` looks whether a version is
    held, and `versions` follows a running producer. ``shape`` is that of the domain, or of all that
    was put so far. Properties ask the servers each time, and wait until the variable exists: 30
    seconds, or half a one if no other client is connected that could put it.
    """

    def __init__(self, staging: Reader, name: str) -> None:
        self.staging = staging
        self.name = variable_name(name)

    def _bounds(self) -> VariableBox:
        return self.staging._box(self.name, None, None, None)

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the domain, or of the box around all that was put so far."""
        box = self._bounds()
        return tuple(b - a for a, b in zip(box.lower, box.upper, strict=True))

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        return self._bounds().dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._bounds().lower)

    def __getitem__(self, index: Any) -> Any:
        """Gets ``variable[version, 0:64, :, 7]``: a version (or "latest"), then slices or indices.

        Indices are as NumPy has them: negative ones count from the end, unless the variable's own
        indices are negative. So do versions: -1 is the latest one, unless versions are negative.
        The bounds are those of the domain, or of all that was put.

        Returns:
            An array, or an element if each dimension has a single index.

        Raises:
            OutOfRange: An index, a range or a version leaves the bounds.
            InvalidArgument: The index has steps, lists of indices, more indices than the variable
                has dimensions, or a version that is neither a whole number nor "latest".
            NotFound: There is no such variable, and nobody to put it; or the version was discarded.
            Timeout: A part was still missing after 30 seconds.
        """
        given, *cuts = index if isinstance(index, tuple) and index else (index,)
        which_version(given)
        box = self._bounds()
        lower, upper, single = box_of_index(self.name, cuts, box.lower, box.upper)
        version = self._version(given)
        wanted = VariableBox(lower, upper, box.dtype)
        if any(a == b for a, b in zip(lower, upper, strict=True)):
            found = wanted.empty()
        else:
            found = self.staging.get(self.name, version, lower, upper)
        return np.squeeze(found, axis=single)[()]

    def _version(self, given: Any) -> Version:
        """Returns the version that an index stands for.

        Raises:
            OutOfRange: It counts from the end, and there are not as many.
        """
        if isinstance(given, str) or whole_version(given) >= 0:
            return cast(Version, given)
        number = whole_version(given)
        held = self._held()
        if any(version < 0 for version in held):
            return number
        if -number > len(held):
            raise OutOfRange(
                f'"{self.name}" has {len(held)} versions, and {number} was asked for',
                "give the number of a version, or wait for one with versions()",
            )
        return "latest" if number == -1 else held[number]

    def _held(self) -> list[int]:
        """Returns the versions that are held now, in rising order."""
        held = [info["versions"] for info in self.staging.ls() if info["name"] == self.name]
        return sorted(one["version"] for versions in held for one in versions)

    def __contains__(self, version: object) -> bool:
        """Returns whether something of that version is held now."""
        try:
            number = whole_version(version)
        except InvalidArgument:
            return False
        return number in self._held()

    def __iter__(self) -> NoReturn:
        """Refused: versions may still be coming."""
        raise TypeError(
            f"a Variable cannot be iterated over; follow it, as in for version in "
            f'staging["{self.name}"].versions(): ...'
        )

    def __len__(self) -> int:
        """Refused: versions may still be coming."""
        raise TypeError(
            f"a Variable has no length, since versions may still be put; take its shape, or "
            f'len(staging["{self.name}"]["latest"])'
        )

    def __bool__(self) -> bool:
        """True, whether the variable exists or not."""
        return True

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Any:
        """Refused: a variable has versions."""
        raise TypeError(
            f'a Variable has versions; take one, as in staging["{self.name}"]["latest", ...]'
        )

    def __reduce__(self) -> NoReturn:
        refuse_pickling(self, "open a Staging in each process, and take the variable from it")

    def __repr__(self) -> str:
        return f"<Variable {self.name!r} of {self.staging!r}>"

    def versions(
        self,
        after: SupportsIndex | None = None,
        *,
        lower: Corner | None = None,
        upper: Corner | None = None,
        timeout: float = 3600.0,
    ) -> Iterator[int]:
        """Follows the variable: yields each version, in rising order, once its box is complete.

        Ends when all processes that put to the variable have closed.

        Args:
            after: Version above which to begin; None: the lowest that is held comes first.
            lower: First indices of the box; None: of all that was put when the first version came.
            upper: One past its last indices; None: the same.
            timeout: Seconds to wait for each version.

        Raises:
            PeerLost: A process that put to the variable has died, or a server has exited.
            Timeout: No version came for `timeout` seconds.
            Closed: This client was closed.
            InvalidArgument: An argument has a wrong type; raised by the call itself.
        """
        begin = FIRST if after is None else whole_version(after)
        return self._follow(begin, lower, upper, check_seconds("timeout", timeout))

    def _follow(
        self, version: int, lower: Corner | None, upper: Corner | None, timeout: float
    ) -> Iterator[int]:
        box = self.staging._box(self.name, lower, upper, timeout)
        while True:
            try:
                version = self._next(version, box, timeout)
            except Closed:
                if self.staging.closed:
                    raise
                return
            yield version

    def _next(self, version: int, box: VariableBox, timeout: float) -> int:
        """Waits for the version of a box after another one; says so on a terminal."""
        begin = version, list(box.lower), list(box.upper)
        if on_terminal() and timeout > QUIET_S:
            try:
                return self.staging._core.wait(self.name, "next", *begin, QUIET_S)
            except Timeout:
                say_waiting(f'the next version of "{self.name}"', timeout)
                timeout -= QUIET_S
        return self.staging._core.wait(self.name, "next", *begin, timeout)
