#!/usr/bin/env python3
"""Folders of data sets as torchvision, Kaggle and scikit-learn leave them are read, or named for what they are."""

import codecs
import os
import pickle
import subprocess
import sys
import types
import unittest
import zipfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from made_up_archives import DRAWINGS, GROUPS, posts  # noqa: E402 (the folder is put on the path first)
from made_up_images import idx  # noqa: E402
from program import ROOT, ProgramTest  # noqa: E402

SMALL = ("--mesh.layers=1", "--model.width=8", "--model.ffn=8", "--attention.heads=2", "--output.file=out.h5", "--output.overwrite=true")
EVOLVE = ("evolve", *SMALL, "--evolve.time=1", "--inflow.samples=2")


class FolderOf(ProgramTest):
    def put(self, files):
        for name, content in files.items():
            os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
            self.write(name, content)

    def images(self, folder, prefix="", test="t10k", labels=(0, 1, 2, 3), kaggle=False):
        """Writes the four files of a set in the form of MNIST."""
        for part in ("train", test):
            for kind, content in (("images-idx3", idx(bytes(28 * 28 * len(labels)), len(labels), 28, 28)), ("labels-idx1", idx(bytes(labels), len(labels)))):
                name = f"{prefix}{part}-{kind}-ubyte"
                self.put({f"{folder}/{name}/{name}" if kaggle else f"{folder}/{name}": content})

    def runs(self, name, directory, *options, ranks=1):
        end = self.run_program(*(options or EVOLVE), f"--data.set={name}", f"--data.directory={directory}", ranks=ranks)
        self.assertEqual(end.code, 0, end)
        return end.err

    def refused(self, name, directory, *parts):
        for ranks in (1, 2):
            self.assert_refused(self.run_program(*EVOLVE, f"--data.set={name}", f"--data.directory={directory}", ranks=ranks), *parts)


class Images(FolderOf):
    def test_the_folders_of_torchvision_and_kaggle(self):
        self.images("root/MNIST/raw")
        for folder in ("root", "root/MNIST", "root/MNIST/raw"):
            self.runs("mnist", folder, ranks=2)
        self.images("kaggle", kaggle=True)
        self.runs("mnist", "kaggle")
        self.images("other/FashionMNIST/raw")
        for folder in ("other", "other/FashionMNIST"):
            self.runs("mnist", folder)

    def test_labels_decide_the_classes(self):
        train = ("train", *SMALL, "--train.epochs=1", "--train.batch=13", "--train.validation=0")
        self.images("emnist", labels=range(1, 27))
        said = self.runs("mnist", "emnist", *train)
        self.assertIn("27 classes", said)
        self.assertIn("1 of 27 classes have no training samples: 0 (labels count from 0)", said)
        # Two classes alone: such a set has ten classes all the same.
        self.images("digits/FashionMNIST/raw", labels=[0, 9] * 15)
        said = self.runs("mnist", "digits", *train)
        self.assertIn("mnist (digits/FashionMNIST/raw): ", said)
        self.assertIn("10 classes", said)
        self.assertIn("8 of 10 classes have no training samples: 1, 2, 3, 4, 5, 6, 7, 8", said)

    def test_sets_of_emnist_are_named_by_what_their_files_begin_with(self):
        self.images("EMNIST/raw", prefix="emnist-letters-", test="test")
        for folder in ("EMNIST", "EMNIST/raw", "EMNIST/raw/emnist-letters"):
            self.runs("mnist", folder, *EVOLVE, "--data.split=test")
        self.images("EMNIST/raw", prefix="emnist-digits-", test="test")
        self.refused("mnist", "EMNIST", "several sets", "EMNIST/raw/emnist-digits, EMNIST/raw/emnist-letters")
        self.runs("mnist", "EMNIST/raw/emnist-digits")

    def test_what_is_not_read_is_named(self):
        self.put({"table/fashion-mnist_train.csv": "label,pixel1\n"})
        self.refused("mnist", "table", "fashion-mnist_train.csv there is a table of pixels, which is not read")
        self.images("damaged", labels=(0, 1, 200))
        self.refused("mnist", "damaged", "labels-idx1-ubyte is damaged: label 2 is 200")


class Drawings(FolderOf):
    def test_omniglot_may_be_unpacked(self):
        self.put({f"root/omniglot-py/{name}": content for name, content in DRAWINGS.items()})
        for folder in ("root", "root/omniglot-py", "root/omniglot-py/images_background", "root/omniglot-py/images_background/"):
            self.runs("omniglot", folder, ranks=2)
        os.replace(self.path("out.h5"), self.path("unpacked.h5"))
        with zipfile.ZipFile(self.path("images_background.zip"), "w") as file:
            for name, content in DRAWINGS.items():
                file.writestr(name, content)
        self.runs("omniglot", ".", ranks=2)
        self.assert_same_bits("out.h5", "unpacked.h5")

    def test_an_unpacked_folder_that_lacks_drawings_is_refused_by_name(self):
        self.put({f"root/{name}": content for name, content in list(DRAWINGS.items())[:-1]})
        self.refused("omniglot", "root", "root/images_background lacks drawing 20 of Greek/character01")
        self.refused("omniglot", ".", "does not hold images_background.zip or the unpacked folder images_background")


class Cache(FolderOf):
    def test_the_cache_of_scikit_learn_is_named_and_the_lines_of_the_guide_unpack_it(self):
        files = posts("train", "test", text="Subject: é\n\nsome words\n".encode("latin-1"))
        cache = {}
        for split in ("train", "test"):
            names = [name for name in files if f"-{split}/" in name]
            # The members of scikit-learn's Bunch that matter here.
            cache[split] = types.SimpleNamespace(filenames=[f"/elsewhere/20news_home/{name}" for name in names],
                                                 data=[files[name].decode("latin-1") for name in names])
        self.put({"skl/20news-bydate_py3.pkz": codecs.encode(pickle.dumps(cache), "zlib_codec")})
        self.refused("20news", "skl", "20news-bydate_py3.pkz is the cache of scikit-learn, which is not read", "Folders of data sets")
        with open(os.path.join(ROOT, "docs", "guide", "data.md"), encoding="utf-8") as stream:
            guide = stream.read().split("    import codecs, pathlib, pickle\n")[1]
        lines = ["    import codecs, pathlib, pickle", *guide.split("\n")[:3]]
        done = subprocess.run([sys.executable, "-c", "\n".join(line[4:] for line in lines)], cwd=self.path("skl"), capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for name, content in files.items():
            with open(self.path(f"skl/{name}"), "rb") as stream:
                self.assertEqual(stream.read(), content)
        self.assertEqual(sorted(os.listdir(self.path("skl/20news-bydate-train"))), sorted(GROUPS))
        self.runs("20news", "skl", *EVOLVE, "--data.length=4")


if __name__ == "__main__":
    unittest.main()
