"""Instances in the memories that the paper names, in this process or in another one.

Another process of this machine, with an engine of its own, stands for the paper's other node. An
instance has one dimension and 8 integers a point: `views` have the shape (points, 8), whatever
the layout of the memory behind them.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tranship import _core
from tranship.arrays import File
from tranship.engine import Engine
from tranship.errors import Error
from tranship.peer import Peer

from ..files.disk import file_holds, forget, spoil_file, write_file
from ..gpu.copies import Side
from ..harness import Array, Bench, as_bytes, blank, same, spoil
from ..processes.data import seeded
from ..processes.peer import Program, child_environment

FIELDS = 8
SEED = 7
SHARED = "SHM"
"""Memory that both processes map: whole instances between two processes lie there."""

GPU_WORDS = ("FBM", "ZCM")


class LackingError(Exception):
    """A memory of the case is missing; the text names the memory and the reason."""


@lru_cache(maxsize=2)
def first_content(points: int) -> Array:
    """Returns instance 0, an array of structures; kept, because random numbers take long."""
    return seeded((points, FIELDS), "u4", SEED)


@dataclass(frozen=True)
class Form:
    """Number of points of an instance, and its layout: AOS or SOA."""

    points: int
    soa: bool = False

    @property
    def bytes(self) -> int:
        """Returns the bytes of an instance."""
        return self.points * FIELDS * 4

    @property
    def shape(self) -> tuple[int, int]:
        """Returns the shape in memory, in C order."""
        return (FIELDS, self.points) if self.soa else (self.points, FIELDS)

    @property
    def layout(self) -> str:
        """Returns the layout, the fastest term first."""
        return "F, x, c" if self.soa else "F, c, x"

    def content(self, number: int) -> Array:
        """Returns instance `number` in its memory order; every process can make it."""
        array = first_content(self.points) + np.uint32(number)
        return np.ascontiguousarray(array.T) if self.soa else array


class Group(Protocol):
    """Instances of one form in one memory."""

    views: list[Any]

    def spoil(self) -> None:
        """Spoils all instances, so that copies that do nothing are detected."""

    def holds(self) -> bool:
        """Returns whether each instance holds its content."""

    def flush(self) -> None:
        """Waits until all instances have reached their memory, such as the disk."""


class Store:
    """One instance in a memory of this process."""

    def __init__(self, engine: Engine, word: str, form: Form, path: Path, device: int = 0) -> None:
        self.form = form
        self.path = path
        self.side: Side | None = None
        self.file: File | None = None
        if word == "DSK":
            write_file(path, None, form.bytes)
            extents = {"x": form.points, "c": FIELDS}
            self.file = File(path, extents=extents, fields="u4", layout=form.layout, mode="r+")
            self.view: Any = self.file
            return
        if word in GPU_WORDS:
            memory = "pinned" if word == "ZCM" else f"device{device}"
            self.side = Side(engine, memory, form.shape, "u4")
            self.array: Any = self.side.array
        elif word == SHARED:
            self.array = engine.empty(form.shape, "u4")
        else:
            self.array = blank(form.bytes).view("u4").reshape(form.shape)
        self.view = self.array.transpose((1, 0)) if form.soa else self.array

    def fill(self, number: int) -> None:
        """Fills the instance with content `number`, without a copy of the engine."""
        content = self.form.content(number)
        if self.file is not None:
            write_file(self.path, content, content.nbytes)
        elif self.side is not None:
            self.side.write(as_bytes(content))
        else:
            np.copyto(self.array, content)

    def spoil(self) -> None:
        """Fills the instance with the pattern."""
        if self.file is not None:
            spoil_file(self.path)
        elif self.side is not None:
            self.side.spoil()
        else:
            spoil(self.array)

    def holds(self, number: int) -> bool:
        """Returns whether the instance holds content `number`.

        Files are read from the disk, not from the page cache; GPU memory is read by bare copies of
        the driver.
        """
        content = self.form.content(number)
        if self.file is not None:
            return file_holds(self.path, content)
        if self.side is not None:
            return same(self.side.read(), as_bytes(content))
        return same(self.array, content)

    def flush(self) -> None:
        """Waits until the instance is on the disk."""
        if self.file is not None:
            self.file.flush()

    def close(self) -> None:
        """Removes the instance's file."""
        if self.file is not None:
            self.path.unlink(missing_ok=True)


