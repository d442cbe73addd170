"""`tranship serve`, `put`, `get` and `ls`: the staging service."""

from __future__ import annotations

import os
import signal
import threading
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..staging import Staging, StagingServer
from .inputs import JsonOption, bytes_text, parse_size
from .talk import CommandError, print_json, print_table, say, table_of

__all__ = [
    "GET_EXAMPLES",
    "LS_EXAMPLES",
    "PUT_EXAMPLES",
    "SERVE_EXAMPLES",
    "get",
    "ls",
    "put",
    "serve",
]

SERVE_EXAMPLES = """
tranship serve --contact staging.contact --memory 8GiB
tranship serve --contact staging.contact --versions 10 --full discard-oldest
"""
PUT_EXAMPLES = """
tranship put staging.contact energy 3 block.npy --lower 0,0,128
"""
GET_EXAMPLES = """
tranship get staging.contact energy 3 out.npy --lower 0,0,0 --upper 64,64,64
tranship get staging.contact energy latest out.npy
"""
LS_EXAMPLES = """
tranship ls staging.contact
tranship ls staging.contact --json
"""


class FullMemory(str, Enum):
    """What becomes of a put when the memory is full."""

    block = "block"
    discard_oldest = "discard-oldest"


ServerArgument = Annotated[
    str, typer.Argument(metavar="CONTACT", help="The server's contact file, or host:port.")
]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The variable.")]
LowerOption = Annotated[
    str | None,
    typer.Option(metavar="I,J,…", help="The box's first indices. Default: put 0, get the first."),
]
FIND_S = 2.0
"""How long a command looks for a server that may be about to start."""
TimeoutOption = Annotated[float, typer.Option(metavar="SECONDS", help="How long to wait.")]


def serve(
    contact: Annotated[
        Path, typer.Option(metavar="FILE", help="Written for clients; removed at the end.")
    ] = Path("staging.contact"),
    memory: Annotated[
        str, typer.Option(metavar="SIZE", help="What objects may take in all.")
    ] = "1GiB",
    versions: Annotated[
        int, typer.Option(metavar="N", help="Versions of a variable that are kept; 0: all.")
    ] = 0,
    full: Annotated[
        FullMemory, typer.Option(help="What becomes of a put when the memory is full.")
    ] = FullMemory.block,
) -> None:
    """Run a staging server until it is interrupted (Ctrl-C, SIGTERM)."""
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    server = StagingServer(
        contact, memory=parse_size(memory, "--memory"), versions=versions, full=full.value
    )
    with server:
        print(f"serving at {server.contact}, in {contact}", flush=True)
        while not ended.wait(timeout=1.0):
            pass
        say(f"closing: {server.clients} clients, {bytes_text(server.memory_used)} in use")


def corner(text: str | None, option: str) -> tuple[int, ...] | None:
    """Reads ``0,0,128``."""
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise CommandError(
            f"{option} {text} is not a list of indices", "write it as 0,0,128"
        ) from None


def put(
    server: ServerArgument,
    name: NameArgument,
    version: Annotated[int, typer.Argument(metavar="VERSION")],
    file: Annotated[Path, typer.Argument(metavar="FILE.npy")],
    lower: LowerOption = None,
    timeout: TimeoutOption = 30.0,
) -> None:
    """Put an array of a .npy file as a box of a variable."""
    array = np.load(file, mmap_mode="r")
    with Staging(server, timeout=FIND_S) as staging:
        staging.put(name, version, np.asarray(array), corner(lower, "--lower"), timeout=timeout)
    say(f"put {bytes_text(array.nbytes)} as version {version} of {name}")


def get(
    server: ServerArgument,
    name: NameArgument,
    version: Annotated[str, typer.Argument(metavar="VERSION|latest")],
    file: Annotated[Path, typer.Argument(metavar="FILE.npy")],
    lower: LowerOption = None,
    upper: Annotated[
        str | None, typer.Option(metavar="I,J,…", help="One past the box's last indices.")
    ] = None,
    timeout: TimeoutOption = 30.0,
) -> None:
    """Get a box of a variable into a .npy file. Default: all that was ever put."""
    if version != "latest" and not version.lstrip("-").isdigit():
        raise CommandError(f"{version} is no version", 'give a whole number, or "latest"')
    with Staging(server, timeout=FIND_S) as staging:
        array = staging.get(
            name,
            "latest" if version == "latest" else int(version),
            corner(lower, "--lower"),
            corner(upper, "--upper"),
            timeout=timeout,
        )
    partial = file.with_name(file.name + ".part.npy")
    np.save(partial, array)
    os.replace(partial, file)
    say(f"{bytes_text(array.nbytes)} of {name} are in {file}")


def ls(server: ServerArgument, as_json: JsonOption = False) -> None:
    """List the variables of a staging server."""
    with Staging(server, timeout=FIND_S) as staging:
        variables = staging.ls()
    if as_json:
        print_json({"variables": variables})
        return
    table = table_of("variable", "type", "bounds", "versions", ">objects", ">memory", ">producers")
    for variable in variables:
        table.add_row(*row_of(variable))
    print_table(table)


def row_of(variable: dict[str, Any]) -> tuple[str, ...]:
    """A line of the table."""
    versions = variable["versions"]
    first_last = [str(versions[k]["version"]) for k in ((0, -1) if len(versions) > 1 else (0,))]
    bounds = zip(variable["lower"], variable["upper"], strict=True)
    return (
        variable["name"],
        variable["type"],
        ", ".join(f"{a}:{b}" for a, b in bounds),
        f"{len(versions)} ({' to '.join(first_last)})" if versions else "0",
        str(sum(version["objects"] for version in versions)),
        bytes_text(sum(version["bytes"] for version in versions)),
        str(variable["producers"]),
    )
