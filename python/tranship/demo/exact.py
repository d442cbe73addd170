"""The exact solution of a point explosion in a cold gas at rest, to judge the demo's numbers by.

Sedov 1959, "Similarity and Dimensional Methods in Mechanics"; Landau and Lifshitz, "Fluid
Mechanics", section 106. The shock is a sphere of radius R with energy t^2 = alpha density R^5, and
every profile is a function of r / R alone. The functions come from integrating the similarity
equations inward from the shock; alpha comes from the condition that the energy is conserved.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

# Below this fraction of the radius the asymptotic forms are used: integrating further inward
# amplifies rounding as (r / R)^-2, while the asymptotic forms only get better.
ASYMPTOTIC_BELOW = 0.02


def similarity_derivatives(fraction: float, values: Any, gamma: float) -> Any:
    """Returns d/d(r/R) of (density, velocity, pressure), in units of the gas ahead and of dR/dt.

    The Euler equations of a sphere with d2R/dt2 = -3/2 (dR/dt)^2 / R, solved for the derivatives.
    """
    density, velocity, pressure = values
    relative = velocity - fraction
    cooling = 3.0 - 2.0 * gamma * velocity / fraction
    velocity_slope = (1.5 * velocity * relative - pressure / density * cooling) / (
        relative**2 - gamma * pressure / density
    )
    density_slope = -density * (velocity_slope + 2.0 * velocity / fraction) / relative
    pressure_slope = pressure * (3.0 / relative + gamma * density_slope / density)
    return np.array([density_slope, velocity_slope, pressure_slope])


def integrate_inward(gamma: float, points: int) -> tuple[Any, Any]:
    """Returns `points` fractions r / R from ASYMPTOTIC_BELOW to 1, and the three profiles there.

    Classical Runge-Kutta of fourth order, from the strong-shock jump conditions at r = R.
    """
    fractions = np.linspace(1.0, ASYMPTOTIC_BELOW, points)
    step = float(fractions[1] - fractions[0])
    values = np.empty((points, 3))
    values[0] = [(gamma + 1) / (gamma - 1), 2 / (gamma + 1), 2 / (gamma + 1)]
    for index in range(points - 1):
        here, now = float(fractions[index]), values[index]
        first = similarity_derivatives(here, now, gamma)
        second = similarity_derivatives(here + step / 2, now + step / 2 * first, gamma)
        third = similarity_derivatives(here + step / 2, now + step / 2 * second, gamma)
        fourth = similarity_derivatives(here + step, now + step * third, gamma)
        values[index + 1] = now + step / 6 * (first + 2 * second + 2 * third + fourth)
    return fractions[::-1].copy(), values[::-1].copy()


def energy_integral(fractions: Any, values: Any, gamma: float) -> float:
    """Returns the energy of the full sphere in units of density R^3 (dR/dt)^2."""
    density, velocity, pressure = values.T
    shells = 4 * math.pi * fractions**2
    integrand = shells * (pressure / (gamma - 1) + density * velocity**2 / 2)
    # The ball inside the first point holds pressure only, and that pressure is uniform.
    centre = 4 * math.pi / 3 * fractions[0] ** 3 * pressure[0] / (gamma - 1)
    return float(np.trapezoid(integrand, fractions) + centre)


@dataclass(frozen=True)
class SedovSolution:
    """The blast of `energy` (of the full sphere) in a gas of `density`; make it with `solve`."""

    gamma: float
    energy: float
    density: float
    alpha: float
    fractions: Any
    values: Any

    @classmethod
    def solve(
        cls, gamma: float, energy: float = 1.0, density: float = 1.0, points: int = 4001
    ) -> SedovSolution:
        """Integrates the similarity equations once; takes about 0.1 s."""
        fractions, values = integrate_inward(gamma, points)
        # energy = integral * density R^3 (dR/dt)^2 and dR/dt = 2 R / (5 t),
        # so energy t^2 = alpha density R^5.
        alpha = 4.0 / 25.0 * energy_integral(fractions, values, gamma)
        return cls(gamma, energy, density, alpha, fractions, values)

    def radius(self, time: float) -> float:
        """Returns the radius of the shock at `time`."""
        return float((self.energy * time**2 / (self.alpha * self.density)) ** 0.2)

    def time(self, radius: float) -> float:
        """Returns the time at which the shock reaches `radius`."""
        return math.sqrt(self.alpha * self.density * radius**5 / self.energy)

    def profiles(self, radii: Any, time: float) -> tuple[Any, Any, Any]:
        """Returns density, velocity and pressure at `radii` (the gas ahead is cold and at rest)."""
        front = self.radius(time)
        front_speed = 0.4 * front / time
        fractions = np.asarray(radii, dtype=float) / front
        inside = fractions <= 1.0
        inner = np.minimum(fractions / self.fractions[0], 1.0)
        density, velocity, pressure = (
            np.interp(fractions, self.fractions, column) for column in self.values.T
        )
        # Towards the centre: pressure uniform, velocity linear, density as a power of the radius.
        density = density * inner ** (3.0 / (self.gamma - 1.0))
        velocity = velocity * inner
        return (
            self.density * np.where(inside, density, 1.0),
            front_speed * np.where(inside, velocity, 0.0),
            self.density * front_speed**2 * np.where(inside, pressure, 0.0),
        )
