#!/usr/bin/env python3
"""Tokens of one cosine in long contexts: closed forms, the program's layer on any ranks, and what is refused."""

import contextlib
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
        together([lambda n=ranks: runs.update({n: self.asked(ranks=n, output=f"out{n}.h5")}) for ranks in (1, *SEVERAL_RANKS)])
        one = runs[1]
        for ranks in SEVERAL_RANKS:
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
            with without_rendering() if arguments else contextlib.nullcontext():
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
