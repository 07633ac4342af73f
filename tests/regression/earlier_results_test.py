#!/usr/bin/env python3
"""What a run may replace of what earlier ones have left: a complete result only when complete itself, files beside the
output as the output, a checkpoint of an unfinished run only by continuing.
"""

import fcntl
import os
import shutil
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)

from program import FULL_TIER, TrainTest, together  # noqa: E402

GO_ON, OVERWRITE = "--checkpoint.restart=auto", "--output.overwrite=true"
NEWEST, PREVIOUS = "out.checkpoint.h5", "out.checkpoint.previous.h5"
EVOLVE, TRAIN = ("evolve", "small.ini", "--quiet"), ("train", "train.ini", "--quiet")
# The first step brings the inflow, which is larger than that; the first step takes the weights out of the numbers.
FAILS = {"evolve": ("--evolve.max_norm=1e-3",),
         "train": ("--train.rate=1e300", "--train.clip=0", "--train.schedule=constant", "--train.warm_up=0")}
STOPS = "--run.time_limit=1e-6"  # after one step


class EarlierTest(TrainTest):
    def contents(self, *prefixes):
        """name -> checksum of the files whose names begin so."""
        return {name: self.checksum(name) for name in os.listdir(self.folder) if name.startswith(prefixes)}

    def status(self, name):
        with h5py.File(self.path(name), "r") as file:
            return file.attrs["status"]

    def clean(self):
        for name in os.listdir(self.folder):
            if name.startswith("out."):
                os.remove(self.path(name))

    def ends(self, run, *more, code, ranks=1, file="out.h5", status=None):
        """A run that ends with this code and says that it has written this file."""
        end = self.run_program(*run, *more, ranks=ranks)
        self.assertEqual(end.code, code, end)
        said = (end.out if code == 0 else end.err).splitlines()
        self.assertEqual([line.split("written to ")[1] for line in said if "written to " in line], [file], end)
        self.assertEqual(self.status(file), status or {0: "done", 3: "failed", 4: "interrupted"}[code])
        return end


