#!/usr/bin/env python3
"""Clusters of tokens: rates of growth of the program's attention against closed forms, on any ranks, and what is refused."""

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

DECK = os.path.join(ROOT, "input", "clusters", "growth.ini")


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


class Growth(ProgramTest):
    def grown(self, *arguments, deck=(DECK,), ranks=1, output="out.h5"):
        end = self.run_program("clusters_growth", *deck, *arguments, f"--output.file={output}", "--quiet", ranks=ranks)
        self.assertEqual(end.code, 0, end)
        with h5py.File(self.path(output)) as file:
            group = file["analysis/clusters/softmax"]
            return {name: group[name][0] for name in group}

    def test_the_deck_gives_the_numbers_that_it_names_on_any_ranks(self):
        runs = {ranks: f"out{ranks}.h5" for ranks in (1, 2, 3)}
        together([lambda n=ranks, name=name: self.grown(ranks=n, output=name) for ranks, name in runs.items()])
        with h5py.File(self.path("out1.h5")) as file:
            found = {name: values[0] for name, values in file["analysis/clusters/softmax"].items()}
            betas = file["beta"][...]
        for name in ("out2.h5", "out3.h5"):
            with h5py.File(self.path(name)) as file:
                for measure in found.keys() - {"seconds"}:
                    self.assertEqual(found[measure].tobytes(), file[f"analysis/clusters/softmax/{measure}"][0].tobytes(), (name, measure))
        self.assertEqual(found["fastest_degree"].tolist(), [1, 2, 2, 3, 4, 4, 5, 6, 9])
        self.assertEqual((found["rate"].argmax(axis=1) + 1).tolist(), [1, 2, 2, 3, 4, 4, 5, 6, 9])
        five = betas.tolist().index(5)
        np.testing.assert_allclose(found["rate"][five, :4], [0.178677, 0.514117, 0.682678, 0.600089], rtol=0, atol=1e-6)
        np.testing.assert_allclose(found["layer_growth"][five, 2], 1.360560, rtol=0, atol=1e-6)
        np.testing.assert_allclose(found["bare_layer_growth"][five, 2], 1.764150, rtol=0, atol=1e-6)
        # Sums of 64 products of numbers up to beta l^2.
        np.testing.assert_allclose(found["rate"], found["rate_tokens"], rtol=0, atol=1e-11)
        few = betas <= 9  # harmonics 64 - 2 * 12 = 40 and beyond are below round-off
        for name in ("rate", "layer_growth", "bare_layer_growth"):
            np.testing.assert_allclose(found[name][few], found[name + "_theory"][few], rtol=0, atol=1e-9)

    def test_designs_are_spheres_for_small_beta(self):
        # Relative errors of degree 1: harmonics beyond the strength of the design.
        for start, beta, bound in (("icosahedron", 1, 4e-3), ("cell600", 1, 2e-8), ("cell600", 2, 3e-7), ("e8", 1, 1e-5)):
            found = self.grown(f"--clusters.start={start}", f"--clusters.betas={beta}", "--clusters.degrees=1", "--output.overwrite=true", deck=())
            error = abs(found["rate"][0, 0] / found["rate_theory"][0, 0] - 1)
            self.assertLess(error, bound, (start, beta))
            self.assertTrue(np.isnan(found["rate_tokens"]).all())

    def test_tokens_that_repel_each_other_stay(self):
        found = self.grown("--clusters.value=-1", "--clusters.betas=0,5")
        self.assertEqual(found["fastest_degree"].tolist(), [0, 0])
        self.assertLess(found["rate"][1].max(), 0)
        np.testing.assert_allclose(found["rate"], found["rate_theory"], rtol=0, atol=1e-9)

    def test_figure_table_and_page(self):
        self.grown("--clusters.betas=1,5,9")
        self.assertEqual(call("plot", self.path("out.h5")).returncode, 0)
        end = call("report", self.path("out.h5"), "--output", self.path("report"))
        self.assertEqual(end.returncode, 0, end.stderr)
        with open(self.path("report/tables.md"), encoding="utf-8") as file:
            text = file.read()
        self.assertIn("0.682678", text)
        end = call("view", self.path("out.h5"), "--output", self.path("page.html"))
        self.assertEqual(end.returncode, 0, end.stderr)

    def test_what_cannot_be_is_refused(self):
        for number, (part, argument) in enumerate((("clusters.tokens = 24", "--clusters.tokens=24"), ("clusters.betas", "--clusters.betas=-1"),
                               ("clusters.tokens", "--clusters.tokens=2"), ("clusters.start", "--clusters.start=cube"))):
            for ranks in ranks_of_case(number):
                self.assert_refused(self.run_program("clusters_growth", DECK, argument, "--output.file=out.h5", ranks=ranks), part)
        self.assert_refused(self.run_program("clusters_growth", "--clusters.start=e8", "--clusters.tokens=32", "--output.file=out.h5"), "clusters.tokens")


