"""Arrays of other libraries whose memory does not say all that they mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import InvalidArgument

__all__ = ["refuse_lossy"]


def refuse_lossy(array: Any) -> None:
    """Refuses arrays whose memory does not say all that they mean.

    Raises:
        InvalidArgument: A mask, or a view that is conjugated or negated when it is read.
    """
    interface = getattr(array, "__array_interface__", None)
    masked = isinstance(interface, Mapping) and interface.get("mask") is not None
    if masked or isinstance(array, np.ma.MaskedArray):
        raise InvalidArgument(
            "the array has a mask, which a copy would lose",
            "copy array.filled(), or its data "
            "(array.data) and its mask (np.ma.getmaskarray(array)) by themselves",
        )
    for flag, what in (("conj", "conjugated"), ("neg", "negated")):
        lazily = getattr(array, f"is_{flag}", None)
        if callable(lazily) and lazily():
            raise InvalidArgument(
                f"the array is {what} only when it is read, and its memory holds the values before "
                "that",
                f"copy array.resolve_{flag}()",
            )
