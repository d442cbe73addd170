"""`tranship bench`: the project's measurements, by name."""

from __future__ import annotations

import functools
import importlib
import io
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from tranship.cli.inputs import seconds_text
from tranship.cli.talk import CommandError, print_table, say, table_of
from tranship.files import open_to_append, write_text

from ..registry import Entry, help_of, parse_options
from ..results import is_emulated, is_share

EXAMPLES = """
tranship bench list
tranship bench contiguous --json results.jsonl
tranship bench contiguous --size small --json -
tranship bench isometry-figure9a --machine sapling
tranship bench shapes --seed 7 --cases 50
tranship bench shapes --classes broadcast --sizes 1,8
tranship bench remote-gpu --quick --limit 28M --transports shared,ipc
tranship bench staging-workflow --processes 4,4,2 --sizes 8,64
"""


SIZES = ("small", "full")


def bench_names(incomplete: str) -> list[str]:
    """Returns what a shell proposes for the name of a benchmark."""
    benches = importlib.import_module("tranship_bench.benches")
    names = ["list", *(name for name, _ in benches.list_benches())]
    return [name for name in names if name.startswith(incomplete)]


def bench(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME",
            autocompletion=bench_names,
            help='Name of a benchmark with options of its own, or "list" for all names; '
            '"list NAME" says what a benchmark does, and which options it has.',
        ),
    ],
    machine: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Name of the machine in the results; for a simulated benchmark, the profile to "
            "simulate. Default: this machine, or the paper's.",
        ),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json", metavar="FILE", help="File that result lines are appended to; - is stdout."
        ),
    ] = None,
    size: Annotated[
        str, typer.Option(metavar="small|full", help="small takes seconds; full is for figures.")
    ] = "full",
) -> int:
    """Run a benchmark, which verifies its data or simulates a machine, and print its results."""
    if size not in SIZES:
        raise CommandError(f"--size {size} is neither small nor full", "take one of the two")
    try:
        benches = importlib.import_module("tranship_bench.benches")
    except ImportError as error:  # most likely of the module of timing loops
        raise CommandError(
            f"the benchmarks cannot be loaded: {error.__cause__ or error}",
            "install them again, beside this version: pip install ./benchmarks",
            exit_code=1,
        ) from error
    name, *rest = words
    if name == "list" and not rest:
        list_names(list(benches.list_benches()), json_file)
        return 0
    check_name(rest[0] if name == "list" else name, dict(benches.list_benches()))
    if name == "list":
        describe(benches.find(rest[0]))
        return 0
    options = parse_options(benches.find(name), rest) if rest else {}
    run: Callable[..., int] = functools.partial(
        benches.run, name, size=size, machine=machine, options=options
    )
    if json_file is None:
        return run(report=print_line)
    if str(json_file) == "-":
        return run(report=lambda row: write_line(sys.stdout, row))
    with io.TextIOWrapper(open_to_append(json_file), encoding="utf-8") as file:

        def report(row: dict[str, Any]) -> None:
            write_line(file, row)
            print_line(row)

        code = run(report=report)
    say(f"results appended to {json_file}")
    return code


COMMAND = (bench, EXAMPLES, True)
"""The function, its examples, and that a benchmark's own options go to it as arguments."""


def check_name(name: str, known: Mapping[str, str]) -> None:
    """Checks that a word is the name of a benchmark.

    Raises:
        CommandError: There is no such benchmark, or the word is an option.
    """
    if name.startswith("-"):
        raise CommandError(
            f"{name} stands before the name of a benchmark",
            f"write a benchmark's own options behind its name: tranship bench NAME {name}",
        )
    if name not in known:
        raise CommandError(
            f"there is no benchmark {name!r}", "`tranship bench list` prints their names"
        )


def describe(entry: Entry) -> None:
    """Prints what a benchmark measures, what its module says, and its options."""
    print(f"{entry.name}: {entry.words}\n\n{entry.help}")
    if entry.options is not None:
        print("\nOptions:")
        for option, words in help_of(entry.options):
            print(f"  {option:28} {words}")


def list_names(known: list[tuple[str, str]], json_file: Path | None) -> None:
    """Prints the names of the benchmarks and what they measure."""
    text = json.dumps([{"name": name, "description": words} for name, words in known], indent=2)
    if str(json_file) == "-":
        print(text)
    elif json_file is not None:
        write_text(json_file, text + "\n")
    else:
        table = table_of("bench", "measures")
        for row in known:
            table.add_row(*row)
        print_table(table)


def write_line(file: IO[str], row: dict[str, Any]) -> None:
    """Writes one result and flushes, so that an interrupted run leaves whole lines."""
    file.write(json.dumps(row) + "\n")
    file.flush()


def print_line(row: dict[str, Any]) -> None:
    """Prints one result as text."""
    median_s, gbps = row.get("median_s"), row.get("gbps")
    time_text = seconds_text(median_s) if median_s is not None else ""
    if is_share(row):
        time_text = f"{median_s:.0%}"
    rate_text = f"{gbps:.3f} GB/s" if gbps else ""
    label = f"{row.get('case', '')!s:44} {row.get('variant', '')!s:24}"
    text = f"{label} {time_text:>10} {rate_text:>16}"
    print(f"{text}  {notes_text(row)}".rstrip(), flush=True)


def notes_text(row: dict[str, Any]) -> str:
    """Returns the notes of a result: its ratio, what was expected, whether it is simulated or of
    emulated GPUs.
    """
    words = ["simulated"] if row.get("simulated") else []
    if "ratio" in row:
        words.append(f"{row['ratio']:.3g} x {row['baseline']}")
    for verdict in row.get("expected", ()):
        word = "as expected" if verdict["within"] else "NOT as expected"
        bound = f"{verdict['bound']} {verdict['value']:.4g}"
        words.append(f"{verdict['measure']} {verdict['measured']:.4g}, {word}: {bound}")
    if is_emulated(row):
        words.append("emulated GPUs")
    return "; ".join(words)