def stopped_again_and_again(test, experiment, settings, ranks=3, name="out"):
    """Runs an experiment as a whole, and again with a stop whenever one is heard; both have the same bits. Returns the numbers of tokens in its checkpoints."""
    run = (experiment, *settings, "--quiet", "--checkpoint.restart=auto")
    whole = test.run_program(*run, f"--output.file={name}-whole.h5", ranks=ranks)
    test.assertEqual(whole.code, 0, whole)
    codes, moving = [], set()
    while not codes or (codes[-1] == 4 and len(codes) < 200):
        codes.append(test.run_program(*run, f"--output.file={name}.h5", "--run.time_limit=1e-6", ranks=ranks).code)
        if codes[-1] == 4:
            with h5py.File(test.path(f"{name}.checkpoint.h5")) as file:
                moving |= {int(file["state"].attrs["tokens"])} if "tokens" in file["state"].attrs else set()
    with h5py.File(test.path(f"{name}-whole.h5")) as first, h5py.File(test.path(f"{name}.h5")) as second:
        # A stop at each stored time but the last, and at least one between them.
        test.assertGreater(len(codes), len(first["time"]))
        test.assertEqual(codes, [4] * (len(codes) - 1) + [0])
        group = "analysis/clusters/softmax"
        test.assertEqual(set(first[group]), set(second[group]))
        for name in set(first[group]) - {"seconds", "evaluation_seconds"}:
            np.testing.assert_array_equal(first[group][name][...], second[group][name][...], err_msg=name)
    return moving


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
            for name in ("number_2", "number_1", "energy", "moment"):
                # Steps are controlled to 1e-8; sums are added in the order of the ranks.
                np.testing.assert_allclose(runs[ranks][name], one[name], rtol=0, atol=1e-6, err_msg=name)
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
        found = self.gathered("--clusters.every=0.05", "--clusters.time=4", "--clusters.tolerance=1e-11")
        time, dissipation = found["time"], found["dissipation"]
        gained = np.diff(found["energy"][:, ::2], axis=1)
        step = time[1] - time[0]
        simpson = step / 3 * (dissipation[:, :-2:2] + 4 * dissipation[:, 1:-1:2] + dissipation[:, 2::2])
        # Simpson's rule: step^5/90 times a fourth derivative of a rate, below (2 rate)^5 E
        np.testing.assert_allclose(gained, simpson, rtol=0, atol=1e-8)

    def test_many_tokens_grow_as_linear_theory_says(self):
        found = self.gathered("--clusters.tokens=200000", "--clusters.time=7", "--clusters.every=0.25")
        # |M| is from 3 n^-1/2 on its own way: other waves of the noise bend it by a tenth of the rate at most.
        np.testing.assert_allclose(found["wave_rate"], 0.682678, rtol=0.1)

    def test_reduced_runs_are_those_of_all_tokens(self):
        settings = ("--clusters.tokens=300", "--clusters.time=60", "--clusters.every=2", "--clusters.tolerance=1e-11")
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
        settings = ("--clusters.beta=5", "--clusters.time=5", "--clusters.every=1", "--clusters.amplitude=1e-5")
        # Of few tokens the kernel mixes waves that look the same on the ring: the theory is that of rings.
        for start in (("--clusters.solver=density",), ("--clusters.tokens=64", "--clusters.tolerance=1e-13"),
                      ("--clusters.tokens=7", "--clusters.tolerance=1e-13")):
            found = self.ring(*settings, *start)
            # Beyond linear theory: the square of the size.
            self.assertAlmostEqual(found["wave_rate"], found["wave_rate_theory"], delta=1e-6, msg=start)
        self.assertNotAlmostEqual(found["wave_rate"], 0.682678, delta=1e-3)

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
        found = self.ring("--clusters.solver=density", "--clusters.beta=5", "--clusters.time=20", "--clusters.every=0.5", "--clusters.coefficients=256")
        self.assertTrue(5 < found["unresolved"] < 8, found["unresolved"])
        resolved = found["time"] < found["unresolved"]
        for name in ("number_2", "moment", "density", "dissipation"):
            self.assertTrue(np.isfinite(found[name][resolved]).all(), name)
            self.assertTrue(np.isnan(found[name][~resolved]).all(), name)
        self.assertIn("unresolved", found["words"])
        self.assertLessEqual(np.diff(found["number_2"][resolved]).max(), 1e-9)
        more = self.ring("--clusters.solver=density", "--clusters.beta=5", "--clusters.time=20", "--clusters.coefficients=1024")
        self.assertGreater(more["unresolved"], found["unresolved"])
        # Only multiples of 8 are not 0, and none of them is among the last six of 256. The moments of a density are at most 1.
        eight = self.ring("--clusters.solver=density", "--clusters.waves=8", "--clusters.beta=40", "--clusters.time=12")
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
        settings = self.small("--clusters.tokens=40", "--clusters.time=1000", "--clusters.every=5", "--clusters.stretch=2", "--clusters.reduce=true",
                              "--clusters.seeds=2")
        moving = stopped_again_and_again(self, "clusters_circle", settings)
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
            self.assertEqual(call("view", self.path(f"{name}.h5"), "--output", self.path("page.html")).returncode, 0)

    def test_formation_times_rise_with_the_number_of_tokens(self):
        deck, files = os.path.join(ROOT, "input", "clusters", "formation.ini"), []
        for tokens in (1000, 8000):
            files.append(self.path(f"formation_{tokens}.h5"))
            end = self.run_program("clusters_circle", deck, f"--clusters.tokens={tokens}", "--clusters.seeds=1,2,3,4,5,6", "--clusters.time=12", "--quiet",
                                   f"--output.file={files[-1]}")
            self.assertEqual(end.code, 0, end)
        with h5py.File(files[-1]) as file:
            self.assertEqual(len(file["seed"]), 6)
            self.assertAlmostEqual(1 / (2 * file["analysis/clusters"].attrs["wave_rate_theory"]), 0.732409, delta=1e-6)  # as the deck says
        end = call("plot", *files, "--output", self.path("drawn"))
        self.assertEqual(end.returncode, 0, end.stderr)
        self.assertIn("theory 1/(2 rate) = 0.732409", end.stdout)
        self.assertTrue(os.path.isfile(self.path("drawn/clusters-formation.png")))

    def test_what_cannot_be_is_refused(self):
        density = ("--clusters.solver=density", "--clusters.start=ring")
        for number, (part, *arguments) in enumerate((
                ("clusters.beta", "--clusters.beta=0"), ("clusters.delta", "--clusters.delta=3.2"), ("clusters.every", "--clusters.every=21"),
                ("clusters.every", "--clusters.every=1e-5"), ("clusters.stretch", "--clusters.stretch=0.9"), ("clusters.waves", "--clusters.waves=2"),
                ("clusters.coefficients", "--clusters.coefficients=64"), ("clusters.amplitude", "--clusters.start=ring", "--clusters.amplitude=1"),
                ("clusters.start", "--clusters.solver=density", "--clusters.every=1"), ("clusters.coefficients", *density, "--clusters.coefficients=65"),
                ("clusters.coefficients", *density, "--clusters.coefficients=64", "--clusters.waves=32"),
                ("clusters.reduce", *density, "--clusters.reduce=true"),
                ("clusters.delta", "--clusters.reduce=true", "--clusters.delta=0.5"), ("clusters.delta", "--clusters.delta=1e-9"),
                ("clusters.waves", "--clusters.start=ring", "--clusters.tokens=3", "--clusters.waves=6"),
                ("clusters.delta", *density, "--clusters.delta=1"), ("clusters.tolerance", *density, "--clusters.tolerance=1e-9"))):
            common = ("--clusters.beta=5", "--clusters.time=20") if len(arguments) > 1 else self.small()
            for ranks in ranks_of_case(number):
                given = {argument.split("=")[0] for argument in arguments}
                settings = [one for one in common if one.split("=")[0] not in given]
                self.assert_refused(self.run_program("clusters_circle", *settings, *arguments, "--output.file=out.h5", ranks=ranks), part)
        self.assert_refused(self.run_program("clusters_circle", "--clusters.tokens=0", "--output.file=out.h5"), "clusters.tokens")


