"""`tranship put`, `get` and `ls`: clients of the staging service."""

from __future__ import annotations

import itertools
import json
import re
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer
from rich.table import Table

from ..arrays.npy import read_header
from ..errors import InvalidArgument, NotFound
from ..files import new_file, open_to_read
from ..staging import ListedStep, Staging
from ..staging.arguments import which_version
from ..staging.reader import Version
from ..units import bytes_text
from .inputs import JsonOption
from .step_rows import table_of_steps
from .talk import (
    CommandError,
    clear_screen,
    lines_of_terminal,
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
    typer.Option(
        metavar="I,J,…", help="The box's first indices. Default: put 0, get the version's."
    ),
]
WAYS = ("puts", "gets")
RATES = (">put rate", ">get rate")
TOTAL = "(all)"
"""Name of the row with the sums."""
ROWS_AROUND = 5
"""Lines around the variables of a screen: two headings, the sums, an empty line, the prompt."""
FIND_S = 2.0
"""How long a command looks for a server that may be about to start."""
STEPS_S = 600.0
"""How long a list of steps may take: each is asked for alone, and there may be 100,000."""
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


def connected(server: str) -> Staging:
    """Connects to a staging server.

    Raises:
        CommandError: There is none, and no sign of one.
    """
    try:
        return Staging(server, timeout=FIND_S)
    except NotFound as error:
        raise CommandError(
            error.message, f"start a server: tranship serve --contact {server}", exit_code=1
        ) from error


def load(file: Path, member: str | None) -> npt.NDArray[Any]:
    """Returns the array of a .npy file, or one of an archive.

    Raises:
        CommandError: An archive of which `member` names no array, or a file that holds none.
    """
    open_to_read(file).close()
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
    with connected(server) as staging:
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
    file: Annotated[
        Path, typer.Argument(metavar="FILE.npy", help="- writes to the standard output.")
    ],
    lower: LowerOption = None,
    upper: Annotated[
        str | None, typer.Option(metavar="I,J,…", help="One past the box's last indices.")
    ] = None,
    timeout: TimeoutOption = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Get a box of a variable into a .npy file. Default: all of the version."""
    if version != "latest" and not re.fullmatch(r"-?[0-9]+", version):
        raise CommandError(f"{version!r} is not a version", 'give a whole number, or "latest"')
    as_output = str(file) == "-"
    if as_output and (as_json or sys.stdout.isatty()):
        raise CommandError(
            "the array would go to the standard output, which "
            + ("--json prints on" if as_json else "is a terminal"),
            "name a file, or lead the output to a program: tranship get … - | program",
        )
    first, last = corner(lower, "--lower"), corner(upper, "--upper")
    which: Version = "latest" if version == "latest" else int(version)
    # The file first: a path that cannot be written is not waited for.
    with nullcontext(Output()) if as_output else new_file(file) as opened:
        with connected(server) as staging:
            if first is None and last is None:
                which, box = staging._version_box(name, *which_version(which), timeout)
                first, last = box.lower, box.upper
            array = staging.get(name, which, first, last, timeout=timeout)
        np.lib.format.write_array(opened, np.asanyarray(array), allow_pickle=False)
    if as_json:
        print_json(
            {
                "variable": name,
                "version": which,
                "bytes": array.nbytes,
                "lower": None if first is None else list(first),
                "shape": list(array.shape),
                "type": str(array.dtype),
                "file": str(file),
            }
        )
        return
    place = "written to the standard output" if as_output else f"in {file}"
    say(f"{bytes_text(array.nbytes)} of version {which} of {name} are {place}")


class Output:
    """The standard output as NumPy writes to it: piece by piece, also where it is a pipe."""

    def write(self, part: bytes) -> int:
        """Writes bytes."""
        return sys.stdout.buffer.write(part)


class Order(StrEnum):
    """Which variables come first."""

    name = "name"
    memory = "memory"
    rate = "rate"


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
    sort: Annotated[
        Order | None,
        typer.Option(
            help="Which variables come first: by name, the largest, or with --watch the busiest. "
            "Default: name; with --watch on a terminal rate.",
        ),
    ] = None,
    paths: Annotated[
        bool, typer.Option("--paths", help="Show by which paths puts and gets went.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List the variables of staging servers, what was put and got, the steps, and the servers.

    With --watch there are no steps; on a terminal, what fits its height is shown, the busiest
    variables first.
    """
    if watch is None and (looks is not None or sort is Order.rate):
        option = "--looks" if looks is not None else "--sort rate"
        raise CommandError(f"{option} needs --watch", "say how often: --watch 1")
    with connected(server) as staging:
        if watch is None:
            variables, servers = ordered(staging.ls(), sort), staging.servers()
            show(variables, servers, staging.list_steps(timeout=STEPS_S), paths, as_json)
            return
        order = sort or (Order.rate if on_terminal() and not as_json else None)
        for number, variables in enumerate(looks_at(staging, watch, looks)):
            listed = ordered(variables, order)
            if as_json:
                print(json.dumps({"variables": listed, "servers": staging.servers()}))
            else:
                if on_terminal():
                    clear_screen()
                elif number > 0:
                    print()
                show_rates(listed, staging.servers(), paths)
            sys.stdout.flush()


