#!/usr/bin/env python3
"""`identifiability` on imported decoders of today, with lines of several lengths: ranks and null spaces are those that widths and repeated
words say, all other numbers of heads, tokens and contributions are numpy's, on any number of ranks; windows that hide tokens are refused.

The model of numpy is held to PyTorch by published_models_test.py.
"""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from identifiability_attribution_test import Sample, agreements, contributions  # noqa: E402
from identifiability_models import Marched, WrittenModels, write_token_file  # noqa: E402
from identifiability_tokens_test import rates_of  # noqa: E402
from identifiability_weights_test import excess, joint, numbers_of_head, projected  # noqa: E402
from program import FULL_TIER, together  # noqa: E402
from published_case import ROOT, Case, save  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

from python_package import call  # noqa: E402

RANKS = (1, 2, 3, 4, 6) if FULL_TIER else (1, 3)
TOKENS, COUNT, COMPARED, FIT, ATTRIBUTED = 11, 40, 8, 10, 3
WORDS = ["word0", ".", ",", "--", *(f"word{number}" for number in range(4, 29))]
# Groups of keys and values, heads of another width than that of the model over their number, norms of queries and keys, halves turned by
# scaled cosines; sub-layers side by side, neighbouring channels turned.
DECODERS = {"qwen3": "Qwen3ForSequenceClassification", "gptj": "GPTJForSequenceClassification"}
ARGUMENTS = (f"--identifiability.rows={TOKENS}", f"--identifiability.joint_tokens={TOKENS}", "--identifiability.head=1", f"--identifiability.fit={FIT}",
             "--identifiability.hidden=4", "--identifiability.fit_epochs=2", f"--identifiability.attributed={ATTRIBUTED}",
             "--identifiability.flow_tokens=1")
# Projections lose the condition of the values, up to 1e4; other sums are of some hundred numbers of order one.
TOLERANCE = 1e-11
# The search for other weights follows directions of which only 1e-10 is left after a projection: of each of its 4 steps 2e-16 / 1e-10 is
# round-off, and products of matrices of another number of rows may round otherwise.
TOLERANCE_OF_OTHER_WEIGHTS = 4 * 2.2e-16 / 1e-10


def texts(tokens=TOKENS):
    """A token file's arrays. Words repeat within a line, in every other one as its first two. Padding is a word that stands nowhere else."""
    random = np.random.default_rng(3)
    lengths = tokens - np.arange(COUNT, dtype="i4") % min(7, tokens - 1)
    ids = random.integers(0, 20, (COUNT, tokens), dtype="i4")
    ids[:, 1] = (ids[:, 0] + random.integers(1, 20, COUNT)) % 20
    ids[::2, 1] = ids[::2, 0]
    ids[:, 2] = (ids[:, 1] + random.integers(1, 20, COUNT)) % 20
    ids[np.arange(tokens) >= lengths[:, None]] = len(WORDS) - 1
    return {"ids": ids, "lengths": lengths, "labels": (np.arange(COUNT) % 4).astype("i4"), "words": WORDS}


def different(words, layer):
    """How many of the first tokens have different states in front of a layer, counted from 0: different words have; behind a layer all have that
    do not hear the same word only."""
    return len(set(words)) if layer == 0 else len(words) - (words[:2].tolist() == [words[0]] * 2)


