#!/usr/bin/env python3
"""`train` on next words as seen by a user: loss and guesses by counting against numpy, learning against the entropy of the texts, on any
ranks, to the bit after a stop; analyses of its model; what has no next words is refused.
"""

import collections
import math
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from numpy_model import Model  # noqa: E402
from program import FULL_TIER, TrainTest, together  # noqa: E402

WORDS = ["<pad>", "<unk>", *"abcdef"]
# Rows: what follows a, b, ..., f. Each word has two likely followers.
CHAIN = np.full((6, 6), 0.02)
CHAIN[range(6), [1, 2, 3, 4, 5, 0]], CHAIN[range(6), [3, 4, 5, 0, 1, 2]] = 0.62, 0.30
CAUSAL = ("--data.tokens=patches", "--data.set=tokens", "--data.file=tokens.h5", "--train.objective=causal", "--attention.causal=true",
          "--train.samples=0", "--train.test_samples=0")
END = len(WORDS)
PACKED = ("--train.contexts=packed", "--data.length=12")
PDE = ("--model.kind=pde", "--model.knots=2", "--mesh.cells=4")
TRANSPORT = ("--equation.nu=0.3", "--model.nu=channel")
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


def next_words_of_joined(split):
    """The same of texts that are joined by END: of one text each, and all but the first word of all."""
    return [(text[:place], text[place]) for text in words_of(split) for text in [text + [END]] for place in range(len(text)) if text[place] > 1][1:]


def lines(split, tokens, step):
    """Joined texts, cut into lines: (ids padded to `tokens`, number of real ones, first one that is to be guessed), by the definition."""
    joined = [word for text in words_of(split) for word in text + [END]]
    found, reached = [], 1
    while reached < len(joined):
        first = step * len(found)
        line = joined[first:first + tokens]
        found.append((line + [0] * (tokens - len(line)), len(line), reached - first))
        reached = first + tokens
    return found


class Counts:
    """n-grams by their definition (Chen and Goodman 1999), in dictionaries."""

    def __init__(self, words, order, kinds=6):
        self.order, self.kinds, self._discounts = order, kinds, {}
        self.count = collections.defaultdict(lambda: collections.defaultdict(int))
        self.front = collections.defaultdict(lambda: collections.defaultdict(set))
        for before, word in words:
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
        p = 1 / self.kinds
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
        split = self.splits["test"]
        loss, right = self.of_lines(name, [(row, length, 1) for row, length in zip(split["ids"], split["lengths"])])
        self.assertEqual(len(loss), len(next_words(split)))
        return np.mean(loss), np.mean(right)

    def of_lines(self, name, samples, kept=None):
        """Losses, and whether they are right, of the words from the given ones on of each sample; of these layers only."""
        model, ids = Model(self.path(name)), np.array([row for row, _, _ in samples])
        u = model.embed(ids)
        for number in range(1, int(model.attributes["layers"]) + 1) if kept is None else kept:
            u, _ = model.layer(number, u, [length for _, length, _ in samples])
        logits = model.words(u)
        loss, right = [], []
        for sample, (row, length, first) in enumerate(samples):
            for place in range(first, length):
                if row[place] > 1:
                    z = logits[sample, place - 1]
                    loss.append(np.log(np.exp(z - z.max()).sum()) + z.max() - z[row[place]])
                    right.append(z.argmax() == row[place])
        return loss, right


class Objective(CausalTest):
    def test_loss_and_accuracy_are_those_of_numpy(self):
        for name, more in (("tied", ()), ("own", ("--train.word_matrix=own",)), ("transport", TRANSPORT)):
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
            counts = Counts(next_words(self.splits["train"]), order)
            self.assertAlmostEqual(training["ngram_accuracy"][order - 1], np.mean([counts.guess(before) == word for before, word in targets]), delta=1e-12)
            for name, kneser_ney in (("kneser_ney", True), ("witten_bell", False)):
                with np.errstate(divide="ignore"):  # Kneser-Ney without a pair that occurs once gives nothing to pairs that do not occur
                    found = np.exp(-np.mean(np.log([counts.probability(before, word, kneser_ney) for before, word in targets])))
                np.testing.assert_allclose(training[f"{name}_perplexity"][order - 1], found, rtol=1e-11, err_msg=f"{name} {order}")
                self.assertTrue(np.isfinite(found) or order == 2, f"{name} {order}")
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


