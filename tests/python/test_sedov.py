"""The demo's physics: conservation, symmetry, the exact solution, and the halo exchange."""

import json
import math
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from tranship.demo import profiles, sedov
from tranship.demo.crew import Crew, CrewError
from tranship.demo.exact import SedovSolution, energy_integral
from tranship.demo.exchange import HaloExchange
from tranship.demo.main import run
from tranship.demo.settings import Decomposition, Options, Settings


@pytest.fixture(scope="module")
def exact():
    return SedovSolution.solve(gamma=1.4)


def padded_state(blast, lower, shape):
    state = np.empty((5, *(extent + 2 * sedov.GHOST for extent in shape)))
    sedov.initial_state(blast, lower, state, np)
    return state


def run_undivided(blast, end_time, steps_max=10_000, sweeps=sedov.SWEEPS):
    state = padded_state(blast, (0, 0, 0), (blast.cells,) * 3)
    block = sedov.EulerBlock(blast, (True,) * 3, (True,) * 3, np)
    time, step = 0.0, 0
    while time < end_time and step < steps_max:
        time_step = sedov.step_length(block.signal_rate(state), end_time - time)
        for axis in sweeps[step % len(sweeps)]:
            block.fill_outer_ghosts(state, axis)
            block.sweep(state, axis, time_step)
        time += time_step
        step += 1
    return state


@pytest.fixture(scope="module")
def blast_of_32(exact):
    blast = sedov.Blast(cells=32)
    time = exact.time(0.8)
    return blast, time, run_undivided(blast, time)


def test_exact_solution_has_the_known_constant(exact):
    # The value for gamma = 1.4 is published, for one by Kamm and Timmes 2007, "On efficient
    # generation of numerically robust Sedov solutions".
    assert exact.alpha == pytest.approx(0.851072, abs=2e-6)
    assert exact.radius(1.0) == pytest.approx(1.0328, abs=1e-4)
    assert exact.time(exact.radius(0.37)) == pytest.approx(0.37, rel=1e-14)


@pytest.mark.parametrize("gamma", [1.2, 1.4, 5.0 / 3.0])
def test_exact_profiles_hold_the_energy_of_the_blast(gamma):
    solution = SedovSolution.solve(gamma, energy=1.0)
    time = 0.5
    # Energy and mass are integrated independently, from the physical profiles.
    radii = np.linspace(0.0, solution.radius(time), 200_001)
    density, velocity, pressure = solution.profiles(radii, time)
    integrand = 4 * math.pi * radii**2 * (pressure / (gamma - 1) + density * velocity**2 / 2)
    assert np.trapezoid(integrand, radii) == pytest.approx(1.0, abs=1e-5)
    mass = np.trapezoid(4 * math.pi * radii**2 * density, radii)
    assert mass == pytest.approx(4 * math.pi / 3 * solution.radius(time) ** 3, rel=1e-4)


def test_exact_solution_does_not_depend_on_its_number_of_points(exact):
    coarse = SedovSolution.solve(gamma=1.4, points=1001)
    assert coarse.alpha == pytest.approx(exact.alpha, rel=2e-5)
    assert energy_integral(exact.fractions, exact.values, 1.4) > 0


def test_shock_jump_satisfies_the_strong_shock_relations(exact):
    density, velocity, pressure = exact.profiles(exact.radius(1.0) * (1 - 1e-12), 1.0)
    front_speed = 0.4 * exact.radius(1.0)
    assert density == pytest.approx(6.0, rel=1e-6)
    assert velocity == pytest.approx(front_speed / 1.2, rel=1e-6)
    assert pressure == pytest.approx(front_speed**2 / 1.2, rel=1e-6)


@pytest.mark.parametrize("cells", [16, 32])
def test_octant_starts_with_an_eighth_of_the_energy(cells):
    blast = sedov.Blast(cells)
    mass, energy = sedov.totals(blast, padded_state(blast, (0, 0, 0), (cells,) * 3))
    assert mass == pytest.approx(1.0, rel=1e-14)
    assert energy == pytest.approx(0.125, rel=1e-13)


