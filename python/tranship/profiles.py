"""Machine profiles: measured once, kept in a folder, and read by every later engine."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from . import _core
from .arguments import check_path, check_switch, check_whole
from .errors import InvalidArgument, NotFound
from .files import read_text

__all__ = ["cache_path", "calibrate", "load", "machine_names", "of_this_machine", "read_profile"]

Progress = Callable[[float, str], None]

SAMPLE_BYTES = 64 << 20
"""Bytes moved for each sample of a calibration."""


def cache_folder() -> Path | None:
    """Returns the folder of measured profiles; None if there is no home folder."""
    for name, value, _, _ in _core.describe_config({}):
        if name == "cache_folder" and value:
            return Path(value)
    return None


def cache_path(overrides: Mapping[str, str] | None = None) -> Path | None:
    """Returns the file of this machine's profile, with the GPUs that the settings allow."""
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
    """Measures this machine and returns the profile as JSON, without a file.

    Args:
        sample_bytes: Bytes moved for each sample; more are steadier on a noisy machine.
        folder: Folder on the disk that is measured. Default: the temporary folder.
        processes: Whether to measure the channels to other processes too.
        progress: Called with the share done, from 0 to 1, and what is measured next.
        overrides: Variables of settings that replace those of the environment.
    """
    disk = check_path("folder", folder) if folder is not None else None
    sample = check_whole("sample_bytes", sample_bytes, least=1)
    return _core.calibrate(
        disk, sample, check_switch("processes", processes), progress, dict(overrides or {})
    )


def save(profile: str, path: Path) -> bool:
    """Writes a profile whole or not at all; returns whether the folder could be written."""
    return _core.save_profile(profile, os.fspath(path))


BUSY_SHARE = 0.1
"""Part of the processors' time that other processes may take from a calibration."""


def busy_text(profile: str | Mapping[str, Any]) -> str:
    """Returns that a profile was measured on a busy machine, as a sentence; "" if it was not."""
    content = json.loads(profile) if isinstance(profile, str) else profile
    share = float(content.get("others_share", 0.0))
    if share < BUSY_SHARE:
        return ""
    return (
        f"other processes took {share:.0%} of the processors while the machine was measured: its "
        "rates are too low, and plans may be wrong; measure again when it is idle, with: tranship "
        "calibrate"
    )


GPU_SETTINGS = ("TRANSHIP_GPUS", "TRANSHIP_EMULATED_GPUS")
"""Settings that decide which memories a profile has."""


def of_this_machine(
    progress: Progress | None = None, overrides: Mapping[str, str] | None = None
) -> str:
    """Returns the kept profile of this machine, or measures it now and keeps it.

    Args:
        progress: As for `calibrate`. None: shown on stderr, if that is a terminal.
        overrides: As for `calibrate`.
    """
    gpus = {name: value for name, value in (overrides or {}).items() if name in GPU_SETTINGS}
    if progress is not None or not sys.stderr.isatty():
        return _core.profile_of_this_machine(progress, gpus)
    shown = False

    def report(share: float, what: str) -> None:
        nonlocal shown
        shown = True
        words = f"tranship measures this machine, once: {share:4.0%}  {what}"
        sys.stderr.write(f"\r{words[:79]:79}")
        sys.stderr.flush()

    try:
        profile = _core.profile_of_this_machine(report, gpus)
    finally:
        if shown:
            sys.stderr.write(f"\r{'':79}\r")
            sys.stderr.flush()
    if shown and busy_text(profile):
        sys.stderr.write(f"tranship: {busy_text(profile)}\n")
    return profile


def machines_folder() -> Path:
    """Returns the folder of the package's profiles; in a source tree, that of the sources."""
    installed = Path(__file__).parent / "machines"
    return installed if installed.is_dir() else Path(__file__).resolve().parents[2] / "machines"


def machine_names() -> list[str]:
    """Returns the names of the profiles that come with the package."""
    folder = machines_folder()
    return sorted(path.stem for path in folder.glob("*.json")) if folder.is_dir() else []


def load(machine: str | os.PathLike[str]) -> str:
    """Returns a profile as JSON: that of a name of the package, or of a file.

    Raises:
        NotFound: Neither; the hint lists the names.
        InvalidArgument: The file is not a profile.
    """
    text = check_path("machine", machine)
    path = machines_folder() / f"{text}.json" if text in machine_names() else Path(text)
    if not path.is_file():
        names = ", ".join(machine_names()) or "none"
        printable = text.encode("utf-8", "backslashreplace").decode()
        raise NotFound(
            f"there is no machine profile {printable}",
            f"give a file, or the name of one that comes with the package ({names})",
        )
    try:
        return _core.check_profile(read_text(path))
    except UnicodeDecodeError:
        raise InvalidArgument(
            f"{text} is not a text file, and so not a machine profile",
            "measure one with: tranship calibrate --output FILE",
        ) from None


def summary(profile: str) -> dict[str, Any]:
    """Returns the profile as a dictionary."""
    content: dict[str, Any] = json.loads(profile)
    return content


def read_profile(profile: str | os.PathLike[str]) -> str:
    """Returns JSON as it is; else the content of a file, or of a profile of the package."""
    text = check_path("profile", profile)
    return _core.check_profile(text) if text.lstrip().startswith("{") else load(text)
