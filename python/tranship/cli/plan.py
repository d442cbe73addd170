"""`tranship plan`: the way that a copy would take, on any machine, present or not."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from .. import _core
from .inputs import (
    JsonOption,
    MachineOption,
    Planner,
    PlannerOption,
    field_list,
    parse_extents,
    parse_fields,
    parse_layout,
    parse_size,
    profile_of,
)
from .talk import print_json

__all__ = ["EXAMPLES", "plan"]

EXAMPLES = """
tranship plan --source node0/host0 --target node0/file0 --extents x=4096,y=4096 --fields f:8 \
--source-layout "F,x,y" --target-layout "F,y,x"
tranship plan --machine profile.json --source node0/file0 --target node1/host0 \
--extents x=512,y=512 --fields re:f4,im:f4 --json
"""


def plan(
    source: Annotated[str, typer.Option(metavar="MEMORY", help="Such as node0/host0.")],
    target: Annotated[str, typer.Option(metavar="MEMORY", help="Such as node0/file0.")],
    extents: Annotated[str, typer.Option(metavar="NAME=N,..", help="Such as x=4096,y=4096.")],
    fields: Annotated[
        str, typer.Option(metavar="NAME:TYPE,..", help="Such as re:f4,im:f4, or f:16 for bytes.")
    ] = "f:8",
    source_layout: Annotated[
        str | None, typer.Option(metavar="LAYOUT", help='Fastest first. Default: C, as in "F,y,x".')
    ] = None,
    target_layout: Annotated[
        str | None, typer.Option(metavar="LAYOUT", help='The same, such as "x:4,F,x,y".')
    ] = None,
    machine: MachineOption = None,
    planner: PlannerOption = Planner.automatic,
    buffer_bytes: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="Most that intermediate buffers take. Default: the profile's."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Plan a copy on a machine profile and explain the plan."""
    space = parse_extents(extents)
    specs = field_list(parse_fields(fields))
    limit = parse_size(buffer_bytes, "--buffer-bytes") if buffer_bytes is not None else 0
    explained, content = _core.plan_on(
        profile_of(machine),
        (source, parse_layout(source_layout, space)),
        (target, parse_layout(target_layout, space)),
        list(space.items()),
        specs,
        planner.value,
        limit,
    )
    if as_json:
        print_json(json.loads(content))
    else:
        sys.stdout.write(explained)
