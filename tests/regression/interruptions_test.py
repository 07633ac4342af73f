#!/usr/bin/env python3
"""Runs that are stopped by a signal, the time limit or kill -9, and continue as if nothing had happened (T9).

States, history and clusters of tokens are bit for bit those of an uninterrupted run (except for wall times).
"""

import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from processes import members  # noqa: E402
from held_back import HeldBackTest  # noqa: E402

GO_ON = "--checkpoint.restart=auto"
CHECKPOINTS = ("out.checkpoint.h5", "out.checkpoint.previous.h5")


class InterruptionTest(HeldBackTest):
    def long_run(self, end, *more):
        """Settings of a run with four steps per unit of time that never becomes steady, since the inflow keeps changing. Checkpoints
        are a sixteenth of the run apart."""
        return ("evolve", "small.ini", "--quiet", "--evolve.method=ssp", "--evolve.cfl=0.25", f"--evolve.time={end}",
                "--output.history=7", f"--output.every={end / 8}", "--inflow.every=0.75", f"--checkpoint.every={end / 16}", "--clusters.measure=true", *more)

    def assert_interrupted_and_goes_on(self, settings, ended, ranks, reason):
        """Exit code 4 and a file with that status; when continued, it ends like an uninterrupted run."""
        self.assert_refused(ended, reason, GO_ON, code=4)
        with h5py.File(self.path("out.h5"), "r") as file:
            self.assertEqual(file.attrs["status"], "interrupted")
            self.assertIn(reason, file.attrs["message"])
            self.assertTrue(np.isfinite(file["field/u"][-1]).all())
            stopped_at = float(file["time"][-1])
        self.assertIn(CHECKPOINTS[0], os.listdir(self.folder))
        again = self.run_program(*settings, GO_ON, ranks=ranks)
        self.assertEqual(again.code, 0, again)
        self.assertIn("continuing from", again.err)
        whole = self.run_program(*settings, "--output.file=whole.h5", ranks=ranks)
        self.assertEqual(whole.code, 0, whole)
        self.assertLess(stopped_at, self.open("whole.h5")["time"][-1])
        self.assertEqual(self.open("out.h5").attrs["status"], "done")
        self.assert_same_bits("out.h5", "whole.h5")


class PoliteStops(InterruptionTest):
    def stopped_by(self, number, ranks):
        settings = self.long_run(64)
        ended = self.stopped_at(("rename", CHECKPOINTS[0], 3), number, *settings, ranks=ranks)
        self.assert_interrupted_and_goes_on(settings, ended, ranks, f"signal {number.value}")

    def test_sigterm_to_a_single_process(self):
        self.stopped_by(signal.SIGTERM, 1)

    def test_ctrl_c_to_a_single_process(self):
        self.stopped_by(signal.SIGINT, 1)

    def test_a_second_ctrl_c_ends_at_once(self):
        process, hold = self.start_held(("rename", CHECKPOINTS[0], 3), *self.long_run(64))
        os.kill(process.pid, signal.SIGINT)
        hold.wait_for("woken", process)
        os.kill(process.pid, signal.SIGINT)  # it is still held back
        self.assertEqual(self.ended(process).code, -signal.SIGINT)
        self.assertNotIn("out.h5", os.listdir(self.folder))

    def test_ctrl_c_that_the_run_is_to_ignore_is_ignored(self):
        """As behind nohup, or in the background of a script."""
        hold = self.hold("rename", CHECKPOINTS[0], 3)
        process = self.start(*self.long_run(64), environment=hold.environment, wrapper=("bash", "-c", 'trap "" INT; exec "$@"', "first"))
        self.addCleanup(self.stop, process)
        hold.wait_for("held", process)
        os.kill(process.pid, signal.SIGINT)
        hold.let_go()
        self.assertEqual(self.ended(process).code, 0)

    def test_sigusr1_under_mpiexec(self):
        self.stopped_by(signal.SIGUSR1, 2)

    def test_the_time_limit(self):
        settings = self.long_run(64)
        ended = self.run_program(*settings, "--run.time_limit=1e-6", ranks=2)
        self.assert_interrupted_and_goes_on(settings, ended, 2, "run.time_limit")

    def test_during_the_search_for_the_steady_state(self):
        # With diffusion in depth it takes 50 crossing times in 100 000 steps per unit of time, before the first step of the run.
        search = ("evolve", "small.ini", "--quiet", "--equation.epsilon=0.1", "--evolve.cfl=1e-5", "--evolve.time=0.01")
        ended = self.run_program(*search, "--run.time_limit=1e-6", ranks=2)
        self.assert_refused(ended, "run.time_limit", "steady state", "nothing was written", code=4)
        self.assertNotIn("out.h5", os.listdir(self.folder))
        self.assertNotIn(CHECKPOINTS[0], os.listdir(self.folder))
        again = self.run_program(*search, "--evolve.cfl=0.5", "--evolve.time=1", GO_ON, ranks=2)
        self.assertEqual(again.code, 0, again)


