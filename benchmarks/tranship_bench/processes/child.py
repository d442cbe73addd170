"""The other process of the benchmarks: exports arrays, spoils them, compares what arrived.

The process reads one JSON request from each line of its input and writes one line of JSON in reply;
`peer.Other` sends the requests.
"""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any, TextIO

import numpy as np

from tranship.arrays import File
from tranship.engine import Engine

from ..harness import Array, same, spoil
from .data import expected, seeded


class Service:
    """The requests that the other process carries out, one method for each."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.arrays: dict[str, Any] = {}
        self.files: dict[str, File] = {}

    def make(self, name: str, kind: str, shape: list[int], dtype: str) -> dict[str, Any]:
        """Exports an array in memory of its own, in shared memory, or on a GPU ("device0")."""
        extents = tuple(shape)
        array: Any = np.empty(extents, dtype)
        if kind == "shared" or kind.startswith("device"):
            memory = "host" if kind == "shared" else kind
            array = self.engine.empty(extents, dtype, memory=memory)
        self.arrays[name] = array
        self.spoil(name)
        self.engine.export(name, array)
        return {}

    def write(self, name: str, data: Array) -> None:
        """Replaces the content of an array."""
        array = self.arrays[name]
        if isinstance(array, np.ndarray):
            array[...] = data
        else:
            self.engine.copy(data, array).wait(timeout=60)

    def fill(self, name: str, seed: int) -> dict[str, Any]:
        """Fills an array with seeded bytes."""
        array = self.arrays[name]
        self.write(name, seeded(array.shape, array.dtype.str, seed))
        return {}

    def spoil(self, name: str) -> dict[str, Any]:
        """Fills an array with a pattern that no source holds."""
        array = self.arrays[name]
        if isinstance(array, np.ndarray):
            spoil(array)
            return {}
        pattern = np.empty(array.shape, array.dtype)
        spoil(pattern)
        self.write(name, pattern)
        return {}

    def check(self, name: str, seed: int, transposed: bool, columns: int) -> dict[str, Any]:
        """Compares an array with its expected content."""
        array = self.arrays[name]
        wanted = expected(array.shape, array.dtype.str, seed, transposed, columns)
        held = array if isinstance(array, np.ndarray) else array.numpy()
        return {"same": same(held, wanted)}

    def file(self, name: str, path: str, shape: list[int], dtype: str) -> dict[str, Any]:
        """Exports a file as an array that can be written."""
        self.files[name] = File(path, extents=shape, fields=dtype, mode="r+")
        self.engine.export(name, self.files[name])
        return {}

    def flush(self, name: str) -> dict[str, Any]:
        """Waits until the content of an exported file is on the disk."""
        self.files[name].flush()
        return {}

    def withdraw(self, name: str) -> dict[str, Any]:
        """Ends an export."""
        self.engine.withdraw(name)
        self.arrays.pop(name, None)
        self.files.pop(name, None)
        return {}

    def answer(self, line: str) -> dict[str, Any]:
        """Carries out the request of one line and returns the reply."""
        request = json.loads(line)
        do = request.pop("do")
        try:
            result: dict[str, Any] = getattr(self, do)(**request)
        except Exception as error:
            traceback.print_exc()
            return {"error": f"{do}: {type(error).__name__}: {error}"}
        return result


def serve(source: TextIO, target: TextIO, kind: type[Service] = Service, **settings: Any) -> None:
    """Answers requests until the input ends, with an engine of these settings."""
    with Engine(contact=True, **settings) as engine:
        print(json.dumps({"contact": engine.contact}), file=target, flush=True)
        service = kind(engine)
        for line in source:
            print(json.dumps(service.answer(line)), file=target, flush=True)


if __name__ == "__main__":
    serve(sys.stdin, sys.stdout)
