"""Copies to another process over TCP, beside a plain socket of the same machine."""

from __future__ import annotations

import secrets
import socket
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from .. import _core
from ..engine import Engine
from .data import seeded
from .harness import Array, Bench, Variant
from .host import engine_run
from .peer import Other, child_environment
from .socket_peer import receive

SEED = 1
PROTECTIONS: dict[str, dict[str, int]] = {
    "tranship": {},
    "tranship, encrypted": {"tls": 1},
    "tranship, checksums": {"wire_checksum": 1},
}
"""The variants, and the settings of both sides that make them."""
TOGETHER_BYTES = 65536
"""Up to here a request is sent by one call."""


class PlainSocket:
    """One connection to a process that takes bytes."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection

    def send(self, data: memoryview) -> float:
        """Sends bytes and waits until the other side has them; returns the seconds."""
        answer = memoryview(bytearray(1))
        begin = time.perf_counter()
        head = struct.pack("<q", len(data))
        if len(data) <= TOGETHER_BYTES:
            self.connection.sendall(head + data)
        else:
            self.connection.sendall(head)
            self.connection.sendall(data)
        receive(self.connection, answer)
        return time.perf_counter() - begin

    def holds(self, data: memoryview) -> bool:
        """Whether the other side kept the same bytes."""
        self.connection.sendall(struct.pack("<q", 0))
        answer = bytearray(4)
        receive(self.connection, memoryview(answer))
        return bool(struct.unpack("<I", answer)[0] == zlib.crc32(data))


@contextmanager
def plain_socket() -> Iterator[PlainSocket]:
    """A child process at the other end of a socket over loopback."""
    command = [sys.executable, "-c", "from tranship.bench.socket_peer import main; main()"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=child_environment()
    ) as child:
        assert child.stdout is not None
        port = int(child.stdout.readline())
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield PlainSocket(connection)


def network(bench: Bench) -> None:
    """256 MiB, and 8 B there and back, over loopback."""
    key = secrets.token_hex(32)
    with plain_socket() as plain, ExitStack() as stack:
        pairs = {}
        for name, protection in PROTECTIONS.items():
            settings: dict[str, Any] = {"transport": "network", "key": key, **protection}
            variables = {f"TRANSHIP_{k.upper()}": str(value) for k, value in settings.items()}
            engine = stack.enter_context(Engine(**settings))
            pairs[name] = (engine, stack.enter_context(Other(engine, variables)))
        large(bench, pairs, plain)
        small(bench, pairs, plain)


def large(bench: Bench, pairs: dict[str, tuple[Engine, Other]], plain: PlainSocket) -> None:
    """A contiguous array, as fast as the socket is."""
    count = bench.pick(32 << 20, 32 << 10)
    source: Array = seeded((count,), "f8", SEED)
    data = source.data.cast("B")
    variants = [
        Variant(
            name,
            engine_run(engine, source, other.array("large", "plain", (count,), "f8")),
            other.checking("large", SEED),
            other.preparing("large"),
            {"timed": "core", "link": "TCP over loopback"},
        )
        for name, (engine, other) in pairs.items()
    ]
    variants.append(
        Variant(
            "plain socket",
            lambda: plain.send(data),
            lambda: plain.holds(data),
            lambda: None,
            {"timed": "python", "link": "TCP over loopback"},
        )
    )
    bench.measure(
        f"{source.nbytes >> 20} MiB",
        variants,
        source.nbytes,
        repetitions=bench.pick(9, 1),
        baseline="plain socket",
    )


def timed_many(engine: Engine, source: Array, there: Array, copies: int) -> Callable[[], float]:
    """Copies so often, each waited for, and returns the median seconds."""
    return lambda: _core.time_many(engine._core, source, there, copies)


def small(bench: Bench, pairs: dict[str, tuple[Engine, Other]], plain: PlainSocket) -> None:
    """Eight bytes, each waited for."""
    copies = bench.pick(2000, 20)
    source: Array = seeded((1,), "f8", SEED)
    data = source.data.cast("B")

    def there_and_back() -> float:
        return float(np.median([plain.send(data) for _ in range(copies)]))

    variants = [
        Variant(
            name,
            timed_many(engine, source, other.array("small", "plain", (1,), "f8"), copies),
            other.checking("small", SEED),
            other.preparing("small"),
            {"timed": "core", "copies": copies, "link": "TCP over loopback"},
        )
        for name, (engine, other) in pairs.items()
    ]
    variants.append(
        Variant(
            "plain socket",
            there_and_back,
            lambda: plain.holds(data),
            lambda: None,
            {"timed": "python", "copies": copies, "link": "TCP over loopback"},
        )
    )
    bench.measure(
        "8 B",
        variants,
        8,
        repetitions=bench.pick(9, 1),
        baseline="plain socket",
    )
