"""Instances in the memories that the paper names, in this process or in another one.

Another process of this machine, with an engine of its own, stands for the paper's other node. An
instance has one dimension and 8 integers a point: `views` have the shape (points, 8), whatever
the layout of the memory behind them.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from tranship import _core
from tranship.engine import Engine
from tranship.errors import Error
from tranship.peer import Peer

from ..files.disk import FileSide, write_file
from ..gpu.copies import Side, gpu_count
from ..harness import Array, Bench, as_bytes, nothing, seeded
from ..processes.child import Service
from ..processes.peer import Child

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

    def content(self, number: int) -> Array:
        """Returns instance `number` in its memory order; every process can make it."""
        array = first_content(self.points) + np.uint32(number)
        return np.ascontiguousarray(array.T) if self.soa else array


def make_side(engine: Engine, word: str, form: Form, path: Path, device: int) -> Side | FileSide:
    """Returns an instance in the memory of that name; `path` is for files."""
    if word == "DSK":
        write_file(path, None, form.bytes)
        layout = "F, x, c" if form.soa else "F, c, x"
        extents = {"x": form.points, "c": FIELDS}
        return FileSide(path, extents=extents, fields="u4", layout=layout)
    memories = {"ZCM": "pinned", "FBM": f"device{device}", SHARED: "host", "SYS": "pageable"}
    return Side(engine, memories[word], form.shape, "u4")


class Stores:
    """Several instances of one form in a memory of this process.

    Attributes:
        views: What the engine copies: points by fields.
    """

    def __init__(
        self, engine: Engine, word: str, form: Form, count: int, prefix: Path, device: int = 0
    ) -> None:
        self.form = form
        paths = [prefix.with_name(f"{prefix.name}-{k}.bin") for k in range(count)]
        self.sides = [make_side(engine, word, form, path, device) for path in paths]
        arrays = [side.array for side in self.sides]
        turned = form.soa and word != "DSK"  # a file has a layout of its own
        self.views = [array.transpose((1, 0)) for array in arrays] if turned else arrays

    def fill(self) -> None:
        """Fills each instance with its own content, without a copy of the engine."""
        for k, side in enumerate(self.sides):
            side.write(as_bytes(self.form.content(k)))

    def holds(self) -> bool:
        """Returns whether each instance has its content."""
        return all(side.holds(self.form.content(k)) for k, side in enumerate(self.sides))

    def each(self, do: str) -> None:
        """Spoils all instances; files are also flushed, forgotten and closed."""
        for side in self.sides:
            getattr(side, do, nothing)()

    def close(self) -> None:
        """Removes the instances' files."""
        self.each("close")


class Neighbourhood(Service):
    """The process in place of the other node: makes instances, exports them, compares them."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.groups: dict[str, Stores] = {}
        # The first process takes the first GPU; if there are more GPUs, this process has its own.
        self.device = min(1, gpu_count(engine) - 1)

    def make_stores(
        self, name: str, word: str, points: int, soa: bool, count: int, prefix: str
    ) -> None:
        """Makes and exports instances."""
        form = Form(points, soa)
        stores = Stores(self.engine, word, form, count, Path(prefix), self.device)
        stores.each("spoil")
        self.groups[name] = stores
        for k, view in enumerate(stores.views):
            self.engine.export(f"{name}-{k}", view)

    def each(self, name: str, what: str) -> None:
        """Spoils or flushes instances."""
        self.groups[name].each(what)

    def holds(self, name: str) -> bool:
        """Returns whether each instance has its content."""
        return self.groups[name].holds()

    def move(self, source: str, number: int, target: str, target_number: int) -> None:
        """Copies one instance into another."""
        view = self.groups[source].views[number]
        self.engine.copy(view, self.groups[target].views[target_number]).wait(timeout=120)

    def drop_stores(self, name: str) -> None:
        """Ends the export of instances."""
        stores = self.groups.pop(name)
        for k in range(len(stores.views)):
            self.engine.withdraw(f"{name}-{k}")
        stores.close()


class Neighbour(Child):
    """A process with an engine in place of another node, and the connection to it."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(Neighbourhood)
        self._asking = threading.Lock()
        self.peer: Peer = engine.connect(self.contact)

    def ask(self, do: str, **arguments: Any) -> Any:
        """Sends a request and waits for its answer; any thread may call it."""
        with self._asking:
            return super().ask(do, **arguments)


class FarStores:
    """Several instances of one form in a memory of the other process, which exports them."""

    def __init__(self, other: Neighbour, word: str, form: Form, count: int, prefix: Path) -> None:
        self.other = other
        self.name = prefix.name
        how = {"word": word, "points": form.points, "soa": form.soa, "count": count}
        other.ask("make_stores", name=self.name, prefix=os.fspath(prefix), **how)
        self.views = [other.peer[f"{self.name}-{k}"] for k in range(count)]

    def each(self, do: str) -> None:
        """Spoils or flushes all instances."""
        self.other.ask("each", name=self.name, what=do)

    def holds(self) -> bool:
        """Returns whether each instance has its content, as the other process compares it."""
        return bool(self.other.ask("holds", name=self.name))

    def move(self, number: int, target: FarStores, target_number: int) -> None:
        """Has the other process copy one of its instances into another, and waits."""
        to = {"target": target.name, "target_number": target_number}
        self.other.ask("move", source=self.name, number=number, **to)

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

    def need(self, *words: str) -> None:
        """Checks that the memories exist.

        Raises:
            LackingError: One of the memories is missing.
        """
        for word in words:
            if word.rstrip("*") in GPU_WORDS and self.gpus == 0:
                raise LackingError(f"{word} is memory of a GPU: {self.no_gpus_because}")

    def _prefix(self, word: str) -> Path:
        self.need(word)
        self.made += 1
        return self.folder / f"instances{self.made}"

    def here(self, word: str, form: Form, count: int) -> Stores:
        """Returns new instances of this process."""
        return Stores(self.engine, word, form, count, self._prefix(word))

    def there(self, word: str, form: Form, count: int) -> FarStores:
        """Returns new instances of the other process.

        Raises:
            LackingError: That process cannot make or export the instances.
        """
        try:
            return FarStores(self.other, word.rstrip("*"), form, count, self._prefix(word))
        except Error as error:
            raise LackingError(f"{word}: {error}") from error

    def group(self, word: str, form: Form, count: int) -> Stores | FarStores:
        """Returns new instances of this process, or of the other one if the word ends in a star."""
        return (self.there if word.endswith("*") else self.here)(word, form, count)

    @property
    def stage(self) -> str:
        """Returns the memory of intermediate whole instances next to GPUs and files."""
        return "ZCM" if self.gpus else "SYS"


@contextmanager
def open_world(bench: Bench) -> Iterator[World]:
    """Yields two processes, with lines that describe their GPUs."""
    bench.cold = False
    with (
        tempfile.TemporaryDirectory(prefix="tranship-bench-") as folder,
        Engine() as engine,
        Neighbour(engine) as other,
    ):
        gpus, reason = _core.list_gpus(engine._core)
        bench.conditions |= {
            "gpus": f"{len(gpus)} x {gpus[0]['name']}" if gpus else "none",
            "emulated": any(bool(row["emulated"]) for row in gpus),
            "other_node": "another process of this machine",
            "timed": "python",
        }
        yield World(engine, other, Path(folder), len(gpus), reason)
