"""Steps that are written: seen whole, or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, SupportsIndex

from .. import _core
from .._core import Event
from ..arguments import check_seconds, guard_methods, shown
from ..closing import refuse_pickling
from ..errors import Error, InvalidArgument
from .arguments import put_array, variable_name
from .attributes import PendingAttributes, encoded
from .futures import Awaitable
from .labelled_puts import ReadyPut, StepLabels, is_dataset, taken_apart
from .offers import Offer
from .reader import Lower

if TYPE_CHECKING:
    import xarray

    from .xarray_parts import Part

__all__ = ["StepWriter", "VariableWriter"]


class Putter(Protocol):
    """The part of a client that writes steps."""

    _core: _core.StagingClientCore

    @property
    def forked(self) -> bool:
        """Whether this process is a fork of the one that opened the client."""
        ...

    def _put_in_step(
        self,
        step: int,
        puts: Sequence[ReadyPut],
        version: int,
        seconds: float,
        after: Event | Iterable[Event] | None,
        checksum: bool,
    ) -> None: ...

    def _put_async_in_step(
        self,
        step: int,
        puts: Sequence[ReadyPut],
        version: SupportsIndex,
        seconds: float,
        after: Event | Iterable[Event] | None,
        checksum: bool,
    ) -> Awaitable[None]: ...

    def _offer(
        self,
        name: str,
        version: SupportsIndex,
        array: Any,
        lower: Lower | None,
        after: Event | Iterable[Event] | None,
        checksum: bool,
        seconds: float,
        step: int,
    ) -> Offer: ...


@guard_methods
class VariableWriter:
    """A variable of a step that is being written: ``step["energy"]``.

    Attributes:
        name: Its name.
        attributes: What the step has of them; they are sent with its end.
    """

    def __init__(self, step: StepWriter, name: str, attributes: PendingAttributes) -> None:
        self._step = step
        self.name = name
        self.attributes = attributes

    def put(
        self,
        array: Any,
        lower: Lower | None = None,
        *,
        timeout: float = 30.0,
        after: Event | Iterable[Event] | None = None,
        checksum: bool = False,
    ) -> None:
        """Puts an array as a box of the variable. Arguments and errors are as of `Staging.put`."""
        self._step.put(self.name, array, lower, timeout=timeout, after=after, checksum=checksum)

    def put_async(
        self,
        array: Any,
        lower: Lower | None = None,
        *,
        timeout: float = 30.0,
        after: Event | Iterable[Event] | None = None,
        checksum: bool = False,
    ) -> Awaitable[None]:
        """Begins a `put` and returns a future; the step ends when it has, or fails as it does."""
        return self._step.put_async(
            self.name, array, lower, timeout=timeout, after=after, checksum=checksum
        )

    def offer(
        self,
        array: Any,
        lower: Lower | None = None,
        *,
        timeout: float = 30.0,
        after: Event | Iterable[Event] | None = None,
        checksum: bool = False,
    ) -> Offer:
        """Offers an array as a box of the variable. Arguments and errors are as of `Staging.offer`.

        It is seen with the step, whole. The offer ends if the step breaks.
        """
        seconds = check_seconds("timeout", timeout)
        self._step._check_open()
        return self._step._staging._offer(
            self.name, self._step.number, array, lower, after, checksum, seconds, self._step._id
        )

    def __repr__(self) -> str:
        return f"<VariableWriter {self.name!r} of {self._step!r}>"


@guard_methods
class StepWriter:
    """A step that this process writes, alone or with others: ``with staging.step(3) as step:``.

    Readers see all of it once each of its writers has left its ``with`` block, and nothing before.
    Where a writer leaves the block by an exception, or dies in it, nothing of the step is kept, and
    readers pass it by. `Staging.step` makes one.

    Attributes:
        number: The number of the step, which is the version of its variables.
        attributes: Its attributes, as a dictionary; they are sent with its end.
        dropped: Whether it was dropped when it began, since as many steps are kept as the queue has
            (`Staging.define_steps`): what is put within it has no effect.
    """

    def __init__(self, staging: Putter, number: int, writers: int, timeout: float) -> None:
        self.number = number
        self.attributes = PendingAttributes()
        self._staging = staging
        self._writers = writers
        self._timeout = timeout
        self._id = 0
        self._ended = False
        self.dropped = False
        self._variables: dict[str, PendingAttributes] = {}
        self._labels = StepLabels()
        self._begun: list[Future[None]] = []

    def __enter__(self) -> StepWriter:
        """Begins the step. Waits while as many steps are kept as the queue has, if it says so.

        Raises:
            Timeout: The queue was full for so long; the message names the readers that have not
                released its lowest step.
            InvalidArgument: It is whole; a higher one was begun before; it has another number of
                writers; or this client has begun it before.
            Error: There are too many steps: a limit of the server is named.
            PeerLost: The first server has exited.
        """
        if self._id or self._ended:
            raise InvalidArgument(
                f"step {self.number} was begun before", "make another one, with staging.step()"
            )
        core = self._staging._core
        self._id = core.begin_step(self.number, self._writers, self._timeout)
        self.dropped = core.is_dropped(self._id)
        return self

    def __exit__(self, kind: type[BaseException] | None = None, *rest: object) -> None:
        if self._ended or not self._id:
            return
        if kind is not None:
            self._give_up(reason_of(kind, rest[0] if rest else None))
            return
        self.end()

    def end(self, *, timeout: float | None = None) -> None:
        """Ends this process's part of the step, as leaving the ``with`` block does.

        Waits for puts that were begun with `put_async`.

        Args:
            timeout: Seconds for the servers' answers; None: that of the step.

        Raises:
            NotFound: The step is broken: another writer has died in it, or given it up.
            InvalidArgument: Another writer has set an attribute to another value.
            Error: A put that was begun has failed, or a limit of the server was reached; the step
                was given up.
            Timeout: The first server did not answer; the step was given up.
        """
        seconds = self._timeout if timeout is None else check_seconds("timeout", timeout)
        self._check_open()
        try:
            for put in self._begun:
                if self._staging.forked:
                    break  # the call below says so
                put.result()
            for variable, values in ("", self.attributes), *self._variables.items():
                for key, value in values.items():
                    name, text = encoded(key, value)
                    self._staging._core.set_step_attribute(self._id, variable, name, text)
            for label in self._labels.items():
                self._staging._core.set_step_attribute(self._id, *label)
        except BaseException as failure:
            self._give_up(reason_of(type(failure), failure))
            raise
        self._ended = True
        self._staging._core.end_step(self._id, seconds)

    def give_up(self, why: str = "it was given up") -> None:
        """Breaks the step: nothing of it is kept, and readers pass it by.

        Args:
            why: What they are told.
        """
        self._check_open()
        self._give_up(why)

    def _give_up(self, why: str) -> None:
        """Breaks the step, whatever fails: a client that cannot say so is lost, which breaks it."""
        self._ended = True
        try:
            self._staging._core.give_up_step(self._id, why)
        except Error:
            pass
        finally:
            if not self._staging.forked:  # a child has no thread that would end them
                wait(self._begun)

    def _check_open(self) -> None:
        if self._ended:
            raise InvalidArgument(
                f"step {self.number} has ended", "put what belongs to it before its end"
            )
        if not self._id:
            raise InvalidArgument(
                f"step {self.number} has not begun",
                f"write it as in: with staging.step({self.number}) as step: ...",
            )

    def put(
        self,
        name: str,
        array: Any,
        lower: Lower | None = None,
        *,
        timeout: float = 30.0,
        after: Event | Iterable[Event] | None = None,
        checksum: bool = False,
    ) -> None:
        """Puts an array as a box of a variable. Arguments and errors are as of `Staging.put`.

        Raises:
            InvalidArgument: The step has ended, or has not begun.
            NotFound: It is broken: another writer has died in it, or given it up.
        """
        seconds = check_seconds("timeout", timeout)
        puts = self._ready(name, array, lower)
        self._staging._put_in_step(self._id, puts, self.number, seconds, after, checksum)

    def put_all(
        self,
        arrays: Mapping[str, Any],
        lower: Mapping[str, Lower] | None = None,
        *,
        timeout: float = 30.0,
        after: Event | Iterable[Event] | None = None,
        checksum: bool = False,
    ) -> None:
        """Puts an array to each of many variables: ``step.put_all({"energy": e, "time": t})``.

        They are put together, so that many small ones cost little more than one of as many bytes.

        Args:
            arrays: The arrays, by the names of their variables; anything that `put` takes.
            lower: First indices of their boxes, by the same names; those that are left out are all
                0.
            timeout: Seconds.
            after: Events after which the arrays may be read.
            checksum: As of `Staging.put`.

        Raises:
            InvalidArgument: As of `put`; `lower` has a name that `arrays` has not. Nothing was put.
            Error: As of `put`. Some of them may have been put: give the step up.
        """
        seconds = check_seconds("timeout", timeout)
        if not isinstance(arrays, Mapping):
            raise InvalidArgument(
                f"arrays={shown(arrays)} is no dictionary",
                'give arrays by name, as in step.put_all({"energy": array})',
            )
        corners = {} if lower is None else dict(lower)
        puts: list[ReadyPut] = []
        for name, array in arrays.items():
            puts += self._ready(variable_name(name), array, corners.pop(name, None))
        if corners:
            raise InvalidArgument(
                f"lower={shown(lower)} names {shown(next(iter(corners)))}, which has no array",
                "name the same variables in both",
            )
        if puts:
            self._staging._put_in_step(self._id, puts, self.number, seconds, after, checksum)

    def put_async(
        self,
        name: str,
        array: Any,
        lower: Lower | None = None,
        *,
        timeout: float = 30.0,
        after: Event | Iterable[Event] | None = None,
        checksum: bool = False,
    ) -> Awaitable[None]:
        """Begins a `put` and returns a future; the step ends when it has, or fails as it does."""
        seconds = check_seconds("timeout", timeout)
        puts = self._ready(name, array, lower)
        begun = self._staging._put_async_in_step(
            self._id, puts, self.number, seconds, after, checksum
        )
        self._begun.append(begun)
        return begun

    def put_dataset(
        self,
        dataset: xarray.Dataset,
        lower: Mapping[str, SupportsIndex] | None = None,
        *,
        timeout: float = 30.0,
        checksum: bool = False,
    ) -> None:
        """Puts all of an xarray.Dataset: each variable and each coordinate under its own name.

        Its attributes become those of the step. Coordinates are shared: where data sets, or blocks
        of one, have a coordinate of the same name, it has the same values in the same place.

        Args:
            dataset: The data set; arrays of Dask are computed.
            lower: First indices of its box by dimension, as in ``{"x": 128}``; None: all 0.
            timeout: Seconds.
            checksum: As of `Staging.put`.

        Raises:
            InvalidArgument: Something does not fit the variables, or they cannot have it: the text
                names it. Nothing of the data set was put.
            Error: As of `Staging.put`.
        """
        seconds = check_seconds("timeout", timeout)
        self._check_open()
        if not is_dataset(dataset):
            raise InvalidArgument(
                f"dataset={shown(dataset)} is no xarray.Dataset",
                'put an array by its name, as in step["energy"].put(array)',
            )
        from .xarray_parts import parts_of_dataset

        taken = parts_of_dataset(dataset, lower)
        puts = self._labels.ready(taken.parts, taken.coords)
        self._add_attributes(taken.parts)
        self.attributes.update({key: json.loads(text) for key, text in taken.attrs.items()})
        self._staging._put_in_step(self._id, puts, self.number, seconds, None, checksum)

    def _ready(self, name: str, array: Any, lower: Lower | None) -> list[ReadyPut]:
        """Returns what is put for an array, the values last."""
        self._check_open()
        parts = taken_apart(name, array, lower)
        if parts is None:
            return [ReadyPut(name, put_array(array), lower)]
        puts = self._labels.ready(parts)
        self._add_attributes(parts)
        return puts

    def _add_attributes(self, parts: list[Part]) -> None:
        for part in parts:
            if part.attrs:
                attributes = self._variables.setdefault(part.name, PendingAttributes())
                attributes.update({key: json.loads(text) for key, text in part.attrs.items()})

    def __getitem__(self, name: str) -> VariableWriter:
        """Returns a variable to put to, which need not exist yet."""
        return VariableWriter(
            self, variable_name(name), self._variables.setdefault(name, PendingAttributes())
        )

    def __iter__(self) -> NoReturn:
        """Refused: a step that is being written cannot be read."""
        raise TypeError(
            f"step {self.number} is being written; read whole ones, as in "
            "for step in staging.steps(): ..."
        )

    def __reduce__(self) -> NoReturn:
        refuse_pickling(self, "open a Staging in each process, and write the same step there")

    def __repr__(self) -> str:
        state = "ended" if self._ended else "open" if self._id else "not begun"
        return f"<StepWriter {self.number}: {state}>"


def reason_of(kind: type[BaseException], failure: object) -> str:
    """Returns what readers are told of an exception within a step."""
    try:
        text = f"{kind.__name__}: {failure}"
        text.encode()
    except Exception:  # the exception's own text failed
        return kind.__name__
    return text
