#!/usr/bin/env python3
"""`train` on next words as seen by a user: loss and guesses by counting against numpy, learning against the entropy of the texts, on any
ranks, to the bit after a stop; analyses of its model; what has no next words is refused.
"""

import collections
import math
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from numpy_model import Model  # noqa: E402
from program import TrainTest, together  # noqa: E402

WORDS = ["<pad>", "<unk>", *"abcdef"]
# Rows: what follows a, b, ..., f. Each word has two likely followers.
CHAIN = np.full((6, 6), 0.02)
CHAIN[range(6), [1, 2, 3, 4, 5, 0]], CHAIN[range(6), [3, 4, 5, 0, 1, 2]] = 0.62, 0.30
CAUSAL = ("--data.tokens=patches", "--data.set=tokens", "--data.file=tokens.h5", "--train.objective=causal", "--attention.causal=true",
          "--train.samples=0", "--train.test_samples=0")
PDE = ("--model.kind=pde", "--model.knots=2", "--mesh.cells=4")
STILL = ("--train.rate=1e-12", "--train.warm_up=0")
COLUMNS = ("loss", "batch_accuracy", "gradient_norm", "validation_loss", "validation_accuracy", "test_loss", "test_accuracy")
ORDERS = range(1, 6)


def texts(samples, seed, tokens=16):
    """Texts of the chain, some words of which are unknown: ids and lengths."""
    random = np.random.default_rng(seed)
    ids, lengths = np.zeros((samples, tokens), int), random.integers(tokens // 2, tokens + 1, samples)
    for sample, length in enumerate(lengths):
        word = random.integers(6)
        for place in range(length):
            ids[sample, place] = 2 + word if random.random() > 0.03 else 1
            word = random.choice(6, p=CHAIN[word])
    return {"ids": ids, "lengths": lengths}


def words_of(split):
    return [list(row[:length]) for row, length in zip(split["ids"], split["lengths"])]


def next_words(split):
    """(words before it, next word) for each next word that is to be guessed."""
    return [(text[:place], text[place]) for text in words_of(split) for place in range(1, len(text)) if text[place] > 1]


class Counts:
    """n-grams by their definition (Chen and Goodman 1999), in dictionaries."""

    def __init__(self, split, order):
        self.order, self._discounts = order, {}
        self.count = collections.defaultdict(lambda: collections.defaultdict(int))
        self.front = collections.defaultdict(lambda: collections.defaultdict(set))
        for before, word in next_words(split):
            for length in range(min(order - 1, len(before)) + 1):
                context = tuple(before[len(before) - length:])
                self.count[context][word] += 1
                self.front[context][word].update(before[len(before) - length - 1:len(before) - length] if length < len(before) else [])

    def behind(self, context, highest):
        found = self.count.get(context, {})
        return {word: count if highest else len(self.front[context][word]) for word, count in found.items()}

    def discount(self, length, highest):
        if (length, highest) not in self._discounts:
            every = [count for context in self.count if len(context) == length for count in self.behind(context, highest).values()]
            once, twice = every.count(1), every.count(2)
            self._discounts[length, highest] = once / (once + 2 * twice) if once else 0
        return self._discounts[length, highest]

    def probability(self, before, word, kneser_ney):
        p = 1 / 6
        for length in range(min(self.order - 1, len(before)) + 1):
            highest = length == self.order - 1 or not kneser_ney
            counts = self.behind(tuple(before[len(before) - length:]), highest)
            total, kinds = sum(counts.values()), sum(count > 0 for count in counts.values())
            if total:
                d = self.discount(length, highest) if kneser_ney else 0
                p = (max(counts.get(word, 0) - d, 0) + d * kinds * p) / total if kneser_ney else (counts.get(word, 0) + kinds * p) / (total + kinds)
        return p

    def guess(self, before):
        for length in reversed(range(min(self.order - 1, len(before)) + 1)):
            counts = self.count.get(tuple(before[len(before) - length:]), {})
            if counts:
                return min(word for word in counts if counts[word] == max(counts.values()))
        return 0


class CausalTest(TrainTest):
    def setUp(self):
        super().setUp()
        self.splits = {"train": texts(160, 1), "test": texts(60, 2)}
        self.put(**self.splits)

    def put(self, **splits):
        with h5py.File(self.path("tokens.h5"), "w") as file:
            for name, split in splits.items():
                for array, values in split.items():
                    file[f"{name}/{array}"] = values
            file.create_dataset("words", data=WORDS, dtype=h5py.string_dtype())

    def causal(self, *settings, ranks=1):
        return self.train(*CAUSAL, *settings, ranks=ranks)

    def by_numpy(self, name):
        """(loss, accuracy) of the next words of the test split."""
        split, model = self.splits["test"], Model(self.path(name))
        states, _ = model.states(split["ids"], split["lengths"])
        logits = model.words(states[-1])
        loss, right = [], []
        for sample, text in enumerate(words_of(split)):
            for place in range(1, len(text)):
                if text[place] > 1:
                    z = logits[sample, place - 1]
                    loss.append(np.log(np.exp(z - z.max()).sum()) + z.max() - z[text[place]])
                    right.append(z.argmax() == text[place])
        self.assertEqual(len(loss), len(next_words(split)))
        return np.mean(loss), np.mean(right)


class Objective(CausalTest):
    def test_loss_and_accuracy_are_those_of_numpy(self):
        for name, more in (("tied", ()), ("own", ("--train.word_matrix=own",))):
            self.causal(*STILL, "--train.epochs=1", "--train.validation=0", f"--output.file={name}.h5", *more)
            loss, accuracy = self.by_numpy(name + ".h5")
            training = self.open(name + ".h5")["training"]
            # Double precision on both sides: a few hundred roundings.
            self.assertAlmostEqual(training["test_loss"][0], loss, delta=1e-12)
            self.assertAlmostEqual(training["test_accuracy"][0], accuracy, delta=1e-12)
            self.assertAlmostEqual(training["test_perplexity"][0], math.exp(loss), delta=1e-10)

    def test_guesses_by_counting_are_those_of_their_definition(self):
        end = self.run_program("train", "train.ini", *CAUSAL, *STILL, "--train.epochs=1", "--train.validation=0")
        self.assertEqual(end.code, 0, end)
        file = self.open("out.h5")
        training, targets = file["training"], next_words(self.splits["test"])
        np.testing.assert_array_equal(file["ngram_order"][...], ORDERS)
        for order in ORDERS:
            counts = Counts(self.splits["train"], order)
            self.assertAlmostEqual(training["ngram_accuracy"][order - 1], np.mean([counts.guess(before) == word for before, word in targets]), delta=1e-12)
            for name, kneser_ney in (("kneser_ney", True), ("witten_bell", False)):
                with np.errstate(divide="ignore"):  # Kneser-Ney without a pair that occurs once gives nothing to pairs that do not occur
                    found = np.exp(-np.mean(np.log([counts.probability(before, word, kneser_ney) for before, word in targets])))
                np.testing.assert_allclose(training[f"{name}_perplexity"][order - 1], found, rtol=1e-11, err_msg=f"{name} {order}")
                self.assertTrue(np.isfinite(found) or order == 2, f"{name} {order}")
        self.assertEqual(training.attrs["unigram_accuracy"], training["ngram_accuracy"][0])
        self.assertEqual(training.attrs["bigram_accuracy"], training["ngram_accuracy"][1])
        self.assertIn("8 words, each guessed from those before it", end.err)
        self.assertIn("of the next test words the most frequent word is ", end.err)
        self.assertIn("perplexity of 1-grams, 2-grams, ... (Kneser-Ney): ", end.err)

    def test_it_learns_what_the_texts_can_tell(self):
        long = ("--model.width=16", "--model.ffn=32", "--train.epochs=12", "--train.rate=1e-2")
        self.put(train=texts(800, 3), test=texts(200, 4))
        together([lambda: self.causal(*long), lambda: self.causal(*long, *PDE, "--output.file=pde.h5")])
        # Behind a known word nobody can do better on average than the entropy of the chain, 0.9 nat. Behind an unknown word, 3 % of all, up to
        # log 6 = 1.8 nat are lost. 2200 test words have a standard error of 0.02 nat.
        entropy = -(CHAIN * np.log(CHAIN)).sum(1).mean()
        for name in ("out.h5", "pde.h5"):
            training = self.open(name)["training"]
            self.assertGreater(training["test_loss"][-1], entropy - 0.06)
            self.assertLess(training["test_loss"][-1], entropy + 0.15)
            self.assertLess(training["test_perplexity"][-1], training["kneser_ney_perplexity"][0])
            self.assertGreater(training["test_accuracy"][-1], 2 * training["ngram_accuracy"][0])


class Running(CausalTest):
    def test_ranks_share_samples_tokens_or_depth_without_changing_the_result(self):
        layouts = {"one": (1, ()), "two": (2, ()), "three": (3, ()), "tokens": (2, ("--mesh.ranks_token=2",)), "uneven": (3, ("--mesh.ranks_token=3",)),
                   "depth": (2, ("--mesh.ranks_depth=2",)), "both": (4, ("--mesh.ranks_token=2",))}
        for kind, more in (("transformer", ()), ("pde", PDE)):
            together([lambda r=ranks, m=mesh, n=name: self.causal("--train.epochs=1", "--train.validation=0.25", f"--output.file={n}_{kind}.h5", *m, *more, ranks=r)
                      for name, (ranks, mesh) in layouts.items()])
            one = self.open(f"one_{kind}.h5")["training"]
            for name in layouts:
                other = self.open(f"{name}_{kind}.h5")["training"]
                for column in COLUMNS:
                    # Sums in a different order, through the steps of Adam.
                    np.testing.assert_allclose(other[column][...], one[column][...], rtol=1e-9, atol=1e-15, err_msg=f"{name} {column}")
                for column in ("ngram_accuracy", "kneser_ney_perplexity", "witten_bell_perplexity"):
                    # A sum of some hundred numbers.
                    np.testing.assert_allclose(other[column][...], one[column][...], rtol=1e-12, err_msg=f"{name} {column}")

    def test_a_stopped_training_ends_with_the_same_bits(self):
        settings = ("--train.dropout=0.2", "--checkpoint.epochs=false", "--train.epochs=2")
        end = self.run_program("train", "train.ini", "--quiet", *CAUSAL, *settings, "--run.time_limit=1e-6")
        self.assertEqual(end.code, 4, end)
        self.assert_refused(self.run_program("train", "train.ini", *CAUSAL, *settings, "--checkpoint.restart=auto", "--train.objective=masked"), "train.objective")
        self.causal(*settings, "--checkpoint.restart=auto")
        self.causal(*settings, "--output.file=whole.h5")
        self.assert_same_training("out.h5", "whole.h5")

    def test_studies_take_its_next_words(self):
        self.causal("--train.epochs=1")
        models = ("--models.transformer=out.h5", "--data.set=tokens", "--data.file=tokens.h5", "--samples.count=60")
        end = self.run_program("refinement", *models, "--refinement.goals=loss", "--refinement.cells=1,2,4", "--output.file=refined.h5")
        self.assertEqual(end.code, 0, end)
        # On the cells of the training it is the network itself.
        loss = self.open("refined.h5")["analysis/refinement/transformer/goal_value"][0, 0, 0]
        self.assertAlmostEqual(loss, self.by_numpy("out.h5")[0], delta=1e-12)
        for study, more in (("hessian_spectrum", ("--hessian.eigenvalues=2", "--hessian.probes=2")), ("removal", ("--removal.calibration=0",))):
            end = self.run_program(study, *models, *more, f"--output.file={study}.h5")
            self.assertEqual(end.code, 0, end)
        self.assert_refused(self.run_program("hessian_spectrum", *models, "--train.masked=0.3", "--output.file=no.h5"), "train.masked", "none of the models")
        self.assert_refused(self.run_program("hessian_spectrum", *models, "--hessian.exact=true", "--output.file=no.h5"), "guesses words")


class Refusals(CausalTest):
    def test_what_has_no_next_words_is_refused(self):
        for settings, parts in ((("--attention.causal=false",), ("train.objective = causal", "attention.causal = true")),
                                (("--train.loss=mean_squared_error",), ("words are trained with cross_entropy",)),
                                (("--train.masked=0.2",), ("train.masked",)),
                                (("--data.set=digits", "--data.file="), ("train.objective = causal", "not words"))):
            self.assert_refused(self.run_program("train", "train.ini", *CAUSAL, *settings), *parts)
        for ids in (np.full((20, 1), 3), np.ones((20, 5), int)):
            self.put(train={"ids": ids, "lengths": np.full(20, ids.shape[1])}, test={"ids": ids, "lengths": np.full(20, ids.shape[1])})
            self.assert_refused(self.run_program("train", "train.ini", *CAUSAL), "train.objective = causal", "no words behind their first ones")
            self.assertFalse(os.path.exists(self.path("out.h5")))


if __name__ == "__main__":
    unittest.main()