class IncompleteResults(EarlierTest):
    def test_stand_beside_a_complete_one(self):
        for run, on_ranks in ((EVOLVE, (1, 3) if FULL_TIER else (3,)), (TRAIN, (1, 3) if FULL_TIER else (1,))):
            for ranks in on_ranks:
                with self.subTest(run[0], ranks=ranks):
                    self.clean()
                    self.ends(run, code=0)
                    before = self.contents("out.h5", "out.xdmf")
                    # An incomplete one is replaced by the next of its kind.
                    fails = (3, "failed", FAILS[run[0]])
                    for code, word, more in (fails, fails, (4, "interrupted", (STOPS,))):
                        self.ends(run, OVERWRITE, *more, code=code, ranks=ranks, file=f"out.{word}.h5")
                        self.assertEqual(self.contents("out.h5", "out.xdmf"), before)
                        if run is EVOLVE:
                            with open(self.path(f"out.{word}.xdmf"), encoding="utf-8") as stream:
                                self.assertIn(f">out.{word}.h5:/field/u<", stream.read())

    def test_have_the_name_of_the_output_where_nothing_complete_has_it(self):
        for run in (EVOLVE, TRAIN):
            self.clean()
            self.ends(run, *FAILS[run[0]], code=3)
            self.ends(run, OVERWRITE, *FAILS[run[0]], code=3, ranks=2)
            self.ends(run, OVERWRITE, STOPS, code=4)
            self.ends(run, OVERWRITE, GO_ON, STOPS, code=4)
            self.assertEqual(set(self.contents("out.failed", "out.interrupted")), set())
            self.ends(run, GO_ON, code=0)

    def test_leave_files_of_others_alone(self):
        for content in ("no HDF5", b"\x89HDF\r\n\x1a\n" + bytes(100)):
            self.write("out.h5", content)
            before = self.checksum("out.h5")
            self.ends(EVOLVE, OVERWRITE, *FAILS["evolve"], code=3, ranks=2, file="out.failed.h5")
            self.assertEqual(self.checksum("out.h5"), before)

    def test_of_evolve_are_continued_and_removed_when_complete(self):
        self.ends(EVOLVE, "--model.seed=5", code=0)
        before = self.contents("out.h5", "out.xdmf")
        for _ in range(2):
            self.ends(EVOLVE, OVERWRITE, GO_ON, STOPS, code=4, file="out.interrupted.h5")
        with h5py.File(self.path("out.interrupted.h5"), "r") as file:
            self.assertEqual(len(file["time"]), 3)  # the fields of the first part are still there
        # The complete result may not be replaced without permission, and nothing is lost by asking.
        between = self.contents("out")
        for ranks in (1, 3):
            self.assert_refused(self.run_program(*EVOLVE, GO_ON, ranks=ranks), "out.h5", "output.overwrite")
        self.assertEqual(self.contents("out"), between)
        self.assertEqual(self.contents("out.h5", "out.xdmf"), before)
        self.assertIn("continuing from", self.ends(EVOLVE, OVERWRITE, GO_ON, code=0).err)
        self.assertEqual(set(self.contents("out.interrupted")), set())
        self.evolve("--output.file=whole.h5")
        self.assert_same_bits("out.h5", "whole.h5")

    def test_of_a_training_are_continued_and_removed_when_complete(self):
        self.ends(TRAIN, "--model.seed=5", "--checkpoint.epochs=false", code=0)
        for _ in range(2):
            self.ends(TRAIN, OVERWRITE, GO_ON, STOPS, code=4, file="out.interrupted.h5")
        self.ends(TRAIN, OVERWRITE, GO_ON, code=0)
        self.assertEqual(set(self.contents("out.interrupted")), set())
        self.train("--output.file=whole.h5")
        self.assert_same_training("out.h5", "whole.h5")

    def test_that_failed_keep_the_fields_for_the_next_attempt(self):
        self.ends(EVOLVE, "--model.seed=5", code=0)
        self.ends(EVOLVE, OVERWRITE, "--checkpoint.every=1", "--evolve.stop=steady", "--evolve.steady=1e-30",
                  "--evolve.time=2", code=3, file="out.failed.h5")
        self.ends(EVOLVE, OVERWRITE, GO_ON, code=0)
        self.evolve("--output.file=whole.h5")
        self.assert_same_bits("out.h5", "whole.h5")
        self.assertEqual(self.status("out.failed.h5"), "failed")


class SideFiles(EarlierTest):
    """Only they are there, of an output that is not."""

    def refused(self, run, name, *more):
        for ranks in (1, 3) if FULL_TIER else (3,) if run is EVOLVE else (1,):
            end = self.run_program(*run, *more, ranks=ranks)
            self.assert_refused(end, "output.file", name + ",", "output.overwrite")
        self.assertEqual(set(self.contents("out")), {name})
        with open(self.path(name), encoding="utf-8") as stream:
            self.assertEqual(stream.read(), "earlier")

    def test_count_like_the_output(self):
        snapshots = ("--output.snapshots=2", "--train.epochs=4")
        for run, name, more in ((EVOLVE, "out.xdmf", ()), (TRAIN, "out.history.h5", ()), (TRAIN, "out.best.h5", ()),
                                (TRAIN, "out.epoch0.h5", snapshots), (TRAIN, "out.epoch4.h5", snapshots)):
            with self.subTest(name):
                self.clean()
                self.write(name, "earlier")
                self.refused(run, name, *more)
                # A run that continues cannot be told from one that was killed before its first checkpoint.
                for allowed in (OVERWRITE, GO_ON):
                    self.clean()
                    self.write(name, "earlier")
                    self.ends(run, *more, allowed, code=0, ranks=2 if FULL_TIER or allowed is GO_ON else 1)
                    self.assertGreater(os.path.getsize(self.path(name)), 100)

    def test_that_a_run_does_not_write_do_not_matter(self):
        for name in ("out.best.h5", "out.epoch1.h5", "out.epoch6.h5", "out.failed.h5"):
            self.write(name, "earlier")
        before = self.contents("out")
        self.ends(TRAIN, "--output.snapshots=2", "--train.epochs=4", "--train.validation=0",
                  "--checkpoint.epochs=false", code=0)
        self.assertEqual(self.contents(*before), before)
        self.clean()
        self.write("out.xdmf", "earlier")
        self.ends(EVOLVE, "--output.fields=none", code=0)


