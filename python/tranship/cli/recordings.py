"""`tranship record` and `tranship replay`: steps of a run in files, and put again."""

from __future__ import annotations

import re
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ..errors import SkippedVersionWarning
from ..staging import recordings
from ..staging.recordings import RecordedStep
from ..staging.steps import Start
from ..units import bytes_text
from .inputs import JsonOption
from .staging import ServerArgument
from .talk import CommandError, print_json, say

__all__ = ["RECORD_EXAMPLES", "REPLAY_EXAMPLES", "record", "replay"]

RECORD_EXAMPLES = """
tranship record staging.contact run-7
tranship record staging.contact run-7 --group recorder --variables heat,flux
tranship record staging.contact run-7 --format zarr --start latest
"""
REPLAY_EXAMPLES = """
tranship replay run-7 staging.contact
tranship replay run-7 staging.contact --rate 10 --start 100 --stop 200
tranship replay run-7 staging.contact --rate max
"""
EXIT_INTERRUPTED = 130

FolderArgument = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="The folder of the recording.")
]
VariablesOption = Annotated[
    str | None,
    typer.Option(metavar="NAME,…", help="Only these variables, and their coordinates."),
]
StopOption = Annotated[
    int | None, typer.Option(metavar="N", help="End before step N. Default: no limit.")
]
TimeoutOption = Annotated[
    float, typer.Option(metavar="SECONDS", help="How long to wait for each step, or for room.")
]


class StoredFormat(StrEnum):
    """How boxes are stored."""

    npy = "npy"
    zarr = "zarr"


class WhenBroken(StrEnum):
    """What happens with a step that cannot be recorded."""

    skip = "skip"
    error = "error"


@dataclass
class Tally:
    """What was recorded or replayed so far.

    Attributes:
        verb: What was done with each step.
        steps: Numbers of the steps.
        nbytes: Bytes of their elements.
    """

    verb: str
    steps: list[int] = field(default_factory=list)
    nbytes: int = 0

    def add(self, step: RecordedStep) -> None:
        """Counts a step, and says that it was done."""
        self.steps.append(step.number)
        self.nbytes += step.nbytes
        say(f"{self.verb} step {step.number}: {bytes_text(step.nbytes)}")

    def text(self) -> str:
        """Returns the sum of it in words."""
        count = len(self.steps)
        if count == 0:
            return f"{self.verb} no steps"
        span = f" ({self.steps[0]} to {self.steps[-1]})" if count > 1 else f" ({self.steps[0]})"
        return f"{self.verb} {count} step{'s' * (count > 1)}{span}, {bytes_text(self.nbytes)}"

    def facts(self) -> dict[str, Any]:
        """Returns the sum of it for programs."""
        return {"steps": self.steps, "bytes": self.nbytes}


def record(
    server: ServerArgument,
    folder: FolderArgument,
    format: Annotated[
        StoredFormat | None,
        typer.Option(
            help="How boxes are stored: each in a .npy file, or a variable as an array of Zarr 3. "
            "Default: that of the recording in the folder, and else npy.",
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Join this group of readers: no step is freed before it is recorded.",
        ),
    ] = None,
    start: Annotated[
        str, typer.Option(metavar="N|first|next|latest", help="The first step.")
    ] = "first",
    stop: StopOption = None,
    variables: VariablesOption = None,
    gaps: Annotated[
        WhenBroken,
        typer.Option(
            help="What happens with a step that is broken, or freed before it was recorded."
        ),
    ] = WhenBroken.skip,
    durable: Annotated[
        bool,
        typer.Option(
            "--durable", help="Wait for the disk after each step: it outlives a power failure."
        ),
    ] = False,
    timeout: TimeoutOption = 3600.0,
    as_json: JsonOption = False,
) -> None:
    """Record the steps of a run into a folder until its processes have closed.

    A folder that has a recording is gone on with. Ctrl-C and SIGTERM end the recording; each step
    in the folder is whole.
    """
    tally = Tally("recorded")
    with ended_by_signals(tally, as_json), spoken_warnings():
        done = recordings.record(
            server,
            folder,
            format=kind_of(format),
            group=group,
            start=start_of(start),
            stop=stop,
            variables=names_of(variables),
            gaps="error" if gaps is WhenBroken.error else "skip",
            durable=durable,
            timeout=timeout,
            on_step=tally.add,
        )
    for name in done.unseen:
        say(f"no step had the variable {name}")
    if as_json:
        more = {"known": list(done.known), "lost": list(done.lost), "unseen": list(done.unseen)}
        print_json({**tally.facts(), **more, "interrupted": False})
        return
    known = f"; {len(done.known)} were recorded before" if done.known else ""
    lost = f"; {len(done.lost)} were freed before they were recorded" if done.lost else ""
    say(f"{tally.text()}, in {folder}{known}{lost}")


