#!/usr/bin/env python3
"""Tokens on the sphere beside an oracle in NumPy that knows all pairs, on any ranks; restarts, figures, and what is refused."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402
from scipy.sparse.csgraph import connected_components  # noqa: E402
from scipy.special import exp1, expi  # noqa: E402

from program import SEVERAL_RANKS, ProgramTest, ranks_of_case, together  # noqa: E402
from page_reader import without_rendering  # noqa: E402
from python_package import call  # noqa: E402
from clusters_runs import assert_energy_is_dissipation_integrated, stopped_again_and_again  # noqa: E402


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
        """Components of the graph of angles."""
        return connected_components(2 * np.arcsin(np.minimum(1, np.linalg.norm(x[:, None] - x[None], axis=2) / 2)) <= angle)[0]

    @classmethod
    def moved(cls, x, beta, time, steps=100, normalised=True):
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
                                  "--clusters.every=1", "--clusters.seeds=1,2", "--clusters.tolerance=1e-10", "--output.overwrite=true")
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
                np.testing.assert_allclose(found["position"][seed, 2], self.moved(found["position"][seed, 0], beta, 2), rtol=0, atol=1e-7)
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
        together([lambda n=ranks: runs.update({n: self.gathered(*small, ranks=n, output=f"out{n}.h5")}) for ranks in (1, *SEVERAL_RANKS)])
        for ranks in SEVERAL_RANKS:
            np.testing.assert_array_equal(runs[ranks]["position"][:, 0], runs[1]["position"][:, 0])
            for name in ("number", "components_low", "components_high", "compact_share", "mass", "formed"):
                np.testing.assert_array_equal(runs[ranks][name], runs[1][name], err_msg=name)
            for name in ("number_2", "number_1", "energy", "dissipation", "position", "degree_power"):
                # Sums are added in the order of the ranks; their roundings grow by less than e^8, with rates below 1.
                np.testing.assert_allclose(runs[ranks][name], runs[1][name], rtol=0, atol=1e-8, err_msg=name)

    def test_energy_gained_is_dissipation_integrated(self):
        found = self.gathered("--clusters.tokens=200", "--clusters.beta=5", "--clusters.every=0.025", "--clusters.time=4", "--clusters.tolerance=1e-12")
        assert_energy_is_dissipation_integrated(found, 1e-9)

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
        cases = {"random.h5": ("--clusters.tokens=150", "--clusters.beta=5"), "e8.h5": ("--clusters.start=e8", "--clusters.time=2"),
                 "one.h5": ("--clusters.tokens=1", "--clusters.time=1")}
        together([lambda name=name, case=case: self.gathered(*case, output=name) for name, case in cases.items()])
        for name in cases:
            with without_rendering():  # circles and spheres: plot_clusters_test.py
                end = call("report", self.path(name), "--output", self.path("report"))
            self.assertEqual(end.returncode, 0, end.stderr)
        self.assertEqual(call("view", *map(self.path, cases), "--output", self.path("page.html")).returncode, 0)

    def test_what_cannot_be_is_refused(self):
        cases = enumerate((("clusters.beta", "--clusters.beta=0"), ("clusters.delta", "--clusters.delta=2.1"), ("clusters.every", "--clusters.every=21"),
                           ("clusters.tokens", "--clusters.tokens=0"), ("clusters.dimension", "--clusters.dimension=1"),
                           ("clusters.start", "--clusters.start=cube"), ("clusters.tokens", "--clusters.start=e8", "--clusters.tokens=240"),
                           ("clusters.dimension", "--clusters.start=e8", "--clusters.dimension=8"), ("clusters.degree", "--clusters.degree=2"),
                           ("clusters.shown", "--clusters.shown=0")))
        together([lambda ranks=ranks, part=part, arguments=arguments: self.assert_refused(
            self.run_program("clusters_sphere", *arguments, "--output.file=out.h5", ranks=ranks), part)
            for number, (part, *arguments) in cases for ranks in ranks_of_case(number)])


if __name__ == "__main__":
    unittest.main()
