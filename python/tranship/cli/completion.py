"""What a shell proposes for options whose values are names: machines and memories.

Nothing is measured for a proposal: without a kept profile it is the names that every machine has.
"""

from __future__ import annotations

import json
from typing import Any

import typer

from .. import profiles
from ..errors import Error

__all__ = ["machine_files", "memory_names"]

MEMORIES = ("node0/host0", "node0/file0", "node0/shared0", "node0/host1", "node1/host0")
"""Memories of the profile of every machine."""


def machine_files(incomplete: str) -> list[str]:
    """Returns the profiles that come with the package; without one, shells propose files."""
    return [name for name in profiles.machine_names() if name.startswith(incomplete)]


def memory_names(context: typer.Context, incomplete: str) -> list[str]:
    """Returns the memories of the machine that the command line names so far, or of this one.

    In a list, such as that of `plan --through`, they complete its last name.
    """
    before, comma, last = incomplete.rpartition(",")
    names = [memory["name"] for memory in known_profile(context).get("memories", ())] or MEMORIES
    return [before + comma + name for name in names if name.startswith(last)]


def known_profile(context: typer.Context) -> dict[str, Any]:
    """Returns the profile of `--machine`, else the one kept of this machine; empty without one."""
    machine = context.params.get("machine")
    kept = profiles.cache_path()
    try:
        if machine is not None:
            return dict(json.loads(profiles.load(machine)))
        return dict(json.loads(kept.read_text())) if kept is not None and kept.exists() else {}
    except (Error, OSError, ValueError):
        return {}
