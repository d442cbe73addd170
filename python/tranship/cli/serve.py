"""`tranship serve`: the servers of the staging service."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ..files import read_text
from ..staging import StagingServer
from ..units import bytes_text
from .inputs import JsonOption, parse_size
from .talk import CommandError, print_json, say

__all__ = ["EXAMPLES", "serve"]

EXAMPLES = """
tranship serve --contact staging.contact --memory 8GiB
tranship serve --servers 2 --versions 10 --full discard-oldest
tranship serve --memory 8GiB --full spill --spill /scratch
srun -n 4 tranship serve --servers 4 --contact /scratch/staging.contact
tranship serve --config staging.toml
"""

Process = subprocess.Popen[bytes]

LAUNCHERS = (
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)
"""Where launchers say which process of how many this one is."""
LOOK_S = 0.1
"""How soon a server sees that it is to end."""
STOP_S = 15.0
"""How long the other servers of a group may take to end."""
PR_SET_PDEATHSIG = 1


def raise_descriptor_limit() -> None:
    """Lets this process open as many descriptors as the system allows it: each client takes two."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class FullMemory(StrEnum):
    """What becomes of a put when the memory is full."""

    block = "block"
    discard_oldest = "discard-oldest"
    spill = "spill"


def serve(
    contact: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="TRANSHIP_SERVE_CONTACT",
            help="Written for clients; removed at the end. Default: staging.contact.",
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            envvar="TRANSHIP_SERVE_MEMORY",
            help="What objects may take in each server. Default: 1GiB.",
        ),
    ] = None,
    preallocate: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            envvar="TRANSHIP_SERVE_PREALLOCATE",
            help="How much of that is allocated in the background, before objects need it: a first "
            "put is as fast as later ones then. 0: nothing. Default: all, but at most half of the "
            "machine's free memory.",
        ),
    ] = None,
    memory_kind: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            envvar="TRANSHIP_SERVE_MEMORY_KIND",
            help="Where objects lie: host, a GPU (device0 or cuda:0, ...), or device: each server "
            "of a group on another GPU. Default: host.",
        ),
    ] = None,
    versions: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            envvar="TRANSHIP_SERVE_VERSIONS",
            help="Versions of a variable that each server keeps; 0, the default: all.",
        ),
    ] = None,
    full: Annotated[
        FullMemory | None,
        typer.Option(
            envvar="TRANSHIP_SERVE_FULL",
            help="What becomes of a put when the memory is full: it waits; the oldest versions are "
            "discarded; the oldest objects go to disk. Default: block.",
        ),
    ] = None,
    spill: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            envvar="TRANSHIP_SERVE_SPILL",
            help="Where --full spill puts objects, in a file of each server that has no name and "
            "leaves nothing behind. Default: the temporary folder.",
        ),
    ] = None,
    spill_max: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            envvar="TRANSHIP_SERVE_SPILL_MAX",
            help="What they may take there, in each server. Default: what the disk has.",
        ),
    ] = None,
    servers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            envvar="TRANSHIP_SERVE_SERVERS",
            help="Servers that share the objects. They are started here, unless this command was "
            "started N times, by srun or mpirun, or with --rank. Default: 1.",
        ),
    ] = None,
    rank: Annotated[
        int | None,
        typer.Option(metavar="K", help="Start server K of N alone; 0 is the first."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.toml",
            help="These options by name, and engine settings in a table [settings].",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run staging servers until they are interrupted (Ctrl-C, SIGTERM)."""
    read = read_config(config)
    settings = read.pop("settings", {})
    given = {
        "contact": contact,
        "memory": memory,
        "preallocate": preallocate,
        "memory_kind": memory_kind,
        "versions": versions,
        "full": full,
        "spill": spill,
        "spill_max": spill_max,
        "servers": servers,
    }
    options = DEFAULTS | read | {k: v for k, v in given.items() if v is not None}
    count = options.pop("servers")
    limit = options["spill_max"]
    ahead = options["preallocate"]
    here = rank if rank is not None else rank_of_launcher(count, os.environ)
    # A server that is told to end while it starts does so at once; afterwards it drains.
    ended = EndSignals()
    raise_descriptor_limit()
    group: AbstractContextManager[list[Process]] = (
        others(count, options, config) if here is None else nullcontext([])
    )
    with group as running:
        server = StagingServer(
            options["contact"],
            memory=parse_size(str(options["memory"]), "--memory"),
            preallocate=None if ahead is None else parse_size(str(ahead), "--preallocate", least=0),
            memory_kind=str(options["memory_kind"]),
            versions=options["versions"],
            full=FullMemory(options["full"]).value,
            spill=options["spill"],
            spill_max=None if limit is None else parse_size(str(limit), "--spill-max"),
            rank=here or 0,
            servers=count,
            **settings,
        )
        ended.listen()
        with server:
            if here and as_json:
                announce(server, options["contact"], count, as_json, here)
            elif here:
                print(f"server {here} of {count} at {server.contact}", flush=True)
            else:
                await_group(server, running, ended)
                announce(server, options["contact"], count, as_json)
            while not ended.come:
                time.sleep(LOOK_S)
            used, spilled = bytes_text(server.memory_used), bytes_text(server.spilled)
            on_disk = f", {spilled} on disk" if server.spilled else ""
            say(f"closing: {server.clients} clients, {used} in use{on_disk}")


class EndSignals:
    """Whether SIGINT or SIGTERM has come. A flag: a handler must not take a lock."""

    def __init__(self) -> None:
        self.come = False

    def listen(self) -> None:
        """From now on they set the flag, and do nothing else."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._set)

    def _set(self, number: int, frame: object) -> None:
        self.come = True


DEFAULTS: dict[str, Any] = {
    "contact": Path("staging.contact"),
    "memory": "1GiB",
    "preallocate": None,
    "memory_kind": "host",
    "versions": 0,
    "full": "block",
    "spill": None,
    "spill_max": None,
    "servers": 1,
}


def read_config(path: Path | None) -> dict[str, Any]:
    """The options that a file sets."""
    if path is None:
        return {}
    try:
        read = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise CommandError(
            f"{path} is not TOML: {error}", "write lines as: memory = '8GiB'"
        ) from None
    read = {name.replace("-", "_"): value for name, value in read.items()}
    unknown = sorted(set(read) - set(DEFAULTS) - {"settings"})
    if unknown:
        raise CommandError(
            f"{path} sets {unknown[0]}, which is no option of serve",
            f"it may set {', '.join(DEFAULTS)}, and [settings]",
        )
    return read


def rank_of_launcher(count: int, environment: Mapping[str, str]) -> int | None:
    """This process's rank, if a launcher started `count` of them; a server alone has rank 0."""
    if count == 1:
        return 0
    for rank, size in LAUNCHERS:
        if environment.get(size) == str(count) and rank in environment:
            return int(environment[rank])
    return None


def await_group(server: StagingServer, running: list[Process], ended: EndSignals) -> None:
    """Until all servers have come.

    Raises:
        CommandError: one that was started here has ended.
    """
    while not server.complete and not ended.come:
        for rank, process in enumerate(running, 1):
            if process.poll() is not None and not ended.come:
                raise CommandError(
                    f"server {rank} of {len(running) + 1} ended with code {process.returncode}",
                    "its own text is above",
                    exit_code=1,
                )
        time.sleep(LOOK_S / 4)


def announce(
    server: StagingServer, contact: Path, count: int, as_json: bool, rank: int = 0
) -> None:
    """Prints where the group serves, once it does."""
    if as_json:
        where = {"contact": str(contact), "address": server.contact}
        print_json({**where, "rank": rank, "servers": count, "process": os.getpid()})
        sys.stdout.flush()
        return
    group = f" with {count} servers" if count > 1 else ""
    print(f"serving at {server.contact}{group}, in {contact}", flush=True)


@contextmanager
def others(count: int, options: dict[str, Any], config: Path | None) -> Iterator[list[Process]]:
    """Starts servers 1 to `count` - 1 as processes of their own, and ends them."""
    words = [sys.executable, "-m", "tranship.cli", "serve", "--servers", str(count)]
    for name, value in options.items():
        if value is None:
            continue
        words += [
            f"--{name.replace('_', '-')}",
            value.value if isinstance(value, StrEnum) else str(value),
        ]
    if config is not None:
        words += ["--config", str(config)]
    running = [
        subprocess.Popen(
            [*words, "--rank", str(rank)], stdout=sys.stderr, preexec_fn=end_with_parent
        )
        for rank in range(1, count)
    ]
    try:
        yield running
    finally:
        for process in running:
            process.terminate()
        for process in running:
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()


def end_with_parent() -> None:
    """Asks the kernel for SIGTERM when the process that started this one ends, however it does."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
