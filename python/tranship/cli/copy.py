"""`tranship copy`: a file to a file, into another layout, in bounded memory."""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import Engine, Event, File, Plan
from ..arrays.npy import read_header
from ..errors import Error, InvalidArgument, Timeout
from ..settings import PlannerName
from ..units import bytes_text, gbps_text, seconds_text
from .inputs import (
    JsonOption,
    Planner,
    PlannerOption,
    parse_extents,
    parse_fields,
    parse_layout,
    parse_size,
    profile_of,
)
from .talk import CommandError, print_json, progress_bar, say
from .verify import FileView, first_difference

__all__ = ["EXAMPLES", "copy"]

EXAMPLES = """
tranship copy in.npy out.npy --target-layout "d0,d1"
tranship copy in.npy blocks.bin --target-layout "d1:64,d0:64,d1,d0"
tranship copy raw.bin out.npy --extents x=4096,y=4096 \\
  --fields re:f4,im:f4 --source-layout "x,y,F" --memory 1GiB
"""

WAIT_S = 0.1
MEMORY_BYTES_MIN = 1 << 20
VERIFY_SHARE = 4
"""A box that is compared takes at most one part in so many of the memory."""


@dataclass(frozen=True)
class Request:
    """The parsed command line."""

    source: Path
    target: Path
    extents: str | None
    fields: str | None
    source_layout: str | None
    target_layout: str | None
    offset_bytes: int
    memory_bytes: int
    planner: PlannerName
    trace: Path | None
    verify: bool
    force: bool
    explain: bool
    as_json: bool


