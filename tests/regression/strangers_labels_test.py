#!/usr/bin/env python3
"""Labels as people bring them are never renumbered and never invented, and the numbers of a training are what their names say: of which
samples, which split, which words."""

import os
import sys
import unittest
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from program import FULL_TIER, ROOT, ProgramTest  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

from python_package import FolderTest, call  # noqa: E402

import fluxformer  # noqa: E402
from fluxformer.tokens import write_token_file  # noqa: E402

MODEL = ("--mesh.layers=1", "--model.width=8", "--model.ffn=8", "--attention.heads=2")
TRAIN = (*MODEL, "--train.epochs=2", "--train.batch=2", "--output.file=out.h5", "--output.overwrite=true")


class LabelsOfTexts(FolderTest):
    """`fluxformer tokens` on a text with a sample `a` or `b` for each label."""

    def made(self, train, test=None, options=(), code=0):
        self.output = self.path("t.h5")
        self.write("v.txt", "[PAD]\n[UNK]\na\nb\n")
        self.write("lines.txt", "a\n" * train.count("\n"))
        self.write("y.txt", train)
        arguments = [self.path("lines.txt"), "--words", self.path("v.txt"), "--labels", self.path("y.txt"), "--output", self.output, "--overwrite"]
        if test is not None:
            self.write("test.txt", "b\n" * (test.count("\n") or 2))
            arguments += ["--test", self.path("test.txt")]
        if test:
            self.write("yt.txt", test)
            arguments += ["--test-labels", self.path("yt.txt")]
        done = call("tokens", *arguments, *options)
        self.assertEqual(done.returncode, code, done)
        return done.stdout if code == 0 else done.stderr

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as stream:
            stream.write(text)

    def stored(self, name):
        with h5py.File(self.output, "r") as file:
            if name not in file:
                return None
            array = file[name]
            return array.asstr()[...].tolist() if h5py.check_string_dtype(array.dtype) else array[...].tolist()

    def test_minus_one_is_a_test_sample_without_a_label_and_changes_no_other(self):
        said = self.made("0\n1\n", "-1\n-1\n")
        self.assertEqual((self.stored("train/labels"), self.stored("test/labels"), self.stored("label_names")), ([0, 1], [-1, -1], None))
        self.assertIn("2 test samples have no labels", said)
        self.made("good\nbad\n", "bad\n-1\n")
        self.assertEqual((self.stored("train/labels"), self.stored("test/labels"), self.stored("label_names")), ([1, 0], [0, -1], ["bad", "good"]))
        for train, test in (("0\n-1\n", None), ("0\n-1\n", "1\n0\n"), ("good\n-1\n", None)):
            message = self.made(train, test, code=2)
            self.assertIn("label -1 (", message)
            self.assertIn("y.txt, line 2): classes count from 0; -1 usually means unlabelled", message)

    def test_samples_for_testing_may_have_no_labels(self):
        said = self.made("neg\npos\n", "")
        self.assertEqual((self.stored("train/labels"), self.stored("test/labels")), ([0, 1], None))
        self.assertIn("2 test samples have no labels: they cannot have a test accuracy", said)

    def test_a_class_of_test_samples_alone_is_said_and_renumbers_no_other(self):
        said = self.made("neg\npos\n", "neutral\npos\n")
        self.assertEqual((self.stored("train/labels"), self.stored("test/labels")), ([0, 1], [2, 1]))
        self.assertEqual(self.stored("label_names"), ["neg", "pos", "neutral"])
        self.assertIn("1 of 3 classes have no training samples: 'neutral'", said)

    def test_numbers_and_names_are_not_mixed(self):
        for train, part in (("0\nneg\n", "0 ("), ("pos\n1\n", "'pos' ("), ("0.0\n1.0\n", "label 0.0 ("), ("-2\n0\n", "label -2 ("),
                            ("0\n3000000000\n", "label 3000000000 ("), ("1\nnan\n", "'nan' (")):
            with self.subTest(train):
                message = self.made(train, code=2)
                self.assertIn(part, message)
                self.assertIn("whole numbers", message)
        self.made("1st\n2nd\n")
        self.assertEqual(self.stored("label_names"), ["1st", "2nd"])

    def test_gaps_and_labels_from_one_are_said(self):
        self.assertIn("1 of 3 classes have no training samples: 0; the labels of the training samples are 1 to 2", self.made("1\n2\n"))
        said = self.made("2021\n2022\n2024\n")
        self.assertIn("2022 of 2025 classes have no training samples: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2012 more", said)
        self.assertIn("more than half of the classes are empty", said)
        self.assertNotIn("classes", self.made("1\n0\n"))

    def test_lists_of_labels_are_checked_and_noted_the_same_way(self):
        path = self.path("t.h5")
        with self.assertRaisesRegex(fluxformer.RunError, r"labels holds -1 \(sample 1\).*unlabelled"):
            write_token_file(path, ids=[[1], [2]], labels=[0, -1])
        with self.assertWarnsRegex(UserWarning, "999999 of 1000001 classes have no training samples"):
            write_token_file(path, ids=[[1], [2]], labels=[0, 1000000])
        with self.assertWarnsRegex(UserWarning, "1 test samples have no labels"):
            write_token_file(path, ids=[[1], [2]], labels=[0, 1], test={"ids": [[1], [2]], "labels": [1, -1]}, overwrite=True)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            write_token_file(path, ids=[[1], [2]], labels=[0, 1], overwrite=True)

    def test_lists_of_labels_may_be_texts(self):
        ids, self.output = [[1], [2], [3]], self.path("t.h5")
        with self.assertWarnsRegex(UserWarning, "6 of 8 classes"):
            write_token_file(self.output, ids=ids, labels=["7", "0", "7"])
        self.assertEqual(self.stored("labels"), [7, 0, 7])
        with self.assertWarnsRegex(UserWarning, "1 of 3 classes have no training samples: 'bad'"):
            write_token_file(self.output, ids=ids, labels=["pos", "neg", "pos"], test={"ids": ids, "labels": ["bad", "pos", "-1"]}, overwrite=True)
        self.assertEqual((self.stored("train/labels"), self.stored("test/labels")), ([1, 0, 1], [2, 1, -1]))
        for labels, more, part in ((["pos", "-1", "neg"], {}, r"label -1 \(.*: labels, sample 1\)"), (["1", "neg", "2"], {}, "not both"),
                                   (["pos", "neg", ""], {}, "labels, sample 2 is empty"), (["a", "b", "a"], {"label_names": ["b", "a"]}, "leave these out")):
            with self.assertRaisesRegex(fluxformer.RunError, part):
                write_token_file(self.output, ids=ids, labels=labels, overwrite=True, **more)

    def test_specials_are_words_of_the_vocabulary_or_numbers(self):
        self.made("0\n1\n", options=("--specials", "b", "[PAD]"))
        self.assertEqual(self.stored("specials"), [3, 0])
        self.assertIn("the special '7' is not in the vocabulary", self.made("0\n1\n", options=("--specials", "7"), code=2))
        write_token_file(self.output, ids=[[1], [2]], specials=[0, 103], overwrite=True)
        self.assertEqual(self.stored("specials"), [0, 103])
        with self.assertRaisesRegex(fluxformer.RunError, "'x' is not a number"):
            write_token_file(self.output, ids=[[1], [2]], specials=["x"], overwrite=True)


