"""`tranship bench`: the project's measurements, by name."""

from __future__ import annotations

import functools
import importlib
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from tranship.cli.inputs import seconds_text
from tranship.cli.talk import CommandError, print_table, say, table_of
from tranship.files import open_to_append, write_text

from ..results import is_emulated, is_share

__all__ = ["COMMAND", "bench"]

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

QuickOption = Annotated[
    bool,
    typer.Option(
        "--quick",
        help="Fewer runs and sizes, for benchmarks that have this option: a minute or two.",
    ),
]
LimitOption = Annotated[
    str | None,
    typer.Option(
        metavar="ELEMENTS",
        help="remote-gpu: largest vector, as in 28M. Default: 400M, or what fits into memory.",
    ),
]
MinutesOption = Annotated[
    float | None,
    typer.Option(
        metavar="N",
        help="remote-gpu: minutes after which no case begins. Default: 10; with --quick 1.",
    ),
]
RepeatsOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="remote-gpu: number of sums that the GPU computes.",
    ),
]
TransportsOption = Annotated[
    str | None,
    typer.Option(
        metavar="LIST",
        help="remote-gpu: transports among shared,ipc,tcp,rdma. Default: all.",
    ),
]
LaunchOption = Annotated[
    str | None,
    typer.Option(
        metavar="WORDS",
        help="remote-gpu: command that starts the server elsewhere, as in 'ssh gpu2'; "
        "needs --addresses.",
    ),
]
AddressesOption = Annotated[
    str | None,
    typer.Option(
        metavar="CLIENT,SERVER",
        help="remote-gpu: addresses on which the two processes listen.",
    ),
]
LoopbackOption = Annotated[
    bool,
    typer.Option(
        "--loopback",
        help="remote-gpu: run TCP over loopback, without a network namespace.",
    ),
]
ProcessesOption = Annotated[
    str | None,
    typer.Option(
        metavar="W,R,S",
        help="staging-workflow: writers, readers and servers. Default: one writer and one "
        "reader a GPU, or two of each.",
    ),
]
SizesOption = Annotated[
    str | None,
    typer.Option(
        metavar="LIST",
        help="staging-workflow: sizes in MiB of each writer's data (default: 8,64,256); "
        "shapes: of the arrays (default: 64).",
    ),
]
IterationsOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="staging-workflow, staging-shock: iterations that count. Default: 10; with --quick 5.",
    ),
]
IntervalOption = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        help="staging-workflow: seconds between the starts of two iterations. Default: 0.",
    ),
]
SeedOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="shapes, types: seed of the random cases: it gives the same ones everywhere. "
        "Default: 1.",
    ),
]
CasesOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="shapes, types: number of cases. Default: 50 shapes, 150 types.",
        min=1,
    ),
]
ClassesOption = Annotated[
    str | None,
    typer.Option(
        metavar="LIST",
        help="shapes: classes among round,odd,sliced,broadcast. Default: the first three.",
    ),
]
SenderOption = Annotated[
    str | None,
    typer.Option(
        metavar="DESIGN",
        help="staging-workflow, staging-shock: design of puts: pipeline, 'strong baseline' or "
        "direct. Default: all.",
    ),
]
ReceiverOption = Annotated[
    str | None,
    typer.Option(
        metavar="DESIGN",
        help="staging-workflow, staging-shock: design of gets: 'strong baseline', hybrid or "
        "direct. Default: all.",
    ),
]


def bench_names(incomplete: str) -> list[str]:
    """Returns what a shell proposes for the name of a benchmark."""
    benches = importlib.import_module("tranship_bench.benches")
    names = ["list", *(name for name, _ in benches.list_benches())]
    return [name for name in names if name.startswith(incomplete)]