class Sphere(ProgramTest):
    """Tokens on the sphere beside an oracle in NumPy that knows all pairs."""

    def gathered(self, *arguments, ranks=1, output="out.h5"):
        end = self.run_program("clusters_sphere", *arguments, f"--output.file={output}", "--quiet", ranks=ranks)
        self.assertEqual(end.code, 0, end)
        with h5py.File(self.path(output)) as file:
            group = file["analysis/clusters/" + ("unnormalised" if "--clusters.normalisation=unnormalised" in arguments else "softmax")]
            return {name: group[name][...] for name in group} | {"time": file["time"][...]} | dict(file["analysis/clusters"].attrs)

    @staticmethod
    def attention(x, beta, normalised=True):
        """Denominators of soft-max and velocities of tokens on the sphere."""
        kernel = np.exp(beta * (x @ x.T - 1))
        y = kernel @ x / (kernel.sum(axis=1, keepdims=True) if normalised else len(x))
        return kernel.sum(axis=1), y - (y * x).sum(axis=1, keepdims=True) * x

    @staticmethod
    def components(x, angle):
        """Components of the graph of angles, by the powers of its matrix."""
        apart = 2 * np.arcsin(np.minimum(1, np.linalg.norm(x[:, None] - x[None], axis=2) / 2)) <= angle
        reached = np.eye(len(x), dtype=bool)
        while True:
            further = (reached @ apart).astype(bool)
            if (further == reached).all():
                return len({row.tobytes() for row in reached})
            reached = further

    @classmethod
    def moved(cls, x, beta, time, steps=400, normalised=True):
        """The tokens after a time, by the classical Runge-Kutta method, projected after each step."""
        h = time / steps
        for _ in range(steps):
            a = cls.attention(x, beta, normalised)[1]
            b = cls.attention(x + h / 2 * a, beta, normalised)[1]
            c = cls.attention(x + h / 2 * b, beta, normalised)[1]
            d = cls.attention(x + h * c, beta, normalised)[1]
            x = x + h / 6 * (a + 2 * b + 2 * c + d)
            x /= np.linalg.norm(x, axis=1, keepdims=True)
        return x

    def test_what_is_stored_is_what_an_oracle_finds(self):
        n, beta = 120, 5
        for dimension in (2, 3, 7):
            found = self.gathered(f"--clusters.tokens={n}", f"--clusters.dimension={dimension}", f"--clusters.beta={beta}", "--clusters.time=12",
                                  "--clusters.every=0.5", "--clusters.seeds=1,2", "--clusters.tolerance=1e-10", "--output.overwrite=true")
            self.assertLess(found["length_error"].max(), 1e-7)
            self.assertLessEqual(np.diff(found["number_2"], axis=1).max(), 1e-9)  # E never falls
            self.assertFalse(np.array_equal(found["position"][0, 0], found["position"][1, 0]))
            for seed in (0, 1):
                for k, x in enumerate(found["position"][seed]):
                    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1, rtol=1e-14)
                    z, velocity = self.attention(x, beta)
                    covariance = x.T @ x / n
                    for name, value in (("number_2", n**2 / z.sum()), ("number_1", np.exp(-np.log(z / n).mean())), ("energy", z.sum() / (2 * beta * n**2)),
                                        ("dissipation", (z * (velocity**2).sum(axis=1)).sum() / n**2)):
                        np.testing.assert_allclose(found[name][seed, k], value, rtol=1e-12, atol=1e-14, err_msg=name)
                    np.testing.assert_allclose(found["degree_power"][seed, k], [(x.mean(axis=0)**2).sum(),
                                                                                (dimension * (covariance**2).sum() - 1) / (dimension - 1)], rtol=0, atol=1e-13)
                    count = self.components(x, found["delta"])
                    self.assertLessEqual(found["components_low"][seed, k], count)
                    self.assertGreaterEqual(found["components_high"][seed, k], count)
                    if np.isfinite(found["number"][seed, k]):
                        self.assertEqual(found["number"][seed, k], count)
                        self.assertGreaterEqual(found["compact_share"][seed, k], 0.95)
                # Small errors of a step of 1e-10 grow with rates below 1.
                np.testing.assert_allclose(found["position"][seed, 4], self.moved(found["position"][seed, 0], beta, 2), rtol=0, atol=1e-7)
            counted = np.isfinite(found["number"])
            self.assertTrue(counted.any())
            np.testing.assert_allclose(found["mass"].sum(axis=2), counted, rtol=0, atol=1e-12)
            np.testing.assert_array_equal(found["formed"], [found["time"][row.argmax()] if row.any() else np.nan for row in counted])

    def test_unnormalised_attention_is_that_of_an_oracle(self):
        n, beta = 60, 3
        found = self.gathered(f"--clusters.tokens={n}", f"--clusters.beta={beta}", "--clusters.time=4", "--clusters.tolerance=1e-10",
                              "--clusters.normalisation=unnormalised", ranks=2)
        self.assertLessEqual(np.diff(found["number_2"], axis=1).max(), 1e-9)  # E never falls
        position = found["position"][0]
        for k, x in enumerate(position):
            velocity = self.attention(x, beta, normalised=False)[1]
            np.testing.assert_allclose(found["dissipation"][0, k], (velocity**2).sum() / n, rtol=1e-12, atol=1e-14)
        # Errors of a step of 1e-10 grow with rates below 1.
        np.testing.assert_allclose(position[4], self.moved(position[0], beta, 2, normalised=False), rtol=0, atol=1e-7)
        # lambda_1 / lambda_0 of the rate of soft-max attention
        softmax = self.gathered(f"--clusters.tokens={n}", f"--clusters.beta={beta}", "--clusters.time=1", "--output.overwrite=true")
        self.assertAlmostEqual(found["harmonic_rate_theory"] / softmax["harmonic_rate_theory"], (1 - np.exp(-2 * beta)) / (2 * beta), delta=1e-12)

    def test_counts_are_the_same_on_any_ranks(self):
        runs = {}
        small = ("--clusters.tokens=301", "--clusters.beta=9", "--clusters.time=8", "--clusters.seeds=3")
        together([lambda n=ranks: runs.update({n: self.gathered(*small, ranks=n, output=f"out{n}.h5")}) for ranks in (1, 2, 3)])
        for ranks in (2, 3):
            np.testing.assert_array_equal(runs[ranks]["position"][:, 0], runs[1]["position"][:, 0])
            for name in ("number", "components_low", "components_high", "compact_share", "mass", "formed"):
                np.testing.assert_array_equal(runs[ranks][name], runs[1][name], err_msg=name)
            for name in ("number_2", "number_1", "energy", "position", "degree_power"):
                # Steps are controlled to 1e-8; sums are added in the order of the ranks.
                np.testing.assert_allclose(runs[ranks][name], runs[1][name], rtol=0, atol=1e-6, err_msg=name)

    def test_energy_gained_is_dissipation_integrated(self):
        found = self.gathered("--clusters.tokens=200", "--clusters.beta=5", "--clusters.every=0.025", "--clusters.time=4", "--clusters.tolerance=1e-12")
        time, dissipation = found["time"], found["dissipation"]
        gained = np.diff(found["energy"][:, ::2], axis=1)
        step = time[1] - time[0]
        simpson = step / 3 * (dissipation[:, :-2:2] + 4 * dissipation[:, 1:-1:2] + dissipation[:, 2::2])
        # Simpson's rule: step^5/90 times a fourth derivative of a rate, below (2 rate)^5 E
        np.testing.assert_allclose(gained, simpson, rtol=0, atol=1e-9)

    def test_two_tokens_meet_in_the_time_of_the_closed_form(self):
        def time_to(cosine, beta):
            u = 1 - cosine
            return (-expi(beta * u) - np.log(u) - np.exp(2 * beta) * exp1(beta * (1 + cosine)) + np.log(1 + cosine)) / 4

        for ranks in (1, 3):
            found = self.gathered("--clusters.tokens=2", "--clusters.dimension=5", "--clusters.beta=3", "--clusters.time=6", "--clusters.tolerance=1e-12",
                                  "--output.overwrite=true", ranks=ranks)
            first, second = np.moveaxis(found["position"][0], 1, 0)
            cosine = 1 - ((first - second)**2).sum(axis=1) / 2
            np.testing.assert_allclose(time_to(cosine, 3) - time_to(cosine[0], 3), found["time"], rtol=0, atol=1e-8)

    def test_a_displaced_design_grows_as_linear_theory_says(self):
        for beta in (1, 2):
            found = self.gathered("--clusters.start=cell600", f"--clusters.beta={beta}", "--clusters.time=1", "--clusters.every=1", "--clusters.amplitude=1e-3",
                                  "--clusters.tolerance=1e-12", "--output.overwrite=true")
            self.assertEqual((found["tokens"], found["dimension"], found["start"], found["fastest_harmonic"]), (120, 4, "cell600", 1))
            power = found["degree_power"][0, :, 0]
            # |mean of x| of e - <x, e> x is 1 - 1/d.
            self.assertAlmostEqual(np.sqrt(power[0]) / 1e-3, 0.75, delta=1e-6)
            # Beyond linear theory: some squares of the amplitude. The design itself: 2e-7.
            self.assertAlmostEqual(np.log(power[1] / power[0]) / 2 / found["harmonic_rate_theory"], 1, delta=2e-6)

    def test_a_run_that_is_stopped_again_and_again_ends_with_the_bits_of_an_undisturbed_one(self):
        # The last rank has no token.
        stopped_again_and_again(self, "clusters_sphere", ("--clusters.tokens=2", "--clusters.time=4", "--clusters.every=2", "--clusters.tolerance=1e-12",
                                                          "--clusters.beta=3"))

    def test_tokens_of_a_file_start(self):
        rng = np.random.default_rng(7)
        with h5py.File(self.path("tokens.h5"), "w") as file:
            file["features"] = rng.normal(size=(2, 50, 3))
            file["lengths"] = [50, 40]
            x = file["features"][1, :40]
        start = ("--clusters.start=file", "--data.file=tokens.h5", "--clusters.sample=1", "--clusters.beta=5", "--clusters.time=1")
        runs = {ranks: self.gathered(*start, ranks=ranks, output=f"file{ranks}.h5") for ranks in (1, 3)}
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        for found in runs.values():
            self.assertEqual((found["tokens"], found["dimension"], found["start"]), (40, 3, "file"))
            np.testing.assert_allclose(found["position"][0, 0], x, rtol=0, atol=1e-15)
            np.testing.assert_allclose(found["position"][0, -1], self.moved(x, 5, 1), rtol=0, atol=1e-6)  # errors of a step of 1e-8
        # Another file under the same name is no continuation.
        again = ("clusters_sphere", *start, "--output.file=out.h5", "--quiet")
        self.assertEqual(self.run_program(*again, "--run.time_limit=1e-6").code, 4)
        with h5py.File(self.path("tokens.h5"), "a") as file:
            file["features"][1, 3, 0] += 1
        self.assert_refused(self.run_program(*again, "--checkpoint.restart=auto"), "data.file = tokens.h5")
        with h5py.File(self.path("sizes.h5"), "w") as file:
            file["features"] = np.stack([x, 1e200 * x, 1e-200 * x])
        for sample in (1, 2):
            found = self.gathered("--clusters.start=file", "--data.file=sizes.h5", f"--clusters.sample={sample}", "--clusters.beta=5", "--clusters.time=1",
                                  output=f"sizes{sample}.h5")
            np.testing.assert_allclose(found["position"][0, -1], runs[1]["position"][0, -1], rtol=0, atol=1e-13)
        with h5py.File(self.path("zero.h5"), "w") as file:
            file["features"] = np.zeros((1, 2, 3))
        with h5py.File(self.path("words.h5"), "w") as file:
            file["ids"] = np.zeros((1, 2), int)
        for number, (part, *arguments) in enumerate((("data.file = zero.h5", "--data.file=zero.h5"), ("data.file = words.h5", "--data.file=words.h5"),
                                                     ("data.file", "--data.file=none.h5"), ("data.file",), ("clusters.sample", "--data.file=tokens.h5",
                                                                                                           "--clusters.sample=2"))):
            for ranks in ranks_of_case(number):
                self.assert_refused(self.run_program("clusters_sphere", "--clusters.start=file", *arguments, "--output.file=no.h5", ranks=ranks), part)
        self.assert_refused(self.run_program("clusters_circle", "--clusters.start=file", "--data.file=tokens.h5", "--output.file=no.h5"), "2 features")

    def test_one_token_and_a_cloud_that_is_not_counted(self):
        found = self.gathered("--clusters.tokens=1", "--clusters.time=1")
        self.assertTrue((found["number"] == 1).all())
        np.testing.assert_allclose(found["number_2"], 1, rtol=9 * 2**-50)  # beta times the roundings of <x, x>
        self.assertEqual(found["formed"][0], 0)
        cloud = self.gathered("--clusters.tokens=500", "--clusters.time=0.5", "--clusters.leaders=20", "--output.overwrite=true")
        for name in ("number", "components_low", "components_high", "formed"):
            self.assertTrue(np.isnan(cloud[name]).all(), name)
        self.assertEqual(cloud["compact_share"].max(), 0)

    def test_figures_table_and_page(self):
        for arguments in (("--clusters.tokens=150", "--clusters.beta=5"), ("--clusters.start=e8", "--clusters.time=2"),
                          ("--clusters.tokens=1", "--clusters.time=1")):
            self.gathered(*arguments, "--output.overwrite=true")
            end = call("report", self.path("out.h5"), "--output", self.path("report"))
            self.assertEqual(end.returncode, 0, end.stderr)
            self.assertEqual(call("view", self.path("out.h5"), "--output", self.path("page.html")).returncode, 0)

    def test_what_cannot_be_is_refused(self):
        for number, (part, arguments) in enumerate((("clusters.beta", ("--clusters.beta=0",)), ("clusters.delta", ("--clusters.delta=2.1",)),
                                                    ("clusters.every", ("--clusters.every=21",)), ("clusters.tokens", ("--clusters.tokens=0",)),
                                                    ("clusters.dimension", ("--clusters.dimension=1",)), ("clusters.start", ("--clusters.start=cube",)),
                                                    ("clusters.tokens", ("--clusters.start=e8", "--clusters.tokens=240")),
                                                    ("clusters.dimension", ("--clusters.start=e8", "--clusters.dimension=8")),
                                                    ("clusters.degree", ("--clusters.degree=2",)), ("clusters.shown", ("--clusters.shown=0",)))):
            for ranks in ranks_of_case(number):
                self.assert_refused(self.run_program("clusters_sphere", *arguments, "--output.file=out.h5", ranks=ranks), part)


