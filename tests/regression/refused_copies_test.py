#!/usr/bin/env python3
"""In a container that refuses process_vm_readv, with which Open MPI copies large messages between the ranks of a node, a run is quiet and its
results are the same.
"""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from program import HOLD, TrainTest  # noqa: E402 (the folder is put on the path first)

CONTAINER = {"LD_PRELOAD": os.path.join(os.path.dirname(HOLD), "refused_copies.so")}
REFUSED = "Read -1, expected"  # Open MPI's line for each message
LARGE = ("--mesh.layers=4", "--evolve.time=2", "--model.width=64", "--mesh.tokens_x=7", "--mesh.tokens_y=7", "--inflow.samples=8")


class RefusedCopies(TrainTest):
    def assert_quiet(self, *words, ranks):
        end = self.run_program(*words, "--output.file=refused.h5", ranks=ranks, environment=CONTAINER)
        self.assertEqual((end.code, end.out.count(REFUSED) + end.err.count(REFUSED)), (0, 0), end)
        end = self.run_program(*words, "--output.file=plain.h5", ranks=ranks)
        self.assertEqual(end.code, 0, end)

    def test_are_recognised_by_evolve(self):
        self.assert_quiet("evolve", "small.ini", "--quiet", *LARGE, ranks=2)
        self.assert_same_bits("refused.h5", "plain.h5")

    def test_are_recognised_by_a_training(self):
        self.assert_quiet("train", "train.ini", "--quiet", "--train.epochs=1", "--model.width=64", "--model.ffn=128", ranks=3)
        self.assert_same_training("refused.h5", "plain.h5")

    def test_are_made_where_the_environment_asks_for_them(self):
        # The container of this test does refuse them, and who sets the mechanism has it: Open MPI 4 then speaks of it, 5 never.
        asked = {**CONTAINER, "OMPI_MCA_btl_vader_single_copy_mechanism": "cma", "OMPI_MCA_smsc": "cma"}
        end = self.run_program("evolve", "small.ini", "--quiet", *LARGE, ranks=2, environment=asked)
        self.assertEqual(end.code, 0, end)
        if "mpi = Open MPI v4" in self.run_program("--version").out:
            self.assertIn(REFUSED, end.out + end.err)
        self.evolve(*LARGE, "--output.file=plain.h5", ranks=2)
        self.assert_same_bits("out.h5", "plain.h5")


if __name__ == "__main__":
    unittest.main()
