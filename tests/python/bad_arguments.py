"""Calls every public function with bad arguments: only errors of the package may come out.

    python tests/python/bad_arguments.py [SEED [CALLS]]

A call has sound arguments but for one or two, which are drawn from `BAD`. What ends with another
exception is printed, and the exit status is 1 then. Memory is limited, so that a call that would
take all of it fails; a call that does not end is reported by its stack after a minute.
"""

from __future__ import annotations

import datetime
import decimal
import faulthandler
import os
import random
import resource
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import tranship as ts
from tranship.arguments import shown
from tranship.settings import Settings

MEMORY_BYTES = 6 << 30
HANGS_S = 60.0


class Raising:
    """An object all of whose methods raise."""

    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)

    def refuse(self, *_: object) -> Any:
        raise KeyError("this object raises")

    __index__ = __int__ = __float__ = __len__ = __iter__ = __getitem__ = __fspath__ = refuse
    __array__ = __repr__ = __dlpack__ = __dlpack_device__ = __bool__ = refuse


class Wrong:
    """An object whose methods return what they must not."""

    shape = "shape"
    dtype = 3
    nbytes = "many"
    dims = (1, 2)
    __array_interface__ = "no interface"
    __cuda_array_interface__ = 5

    def __dlpack_device__(self) -> Any:
        return None

    def __dlpack__(self, **_: object) -> Any:
        return "no capsule"


def nested(levels: int) -> list[Any]:
    """Returns a list in a list in a list."""
    one: list[Any] = []
    for _ in range(levels):
        one = [one]
    return one


def deep_dtype(levels: int) -> np.dtype[Any]:
    """Returns a structure of structures."""
    dtype: np.dtype[Any] = np.dtype("f8")
    for _ in range(levels):
        dtype = np.dtype([("a", dtype)])
    return dtype


def doubled(levels: int) -> list[Any]:
    """Returns a list whose text would double with each level."""
    one: list[Any] = []
    for _ in range(levels):
        one = [one, one]
    return one


BAD: list[Callable[[], Any]] = [
    *(
        (lambda value=value: value)
        for value in (
            None, True, False, "", "x", "no such", "\udcff", "\ud800", "a\0b", "é", "x" * 5000,
            b"bytes", b"\xff", bytearray(3), 0, 1, -1, 7, 2**31, -(2**31) - 1, 2**63, -(2**63) - 1,
            2**64, 2**70, 10**400, -(10**400), 0.5, 1.0, float("nan"), float("inf"), -float("inf"),
            1j, (), (1,), (1, 2), (-1, 5), (None,), ("a", "b"), (2**63, 1), {}, {"x": 1},
            {1: 2}, {"\udcff": 3}, {"x": (0, 2**64)}, {(1, 0): None}, set(), range(3), int, ts,
            len, NotImplemented, Ellipsis, slice(None), decimal.Decimal(3), Fraction(1, 3),
            datetime.date(2020, 1, 1), np.float64(2), np.int8(-3), np.datetime64("NaT"),
            np.str_("\udcff"), np.dtype("O"), np.dtype("V0"), np.bool_(True),
            np.dtype([("a", "O"), ("b", "f8")]), np.dtype([("a\0b", "f8"), ("\udcff", "i4")]),
        )
    ),
    object, Raising, Wrong, lambda: [Raising()], lambda: (Wrong(), Wrong()), lambda: nested(3000),
    lambda: doubled(60), lambda: deep_dtype(40), lambda: deep_dtype(300), lambda: iter([1, 2]),
    lambda: [np.zeros(3)], lambda: [(np.zeros(3), np.zeros(4))], lambda: [(np.zeros(3),)],
    lambda: np.array(1), lambda: np.zeros(0), lambda: np.zeros((2, 0, 3)), lambda: np.zeros(5),
    lambda: np.zeros((1,) * 20), lambda: np.array([object()]), lambda: np.array(["é\0"]),
    lambda: np.ma.masked_array([1.0, 2.0], [True, False]), lambda: np.broadcast_to(1.0, (4, 4)),
    lambda: np.zeros(2, deep_dtype(40)), lambda: np.zeros(2, [("\udcff", "f8")]),
    lambda: np.zeros(3, "M8[s]"), lambda: memoryview(b"read-only"), lambda: [2**70],
    lambda: [[1, 2], [3]], lambda: [0.5], lambda: np.array([2**63], np.uint64), lambda: [-1],
]  # fmt: skip
"""Makers of values that are wrong almost everywhere."""


