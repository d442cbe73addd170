"""Machine profiles: measured once, kept in a folder, read by every engine after that."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from . import _core
from .errors import InvalidArgument, NotFound

__all__ = ["cache_path", "calibrate", "load", "machine_names", "of_this_machine"]

Progress = Callable[[float, str], None]

SAMPLE_BYTES = 64 << 20
"""Bytes moved for each sample of a calibration."""


def cache_folder() -> Path | None:
    """Folder of measured profiles, or None if there is no home to keep them in."""
    for name, value, _, _ in _core.describe_config({}):
        if name == "cache_folder" and value:
            return Path(value)
    return None


def cache_path(overrides: Mapping[str, str] | None = None) -> Path | None:
    """Where this machine's profile is kept, with the GPUs that the settings allow."""
    path = _core.profile_path(dict(overrides or {}))
    return Path(path) if path else None


def calibrate(
    *,
    sample_bytes: int = SAMPLE_BYTES,
    folder: str | os.PathLike[str] | None = None,
    processes: bool = True,
    progress: Progress | None = None,
    overrides: Mapping[str, str] | None = None,
) -> str:
    """Measures this machine and returns the profile as JSON; keeps nothing.

    Args:
        sample_bytes: bytes moved for each sample; larger is steadier on a noisy machine.
        folder: where the disk is measured; default the temporary folder.
        processes: whether to measure the ways to other processes too.
        progress: called with the share done, from 0 to 1, and what comes next.
        overrides: variables of settings that replace the environment's.
    """
    disk = os.fspath(folder) if folder is not None else None
    return _core.calibrate(disk, sample_bytes, processes, progress, dict(overrides or {}))


def save(profile: str, path: Path) -> bool:
    """Writes a profile whole or not at all. False if the folder cannot be written."""
    return _core.save_profile(profile, os.fspath(path))


GPU_SETTINGS = ("TRANSHIP_GPUS", "TRANSHIP_EMULATED_GPUS")
"""Settings that decide which memories a profile has."""


def of_this_machine(
    progress: Progress | None = None, overrides: Mapping[str, str] | None = None
) -> str:
    """The kept profile of this machine, or one measured now (some four seconds) and kept."""
    gpus = {name: value for name, value in (overrides or {}).items() if name in GPU_SETTINGS}
    return _core.profile_of_this_machine(progress, gpus)


def machines_folder() -> Path:
    """The profiles that come with the package; in a source tree, its folder of them."""
    installed = Path(__file__).parent / "machines"
    return installed if installed.is_dir() else Path(__file__).resolve().parents[2] / "machines"


def machine_names() -> list[str]:
    """Names of the profiles that come with the package."""
    folder = machines_folder()
    return sorted(path.stem for path in folder.glob("*.json")) if folder.is_dir() else []


def load(machine: str | os.PathLike[str]) -> str:
    """A profile as JSON: by the name of one that comes with the package, or from a file.

    Raises:
        NotFound: neither; the text lists the names.
        InvalidArgument: the file is not a profile.
    """
    text = os.fspath(machine)
    path = machines_folder() / f"{text}.json" if text in machine_names() else Path(text)
    if not path.is_file():
        names = ", ".join(machine_names()) or "none"
        raise NotFound(
            f"there is no machine profile {text}",
            f"give a file, or the name of one that comes with the package ({names})",
        )
    try:
        return _core.check_profile(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise InvalidArgument(
            f"{text} is no text, and so no machine profile",
            "measure one with: tranship calibrate --output FILE",
        ) from None


def summary(profile: str) -> dict[str, Any]:
    """The profile as a dictionary."""
    content: dict[str, Any] = json.loads(profile)
    return content