def copy(
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="A .npy file, or a raw one with --extents.")
    ],
    target: Annotated[
        Path,
        typer.Argument(metavar="TARGET", help="A .npy file, or any other name for a raw one."),
    ],
    target_layout: Annotated[
        str | None,
        typer.Option(metavar="LAYOUT", help="Fastest first. Default: as the source has it."),
    ] = None,
    extents: Annotated[
        str | None, typer.Option(metavar="NAME=N,..", help="Of a raw source: x=4096,y=4096.")
    ] = None,
    fields: Annotated[
        str | None, typer.Option(metavar="NAME:TYPE,..", help="Of a raw source: re:f4,im:f4.")
    ] = None,
    source_layout: Annotated[
        str | None, typer.Option(metavar="LAYOUT", help="Of a raw source. Default: C order.")
    ] = None,
    offset: Annotated[
        int, typer.Option(min=0, metavar="BYTES", help="Header of a raw source, to be skipped.")
    ] = 0,
    memory: Annotated[
        str, typer.Option(metavar="SIZE", help="Most memory that the copy's buffers take.")
    ] = "64MiB",
    planner: PlannerOption = Planner.automatic,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a Chrome trace of the transfer.")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read both files again and compare every byte.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing target.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Print the plan on stdout.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Copy an array between files, larger than memory if need be, into any layout.

    A .npy target is in Fortran order with --target-layout "d0,d1" (the first dimension fastest)
    and in C order with "d1,d0"; a raw one takes any layout. A .npy file has d0, d1, and so on.
    """
    request = Request(
        source=source,
        target=target,
        extents=extents,
        fields=fields,
        source_layout=source_layout,
        target_layout=target_layout,
        offset_bytes=offset,
        memory_bytes=memory_size(memory),
        planner=planner.value,
        trace=trace,
        verify=verify,
        force=force,
        explain=explain,
        as_json=as_json,
    )
    check_paths(request)
    result = carry_out(request)
    if as_json:
        print_json(result)
        return
    say(
        f"copied {bytes_text(result['bytes'])} in {seconds_text(result['seconds'])} "
        f"({gbps_text(result['gbps'])}) to {target}" + (", verified" if verify else "")
    )
    if trace is not None:
        say(f"trace in {trace}; open it at https://ui.perfetto.dev")


def memory_size(text: str) -> int:
    """Returns the bytes that all buffers may take; an engine needs some."""
    size = parse_size(text, "--memory")
    if size < MEMORY_BYTES_MIN:
        raise CommandError(
            f"--memory {text} is too little to copy with",
            f"give at least {bytes_text(MEMORY_BYTES_MIN)}",
        )
    return size


def check_paths(request: Request) -> None:
    """Refuses paths that cannot be read or written, before any file is touched."""
    source, target = request.source, request.target
    if "-" in (str(source), str(target)):
        raise CommandError(
            "'-' names no file here: a copy needs bytes that stay where they are",
            "name a file; one that is called - is written ./-",
        )
    if not source.exists():
        raise CommandError(f"there is no file '{source}'", "check the path", exit_code=1)
    if source.is_dir() or target.is_dir():
        name = source if source.is_dir() else target
        raise CommandError(f"'{name}' is a directory", "name a file in it")
    if target.exists() and os.path.samefile(source, target):
        raise CommandError(
            "the source and the target are the same file",
            "name another target; the copy would read what it has overwritten",
        )
    if target.exists() and not request.force:
        raise CommandError(f"'{target}' exists already", "add --force to overwrite it")
    if not target.absolute().parent.is_dir():
        raise CommandError(
            f"there is no folder '{target.absolute().parent}'", "make it, or name another target"
        )
    trace = request.trace
    if trace is not None and (trace.is_dir() or not trace.absolute().parent.is_dir()):
        raise CommandError(
            f"--trace '{trace}' cannot be written", "name a file in a folder that exists"
        )


def open_source(request: Request) -> File:
    """Opens the source as its header or the options describe it."""
    path = str(request.source)
    if path.endswith(".npy"):
        for option, value in (
            ("--extents", request.extents),
            ("--fields", request.fields),
            ("--source-layout", request.source_layout),
            ("--offset", request.offset_bytes or None),
        ):
            if value is not None:
                raise CommandError(
                    f"{option} is not for '{path}', whose header describes it",
                    "leave the option out",
                )
        return File(path)
    if request.extents is None or request.fields is None:
        missing = "--extents" if request.extents is None else "--fields"
        raise CommandError(
            f"'{path}' is not a .npy file and {missing} is not given",
            "describe it, as in --extents x=4096,y=4096 --fields f:f8 --source-layout F,y,x",
        )
    extents = parse_extents(request.extents)
    fields = parse_fields(request.fields)
    layout = parse_layout(request.source_layout, extents)
    try:
        return File(
            path, extents=extents, fields=fields, layout=layout, offset=request.offset_bytes
        )
    except InvalidArgument as error:
        options = "check --extents, --fields, --source-layout and --offset"
        hint = options if error.code == "out_of_range" else error.hint or options
        raise CommandError(error.message, hint) from error


def open_target(request: Request, source: File) -> File:
    """Opens a new file with the extents and fields of the source; it has its name at the end."""
    path = str(request.target)
    extents = dict(zip(source.dimensions, source.shape, strict=True))
    layout = source.layout
    if request.target_layout is not None:
        layout = parse_layout(request.target_layout, extents)
    elif path.endswith(".npy") and not fits_npy(source):
        layout = parse_layout(None, extents)
    check_space(request, source)
    return File(path, extents=extents, fields=source.dtype, layout=layout, mode="w")


def fits_npy(source: File) -> bool:
    """Whether a .npy file can have the source's own layout."""
    names = list(source.dimensions)
    fortran, c_order = ", ".join(["F", *names]), ", ".join(["F", *reversed(names)])
    return source.layout in (fortran, c_order)


def check_space(request: Request, source: File) -> None:
    """Refuses a target that the disk has no room for; an old file stays until the end."""
    folder = request.target.absolute().parent
    free = shutil.disk_usage(folder).free
    if source.nbytes > free:
        raise CommandError(
            f"the target needs {bytes_text(source.nbytes)} and '{folder}' has {bytes_text(free)} "
            "free",
            "free some space or name a target on another disk",
            exit_code=1,
        )