class Calls:
    """Public functions with sound arguments."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.engine = ts.Engine(contact=True, threads=1)
        contact = os.path.join(folder, "service")
        self.server = ts.StagingServer(contact, memory=64 << 20, preallocate=0, threads=1)
        self.staging = ts.Staging(contact, engine=self.engine)
        self.staging.put("v", 0, np.zeros((4, 4)))
        self.a, self.b = np.zeros((4, 4)), np.zeros((4, 4))
        self.column = ts.types.vector(4, 1, 4, "f8")
        self.prepared = self.engine.prepare(self.a, self.b)
        self.event = self.engine.copy(self.a, self.b)
        Path(folder, "f.bin").write_bytes(bytes(128))
        np.save(os.path.join(folder, "f.npy"), self.a)
        self.file = ts.File(os.path.join(folder, "f.bin"), extents={"x": 4, "y": 4})
        self.instance = ts.Instance(extents={"x": 4, "y": 4})
        self.halo = self.engine.halo(np.zeros((6, 6)), 1, periodic=True)
        self.all = list(self.sound())

    def close(self) -> None:
        """Closes what is open."""
        self.staging.close()
        self.server.close()
        self.engine.close()

    def sound(self) -> Iterator[tuple[str, Callable[..., Any], dict[str, Any]]]:
        """Yields names, functions and sound keyword arguments."""
        yield from self.engine_calls()
        yield from self.array_calls()
        yield from self.staging_calls()
        yield from self.type_calls()

    def engine_calls(self) -> Iterator[tuple[str, Callable[..., Any], dict[str, Any]]]:
        e, a, b = self.engine, self.a, self.b
        order = {"priority": 0, "after": None, "stream": None}
        planned = {"region": None, "priority": 0, "planner": "automatic", "buffer_bytes": 0}
        ends = {"source": a, "target": b}
        types = {"types": (self.column, self.column)}
        pages = {"source_pages": [0, 1], "target_pages": [2, 3]}
        pieces = {"source_offsets": [0], "target_offsets": [8], "lengths": [8]}
        pairs = {"pairs": [(a, b), (b, a)]}
        typed = [(self.column, self.column), (self.column, None)]
        yield "copy", e.copy, ends | planned | order
        yield "copy types", e.copy, ends | order | types
        yield "plan", e.plan, ends | planned
        yield "prepare", e.prepare, ends | planned
        yield "prepare types", e.prepare, ends | types
        yield "copy_all", e.copy_all, pairs | order
        yield "copy_all types", e.copy_all, pairs | order | {"types": typed}
        yield "prepare_all", e.prepare_all, pairs | {"priority": 0, "types": None}
        yield "copy_pages", e.copy_pages, ends | pages | order
        yield "prepare_pages", e.prepare_pages, ends | pages | {"priority": 0}
        yield "copy_pieces", e.copy_pieces, ends | pieces | order
        yield "prepare_pieces", e.prepare_pieces, ends | pieces | {"priority": 0}
        packed = {"type": self.column, "count": 1, "stream": None}
        yield "pack", e.pack, {"source": a, "out": None} | packed
        yield "unpack", e.unpack, {"packed": np.zeros(4), "target": a} | packed
        yield "pin", e.pin, {"array": a}
        yield "empty", e.empty, {"shape": (2, 2), "dtype": "f8", "memory": "host"}
        yield "export", self.export, {"name": "n", "array": a}
        yield "withdraw", e.withdraw, {"name": "n"}
        yield "connect", self.connect, {"contact": e.contact}
        yield "span", self.span, {"name": "n", "nbytes": 3}
        around = {"neighbours": None, "periodic": True, "comm": None, "memory": "host"}
        yield "halo", e.halo, {"arrays": np.zeros((6, 6)), "widths": 1} | around
        yield "Halo.start", self.halo_start, {"stream": None}
        yield "Halo.wait", self.halo.wait, {"timeout": 1.0}
        yield "start", self.prepared.start, ends | {"after": None, "stream": None}
        for name in ("wait", "result", "exception"):
            yield f"Event.{name}", getattr(self.event, name), {"timeout": 1.0}
        yield "Event.add_done_callback", self.event.add_done_callback, {"callback": print_nothing}
        opened = {"contact": None, "profile": e.profile, "trace": None, "threads": 1}
        yield "Engine", self.open_engine, opened
        for name in Settings.__annotations__:
            yield f"Engine({name}=)", self.open_engine, {name: 1, "profile": e.profile}

    def array_calls(self) -> Iterator[tuple[str, Callable[..., Any], dict[str, Any]]]:
        described = {"extents": {"x": 4, "y": 4}, "fields": "f8", "layout": None, "offset": 0}
        yield "Instance", ts.Instance, {"buffer": np.zeros(16)} | described
        path = os.path.join(self.folder, "f.bin")
        flags = {"mode": "r", "direct": True, "durable": False}
        yield "File", ts.File, {"path": path} | described | flags
        new = os.path.join(self.folder, "new.bin")
        yield "File w", self.new_file, {"path": new} | described | flags | {"mode": "w"}
        yield "File npy", ts.File, {"path": os.path.join(self.folder, "f.npy"), "mode": "r"}
        for array in (self.file, self.instance):
            yield f"{type(array).__name__}[]", array.__getitem__, {"key": (0, slice(None))}

    def staging_calls(self) -> Iterator[tuple[str, Callable[..., Any], dict[str, Any]]]:
        s = self.staging
        soon = {"timeout": 0.05}
        box = {"name": "v", "version": 0, "lower": (0, 0), "upper": (4, 4)}
        put = {"name": "w", "version": 0, "array": self.a, "lower": (0, 0)} | soon
        yield "put", s.put, put | {"after": None, "checksum": False}
        yield "put_async", self.put_async, put | {"after": None, "checksum": False}
        yield "get", s.get, box | {"out": None} | soon
        yield "get_async", self.get_async, box | {"out": None} | soon
        defined = {"name": "d", "dtype": "f8", "lower": (0, 0), "upper": (4, 4), "writers": 1}
        yield "define", s.define, defined
        yield "discard", s.discard, {"name": "gone", "version": 0}
        yield "delete", s.delete, {"name": "gone"}
        yield "staging[]", s.__getitem__, {"name": "v"}
        yield "variable[]", self.index, {"index": (0, slice(0, 2))}
        serving = {"memory": "1MiB", "preallocate": 0, "memory_kind": "host", "versions": 0}
        serving |= {"profile": self.engine.profile}
        spills = {"full": "block", "spill": None, "spill_max": None, "rank": 0, "servers": 1}
        yield "StagingServer", self.open_server, {"contact": None} | serving | spills
        opened = {"engine": self.engine, "name": "n", "comm": None}
        yield "Staging", self.open_staging, {"contact": self.server.contact} | opened

    def type_calls(self) -> Iterator[tuple[str, Callable[..., Any], dict[str, Any]]]:
        t = ts.types
        base = {"base": "f8"}
        vector = {"count": 2, "block_length": 1, "stride": 3} | base
        lists = {"block_lengths": [1, 2], "displacements": [0, 8]} | base
        block = {"block_length": 1, "displacements": [0, 8]} | base
        sizes = {"sizes": (4, 4), "subsizes": (2, 2), "starts": (1, 1), "order": "C"} | base
        dealt = {"distributions": ["block", ("cyclic", 1)], "grid": (2, 1), "rank": 0}
        yield "contiguous", t.contiguous, {"count": 2} | base
        yield "vector", t.vector, vector
        yield "hvector", t.hvector, vector
        yield "indexed", t.indexed, lists
        yield "hindexed", t.hindexed, lists
        yield "indexed_block", t.indexed_block, block
        yield "hindexed_block", t.hindexed_block, block
        yield "struct", t.struct, lists | {"bases": ["f8", "i4"], "base": REMOVED}
        yield "subarray", t.subarray, sizes
        yield "darray", t.darray, {"sizes": (4, 4), "order": "C"} | dealt | base
        yield "resized", t.resized, {"lower_bound": 0, "extent": 16} | base
        yield "dup", t.dup, base
        yield "as_type", t.as_type, base
        yield "from_mpi", t.from_mpi, {"datatype": None}
        yield "same_bytes", self.column.same_bytes, {"other": self.column}
        yield "same_elements", self.column.same_elements, {"other": self.column}

    def export(self, **arguments: Any) -> None:
        with suppress(ts.Error):
            self.engine.withdraw("n")
        self.engine.export(**arguments)

    def connect(self, **arguments: Any) -> None:
        self.engine.connect(timeout=0.05, **arguments).close()

    def index(self, index: Any) -> None:
        if not isinstance(index, int | np.integer):  # which may come still
            self.staging["v"][index]

    def span(self, **arguments: Any) -> None:
        with self.engine.span(**arguments):
            pass

    def halo_start(self, **arguments: Any) -> None:
        self.halo.start(**arguments)
        self.halo.wait()

    def open_engine(self, **arguments: Any) -> None:
        ts.Engine(**({"threads": 1} | arguments)).close()

    def new_file(self, **arguments: Any) -> None:
        with ts.File(**arguments):
            pass

    def open_server(self, **arguments: Any) -> None:
        if arguments["rank"] != 0:
            arguments["contact"] = None  # else it waits for the first server
        ts.StagingServer(threads=1, **arguments).close()

    def open_staging(self, **arguments: Any) -> None:
        ts.Staging(timeout=0.05, **arguments).close()

    def put_async(self, **arguments: Any) -> None:
        self.staging.put_async(**arguments).result(HANGS_S)

    def get_async(self, **arguments: Any) -> None:
        self.staging.get_async(**arguments).result(HANGS_S)


REMOVED = object()
"""Stands for an argument that the function does not have."""
WAITS = ("timeout",)
"""Arguments of which a large value means a long wait."""


def print_nothing(_: object) -> None:
    """Does nothing."""


def call_badly(calls: Calls, chance: random.Random) -> str:
    """Makes one call; returns what came out that must not, else an empty text."""
    name, function, sound = chance.choice(calls.all)
    arguments = {key: value for key, value in sound.items() if value is not REMOVED}
    for _ in range(chance.choice((1, 1, 1, 2))):
        key = chance.choice(sorted(arguments))
        value = chance.choice(BAD)()
        if key in WAITS and isinstance(value, int | float | Fraction | decimal.Decimal):
            value = -1
        arguments[key] = value
    try:
        function(**arguments)
    except ts.Error as error:
        with suppress(UnicodeEncodeError):
            str(error).encode()
            return ""
        return f"{name}({key}=): a message that cannot be printed: {error!r}"
    except Exception as error:
        given = {key: safe(value) for key, value in arguments.items() if sound[key] is not value}
        where = traceback.extract_tb(error.__traceback__)[-1]
        what = f"{type(error).__name__}: {str(error)[:150]}"
        return f"{name}({given}): {what} at {os.path.basename(where.filename)}:{where.lineno}"
    return ""


def safe(value: object) -> str:
    """Returns a short text of any value."""
    try:
        return ascii(shown(value))
    except Exception:
        return type(value).__name__


def main() -> int:
    """Makes calls, and prints what must not come out."""
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    chance = random.Random(seed)
    bad: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        calls = Calls(folder)
        for _ in range(count):
            faulthandler.dump_traceback_later(HANGS_S, exit=True)
            found = call_badly(calls, chance)
            if found:
                bad[found] = bad.get(found, 0) + 1
        calls.close()
        os.chdir("/")
    for found in sorted(bad):
        print(found.encode("ascii", "backslashreplace").decode())
    print(f"{count} calls, seed {seed}: {len(bad)} ended badly")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
