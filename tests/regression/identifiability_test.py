#!/usr/bin/env python3
"""`identifiability`: its numbers against numpy, from nothing but the model file and the samples; equal on any number of ranks; models of
any kind; and what it refuses.
"""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from comparison import CompareTest  # noqa: E402
from identifiability_models import Marched, spearman, write_token_file  # noqa: E402
from program import ROOT, SEVERAL_RANKS, TrainTest, together  # noqa: E402

TOKENS, WORDS, SAMPLES, FIT = 9, 12, 8, 6
RANDOM = np.random.default_rng(3)
COUNT = 40
LABELS = np.arange(COUNT) % 2
TEXT = {"ids": np.where(RANDOM.random((COUNT, TOKENS)) < 0.5, 2 + LABELS[:, None], RANDOM.integers(2, WORDS, (COUNT, TOKENS))).astype("i4"),
        "lengths": (TOKENS - np.arange(COUNT) % 5).astype("i4"), "labels": LABELS,
        "words": np.array(["<unk>", "."] + [f"word{number}" for number in range(2, WORDS)])}
DATA = ("--data.set=tokens", "--data.file=models/text.h5")
SIZES = ("--mesh.layers=2", "--attention.heads=2", "--model.width=8", "--model.ffn=6", "--train.epochs=2", "--train.batch=8",
         "--train.rate=3e-2", "--train.validation=0", "--output.snapshots=1")
MODELS = {"transformer": (), "independent": ("--model.kind=pde", "--model.knots=2", "--mesh.cells=4", "--equation.kappa=0.05", "--model.seed=2"),
          "masked": ("--train.objective=masked",), "linear": ("--attention.normalisation=linear",)}
FILES = ("--models.transformer=models/transformer.h5", *DATA, f"--samples.count={SAMPLES}", "--samples.batch=3")
BOTH = (*FILES, "--models.independent=models/independent.h5")
ALL = (f"--identifiability.fit={FIT}", "--identifiability.hidden=4", "--identifiability.fit_epochs=2",
       f"--identifiability.attributed={SAMPLES}", "--identifiability.flow_tokens=2")


class IdentifiabilityTest(CompareTest):
    @classmethod
    def setUpClass(cls):
        maker = TrainTest()
        maker.folder = cls.shared = tempfile.mkdtemp(prefix="fluxformer-")
        write_token_file(maker.path("text.h5"), TEXT)

        def train(name, settings):
            end = maker.run_program("train", "--quiet", "--data.set=tokens", "--data.file=text.h5", *SIZES, *settings,
                                    f"--output.file={name}.h5")
            maker.assertEqual(end.code, 0, end)

        together([lambda name=name, settings=settings: train(name, settings) for name, settings in MODELS.items()])

    def identifiability(self, *arguments, models=FILES, **more):
        return self.compare("identifiability", *arguments, models=models, **more)

    def samples(self, count=SAMPLES):
        """(ids of the real tokens) of the samples of the last run, in its order."""
        with h5py.File(self.path("out.h5"), "r") as file:
            numbers = file["sample"][:count]
        return [TEXT["ids"][number][:TEXT["lengths"][number]] for number in numbers]

    def refused(self, *arguments, models=FILES, ranks=1):
        end = self.run_program("identifiability", "--quiet", *models, *arguments, ranks=ranks)
        self.assertEqual(end.code, 2, end)
        self.assertFalse(os.path.exists(self.path("identifiability.h5")))
        return end.err


