"""What a user types, read: extents, fields, sizes, machines; and the engine's profile."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any

import numpy as np
import typer

from .. import _core, profiles
from ..errors import NotFound
from ..units import bytes_text, seconds_text
from .completion import machine_files
from .talk import CommandError, progress_bar, say

__all__ = [
    "JsonOption",
    "MachineOption",
    "Planner",
    "PlannerOption",
    "bytes_text",
    "parse_extents",
    "parse_fields",
    "parse_layout",
    "parse_size",
    "profile_of",
    "seconds_text",
]

JsonOption = Annotated[
    bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")
]
MachineOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|FILE",
        autocompletion=machine_files,
        help="A profile that comes with the package, or a file. Default: this machine's.",
    ),
]


class Planner(StrEnum):
    """How a path is chosen: by predicted time, or as the paper does (Isometry 4.2, 4.4, 6.3)."""

    automatic = "automatic"
    full = "full"
    simple = "simple"
    spsl = "spsl"
    spdl = "spdl"


PlannerOption = Annotated[Planner, typer.Option(help="How the path is chosen.")]

NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")


def parse_extents(text: str) -> dict[str, int]:
    """Reads ``x=4096,y=4096``; ``4096,4096`` names the dimensions d0 and d1."""
    extents: dict[str, int] = {}
    for k, part in enumerate(text.split(",")):
        name, equals, number = part.strip().rpartition("=")
        name = name.strip() if equals else f"d{k}"
        if not NAME.fullmatch(name) or not number.strip().isdecimal():
            raise CommandError(
                f"cannot read {part.strip()!r} in --extents {text!r}",
                "name each dimension and its extent, as in --extents x=4096,y=4096",
            )
        if name in extents:
            raise CommandError(
                f"--extents names dimension {name!r} twice", "give each its own name"
            )
        extents[name] = int(number)
    return extents


def parse_fields(text: str) -> dict[str, str]:
    """Reads ``re:f4,im:f4``; a number in place of a type is a size in bytes."""
    fields: dict[str, str] = {}
    for part in text.split(","):
        name, colon, kind = (word.strip() for word in part.partition(":"))
        if not colon or not NAME.fullmatch(name) or not is_type(kind):
            raise CommandError(
                f"cannot read {part.strip()!r} in --fields {text!r}",
                "write name:type with NumPy's short names, as in --fields re:f4,im:f4, or "
                "name:bytes, as in --fields f:16",
            )
        if name in fields:
            raise CommandError(f"--fields names field {name!r} twice", "give each its own name")
        fields[name] = f"V{kind}" if kind.isdecimal() else kind
    return fields


def is_type(kind: str) -> bool:
    """Whether a text is a size in bytes, or a type of known size."""
    if kind.isdecimal():
        return int(kind) > 0
    try:
        dtype = np.dtype(kind)
    except (TypeError, ValueError):
        return False
    return dtype.itemsize > 0 and dtype.names is None


def parse_layout(text: str | None, extents: dict[str, int]) -> str:
    """Returns the layout as the core reads it; default C order, and fields first."""
    terms = [term.strip() for term in text.split(",")] if text else list(reversed(extents))
    return ", ".join(terms if "F" in terms else ["F", *terms])


def parse_size(text: str, option: str, least: int = 1) -> int:
    """Returns the bytes of ``64MiB``; at least `least`."""
    try:
        size = int(_core.parse_bytes(text))
    except ValueError:
        size = -1
    if size < least:
        raise CommandError(
            f"{option} {text!r} is not a size", f"write a number with a unit, as in {option} 64MiB"
        )
    return size


def profile_of(machine: str | None) -> str:
    """Returns the profile of a machine as JSON; this machine is measured if it has none yet."""
    if machine is None:
        measured = False
        with progress_bar("measuring this machine, once") as show:

            def report(share: float, what: str) -> None:
                nonlocal measured
                measured = True
                show(share, what)

            profile = profiles.of_this_machine(report)
        if measured and profiles.busy_text(profile):
            say(f"note: {profiles.busy_text(profile)}")
        return profile
    try:
        return profiles.load(machine)
    except NotFound as error:  # a slip in the command line
        raise CommandError(error.message, error.hint) from error


def field_list(fields: dict[str, str]) -> list[Any]:
    """Returns the fields as the core takes them."""
    from ..arrays.dtypes import field_specs

    return list(field_specs(fields))
