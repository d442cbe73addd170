"""A staging server of the demo: keeps what the simulation puts until the analyses have got it.

Start it through `tranship demo`; it is `python -m tranship.demo.server --settings F --rank N`.
"""

from __future__ import annotations

import tranship as ts
from tranship.demo.roles import start_role
from tranship.demo.settings import SERVERS


def main() -> None:
    """Serves until the parent closes its end of the input."""
    settings, rank, parent = start_role("a staging server of the Tranship demo")
    with ts.StagingServer(
        settings.staging,
        rank=rank,
        servers=SERVERS,
        memory=settings.server_bytes,
        threads=1,
        trace_folder=settings.trace_folder,
    ):
        parent.finish(None)


if __name__ == "__main__":
    main()