class Packed(CausalTest):
    def setUp(self):
        super().setUp()
        # All texts begin with the same word: whichever is the first of the joined ones, the same words are to be guessed.
        self.splits["train"]["ids"][:, 0] = 2
        self.put(**self.splits)

    def packed(self, *settings, ranks=1):
        return self.causal(*PACKED, *settings, ranks=ranks)

    def test_loss_of_joined_texts_is_that_of_numpy_whatever_the_stride(self):
        runs = [(12, 0, 1), (12, 11, 2), (12, 5, 1), (12, 5, 3), (12, 1, 2), (4, 2, 1), (2, 1, 1), (40, 7, 2)]
        together([lambda n=n, m=m, r=r: self.packed(*STILL, "--train.epochs=1", "--train.validation=0", f"--data.length={n}", f"--evaluate.stride={m}",
                                                    f"--output.file={n}_{m}_{r}.h5", ranks=r) for n, m, r in runs])
        words = next_words_of_joined(self.splits["test"])
        for n, m, r in runs:
            loss, right = self.of_lines(f"{n}_{m}_{r}.h5", lines(self.splits["test"], n, m or n - 1))
            self.assertEqual(len(loss), len(words), "each word but the first is guessed once")
            training = self.open(f"{n}_{m}_{r}.h5")["training"]
            # Double precision on both sides: a few hundred roundings.
            self.assertAlmostEqual(training["test_loss"][0], np.mean(loss), delta=1e-12)
            self.assertAlmostEqual(training["test_accuracy"][0], np.mean(right), delta=1e-12)
            self.assertAlmostEqual(training["test_perplexity"][0], math.exp(np.mean(loss)), delta=1e-10)
        # Without a stride the samples are those of the largest one.
        self.assertAlmostEqual(*(self.open(name)["training"]["test_loss"][0] for name in ("12_0_1.h5", "12_11_2.h5")), delta=1e-13)

    def test_one_sample_for_all_tokens_is_one_pass_for_any_stride(self):
        self.splits = {"train": texts(40, 1), "test": texts(2, 5)}
        self.put(**self.splits)
        n = sum(self.splits["test"]["lengths"]) + 2
        strides = (0, 1, n // 2, n - 1)
        together([lambda m=m: self.packed(*STILL, "--train.epochs=1", "--train.validation=0", "--train.batch=1", f"--data.length={n}", f"--evaluate.stride={m}",
                                          f"--output.file={m}.h5") for m in strides])
        found = {self.open(f"{m}.h5")["training"]["test_loss"][0] for m in strides}
        self.assertEqual(len(found), 1)
        self.assertEqual(self.open("1.h5")["training"].attrs["test_samples"], 1)

    def test_samples_and_what_is_said_of_them(self):
        end = self.run_program("train", "train.ini", *CAUSAL, *PACKED, "--train.validation=0.25", "--evaluate.stride=3", "--validate")
        self.assertEqual(end.code, 0, end)
        tokens = {"test": self.splits["test"]["lengths"].sum() + 60}
        self.assertIn("packed: 120 texts to train on, 40 to validate, 60 to test, not cut and joined by <eos> (word 8, added)", end.out + end.err)
        self.assertIn("attention looks across the joints of texts", end.out + end.err)
        self.assertIn(f"{1 + -(-(tokens['test'] - 12) // 3)} to test, 12 x 1 tokens, 9 words, each guessed", end.out + end.err)

    def test_guesses_by_counting_are_those_of_texts_with_their_ends(self):
        self.packed(*STILL, "--train.epochs=1", "--train.validation=0", ranks=2)
        self.packed(*STILL, "--train.epochs=1", "--train.validation=0", "--data.length=3", "--evaluate.stride=1", "--output.file=short.h5")
        training, targets = self.open("out.h5")["training"], next_words_of_joined(self.splits["test"])
        counted = next_words_of_joined(self.splits["train"])
        for order in ORDERS:
            counts = Counts(counted, order, kinds=7)
            self.assertAlmostEqual(training["ngram_accuracy"][order - 1], np.mean([counts.guess(before) == word for before, word in targets]), delta=1e-12)
            for name, kneser_ney in (("kneser_ney", True), ("witten_bell", False)):
                with np.errstate(divide="ignore"):
                    found = np.exp(-np.mean(np.log([counts.probability(before, word, kneser_ney) for before, word in targets])))
                np.testing.assert_allclose(training[f"{name}_perplexity"][order - 1], found, rtol=1e-11, err_msg=f"{name} {order}")
                # A sum of some hundred numbers. The lines do not matter.
                np.testing.assert_allclose(self.open("short.h5")["training"][f"{name}_perplexity"][order - 1], found, rtol=1e-11)

    def test_ranks_do_not_change_the_result_and_a_stop_changes_no_bit(self):
        layouts = {"one": (1, ()), "three": (3, ()), "ring": (3, ("--mesh.ranks_token=3",)), "depth": (2, ("--mesh.ranks_depth=2",))}
        common = ("--train.epochs=1", "--train.validation=0.25", "--evaluate.stride=4", "--train.dropout=0.2")
        together([lambda r=ranks, m=mesh, n=name: self.packed(*common, *m, f"--output.file={n}.h5", ranks=r) for name, (ranks, mesh) in layouts.items()])
        one = self.open("one.h5")["training"]
        for name in layouts:
            other = self.open(f"{name}.h5")["training"]
            for column in COLUMNS:
                # Sums in a different order, through the steps of Adam.
                np.testing.assert_allclose(other[column][...], one[column][...], rtol=1e-9, atol=1e-15, err_msg=f"{name} {column}")
        stopped = (*common, "--checkpoint.epochs=false", "--output.file=stopped.h5")
        end = self.run_program("train", "train.ini", "--quiet", *CAUSAL, *PACKED, *stopped, "--run.time_limit=1e-6")
        self.assertEqual(end.code, 4, end)
        on = (*stopped, "--checkpoint.restart=auto")
        self.assert_refused(self.run_program("train", "train.ini", *CAUSAL, *PACKED, *on, "--evaluate.stride=5"), "evaluate.stride")
        self.packed(*on)
        self.assert_same_training("stopped.h5", "one.h5")

    def test_its_model_knows_the_word_that_ends_texts(self):
        self.packed("--train.epochs=1")
        with h5py.File(self.path("out.h5")) as file:
            self.assertEqual([word.decode() for word in file["model/embedding/vocabulary"]], [*WORDS, "<eos>"])
        # It goes on with joined texts and with single ones, and studies take it.
        again = ("--model.file=out.h5", "--train.epochs=1")
        self.packed(*again, "--output.file=again.h5")
        self.causal(*again, "--data.length=12", "--output.file=texts.h5")
        end = self.run_program("refinement", "--models.transformer=out.h5", "--data.set=tokens", "--data.file=tokens.h5", "--data.length=12",
                               "--samples.count=60", "--refinement.goals=loss", "--refinement.cells=1,2", "--output.file=refined.h5")
        self.assertEqual(end.code, 0, end)
        self.causal("--train.epochs=1", "--output.file=plain.h5")
        end = self.run_program("train", "train.ini", *CAUSAL, *PACKED, "--model.file=plain.h5")
        self.assert_refused(end, "train.contexts = packed", "model.file = plain.h5", "ends a text")

    def test_what_cannot_be_joined_is_refused(self):
        for settings, parts in ((("--train.objective=masked",), ("train.contexts", "train.objective = causal")),
                                (("--data.set=digits", "--data.file="), ("train.objective = causal", "not words")),
                                (("--data.length=1",), ("train.contexts = packed", "data.length = 1")),
                                (("--data.length=12", "--evaluate.stride=12"), ("evaluate.stride = 12", "at most 11")),
                                (("--train.contexts=text", "--evaluate.stride=3"), ("evaluate.stride", "train.contexts = packed"))):
            self.assert_refused(self.run_program("train", "train.ini", *CAUSAL, "--train.contexts=packed", *settings), *parts)
        for split in self.splits.values():
            split["segments"] = np.zeros_like(split["ids"])
        self.put(**self.splits)
        self.assert_refused(self.run_program("train", "train.ini", *CAUSAL, *PACKED), "train.contexts = packed", "segments")


class BitsPerByte(CausalTest):
    def columns(self, *settings, **changes):
        self.put(**{name: {**split, **{array: make(split) for array, make in changes.items()}} for name, split in self.splits.items()})
        end = self.run_program("train", "train.ini", *CAUSAL, *STILL, "--train.epochs=1", "--train.validation=0.25", "--output.overwrite=true", *settings)
        self.assertEqual(end.code, 0, end)
        training = self.open("out.h5")["training"]
        return [training[f"{split}_{what}"][0] for split in ("validation", "test") for what in ("loss", "bits_per_byte")], end.err + end.out

    def setUp(self):
        super().setUp()
        for split in self.splits.values():
            split["ids"][split["ids"] == 1] = 2  # a text of known bytes has no unknown words

    def test_with_one_byte_for_each_word_they_are_the_loss_in_bits(self):
        for contexts in ((), ("--data.length=12",)):
            (validation, v_bits, test, bits), said = self.columns(*contexts, token_bytes=lambda split: np.ones_like(split["ids"]))
            self.assertAlmostEqual(v_bits, validation / math.log(2), delta=1e-14)
            self.assertAlmostEqual(bits, test / math.log(2), delta=1e-14)
            self.assertIn(" bits per byte", said.splitlines()[-1])

    def test_bytes_have_ngrams_of_one_more_order_in_bits_per_byte(self):
        for sizes, orders in (([1] * len(WORDS), 6), ([1] * (len(WORDS) - 1) + [2], 5)):
            _, said = self.columns(token_bytes=lambda split, sizes=sizes: np.array(sizes)[split["ids"]])
            file = self.open("out.h5")
            np.testing.assert_array_equal(file["ngram_order"][...], range(1, orders + 1))
            targets = next_words(self.splits["test"])
            bits = len(targets) / math.log(2) / sum(sizes[word] for _, word in targets)
            for name, called in (("kneser_ney", "Kneser-Ney"), ("witten_bell", "Witten-Bell")):
                perplexity = file[f"training/{name}_perplexity"][...]
                self.assertEqual(len(perplexity), orders)
                printed = re.search(rf"[(]{called}[)]:(.*); bits per byte:(.*)", said)
                # Six digits are printed.
                np.testing.assert_allclose([float(number) for number in printed[1].split()], perplexity, rtol=1e-5)
                np.testing.assert_allclose([float(number) for number in printed[2].split()], bits * np.log(perplexity), rtol=1e-5)
        # The longest ones are those of the definition.
        self.columns("--train.validation=0", token_bytes=lambda split: np.ones_like(split["ids"]))
        counts = Counts(next_words(self.splits["train"]), 6)
        for name, kneser_ney in (("kneser_ney", True), ("witten_bell", False)):
            with np.errstate(divide="ignore"):
                found = np.exp(-np.mean(np.log([counts.probability(before, word, kneser_ney) for before, word in targets])))
            np.testing.assert_allclose(self.open("out.h5")[f"training/{name}_perplexity"][5], found, rtol=1e-11)  # a sum of some hundred numbers

    def test_they_are_bits_of_all_guesses_over_the_bytes_of_the_guessed_words(self):
        sizes = np.array([0, 0, 1, 4, 2, 3, 1, 7])
        for contexts, first in (((), 1), (PACKED, 0)):
            (_, _, test, bits), _ = self.columns(*contexts, token_bytes=lambda split: sizes[split["ids"]])
            texts_read = words_of(self.splits["test"])
            number = sum(len(text) - 1 for text in texts_read) if first else sum(len(text) + 1 for text in texts_read) - 1
            count = sum(sizes[text[first:]].sum() for text in texts_read) - (0 if first else sizes[texts_read[0][0]])
            self.assertAlmostEqual(bits, test * number / math.log(2) / count, delta=1e-13)

    def test_they_are_not_reported_where_bytes_are_not_known(self):
        (_, v_bits, _, bits), said = self.columns()
        self.assertTrue(np.isnan([v_bits, bits]).all())
        self.assertNotIn("bits per byte", said)
        for split in self.splits.values():
            split["ids"][0, 1] = split["ids"][1, 1] = 1  # an unknown word stands for bytes that nobody guesses
        (_, _, _, bits), _ = self.columns(token_bytes=lambda split: np.ones_like(split["ids"]))
        self.assertTrue(np.isnan(bits))
        (_, _, _, bits), _ = self.columns(token_bytes=lambda split: (split["ids"] > 1).astype(int))
        self.assertTrue(np.isfinite(bits))
        (_, _, _, bits), _ = self.columns("--train.label_smoothing=0.1", token_bytes=lambda split: (split["ids"] > 1).astype(int))
        self.assertTrue(np.isnan(bits))

    def test_arrays_of_bytes_that_do_not_fit_are_refused(self):
        for make, part in ((lambda split: np.ones(len(split["ids"]), int), "token_bytes is"),
                           (lambda split: -np.ones_like(split["ids"]), "token_bytes holds -1"),
                           (lambda split: np.ones(split["ids"].shape), "token_bytes holds real numbers")):
            self.put(**{name: {**split, "token_bytes": make(split)} for name, split in self.splits.items()})
            self.assert_refused(self.run_program("train", "train.ini", *CAUSAL), "data.file = tokens.h5", part)


class Running(CausalTest):
    def test_ranks_share_samples_tokens_or_depth_without_changing_the_result(self):
        every = {"one": (1, ()), "two": (2, ()), "three": (3, ()), "tokens": (2, ("--mesh.ranks_token=2",)), "uneven": (3, ("--mesh.ranks_token=3",)),
                 "depth": (2, ("--mesh.ranks_depth=2",)), "both": (4, ("--mesh.ranks_token=2",))}
        # Outside the second tier groups, and groups that share tokens, are those of the Transformer.
        some = {"transformer": ("one", "three", "uneven", "depth", "both"), "pde": ("one", "uneven", "depth")}
        for kind, more in (("transformer", ()), ("pde", (*PDE, *TRANSPORT))):
            layouts = {name: layout for name, layout in every.items() if FULL_TIER or name in some[kind]}
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
        for knot in (1, 2):
            nu = self.open("one_pde.h5")[f"model/layers/{knot}/nu"][...]
            self.assertTrue(((nu > 0) & (nu != 0.3)).all() and len(set(nu)) > 1, "one nu for each channel, and all of them trained")

    def test_a_stopped_training_ends_with_the_same_bits(self):
        settings = (*PDE, *TRANSPORT, "--train.dropout=0.2", "--checkpoint.epochs=false", "--train.epochs=2")
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
        studies = {"hessian_spectrum": ("--hessian.eigenvalues=2", "--hessian.probes=2"), "removal": ("--removal.calibration=0",)}
        for study, more in studies.items():
            for ranks in (1, 3):
                end = self.run_program(study, *models, *more, f"--output.file={study}{ranks}.h5", ranks=ranks)
                self.assertEqual(end.code, 0, end)
        self.assert_spectra_are_those_of_the_loss()
        self.assert_removal_is_that_of_numpy()
        self.assert_refused(self.run_program("hessian_spectrum", *models, "--train.masked=0.3", "--output.file=no.h5"), "train.masked", "none of the models")
        self.assert_refused(self.run_program("hessian_spectrum", *models, "--hessian.exact=true", "--output.file=no.h5"), "guesses words")

    def assert_spectra_are_those_of_the_loss(self):
        one, other = (self.open(f"hessian_spectrum{ranks}.h5")["analysis/hessian/transformer"] for ranks in (1, 3))
        self.assertAlmostEqual(one["loss"][0], self.by_numpy("out.h5")[0], delta=1e-12)
        largest = abs(one["largest_eigenvalue"][...]).max()
        for name in ("loss", "gradient_norm", "largest_eigenvalue", "smallest_eigenvalue", "trace", "gauss_newton_largest_eigenvalue", "gauss_newton_trace"):
            self.assertTrue(np.isfinite(one[name][...]).all(), name)
            # Eigenvalues are wrong by their residuals at most, 1e-6 of the norm; all other numbers are the same sums in another order.
            np.testing.assert_allclose(other[name][...], one[name][...], rtol=1e-9, atol=2e-6 * largest if "eigenvalue" in name else 1e-12, err_msg=name)
        self.assertLess(one["smallest_eigenvalue"][0, 0], 0)
        self.assertGreater(one["gauss_newton_largest_eigenvalue"][0, 0], 0.1 * largest)

    def assert_removal_is_that_of_numpy(self):
        split = self.splits["test"]
        samples = [(row, length, 1) for row, length in zip(split["ids"], split["lengths"])]
        losses = {}
        for kept in ((), (1,), (2,), (1, 2)):
            loss, right = self.of_lines("out.h5", samples, kept)
            losses[kept] = np.mean(loss), np.mean(right)
        best = [losses[()], min(losses[(1,)], losses[(2,)]), losses[1, 2]]
        for ranks in (1, 3):
            found = self.open(f"removal{ranks}.h5")["analysis/removal/transformer"]
            # Double precision on both sides: a few hundred roundings.
            np.testing.assert_allclose(found["best_loss"][0], [loss for loss, _ in best], rtol=1e-12)
            np.testing.assert_allclose(found["best_accuracy"][0], [accuracy for _, accuracy in best], rtol=1e-12)
            deepest = self.open(f"removal{ranks}.h5")["analysis/removal"].attrs["rule_names"].split().index("deepest_first")
            np.testing.assert_allclose(found["loss"][0, deepest], [losses[()][0], losses[(1,)][0], losses[1, 2][0]], rtol=1e-12)


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
