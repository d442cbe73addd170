"""Recordings: steps of a run in files, which others read, and which are replayed."""

from .layout import RecordedBox, RecordedStep, RecordedVariable
from .recorder import Recorded, record
from .replayer import Replayed, replay

__all__ = [
    "Recorded",
    "RecordedBox",
    "RecordedStep",
    "RecordedVariable",
    "Replayed",
    "record",
    "replay",
]
