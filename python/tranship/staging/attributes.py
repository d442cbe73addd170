"""Attributes: values with names that belong to a run, a step, or a variable."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any

import numpy as np

from .. import _core
from ..arguments import check_text, shown
from ..errors import Error, InvalidArgument, NotFound

__all__ = [
    "Attributes",
    "PendingAttributes",
    "StepAttributes",
    "decoded",
    "encoded",
    "is_reserved",
    "missing",
]

RESERVED = ":"
"""Keys that begin with it say what a variable's data mean: see labels.py."""


def is_reserved(key: str) -> bool:
    """Returns whether a key is none of a user."""
    return key.startswith(RESERVED)


def user_key(key: Any) -> str:
    """Returns the name of an attribute that a user sets or deletes.

    Raises:
        InvalidArgument: It is no text, or begins with a colon.
    """
    name = check_text("an attribute's name", key)
    if is_reserved(name):
        raise InvalidArgument(
            f"the attribute {shown(name)} is kept for what a put of an xarray.DataArray says of a "
            "variable",
            "give a name that does not begin with a colon",
        )
    return name


def plain(value: Any) -> Any:
    """Returns a value as JSON has it: numbers and arrays of NumPy become numbers and lists.

    Raises:
        TypeError: JSON has no such value.
    """
    if isinstance(value, np.generic | np.ndarray) and value.dtype.kind in "biufUS":
        text = value.astype("U") if value.dtype.kind == "S" else value
        return text.tolist()
    raise TypeError(f"{type(value).__name__} is no JSON value")


def encoded(key: Any, value: Any) -> tuple[str, str]:
    """Returns the name of an attribute, and its value as a JSON text.

    Raises:
        InvalidArgument: The name is no text, or JSON has no such value.
    """
    name = check_text("an attribute's name", key)
    try:
        text = json.dumps(value, default=plain, ensure_ascii=False)
        (name + text).encode()
        return name, text
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(
            f"the attribute {name!r} cannot be {shown(value)} ({error})",
            "give a number, a text, a truth value, None, or lists and mappings of these; put an "
            "array as a variable",
        ) from None


def decoded(key: str, text: str) -> Any:
    """Returns the value of an attribute.

    Raises:
        Error: What a client has sent is no JSON text.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Error(
            f"the attribute {key!r} has a value that cannot be read ({error})",
            "set it again",
        ) from None


class Missing(NotFound, KeyError):
    """The error of a name that a mapping does not have."""


def missing(whose: str, what: str, key: object, names: Iterable[str]) -> Missing:
    """Returns the error of an attribute, or a variable, that is not there."""
    return Missing(f"{whose} has no {what} {shown(key)}", f"it has {', '.join(names) or 'none'}")


class Attributes(MutableMapping[str, Any]):
    """The attributes of a run, or of a variable: ``staging.attributes["code"] = "LBM 3.1"``.

    They are at the servers, which are asked each time. Values are as JSON has them: numbers, texts,
    truth values, None, lists and mappings; numbers and arrays of NumPy become numbers and lists,
    and NaN and infinities are written as Python's `json` writes them. Of
    several clients that set one, the last is seen. A variable's go when it is deleted.

    Raises:
        InvalidArgument: JSON has no such value, or it does not fit a message.
        NotFound: There is no such attribute.
        Error: All of them together take more than ``staging_attribute_bytes``.
    """

    def __init__(self, core: _core.StagingClientCore, variable: str = "") -> None:
        self._core = core
        self._variable = variable

    def _all(self) -> dict[str, Any]:
        return {
            key: decoded(key, text)
            for _, key, text in self._core.attributes_of(self._variable)
            if not is_reserved(key)
        }

    def _whose(self) -> str:
        return f'"{self._variable}"' if self._variable else "the run"

    def __getitem__(self, key: str) -> Any:
        found = self._all()
        if key not in found:
            raise missing(self._whose(), "attribute", key, found)
        return found[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._core.set_attributes([(self._variable, *encoded(user_key(key), value))])

    def __delitem__(self, key: str) -> None:
        name = user_key(key)
        if name not in self:
            raise missing(self._whose(), "attribute", name, self)
        self._core.set_attributes([(self._variable, name, "")])

    def __contains__(self, key: object) -> bool:
        return key in self._all()

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def update(self, *args: Any, **values: Any) -> None:
        """Sets several attributes with one request."""
        pairs = dict(*args, **values)
        self._core.set_attributes(
            [(self._variable, *encoded(user_key(key), value)) for key, value in pairs.items()]
        )

    def __repr__(self) -> str:
        return f"<Attributes of {self._whose()}: {self._all()!r}>"


class PendingAttributes(dict[str, Any]):
    """Attributes of a step that is being written; they are sent with its end.

    Raises:
        InvalidArgument: The name is no text, or JSON has no such value.
    """

    def __setitem__(self, key: str, value: Any) -> None:
        encoded(user_key(key), value)
        super().__setitem__(key, value)

    def update(self, *args: Any, **values: Any) -> None:
        """Sets several attributes."""
        for key, value in dict(*args, **values).items():
            self[key] = value


class StepAttributes(Mapping[str, Any]):
    """The attributes of a whole step, or of a variable in it, without those that are reserved."""

    def __init__(self, whose: str, values: Mapping[str, Any]) -> None:
        self._whose = whose
        self._values = {key: value for key, value in values.items() if not is_reserved(key)}

    def __getitem__(self, key: str) -> Any:
        if key not in self._values:
            raise missing(self._whose, "attribute", key, self._values)
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __repr__(self) -> str:
        return repr(self._values)
