"""Where the parts of the package for compilers lie."""

from __future__ import annotations

from pathlib import Path

__all__ = ["include_folder", "library_file"]


def include_folder(package: Path) -> Path:
    """Returns the folder of the headers: the package's, or that of the source tree around it."""
    folder = package / "include"
    return folder if folder.is_dir() else package.parents[1] / "include"


def library_file(package: Path) -> Path:
    """Returns the path of ``libtranship.so``, which may not be there."""
    return package / "lib" / "libtranship.so"
