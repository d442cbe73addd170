"""The base class of instances, files, arrays of other processes and arrays on GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn, Self

import numpy as np
import numpy.typing as npt

from .. import _core
from ..arguments import guard_methods, shown
from ..closing import refuse_pickling
from ..errors import InvalidArgument, OutOfRange
from .dtypes import numpy_dtype

__all__ = ["CoreArray", "c_strides", "cuts_of"]

Cut = tuple[int, int, int, bool]


@guard_methods
class CoreArray:
    """An array that the core describes: its shape, type, slices and fields."""

    _core: _core.Array
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
    def layout(self) -> str:
        """The linearization order, fastest first."""
        return self._core.layout

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, without padding."""
        return self._core.bytes

    def __getitem__(self, key: Any) -> Self:
        """Returns a part, which refers to the same memory.

        Args:
            key: Indices, ranges with steps and one ellipsis, as in NumPy's basic indexing; or the
                name of a field.

        Raises:
            OutOfRange: An index lies outside its dimension.
            InvalidArgument: The key is not an index.
            NotFound: There is no field of that name.
        """
        part = object.__new__(type(self))
        part.__dict__.update(self.__dict__)
        if isinstance(key, str):
            part._core = self._core.field(key)
            part._dtype = None if self._dtype is None else self._dtype[key]
        else:
            part._core = self._core.slice(cuts_of(key, self.shape))
        return part

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return self.shape[0]

    def __bool__(self) -> bool:
        """Refused, as NumPy refuses it for arrays of several elements."""
        raise TypeError(
            f"the truth value of {type(self).__name__} is ambiguous; look at .shape or .nbytes"
        )

    def __iter__(self) -> Iterator[Self]:
        return (self[k] for k in range(len(self)))

    def __contains__(self, value: object) -> bool:
        """Whether an element has that value; reads all elements, as NumPy does."""
        return value in np.asarray(self)

    def __reduce__(self) -> NoReturn:
        refuse_pickling(self, "send np.asarray(array), or export it with Engine.export()")

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Any:
        """Returns a NumPy array with a copy of the elements.

        Raises:
            Error: The elements cannot be read.
        """
        if copy is False:
            raise ValueError(
                f"the elements of {self._core.name} are copied when NumPy reads them; leave "
                "copy=False out"
            )
        if self.dtype.subdtype is not None:
            raise TypeError(
                f"NumPy has no arrays of {self.dtype}; copy to an array of a structure with one "
                "field of that type"
            )
        out = np.empty(self.shape, self.dtype)
        self._read_into(out)
        return out if dtype is None else out.astype(dtype, copy=False)

    def _read_into(self, out: npt.NDArray[Any]) -> None:
        _core.read_into(self._core, out)

    def __repr__(self) -> str:
        extents = ", ".join(f"{name}={extent}" for name, extent in self._core.extents)
        name = f" {self._core.name}" if self._named else ""
        return f"<{type(self).__name__}{name}: {extents}; {self.dtype}; {self.layout}>"


def cuts_of(key: Any, shape: tuple[int, ...]) -> list[Cut]:
    """Returns NumPy's basic indexing as (start, count, step, drop) for each dimension."""
    keys = list(key) if isinstance(key, tuple) else [key]
    if sum(k is Ellipsis for k in keys) > 1:
        raise InvalidArgument(
            f"the index {shown(key)} has several ellipses", "write '...' at most once in an index"
        )
    at = next((k for k, one in enumerate(keys) if one is Ellipsis), None)
    if at is not None:
        keys[at : at + 1] = [slice(None)] * (len(shape) - len(keys) + 1)
    keys += [slice(None)] * (len(shape) - len(keys))
    if len(keys) > len(shape):
        raise InvalidArgument(
            f"the index {shown(key)} has {len(keys)} entries for {len(shape)} dimensions",
            "give at most one entry for each dimension",
        )
    cuts: list[Cut] = []
    for one, extent in zip(keys, shape, strict=True):
        if isinstance(one, slice):
            try:
                start, stop, step = one.indices(extent)
            except (TypeError, ValueError) as error:
                raise InvalidArgument(
                    f"the range {shown(one)} cannot be used as an index: {error}",
                    "give whole numbers, and a step other than 0",
                ) from None
            cuts.append((start, len(range(start, stop, step)), step, False))
            continue
        try:
            index = one.__index__()
        except (AttributeError, TypeError):
            raise InvalidArgument(
                f"{shown(one)} is not an index",
                "give whole numbers and ranges (start:stop:step), or index a NumPy copy",
            ) from None
        if not -extent <= index < extent:
            raise OutOfRange(
                f"the index {index} lies outside a dimension of {extent}",
                f"give a number from {-extent} to {extent - 1}" if extent else "it has no elements",
            )
        cuts.append((index % extent, 1, 1, True))
    return cuts


def c_strides(shape: Sequence[int], item_bytes: int) -> list[int]:
    """Returns the strides in bytes of a dense array whose last dimension is fastest."""
    strides = [item_bytes] * len(shape)
    for k in range(len(shape) - 2, -1, -1):
        strides[k] = strides[k + 1] * max(shape[k + 1], 1)
    return strides


CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
"""Devices of the DLPack standard that can be read."""
