"""A program that copies to arrays of the process of a test, with a notice behind each copy.

It copies as many times as `--copies` says: random bytes to random parts of the arrays "plain",
"shared" and, with `--gpu`, "device", each byte at most once, as `copies_of` says. It prints "ready"
first, "sent" when all events have ended, and exits when its input ends.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import tranship as ts


class Copy(NamedTuple):
    """One copy to an array of the other process."""

    array: str
    begin: int
    values: npt.NDArray[np.uint8]
    name: str


def copies_of(seed: int, count: int, room: int, arrays: list[str]) -> Iterator[Copy]:
    """Yields copies of random lengths, which write no byte twice.

    Args:
        seed: Seed of all that is random.
        count: Number of copies.
        room: Bytes of each array.
        arrays: Names of the arrays.
    """
    dice = random.Random(seed)
    begins = dict.fromkeys(arrays, 0)
    for k in range(count):
        array = dice.choice(arrays)
        length = dice.choice([0, 1, 8, 100, 4096, 8193, 70_000, 400_000])
        length = min(length + dice.randrange(9), room - begins[array])
        values = np.frombuffer(dice.randbytes(length), np.uint8)
        yield Copy(array, begins[array], values, f"copy {k}")
        begins[array] += length


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("contact")
    parser.add_argument("--own-contact")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--copies", type=int, default=0)
    parser.add_argument("--room", type=int, default=0)
    parser.add_argument("--arrays", nargs="+", default=["plain", "shared"])
    options = parser.parse_args()
    with ts.Engine(contact=options.own_contact) as engine:
        peer = engine.connect(options.contact)
        targets = {name: peer[name] for name in options.arrays}
        print("ready", flush=True)
        events = []
        for copy in copies_of(options.seed, options.copies, options.room, options.arrays):
            target = targets[copy.array][copy.begin : copy.begin + len(copy.values)]
            events.append(engine.copy(copy.values, target, notify=copy.name))
        for event in events:
            event.wait(timeout=60)
        print("sent", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
