"""scikit-build-core as the build backend, with the CUDA compiler where the machine has none.

The wheels are build requirements only: what they compile is linked statically. A build gets them
where an NVIDIA driver is installed, or where it asks for ``cmake.define.TRANSHIP_CUDA=ON``.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from scikit_build_core import build as backend
from scikit_build_core.build import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

Settings = dict[str, list[str] | str] | None


def _has_compiler() -> bool:
    """Whether cmake/cuda.cmake will find a toolkit's nvcc."""
    roots = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    return shutil.which("nvcc") is not None or any(
        Path(root, "bin", "nvcc").exists() for root in roots if root
    )


def _has_driver() -> bool:
    """Whether an NVIDIA driver is installed, as cmake/cuda.cmake looks for it."""
    signs = ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg")
    return any(Path(sign).exists() for sign in signs)


def _cuda_requirements(settings: Settings) -> list[str]:
    """The compiler's wheels, or nothing where they are not needed."""
    asked = (settings or {}).get("cmake.define.TRANSHIP_CUDA", "AUTO")
    wanted = asked == "ON" or (asked == "AUTO" and _has_driver())
    if not wanted or _has_compiler():
        return []
    lines = Path(__file__).resolve().parent.parent.joinpath("requirements-cuda.txt").read_text()
    return [line for line in lines.splitlines() if line and not line.startswith("#")]


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """What scikit-build-core needs, and the CUDA compiler."""
    requirements = backend.get_requires_for_build_wheel(config_settings)
    return [*requirements, *_cuda_requirements(config_settings)]


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    """What scikit-build-core needs, and the CUDA compiler."""
    requirements = backend.get_requires_for_build_editable(config_settings)
    return [*requirements, *_cuda_requirements(config_settings)]
