#!/usr/bin/env python3
"""Trainings that are stopped, killed, or hit a full disk or non-finite numbers: their files can be used, and a continued
training ends with the same bits as an uninterrupted one.
"""

import os
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from held_back import HeldBackTest  # noqa: E402
from program import TrainTest, together  # noqa: E402

GO_ON = "--checkpoint.restart=auto"
NEWEST, PREVIOUS = "out.checkpoint.h5", "out.checkpoint.previous.h5"
# Every random feature, and a momentum for each parameter.
RANDOM = ("--train.dropout=0.2", "--train.augment=0.5", "--train.cells=2,4,6")
# When the second checkpoint of a run has been begun: each is opened three times.
HALF_WRITTEN = ("open", NEWEST + ".part", 6)
# Six epochs of 9 steps.
LONG = ("--train.epochs=6",)


class RestartTest(HeldBackTest, TrainTest):
    def whole(self, *settings, ranks=1):
        """Trains without a stop, into whole.h5."""
        return self.train(*settings, "--checkpoint.epochs=false", "--output.file=whole.h5", ranks=ranks)

    def left(self):
        """The newest checkpoint left by a kill, which may fall between the two renames of a renewal."""
        return NEWEST if os.path.exists(self.path(NEWEST)) else PREVIOUS

    def assert_goes_on(self, *settings, ranks=1, source=NEWEST):
        end = self.run_program("train", "train.ini", "--quiet", *settings, GO_ON, ranks=ranks)
        self.assertEqual(end.code, 0, end)
        self.assertIn(f"continuing from {source} after", end.err)
        self.assert_same_training("out.h5", "whole.h5")
        self.assertEqual(self.open("out.h5").attrs["status"], "done")

    def steps_of(self, checkpoint):
        """The step count of the complete checkpoint, which must be finite; None if there is none."""
        if not os.path.exists(self.path(checkpoint)):
            return None
        with h5py.File(self.path(checkpoint), "r") as file:
            state = file["state"]
            self.assertEqual(state.attrs["complete"], 1)
            self.assertTrue(np.isfinite(state["raw"][...]).all())
            return int(state.attrs["steps"])


class PoliteStops(RestartTest):
    def test_the_time_limit_in_the_middle_of_an_epoch(self):
        # The time limit expires immediately: each of these takes one step, and the third runs to
        # the end.
        for steps in (1, 2):
            more = (GO_ON,) if steps > 1 else ()
            end = self.run_program("train", "train.ini", "--quiet", *RANDOM, "--run.time_limit=1e-6", *more, ranks=2)
            self.assertEqual(end.code, 4, end)
            self.assertIn(f"stopped by run.time_limit after {steps} steps; continue with {GO_ON}", end.err)
            with h5py.File(self.path("out.h5"), "r") as file:
                self.assertEqual((file.attrs["status"], len(file["step"])), ("interrupted", steps))
                self.assertIn("run.time_limit", file.attrs["message"])
        self.whole(*RANDOM, ranks=2)
        self.assert_goes_on(*RANDOM, ranks=2)

    def test_on_unequal_cells_of_a_file(self):
        def write(edges):
            with h5py.File(self.path("edges.h5"), "w") as file:
                file.attrs.update({"schema_version": 1, "experiment": "refinement"})
                file["mesh/edges"] = np.array(edges)

        cells = ("--model.kind=pde", "--model.knots=2", "--mesh.edges=edges.h5")
        write([0, 0.3, 1, 1.4, 2])
        self.whole(*cells, ranks=2)
        end = self.run_program("train", "train.ini", "--quiet", *cells, "--run.time_limit=1e-6", ranks=2)
        self.assertEqual(end.code, 4, end)
        write([0, 0.3, 1, 1.5, 2])  # what counts are the depths, not the name of the file
        self.assert_refused(self.run_program("train", "train.ini", "--quiet", *cells, GO_ON, ranks=2), "mesh.edges")
        write([0, 0.3, 1, 1.4, 2])
        self.assert_goes_on(*cells, ranks=2)
        with self.open("out.h5") as file:
            np.testing.assert_array_equal(file["model/edges"][...], [0, 0.3, 1, 1.4, 2])

    def test_a_training_that_is_complete_is_not_called_interrupted(self):
        end = self.run_program("train", "train.ini", "--quiet", "--train.epochs=1", "--train.samples=16", "--train.validation=0",
                               "--run.time_limit=1e-6")
        self.assertEqual(end.code, 0, end)

    def test_sigusr1_under_mpiexec_and_sigterm_to_a_single_process(self):
        self.whole(*LONG)
        for number, ranks in ((signal.SIGTERM, 1), (signal.SIGINT, 1), (signal.SIGUSR1, 2)):
            for name in os.listdir(self.folder):
                if name.startswith("out."):
                    os.remove(self.path(name))
            ended = self.stopped_at(("rename", NEWEST, 2), number, "train", "train.ini", "--quiet", *LONG, ranks=ranks)
            self.assertEqual(ended.code, 4, ended)
            self.assertIn(f"stopped by signal {number.value}", ended.err)
            self.assertLess(len(self.open("out.h5")["step"]), 54)
            if ranks == 1:
                self.assert_goes_on(*LONG)
            else:  # a different layout can continue too, with sums in a different order
                self.train(*LONG, GO_ON)
                np.testing.assert_allclose(self.open("out.h5")["training/test_loss"][...],
                                           self.open("whole.h5")["training/test_loss"][...], rtol=1e-6)


