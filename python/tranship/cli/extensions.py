"""Commands of the command line that other distributions bring, found through entry points.

An entry point of the group ``tranship.commands`` names a pair: the function that Typer runs, and
the examples below its help.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Annotated, Any, NamedTuple

import typer

from .talk import CommandError

__all__ = ["Command", "extensions"]

GROUP = "tranship.commands"

BENCHMARKS = {
    "bench": "Run a benchmark and print its results.",
    "figures": "Draw figures from the result lines of `tranship bench`.",
}
"""Commands of the package tranship-bench, which stands beside this one in the source tree."""

INSTALL = "install the benchmarks in the source tree: pip install ./benchmarks"


class Command(NamedTuple):
    """A function that Typer runs, and the examples below its help."""

    function: Callable[..., Any]
    examples: str
    takes_anything: bool = False
    """Whether unknown options are arguments to it, so that its own error is seen."""


def extensions() -> dict[str, Command]:
    """Returns the commands by name; those of BENCHMARKS are there even if not installed."""
    found: dict[str, Command] = {}
    for point in entry_points(group=GROUP):
        try:
            found[point.name] = Command(*point.load())
        except ImportError as error:
            hint = INSTALL if point.name in BENCHMARKS else "install the package again"
            found[point.name] = unavailable(point.name, f"cannot be loaded: {error}", hint)
    for name in BENCHMARKS:
        if name not in found:
            found[name] = unavailable(name, "needs the package tranship-bench", INSTALL)
    return found


def unavailable(name: str, reason: str, hint: str) -> Command:
    """Returns a command that fails with the reason, whatever its arguments are."""

    def fail(arguments: Annotated[list[str] | None, typer.Argument(hidden=True)] = None) -> None:
        raise CommandError(f"`tranship {name}` {reason}", hint)

    words = BENCHMARKS.get(name, "A command of another package.")
    fail.__doc__ = f"{words} Not installed: {hint}"
    return Command(fail, f"tranship {name} --help", takes_anything=True)
