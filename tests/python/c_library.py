"""The C library for the tests, through ctypes, and the flags that compile programs with it."""

from __future__ import annotations

import ctypes as c
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

RANK_MAX = 16
Corner = c.c_int64 * RANK_MAX

CODES = [
    *("ok", "invalid_argument", "not_found", "out_of_range", "no_route", "unsupported"),
    *("out_of_memory", "io", "permission", "peer_lost", "timeout", "cancelled", "closed"),
]


class CArray(c.Structure):
    """The struct `tranship_array`."""

    _fields_ = [
        ("data", c.c_void_p),
        ("type", c.c_char_p),
        ("rank", c.c_int),
        ("order", c.c_int),
        ("extents", Corner),
        ("strides", Corner),
        ("lower", Corner),
    ]


class CVariable(c.Structure):
    """The struct `tranship_variable`."""

    _fields_ = [
        ("type", c.c_char * 16),
        ("rank", c.c_int),
        ("producers", c.c_int),
        ("lower", Corner),
        ("upper", Corner),
    ]


class CEntry(c.Structure):
    """The struct `tranship_entry`."""

    _fields_ = [
        ("name", c.c_char_p),
        ("variable", CVariable),
        ("versions", c.c_int64),
        ("version_first", c.c_int64),
        ("version_last", c.c_int64),
        ("objects", c.c_int64),
        ("bytes", c.c_int64),
        ("puts", c.c_int64),
        ("put_bytes", c.c_int64),
        ("gets", c.c_int64),
        ("get_bytes", c.c_int64),
    ]


HANDLE, TEXT, INDEX, SECONDS = c.c_void_p, c.c_char_p, c.c_int64, c.c_double
ARRAY, FOUND, OUT = c.POINTER(CArray), c.POINTER(c.c_int64), c.POINTER(c.c_void_p)
WORDS = c.POINTER(c.c_char_p)
FUNCTIONS: dict[str, list[Any]] = {
    "open": [TEXT, TEXT, SECONDS, OUT],
    "close": [HANDLE],
    "put": [HANDLE, TEXT, INDEX, ARRAY, SECONDS],
    "get": [HANDLE, TEXT, INDEX, ARRAY, SECONDS],
    "get_next": [HANDLE, TEXT, INDEX, ARRAY, SECONDS, FOUND],
    "get_latest": [HANDLE, TEXT, ARRAY, SECONDS, FOUND],
    "wait_next": [HANDLE, TEXT, INDEX, ARRAY, SECONDS, FOUND],
    "define": [HANDLE, TEXT, TEXT, ARRAY, c.c_int],
    "discard": [HANDLE, TEXT, INDEX],
    "describe": [HANDLE, TEXT, SECONDS, c.POINTER(CVariable)],
    "put_async": [HANDLE, TEXT, INDEX, ARRAY, SECONDS, OUT],
    "get_async": [HANDLE, TEXT, INDEX, ARRAY, SECONDS, OUT],
    "request_wait": [HANDLE, SECONDS],
    "request_test": [HANDLE, c.POINTER(c.c_int)],
    "ls": [HANDLE, OUT],
    "listing_entry": [HANDLE, INDEX, c.POINTER(CEntry)],
    "step_begin": [HANDLE, INDEX, c.c_int, SECONDS, OUT],
    "step_put": [HANDLE, TEXT, ARRAY, SECONDS],
    "step_put_async": [HANDLE, TEXT, ARRAY, SECONDS, OUT],
    "step_set_double": [HANDLE, TEXT, TEXT, c.c_double],
    "step_set_int64": [HANDLE, TEXT, TEXT, INDEX],
    "step_set_text": [HANDLE, TEXT, TEXT, TEXT],
    "step_set_json": [HANDLE, TEXT, TEXT, TEXT],
    "step_end": [HANDLE, SECONDS],
    "step_give_up": [HANDLE, TEXT],
    "step_next": [HANDLE, INDEX, SECONDS, OUT],
    "step_latest": [HANDLE, SECONDS, OUT],
    "step_find": [HANDLE, INDEX, SECONDS, OUT],
    "step_name": [HANDLE, INDEX, WORDS],
    "step_describe": [HANDLE, TEXT, c.POINTER(CVariable)],
    "step_get": [HANDLE, TEXT, ARRAY, SECONDS],
    "step_attributes": [HANDLE, TEXT, OUT],
    "step_discard": [HANDLE, INDEX],
    "set_double": [HANDLE, TEXT, TEXT, c.c_double],
    "set_int64": [HANDLE, TEXT, TEXT, INDEX],
    "set_text": [HANDLE, TEXT, TEXT, TEXT],
    "set_json": [HANDLE, TEXT, TEXT, TEXT],
    "unset": [HANDLE, TEXT, TEXT],
    "attributes_of": [HANDLE, TEXT, OUT],
    "attributes_entry": [HANDLE, INDEX, WORDS, WORDS],
    "attributes_double": [HANDLE, TEXT, c.POINTER(c.c_double)],
    "attributes_int64": [HANDLE, TEXT, FOUND],
    "attributes_text": [HANDLE, TEXT, WORDS],
    "attributes_json": [HANDLE, TEXT, WORDS],
}


