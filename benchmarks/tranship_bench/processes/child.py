"""Processes that carry out requests of a benchmark: their loop, and the requests of most of them.

Such a process reads one JSON request from each line of its input and writes one line of JSON in
reply; `peer.Child` starts it and sends the requests.

Usage: python -m tranship_bench.processes.child MODULE CLASS, a `Service` of this package.
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback
from functools import cache
from typing import Any, TextIO

import numpy as np

from tranship.arrays import File
from tranship.engine import Engine

from ..harness import Array, blank_array, same, seeded


@cache
def expected(shape: tuple[int, ...], dtype: str, transposed: bool, columns: int) -> Array:
    """Returns the expected array: seeded bytes, their transpose, or them in the first columns."""
    if transposed:
        return np.ascontiguousarray(seeded(shape[::-1], dtype).T)
    if not columns:
        return seeded(shape, dtype)
    array = blank_array(shape, dtype)
    array[:, :columns] = seeded((shape[0], columns), dtype)
    return array


def tupled(value: Any) -> Any:
    """Returns a value of JSON with tuples for lists, as the sender has them."""
    return tuple(map(tupled, value)) if isinstance(value, list) else value


class Service:
    """Requests that a process carries out with an engine of its own, one method for each."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def answer(self, line: str) -> dict[str, Any]:
        """Carries out the request of one line; returns its result, or an error."""
        request = {name: tupled(value) for name, value in json.loads(line).items()}
        do = request.pop("do")
        try:
            return {"result": getattr(self, do)(**request)}
        except Exception as error:
            traceback.print_exc()
            return {"error": f"{do}: {type(error).__name__}: {error}"}


class Arrays(Service):
    """Exports arrays and files, spoils them, and compares what arrived."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.arrays: dict[str, Any] = {}
        self.files: dict[str, File] = {}

    def make(self, name: str, kind: str, shape: tuple[int, ...], dtype: str) -> None:
        """Exports an array in memory of its own, in shared memory, or on a GPU ("device0")."""
        array: Any = np.empty(shape, dtype)
        if kind == "shared" or kind.startswith("device"):
            memory = "host" if kind == "shared" else kind
            array = self.engine.empty(shape, dtype, memory=memory)
        self.arrays[name] = array
        self.spoil(name)
        self.engine.export(name, array)

    def write(self, name: str, data: Array) -> None:
        """Replaces the content of an array."""
        array = self.arrays[name]
        if isinstance(array, np.ndarray):
            array[...] = data
        else:
            self.engine.copy(data, array).wait(timeout=60)

    def fill(self, name: str, seed: int = 1) -> None:
        """Fills an array with seeded bytes."""
        array = self.arrays[name]
        self.write(name, seeded(array.shape, array.dtype.str, seed))

    def spoil(self, name: str) -> None:
        """Fills an array with a pattern that no source holds."""
        array = self.arrays[name]
        self.write(name, blank_array(array.shape, array.dtype))

    def check(self, name: str, transposed: bool, columns: int) -> bool:
        """Compares an array with its expected content."""
        array = self.arrays[name]
        wanted = expected(array.shape, array.dtype.str, transposed, columns)
        held = array if isinstance(array, np.ndarray) else array.numpy()
        return same(held, wanted)

    def file(self, name: str, path: str, shape: tuple[int, ...], dtype: str) -> None:
        """Exports a file as an array that can be written."""
        self.files[name] = File(path, extents=shape, fields=dtype, mode="r+")
        self.engine.export(name, self.files[name])

    def flush(self, name: str) -> None:
        """Waits until the content of an exported file is on the disk."""
        self.files[name].flush()

    def withdraw(self, name: str) -> None:
        """Ends an export."""
        self.engine.withdraw(name)
        self.arrays.pop(name, None)
        self.files.pop(name, None)


def serve(source: TextIO, target: TextIO, kind: type[Service], **settings: Any) -> None:
    """Answers requests until the input ends, with an engine of these settings.

    The first answer, to no request, is the engine's contact.
    """
    with Engine(contact=True, **settings) as engine:
        print(json.dumps({"result": engine.contact}), file=target, flush=True)
        service = kind(engine)
        for line in source:
            print(json.dumps(service.answer(line)), file=target, flush=True)


if __name__ == "__main__":
    module, name = sys.argv[1:]
    serve(sys.stdin, sys.stdout, getattr(importlib.import_module(module), name))
