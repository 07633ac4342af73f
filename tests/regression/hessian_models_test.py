#!/usr/bin/python3
"""The Hessian of a training at its own samples and epochs: the losses and gradients of the training, what copies of the weights keep of
the optimiser, the preconditioned Hessian, the exact Gauss-Newton part, controls, and tokens that ranks share.
"""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from comparison import CompareTest  # noqa: E402
from program import FULL_TIER, ROOT, SEVERAL_RANKS, TrainTest, together, with_value  # noqa: E402

SAMPLES, EPOCHS = 9, 3
BETA1, BETA2, EPSILON, RATE = 0.5, 0.99, 1e-2, 1e-2
# What is minimised, in the training and in the analysis.
MINIMISED = ("--train.label_smoothing=0.1", "--train.smoothness=0.05")
# An epoch is a single step of all samples: losses and gradients before the next step are those at the copy of the weights.
TRAINING = ("--mesh.layers=2", "--attention.heads=2", "--model.width=8", "--model.ffn=6", f"--train.samples={SAMPLES}",
            f"--train.batch={SAMPLES}", "--train.validation=0", "--train.test_samples=1", f"--train.epochs={EPOCHS}", "--train.warm_up=0",
            "--train.clip=0", "--train.decay=0", "--output.snapshots=1", f"--train.rate={RATE}", *MINIMISED)
MODELS = {
    "transformer": ("--data.tokens=rows", "--train.optimiser=adam", f"--train.beta1={BETA1}", f"--train.beta2={BETA2}",
                    f"--train.epsilon={EPSILON}", "--output.preconditioner=true"),
    "linear": ("--data.tokens=rows", "--attention.normalisation=linear", "--train.optimiser=adamw", "--train.beta1=0.8"),
    "mlp": ("--data.tokens=whole", "--equation.alpha=0", "--train.optimiser=sgd", "--train.momentum=0.7", "--output.preconditioner=true"),
    # Trains kappa, alpha and rho, too.
    "independent": ("--data.tokens=rows", "--model.kind=pde", "--model.knots=2", "--mesh.cells=4", "--equation.kappa=0.05", "--model.seed=2"),
}
ON_TRAINING = ("--data.split=train", "--data.tokens=rows", f"--samples.count={SAMPLES}", "--samples.batch=4")
ONE = ("--models.transformer=models/transformer.h5", *ON_TRAINING)
OTHERS = ("--models.linear=models/linear.h5", "--models.mlp=models/mlp.h5", "--models.independent=models/independent.h5")
NOTHING = ("--hessian.eigenvalues=0", "--hessian.probes=0", "--hessian.parts=hessian")
FOLLOWED = ("--hessian.parts=hessian", "--hessian.probes=0", "--hessian.tolerance=1e-11")


def variables(model):
    """(path, array) in the order of the flat vector."""
    names = ["embedding/W", "embedding/b", "embedding/position"]
    for number in range(1, int(model.attrs["layers"]) + 1):
        names += [f"layers/{number}/{name}" for name in
                  ("norm1_gain", "norm1_bias", "W_Q", "W_K", "W_V", "b_Q", "b_K", "b_V", "W_O", "b_O", "norm2_gain", "norm2_bias", "W_1",
                   "b_1", "W_2", "b_2", "kappa")]
    names += ["final_norm/gain", "final_norm/bias", "head/W", "head/b", "equation/alpha", "equation/rho"]
    return [(name, model[name][...]) for name in names]


def flat(model):
    return np.concatenate([array.ravel() for _, array in variables(model)])


