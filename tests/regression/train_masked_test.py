#!/usr/bin/env python3
"""`train` on masked words as seen by a user: it learns more than a count of words, on any ranks; its model goes on with masked words or
becomes a classifier; what has no words or no mask is refused.
"""

import os
import shutil
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from program import FULL_TIER, TrainTest, ranks_of_case, together  # noqa: E402

TOPICS = ("--data.tokens=patches", "--data.set=topics", "--data.length=32", "--data.vocabulary=500", "--data.classes=4")
MASKED = (*TOPICS, "--train.objective=masked")
PDE = ("--model.kind=pde", "--model.knots=2", "--mesh.cells=4", "--equation.kappa=0.05")
# The weights hardly move, by less than 1e-9 in all steps.
STILL = ("--train.rate=1e-12", "--train.warm_up=0")
MADE = "from the model file kept: embedding, final_norm, layers; new: {}; left out: {}\n"

# Texts of one of four groups of three words, in a token file.
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = SPECIAL + [f"{letter}{number}" for letter in "abcd" for number in range(3)]


def token_file():
    """ids, segments, lengths and labels: [CLS], words of the group, [SEP], words, [SEP], [PAD]."""
    random = np.random.default_rng(6)
    groups = random.integers(0, 4, 240)
    ids, segments = np.zeros((240, 14), int), np.zeros((240, 14), int)
    lengths = random.integers(8, 15, 240)
    for sample, (length, group) in enumerate(zip(lengths, groups)):
        ids[sample, :length] = len(SPECIAL) + 3 * group + random.integers(0, 3, length)
        ids[sample, 0], ids[sample, [5, length - 1]] = 2, 3
        segments[sample, 6:] = 1
    return {"ids": ids, "segments": segments, "lengths": lengths, "labels": groups, "words": np.array(WORDS)}


class MaskedTest(TrainTest):
    def masked(self, *settings, ranks=1):
        return self.train(*MASKED, *settings, ranks=ranks)

    def tokens(self, **changes):
        """Writes tokens.h5; returns the arguments that name it."""
        self.put("tokens.h5", {**token_file(), **changes})
        return ("--data.tokens=patches", "--data.set=tokens", "--data.file=tokens.h5")

    def put(self, name, arrays):
        """Writes a token file."""
        with h5py.File(self.path(name), "w") as file:
            for array, values in arrays.items():
                words = values.dtype.kind == "U"
                file.create_dataset(array, data=list(values) if words else values, dtype=h5py.string_dtype() if words else None)

    def vocabulary(self, name):
        return [word.decode() for word in self.open(name)["model/embedding/vocabulary"][...]]

    def assert_same_arrays(self, first, second, groups):
        """Compares the arrays of these groups of two models, bit for bit."""
        one, other = (self.arrays(self.open(name)["model"]) for name in (first, second))
        compared = [name for name in one if name.split("/")[0] in groups]
        self.assertEqual({name.split("/")[0] for name in compared}, set(groups))
        for name in compared:
            np.testing.assert_array_equal(one[name], other[name], err_msg=f"{name}: {first} and {second}")


