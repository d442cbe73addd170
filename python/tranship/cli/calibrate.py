"""`tranship calibrate`: measures this machine and keeps its profile."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from .. import _core, profiles
from ..files import write_text
from ..units import bytes_text
from .inputs import JsonOption, parse_size
from .talk import CommandError, print_json, progress_bar, say
from .topology import is_emulated, print_profile

__all__ = ["EXAMPLES", "calibrate"]

EXAMPLES = """
tranship calibrate
tranship calibrate --folder /scratch --sample 256MiB
tranship calibrate --output machine.json
"""

SAMPLE_BYTES_MIN = 1 << 20


def calibrate(
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the profile here too, to edit or hand around."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Measure the disk here. Default: the temporary folder."),
    ] = None,
    sample: Annotated[
        str, typer.Option(metavar="SIZE", help="Bytes for each sample; larger is steadier.")
    ] = bytes_text(profiles.SAMPLE_BYTES).replace(" ", ""),
    processes: Annotated[
        bool,
        typer.Option(
            "--processes/--no-processes",
            help="Measure the ways to other processes. A profile without them is not kept.",
        ),
    ] = True,
    as_json: JsonOption = False,
) -> None:
    """Measure this machine, keep its profile for every engine, and print it."""
    sample_bytes = parse_size(sample, "--sample")
    if sample_bytes < SAMPLE_BYTES_MIN:
        raise CommandError(
            f"--sample {sample} is too little to measure with",
            f"give at least {bytes_text(SAMPLE_BYTES_MIN)}",
        )
    check_folders(folder, output)
    with progress_bar("measuring") as report:
        text = profiles.calibrate(
            sample_bytes=sample_bytes, folder=folder, processes=processes, progress=report
        )
    if output is not None:
        write_text(output, text)
    if as_json:
        print_json(json.loads(text))
        if profiles.busy_text(text):
            say(f"note: {profiles.busy_text(text)}")
    else:
        gpus, _ = _core.find_gpus()
        print_profile(json.loads(text), emulated=is_emulated(gpus))
    if output is not None:
        say(f"written to {output}")
    if processes:
        keep(text)
    else:
        say("not kept for other engines: it lacks the ways to other processes")


def check_folders(folder: Path | None, output: Path | None) -> None:
    """Refuses folders that cannot be written, before anything is measured."""
    if folder is not None and not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise CommandError(
            f"--folder {folder} is not a folder to write in",
            "name a folder on the disk that is to be measured",
        )
    if output is not None and (output.is_dir() or not output.absolute().parent.is_dir()):
        raise CommandError(
            f"--output {output} cannot be written", "name a file in a folder that exists"
        )


def keep(text: str) -> None:
    """Writes the profile into the cache, where engines look for it."""
    path = profiles.cache_path()
    if path is not None and profiles.save(text, path):
        say(f"kept in {path}")
    else:
        say(
            "not kept: there is no folder to keep it in; set TRANSHIP_CACHE_FOLDER to one that "
            "can be written"
        )
