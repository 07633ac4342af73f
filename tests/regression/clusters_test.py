#!/usr/bin/env python3
"""Clusters of tokens: rates of growth of the program's attention against closed forms, on any ranks, and what is refused."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from program import ROOT, ProgramTest, ranks_of_case, together  # noqa: E402
from python_package import call  # noqa: E402

DECK = os.path.join(ROOT, "input", "clusters", "growth.ini")


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
        together([lambda n=ranks: runs.update({n: self.gathered(ranks=n, output=f"out{n}.h5")}) for ranks in (1, 2, 3)])
        one = runs[1]
        for ranks in (2, 3):
            for name in ("number", "components", "compact_share", "mass", "density"):
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
        np.testing.assert_allclose(one["mass"].sum(axis=1), 1, rtol=1e-12)
        np.testing.assert_allclose(one["density"].sum(axis=2), 1, rtol=1e-12)
        self.assertEqual((one["fastest_wave"], one["tokens"]), (3, 2000))
        self.assertAlmostEqual(one["wave_rate_theory"], 0.682678, delta=1e-6)
        self.assertAlmostEqual(one["lifetime"], 141.9641, delta=1e-3)

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

    def test_figure_table_and_page(self):
        self.gathered()
        end = call("report", self.path("out.h5"), "--output", self.path("report"))
        self.assertEqual(end.returncode, 0, end.stderr)
        self.assertEqual(call("view", self.path("out.h5"), "--output", self.path("page.html")).returncode, 0)

    def test_what_cannot_be_is_refused(self):
        for number, (part, argument) in enumerate((("clusters.beta", "--clusters.beta=0"), ("clusters.delta", "--clusters.delta=3.2"),
                                                   ("clusters.every", "--clusters.every=21"), ("clusters.tokens", "--clusters.tokens=0"))):
            for ranks in ranks_of_case(number):
                self.assert_refused(self.run_program("clusters_circle", *self.small(argument), "--output.file=out.h5", ranks=ranks), part)


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
