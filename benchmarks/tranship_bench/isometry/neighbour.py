"""The process in place of the other node: makes instances, exports them, compares them.

The process reads one JSON request from each line of its input and writes one line in reply.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tranship.engine import Engine

from ..gpu.copies import gpu_count
from ..processes.child import Service, serve
from .real_places import Form, Stores


class Neighbourhood(Service):
    """The requests that the process carries out, one method for each."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.groups: dict[str, Stores] = {}
        # The first process takes the first GPU; if there are more GPUs, this process has its own.
        self.device = min(1, gpu_count(engine) - 1)

    def make_stores(
        self, name: str, word: str, points: int, soa: bool, count: int, prefix: str
    ) -> dict[str, Any]:
        """Makes and exports instances."""
        form = Form(points, soa)
        stores = Stores(self.engine, word, form, count, Path(prefix), self.device)
        stores.spoil()
        self.groups[name] = stores
        for k, view in enumerate(stores.views):
            self.engine.export(f"{name}-{k}", view)
        return {}

    def stores(self, name: str, what: str) -> dict[str, Any]:
        """Spoils, compares or flushes instances."""
        return {"result": getattr(self.groups[name], what)()}

    def move(self, source: str, number: int, target: str, target_number: int) -> dict[str, Any]:
        """Copies one instance into another."""
        view = self.groups[source].views[number]
        self.engine.copy(view, self.groups[target].views[target_number]).wait(timeout=120)
        return {}

    def drop_stores(self, name: str) -> dict[str, Any]:
        """Ends the export of instances."""
        stores = self.groups.pop(name)
        for k in range(len(stores.views)):
            self.engine.withdraw(f"{name}-{k}")
        stores.close()
        return {}


if __name__ == "__main__":
    serve(sys.stdin, sys.stdout, Neighbourhood)
