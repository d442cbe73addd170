"""A separate network for a child process: its traffic passes through two interfaces."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Link:
    """The addresses of this process and of another one, and how to start that one there.

    Attributes:
        words: Description in result lines.
        prefix: Words before the command of the other process, as in "ip netns exec NAME".
        here: Address of this process.
        there: Address of the other process.
        is_far: Whether the other process runs on another machine.
        interface: Name of the other process's interface in a namespace of its own.
    """

    words: str = "loopback"
    prefix: Sequence[str] = ()
    here: str = "127.0.0.1"
    there: str = "127.0.0.1"
    is_far: bool = False
    interface: str = ""


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
def network_namespace(words: str) -> Iterator[Link]:
    """Makes a namespace, joined to this one, and removes it and its interfaces afterwards."""
    number = os.getpid() % 16384  # so that simultaneous processes have different addresses
    network = f"10.{192 + number // 256}.{number % 256}"
    here, there = f"ts{os.getpid()}a", f"ts{os.getpid()}b"
    name = f"tranship-{os.getpid()}"
    enter = ("ip", "netns", "exec", name)
    link = Link(words, enter, f"{network}.1", f"{network}.2", interface=there)
    inside = ["ip", "-n", name]
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        for command in (
            ["ip", "link", "add", here, "type", "veth", "peer", there, "netns", name],
            ["ip", "address", "add", f"{link.here}/24", "dev", here],
            ["ip", "link", "set", here, "up"],
            [*inside, "address", "add", f"{link.there}/24", "dev", there],
            [*inside, "link", "set", there, "up"],
            [*inside, "link", "set", "lo", "up"],
        ):
            subprocess.run(command, check=True)
        yield link
    finally:
        # The system ends a namespace, and its interfaces, only after the command has returned.
        subprocess.run(["ip", "link", "delete", here], check=False)
        subprocess.run(["ip", "netns", "delete", name], check=True)
