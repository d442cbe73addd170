"""Runs that are recorded, and what readers see of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from staging_servers import PATIENCE

import tranship as ts
from tranship.staging.recordings import zarr_boxes


def why_not_zarr() -> str:
    """Returns why the format zarr cannot be tested here; nothing if it can."""
    try:
        zarr_boxes.zarr_library()
    except ts.Error as error:
        return error.message
    return ""


needs_zarr = pytest.mark.skipif(bool(why_not_zarr()), reason=why_not_zarr())

both_formats = pytest.mark.parametrize("format", ["npy", pytest.param("zarr", marks=needs_zarr)])


def write(staging: ts.Staging, number: int, size: int = 6) -> None:
    with staging.step(number) as step:
        for part in range(3):
            step["energy"].put(np.full((2, size), 10.0 * number + part), lower=(2 * part, 0))
        step["count"].put(number)
        step.attributes["time"] = 0.5 * number


def run(contact: Path, numbers: range) -> None:
    """Is a simulation that writes steps."""
    with ts.Staging(contact) as staging:
        for number in numbers:
            write(staging, number)


def elements(variable: ts.staging.StepVariable) -> tuple[bytes, bytes]:
    """Returns the elements of a variable where it has some, and where that is."""
    values = np.zeros(variable.shape, variable.dtype)
    there = np.zeros(variable.shape, bool)
    raw = values.reshape(-1).view("u1").reshape(*values.shape, variable.dtype.itemsize)
    for lower, upper in variable.boxes:
        cut = tuple(
            slice(a - c, b - c) for a, b, c in zip(lower, upper, variable.lower, strict=True)
        )
        found = np.ascontiguousarray(variable.get(lower, upper))
        raw[cut] = found.reshape(-1).view("u1").reshape(*found.shape, found.dtype.itemsize)
        there[cut] = True
    return raw.tobytes(), there.tobytes()


def seen(contact: Path, stop: int | None = None) -> dict[Any, Any]:
    """Returns all that is seen of the steps of a server: of steps, variables and attributes."""
    found: dict[Any, Any] = {}
    with ts.Staging(contact) as staging:
        for step in staging.steps(timeout=PATIENCE):
            found[step.number] = {"": json.dumps(step._attributes, sort_keys=True)}
            for name, one in step.items():
                found[step.number][name] = (one.dtype, one.lower, one.upper, elements(one))
            if stop is not None and step.number == stop - 1:
                break
        names = {name for number in found for name in found[number]}
        for name in names:
            found[name] = sorted(staging._core.attributes_of(name))
    return found


def command(*words: object, **options: Any) -> subprocess.Popen[str]:
    """Starts a command."""
    line = [sys.executable, "-m", "tranship.cli", *map(str, words)]
    pipe = subprocess.PIPE
    return subprocess.Popen(line, stdout=pipe, stderr=pipe, text=True, **options)