class DecodersTest(WrittenModels):
    @classmethod
    def make(cls, maker):
        write_token_file(maker.path("text.h5"), texts())
        for name, kind in (*DECODERS.items(), ("mistral", "MistralModel")):
            end = call("import", *save(maker.folder, *Case(name).published(kind)), "--output", maker.path(f"{name}.h5"))
            assert (end.returncode, end.stderr) == (0, ""), end

    def samples(self):
        """The compared samples, then those on which maps are fitted."""
        self.identifiability("--identifiability.measures=weights", "--identifiability.rows=0", transformer="qwen3.h5", count=COMPARED + FIT,
                             output="all.h5")
        return self.drawn_of(texts())

    def runs(self, name, on_ranks):
        """The arrays of a run on each of these numbers of ranks."""
        found = {}

        def run(ranks):
            found[ranks] = self.identifiability(*ARGUMENTS, transformer=f"{name}.h5", count=COMPARED, ranks=ranks, output=f"{name}{ranks}.h5")

        together([lambda ranks=ranks: run(ranks) for ranks in on_ranks])
        return found

    def heads_of(self, model, words):
        """[layer][head] of (attention, queries, keys, T) of a sample."""
        rows, attention, _ = model.run(model.embed(words[None])[0])
        heads = []
        for layer in range(model.layers):
            q, k = (model.parts(rows[layer], letter, layer + 1) for letter in "QK")
            heads.append([(attention[layer, head], q[head], k[head], v @ h)
                          for head, (v, h) in enumerate(model.values(rows[layer], layer + 1))])
        return heads

    def assert_close(self, found, expected, name):
        np.testing.assert_allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE, err_msg=name)

    def assert_ranks_are_those_of_widths(self, found, samples, width, channels):
        """Values of some tokens have as many dimensions as these have different states, at most as a head has channels: the other directions of
        a row of weights are free, one less if their sum is kept. Heads together write into one state."""
        heads, sums = 4, {}
        for words in samples:
            for layer in range(3):
                states = np.array([different(words[:seen], layer) for seen in range(1, len(words) + 1)])
                for name, linear in (("linear", 0), ("simplex", 1)):
                    ranks = np.minimum(states, channels + linear)
                    free = np.mean(np.arange(1, len(words) + 1) - ranks)
                    lost = np.mean(heads * ranks - np.minimum(heads * ranks, width + heads * linear))
                    for number, value in ((f"nullity_{name}", free), (f"excess_{name}", lost)):
                        sums.setdefault(number, np.zeros(3))[layer] += value / len(samples)
        for number, expected in sums.items():
            values = found[f"transformer/{number}"][0, 0]
            self.assert_close(values, expected[:, None].repeat(heads, 1) if values.ndim == 2 else expected, number)
            if number.startswith("nullity"):
                self.assertTrue((expected > 0).all(), number)
        self.assertGreaterEqual(sums["nullity_linear"][0], sums["nullity_linear"][1])
        self.assertFalse(found["transformer/uncertain"].any())

    def assert_heads_are_numpys(self, found, model, samples):
        counts = np.bincount(np.concatenate(samples), minlength=len(WORDS))
        frequent = set(np.argsort(-counts, kind="stable")[:20])
        sums, excesses = {}, np.zeros((model.layers, 2))
        for words in samples:
            for layer, heads in enumerate(self.heads_of(model, words)):
                excesses[layer] += np.array(excess([t for *_, t in heads], True)) / len(samples)
                for head, (a, _, k, t) in enumerate(heads):
                    for number, value in numbers_of_head(a, k, t, words, frequent, True).items():
                        place = sums.setdefault(number, np.zeros((model.layers, model.heads, *np.shape(value))))
                        place[layer, head] += np.array(value) / len(samples)
        for number, expected in {**sums, "excess_linear": excesses[:, 0], "excess_simplex": excesses[:, 1]}.items():
            self.assert_close(found[f"transformer/{number}"][0, 0], expected, number)

    def assert_first_sample_is_numpys(self, found, heads):
        np.testing.assert_array_equal(found["transformer/nullity_joint"][0], [[joint(*head) for head in layer] for layer in heads])
        for layer, of_layer in enumerate(heads):
            a, _, _, t = of_layer[1]
            n = len(a)
            for name, expected in (("raw", a), ("effective", projected(a, t, True))):
                self.assert_close(found[f"transformer/map_{name}"][0, layer], np.pad(expected, (0, TOKENS - n)), name)
            other = found["transformer/map_alternative"][0, layer, :n, :n]
            self.assertGreaterEqual(other.min(), 0)
            np.testing.assert_allclose(other @ t, a @ t, atol=1e-12)  # sums and products of up to eleven numbers of order one
            self.assertAlmostEqual(found["transformer/alternative_distance"][0, layer, 1], abs(other - a).sum(1).mean() / 2, places=12)

    def assert_tokens_are_numpys(self, found, model, samples):
        expected = rates_of(model, samples, COMPARED)
        self.assert_close(found["transformer/smallest_distance"][0], expected.pop("smallest"), "smallest_distance")
        for name, values in expected.items():  # whole numbers of tokens, divided
            self.assert_close(found[f"transformer/rate_{name}"][0], values, name)
        self.assertLess(expected["identity_l2"][-1], 0.9)

    def assert_contributions_are_numpys(self, found, model, words):
        samples = [Sample(model, one, None, {"flow_tokens": 1, "pooling": "last", "class_token": 0, "spectral": False}) for one in words]
        for name, expected in (agreements(samples) | contributions(samples, 0, 0)).items():
            self.assert_close(found[f"transformer/{name}"][0], expected, name)
        n = samples[0].n
        self.assert_close(found["transformer/contribution_map"][0, :, :n, :n], samples[0].c, "contribution_map")
        self.assert_close(found["transformer/blanked_change"][0, :n], samples[0].effects[""], "blanked_change")


