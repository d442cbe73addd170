"""The list of steps: what the servers remember of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .. import _core

__all__ = ["ListedStep", "StepState", "listed_steps"]

StepState = Literal["open", "whole", "broken"]
"""What a step is: being written, seen by readers, or passed by."""


@dataclass(frozen=True)
class ListedStep:
    """A step as it was when it was listed.

    Attributes:
        number: Its number.
        state: "open", some of its writers have not ended it; "whole", readers see it; "broken",
            nothing of it is kept, and readers pass it by.
        variables: The names of its variables, in their order; none unless it is whole.
        attributes: How many attributes it and its variables have; 0 unless it is whole.
        why: What an open step lacks, or why one is broken; else empty.
    """

    number: int
    state: StepState
    variables: tuple[str, ...] = ()
    attributes: int = 0
    why: str = ""


def listed_steps(core: _core.StagingClientCore, timeout: float) -> list[ListedStep]:
    """Returns the steps that the servers remember; see `Staging.list_steps`."""
    return [ListedStep(**one) for one in core.list_steps(timeout)]
