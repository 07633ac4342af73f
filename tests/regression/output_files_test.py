#!/usr/bin/env python3
"""No run destroys an earlier result: existing files, folders that cannot be written, full disks, states that blow up.
None takes more of the disk than its files need."""

import fcntl
import os
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np  # noqa: E402 (the folder is put on the path first)

from held_back import HeldBackTest  # noqa: E402
from program import SEVERAL_RANKS, TRAIN_DECK, ranks_of_case, together  # noqa: E402

# Four particles that repel: |u| grows like e^t, without bound.
GROWTH = """
[mesh]
layers = 1
tokens_x = 6
tokens_y = 1
[equation]
c = 0
rho = 0
[depth]
scheme = upwind
norm = none
[attention]
heads = 1
[model]
initial = identity
width = 2
ffn = 1
[inflow]
source = none
[start]
state = quantiles
[evolve]
method = ssp
dt = 0.1
time = 20
max_norm = 100
[output]
file = growth.h5
every = 1
"""


class OutputTest(HeldBackTest):
    def mount(self, name, options):
        """A small separate file system mounted there; needs root."""
        os.mkdir(self.path(name))
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", self.path(name)], capture_output=True)
        if done.returncode != 0:
            print(f"NOT CHECKED: {self.id()}: no file system can be mounted here (needs root)", file=sys.stderr)
            self.skipTest("mount needs root")
        self.addCleanup(subprocess.run, ["umount", "--lazy", self.path(name)], check=True)


class ExistingFiles(OutputTest):
    def test_are_left_alone_unless_overwriting_is_allowed(self):
        self.evolve()
        before = [self.checksum(name) for name in ("out.h5", "out.xdmf")]
        together([lambda n=ranks: self.assert_refused(self.run_program("evolve", "small.ini", "--model.seed=7", ranks=n),
                                                      "output.file", "out.h5", "output.overwrite")
                  for ranks in (1, *SEVERAL_RANKS)])
        self.assertEqual(before, [self.checksum(name) for name in ("out.h5", "out.xdmf")])
        self.evolve("--model.seed=7", "--output.overwrite=true", ranks=2)
        self.assertNotEqual(before[0], self.checksum("out.h5"))

    def test_are_left_alone_by_a_run_that_may_overwrite_but_never_starts(self):
        self.evolve()
        before = self.checksum("out.h5")
        for number, wrong in enumerate(("--model.file=missing.h5", "--evolve.dt=2", "--petsc.nothing=1", "--checkpoint.restart=none.h5")):
            self.assert_refused(self.run_program("evolve", "small.ini", "--output.overwrite=true", wrong, ranks=ranks_of_case(number)[-1]))
        self.assertEqual(before, self.checksum("out.h5"))
        self.assertEqual([name for name in os.listdir(self.folder) if "checkpoint" in name], [])

    def test_no_part_file_remains_after_a_run(self):
        self.evolve(ranks=2)
        self.assertEqual(sorted(os.listdir(self.folder)), ["out.h5", "out.xdmf", "small.ini"])


class TwoRuns(OutputTest):
    """Only one run may write a file: a second one is refused at its start, and the part file of a dead run is replaced."""

    def test_of_evolve_take_turns(self):
        with open(self.path("out.h5.part"), "w", encoding="utf-8") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            for ranks in (1, 3):
                self.assert_refused(self.run_program("evolve", "small.ini", ranks=ranks), "out.h5.part", "another run")
        self.evolve(ranks=2)

    def test_of_train_keep_theirs_while_they_work(self):
        self.write("train.ini", TRAIN_DECK)
        first, hold = self.start_held(("rename", "out.checkpoint.h5"), "train", "train.ini", "--quiet")
        self.assert_refused(self.run_program("train", "train.ini", "--output.overwrite=true", ranks=2), "out.h5.part", "another run")
        first.send_signal(signal.SIGTERM)
        hold.let_go()
        self.assertEqual(self.ended(first).code, 4)
        self.assertTrue(os.path.exists(self.path("out.h5")))


class Folders(OutputTest):
    def refused(self, name, *parts):
        for ranks in (1, 3):
            # epsilon > 0: if the folder were checked late, a steady state would be computed first.
            end = self.run_program("evolve", "small.ini", f"--output.file={name}", "--equation.epsilon=0.01",
                                   "--evolve.cfl=0.5", ranks=ranks)
            self.assert_refused(end, "output.file", name, *parts)
            self.assertNotIn("no arrival times", end.err)

    def test_that_are_missing(self):
        self.refused("missing/out.h5", "folder missing")
        self.assertNotIn("missing", os.listdir(self.folder))
        self.refused("", "output.file: is empty")

    def test_that_are_files(self):
        self.refused("small.ini/out.h5", "folder small.ini")

    def test_that_cannot_be_written(self):
        if os.geteuid() == 0:
            self.mount("sealed", "ro,size=64k")
        else:
            os.mkdir(self.path("sealed"), 0o555)
        self.refused("sealed/out.h5")