class AgainstNumpy(IdentifiabilityTest):
    def setUp(self):
        super().setUp()
        self.model = Marched(self.path("models/transformer.h5"))

    def embedded(self):
        return [self.model.embed(ids[None])[0] for ids in self.samples()]

    def test_nullities_and_effective_attention(self):
        found = self.identifiability("--identifiability.measures=weights", "--identifiability.lengths=3,6")
        samples = self.embedded()
        for at, length in enumerate((3, 6, TOKENS)):
            cut = [u[:length] for u in samples if len(u) >= length or length == TOKENS]
            self.assertEqual(found["transformer/samples_of_length"][0, at], len(cut))
            self.assertAlmostEqual(found["transformer/tokens_of_length"][0, at], np.mean([len(u) for u in cut]), places=12)
            numbers = {name: np.zeros((2, 2)) for name in ("nullity_linear", "nullity_simplex", "correlation", "kept_norm", "row_sum")}
            for u in cut:
                hidden, attention, _ = self.model.run(u)
                for layer in range(2):
                    for head, (v, h) in enumerate(self.model.values(hidden[layer], layer + 1)):
                        t, a = v @ h, attention[layer, head]
                        effective = a @ t @ np.linalg.pinv(t, rcond=1e-12)
                        for name, value in (
                                ("nullity_linear", len(u) - np.linalg.matrix_rank(t, 1e-10)),
                                ("nullity_simplex", len(u) - np.linalg.matrix_rank(np.hstack([t, np.ones((len(u), 1))]), 1e-10)),
                                ("correlation", np.corrcoef(a.ravel(), effective.ravel())[0, 1]),
                                ("kept_norm", np.linalg.norm(effective) / np.linalg.norm(a)), ("row_sum", effective.sum(1).mean())):
                            numbers[name][layer, head] += value / len(cut)
            for name, expected in numbers.items():
                # The pseudo-inverse loses the condition of T, some hundred.
                np.testing.assert_allclose(found[f"transformer/{name}"][0, at], expected, rtol=1e-10, atol=1e-12, err_msg=f"{name}, {length}")
        self.assertTrue((found["transformer/alternative_error"] < 1e-12).all())
        self.assertTrue((found["transformer/alternative_distance"] > 0.01).any())
        np.testing.assert_allclose(found["transformer/map_alternative"][0].sum(-1)[:, :len(samples[0])], 1, rtol=1e-12)

    def test_tokens_that_are_recognised(self):
        found = self.identifiability("--identifiability.measures=identity", "--identifiability.maps=identity", *ALL[:1])
        right, tokens = np.zeros((2, 3)), 0
        for u in self.embedded():
            hidden, _, _ = self.model.run(u)
            tokens += len(u)
            for depth, state in enumerate(hidden):
                distance = np.linalg.norm(state[:, None] - u[None], axis=2)
                unit, other = state / np.linalg.norm(state, axis=1)[:, None], u / np.linalg.norm(u, axis=1)[:, None]
                for k, nearest in enumerate((distance.argmin(1), (unit @ other.T).argmax(1))):
                    right[k, depth] += (nearest == np.arange(len(u))).sum()
        np.testing.assert_allclose(found["transformer/rate_identity_l2"][0], right[0] / tokens, rtol=1e-12)
        np.testing.assert_allclose(found["transformer/rate_identity_cosine"][0], right[1] / tokens, rtol=1e-12)
        self.assertAlmostEqual(found["transformer/chance"][0], SAMPLES / tokens, places=12)
        self.assertTrue(np.isnan(found["transformer/rate_linear_l2"]).all())

    def test_contributions_and_their_agreement_with_blanked_tokens(self):
        found = self.identifiability("--identifiability.measures=attribution", *ALL[3:])
        step, width = 1e-5, 8  # central differences: truncation 1e-10, round-off 1e-11 of states of size 1
        agreement = {name: [] for name in ("contributions", "raw", "rollout")}
        moved, own = [], []
        for place, u in enumerate(self.embedded()):
            n = len(u)
            _, attention, base = self.model.run(u)
            squares = np.zeros((3, n, n))
            for i in range(n):
                for channel in range(width):
                    ends = []
                    for sign in (1, -1):
                        other = u.copy()
                        other[i, channel] += sign * step
                        ends.append(self.model.run(other)[0])
                    squares[:, i] += (((ends[0] - ends[1]) / (2 * step))**2).sum(-1)
            c = np.sqrt(squares)
            c /= c.sum(1, keepdims=True)
            own.append(np.array([np.diag(one) for one in c]))
            if place == 0:
                np.testing.assert_allclose(found["transformer/contribution_map"][0][:, :n, :n], c, atol=1e-8)
            effect = np.array([np.linalg.norm(self.model.run(np.delete(u, i, 0))[2] - base) for i in range(n)])
            if place == 0:
                np.testing.assert_allclose(found["transformer/blanked_change"][0][:n], effect, rtol=1e-9)
            mean = attention.mean(1)
            rolled = [(mean[0] + np.eye(n)) / 2]
            rolled.append((mean[1] + np.eye(n)) / 2 @ rolled[0])
            for name, scores in (("contributions", c[1:].mean(2)), ("raw", mean.mean(1)), ("rollout", np.array(rolled).mean(1))):
                agreement[name].append([spearman(one, effect) for one in scores])
            moved.append(spearman(np.linalg.norm(u, axis=1), effect))
        for name, values in agreement.items():
            np.testing.assert_allclose(found[f"transformer/agreement_{name}"][0], np.mean(values, 0), rtol=1e-10, err_msg=name)
        self.assertAlmostEqual(found["transformer/agreement_moved"][0], np.mean(moved), places=10)
        np.testing.assert_allclose(found["transformer/own_share"][0], np.concatenate(own, 1).mean(1), atol=1e-8)

    def test_random_directions_agree_with_the_jacobian(self):
        attribution = ("--identifiability.measures=attribution", *ALL[3:4])
        exact = self.identifiability(*attribution)["transformer/contribution_map"]
        found = self.identifiability(*attribution, "--identifiability.probes=400", output="random.h5")
        # A share is a quotient of norms, each with a relative error of about 1/sqrt(2 * 400) at most.
        np.testing.assert_allclose(found["transformer/contribution_map"], exact, atol=0.12)
        self.assertTrue(0 < found["transformer/contribution_error"][0] < 0.4)


