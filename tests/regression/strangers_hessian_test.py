#!/usr/bin/env python3
"""What people bring to `hessian_spectrum` and `identifiability`: language models of masked words, with and without names of their words, and PDE
models without a Transformer beside them.
"""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

import numpy as np  # noqa: E402 (the folder is put on the path first)

from comparison import CompareTest  # noqa: E402
from identifiability_models import WORDS, texts, write_model, write_token_file  # noqa: E402
from program import FULL_TIER, TrainTest, together  # noqa: E402
from python_package import call  # noqa: E402

SIZES = ("--mesh.layers=1", "--model.width=8", "--model.ffn=8", "--attention.heads=2", "--train.epochs=1", "--train.batch=8")
SHARE = 0.4  # of the words, in the training of `named`
NAMES = ["[PAD]", "[UNK]", "[MASK]", *(f"w{number}" for number in range(17))]
PDE = ("--model.kind=pde", "--model.knots=2", "--mesh.layers=2", "--mesh.cells=4", "--equation.kappa=0.05")
FEW = ("--hessian.eigenvalues=2", "--hessian.probes=0")
ALL_PARTS = ("--hessian.parts=hessian,gauss_newton,functional",)


def token_file(words=20, tokens=9, count=40):
    """Ids of words from 3 on, with lengths; two classes."""
    random = np.random.default_rng(0)
    return {"ids": random.integers(3, words, (count, tokens)).astype("i4"), "lengths": (tokens - np.arange(count) % 4).astype("i4"),
            "labels": (np.arange(count) % 2).astype("i4")}


