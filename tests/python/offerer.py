"""Another process that offers arrays until its input ends: ``offerer.py CONTACT [SETTING=VALUE]``.

Each line of its input is a Python statement about ``staging``, ``made`` (arrays and offers by
name), ``np`` and ``ts``; it answers "ok", or the error.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import tranship as ts


def main() -> None:
    settings: dict[str, Any] = dict(one.split("=", 1) for one in sys.argv[2:])
    settings = {key: int(value) if value.isdigit() else value for key, value in settings.items()}
    made: dict[str, Any] = {}
    staging = ts.Staging(sys.argv[1], name="the producer", offers=True, **settings)
    names = {"staging": staging, "made": made, "np": np, "ts": ts}
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            exec(line, names)
            print("ok", flush=True)
        except Exception as failure:
            print(f"{type(failure).__name__}: {failure}".replace("\n", " "), flush=True)


if __name__ == "__main__":
    main()
