"""Memory of this process, read through a layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..arguments import check_text, check_whole, guard_methods, shape_of
from .core_array import CoreArray
from .dtypes import field_specs
from .extents import Extents, c_order, extent_specs
from .lossy import refuse_lossy

__all__ = ["Instance"]


@guard_methods
class Instance(CoreArray):
    """Memory of this process, read through an index space, fields and a layout.

    Args:
        buffer: Contiguous memory: a NumPy array, a bytearray, an mmap, or None to allocate it.
        extents: Number of indices of each dimension, by name or in order. Dimensions without names
            match others by position.
        fields: Types by name, as NumPy writes them, or a dtype.
        layout: Order of the terms, fastest first, such as ``"x:4, F, x, y"`` (Isometry, ICS'18,
            section 2). Default: fields fastest, then the last dimension, as in C.
        offset: Bytes from the start of `buffer` to the first element.

    Raises:
        InvalidArgument: The layout does not fit the extents, or the buffer is too small.
    """

    _named = False

    def __init__(
        self,
        buffer: Any = None,
        *,
        extents: Extents,
        fields: Mapping[str, Any] | npt.DTypeLike = "f8",
        layout: str | None = None,
        offset: int = 0,
    ) -> None:
        names, are_named = extent_specs(extents)
        specs = field_specs(fields)
        text = check_text("layout", layout) if layout is not None else c_order(names)
        check_whole("offset", offset, least=0)
        if buffer is None:
            nbytes = _core.layout_bytes(names, specs, text) + offset
            buffer = np.zeros(shape_of(nbytes, np.uint8), np.uint8)
        refuse_lossy(buffer)
        self.buffer = buffer
        core = _core.instance(buffer, names, specs, text, offset)
        self._core = core if are_named else _core.by_position(core)
