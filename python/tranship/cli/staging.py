"""`tranship put`, `get` and `ls`: clients of the staging service."""

from __future__ import annotations

import itertools
import json
import re
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer
from rich.table import Table

from ..arrays.npy import beside, read_header
from ..errors import InvalidArgument
from ..staging import Staging
from ..units import bytes_text, rate_text
from .inputs import JsonOption
from .talk import (
    CommandError,
    clear_screen,
    on_terminal,
    print_json,
    print_table,
    say,
    table_of,
)

__all__ = ["GET_EXAMPLES", "LS_EXAMPLES", "PUT_EXAMPLES", "get", "ls", "put"]

PUT_EXAMPLES = """
tranship put staging.contact energy 3 block.npy --lower 0,0,128
tranship put staging.contact energy 3 fields.npz --member energy
tranship put staging.contact energy -1 block.npy --json
"""
GET_EXAMPLES = """
tranship get staging.contact energy 3 out.npy --lower 0,0,0 --upper 64,64,64
tranship get staging.contact energy latest out.npy
"""
LS_EXAMPLES = """
tranship ls staging.contact
tranship ls staging.contact --watch 2 --paths
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
WAYS = ("puts", "gets")
RATES = (">put rate", ">get rate")
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


def load(file: Path, member: str | None) -> npt.NDArray[Any]:
    """Returns the array of a .npy file, or one of an archive.

    Raises:
        CommandError: An archive of which `member` names no array, or a file that holds none.
    """
    try:
        loaded = np.load(file, mmap_mode="r")
        if isinstance(loaded, np.ndarray):
            if member is not None:
                raise CommandError(f"'{file}' is not an archive", "leave out --member")
            return np.asarray(loaded)
        with loaded:
            names = ", ".join(loaded.files) or "none"
            if member is None:
                raise CommandError(
                    f"'{file}' is an archive of several arrays",
                    f"choose one with --member; its arrays are {names}",
                )
            if member not in loaded.files:
                raise CommandError(
                    f"'{file}' has no array {member!r}", f"choose another: its arrays are {names}"
                )
            return np.asarray(loaded[member])
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        explain_refusal(file)
        raise CommandError(
            f"'{file}' holds no array that can be put: {error}", "save it again with numpy.save"
        ) from None


def explain_refusal(file: Path) -> None:
    """Raises a more precise error than NumPy for a file that it does not load, if there is one."""
    try:
        read_header(str(file))
    except InvalidArgument as error:
        raise CommandError(error.message, error.hint or "save it again with numpy.save") from None


def put(
    server: ServerArgument,
    name: NameArgument,
    version: Annotated[int, typer.Argument(metavar="VERSION")],
    file: Annotated[Path, typer.Argument(metavar="FILE.npy|FILE.npz")],
    lower: LowerOption = None,
    member: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which array of an archive (.npz).")
    ] = None,
    timeout: TimeoutOption = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Put an array of a .npy file, or of an .npz archive, as a box of a variable."""
    array = load(file, member)
    with Staging(server, timeout=FIND_S) as staging:
        first = corner(lower, "--lower")
        staging.put(name, version, array, first, timeout=timeout)
    if as_json:
        print_json(
            {
                "variable": name,
                "version": version,
                "bytes": array.nbytes,
                "lower": list(first or (0,) * array.ndim),
                "shape": list(array.shape),
                "type": str(array.dtype),
            }
        )
        return
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
    as_json: JsonOption = False,
) -> None:
    """Get a box of a variable into a .npy file. Default: all that was ever put."""
    if version != "latest" and not re.fullmatch(r"-?[0-9]+", version):
        raise CommandError(f"{version!r} is not a version", 'give a whole number, or "latest"')
    with Staging(server, timeout=FIND_S) as staging:
        array = staging.get(
            name,
            "latest" if version == "latest" else int(version),
            corner(lower, "--lower"),
            corner(upper, "--upper"),
            timeout=timeout,
        )
    with beside(file) as opened:
        np.save(opened, array)
    if as_json:
        print_json(
            {
                "variable": name,
                "version": version if version == "latest" else int(version),
                "bytes": array.nbytes,
                "shape": list(array.shape),
                "type": str(array.dtype),
                "file": str(file),
            }
        )
        return
    say(f"{bytes_text(array.nbytes)} of {name} are in {file}")


