#!/usr/bin/env python3
"""A damaged checkpoint is found by the digests of its numbers, and the one before it is used."""

import os
import shutil
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np  # noqa: E402 (the folder is put on the path first)

from program import ProgramTest  # noqa: E402

AUTO = "--checkpoint.restart=auto"
CHECKPOINT, PREVIOUS = "out.checkpoint.h5", "out.checkpoint.previous.h5"


class DamagedCheckpoints(ProgramTest):
    def test_every_damage_is_met_by_the_older_generation(self):
        settings = ("--evolve.time=8", "--checkpoint.every=2")
        self.evolve(*settings)
        shutil.copy(self.path("out.h5"), self.path("whole.h5"))
        with open(self.path(CHECKPOINT), "rb") as stream:
            good = stream.read()
        fell_back = 0
        for number in range(40):
            place = 50 + number * (len(good) - 60) // 40
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
        self.assertGreater(fell_back, 15)


if __name__ == "__main__":
    unittest.main()
