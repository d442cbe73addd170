"""Small values that are kept in a GPU's memory, from which its arrays are filled.

To allocate a block there takes longer than to fill 256 MiB, and to write to one as long as a short
fill.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import numpy.typing as npt

from .. import _core

__all__ = ["VALUE_BYTES", "kept_values"]

VALUE_BYTES = 4096
"""Most bytes of a value that is kept."""

KEPT_MOST = 16
"""Most values that an engine keeps on a GPU while none is in use."""


class Block:
    """A block of a GPU's memory, the value in it, and how many calls read it now."""

    def __init__(self, memory: _core.DeviceMemory) -> None:
        self.memory = memory
        self.value: _core.Array | None = None
        self.users = 1


class KeptValues:
    """The values that were used last on one GPU; several threads may read one at the same time."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._blocks: dict[Any, Block] = {}  # in the order of their last use

    @contextmanager
    def holding(
        self,
        value: npt.NDArray[Any],
        allocate: Callable[[], _core.DeviceMemory],
        write: Callable[[_core.DeviceMemory], _core.Array],
    ) -> Iterator[_core.Array]:
        """Gives an array on the GPU with a value, which stays as it is until the caller is done.

        Args:
            value: At most `VALUE_BYTES`.
            allocate: Allocates a block of `VALUE_BYTES`.
            write: Copies the value to a block, waits for the end, and returns it as an array there.
        """
        key = (value.dtype, value.shape, value.tobytes())
        block = self._take(key) or Block(allocate())
        try:
            if block.value is None:
                block.value = write(block.memory)
                self._add(key, block)
            yield block.value
        except BaseException:
            # The GPU may still write or read the block of a copy that failed or was interrupted.
            self._drop(key, block)
            raise
        with self._lock:
            block.users -= 1

    def _take(self, key: Any) -> Block | None:
        """Returns the block with a value, or one without a value that nobody else uses, if any."""
        with self._lock:
            if block := self._blocks.pop(key, None):
                self._blocks[key] = block
                block.users += 1
                return block
            if len(self._blocks) < KEPT_MOST or not (block := self._remove_idle()):
                return None
            block.value, block.users = None, 1
            return block

    def _remove_idle(self) -> Block | None:
        """Removes the block without users whose last use is longest ago."""
        idle = next((key for key, block in self._blocks.items() if block.users == 0), None)
        return None if idle is None else self._blocks.pop(idle)

    def _add(self, key: Any, block: Block) -> None:
        with self._lock:
            self._blocks[key] = block
            while len(self._blocks) > KEPT_MOST and self._remove_idle():
                pass

    def _drop(self, key: Any, block: Block) -> None:
        with self._lock:
            if self._blocks.get(key) is block:
                del self._blocks[key]


_values: WeakKeyDictionary[_core.EngineCore, dict[int, KeptValues]] = WeakKeyDictionary()


def kept_values(engine: _core.EngineCore, device: int) -> KeptValues:
    """Returns the values that an engine keeps on a GPU."""
    of_engine = _values.get(engine)
    if of_engine is None:
        of_engine = _values.setdefault(engine, {})
    found = of_engine.get(device)
    return found if found is not None else of_engine.setdefault(device, KeptValues())