class Learning(MaskedTest):
    def test_more_than_a_count_of_words_tells(self):
        long = ("--model.width=16", "--model.ffn=32", "--train.samples=1280", "--train.test_samples=400", "--train.epochs=8")
        together([lambda: self.masked(*long), lambda: self.masked(*long, *PDE, "--output.file=pde.h5"),
                  lambda: self.masked(*long, "--train.word_matrix=own", "--train.rate=3e-3", "--output.file=own.h5")])
        for name in ("out.h5", "pde.h5", "own.h5"):
            file = self.open(name)
            training, about = file["training"], file["training"].attrs
            # 18 %, with a matrix of its own 11 %, where words by their frequency are right for 5 %. Standard error of 1440 words: 1 %.
            more = 1.5 if name == "own.h5" else 2
            self.assertGreater(training["test_accuracy"][-1], more * about["unigram_accuracy"], name)
            self.assertGreater(training["test_accuracy"][-1], more * about["bigram_accuracy"], name)
            self.assertGreater(about["unigram_accuracy"], 0.03)
            self.assertGreater(about["bigram_accuracy"], 0.03)
            self.assertNotIn("baseline_accuracy", about)
            loss = training["test_loss"][...]
            self.assertLess(loss[-1], loss[0] - 0.1, name)
            self.assertLess(loss[-1], np.log(500) - 1, name)  # guesses of equal probability: log 500
            np.testing.assert_allclose(training["test_perplexity"][...], np.exp(loss), rtol=4e-16)  # two libraries' exp
        self.assertEqual(self.open("own.h5")["model/word_head/W"].shape, (501, 16))
        self.assertNotEqual(self.open("pde.h5")["model/layers/1/kappa"][0], 0.05)

    def test_ranks_share_samples_or_tokens_without_changing_the_result(self):
        # Three share the 32 tokens unevenly; four are two groups of two. The second tier has each of both alone, too.
        layouts = [(1, ()), (3, ()), (3, ("--mesh.ranks_token=3",)), (4, ("--mesh.ranks_token=2",)),
                   *([(2, ()), (2, ("--mesh.ranks_token=2",))] if FULL_TIER else [])]
        together([lambda r=ranks, m=more: self.masked("--train.epochs=1", "--train.validation=0.25", f"--output.file=r{r}{len(m)}.h5", *m, ranks=r)
                  for ranks, more in layouts])
        one = self.open("r10.h5")["training"]
        for name in [f"r{ranks}{len(more)}" for ranks, more in layouts[1:]]:
            other = self.open(name + ".h5")["training"]
            for column in ("loss", "batch_accuracy", "gradient_norm", "validation_loss", "validation_accuracy", "test_loss", "test_accuracy"):
                # Sums in a different order, through seven steps of Adam.
                np.testing.assert_allclose(other[column][...], one[column][...], rtol=1e-9, atol=1e-15, err_msg=f"{name} {column}")
            for guess in ("unigram_accuracy", "bigram_accuracy"):
                # A sum of about 150 equal numbers.
                np.testing.assert_allclose(other.attrs[guess], one.attrs[guess], rtol=1e-13, err_msg=f"{name} {guess}")

    def test_words_are_masked_anew_in_training_and_always_alike_in_evaluations(self):
        data = (*self.tokens(), "--train.objective=masked", *STILL, "--train.validation=0", "--train.samples=0", "--train.test_samples=0")
        self.train(*data, "--train.epochs=3")
        self.train(*data, "--run.seed=2", "--output.file=other.h5")
        one, other = (self.open(name)["training"] for name in ("out.h5", "other.h5"))
        # An epoch has all samples, of which only the masks differ: many words out of 12 and other ones in their place.
        self.assertGreater(np.abs(np.diff(one["train_loss"][...])).min(), 1e-6)
        # The same masks and nearly the same weights.
        self.assertLess(np.ptp([*one["test_loss"][...], *other["test_loss"][...]]), 1e-8)

    def test_the_guesses_that_count_know_the_training_texts(self):
        common = token_file()["ids"]
        common[(np.random.default_rng(7).random(common.shape) < 0.5) & (common > 4)] = 9
        data = (*self.tokens(ids=common), "--train.objective=masked", "--train.masked=1", "--train.validation=0", "--train.samples=0",
                "--train.test_samples=0", "--train.epochs=1")
        end = self.run_program("train", "train.ini", *data)
        self.assertEqual(end.code, 0, end)
        # All words are to be guessed, and none of [CLS], [SEP], and [PAD] is one.
        words = common[common > 4]
        share = (words == 9).mean()
        self.assertGreater(share, 0.4)
        self.assertAlmostEqual(self.open("out.h5")["training"].attrs["unigram_accuracy"], share, places=12)
        self.assertIn(f"of the masked test words the most frequent word is {100 * share:.6g} %, the bigram guess ", end.err)
        self.assertIn("17 words, of which masked ones are guessed", end.err)


