"""The commands put together, and what becomes of their errors."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from .. import __version__
from ..errors import Error, InvalidArgument
from . import calibrate, config, copy, demo, plan, serve, staging, topology, trace
from .extensions import Command, extensions
from .talk import CommandError, complain, say

__all__ = ["build", "main"]

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

# Typer exports only this leaf of its usage errors, and carries them in a module of its own.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]

COMMANDS: tuple[tuple[Callable[..., Any], str], ...] = (
    (demo.demo, demo.EXAMPLES),
    (topology.topology, topology.EXAMPLES),
    (calibrate.calibrate, calibrate.EXAMPLES),
    (plan.plan, plan.EXAMPLES),
    (copy.copy, copy.EXAMPLES),
    (serve.serve, serve.EXAMPLES),
    (staging.put, staging.PUT_EXAMPLES),
    (staging.get, staging.GET_EXAMPLES),
    (staging.ls, staging.LS_EXAMPLES),
    (trace.trace, trace.EXAMPLES),
    (config.config, config.EXAMPLES),
)


def build() -> typer.Typer:
    """The application with all its commands."""
    app = typer.Typer(
        help="Move N-dimensional arrays between any two memories, in one call.",
        add_completion=False,
        pretty_exceptions_enable=False,
        invoke_without_command=True,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(root)
    own = {function.__name__: Command(function, examples) for function, examples in COMMANDS}
    for name, command in {**own, **extensions()}.items():
        lines = ["Examples:", *command.examples.strip().splitlines()]
        settings = {"ignore_unknown_options": True} if command.takes_anything else None
        app.command(name, epilog="\n\n".join(lines), context_settings=settings)(command.function)
    return app


def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Move N-dimensional arrays between any two memories, in one call."""
    if version:
        print(f"tranship {__version__}")
        raise typer.Exit()
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit()


def main(arguments: list[str] | None = None) -> int:
    """Runs a command line and returns its exit code: 0 done, 1 failed, 2 not understood."""
    command = typer.main.get_command(build())
    words = sys.argv[1:] if arguments is None else arguments
    try:
        code = command(args=words, prog_name="tranship", standalone_mode=False)
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        code = EXIT_INTERRUPTED
    except BrokenPipeError:
        silence_stdout()
        return EXIT_FAILED
    except Exception as error:
        return explain_failure(error, words)
    if code == EXIT_INTERRUPTED:
        say("interrupted")
    return code if isinstance(code, int) else 0


def explain_failure(error: Exception, words: list[str]) -> int:
    """Says what went wrong and what to do; a bug of ours keeps its traceback."""
    named = [word for word in words[:1] if not word.startswith("-")]
    help_hint = f"`{' '.join(['tranship', *named])} --help` shows options and examples"
    if isinstance(error, CommandError):
        complain(error.message, error.hint)
        return error.exit_code
    if isinstance(error, Error):
        complain(error.message, error.hint or help_hint)
        return EXIT_USAGE if isinstance(error, InvalidArgument) else EXIT_FAILED
    if isinstance(error, UsageError):
        format_message: Callable[[], str] = getattr(error, "format_message", lambda: str(error))
        message = format_message().rstrip(".").replace("Value error, ", "")
        if number := re.search(r"No such option: (-[0-9]+)", message):
            complain(
                f"{number[1]} is read as an option",
                f"write -- between the options and a negative version, as in {negative(words)}",
            )
            return EXIT_USAGE
        names = {function.__name__ for function, _ in COMMANDS} | set(extensions())
        known = bool(names & set(words[:1]))
        complain(message, help_hint if known else "`tranship --help` lists the commands")
        return EXIT_USAGE
    if isinstance(error, OSError):
        name = f"'{error.filename}': " if error.filename else ""
        complain(f"{name}{error.strerror or error}", "check the path, its permissions and space")
        return EXIT_FAILED
    if isinstance(error, MemoryError):
        complain("there is not enough memory", "lower --memory, or the extents")
        return EXIT_FAILED
    raise error


def negative(words: list[str]) -> str:
    """A command line that can have a negative version."""
    name = words[0] if words[:1] in (["put"], ["get"]) else "put"
    return f"`tranship {name} --lower 0,0 -- staging.contact energy -1 block.npy`"


def silence_stdout() -> None:
    """The reader of stdout has gone: keeps the interpreter from complaining at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
