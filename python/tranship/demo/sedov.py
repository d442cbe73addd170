"""A finite-volume solver of the 3-D Euler equations, for a point explosion in one octant.

Second order: limited linear reconstruction, Hancock's half step and HLL fluxes, in sweeps along one
axis after the other, which allows three times the time step of an unsplit update. The state is one
array (5, nx + 4, ny + 4, nz + 4) of density, momentum and energy density, with two layers of ghost
cells on every side; z is the fastest dimension.

All array code takes the array module `xp` (NumPy, or anything that looks like it).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

GHOST = 2
# The order of the sweeps in successive steps: each odd step runs the even one before it backwards
# (second order in time), and six steps treat the axes alike.
SWEEPS = ((0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1), (2, 0, 1), (1, 0, 2))
# Places of the variables: (density, velocity, pressure) and (density, momentum, energy density).
DENSITY, PRESSURE, ENERGY = 0, 4, 4

# The generalised minmod limiter: 1 is the most diffusive choice, 2 the sharpest one.
LIMITER = 1.5
# A reconstructed density or pressure stays above this fraction of its cell's own.
FACE_FRACTION_MIN = 0.1
# The share of the stability limit that a time step uses.
COURANT = 0.8
# Arrays of this many bytes stay in a core's second-level cache during a sweep.
SWEEP_BYTES = 256 << 10


@dataclass(frozen=True)
class Blast:
    """The problem: a cube of `cells`^3 cells and side `side`, one octant of the full sphere.

    The total energy of the octant (the gas ahead included) is exactly an eighth of
    `sphere_energy`; what is not in the gas ahead starts inside `deposit_cells` cells of the origin.
    """

    cells: int
    side: float = 1.0
    gamma: float = 1.4
    sphere_energy: float = 1.0
    density: float = 1.0
    pressure: float = 1e-6
    deposit_cells: float = 5.0

    @property
    def spacing(self) -> float:
        """The edge of a cell."""
        return self.side / self.cells


def interior(state: Any) -> Any:
    """Returns the view of `state` without its ghost cells."""
    return state[..., GHOST:-GHOST, GHOST:-GHOST, GHOST:-GHOST]


def initial_state(blast: Blast, lower: tuple[int, ...], state: Any, xp: Any) -> None:
    """Fills `state` (ghosts too) with the gas ahead and the part of the deposit that it owns.

    `lower` is the first cell of the block in the whole grid.
    """
    ambient = blast.pressure / (blast.gamma - 1.0)
    state[...] = 0.0
    state[DENSITY] = blast.density
    state[ENERGY] = ambient
    reach = math.ceil(blast.deposit_cells)
    centres = xp.arange(reach) + 0.5
    squares = centres**2
    distance = xp.sqrt(squares[:, None, None] + squares[:, None] + squares)
    # Smooth to the edge, so that the first steps do not print the grid onto the shock.
    weights = xp.maximum(1.0 - (distance / blast.deposit_cells) ** 8, 0.0)
    deposit = blast.sphere_energy / 8.0 - ambient * blast.side**3
    corner = weights * (deposit / (float(weights.sum()) * blast.spacing**3))
    cut = tuple(slice(min(first, reach), reach) for first in lower)
    piece = corner[cut]
    target = interior(state)[ENERGY]
    if piece.size:
        shape = tuple(min(mine, ours) for mine, ours in zip(piece.shape, target.shape, strict=True))
        box = tuple(slice(0, extent) for extent in shape)
        target[box] += piece[box]


def primitives(state: Any, gamma: float, pressure_min: float, xp: Any) -> Any:
    """Returns density, velocity and pressure of conserved `state`, in an array of its shape."""
    result = xp.empty_like(state)
    result[DENSITY] = state[DENSITY]
    inverse = 1.0 / state[DENSITY]
    xp.multiply(state[1:4], inverse, out=result[1:4])
    kinetic = state[1] * result[1] + state[2] * result[2] + state[3] * result[3]
    pressure = (gamma - 1.0) * (state[ENERGY] - 0.5 * kinetic)
    xp.maximum(pressure, pressure_min, out=result[PRESSURE])
    return result


def half_slope(below: Any, above: Any, xp: Any) -> Any:
    """Returns half the limited difference over a cell, from those to its two neighbours."""
    highest = xp.minimum(below, above)
    xp.maximum(highest, 0.0, out=highest)
    highest *= 0.5 * LIMITER
    lowest = xp.maximum(below, above)
    xp.minimum(lowest, 0.0, out=lowest)
    lowest *= 0.5 * LIMITER
    slope = below + above
    slope *= 0.25
    xp.minimum(slope, highest, out=slope)
    return xp.maximum(slope, lowest, out=slope)


def half_step(cells: list[Any], slopes: list[Any], axis: int, ratio: float, gamma: float) -> Any:
    """Returns the primitive variables half a time step later (Hancock's predictor, along one axis).

    `slopes` are half slopes and `ratio` is the time step over the spacing, so that each product
    below is already half a step's change.
    """
    normal = 1 + axis
    density, speed, pressure = cells[DENSITY], cells[normal], cells[PRESSURE]
    later = []
    for variable in range(5):
        change = speed * slopes[variable]
        if variable == DENSITY:
            change += density * slopes[normal]
        elif variable == normal:
            change += slopes[PRESSURE] / density
        elif variable == PRESSURE:
            change += gamma * pressure * slopes[normal]
        change *= -ratio
        change += cells[variable]
        later.append(change)
    return later


def hll_flux(left: list[Any], right: list[Any], axis: int, gamma: float, xp: Any) -> list[Any]:
    """Returns the five fluxes through faces with primitive states `left` and `right` (HLL).

    Harten, Lax and van Leer 1983, with the wave speeds of Davis 1988. A solver that keeps contacts
    sharper makes strong shocks bulge along the grid's axes, and this flow has no contact to keep.
    """
    normal = 1 + axis
    sound_left = xp.sqrt(gamma * left[PRESSURE] / left[DENSITY])
    sound_right = xp.sqrt(gamma * right[PRESSURE] / right[DENSITY])
    slowest = xp.minimum(left[normal] - sound_left, right[normal] - sound_right)
    fastest = xp.maximum(left[normal] + sound_left, right[normal] + sound_right)
    xp.minimum(slowest, 0.0, out=slowest)
    xp.maximum(fastest, 0.0, out=fastest)
    width = 1.0 / (fastest - slowest)
    slowest *= width
    fastest *= width
    spread = slowest * fastest
    spread /= width

    states_left, fluxes_left = conserved_and_flux(left, normal, gamma)
    states_right, fluxes_right = conserved_and_flux(right, normal, gamma)
    fluxes = []
    for variable in range(5):
        flux = states_right[variable] - states_left[variable]
        flux *= spread
        flux += fastest * fluxes_left[variable]
        flux -= slowest * fluxes_right[variable]
        fluxes.append(flux)
    return fluxes


def conserved_and_flux(values: list[Any], normal: int, gamma: float) -> tuple[list[Any], list[Any]]:
    """Returns the conserved variables of primitive `values`, and their physical fluxes."""
    density, speed, pressure = values[DENSITY], values[normal], values[PRESSURE]
    momenta = [density * values[component] for component in (1, 2, 3)]
    energy = pressure / (gamma - 1.0)
    for component in (1, 2, 3):
        energy += 0.5 * momenta[component - 1] * values[component]
    through = momenta[normal - 1]
    fluxes = [through, *(through * values[component] for component in (1, 2, 3))]
    fluxes[normal] += pressure
    fluxes.append(speed * (energy + pressure))
    return [density, *momenta, energy], fluxes


class EulerBlock:
    """One block of the grid: advances the state that its caller owns, fills outer ghost cells.

    `at_origin[axis]` says that the block's lower side is a plane of symmetry of the octant, and
    `at_end[axis]` that its upper side is the end of the domain (the gas may leave there). The other
    sides' ghost cells are the caller's to fill. Not for concurrent use.
    """

    def __init__(
        self, blast: Blast, at_origin: tuple[bool, ...], at_end: tuple[bool, ...], xp: Any
    ) -> None:
        self.blast = blast
        self.at_origin = at_origin
        self.at_end = at_end
        self.xp = xp

    def primitives(self, state: Any) -> Any:
        """Returns density, velocity and pressure; vacuum does not occur, but rounding does."""
        return primitives(state, self.blast.gamma, 1e-3 * self.blast.pressure, self.xp)

    def signal_rate(self, state: Any) -> float:
        """Returns the largest (|velocity along an axis| + sound speed) / spacing, in 1/time."""
        values = self.primitives(interior(state))
        sound = self.xp.sqrt(self.blast.gamma * values[PRESSURE] / values[DENSITY])
        fastest = self.xp.abs(values[1:4]).max(axis=0) + sound
        return float(fastest.max()) / self.blast.spacing

    def fill_outer_ghosts(self, state: Any, axis: int) -> None:
        """Mirrors the plane of symmetry and extends the far side, along one axis."""
        faces = self.xp.moveaxis(state, axis + 1, 0)
        count = faces.shape[0]
        for layer in range(GHOST):
            if self.at_origin[axis]:
                faces[layer] = faces[2 * GHOST - 1 - layer]
                faces[layer, 1 + axis] *= -1.0
            if self.at_end[axis]:
                faces[count - 1 - layer] = faces[count - 1 - GHOST]

    def sweep(self, state: Any, axis: int, time_step: float) -> None:
        """Advances the interior of `state` along one axis, whose ghost cells must be filled.

        The block is swept in slabs along x, small enough for a core's cache to hold.
        """
        values = self.primitives(state)
        ratio = time_step / self.blast.spacing
        end = state.shape[1] - GHOST
        rows = end - GHOST
        if self.xp.__name__ == "numpy":
            rows = max(4, SWEEP_BYTES // int(values[0, 0].nbytes))
        overlap = GHOST if axis == 0 else 0
        for first in range(GHOST, end, rows):
            last = min(first + rows, end)
            change = self.slab_change(values[:, first - overlap : last + overlap], axis, ratio)
            inner = change[:, overlap : change.shape[1] - overlap, GHOST:-GHOST, GHOST:-GHOST]
            state[:, first:last, GHOST:-GHOST, GHOST:-GHOST] -= inner

    def slab_change(self, slab: Any, axis: int, ratio: float) -> Any:
        """Returns what one sweep takes from the conserved variables of the slab.

        Inside, the slab is one long line of cells in which the next cell along the axis lies a
        fixed stride away: every operation then runs over contiguous memory. Results in ghost cells,
        where the line wraps around, are computed and not used.
        """
        xp = self.xp
        stride = math.prod(slab.shape[axis + 2 :])
        line = slab.reshape(5, -1)
        slopes = []
        for variable in line:
            step = variable[stride:] - variable[:-stride]
            slopes.append(half_slope(step[:-stride], step[stride:], xp))
        cells = [variable[stride:-stride] for variable in line]
        later = half_step(cells, slopes, axis, ratio, self.blast.gamma)

        # Entry i is the face between cells i and i + stride of `cells`.
        left, right = [], []
        for variable in range(5):
            above = later[variable][:-stride] + slopes[variable][:-stride]
            below = later[variable][stride:] - slopes[variable][stride:]
            if variable in (DENSITY, PRESSURE):
                lowest = FACE_FRACTION_MIN * cells[variable]
                xp.maximum(above, lowest[:-stride], out=above)
                xp.maximum(below, lowest[stride:], out=below)
            left.append(above)
            right.append(below)

        change = xp.empty(slab.shape)
        used = change.reshape(5, -1)[:, 2 * stride : -2 * stride]
        for variable, flux in enumerate(hll_flux(left, right, axis, self.blast.gamma, xp)):
            xp.subtract(flux[stride:], flux[:-stride], out=used[variable])
        used *= ratio
        return change


def keep_freed_memory(xp: Any) -> None:
    """Makes glibc keep freed temporaries, instead of returning them to the system after each use.

    Its threshold follows the largest block that was freed, up to 32 MiB. Without this the page
    faults of short-lived arrays cost as much as the arithmetic on them.
    """
    xp.empty(31 << 20, dtype="u1")


def totals(blast: Blast, state: Any) -> tuple[float, float]:
    """Returns the mass and the energy inside a block."""
    inside = interior(state)
    volume = blast.spacing**3
    return float(inside[DENSITY].sum()) * volume, float(inside[ENERGY].sum()) * volume


def step_length(rate: float, remaining: float) -> float:
    """Returns the time step for the largest `signal_rate` of all blocks."""
    if not math.isfinite(rate) or rate <= 0.0:
        raise FloatingPointError(f"the fastest signal is {rate} 1/s: the state is not physical")
    return min(COURANT / rate, remaining)
