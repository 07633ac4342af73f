#!/usr/bin/env python3
"""gradient_flow: the same numbers on any number of ranks, consistent numbers, and clear refusals."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from comparison import ALL, CompareTest, MODELS, NAMES  # noqa: E402
from made_up_images import rows_of_test_images, write_mnist  # noqa: E402
from numpy_transformer import NumpyModel  # noqa: E402
from program import FULL_TIER, ROOT, SEVERAL_RANKS, TRAIN_DECK, ranks_of_case, together  # noqa: E402

QUICK = ("--gradient.jacobian_samples=5", "--gradient.steps=12", "--gradient.exponents=3", "--gradient.sweeps=2")


class GradientFlow(CompareTest):
    def test_gradients_sizes_ratio_and_disparity_are_those_of_a_model_in_numpy(self):
        labels = write_mnist(self.path("data"), training=160, test=5)
        data = ("--data.set=mnist", "--data.directory=data", "--data.tokens=rows")
        self.write("train.ini", TRAIN_DECK.replace("test_samples = 40", "test_samples = 5"))
        end = self.run_program("train", "train.ini", "--quiet", *data, "--output.file=models/mnist.h5")
        self.assertEqual(end.code, 0, end)
        found = self.compare("gradient_flow", "--gradient.jacobian_samples=0", models=(
            *data, "--models.transformer=models/mnist.h5", "--models.inherited=2", "--samples.count=5", "--samples.batch=2"))
        drawn = self.open("out.h5")["sample"][...]  # the numbers of the samples, which are in random order
        self.assertEqual(sorted(drawn), list(range(5)))
        self.assertNotEqual(list(drawn), list(range(5)))
        with h5py.File(self.path("models/mnist.h5")) as file:
            for name, cells in (("transformer", 1), ("inherited", 2)):
                model = NumpyModel(file["model"], rows_of_test_images(self.path("data")), labels, cells)
                each = model.gradient_norms()
                size = each * np.sqrt([np.sum(u**2, axis=(1, 2)) for u in model.states]).T
                norm = np.sqrt(np.mean(each**2, axis=0))
                ends = norm[::cells]
                loss, head = model.loss_and_head_gradient()
                for measure, expected, error in (
                        ("loss", loss, 1e-12), ("head_gradient", head, 1e-12),
                        # Differences: step^2 from the third derivative, 1e-16 / step from round-off.
                        ("gradient_norm", norm, 1e-8), ("gradient_norm_by_sample", each[drawn, ::cells], 1e-8),
                        ("gradient_size", np.sqrt(np.mean(size**2, axis=0)), 1e-8),
                        ("gradient_size_by_sample", size[drawn, ::cells], 1e-8), ("gradient_ratio", [*ends[:-1] / ends[1:], 1], 1e-8),
                        ("disparity", ends.max() / ends.min(), 1e-8)):
                    np.testing.assert_allclose(found[f"{name}/{measure}"][0], expected, rtol=error, err_msg=f"{name} {measure}")

    def test_says_the_same_on_any_number_of_ranks(self):
        more = (*QUICK, "--gradient.jacobian_samples=3", "--gradient.epochs=0,2", "--samples.batch=3")
        alone = self.compare("gradient_flow", *more)
        for ranks in SEVERAL_RANKS if FULL_TIER else (4,):  # more than the samples used for Jacobians
            with self.subTest(ranks=ranks):
                self.assert_same_numbers(alone, self.compare("gradient_flow", *more, ranks=ranks, output=f"{ranks}.h5"))

    def test_its_numbers_agree_with_each_other(self):
        found = self.compare("gradient_flow", *QUICK, "--gradient.epochs=0,2", "--gradient.jacobian_samples=1",
                             "--gradient.steps=300", "--gradient.sweeps=30")
        group = self.open("out.h5")["analysis/gradient_flow"]
        self.assertEqual((group.attrs["samples"], group.attrs["jacobian_samples"]), (40, 1))
        for name in NAMES:
            of = {key.split("/")[1]: value for key, value in found.items() if key.startswith(name)}
            every = (of["gradient_norm"].shape[1] - 1) // 2  # two layers
            ends = of["gradient_norm"][:, ::every]
            for measure in ("gradient_norm", "gradient_size"):
                np.testing.assert_allclose(np.sqrt(np.mean(of[measure + "_by_sample"]**2, axis=1)), of[measure][:, ::every],
                                           rtol=1e-13, err_msg=measure)
                self.assertNotIn(f"epoch_{measure}_by_sample", of)
            np.testing.assert_allclose(of["gradient_ratio"][:, :-1], ends[:, :-1] / ends[:, 1:], rtol=1e-13)
            np.testing.assert_allclose(of["disparity"], ends.max(1) / ends.min(1), rtol=1e-13)
            # The snapshot after the last epoch is the trained model, the one before the first is
            # not.
            for measure in ("loss", "gradient_norm", "gradient_size", "gradient_ratio", "disparity", "embedding_gradient", "knot_gradient"):
                np.testing.assert_allclose(of["epoch_" + measure][:, 1], of[measure], rtol=1e-13, err_msg=measure)
                self.assertTrue((of["epoch_" + measure][:, 0] != of[measure]).any(), measure)
            # 224 numbers: after as many steps the singular values are exact, and products grow no faster than they
            # allow.
            largest, smallest = of["largest_singular_value"], of["smallest_singular_value"]
            self.assertTrue((of["largest_singular_error"] < 1e-12 * largest).all())
            self.assertTrue((of["smallest_singular_error"] < 1e-12 * largest).all())
            self.assertTrue(((0 < smallest) & (smallest < 1) & (1 < largest)).all())
            self.assertTrue((np.diff(of["lyapunov"]) < 1e-3).all())  # the largest first, as far as sweeps converge
            self.assertTrue((of["lyapunov"][:, 0] <= np.log(largest).mean(1) + 1e-12).all())
            self.assertTrue((of["lyapunov"][:, -1] >= np.log(smallest).mean(1) - 1e-12).all())
            knots = np.isfinite(of["knot_gradient"]).sum(1)
            np.testing.assert_array_equal(knots, group[name].attrs["knots"])
            self.assertIn("final_norm_gradient", of)

    def test_sweeps_go_on_until_the_exponents_of_every_sample_settle(self):
        quick = (*QUICK, "--gradient.jacobian_samples=2")
        exact = self.compare("gradient_flow", *quick, "--gradient.sweeps=300", "--gradient.tolerance=0", output="exact.h5")
        sweeps = {}
        for tolerance in (1e-2, 1e-4):
            found = self.compare("gradient_flow", *quick, "--gradient.sweeps=300", f"--gradient.tolerance={tolerance}",
                                 output=f"{tolerance}.h5")
            for name in NAMES:
                made, error = found[f"{name}/lyapunov_sweeps"], found[f"{name}/lyapunov_error"]
                self.assertTrue(((sweeps.get(name, 1) < made) & (made < 300)).all(), (name, made))
                sweeps[name] = made
                # An exponent that settled early does not change any more: an ulp, or 0.
                self.assertTrue(((0 <= error) & (error < tolerance)).all(), (name, error))
                np.testing.assert_array_equal(exact[f"{name}/lyapunov_sweeps"], 300)
                # Each further sweep leaves at most 99 % of an error: singular values of a sample differ by 1/4 % or more.
                np.testing.assert_allclose(found[f"{name}/lyapunov"], exact[f"{name}/lyapunov"], atol=100 * tolerance)
        none = self.compare("gradient_flow", *quick, "--gradient.sweeps=0", output="none.h5")
        self.assertTrue(np.isnan(none["transformer/lyapunov_error"]).all())
        self.assertTrue(np.isfinite(none["transformer/lyapunov"]).all())

    def test_few_lanczos_steps_bound_the_singular_values(self):
        quick = (*QUICK, "--gradient.jacobian_samples=2", "--gradient.sweeps=0")
        exact = self.compare("gradient_flow", *quick, "--gradient.steps=300", output="exact.h5")
        few = self.compare("gradient_flow", *quick)
        for name in NAMES:
            for end, sign in (("largest", -1), ("smallest", 1)):
                outside = sign * (few[f"{name}/{end}_singular_value"] - exact[f"{name}/{end}_singular_value"])
                self.assertTrue((outside >= -1e-12).all(), (name, end))
                self.assertTrue((few[f"{name}/{end}_singular_error"] > exact[f"{name}/{end}_singular_error"]).all())

    def test_a_transformer_inherited_with_one_cell_per_layer_is_itself(self):
        found = self.compare("gradient_flow", *QUICK, models=MODELS + ("--models.inherited=1",))
        for name, values in found.items():
            if name.startswith("inherited/") and not name.endswith("seconds"):
                np.testing.assert_array_equal(values, found[name.replace("inherited", "transformer")], err_msg=name)

    def test_gradients_are_of_the_mean_and_jacobians_means_over_their_samples(self):
        few, many = (self.compare("gradient_flow", *QUICK, f"--samples.count={count}", output=f"{count}.h5")
                     for count in (10, 40))
        for name in NAMES:
            # The gradient of the mean does not grow with the number of samples; a sum would, fourfold
            # where they agree.
            for group in ("head", "embedding"):
                ratio = many[f"{name}/{group}_gradient"] / few[f"{name}/{group}_gradient"]
                self.assertTrue((ratio < 1.5).all(), (name, group, ratio))
        one, two = (self.compare("gradient_flow", *QUICK, f"--gradient.jacobian_samples={count}", output=f"j{count}.h5")
                    for count in (1, 2))
        for measure in ("largest_singular_value", "lyapunov"):
            self.assertTrue((one[f"transformer/{measure}"] != two[f"transformer/{measure}"]).all(), measure)

    def test_texts_of_different_lengths(self):
        models = self.train_text()
        for name, values in self.compare("gradient_flow", *QUICK, models=models).items():
            self.assertTrue(np.isfinite(values).all(), name)

    def test_its_deck_runs(self):
        deck = os.path.join(ROOT, "input", "compare", "gradient_flow.ini")
        found = self.compare("gradient_flow", deck, *QUICK, "--gradient.epochs=1",
                             models=(*MODELS, "--models.independent=models/independent_{seed}.h5"))
        self.assertEqual(sorted({name.split("/")[0] for name in found}), ["independent", "inherited", "transformer"])

    def test_without_jacobians_there_are_none(self):
        found = self.compare("gradient_flow", "--gradient.jacobian_samples=0")
        self.assertFalse([name for name in found if "singular" in name or "lyapunov" in name])
        self.assertIn("distilled/gradient_norm", found)

    def test_what_cannot_be_is_refused_on_all_ranks(self):
        cases = [("--gradient.jacobian_samples=41", ("gradient.jacobian_samples = 41", "40")),
                 ("--gradient.exponents=9", ("gradient.exponents = 9", "8 channels")),
                 ("--gradient.epochs=1,7", ("transformer_1.epoch7.h5",)),
                 ("--gradient.steps=0", ("gradient.steps",))]

        def refuse(argument, parts, ranks):
            with self.subTest(argument=argument):
                self.assert_refused(self.run_program("gradient_flow", "--quiet", *ALL, argument, ranks=ranks), *parts)

        together([lambda c=case, r=ranks_of_case(number)[-1]: refuse(*c, r) for number, case in enumerate(cases)])


if __name__ == "__main__":
    unittest.main()
