"""The other end of a plain TCP socket: takes bytes, and acknowledges when it has them all.

The process listens on the address in its argument, prints its port, and then serves one connection.
A request is a length of eight bytes and as many bytes of data, which the process keeps; the answer
is one byte. A length of zero asks for a checksum (CRC-32) of the kept data.
"""

from __future__ import annotations

import socket
import struct
import sys
import zlib


def receive(connection: socket.socket, target: memoryview) -> bool:
    """Fills `target`; returns False if the connection ended before that."""
    while len(target):
        count = connection.recv_into(target)
        if count == 0:
            return False
        target = target[count:]
    return True


def main() -> None:
    """Serves one connection until it ends."""
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
