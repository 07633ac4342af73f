#!/usr/bin/python3
"""Spectra of hidden states: those of the states that `evolve` stores, taken apart by numpy; the same on any number of ranks."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np  # noqa: E402 (the folder is put on the path first)

from comparison import CompareTest, MODELS, PDE  # noqa: E402
from program import SEVERAL_RANKS, TRAIN_DECK  # noqa: E402


class SpectrumOfStates(CompareTest):
    def test_is_that_of_the_states_that_evolve_stores(self):
        double = ("--run.precision=double",)
        few = (*double, "--samples.count=2")
        found = self.compare("spectrum_of_states", *few)
        self.compare("information_flow", *few, "--flow.examples=2", output="flow.h5")
        samples = self.open("flow.h5")["example"][...].astype(int)
        for name, cells in (("transformer", 2), ("distilled", 4)):
            for seed in (1, 2):
                matrices = [self.states(f"models/{name}_{seed}.h5", cells, sample) for sample in samples]
                sigma = np.linalg.svd(np.stack(matrices), compute_uv=False)  # [sample, cell, mode]
                p = sigma / sigma.sum(-1, keepdims=True)
                rank = np.exp(-np.where(p > 0, p * np.log(np.maximum(p, 1e-300)), 0).sum(-1))
                share = sigma / np.sqrt((sigma ** 2).sum(-1, keepdims=True))
                # Both marches are one Euler step per cell: their states differ by round-off.
                np.testing.assert_allclose(found[f"{name}/effective_rank"][seed - 1, 1:], rank.mean(0), rtol=1e-10)
                np.testing.assert_allclose(found[f"{name}/singular_value"][seed - 1, 1:], share.mean(0), atol=1e-12)

    def states(self, model, cells, sample):
        """[cell, token, channel] of a test sample when the front has passed."""
        self.evolve(f"--model.file={model}", "--data.tokens=rows", f"--mesh.cells={cells}", f"--inflow.first={sample}",
                    "--evolve.method=euler", "--evolve.cfl=1", "--run.precision=double", "--output.overwrite=true",
                    "--output.file=states.h5", deck="evolve.ini")
        return self.open("states.h5")["field/u"][-1, :, :, 0]

    def setUp(self):
        super().setUp()
        self.write("evolve.ini", "")
        self.write("train.ini", TRAIN_DECK)

    def test_says_the_same_on_any_number_of_ranks(self):
        alone = self.compare("spectrum_of_states")
        for ranks in SEVERAL_RANKS:
            self.assert_same_numbers(alone, self.compare("spectrum_of_states", ranks=ranks, output=f"on{ranks}.h5"))

    def test_a_wider_model_has_more_singular_values_but_no_more_than_tokens(self):
        for width, modes in ((12, 12), (40, 28)):
            wide = self.run_program("train", "train.ini", "--quiet", *PDE, f"--model.width={width}", "--model.seed=9",
                                    "--output.file=models/wide.h5", "--output.overwrite=true")
            self.assertEqual(wide.code, 0, wide)
            found = self.compare("spectrum_of_states", "--output.overwrite=true",
                                 models=("--models.seeds=1", *MODELS[1:], "--models.independent=models/wide.h5"))
            self.assertEqual(found["independent/singular_value"].shape, (1, 5, modes))
            self.assertTrue((found["independent/singular_value"][..., -1] > 0).all())
            np.testing.assert_array_equal(found["transformer/singular_value"][..., 8:], 0)

    def test_padding_does_not_count(self):
        text = self.train_text()
        alone = self.compare("spectrum_of_states", *text, models=())
        rank = alone["transformer/effective_rank"]
        self.assertTrue(((rank > 1) & (rank < 8)).all(), rank)
        self.assert_same_numbers(alone, self.compare("spectrum_of_states", *text, models=(), ranks=3, output="three.h5"))


if __name__ == "__main__":
    unittest.main()