class Continuing(MaskedTest):
    def test_a_stopped_training_ends_with_the_same_bits(self):
        for ranks, name in ((1, "one"), (2, "two")) if FULL_TIER else ((2, "two"),):
            settings = ("--train.dropout=0.2", "--train.augment=0.1", "--checkpoint.epochs=false", f"--output.file={name}.h5")
            for more in ((), ("--checkpoint.restart=auto",)):
                end = self.run_program("train", "train.ini", "--quiet", *MASKED, *settings, "--run.time_limit=1e-6", *more, ranks=ranks)
                self.assertEqual(end.code, 4, end)  # after a step
            for change, part in (("--train.masked=0.3", "train.masked"), ("--train.word_matrix=own", "train.word_matrix")):
                self.assert_refused(self.run_program("train", "train.ini", *MASKED, *settings, "--checkpoint.restart=auto", change, ranks=ranks), part)
            self.masked(*settings, "--checkpoint.restart=auto", ranks=ranks)
            self.masked(*settings[:-1], f"--output.file=whole_{name}.h5", ranks=ranks)
            self.assert_same_training(f"{name}.h5", f"whole_{name}.h5")
            self.assertEqual(len(self.open(f"{name}.h5")["step"]), 18)

    def test_the_model_has_a_mask_and_a_word_head_and_goes_on_or_becomes_a_classifier(self):
        self.masked()
        file = self.open("out.h5")
        words = self.vocabulary("out.h5")
        self.assertEqual((len(words), words[:2], words[-1], len(set(words))), (501, ["<pad>", "<unk>"], "<mask>", 501))
        model = file["model"]
        self.assertEqual((model["word_head/b"].shape, list(model["word_head"]), model["embedding/words"].shape), ((501,), ["b"], (501, 8)))
        self.assertNotIn("head", model)
        kept = ("embedding", "final_norm", "layers", "equation")

        # Other classes than those of a new head, and other seeds of it.
        tuned = [f"--output.file=tuned{seed}.h5" for seed in (1, 2)]
        for seed, output in enumerate(tuned, 1):
            end = self.run_program("train", "train.ini", *TOPICS, "--model.file=out.h5", f"--model.seed={seed}", "--output.snapshots=1", output)
            self.assertEqual(end.code, 0, end)
            self.assertIn(MADE.format("head", "word_head"), end.err)
            self.assertIn("naive Bayes on the same tokens", end.err)
            self.assert_same_arrays(f"tuned{seed}.epoch0.h5", "out.h5", kept)
            self.assertEqual(self.vocabulary(f"tuned{seed}.h5"), words)
            self.assertNotIn("word_head", self.open(f"tuned{seed}.h5")["model"])
        head = [self.open(f"tuned{seed}.epoch0.h5")["model/head/W"][...] for seed in (1, 2)]
        self.assertEqual(head[0].shape, (4, 8))
        self.assertGreater(np.abs(head[0] - head[1]).min(), 0)
        self.assertFalse(self.open("tuned1.epoch0.h5")["model/head/b"][...].any())
        # A classifier that goes on is as it was; as a model of masked words it has a new word head, and the mask.
        end = self.run_program("train", "train.ini", *TOPICS, "--model.file=tuned1.h5", "--output.snapshots=1", "--output.file=more.h5")
        self.assertNotIn("from the model file", end.err)
        self.assert_same_model("more.epoch0.h5", "tuned1.h5")
        end = self.run_program("train", "train.ini", *MASKED, "--model.file=tuned1.h5", "--output.snapshots=1", "--output.file=back.h5")
        self.assertIn(MADE.format("word_head", "head"), end.err)
        self.assert_same_arrays("back.epoch0.h5", "tuned1.h5", kept)
        # Masked words go on where they were.
        end = self.run_program("train", "train.ini", *MASKED, *STILL, "--model.file=out.h5", "--output.snapshots=1", "--output.file=on.h5")
        self.assertEqual(end.code, 0, end)
        self.assertNotIn("from the model file", end.err)
        self.assert_same_model("on.epoch0.h5", "out.h5")
        self.assertAlmostEqual(self.open("on.h5")["training/test_loss"][0], file["training/test_loss"][-1], delta=1e-8)
        # Words flow in as before: evolve has one more.
        end = self.run_program("evolve", *TOPICS[1:], "--quiet", "--model.file=out.h5", "--inflow.samples=2", "--evolve.time=2", "--output.file=e.h5", ranks=2)
        self.assertEqual(end.code, 0, end)

    def test_token_files_with_segments(self):
        short = ("--train.objective=masked", "--train.samples=0", "--train.test_samples=0", "--train.epochs=8", "--train.rate=3e-2")
        data = self.tokens()
        together([lambda r=ranks, m=more: self.train(*data, *short, *m, f"--output.file=r{r}{len(m)}.h5", ranks=r)
                  for ranks, more in ((1, ()), (3, ()), (2, ("--mesh.ranks_token=2",)))])
        one = self.open("r10.h5")
        self.assertEqual(self.vocabulary("r10.h5"), WORDS)  # [MASK] is one of them
        self.assertEqual(one["model/embedding/segment"].shape, (2, 8))
        self.assertEqual(one["model/word_head/b"].shape, (17,))
        # One of three words of a group, which the others tell: 1/3, and one in ten is shown. Without them 1/12.
        self.assertLess(one["training"].attrs["unigram_accuracy"], 0.15)
        self.assertGreater(one["training/test_accuracy"][-1], 0.3)
        for name in ("r30.h5", "r21.h5"):
            # Sums in a different order; 112 steps of Adam let their differences grow.
            np.testing.assert_allclose(self.open(name)["training/loss"][...], one["training/loss"][...], rtol=1e-6)
        # Words without a mask get one, and the file goes with the model that has it.
        nameless = self.tokens(words=np.array([word.replace("[MASK]", "mask") for word in WORDS]))
        self.train(*nameless, *short, "--train.epochs=1")
        self.assertEqual(self.vocabulary("out.h5")[-2:], ["d2", "<mask>"])
        self.train(*nameless, *short, "--train.epochs=1", "--model.file=out.h5", "--output.file=on.h5")
        end = self.run_program("train", "train.ini", *nameless, "--model.file=out.h5", "--train.epochs=1", "--output.file=tuned.h5", ranks=2)
        self.assertEqual(end.code, 0, end)
        self.assertIn(MADE.format("head", "word_head"), end.err)
        self.assertEqual(self.open("tuned.h5")["model/head/W"].shape, (4, 8))


