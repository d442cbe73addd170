"""Names and extents of dimensions, as a user may give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["c_order", "extent_specs"]


def extent_specs(extents: Mapping[str, int] | Sequence[int]) -> tuple[list[tuple[str, int]], bool]:
    """Names and extents, and whether the names are the user's."""
    if isinstance(extents, Mapping):
        return [(name, int(extent)) for name, extent in extents.items()], True
    return [(f"d{k}", int(extent)) for k, extent in enumerate(extents)], False


def c_order(extents: Sequence[tuple[str, int]]) -> str:
    """The layout of a C-ordered array: the last dimension fastest."""
    return ", ".join(["F", *(name for name, _ in reversed(extents))])