def bench(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            autocompletion=bench_names,
            help='Name of a benchmark, or "list" for all names.',
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
    quick: QuickOption = False,
    limit: LimitOption = None,
    minutes: MinutesOption = None,
    repeats: RepeatsOption = None,
    transports: TransportsOption = None,
    launch: LaunchOption = None,
    addresses: AddressesOption = None,
    loopback: LoopbackOption = False,
    processes: ProcessesOption = None,
    sizes: SizesOption = None,
    iterations: IterationsOption = None,
    interval: IntervalOption = None,
    sender: SenderOption = None,
    receiver: ReceiverOption = None,
    seed: SeedOption = None,
    cases: CasesOption = None,
    classes: ClassesOption = None,
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
    known: list[tuple[str, str]] = list(benches.list_benches())
    if name == "list":
        list_names(known, json_file)
        return 0
    if name not in dict(known):
        raise CommandError(
            f"there is no benchmark {name!r}", "`tranship bench list` prints their names"
        )
    given: dict[str, Any] = {
        "quick": quick or None,
        "limit": count_of(limit) if limit is not None else None,
        "minutes": minutes,
        "repeats": repeats,
        "transports": tuple(transports.split(",")) if transports is not None else None,
        "launch": launch,
        "addresses": addresses,
        "loopback": loopback or None,
        "processes": counts_of(processes, "--processes") if processes is not None else None,
        "sizes": counts_of(sizes, "--sizes") if sizes is not None else None,
        "iterations": iterations,
        "interval": interval,
        "sender": sender,
        "receiver": receiver,
        "seed": seed,
        "cases": cases,
        "classes": tuple(classes.split(",")) if classes is not None else None,
    }
    options = {name: value for name, value in given.items() if value is not None}
    run: Callable[..., int] = functools.partial(benches.run, options=options)
    if json_file is None:
        return run(name, size=size, machine=machine, report=print_line)
    if str(json_file) == "-":
        return run(name, size=size, machine=machine, report=lambda row: write_line(sys.stdout, row))
    with io.TextIOWrapper(open_to_append(json_file), encoding="utf-8") as file:

        def report(row: dict[str, Any]) -> None:
            write_line(file, row)
            print_line(row)

        code = run(name, size=size, machine=machine, report=report)
    say(f"results appended to {json_file}")
    return code


COMMAND = (bench, EXAMPLES)


def count_of(text: str) -> int:
    """Returns the number of elements in a text such as "1000", "10k" or "28M"."""
    unit = {"k": 10**3, "m": 10**6}.get(text[-1:].lower(), 1)
    try:
        count = round(float(text if unit == 1 else text[:-1]) * unit)
    except (ValueError, OverflowError):
        count = 0
    if count < 1:
        raise CommandError(
            f"--limit {text} is not a number of elements", "write it as 1000, 10k or 28M"
        )
    return count


def counts_of(text: str, option: str) -> tuple[int, ...]:
    """Returns the whole numbers in a text such as "4,4,2"."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise CommandError(
            f"{option} {text} is not a list of whole numbers", f"write them as: {option} 4,4,2"
        ) from None


def list_names(known: list[tuple[str, str]], json_file: Path | None) -> None:
    """Prints the names of the benchmarks and what they measure."""
    if json_file is not None:
        text = json.dumps([{"name": name, "description": words} for name, words in known], indent=2)
        if str(json_file) == "-":
            print(text)
        else:
            write_text(json_file, text + "\n")
        return
    table = table_of("bench", "measures")
    for name, words in known:
        table.add_row(name, words)
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
    """Returns the notes of a result: emulated GPUs; for a simulated result, that it is simulated,
    its ratio, and what was expected.
    """
    if not row.get("simulated"):
        return "emulated GPUs" if is_emulated(row) else ""
    words = ["simulated"]
    if "ratio" in row:
        words.append(f"{row['ratio']:.3g} x {row['baseline']}")
    for verdict in row.get("expected", ()):
        word = "as expected" if verdict["within"] else "NOT as expected"
        bound = f"{verdict['bound']} {verdict['value']:.4g}"
        words.append(f"{verdict['measure']} {verdict['measured']:.4g}, {word}: {bound}")
    return "; ".join(words)
