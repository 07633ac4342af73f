#!/usr/bin/python3
"""The Hessian of trained models through the program: what its numbers must satisfy among each other, the same on any number of ranks,
bad input, the deck and the figures.
"""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

import numpy as np  # noqa: E402 (the folder is put on the path first)

from comparison import CompareTest, MODELS  # noqa: E402
from program import ROOT, SEVERAL_RANKS, ranks_of_case  # noqa: E402
from python_package import call  # noqa: E402

DECK = os.path.join(ROOT, "input", "hessian", "digits.ini")
ONE = ("--models.seeds=1", *MODELS[1:])
PARTS = "--hessian.parts=hessian,gauss_newton,functional"
# For what holds on any samples: a product takes a time in proportion to them.
FEW = "--samples.count=10"


class Hessian(CompareTest):
    def test_has_ends_density_and_sums_that_agree(self):
        found = self.compare("hessian_spectrum", PARTS, "--hessian.probes=6", "--hessian.tolerance=1e-10", "--models.seeds=1", FEW)
        for model in ("transformer", "independent", "distilled"):
            for part in ("", "gauss_newton_", "functional_"):
                largest, node, weight = (found[f"{model}/{part}{name}"] for name in
                                         ("largest_eigenvalue", "density_node", "density_weight"))
                self.assertTrue((np.diff(largest, axis=1) <= 0).all(), largest)
                self.assertLess(found[f"{model}/{part}largest_residual"].max(), 1e-10)
                np.testing.assert_allclose(np.nansum(weight, axis=-1), 1, rtol=1e-12)
                # Nodes of a quadrature lie within the spectrum (to the tolerance of its ends).
                most = np.abs(np.nan_to_num(node)).max(axis=(1, 2))
                self.assertTrue((np.nanmax(node, axis=(1, 2)) <= largest[:, 0] + 1e-8 * most).all())
                norm, error = found[f"{model}/{part}frobenius_norm"], found[f"{model}/{part}frobenius_error"]
                self.assertTrue((norm + 5 * error > np.sqrt((largest ** 2).sum(axis=1))).all())
                if part == "gauss_newton_":
                    self.assertNotIn(f"{model}/{part}smallest_eigenvalue", found)
                    self.assertTrue((np.nanmin(node, axis=(1, 2)) > -1e-10 * most).all())
                else:
                    smallest = found[f"{model}/{part}smallest_eigenvalue"]
                    self.assertTrue((np.diff(smallest, axis=1) >= 0).all() and (smallest[:, 0] < 0).all(), smallest)
            # The trace of the whole is the sum of those of its parts, which are estimated with the same probes.
            whole, parts = found[f"{model}/trace"], found[f"{model}/gauss_newton_trace"] + found[f"{model}/functional_trace"]
            error = sum(found[f"{model}/{part}trace_error"] for part in ("", "gauss_newton_", "functional_"))
            self.assertTrue((np.abs(whole - parts) < 5 * error + 1e-10).all(), (whole, parts, error))
        # The Transformer run as a PDE model on two cells a layer is another model.
        self.assertGreater(np.abs(found["inherited/loss"] - found["transformer/loss"]).min(), 1e-6)

    def test_blocks_are_symmetric_and_add_up(self):
        self.compare("hessian_spectrum", PARTS, "--hessian.block_probes=20", "--hessian.eigenvalues=0", "--hessian.probes=0", models=ONE)
        group = self.open("out.h5")["analysis/hessian/transformer"]
        names = group.attrs["blocks"].split("\n")
        self.assertEqual(names, ["embedding", *(f"{kind} of set {layer}" for layer in (1, 2) for kind in
                                                ("Q", "K", "V", "O", "W_1", "W_2")), "head"])
        norm, error = group["block_norm"][0], group["block_norm_error"][0]
        self.assertTrue((np.abs(norm - norm.T) < 6 * (error + error.T) + 1e-12).all())
        # H = H_o + H_f with the same probes in every part: traces to round-off.
        trace = {part: group[f"{part}block_trace"][0] for part in ("", "gauss_newton_", "functional_")}
        np.testing.assert_allclose(trace["gauss_newton_"] + trace["functional_"], trace[""], atol=1e-10 * np.abs(trace[""]).max())
        self.assertTrue((trace["gauss_newton_"] > 0).all())
        # Logits are linear in the head: no functional part.
        self.assertLess(group["functional_block_norm"][0][-1, -1], 1e-12 * norm.max())
        self.assertEqual([scale.name for axis in group["block_norm"].dims for scale in axis.values()],
                         ["/seed", "/transformer_block", "/transformer_other_block"])

    def test_distances_between_blocks_are_those_between_their_densities(self):
        found = self.compare("hessian_spectrum", "--hessian.blocks=Q,K,V", "--hessian.block_probes=4", "--hessian.block_steps=10",
                             "--hessian.parts=hessian", "--hessian.eigenvalues=0", "--hessian.probes=0", models=ONE)
        distance, floor = found["transformer/block_distance"][0], found["transformer/block_floor"][0]
        node, weight = found["transformer/block_node"][0], found["transformer/block_weight"][0]  # [block, probe, step]
        self.assertEqual((distance.shape, node.shape), ((6, 6), (6, 4, 10)))
        rms = np.sqrt(np.nansum(weight * node ** 2, axis=2).mean(axis=1))
        np.testing.assert_allclose(found["transformer/block_rms_eigenvalue"][0], rms, rtol=1e-12)
        group = self.open("out.h5")["analysis/hessian"]
        unit, width = group.attrs["lambda_0"], group.attrs["broadening"]
        s = np.arcsinh(node / rms[:, None, None] / unit)
        grid = np.arange(np.nanmin(s) - 6 * width, np.nanmax(s) + 6 * width, width / 5)

        def density(block):
            bells = np.exp(-0.5 * ((grid[:, None] - s[block].ravel()) / width) ** 2)
            sum_ = np.nansum(bells * weight[block].ravel(), axis=1)
            return sum_ / sum_.sum()

        def apart(p, q):
            m = (p + q) / 2
            return np.sqrt(sum(np.where(x > 0, x * np.log2(np.maximum(x, 1e-300) / m), 0).sum() / 2 for x in (p, q)))

        expected = np.array([[apart(density(a), density(b)) for b in range(6)] for a in range(6)])
        # Grids with other first points: sums of smooth functions agree far below this.
        np.testing.assert_allclose(distance, expected, atol=1e-6)
        pairs = [(a, b) for a in range(6) for b in range(a)]
        counted = [distance[a, b] if distance[a, b] >= 2 * max(floor[a], floor[b]) else 0 for a, b in pairs]
        self.assertAlmostEqual(found["transformer/heterogeneity"][0], np.mean(counted), 12)

    def test_follows_the_largest_eigenvalue_over_the_training(self):
        found = self.compare("hessian_spectrum", "--hessian.epochs=0,2", "--hessian.parts=hessian", "--hessian.probes=0",
                             "--hessian.tolerance=1e-10", FEW)
        for model in ("transformer", "independent", "distilled"):
            course = found[f"{model}/epoch_largest_eigenvalue"]
            self.assertEqual(course.shape, (2, 2, 5))
            # After the last epoch the copy is the model itself.
            np.testing.assert_allclose(course[:, 1], found[f"{model}/largest_eigenvalue"], rtol=1e-8)
            np.testing.assert_allclose(found[f"{model}/epoch_loss"][:, 1], found[f"{model}/loss"], rtol=1e-12)
            self.assertGreater(np.abs(course[:, 0] / course[:, 1] - 1).min(), 1e-4)

    def test_says_the_same_on_any_number_of_ranks(self):
        settings = ("--hessian.tolerance=1e-12", "--hessian.block_probes=2", "--hessian.steps=8")
        alone = self.compare("hessian_spectrum", *settings, models=ONE)
        for ranks in SEVERAL_RANKS:
            together = self.compare("hessian_spectrum", *settings, models=ONE, ranks=ranks, output=f"on{ranks}.h5")
            self.assertEqual(sorted(alone), sorted(together))
            for name, numbers in alone.items():
                if name.endswith("seconds") or name.endswith("residual"):
                    continue
                # Lanczos vectors amplify round-off in nodes of small weight: eight steps keep eight digits.
                tolerance = 1e-8 if "density" in name else 1e-10
                np.testing.assert_allclose(together[name], numbers, rtol=tolerance, atol=tolerance * np.nanmax(np.abs(numbers)),
                                           err_msg=f"{name} on {ranks} ranks")

    def test_bad_input_is_refused_by_name(self):
        cases = ((("--hessian.blocks=Q,X",), ("hessian.blocks", "'X'")),
                 (("--hessian.parts=outer",), ("hessian.parts", "'outer'")),
                 (("--hessian.eigenvalues=100000",), ("hessian.eigenvalues", "trained variables")),
                 (("--hessian.probes=1",), ("hessian.probes", "at least 2")),
                 (("--hessian.epochs=9",), ("models.transformer", "epoch9")),
                 (("--run.precision=single",), ("run.precision", "double")))
        for number, (settings, words) in enumerate(cases):
            for ranks in ranks_of_case(number):
                end = self.run_program("hessian_spectrum", "--quiet", *ONE, *settings, "--output.file=out.h5", ranks=ranks)
                self.assert_refused(end, *words)
                self.assertFalse(os.path.exists(self.path("out.h5")))

    def test_models_without_second_derivatives_are_refused_by_name(self):
        for setting, words in (("attention.normalisation=sinkhorn", ("attention.normalisation = sinkhorn", "softmax or linear")),
                               ("attention.kernel=l2", ("attention.kernel = l2", "dot"))):
            end = self.run_program("train", "--quiet", "--data.tokens=rows", "--mesh.layers=1", "--attention.heads=2", "--model.width=4",
                                   "--model.ffn=4", "--train.samples=8", "--train.batch=4", "--train.test_samples=1", "--train.epochs=1", f"--{setting}",
                                   "--output.file=other.h5", "--output.overwrite=true")
            self.assertEqual(end.code, 0, end)
            for more in ((), ("--validate",)):
                end = self.run_program("hessian_spectrum", "--quiet", "--models.transformer=other.h5", "--data.tokens=rows", "--output.file=out.h5", *more)
                self.assert_refused(end, *words)

    def test_a_model_is_not_replaced_by_its_hessian(self):
        model = "models/transformer_1.h5"
        with open(self.path(model), "rb") as file:
            before = file.read()
        end = self.run_program("hessian_spectrum", "--quiet", *ONE, f"--output.file=./{model}", "--output.overwrite=true", ranks=2)
        self.assert_refused(end, model, "output.file")
        with open(self.path(model), "rb") as file:
            self.assertEqual(file.read(), before)

    def test_the_deck_runs_and_is_drawn(self):
        os.mkdir(self.path("out"))
        end = self.run_program("hessian_spectrum", DECK, "--models.transformer=models/transformer_1.h5", "--data.tokens=rows",
                               "--samples.count=10", "--samples.batch=5", "--hessian.block_probes=2", "--hessian.block_steps=5",
                               "--hessian.epochs=0,1,2", "--quiet", ranks=2)
        self.assertEqual(end.code, 0, end)
        done = call("plot", self.path("out/hessian_digits.h5"), "--output", self.path("drawn"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(os.listdir(self.path("drawn"))),
                         sorted(f"hessian_digits_{figure}.{kind}" for figure in ("spectrum", "blocks_transformer", "distances_transformer", "course")
                                for kind in ("png", "pdf")))



if __name__ == "__main__":
    unittest.main()
