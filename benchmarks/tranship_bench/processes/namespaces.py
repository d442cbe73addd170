"""A separate network for a child process: its traffic passes through two interfaces."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class NetworkNamespace:
    """A network namespace, connected to this process's own by a pair of virtual interfaces."""

    name: str
    here: str
    """Address of this process's interface."""
    there: str
    """Address inside the namespace."""
    interface: str
    """Name of the interface inside the namespace."""

    @property
    def prefix(self) -> list[str]:
        """Returns the words before a command that is to run in the namespace."""
        return ["ip", "netns", "exec", self.name]


def why_no_namespaces() -> str:
    """Returns why network namespaces cannot be made here; empty if they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "network namespaces need the program ip (Debian: iproute2)"
    probe = f"tranship-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True)
    if made.returncode != 0:
        return f"network namespaces are refused here: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "delete", probe], check=True)
    return ""


@contextmanager
def network_namespace() -> Iterator[NetworkNamespace]:
    """Makes a namespace and removes it and its interfaces afterwards."""
    number = os.getpid() % 16384  # so that simultaneous processes have different addresses
    network = f"10.{192 + number // 256}.{number % 256}"
    here, there = f"ts{os.getpid()}a", f"ts{os.getpid()}b"
    namespace = NetworkNamespace(f"tranship-{os.getpid()}", f"{network}.1", f"{network}.2", there)
    inside = ["ip", "-n", namespace.name]
    subprocess.run(["ip", "netns", "add", namespace.name], check=True)
    try:
        for command in (
            ["ip", "link", "add", here, "type", "veth", "peer", there, "netns", namespace.name],
            ["ip", "address", "add", f"{namespace.here}/24", "dev", here],
            ["ip", "link", "set", here, "up"],
            [*inside, "address", "add", f"{namespace.there}/24", "dev", there],
            [*inside, "link", "set", there, "up"],
            [*inside, "link", "set", "lo", "up"],
        ):
            subprocess.run(command, check=True)
        yield namespace
    finally:
        subprocess.run(["ip", "netns", "delete", namespace.name], check=True)
