"""`tranship trace`: the traces of several processes on one timeline."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from ..tracing import merge_traces
from .inputs import JsonOption
from .talk import print_json, print_table, say, table_of

__all__ = ["EXAMPLES", "trace"]

EXAMPLES = """
TRANSHIP_TRACE_FOLDER=traces tranship serve
TRANSHIP_TRACE_FOLDER=traces python simulation.py
tranship trace traces --output trace.json
"""


def trace(
    sources: Annotated[
        list[Path],
        typer.Argument(metavar="FILE|FOLDER", help="Traces that engines wrote, or their folder."),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The merged trace.")
    ] = Path("trace.json"),
    as_json: JsonOption = False,
) -> None:
    """Merge the traces of several processes into one, on one clock."""
    merged = merge_traces(sources, output)
    spans = Counter(event["pid"] for event in merged.events if event["ph"] in ("X", "b"))
    rows = [{"process": name, "spans": spans[number]} for number, name in merged.processes.items()]
    if as_json:
        facts = {"arrows": merged.arrows, "dropped": merged.dropped, "hosts": merged.hosts}
        print_json({"output": str(output), "processes": rows, **facts})
        return
    table = table_of("process", ">spans")
    for row in rows:
        table.add_row(str(row["process"]), str(row["spans"]))
    print_table(table)
    if merged.dropped > 0:
        say(f"{merged.dropped} spans had no room: raise TRANSHIP_TRACE_SPANS")
    if len(merged.hosts) > 1:
        say("of several machines: their times agree as well as their clocks are set")
    say(f"trace in {output}, {merged.arrows} arrows from puts to gets")
    say("open it at https://ui.perfetto.dev")
