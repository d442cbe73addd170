"""What instances, files, arrays of other processes and arrays on GPUs share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import InvalidArgument, OutOfRange
from .dtypes import numpy_dtype

__all__ = ["CoreArray", "c_strides", "cuts_of"]

Cut = tuple[int, int, int, bool]


class CoreArray:
    """What instances, files and remote arrays share: shape, slices, their core."""

    _core: _core.Array
    _dtype: np.dtype[Any] | None = None  # where a header says more than the fields do

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of indices in each dimension, in the order of the dimensions."""
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
        """Type of a point: of its one field, or a structure of all."""
        return self._dtype if self._dtype is not None else numpy_dtype(self._core.fields)

    @property
    def layout(self) -> str:
        """The linearization order, fastest first."""
        return self._core.layout

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, without padding."""
        return self._core.bytes

    def __getitem__(self, key: Any) -> CoreArray:
        """A part, as NumPy writes it; it refers to the same memory.

        Raises:
            OutOfRange: an index outside its dimension. InvalidArgument: no index at all.
        """
        part = object.__new__(type(self))
        part.__dict__.update(self.__dict__)
        part._core = self._core.slice(cuts_of(key, self.shape))
        return part

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Any:
        """A NumPy array with its own copy of the elements.

        Raises:
            Error: they cannot be read.
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
        return f"<{type(self).__name__} {self._core.name}: {extents}; {self.dtype}; {self.layout}>"


def cuts_of(key: Any, shape: tuple[int, ...]) -> list[Cut]:
    """NumPy's basic indexing as (start, count, step, drop) for each dimension."""
    keys = list(key) if isinstance(key, tuple) else [key]
    if sum(k is Ellipsis for k in keys) > 1:
        raise InvalidArgument("an index may hold one ellipsis only")
    if Ellipsis in keys:
        at = keys.index(Ellipsis)
        keys[at : at + 1] = [slice(None)] * (len(shape) - len(keys) + 1)
    keys += [slice(None)] * (len(shape) - len(keys))
    if len(keys) > len(shape):
        raise InvalidArgument(f"{len(keys)} indices for an array of {len(shape)} dimensions")
    cuts: list[Cut] = []
    for one, extent in zip(keys, shape, strict=True):
        if isinstance(one, slice):
            start, stop, step = one.indices(extent)
            cuts.append((start, len(range(start, stop, step)), step, False))
            continue
        try:
            index = one.__index__()
        except AttributeError:
            raise InvalidArgument(
                f"{one!r} is no index", "slice with numbers and ranges (start:stop:step)"
            ) from None
        if not -extent <= index < extent:
            raise OutOfRange(f"index {index} is outside a dimension of {extent} indices")
        cuts.append((index % extent, 1, 1, True))
    return cuts


def c_strides(shape: Sequence[int], item_bytes: int) -> list[int]:
    """Strides in bytes of a dense array whose last dimension is fastest."""
    strides = [item_bytes] * len(shape)
    for k in range(len(shape) - 2, -1, -1):
        strides[k] = strides[k + 1] * max(shape[k + 1], 1)
    return strides


CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
"""Devices of the DLPack standard that can be read."""
