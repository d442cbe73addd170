"""A history of a staging service: real processes put, get, discard, stop and die, and a checker
holds what they saw against what docs/concepts/staging.md promises.

    python tests/faults/histories.py --seed 7 --seconds 30 --servers 2 --transport network

Each process writes what it does to a file of its own, each line at once, so that what a killed one
has begun is known. A put fills its box with a number that nobody else puts.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from history import Allowed, Operation, check

CELLS = (64, 20_000, 200_000)
"""Cells of the boxes of the variables: inside a message, and copied."""
VARIABLES = 3
TIMEOUT = 4.0
GRACE = 20.0
"""What a call may last beyond its timeout on a machine that has other work, and while it is
stopped itself."""
STOPS = (0.05, 0.5, 2.5)
FULL_STOP = 12.0

PROMISED = {
    "put": frozenset({"Timeout", "PeerLost", "NotFound", "Closed"}),
    "get": frozenset({"Timeout", "PeerLost", "NotFound", "Closed"}),
    "discard": frozenset({"Timeout", "PeerLost", "NotFound", "Closed"}),
    "versions": frozenset({"Timeout", "PeerLost", "NotFound", "Closed"}),
    "open": frozenset({"Timeout", "PeerLost", "NotFound"}),
}


class Recorder:
    """The file of one process."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("a", buffering=1)
        self.number = 0

    def write(self, **line: object) -> None:
        self.file.write(json.dumps(line) + "\n")

    def call(self, kind: str, work: Callable[[], dict[str, Any]], **what: object) -> str:
        """Records an operation around `work`; returns its result."""
        import tranship as ts

        self.number += 1
        begin = time.monotonic()
        self.write(number=self.number, kind=kind, begin=begin, **what)
        found: dict[str, Any] = {"result": "ok"}
        try:
            found.update(work())
        except ts.Error as error:
            found.update(result="unknown", error=type(error).__name__, text=str(error)[:200])
            if not isinstance(error, tuple(getattr(ts, name) for name in PROMISED["put"])):
                found["code"] = error.code
        except Exception as error:
            found.update(result="unknown", error=type(error).__name__, text=repr(error)[:300])
        self.write(number=self.number, end=time.monotonic(), **found)
        return str(found["result"])


def runs_of(array: Any, lower: int) -> list[list[int]]:
    """Equal values of an array side by side."""
    import numpy as np

    edges = [0, *(np.flatnonzero(np.diff(array)) + 1).tolist(), len(array)]
    return [[lower + a, lower + b, int(array[a])] for a, b in itertools.pairwise(edges)]


def name_of(variable: int) -> str:
    return f"variable-{variable}"


def box_of(chance: random.Random, variable: int) -> tuple[int, int]:
    """All of a variable, or its first or second half, or its middle."""
    cells = CELLS[variable]
    quarter = cells // 4
    return chance.choice(
        [(0, cells), (0, 2 * quarter), (2 * quarter, cells), (quarter, 3 * quarter)]
    )


