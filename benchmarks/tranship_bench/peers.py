"""Other libraries that do part of the same work, where they are installed."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import sys
from pathlib import Path

from tranship.errors import Error

from .harness import SkippedError, Variant
from .peer import Program

NIXL_MODULES = ("nixl", "nixl_cu13", "nixl_cu12")


def adapter_path(name: str) -> Path:
    """Returns the path of an adapter's program, in the installed package or the source tree.

    Raises:
        SkippedError: The program is in neither.
    """
    package = Path(__file__).resolve().parent
    paths = [package / "adapters" / name, package.parent / "peers" / name]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        raise SkippedError(f"the adapter {name} is missing from this installation")
    return path


def installed(module: str) -> bool:
    """Whether there is such a package, and not just a folder of that name."""
    spec = importlib.util.find_spec(module)
    return spec is not None and spec.origin is not None


class Nixl(Program):
    """NIXL in two processes of its own: its UCX and ours do not go together in one.

    They are stopped while it is not their turn, because they look for work without pause, and would
    take the cores from the others.
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
        """Wakes it, and spoils what is written to."""
        self.signal(signal.SIGCONT)
        self.ask("spoil")

    def check(self) -> bool:
        """Whether all bytes arrived; stops it again."""
        same = bool(self.ask("check")["same"])
        self.signal(signal.SIGSTOP)
        return same

    def close(self) -> None:
        """Wakes it, so that it can end."""
        with contextlib.suppress(OSError):
            self.signal(signal.SIGCONT)
        super().close()

    def variant(self, operations: int = 1) -> Variant:
        """`operations` writes in a row, waited for one by one; the time of one."""
        return Variant(
            "nixl",
            lambda: float(self.ask("run", operations=operations)["seconds"]),
            self.check,
            self.spoil,
            {"timed": "python", "version": self.version},
        )