class Context(ProgramTest):
    DECK = os.path.join(ROOT, "input", "clusters", "context.ini")

    def asked(self, *arguments, deck=(DECK,), ranks=1, output="out.h5"):
        end = self.run_program("clusters_context", *deck, *arguments, f"--output.file={output}", "--quiet", ranks=ranks)
        self.assertEqual(end.code, 0, end)
        with h5py.File(self.path(output)) as file:
            group = file["analysis/clusters/softmax"]
            return {name: group[name][0] for name in group} | {name: file[name][...] for name in ("context", "scaling", "cosine")}

    def test_the_deck_gives_closed_forms_that_the_layer_of_the_program_has_on_any_ranks(self):
        runs = {}
        together([lambda n=ranks: runs.update({n: self.asked(ranks=n, output=f"out{n}.h5")}) for ranks in (1, 2, 3)])
        one = runs[1]
        for ranks in (2, 3):
            for name in one.keys() - {"seconds"}:
                self.assertEqual(one[name].tobytes(), runs[ranks][name].tobytes(), (ranks, name))
        at = {n: one["context"].tolist().index(n) for n in (64, 1e6)}
        c = {value: one["scaling"].tolist().index(value) for value in (1, 1.5, 2, 2.5, 3)}
        half = one["cosine"].tolist().index(0.5)
        for value, cosine in ((1, 0.999999), (1.5, 0.999061), (2, 0.8), (2.5, 0.515562), (3, 0.5005)):
            self.assertAlmostEqual(one["bare_layer_cosine"][at[1e6], c[value], half], cosine, delta=5e-7)
        for value, time in ((1.5, 2.300676), (2, 2.370757), (3, 50.783977)):
            self.assertAlmostEqual(one["gathering_time"][at[1e6], c[value], half], time, delta=5e-7)
        for name in ("layer_cosine", "bare_layer_cosine"):
            # Sums of 64 products of numbers below 1.
            np.testing.assert_allclose(one[name + "_tokens"][at[64]], one[name][at[64]], rtol=0, atol=1e-14, err_msg=name)
            self.assertTrue(np.isnan(one[name + "_tokens"][at[1e6]]).all())
        self.assertTrue((np.diff(one["acting_keys"], axis=1) <= 0).all())  # fewer where attention is sharper

    def test_the_layer_of_few_tokens_with_a_step(self):
        found = self.asked("--clusters.contexts=2,40", "--clusters.step=0.3", "--clusters.scalings=0,1,4", "--clusters.cosines=0.5,0.1", deck=())
        np.testing.assert_allclose(found["layer_cosine_tokens"], found["layer_cosine"], rtol=0, atol=1e-14)
        self.assertTrue((found["layer_cosine"] > found["cosine"]).all())

    def test_figure_table_and_page(self):
        for arguments in ((), ("--clusters.contexts=8", "--clusters.scalings=1", "--clusters.cosines=0.5")):
            self.asked(*arguments, "--output.overwrite=true")
            end = call("report", self.path("out.h5"), "--output", self.path("report"))
            self.assertEqual(end.returncode, 0, end.stderr)
            self.assertEqual(call("view", self.path("out.h5"), "--output", self.path("page.html")).returncode, 0)

    def test_what_cannot_be_is_refused(self):
        for number, (part, argument) in enumerate((("clusters.contexts", "--clusters.contexts=1"), ("clusters.contexts", "--clusters.contexts=2.5"),
                                                   ("clusters.until", "--clusters.cosines=0.99"), ("clusters.scalings", "--clusters.scalings=-1"),
                                                   ("clusters.dimensions", "--clusters.dimensions=1"))):
            for ranks in ranks_of_case(number):
                self.assert_refused(self.run_program("clusters_context", argument, "--output.file=out.h5", ranks=ranks), part)


if __name__ == "__main__":
    unittest.main()
