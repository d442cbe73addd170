"""One variable of the staging service, indexed as NumPy users write it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, SupportsIndex, cast

import numpy as np
import numpy.typing as npt

from ..arguments import check_seconds, guard_methods
from ..closing import refuse_pickling
from ..errors import Closed, InvalidArgument, OutOfRange, PeerLost, Timeout
from .arguments import box_of_index, variable_name, which_version, whole_version
from .attributes import Attributes
from .following import Gaps, VersionFollower
from .reader import GET_S, Corner, Reader, VariableBox, Version
from .versions import Versions

__all__ = ["Variable"]


@guard_methods
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

    def _bounds_for(
        self, version: Version, cuts: Sequence[Any], box: VariableBox
    ) -> tuple[Version, VariableBox]:
        """Returns the version, and the bounds that an index is read with.

        They are the version's own, once it is whole, if the index leaves a bound open. A part of a
        version that is not whole may be there: it is read with `box`, that of all that was put.
        """
        which, number = which_version(version)
        if all(map(is_open, cuts)):
            return self.staging._version_box(self.name, which, number, GET_S)
        if len(cuts) == len(box.lower) and all(map(is_bounded, cuts)):
            return version, box
        try:
            return self.staging._version_box(self.name, which, number, 0.0)
        except (Timeout, Closed, PeerLost):
            return version, box

    def bounds(
        self, version: Version, *, timeout: float = 30.0
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Returns the first indices of what was put to a version, and one past the last ones.

        Waits until something was put to it; more may still come. What was put need not fill the
        box around it: see `boxes`. A version to which only arrays without elements were put has a
        box without elements.

        Args:
            version: A version, or "latest": the highest one that is whole.
            timeout: Seconds.

        Raises:
            Timeout: Nothing was put to the version for `timeout` seconds.
            NotFound: It was discarded.
            Closed: Nothing was put to it, and all processes that put to the variable have ended.
            PeerLost: One of them has died, or a server has exited.
            InvalidArgument: An argument has a wrong type.
        """
        number, seconds = self._number(version, timeout)
        lower, upper, _ = self.staging._core.version_extent(self.name, number, seconds)
        return tuple(lower), tuple(upper)

    def boxes(
        self, version: Version, *, timeout: float = 30.0
    ) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Returns the boxes that were put to a version, by their first indices, as `bounds` does.

        Boxes may overlap; those that a later put hides whole are left out, as are empty ones.
        """
        number, seconds = self._number(version, timeout)
        boxes = self.staging._core.version_boxes(self.name, number, seconds)
        return [(tuple(lower), tuple(upper)) for lower, upper in boxes]

    def _number(self, version: Version, timeout: float) -> tuple[int, float]:
        which, number = which_version(version)
        seconds = check_seconds("timeout", timeout)
        if which != "exact":
            number, _ = self.staging._version_box(self.name, which, number, seconds)
        return number, seconds

    @property
    def attributes(self) -> Attributes:
        """The attributes of the variable, which need not exist yet."""
        return Attributes(self.staging._core, self.name)

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
        The bounds are the version's own once it is whole, else those of all that was put.

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
        version, box = self._bounds_for(self._version(given), cuts, box)
        lower, upper, single = box_of_index(self.name, cuts, box.lower, box.upper)
        wanted = VariableBox(lower, upper, box.dtype)
        if any(a == b for a, b in zip(lower, upper, strict=True)):
            found = wanted.empty()
        else:
            found = self.staging.get(self.name, version, lower, upper)
        squeezed = np.squeeze(found, axis=single)
        # As NumPy has it: a number for indices alone, an array of no dimensions with an ellipsis.
        return squeezed if any(cut is Ellipsis for cut in cuts) else squeezed[()]

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
        gaps: Gaps = "skip",
    ) -> Versions:
        """Follows the variable: yields each version, in rising order, once it is whole.

        Loops of coroutines follow it, too: ``async for version in variable.versions()``.

        With a box, or a domain, a version is whole when what was put covers it. Otherwise it has
        its own bounds, and is whole when what was put covers the box around it, and each process
        that puts to the variable has finished it: it has put as many boxes as to the versions
        before, or has put to a higher version, or has said that it has `Staging.nothing` there.
        A version that covers all that was ever put to the variable waits only for those who have
        announced themselves and put no box yet. Versions that are put below one that has come
        are not yielded.

        A version that will never be whole is passed by; whole ones never are. That is known when
        all processes that put to the variable have ended, or one of them has that had not put to
        the version, and the others have finished it. Ends when all processes have closed.

        Args:
            after: Version above which to begin; None: the lowest that is held comes first.
            lower: First indices of the box; None for both corners: each version's own bounds, or
                the domain; None for one: that of all that was put when the first version came.
            upper: One past its last indices; None: the same.
            timeout: Seconds to wait for each version.
            gaps: What happens when a version will never be whole: "skip" warns with a
                `SkippedVersionWarning` that names it, "error" raises.

        Raises:
            NotFound: With ``gaps="error"``: a version will never be whole.
            PeerLost: A process that put to the variable has died, and all whole versions have come;
                or a server has exited.
            Timeout: No version came for `timeout` seconds.
            Closed: This client was closed.
            InvalidArgument: An argument has a wrong type; raised by the call itself.
        """
        seconds = check_seconds("timeout", timeout)
        follower = VersionFollower(self.staging, self.name, after, lower, upper, gaps)
        return Versions(self.staging, self.name, follower, seconds)


def is_open(cut: Any) -> bool:
    """Returns whether a part of an index takes all that there is."""
    return cut is Ellipsis or (isinstance(cut, slice) and cut == slice(None))


def is_bounded(cut: Any) -> bool:
    """Returns whether a part of an index means the same whatever the bounds are."""
    ends = (cut.start, cut.stop) if isinstance(cut, slice) else (cut,)
    return all(isinstance(end, int | np.integer) and end >= 0 for end in ends)
