"""The other end of a plain TCP socket, for comparing: takes bytes and says when it has them all.

It listens on the address that is its argument, prints its port, and then serves one connection: a
request is a length of eight bytes, and so many bytes, which it keeps; the answer is one byte. A
length of zero asks for a sum of what it kept.
"""

from __future__ import annotations

import socket
import struct
import sys
import zlib

__all__ = ["main", "receive"]


def receive(connection: socket.socket, target: memoryview) -> bool:
    """Fills `target`; False if the connection ended before."""
    while len(target):
        count = connection.recv_into(target)
        if count == 0:
            return False
        target = target[count:]
    return True


def main() -> None:
    """Serves until the connection ends."""
    with socket.create_server((sys.argv[1], 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        connection, _ = listener.accept()
    kept = bytearray()
    header = bytearray(8)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while receive(connection, memoryview(header)):
        (length,) = struct.unpack("<q", header)
        if length == 0:
            connection.sendall(struct.pack("<I", zlib.crc32(kept)))
            continue
        if len(kept) != length:
            kept = bytearray(length)
        if not receive(connection, memoryview(kept)):
            return
        connection.sendall(b"\1")
