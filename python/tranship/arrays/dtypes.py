"""Element types, as the core compares them: by a text that says all of a type.

Two fields may be copied to each other if their texts are equal. A number's text is NumPy's short
name ("f4", ">i2", "M8[ns]"), that of a type of ml_dtypes its name ("bfloat16"). The text of a
structure within a structure lists names, types and order of its fields, and of an array within a
structure its shape, all the way down; where there is padding, the text has the offsets as well,
since the bytes of such a field are copied as they are.
"""

from __future__ import annotations

import ast
import importlib
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ..arguments import check_text, element_type, shown
from ..errors import InvalidArgument

__all__ = ["dtype_fields", "dtype_of", "field_specs", "numpy_dtype", "type_name"]

FieldSpec = tuple[str, str, int]

COPIED_KINDS = "biufcmMSUV"
"""Kinds of NumPy types whose elements mean the same wherever their bytes lie."""


NESTING_MAX = 60
"""Most levels of types within types: Python reads texts of 200 brackets within each other."""
USER_DEFINED = 2
"""What NumPy says of a type that a library adds to it."""


def type_name(dtype: np.dtype[Any]) -> str:
    """Returns the text of a type.

    Raises:
        InvalidArgument: Its elements are Python objects, or have no bytes.
    """
    if dtype.hasobject or dtype.kind not in COPIED_KINDS:
        raise InvalidArgument(
            f"an array of Python objects ({dtype}) cannot be copied: its elements are addresses "
            "that mean nothing elsewhere",
            "convert it to a numeric type, or text to bytes (S)",
        )
    if dtype.itemsize == 0:
        raise InvalidArgument(
            f"elements of type {dtype} have no bytes", "give a type with a size, such as S8"
        )
    parts = parts_of(dtype)
    return parts if isinstance(parts, str) else repr(parts)


def parts_of(dtype: np.dtype[Any], level: int = 0) -> Any:
    """Returns what the text of a type is of: a name, or lists and tuples of names and numbers.

    Raises:
        InvalidArgument: Types are nested too deeply.
    """
    if level > NESTING_MAX:
        raise InvalidArgument(
            f"a type is nested more than {NESTING_MAX} levels deep", "give a type of fewer levels"
        )
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return (parts_of(base, level + 1), tuple(int(n) for n in shape))
    if dtype.names is not None:
        return structure_parts(dtype, level)
    if dtype.isbuiltin == USER_DEFINED:
        return dtype.name
    name = str(dtype.str)
    return name[1:] if name[0] in "<=|" else name


def structure_parts(dtype: np.dtype[Any], level: int) -> Any:
    """Returns names and types of a structure, with offsets where there is padding."""
    table = cast(Mapping[str, Any], dtype.fields)
    names = [check_text("the name of a field", name) for name in dtype.names or ()]
    parts = [(name, parts_of(table[name][0], level + 1), int(table[name][1])) for name in names]
    if is_packed(dtype):
        return [(name, kind) for name, kind, _ in parts]
    return (parts, int(dtype.itemsize))


def is_packed(dtype: np.dtype[Any]) -> bool:
    """Returns whether the fields of a structure follow each other, without gaps."""
    table = cast(Mapping[str, Any], dtype.fields)
    end = 0
    for name in dtype.names or ():
        kind, offset = table[name][:2]
        if offset != end:
            return False
        end = offset + kind.itemsize
    return end == dtype.itemsize


def dtype_of(name: str) -> np.dtype[Any]:
    """Returns the type that a text names.

    Raises:
        InvalidArgument: The type belongs to a library that is not installed.
    """
    if name.startswith(("(", "[")):
        try:
            return dtype_of_parts(ast.literal_eval(name))
        except InvalidArgument:
            raise
        except Exception:  # what C and other versions may have written
            raise InvalidArgument(f"{shown(name)} is not the text of a type") from None
    try:
        return np.dtype(name)
    except (TypeError, ValueError, SyntaxError):
        pass
    try:
        importlib.import_module("ml_dtypes")
        return np.dtype(name)
    except Exception:
        raise InvalidArgument(
            f"NumPy has no type {shown(name)}",
            "install ml_dtypes (pip install ml_dtypes), which has it",
        ) from None