class Decoders(DecodersTest):
    def test_have_numpys_numbers_on_any_number_of_ranks(self):
        samples = self.samples()
        for name, on_ranks in (("qwen3", RANKS), ("gptj", RANKS if FULL_TIER else (3,))):
            with self.subTest(name):
                found = self.runs(name, on_ranks)
                one = found[on_ranks[0]]
                model, compared = Marched(self.path(f"models/{name}.h5")), samples[:COMPARED]
                width, channels = (int(model.attributes["width"]), len(model.arrays["layers/1/W_Q"]) // model.heads)
                with h5py.File(self.path(f"{name}{on_ranks[0]}.h5"), "r") as file:
                    self.assertEqual(file["analysis/identifiability/transformer"].attrs["value_width"], channels)
                self.assert_ranks_are_those_of_widths(one, compared, width, channels)
                self.assert_heads_are_numpys(one, model, compared)
                self.assert_first_sample_is_numpys(one, self.heads_of(model, compared[0]))
                self.assert_tokens_are_numpys(one, model, samples)
                self.assert_contributions_are_numpys(one, model, compared[:ATTRIBUTED])
                for ranks in on_ranks[1:]:
                    self.assertEqual(sorted(found[ranks]), sorted(one))
                    for array, values in found[ranks].items():
                        if not array.endswith("seconds"):
                            tolerance = TOLERANCE_OF_OTHER_WEIGHTS if "alternative" in array else TOLERANCE
                            np.testing.assert_allclose(values, one[array], rtol=tolerance, atol=tolerance, err_msg=f"{array}, {ranks} ranks")

    def test_whose_windows_hide_tokens_are_refused(self):
        write_token_file(self.path("models/short.h5"), texts(4))  # the window of four tokens hides none of them
        found = self.identifiability("--identifiability.measures=weights", transformer="mistral.h5", file="short.h5")
        self.assert_ranks_are_those_of_widths(found, self.drawn_of(texts(4)), 20, 6)
        for measure, ranks in (("weights", 1), ("attribution", 3)):
            end = self.run_program("identifiability", "--models.transformer=models/mistral.h5", "--data.set=tokens", "--data.file=models/text.h5",
                                   f"--samples.count={COMPARED}", "--identifiability.attributed=2", f"--identifiability.measures={measure}",
                                   "--output.file=refused.h5", ranks=ranks)
            self.assert_refused(end, "attention.window = 4: heads are analysed for attention whose window hides no token, and lines have 11 tokens")


if __name__ == "__main__":
    unittest.main()
