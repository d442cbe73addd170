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
from rich.control import Control
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

__all__ = [
    "CommandError",
    "Report",
    "clear_screen",
    "columns",
    "complain",
    "lines_of_terminal",
    "on_terminal",
    "print_json",
    "print_table",
    "progress_bar",
    "say",
    "table_of",
]

Report = Callable[[float, str], None]

PIPED_WIDTH = 200
"""Columns of a table that goes into a file or another program."""
PIPED_LINES = 1 << 31
WORD_MAX = 16
"""Columns of a word that is not broken between lines."""
WIDTH_LEAST = 80
"""Columns that every table fits into; narrower terminals wrap its lines."""


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


def console_of(*, stderr: bool = False, markup: bool = True) -> Console:
    """Returns a console on the stream as it is now.

    Args:
        stderr: Whether it is stderr, in place of stdout.
        markup: Whether words in brackets are styles; not in data, where they are a user's.
    """
    console = Console(stderr=stderr, highlight=False, soft_wrap=True, markup=markup)
    if not console.is_terminal:
        console = Console(
            stderr=stderr, highlight=False, soft_wrap=True, markup=markup, width=PIPED_WIDTH
        )
    return console


def columns() -> int:
    """Returns the width of text on stdout: the terminal's, or that of a page."""
    console = console_of()
    return max(console.width, WIDTH_LEAST) if console.is_terminal else WIDTH_LEAST


def lines_of_terminal() -> int:
    """Returns the height of the terminal on stdout; for a pipe, more than anybody prints."""
    console = console_of()
    return console.size.height if console.is_terminal else PIPED_LINES


def on_terminal() -> bool:
    """Whether stdout is a terminal."""
    return console_of().is_terminal


def say(text: str) -> None:
    """Prints a note on stderr."""
    console_of(stderr=True).print(escape(text))


def complain(message: str, hint: str = "") -> None:
    """Prints an error in one line, and in another what to do about it."""
    console = console_of(stderr=True)
    console.print(f"[bold red]error:[/] {escape(' '.join(message.split()))}")
    if hint:
        console.print(f"[bold cyan]hint:[/] {escape(' '.join(hint.split()))}")


def print_json(content: Any) -> None:
    """Prints data for programs on stdout."""
    sys.stdout.write(json.dumps(content, indent=2) + "\n")


def table_of(*columns: str) -> Table:
    """Returns a plain table.

    Args:
        columns: Their names. One that starts with ">" is aligned to the right; one that starts with
            "~" is text that may be broken into several lines where the table is too wide.
    """
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        right, wraps = column.startswith(">"), column.startswith("~")
        table.add_column(
            column.lstrip(">~"),
            justify="right" if right else "left",
            no_wrap=not wraps,
            overflow="fold",
            ratio=None,
        )
    return table


def print_table(table: Table) -> None:
    """Prints a table on stdout; only columns that may be broken give way where it is too wide."""
    console = console_of(markup=False)
    for column in table.columns:
        cells = [str(column.header), *(str(cell) for cell in column.cells)]
        parts = cells if column.no_wrap else [word for cell in cells for word in cell.split()]
        longest = max((len(part) for part in parts), default=0)
        column.min_width = longest if column.no_wrap else min(longest, WORD_MAX)
    with console.capture() as captured:
        console.print(table, crop=False)
    for line in captured.get().splitlines():
        sys.stdout.write(line.rstrip() + "\n")


def clear_screen() -> None:
    """Makes what is printed next replace what a terminal shows."""
    console_of().control(Control.clear(), Control.home())


@contextmanager
def progress_bar(title: str) -> Iterator[Report]:
    """Yields a function that shows progress as a bar on stderr, if stderr is a terminal."""
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
