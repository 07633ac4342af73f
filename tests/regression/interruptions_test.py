#!/usr/bin/env python3
"""Runs that are stopped by a signal, the time limit or kill -9, and continue as if nothing had happened (T9).

States and history are bit for bit those of an uninterrupted run (except for wall times).
"""

import os
import signal
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from processes import members  # noqa: E402
from program import ProgramTest  # noqa: E402

GO_ON = "--checkpoint.restart=auto"
CHECKPOINTS = ("out.checkpoint.h5", "out.checkpoint.previous.h5")


class InterruptionTest(ProgramTest):
    def long_run(self, end, *more):
        """Settings of a run with four steps per unit of time that never becomes steady, since the inflow keeps changing."""
        return ("evolve", "small.ini", "--quiet", "--evolve.method=ssp", "--evolve.cfl=0.25", f"--evolve.time={end}",
                "--output.history=7", f"--output.every={end / 8}", "--inflow.every=0.75", *more)

    def stopped(self, stop, *more, ranks=1):
        """Starts a run and stops it with `stop(process)`; retries with a longer run if that came too late.

        Returns its settings and how it ended."""
        end = 512
        while True:
            settings = self.long_run(end)
            process = self.start(*settings, *more, ranks=ranks)
            if self.wait_for("out.h5.part", process):
                stop(process)
            ended = self.ended(process)
            if ended.code != 0:
                return settings, ended
            self.assertLess(end, 1e6, "the run was never stopped")
            end *= 8
            for name in ("out.h5", "out.xdmf"):
                os.remove(self.path(name))

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


def send(number):
    """Sends a signal to the program, or only to mpiexec, as a queue does, while the run is in progress."""
    def stop(process):
        time.sleep(0.1)
        os.kill(process.pid, number)
    return stop


class PoliteStops(InterruptionTest):
    def test_sigterm_to_a_single_process(self):
        settings, ended = self.stopped(send(signal.SIGTERM))
        self.assert_interrupted_and_goes_on(settings, ended, 1, "signal 15")

    def test_sigusr1_under_mpiexec(self):
        settings, ended = self.stopped(send(signal.SIGUSR1), ranks=2)
        self.assert_interrupted_and_goes_on(settings, ended, 2, "signal 10")

    def test_the_time_limit(self):
        settings, ended = self.stopped(lambda process: None, "--run.time_limit=0.2", ranks=2)
        self.assert_interrupted_and_goes_on(settings, ended, 2, "run.time_limit")

    def test_during_the_search_for_the_steady_state(self):
        # With diffusion in depth it takes 50 crossing times in 100 000 steps per unit of time, before the first step of the run.
        search = ("evolve", "small.ini", "--quiet", "--equation.epsilon=0.1", "--evolve.cfl=1e-5", "--evolve.time=0.01")
        ended = self.run_program(*search, "--run.time_limit=0.2", ranks=2)
        self.assert_refused(ended, "run.time_limit", "steady state", "nothing was written", code=4)
        self.assertNotIn("out.h5", os.listdir(self.folder))
        self.assertNotIn(CHECKPOINTS[0], os.listdir(self.folder))
        again = self.run_program(*search, "--evolve.cfl=0.5", "--evolve.time=1", GO_ON, ranks=2)
        self.assertEqual(again.code, 0, again)


class Kill(InterruptionTest):
    def test_at_any_moment_fixed_steps(self):
        self.killed_again_and_again(8192, *self.long_run(8192))

    def test_at_any_moment_error_controlled_steps(self):
        # These methods use earlier steps; at a scheduled checkpoint they discard them, restarted or
        # not.
        self.killed_again_and_again(16384, "evolve", "small.ini", "--quiet", "--evolve.method=rk",
                                    "--evolve.variant=3bs", "--evolve.tolerance=1e-7", "--evolve.time=16384",
                                    "--output.every=2048", "--output.history=11")

    def test_by_these_tests_reaches_processes_in_groups_of_their_own(self):
        """Such as Open MPI makes for its ranks."""
        process = self.start("--version", wrapper=("bash", "-c", 'set -m; sleep 60 >/dev/null 2>&1 & touch begun; wait; exec "$@"', "first"))
        self.assertTrue(self.wait_for("begun", process))
        self.assertGreater(len({os.getpgid(one) for one in members(process.pid)}), 1)
        self.stop(process)
        self.assertEqual(members(process.pid), [])

    def killed_again_and_again(self, end, *settings):
        """The earlier output is kept until the run is complete, and checkpointed results are not lost."""
        self.evolve("--model.seed=9")
        earlier = self.checksum("out.h5")
        settings = (*settings, f"--checkpoint.every={end / 64}", "--output.overwrite=true")
        kills = 0
        for moment in (0.4, 0.0, 0.1, 0.02, 0.2):
            process = self.start(*settings, GO_ON)
            if self.wait_for_another("out.h5.part", process):
                time.sleep(moment)
            ended = self.stop(process)
            if ended.code == 0:
                break  # it finished first
            self.assertEqual(ended.code, -signal.SIGKILL, ended)
            kills += 1
            if self.checksum("out.h5") != earlier:  # already complete; the killed process only had to exit
                self.assertEqual(self.open("out.h5").attrs["status"], "done", f"after {moment} s")
                break
            self.assert_checkpoints_are_whole()
        self.assertGreater(kills, 1)
        again = self.run_program(*settings, GO_ON)
        self.assertEqual(again.code, 0, again)
        self.assertIn("continuing from", again.err)
        whole = self.run_program(*settings, "--output.file=whole.h5")
        self.assertEqual(whole.code, 0, whole)
        self.assert_same_bits("out.h5", "whole.h5")

    def wait_for_another(self, name, process):
        """Waits until a new file of that name exists; false if the program ended first."""
        def identity():
            try:
                return os.stat(self.path(name)).st_ino
            except FileNotFoundError:
                return None

        before = identity()
        while identity() in (None, before):
            if process.poll() is not None:
                return False
            time.sleep(0.005)
        return True

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