class ModelsTest(CompareTest):
    @classmethod
    def setUpClass(cls):
        maker = TrainTest()
        maker.folder = cls.shared = tempfile.mkdtemp(prefix="fluxformer-")

        def train(name, settings):
            end = maker.run_program("train", "--quiet", *TRAINING, *settings, f"--output.file={name}.h5")
            maker.assertEqual(end.code, 0, end)

        together([lambda name=name, settings=settings: train(name, settings) for name, settings in MODELS.items()])

    def hessian(self, *arguments, models=ONE, **more):
        return self.compare("hessian_spectrum", *arguments, models=models, **more)

    def copy_of(self, name, epoch):
        return self.open(f"models/{name}.epoch{epoch}.h5")

    def variables_of(self, name, epoch):
        """The variables in the copy of a model after this epoch, for a copy that is to be changed."""
        with h5py.File(self.path(f"models/{name}.epoch{epoch}.h5"), "r") as file:
            return variables(file["model"])

    def change(self, name, epoch, path, value):
        with h5py.File(self.path(f"models/{name}.epoch{epoch}.h5"), "r+") as file:
            with_value(path, value)(file)


class OnTheTraining(ModelsTest):
    def test_losses_and_gradients_are_those_of_the_training(self):
        found = self.hessian(*NOTHING, "--hessian.eigenvalues=1", "--hessian.epochs=0,1,2", *OTHERS, ranks=2)
        for name in MODELS:  # each with its own tokens
            course = self.open(f"models/{name}.h5")["training/loss"][...]
            # Sums of nine losses in another order.
            np.testing.assert_allclose(found[f"{name}/epoch_loss"], [course], rtol=1e-13, err_msg=name)
        self.assertGreater(np.ptp(found["transformer/epoch_loss"]), 1e-2)
        for epoch in range(EPOCHS):
            there = self.hessian(*NOTHING, *(f"--models.{name}=models/{name}.epoch{epoch}.h5" for name in MODELS), models=ON_TRAINING,
                                 output=f"epoch{epoch}.h5")
            for name in MODELS:
                steps = self.open(f"models/{name}.h5")["training"]
                np.testing.assert_allclose(there[f"{name}/loss"], steps["loss"][epoch], rtol=1e-13, err_msg=name)
                np.testing.assert_allclose(there[f"{name}/gradient_norm"], steps["gradient_norm"][epoch], rtol=1e-12, err_msg=name)

    def test_what_is_given_counts_instead_of_what_the_training_minimised(self):
        def numbers(*settings):
            found = self.hessian(*NOTHING, *settings, "--output.overwrite=true")
            return [found[f"transformer/{name}"][0] for name in ("loss", "gradient_norm")]

        own = numbers()
        self.assertEqual(numbers(*MINIMISED), own)
        for other in ("--train.label_smoothing=0", "--train.loss=mean_squared_error"):
            self.assertNotAlmostEqual(numbers(other)[0], own[0], places=3)
        loss, norm = numbers("--train.smoothness=5")
        self.assertEqual(loss, own[0])  # without penalty
        self.assertNotAlmostEqual(norm, own[1], places=3)

    def test_other_samples_have_other_losses(self):
        loss = {name: self.hessian(*NOTHING, *settings, output=f"{name}.h5")["transformer/loss"][0] for name, settings in
                (("training", ()), ("test", ("--data.split=test",)), ("fewer", ("--samples.count=8",)))}
        self.assertGreater(min(abs(loss["training"] - loss[name]) for name in ("test", "fewer")), 1e-4, loss)

    def test_every_model_is_measured_on_the_samples_of_its_own_training(self):
        end = self.run_program("train", "--quiet", *TRAINING, *MODELS["transformer"], "--run.seed=2", "--output.file=models/of_seed_2.h5")
        self.assertEqual(end.code, 0, end)
        os.rename(self.path("models/transformer.h5"), self.path("models/of_seed_1.h5"))
        for epoch in range(EPOCHS + 1):
            os.rename(self.path(f"models/transformer.epoch{epoch}.h5"), self.path(f"models/of_seed_1.epoch{epoch}.h5"))
        both = ("--models.transformer=models/of_seed_{seed}.h5", "--models.seeds=1,2", *ON_TRAINING)
        # Whatever the seed of this run.
        found = self.hessian("--hessian.eigenvalues=1", "--hessian.probes=0", "--hessian.parts=gauss_newton", "--hessian.exact=true",
                             "--hessian.epochs=0,2", "--run.seed=5", models=both)
        course = [self.open(f"models/of_seed_{seed}.h5")["training/loss"][...] for seed in (1, 2)]
        np.testing.assert_allclose(found["transformer/epoch_loss"], [steps[[0, 2]] for steps in course], rtol=1e-13)
        np.testing.assert_allclose(found["transformer/gauss_newton_exact_eigenvalue"][:, 0],
                                   found["transformer/gauss_newton_largest_eigenvalue"][:, 0], rtol=1e-5)

    def test_copies_keep_what_the_stability_of_the_training_depends_on(self):
        for name, threshold in (("transformer", 2 * (1 + BETA1) / (1 - BETA1)), ("linear", 2 * 1.8 / 0.2), ("mlp", 2 * 1.7)):
            for epoch in range(EPOCHS + 1):
                optimiser = self.copy_of(name, epoch)["optimiser"]
                self.assertAlmostEqual(optimiser.attrs["stability_threshold"], threshold, 12, name)
                # Half a cosine over the steps; after the last one it is 0.
                rate = RATE * (1 + np.cos(np.pi * epoch / EPOCHS)) / 2
                self.assertAlmostEqual(optimiser.attrs["learning_rate"], rate, 15, name)
                # Only where it was asked for, of Adam, and after a step.
                self.assertEqual("preconditioner" in optimiser, name == "transformer" and epoch > 0, (name, epoch))

    def test_the_preconditioner_is_that_of_the_steps(self):
        """x_k = x_(k-1) - rate m_hat / D gives the gradient, whose moments give D."""
        steps = self.open("models/transformer.h5")["training"]
        first, second = 0, 0
        for epoch in range(1, EPOCHS + 1):
            before, after = (self.copy_of("transformer", k) for k in (epoch - 1, epoch))
            rate, diagonal = before["optimiser"].attrs["learning_rate"], after["optimiser/preconditioner"][...]
            mean = diagonal * (flat(before["model"]) - flat(after["model"])) / rate * (1 - BETA1 ** epoch)
            gradient = (mean - BETA1 * first) / (1 - BETA1)
            first, second = mean, BETA2 * second + (1 - BETA2) * gradient ** 2
            expected = np.sqrt(second / (1 - BETA2 ** epoch)) + EPSILON
            # Differences of weights of size 1 over a rate of 2.5e-3: 1e-13.
            np.testing.assert_allclose(diagonal, expected, rtol=1e-11)
            np.testing.assert_allclose(np.linalg.norm(gradient), steps["gradient_norm"][epoch - 1], rtol=1e-11)
        self.assertGreater(diagonal.max() / diagonal.min(), 5)


