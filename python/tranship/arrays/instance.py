"""Memory of this process, read through a layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from .conversion import refuse_lossy
from .core_array import CoreArray
from .dtypes import field_specs
from .extents import c_order, extent_specs

__all__ = ["Instance"]


class Instance(CoreArray):
    """Memory of this process, read through an index space, fields and a layout.

    Args:
        buffer: contiguous memory: a NumPy array, bytearray, mmap, or None to allocate it.
        extents: indices of each dimension, by name.
        fields: types by name, as NumPy writes them, or a dtype.
        layout: order of the terms, fastest first, such as ``"x:4, F, x, y"`` (Isometry, ICS'18,
            section 2). Default: fields fastest, then the last dimension, as C has it.
        offset: bytes from the start of `buffer` to the first element.

    Raises:
        InvalidArgument: the layout does not fit the extents, or the buffer is too small.
    """

    def __init__(
        self,
        buffer: Any = None,
        *,
        extents: Mapping[str, int],
        fields: Mapping[str, Any] | npt.DTypeLike = "f8",
        layout: str | None = None,
        offset: int = 0,
    ) -> None:
        names, _ = extent_specs(extents)
        specs = field_specs(fields)
        text = layout if layout is not None else c_order(names)
        if buffer is None:
            buffer = np.zeros(_core.layout_bytes(names, specs, text) + offset, np.uint8)
        refuse_lossy(buffer)
        self.buffer = buffer
        self._core = _core.instance(buffer, names, specs, text, offset)