def test_mass_and_energy_are_conserved(blast_of_32):
    blast, _, state = blast_of_32
    mass, energy = sedov.totals(blast, state)
    # The far field is at rest until the shock arrives; the totals change only by rounding and by
    # the first precursor of the captured shock.
    assert mass == pytest.approx(1.0, rel=1e-10)
    assert energy == pytest.approx(0.125, rel=1e-10)


def test_density_and_pressure_stay_positive(blast_of_32):
    blast, _, state = blast_of_32
    values = sedov.primitives(sedov.interior(state), blast.gamma, 0.0, np)
    assert values[sedov.DENSITY].min() > 0
    assert values[sedov.PRESSURE].min() >= 0.99 * blast.pressure


def test_shock_is_where_the_exact_solution_has_it(blast_of_32, exact):
    blast, time, state = blast_of_32
    box = profiles.whole(blast.cells)
    shell = profiles.shells(blast.cells, box)
    cells = profiles.shell_sums(np.ones(shell.shape), shell, blast.cells)
    radii = profiles.shell_sums(profiles.radii(blast.cells, box), shell, blast.cells) / cells
    density = sedov.interior(state)[sedov.DENSITY]
    means = profiles.shell_sums(density, shell, blast.cells) / cells
    radius = profiles.shock_radius(radii * blast.spacing, means, blast.density)
    assert radius == pytest.approx(exact.radius(time), rel=0.04)


def test_exchanging_two_axes_and_their_sweeps_exchanges_the_result():
    blast = sedov.Blast(cells=16)
    state = run_undivided(blast, 0.1, steps_max=12)
    exchanged = {0: 1, 1: 0, 2: 2}
    sweeps = tuple(tuple(exchanged[axis] for axis in order) for order in sedov.SWEEPS)
    swapped_run = run_undivided(blast, 0.1, steps_max=12, sweeps=sweeps)
    swapped_run = swapped_run[[0, 2, 1, 3, 4]].transpose(0, 2, 1, 3)
    np.testing.assert_allclose(
        sedov.interior(state), sedov.interior(swapped_run), rtol=1e-11, atol=1e-13
    )


def test_octant_is_symmetric_to_the_splitting_error(blast_of_32):
    _, _, state = blast_of_32
    density = sedov.interior(state)[sedov.DENSITY]
    for axes in ((1, 0, 2), (2, 1, 0), (0, 2, 1)):
        assert np.abs(density - density.transpose(axes)).max() < 0.1
        assert np.abs(density - density.transpose(axes)).mean() < 2e-3


class PlainEngine:
    """An engine whose copies are assignments; its own exports stand for its peers."""

    def __init__(self):
        self.exports = {}

    def empty(self, shape, dtype):
        return np.empty(shape, dtype)

    def export(self, name, array):
        self.exports[name] = array

    def span(self, name, nbytes):
        return nullcontext()

    def copy(self, source, target, priority=0):
        assert source.shape == target.shape
        target[...] = source
        return SimpleNamespace(wait=lambda timeout: None)


