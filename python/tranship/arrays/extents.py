"""Names and extents of dimensions, as callers give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import SupportsIndex

import numpy as np

from ..arguments import check_text, check_whole, shown
from ..errors import InvalidArgument

__all__ = ["Extents", "c_order", "extent_specs"]


Extents = Mapping[str, SupportsIndex] | Sequence[SupportsIndex] | SupportsIndex


def extent_specs(extents: Extents) -> tuple[list[tuple[str, int]], bool]:
    """Returns names and extents, and whether the names are the user's.

    Raises:
        InvalidArgument: Something else than whole numbers, or names that are not text.
    """
    if isinstance(extents, Mapping):
        for name in extents:
            if not isinstance(name, str):
                raise InvalidArgument(
                    f"extents={shown(extents)} names a dimension {shown(name)}, not a text",
                    "name dimensions by str, as in extents={'x': 64, 'y': 64}",
                )
        for name in extents:
            check_text("the name of a dimension", name)
        named = list(extents.items())
        return [(name, check_whole(f"extents[{name!r}]", n)) for name, n in named], True
    if isinstance(extents, str) or extents is None:
        raise InvalidArgument(
            f"extents={shown(extents)} are not the extents of an array",
            "give whole numbers, as in extents={'x': 64, 'y': 64} or extents=(64, 64)",
        )
    listed = list(extents) if np.iterable(extents) else [extents]
    return [(f"d{k}", check_whole(f"extents[{k}]", n)) for k, n in enumerate(listed)], False


def c_order(extents: Sequence[tuple[str, int]]) -> str:
    """Returns the layout of a C-ordered array: the last dimension fastest."""
    return ", ".join(["F", *(name for name, _ in reversed(extents))])
