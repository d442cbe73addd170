"""What is closed at the end of a ``with`` statement."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

__all__ = ["Closing"]

T = TypeVar("T", bound="Closing")


class Closing(ABC):
    """Enters as itself, and closes on the way out, whatever happened."""

    @abstractmethod
    def close(self) -> None:
        """Ends it."""

    def __enter__(self: T) -> T:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
