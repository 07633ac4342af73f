#!/usr/bin/env python3
"""Models and tokens that people bring, as the program takes them: a locked file is called locked, lists of what is kept and what is new do
not contradict each other, and pixels that were not normalised are warned of."""

import fcntl
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from program import ROOT, ProgramTest  # noqa: E402
from published_case import Case, save  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

from python_package import call  # noqa: E402

LOCKED = {"HDF5_USE_FILE_LOCKING": "TRUE"}
TRAIN = ["--data.set=tokens", "--data.file=tokens.h5", "--train.epochs=1", "--train.batch=4", "--output.overwrite=true"]
EVOLVE = ["--data.set=tokens", "--data.file=tokens.h5", "--evolve.time=1", "--start.state=inflow", "--quiet", "--output.overwrite=true"]


class StrangersTest(ProgramTest):
    def imported(self, name, kind, *options, classes=None):
        """model.h5 of a published model, with another number of classes if given."""
        config, tensors = Case(name).published(kind)
        if classes is not None:
            tensors = {key: array[:classes] if key.startswith("classifier.") else array for key, array in tensors.items()}
            config = {**config, "id2label": {str(number): f"class {number}" for number in range(classes)}}
        done = call("import", *save(self.folder, config, tensors), "--output", self.path("model.h5"), "--overwrite", *options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def put(self, name, arrays):
        """Writes a token file; returns its name."""
        with h5py.File(self.path(name), "w") as file:
            for array, values in arrays.items():
                file[array] = values
        return name


class Lists(StrangersTest):
    def trained(self, *settings):
        """What a training says of the arrays of model.h5."""
        end = self.run_program("train", *TRAIN, *settings, "--model.file=model.h5", "--output.file=out.h5", ranks=2)
        self.assertEqual(end.code, 0, end)
        return next(line for line in end.err.splitlines() if line.startswith("from the model file ")).removeprefix("from the model file ")

    def test_arrays_are_named_where_a_group_is_kept_in_part(self):
        self.put("tokens.h5", {"ids": np.arange(64).reshape(8, 8) % 29, "labels": np.arange(8) % 2})
        self.imported("bert", "BertForSequenceClassification", classes=1)
        self.assertEqual(self.trained(), "kept: embedding, head/transform_W, head/transform_b, layers; new: head/W (2 x 12 instead of 1 x 12), "
                                         "head/b (2 instead of 1); left out: nothing")
        self.imported("bert", "BertModel")  # a group that is new as a whole
        self.assertEqual(self.trained(), "kept: embedding, layers; new: head; left out: nothing")
        self.imported("bert", "BertForMaskedLM")  # a group that is left out as a whole
        self.assertEqual(self.trained(), "kept: embedding, layers; new: head; left out: word_head")


class Vocabularies(StrangersTest):
    def test_samples_of_the_vocabulary_run_in_a_model_whose_word_table_is_padded(self):
        words = [f"w{number}" for number in range(27)]
        self.write("vocab.txt", "\n".join(words))
        self.write("lines.txt", "w3 w26\nw0 w1\n")
        self.imported("bert", "BertModel", "--words", self.path("vocab.txt"))
        done = call("tokens", self.path("lines.txt"), "--words", self.path("vocab.txt"), "--output", self.path("tokens.h5"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        run = ("evolve", *EVOLVE, "--model.file=model.h5", "--inflow.samples=2", "--output.file=out.h5")
        for ranks in (1, 2):
            end = self.run_program(*run, ranks=ranks)
            self.assertEqual(end.code, 0, end)
        self.write("vocab.txt", "\n".join([*words[:20], *words[21:], words[20]]))  # other numbers
        self.imported("bert", "BertModel", "--words", self.path("vocab.txt"))
        self.assert_refused(self.run_program(*run), "has 27 words, the model has a table of 29")
        self.imported("bert", "BertModel")  # without words
        self.assert_refused(self.run_program(*run), "has 27 words, the model has a table of 29; import the model with --words")


class Locks(StrangersTest):
    def test_a_sound_file_that_is_locked_is_called_locked(self):
        self.imported("bert", "BertModel")
        self.put("tokens.h5", {"ids": np.zeros((2, 8), int)})
        runs = (("model.h5", ("evolve", *EVOLVE, "--model.file=model.h5", "--inflow.samples=1")),
                ("tokens.h5", ("train", *TRAIN, "--mesh.layers=1", "--model.width=4", "--attention.heads=1")))
        for name, arguments in runs:
            with open(self.path(name), "rb") as held:
                fcntl.flock(held, fcntl.LOCK_EX)
                for ranks in (1, 2):
                    end = self.run_program(*arguments, "--output.file=out.h5", ranks=ranks, environment=LOCKED)
                    self.assert_refused(end, f"{name}: is locked by another process, or its file system has no locks", "HDF5_USE_FILE_LOCKING=FALSE")
                    self.assertNotIn("damaged", end.err)
                self.assertNotIn("locked", self.run_program(*arguments, "--output.file=out.h5").err)

    def test_a_damaged_file_is_not_called_locked(self):
        self.imported("bert", "BertModel")
        with open(self.path("model.h5"), "r+b") as file:
            file.truncate(os.path.getsize(self.path("model.h5")) // 2)
        end = self.run_program("evolve", *EVOLVE, "--model.file=model.h5", environment=LOCKED)
        self.assert_refused(end, "truncated or damaged HDF5 file")
        self.assertNotIn("locked", end.err)


class Pixels(StrangersTest):
    WARNING = "pixels that were not normalised?"

    def evolved(self, features, ranks=1):
        self.put("tokens.h5", {"features": features})
        end = self.run_program("evolve", *EVOLVE, "--model.file=model.h5", "--inflow.samples=1", "--output.file=out.h5", ranks=ranks)
        self.assertEqual(end.code, 0, end)
        return end.err

    def test_raw_pixels_are_warned_of_once_with_what_the_model_wants(self):
        patches = Case("vit").patches()
        raw = np.abs(patches) * 255 / np.abs(patches).max()
        with open(self.path("preprocessor_config.json"), "w", encoding="utf-8") as stream:
            stream.write('{"image_mean": [0.5, 0.25, 0.125], "image_std": [0.5, 0.5, 0.25], "rescale_factor": 0.00390625}')
        self.imported("vit", "ViTModel", "--preprocessor", self.path("preprocessor_config.json"))
        for ranks in (1, 2):
            err = self.evolved(raw, ranks)
            self.assertEqual(err.count(self.WARNING), 1, err)
            for part in ("data.file = tokens.h5: its features reach 255", "(pixel x 0.00390625 - mean) / deviation",
                         "mean 0.5, 0.25, 0.125 and deviation 0.5, 0.5, 0.25"):
                self.assertIn(part, err)
        self.assertNotIn(self.WARNING, self.evolved(patches * 3 / np.abs(patches).max()))
        self.assertNotIn(self.WARNING, self.evolved(patches * 19 / np.abs(patches).max()))
        self.imported("vit", "ViTModel")  # says nothing of its pixels
        self.assertIn("(preprocessor_config.json)", self.evolved(-raw))

    def test_a_training_warns_once_of_both_splits(self):
        raw = np.full((8, 4, 3), 255.0)
        for test in (raw, raw / 255):
            self.put("tokens.h5", {"train/features": raw, "train/labels": np.arange(8) % 2, "test/features": test, "test/labels": np.arange(8) % 2})
            end = self.run_program("train", *TRAIN, "--mesh.layers=1", "--model.width=4", "--model.ffn=4", "--attention.heads=1", "--output.file=out.h5")
            self.assertEqual((end.code, end.err.count(self.WARNING)), (0, 1), end)


if __name__ == "__main__":
    unittest.main()