class Checkpoints(EarlierTest):
    def refused(self, run, *more, name=NEWEST):
        before = self.contents("out")
        for ranks, permission in [(1, ()), (3, (OVERWRITE,)), *([(1, (OVERWRITE,)), (3, ())] if FULL_TIER else [])]:
            if FULL_TIER or ranks == 1 or run is EVOLVE:
                end = self.run_program(*run, *more, *permission, ranks=ranks)
                self.assert_refused(end, name, "has not finished", GO_ON, "remove")
        self.assertEqual(self.contents("out"), before)

    def test_of_an_unfinished_run_are_replaced_only_by_continuing_it(self):
        for run in (EVOLVE, TRAIN):
            with self.subTest(run[0]):
                self.clean()
                self.ends(run, STOPS, code=4)
                self.refused(run)  # its output says interrupted
                shutil.copy(self.path(NEWEST), self.path("copy.h5"))
                self.refused(run, "--checkpoint.restart=copy.h5")
                os.rename(self.path("out.h5"), self.path("kept"))
                self.refused(run)  # has none
                os.rename(self.path(NEWEST), self.path(PREVIOUS))
                self.refused(run, name=PREVIOUS)  # killed between two renames
                os.rename(self.path(PREVIOUS), self.path(NEWEST))
                self.write("out.h5", "damaged")
                self.refused(run)
                os.rename(self.path("kept"), self.path("out.h5"))
                self.ends(run, f"--checkpoint.restart={NEWEST}", STOPS, OVERWRITE, code=4)  # its own, by name
                self.ends(run, GO_ON, code=0)

    def test_newer_than_the_result_are_of_an_unfinished_run(self):
        for run in (EVOLVE, TRAIN):
            self.clean()
            self.ends(run, code=0)
            self.ends(run, OVERWRITE, STOPS, code=4, file="out.interrupted.h5")
            os.remove(self.path("out.interrupted.h5"))  # as if it had been killed
            self.refused(run)
            self.ends(run, OVERWRITE, GO_ON, code=0)

    def test_of_a_run_that_has_ended_count_like_the_output(self):
        for run in (EVOLVE, TRAIN):
            self.clean()
            self.ends(run, "--checkpoint.every=1", code=0)
            self.assertIn(PREVIOUS, self.contents("out"))
            self.assert_refused(self.run_program(*run), "out.h5 exists", "output.overwrite")
            self.ends(run, "--checkpoint.every=1", OVERWRITE, code=0)
            # A run that failed cannot be continued as it is, so another may take its place.
            not_steady = ("--evolve.stop=steady", "--evolve.steady=1e-30", "--evolve.time=2")
            failing = FAILS["train"] if run is TRAIN else not_steady
            self.ends(run, "--checkpoint.every=1", OVERWRITE, *failing, code=3, file="out.failed.h5")
            self.ends(run, "--checkpoint.every=1", OVERWRITE, code=0)


class RunningRuns(EarlierTest):
    """Whose part file is locked: nothing of theirs is touched, whatever the settings."""

    def test_are_named_first(self):
        self.ends(EVOLVE, "--checkpoint.every=1", code=0)
        os.rename(self.path("out.h5"), self.path("out.h5.part"))  # it would be continued from
        before = self.contents("out")
        with open(self.path("out.h5.part"), "r+b") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            together([lambda r=ranks, m=more: self.assert_refused(self.run_program(*EVOLVE, *m, ranks=r),
                                                                  "out.h5.part", "another run")
                      for ranks in (1, 3) for more in ((), (OVERWRITE,), (GO_ON,), (GO_ON, OVERWRITE))])
        self.assertEqual(self.contents("out"), before)


if __name__ == "__main__":
    unittest.main()
