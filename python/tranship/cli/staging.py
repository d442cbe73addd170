"""`tranship put`, `get` and `ls`: clients of the staging service."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..staging import Staging
from .inputs import JsonOption, bytes_text
from .talk import CommandError, print_json, print_table, say, table_of

__all__ = ["GET_EXAMPLES", "LS_EXAMPLES", "PUT_EXAMPLES", "get", "ls", "put"]

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


ServerArgument = Annotated[
    str, typer.Argument(metavar="CONTACT", help="The (first) server's contact file, or host:port.")
]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The variable.")]
LowerOption = Annotated[
    str | None,
    typer.Option(metavar="I,J,…", help="The box's first indices. Default: put 0, get the first."),
]
FIND_S = 2.0
"""How long a command looks for a server that may be about to start."""
TimeoutOption = Annotated[float, typer.Option(metavar="SECONDS", help="How long to wait.")]


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
    """List the variables of staging servers, and the servers."""
    with Staging(server, timeout=FIND_S) as staging:
        variables, servers = staging.ls(), staging.servers()
    if as_json:
        print_json({"variables": variables, "servers": servers})
        return
    table = table_of("variable", "type", "bounds", "versions", ">objects", ">memory", ">producers")
    for variable in variables:
        table.add_row(*row_of(variable))
    print_table(table)
    table = table_of(">server", "at", ">memory", ">in use", ">clients", "names")
    for one in servers:
        memory, used = bytes_text(one["memory"]), bytes_text(one["memory_used"])
        names = ", ".join(one["names"])
        table.add_row(str(one["server"]), one["contact"], memory, used, str(one["clients"]), names)
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