def ordered(variables: list[dict[str, Any]], order: Order | None) -> list[dict[str, Any]]:
    """Returns the variables in an order; those that are equal in it, by name."""
    by_name = sorted(variables, key=lambda one: str(one["name"])) if order else variables
    if order is Order.memory:
        return sorted(by_name, key=memory_of, reverse=True)
    if order is Order.rate:
        return sorted(by_name, key=rate_of, reverse=True)
    return by_name


def memory_of(variable: dict[str, Any]) -> int:
    """Returns the bytes that all versions of a variable take."""
    return sum(version["bytes"] for version in variable["versions"])


def rate_of(variable: dict[str, Any]) -> float:
    """Returns the bytes a second that were put and got since the look before."""
    return sum(float(variable[way]["bytes_per_second"]) for way in WAYS)


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
    variables: list[dict[str, Any]],
    servers: list[dict[str, Any]],
    steps: list[ListedStep],
    paths: bool,
    as_json: bool,
) -> None:
    """Prints the variables, steps and servers as JSON or as tables."""
    if as_json:
        listed = [asdict(step) for step in steps]
        print_json({"variables": variables, "steps": listed, "servers": servers})
        return
    table = table_of("variable", "~type", "~bounds", "~versions", ">objects", ">memory")
    for variable in variables:
        table.add_row(*row_of(variable))
    if len(variables) > 1:
        objects = sum(v["objects"] for one in variables for v in one["versions"])
        table.add_row(TOTAL, "", "", "", str(objects), bytes_text(sum(map(memory_of, variables))))
    print_table(table)
    if variables:
        print()
    table = table_of("variable", ">producers", ">puts", ">gets")
    for variable in variables:
        moved = [moved_text([variable], way) for way in WAYS]
        table.add_row(variable["name"], str(variable["producers"]), *moved)
    if len(variables) > 1:
        table.add_row(TOTAL, "", *(moved_text(variables, way) for way in WAYS))
    print_table(table)
    if paths:
        print_table(table_of_paths(variables))
    print()
    if steps:
        print_table(table_of_steps(steps))
        print()
    print_table(table_of_servers(servers))


def show_rates(variables: list[dict[str, Any]], servers: list[dict[str, Any]], paths: bool) -> None:
    """Prints what moves: on a terminal no more variables than fit, and all of them in the total."""
    room = max(lines_of_terminal() - len(servers) - ROWS_AROUND, 1)
    shown = variables if len(variables) <= room else variables[: room - 1]
    table = table_of("variable", "~versions", ">memory", ">puts", ">gets", *RATES)
    for variable in shown:
        table.add_row(*rates_row(variable["name"], versions_text(variable), [variable]))
    if len(shown) < len(variables):
        rest = variables[len(shown) :]
        table.add_row(*rates_row(f"{len(rest)} others", "", rest))
    if len(variables) > 1:
        table.add_row(*rates_row(TOTAL, "", variables))
    print_table(table)
    if paths:
        print_table(table_of_paths(variables))
    print()
    print_table(table_of_servers(servers))


def rates_row(name: str, versions: str, variables: list[dict[str, Any]]) -> tuple[str, ...]:
    """Returns what some variables take, and what was put and got of them since the look before.

    Rates are in the units of the sizes beside them.
    """
    rates = [sum(one[way]["bytes_per_second"] for one in variables) for way in WAYS]
    return (
        name,
        versions,
        bytes_text(sum(map(memory_of, variables))),
        *(moved_text(variables, way) for way in WAYS),
        *(f"{bytes_text(rate)}/s" for rate in rates),
    )


def table_of_servers(servers: list[dict[str, Any]]) -> Table:
    """Returns what each server has and holds."""
    table = table_of(">server", "~at", ">memory", ">in use", ">on disk", ">clients", "~names")
    for one in servers:
        sizes = [bytes_text(one[key]) for key in ("memory", "memory_used", "spilled")]
        names = ", ".join(one["names"])
        table.add_row(str(one["server"]), one["contact"], *sizes, str(one["clients"]), names)
    return table


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
    bounds = zip(variable["lower"], variable["upper"], strict=True)
    return (
        variable["name"],
        variable["type"],
        ", ".join(f"{a}:{b}" for a, b in bounds),
        versions_text(variable),
        str(sum(version["objects"] for version in variable["versions"])),
        bytes_text(memory_of(variable)),
    )


def versions_text(variable: dict[str, Any]) -> str:
    """Returns how many versions a variable has, and the first and the last one."""
    versions = variable["versions"]
    first_last = [str(versions[k]["version"]) for k in ((0, -1) if len(versions) > 1 else (0,))]
    return f"{len(versions)} ({' to '.join(first_last)})" if versions else "0"


def moved_text(variables: list[dict[str, Any]], way: str) -> str:
    """Returns how often and how much of some variables was put, or got."""
    count = sum(variable[way]["count"] for variable in variables)
    return f"{count}, {bytes_text(sum(variable[way]['bytes'] for variable in variables))}"
