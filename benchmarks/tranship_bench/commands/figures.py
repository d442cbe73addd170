"""`tranship figures`: drawings from result lines."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated

import typer

from tranship.cli.inputs import JsonOption
from tranship.cli.talk import CommandError, print_json, say

EXAMPLES = """
tranship figures results.jsonl
tranship figures monday.jsonl tuesday.jsonl --output drawn
tranship figures contiguous results.jsonl
tranship figures isometry
tranship figures --page
"""


def figures(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME] [FILE]...",
            help="Files of result lines, or folders of them. Default: benchmarks/results. "
            "A name draws one benchmark or paper: contiguous, isometry, staging, remote-gpus.",
        ),
    ] = None,
    output: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the drawings.")] = Path(
        "figures"
    ),
    page: Annotated[
        bool,
        typer.Option(
            "--page",
            help="Write docs/reference/performance.md of the source tree, with its pictures.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Draw figures from the result lines of `tranship bench`."""
    from tranship.drawing.topology import require_matplotlib

    require_matplotlib()
    drawing = importlib.import_module("tranship_bench.figures")
    files = [source for source in sources or [] if is_file(source)]
    names: list[str | None] = [source for source in sources or [] if not is_file(source)]
    drawn: list[str] = []
    if page:
        if names:
            raise CommandError(
                f"--page draws all benchmarks, not {names[0]}",
                "name files of result lines, or none",
            )
        pages = importlib.import_module("tranship_bench.page")
        drawn = [str(path) for path in pages.write_page(results=files or None)]
        names = []
    for name in names or ([] if page else [None]):
        drawn += [str(path) for path in drawing.draw(name, output, results=files or None) or []]
    if as_json:
        print_json({"figures": drawn})
    else:
        print("".join(path + "\n" for path in drawn), end="")
    if not drawn:
        say("nothing drawn: there are no result lines; `tranship bench NAME --json FILE` adds some")


def is_file(source: str) -> bool:
    """Returns whether an argument names a file or a folder, and not a benchmark."""
    return "/" in source or "." in source or Path(source).is_file()


COMMAND = (figures, EXAMPLES)
