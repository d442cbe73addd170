"""Location of the remote-GPU experiment's server, and its link to the client.

On one machine the server can be put into a network namespace of its own, joined to the client's by
a veth pair: then TCP takes the same path through the kernel as between machines, without a wire.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tranship.errors import Error

__all__ = ["LOOPBACK", "Link", "namespaces", "rdma_kind", "ucx_has_verbs"]

RDMA_FOLDER = Path("/sys/class/infiniband")
"""Folder in which the kernel lists cards for RDMA."""

IP_SECONDS = 10.0
"""Longest time of one call of `ip`."""


@dataclass(frozen=True)
class Link:
    """The command that starts the server, and the addresses on which both engines listen.

    Attributes:
        words: Description in result lines.
        prefix: Words before the command of the server, such as ("ip", "netns", "exec", NAME).
        client: Address on which the client's engine listens.
        server: Address on which the server's engine listens.
        far: Whether the server runs on another machine.
    """

    words: str
    prefix: tuple[str, ...] = ()
    client: str = "127.0.0.1"
    server: str = "127.0.0.1"
    far: bool = False


LOOPBACK = Link("loopback")


def ip(*words: str) -> None:
    """Runs one call of `ip`.

    Raises:
        Error: `ip` is not installed, fails or does not end.
    """
    program = shutil.which("ip") or shutil.which("ip", path="/usr/sbin:/sbin")
    if program is None:
        raise Error("`ip` is not installed (package iproute2)")
    call([program, *words], f"`ip {' '.join(words)}`")


def call(command: list[str], name: str) -> None:
    """Runs a short command.

    Raises:
        Error: The command fails or does not end.
    """
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=IP_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Error(f"{name} did not run: {error}") from None
    if done.returncode != 0:
        reason = (done.stderr or done.stdout).strip().splitlines()
        raise Error(f"{name} refused: {reason[-1] if reason else 'no reason'}")


def probe(link: Link) -> None:
    """Connects from the server's namespace to this one, as the server will do.

    Raises:
        Error: No program runs in the namespace, or a firewall blocks the connection.
    """
    program = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)"
    with socket.create_server((link.client, 0)) as listener:
        port = str(listener.getsockname()[1])
        command = [*link.prefix, sys.executable, "-c", program, link.client, port]
        call(command, "a connection between two network namespaces")


@contextmanager
def namespaces() -> Iterator[Link]:
    """Yields a link to a new namespace over a veth pair; removes both afterwards.

    Without `ip` or the right to use it the link is loopback, and its words say why.
    """
    number = os.getpid()
    name, here, there = f"tranship-{number}", f"ts{number}c", f"ts{number}s"
    # The range that RFC 2544 sets aside for measurements; its part depends on the process, so that
    # two experiments at once do not share addresses.
    base = f"198.18.{number % 256}"
    last = number // 256 % 63 * 4
    client, server = f"{base}.{last + 1}", f"{base}.{last + 2}"
    link = Link(
        "veth between two network namespaces", ("ip", "netns", "exec", name), client, server
    )
    try:
        try:
            ip("netns", "add", name)
            ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
            ip("address", "add", f"{client}/30", "dev", here)
            ip("link", "set", here, "up")
            ip("-n", name, "address", "add", f"{server}/30", "dev", there)
            ip("-n", name, "link", "set", there, "up")
            ip("-n", name, "link", "set", "lo", "up")
            probe(link)
        except (Error, OSError) as reason:
            link = Link(f"loopback ({reason})")
        yield link
    finally:
        with suppress(Error):  # if the namespace could not be made, there may be nothing to delete
            ip("netns", "delete", name)  # the veth pair goes with it


def rdma_kind(folder: Path = RDMA_FOLDER) -> str | None:
    """Returns "InfiniBand" or "RoCE" by the first active port of a card; None if there is none."""
    for port in sorted(folder.glob("*/ports/*")):
        try:
            state = (port / "state").read_text()
            layer = (port / "link_layer").read_text().strip()
        except OSError:
            continue
        if "ACTIVE" in state:
            return "RoCE" if layer == "Ethernet" else layer
    return None


def ucx_has_verbs(maps: Path = Path("/proc/self/maps")) -> bool:
    """Returns whether the UCX of this process can use RDMA cards: it has a module for them.

    Builds without that module are common, such as those of the package index; they use TCP.
    """
    loaded = {
        Path(words[5]) for line in maps.read_text().splitlines() if len(words := line.split()) > 5
    }
    folders = {path.parent for path in loaded if path.name.startswith("libuct.so")}
    return any(found for folder in folders for found in (folder / "ucx").glob("libuct_ib.so*"))