class Actor:
    """A client that does what its seed says until it is told to stop."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.chance = random.Random(options.seed * 1000 + options.actor)
        self.recorder = Recorder(Path(options.folder) / f"history-{options.actor}.jsonl")
        self.value = (options.actor + 1) * 1_000_000
        self.version = 0

    def act(self, staging: Any) -> None:
        variable = self.chance.randrange(VARIABLES)
        lower, upper = box_of(self.chance, variable)
        newest = int(time.monotonic() - self.options.epoch)
        version = max(0, newest - self.chance.randrange(3))
        what = {"name": name_of(variable), "version": version, "lower": lower, "upper": upper}
        step = self.chance.random()
        if step < 0.4:
            self.put(staging, what)
        elif step < 0.8:
            self.get(staging, what)
        elif step < 0.9:
            what["version"] = max(0, newest - 4)
            self.recorder.call(
                "discard", lambda: self.discard(staging, what), patience=30 + GRACE, **what
            )
        else:
            self.follow(staging, what)

    def put(self, staging: Any, what: dict[str, Any]) -> None:
        import numpy as np

        self.value += 1
        data = np.full(what["upper"] - what["lower"], self.value, "i8")

        def work() -> dict[str, Any]:
            staging.put(what["name"], what["version"], data, (what["lower"],), timeout=TIMEOUT)
            return {}

        self.recorder.call("put", work, value=self.value, patience=TIMEOUT + GRACE, **what)

    def get(self, staging: Any, what: dict[str, Any]) -> None:
        import tranship as ts

        timeout = self.chance.choice((0.0, 0.2, 1.0))

        def work() -> dict[str, Any]:
            box = (what["lower"],), (what["upper"],)
            try:
                found = staging.get(what["name"], what["version"], *box, timeout=timeout)
            except ts.Timeout as error:
                # A server has said what is missing. Its silence, a connection that was not made in
                # time, and a transfer that goes on say nothing of what it has.
                result = "waiting" if str(error).startswith("timed out: ") else "unknown"
                return {"result": result, "error": "Timeout", "text": str(error)[:200]}
            except ts.NotFound as error:
                return {"result": "gone", "error": "NotFound", "text": str(error)[:200]}
            return {"runs": runs_of(found, what["lower"])}

        self.recorder.call("get", work, patience=timeout + GRACE, **what)

    def discard(self, staging: Any, what: dict[str, Any]) -> dict[str, Any]:
        staging.discard(what["name"], what["version"])
        return {}

    def follow(self, staging: Any, what: dict[str, Any]) -> None:
        """The versions that are there now."""
        import tranship as ts

        def work() -> dict[str, Any]:
            listed: list[int] = []
            after = None
            box = (what["lower"],), (what["upper"],)
            try:
                for version in staging[what["name"]].versions(
                    after=after, lower=box[0], upper=box[1], timeout=0.2
                ):
                    listed.append(int(version))
            except ts.Timeout:
                pass
            return {"listed": listed}

        self.recorder.call("versions", work, patience=20 + GRACE, **what)

    def run(self) -> None:
        import tranship as ts

        end = self.options.epoch + self.options.seconds
        while time.monotonic() < end:
            try:
                staging = ts.Staging(self.options.contact, timeout=TIMEOUT, threads=2)
            except ts.Error as error:
                self.recorder.call("open", lambda e=error: {"result": "unknown",
                                   "error": type(e).__name__, "text": str(e)}, name="")  # fmt: skip
                time.sleep(0.2)
                continue
            lost = False
            leaves = time.monotonic() + self.chance.uniform(1.0, 6.0)
            with staging:
                while time.monotonic() < min(end, leaves) and not lost:
                    before = time.monotonic()
                    self.act(staging)
                    lost = time.monotonic() - before > TIMEOUT + GRACE


class Theatre:
    """The processes of a history, and what befalls them."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options = options
        self.folder = folder
        self.chance = random.Random(options.seed)
        self.contact = folder / "contact"
        self.epoch = time.monotonic()
        self.stopped: list[tuple[float, subprocess.Popen[str]]] = []
        self.dead = 0
        self.servers = [self.start_server(rank) for rank in range(options.servers)]
        for server in self.servers:
            assert server.stdout is not None
            line = server.stdout.readline()
            assert line.startswith(("serving at", "server ")), line
        self.epoch = time.monotonic()
        self.next_actor = 0
        self.actors = [self.start_actor() for _ in range(options.actors)]

    def start_server(self, rank: int) -> subprocess.Popen[str]:
        words = ["--contact", str(self.contact), "--memory", "64MiB", *self.options.serve]
        if self.options.servers > 1:
            words += ["--rank", str(rank), "--servers", str(self.options.servers)]
        return subprocess.Popen(
            [sys.executable, "-m", "tranship.cli", "serve", *words],
            stdout=subprocess.PIPE,
            stderr=(self.folder / f"server-{rank}.err").open("w"),
            text=True,
        )

    def start_actor(self) -> subprocess.Popen[str]:
        number = self.next_actor
        self.next_actor += 1
        words = ["--actor", str(number), "--folder", str(self.folder)]
        words += ["--contact", str(self.contact), "--epoch", repr(self.epoch)]
        words += ["--seed", str(self.options.seed), "--seconds", str(self.options.seconds)]
        return subprocess.Popen(
            [sys.executable, __file__, *words],
            text=True,
            stderr=(self.folder / f"actor-{number}.err").open("w"),
        )

    def befall(self) -> None:
        """One thing that happens to somebody."""
        step = self.chance.random()
        if step < 0.5:
            self.stop(self.chance.choice(self.actors), self.chance.choice(STOPS))
        elif step < 0.7:
            self.stop(self.chance.choice(self.servers), self.chance.choice(STOPS))
        elif step < 0.95:
            victim = self.chance.randrange(len(self.actors))
            self.actors[victim].kill()
            self.actors[victim].wait()
            self.actors[victim] = self.start_actor()

    def stop(self, process: subprocess.Popen[str], seconds: float) -> None:
        if process.poll() is None and process not in [one for _, one in self.stopped]:
            process.send_signal(signal.SIGSTOP)
            self.stopped.append((time.monotonic() + seconds, process))

    def wake(self, everybody: bool = False) -> None:
        now = time.monotonic()
        for entry in list(self.stopped):
            if everybody or entry[0] <= now:
                entry[1].send_signal(signal.SIGCONT)
                self.stopped.remove(entry)

    def play(self) -> list[str]:
        """Runs to the end; returns what went wrong with the processes themselves."""
        end = self.epoch + self.options.seconds
        kills_at = self.epoch + self.options.seconds / 2 if self.options.kill_server else end + 1
        following = time.monotonic() + 2.0
        while time.monotonic() < end:
            time.sleep(0.02)
            self.wake()
            if time.monotonic() > kills_at:
                self.servers[-1].kill()
                kills_at = end + 1
            if time.monotonic() > following:
                self.befall()
                following = time.monotonic() + self.chance.uniform(0.1, 1.0)
        self.wake(everybody=True)
        return self.finish()

    def finish(self) -> list[str]:
        problems = []
        end = time.monotonic() + TIMEOUT + 2 * GRACE + 30
        for number, actor in enumerate(self.actors):
            try:
                status = actor.wait(max(end - time.monotonic(), 0.1))
                if status != 0:
                    problems.append(f"actor {number} ended with {status}")
            except subprocess.TimeoutExpired:
                problems.append(f"actor {number} stands still")
                actor.kill()
        for rank, server in enumerate(self.servers):
            killed = self.options.kill_server and rank == len(self.servers) - 1
            if server.poll() is not None and not killed:
                problems.append(f"server {rank} ended with {server.returncode}")
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                problems.append(f"server {rank} does not end")
                server.kill()
        if problems:
            for path in sorted(self.folder.glob("*.err")):
                text = path.read_text()[-1500:]
                problems.extend([f"{path.name}: {text}"] if text else [])
        return problems


