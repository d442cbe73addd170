"""Names of memories, as callers give them."""

from __future__ import annotations

import re
from typing import Any

from ..arguments import check_text, shown
from ..errors import InvalidArgument

__all__ = ["device_number", "memory_name"]

HOST_NAMES = ("host", "cpu")
GPU_NAME = re.compile(r"(?:device(\d{0,3})|cuda(?::(\d{1,3}))?)", re.ASCII)
GPU_PLATFORMS = ("cuda", "gpu")
"""What PyTorch and JAX call GPUs that CUDA reaches."""


def memory_name(memory: Any, name: str = "memory", *, pinned: bool = True) -> str:
    """Returns the name of a memory: "host", "pinned", "device", "device0", "device1", ...

    Args:
        memory: Such a name; PyTorch's "cpu", "cuda" and "cuda:1"; or a device object of PyTorch,
            JAX, CuPy or Numba.
        name: Name of the argument, for messages.
        pinned: Whether pinned memory is one of those that may be given.

    Raises:
        InvalidArgument: There is no such memory.
    """
    text = memory if isinstance(memory, str) else name_of_device(memory)
    if text is not None:
        check_text(name, text)
        if text in HOST_NAMES:
            return "host"
        if text == "pinned" and pinned:
            return "pinned"
    found = None if text is None else GPU_NAME.fullmatch(text)
    if found is None:
        choices = '"host", "pinned", "device0"' if pinned else '"host", "device", "device0"'
        raise InvalidArgument(
            f"{name}={shown(memory)} is not a memory",
            f'give {choices}, "device1", … or a GPU as PyTorch names it ("cuda:0", torch.device), '
            "or a device of JAX or CuPy",
        )
    return f"device{found[1] or found[2] or ''}"


def name_of_device(device: Any) -> str | None:
    """Returns the name of the memory of a device object of another library; None for others."""
    library = type(device).__module__.partition(".")[0]
    try:
        if library == "torch":  # torch.device("cuda", 1)
            return str(device)
        if library in ("jax", "jaxlib"):
            if device.platform in GPU_PLATFORMS:
                number = getattr(device, "local_hardware_id", None)
                return f"device{int(device.id if number is None else number)}"
            return str(device.platform)
        if library in ("cupy", "numba"):
            return f"device{int(device.id)}"
    except (AttributeError, TypeError, ValueError):
        pass
    return None


def device_number(memory: str) -> int:
    """Returns the number of the GPU in a name that `memory_name` has returned."""
    return int(memory.removeprefix("device") or 0)
