"""Many clients of one staging server: their total rate of puts and gets, and its threads.

Eight processes have one client each, or many clients each, which put and get one after another: the
same number of processes works in both cases, and only the number of clients of the server differs.

- What many clients cost: eight processes put 8 KiB to one server and get them back, first as 8
  clients, then as 1,000 (125 in each process, which asks for them one after the other). The
  processes do the same work in both cases; what differs is how many clients the server serves.
- A line's seconds are those of one put and one get, over all clients; `server_threads` are the
  threads of the server while all are connected.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from tranship.staging import Staging

from ..harness import Bench, MismatchError
from ..processes.child import Service, serve
from ..registry import measures
from .boxes import server_process
from .crew import Crew, together

PROCESSES = 8
CLIENTS = (8, 1000)
ROUNDS = 5
ELEMENTS = 1024
BYTES = 8 * ELEMENTS


@measures("staging-clients", "8 KiB put and got by 8 clients of one server, and by 1,000")
def staging_clients(bench: Bench) -> None:
    """Measures 8 KiB puts and gets by each of 8 clients, and by each of 1,000."""
    counts = CLIENTS if bench.full else (8, 16)
    with (
        server_process(256 << 20) as (contact, pid),
        Crew(PROCESSES, contact, "tranship_bench.staging.clients") as crew,
    ):
        bench.conditions["cores"] = os.cpu_count()
        rates = {}
        for count in counts:
            each = count // PROCESSES
            first = [{"first": k * each} for k in range(PROCESSES)]
            together(crew.workers, "admit", first, contact=contact, count=each)
            exchanges = bench.pick(8000, 80) // count
            seconds = []
            for turn in range(ROUNDS + 1):
                answers = together(crew.workers, "exchange", rounds=exchanges, turn=turn)
                if not all(answer["same"] for answer in answers):
                    raise MismatchError(f"{count} clients: 8 KiB arrived changed")
                slowest = max(answer["seconds"] for answer in answers)
                seconds.append(slowest / (exchanges * count))
            threads = len(list(Path(f"/proc/{pid}/task").iterdir()))
            bench.emit(
                f"8 KiB put and got, {count} clients",
                "put and get",
                2 * BYTES,
                seconds[1:],
                conditions={"clients": count, "processes": PROCESSES, "server_threads": threads},
            )
            rates[count] = 1 / statistics.median(seconds[1:])
            bench.say(
                f"{count} clients: {rates[count]:,.0f} puts and gets a second in all, "
                f"{threads} threads in the server"
            )
            together(crew.workers, "dismiss")
        few, many = counts
        bench.say(f"{many} clients have {rates[many] / rates[few]:.2f} of the rate of {few}")


class Worker(Service):
    """One process, with some clients."""

    client: Staging

    def join(self, contact: str, name: str) -> dict[str, Any]:
        """Connects to the server."""
        self.client = Staging(contact, engine=self.engine, name=name)
        self.admitted: list[tuple[str, Staging]] = []
        self.versions = 0
        return {}

    def admit(self, contact: str, first: int, count: int) -> dict[str, Any]:
        """Connects `count` clients, each with a variable of its own."""
        self.admitted = [
            (f"of {k}", Staging(contact, engine=self.engine, name=f"client {k}", timeout=60))
            for k in range(first, first + count)
        ]
        return {}

    def exchange(self, rounds: int, turn: int) -> dict[str, Any]:
        """Puts and gets with each client in turn; returns the seconds, and whether all arrived."""
        data = np.arange(ELEMENTS) + float(turn)
        out = np.zeros_like(data)
        right = True
        begin = time.perf_counter()
        for _ in range(rounds):
            self.versions += 1
            data[0] = self.versions
            for name, client in self.admitted:
                client.put(name, self.versions, data)
                client.get(name, self.versions, (0,), (ELEMENTS,), out)
                right = right and out[0] == self.versions
        seconds = time.perf_counter() - begin
        return {"seconds": seconds, "same": bool(right and np.array_equal(out, data))}

    def dismiss(self) -> dict[str, Any]:
        """Disconnects the clients."""
        for _, client in self.admitted:
            client.close()
        self.admitted = []
        return {}

    def leave(self) -> dict[str, Any]:
        """Disconnects from the server."""
        self.dismiss()
        self.client.close()
        return {}


if __name__ == "__main__":
    serve(sys.stdin, sys.stdout, Worker)