@pytest.mark.parametrize("blocks", [(2, 2, 1), (1, 2, 2), (2, 1, 1)])
def test_decomposed_run_equals_the_undivided_run_bit_for_bit(blocks):
    blast, steps = sedov.Blast(cells=16), 18
    cut = Decomposition((16, 16, 16), blocks)
    engines = [PlainEngine() for _ in range(cut.count)]
    halos = []
    for rank, engine in enumerate(engines):
        state = padded_state(blast, cut.lower(rank), cut.shape)
        halos.append(HaloExchange(engine, state, state, cut, rank, timeout_s=60.0))
    for rank, halo in enumerate(halos):
        halo.connect({r: engine.exports for r, engine in enumerate(engines) if r != rank})
    solvers = []
    for rank in range(cut.count):
        place = cut.place(rank)
        at_end = tuple(p == count - 1 for p, count in zip(place, blocks, strict=True))
        solvers.append(sedov.EulerBlock(blast, tuple(p == 0 for p in place), at_end, np))

    number = 0
    for step in range(steps):
        rates = [s.signal_rate(h.state) for s, h in zip(solvers, halos, strict=True)]
        time_step = sedov.step_length(max(rates), 1.0)
        for axis in sedov.SWEEPS[step % len(sedov.SWEEPS)]:
            for halo in halos:
                halo.send(axis, number)
            for halo, solver in zip(halos, solvers, strict=True):
                halo.receive(axis, number)
                solver.fill_outer_ghosts(halo.state, axis)
                solver.sweep(halo.state, axis, time_step)
            number += 1

    whole = sedov.interior(run_undivided(blast, 1.0, steps_max=steps))
    for rank, halo in enumerate(halos):
        block = whole[(slice(None), *cut.box(rank))]
        assert np.array_equal(block.view("i8"), sedov.interior(halo.state).copy().view("i8"))


def test_late_neighbour_is_named():
    cut = Decomposition((8, 8, 8), (2, 1, 1))
    engine = PlainEngine()
    state = np.zeros((5, 8, 12, 12))
    halo = HaloExchange(engine, state, state, cut, rank=0, timeout_s=0.05)
    halo.connect({1: {**PlainEngine().exports, **engine.exports}})
    with pytest.raises(TimeoutError, match=r"'halo_signals' did not reach 0 from \[3\]"):
        halo.receive(0, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (Options(cells=30), "multiple of 4"),
        (Options(every=0), "1 or more"),
        (Options(steps=0), "1 or more"),
        (Options(time=99.0), "at most"),
    ],
)
def test_options_out_of_range_say_what_to_choose(options, message, exact):
    with pytest.raises(ValueError, match=message):
        Settings.choose(options, exact)


def test_a_small_run_verifies_every_byte_and_leaves_its_results(tmp_path, capsys):
    out = tmp_path / "out"
    assert run(Options(out=str(out), cells=16, steps=6, every=3)) == 0
    report = json.loads((out / "report.json").read_text())
    assert [row["step"] for row in report["steps"]] == [0, 3, 6]
    assert all(row["verified"] and row["bytes"] == 3 * 8 * 16**3 for row in report["steps"])
    assert all(entry["holds"] for entry in report["checks"])
    trace = json.loads((out / "trace.json").read_text())["traceEvents"]
    processes = {e["pid"]: e["args"]["name"] for e in trace if e["name"] == "process_name"}
    spans = {(processes[event["pid"]], event["name"]) for event in trace}
    assert {("simulation-3", "put energy"), ("simulation-0", "halo")} <= spans
    assert {("analysis-0", "get energy"), ("analysis-1", "get density")} <= spans
    assert {("server 0", "answer put"), ("server 1", "answer put")} <= spans
    for name in ("sedov.png", "timeline.png"):
        assert (out / name).stat().st_size > 10_000
    printed = capsys.readouterr().out
    assert "FAILED" not in printed
    assert "analysis-1 joins, and begins with what is still held" in printed
    assert "GPU: none used" in printed


def test_a_process_that_dies_ends_the_run_with_its_last_words(tmp_path):
    with Crew(tmp_path) as crew:
        crew.start("simulation", 0, str(tmp_path / "no-such-settings.json"))
        with pytest.raises(
            CrewError, match=r"simulation-0 ended with exit code 1(.|\n)*no-such-settings"
        ):
            list(crew.messages(silence_s=20.0))
    assert all(child.poll() is not None for child in crew.children.values())


def test_unphysical_state_is_an_error():
    with pytest.raises(FloatingPointError, match="not physical"):
        sedov.step_length(math.nan, 1.0)
