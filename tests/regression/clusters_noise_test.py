#!/usr/bin/env python3
"""Tokens on the circle with noise: M_1 against the stationary state of the steps, hysteresis, any ranks, restarts; unnormalised attention without noise."""

import contextlib
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402
from scipy.integrate import solve_ivp  # noqa: E402
from scipy.optimize import brentq  # noqa: E402
from scipy.special import ive  # noqa: E402

from program import SEVERAL_RANKS, ProgramTest, ranks_of_case, together  # noqa: E402
from page_reader import without_rendering  # noqa: E402
from python_package import call  # noqa: E402

WAVES = np.arange(1, 40)


def critical(beta, attention):
    """The noise at which an even cloud gathers."""
    return ive(1, beta) / beta / (ive(0, beta) if attention == "softmax" else 1)


def velocity_of(density, beta, attention, angles):
    """The velocity at these angles of tokens with as many shares [angle]."""
    moments = np.exp(1j * np.outer(WAVES, angles)) @ density
    waves = 2 * ive(WAVES, beta)[:, None] * moments[:, None] * np.exp(-1j * np.outer(WAVES, angles))
    slope = (-1j * WAVES[:, None] * waves).sum(axis=0).real / beta
    return slope / (ive(0, beta) + waves.sum(axis=0).real) if attention == "softmax" else slope


def order_of_steps(beta, attention, noise, step, cells=200):
    """M_1 of infinitely many tokens after many steps that turn them by atan(h V + sqrt(2 kappa h) xi): of the density of a step by that of the one before."""
    angles = 2 * np.pi * np.arange(cells) / cells
    turn = (angles[None] - angles[:, None] + np.pi) % (2 * np.pi) - np.pi
    reached = np.abs(turn) < np.pi / 2 - 1e-9
    along = np.tan(np.where(reached, turn, 0))
    density = np.exp(4 * np.cos(angles))
    density /= density.sum()
    for _ in range(3000):
        pushed = step * velocity_of(density, beta, attention, angles)
        going = np.where(reached, (1 + along**2) * np.exp(-(along - pushed[:, None])**2 / (4 * noise * step)), 0)
        new = density @ (going / going.sum(axis=1, keepdims=True))
        change = abs(new - density).max()
        density = new
        if change < 1e-10:
            return (density * np.cos(angles)).sum()
    raise AssertionError("not stationary")


