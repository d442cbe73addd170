"""Staging through a server process: put and get of a whole, of objects, of boxes, of small arrays.

The baseline of large ones is the engine's own copy to and from a shared array of another process.
ADIOS2's SST engine runs in the same turns where it is installed; sst.py describes the comparison.

- 256 MiB of float64 put to a staging server and got from it, whole and as 8 objects; the middle 32
  MiB of 8 objects; each put with its get; 8 KiB again and again. One client, one server.
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
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np

from tranship.engine import Engine
from tranship.errors import Error
from tranship.staging import Staging

from ..harness import Array, Bench, MismatchError, SkippedError, Variant, blank, same, spoil
from ..host.copies import engine_run
from ..processes.data import seeded
from ..processes.peer import Other, child_environment
from ..registry import measures
from .sst import SETTINGS, Sst, beside

Box = tuple[slice, ...]
Case = tuple[str, list[Variant], int, str]
"""Name, variants, bytes, and the name of the baseline."""
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
    memory: int, servers: int = 1, kind: str = "host", options: Sequence[str] = ()
) -> Iterator[tuple[str, int]]:
    """Starts servers of `memory` bytes each; yields the contact file and the first one's pid."""
    with tempfile.TemporaryDirectory() as folder:
        contact = os.path.join(folder, "staging.contact")
        limits = ["--contact", contact, "--memory", str(memory), "--versions", str(KEPT)]
        limits += ["--servers", str(servers), "--memory-kind", kind]
        process = subprocess.Popen(
            [sys.executable, "-m", "tranship.cli", "serve", *limits, *options],
            stdout=subprocess.PIPE,
            env=child_environment(),
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

    def put(self, name: str, boxes: list[Box]) -> float:
        """Puts a new version, one object after another; returns the seconds."""
        self.version += 1
        begin = time.perf_counter()
        for box in boxes:
            lower = tuple(cut.start for cut in box)
            self.staging.put(name, self.version, self.data[box], lower)
        return time.perf_counter() - begin

    def get(self, name: str, box: Box, out: Array) -> float:
        """Gets a box of the last version; returns the seconds."""
        lower, upper = tuple(cut.start for cut in box), tuple(cut.stop for cut in box)
        begin = time.perf_counter()
        self.staging.get(name, "latest", lower, upper, out)
        return time.perf_counter() - begin

    def arrived(self, name: str) -> bool:
        """Returns whether the last version is what was put."""
        return same(self.staging.get(name, self.version), self.data)

    def putting(self, name: str, boxes: list[Box]) -> Variant:
        """Returns the variant that puts the whole."""
        return Variant(
            f"put, {name}",
            lambda: self.put(name, boxes),
            lambda: self.arrived(name),
            lambda: None,
            {"timed": "python"},
        )

    def getting(self, name: str, box: Box, out: Array) -> Variant:
        """Returns the variant that gets what was put last."""
        expected = np.ascontiguousarray(self.data[box])
        return Variant(
            f"get, {name}",
            lambda: self.get(name, box, out),
            lambda: same(out, expected),
            lambda: spoil(out),
            {"timed": "python"},
        )

    def passing(self, name: str, boxes: list[Box], whole: Box, out: Array) -> Variant:
        """Returns the variant that puts the whole and then gets it."""
        return Variant(
            f"put and get, {name}",
            lambda: self.put(name, boxes) + self.get(name, whole, out),
            lambda: same(out, self.data),
            lambda: spoil(out),
            {"timed": "python"},
        )

    def bare(self, box: Box, out: Array, *, put: bool) -> Variant:
        """Returns the variant of the engine's own copy of the same bytes."""
        source, target = (self.data[box], self.there[box]) if put else (self.there[box], out)
        back = blank(out.nbytes).view("f8").reshape(out.shape)

        def check() -> bool:
            if put:
                self.engine.copy(self.there[box], back).wait(timeout=60)
            return same(back if put else out, np.ascontiguousarray(self.data[box]))

        run = engine_run(self.engine, source, target)
        return Variant("copy", run, check, lambda: spoil(out), {"timed": "python"})

    def bare_blocks(self, out: Array, *, put: bool) -> Variant:
        """Returns the variant of the engine's copies of eight blocks, one after another."""
        back = blank(out.nbytes).view("f8").reshape(out.shape)
        boxes = blocks(self.data.shape, 2)
        runs = [
            engine_run(self.engine, self.data[box], block)
            if put
            else engine_run(self.engine, block, out[box])
            for box, block in zip(boxes, self.apart, strict=True)
        ]

        def check() -> bool:
            if put:
                for box, block in zip(boxes, self.apart, strict=True):
                    self.engine.copy(block, back[box]).wait(timeout=60)
            return same(back if put else out, self.data)

        return Variant(
            "copies, 8 objects",
            lambda: sum(run() for run in runs),
            check,
            lambda: spoil(out),
            {"timed": "python"},
        )


@measures("staging", "boxes put to and got from a staging server, beside the engine's copy")
def staging(bench: Bench) -> None:
    """Measures 256 MiB as one object and as 8, 32 MiB of their middle, and many times 8 KiB."""
    shape = (512, 256, 256) if bench.full else (32, 32, 32)
    data = seeded(shape, "f8", 1)
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
    shape = work.data.shape
    whole = tuple(slice(0, n) for n in shape)
    middle = tuple(slice(n // 4, n // 4 + n // 2) for n in shape)
    out = blank(work.data.nbytes).view("f8").reshape(shape)
    part = blank(work.data[middle].nbytes).view("f8").reshape(work.data[middle].shape)
    names = {"whole": [whole], "8 objects": blocks(shape, 2)}
    for name, boxes in names.items():
        for _ in range(KEPT + 1):
            work.put(name, boxes)  # touches the server's memory
    size = f"{work.data.nbytes >> 20} MiB" if bench.full else f"{work.data.nbytes >> 10} KiB"
    cases: list[Case] = [
        (
            f"put {size}",
            [
                work.bare(whole, out, put=True),
                work.bare_blocks(out, put=True),
                *(work.putting(n, b) for n, b in names.items()),
            ],
            work.data.nbytes,
            "copy",
        ),
        (
            f"get {size}",
            [
                work.bare(whole, out, put=False),
                work.bare_blocks(out, put=False),
                *(work.getting(n, whole, out) for n in names),
            ],
            work.data.nbytes,
            "copy",
        ),
        (
            "get an eighth, the middle of 8 objects",
            [work.bare(middle, part, put=False), work.getting("8 objects", middle, part)],
            part.nbytes,
            "copy",
        ),
        (
            f"put and get {size}",
            [work.passing(n, b, whole, out) for n, b in names.items()],
            work.data.nbytes,
            "put and get, whole",
        ),
    ]
    if streams:
        for (_, variants, _, _), theirs in zip(cases, beside(streams, middle), strict=True):
            variants.extend(theirs)
    for case, variants, count, baseline in cases:
        bench.measure(case, variants, count, repetitions=bench.pick(9, 1), baseline=baseline)


def small(bench: Bench, client: Staging, streams: dict[str, Sst]) -> None:
    """Measures 8 KiB puts and gets, one after another."""
    values = seeded(SMALL_SHAPE, "f8", 2)
    out = np.zeros(SMALL_SHAPE)
    count = bench.pick(20_000, 200)
    version = 0

    def puts() -> None:
        nonlocal version
        for _ in range(count):
            version += 1
            client.put("small", version, values)

    def gets() -> None:
        for _ in range(count):
            client.get("small", version, (0, 0), SMALL_SHAPE, out)

    def seconds(work: Callable[[], None]) -> float:
        begin = time.perf_counter()
        work()
        return (time.perf_counter() - begin) / count

    puts()
    times: dict[str, list[float]] = {"put": [], "get": []}
    peer_times: dict[str, list[float]] = {"put": [], "get": []}
    for _ in range(5):
        times["put"].append(seconds(puts))
        times["get"].append(seconds(gets))
        if streams:
            put_s, get_s = pass_many(streams["small"], count)
            peer_times["put"].append(put_s)
            peer_times["get"].append(get_s)
    if not same(out, values):
        raise Error("a small object arrived changed")
    for what, each in times.items():
        bench.emit(f"{what} 8 KiB", what, values.nbytes, each)
        bench.say(f"{1 / statistics.median(each):,.0f} {what}s of 8 KiB a second")
    for what, each in peer_times.items() if streams else ():
        conditions = streams["small"].conditions
        bench.emit(f"{what} 8 KiB", "adios2-sst", values.nbytes, each, conditions=conditions)
        bench.say(f"{1 / statistics.median(each):,.0f} of ADIOS2's SST")


def pass_many(stream: Sst, count: int) -> tuple[float, float]:
    """Returns the writer's and the reader's seconds per step; compares the last of many steps."""
    stream.aim()
    times = stream.pass_many(count)
    if not stream.arrived():
        raise MismatchError("8 KiB, adios2-sst: what arrived differs from what was sent")
    return times
