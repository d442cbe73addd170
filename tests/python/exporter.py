"""A program that exports arrays to the process of a test, and executes commands from stdin.

The exports are "plain", "shared" (memory of the engine), "fixed" (read-only) and "grid" (an
instance in blocks), each of `--bytes` bytes, filled with 0, 1, 2, … as u1; with `--gpu` also
"device", in the memory of GPU 1.
Commands: ``sum NAME``, ``dump NAME FILE``, ``withdraw NAME``, ``exit``.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
from typing import Any

import numpy as np

import tranship as ts

PR_SET_DUMPABLE = 4


def in_memory(array: Any) -> np.ndarray[Any, Any]:
    """Returns a NumPy array itself, and a GPU array as a copy in host memory."""
    return np.asarray(array if isinstance(array, np.ndarray) else array.numpy())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("contact")
    parser.add_argument("--bytes", type=int, default=1 << 16)
    parser.add_argument("--undumpable", action="store_true")
    parser.add_argument("--gpu", action="store_true")
    options = parser.parse_args()
    engine = ts.Engine(contact=options.contact)
    values = np.resize(np.arange(256, dtype=np.uint8), options.bytes)
    arrays: dict[str, Any] = {"plain": values.copy(), "shared": engine.empty(options.bytes, "u1")}
    arrays["shared"][:] = values
    arrays["fixed"] = values.copy()
    arrays["fixed"].flags.writeable = False
    if options.gpu:
        arrays["device"] = engine.empty(options.bytes, "u1", memory="device1")
        engine.copy(values, arrays["device"]).wait(timeout=60)
    for name, array in arrays.items():
        engine.export(name, array)
    buffer = np.zeros(72, np.uint8)
    grid = ts.Instance(
        buffer, extents={"x": 5, "y": 3}, fields={"a": "u1", "b": "u2"}, layout="x:4, F, y, x"
    )
    engine.export("grid", grid)
    arrays["grid"] = buffer
    if options.undumpable:
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    print("ready", flush=True)
    for line in sys.stdin:
        command, *words = line.split()
        if command == "exit":
            break
        if command == "sum":
            print(int(in_memory(arrays[words[0]]).sum(dtype=np.int64)), flush=True)
        elif command == "dump":
            in_memory(arrays[words[0]]).tofile(words[1])
            print("done", flush=True)
        elif command == "withdraw":
            engine.withdraw(words[0])
            print("done", flush=True)
    engine.close()
    print("closed", flush=True)


if __name__ == "__main__":
    main()
