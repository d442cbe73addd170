"""Steps that are read: many variables and attributes of one number, seen whole."""

from __future__ import annotations

import importlib
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn, SupportsIndex

import numpy as np
import numpy.typing as npt

from ..arguments import check_seconds, check_text, check_whole, guard_methods, shown
from ..arrays.dtypes import dtype_of
from ..closing import refuse_pickling
from ..errors import Error, InvalidArgument, NotFound, Timeout
from .arguments import (
    as_elements,
    box_of_index,
    check_box,
    corner_of,
    is_empty,
    whole_version,
)
from .attributes import StepAttributes, decoded, missing
from .following import Gaps, warn_skipped
from .futures import WAITS
from .reader import FIRST, GET_S, Corner, Info, Reader, VariableBox
from .versions import Followed

if TYPE_CHECKING:
    import xarray

    from .reductions import Summary
    from .xarray_labels import StepSource
    from .xarray_view import Chunks

__all__ = ["Step", "StepFollower", "StepVariable", "Steps"]

Start = SupportsIndex | Literal["first", "next", "latest"]
"""The first step that is read."""
Share = Literal["demand", "round-robin"]
"""How the members of a group share steps."""
QueueFull = Literal["block", "drop-oldest", "drop-newest", "spill"]
"""What happens to a step that is begun when the queue is full."""


