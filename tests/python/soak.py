"""Stress test of many threads that share an engine: chains of copies, with every byte checked.

    python tests/python/soak.py [--seconds 60] [--seed N] [--threads 8] [--gpus emulated|real|none]

Each thread copies random values along a chain of arrays (NumPy arrays, memory of `Engine.empty`,
pinned and GPU memory, bytearrays, files), with events, priorities and cancels; other threads copy
pairs and pages, or copy with engines that are closed meanwhile. At the end every copy must have
ended, every value must be right, and no array, thread, descriptor, segment or buffer may be left.
Otherwise the program prints the seed, and the stacks of stuck threads, and exits with status 1.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import itertools
import os
import random
import sys
import tempfile
import threading
import time
import traceback
import weakref
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tranship as ts
from support import eventually, open_files, shared_segments, threads_of_process

WAIT_S = 60.0
"""Timeout of a copy, in seconds: every copy that ends at all ends sooner."""
GRACE_S = 90.0
"""Seconds after the end of the run by which all threads must have ended."""
KINDS = ("numpy", "numpy", "empty", "bytearray", "file", "pinned", "device0", "device1")


class Wrong(Exception):
    """The error of a copy that ended without an error but with a wrong target."""


class Place:
    """An array in some memory: what a copy takes, and functions that read and write its values."""

    def __init__(self, kind: str, core: Any, read: Callable[[], Any], write: Callable[[Any], None]):
        self.kind = kind
        self.core = core
        self.read = read
        self.write = write


class Soak:
    """The state that all threads share: engine, folder, kinds of memory, counts, failures."""

    def __init__(self, options: argparse.Namespace, folder: Path):
        self.seed: int = options.seed
        self.folder = folder
        self.end = time.monotonic() + options.seconds
        self.engine = ts.Engine(threads=2)
        self.kinds = [kind for kind in KINDS if options.gpus != "none" or kind in KINDS[:5]]
        if options.gpus == "real" and not self.has("device1"):
            self.kinds = [kind for kind in self.kinds if kind != "device1"]
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []
        self.alive: dict[int, weakref.ref[Any]] = {}
        self.lock = threading.Lock()

    def has(self, memory: str) -> bool:
        try:
            self.engine.empty(1, "u1", memory=memory)
        except ts.Error:
            return False
        return True

    @property
    def over(self) -> bool:
        return time.monotonic() > self.end or bool(self.failures)

    def count(self, what: str, number: int = 1) -> None:
        with self.lock:
            self.counts[what] += number

    def watch(self, array: Any) -> None:
        """Tracks an array in `alive` until nothing refers to it."""
        ref = weakref.ref(array, lambda gone: self.alive.pop(id(gone), None))
        self.alive[id(ref)] = ref

    def run(self, name: str, body: Callable[[random.Random], None], number: int) -> None:
        """Repeats `body` until the time is over; an exception of it ends the soak."""
        rnd = random.Random(f"{self.seed} {name} {number}")
        turn = 0
        try:
            while not self.over:
                body(rnd)
                turn += 1
        except BaseException:
            with self.lock:
                self.failures.append(f"{name} {number}, turn {turn}:\n{traceback.format_exc()}")

    # --- arrays ---

    def place(self, rnd: random.Random, engine: ts.Engine, shape: list[int], kind: str) -> Place:
        """Makes an array of bytes in memory of one kind, its dimensions in a random order."""
        order = rnd.sample(range(len(shape)), len(shape))
        back = tuple(int(k) for k in np.argsort(order))
        extents = tuple(shape[k] for k in order)
        if kind == "file":
            return self.file(rnd, shape)
        if kind == "bytearray":
            held = bytearray(int(np.prod(shape)))
            view: Any = np.frombuffer(held, np.uint8).reshape(shape)
            target = memoryview(held).cast("B", tuple(shape)) if rnd.random() < 0.5 else view
            return Place(kind, target, view.copy, lambda values: np.copyto(view, values))
        if kind.startswith("device"):
            there = engine.empty(extents, "u1", memory=kind).transpose(back)
            self.watch(there)
            return Place(kind, there, there.numpy, lambda v: engine.copy(v, there).wait(WAIT_S))
        memory = {"empty": "host", "pinned": "pinned"}.get(kind)
        owner = (
            np.zeros(extents, np.uint8)
            if memory is None
            else engine.empty(extents, "u1", memory=memory)
        )
        here = owner.transpose(back)
        self.watch(here)
        return Place(kind, here, here.copy, lambda values: np.copyto(here, values))

    def file(self, rnd: random.Random, shape: list[int]) -> Place:
        path = self.folder / f"{threading.get_ident()}-{rnd.random()}.bin"
        written = ts.File(path, extents=tuple(shape), fields="u1", mode="w")

        def read() -> Any:
            written.flush()
            return np.fromfile(path, np.uint8).reshape(shape)

        return Place("file", written, read, lambda v: np.ascontiguousarray(v).tofile(path))

    # --- bodies of the threads ---

    def shape(self, rnd: random.Random) -> list[int]:
        left = int(10 ** rnd.uniform(0, 6.3))
        shape = []
        for k in range(rnd.choice([1, 2, 2, 3, 4]), 1, -1):
            shape.append(max(1, int(left ** (1 / k) * rnd.choice([0.3, 1, 2]))))
            left = max(1, left // shape[-1])
        return [*shape, left]

    def chain(self, rnd: random.Random) -> None:
        """Copies values along a chain of arrays; sometimes cancels the last copy."""
        self.travel(rnd, self.engine, rnd.choices(self.kinds, k=rnd.choice([2, 2, 3, 4])))

    def travel(self, rnd: random.Random, engine: ts.Engine, kinds: list[str]) -> None:
        shape = self.shape(rnd)
        values = np.random.default_rng(rnd.getrandbits(32)).integers(0, 256, shape, np.uint8)
        places = [self.place(rnd, engine, shape, kind) for kind in kinds]
        try:
            self.copy_along(rnd, engine, shape, kinds, places, values)
        finally:
            for place in places:
                if place.kind == "file":
                    Path(place.core.path).unlink(missing_ok=True)

    def copy_along(
        self,
        rnd: random.Random,
        engine: ts.Engine,
        shape: list[int],
        kinds: list[str],
        places: list[Place],
        values: Any,
    ) -> None:
        places[0].write(values)
        events: list[ts.Event] = []
        for source, target in itertools.pairwise(places):
            start = source.core
            if source.kind == "file":
                for event in events:
                    event.wait(WAIT_S)
                source.core.flush()
                start = ts.File(source.core.path, extents=tuple(shape), fields="u1")
            after = events[-1] if events and rnd.random() < 0.9 else list(events)
            priority = rnd.choice([0, 0, 5, 10])
            if rnd.random() < 0.3:
                copy = engine.prepare(start, target.core, priority=priority)
                events.append(copy.start(after=after))
            else:
                events.append(engine.copy(start, target.core, after=after, priority=priority))
        self.count("copies", len(events))
        if rnd.random() < 0.1:
            self.cancel(rnd, events)
            return
        if rnd.random() < 0.5:
            del events[:-1]  # Nothing waits for the earlier events.
        for event in events:
            event.wait(WAIT_S)
        if not np.array_equal(places[-1].read(), values):
            raise Wrong(f"{shape} of {kinds}: the last array differs from the first")

    def cancel(self, rnd: random.Random, events: list[ts.Event]) -> None:
        rnd.choice(events).cancel()
        for event in events:
            try:
                event.wait(WAIT_S)
            except ts.Cancelled:
                self.count("cancelled")

    def pairs(self, rnd: random.Random) -> None:
        """Copies by `copy_all` or `copy_pages`, prepared or not, and checks the target."""
        kinds = [kind for kind in self.kinds if kind not in ("file", "bytearray")]
        rows, width = rnd.randint(1, 40), rnd.choice([1, 7, 64, 4096])
        source = self.place(rnd, self.engine, [rows, width], rnd.choice(kinds))
        target = self.place(rnd, self.engine, [rows, width], rnd.choice(kinds))
        values = np.random.default_rng(rnd.getrandbits(32)).integers(
            0, 256, (rows, width), np.uint8
        )
        source.write(values)
        order = list(range(rows))
        priority = rnd.choice([0, 5])
        prepared = rnd.random() < 0.5
        engine = self.engine
        if rnd.random() < 0.5:
            pairs = [(source.core[k], target.core[k]) for k in range(rows)]
            make = engine.prepare_all if prepared else engine.copy_all
            made: Any = make(pairs, priority=priority)
        else:
            rnd.shuffle(order)
            pages = (source.core, target.core, order, range(rows))
            made = (engine.prepare_pages if prepared else engine.copy_pages)(*pages)
        for event in [made.start(), made.start()] if prepared else [made]:
            event.wait(WAIT_S)
        expected = values[order]
        self.count("pairs and pages", rows)
        if not np.array_equal(target.read(), expected):
            raise Wrong(f"{rows} rows of {width}: {source.kind} to {target.kind}")

    def closed_under_us(self, rnd: random.Random) -> None:
        """Closes an engine while two threads copy with it: their copies end or raise Closed."""
        engine = ts.Engine(threads=1)
        closing = threading.Event()
        failures: list[str] = []

        def use(seed: int) -> None:
            own = random.Random(seed)
            kinds = [kind for kind in self.kinds if kind != "file"]
            try:
                while True:
                    self.travel(own, engine, own.choices(kinds, k=3))
            except ts.Closed:
                if not closing.is_set():
                    failures.append("Closed was raised before close() was called")
            except BaseException:
                failures.append(traceback.format_exc())

        threads = [
            threading.Thread(target=use, args=(rnd.getrandbits(32),), daemon=True) for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        time.sleep(rnd.uniform(0, 0.3))
        closing.set()
        engine.close()
        for thread in threads:
            thread.join(WAIT_S)
        if any(thread.is_alive() for thread in threads):
            failures.append("a thread did not end when its engine was closed")
        self.count("engines closed")
        if failures:
            raise AssertionError("\n".join(failures))


def soak(options: argparse.Namespace) -> list[str]:
    """Runs the threads; returns a text for each failure."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if options.memory else None) as folder:
        shared = Soak(options, Path(folder))
        bodies = [("closing", shared.closed_under_us), ("pairs", shared.pairs)]
        while len(bodies) < options.threads:
            bodies.append(("chain", shared.chain))
        threads = [
            threading.Thread(target=shared.run, args=(name, body, number), daemon=True)
            for number, (name, body) in enumerate(bodies)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, shared.end + GRACE_S - time.monotonic()))
        if any(thread.is_alive() for thread in threads):
            faulthandler.dump_traceback()
            shared.failures.append("threads stand still")
        if not shared.failures:
            shared.failures += left_over(shared)
        print(", ".join(f"{count} {what}" for what, count in shared.counts.items()))
        shared.engine.close()
        return shared.failures