class Runs(IdentifiabilityTest):
    def test_all_numbers_are_those_of_one_rank(self):
        arguments = (*ALL, "--identifiability.lengths=4", "--identifiability.joint_tokens=9", "--identifiability.epochs=0,1")
        one = self.identifiability(*arguments, models=BOTH)
        self.assertFalse(np.isnan(one["independent/nullity_joint"]).any())
        for ranks in SEVERAL_RANKS:
            other = self.identifiability(*arguments, models=BOTH, ranks=ranks, output=f"on{ranks}.h5")
            self.assert_same_numbers(one, other)

    def test_models_of_masked_words_and_pde_models_alone_will_do(self):
        found = self.identifiability(*ALL, models=("--models.transformer=models/masked.h5", *FILES[1:]))
        self.assertTrue(np.isnan(found["transformer/agreement_raw_drop"]).all())
        self.assertFalse(np.isnan(found["transformer/agreement_raw"]).any())
        found = self.identifiability(*ALL, models=("--models.independent=models/independent.h5", *FILES[1:]), output="pde.h5")
        self.assertEqual(found["independent/own_share"].shape, (1, 5))

    def test_the_numbers_of_the_words_that_attention_goes_to(self):
        found = self.identifiability("--identifiability.measures=weights")
        self.assertTrue((found["transformer/punctuation_raw"] >= 0).all())
        self.assertTrue((found["transformer/frequent_raw"] <= 1 + 1e-12).all())
        with h5py.File(self.path("out.h5"), "r") as file:
            words = file["analysis/identifiability"].attrs["sample_words"].split()
        self.assertEqual(words, [TEXT["words"][number] for number in self.samples(1)[0]])


class Decks(IdentifiabilityTest):
    def test_run_small_behind_the_training_that_they_name(self):
        os.makedirs(self.path("out"))
        for data in ("digits", "topics"):
            deck = {family: os.path.join(ROOT, "input", family, f"{data}.ini") for family in ("train", "identifiability")}
            end = self.run_program("train", deck["train"], "--quiet", "--train.samples=64", "--train.test_samples=16", "--train.epochs=1",
                                   "--model.width=16", "--model.ffn=12", "--attention.heads=4", ranks=2)
            self.assertEqual(end.code, 0, end)
            end = self.run_program("identifiability", deck["identifiability"], "--quiet", "--samples.count=12", "--identifiability.fit=10",
                                   "--identifiability.fit_epochs=1", "--identifiability.attributed=2", "--identifiability.lengths=4",
                                   ranks=2)
            self.assertEqual(end.code, 0, end)
            own = self.open(f"out/identifiability_{data}.h5")["analysis/identifiability/transformer/own_share"][0]
            self.assertEqual(own[0], 1)
            self.assertTrue((own[1:] < 1).all())


class Refusals(IdentifiabilityTest):
    def test_name_the_key(self):
        cases = [(("--run.precision=single",), "run.precision = single"),
                 (("--identifiability.measures=weight",), "'weight' must be one of weights, identity, attribution"),
                 (("--identifiability.measures=",), "identifiability.measures = : must not be empty"),
                 (("--identifiability.lengths=4,9",), "identifiability.lengths = 4, 9: 9 must be less than 9"),
                 (("--identifiability.lengths=1",), "identifiability.lengths"),
                 (("--identifiability.head=2",), "identifiability.head = 2: transformer has 2 heads"),
                 (("--identifiability.measures=attribution", "--identifiability.attributed=9"), "identifiability.attributed = 9: samples.count is 8"),
                 (("--identifiability.fit=1000",), "identifiability.fit"),
                 ((*ALL[:1], *ALL[3:], "--identifiability.probes=1",), "identifiability.probes = 1"),
                 ((*ALL[:1], *ALL[3:], "--identifiability.probes=64", "--identifiability.norm=spectral"), "identifiability.norm = spectral"),
                 ((*ALL[:1], *ALL[3:], "--identifiability.epochs=7",), "epoch7"), (("--identifiability.maps=tree", *ALL[:1]), "'tree' must be one of")]
        for arguments, message in cases:
            self.assertIn(message, self.refused(*arguments), arguments)

    def test_other_attention_is_refused_on_all_ranks(self):
        models = ("--models.transformer=models/linear.h5", *FILES[1:])
        for ranks in (1, 3):
            self.assertIn("attention.normalisation = linear", self.refused(models=models, ranks=ranks))
        self.assertIn("models.transformer: no file given", self.refused(models=FILES[1:]))


if __name__ == "__main__":
    unittest.main()
