"""Elements of an array that arrays of indices, or of truth values, select."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, Self, SupportsIndex

import numpy as np
import numpy.typing as npt

from .. import _core
from ..arguments import guard_methods
from ..closing import refuse_pickling
from ..errors import NotFound
from .assignment import assign, copy_pieces_and_wait
from .elements import Elements
from .indexing import field_names, parse_index
from .points import Points, pieces_between
from .views import axes_of, new_shape

if TYPE_CHECKING:
    from .core_array import CoreArray

__all__ = ["Selection"]


@guard_methods
class Selection(Elements):
    """Elements of an array that arrays of indices select, as in ``peer["a"][[2, 5, 7]]``.

    It refers to the array's memory, and reads nothing before it is asked to. NumPy's selection is
    a copy; this one can also be written: ``part.fill(0)``, ``array[indices] = values``. Both ends
    of `Engine.copy` may be selections. Copies move pieces, one for each run of neighbouring bytes,
    whose lists take 24 bytes for each piece. Where an element of a target is named twice, the last
    value stays.
    """

    def __init__(self, base: CoreArray, points: Points, dtype: np.dtype[Any]) -> None:
        self._base = base
        self._places = points
        self._dtype = dtype
        self._engine = base._engine
        self._bound = base._bound

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of indices in each dimension."""
        return self._places.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of an element."""
        return self._dtype

    @property
    def device(self) -> int | str:
        """Where the elements lie, as that of the array."""
        return self._base.device

    @property
    def _writable(self) -> bool:
        return self._base._writable

    @property
    def _where(self) -> str:
        return self._base._where

    def __getitem__(self, key: Any) -> Self:
        """Returns a part, which refers to the same memory; the key is as for an array.

        Raises:
            OutOfRange: An index lies outside its dimension.
            InvalidArgument: The key is not an index.
            NotFound: There is no field of that name.
        """
        names = [key] if isinstance(key, str) else field_names(key)
        if names is None:
            return self._with(self._places.indexed(parse_index(key, self.shape)), self._dtype)
        by_name = {field[0]: field for field in self._places.fields}
        missing = [name for name in names if name not in by_name]
        if missing:
            raise NotFound(
                f"{self._where} has no field {missing[0]!r}",
                f"name one of its fields: {', '.join(by_name)}",
            )
        fields = tuple(by_name[name] for name in names)
        dtype: Any = self._dtype
        if dtype.names is not None:
            dtype = dtype[key]
        return self._with(replace(self._places, fields=fields), dtype)

    def _with(self, points: Points, dtype: np.dtype[Any]) -> Self:
        return type(self)(self._base, points, dtype)

    def transpose(self, *order: SupportsIndex | Sequence[SupportsIndex] | None) -> Self:
        """Returns the same elements with their dimensions in another order.

        Args:
            order: The dimensions in their new order. Default: reversed.

        Raises:
            InvalidArgument: Not every dimension is named once.
        """
        return self._with(self._places.transposed(axes_of(order, self.ndim)), self._dtype)

    def reshape(self, *shape: SupportsIndex | Sequence[SupportsIndex]) -> Self:
        """Returns the same elements in another shape, in C order.

        Args:
            shape: Extents; one of them may be -1.

        Raises:
            InvalidArgument: The shape has another number of elements.
        """
        return self._with(self._places.reshaped(new_shape(shape, self.size)), self._dtype)

    def copy(self) -> Any:
        """Returns a dense copy: on the same GPU for a `DeviceArray`, else a NumPy array."""
        out = self._base._empty_like(self.shape, self._dtype)
        if isinstance(out, np.ndarray):
            return self.numpy()
        out._write(self)
        return out

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Any:
        """Returns a NumPy array with a copy of the elements, where that of the array does."""
        self._base._check_implicit_read()
        return super().__array__(dtype, copy)

    def __reduce__(self) -> NoReturn:
        refuse_pickling(self, "send array.numpy()")

    def _points(self) -> Points:
        return self._places

    def _write(self, value: Any) -> None:
        assign(self, value)

    def _read_into(self, out: npt.NDArray[Any]) -> None:
        target = Points.of(_core.array_of(out))
        pieces = pieces_between(self._places, target)
        copy_pieces_and_wait(self._engine, self._places.core, target.core, pieces)

    def __repr__(self) -> str:
        return f"<Selection of {self._where}: shape {self.shape}, {self.dtype}>"
