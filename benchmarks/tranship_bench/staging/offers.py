"""Gets of arrays that another process offers, beside the engine's copy of the same arrays.

- 64 and 256 MiB of float64, in plain memory of the other process and in memory that is shared. It
  exports the array for the baseline, and offers it: neither get nor copy has its help.
- `get of a put` is of an object of as many bytes in the server's memory.
- Between two turns the server has slept, as it has between the steps of a simulation: a get waits
  until the system has woken it.
"""

from __future__ import annotations

from typing import Any

from tranship.engine import Engine
from tranship.staging import Staging

from ..harness import Array, Bench, Variant, as_bytes, blank_array, seeded, timed
from ..host.copies import engine_run, into
from ..processes.child import Arrays
from ..processes.peer import Child
from ..registry import measures
from .boxes import server

KINDS = {"plain": "plain memory", "shared": "shared memory"}


class Offering(Arrays):
    """Exports arrays, and offers them as well."""

    def offer(self, contact: str, name: str) -> None:
        """Offers an array that was made."""
        self.staging = Staging(contact, engine=self.engine)
        self.staging.offer(name, 0, self.arrays[name])

    def end(self) -> None:
        """Withdraws what was offered."""
        self.staging.close()


@measures("staging-offers", "arrays got from the process that offers them, beside engine copies")
def staging_offers(bench: Bench) -> None:
    """Measures both kinds of memory, each beside a copy of the same array."""
    for mebibytes in (64, 256) if bench.full else (1,):
        shape = ((mebibytes << 20) // 8,)
        data, out = seeded(shape, "f8"), blank_array(shape, "f8")
        for kind, words in KINDS.items():
            with (
                server(2 * data.nbytes) as contact,
                Engine() as engine,
                Staging(contact, engine=engine) as staging,
                Child(Offering) as other,
            ):
                peer = engine.connect(other.contact)
                other.ask("make", name="offered", kind=kind, shape=shape, dtype="f8")
                other.ask("fill", name="offered")
                other.ask("offer", contact=contact, name="offered")
                staging.put("put", 0, data)
                copy = engine_run(engine, peer["offered"], out)
                variants = [
                    into(as_bytes(out), as_bytes(data), "copy", copy),
                    got(staging, "get of an offer", "offered", data, out),
                    got(staging, "get of a put", "put", data, out),
                ]
                bench.measure(f"{mebibytes} MiB, {words}", variants, data.nbytes, 25, "copy")
                other.ask("end")


def got(staging: Staging, words: str, name: str, data: Array, out: Any) -> Variant:
    """Returns the variant that gets a variable whole."""
    run = timed(lambda: staging.get(name, 0, (0,), data.shape, out))
    return into(as_bytes(out), as_bytes(data), words, run)
