"""Figure 9b: the objects of a get are assembled; their transfer is not simulated.

- The objects of a get put together, without what brings them: 8 MiB to 1 GiB of 8, 64 and 512
  objects; simulated.
- Follows: DataSpaces-GPU (Euro-Par'23), section 5.1 and Figure 9b.
- The paper: a kernel up to 90 times as fast as the host, concurrent launches up to 6000 times.

What is simulated: nothing but rates and launches of the profile `perlmutter-processes`, all
derived. The host is one thread that copies a line after the other (12 GB/s of `memcpy`, 80 % of it
in lines of a few KiB); the GPU copies 661 GB/s of payload, after 8.6 us for each launch. So a
kernel can be 69 times as fast at most, and 6000 times is out of reach: 1 GiB in a 6000th of the
host's time would be 58 TB/s, where an A100's memory carries 1.6 read and written. What the paper
timed there may be the launches alone. What many launches cost shows in `one by one`; several at
once hide each other's latency but for very small objects. Measured on real GPUs, with what brings
the objects: `tranship bench gpu-staging-designs`.
"""

from __future__ import annotations

from collections.abc import Callable

from ..isometry.simulated import TRANSHIP as STYLE
from ..isometry.simulated import Run, SimulatedBench
from ..registry import simulates
from .grids import Grid, cube_of
from .machine import Channels, Cluster, Place
from .transfers import ELEMENT_BYTES, vector
from .workflows import MACHINE, SYNTHETIC_BYTES

OBJECTS = (8, 64, 512)
BASELINE = "host, line by line"

Design = Callable[["Together"], float]


class Together:
    """Objects of one get, all on the GPU or all in the memory of one process.

    Args:
        machine: Machine profile.
        size: Bytes of the box that the objects fill together.
        objects: Number of objects, cut as near to cubes as possible.
    """

    def __init__(self, machine: str, size: int, objects: int) -> None:
        self.machine = machine
        self.channels = Channels(machine)
        cells = cube_of(size // ELEMENT_BYTES)
        self.boxes = Grid(cells, cube_of(objects)).boxes()
        self.place: Place = Cluster(1, 1, self.channels.apart).reader(0)

    def on_host(self) -> float:
        """Returns the seconds of one host thread that assembles the objects line by line."""
        line = self.boxes[0].shape[-1] * ELEMENT_BYTES
        count = sum(box.cells for box in self.boxes) * ELEMENT_BYTES
        return count / self.channels.line_rate(line)

    def launches(self, *, waiting: bool) -> float:
        """Returns the seconds of one launch for each object, one after the other or all at once."""
        run = Run(self.machine, STYLE, nodes=2)
        before: list[int] = []
        for box in self.boxes:
            task = self.launch(run, box.cells, before)
            before = [task] if waiting else []
        return run.finish()

    def one_launch(self) -> float:
        """Returns the seconds of one launch for all objects."""
        run = Run(self.machine, STYLE, nodes=2)
        self.launch(run, sum(box.cells for box in self.boxes), [])
        return run.finish()

    def launch(self, run: Run, cells: int, after: list[int]) -> int:
        """Adds a copy within the GPU to a run and returns its number."""
        device = self.place.device
        return run.copy((device, device), vector(cells), after=after, through=[device, device])


DESIGNS: dict[str, Design] = {
    BASELINE: Together.on_host,
    "a launch an object, one by one": lambda objects: objects.launches(waiting=True),
    "a launch an object, at once": lambda objects: objects.launches(waiting=False),
    "one launch": Together.one_launch,
}


@simulates("staging-figure9b", "objects put together, by design, simulated")
def figure9b(bench: SimulatedBench) -> None:
    """Simulates the assembly of 8 MiB to 1 GiB from 8 to 512 objects."""
    machine = bench.on(MACHINE)
    for objects in bench.pick(OBJECTS, OBJECTS[:1]):
        for size in bench.pick(SYNTHETIC_BYTES, SYNTHETIC_BYTES[:2]):
            together = Together(machine, size, objects)
            case = f"{size >> 20} MiB of {objects} objects"
            values: dict[str, float] = {"bytes_each": size, "objects": objects}
            for name, design in DESIGNS.items():
                bench.simulated(case, name, size, design(together), BASELINE, values)