def read(folder: Path) -> list[Operation]:
    """The history of all processes."""
    history = []
    for path in sorted(folder.glob("history-*.jsonl")):
        begun: dict[int, dict[str, Any]] = {}
        for line in path.read_text().splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # its process died while it wrote
            begun.setdefault(entry.pop("number"), {}).update(entry)
        for entry in begun.values():
            entry.setdefault("result", "unknown")
            entry.pop("text", None)
            entry.pop("code", None)
            entry["runs"] = tuple(tuple(run) for run in entry.get("runs", ()))
            entry["listed"] = tuple(entry.get("listed", ()))
            history.append(Operation(process=path.stem, **entry))
    return history


def summary(history: list[Operation]) -> str:
    counts: dict[str, int] = {}
    for one in history:
        words = f"{one.kind} {one.result}{' ' + one.error if one.error else ''}"
        counts[words] = counts.get(words, 0) + 1
    return ", ".join(f"{count} {words}" for words, count in sorted(counts.items()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--actors", type=int, default=4)
    parser.add_argument("--transport", choices=["automatic", "shared", "network"])
    parser.add_argument("--kill-server", action="store_true", help="the last one, half-way")
    parser.add_argument("--serve", action="append", default=[], help="an option of the servers")
    parser.add_argument("--keep", help="a folder for what the processes have written")
    parser.add_argument("--actor", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--contact", help=argparse.SUPPRESS)
    parser.add_argument("--epoch", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.actor is not None:
        Actor(options).run()
        return 0
    if options.transport:
        os.environ["TRANSHIP_TRANSPORT"] = options.transport
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.keep or temporary)
        folder.mkdir(exist_ok=True)
        problems = Theatre(options, folder).play()
        history = read(folder)
    allowed = Allowed(options.kill_server or "--versions" in options.serve, PROMISED)
    problems += check(history, allowed)
    print(summary(history))
    for problem in problems[:40]:
        print("WRONG", problem)
    if problems:
        print("replay:", sys.executable, *sys.argv)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