class TrainingSays(ProgramTest):
    """`train` on token files."""

    def put(self, **arrays):
        """Writes tokens.h5 (`__` stands for a slash)."""
        with h5py.File(self.path("tokens.h5"), "w") as file:
            for name, values in arrays.items():
                values = np.asarray(values)
                words = values.dtype.kind == "U"
                file.create_dataset(name.replace("__", "/"), data=list(values) if words else values, dtype=h5py.string_dtype() if words else None)

    def run_on(self, experiment, *options, ranks=1):
        return self.run_program(experiment, "--data.set=tokens", "--data.file=tokens.h5", *options, ranks=ranks)

    def trained(self, *options, ranks=1):
        end = self.run_on("train", *TRAIN, *options, ranks=ranks)
        self.assertEqual(end.code, 0, end)
        return end.err + end.out

    def refused(self, *parts, on_ranks=(1,)):
        for ranks in (1, 2) if FULL_TIER else on_ranks:
            self.assert_refused(self.run_on("train", *TRAIN, ranks=ranks), *parts)

    def test_a_head_of_mostly_empty_classes_is_refused(self):
        self.put(ids=[[1, 2], [1, 3]], labels=[0, 1000000])
        self.refused("only 2 of 1000001 classes have training samples", on_ranks=(1, 2))
        self.put(ids=[[1, 2], [1, 3]] * 2, labels=[2021, 2022, 2023, 2024])
        self.refused("only 4 of 2025 classes")

    def test_empty_classes_are_counted(self):
        self.put(ids=[[1, 2], [1, 3], [2, 2], [3, 3]], labels=[1, 2, 1, 2])
        self.assertIn("1 of 3 classes have no training samples: 0 (labels count from 0)", self.trained())
        self.put(train__ids=[[1, 2], [1, 3]], train__labels=[0, 2], test__ids=[[1, 1]], test__labels=[1])
        self.assertIn("1 of 3 classes have no training samples: 1", self.trained())

    def test_test_samples_without_labels_have_no_accuracy(self):
        train = {"train__ids": [[1, 2], [1, 3]], "train__labels": [0, 1]}
        for labels in ({}, {"test__labels": [-1, -1]}):
            self.put(**train, test__ids=[[1, 1], [2, 3]], **labels)
            said = self.trained(ranks=2)
            self.assertIn("the test samples have no labels: no test accuracy is possible", said)
            self.assertNotIn("nan", said)
            with h5py.File(self.path("out.h5"), "r") as file:
                self.assertTrue(np.isnan(file["training/test_accuracy"][...]).all())
                self.assertEqual(file["training"].attrs["test_samples"], 0)
        end = self.run_on("evolve", "--model.file=out.h5", "--data.split=test", "--inflow.samples=2", "--evolve.time=1", "--output.logits=true",
                          "--output.file=logits.h5")
        self.assertEqual(end.code, 0, end)
        self.put(**train, test__ids=[[1, 1], [2, 3], [1, 2], [2, 1], [3, 3], [3, 1], [2, 2]], test__labels=[-1, 1, 0, 1, 0, 1, 0])
        said = self.trained()
        self.assertIn("1 of 7 test samples have no label and are left out", said)
        self.assertIn("1 of 6 test samples have the same tokens as a training sample", said)
        self.assert_refused(self.run_on("train", *TRAIN, "--train.test_samples=7"), "train.test_samples = 7: tokens has 6 samples with a label")
        for experiment, options, part in (("information_flow", ("--samples.count=7",), "1 of 7 samples have no label, which the accuracy needs"),
                                          ("hessian_spectrum", ("--samples.count=7",), "1 of 7 samples have no label, which the loss needs"),
                                          ("pruning", ("--samples.count=3", "--pruning.examples=4"), "samples have no label, which the ")):
            ranks = 2 if FULL_TIER or experiment == "pruning" else 1
            self.assert_refused(self.run_on(experiment, "--models.transformer=out.h5", *options, "--output.file=compared.h5", ranks=ranks), part)

    def test_minus_one_is_no_label_of_a_training_sample(self):
        self.put(ids=[[1, 2], [1, 3]], labels=[0, -1])
        self.refused("/labels holds -1 (sample 1)", "unlabelled")
        self.put(train__ids=[[1, 2], [1, 3]], train__labels=[-1, 1], test__ids=[[1, 1]], test__labels=[-2])
        self.refused("/train/labels holds -1 (sample 0)")
        self.put(train__ids=[[1, 2], [1, 3]], train__labels=[0, 1], test__ids=[[1, 1]], test__labels=[-2])
        self.refused("/test/labels holds -2 (sample 0)", on_ranks=(2,))

    def test_there_is_nothing_to_learn_of_a_single_class_or_none(self):
        self.put(ids=[[1, 2], [1, 3]])
        self.refused("the training samples have no labels", "train.objective = masked")
        for label in (0, 1):
            self.put(ids=[[1, 2], [1, 3]], labels=[label, label])
            self.refused(f"all labels of the training samples are {label}", "two classes")
        # A squared error can be learnt of one output, but such a model is right about every sample.
        self.put(ids=[[1, 2], [1, 3]], labels=[0, 0])
        self.trained("--train.loss=mean_squared_error")
        end = self.run_on("information_flow", "--models.transformer=out.h5", "--samples.count=2", "--flow.examples=0", "--output.file=flow.h5", ranks=2)
        self.assert_refused(end, "there is a single class, so that the accuracy says nothing")

    def test_without_splits_the_test_accuracy_is_that_of_training_samples(self):
        self.put(ids=[[1, 2], [1, 3]] * 8, labels=[0, 1] * 8)
        said = self.trained("--train.validation=0.5")
        self.assertIn("no test split: these are the training samples", said)
        self.assertIn("no test split: accuracy on the training samples", said)
        self.assertIn("% test (training samples)", said)
        self.assertIn("of 8 validation samples have the same tokens as a training sample", said)
        with h5py.File(self.path("out.h5"), "r") as file:
            self.assertEqual(file["training"].attrs["test_split"], "none")
        self.put(train__ids=[[1, 2], [1, 3]], train__labels=[0, 1], test__ids=[[1, 1]], test__labels=[1])
        self.assertNotIn("no test split", self.trained())
        with h5py.File(self.path("out.h5"), "r") as file:
            self.assertEqual(file["training"].attrs["test_split"], "own")

    def test_batches_that_are_not_whole_are_said(self):
        self.put(ids=[[1, 2], [1, 3], [2, 2], [3, 3], [2, 3]], labels=[0, 1, 0, 1, 0])
        self.assertIn("each epoch leaves out 1 of 5 training samples", self.trained("--train.validation=0"))
        self.assertNotIn("leaves out", self.trained("--train.validation=0", "--train.batch=5"))

    def trained_beside_naive_bayes(self, *options):
        """What a training says, and the accuracy of naive Bayes."""
        said = self.trained("--train.validation=0", *options)
        with h5py.File(self.path("out.h5"), "r") as file:
            return said, file["training"].attrs["baseline_accuracy"]

    def test_naive_bayes_sees_the_samples_of_the_model(self):
        # The word tells the class, of all test samples but the last one.
        texts = {"train__ids": [[1, 1], [2, 2]] * 4, "train__labels": [0, 1] * 4, "test__ids": [[1, 1], [2, 2], [1, 1]]}
        self.put(**texts, test__labels=[0, 1, 1])
        said, share = self.trained_beside_naive_bayes("--train.test_samples=2")
        self.assertIn(share, (0.5, 1.0))  # of two samples; of all three it would be 2/3
        self.assertIn(f"naive Bayes on the same tokens: {100 * share:.6g} % of the same 2 test texts, after the same 8 training texts", said)
        # After a single text it knows one class.
        self.put(**texts, test__labels=[0, 1, 0])
        said, share = self.trained_beside_naive_bayes("--train.samples=1", "--train.batch=1")
        self.assertLess(share, 1)
        self.assertIn("% of the same 3 test texts, after the same 1 training texts", said)

    def test_masking_without_words_says_what_it_cannot_know(self):
        random = np.random.default_rng(0)
        ids = [[1, *random.integers(4, 12, 6), 2, 3, 3] for _ in range(40)]
        masked = ("--train.objective=masked", "--train.batch=8")
        words = ["<unk>", "<|endoftext|>", "</s>", "<pad>", *(f"w{number}" for number in range(8))]
        guesses = {}
        # With words, padding at the end needs lengths.
        for name, more in (("named", {"words": words, "lengths": [8] * 40}), ("unnamed", {}), ("specials", {"specials": [0, 1, 2, 3]})):
            self.put(ids=ids, **more)
            said = self.trained(*masked)
            self.assertEqual("the file has no words" in said, name != "named", said)
            self.assertEqual("the 4 that its specials name are not masked" in said, name == "specials", said)
            with h5py.File(self.path("out.h5"), "r") as file:
                guesses[name] = file["training"].attrs["bigram_accuracy"]
        self.assertEqual(guesses["specials"], guesses["named"])
        self.assertGreater(guesses["unnamed"], 2 * guesses["named"])


class ProbesAreFew(ProgramTest):
    def test_errors_of_few_probes_are_marked_as_rough(self):
        small = (*MODEL, "--data.tokens=rows", "--train.samples=20", "--train.test_samples=10", "--train.epochs=1", "--train.batch=10")
        end = self.run_program("train", *small, "--output.file=model.h5")
        self.assertEqual(end.code, 0, end)
        for probes, block_probes, rough in ((4, 0, "hessian.probes = 4"), (8, 2, "hessian.block_probes = 2"), (8, 8, None)):
            end = self.run_program("hessian_spectrum", "--models.transformer=model.h5", "--data.tokens=rows", "--samples.count=4", "--hessian.eigenvalues=0",
                                   f"--hessian.probes={probes}", f"--hessian.block_probes={block_probes}", "--hessian.steps=2",
                                   "--hessian.parts=gauss_newton", "--output.file=h.h5", "--output.overwrite=true")
            self.assertEqual(end.code, 0, end)
            with h5py.File(self.path("h.h5"), "r") as file:
                self.assertEqual(file["analysis/hessian"].attrs.get("rough_errors"), rough)


if __name__ == "__main__":
    unittest.main()
