"""`tranship figures`: drawings from result lines."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated

import typer

from tranship.cli.inputs import JsonOption
from tranship.cli.talk import print_json, say

__all__ = ["COMMAND", "figures"]

EXAMPLES = """
tranship figures
tranship figures contiguous --output figures
tranship figures isometry
tranship figures remote-gpus
tranship figures staging
"""


def figures(
    paper: Annotated[
        str | None, typer.Argument(help="A paper or a bench. Default: all that have results.")
    ] = None,
    output: Annotated[
        Path, typer.Option(metavar="DIR", help="The folder for the drawings.")
    ] = Path("figures"),
    as_json: JsonOption = False,
) -> None:
    """Draw figures from the result lines of `tranship bench`."""
    from tranship.drawing.topology import require_matplotlib

    require_matplotlib()
    draw = importlib.import_module("tranship_bench.figures").draw
    output.mkdir(parents=True, exist_ok=True)
    drawn = [str(path) for path in draw(paper, output) or []]
    if as_json:
        print_json({"figures": drawn})
    else:
        print("".join(path + "\n" for path in drawn), end="")
    if not drawn:
        say("nothing drawn: there are no result lines; `tranship bench NAME --json FILE` adds some")


COMMAND = (figures, EXAMPLES)
