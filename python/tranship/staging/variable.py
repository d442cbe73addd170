"""One variable of the staging service, indexed as NumPy users write it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from ..errors import Closed
from .arguments import box_of_index, which_version, whole_version
from .reader import FIRST, Corner, Reader

__all__ = ["Variable"]


class Variable:
    """A variable of a staging service."""

    def __init__(self, staging: Reader, name: str) -> None:
        self.staging = staging
        self.name = name

    def __getitem__(self, index: Any) -> npt.NDArray[Any]:
        """``variable[version, 0:64, :, 7]``: a version (or "latest"), then slices or indices.

        Raises:
            InvalidArgument: steps, lists of indices, more indices than the variable has dimensions,
                or a version that is neither a whole number nor "latest".
        """
        which_version(index[0] if isinstance(index, tuple) and index else index)
        box = self.staging._box(self.name, None, None, 30.0)
        version, lower, upper, single = box_of_index(self.name, index, box.lower, box.upper)
        found = self.staging.get(self.name, version, lower, upper)
        return np.asarray(np.squeeze(found, axis=single))

    def __contains__(self, version: object) -> bool:
        """Whether something of that version is held now."""
        held = [info["versions"] for info in self.staging.ls() if info["name"] == self.name]
        return version in [one["version"] for versions in held for one in versions]

    def __iter__(self) -> NoReturn:
        """Refused: versions may still be coming."""
        raise TypeError(
            f'a variable is followed: for version in staging["{self.name}"].versions(): ...'
        )

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Any:
        """Refused: a variable has versions."""
        raise TypeError(
            f'a variable has versions; take one, as in staging["{self.name}"]["latest", ...]'
        )

    def __repr__(self) -> str:
        return f"<Variable {self.name!r} of the staging service>"

    def versions(
        self,
        after: int | None = None,
        *,
        lower: Corner | None = None,
        upper: Corner | None = None,
        timeout: float = 3600.0,
    ) -> Iterator[int]:
        """Follows the variable: each version as soon as the box is whole, in rising order.

        Ends when all who put to the variable have closed.

        Args:
            after: begin above this version; None: with the lowest that is held.
            lower: the box, as for `get`; None: all that was put when the first version came.
            upper: the same.
            timeout: seconds to wait for each version.

        Raises:
            PeerLost: somebody who put to it has died, or the server.
            Timeout: no version came for so long.
            Closed: this client was closed.
        """
        core = self.staging._core
        version = FIRST if after is None else whole_version(after)
        box = self.staging._box(self.name, lower, upper, timeout)
        while True:
            try:
                version = core.wait(
                    self.name, "next", version, list(box.lower), list(box.upper), timeout
                )
            except Closed:
                if self.staging.closed:
                    raise
                return
            yield version