@guard_methods
class StepVariable:
    """A variable of a whole step: ``step["energy"]``.

    It is indexed as a NumPy array, and ``numpy.asarray`` makes one of all of it.

    Attributes:
        name: Its name.
        step: The number of its step.
        dtype: Element type.
        lower: First indices of the box around what the step has of it.
        upper: One past the last indices.
        attributes: What the step has of them.
    """

    def __init__(self, step: Step, info: Info, attributes: Mapping[str, Any]) -> None:
        staging, number = step._staging, step.number
        self._staging = staging
        self._of = step
        self.name = str(info["name"])
        self.step = number
        self.dtype: np.dtype[Any] = dtype_of(info["type"])
        bounds = info["bounds"]
        if bounds is None:  # what was put has no elements
            lower, upper, _ = staging._core.version_extent(self.name, number, GET_S)
            bounds = lower, upper
        self.lower: tuple[int, ...] = tuple(bounds[0])
        self.upper: tuple[int, ...] = tuple(bounds[1])
        self.attributes = StepAttributes(f'"{self.name}" in step {number}', attributes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the box around what the step has of it."""
        return tuple(b - a for a, b in zip(self.lower, self.upper, strict=True))

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.lower)

    @property
    def boxes(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """The boxes that were put, by their first indices, without those that later ones hide."""
        boxes = self._staging._core.version_boxes(self.name, self.step, GET_S)
        return [(tuple(lower), tuple(upper)) for lower, upper in boxes]

    def get(
        self,
        lower: Corner | None = None,
        upper: Corner | None = None,
        out: Any = None,
        *,
        timeout: float = GET_S,
    ) -> Any:
        """Gets a box. Nothing is waited for but the servers' answers: the step is whole.

        Args:
            lower: First indices of the box; None: those of all that the step has.
            upper: One past its last indices; None: the same.
            out: Target, on the host or a GPU, with any strides; None: a new array.
            timeout: Seconds.

        Returns:
            `out`, or the new NumPy array.

        Raises:
            NotFound: The step does not have all of the box, or it was discarded.
            Timeout: A server did not answer for `timeout` seconds.
            PeerLost: A server has exited.
            InvalidArgument: `out` has another shape or element type, or an argument a wrong type.
        """
        first = self.lower if lower is None else tuple(corner_of("lower", lower))
        last = self.upper if upper is None else tuple(corner_of("upper", upper))
        seconds = check_seconds("timeout", timeout)
        target = VariableBox(first, last, self.dtype).empty() if out is None else out
        got = self._staging._get(self.name, self.step, first, last, target, seconds, False)
        if got is WAITS:  # for a disk, or for memory; or the step does not have it
            self._check_has(first, last)
            self._staging._get(self.name, self.step, first, last, target, seconds)
        return target

    def summary(
        self, lower: Corner | None = None, upper: Corner | None = None, *, timeout: float = GET_S
    ) -> Summary:
        """Returns the count, sum, mean, least and greatest of the numbers of a box.

        The servers compute them. Arguments and errors are as of `Staging.summary`; None: the box
        around all that the step has.
        """
        first, last = self._reduced(lower, upper)
        return self._staging.summary(self.name, self.step, first, last, timeout=timeout)

    def histogram(
        self,
        bins: SupportsIndex | Sequence[float] = 10,
        lower: Corner | None = None,
        upper: Corner | None = None,
        *,
        range: tuple[float, float] | None = None,
        timeout: float = GET_S,
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Counts how many numbers of a box lie in each bin, at the servers.

        Arguments and errors are as of `Staging.histogram`; None: the box around all that the step
        has.
        """
        first, last = self._reduced(lower, upper)
        return self._staging.histogram(
            self.name, bins, self.step, first, last, range=range, timeout=timeout
        )

    def coarsen(
        self,
        factors: Sequence[SupportsIndex],
        lower: Corner | None = None,
        upper: Corner | None = None,
        *,
        timeout: float = GET_S,
    ) -> npt.NDArray[np.float64]:
        """Returns the mean of each block of a box, which the servers compute.

        Arguments and errors are as of `Staging.coarsen`; None: the box around all that the step
        has.
        """
        first, last = self._reduced(lower, upper)
        return self._staging.coarsen(self.name, factors, self.step, first, last, timeout=timeout)

    def _reduced(
        self, lower: Corner | None, upper: Corner | None
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Returns the corners of a box that the step has."""
        first = self.lower if lower is None else tuple(corner_of("lower", lower))
        last = self.upper if upper is None else tuple(corner_of("upper", upper))
        if not is_empty(first, last):
            self._check_has(first, last)
        return first, last

    def _check_has(self, first: tuple[int, ...], last: tuple[int, ...]) -> None:
        """Looks whether the step has all of a box.

        Raises:
            NotFound: It does not.
        """
        core = self._staging._core
        try:
            core.wait(self.name, "exact", self.step, list(first), list(last), 1.0)
        except Timeout as error:
            if "lacks" not in error.message and "is not there" not in error.message:
                raise
            raise NotFound(
                f'step {self.step} does not have all of "{self.name}" from {first} to {last}',
                "look at its boxes",
            ) from None

    def __getitem__(self, index: Any) -> Any:
        """Gets ``variable[0:64, :, 7]``, as NumPy reads indices.

        Raises:
            OutOfRange: An index or a range leaves the bounds.
            InvalidArgument: The index has steps, lists of indices, or too many indices.
            NotFound: The step does not have all of the box, or it was discarded.
        """
        cuts = list(index) if isinstance(index, tuple) else [index]
        lower, upper, single = box_of_index(self.name, cuts, self.lower, self.upper)
        wanted = VariableBox(lower, upper, self.dtype)
        empty = any(a == b for a, b in zip(lower, upper, strict=True))
        found = wanted.empty() if empty else self.get(lower, upper)
        squeezed = np.squeeze(found, axis=single)
        return squeezed if any(cut is Ellipsis for cut in cuts) else squeezed[()]

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Any:
        """Gets all of it.

        Raises:
            InvalidArgument: ``copy=False``: it lies at the servers.
        """
        if copy is False:
            raise InvalidArgument(
                f'"{self.name}" lies at the servers, and is copied from there',
                "leave copy=False out",
            )
        return self.get() if dtype is None else self.get().astype(dtype)

    def to_xarray(
        self,
        lower: Corner | None = None,
        upper: Corner | None = None,
        *,
        chunks: Chunks = None,
        dims: Sequence[Hashable] | None = None,
    ) -> xarray.DataArray:
        """Returns it as a lazy xarray.DataArray, as `Staging.to_xarray` does.

        Args:
            lower: First indices of the box; None: those of all that the step has.
            upper: One past its last indices; None: the same.
            chunks: As of `Staging.to_xarray`.
            dims: Names of the dimensions; None: those that it was put with, with its coordinates,
                or else d0, d1 and so on.

        Raises:
            Error: xarray is not installed, or for `chunks` Dask.
            InvalidArgument: Not as many corners or names as the variable has dimensions.
            NotFound: The step has only a part of a coordinate, or was discarded.
        """
        view = xarray_module("xarray_view")
        first = self.lower if lower is None else tuple(corner_of("lower", lower))
        last = self.upper if upper is None else tuple(corner_of("upper", upper))
        if not len(first) == len(last) == len(self.lower):
            raise InvalidArgument(
                f'from {first} to {last} is no box of "{self.name}", which has {len(self.lower)} '
                "dimensions",
                "give a lower and an upper bound for each",
            )
        check_box(first, last)
        box = VariableBox(first, last, self.dtype)
        found: xarray.DataArray = view.open_variable(
            self._of._source(), self.name, box, chunks, dims
        )
        return found

    def __len__(self) -> int:
        """Returns the extent of the first dimension.

        Raises:
            TypeError: It has no dimensions.
        """
        if not self.shape:
            raise TypeError(f'"{self.name}" has no dimensions')
        return self.shape[0]

    def __bool__(self) -> bool:
        """True, whatever its shape is."""
        return True

    def __reduce__(self) -> NoReturn:
        refuse_pickling(self, "get its array, and send that")

    def __repr__(self) -> str:
        return f"<StepVariable {self.name!r} of step {self.step}: {self.dtype}, {self.shape}>"


class Step(Mapping[str, StepVariable]):
    """A whole step: ``for step in staging.steps(): step["energy"]``.

    It is a mapping of names to variables.

    Attributes:
        number: The number of the step.
        attributes: Its attributes.
    """

    def __init__(
        self,
        staging: Reader,
        number: int,
        variables: list[Info],
        attributes: list[tuple[str, str, str]],
        release: Callable[[], None] | None = None,
    ) -> None:
        self.number = number
        self._release = release
        self._staging = staging
        self._infos = {str(info["name"]): info for info in variables}
        self._attributes: dict[str, dict[str, Any]] = {}
        for variable, key, text in attributes:
            self._attributes.setdefault(variable, {})[key] = decoded(key, text)
        self.attributes = StepAttributes(f"step {number}", self._attributes.get("", {}))

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of its variables, in their order."""
        return tuple(self._infos)

    def release(self) -> None:
        """Says that the group of readers, for which this step was taken, needs it no more.

        The next round of the loop says the same. Without a group it does nothing.
        """
        if self._release is not None:
            self._release()
            self._release = None

    def __getitem__(self, name: str) -> StepVariable:
        if name not in self._infos:
            raise missing(f"step {self.number}", "variable", name, self._infos)
        return StepVariable(self, self._infos[name], self._attributes.get(name, {}))

    def get_all(
        self,
        names: Iterable[str] | None = None,
        out: Mapping[str, Any] | None = None,
        *,
        timeout: float = GET_S,
    ) -> dict[str, Any]:
        """Gets all that the step has of many variables: ``arrays = step.get_all()``.

        They are got together, so that many small ones cost little more than one of as many bytes.

        Args:
            names: Names of variables; None: all.
            out: Targets by name, as of `StepVariable.get`; the others are new NumPy arrays.
            timeout: Seconds for each answer of a server.

        Returns:
            The arrays by name, in the order of `names`.

        Raises:
            NotFound: The step has no such variable, or not all of the box around what it has of
                one; or it was discarded.
            InvalidArgument: `out` has an array that does not fit, or a name that is not got.
            Error: As of `StepVariable.get`.
        """
        seconds = check_seconds("timeout", timeout)
        if isinstance(names, str):
            names = [names]
        wanted = [self[name] for name in (self if names is None else names)]
        targets = {} if out is None else dict(out)
        got = {one.name: targets.pop(one.name, None) for one in wanted}
        if targets:
            raise InvalidArgument(
                f"out has {shown(next(iter(targets)))}, which is not got",
                "name the same variables in both",
            )
        together = []
        for one in wanted:
            if got[one.name] is None:
                got[one.name] = VariableBox(one.lower, one.upper, one.dtype).empty()
            if all(one.shape):
                array, text = as_elements(got[one.name])
                together.append((one.name, list(one.lower), list(one.upper), array, text))
        for number in self._staging._core.get_all(self.number, together, seconds):
            name = together[number][0]
            self[name].get(out=got[name], timeout=timeout)
        return got

    def to_xarray(
        self, variables: Sequence[str] | None = None, *, chunks: Chunks = None
    ) -> xarray.Dataset:
        """Returns the step as a lazy xarray.Dataset, which gets values when they are used.

        Its coordinates are there at once. Dimensions of a variable without names are called
        ``energy_d0``, ``energy_d1`` and so on. The attributes of the step are those of the data
        set.

        Args:
            variables: Names of variables, which come with the coordinates along their dimensions;
                None: all.
            chunks: As of `Staging.to_xarray`.

        Raises:
            InvalidArgument: Two variables lie elsewhere along a dimension of the same name, or have
                coordinates of the same name with other values: name those that fit.
            Error: xarray is not installed, or for `chunks` Dask.
            NotFound: The step has only a part of a coordinate, or was discarded; or it has no such
                variable.
        """
        xarray_step = xarray_module("xarray_step")
        names = [variables] if isinstance(variables, str) else variables
        every = {name: self[name] for name in [*self, *(names or ())]}
        boxes = {key: VariableBox(one.lower, one.upper, one.dtype) for key, one in every.items()}
        found: xarray.Dataset = xarray_step.open_dataset(
            self._source(), boxes, self.attributes, names, chunks
        )
        return found

    def _source(self) -> StepSource:
        """Returns the step as coordinates are read from it."""
        source: StepSource = xarray_module("xarray_labels").StepSource(
            self._staging, self.number, self._infos, self._attributes
        )
        return source

    def __iter__(self) -> Iterator[str]:
        return iter(self._infos)

    def __len__(self) -> int:
        return len(self._infos)

    def __contains__(self, name: object) -> bool:
        return name in self._infos

    def __bool__(self) -> bool:
        """True, whether it has variables or not."""
        return True

    def __reduce__(self) -> NoReturn:
        refuse_pickling(self, "get its arrays, and send these")

    def __repr__(self) -> str:
        return f"<Step {self.number}: {', '.join(self._infos) or 'no variables'}>"


def xarray_module(name: str) -> Any:
    """Returns one of the modules of this folder that need xarray.

    Raises:
        Error: xarray is not installed.
    """
    try:
        return importlib.import_module(f".{name}", __package__)
    except ImportError as error:
        raise Error(f"to_xarray needs xarray ({error})", "pip install xarray") from error


class StepFollower:
    """Waits for one whole step after another, in rising order.

    Args:
        staging: Client that is used.
        start: The first step that is read.
        every: How many whole steps to go on each time.
        gaps: What `report` does about broken steps.
        group: Group of readers that the client joins; None: none.
        share: How its members share steps.

    Raises:
        InvalidArgument: An argument has a wrong type.
    """

    def __init__(
        self,
        staging: Reader,
        start: Start,
        every: SupportsIndex,
        gaps: Gaps,
        group: str | None,
        share: Share,
    ) -> None:
        if gaps not in ("skip", "error"):
            raise InvalidArgument(f"gaps={shown(gaps)} is no choice", 'give "skip" or "error"')
        self._staging = staging
        self._every = check_whole("every", every, least=1, bits=63)
        self._gaps = gaps
        self._passed = 0
        self._skipped: list[tuple[int, str]] = []
        self._after = FIRST
        if isinstance(start, str):
            if start not in ("first", "next", "latest"):
                raise InvalidArgument(
                    f"start={shown(start)} is no start",
                    'give "first", "next", "latest", or the number of a step',
                )
            if start != "first":
                latest = staging._core.find_step("latest", 0, GET_S, False)[1]
                if latest is not None:
                    self._after = latest if start == "next" else latest - 1
        else:
            self._after = whole_version(start, ', "first", "next" or "latest"') - 1
        if share not in ("demand", "round-robin"):
            raise InvalidArgument(
                f"share={shown(share)} is no choice", 'give "demand" or "round-robin"'
            )
        self._group = None if group is None else check_text("group", group)
        self._taken: Step | None = None
        if self._group is not None:
            staging._core.join_readers(self._group, share, self._after)
            # Steps refer to this, too: the group is left when neither is used any more.
            self._leaving = weakref.finalize(self, leave_quietly, staging, self._group)
            self._leaving.atexit = False

    def leave(self) -> None:
        """Leaves the group; a step that was not released goes to another member."""
        group, self._group = self._group, None
        if group is None:
            return
        self._leaving.detach()
        if not (self._staging.closed or self._staging.forked):
            self._staging._core.leave_readers(group)

    def leave_quietly(self) -> None:
        """Leaves the group without waiting."""
        if self._group is not None:
            self._group = None
            self._leaving()

    def _release(self, group: str, step: int) -> None:
        if self._group is not None:
            self._staging._core.release_step(group, step)

    def wait(self, timeout: float) -> Step | None:
        """Waits for the next step. Call `report` afterwards.

        Returns:
            None if steps were passed by, and nothing is known of what comes after them.

        Raises:
            Timeout: No step came for so many seconds.
            Closed: All processes that wrote steps have ended.
            PeerLost: One of them has died, or a server has exited.
        """
        core, group = self._staging._core, self._group
        if self._taken is not None:
            self._taken.release()
            self._taken = None
        step_id, number, variables, attributes, skipped = (
            core.find_step("next", self._after, timeout)
            if group is None
            else core.take_step(group, timeout)
        )
        self._skipped += skipped
        if skipped:
            self._after = skipped[-1][0]
        if number is None:
            return None
        self._after = number
        self._passed += 1
        release = None if group is None else partial(self._release, group, step_id)
        step = Step(self._staging, number, variables, attributes, release)
        if group is not None:
            self._taken = step
        return None if (self._passed - 1) % self._every else step

    def report(self) -> None:
        """Warns of the steps that were passed by, or raises for the first of them.

        Raises:
            NotFound: A step is broken, and ``gaps="error"``.
        """
        skipped, self._skipped = self._skipped, []
        warn_skipped("step", [why for _, why in skipped], self._gaps)


def leave_quietly(staging: Reader, group: str) -> None:
    """Leaves a group without waiting, for an iteration that nobody uses any more."""
    try:
        if not (staging.closed or staging.forked):
            staging._core.leave_readers_later(group)
    except Error:
        return  # the client was closed meanwhile


class Steps(Followed[Step]):
    """The whole steps, in rising order, as an iterator for loops and for coroutines.

    `Staging.steps` makes one. It is also a context manager, which closes it.
    """

    def __init__(self, staging: Reader, follower: StepFollower, timeout: float) -> None:
        super().__init__(staging, "the next step", follower, timeout)
        self._follower_of_steps = follower

    def __enter__(self) -> Steps:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the iteration, and leaves the group: a step that was not released goes to another
        member of it.
        """
        super().close()
        self._follower_of_steps.leave()

    def _end(self, failure: BaseException) -> None:
        if not isinstance(failure, KeyboardInterrupt):  # it ends, and holds no step any more
            self._follower_of_steps.leave_quietly()
        super()._end(failure)