def carry_out(request: Request) -> dict[str, Any]:
    """Copies, flushes and verifies; a target that is not whole does not get its name."""
    source = open_source(request)
    profile = profile_of(None)
    trace = str(request.trace) if request.trace is not None else None
    with (
        Engine(profile=profile, trace=trace, buffer_bytes=request.memory_bytes) as engine,
        open_target(request, source) as target,
    ):
        plan = engine.plan(
            source, target, planner=request.planner, buffer_bytes=request.memory_bytes
        )
        if request.explain and not request.as_json:
            print(plan.explain(), end="")
        times = run(request, engine, source, target)
    if request.verify:
        verify(request, source, target)
    return summary(request, plan, *times)


def run(request: Request, engine: Engine, source: File, target: File) -> tuple[float, float]:
    """Copies and returns the seconds of the copy, and of the flush to the disk after it."""
    begin = time.perf_counter()
    try:
        event = engine.copy(
            source, target, planner=request.planner, buffer_bytes=request.memory_bytes
        )
        follow(event, source.nbytes)
        seconds = time.perf_counter() - begin
        target.flush()
    except Error as error:
        raise not_made(request.target, error) from error
    except KeyboardInterrupt:
        say(f"'{request.target}' was not made" + old_text(request.target))
        raise
    return seconds, time.perf_counter() - begin - seconds


def summary(request: Request, plan: Plan, seconds: float, flush_s: float) -> dict[str, Any]:
    """Returns what was done, for programs."""
    return {
        "source": str(request.source),
        "target": str(request.target),
        "bytes": plan.bytes,
        "seconds": seconds,
        "flush_s": flush_s,
        "gbps": plan.bytes / seconds / 1e9,
        "memory_bytes": request.memory_bytes,
        "verified": True if request.verify else None,
        "trace": str(request.trace) if request.trace is not None else None,
        "plan": json.loads(plan.to_json()),
    }


def not_made(target: Path, error: Error) -> CommandError:
    """Returns the error, with what became of the target."""
    return CommandError(
        f"{error.message} ('{target}' was not made{old_text(target)})",
        error.hint or "copy again when the reason is gone",
        exit_code=1,
    )


def old_text(target: Path) -> str:
    """Returns words for the old file, if there is one."""
    return "; the old file is as it was" if target.exists() else ""


def follow(event: Event, count: int) -> None:
    """Waits for the end; shows progress by the bytes that the process has written."""
    before = bytes_written()
    with progress_bar("copying") as report:
        while True:
            try:
                event.wait(timeout=WAIT_S)
                return
            except Timeout:
                if event.done():
                    raise
                share = (bytes_written() - before) / max(count, 1)
                report(min(share, 1.0), bytes_text(count))
            except KeyboardInterrupt:
                event.cancel()
                raise


def bytes_written() -> int:
    """Returns the bytes that this process has written; 0 where the system does not count them."""
    try:
        text = Path("/proc/self/io").read_text()
    except OSError:
        return 0
    return next((int(line[6:]) for line in text.splitlines() if line.startswith("wchar:")), 0)


def verify(request: Request, source: File, target: File) -> None:
    """Compares every byte of both files."""
    views = [
        FileView.open(str(path), file, start_of(path, offset_bytes))
        for path, file, offset_bytes in (
            (request.source, source, request.offset_bytes),
            (request.target, target, 0),
        )
    ]
    with progress_bar("verifying") as report:
        box_bytes = request.memory_bytes // VERIFY_SHARE
        place = first_difference(views[0], views[1], box_bytes, report)
    if place is not None:
        raise CommandError(
            f"'{request.target}' differs from the source at or after {place}: do not use it",
            "something else may have written to one of the files; copy again with --force",
            exit_code=1,
        )


def start_of(path: Path, offset_bytes: int) -> int:
    """Returns the bytes before the data."""
    return read_header(str(path))[3] if path.suffix == ".npy" else offset_bytes
