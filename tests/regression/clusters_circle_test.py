#!/usr/bin/env python3
"""Tokens on the circle, and densities of them: counts, energies, rates, lifetimes and reductions against oracles and closed forms, on any ranks;
restarts, figures, and what is refused."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402
from scipy.integrate import solve_ivp  # noqa: E402
from scipy.optimize import brentq  # noqa: E402
from scipy.special import exp1, expi  # noqa: E402

from program import ROOT, SEVERAL_RANKS, ProgramTest, ranks_of_case, together  # noqa: E402
from python_package import call  # noqa: E402
from clusters_runs import assert_energy_is_dissipation_integrated, stopped_again_and_again  # noqa: E402


def start_of_ring(tokens, waves, amplitude):
    """Quantiles of 1 + amplitude cos(waves theta), in radians."""
    even = 2 * np.pi * (np.arange(tokens) + 0.5) / tokens
    return np.array([brentq(lambda theta, one=one: theta + amplitude / waves * np.sin(waves * theta) - one, one - 1, one + 1, xtol=1e-15) for one in even])


def moments_of_ring(tokens, beta, waves, amplitude, times):
    """|M_waves| of tokens on a ring at these times, by sums over all pairs."""
    def rate(_, angle):
        apart = angle[None] - angle[:, None]
        pull = np.exp(-2 * beta * np.sin(apart / 2) ** 2)
        return (pull * np.sin(apart)).sum(axis=1) / pull.sum(axis=1)

    solved = solve_ivp(rate, (0, times[-1]), start_of_ring(tokens, waves, amplitude), method="DOP853", t_eval=times, rtol=1e-13, atol=1e-13)
    return abs(np.exp(1j * waves * solved.y).mean(axis=0))


def gap_of_two(beta, amplitude, times):
    """The angle between two equal clusters that a ring of one wave has brought near each other, at these times, and when it is delta = 0.3 / sqrt(beta);
    by the closed form dF/dt = 1 of the cosine of the angle."""
    def closed(gap):
        near, far = 2 * np.sin(gap / 2) ** 2, 2 * np.cos(gap / 2) ** 2  # 1 - cos, 1 + cos
        return (-expi(beta * near) - np.log(near) - np.exp(2 * beta) * exp1(beta * far) + np.log(far)) / 4

    first, last = start_of_ring(2, 1, amplitude)
    start = closed(min(last - first, 2 * np.pi - (last - first)))
    # A gap of 1e-7 is as good as none.
    gaps = [brentq(lambda gap, time=time: closed(gap) - start - time, 1e-7, np.pi - 1e-7, xtol=1e-14) if time < closed(1e-7) - start else 0.0
            for time in times]
    return np.array(gaps), closed(0.3 / np.sqrt(beta)) - start


class Circle(ProgramTest):
    SMALL = ("--clusters.tokens=2000", "--clusters.beta=5", "--clusters.time=20", "--clusters.seeds=1,2")

    def small(self, *arguments):
        """The settings of a small run with some others."""
        given = {argument.split("=")[0] for argument in arguments}
        return [*(one for one in self.SMALL if one.split("=")[0] not in given), *arguments]

    def gathered(self, *arguments, ranks=1, output="out.h5"):
        end = self.run_program("clusters_circle", *self.small(*arguments), f"--output.file={output}", "--quiet", ranks=ranks)
        self.assertEqual(end.code, 0, end)
        with h5py.File(self.path(output)) as file:
            group = file["analysis/clusters/softmax"]
            return {name: group[name][...] for name in group} | {"time": file["time"][...]} | dict(file["analysis/clusters"].attrs)

    def test_random_tokens_gather_and_counts_are_the_same_on_any_ranks(self):
        runs = {}
        together([lambda n=ranks: runs.update({n: self.gathered(ranks=n, output=f"out{n}.h5")}) for ranks in (1, *SEVERAL_RANKS)])
        one = runs[1]
        for ranks in SEVERAL_RANKS:
            for name in ("number", "components", "compact_share", "moving", "mass", "density", "merged_by"):
                np.testing.assert_array_equal(runs[ranks][name], one[name], err_msg=name)
            for name in ("number_2", "number_1", "energy", "dissipation", "moment"):
                # Sums are added in the order of the ranks; their roundings grow by some 1e4 while clusters form.
                np.testing.assert_allclose(runs[ranks][name], one[name], rtol=0, atol=1e-8, err_msg=name)
        self.assertTrue(set(one["number"][:, -1]) <= {1, 2, 3}, one["number"][:, -1])  # three waves grow fastest
        self.assertTrue(np.isnan(one["number"][:, 0]).all())  # an even cloud is no cluster
        self.assertEqual(one["components"][:, 0].tolist(), [1, 1])
        np.testing.assert_allclose(one["number_2"][:, 0], 5.448379, rtol=0.02)  # of an even circle, but for n^-1/2
        self.assertLessEqual(np.diff(one["number_2"], axis=1).max(), 1e-9)  # E never falls
        np.testing.assert_allclose(one["number_2"] * 2 * 5 * one["energy"], 1, rtol=1e-12)
        np.testing.assert_allclose(one["mass"].sum(axis=2), np.isfinite(one["number"]), rtol=1e-12)
        self.assertEqual(np.count_nonzero(one["mass"], axis=2).tolist(), np.nan_to_num(one["number"]).tolist())
        self.assertTrue((one["moving"] == 2000).all())  # all of them: they are not reduced
        np.testing.assert_allclose(one["density"].sum(axis=2), 1, rtol=1e-12)
        self.assertEqual((one["fastest_wave"], one["tokens"]), (3, 2000))
        self.assertAlmostEqual(one["wave_rate_theory"], 0.682678, delta=1e-6)
        self.assertEqual(one["followed_wave"], 3)
        np.testing.assert_allclose(one["ring_lifetime"][:, 2], 141.9641, rtol=0, atol=1e-3)
        self.assertTrue(np.isnan(one["ring_lifetime"][:, 0]).all())

    def test_energy_gained_is_dissipation_integrated(self):
        # Until the first clusters have formed.
        found = self.gathered("--clusters.every=0.05", "--clusters.time=12", "--clusters.tolerance=1e-11", "--clusters.seeds=1")
        self.assertGreater(found["energy"][0, -1], 1.5 * found["energy"][0, 0])
        assert_energy_is_dissipation_integrated(found, 1e-9)

    def test_many_tokens_grow_as_linear_theory_says(self):
        found = self.gathered("--clusters.tokens=100000", "--clusters.time=7", "--clusters.seeds=1")
        # |M| is from 3 n^-1/2 on its own way: other waves of the noise bend it by 1 % of the rate (root mean square over 400 starts), by a tenth in one of 400.
        np.testing.assert_allclose(found["wave_rate"], 0.682678, rtol=0.1)

    def test_reduced_runs_are_those_of_all_tokens(self):
        settings = ("--clusters.tokens=300", "--clusters.time=60", "--clusters.every=2", "--clusters.tolerance=1e-11", "--clusters.seeds=1")
        runs = {}
        together([lambda: runs.update(whole=self.gathered(*settings, output="whole.h5")),
                  *(lambda n=ranks: runs.update({n: self.gathered(*settings, "--clusters.reduce=true", ranks=n, output=f"reduced{n}.h5")})
                    for ranks in (1, *SEVERAL_RANKS))])
        whole, one = runs["whole"], runs[1]
        self.assertTrue((one["moving"][:, 0] == 300).all())
        self.assertTrue((one["moving"][:, -1] <= 3).all(), one["moving"])  # reduced
        self.assertTrue((np.diff(one["moving"], axis=1) <= 0).all())
        for name in ("number", "components", "compact_share", "formed", "merged_after", "merged_by"):
            np.testing.assert_array_equal(one[name], whole[name], err_msg=name)
            for ranks in SEVERAL_RANKS:
                np.testing.assert_array_equal(runs[ranks][name], one[name], err_msg=name)
        # Points have diameters up to 1e-9, and numbers like these derivatives up to beta.
        for name, bound in (("number_2", 1e-7), ("number_1", 1e-7), ("moment", 1e-8), ("mass", 1e-12)):
            np.testing.assert_allclose(one[name], whole[name], rtol=0, atol=bound, err_msg=name)
        for ranks in SEVERAL_RANKS:
            np.testing.assert_array_equal(runs[ranks]["moving"], one["moving"])

    def ring(self, *arguments, ranks=1, output="out.h5"):
        """The only start of a ring: its results by name, without the axis of seeds."""
        end = self.run_program("clusters_circle", "--clusters.start=ring", *arguments, f"--output.file={output}", "--output.overwrite=true", "--quiet",
                               ranks=ranks)
        self.assertEqual(end.code, 0, end)
        with h5py.File(self.path(output)) as file:
            group = file["analysis/clusters/softmax"]
            return {name: group[name][0] for name in group} | {"time": file["time"][...], "words": end.out + end.err} | dict(file["analysis/clusters"].attrs)

    def test_tokens_and_density_on_a_ring_obey_their_equation(self):
        settings = ("--clusters.beta=5", "--clusters.time=5", "--clusters.every=1")
        runs = {}
        together([lambda n=ranks: runs.update({n: self.ring(*settings, "--clusters.tokens=256", "--clusters.tolerance=1e-13", ranks=n,
                                                            output=f"tokens{n}.h5")}) for ranks in (1, 3)]
                 + [lambda n=ranks: runs.update({-n: self.ring(*settings, "--clusters.solver=density", ranks=n, output=f"density{n}.h5")}) for ranks in (1, 2)])
        tokens, density = runs[1], runs[-1]
        for name in ("number_2", "number_1", "energy", "dissipation", "moment", "density", "wave_rate"):
            self.assertEqual(runs[-2][name].tobytes(), density[name].tobytes(), name)  # one rank computes it
            np.testing.assert_allclose(runs[3][name], tokens[name], rtol=0, atol=1e-11, err_msg=name)
        size = tokens["moment"][:, 2]
        np.testing.assert_allclose(size[[1, 3, 5]], [0.0494548, 0.1909562, 0.6184104], rtol=0, atol=5e-8)
        # An integrator and sums over all pairs of its own.
        np.testing.assert_allclose(size, moments_of_ring(256, 5, 3, 0.05, tokens["time"]), rtol=0, atol=2e-11)
        np.testing.assert_allclose(size, density["moment"][:, 2], rtol=0, atol=2e-11)
        for name, bound in (("number_2", 1e-9), ("number_1", 1e-9), ("energy", 1e-10), ("dissipation", 1e-9)):
            np.testing.assert_allclose(tokens[name], density[name], rtol=0, atol=bound, err_msg=name)
        np.testing.assert_allclose(density["density"].sum(axis=1), 1, rtol=1e-12)
        self.assertTrue(np.isnan(density["unresolved"]))
        self.assertTrue({"number", "mass", "merged_by", "tokens"}.isdisjoint(density))

    def test_small_waves_of_tokens_and_density_grow_as_linear_theory_says(self):
        # Stored times this close make steps whose errors are far below the tolerance, the least of which is 1e-7 of the amplitude.
        settings = ("--clusters.beta=5", "--clusters.time=5", "--clusters.every=0.1", "--clusters.amplitude=1e-6")
        # On a ring of few tokens the kernel mixes waves that look the same: the theory is that of rings.
        starts = {"density": ("--clusters.solver=density",), "many": ("--clusters.tokens=64", "--clusters.tolerance=1e-13"),
                  "few": ("--clusters.tokens=7", "--clusters.tolerance=1e-13")}
        runs = {}
        together([lambda name=name, start=start: runs.update({name: self.ring(*settings, *start, output=f"{name}.h5")}) for name, start in starts.items()])
        for name, found in runs.items():
            # Beyond linear theory: the square of the size, 2e-5 at the end. Roundings of angles: 4e-16 over the size of 5e-7 at the start.
            self.assertAlmostEqual(found["wave_rate"] / found["wave_rate_theory"], 1, delta=1e-8, msg=name)
        self.assertNotAlmostEqual(runs["few"]["wave_rate"], 0.682678, delta=1e-3)

    def test_tokens_of_a_file_move_as_those_of_a_ring(self):
        angles = start_of_ring(30, 3, 0.05)
        with h5py.File(self.path("ring.h5"), "w") as file:
            file["features"] = 2 * np.stack([np.cos(angles), np.sin(angles)], axis=1)[None]  # of length 2
        common = ("--clusters.beta=5", "--clusters.time=4", "--clusters.tolerance=1e-10")
        ring = self.ring(*common, "--clusters.tokens=30", output="ring-out.h5")
        end = self.run_program("clusters_circle", *common, "--clusters.start=file", "--data.file=ring.h5", "--output.file=out.h5", "--quiet", ranks=2)
        self.assertEqual(end.code, 0, end)
        with h5py.File(self.path("out.h5")) as file:
            # Roundings of the angles grow by e^{0.68 t}.
            np.testing.assert_allclose(file["analysis/clusters/softmax/moment"][0, :, 2], ring["moment"][:, 2], rtol=0, atol=1e-9)

    def test_a_density_ends_where_it_is_unresolved(self):
        runs = {}
        cases = {"found": ("--clusters.beta=5", "--clusters.time=20", "--clusters.every=0.5", "--clusters.coefficients=256"),
                 "more": ("--clusters.beta=5", "--clusters.time=20", "--clusters.coefficients=1024"),
                 "eight": ("--clusters.waves=8", "--clusters.beta=40", "--clusters.time=12")}
        together([lambda name=name, case=case: runs.update({name: self.ring("--clusters.solver=density", *case, output=f"{name}.h5")})
                  for name, case in cases.items()])
        found, more, eight = (runs[name] for name in cases)
        self.assertTrue(5 < found["unresolved"] < 8, found["unresolved"])
        resolved = found["time"] < found["unresolved"]
        for name in ("number_2", "moment", "density", "dissipation"):
            self.assertTrue(np.isfinite(found[name][resolved]).all(), name)
            self.assertTrue(np.isnan(found[name][~resolved]).all(), name)
        self.assertIn("unresolved", found["words"])
        self.assertLessEqual(np.diff(found["number_2"][resolved]).max(), 1e-9)
        self.assertGreater(more["unresolved"], found["unresolved"])
        # Only multiples of 8 are not 0, and none of them is among the last six of 256. The moments of a density are at most 1.
        self.assertLess(eight["unresolved"], 12)
        self.assertLessEqual(np.nanmax(eight["moment"]), 1)

    def test_rings_of_clusters_live_as_long_as_theory_says(self):
        cases = ((5, 3, 1, 141.9641), (9, 4, 2, 225.1412), (20, 6, 3, 379.8011), (9, 3, 1, 33536.477), (9, 2, 1, 3.282998507e7))
        found = [None] * len(cases)

        def live(number, beta, clusters, wave, lifetime):
            found[number] = self.ring(f"--clusters.beta={beta}", f"--clusters.tokens={clusters}", f"--clusters.waves={wave}", "--clusters.amplitude=1e-6",
                                      f"--clusters.time={lifetime}", f"--clusters.every={lifetime / 10}", "--clusters.tolerance=1e-13",
                                      output=f"ring{number}.h5")

        together([lambda number=number, case=case: live(number, *case) for number, case in enumerate(cases)])
        for (beta, clusters, wave, lifetime), one in zip(cases, found):
            # Beyond linear theory: the amplitude times 6 or less; errors of the steps over the amplitude.
            self.assertAlmostEqual(one["wave_rate"] * lifetime, 1, delta=2e-5, msg=(beta, clusters))
            self.assertAlmostEqual(one["wave_rate_theory"] * lifetime, 1, delta=2e-7)
            self.assertAlmostEqual(one["ring_lifetime"][clusters - 1] / lifetime, 1, delta=2e-7)
            self.assertTrue((one["number"] == clusters).all())

    def test_two_opposite_clusters_merge_after_a_time_like_exp_2_beta(self):
        beta, amplitude = 9, 0.01
        found = self.ring(f"--clusters.beta={beta}", "--clusters.tokens=2", "--clusters.waves=1", f"--clusters.amplitude={amplitude}",
                          "--clusters.reduce=true", "--clusters.time=1e9", "--clusters.every=2e6", "--clusters.stretch=1.2", "--clusters.tolerance=1e-12")
        gap, merged = gap_of_two(beta, amplitude, found["time"])
        np.testing.assert_allclose(found["moment"][:, 0], np.cos(gap / 2), rtol=0, atol=1e-6)
        self.assertGreater(merged, np.exp(2 * beta))
        self.assertLess(found["merged_after"][1], merged)
        self.assertGreaterEqual(found["merged_by"][1], merged)
        np.testing.assert_array_equal(found["number"], np.where(found["time"] <= found["merged_after"][1], 2, 1))
        np.testing.assert_array_equal(found["moving"][[0, -1]], [2, 1])
        np.testing.assert_array_equal(found["mass"][[0, -1], :3], [[0.5, 0.5, 0], [1, 0, 0]])

    def test_a_run_that_is_stopped_again_and_again_ends_with_the_bits_of_an_undisturbed_one(self):
        settings = self.small("--clusters.tokens=40", "--clusters.time=1000", "--clusters.every=20", "--clusters.stretch=2", "--clusters.reduce=true",
                              "--clusters.seeds=2")
        moving = stopped_again_and_again(self, "clusters_circle", settings, ranks=2)
        self.assertTrue(40 in moving and min(moving) <= 3, moving)  # before and after a reduction
        stopped_again_and_again(self, "clusters_circle", ("--clusters.solver=density", "--clusters.start=ring", "--clusters.beta=5", "--clusters.time=7",
                                                          "--clusters.every=1.5", "--clusters.coefficients=64"), ranks=2, name="density")

    def test_figures_table_and_page(self):
        self.gathered("--clusters.seeds=2")  # none of whose clusters merge
        self.gathered("--clusters.tokens=12", "--clusters.reduce=true", "--clusters.time=1e5", "--clusters.stretch=1.2", output="merged.h5")
        self.ring("--clusters.solver=density", "--clusters.beta=5", "--clusters.time=12", output="density.h5")
        for name, figures in (("out", 2), ("merged", 3), ("density", 2)):
            end = call("report", self.path(f"{name}.h5"), "--output", self.path(f"report-{name}"))
            self.assertEqual(end.returncode, 0, end.stderr)
            with open(self.path(f"report-{name}/report.html"), encoding="utf-8") as page:
                self.assertEqual(page.read().count("<svg"), figures, name)
        self.assertEqual(call("view", *(self.path(f"{name}.h5") for name in ("out", "merged", "density")), "--output", self.path("page.html")).returncode, 0)

    def test_formation_times_rise_with_the_number_of_tokens(self):
        deck, files, seeds = os.path.join(ROOT, "input", "clusters", "formation.ini"), [], 16
        mean, beyond = [], []  # of the times at which |M_3| is 0.1, and less those at which it would be if it grew at its rate from its start
        for tokens in (1000, 8000):
            files.append(self.path(f"formation_{tokens}.h5"))
            end = self.run_program("clusters_circle", deck, f"--clusters.tokens={tokens}", f"--clusters.seeds={','.join(map(str, range(1, seeds + 1)))}",
                                   "--clusters.time=11", "--clusters.tolerance=1e-5", "--quiet", f"--output.file={files[-1]}")
            self.assertEqual(end.code, 0, end)
            with h5py.File(files[-1]) as file:
                time, size = file["time"][...], file["analysis/clusters/softmax/moment"][:, :, 2]
                rate = file["analysis/clusters"].attrs["wave_rate_theory"]
            self.assertEqual(len(size), seeds)
            self.assertAlmostEqual(1 / (2 * rate), 0.732409, delta=1e-6)  # as the deck says
            self.assertTrue(((size[:, 0] < 0.1) & (size.max(axis=1) > 0.1)).all())
            first = (size >= 0.1).argmax(axis=1)
            reached = np.array([np.interp(np.log(0.1), np.log(one[k - 1:k + 1]), time[k - 1:k + 1]) for one, k in zip(size, first)])
            mean.append(reached.mean())
            beyond.append(reached - np.log(0.1 / size[:, 0]) / rate)
        # A time scatters by pi / (sqrt(24) rate) over starts, whatever n is: |M|^2 of random tokens has an exponential distribution.
        error = np.pi / (np.sqrt(24) * rate) * np.sqrt(2 / seeds) / np.log(8)
        slope = (mean[1] - mean[0]) / np.log(8)
        self.assertGreater(slope, 0)
        self.assertAlmostEqual(slope, 0.732409, delta=4 * error)
        # Less the time that linear theory gives each start, times scatter far less: what other waves add on the way is small, a few hundredths
        # for 200 starts, and cannot be distinguished from 0 for these.
        for one in beyond:
            self.assertLess(abs(one.mean()), 4 * one.std(ddof=1) / np.sqrt(seeds))
        end = call("plot", *files, "--output", self.path("drawn"))
        self.assertEqual(end.returncode, 0, end.stderr)
        self.assertIn("theory 1/(2 rate) = 0.732409", end.stdout)
        self.assertTrue(os.path.isfile(self.path("drawn/clusters-formation.png")))

    def test_what_cannot_be_is_refused(self):
        density = ("--clusters.solver=density", "--clusters.start=ring")
        cases = enumerate((
                ("clusters.beta", "--clusters.beta=0"), ("clusters.delta", "--clusters.delta=3.2"), ("clusters.every", "--clusters.every=21"),
                ("clusters.every", "--clusters.every=1e-5"), ("clusters.stretch", "--clusters.stretch=0.9"), ("clusters.waves", "--clusters.waves=2"),
                ("clusters.coefficients", "--clusters.coefficients=64"), ("clusters.amplitude", "--clusters.start=ring", "--clusters.amplitude=1"),
                ("clusters.start", "--clusters.solver=density", "--clusters.every=1"), ("clusters.coefficients", *density, "--clusters.coefficients=65"),
                ("clusters.coefficients", *density, "--clusters.coefficients=64", "--clusters.waves=32"),
                ("clusters.reduce", *density, "--clusters.reduce=true"),
                ("clusters.delta", "--clusters.reduce=true", "--clusters.delta=0.5"), ("clusters.delta", "--clusters.delta=1e-9"),
                ("clusters.waves", "--clusters.start=ring", "--clusters.tokens=3", "--clusters.waves=6"),
                ("clusters.delta", *density, "--clusters.delta=1"), ("clusters.tolerance", *density, "--clusters.tolerance=1e-9"),
                ("clusters.tokens", "--clusters.tokens=0")))

        def refused(ranks, part, arguments):
            common = ("--clusters.beta=5", "--clusters.time=20") if len(arguments) > 1 else self.small()
            given = {argument.split("=")[0] for argument in arguments}
            settings = [one for one in common if one.split("=")[0] not in given]
            self.assert_refused(self.run_program("clusters_circle", *settings, *arguments, "--output.file=out.h5", ranks=ranks), part)

        together([lambda ranks=ranks, part=part, arguments=arguments: refused(ranks, part, arguments)
                  for number, (part, *arguments) in cases for ranks in ranks_of_case(number)])


if __name__ == "__main__":
    unittest.main()
