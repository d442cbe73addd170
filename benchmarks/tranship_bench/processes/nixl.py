"""Other libraries that do part of the same work, measured where they are installed."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import sys
from pathlib import Path

from tranship.errors import Error

from ..harness import SkippedError, Variant
from .peer import Program

NIXL_MODULES = ("nixl", "nixl_cu13", "nixl_cu12")


def adapter_path(name: str) -> Path:
    """Returns the path of an adapter's program, in the installed package or the source tree.

    Raises:
        SkippedError: The program is in neither.
    """
    path = Path(__file__).resolve().parents[1] / "peers" / name
    if not path.is_file():
        raise SkippedError(f"the adapter {name} is missing from this installation")
    return path


def installed(module: str) -> bool:
    """Returns whether a package is installed, not just a folder of that name."""
    spec = importlib.util.find_spec(module)
    return spec is not None and spec.origin is not None


class Nixl(Program):
    """NIXL in two processes of its own, because its UCX and ours conflict in one process.

    The processes are stopped between their turns, because they poll without pause and would take
    the cores from the other variants.
    """

    def __init__(self, count: int, piece_bytes: int, stride_bytes: int) -> None:
        if not any(installed(name) for name in NIXL_MODULES):
            raise SkippedError("it is not installed (pip install --no-deps nixl-cu13 numpy)")
        path = adapter_path("nixl.py")
        command = [sys.executable, os.fspath(path)]
        environment = {
            name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"
        }
        super().__init__(
            [*command, str(count), str(piece_bytes), str(stride_bytes)], environment, own_group=True
        )
        try:
            self.version = self.answer()["version"]
        except Error as error:
            self.close()
            raise SkippedError(f"it does not start: {error}") from error
        self.signal(signal.SIGSTOP)

    def spoil(self) -> None:
        """Wakes the processes and spoils the target."""
        self.signal(signal.SIGCONT)
        self.ask("spoil")

    def check(self) -> bool:
        """Returns whether all bytes arrived; stops the processes again."""
        same = bool(self.ask("check")["same"])
        self.signal(signal.SIGSTOP)
        return same

    def close(self) -> None:
        """Wakes the processes, so that they can end, and closes them."""
        with contextlib.suppress(OSError):
            self.signal(signal.SIGCONT)
        super().close()

    def variant(self, operations: int = 1) -> Variant:
        """Returns the variant of one write, timed as the mean of `operations` in a row."""
        return Variant(
            "nixl",
            lambda: float(self.ask("run", operations=operations)["seconds"]),
            self.check,
            self.spoil,
            {"version": self.version},
        )
