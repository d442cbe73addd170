"""The base class of instances, files, arrays of other processes and arrays on GPUs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NoReturn, Self, SupportsIndex, cast

import numpy as np
import numpy.typing as npt

from .. import _core
from ..arguments import element_type, guard_methods
from ..closing import refuse_pickling
from ..errors import Error, InvalidArgument, NotFound
from .assignment import assign, copy_and_wait
from .dtypes import dtype_fields, numpy_dtype
from .elements import Elements
from .indexing import Entry, field_names, parse_index
from .points import Points, numbered, record_of, with_strides
from .selection import Selection
from .views import axes_of, new_shape, reshaped_strides, viewed

__all__ = ["CoreArray"]

Core = _core.Array
CPU, CUDA = 1, 2
"""Devices of the DLPack standard."""


@guard_methods
class CoreArray(Elements):
    """An array that the core describes: its shape, type, slices and fields."""

    _core: Core
    _dtype: np.dtype[Any] | None = None  # where a header says more than the fields do
    _named = True  # whether the core's name of it is a path, or the name by which it was exported

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of indices in each dimension."""
        return tuple(extent for _, extent in self._core.extents)

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Names of the dimensions."""
        return tuple(name for name, _ in self._core.extents)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._core.extents)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of an element: that of its only field, or a structure of all fields."""
        return self._dtype if self._dtype is not None else numpy_dtype(self._core.fields)

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one index to the next in each dimension.

        Raises:
            Error: A dimension is stored in blocks (``code="unsupported"``).
            InvalidArgument: The fields have strides of their own.
        """
        return record_of(self._core)[1]

    @property
    def layout(self) -> str:
        """The linearization order, fastest first."""
        return self._core.layout

    @property
    def device(self) -> int | str:
        """Where the elements lie: the number of a GPU, "cpu" for host memory, or "file".

        For an array of another process it is the number of that process.
        """
        if self._core.where == "device":
            return self._core.device
        return "file" if self._core.where == "file" else "cpu"

    @property
    def _writable(self) -> bool:
        return self._core.writable

    @property
    def _where(self) -> str:
        return self._core.name

    def __getitem__(self, key: Any) -> Any:
        """Returns a part, which refers to the same memory.

        Args:
            key: Indices, ranges with steps, one ellipsis and None for a new dimension, as in
                NumPy's basic indexing; arrays of integers or of truth values; the name of a field,
                or a list of names.

        Returns:
            An array of the same kind; for arrays of indices a `Selection`.

        Raises:
            OutOfRange: An index lies outside its dimension.
            InvalidArgument: The key is not an index.
            NotFound: There is no field of that name.
        """
        if isinstance(key, str):
            return self._field(key)
        if (names := field_names(key)) is not None:
            return self._of_fields(names)
        entries = parse_index(key, self.shape)
        cuts = []
        grows = False
        for entry in entries:
            if entry.table is not None:
                return Selection(self, self._points().indexed(entries), self.dtype)
            if entry.is_range:
                cuts.append((entry.start, entry.extent, entry.step, False))
            elif entry.dimension >= 0:
                cuts.append((entry.start, 1, 1, True))
            else:
                grows = grows or entry.is_new
        part = self._core.slice(cuts)
        return self._with(with_new_axes(part, entries) if grows else part, self._dtype)

    def _with(self, core: Core, dtype: np.dtype[Any] | None) -> Self:
        """Returns other elements of the same memory as an array of this class."""
        part = object.__new__(type(self))
        part.__dict__.update(self.__dict__)
        part._core = core
        part._dtype = dtype
        return part

    def _check_fields(self, names: Sequence[str]) -> None:
        """Refuses the names of fields that the array does not have.

        Raises:
            NotFound: It has no field of that name.
        """
        known = self.dtype.names or ()
        single = () if known else tuple(name for name, *_ in self._core.fields)
        for name in names:
            if name in known or name in single:
                continue
            raise NotFound(
                f"{self._where} has no field {name!r}",
                f"name one of its fields: {', '.join(known)}"
                if known
                else f"its type is {self.dtype}",
            )

    def _field(self, name: str) -> Self:
        """Returns one field at all points of the array."""
        self._check_fields([name])
        dtype = None if self._dtype is None or self._dtype.names is None else self._dtype[name]
        if dtype is None or name in {field[0] for field in self._core.fields}:
            return self._with(self._core.field(name), dtype)
        return self._of_overlapping(name)

    def _of_overlapping(self, name: str) -> Self:
        """Returns a field of a structure whose fields overlap, which the core holds as one."""
        assert self._dtype is not None
        kind, offset = cast("Any", self._dtype.fields)[name][:2]
        whole, strides = record_of(self._core)
        placed = [
            (one, of_one, count, whole[0][3] + offset + at, list(strides))
            for one, of_one, count, at in dtype_fields(kind)
        ]
        core = _core.restrided(self._core, self._core.extents, placed, self._core.named)
        return self._with(core, kind)

    def _of_fields(self, names: Sequence[str]) -> Self:
        """Returns an array of some fields, in the order of their names."""
        self._check_fields(names)
        placed = {one[0]: one for one in _core.strided_fields(self._core)}
        part = _core.restrided(
            self._core, self._core.extents, [placed[name] for name in names], self._core.named
        )
        table = None if self._dtype is None else self._dtype[list(names)]
        return self._with(part, cast("np.dtype[Any] | None", table))

    def transpose(self, *order: SupportsIndex | Sequence[SupportsIndex] | None) -> Self:
        """Returns the same memory with its dimensions in another order, as NumPy's `transpose`.

        Names of dimensions go with them: a copy between arrays whose dimensions both have names
        matches them by name.

        Args:
            order: The dimensions in their new order, as ``transpose(1, 0)`` or
                ``transpose((1, 0))``. Default: reversed.

        Raises:
            InvalidArgument: Not every dimension is named once.
        """
        return self._with(_core.permuted(self._core, axes_of(order, self.ndim)), self._dtype)

    def reshape(self, *shape: SupportsIndex | Sequence[SupportsIndex]) -> Self:
        """Returns the same memory in another shape, in C order, as NumPy's `reshape`.

        The dimensions of the result have no names.

        Args:
            shape: Extents, as ``reshape(2, 3)`` or ``reshape((2, 3))``; one of them may be -1.

        Raises:
            InvalidArgument: The shape has another number of elements, or no strides give it: then
                NumPy would copy, too.
            Error: A dimension is stored in blocks (``code="unsupported"``).
        """
        extents = new_shape(shape, self.size)

        def reshaped(strides: Sequence[int]) -> Sequence[int]:
            steps = reshaped_strides(self.shape, strides, extents)
            if steps is None:
                raise InvalidArgument(
                    f"the elements of {self._where} of shape {self.shape} do not lie so that they "
                    f"have the shape {extents} without a copy",
                    "reshape a copy: array.copy().reshape(...)",
                )
            return steps

        return self._with(with_strides(self._core, numbered(extents), reshaped, False), self._dtype)

    def view(self, dtype: npt.DTypeLike) -> Self:
        """Returns the same bytes as elements of another type, as NumPy's `view`.

        Args:
            dtype: Type of the elements. If its size differs, the last dimension is contiguous, and
                has more or fewer indices in the view.

        Raises:
            InvalidArgument: The bytes do not divide into elements of that type.
        """
        new, old = element_type("dtype", dtype), self.dtype
        if new.subdtype is not None:
            raise InvalidArgument(f"dtype={new} has a shape of its own", "give its base type")
        fields, strides = record_of(self._core)
        places = {name: offset for name, _, _, offset in dtype_fields(old)}
        starts = {field[3] - places.get(field[0], 0) for field in fields}
        if len(starts) != 1 and old.names is not None:
            raise InvalidArgument(
                f"the fields of {self._where} do not lie one behind the other",
                "view one field: array['name'].view(...)",
            )
        shape, steps = viewed(self.shape, strides, old, new)
        start = fields[0][3] if old.names is None else starts.pop()
        extents = [
            (name, count) for (name, _), count in zip(self._core.extents, shape, strict=True)
        ]
        placed = [
            (name, kind, count, start + offset, list(steps))
            for name, kind, count, offset in dtype_fields(new)
        ]
        return self._with(_core.restrided(self._core, extents, placed, self._core.named), new)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Returns type and number of the device of the elements, as DLPack counts them.

        Raises:
            BufferError: They lie in a file or in another process.
        """
        if self._bound or self._core.where == "file":
            raise BufferError(
                f"{self._where} does not lie in memory of this process; hand over array.numpy()"
            )
        return (CPU, 0)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Returns the elements for another library, without a copy.

        Nothing is outstanding once a copy was waited for, so that no stream has to wait.

        Args:
            stream: The consumer's stream; not used.
            max_version: Latest version of the standard that the consumer understands.
            dl_device: Device on which the consumer wants them; None: where they lie.
            copy: True: hand over a copy.

        Raises:
            BufferError: They lie in a file, in another process or on another device; or DLPack has
                no such type.
        """
        device = self.__dlpack_device__()
        if dl_device is not None and tuple(dl_device) != device:
            raise BufferError(
                f"the array lies on the DLPack device {device}, not {dl_device}; copy it there "
                "with Engine.copy()"
            )
        if copy:
            return self.copy().__dlpack__(stream=stream, max_version=max_version)
        versioned = max_version is not None and max_version[0] >= 1
        try:
            if len(self._core.fields) != 1:
                raise InvalidArgument("DLPack has no structures", "hand over one field")
            return _core.to_dlpack(self._core, *device, versioned)
        except Error as error:
            raise BufferError(str(error)) from error

    def __reduce__(self) -> NoReturn:
        refuse_pickling(self, "send np.asarray(array), or export it with Engine.export()")

    def _empty_like(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Returns a new dense array in the memory in which `copy` makes one."""
        return np.empty(shape, dtype)

    def _check_implicit_read(self) -> None:
        """Refuses conversions to NumPy that the program does not ask for by name."""

    def _points(self) -> Points:
        return Points.of(self._core)

    def _write(self, value: Any) -> None:
        assign(self, value)

    def _read_into(self, out: npt.NDArray[Any]) -> None:
        copy_and_wait(self._engine, _core.by_position(self._core), out)

    def __repr__(self) -> str:
        extents = ", ".join(f"{name}={extent}" for name, extent in self._core.extents)
        name = f" {self._core.name}" if self._named else ""
        return f"<{type(self).__name__}{name}: {extents}; {self.dtype}; {self.layout}>"


def with_new_axes(core: Core, entries: Sequence[Entry]) -> Core:
    """Returns a sliced array with the dimensions of one index that its key adds."""
    left = iter(core.extents)
    taken = {name for name, _ in core.extents}
    free = (name for k in itertools.count() if (name := f"new{k}") not in taken)
    kept = [entry for entry in entries if entry.is_range or entry.is_new]
    extents = [(next(free), 1) if entry.is_new else next(left) for entry in kept]

    def spread(strides: Sequence[int]) -> list[int]:
        steps = iter(strides)
        return [0 if entry.is_new else next(steps) for entry in kept]

    return with_strides(core, extents, spread, core.named)
