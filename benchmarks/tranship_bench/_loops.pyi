"""Timing loops around what the engine is compared with, without Python between the calls."""

from typing import Any

Copy = tuple[int, int, int, int]
"""Addresses of source and target, bytes, and the GPU whose stream carries the copy."""

def time_memcpy(source: int, target: int, bytes: int, count: int) -> float: ...
def time_gpu_copies(copies: list[Copy], emulated: bool) -> float: ...
def time_gpu_starts(copy: Copy, emulated: bool, count: int) -> float: ...

Four = tuple[int, int, int, int]
Part = tuple[int, int, Four, Four, Any]

def time_by_hand(parts: list[Part], packed: int, unpacks: bool, count: int) -> float: ...
