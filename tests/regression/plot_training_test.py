#!/usr/bin/env python3
"""`fluxformer plot` draws a finished training, a running one, and several in one figure, without a display.

Needs what postprocess/ needs; status 77 if matplotlib or h5py is not installed.
"""

import math
import os
import sys
import unittest

try:
    import h5py
    import matplotlib  # noqa: F401 (what the figures need)
except ImportError as failure:
    print(f"NOT RUN: {failure}", file=sys.stderr)
    sys.exit(77)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

from python_package import FolderTest, assert_picture, call, start  # noqa: E402 (its folder is put on the path first)
from training_sample import write_training  # noqa: E402

from fluxformer.io import Run  # noqa: E402
from fluxformer.train.plot import Training, _of_next_words, _perplexities  # noqa: E402


class PlotTraining(FolderTest):
    def plot(self, *arguments):
        return call("plot", *arguments)

    def drawn(self, result, name):
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, "")
        png = os.path.join(self.folder, "figures", name + ".png")
        self.assertEqual(result.stdout.strip(), png)
        assert_picture(self, png.removesuffix(".png"))

    def test_one_training(self):
        write_training(self.path("a.h5"), per_epoch=40, baseline=0.7)
        self.drawn(start("plot", self.path("a.h5")), "a_training")

    def test_next_words_beside_counting(self):
        ngrams = [9.0, 4.0, 3.0], [9.0, 4.5, 2.5], [0.1, 0.2, 0.3]
        write_training(self.path("a.h5"), ngrams=ngrams, byte_count=4.0)
        self.drawn(self.plot(self.path("a.h5")), "a_training")
        with Run(self.path("a.h5")) as run:
            one = Training(run)
            self.assertEqual(_perplexities(one), [(2.5, "best n-gram (Witten-Bell, 3)", ":"), (4.0, "Kneser-Ney bigram", "-.")])
            loss = one.epochs("test_loss")[-1]
            self.assertEqual(_of_next_words(one), f", perplexity {math.exp(loss):.4g}, {loss / math.log(2) / 4:.4g} bits per byte")

    def test_several_in_one_figure(self):
        write_training(self.path("a.h5"))
        write_training(self.path("b.h5"), validation=False, tau=3.0)
        self.drawn(self.plot(self.path("a.h5"), self.path("b.h5")), "trainings_compared")

    def test_one_that_goes_on_is_drawn_from_its_history(self):
        for epochs in (0, 2):  # also before the end of the first epoch
            write_training(self.path("a.history.h5"), epochs=epochs, status="running")
            with h5py.File(self.path("a.history.h5"), "r+", libver="latest") as file:
                file.swmr_mode = True  # kept open, as by the program
                self.drawn(self.plot(self.path("a.h5")), "a_training")
            os.remove(self.path("a.history.h5"))

    def test_what_cannot_be_drawn_is_refused_in_one_line(self):
        for name, changes in (("failed.h5", {"status": "failed"}), ("empty.h5", {"epochs": 0}), ("other.h5", {})):
            write_training(self.path(name), **changes)
        with h5py.File(self.path("other.h5"), "r+") as file:
            del file["training"]
        files = {"failed.h5": "did not end normally", "empty.h5": "not made a step", "other.h5": "holds no training",
                 "missing.h5": "no such file"}
        for name, word in files.items():
            self.assert_refused(self.plot(self.path(name)), word)
        self.drawn(self.plot(self.path("failed.h5"), "--unfinished"), "failed_training")


if __name__ == "__main__":
    unittest.main()
