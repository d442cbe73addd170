"""How benchmarks register themselves: by a decorator that names them, says what they measure, and
names their options.

The modules that register benchmarks lie in the folders of this package, by what they measure. What
a benchmark does in detail is the docstring of its module, which `tranship bench list NAME` prints.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import partial
from typing import Any

from tranship.errors import InvalidArgument

PROGRAMS = ("ping_pong", "gpu_ping_pong", "exchange")
"""Modules that only MPI processes import, since they load the MPI library."""


@dataclass(frozen=True)
class Entry:
    """A benchmark.

    Attributes:
        name: Name on the command line and in result lines.
        words: What it measures, in one line.
        body: Function that measures, or simulates, and reports the lines.
        options: Dataclass of its options, whose fields are made by `option`; None: it has none.
        is_simulated: Whether it simulates a machine profile, and measures nothing.
    """

    name: str
    words: str
    body: Callable[[Any], None]
    options: Any = None
    is_simulated: bool = False

    @property
    def help(self) -> str:
        """Returns the docstring of the module."""
        return inspect.cleandoc(sys.modules[self.body.__module__].__doc__ or "")

    def options_of(self, given: Mapping[str, Any]) -> Any:
        """Returns the options with the values given.

        Raises:
            InvalidArgument: There is no such option, or a value is invalid.
        """
        if self.options is None and not given:
            return None
        known = [each.name for each in fields(self.options)] if self.options else []
        for name in given:
            if name not in known:
                others = f"there are {', '.join(known)}" if known else f"{self.name} has none"
                raise InvalidArgument(f"there is no option {name!r}; {others}")
        return self.options(**given)


KNOWN: dict[str, Entry] = {}


Body = Callable[[Any], None]


def measures(
    name: str, words: str, options: Any = None, *, is_simulated: bool = False
) -> Callable[[Body], Body]:
    """Returns a decorator that registers a function as a benchmark.

    Args:
        name: Name of the benchmark.
        words: What it measures, in one line.
        options: Dataclass of its options.
        is_simulated: Whether it simulates a machine profile, and measures nothing.
    """

    def register(body: Body) -> Body:
        KNOWN[name] = Entry(name, words, body, options, is_simulated)
        return body

    return register


simulates = partial(measures, is_simulated=True)
"""Returns a decorator that registers a function as a simulated benchmark."""


def entries() -> dict[str, Entry]:
    """Returns all benchmarks by name, those that measure first."""
    package = sys.modules[__package__]
    for found in pkgutil.walk_packages(package.__path__, f"{__package__}."):
        _, folder, *names = found.name.split(".")
        if names and folder != "commands" and names[-1] not in PROGRAMS:
            importlib.import_module(found.name)
    return dict(sorted(KNOWN.items(), key=lambda one: one[1].is_simulated))


def option(default: Any, words: str, parse: Callable[[str], Any] = int, values: str = "N") -> Any:
    """Returns a field of a dataclass of options.

    Args:
        default: Its default.
        words: Its help.
        parse: Function from its text on the command line to its value.
        values: What stands for its value in the help; "" if it is a flag.
    """
    return field(default=default, metadata={"words": words, "parse": parse, "values": values})


def counts(text: str) -> tuple[int, ...]:
    """Returns the whole numbers in a text such as "4,4,2".

    Raises:
        ValueError: A part is no whole number.
    """
    return tuple(int(part) for part in text.split(","))


def names(text: str) -> tuple[str, ...]:
    """Returns the names in a text such as "round,odd"."""
    return tuple(text.split(","))


def elements(text: str) -> int:
    """Returns the number of elements in a text such as "1000", "10k" or "28M".

    Raises:
        ValueError: The text is no number of elements.
    """
    unit = {"k": 10**3, "m": 10**6}.get(text[-1:].lower(), 1)
    count = round(float(text if unit == 1 else text[:-1]) * unit)
    if count < 1:
        raise ValueError(text)
    return count


def help_of(options: Any) -> list[tuple[str, str]]:
    """Returns the options of a dataclass as they are written, and their help."""
    return [
        (f"--{one.name} {one.metadata['values']}".rstrip(), one.metadata["words"])
        for one in fields(options)
        if one.default is not MISSING
    ]


def parse_options(entry: Entry, words: Sequence[str]) -> dict[str, Any]:
    """Returns the values of options as they are written on a command line, by name.

    Raises:
        InvalidArgument: An option is unknown, or a value is missing or malformed.
    """
    known = {one.name: one.metadata for one in fields(entry.options)} if entry.options else {}
    given: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        name, has_value, text = word.removeprefix("--").partition("=")
        if not word.startswith("--") or name not in known:
            names = ", ".join(f"--{one}" for one in known)
            hint = f"it has {names}" if known else f"{entry.name} has no options of its own"
            raise InvalidArgument(f"the benchmark {entry.name} has no option {word}", hint)
        if not known[name]["values"]:
            given[name] = True
            continue
        values = f"--{name} {known[name]['values']}"
        text = text if has_value else next(rest, "")
        try:
            given[name] = known[name]["parse"](text)
        except (ValueError, OverflowError):
            raise InvalidArgument(
                f"{values.split()[0]} {text} is not understood".replace("  ", " "),
                f"{values}: {known[name]['words']}",
            ) from None
    return given


@dataclass(frozen=True)
class SeedOptions:
    """Options of benchmarks whose cases are drawn at random."""

    seed: int = option(1, "Seed of the random cases: it gives the same ones everywhere.")
    cases: int | None = option(None, "Number of cases. Default: the benchmark's own.")

    def __post_init__(self) -> None:
        if self.cases is not None and self.cases < 1:
            raise InvalidArgument(f"cases is {self.cases}; it is at least 1")
