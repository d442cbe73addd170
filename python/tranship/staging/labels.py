"""Labels of a variable: names of its dimensions, its coordinates, and its other attributes.

They are attributes whose keys begin with a colon, which no key of a user does. ``:dims`` has the
names of the dimensions; ``:coords:x`` the name of the variable that holds the coordinate x.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..arguments import check_text, shown
from ..errors import Error, InvalidArgument
from .attributes import decoded, encoded, is_reserved

__all__ = [
    "COORDS",
    "DIMS",
    "Labels",
    "attribute_texts",
    "coordinate_key",
    "decoded_all",
    "label_text",
    "labels_of",
    "own_coordinate",
]

DIMS = ":dims"
COORDS = ":coords:"
KEY_BYTES_MAX = 1024


@dataclass(frozen=True)
class Labels:
    """What a variable's attributes say.

    Attributes:
        dims: Names of its dimensions; None: it has none.
        coords: Variables that hold its coordinates, by the coordinates' names.
        attrs: All other attributes.
    """

    dims: tuple[str, ...] | None = None
    coords: Mapping[str, str] = field(default_factory=dict)
    attrs: Mapping[str, Any] = field(default_factory=dict)


def own_coordinate(variable: str, coordinate: str) -> str:
    """Returns the name of the variable that holds a coordinate of that variable alone."""
    return f"{variable}:{coordinate}"


def coordinate_key(coordinate: str) -> str:
    """Returns the key of the attribute that names the variable of a coordinate."""
    return COORDS + coordinate


def label_text(value: str | Iterable[str]) -> str:
    """Returns the value of a label as a JSON text."""
    return encoded(DIMS, value if isinstance(value, str) else list(value))[1]


def labels_of(name: str, attributes: Mapping[str, Any], rank: int | None = None) -> Labels:
    """Reads the labels among the attributes of a variable.

    Args:
        name: Its name, for messages.
        attributes: All of its attributes.
        rank: Number of its dimensions; None: any.

    Raises:
        Error: What a client has sent are no labels of such a variable.
    """
    dims = attributes.get(DIMS)
    if dims is not None and not are_names(dims, rank):
        raise Error(
            f'"{name}" has {shown(dims)} as the names of its dimensions',
            "give dims=, or delete the variable, and put it with other names",
        )
    coords = {
        key.removeprefix(COORDS): value
        for key, value in attributes.items()
        if key.startswith(COORDS)
    }
    for coordinate, variable in coords.items():
        if not isinstance(variable, str):
            raise Error(
                f'"{name}" has {shown(variable)} as the variable of its coordinate '
                f"{shown(coordinate)}",
                "give dims=, or delete the variable, and put it with other coordinates",
            )
    attrs = {key: value for key, value in attributes.items() if not is_reserved(key)}
    return Labels(None if dims is None else tuple(dims), coords, attrs)


def are_names(dims: Any, rank: int | None) -> bool:
    """Returns whether a value names dimensions, each of them once."""
    return (
        isinstance(dims, list)
        and all(isinstance(dim, str) for dim in dims)
        and len(set(dims)) == len(dims)
        and rank in (None, len(dims))
    )


def attribute_texts(whose: str, attrs: Mapping[Any, Any]) -> dict[str, str]:
    """Returns the attributes of an array as JSON texts.

    Raises:
        InvalidArgument: One of them has a name or a value that attributes cannot have; the text
            names it.
    """
    texts: dict[str, str] = {}
    for key, value in attrs.items():
        name = check_key(whose, key)
        try:
            texts[name] = encoded(name, value)[1]
        except InvalidArgument as error:
            raise InvalidArgument(f"{whose}: {error.message}", error.hint) from None
        odd = odd_key(value)  # the value does not contain itself: JSON has it
        if odd is not None:
            raise InvalidArgument(
                f"{whose}: the attribute {name!r} has a mapping with the key {shown(odd)}",
                "give mappings whose keys are texts",
            )
    return texts


def check_key(whose: str, key: Any) -> str:
    """Returns the name of an attribute.

    Raises:
        InvalidArgument: It is none.
    """
    name = check_text(f"the name of an attribute of {whose}", key)
    is_plain = all(unicodedata.category(letter) != "Cc" for letter in name)
    if name and is_plain and len(name.encode()) <= KEY_BYTES_MAX and not is_reserved(name):
        return name
    raise InvalidArgument(
        f"{whose} has an attribute with the name {shown(name)}",
        f"give names of up to {KEY_BYTES_MAX} bytes, without control characters, which do not "
        "begin with a colon",
    )


def odd_key(value: Any) -> Any:
    """Returns a key of a mapping, within a value, that is no text; None if there is none."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, Mapping):
            for key in one:
                if not isinstance(key, str):
                    return key
            left.extend(one.values())
        elif isinstance(one, list | tuple):
            left.extend(one)
    return None


def decoded_all(pairs: Iterable[tuple[str, str, str]]) -> dict[str, Any]:
    """Returns the attributes of one variable by key, of what the servers say."""
    return {key: decoded(key, text) for _, key, text in pairs}