def compiler_words(*options: str) -> list[str]:
    """Returns the words that `tranship config` prints for a compiler."""
    done = subprocess.run(
        [sys.executable, "-m", "tranship.cli", "config", *options],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def compiled(command: Sequence[str | Path], program: Path) -> Path:
    """Runs a compiler, which must print nothing, and returns the path of the program."""
    done = subprocess.run(
        [*map(str, command), "-o", str(program)],
        capture_output=True,
        text=True,
        cwd=program.parent,
        check=False,
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return program


def load() -> Any:
    """Loads libtranship.so and sets the types of its functions."""
    (folder,) = (word[2:] for word in compiler_words("--libs") if word.startswith("-L"))
    library = c.CDLL(f"{folder}/libtranship.so")
    for name, arguments in FUNCTIONS.items():
        function = getattr(library, f"tranship_{name}")
        function.argtypes, function.restype = arguments, c.c_int
    library.tranship_request_free.argtypes = [HANDLE]
    library.tranship_listing_free.argtypes = [HANDLE]
    library.tranship_listing_size.argtypes = [HANDLE]
    library.tranship_listing_size.restype = c.c_int64
    for name in ("step_writer_free", "step_free", "attributes_free"):
        getattr(library, f"tranship_{name}").argtypes = [HANDLE]
    for name in ("step_number", "step_size", "attributes_size"):
        getattr(library, f"tranship_{name}").argtypes = [HANDLE]
        getattr(library, f"tranship_{name}").restype = c.c_int64
    library.tranship_error_name.restype = TEXT
    library.tranship_last_error.restype = TEXT
    library.tranship_last_hint.restype = TEXT
    library.tranship_is_open.argtypes = [HANDLE]
    return library


def last_error(library: Any) -> str:
    """Returns the message and the hint of this thread's last failure."""
    words: list[bytes] = [library.tranship_last_error(), library.tranship_last_hint()]
    return "; ".join(word.decode() for word in words if word)


class CError(Exception):
    """The error of a call that returned a code other than ok, with its message and hint."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


def c_array(values: np.ndarray[Any, Any], lower: Sequence[int] = ()) -> CArray:
    """Returns the `tranship_array` of a NumPy array: its memory, shape and strides."""
    made = CArray(values.ctypes.data, values.dtype.str[1:].encode(), values.ndim)
    made.values = values  # The struct keeps the array's memory alive.
    for k in range(values.ndim):
        made.extents[k] = values.shape[k]
        made.strides[k] = values.strides[k]
        made.lower[k] = lower[k] if lower else 0
    return made


class CStaging:
    """A `tranship_staging`; its functions are methods, and their errors are raised as CError."""

    def __init__(self, library: Any, contact: Path | str) -> None:
        self.library = library
        handle = c.c_void_p()
        self.check(library.tranship_open(str(contact).encode(), b"a test", 20.0, c.byref(handle)))
        self.handle: c.c_void_p | None = handle

    def check(self, code: int) -> None:
        if code != 0:
            raise CError(CODES[code], last_error(self.library))

    def call(self, name: str, *arguments: Any) -> None:
        self.check(getattr(self.library, f"tranship_{name}")(self.handle, *arguments))

    def close(self) -> None:
        handle, self.handle = self.handle, None
        self.check(self.library.tranship_close(handle))

    def __enter__(self) -> CStaging:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