def left_over(shared: Soak) -> list[str]:
    """Returns a text for each kind of resource that is held although nothing uses it."""
    gc.collect()
    left = []
    if not eventually(lambda: gc.collect() is not None and not shared.alive):
        left.append(f"{len(shared.alive)} arrays are held after their copies have ended")
    if shared.engine._core.buffer_bytes_in_use != 0:
        left.append(f"{shared.engine._core.buffer_bytes_in_use} bytes of buffers are in use")
    return left


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--gpus", choices=("emulated", "real", "none"), default="emulated")
    parser.add_argument("--memory", action="store_true", help="files in /dev/shm, not on disk")
    options = parser.parse_args()
    if options.gpus != "real":
        os.environ["TRANSHIP_EMULATED_GPUS"] = "2" if options.gpus == "emulated" else "0"
    # The timer does not need the interpreter lock: it ends the process if a thread keeps the lock.
    faulthandler.dump_traceback_later(options.seconds + 2 * GRACE_S, exit=True)
    replay = f"python tests/python/soak.py --seconds {options.seconds:g} --seed {options.seed}"
    print(replay, flush=True)
    ts.Engine(threads=1).close()  # Measures the profile and loads libraries.
    threads, files, segments = threads_of_process(), open_files(), shared_segments()
    failures = soak(options)
    gc.collect()
    if not failures and not eventually(lambda: threads_of_process() <= threads):
        failures.append(f"threads are left: {len(threads_of_process() - threads)}")
    if not failures and not eventually(lambda: len(open_files()) <= len(files)):
        failures.append(f"descriptors are left: {set(open_files().values()) - set(files.values())}")
    if not failures and not eventually(lambda: shared_segments() <= segments):
        failures.append(f"segments are left: {shared_segments() - segments}")
    for failure in failures:
        print(f"{failure}\nseed {options.seed}; again: {replay}", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    if failures:
        os._exit(1)  # An ordinary exit could wait for threads that are stuck.
    return 0


if __name__ == "__main__":
    sys.exit(main())
