"""What many clients of one staging server cost.

- Eight processes put 8 KiB to one server and get them back, first as 8 clients, then as 1,000 (125
  in each process, which asks for them one after the other). The processes do the same work in both
  cases; what differs is how many clients the server serves.
- A line's seconds are those of one put and one get, over all clients; `server_threads` are the
  threads of the server while all are connected.
"""

from __future__ import annotations

import os
from pathlib import Path

from ..harness import Bench
from ..registry import measures
from .boxes import server_process
from .crew import Crew, together
from .worker import ELEMENTS

PROCESSES = 8
CLIENTS = (8, 1000)
ROUNDS = 5


@measures("staging-clients", "8 KiB put and got by 8 clients of one server, and by 1,000")
def staging_clients(bench: Bench) -> None:
    """Measures 8 KiB puts and gets by each of 8 clients, and by each of 1,000."""
    with server_process(256 << 20) as (contact, pid), Crew(PROCESSES, contact) as crew:
        bench.conditions["cores"] = os.cpu_count()
        for count in CLIENTS if bench.full else (8, 16):
            each = count // PROCESSES
            first = [{"first": k * each} for k in range(PROCESSES)]
            together(crew.workers, "admit", first, contact=contact, count=each)
            exchanges = bench.pick(8000, 80) // count
            seconds = []
            for turn in range(ROUNDS + 1):
                times = together(crew.workers, "exchange", rounds=exchanges, turn=turn)
                seconds.append(max(times) / (exchanges * count))
            threads = len(list(Path(f"/proc/{pid}/task").iterdir()))
            known = {"clients": count, "processes": PROCESSES, "server_threads": threads}
            case = f"8 KiB put and got, {count} clients"
            bench.emit(case, "put and get", 16 * ELEMENTS, seconds[1:], conditions=known)
            together(crew.workers, "dismiss")
