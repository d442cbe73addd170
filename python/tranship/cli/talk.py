"""How the commands speak: data on stdout, everything else on stderr.

Colours and bars appear on terminals only, and never with NO_COLOR set (Rich sees to it).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

__all__ = [
    "CommandError",
    "Report",
    "complain",
    "print_json",
    "print_table",
    "progress_bar",
    "say",
    "table_of",
]

Report = Callable[[float, str], None]

PIPED_WIDTH = 200
"""Columns of a table that nobody looks at directly: nothing is cut."""


class CommandError(Exception):
    """A command cannot go on.

    Args:
        message: what is wrong, in one line.
        hint: what to do about it.
        exit_code: 1 if the work failed, 2 if the command line is at fault.
    """

    def __init__(self, message: str, hint: str = "", *, exit_code: int = 2) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code


def console_of(*, stderr: bool = False) -> Console:
    """A console on the stream as it is now."""
    console = Console(stderr=stderr, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console = Console(stderr=stderr, highlight=False, soft_wrap=True, width=PIPED_WIDTH)
    return console


def say(text: str) -> None:
    """A note for the user, on stderr."""
    console_of(stderr=True).print(escape(text))


def complain(message: str, hint: str = "") -> None:
    """An error in one line, and in another what to do about it."""
    console = console_of(stderr=True)
    console.print(f"[bold red]error:[/] {escape(' '.join(message.split()))}")
    if hint:
        console.print(f"[bold cyan]hint:[/] {escape(' '.join(hint.split()))}")


def print_json(content: Any) -> None:
    """Data for programs, on stdout."""
    sys.stdout.write(json.dumps(content, indent=2) + "\n")


def table_of(*columns: str) -> Table:
    """A plain table; a column whose name starts with ">" is aligned to the right."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        right = column.startswith(">")
        table.add_column(column.lstrip(">"), justify="right" if right else "left", no_wrap=True)
    return table


def print_table(table: Table) -> None:
    """Data for people, on stdout."""
    console = console_of()
    with console.capture() as captured:
        console.print(table, crop=False)
    for line in captured.get().splitlines():
        sys.stdout.write(line.rstrip() + "\n")


@contextmanager
def progress_bar(title: str) -> Iterator[Report]:
    """A bar on stderr that appears with the first report; nothing where that is no terminal."""
    console = console_of(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("[dim]{task.fields[what]}"),
        console=console,
        transient=True,
    )
    task = bar.add_task(escape(title), total=1.0, what="")

    def report(share: float, what: str) -> None:
        if not console.is_terminal:
            return
        if not bar.live.is_started:
            bar.start()
        bar.update(task, completed=share, what=escape(what))

    try:
        yield report
    finally:
        if bar.live.is_started:
            bar.stop()
