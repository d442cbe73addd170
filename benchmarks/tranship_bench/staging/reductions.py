"""Reductions at the server, beside a get of the box and NumPy.

- One variable of 1 GiB of float64 in the memory of one server: through shared memory, and over TCP
  on the loopback interface, where nothing of the server's memory is mapped.
- `get, and NumPy` gets the box into an array that is there, and computes of it what the server
  does: sum, least and greatest; a histogram of 64 bins of one width; the means of blocks of 16.
- Each result is compared with NumPy's, outside the time.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
import numpy.typing as npt

from tranship.engine import Engine
from tranship.staging import Staging

from ..harness import Bench, Variant, timed
from ..registry import measures
from .boxes import server_process

PLAIN = "get, and NumPy"
HERE = "at the server"
ROWS = 64
BINS = 64
RANGE = (-4.0, 4.0)
BLOCK = 16

Result = tuple[npt.NDArray[Any], ...]


def numpy_summary(box: npt.NDArray[Any]) -> Result:
    """Returns the sum, and the bounds."""
    return (np.array([box.sum(), box.min(), box.max()]),)


def numpy_histogram(box: npt.NDArray[Any]) -> Result:
    """Returns the counts of the bins."""
    return (np.histogram(box, BINS, RANGE)[0],)


def numpy_coarsen(box: npt.NDArray[Any]) -> Result:
    """Returns the means of blocks of a row."""
    return (box.reshape(ROWS, -1, BLOCK).mean(axis=2),)


def server_summary(client: Staging) -> Result:
    """Returns what the server says of the same."""
    found = client.summary("x", 1)
    return (np.array([found.sum, found.min, found.max]),)


def server_histogram(client: Staging) -> Result:
    """Returns the server's counts."""
    return (client.histogram("x", BINS, 1, range=RANGE)[0],)


def server_coarsen(client: Staging) -> Result:
    """Returns the server's means."""
    return (client.coarsen("x", (1, BLOCK), 1),)


KINDS: dict[str, tuple[Callable[[npt.NDArray[Any]], Result], Callable[[Staging], Result]]] = {
    "summary": (numpy_summary, server_summary),
    "histogram": (numpy_histogram, server_histogram),
    "coarsen": (numpy_coarsen, server_coarsen),
}


class Work:
    """One way to compute, and what it came to."""

    def __init__(self, compute: Callable[[], Result], expected: Result) -> None:
        self._compute = compute
        self._expected = expected
        self._found: Result = ()

    def run(self) -> None:
        """Computes."""
        self._found = self._compute()

    def forget(self) -> None:
        """Forgets the result."""
        self._found = ()

    def right(self) -> bool:
        """Returns whether it is NumPy's, but for rounding."""
        pairs = zip(self._found, self._expected, strict=True)
        return bool(self._found) and all(
            np.allclose(found, wanted, rtol=1e-9, atol=1e-9) for found, wanted in pairs
        )

    def variant(self, name: str) -> Variant:
        """Returns the variant."""
        return Variant(name, timed(self.run), self.right, self.forget)


@measures("staging-reductions", "numbers that a server reduces, beside a get and NumPy")
def staging_reductions(bench: Bench) -> None:
    """Measures shared memory, and TCP over loopback."""
    nbytes = bench.pick(1 << 30, 1 << 20)
    numbers = np.random.default_rng(1).normal(size=(ROWS, nbytes // 8 // ROWS))
    key = secrets.token_hex(32)
    server = {"TRANSHIP_KEY": key, "TRANSHIP_LISTEN": "127.0.0.1:0"}
    with ExitStack() as stack:
        contact, _ = stack.enter_context(server_process(nbytes + (64 << 20), variables=server))
        for way in ("shared memory", "TCP over loopback"):
            settings: dict[str, Any] = {} if way == "shared memory" else {"transport": "network"}
            engine = stack.enter_context(Engine(key=key, **settings))
            client = stack.enter_context(Staging(contact, engine=engine))
            if way == "shared memory":
                client.put("x", 1, numbers)
            measure(bench, way, client, numbers)


def measure(bench: Bench, way: str, client: Staging, numbers: npt.NDArray[Any]) -> None:
    """Measures all reductions of one client."""
    out = np.empty_like(numbers)

    def got() -> npt.NDArray[Any]:
        client.get("x", 1, out=out)
        return out

    for kind, (plain, here) in KINDS.items():
        expected = plain(numbers)
        ways = [
            Work(lambda plain=plain: plain(got()), expected).variant(PLAIN),  # type: ignore[misc]
            Work(lambda here=here: here(client), expected).variant(HERE),  # type: ignore[misc]
        ]
        bench.measure(f"{kind}, {way}", ways, numbers.nbytes, 5, PLAIN)
