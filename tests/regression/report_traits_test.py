#!/usr/bin/env python3
"""Traits of trained models in the report: their numbers are those of the files, and files of something else are refused. Uses synthetic
files.

Status 77 as claim_sample.py says.
"""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

from traits_sample import MODELS, NAMES, TRAITS, TraitsTest, numbers  # noqa: E402 (its folder is put on the path first; it looks for what is needed)

import h5py  # noqa: E402
import numpy as np  # noqa: E402

from python_package import ROOT  # noqa: E402

from fluxformer.report.data import RunError  # noqa: E402
from fluxformer.report.traits import read_traits  # noqa: E402


class Numbers(TraitsTest):
    def test_traits_are_those_of_the_files(self):
        """Whole length, the first depth minus the last, the area under accuracy against noise, the first eigenvalue, the last depth."""
        traits = numbers(5)
        found, = self.together(*self.write("a", traits)).sets
        self.assertEqual([one.trait.name for one in found.columns], list(NAMES))
        for one in found.columns:
            self.assertEqual(list(one.numbers), list(MODELS))
            for model, values in one.numbers.items():
                np.testing.assert_allclose(values, traits[one.trait.name][model], rtol=1e-10, err_msg=f"{one.trait.name}, {model}")
        self.assertEqual({one.trait.name for one in found.columns if one.trait.claim.ratio}, {"gradient disparity", "largest eigenvalue"})

    def test_the_levels_of_noise_end_where_no_model_is_better_than_guessing(self):
        """For all models at the same one; 10 classes."""
        for name, at_half, area in (("a", 0.1, lambda clean: (clean + 0.1) / 2), ("b", 0.5, lambda clean: 0.25 * clean + 0.75 * 0.1)):
            paths = self.write(name, traits := numbers(5))
            with h5py.File(next(path for path in paths if "perturbation" in path), "r+") as file:
                for model in MODELS:
                    file[f"analysis/perturbation/{model}/noise_accuracy"][...] = [at_half if model == "normed" else 0.1, 0.1]
            column = next(one for one in self.together(*paths).sets[0].columns if one.trait.name == "accuracy under noise")
            np.testing.assert_allclose(column.numbers["transformer"], area(traits["test accuracy"]["transformer"]), rtol=1e-10)


class TraitFiles(TraitsTest):
    HEAD = 'alpha = 0.05\nmodels = ["transformer", "independent"]\n'
    ENTRY = '[[trait]]\nname = "a"\nfamily = "b"\nlarger = "c"\nexperiment = "attention"\nquantity = "entropy"\n'

    def refused(self, message, text):
        path = self.path("traits.toml")
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)
        with self.assertRaisesRegex(RunError, message):
            read_traits(path)

    def test_files_of_something_else_are_refused(self):
        self.refused("TOMLDecodeError", "[[trait")
        self.refused("KeyError: 'alpha'", self.ENTRY)
        self.refused("alpha lies", self.HEAD.replace("0.05", "5") + self.ENTRY)
        self.refused("not transfrmer", self.HEAD.replace("transformer", "transfrmer") + self.ENTRY)
        self.refused("two or more", self.HEAD.replace(', "independent"', "") + self.ENTRY)
        self.refused("same name", self.HEAD + self.ENTRY + self.ENTRY)
        self.refused("'larger'", self.HEAD + self.ENTRY.replace("larger", "smaller"))
        self.refused("unknown keys delta", self.HEAD + self.ENTRY + "delta = 1\n")
        self.refused("no experiment 'atention'", self.HEAD + self.ENTRY.replace("attention", "atention"))
        self.refused("levels and start", self.HEAD + self.ENTRY + 'levels = "noise_level"\n')
        self.refused("needs 'at'", self.HEAD + self.ENTRY.replace("attention", "hessian_blocks"))

    def test_the_file_asks_for_what_the_program_writes(self):
        with open(os.path.join(ROOT, "docs", "reference", "output-format.md"), encoding="utf-8") as stream:
            text = stream.read()
        found = read_traits(TRAITS)
        self.assertEqual(tuple(one.name for one in found.traits), NAMES)
        for one in found.traits:
            group = "hessian" if one.claim.experiment.startswith("hessian_") else one.claim.experiment
            names = [*one.claim.quantity, *filter(None, [one.claim.start])]
            for name in [*names, *(f"{name}_by_sample" for name in names if one.claim.samples)]:
                self.assertTrue(f"/analysis/{group}/<model>/{name}`" in text, name)
            for axis in filter(None, (one.claim.along, one.claim.levels)):
                self.assertTrue(f"| `/{axis}` |" in text, axis)


if __name__ == "__main__":
    unittest.main()