class Kill(RestartTest):
    def killed(self, *settings):
        """Kills in three runs, each after new checkpoints: while one is written, before its two renames, and between them. The
        existing files stay intact."""
        for moment in (HALF_WRITTEN, ("rename", PREVIOUS, 3), ("rename", NEWEST, 2)):
            before = self.steps_of(self.left()) or -1
            ended = self.killed_at(moment, "train", "train.ini", "--quiet", *settings, GO_ON)
            self.assertEqual(ended.code, -signal.SIGKILL, ended)
            self.assertNotIn("out.h5", os.listdir(self.folder))
            self.assertGreater(self.steps_of(self.left()), before)

    def test_with_checkpoints_at_the_ends_of_epochs_sgd(self):
        settings = (*LONG, "--train.optimiser=sgd", "--train.rate=0.05")
        self.killed(*settings)
        self.assertEqual(self.steps_of(self.left()) % 9, 0)
        self.whole(*settings)
        self.assert_goes_on(*settings, source=self.left())

    def test_with_checkpoints_in_the_middle_of_epochs_adamw(self):
        settings = (*LONG, *RANDOM, "--checkpoint.every=5", "--checkpoint.epochs=false")
        self.killed(*settings)
        self.assertEqual(self.steps_of(self.left()) % 5, 0)
        self.whole(*settings)
        self.assert_goes_on(*settings, source=self.left())

    def test_of_one_rank_ends_all_and_leaves_the_checkpoint(self):
        settings = ("--train.epochs=100000", "--train.test_samples=1")
        process = self.start("train", "train.ini", "--quiet", *settings, ranks=2)
        self.addCleanup(self.stop, process)
        self.assertTrue(self.wait_for(NEWEST, process))
        ranks = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True).stdout.split()
        self.assertGreaterEqual(len(ranks), 2)
        os.kill(int(ranks[-1]), signal.SIGKILL)
        self.assertNotEqual(self.ended(process).code, 0)
        self.assertNotIn("out.h5", os.listdir(self.folder))
        self.assertGreater(self.steps_of(self.left()), 0)
        end = self.run_program("train", "train.ini", "--quiet", *settings, GO_ON, "--run.time_limit=1e-6", ranks=2)
        self.assertEqual(end.code, 4, end)
        self.assertIn("continuing from", end.err)