def order_of_even_cloud(tokens, critical_noise, noise, step):
    """Mean |M_1| of so many tokens above the onset, by linear theory of their steps: M -> g M + noise, independent tokens have M -> c M + the same."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    spread = 1 + 2 * noise * step * nodes**2
    cosine, response = (weights @ spread**power / weights.sum() for power in (-0.5, -1.5))
    growth = cosine + step * critical_noise * response
    return np.sqrt(np.pi / 4 / tokens * (1 - cosine**2) / (1 - growth**2))


class Noise(ProgramTest):
    def noisy(self, *arguments, ranks=1, output="out.h5"):
        end = self.run_program("clusters_noise", *arguments, f"--output.file={output}", "--quiet", ranks=ranks)
        self.assertEqual(end.code, 0, end)
        return self.results(output)

    def results(self, output="out.h5"):
        with h5py.File(self.path(output)) as file:
            (attention, group), = file["analysis/clusters"].items()
            return {name: group[name][...] for name in group} | {"ratio": file["noise_ratio"][...], "branch_order": file["branch_order"][...],
                                                                 "attention": attention} | dict(file["analysis/clusters"].attrs)

    def test_the_order_is_that_of_the_steps(self):
        tokens, step = 1000, 0.1
        found = self.noisy(f"--clusters.tokens={tokens}", f"--clusters.step={step}", "--clusters.noises=0.5,2", "--clusters.settle=60", "--clusters.time=160",
                           "--clusters.seeds=1,2", "--clusters.beta=5")
        kappa = found["critical_noise"]
        self.assertEqual(found["attention"], "softmax")
        self.assertAlmostEqual(kappa, critical(5, "softmax"), delta=1e-12)
        below, above = order_of_steps(5, "softmax", 0.5 * kappa, step), order_of_even_cloud(tokens, kappa, 2 * kappa, step)
        self.assertLess(abs(below - found["order_up_theory"][0, 0]), 0.002)  # steps of weak order 1
        for way in ("up", "down"):
            order, error = found[f"order_{way}"], found[f"order_{way}_error"]
            self.assertTrue((error > 0).all())
            # Beside the statistical error: clusters of n tokens differ from those of infinitely many by some 1 / n.
            self.assertTrue((abs(order[:, 0] - below) < 4 * error[:, 0] + 2 / tokens).all(), (order, error, below))
            self.assertTrue((abs(order[:, 1] - above) < 4 * error[:, 1]).all(), (order, error, above))
            # An even cloud has N_2 = 1 / lambda_0, the cluster fewer.
            np.testing.assert_allclose(found[f"number_2_{way}"][:, 1], 1 / ive(0, 5), rtol=0.02)
            self.assertLess(found[f"number_2_{way}"][:, 0].max(), 3)
        self.assertFalse(np.array_equal(found["order_up"][0], found["order_up"][1]))  # other seeds, other noise

    def test_unnormalised_attention_has_two_answers_between_melting_and_forming(self):
        found = self.noisy("--clusters.normalisation=unnormalised", "--clusters.beta=5", "--clusters.tokens=2000", "--clusters.noises=1.08,1.5",
                           "--clusters.step=0.25", "--clusters.every=2.5", "--clusters.settle=200", "--clusters.time=100")
        self.assertEqual(found["attention"], "unnormalised")
        self.assertAlmostEqual(found["critical_noise"], critical(5, "unnormalised"), delta=1e-12)
        # The numbers of theory, to their printed digits.
        self.assertAlmostEqual(found["survival_ratio"], 1.11481, delta=1e-5)
        self.assertAlmostEqual(found["equal_ratio"], 1.09301, delta=1e-5)
        self.assertAlmostEqual(found["beta_of_jump"], 2.446918, delta=1e-6)
        order = dict(zip(np.round(found["branch_order"], 2), found["branch_ratio"][0]))
        self.assertEqual(max(order, key=order.get), 0.61)
        # The cluster lives on, at 0.77 by theory, and does not come back: barriers of some 10 kappa_s for so many tokens.
        self.assertAlmostEqual(found["order_up"][0, 0], found["order_up_theory"][0, 0], delta=0.06)
        self.assertLess(found["order_down"][0, 0], 0.3)
        self.assertLess(max(found["order_up"][0, 1], found["order_down"][0, 1]), 0.2)
        self.assertEqual(found["order_up_theory"][0, 1], 0)
        self.assertEqual(found["order_down_theory"][0].tolist(), [0, 0])

    def test_theory_at_every_noise(self):
        # 16 steps at each noise: only theory counts.
        few = ("--clusters.tokens=40", "--clusters.step=0.1", "--clusters.every=0.1", "--clusters.settle=0", "--clusters.time=1.6")
        for beta, known in ((1, (0.82692, 0.58863, 0.31590)), (5, (0.91677, 0.75740, 0.50194))):
            found = self.noisy(*few, f"--clusters.beta={beta}", "--clusters.noises=0.5,0.8,0.95,1.1", "--output.overwrite=true")
            np.testing.assert_allclose(found["order_up_theory"][0], [*known, 0], rtol=0, atol=1e-5)
            np.testing.assert_array_equal(found["order_down_theory"], found["order_up_theory"])
            self.assertEqual((found["survival_ratio"], found["equal_ratio"]), (1, 1))
        nine = [0.02, 0.05, 0.08, 0.1]
        found = self.noisy(*few, "--clusters.beta=9", f"--clusters.noises={','.join(repr(noise / critical(9, 'softmax')) for noise in nine)}",
                           "--output.overwrite=true")
        self.assertEqual(found["fastest_wave"][0].tolist(), [3, 2, 2, 1])

    def test_any_ranks_give_the_same_numbers(self):
        runs = {}
        small = ("--clusters.tokens=301", "--clusters.noises=0.5,1.5", "--clusters.step=0.1", "--clusters.every=0.1", "--clusters.settle=0.2",
                 "--clusters.time=1.6", "--clusters.seeds=3,4")
        settings = {f"{attention}{ranks}": (attention, ranks) for attention in ("softmax", "unnormalised") for ranks in (1, *SEVERAL_RANKS)}
        together([lambda name=name, attention=attention, ranks=ranks: runs.update(
            {name: self.noisy(*small, f"--clusters.normalisation={attention}", ranks=ranks, output=f"{name}.h5")})
            for name, (attention, ranks) in settings.items()])
        for name, (attention, _) in settings.items():
            for measure in ("order_up", "order_down", "number_2_up", "number_2_down"):
                # 72 steps, each of which adds sums in the order of the ranks.
                np.testing.assert_allclose(runs[name][measure], runs[f"{attention}1"][measure], rtol=0, atol=72e-12, err_msg=(name, measure))

    def test_fewer_tokens_than_ranks(self):
        few = ("--clusters.tokens=2", "--clusters.noises=0.5", "--clusters.step=0.1", "--clusters.every=0.1", "--clusters.settle=0", "--clusters.time=1.6")
        one, three = self.noisy(*few), self.noisy(*few, ranks=3, output="three.h5")
        np.testing.assert_allclose(three["order_down"], one["order_down"], rtol=0, atol=1e-10)

    def test_a_run_that_is_stopped_ends_with_the_bits_of_an_undisturbed_one(self):
        run = ("clusters_noise", "--clusters.tokens=40", "--clusters.noises=0.5,1.2", "--clusters.step=0.1", "--clusters.every=0.1", "--clusters.settle=0.2",
               "--clusters.time=1.6", "--clusters.seeds=1,2", "--quiet", "--checkpoint.restart=auto")
        whole = self.run_program(*run, "--output.file=whole.h5", ranks=3)
        self.assertEqual(whole.code, 0, whole)
        for stops in range(1, 6):
            end = self.run_program(*run, "--output.file=out.h5", "--run.time_limit=1e-6", ranks=3)
            self.assertEqual(end.code, 4, end)
            with h5py.File(self.path("out.checkpoint.h5")) as file:
                self.assertEqual(file["state/measured"].shape, (2 * stops,))  # |M_1| and N_2 of one interval more
                self.assertEqual(file["state/angles"].shape, (40,))
        self.assertEqual(self.run_program(*run, "--output.file=out.h5", ranks=3).code, 0)
        first, second = self.results("whole.h5"), self.results("out.h5")
        for name in set(first) - {"seconds", "created"}:
            np.testing.assert_array_equal(first[name], second[name], err_msg=name)

    def test_figure_table_and_page(self):
        few = ("--clusters.tokens=40", "--clusters.step=0.1", "--clusters.every=0.1", "--clusters.settle=0", "--clusters.time=1.6")
        for attention, noises in (("softmax", "0.5"), ("unnormalised", "0.7,1,1.05,1.2")):
            self.noisy(*few, f"--clusters.normalisation={attention}", f"--clusters.noises={noises}", "--output.overwrite=true")
            with without_rendering() if attention == "softmax" else contextlib.nullcontext():
                end = call("report", self.path("out.h5"), "--output", self.path(f"report-{attention}"))
            self.assertEqual(end.returncode, 0, end.stderr)
            with open(self.path(f"report-{attention}/report.html"), encoding="utf-8") as page:
                self.assertEqual(page.read().count("<svg"), 1)
            self.assertEqual(call("view", self.path("out.h5"), "--output", self.path("page.html")).returncode, 0)
        with open(self.path("report-unnormalised/tables.md"), encoding="utf-8") as file:
            self.assertIn("0.82548", file.read())

    def test_what_cannot_be_is_refused(self):
        for number, (part, *arguments) in enumerate((
                ("clusters.beta", "--clusters.beta=0"), ("clusters.beta", "--clusters.beta=200"), ("clusters.noises", "--clusters.noises=1,0.5"),
                ("clusters.noises", "--clusters.noises=0.5,0.5"), ("clusters.noises", "--clusters.noises=0"), ("clusters.tokens", "--clusters.tokens=1"),
                ("clusters.step", "--clusters.beta=1", "--clusters.step=0.2", "--clusters.noises=0.5,1.2"),  # 0.107
                ("clusters.every", "--clusters.every=0.12"), ("clusters.every", "--clusters.every=0.01"), ("clusters.settle", "--clusters.settle=0.5"),
                ("clusters.time", "--clusters.time=10.5"), ("clusters.time", "--clusters.time=15"), ("clusters.every", "--clusters.time=900000"),
                ("clusters.normalisation", "--clusters.normalisation=mean"), ("clusters.tolerance", "--clusters.tolerance=1e-8"),
                ("clusters.reduce", "--clusters.reduce=true"))):
            for ranks in ranks_of_case(number):
                self.assert_refused(self.run_program("clusters_noise", *arguments, "--output.file=out.h5", ranks=ranks), part)


class UnnormalisedCircle(ProgramTest):
    """`clusters_circle` with unnormalised attention."""

    def ring(self, *arguments, output="out.h5"):
        end = self.run_program("clusters_circle", "--clusters.normalisation=unnormalised", "--clusters.start=ring", "--clusters.beta=5", *arguments,
                               f"--output.file={output}", "--quiet")
        self.assertEqual(end.code, 0, end)
        with h5py.File(self.path(output)) as file:
            group = file["analysis/clusters/unnormalised"]
            return {name: group[name][0] for name in group} | {"time": file["time"][...]} | dict(file["analysis/clusters"].attrs)

    @staticmethod
    def pulls(angles):
        """Velocities, and the mean k, by all pairs."""
        apart = angles[None] - angles[:, None]
        kernel = np.exp(-2 * 5 * np.sin(apart / 2) ** 2)
        return (kernel * np.sin(apart)).mean(axis=1), kernel.mean()

    def test_tokens_and_density_obey_their_equation(self):
        settings = ("--clusters.time=12", "--clusters.every=4")
        tokens = self.ring(*settings, "--clusters.tokens=128", "--clusters.tolerance=1e-13")
        density = self.ring(*settings, "--clusters.solver=density", output="density.h5")
        even = 2 * np.pi * (np.arange(128) + 0.5) / 128
        start = [brentq(lambda theta, one=one: theta + 0.05 / 3 * np.sin(3 * theta) - one, one - 1, one + 1, xtol=1e-15) for one in even]
        solved = solve_ivp(lambda _, angles: self.pulls(angles)[0], (0, 12), start, method="DOP853", t_eval=tokens["time"], rtol=1e-13, atol=1e-13)
        moments = abs(np.exp(3j * solved.y).mean(axis=0))
        np.testing.assert_allclose(tokens["moment"][:, 2], moments, rtol=0, atol=2e-11)
        np.testing.assert_allclose(density["moment"][:, 2], moments, rtol=0, atol=2e-11)
        velocities, means = zip(*(self.pulls(angles) for angles in solved.y.T))
        for found in (tokens, density):
            np.testing.assert_allclose(found["number_2"], 1 / np.array(means), rtol=0, atol=1e-9)
            np.testing.assert_allclose(found["dissipation"], (np.array(velocities)**2).mean(axis=1), rtol=0, atol=1e-10)  # dE/dt = mean |dx/dt|^2

    def test_small_waves_grow_as_linear_theory_says(self):
        found = self.ring("--clusters.time=20", "--clusters.every=4", "--clusters.amplitude=1e-5", "--clusters.tokens=64", "--clusters.tolerance=1e-13")
        self.assertAlmostEqual(found["wave_rate_theory"], 9 * ive(3, 5) / 5, delta=1e-12)
        # Beyond linear theory: the square of the size.
        self.assertAlmostEqual(found["wave_rate"], found["wave_rate_theory"], delta=1e-6)
        # Two opposite clusters leave their places 2 / (1 + k(pi)) times more slowly.
        self.assertAlmostEqual(found["ring_lifetime"][1] / np.exp(10), 1, delta=1e-9)


if __name__ == "__main__":
    unittest.main()
