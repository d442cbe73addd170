"""Instances in the memories that the paper names, in this process or in another one.

Another process of this machine, with an engine of its own, stands for the paper's other node. An
instance has one dimension and 8 integers a point: `views` have the shape (points, 8), whatever
the layout of the memory behind them.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from tranship import _core
from tranship.arrays import File
from tranship.engine import Engine
from tranship.errors import Error
from tranship.peer import Peer

from ..files.disk import file_holds, forget, spoil_file, write_file
from ..gpu.copies import Side, gpu_count
from ..harness import Array, Bench, as_bytes, nothing, same, seeded
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


@dataclass
class Store:
    """One instance in a memory of this process.

    Attributes:
        view: What the engine copies.
        fill: Function that writes a content, without a copy of the engine.
        spoil: Function that writes the pattern.
        holds: Function that returns whether the instance holds a content. Files are read from the
            disk, not from the page cache; GPU memory is read by bare copies of the driver.
        flush: Function that waits until the instance is on the disk.
        forget: Function that drops a file from the page cache, so that reads reach the disk.
        close: Function that removes the instance's file.
    """

    view: Any
    fill: Callable[[Array], None]
    spoil: Callable[[], None]
    holds: Callable[[Array], bool]
    flush: Callable[[], None] = nothing
    forget: Callable[[], None] = nothing
    close: Callable[[], None] = nothing


def make_store(engine: Engine, word: str, form: Form, path: Path, device: int) -> Store:
    """Returns an instance in the memory of that name; `path` is for files."""
    if word == "DSK":
        write_file(path, None, form.bytes)
        layout = "F, x, c" if form.soa else "F, c, x"
        extents = {"x": form.points, "c": FIELDS}
        file = File(path, extents=extents, fields="u4", layout=layout, mode="r+")
        return Store(
            file,
            lambda content: write_file(path, content, content.nbytes),
            partial(spoil_file, path),
            partial(file_holds, path),
            file.flush,
            partial(forget, path),
            partial(path.unlink, missing_ok=True),
        )
    memories = {"ZCM": "pinned", "FBM": f"device{device}", SHARED: "host", "SYS": "pageable"}
    side = Side(engine, memories[word], form.shape, "u4")
    return Store(
        side.array.transpose((1, 0)) if form.soa else side.array,
        lambda content: side.write(as_bytes(content)),
        side.spoil,
        lambda content: same(side.read(), as_bytes(content)),
    )


class Stores:
    """Several instances of one form in a memory of this process."""

    def __init__(
        self, engine: Engine, word: str, form: Form, count: int, prefix: Path, device: int = 0
    ) -> None:
        self.form = form
        paths = [prefix.with_name(f"{prefix.name}-{k}.bin") for k in range(count)]
        self.stores = [make_store(engine, word, form, path, device) for path in paths]
        self.views = [store.view for store in self.stores]

    def fill(self) -> None:
        """Fills each instance with its own content."""
        for k, store in enumerate(self.stores):
            store.fill(self.form.content(k))

    def spoil(self) -> None:
        """Spoils all instances, so that copies that do nothing are detected."""
        for store in self.stores:
            store.spoil()

    def holds(self) -> bool:
        """Returns whether each instance has its content."""
        return all(store.holds(self.form.content(k)) for k, store in enumerate(self.stores))

    def flush(self) -> None:
        """Waits until all instances have reached their memory, such as the disk."""
        for store in self.stores:
            store.flush()

    def forget(self) -> None:
        """Drops files from the page cache, so that reads reach the disk."""
        for store in self.stores:
            store.forget()

    def close(self) -> None:
        """Removes the instances' files."""
        for store in self.stores:
            store.close()


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
        stores.spoil()
        self.groups[name] = stores
        for k, view in enumerate(stores.views):
            self.engine.export(f"{name}-{k}", view)

    def stores(self, name: str, what: str) -> Any:
        """Spoils, compares or flushes instances."""
        return getattr(self.groups[name], what)()

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

    def _do(self, do: str) -> Any:
        return self.other.ask("stores", name=self.name, what=do)

    def spoil(self) -> None:
        """Spoils all instances."""
        self._do("spoil")

    def holds(self) -> bool:
        """Returns whether each instance has its content, as the other process compares it."""
        return bool(self._do("holds"))

    def flush(self) -> None:
        """Waits until all instances are on the disk."""
        self._do("flush")

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