class EdgeOfStability(ModelsTest):
    def test_the_decks_run_at_a_small_size_with_the_thresholds_of_their_optimisers(self):
        decks = os.path.join(ROOT, "input", "paper", "hessian", "edge")
        for optimiser, threshold in (("sgd", 2), ("adamw", 38)):
            for more in (("--validate",), ("--model.width=8", "--model.ffn=8", "--mesh.layers=1", "--train.samples=8", "--train.batch=8",
                                           "--train.test_samples=1", "--train.epochs=2", "--output.snapshots=1")):
                end = self.run_program("train", os.path.join(decks, f"{optimiser}.ini"), "--quiet", *more, "--output.file=edge.h5",
                                       "--output.overwrite=true")
                self.assertEqual(end.code, 0, end)
            found = self.compare("hessian_spectrum", "--samples.count=8", "--hessian.epochs=0,1,2", "--output.overwrite=true",
                                 models=(os.path.join(decks, "hessian.ini"), "--models.transformer=edge.h5"))
            self.assertAlmostEqual(self.open("out.h5")["analysis/hessian/transformer"].attrs["stability_threshold"], threshold, 12)
            np.testing.assert_allclose(found["transformer/epoch_loss"][0, :2], self.open("edge.h5")["training/loss"][...], rtol=1e-6)
            known = np.isfinite(found["transformer/epoch_preconditioned_eigenvalue"][0])
            self.assertEqual(known.tolist(), [False, optimiser == "adamw", optimiser == "adamw"])