class Checkpoints(RestartTest):
    def test_two_generations_and_a_damaged_newest_one_falls_back(self):
        self.train("--output.file=whole.h5", "--checkpoint.every=4")
        for name in ("checkpoint", "checkpoint.previous"):
            os.rename(self.path(f"whole.{name}.h5"), self.path(f"out.{name}.h5"))
        self.assertEqual((self.steps_of(NEWEST), self.steps_of(PREVIOUS)), (18, 16))
        with open(self.path(NEWEST), "r+b") as stream:
            stream.truncate(os.path.getsize(self.path(NEWEST)) // 2)
        self.assert_goes_on("--checkpoint.every=4", source=PREVIOUS)
        # Neither can be read: the run says so and does not restart from scratch.
        for name in (NEWEST, PREVIOUS):
            self.write(name, "no HDF5")
        self.assert_refused(self.run_program("train", "train.ini", GO_ON), NEWEST)

    def test_a_finished_training_keeps_its_result_and_another_deck_is_refused(self):
        self.train()
        before = self.checksum("out.h5")
        self.assert_refused(self.run_program("train", "train.ini", GO_ON), "out.h5", "output.overwrite")
        changes = ("--train.rate=1", "--train.batch=8", "--model.seed=2", "--run.seed=2", "--train.epochs=3", "--train.dropout=0.1",
                   "--data.tokens=patches", "--train.gradient=adjoint")
        together([lambda c=change: self.assert_refused(self.run_program("train", "train.ini", GO_ON, c),
                                                       *c.strip("-").split("="), NEWEST) for change in changes])
        self.assert_refused(self.run_program("train", "train.ini", "--checkpoint.restart=out.h5"), "out.h5", "not a checkpoint")
        for name in ("1", ""):
            for more in ((), ("--validate",)):
                end = self.run_program("train", "train.ini", f"--checkpoint.restart={name}", *more, ranks=2)
                self.assert_refused(end, f"checkpoint.restart = {name}:", "no such file")
        self.assertEqual(before, self.checksum("out.h5"))


class Failures(RestartTest):
    def test_numbers_that_are_not_finite_end_with_code_3_and_leave_the_checkpoint(self):
        wild = ("--train.rate=1e300", "--train.clip=0", "--train.schedule=constant", "--train.warm_up=0")
        for ranks in (1, 2):
            end = self.run_program("train", "train.ini", "--quiet", *wild, "--checkpoint.every=1", "--output.overwrite=true",
                                   ranks=ranks)
            self.assert_refused(end, "step 1 of the training", "not finite", "train.rate", "out.h5", code=3)
            with h5py.File(self.path("out.h5"), "r") as file:
                self.assertEqual(file.attrs["status"], "failed")
                self.assertIn("not finite", file.attrs["message"])
                self.assertEqual(file["step"][...].tolist(), [0])
            with h5py.File(self.path("out.history.h5"), "r") as file:
                self.assertEqual(file.attrs["status"], "failed")
            self.assertEqual(self.steps_of(NEWEST), 1)

    def test_a_full_disk_ends_with_code_1_and_leaves_the_checkpoint(self):
        os.mkdir(self.path("disk"))
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", self.path("disk")],
                          capture_output=True, check=False).returncode != 0:
            print(f"NOT CHECKED: {self.id()}: no file system can be mounted here (needs root)", file=sys.stderr)
            self.skipTest("mount needs root")
        self.addCleanup(subprocess.run, ["umount", "--lazy", self.path("disk")], check=True)
        # A weight snapshot after each epoch fills any disk.
        settings = ("--train.epochs=48", "--output.snapshots=1", "--output.file=disk/out.h5", "--model.width=64")
        for ranks in (1, 2):
            end = self.run_program("train", "train.ini", "--quiet", *settings, GO_ON, ranks=ranks)
            self.assert_failed(end)
        steps = self.steps_of("disk/" + NEWEST)
        self.assertGreater(steps, 0)
        # With space again, the result is bit for bit that of a training that always had enough.
        subprocess.run(["mount", "-o", "remount,size=64m", self.path("disk")], check=True)
        self.train("--train.epochs=48", "--output.file=whole.h5", "--model.width=64")
        self.train("--train.epochs=48", "--output.file=disk/out.h5", "--model.width=64", GO_ON)
        self.assert_same_training("disk/out.h5", "whole.h5")

    def assert_failed(self, end):
        """Exit code 1 and one message with the reason; a second message about the history file is allowed."""
        self.assertEqual(end.code, 1, end)
        self.assertIn("no space left", end.messages[-1], end)
        self.assertIn("disk/out.", end.messages[-1], end)
        for noise in ("HDF5-DIAG", "terminate called", "MPI_ABORT"):
            self.assertNotIn(noise, end.err, end)


if __name__ == "__main__":
    unittest.main()
