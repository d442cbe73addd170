"""Staging through a server process: put and get of a whole, of objects, of boxes, of small arrays.

- 256 MiB of float64 put to a staging server and got from it, whole and as 8 objects; the middle 32
  MiB of 8 objects; each put with its get; 8 KiB again and again. One client, one server. The
  baseline of large ones is the engine's own copy to and from a shared array of another process.
- ADIOS2's SST engine (`pip install adios2`) takes its turns in the same run, its writer and its
  reader two processes, as ours are (`tranship_bench/peers/adios2_sst.py`); what the reader got is
  compared each time, outside the time.

What `adios2-sst` does is not quite the same: it has no server. A put is a step of the writer, which
keeps it until the reader has taken it; a get is the reader's next step, once. A put to our server
can be got by anyone, any number of times, after its writer has ended. SST is given what suits it:
blocks that were cut out before (ours come out of the whole array), a queue of few steps, no
statistics, and small steps that are read while they are written, not afterwards. Of its wheel's
transports (sockets and enet; RDMA and UCX are not in it) sockets were as fast as the other. Steps
can be preloaded, sent before they are asked for: puts are measured without it, gets with it, and
`put and get`, from the writer's beginning until the reader has all, either way. `conditions` has
the settings.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np

from tranship.engine import Engine
from tranship.errors import Error
from tranship.staging import Staging

from ..harness import (
    Array,
    Bench,
    SkippedError,
    Variant,
    blank_array,
    mean_of,
    require,
    same,
    seeded,
    spoil,
    timed,
)
from ..host.copies import engine_run
from ..processes.peer import Other, child_environment
from ..registry import measures
from .sst import SETTINGS, Sst, beside

Box = tuple[slice, ...]
SMALL_SHAPE = (32, 32)
"""Shape of 8 KiB of float64."""
KEPT = 2


@contextmanager
def server(memory: int, servers: int = 1, kind: str = "host") -> Iterator[str]:
    """Starts servers of `memory` bytes each, and yields their contact file."""
    with server_process(memory, servers, kind) as (contact, _):
        yield contact


@contextmanager
def server_process(
    memory: int,
    servers: int = 1,
    kind: str = "host",
    options: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> Iterator[tuple[str, int]]:
    """Starts servers of `memory` bytes each; yields the contact file and the first one's pid.

    The `variables` are added to those of this process.
    """
    with tempfile.TemporaryDirectory() as folder:
        contact = os.path.join(folder, "staging.contact")
        limits = ["--contact", contact, "--memory", str(memory), "--versions", str(KEPT)]
        limits += ["--servers", str(servers), "--memory-kind", kind]
        process = subprocess.Popen(
            [sys.executable, "-m", "tranship.cli", "serve", *limits, *options],
            stdout=subprocess.PIPE,
            env=child_environment() | dict(variables or {}),
        )
        try:
            if process.stdout is None or not process.stdout.readline():
                raise Error(f"the server ended with code {process.wait()}; its text is above")
            yield contact, process.pid
        finally:
            process.terminate()
            process.wait(60)


def blocks(shape: tuple[int, ...], parts: int) -> list[Box]:
    """Returns the boxes of a shape that is cut into `parts` along each dimension."""
    cuts = [[slice(k * n // parts, (k + 1) * n // parts) for k in range(parts)] for n in shape]
    return list(itertools.product(*cuts))


class Workload:
    """One variable, and two arrays of the other process beside it: one of its shape, and one with
    room for eight of its blocks.
    """

    def __init__(self, staging: Staging, engine: Engine, other: Other, data: Array) -> None:
        self.staging = staging
        self.engine = engine
        self.data = data
        self.version = 0
        self.there = other.array("there", "shared", data.shape, "f8")
        self.apart = other.array("apart", "shared", (8, *(n // 2 for n in data.shape)), "f8")
        engine.copy(data, self.there).wait(timeout=60)
        for box, block in zip(blocks(data.shape, 2), self.apart, strict=True):
            engine.copy(data[box], block).wait(timeout=60)

    def put(self, name: str, boxes: list[Box]) -> None:
        """Puts a new version, one object after another."""
        self.version += 1
        for box in boxes:
            lower = tuple(cut.start for cut in box)
            self.staging.put(name, self.version, self.data[box], lower)

    def get(self, name: str, box: Box, out: Array) -> None:
        """Gets a box of the last version."""
        lower, upper = tuple(cut.start for cut in box), tuple(cut.stop for cut in box)
        self.staging.get(name, "latest", lower, upper, out)

    def putting(self, name: str, boxes: list[Box]) -> Variant:
        """Returns the variant that puts the whole."""

        def arrived() -> bool:
            return same(self.staging.get(name, self.version), self.data)

        run = timed(lambda: self.put(name, boxes))
        return Variant(f"put, {name}", run, arrived)

    def into(self, name: str, run: Callable[[], float], box: Box, out: Array) -> Variant:
        """Returns the variant that brings a box to memory here."""
        expected = np.ascontiguousarray(self.data[box])
        return Variant(name, run, lambda: same(out, expected), lambda: spoil(out))

    def getting(self, name: str, box: Box, out: Array) -> Variant:
        """Returns the variant that gets what was put last."""
        return self.into(f"get, {name}", timed(lambda: self.get(name, box, out)), box, out)

    def passing(self, name: str, boxes: list[Box], whole: Box, out: Array) -> Variant:
        """Returns the variant that puts the whole and then gets it."""

        def work() -> None:
            self.put(name, boxes)
            self.get(name, whole, out)

        return self.into(f"put and get, {name}", timed(work), whole, out)

    def bare(self, boxes: list[Box], there: list[Array], out: Array, *, put: bool) -> Variant:
        """Returns the variant of the engine's own copies of boxes, one after another.

        They go to arrays of the other process, or from them into memory here for all boxes.
        """
        parts = [out] if len(boxes) == 1 else [out[box] for box in boxes]
        sources = [self.data[box] for box in boxes]
        ends = zip(sources, there, strict=True) if put else zip(there, parts, strict=True)
        runs = [engine_run(self.engine, *pair) for pair in ends]
        expected = np.ascontiguousarray(sources[0]) if len(boxes) == 1 else self.data

        def check() -> bool:
            if put:  # what is in the other process
                spoil(out)
                for part, block in zip(parts, there, strict=True):
                    self.engine.copy(block, part).wait(timeout=60)
            return same(out, expected)

        name = "copy" if len(boxes) == 1 else f"copies, {len(boxes)} objects"
        return Variant(name, lambda: sum(run() for run in runs), check, lambda: spoil(out))


@measures("staging", "boxes put to and got from a staging server, beside the engine's copy")
def staging(bench: Bench) -> None:
    """Measures 256 MiB as one object and as 8, 32 MiB of their middle, and many times 8 KiB."""
    shape = (512, 256, 256) if bench.full else (32, 32, 32)
    data = seeded(shape, "f8")
    with (
        server((2 * KEPT + 4) * data.nbytes + (64 << 20)) as contact,
        Engine() as engine,
        Staging(contact, engine=engine) as client,
        Other(engine) as other,
    ):
        work = Workload(client, engine, other, data)
        with sst_streams(bench, shape) as streams:
            large(bench, work, streams)
            small(bench, client, streams)


@contextmanager
def sst_streams(bench: Bench, shape: tuple[int, ...]) -> Iterator[dict[str, Sst]]:
    """Yields ADIOS2's streams by setting; none, and a note with the reason, if it cannot run."""
    with ExitStack() as stack:
        streams: dict[str, Sst] = {}
        try:
            for name, each in SETTINGS.items():
                sizes = SMALL_SHAPE if name == "small" else shape
                streams[name] = stack.enter_context(Sst(sizes, each))
        except SkippedError as reason:
            bench.say(f"not beside ADIOS2's SST: {reason}")
            streams = {}
        yield streams