def dtype_of_parts(parts: Any) -> np.dtype[Any]:
    """Returns the type that a parsed text names."""
    if isinstance(parts, str):
        return dtype_of(parts)
    if isinstance(parts, list):
        return np.dtype([(name, dtype_of_parts(kind)) for name, kind in parts])
    first, second = parts
    if isinstance(second, tuple):
        return np.dtype((dtype_of_parts(first), second))
    return np.dtype(
        {
            "names": [name for name, _, _ in first],
            "formats": [dtype_of_parts(kind) for _, kind, _ in first],
            "offsets": [offset for _, _, offset in first],
            "itemsize": second,
        }
    )


def field_specs(fields: Mapping[str, Any] | npt.DTypeLike) -> list[FieldSpec]:
    """Returns names, types and sizes in bytes of `fields`.

    Args:
        fields: Mapping of names to types, or a dtype.

    Raises:
        InvalidArgument: A type that NumPy does not have or that cannot be copied, or no field.
    """
    items: list[tuple[Any, Any]]
    if isinstance(fields, Mapping):
        items = list(fields.items())
    else:
        dtype = element_type("fields", fields)
        if dtype.names is None or is_union(dtype):
            return [("f0", type_name(dtype), dtype.itemsize)]
        table = cast(Mapping[str, Any], dtype.fields)
        items = [(name, table[name][0]) for name in dtype.names]
    specs = []
    for name, kind in items:
        if not isinstance(name, str):
            raise InvalidArgument(
                f"a field is named {name!r}, which is not a text",
                "name fields by str, as in fields={'mass': 'f8'}",
            )
        check_text("the name of a field", name)
        dtype = element_type(f"fields[{name!r}]", kind)
        specs.append((name, type_name(dtype), dtype.itemsize))
    if not specs:
        raise InvalidArgument("an array needs at least one field", "as in fields={'f0': 'f8'}")
    return specs


def dtype_fields(dtype: np.dtype[Any]) -> list[tuple[str, str, int, int]]:
    """Returns names, types, sizes and offsets of the fields of a point.

    A structure whose fields overlap is one field, whose bytes are copied as they are.

    Raises:
        InvalidArgument: There is none, or one cannot be copied.
    """
    if dtype.names is None or is_union(dtype):
        return [("f0", type_name(dtype), dtype.itemsize, 0)]
    table = cast(Mapping[str, Any], dtype.fields)
    fields = []
    for name in dtype.names:
        kind, offset = table[name][:2]
        check_text("the name of a field", name)
        fields.append((name, type_name(kind), kind.itemsize, int(offset)))
    if not fields:
        raise InvalidArgument("an array needs at least one field", "as in dtype=[('a', 'f8')]")
    return fields


def is_union(dtype: np.dtype[Any]) -> bool:
    """Returns whether fields of a structure overlap."""
    table = cast(Mapping[str, Any], dtype.fields)
    parts = sorted((int(table[name][1]), table[name][0].itemsize) for name in dtype.names or ())
    return any(low + size > high for (low, size), (high, _) in itertools.pairwise(parts))


def interface_fields(dtype: np.dtype[Any]) -> list[tuple[Any, ...]] | None:
    """Returns the fields of a type as array interfaces list them, with padding, in their order in
    memory; None for a structure whose fields overlap, which these lists cannot hold.
    """
    if dtype.names is None:
        return dtype.descr
    if is_union(dtype):
        return None
    table = cast(Mapping[str, Any], dtype.fields)
    listed: list[tuple[Any, ...]] = []
    end = 0
    for name in sorted(dtype.names, key=lambda one: int(table[one][1])):
        kind, offset = table[name][:2]
        if offset > end:
            listed.append(("", f"|V{offset - end}"))
        base, shape = kind.subdtype or (kind, None)
        inner = interface_fields(base) if base.names is not None else base.str
        if inner is None:
            return None
        listed.append((name, inner) if shape is None else (name, inner, shape))
        end = offset + kind.itemsize
    if dtype.itemsize > end:
        listed.append(("", f"|V{dtype.itemsize - end}"))
    return listed


def numpy_dtype(fields: Sequence[tuple[str, str, int, int]]) -> np.dtype[Any]:
    """Returns the dtype of a point with these fields."""
    if len(fields) == 1:
        return dtype_of(fields[0][1])
    return np.dtype([(name, dtype_of(kind)) for name, kind, _, _ in fields])
