"""Tranship: one call moves an N-dimensional array between any two memories of a cluster."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from .errors import (
    Cancelled,
    Closed,
    Error,
    InvalidArgument,
    NoRoute,
    NotFound,
    OutOfRange,
    PeerLost,
    SkippedVersionWarning,
    Timeout,
)

if TYPE_CHECKING:
    from . import types as types
    from ._core import Event, Plan, PreparedCopy
    from .arrays import DeviceArray, File, Instance, RemoteArray, Selection
    from .engine import Engine
    from .events import Progress
    from .halo import Halo
    from .notices import Notice
    from .peer import Peer
    from .staging import Staging, StagingServer, Step, Subscription, Variable

__version__ = "0.1.0"

__all__ = [
    "Cancelled",
    "Closed",
    "DeviceArray",
    "Engine",
    "Error",
    "Event",
    "File",
    "Halo",
    "Instance",
    "InvalidArgument",
    "NoRoute",
    "NotFound",
    "Notice",
    "OutOfRange",
    "Peer",
    "PeerLost",
    "Plan",
    "PreparedCopy",
    "Progress",
    "RemoteArray",
    "Selection",
    "SkippedVersionWarning",
    "Staging",
    "StagingServer",
    "Step",
    "Subscription",
    "Timeout",
    "Variable",
    "__version__",
]

_MODULES = {
    "_core": ("Event", "Plan", "PreparedCopy"),
    "arrays": ("DeviceArray", "File", "Instance", "RemoteArray", "Selection"),
    "engine": ("Engine",),
    "events": ("Progress",),
    "halo": ("Halo",),
    "notices": ("Notice",),
    "peer": ("Peer",),
    "staging": ("Staging", "StagingServer", "Step", "Subscription", "Variable"),
}
_SUBMODULES = ("arrays", "engine", "hardware", "profiles", "staging", "topology", "types")
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    """Imports what is used first, so that the command line starts without NumPy and the core."""
    if name in _SUBMODULES:
        return importlib.import_module(f".{name}", __name__)
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
