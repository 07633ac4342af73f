#!/usr/bin/env python3
"""Growth of small displacements: rates of the program's attention against closed forms, on any ranks, and what is refused."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from program import ROOT, SEVERAL_RANKS, ProgramTest, ranks_of_case, together  # noqa: E402
from page_reader import without_rendering  # noqa: E402
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
        runs = {ranks: f"out{ranks}.h5" for ranks in (1, *SEVERAL_RANKS)}
        together([lambda n=ranks, name=name: self.grown(ranks=n, output=name) for ranks, name in runs.items()])
        with h5py.File(self.path("out1.h5")) as file:
            found = {name: values[0] for name, values in file["analysis/clusters/softmax"].items()}
            betas = file["beta"][...]
        for name in [*runs.values()][1:]:
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
        for start, betas, bounds in (("icosahedron", "1", [4e-3]), ("cell600", "1,2", [2e-8, 3e-7]), ("e8", "1", [1e-5])):
            found = self.grown(f"--clusters.start={start}", f"--clusters.betas={betas}", "--clusters.degrees=1", "--output.overwrite=true", deck=())
            np.testing.assert_array_less(abs(found["rate"][:, 0] / found["rate_theory"][:, 0] - 1), bounds, start)
            self.assertTrue(np.isnan(found["rate_tokens"]).all())

    def test_tokens_that_repel_each_other_stay(self):
        found = self.grown("--clusters.value=-1", "--clusters.betas=0,5")
        self.assertEqual(found["fastest_degree"].tolist(), [0, 0])
        self.assertLess(found["rate"][1].max(), 0)
        np.testing.assert_allclose(found["rate"], found["rate_theory"], rtol=0, atol=1e-9)

    def test_figure_table_and_page(self):
        self.grown("--clusters.betas=1,5,9", "--checkpoint.every=1e-6")
        both = self.path("out.checkpoint.h5"), self.path("out.h5")  # as out*.h5 gives them
        end = call("plot", *both, "--output", self.path("drawn"))
        self.assertEqual((end.returncode, end.stderr), (0, "passed over 1 checkpoint\n"))
        with without_rendering():
            end = call("report", *both, "--output", self.path("report"))
        self.assertEqual((end.returncode, end.stderr), (0, "passed over 1 checkpoint\n"))
        with open(self.path("report/tables.md"), encoding="utf-8") as file:
            text = file.read()
        self.assertIn("0.682678", text)
        end = call("view", *both, "--output", self.path("page.html"))
        self.assertEqual(end.returncode, 0, end.stderr)

    def test_what_cannot_be_is_refused(self):
        for number, (part, argument) in enumerate((("clusters.tokens = 24", "--clusters.tokens=24"), ("clusters.betas", "--clusters.betas=-1"),
                                                   ("clusters.tokens", "--clusters.tokens=2"), ("clusters.start", "--clusters.start=cube"))):
            for ranks in ranks_of_case(number):
                self.assert_refused(self.run_program("clusters_growth", DECK, argument, "--output.file=out.h5", ranks=ranks), part)
        self.assert_refused(self.run_program("clusters_growth", "--clusters.start=e8", "--clusters.tokens=32", "--output.file=out.h5"), "clusters.tokens")


if __name__ == "__main__":
    unittest.main()
