"""What processes do while the calls of one of them fail.

A scenario is a few roles, each in a process of its own. One of them, the victim, arms the library
that lets calls fail. A role returns if all went well, and raises a `tranship.Error` if something
was refused; wrong data is an AssertionError, which is never allowed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import tranship as ts

PATIENCE = 4.0
"""Seconds that one call of the victim may take, in these scenarios."""
LONG = 25.0
"""Seconds that one call of another role may take; a role waits three times as long for a word."""


@dataclass
class World:
    """What the roles of one trial share."""

    folder: Path
    role: str
    victim: str
    arm: Callable[[], None]
    disarm: Callable[[], None]

    @property
    def contact(self) -> Path:
        return self.folder / "contact"

    def say(self, word: str) -> None:
        """Tells the other roles something."""
        (self.folder / f"said-{word}").touch()

    def heard(self, word: str) -> bool:
        return (self.folder / f"said-{word}").exists()

    def wait_for(self, *words: str) -> None:
        """Waits until somebody has said one of the words."""
        end = time.monotonic() + 3 * LONG
        while not any(self.heard(word) for word in words):
            if list(self.folder.glob("died-*")):
                raise ts.PeerLost("another role of this trial has died")
            assert time.monotonic() < end, f"nobody has said {words}"
            time.sleep(0.005)


@dataclass
class Scenario:
    """Roles, in the order in which they start, and who of them may see errors."""

    roles: dict[str, Callable[[World], None]]
    victim: str
    environment: dict[str, str] = field(default_factory=dict)
    unharmed: frozenset[str] = frozenset()
    """Roles that must see no error, whatever fails in the victim."""


def profile() -> str | None:
    """Where run.py keeps what it has measured, so that no trial measures for itself."""
    return os.environ.get("TRANSHIP_FAULTS_PROFILE")


def values(number: int, count: int = 1 << 17) -> np.ndarray:
    """An array (1 MiB) that identifies its writer in each element."""
    return np.arange(count, dtype="i8") * 1000 + number


def check(found: np.ndarray, expected: np.ndarray, what: str) -> None:
    wrong = int(np.count_nonzero(found != expected))
    assert wrong == 0, f"{what}: {wrong} of {expected.size} elements are wrong"


def refused(work: Callable[[], object]) -> Exception | None:
    """The refusal of what may be refused."""
    try:
        work()
    except (ts.Error, MemoryError) as error:
        assert str(error).strip(), f"{type(error).__name__} without a text"
        return error
    return None


# --- one process


def copy_arrays(world: World) -> None:
    """Copies in memory and through files; each copy is right, or is refused."""
    source = np.arange(1 << 19, dtype="i8").reshape(1 << 9, 1 << 10)
    failed: list[Exception] = []

    def attempt(work: Callable[[], object]) -> bool:
        error = refused(work)
        failed.extend([error] if error else [])
        return error is None

    world.arm()
    with ts.Engine(threads=2, profile=profile()) as engine:
        turned = np.zeros((1 << 10, 1 << 9), "i8")
        if attempt(lambda: engine.copy(source, turned.T).wait(LONG)):
            check(turned.T, source, "a copy in memory")
        path = world.folder / "array.npy"

        def write() -> None:
            with ts.File(path, extents=source.shape, fields="i8", mode="w", durable=True) as file:
                engine.copy(source, file).wait(LONG)
                file.flush()

        written = attempt(write)
        if written:
            world.disarm()
            check(np.load(path), source, "a file")
            world.arm()
        assert written or not path.exists() or np.array_equal(np.load(path), source)
        back = np.zeros(source.shape, "i8")
        if written and attempt(lambda: engine.copy(ts.File(path), back).wait(LONG)):
            check(back, source, "what was read from a file")
        world.disarm()
        small = np.zeros(source.shape, "i8")
        engine.copy(source, small).wait(LONG)  # the engine goes on
        check(small, source, "a copy after the failures")
    if failed:
        raise failed[0]


# --- an exporter and requesters


def export(world: World) -> None:
    if world.role == world.victim:
        world.arm()
    try:
        with ts.Engine(contact=world.contact, threads=2, profile=profile()) as engine:
            plain = values(1)
            shared = engine.empty(plain.shape, "i8")
            shared[:] = values(2)
            engine.export("plain", plain)
            engine.export("shared", shared)
            world.say("exported")
            world.wait_for("requested")
            world.disarm()
            world.say("disarmed")
            world.wait_for("witnessed")
    finally:
        world.say("disarmed")
        world.say("exported")


def read_both(engine: ts.Engine, contact: Path, what: str, patience: float = PATIENCE) -> None:
    peer = engine.connect(contact, timeout=patience)
    for name, number in (("plain", 1), ("shared", 2)):
        out = np.zeros(values(1).shape, "i8")
        engine.copy(peer[name], out).wait(patience)
        check(out, values(number), f"{what}: {name}")


def request(world: World) -> None:
    world.wait_for("exported")
    if world.role == world.victim:
        world.arm()
    try:
        with ts.Engine(threads=2, profile=profile()) as engine:
            read_both(engine, world.contact, "a requester")
            peer = engine.connect(world.contact, timeout=PATIENCE)
            engine.copy(values(1), peer["plain"]).wait(PATIENCE)
            read_both(engine, world.contact, "a requester, again")
    finally:
        world.say("requested")


def witness(world: World) -> None:
    """Comes when the failures are over, and finds the arrays whole."""
    world.wait_for("disarmed")
    world.wait_for("requested")
    try:
        with ts.Engine(threads=2, profile=profile()) as engine:
            read_both(engine, world.contact, "a witness", LONG)
    finally:
        world.say("witnessed")


# --- a staging service


def serve(world: World, rank: int = 0, servers: int = 1, **options: object) -> None:
    if world.role == world.victim:
        world.arm()
    try:
        server = ts.StagingServer(world.contact, memory="24MiB", rank=rank, servers=servers,
                                  profile=profile(), **options)  # fmt: skip
        with server:
            world.say(f"served-{rank}")
            world.wait_for("clients-ended")
            world.disarm()
            world.say("disarmed")
            world.wait_for("witnessed")
    finally:
        world.say("disarmed")
        world.say(f"served-{rank}")


def serve_and_spill(world: World) -> None:
    serve(world, full="spill", spill=world.folder)


def serve_first(world: World) -> None:
    serve(world, 0, 2)


def serve_second(world: World) -> None:
    serve(world, 1, 2)


COUNTS = (1 << 17, 64, 1 << 14, 1 << 17)
"""Elements of the objects that a client puts: large ones, and ones that fit a message."""


def use_staging(world: World, number: int, rounds: int = 2) -> None:
    """Puts and gets; each get is right, whatever else is refused. Says what was acknowledged."""
    failed: list[Exception] = []
    acknowledged: list[tuple[int, int]] = []
    name = f"variable-{number}"
    patience = PATIENCE if world.role == world.victim else LONG

    def put_and_get(staging: ts.Staging, version: int, count: int) -> None:
        data = values(number * 100 + version, count)
        staging.put(name, version, data, timeout=patience)
        acknowledged.append((version, count))
        check(staging.get(name, version, (0,), (count,), timeout=patience), data, name)

    try:
        with ts.Staging(
            world.contact, engine=None, timeout=patience, threads=2, profile=profile()
        ) as staging:
            world.say(f"client-{number}")
            for version in range(rounds * len(COUNTS)):
                count = COUNTS[version % len(COUNTS)]
                error = refused(lambda v=version, c=count: put_and_get(staging, v, c))
                failed.extend([error] if error else [])
                if len(failed) > 1:
                    break
    finally:
        words = "\n".join(f"{version} {count}" for version, count in acknowledged)
        (world.folder / f"acknowledged-{number}").write_text(words)
        world.say(f"client-{number}")
        world.say(f"ended-{number}")
    if failed:
        raise failed[0]


def client(world: World, number: int, rounds: int = 2) -> None:
    try:
        world.wait_for("served-0")
        if world.role == world.victim:
            world.arm()
        use_staging(world, number, rounds)
    finally:
        world.say(f"ended-{number}")


def first_client(world: World) -> None:
    client(world, 1)


def second_client(world: World) -> None:
    client(world, 2)


def many_puts(world: World) -> None:
    """More than the server's memory holds, so that it spills."""
    (world.folder / "acknowledged-2").write_text("")
    world.say("ended-2")
    client(world, 1, rounds=12)