class Kill(InterruptionTest):
    # Before the first checkpoint, while the second one is written (each is opened three times), before it has its name, between the two
    # renames of another, before the finished output has its name.
    MOMENTS = (("open", CHECKPOINTS[0] + ".part"), ("open", CHECKPOINTS[0] + ".part", 6), ("rename", CHECKPOINTS[1], 2),
               ("rename", CHECKPOINTS[0], 4), ("rename", "out.h5"))

    def test_at_any_moment_fixed_steps(self):
        self.killed_again_and_again(*self.long_run(128))

    def test_at_any_moment_error_controlled_steps(self):
        # These methods use earlier steps; at a scheduled checkpoint they discard them, restarted or
        # not.
        self.killed_again_and_again("evolve", "small.ini", "--quiet", "--evolve.method=rk", "--evolve.variant=3bs",
                                    "--evolve.tolerance=1e-7", "--evolve.time=256", "--output.every=32", "--output.history=11",
                                    "--checkpoint.every=16")

    def test_by_these_tests_reaches_processes_in_groups_of_their_own(self):
        """Such as Open MPI makes for its ranks."""
        process = self.start("--version", wrapper=("bash", "-c", 'set -m; sleep 10000 >/dev/null 2>&1 & touch begun; wait; exec "$@"', "first"))
        self.assertTrue(self.wait_for("begun", process))
        self.assertGreater(len({os.getpgid(one) for one in members(process.pid)}), 1)
        self.stop(process)
        self.assertEqual(members(process.pid), [])

    def killed_again_and_again(self, *settings):
        """The earlier output is kept until the run is complete, and checkpointed results are not lost."""
        self.evolve("--model.seed=9")
        earlier = self.checksum("out.h5")
        settings = (*settings, "--output.overwrite=true")
        for moment in self.MOMENTS:
            ended = self.killed_at(moment, *settings, GO_ON)
            self.assertEqual(ended.code, -signal.SIGKILL, ended)
            self.assertEqual(self.checksum("out.h5"), earlier, moment)
            self.assert_checkpoints_are_whole()
        again = self.run_program(*settings, GO_ON)
        self.assertEqual(again.code, 0, again)
        self.assertIn("continuing from", again.err)
        whole = self.run_program(*settings, "--output.file=whole.h5")
        self.assertEqual(whole.code, 0, whole)
        self.assert_same_bits("out.h5", "whole.h5")

    def assert_checkpoints_are_whole(self):
        for name in CHECKPOINTS:
            if os.path.exists(self.path(name)):
                with h5py.File(self.path(name), "r") as file:
                    self.assertEqual(file["state"].attrs["complete"], 1)
                    self.assertTrue(np.isfinite(file["state/u"][...]).all())


class Checkpoints(InterruptionTest):
    def test_a_finished_run_that_is_sent_again_keeps_its_result(self):
        self.evolve("--checkpoint.every=1")
        self.evolve("--output.file=whole.h5")
        before = self.checksum("out.h5")
        end = self.run_program("evolve", "small.ini", "--checkpoint.every=1", GO_ON)
        self.assert_refused(end, "out.h5", "output.overwrite")
        self.assertEqual(before, self.checksum("out.h5"))
        self.evolve("--checkpoint.every=1", GO_ON, "--output.overwrite=true", ranks=2)
        self.assert_same_bits("out.h5", "whole.h5")

    def test_of_another_problem_are_refused(self):
        self.evolve("--checkpoint.every=1")
        before = self.checksum("out.h5")
        for change in ("--model.seed=2", "--equation.c=0.5", "--evolve.method=ssp", "--inflow.first=3"):
            end = self.run_program("evolve", "small.ini", GO_ON, "--output.overwrite=true", change)
            self.assert_refused(end, *change.strip("-").split("="), CHECKPOINTS[0])
        self.assertEqual(before, self.checksum("out.h5"))

    def test_from_elsewhere_are_refused(self):
        """A checkpoint of a different shape, a file that is not a checkpoint, a missing one: nothing is run, nothing is
        lost."""
        self.evolve("--checkpoint.every=1")
        before = self.checksum("out.h5")
        self.write("text.h5", "not HDF5")
        for path, more in ((CHECKPOINTS[0], "--mesh.layers=3"), ("text.h5", ""), ("missing.h5", ""), ("out.h5", "")):
            arguments = [f"--checkpoint.restart={path}", "--output.overwrite=true", *([more] if more else [])]
            for ranks in (1, 3):
                end = self.run_program("evolve", "small.ini", *arguments, ranks=ranks)
                self.assert_refused(end, path)
        self.assertEqual(before, self.checksum("out.h5"))


if __name__ == "__main__":
    unittest.main()
