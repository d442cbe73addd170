"""The commands put together, and what becomes of their errors."""

from __future__ import annotations

import importlib
import inspect
import io
import os
import re
import sys
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer

from .. import __version__
from ..errors import Error, InvalidArgument, NotFound, PeerLost, Timeout
from .extensions import BENCHMARKS, Command, extensions
from .talk import CommandError, complain, say

__all__ = ["build", "run"]

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

# Typer exports only this leaf of its usage errors, and carries them in a module of its own.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]

COMMANDS = {
    "demo": "demo",
    "topology": "topology",
    "calibrate": "calibrate",
    "plan": "plan",
    "copy": "copy",
    "serve": "serve",
    "put": "staging",
    "get": "staging",
    "ls": "staging",
    "record": "recordings",
    "replay": "recordings",
    "trace": "trace",
    "config": "config",
    "mpi-run": "mpi_run",
}
"""The module of each command, which is imported when the command is run or listed."""

RUNS_PROGRAMS = ("mpi-run",)
"""Commands whose arguments are a program and its options."""
WITH_NEGATIVE = ("put", "get")
"""Commands of which an argument may be a negative number."""
FLAGS = ("--json", "--help", "-h")
"""Their options that take no value."""


def build(name: str | None = None) -> typer.Typer:
    """Returns the application with one command, or, without a known name, with all of them."""
    app = typer.Typer(
        help="Move N-dimensional arrays between any two memories, in one call.",
        pretty_exceptions_enable=False,
        # Plain help fits 80 columns: frames and types of flags take half of them, and in brackets
        # stand words of ours, not styles.
        rich_markup_mode=None,
        invoke_without_command=True,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(root)
    for each, command in commands(name).items():
        lines = command.examples.strip().splitlines()
        settings = {
            "ignore_unknown_options": command.takes_anything,
            "allow_interspersed_args": each not in RUNS_PROGRAMS,
        }
        # "\b" keeps the lines below it as they are: they are to be pasted into a shell.
        epilog = "\n".join(["Examples:", "", "\b", *(f"  {line}" for line in lines)])
        first = (inspect.getdoc(command.function) or "").partition("\n\n")[0].replace("\n", " ")
        app.command(each, epilog=epilog, short_help=first, context_settings=settings)(
            command.function
        )
    return app


def commands(name: str | None) -> dict[str, Command]:
    """Returns one command, or all of them if there is no such command."""
    if name in COMMANDS:
        return {name: own_command(name)}
    others = extensions()
    if name in others:
        return {name: others[name]}
    return {**{each: own_command(each) for each in COMMANDS}, **others}


def own_command(name: str) -> Command:
    """Imports a command of this package."""
    module = importlib.import_module(f".{COMMANDS[name]}", __package__)
    function = name.replace("-", "_")
    shared = COMMANDS[name] != function
    examples = getattr(module, f"{name.upper()}_EXAMPLES" if shared else "EXAMPLES")
    return Command(getattr(module, function), examples)


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


def run(words: list[str]) -> int:
    """Runs a command line and returns its exit code: 0 done, 1 failed, 2 not understood."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")  # names of files may be any bytes
    command = typer.main.get_command(build(command_of(words)))
    try:
        code = command(args=arranged(words), prog_name="tranship", standalone_mode=False)
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


def command_of(words: list[str]) -> str | None:
    """Returns the command's name, also while the shell completes its options."""
    completed = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS") or ""
    given = completed.split()[1:] if "_TRANSHIP_COMPLETE" in os.environ else words
    return given[0] if given else None


def arranged(words: list[str]) -> list[str]:
    """Moves options in front of ``--``, so that negative numbers are arguments."""
    if words[:1] not in [[name] for name in WITH_NEGATIVE] or "--" in words:
        return words
    if not any(is_negative(word) for word in words):
        return words
    options, arguments = [], []
    rest = iter(words[1:])
    for word in rest:
        if not word.startswith("-") or is_negative(word):
            arguments.append(word)
            continue
        options.append(word)
        if "=" not in word and word not in FLAGS:
            options += [value for _, value in zip(range(1), rest, strict=False)]
    return [words[0], *options, "--", *arguments]


def is_negative(word: str) -> bool:
    """Whether it is a negative whole number."""
    return re.fullmatch(r"-[0-9]+", word) is not None


HINTS: tuple[tuple[type[Error], str], ...] = (
    (PeerLost, "check that the other process still runs, and try again"),
    (Timeout, "try again, with a longer --timeout where the command has one"),
    (NotFound, "check the name; `tranship ls CONTACT` lists the variables of a server"),
)
"""What to do about errors that do not say it themselves."""


def explain_failure(error: Exception, words: list[str]) -> int:
    """Reports what went wrong and what to do; an internal error keeps its traceback."""
    named = [word for word in words[:1] if not word.startswith("-")]
    help_hint = f"`{' '.join(['tranship', *named])} --help` shows options and examples"
    if isinstance(error, CommandError):
        complain(error.message, error.hint)
        return error.exit_code
    if isinstance(error, Error):
        usage = isinstance(error, InvalidArgument)
        fallbacks: Iterable[str] = (words for kind, words in HINTS if isinstance(error, kind))
        complain(error.message, error.hint or next(iter(fallbacks), help_hint if usage else ""))
        return EXIT_USAGE if usage else EXIT_FAILED
    if isinstance(error, UsageError):
        message = plain_message(error)
        known = any(name in words[:1] for name in (*COMMANDS, *BENCHMARKS))
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


BOUNDS = {
    "greater_than_equal": ("ge", "small", "least"),
    "less_than_equal": ("le", "large", "most"),
}
"""Kinds of refused numbers: where the bound stands in the refusal, and the words for it."""


def plain_message(error: Exception) -> str:
    """Returns what is wrong with a command line, with the refused word itself.

    Newer versions of Typer leave the check of numbers to Pydantic, whose messages are those of a
    schema; its refusal is the error's cause.
    """
    format_message: Callable[[], str] = getattr(error, "format_message", lambda: str(error))
    message = format_message().rstrip(".").replace("Value error, ", "")
    refusals: Callable[[], list[dict[str, Any]]] | None = getattr(
        error.__cause__ or error.__context__, "errors", None
    )
    if not callable(refusals) or not refusals():
        return message
    refusal = refusals()[0]
    where, what = message.replace(str(refusal["msg"]), ""), str(refusal["input"])
    if refusal["type"].startswith(("int_", "float_")):
        return f"{where}{what!r} is not a {'whole ' * refusal['type'].startswith('int_')}number"
    if refusal["type"] not in BOUNDS:
        return message
    key, size, end = BOUNDS[refusal["type"]]
    return f"{where}{what} is too {size}: the {end} is {refusal['ctx'][key]:g}"


def silence_stdout() -> None:
    """Keeps the interpreter from complaining at exit that the reader of stdout has exited."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