class Refusals(MaskedTest):
    def test_what_cannot_be_masked_or_compared_is_named(self):
        self.train(*TOPICS, "--output.file=classes.h5", "--train.epochs=1")
        self.masked("--output.file=masked.h5", "--train.epochs=1")
        objective, model = "--train.objective=masked", "--models.transformer=masked.h5"
        data = self.tokens()
        nothing = np.where(token_file()["ids"] > 4, 1, token_file()["ids"])
        arrays = token_file()
        del arrays["words"]
        words = {f"train/{name}": values for name, values in arrays.items()} | {f"test/{name}": values for name, values in arrays.items()}
        self.put("untestable.h5", {**words, "test/ids": nothing, "words": np.array(WORDS)})
        self.put("empty.h5", {**arrays, "ids": nothing, "words": np.array(WORDS)})
        shutil.copy(self.path("classes.h5"), self.path("odd.h5"))
        with h5py.File(self.path("odd.h5"), "r+") as file:
            file["model/head/norm_gain"] = np.ones(8)
        cases = [
            ("train", [*TOPICS, "--train.masked=0.2"], ["train.masked", "needs train.objective = masked"]),
            ("train", [*TOPICS, "--train.word_matrix=own"], ["train.word_matrix", "needs train.objective = masked"]),
            ("train", [*MASKED, "--train.masked=0"], ["train.masked = 0", "> 0"]),
            ("train", [*MASKED, "--train.masked=1.1"], ["train.masked = 1.1", "<= 1"]),
            ("train", [objective], ["train.objective = masked", "data.set = digits are not words"]),
            ("train", [*MASKED, "--train.loss=mean_squared_error"], ["train.loss", "words are trained with cross_entropy"]),
            ("train", [*MASKED, "--model.file=classes.h5"], ["train.objective = masked", "no word of the model in model.file = classes.h5", "<mask>"]),
            ("train", [*data[:2], "--data.file=empty.h5", objective, "--train.test_samples=0"], ["train.objective = masked", "training samples have no words"]),
            ("train", [*data[:2], "--data.file=untestable.h5", objective, "--train.test_samples=0"], ["train.objective = masked", "evaluation have no words"]),
            ("ablation", [*TOPICS[1:], objective], ["train.objective = masked: the ablation trains classifiers"]),
            ("train", [*TOPICS, "--model.file=odd.h5"], ["odd.h5: /model/head/norm_gain has no place in this model"]),
            ("hessian_spectrum", [*TOPICS[1:], "--models.transformer=classes.h5", objective], ["train.objective", "unknown key"]),
            *((name, [*TOPICS[1:], model], ["models.transformer = masked.h5: has no classes", "models that guess words cannot be compared", "train"])
              for name in ("bottleneck", "perturbation")),
        ]

        def work(experiment, arguments, parts, ranks):
            with self.subTest(arguments, experiment=experiment, ranks=ranks):
                deck = ["train.ini"] if experiment == "train" else []
                self.assert_refused(self.run_program(experiment, *deck, *arguments, "--output.file=no.h5", ranks=ranks), *parts)

        together([lambda c=case, r=ranks: work(*c, r) for number, case in enumerate(cases) for ranks in ranks_of_case(number)])
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("no")], [])


if __name__ == "__main__":
    unittest.main()