class Stores:
    """Several instances in a memory of this process."""

    def __init__(
        self,
        engine: Engine,
        word: str,
        form: Form,
        count: int,
        prefix: Path,
        device: int = 0,
    ) -> None:
        self.stores = [
            Store(engine, word, form, prefix.with_name(f"{prefix.name}-{k}.bin"), device)
            for k in range(count)
        ]
        self.views = [store.view for store in self.stores]

    def fill(self) -> None:
        """Fills each instance with its own content."""
        for k, store in enumerate(self.stores):
            store.fill(k)

    def forget(self) -> None:
        """Drops files from the page cache, so that reads reach the disk."""
        for store in self.stores:
            if store.file is not None:
                forget(store.path)

    def spoil(self) -> None:
        """Spoils all instances."""
        for store in self.stores:
            store.spoil()

    def holds(self) -> bool:
        """Returns whether each instance has its content."""
        return all(store.holds(k) for k, store in enumerate(self.stores))

    def flush(self) -> None:
        """Waits until all instances are on the disk."""
        for store in self.stores:
            store.flush()

    def close(self) -> None:
        """Removes the instances' files."""
        for store in self.stores:
            store.close()


class Neighbour(Program):
    """A process with an engine in place of another node, and the connection to it."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(
            [sys.executable, "-m", "tranship_bench.isometry.neighbour"], child_environment()
        )
        self._name = "the other process"
        self._asking = threading.Lock()
        self.peer: Peer = engine.connect(self.answer()["contact"])

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Sends a request and waits for its answer; any thread may call it."""
        with self._asking:
            return super().ask(do, **arguments)


class FarStores:
    """Several instances in a memory of the other process, which exports them."""

    def __init__(self, other: Neighbour, word: str, form: Form, count: int, prefix: Path) -> None:
        self.other = other
        self.name = prefix.name
        other.ask(
            "make_stores",
            name=self.name,
            word=word,
            points=form.points,
            soa=form.soa,
            count=count,
            prefix=os.fspath(prefix),
        )
        self.views = [other.peer[f"{self.name}-{k}"] for k in range(count)]

    def spoil(self) -> None:
        """Spoils all instances."""
        self.other.ask("spoil_stores", name=self.name)

    def holds(self) -> bool:
        """Returns whether each instance has its content, as the other process compares it."""
        return bool(self.other.ask("stores_hold", name=self.name)["same"])

    def flush(self) -> None:
        """Waits until all instances are on the disk."""
        self.other.ask("flush_stores", name=self.name)

    def move(self, number: int, target: FarStores, target_number: int) -> None:
        """Has the other process copy one of its instances into another, and waits."""
        self.other.ask(
            "move",
            source=self.name,
            number=number,
            target=target.name,
            target_number=target_number,
        )

    def close(self) -> None:
        """Ends the export of the instances."""
        self.views = []
        self.other.ask("drop_stores", name=self.name)


@dataclass
class World:
    """The ends of measured transfers: an engine here, one in another process, and a folder."""

    engine: Engine
    other: Neighbour
    folder: Path
    gpus: int
    no_gpus_because: str
    made: int = 0

    def name(self) -> Path:
        """Returns a new path for instances, which is also their name in the other process."""
        self.made += 1
        return self.folder / f"instances{self.made}"

    def need(self, *words: str) -> None:
        """Checks that the memories exist.

        Raises:
            LackingError: One of the memories is missing.
        """
        for word in words:
            if word.rstrip("*") in GPU_WORDS and self.gpus == 0:
                raise LackingError(f"{word} is memory of a GPU: {self.no_gpus_because}")

    def here(self, word: str, form: Form, count: int) -> Stores:
        """Returns new instances of this process."""
        self.need(word)
        return Stores(self.engine, word, form, count, self.name())

    def there(self, word: str, form: Form, count: int) -> FarStores:
        """Returns new instances of the other process.

        Raises:
            LackingError: That process cannot make or export the instances.
        """
        self.need(word)
        try:
            return FarStores(self.other, word.rstrip("*"), form, count, self.name())
        except Error as error:
            raise LackingError(f"{word}: {error}") from error

    def group(self, word: str, form: Form, count: int) -> Stores | FarStores:
        """Returns new instances of this process, or of the other one if the word ends in a star."""
        place = self.there if word.endswith("*") else self.here
        return place(word, form, count)

    @property
    def stage(self) -> str:
        """Returns the memory of intermediate whole instances next to GPUs and files."""
        return "ZCM" if self.gpus else "SYS"


@contextmanager
def open_world(bench: Bench) -> Iterator[World]:
    """Yields two processes, with lines that describe their GPUs."""
    with (
        tempfile.TemporaryDirectory(prefix="tranship-bench-") as folder,
        Engine() as engine,
        Neighbour(engine) as other,
    ):
        gpus, reason = _core.list_gpus(engine._core)
        text = f"{len(gpus)} x {gpus[0]['name']}" if gpus else "none"
        bench.conditions |= {
            "gpus": text,
            "emulated": any(bool(row["emulated"]) for row in gpus),
            "other_node": "another process of this machine",
            "timed": "python",
        }
        yield World(engine, other, Path(folder), len(gpus), reason)
