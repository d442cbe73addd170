"""A TCP relay between two processes, which inspects and corrupts what they send."""

from __future__ import annotations

import contextlib
import random
import socket
import threading


class Relay:
    """A listener on a loopback port, which connects each client with `target`.

    Args:
        target: Address, HOST:PORT, to which the bytes go.
        marker: Bytes that the relay looks for; `saw_marker` says whether they passed.
        bytes_between_flips: Mean number of bytes for each bit that is flipped; 0: no flips.
        spared: Bytes at the start of each connection and direction that are not changed.
    """

    def __init__(
        self,
        target: str,
        *,
        marker: bytes = b"",
        bytes_between_flips: int = 0,
        spared: int = 4096,
        seed: int = 1,
    ) -> None:
        host, _, port = target.rpartition(":")
        self.target = (host, int(port))
        self.marker = marker
        self.mean = bytes_between_flips
        self.spared = spared
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.to_flip = self._distance()
        self.passed = 0
        self.flips = 0
        self.connections = 0
        self.saw_marker = False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Closes the listening socket: no new connections are accepted."""
        self.listener.close()

    def _distance(self) -> int:
        return self.random.randint(1, 2 * self.mean) if self.mean else 1 << 62

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(self.target)
            except OSError:
                return
            self.connections += 1
            for ends in ((near, far), (far, near)):
                threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        spared, tail = self.spared, b""
        try:
            while data := source.recv(65536):
                if self.marker:
                    self.saw_marker |= self.marker in tail + data
                    tail = (tail + data)[-len(self.marker) :]
                changed = bytearray(data)
                self._meddle(changed, min(spared, len(changed)))
                spared = max(spared - len(changed), 0)
                target.sendall(changed)
        except OSError:
            pass
        for end in (source, target):  # The thread of the other direction ends, too.
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _meddle(self, data: bytearray, spared: int) -> None:
        with self.lock:
            self.passed += len(data)
            at = spared + self.to_flip
            while at < len(data):
                data[at] ^= 1 << self.random.randrange(8)
                self.flips += 1
                at += self._distance()
            self.to_flip = at - len(data) if len(data) > spared else self.to_flip
