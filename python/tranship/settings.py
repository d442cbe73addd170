"""Settings of an engine, as keyword arguments: their types, and what becomes of them."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, SupportsIndex, TypedDict

from . import _core
from .arguments import check_path, check_text, check_whole, shown
from .errors import InvalidArgument

__all__ = ["CastName", "PlannerName", "Region", "Settings", "Shape", "setting_overrides"]

CastName = Literal["safe", "same_kind", "unsafe"]
"""Which changes of type a copy makes, as `numpy.can_cast` names them."""

Region = Mapping[str, tuple[SupportsIndex, SupportsIndex]]
"""Half-open ranges of named dimensions."""

Shape = SupportsIndex | Sequence[SupportsIndex]

PlannerName = Literal["automatic", "full", "simple", "spsl", "spdl"]
"""How a path is chosen (Isometry, sections 4.2, 4.4 and 6.3)."""

Bytes = int | str
"""A number of bytes, or a text with a unit, such as "64MiB"."""


class Settings(TypedDict, total=False):
    """Settings of an engine; `tranship config` prints what each means, and its default."""

    threads: int
    spin_us: int
    buffer_bytes: Bytes
    file_queue_depth: int
    file_io_bytes: Bytes
    file_direct: bool
    listen: str
    key: str
    users: str
    clients_max: int
    notices_max: int
    service_threads: int
    peer_timeout_ms: int
    reconnect_ms: int
    tls: bool
    wire_checksum: bool
    tcp_sockets: int
    slots_per_peer: int
    slot_bytes: Bytes
    peer_threads: int
    ucx: str
    ucx_library: str | os.PathLike[str]
    transport: Literal["automatic", "shared", "network"]
    planner: PlannerName
    full_plan_bytes: Bytes
    lanes: int
    link_usage: str | os.PathLike[str]
    gpus: bool
    emulated_gpus: int
    emulated_pinning: int
    gpu_direct_storage: str
    staging_clients: int
    staging_variables: int
    staging_name_bytes: Bytes
    staging_discards: int
    staging_boxes: int
    staging_version_boxes: int
    staging_puts: int
    staging_leases: int
    staging_lease_s: int
    staging_steps: int
    staging_attribute_bytes: Bytes
    trace_spans: int
    trace_folder: str | os.PathLike[str]
    cache_folder: str | os.PathLike[str]


PATHS = ("ucx", "ucx_library", "link_usage", "gpu_direct_storage", "trace_folder", "cache_folder")
"""Settings that name files and folders, in bytes of any kind."""


def setting_overrides(settings: Mapping[str, Any]) -> dict[str, str]:
    """Returns settings as the variables of the environment that they override.

    Raises:
        InvalidArgument: A setting that does not exist, or whose value cannot be read.
    """
    if not settings:
        return {}
    known = [name for name, _, _, _ in _core.describe_config({})]
    overrides = {}
    for name, value in settings.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise InvalidArgument(
                f"there is no setting {shown(name)}",
                (f"did you mean {near[0]}? " if near else "")
                + f"the settings are {', '.join(sorted(known))}",
            )
        overrides[f"TRANSHIP_{name.upper()}"] = text_of(name, value)
        check_one(name, value, overrides)
    return overrides


def text_of(name: str, value: Any) -> str:
    """Returns a value as the environment would have it."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, os.PathLike) or (isinstance(value, str) and name in PATHS):
        return check_path(name, value)
    if isinstance(value, str):
        return check_text(name, value)
    if isinstance(value, int) or hasattr(value, "__index__"):
        return str(check_whole(name, value))
    raise InvalidArgument(
        f"{name}={shown(value)} is not a value of a setting", hint_of(name, "give a number or text")
    )


def check_one(name: str, value: Any, overrides: Mapping[str, str]) -> None:
    """Lets the core read one setting, and names the argument where it refuses."""
    variable = f"TRANSHIP_{name.upper()}"
    try:
        _core.describe_config({variable: overrides[variable]})
    except InvalidArgument as error:
        kind = "is not a size" if name.endswith("_bytes") else "is not a whole number"
        if kind not in error.message:
            kind = error.message.partition(": ")[2].partition('" ')[2].partition(" (")[0]
        raise InvalidArgument(
            f"{name}={shown(value)} {kind or 'cannot be read'}", hint_of(name, error.hint)
        ) from None


def hint_of(name: str, fallback: str) -> str:
    """Returns what to give for a setting, with its meaning."""
    meaning = next((words for one, _, _, words in _core.describe_config({}) if one == name), "")
    return f"{fallback} ({name}: {meaning})" if meaning else fallback