class MaskedWords(CompareTest):
    @classmethod
    def setUpClass(cls):
        maker = TrainTest()
        maker.folder = cls.shared = tempfile.mkdtemp(prefix="fluxformer-")
        arrays = token_file()
        write_token_file(maker.path("named.h5"), {**arrays, "words": NAMES})
        write_token_file(maker.path("numbers.h5"), {name: arrays[name] for name in ("ids", "lengths")})
        # A single test sample: the training draws it at the same place as the analysis, and so masks the same words of it.
        one = {f"train/{name}": values for name, values in arrays.items()} | {f"test/{name}": values[:1] for name, values in arrays.items()}
        write_token_file(maker.path("one.h5"), {**one, "words": NAMES})
        big = token_file(3000, 16)
        write_token_file(maker.path("mlm.h5"), {**big, "words": [*NAMES[:3], *(f"w{number}" for number in range(2997))]})
        masked = ("--train.objective=masked",)
        models = {"mlm": ("mlm.h5", masked), "named": ("named.h5", (*masked, f"--train.masked={SHARE}", "--output.snapshots=1")),
                  "own": ("named.h5", (*masked, "--train.word_matrix=own")), "numbers_model": ("numbers.h5", masked),
                  "pde": ("named.h5", (*masked, *PDE)), "single": ("one.h5", (*masked, f"--train.masked={SHARE}", "--train.test_samples=0")),
                  "classes": ("named.h5", ())}

        def train(name, file, settings):
            end = maker.run_program("train", "--quiet", "--data.set=tokens", f"--data.file={file}", *SIZES, *settings,
                                    f"--output.file={name}_trained.h5")
            maker.assertEqual(end.code, 0, end)

        together([lambda n=name, f=file, s=settings: train(n, f, s) for name, (file, settings) in models.items()])

    @staticmethod
    def files(name, file="named.h5", key="transformer", count=8):
        return (f"--models.{key}=models/{name}_trained.h5", "--data.set=tokens", f"--data.file=models/{file}", f"--samples.count={count}",
                "--samples.batch=3")

    def hessian(self, *arguments, models, **more):
        return self.compare("hessian_spectrum", *arguments, models=models, **more)

    def refused(self, *arguments, models, parts, ranks=1):
        for more in ((), ("--validate",)):
            end = self.run_program("hessian_spectrum", "--quiet", *models, *arguments, *more, "--output.file=no.h5", ranks=ranks)
            self.assert_refused(end, *parts)
            self.assertFalse(os.path.exists(self.path("no.h5")))

    def repeat(self, name):
        """Runs again what wrote this file, into again.h5."""
        end = self.run_program("hessian_spectrum", name, "--quiet", "--output.file=again.h5")
        self.assertEqual(end.code, 0, end)

    def test_of_many_words_have_ends_and_density_and_only_the_exact_spectrum_is_refused(self):
        models = self.files("mlm", "mlm.h5")
        found = self.hessian("--hessian.eigenvalues=2", "--hessian.steps=5", "--hessian.probes=2", models=models)
        for part in ("", "gauss_newton_"):
            largest = found[f"transformer/{part}largest_eigenvalue"]
            self.assertEqual(largest.shape, (1, 2))
            self.assertTrue((largest > 0).all())
            np.testing.assert_allclose(np.nansum(found[f"transformer/{part}density_weight"], -1), 1, rtol=1e-10)
        # Words that were hardly learned: guesses of equal probability.
        self.assertAlmostEqual(found["transformer/loss"][0] / np.log(3000), 1, delta=0.1)
        for ranks in (1, 3):
            self.refused("--hessian.exact=true", models=models, ranks=ranks,
                         parts=("hessian.exact = true", "models.transformer guesses words", "each of the 3000 words", "hessian.eigenvalues"))

    def test_flows_read_the_masked_words_of_the_training(self):
        training = self.open("models/single_trained.h5")["training"]
        flows = {"gradient_flow": ("--gradient.jacobian_samples=1", "--gradient.steps=4", "--gradient.exponents=1", "--gradient.sweeps=0"),
                 "information_flow": ("--flow.examples=1",)}

        def flow(name, models, *more):
            return self.compare(name, *flows[name], *more, "--output.overwrite=true", models=models)

        single = self.files("single", "one.h5", count=1)
        for name, measure, there in (("gradient_flow", "loss", "test_loss"), ("information_flow", "accuracy", "test_accuracy")):
            found = flow(name, single)
            np.testing.assert_allclose(found[f"transformer/{measure}"], training[there][-1], rtol=1e-12)  # sums of four losses
            self.assert_same_numbers(found, flow(name, single, f"--train.masked={SHARE}"))
        # Where other words are masked, they are in the Jacobians and in the alignment, too.
        several = (*self.files("named"), "--models.inherited=2")
        found, other = ({**flow("gradient_flow", several, *more), **flow("information_flow", several, *more)} for more in ((), ("--train.masked=0.9",)))
        for measure in ("transformer/loss", "transformer/largest_singular_value", "transformer/norm", "inherited/cka"):
            self.assertGreater(np.abs(other[measure] - found[measure]).max(), 1e-6, measure)

    def test_have_the_loss_of_the_evaluation_in_their_training(self):
        models = self.files("single", "one.h5", count=1)
        found = self.hessian(*FEW, "--hessian.parts=hessian", models=models)
        last = self.open("models/single_trained.h5")["training/test_loss"][-1]
        np.testing.assert_allclose(found["transformer/loss"], last, rtol=1e-12)  # sums of four losses
        other = self.hessian(*FEW, "--hessian.parts=hessian", "--train.masked=1", models=models, output="all.h5")
        self.assertGreater(abs(other["transformer/loss"][0] - last), 1e-6)

    def test_are_masked_by_the_share_of_the_training_and_alike_in_any_batches(self):
        settings = ("--hessian.eigenvalues=1", "--hessian.probes=0", "--hessian.parts=gauss_newton", "--hessian.tolerance=1e-12")
        one = self.hessian(*settings, models=self.files("named"))
        other = self.hessian(*settings, f"--train.masked={SHARE}", "--samples.batch=8", models=self.files("named"), output="8.h5")
        for measure in ("loss", "gradient_norm", "gauss_newton_largest_eigenvalue"):
            np.testing.assert_allclose(other[f"transformer/{measure}"], one[f"transformer/{measure}"], rtol=1e-10, err_msg=measure)
        self.repeat("out.h5")
        np.testing.assert_array_equal(self.numbers("again.h5", "hessian_spectrum")["transformer/loss"], one["transformer/loss"])

    def test_have_parts_that_add_up_to_the_whole(self):
        for name, file, key in (("named", "named.h5", "transformer"), ("own", "named.h5", "transformer"), ("pde", "named.h5", "independent")):
            found = self.hessian("--hessian.eigenvalues=1", "--hessian.probes=0", "--hessian.block_probes=2", *ALL_PARTS,
                                 models=self.files(name, file, key), output=f"{name}.h5")
            whole, gauss_newton, functional = (found[f"{key}/{part}block_trace"] for part in ("", "gauss_newton_", "functional_"))
            # Means over the same random vectors are linear in the matrix.
            np.testing.assert_allclose(gauss_newton + functional, whole, rtol=1e-10, atol=1e-12 * np.abs(whole).max(), err_msg=name)
            self.assertGreater(np.abs(functional).max(), 1e-6)
            self.assertGreaterEqual(found[f"{key}/gauss_newton_largest_eigenvalue"][0, 0], 0)
            blocks = self.open(f"{name}.h5")[f"analysis/hessian/{key}"].attrs["blocks"].split("\n")
            self.assertEqual([block for block in blocks if block in ("embedding", "head")], ["embedding", "head"] if name == "own" else ["embedding"])

    def test_have_the_same_numbers_on_any_ranks_over_samples_or_tokens(self):
        settings = ("--hessian.eigenvalues=2", "--hessian.tolerance=1e-12", "--hessian.probes=0", "--hessian.block_probes=2", *ALL_PARTS)
        models = self.files("named")
        one = self.hessian(*settings, models=models)
        for ranks, more in ((3, ()), (3, ("--mesh.ranks_token=3",)), *(((2, ()),) if FULL_TIER else ())):
            other = self.hessian(*settings, *more, models=models, ranks=ranks, output=f"{ranks}{len(more)}.h5")
            for name in one:
                if not name.endswith(("seconds", "residual")):
                    # As for classifiers: eigenvalues to their tolerance, sums in another order.
                    np.testing.assert_allclose(other[name], one[name], rtol=1e-8, atol=1e-10, err_msg=f"{name} on {ranks} ranks {more}")

    def test_are_followed_over_the_training(self):
        found = self.hessian("--hessian.epochs=0,1", *FEW, "--hessian.parts=hessian", "--data.split=train", models=self.files("named"))
        np.testing.assert_allclose(found["transformer/epoch_largest_eigenvalue"][:, 1], found["transformer/largest_eigenvalue"], rtol=1e-4)
        self.assertNotEqual(found["transformer/epoch_loss"][0, 0], found["transformer/epoch_loss"][0, 1])

    def test_need_neither_labels_nor_names_of_their_words_if_the_program_trained_them(self):
        found = self.hessian(*FEW, models=self.files("numbers_model", "numbers.h5"))
        self.assertTrue(np.isfinite(found["transformer/largest_eigenvalue"]).all())

    def test_that_came_without_a_word_for_the_mask_are_refused_by_name(self):
        write_token_file(self.path("text.h5"), texts())
        write_model(self.path("bare.h5"), 11, classes=0, change=lambda arrays: arrays.update({"word_head/b": np.zeros(len(WORDS))}))
        self.refused(models=("--models.transformer=bare.h5", "--data.set=tokens", "--data.file=text.h5", "--samples.count=4"), ranks=2,
                     parts=("models.transformer = bare.h5", "guesses masked words", "<mask> or [MASK]", "--words"))
        write_model(self.path("no_head.h5"), 11, classes=0)
        self.refused(models=("--models.transformer=no_head.h5", "--data.set=tokens", "--data.file=text.h5", "--samples.count=4"),
                     parts=("no_head.h5", "has no classes and guesses no words", "no loss"))

    def test_texts_without_a_word_that_can_be_masked_are_refused_by_name(self):
        arrays = {**token_file(), "words": NAMES}
        arrays["ids"] = np.ones_like(arrays["ids"])
        write_token_file(self.path("models/unknown.h5"), arrays)
        self.refused(models=self.files("named", "unknown.h5"), ranks=2, parts=("named_trained.h5", "no words that can be masked"))

    def test_a_share_of_masked_words_that_no_model_needs_is_refused(self):
        self.hessian(*FEW, models=self.files("classes"))
        self.repeat("out.h5")  # whose settings hold no share
        self.refused("--train.masked=0.3", models=self.files("classes"), parts=("train.masked = 0.3", "none of the models guesses masked words"))
        self.refused("--train.loss=mean_squared_error", models=self.files("named"), parts=("train.loss", "cross_entropy"))

    def test_are_drawn(self):
        self.hessian("--hessian.steps=5", "--hessian.probes=2", "--hessian.block_probes=2", models=self.files("pde", key="independent"))
        done = call("plot", self.path("out.h5"), "--output", self.path("drawn"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("out_spectrum.png", os.listdir(self.path("drawn")))


class PdeModelsAlone(CompareTest):
    DATA = ("--data.tokens=rows", "--samples.batch=7", "--samples.count=12")
    RUNS = {"hessian_spectrum": (*FEW, "--hessian.block_probes=2", "--hessian.tolerance=1e-12"),
            "identifiability": ("--identifiability.measures=weights",)}

    def run_of(self, experiment, *models, **more):
        files = (f"--models.{name}=models/{file}_1.h5" for name, file in models)
        return self.compare(experiment, *self.RUNS[experiment], models=(*files, *self.DATA), **more)

    def test_have_the_numbers_that_they_have_beside_a_transformer(self):
        for experiment in self.RUNS:
            together_ = self.run_of(experiment, ("transformer", "transformer"), ("independent", "independent"), ("distilled", "distilled"),
                                    output=f"{experiment}.h5")
            for name in ("independent", "distilled"):
                alone = self.run_of(experiment, (name, name), output=f"{experiment}_{name}.h5", ranks=2 if FULL_TIER or name == "distilled" else 1)
                self.assertTrue(alone)
                for measure, values in alone.items():
                    if measure.startswith(name) and not measure.endswith(("seconds", "residual")):
                        np.testing.assert_allclose(values, together_[measure], rtol=1e-8, atol=1e-10, err_msg=f"{experiment} {measure}")

    def test_are_what_their_keys_say(self):
        for experiment in self.RUNS:
            for ranks, models, parts in ((1, (("independent", "distilled"),), ("models.independent", "distilled from")),
                                         (2, (("distilled", "independent"),), ("models.distilled", "trained on labels only")),
                                         (1, (("normed", "distilled"),), ("models.normed", "distilled from")),
                                         (2, (), ("models.transformer: no file given", "models.independent", "models.normed", "models.distilled"))):
                end = self.run_program(experiment, "--quiet", *(f"--models.{name}=models/{file}_1.h5" for name, file in models), *self.DATA,
                                       "--output.file=no.h5", ranks=ranks)
                self.assert_refused(end, *parts)
            end = self.run_program(experiment, "--quiet", "--models.independent=models/independent_1.h5", "--models.inherited=2", *self.DATA,
                                   "--output.file=no.h5")
            self.assert_refused(end, "models.inherited", "needs models.transformer")

    def test_will_not_do_where_a_transformer_is_compared(self):
        end = self.run_program("attention", "--quiet", "--models.independent=models/independent_1.h5", *self.DATA, "--output.file=no.h5")
        self.assert_refused(end, "models.transformer: no file given")


if __name__ == "__main__":
    unittest.main()
