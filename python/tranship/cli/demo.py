"""`tranship demo`: a simulation and its analysis, joined by the engine."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from .inputs import JsonOption
from .talk import CommandError, print_json

__all__ = ["EXAMPLES", "demo"]

EXAMPLES = """
tranship demo
tranship demo --cells 32 --steps 40 --no-figures --out /tmp/blast
"""

NEEDED = ("zfpy", "matplotlib")


def demo(
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="The folder for pictures, trace and report.")
    ] = Path("demo-out"),
    cells: Annotated[
        int,
        typer.Option(
            metavar="N", help="Cells along each side of the cube, a multiple of 4 from 16 on."
        ),
    ] = 64,
    steps: Annotated[
        int | None, typer.Option(metavar="N", help="Stop after so many steps.")
    ] = None,
    time: Annotated[
        float | None,
        typer.Option(
            metavar="TIME", help="Stop at this time of the simulation. Default: near the edge."
        ),
    ] = None,
    every: Annotated[
        int, typer.Option(metavar="N", help="Steps between two looks of the analysis.")
    ] = 10,
    figures: Annotated[bool, typer.Option("--figures/--no-figures", help="Draw pictures.")] = True,
    trace: Annotated[bool, typer.Option("--trace/--no-trace", help="Record the transfers.")] = True,
    as_json: JsonOption = False,
) -> int:
    """Run a blast wave on four processes while two others analyse it, all byte for byte checked."""
    check_needed(figures)
    from ..demo.main import run
    from ..demo.settings import Options

    options = Options(
        out=str(out),
        cells=cells,
        steps=steps,
        time=time,
        every=every,
        figures=figures,
        trace=trace,
    )
    if not as_json:
        return run(options)
    with contextlib.redirect_stdout(sys.stderr):
        code = run(options)
    report = out / "report.json"
    if report.exists() and code in (0, 1):
        print_json(json.loads(report.read_text()))
    return code


def check_needed(figures: bool) -> None:
    """Before anything starts."""
    import importlib.util

    names = NEEDED if figures else NEEDED[:1]
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise CommandError(
            f"the demo needs {' and '.join(missing)}",
            f"pip install {' '.join(missing)}",
            exit_code=1,
        )
