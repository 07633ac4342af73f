#!/usr/bin/env python3
"""A few kills by tests/fuzz/kill_runs.py lose nothing, and a program that loses something is found out."""

import collections
import os
import random
import stat
import sys
import tempfile
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "fuzz")]

import disturbed_runs  # noqa: E402 (the folders are put on the path first)
import kill_runs  # noqa: E402
import program  # noqa: E402
from held_back import WHILE_MPI_STARTS, Hold  # noqa: E402

KILLS, SEED = 8, 5
SHORT = {"train": ("train", "train.ini", "--train.epochs=6", "--output.snapshots=2", "--checkpoint.every=3")}


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="fluxformer-kills-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name


class Kills(Folder):
    def test_lose_nothing(self):
        count, lost = kill_runs.campaign(KILLS, SEED, [1, 2], self.folder, say=lambda _: None)
        print(kill_runs.table(count, lost))
        self.assertEqual(lost, [])
        self.assertGreaterEqual(sum(count["kills", aim] for aim in disturbed_runs.AIMS), KILLS)

    def test_of_every_kind_of_study_lose_nothing(self):
        count, lost = kill_runs.one_by_one(1, SEED, [1, 2], self.folder, say=lambda _: None)
        print(kill_runs.table(count, lost))
        self.assertEqual(lost, [])
        self.assertGreaterEqual(sum(count["kills", aim] for aim in disturbed_runs.AIMS), len(kill_runs.STUDIES))


class Losses(Folder):
    """The program with a fault of its own in front of it."""

    def setUp(self):
        super().setUp()
        self.enterContext(mock.patch.dict(disturbed_runs.RUNS, SHORT, clear=True))
        self.whole = disturbed_runs.Undisturbed(os.path.join(self.folder, "whole"), "train", 1)

    def plant(self, fault):
        path = os.path.join(self.folder, "planted")
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(f'#!/bin/sh\n{fault}\nexec {program.BINARY} "$@"\n')
        os.chmod(path, stat.S_IRWXU)
        self.enterContext(mock.patch.object(program, "BINARY", path))

    def disturbed(self, earlier=False):
        folder = os.path.join(self.folder, "run")
        return disturbed_runs.Disturbed(folder, "train", 1, self.whole, random.Random(1), earlier, collections.Counter())

    def killed_at(self, moment, run):
        """Kills it at (event, name[, count])."""
        hold = Hold(*moment)
        self.addCleanup(hold.end)
        with (mock.patch.dict(run.bench.environment, hold.environment),
              mock.patch.object(run, "wait_for_the_moment", lambda aim, events, process: hold.wait_for("held", process))):
            self.assertTrue(run.disturb("any moment"))

    def killed_with_checkpoints(self, run):
        """Kills it when it has written both generations, and is about to rename the newest once more."""
        self.killed_at(("rename", disturbed_runs.PREVIOUS, 2), run)

    def assert_lost(self, run, words):
        """Of a planted fault; the program behind it is killed before it does anything to its files."""
        with self.assertRaisesRegex(disturbed_runs.Lost, words):
            self.killed_at(WHILE_MPI_STARTS, run)
            run.finish()

    def test_nothing_is_reported_of_a_sound_program(self):
        self.plant("true")
        run = self.disturbed(earlier=True)
        self.killed_with_checkpoints(run)
        run.finish()

    def test_checkpoints_that_go(self):
        run = self.disturbed()
        self.killed_with_checkpoints(run)
        self.plant("rm -f out.checkpoint*.h5")
        self.assert_lost(run, "newest checkpoint was")

    def test_a_run_that_begins_afresh(self):
        run = self.disturbed()
        self.killed_with_checkpoints(run)
        self.plant("rm -f out.checkpoint*.h5")
        with self.assertRaisesRegex(disturbed_runs.Lost, "began afresh"):
            run.finish()

    def test_a_checkpoint_that_is_cut(self):
        run = self.disturbed()
        self.killed_with_checkpoints(run)
        self.plant("truncate --size=9000 out.checkpoint.previous.h5")
        self.assert_lost(run, "checkpoint.previous.h5 cannot be read")

    def test_an_earlier_result_that_is_written_over(self):
        run = self.disturbed(earlier=True)
        self.plant("head -c 9000 out.h5 > cut && cp cut out.h5")
        self.assert_lost(run, "out.h5 cannot be read")

    def test_a_copy_of_the_weights_that_goes(self):
        run = self.disturbed()
        self.killed_with_checkpoints(run)
        self.plant("rm -f out.epoch*.h5")
        self.assert_lost(run, "out.epoch0.h5 is gone")

    def test_a_result_that_is_another_one(self):
        self.plant('set -- "$@" --model.seed=3')
        run = self.disturbed()
        self.assert_lost(run, "not that of an undisturbed run")

    def test_a_run_that_ends_in_an_error(self):
        self.plant("echo 'fluxformer: no' >&2; exit 2")
        run = self.disturbed()
        with (mock.patch.object(run, "wait_for_the_moment", lambda aim, events, process: process.wait(program.TIMEOUT)),
              self.assertRaisesRegex(disturbed_runs.Lost, "exit code 2")):
            run.disturb("any moment")


if __name__ == "__main__":
    unittest.main()
