"""`tranship plan`: the way that a copy would take, on any machine, present or not."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from .. import _core
from ..errors import NotFound
from .completion import memory_names
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
from .talk import CommandError, print_json, say

__all__ = ["EXAMPLES", "plan"]

EXAMPLES = """
tranship plan --source node0/host0 --target node0/file0 \\
  --extents x=4096,y=4096 --source-layout "F,x,y" --target-layout "F,y,x"
tranship plan --machine profile.json --source node0/file0 \\
  --target node1/host0 --extents x=512,y=512 --fields re:f4,im:f4 --json
tranship plan --machine sapling --source node0/device0 \\
  --target node1/device0 --extents x=4096,y=4096 --fields f:16 \\
  --source-layout "F,x,y" --target-layout "F,y,x" --draw plan.png
tranship plan --machine h200-4 --source node0/pinned0 \\
  --target node0/device0 --extents x=268435456 --fields f:f4 --lanes 4
"""


def plan(
    source: Annotated[
        str,
        typer.Option(metavar="MEMORY", autocompletion=memory_names, help="Such as node0/host0."),
    ],
    target: Annotated[
        str,
        typer.Option(metavar="MEMORY", autocompletion=memory_names, help="Such as node0/file0."),
    ],
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
    full_from: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="automatic plans fully from this size on (16MB in the paper). Default: by cost.",
        ),
    ] = None,
    lanes: Annotated[
        int, typer.Option(metavar="N", min=1, max=8, help="Most paths that may be used at once.")
    ] = 1,
    through: Annotated[
        str | None,
        typer.Option(
            metavar="MEMORY,..",
            autocompletion=memory_names,
            help="The memories between the ends, to force a path.",
        ),
    ] = None,
    waiting: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CHANNEL=SECONDS",
            help="Work that goes first on a channel. May be repeated.",
        ),
    ] = None,
    draw: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the graph and the path into a .png, .svg or .pdf."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Plan a copy on a machine profile and explain the plan."""
    space = parse_extents(extents)
    known = profile_of(machine)
    try:
        explained, content, profile, seconds = _core.plan_on(
            known,
            (source, parse_layout(source_layout, space)),
            (target, parse_layout(target_layout, space)),
            list(space.items()),
            field_list(parse_fields(fields)),
            planner=planner.value,
            buffer_bytes=parse_size(buffer_bytes, "--buffer-bytes") if buffer_bytes else 0,
            full_from_bytes=parse_size(full_from, "--full-from") if full_from else 0,
            lanes=lanes,
            through=[source, *names_of(through), target] if through is not None else [],
            waiting_s=dict(parse_waiting(text) for text in waiting or []),
        )
    except NotFound as error:  # a memory or a channel that the command line names
        hint = "`tranship topology` lists the memories and channels of a machine"
        raise CommandError(error.message, error.hint or hint) from error
    if draw is not None:
        from ..drawing.plan import draw_plan

        draw_plan(json.loads(profile), json.loads(content), draw)
    if as_json:
        print_json(json.loads(content))
    else:
        sys.stdout.write(explained)
        say(f"planned in {seconds * 1e6:.0f} us")
    if draw is not None:
        say(f"drawn into {draw}")


def names_of(text: str) -> list[str]:
    """The names in a list; an empty text is an empty list."""
    return [name.strip() for name in text.split(",") if name.strip()]


def parse_waiting(text: str) -> tuple[str, float]:
    """Reads ``CHANNEL=SECONDS``."""
    name, equals, number = text.rpartition("=")
    try:
        seconds = float(number)
    except ValueError:
        seconds = -1.0
    if not equals or not name.strip() or not 0 <= seconds < float("inf"):
        raise CommandError(
            f"cannot read --waiting {text!r}",
            "name a channel and seconds, as in --waiting 'node0/memcpy=0.002'; "
            "`tranship topology` lists the channels",
        )
    return name.strip(), seconds
