"""The table of steps that `tranship ls` prints."""

from __future__ import annotations

from itertools import groupby

from rich.table import Table

from ..staging import ListedStep
from .talk import table_of

__all__ = ["table_of_steps"]

NAMES_MAX = 8
"""Variables of a step that a row names; of more, one less."""

Look = tuple[str, tuple[str, ...], int, str]


def table_of_steps(steps: list[ListedStep]) -> Table:
    """Returns a row for each run of neighbouring steps that look alike."""
    table = table_of("steps", "state", "~variables", ">attributes", "~why")
    for (state, variables, attributes, why), alike in groupby(steps, look_of):
        numbers = [step.number for step in alike]
        names = names_text(variables)
        table.add_row(numbers_text(numbers), state, names, str(attributes), why)
    return table


def look_of(step: ListedStep) -> Look:
    """Returns what a row says of a step, without its number."""
    why = step.why.removeprefix(f"step {step.number} ")
    return step.state, step.variables, step.attributes, why


def numbers_text(numbers: list[int]) -> str:
    """Returns how many steps there are, and the first and the last one: `3 (0 to 10)`."""
    first_last = [str(numbers[k]) for k in ((0, -1) if len(numbers) > 1 else (0,))]
    return f"{len(numbers)} ({' to '.join(first_last)})"


def names_text(names: tuple[str, ...]) -> str:
    """Returns the first names, and how many others there are."""
    if len(names) <= NAMES_MAX:
        return ", ".join(names)
    named = names[: NAMES_MAX - 1]
    return f"{', '.join(named)}, {len(names) - len(named)} others"
