"""What a run of the demo is: its options, its grid, its processes and where its files lie."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

from tranship.demo.exact import SedovSolution
from tranship.demo.sedov import Blast
from tranship.errors import InvalidArgument
from tranship.files import write_text

# The run ends when the exact shock has come this far along the side of the cube.
END_RADIUS = 0.85
FIELDS = ("energy", "pressure", "density")
SERVERS = 2
SIMULATIONS = 4
ANALYSES = 2
# The last analysis starts when the first has looked at so many steps.
LATE_AFTER = 3
# How many sampled steps the servers can hold: the simulation waits when the analyses fall behind.
STEPS_HELD = 8
SERVER_BYTES_LEAST = 32 << 20


@dataclass(frozen=True)
class Options:
    """Options of a run; those of the command line have the same names."""

    out: str = "demo-out"
    cells: int = 64
    steps: int | None = None
    time: float | None = None
    every: int = 10
    figures: bool = True
    trace: bool = True


@dataclass(frozen=True)
class Settings:
    """Settings that all processes of a run share through <out>/settings.json."""

    out: str
    cells: int
    end_time: float
    steps_max: int
    every: int
    trace: bool
    # How many GPUs the simulation and the first analysis share; 0: all is in host memory.
    gpus: int = 0
    # No wait of any process lasts longer: a peer that is silent for so long is taken for dead.
    timeout_s: float = 60.0

    @classmethod
    def choose(cls, options: Options, exact: SedovSolution, gpus: int = 0) -> Settings:
        """Checks the options and fills in those that are not given.

        @error InvalidArgument if an option is out of range; the hint says what to choose.
        """
        if options.cells < 16 or options.cells % 4:
            raise InvalidArgument(
                f"--cells {options.cells} cannot be cut into blocks",
                "choose a multiple of 4 from 16 on",
            )
        if options.every < 1:
            raise InvalidArgument(f"--every {options.every} is too small", "choose 1 or more steps")
        if options.steps is not None and options.steps < 1:
            raise InvalidArgument(f"--steps {options.steps} is too small", "choose 1 or more steps")
        latest = exact.time(END_RADIUS)
        time = latest if options.time is None else options.time
        if not 0.0 < time <= latest:
            raise InvalidArgument(
                f"--time {time} is outside the simulation",
                f"choose more than 0 and at most {latest:.3f}, when the shock comes close to the "
                "end of the domain",
            )
        steps_max = options.steps if options.steps is not None else 1_000_000
        out = str(Path(options.out).resolve())
        return cls(out, options.cells, time, steps_max, options.every, options.trace, gpus)

    @classmethod
    def load(cls, path: str) -> Settings:
        """Reads what `save` wrote."""
        return cls(**json.loads(Path(path).read_text()))

    def save(self) -> str:
        """Writes the settings into the output folder and returns the file's path."""
        path = Path(self.out) / "settings.json"
        write_text(path, json.dumps(asdict(self), indent=2) + "\n")
        return str(path)

    @property
    def blast(self) -> Blast:
        """The problem to solve."""
        return Blast(self.cells)

    @property
    def server_bytes(self) -> int:
        """Bytes of objects that each staging server may hold."""
        step = len(FIELDS) * 8 * self.cells**3
        return max(SERVER_BYTES_LEAST, STEPS_HELD * step)

    def memory(self, rank: int) -> str:
        """Returns where a process keeps its fields."""
        return f"device{rank % self.gpus}" if self.gpus > 0 else "host"

    @property
    def staging(self) -> str:
        """The contact file of the staging servers."""
        return str(Path(self.out) / "contacts" / "staging")

    def contact(self, role: str, rank: int) -> str:
        """Returns the contact file of a process."""
        return str(Path(self.out) / "contacts" / f"{role}-{rank}")

    @property
    def trace_folder(self) -> str:
        """Where the processes write their traces; empty if the run has none."""
        return str(Path(self.out) / "traces") if self.trace else ""

    def reference(self, step: int, rank: int, field: str) -> Path:
        """Returns the file with what simulation `rank` held of `field` at `step`."""
        return Path(self.out) / "reference" / f"step_{step:05d}" / f"{field}-{rank}.npy"

    def decomposition(self) -> Decomposition:
        """Returns how the simulation processes cut the grid."""
        return Decomposition((self.cells,) * 3, (2, 2, 1))


@dataclass(frozen=True)
class Decomposition:
    """A grid of `cells` cut into equal blocks, one for each process; ranks count z fastest."""

    cells: tuple[int, int, int]
    blocks: tuple[int, int, int]

    @property
    def count(self) -> int:
        """The number of blocks."""
        return self.blocks[0] * self.blocks[1] * self.blocks[2]

    @property
    def shape(self) -> tuple[int, ...]:
        """The cells of one block."""
        return tuple(c // b for c, b in zip(self.cells, self.blocks, strict=True))

    def place(self, rank: int) -> tuple[int, int, int]:
        """Returns a block's position in the grid of blocks."""
        x, y, z = list(product(*(range(count) for count in self.blocks)))[rank]
        return x, y, z

    def lower(self, rank: int) -> tuple[int, ...]:
        """Returns the first cell of a block."""
        return tuple(p * extent for p, extent in zip(self.place(rank), self.shape, strict=True))

    def box(self, rank: int) -> tuple[slice, ...]:
        """Returns the cells of a block as slices of the whole grid."""
        pairs = zip(self.lower(rank), self.shape, strict=True)
        return tuple(slice(low, low + extent) for low, extent in pairs)

    def neighbour(self, rank: int, axis: int, direction: int) -> int | None:
        """Returns the rank of the next block along an axis (-1 or +1), or None at the edge."""
        place = list(self.place(rank))
        place[axis] += direction
        if not 0 <= place[axis] < self.blocks[axis]:
            return None
        return (place[0] * self.blocks[1] + place[1]) * self.blocks[2] + place[2]
