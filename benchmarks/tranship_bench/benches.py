"""The benchmarks: each moves data, compares what arrived, and only then reports a line.

Those that simulate move nothing: they are papers' figures on the papers' clusters, and say so in
every line. ``tranship bench`` runs them by name; `figures` draws what they wrote. The form of a
line is that of `results`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Literal

from tranship.errors import Error, NotFound

from .harness import Bench, MismatchError, Report, SkippedError
from .isometry.simulated import OffError, SimulatedBench
from .registry import Entry, entries


def list_benches() -> list[tuple[str, str]]:
    """Returns names and descriptions, in the order in which `run-all` runs them."""
    return [(name, entry.words) for name, entry in entries().items()]


def find(name: str) -> Entry:
    """Returns a benchmark.

    Raises:
        NotFound: There is no such benchmark.
    """
    known = entries()
    if name not in known:
        raise NotFound(f"there is no benchmark {name!r}; there are {', '.join(known)}")
    return known[name]


def is_simulated(name: str) -> bool:
    """Returns whether a benchmark simulates a machine profile, and measures nothing."""
    return find(name).is_simulated


def run(
    name: str,
    *,
    size: Literal["small", "full"] = "full",
    machine: str | None = None,
    report: Report,
    options: Mapping[str, Any] | None = None,
) -> int:
    """Runs one benchmark and hands each result line to `report`.

    Args:
        name: Name from `list_benches`.
        size: "small" takes a second or two and is for tests; its times mean little.
        machine: Name of this machine in the lines; None: its cores and processor. For a simulated
            benchmark: machine profile; None: the paper's.
        report: Function that is called with each line as soon as it is measured.
        options: Values of the benchmark's own options, by name.

    Returns:
        0, or 1 if an option is invalid, data arrived changed, a copy failed, or a simulated result
        is not what is expected of it; the reason is on stderr.

    Raises:
        NotFound: There is no such benchmark.
    """
    entry = find(name)
    if size not in ("small", "full"):
        raise Error(f'size is "small" or "full", not {size!r}')
    try:
        chosen = entry.options_of(options or {})
        if entry.is_simulated:
            full = size == "full"
            simulated = SimulatedBench(name, full=full, machine=machine, report=report)
            entry.body(simulated)
            simulated.close()
            return 0
        bench = Bench(name, full=size == "full", machine=machine, report=report, options=chosen)
        try:
            entry.body(bench)
        except SkippedError as reason:
            bench.say(f"skipped: {reason}")
    except OffError as error:
        print(f"bench {name}: not as expected: {error}", file=sys.stderr)
        return 1
    except (Error, MismatchError, OSError) as error:
        print(f"bench {name}: {error}", file=sys.stderr)
        return 1
    return 0