class Preconditioned(ModelsTest):
    def followed(self, *epochs, output="out.h5", **more):
        found = self.hessian(*FOLLOWED, "--hessian.epochs=" + ",".join(map(str, epochs)), output=output, **more)
        return {name.removeprefix("transformer/"): values[0] for name, values in found.items() if name.startswith("transformer/")}

    def test_the_eigenvalue_is_followed_with_rate_and_threshold(self):
        found = self.followed(0, 1, 3, ranks=2)
        group = self.open("out.h5")["analysis/hessian/transformer"]
        copies = [self.copy_of("transformer", epoch) for epoch in (0, 1, 3)]
        np.testing.assert_array_equal(found["epoch_learning_rate"], [copy["optimiser"].attrs["learning_rate"] for copy in copies])
        self.assertEqual(group.attrs["stability_threshold"], copies[0]["optimiser"].attrs["stability_threshold"])
        plain, scaled = found["epoch_largest_eigenvalue"][:, 0], found["epoch_preconditioned_eigenvalue"]
        self.assertTrue(np.isnan(scaled[0]))  # before the first step
        for at in (1, 2):
            diagonal = copies[at]["optimiser/preconditioner"][...]
            # Rayleigh quotients of D^-1/2 H D^-1/2 at D^1/2 times the eigenvector of H, and the other way round.
            self.assertGreater(scaled[at], plain[at] / diagonal.max())
            self.assertLess(scaled[at], plain[at] / diagonal.min())

    def test_the_eigenvalue_is_that_of_the_preconditioner_in_the_file(self):
        arrays = self.variables_of("transformer", 1)
        self.change("transformer", 1, "/optimiser/preconditioner", np.full(sum(array.size for _, array in arrays), 0.25))
        paths = {"K of set 2": "layers/2/W_K", "W_1 of set 1": "layers/1/W_1", "head": "head/W"}
        for epoch, alone in zip((0, 2, 3), paths.values()):
            # Only the block of this array counts: what is beside it is divided by 1e10 and more.
            diagonal = np.concatenate([np.full(array.size, 1 if path == alone else 1e20) for path, array in arrays])
            self.change("transformer", epoch, "/optimiser/preconditioner", diagonal)
            for path, array in arrays:  # the same weights in all copies
                self.change("transformer", epoch, "/model/" + path, array)
        found = self.followed(0, 1, 2, 3)
        plain, scaled = found["epoch_largest_eigenvalue"], found["epoch_preconditioned_eigenvalue"]
        np.testing.assert_allclose(plain, np.broadcast_to(plain[0], plain.shape), rtol=1e-9)
        self.assertAlmostEqual(scaled[1] / (4 * plain[1, 0]), 1, 9)
        blocks = self.hessian(*NOTHING, "--hessian.block_eigenvalues=true", "--hessian.tolerance=1e-11",
                              "--models.transformer=models/transformer.epoch1.h5", models=ON_TRAINING, output="blocks.h5")
        names = self.open("blocks.h5")["analysis/hessian/transformer"].attrs["blocks"].split("\n")
        largest = blocks["transformer/block_largest_eigenvalue"][0]
        for value, name in zip(scaled[[0, 2, 3]], paths):
            expected = largest[names.index(name)]
            self.assertGreater(expected, 0)  # of largest magnitude, and the largest
            self.assertAlmostEqual(value / expected, 1, 9, name)

    def test_files_without_a_record_have_no_preconditioned_eigenvalue(self):
        with h5py.File(self.path("models/transformer.epoch1.h5"), "r+") as file:
            del file["optimiser"]
        found = self.followed(1, 2)
        self.assertEqual(np.isnan(found["epoch_learning_rate"]).tolist(), [True, False])
        self.assertEqual(np.isnan(found["epoch_preconditioned_eigenvalue"]).tolist(), [True, False])
        self.assertIn("stability_threshold", self.open("out.h5")["analysis/hessian/transformer"].attrs)

    def test_records_that_are_not_positive_numbers_are_refused(self):
        size = sum(array.size for _, array in self.variables_of("transformer", 1))
        for bad in (0, -1, np.nan, np.inf):
            self.change("transformer", 1, "/optimiser/preconditioner", np.where(np.arange(size) == size // 2, bad, 1.0))
            end = self.run_program("hessian_spectrum", "--quiet", *ONE, *FOLLOWED, "--hessian.epochs=1", "--output.file=out.h5")
            self.assert_refused(end, "transformer.epoch1.h5", "/optimiser/preconditioner")


class Exact(ModelsTest):
    EXACT = ("--hessian.exact=true", "--hessian.parts=gauss_newton", "--hessian.tolerance=1e-12")

    def check(self, found, model):
        """What holds for every Gauss-Newton part; the distances of the blocks that are not 0."""
        exact = {name.removeprefix(f"{model}/gauss_newton_exact_"): values[0] for name, values in found.items() if "_exact_" in name}
        value, norm, distance = exact["eigenvalue"], exact["block_norm"], exact["block_distance"]
        np.testing.assert_allclose(value.sum(), exact["trace"], rtol=1e-12)
        np.testing.assert_allclose(np.linalg.norm(value), exact["norm"], rtol=1e-12)
        self.assertTrue((np.diff(value) <= 0).all() and value[-1] >= 0)
        largest = found[f"{model}/gauss_newton_largest_eigenvalue"][0]
        np.testing.assert_allclose(value[:largest.size], largest, rtol=1e-10, atol=1e-12 * value[0])
        # Positive semi-definite: blocks without biases and norms are a part of the trace, and of the squares.
        self.assertLess(exact["block_trace"].sum(), exact["trace"])
        self.assertLess(np.linalg.norm(norm), exact["norm"])
        np.testing.assert_allclose(norm, norm.T, rtol=1e-10, atol=1e-12 * norm.max())
        self.assertTrue((norm ** 2 <= np.outer(exact["block_trace"], exact["block_trace"]) * (1 + 1e-12)).all())
        block = exact["block_largest_eigenvalue"]
        self.assertTrue((block <= np.diag(norm) * (1 + 1e-12)).all() and (np.diag(norm) <= exact["block_trace"] * (1 + 1e-12)).all())
        np.testing.assert_allclose(found[f"{model}/gauss_newton_block_largest_eigenvalue"][0], block, rtol=1e-10, atol=1e-12 * block.max())
        there = exact["block_trace"] > 0
        self.assertTrue((np.isnan(distance) == ~np.outer(there, there)).all())
        distance = distance[np.ix_(there, there)]
        self.assertTrue((distance == distance.T).all() and not np.diag(distance).any())
        pairs = distance[np.triu_indices(there.sum(), 1)]
        self.assertTrue((pairs > 0).all() and (pairs <= 1).all())
        self.assertAlmostEqual(exact["heterogeneity"], pairs.mean(), 13)
        return there

    def test_numbers_agree_with_each_other_and_with_krylov_schur_for_every_model(self):
        found = self.hessian(*self.EXACT, "--hessian.probes=0", "--hessian.block_eigenvalues=true", *OTHERS, ranks=2)
        for model in MODELS:
            there = self.check(found, model)
            names = self.open("out.h5")[f"analysis/hessian/{model}"].attrs["blocks"].split("\n")
            # Without attention these have no influence.
            absent = {f"{kind} of set {layer}" for kind in "QKVO" for layer in (1, 2)} if model == "mlp" else set()
            self.assertEqual({name for name, is_there in zip(names, there) if not is_there}, absent)

    def test_all_eigenvalues_are_found_by_krylov_schur_and_their_sum_by_a_large_sketch(self):
        # Two samples of ten classes: shares that add up to 1 make the rank 18, and 20 vectors span the range.
        found = self.hessian(*self.EXACT, "--samples.count=2", "--hessian.eigenvalues=18", "--hessian.probes=20", "--hessian.steps=2",
                             "--hessian.block_probes=20")
        value = found["transformer/gauss_newton_exact_eigenvalue"][0]
        self.assertEqual(value.size, 20)
        np.testing.assert_allclose(value[:18], found["transformer/gauss_newton_largest_eigenvalue"][0], rtol=1e-8, atol=1e-11 * value[0])
        self.assertLess(value[18], 1e-14 * value[0])
        np.testing.assert_allclose(found["transformer/gauss_newton_trace"], found["transformer/gauss_newton_exact_trace"], rtol=1e-10)
        for measure in ("block_trace", "block_norm"):
            exact, estimate, error = (found[f"transformer/gauss_newton_{name}"] for name in (f"exact_{measure}", measure, f"{measure}_error"))
            self.assertTrue((np.abs(estimate - exact) < 6 * error).all(), measure)

    def test_is_the_same_on_any_number_of_ranks(self):
        runs = [self.hessian(*self.EXACT, "--hessian.probes=0", "--hessian.eigenvalues=0", "--models.mlp=models/mlp.h5", ranks=ranks,
                             output=f"on{ranks}.h5") for ranks in (1, *SEVERAL_RANKS)]
        for other in runs[1:]:
            self.assertEqual(sorted(other), sorted(runs[0]))
            for name in runs[0]:
                if "exact" in name:  # eigenvalues to round-off of the largest
                    np.testing.assert_allclose(other[name], runs[0][name], rtol=1e-10, atol=1e-13 * np.nanmax(runs[0][name]), err_msg=name)


class OtherRuns(ModelsTest):
    def test_files_that_are_no_controls_are_refused(self):
        end = self.run_program("train", "--quiet", *TRAINING, "--data.tokens=patches", "--attention.normalisation=linear",
                               "--output.file=models/patches.h5")
        self.assertEqual(end.code, 0, end)
        cases = ((("--models.linear=models/transformer.h5",), ("models.linear = models/transformer.h5", "attention.normalisation")),
                 (("--models.mlp=models/transformer.h5",), ("models.mlp = models/transformer.h5", "equation.alpha")),
                 (("--models.linear=models/mlp.h5",), ("models.linear = models/mlp.h5", "data.tokens = rows", "whole")),
                 (("--models.linear=models/patches.h5",), ("models.linear = models/patches.h5", "data.tokens = rows", "patches")),
                 (("--models.mlp=models/patches.h5",), ("models.mlp = models/patches.h5", "equation.alpha")),
                 ((OTHERS[0], "--models.mlp=models/none.h5"), ("models.mlp = models/none.h5",)))

        def refuse(settings, words):
            end = self.run_program("hessian_spectrum", "--quiet", *ONE, *settings, "--output.file=out.h5")
            with self.subTest(settings=settings):
                self.assert_refused(end, *words)

        together([lambda case=case: refuse(*case) for case in cases])
        self.assert_refused(self.run_program("attention", "--quiet", *ONE[:1], "--data.tokens=rows", OTHERS[0]), "models.linear")

    def test_ranks_that_share_tokens_find_the_same(self):
        # The relative error of an eigenvalue is at most its residual.
        settings = ("--hessian.parts=hessian", "--hessian.eigenvalues=2", "--hessian.tolerance=1e-10", "--hessian.probes=0",
                    "--hessian.exact=true", "--samples.count=5")
        alone = self.hessian(*settings)
        for ranks in (2, 4) if FULL_TIER else (4,):  # 4: two groups
            shared = self.hessian(*settings, "--mesh.ranks_token=2", ranks=ranks, output=f"on{ranks}.h5")
            self.assertEqual(sorted(shared), sorted(alone))
            for name, numbers in alone.items():
                if not name.endswith(("seconds", "residual")):
                    np.testing.assert_allclose(shared[name], numbers, rtol=1e-10, atol=1e-12 * np.nanmax(np.abs(numbers)), err_msg=name)

    def test_ranks_that_cannot_share_tokens_are_refused(self):
        for ranks, share in ((3, 2), (2, 4)):
            end = self.run_program("hessian_spectrum", "--quiet", *ONE, f"--mesh.ranks_token={share}", "--output.file=out.h5", ranks=ranks)
            self.assert_refused(end, f"mesh.ranks_token = {share}", str(ranks))


if __name__ == "__main__":
    unittest.main()
