#!/usr/bin/env python3
"""A damaged checkpoint is found by the digests of its numbers, and the one before it is used; --validate finds the same. An output
file that HDF5 cannot list is no deck."""

import os
import re
import shutil
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from program import FULL_TIER, TRAIN_DECK, ProgramTest  # noqa: E402

AUTO = "--checkpoint.restart=auto"
CHECKPOINT, PREVIOUS = "out.checkpoint.h5", "out.checkpoint.previous.h5"


class DamagedCheckpoints(ProgramTest):
    def test_every_damage_is_met_by_the_older_generation(self):
        settings = ("--evolve.time=8", "--checkpoint.every=2")
        self.evolve(*settings)
        shutil.copy(self.path("out.h5"), self.path("whole.h5"))
        with open(self.path(CHECKPOINT), "rb") as stream:
            good = stream.read()
        fell_back, places = 0, 40 if FULL_TIER else 16
        for number in range(places):
            place = 50 + number * (len(good) - 60) // places
            damaged = bytearray(good)
            damaged[place] ^= 0x10
            self.write(CHECKPOINT, bytes(damaged))
            shutil.copy(self.path("whole.h5"), self.path("out.h5"))
            ranks = 3 if number % 8 == 7 else 1
            end = self.run_program("evolve", "small.ini", "--quiet", *settings, AUTO, "--output.overwrite=true",
                                   "--checkpoint.every=0", ranks=ranks)
            with self.subTest(place=place, ranks=ranks):
                self.assertEqual(end.code, 0, end)
                if ranks == 1:
                    self.assert_same_bits("out.h5", "whole.h5")
                else:  # another split agrees to round-off
                    np.testing.assert_allclose(self.open("out.h5")["field/u"], self.open("whole.h5")["field/u"], rtol=1e-12,
                                               atol=1e-12)
                if "the checkpoint before it is used" in end.err:
                    self.assertIn("continuing from " + PREVIOUS, end.err)
                    fell_back += 1
        self.assertGreater(fell_back, places // 4)

    def test_an_output_file_whose_attributes_cannot_be_listed_is_refused(self):
        # HDF5 finds such attributes by their name all the same, and reading them may crash.
        self.evolve()
        with open(self.path("out.h5"), "rb") as stream:
            good = stream.read()
        refused = 0
        leaves = list(re.finditer(b"BTLF", good))  # of the indices by name and by creation
        for number, index in enumerate(leaves if FULL_TIER else leaves[::3]):
            damaged = bytearray(good)
            damaged[index.start() + 8] ^= 0xFF
            self.write("damaged.h5", bytes(damaged))
            end = self.run_program("evolve", "damaged.h5", "--validate", ranks=2 if number % 4 == 1 else 1)
            with self.subTest(place=index.start()):
                if end.code != 0:
                    self.assert_refused(end, "damaged.h5", "damaged HDF5 file")
                    refused += 1
        self.assertGreater(refused, 0)

    def test_validation_looks_at_the_checkpoint_and_changes_nothing(self):
        self.write("train.ini", TRAIN_DECK)
        for run, more in (("evolve", "evolve.cfl=0.5"), ("train", "train.rate=1")):
            deck = {"evolve": "small.ini", "train": "train.ini"}[run]
            for name in os.listdir(self.folder):
                if name.startswith("out."):
                    os.remove(self.path(name))
            end = self.run_program(run, deck, "--quiet", "--checkpoint.every=1", "--run.time_limit=1e-6")
            self.assertEqual(end.code, 4, end)
            self.assertEqual(self.run_program(run, deck, "--quiet", AUTO, "--checkpoint.every=2", "--run.time_limit=1e-6").code, 4)
            self.write("text.h5", "no HDF5")
            shutil.copy(self.path(CHECKPOINT), self.path("damaged.h5"))
            with h5py.File(self.path("damaged.h5"), "r+") as file:
                file["state/u" if run == "evolve" else "state/raw"][(0,) * (4 if run == "evolve" else 1)] += 1e-9
            before = self.contents()
            for ranks in (1, 3) if FULL_TIER else (1,) if run == "evolve" else (3,):
                for name, part in (("none.h5", "no such file"), ("text.h5", "HDF5"), ("out.h5", "not a checkpoint"), ("damaged.h5", "is damaged")):
                    end = self.run_program(run, deck, "--validate", "--checkpoint.restart=" + name, ranks=ranks)
                    self.assert_refused(end, ("checkpoint.restart = " if name == "none.h5" else "checkpoint ") + name, part)
                for name in ("auto", CHECKPOINT, PREVIOUS):
                    end = self.run_program(run, deck, "--validate", "--checkpoint.restart=" + name, ranks=ranks)
                    self.assertEqual((end.code, end.messages), (0, []), end)
                    end = self.run_program(run, deck, "--validate", "--checkpoint.restart=" + name, "--" + more, ranks=ranks)
                    self.assert_refused(end, more.replace("=", " = "), "was made with")
            self.assertEqual(self.contents(), before)

    def contents(self):
        return {name: self.checksum(name) for name in os.listdir(self.folder)}


if __name__ == "__main__":
    unittest.main()
