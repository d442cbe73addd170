"""Result lines: their one form, and the folder that keeps the newest of each.

A line is a JSON object::

    {"bench", "case", "variant", "machine", "commit", "bytes", "median_s", "quartiles_s": [a, b],
     "count", "gbps", "checked": true}

``quartiles_s`` are the first and the third quartile of the ``count`` repetitions, in seconds;
``gbps`` is ``bytes`` over ``median_s``, in 1e9 bytes a second, and 0 where no bytes are moved.
Where they apply, a line has ``ratio`` (how many times as fast as ``baseline``), ``conditions``,
and, if it is simulated, ``simulated``, ``values``, ``expected`` and ``within``.

`benchmarks/results` has a file for each benchmark, with the newest line of each case, variant and
machine. To add lines to it::

    python -m tranship_bench.results FILE...
"""

from __future__ import annotations

import json
import math
import os
import statistics
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tranship.errors import Error, InvalidArgument, NotFound

Line = dict[str, Any]
Key = tuple[str, str, str, str]

DIGITS = 5
"""Significant digits of the numbers of a line."""

NEEDED = (
    *("bench", "case", "variant", "machine", "commit", "bytes"),
    *("median_s", "quartiles_s", "count", "gbps"),
)
"""Keys of every line, beside "checked"."""

USAGE = "usage: python -m tranship_bench.results FILE...  (adds the lines to benchmarks/results)"


def make_line(
    bench: str,
    case: str,
    variant: str,
    machine: str,
    commit: str,
    count: int,
    seconds: Sequence[float],
) -> Line:
    """Returns a result line of data that were compared: `count` bytes moved, or 0 where none are,
    and the seconds of each repetition.
    """
    median_s = statistics.median(seconds)
    quartiles_s = [median_s, median_s]
    if len(seconds) > 1:
        first, _, third = statistics.quantiles(seconds, n=4, method="inclusive")
        quartiles_s = [first, third]
    return {
        "bench": bench,
        "case": case,
        "variant": variant,
        "machine": machine,
        "commit": commit,
        "bytes": count,
        "median_s": rounded(median_s),
        "quartiles_s": [rounded(value) for value in quartiles_s],
        "count": len(seconds),
        "gbps": rounded(count / median_s / 1e9) if count else 0.0,
        "checked": True,
    }


def rounded(value: float) -> float:
    """Returns a number with as many digits as a line has."""
    if not math.isfinite(value) or value == 0:
        return float(value)
    return round(value, DIGITS - 1 - math.floor(math.log10(abs(value))))


def is_emulated(line: Line) -> bool:
    """Returns whether a result line was measured with GPUs emulated in host memory."""
    values = [line.get("case"), *line.get("conditions", {}).values()]
    flagged = bool(line.get("conditions", {}).get("emulated"))
    return flagged or any("emulated" in value for value in values if isinstance(value, str))


def is_share(line: Line) -> bool:
    """Returns whether the `median_s` of a line is a fraction of its cases, not a time."""
    return bool(line.get("bench") == "prediction" and not line.get("bytes"))


def folder_of_results() -> Path:
    """Returns the folder of result lines of the working folder, else of the source tree."""
    here = Path("benchmarks") / "results"
    if here.is_dir():
        return here
    tree = Path(__file__).resolve().parents[2] / here
    return tree if tree.is_dir() else here


def read_lines(path: str | os.PathLike[str]) -> list[Line]:
    """Returns all result lines of a file, or of the files of a folder in the order of their names.

    Raises:
        NotFound: There is no such file or folder.
        Error: A file has a line that is no result.
    """
    found = Path(path)
    if found.is_dir():
        paths = sorted(found.glob("*.jsonl"))
    elif found.exists():
        paths = [found]
    else:
        raise NotFound(
            f"there is no file or folder {found} of result lines",
            "name a file that was written with: tranship bench NAME --json FILE.jsonl",
        )
    return [
        parse_line(one, number, text)
        for one in paths
        for number, text in enumerate(one.read_text(encoding="utf-8").splitlines(), 1)
        if text.strip()
    ]


def parse_line(path: Path, number: int, text: str) -> Line:
    """Returns one line, which must have been checked."""
    try:
        line: Line = json.loads(text)
        if line["checked"] is not True:
            raise KeyError("checked")
        for key in NEEDED:
            line[key]
    except (ValueError, KeyError, TypeError) as error:
        raise Error(
            f"{path}:{number} is no result line ({error})",
            f"each line is a JSON object with {', '.join(NEEDED)} and checked: true",
        ) from None
    return line


def key_of(line: Line) -> Key:
    """Returns what two lines have in common if the newer one replaces the other."""
    return line["bench"], line["case"], line["variant"], line["machine"]


def merge(lines: Iterable[Line], folder: str | os.PathLike[str]) -> dict[str, int]:
    """Adds lines, older ones first, to a folder of results; returns their number by benchmark.

    Each replaces an older one of its key. Cases that were drawn at random replace those that the
    same benchmark drew on the same machine from another seed, so that the lines of a page belong
    together.

    Raises:
        InvalidArgument: A line is of small size or of emulated GPUs. Nothing is written.
    """
    new: dict[str, list[Line]] = {}
    for line in lines:
        small = line.get("conditions", {}).get("size") == "small"
        if small or is_emulated(line):
            raise InvalidArgument(
                f"a line of {line['bench']} is of {'small size' if small else 'emulated GPUs'}",
                "add lines of full size, measured with real GPUs",
            )
        new.setdefault(line["bench"], []).append(line)
    Path(folder).mkdir(parents=True, exist_ok=True)
    for bench, added in new.items():
        path = Path(folder) / f"{bench}.jsonl"
        kept: dict[Key, Line] = {}
        for line in (read_lines(path) if path.exists() else []) + added:
            kept.pop(key_of(line), None)
            kept[key_of(line)] = line
        seeds = {line["machine"]: seed_of(line) for line in added if seed_of(line) is not None}
        texts = [
            json.dumps(line, ensure_ascii=False, separators=(",", ":"))
            for line in kept.values()
            if seed_of(line) is None or seed_of(line) == seeds.get(line["machine"], seed_of(line))
        ]
        path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return {bench: len(added) for bench, added in new.items()}


def seed_of(line: Line) -> int | None:
    """Returns the seed of a case that was drawn at random; None for others."""
    seed: int | None = line.get("conditions", {}).get("seed")
    return seed


def main(arguments: Sequence[str]) -> int:
    """Adds the lines of files to the results of the source tree; returns the exit status."""
    if not arguments or any(argument.startswith("-") for argument in arguments):
        print(USAGE, file=sys.stderr)
        return 2
    try:
        added = merge(
            [line for name in arguments for line in read_lines(name)], folder_of_results()
        )
    except Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for bench, count in added.items():
        print(f"{bench}: {count} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