class FullDisk(OutputTest):
    """Exit code 1, one message, the earlier file intact, and a later run succeeds once there is space again."""

    def filled(self, size, *arguments, part_remains):
        self.mount("disk", f"size={size}")
        self.evolve("--output.file=disk/out.h5")
        before = self.checksum("disk/out.h5")
        for ranks in (1, *SEVERAL_RANKS):
            end = self.run_program("evolve", "small.ini", "--quiet", "--output.file=disk/out.h5",
                                   "--output.overwrite=true", *arguments, ranks=ranks)
            self.assert_refused(end, "disk/out.h5", "no space left", code=1)
            self.assertEqual(before, self.checksum("disk/out.h5"))
            self.assertEqual(os.path.exists(self.path("disk/out.h5.part")), part_remains)
        self.evolve("--output.file=disk/out.h5", "--output.overwrite=true", "--model.seed=3", ranks=2)
        self.assertNotEqual(before, self.checksum("disk/out.h5"))

    def test_that_has_no_room_for_the_first_state(self):
        self.filled("12m", "--inflow.samples=20000", part_remains=False)

    def test_that_has_no_room_for_all_states(self):
        self.filled("12m", "--inflow.samples=1200", "--evolve.time=64", part_remains=False)

    def test_that_fills_up_as_the_run_goes(self):
        # How much a compressed state takes is not known beforehand.
        self.filled("12m", "--inflow.samples=1200", "--evolve.time=64", "--output.compression=1", part_remains=True)


class Space(OutputTest):
    """Before each write the program reserves megabytes beyond the end of a file; what is not needed is given back at the end."""

    # A file's last block may be part full, and a file system may add blocks for its index.
    LITTLE = 64 << 10

    def assert_no_more_than_needed(self, *expected):
        self.assertEqual(sorted(name for name in os.listdir(self.folder) if not name.endswith(".ini")), sorted(expected))
        for name in expected:
            found = os.stat(self.path(name))
            self.assertLess(found.st_blocks * 512, found.st_size + self.LITTLE, name)

    def test_is_given_back_by_results_and_checkpoints(self):
        stopped = ("out.checkpoint.h5", "out.h5", "out.xdmf")
        for ranks in (1, 3):
            end = self.run_program("evolve", "small.ini", "--quiet", "--run.time_limit=1e-6", ranks=ranks)
            self.assertEqual(end.code, 4, end)
            self.assert_no_more_than_needed(*stopped)
            self.evolve("--checkpoint.every=1", "--checkpoint.restart=auto", ranks=ranks)
            self.assert_no_more_than_needed("out.checkpoint.previous.h5", *stopped)
            for name in (*stopped, "out.checkpoint.previous.h5"):
                os.remove(self.path(name))

    def test_is_given_back_by_a_training(self):
        self.write("train.ini", TRAIN_DECK)
        end = self.run_program("train", "train.ini", "--quiet", "--checkpoint.every=1", ranks=2)
        self.assertEqual(end.code, 0, end)
        self.assert_no_more_than_needed("out.best.h5", "out.checkpoint.h5", "out.checkpoint.previous.h5", "out.h5", "out.history.h5")

    def test_is_given_back_by_a_run_that_failed(self):
        self.write("growth.ini", GROWTH)
        self.assertEqual(self.run_program("evolve", "growth.ini", "--quiet", ranks=2).code, 3)
        self.assert_no_more_than_needed("growth.h5", "growth.xdmf")


class BlowUp(OutputTest):
    def failed(self, name, ranks, *arguments):
        self.write("growth.ini", GROWTH)
        end = self.run_program("evolve", "growth.ini", "--quiet", f"--output.file={name}", *arguments, ranks=ranks)
        self.assert_refused(end, "t = ", name, code=3)
        file = self.open(name)
        self.assertEqual(file.attrs["status"], "failed")
        self.assertTrue(np.isfinite(file["field/u"][...]).all())
        return end, file

    def test_past_max_norm_ends_with_code_3_the_time_and_the_last_good_state(self):
        for ranks in (1, 3):
            end, file = self.failed(f"growth{ranks}.h5", ranks)
            self.assertIn("evolve.max_norm = 100", end.err)
            largest = np.abs(file["field/u"][...]).max(axis=(1, 2, 3, 4))
            self.assertLess(largest[-1], 100)
            # One more step would have exceeded it: growth is at most e^t, with steps of 0.1.
            self.assertGreater(largest[-1], 100 * np.exp(-0.1))
            failed_at = float(end.err.split("t = ")[1].split()[0])
            self.assertAlmostEqual(file["time"][-1] + 0.1, failed_at, places=9)
            self.assertIn(f"t = {failed_at:.9g}", file.attrs["message"])
            # The history ends with the last good step too.
            self.assertAlmostEqual(file["history/time"][-1], file["time"][-1], places=12)

    def test_a_state_that_is_not_finite_ends_the_same_way(self):
        # The logits are squares of u: they overflow long before u does.
        for ranks in (1, *SEVERAL_RANKS):
            end, file = self.failed(f"growth{ranks}.h5", ranks, "--evolve.max_norm=1e300", "--evolve.time=1000",
                                    "--evolve.dt=1", "--output.every=50")
            self.assertIn("not finite", end.err)
            failed_at = float(end.err.split("t = ")[1].split()[0])
            self.assertAlmostEqual(file["time"][-1] + 1, failed_at, places=6)

    def test_a_start_without_direction_is_refused_on_the_sphere(self):
        self.write("growth.ini", GROWTH)
        end = self.run_program("evolve", "growth.ini", "--depth.norm=sphere", "--start.state=zero", ranks=2)
        self.assert_refused(end, "start.state = zero", "depth.norm = sphere")


if __name__ == "__main__":
    unittest.main()