def replay(
    folder: FolderArgument,
    server: ServerArgument,
    rate: Annotated[
        str,
        typer.Option(
            metavar="X|max",
            help="How many times as fast as recorded; max: without pauses.",
        ),
    ] = "1",
    start: Annotated[
        int | None, typer.Option(metavar="N", help="The first step. Default: no limit.")
    ] = None,
    stop: StopOption = None,
    variables: VariablesOption = None,
    timeout: TimeoutOption = 3600.0,
    as_json: JsonOption = False,
) -> None:
    """Put the steps of a recording again, as if the simulation ran.

    Each box is compared with its checksum. Ctrl-C and SIGTERM end it between two steps, or drop the
    step that is being put.
    """
    tally = Tally("replayed")
    with ended_by_signals(tally, as_json):
        recordings.replay(
            folder,
            server,
            rate=rate_of(rate),
            start=start,
            stop=stop,
            variables=names_of(variables),
            timeout=timeout,
            on_step=tally.add,
        )
    if as_json:
        print_json({**tally.facts(), "interrupted": False})
        return
    say(f"{tally.text()}, of {folder}")


@contextmanager
def ended_by_signals(tally: Tally, as_json: bool) -> Iterator[None]:
    """Lets Ctrl-C and SIGTERM end what is done within, with a summary.

    Raises:
        Exit: One of them came.
    """

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        if as_json:
            print_json({**tally.facts(), "interrupted": True})
        else:
            say(tally.text())
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except Exception:
        if tally.steps:
            say(tally.text())
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def spoken_warnings() -> Iterator[None]:
    """Says warnings of steps that are passed by as the messages of commands are."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", SkippedVersionWarning)
        warnings.showwarning = spoken(warnings.showwarning)
        yield


def spoken(others: Callable[..., None]) -> Callable[..., None]:
    """Returns what shows a warning: `others`, but for steps that are passed by."""

    def show(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
        if issubclass(category, SkippedVersionWarning):
            say(f"warning: {message}")
        else:
            others(message, category, *rest, **more)

    return show


def kind_of(format: StoredFormat | None) -> Literal["npy", "zarr"] | None:
    """Returns the format as `record` takes it."""
    if format is None:
        return None
    return "zarr" if format is StoredFormat.zarr else "npy"


def start_of(text: str) -> Start:
    """Reads the first step.

    Raises:
        CommandError: It is none.
    """
    names: dict[str, Start] = {"first": "first", "next": "next", "latest": "latest"}
    if text in names:
        return names[text]
    if re.fullmatch(r"-?[0-9]+", text) is None:
        raise CommandError(
            f"--start {text} is no step", "give a whole number, first, next or latest"
        )
    return int(text)


def rate_of(text: str) -> float | Literal["max"]:
    """Reads how fast a recording is replayed.

    Raises:
        CommandError: It is no number.
    """
    if text == "max":
        return "max"
    try:
        return float(text)
    except ValueError:
        raise CommandError(
            f"--rate {text} is no rate", "give a number, such as 2 for twice as fast, or max"
        ) from None


def names_of(text: str | None) -> tuple[str, ...] | None:
    """Reads a list of variables."""
    return None if text is None else tuple(name for name in text.split(",") if name)
