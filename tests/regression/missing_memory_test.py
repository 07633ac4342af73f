#!/usr/bin/env python3
"""Memory that is missing on one rank alone ends the run on all ranks, in every study whose ranks measure a place together: exit code 1 and one
message (2 within a reader). Nobody waits for the rank that has failed.
"""

import os
import random
import shutil
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "fuzz")]

from program import DECK, NO_MEMORY, ProgramTest  # noqa: E402 (the folders are put on the path first)
from small_studies import PAIRS, STUDIES, make_models, write_decks  # noqa: E402

# Those whose places all ranks measure, and those of groups of ranks; the others measure each place on one rank.
TOGETHER = [kind for kind in STUDIES if kind not in ("hessian_blocks", "hessian_scaling", "paths_theory", "paths_sample", "paths_prune")]
CASES = 6  # allocations that fail, of each study
MESSAGE, IN_A_READER = "out of memory", "announces more than fits into memory"


class MissingMemory(ProgramTest):
    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.mkdtemp(prefix="fluxformer-")
        cls.addClassCleanup(shutil.rmtree, cls.shared, ignore_errors=True)
        make_models(cls.shared)

    def setUp(self):
        super().setUp()
        write_decks(self)
        os.symlink(self.shared, self.path("models"))

    def run_without(self, number, rank, least, *arguments, ranks):
        """A run of which a rank does not get its allocation of this number, of those of at least so many bytes."""
        for name in ("failed", "out.checkpoint.h5", "out.checkpoint.previous.h5"):  # of the case before
            if os.path.exists(self.path(name)):
                os.remove(self.path(name))
        plant = {"LD_PRELOAD": NO_MEMORY, "FLUXFORMER_NO_MEMORY_RANK": str(rank), "FLUXFORMER_NO_MEMORY_AT": str(number),
                 "FLUXFORMER_NO_MEMORY_LEAST": str(least), "FLUXFORMER_NO_MEMORY_FOLDER": self.folder}
        return self.run_program(*arguments, "--quiet", "--output.file=out.h5", "--output.overwrite=true", ranks=ranks, environment=plant)

    def count(self, rank, least, *arguments, ranks):
        """The number of these allocations in a whole run."""
        end = self.run_without(0, rank, least, *arguments, ranks=ranks)
        self.assertEqual(end.code, 0, end)
        with open(self.path("count"), encoding="utf-8") as stream:
            return int(stream.read())

    def assert_all_end(self, *arguments, ranks, rank, cases, least=1, part=(0.25, 1)):
        """`part`: of a run's allocations, those from which the cases are drawn; from a quarter on most are after the run is set up."""
        dice, all_of_them = random.Random(rank), self.count(rank, least, *arguments, ranks=ranks)
        for number in sorted(dice.sample(range(int(part[0] * all_of_them) + 1, int(part[1] * all_of_them) + 1), cases)):
            with self.subTest(number=number, of=all_of_them, rank=rank, ranks=ranks):
                end = self.run_without(number, rank, least, *arguments, ranks=ranks)
                self.assertTrue(os.path.exists(self.path("failed")), end)
                if end.code == 2:  # within a reader, which cannot know whether a file asks for too much
                    self.assert_refused(end, IN_A_READER, code=2)
                elif end.code != 0:  # memory that only a quicker way would need is no loss
                    self.assert_refused(end, MESSAGE, code=1)

    def test_on_the_first_rank(self):
        for kind in TOGETHER:
            with self.subTest(kind):
                self.assert_all_end(*STUDIES[kind], ranks=2, rank=0, cases=CASES)

    def test_before_and_while_mpi_starts(self):
        self.write("deck.ini", DECK)
        for ranks, rank, cases in ((1, 0, 6), (2, 0, 6), (2, 1, 2)):
            with self.subTest(ranks=ranks, rank=rank):
                self.assert_all_end("evolve", "deck.ini", ranks=ranks, rank=rank, cases=cases, part=(0, 0.25))

    def test_while_checkpoints_are_written_in_callbacks_of_petsc(self):
        self.write("deck.ini", DECK)
        steps = ("evolve", "deck.ini", "--evolve.time=20")
        every = (*steps, "--checkpoint.every=1e-6")
        without, all_of_them = (self.count(0, 1, *one, ranks=2) for one in (steps, every))
        self.assertGreater(all_of_them, 1.5 * without)  # so that a third of all cases or more are within a checkpoint
        self.assert_all_end(*every, ranks=2, rank=0, cases=2 * CASES)

    def test_on_any_rank_of_a_group_that_shares_its_examples(self):
        pairs = next(words for kind, words in STUDIES.items() if PAIRS in kind)
        for ranks, rank in ((2, 0), (2, 1), (4, 0), (4, 3)):
            with self.subTest(ranks=ranks, rank=rank):
                self.assert_all_end(*pairs, "--checkpoint.every=1e-6", ranks=ranks, rank=rank, cases=CASES)


if __name__ == "__main__":
    unittest.main()
