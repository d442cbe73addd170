"""Tranship: one call moves an N-dimensional array between any two memories of a cluster."""

from ._core import Event, Plan
from .arrays import DeviceArray, File, Instance, RemoteArray
from .engine import Engine, Peer
from .errors import (
    Cancelled,
    Closed,
    Error,
    InvalidArgument,
    NoRoute,
    NotFound,
    OutOfRange,
    PeerLost,
    Timeout,
)
from .staging import Staging, StagingServer, Subscription, Variable

__version__ = "0.1.0"

__all__ = [
    "Cancelled",
    "Closed",
    "DeviceArray",
    "Engine",
    "Error",
    "Event",
    "File",
    "Instance",
    "InvalidArgument",
    "NoRoute",
    "NotFound",
    "OutOfRange",
    "Peer",
    "PeerLost",
    "Plan",
    "RemoteArray",
    "Staging",
    "StagingServer",
    "Subscription",
    "Timeout",
    "Variable",
    "__version__",
]
