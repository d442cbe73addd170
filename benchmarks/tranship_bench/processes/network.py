"""Copies to another process over TCP, beside a plain socket of the same machine.

The other process is reached over loopback, and in a network namespace of its own where the system
allows one.

- 256 MiB and 8 B to an array of another process over TCP on the loopback, beside a plain socket
  between the same two kinds of process: what the socket itself needs is the floor.
- The plain socket sends a length and the bytes, and waits for one byte that says that they have
  come.
"""

from __future__ import annotations

import secrets
import socket
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from tranship.engine import Engine

from ..harness import Array, Bench, Variant, same, seeded
from ..host.copies import engine_run, many
from ..registry import measures
from .namespaces import Link, network_namespace, why_no_namespaces
from .peer import Other, child_environment
from .socket_peer import receive

PROTECTIONS: dict[str, dict[str, int]] = {
    "tranship": {},
    "tranship, encrypted": {"tls": 1},
    "tranship, checksums": {"wire_checksum": 1},
    "tranship, four sockets": {"tcp_sockets": 4},
}
"""Variants, each with the engine settings of both processes."""
TOGETHER_BYTES = 65536
"""Most bytes of a request that is sent by one call."""


class PlainSocket:
    """A connection to a process that takes bytes."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection

    def send(self, data: memoryview) -> float:
        """Sends bytes, waits until the other side has them, and returns the seconds."""
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
        """Returns whether the other side received the same bytes."""
        self.connection.sendall(struct.pack("<q", 0))
        answer = bytearray(4)
        receive(self.connection, memoryview(answer))
        return bool(struct.unpack("<I", answer)[0] == zlib.crc32(data))


@contextmanager
def plain_socket(link: Link) -> Iterator[PlainSocket]:
    """Yields a connection to a child process at the other end of a socket."""
    program = "from tranship_bench.processes.socket_peer import main; main()"
    command = [*link.prefix, sys.executable, "-c", program, link.there]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=child_environment()
    ) as child:
        assert child.stdout is not None
        port = int(child.stdout.readline())
        with socket.create_connection((link.there, port)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield PlainSocket(connection)


@measures("network", "256 MiB and 8 B to another process over TCP, beside a socket")
def network(bench: Bench) -> None:
    """Measures 256 MiB, a box of 64 MiB, and 8 B there and back, over loopback and between network
    namespaces.
    """
    over(bench, Link("TCP over loopback"))
    if why := why_no_namespaces():
        bench.say(f"loopback alone: {why}")
        return
    with network_namespace("TCP between network namespaces") as link:
        over(bench, link)


def over(bench: Bench, link: Link) -> None:
    """Measures all cases over one link."""
    key = secrets.token_hex(32)
    with plain_socket(link) as plain, ExitStack() as stack:
        pairs = {}
        for name, protection in PROTECTIONS.items():
            settings: dict[str, Any] = {"transport": "network", "key": key, **protection}
            theirs = settings | {"listen": f"{link.there}:0"}
            variables = {f"TRANSHIP_{k.upper()}": str(value) for k, value in theirs.items()}
            engine = stack.enter_context(Engine(**settings))
            pairs[name] = (engine, stack.enter_context(Other(engine, variables, link.prefix)))
        whole(bench, link.words, pairs, plain, bench.pick(32 << 20, 32 << 10))
        box(bench, link.words, pairs["tranship"], plain)
        whole(bench, link.words, pairs, plain, 1, bench.pick(2000, 20))


Pairs = dict[str, tuple[Engine, Other]]


def whole(
    bench: Bench, link: str, pairs: Pairs, plain: PlainSocket, count: int, copies: int = 0
) -> None:
    """Measures an array of `count` numbers of eight bytes, beside the plain socket.

    With `copies`, so many short copies in a row are each waited for.
    """
    source: Array = seeded((count,), "f8")
    data = source.data.cast("B")
    array = f"{count} numbers"
    how: dict[str, Any] = {"link": link} | ({"copies": copies} if copies else {})
    variants = []
    for name, (engine, other) in pairs.items():
        there = other.array(array, "plain", (count,), "f8")
        run = many(engine, source, there, copies) if copies else engine_run(engine, source, there)
        variants.append(other.variant(name, run, array, **how))

    def there_and_back() -> float:
        return float(np.median([plain.send(data) for _ in range(copies or 1)]))

    variants.append(
        Variant("plain socket", there_and_back, lambda: plain.holds(data), conditions=how)
    )
    size = "8 B" if copies else f"{source.nbytes >> 20} MiB"
    bench.measure(f"{size}, {link}", variants, source.nbytes, 9, "plain socket")


def box(bench: Bench, link: str, pair: tuple[Engine, Other], plain: PlainSocket) -> None:
    """Measures the left half of a matrix, beside a copy of it that the plain socket sends."""
    engine, other = pair
    rows, row_bytes = bench.pick(4096, 16), 16384
    matrix: Array = seeded((rows, 2 * row_bytes), "u1")
    source = matrix[:, :row_bytes]
    there = other.array("box", "plain", matrix.shape, "u1")[:, :row_bytes]
    packed = np.ascontiguousarray(source)
    data = packed.data.cast("B")

    def check() -> bool:
        back = np.zeros_like(packed)
        engine.copy(there, back).wait()
        return same(back, packed)

    def pack_and_send() -> float:
        begin = time.perf_counter()
        np.copyto(packed, source)
        return time.perf_counter() - begin + plain.send(data)

    def prepare() -> None:
        engine.copy(np.zeros_like(packed), there).wait()

    run = engine_run(engine, source, there)
    theirs = "NumPy's copy and a plain socket"
    how = {"link": link}
    variants = [
        Variant("tranship", run, check, prepare, how),
        Variant(theirs, pack_and_send, lambda: plain.holds(data), conditions=how),
    ]
    case = f"box of {packed.nbytes >> 20} MiB in rows of {row_bytes >> 10} KiB, {link}"
    bench.measure(case, variants, packed.nbytes, 9, theirs)
