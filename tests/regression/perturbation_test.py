#!/usr/bin/env python3
"""The perturbation experiment: the same draws for every model and any number of ranks, and the expected limits for zero
levels, full levels and stronger attacks.
"""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from comparison import CompareTest, MODELS, NAMES  # noqa: E402
from made_up_images import rows_of_test_images, write_mnist  # noqa: E402
from numpy_transformer import logits_of, states  # noqa: E402
from program import TRAIN_DECK  # noqa: E402

ATTACKS = ("--perturbation.attack=0.02,0.1", "--perturbation.feature_attack=0.1")
FEW = ("--samples.count=15", "--perturbation.pgd_steps=3", *ATTACKS)
KINDS = {"noise": 5, "dropped": 4, "fgsm": 2, "pgd": 2, "worst": 2, "feature_noise": 4, "feature_fgsm": 1,
         "feature_pgd": 1}


class Perturbation(CompareTest):
    def test_numbers_are_the_same_on_any_number_of_ranks(self):
        alone = self.compare("perturbation", *FEW, "--perturbation.random_start=true")
        for name in NAMES:
            self.assertEqual(alone[f"{name}/growth"].shape, (2, 3 if name == "transformer" else 5))
            for kind, levels in KINDS.items():
                self.assertEqual(alone[f"{name}/{kind}_accuracy"].shape, (2, levels))
        shared = self.compare("perturbation", *FEW, "--perturbation.random_start=true", ranks=2, output="two.h5")
        self.assert_same_numbers(alone, shared)

    def test_accuracies_are_means_over_their_samples(self):
        found = self.compare("perturbation", *FEW)
        self.assertEqual(self.open("out.h5")["analysis/perturbation"].attrs["classes"], 10)
        self.assertEqual(self.open("out.h5")["sample"].shape, (15,))
        for name in NAMES:
            for measure in ("accuracy", *(f"{kind}_accuracy" for kind in KINDS)):
                each = found[f"{name}/{measure}_by_sample"]
                self.assertEqual(set(np.unique(each)) | {0, 1}, {0, 1})
                np.testing.assert_allclose(each.mean(axis=1), found[f"{name}/{measure}"], rtol=1e-14, err_msg=f"{name} {measure}")

    def test_outcomes_stand_with_their_samples(self):
        labels = write_mnist(self.path("data"), training=160, test=40)
        data = ("--data.set=mnist", "--data.directory=data", "--data.tokens=rows")
        self.write("train.ini", TRAIN_DECK)
        end = self.run_program("train", "train.ini", "--quiet", *data, "--output.file=models/mnist.h5")
        self.assertEqual(end.code, 0, end)
        found = self.compare("perturbation", "--perturbation.attack=", "--perturbation.noise=0", "--perturbation.feature_noise=",
                             "--perturbation.feature_attack=", "--perturbation.dropped=1", ranks=2, models=(
                                 *data, "--models.transformer=models/mnist.h5", "--models.inherited=1", "--samples.count=0", "--samples.batch=3"))
        drawn = self.open("out.h5")["sample"][...]
        self.assertEqual(sorted(drawn), list(range(40)))
        with h5py.File(self.path("models/mnist.h5")) as file:
            rows = rows_of_test_images(self.path("data"))
            right, blank = (np.argmax(logits_of(file["model"], states(file["model"], pixels)[-1]), axis=1) == labels
                            for pixels in (rows, 0 * rows))
        self.assertTrue(0 < right.sum() < 40)
        for measure, expected in (("accuracy", right), ("noise_accuracy", right), ("dropped_accuracy", blank)):
            each = found[f"transformer/{measure}_by_sample"][0].reshape(40)
            np.testing.assert_array_equal(each, expected[drawn], err_msg=measure)

    def test_a_transformer_inherited_with_one_cell_per_layer_meets_the_same_perturbations(self):
        found = self.compare("perturbation", *FEW, models=MODELS + ("--models.inherited=1",))
        for name, values in found.items():
            if name.startswith("transformer") and not name.endswith("seconds"):
                np.testing.assert_array_equal(found[name.replace("transformer", "inherited")], values, err_msg=name)

    def test_levels_of_nothing_change_nothing(self):
        nothing = (f"--perturbation.{key}=0" for key in ("noise", "dropped", "attack", "feature_noise", "feature_attack"))
        found = self.compare("perturbation", *FEW[:2], *nothing)
        for name in NAMES:
            for kind in KINDS:
                np.testing.assert_array_equal(found[f"{name}/{kind}_accuracy"][:, 0], found[f"{name}/accuracy"])
                # The features are embedded again without changes.
                np.testing.assert_array_equal(found[f"{name}/{kind}_loss"][:, 0], found[f"{name}/loss"])
                np.testing.assert_array_equal(found[f"{name}/{kind}_change"], 0)
                self.assertTrue(np.isnan(found[f"{name}/{kind}_sensitivity"]).all())

    def test_levels_are_what_they_say_and_attacks_work(self):
        found = self.compare("perturbation", "--perturbation.dropped=0.5,1", "--perturbation.attack=1e-4,0.1")
        for name in NAMES:
            np.testing.assert_array_equal(found[f"{name}/growth"][:, 0], 1)
            # A finite perturbation of 1e-3 follows its tangent to about that.
            np.testing.assert_allclose(found[f"{name}/growth"], found[f"{name}/tangent_growth"], rtol=1e-2)
            # 28 x 8 normal numbers, 40 samples: their norm is the level to 1 / sqrt(2 * 28 * 8 * 40), four times.
            np.testing.assert_allclose(found[f"{name}/noise_change"], [[0.1, 0.2, 0.5, 1, 2]] * 2, rtol=0.03)
            for kind in ("fgsm", "worst"):
                np.testing.assert_allclose(found[f"{name}/{kind}_change"], [[1e-4, 0.1]] * 2, rtol=1e-9)  # 1e-16 / 1e-4
            # Small steps, so that first-order optimality is visible.
            clean, noise = found[f"{name}/loss"], found[f"{name}/noise_loss"][:, 0]
            fgsm, pgd, worst = (found[f"{name}/{kind}_loss"] for kind in ("fgsm", "pgd", "worst"))
            for raised in (fgsm, pgd, worst):
                self.assertTrue((raised[:, 0] > clean).all())
            self.assertTrue((fgsm[:, 1] > noise).all())  # the same change of norm 0.1
            self.assertTrue((pgd[:, 1] >= fgsm[:, 1]).all())
            # A step of 1e-4 along the worst direction, to first order.
            np.testing.assert_allclose(found[f"{name}/worst_sensitivity"][:, 0],
                                       found[f"{name}/relative_singular_value"], rtol=1e-2)
            for kind in ("noise", "fgsm"):
                self.assertTrue((found[f"{name}/{kind}_sensitivity"][:, 0] < found[f"{name}/relative_singular_value"]).all())
            # With all tokens blanked all images are identical and get the same class.
            emptied = self.open("out.h5")["analysis/perturbation"][name]["dropped_accuracy"][:, 1] * 40
            labels = np.round(emptied)
            np.testing.assert_allclose(emptied, labels, atol=1e-12)
            self.assertTrue((labels < 15).all())

    def test_more_steps_find_more(self):
        one, ten = (self.compare("perturbation", *FEW, f"--perturbation.pgd_steps={steps}", output=f"{steps}.h5")
                    for steps in (1, 10))
        for kind in ("pgd", "feature_pgd"):
            self.assertTrue((ten[f"transformer/{kind}_loss"] != one[f"transformer/{kind}_loss"]).all(), kind)
            self.assertGreater(ten[f"transformer/{kind}_loss"].mean(), one[f"transformer/{kind}_loss"].mean(), kind)

    def test_texts_have_no_features(self):
        models = self.train_text()
        found = self.compare("perturbation", *FEW[1:3], models=models)
        self.assertFalse([name for name in found if "feature" in name])
        self.assertTrue(all(np.isfinite(values).all() for values in found.values()))
        end = self.run_program("perturbation", "--quiet", *models, "--perturbation.feature_noise=1", "--output.file=no.h5")
        self.assert_refused(end, "perturbation.feature_noise", "words")

    def test_what_is_not_asked_for_is_left_out(self):
        found = self.compare("perturbation", "--perturbation.noise=", "--perturbation.attack=", "--perturbation.feature_noise=",
                             "--perturbation.pgd_steps=0", "--perturbation.jacobian=false", "--samples.count=4")
        names = {name.split("/")[1] for name in found if name.startswith("transformer/")}
        curves = {name[:-9] for name in names if name.endswith("_accuracy")}
        self.assertEqual(curves, {"dropped", "feature_fgsm"})
        self.assertNotIn("relative_singular_value", names)


if __name__ == "__main__":
    unittest.main()