def staging_witness(world: World) -> None:
    """Comes when the failures are over: all that was acknowledged is there, and right."""
    try:
        for number in (1, 2):
            world.wait_for(f"ended-{number}")
        world.say("clients-ended")
        world.wait_for("disarmed")
        with ts.Staging(world.contact, timeout=LONG, threads=2, profile=profile()) as staging:
            for number in (1, 2):
                acknowledged = world.folder / f"acknowledged-{number}"
                words = acknowledged.read_text() if acknowledged.exists() else ""
                for line in words.splitlines():
                    version, count = (int(word) for word in line.split())
                    name = f"variable-{number}"
                    found = staging.get(name, version, (0,), (count,), timeout=LONG)
                    check(found, values(number * 100 + version, count), f"{name} later")
            staging.put("variable-3", 1, values(3), timeout=LONG)
            check(staging.get("variable-3", 1, timeout=LONG), values(3), "a put after failures")
    finally:
        world.say("clients-ended")
        world.say("witnessed")


PAIR = {"exporter": export, "requester": request, "witness": witness}
SERVICE = {"server": serve, "first": first_client, "second": second_client,
           "witness": staging_witness}  # fmt: skip
GROUP = {"server": serve_first, "helper": serve_second, "first": first_client,
         "second": second_client, "witness": staging_witness}  # fmt: skip
SPILLING = {"server": serve_and_spill, "first": many_puts, "witness": staging_witness}
NETWORK = {"TRANSHIP_TRANSPORT": "network"}

SCENARIOS: dict[str, Scenario] = {
    "copies": Scenario({"engine": copy_arrays}, "engine"),
    "exporter": Scenario(PAIR, "exporter"),
    "requester": Scenario(PAIR, "requester", unharmed=frozenset({"exporter", "witness"})),
    "exporter-network": Scenario(PAIR, "exporter", NETWORK),
    "requester-network": Scenario(PAIR, "requester", NETWORK, frozenset({"exporter", "witness"})),
    "server": Scenario(SERVICE, "server"),
    "client": Scenario(SERVICE, "first", unharmed=frozenset({"server", "second", "witness"})),
    "server-network": Scenario(SERVICE, "server", NETWORK),
    "client-network": Scenario(
        SERVICE, "first", NETWORK, frozenset({"server", "second", "witness"})
    ),
    "spilling": Scenario(SPILLING, "server"),
    "helper": Scenario(GROUP, "helper", unharmed=frozenset({"server"})),
}
