#!/usr/bin/env python3
"""MNIST from its IDX files: missing, damaged or inconsistent files are refused by name, and intact ones run."""

import gzip
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from made_up_images import idx  # noqa: E402
from program import ProgramTest, together  # noqa: E402

IMAGES, LABELS = "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"
COUNT = 6


def images(count=COUNT):
    pixels = bytes((7 * number + pixel) % 256 for number in range(count) for pixel in range(28 * 28))
    return idx(pixels, count, 28, 28)


def labels(count=COUNT):
    return idx(bytes(number % 10 for number in range(count)), count)


class DataFiles(ProgramTest):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("data"))
        self.write("mnist.ini", "[mesh]\nlayers = 2\n[attention]\nheads = 2\n[model]\nwidth = 8\nffn = 12\n"
                   "[inflow]\nsamples = 2\n[data]\nset = mnist\ndirectory = data\n[evolve]\ntime = 1\n"
                   "[output]\nfile = out.h5\noverwrite = true\n")

    def put(self, **files):
        for name in os.listdir(self.path("data")):
            os.remove(self.path("data/" + name))
        for kind, content in files.items():
            kind, _, packed = kind.partition("_")
            self.write("data/" + (IMAGES if kind == "images" else LABELS) + (".gz" if packed else ""), content)

    def refused(self, *parts):
        together([lambda n=ranks: self.assert_refused(self.run_program("evolve", "mnist.ini", ranks=n), *parts)
                  for ranks in (1, 3)])

    def test_whole_files_run_packed_or_not_to_the_same_bits(self):
        self.put(images=images(), labels=labels())
        self.evolve(deck="mnist.ini")
        self.put(images_gz=gzip.compress(images()), labels_gz=gzip.compress(labels()))
        self.evolve("--output.file=packed.h5", deck="mnist.ini", ranks=1)
        self.assert_same_bits("out.h5", "packed.h5")
        with h5py.File(self.path("out.h5")) as file:
            told = file["sample_features"][...]
        for sample, token, pixel in np.ndindex(2, 49, 16):  # 7 x 7 patches of 4 x 4 pixels, by mean and deviation of MNIST's
            ink = (7 * sample + 28 * (4 * (token // 7) + pixel // 4) + 4 * (token % 7) + pixel % 4) % 256 / 255
            self.assertAlmostEqual(told[sample, token, pixel], (ink - 0.1307) / 0.3081, delta=1e-14)  # a few roundings of numbers below 3

    def test_a_missing_folder_and_missing_files(self):
        self.refused("data.directory = data", IMAGES)
        self.put(images=images())
        self.refused(LABELS)
        end = self.run_program("evolve", "mnist.ini", "--data.directory=elsewhere", ranks=2)
        self.assert_refused(end, "data.directory = elsewhere")

    def test_more_samples_than_there_are(self):
        self.put(images=images(), labels=labels())
        end = self.run_program("evolve", "mnist.ini", "--inflow.samples=7", ranks=2)
        self.assert_refused(end, "inflow.samples", "7", "6 samples")

    def test_different_numbers_of_images_and_labels(self):
        self.put(images=images(), labels=labels(COUNT - 1))
        self.refused(IMAGES, LABELS, "6", "5")

    def test_damaged_packing(self):
        packed = gzip.compress(images())
        flipped = bytearray(packed)
        flipped[len(packed) // 2] ^= 0x10
        for content in (bytes(flipped), packed[:len(packed) // 2], packed[:-4], b"\x1f\x8b" + bytes(30)):
            self.put(images_gz=content, labels=labels())
            self.refused(IMAGES + ".gz")

    def test_damaged_numbers(self):
        for content in (images()[:-1], images()[:9], b"", images() + b"more", b"text" + images()[4:]):
            self.put(images=content, labels=labels())
            self.refused(IMAGES)


if __name__ == "__main__":
    unittest.main()