def large(bench: Bench, work: Workload, streams: dict[str, Sst]) -> None:
    """Measures puts and gets, beside the engine's copies of the same bytes."""
    data, there = work.data, work.there
    whole = tuple(slice(0, n) for n in data.shape)
    middle = tuple(slice(n // 4, n // 4 + n // 2) for n in data.shape)
    out, part = blank_array(data.shape, "f8"), blank_array(data[middle].shape, "f8")
    names = {"whole": [whole], "8 objects": blocks(data.shape, 2)}
    for name, boxes in names.items():
        for _ in range(KEPT + 1):
            work.put(name, boxes)  # touches the server's memory
    size = f"{data.nbytes >> 20} MiB" if bench.full else f"{data.nbytes >> 10} KiB"
    bare = {
        put: [
            work.bare([whole], [there], out, put=put),
            work.bare(names["8 objects"], list(work.apart), out, put=put),
        ]
        for put in (True, False)
    }
    puts = [*bare[True], *(work.putting(name, boxes) for name, boxes in names.items())]
    gets = [*bare[False], *(work.getting(name, whole, out) for name in names)]
    eighths = [
        work.bare([middle], [there[middle]], part, put=False),
        work.getting("8 objects", middle, part),
    ]
    passed = [work.passing(name, boxes, whole, out) for name, boxes in names.items()]
    theirs = beside(streams, middle) if streams else [[]] * 4
    for case, ours, sst, count, baseline in (
        (f"put {size}", puts, theirs[0], data.nbytes, "copy"),
        (f"get {size}", gets, theirs[1], data.nbytes, "copy"),
        ("get an eighth, the middle of 8 objects", eighths, theirs[2], part.nbytes, "copy"),
        (f"put and get {size}", passed, theirs[3], data.nbytes, "put and get, whole"),
    ):
        bench.measure(case, [*ours, *sst], count, 9, baseline)


def small(bench: Bench, client: Staging, streams: dict[str, Sst]) -> None:
    """Measures 8 KiB puts and gets, one after another."""
    values = seeded(SMALL_SHAPE, "f8", 2)
    out = np.zeros(SMALL_SHAPE)
    count = bench.pick(20_000, 200)
    versions = itertools.count(1)
    version = 0

    def put() -> None:
        nonlocal version
        version = next(versions)
        client.put("small", version, values)

    def get() -> None:
        client.get("small", version, (0, 0), SMALL_SHAPE, out)

    puts, gets = mean_of(put, count), mean_of(get, count)
    puts()
    times: dict[str, list[float]] = {"put": [], "get": []}
    peer_times: dict[str, list[float]] = {"put": [], "get": []}
    for _ in range(5):
        times["put"].append(puts())
        times["get"].append(gets())
        if streams:
            put_s, get_s = streams["small"].pass_many(count)
            peer_times["put"].append(put_s)
            peer_times["get"].append(get_s)
    require(same(out, values), "8 KiB")
    for what, each in times.items():
        bench.emit(f"{what} 8 KiB", what, values.nbytes, each)
    for what, each in peer_times.items() if streams else ():
        conditions = streams["small"].conditions
        bench.emit(f"{what} 8 KiB", "adios2-sst", values.nbytes, each, conditions=conditions)