def ls(
    server: ServerArgument,
    watch: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", min=0.01, help="Look again after so many seconds, and show rates."
        ),
    ] = None,
    looks: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="With --watch: end after N of them.")
    ] = None,
    paths: Annotated[
        bool, typer.Option("--paths", help="Show by which paths puts and gets went.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List the variables of staging servers, what was put and got, and the servers."""
    if looks is not None and watch is None:
        raise CommandError("--looks needs --watch", "say how often: --watch 1")
    with Staging(server, timeout=FIND_S) as staging:
        if watch is None:
            show(staging.ls(), staging.servers(), paths, as_json)
            return
        for number, variables in enumerate(looks_at(staging, watch, looks)):
            if as_json:
                print(json.dumps({"variables": variables, "servers": staging.servers()}))
            else:
                if on_terminal():
                    clear_screen()
                elif number > 0:
                    print()
                show(variables, staging.servers(), paths, as_json)
            sys.stdout.flush()


def looks_at(staging: Staging, seconds: float, count: int | None) -> Iterator[list[dict[str, Any]]]:
    """Yields the variables again and again, with the rates since the look before."""
    before, since = totals_of(staging.ls()), time.monotonic()
    for _ in itertools.count() if count is None else range(count):
        time.sleep(seconds)
        variables, now = staging.ls(), time.monotonic()
        for variable in variables:
            for way in WAYS:
                grown = variable[way]["bytes"] - before.get((variable["name"], way), 0)
                variable[way]["bytes_per_second"] = grown / (now - since)
        yield variables
        before, since = totals_of(variables), now


def totals_of(variables: list[dict[str, Any]]) -> dict[tuple[str, str], int]:
    """Returns the bytes moved, by variable and way."""
    return {(one["name"], way): one[way]["bytes"] for one in variables for way in WAYS}


def show(
    variables: list[dict[str, Any]], servers: list[dict[str, Any]], paths: bool, as_json: bool
) -> None:
    """Prints the variables and servers as JSON or as tables."""
    if as_json:
        print_json({"variables": variables, "servers": servers})
        return
    table = table_of("variable", "~type", "~bounds", "~versions", ">objects", ">memory")
    for variable in variables:
        table.add_row(*row_of(variable))
    print_table(table)
    if variables:
        print()
    rates = any("bytes_per_second" in variable["puts"] for variable in variables)
    table = table_of("variable", ">producers", ">puts", ">gets", *(RATES if rates else ()))
    for variable in variables:
        table.add_row(*traffic_row(variable))
    print_table(table)
    if paths:
        print_table(table_of_paths(variables))
    print()
    table = table_of(">server", "~at", ">memory", ">in use", ">on disk", ">clients", "~names")
    for one in servers:
        sizes = [bytes_text(one[key]) for key in ("memory", "memory_used", "spilled")]
        names = ", ".join(one["names"])
        table.add_row(str(one["server"]), one["contact"], *sizes, str(one["clients"]), names)
    print_table(table)


def table_of_paths(variables: list[dict[str, Any]]) -> Table:
    """Returns how many puts and gets went by which path."""
    table = table_of("variable", "moved by", "path", ">times")
    for variable in variables:
        for way in WAYS:
            for path, times in variable[way]["paths"].items():
                table.add_row(variable["name"], way, path, str(times))
    return table


def row_of(variable: dict[str, Any]) -> tuple[str, ...]:
    """Returns name, type, bounds and versions of a variable."""
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
    )


def traffic_row(variable: dict[str, Any]) -> tuple[str, ...]:
    """Returns what was put and got, and how fast since the look before."""
    moved = [variable[way] for way in WAYS]
    return (
        variable["name"],
        str(variable["producers"]),
        *(f"{way['count']}, {bytes_text(way['bytes'])}" for way in moved),
        *(rate_text(way["bytes_per_second"]) for way in moved if "bytes_per_second" in way),
    )
