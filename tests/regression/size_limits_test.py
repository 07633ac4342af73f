#!/usr/bin/env python3
"""A limit on the size of files (ulimit -f) is a full disk: found before the work where the size is known, else exit
code 1 when it is reached; earlier files stay. An output without a name is found first of all.
"""

import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)

from program import FULL_TIER, TrainTest, together  # noqa: E402

GO_ON, OVERWRITE = "--checkpoint.restart=auto", "--output.overwrite=true"
REACHED = "the limit on the size of files (ulimit -f) is reached"
# MPI's own files in shared memory are subject to the limit too: do without them.
NO_SHARED_MEMORY = {"OMPI_MCA_ess_singleton_isolated": "1", "OMPI_MCA_btl": "self,tcp", "OMPI_MCA_btl_tcp_if_include": "lo"}
MIB = 1024  # of the blocks that ulimit counts in bash
# Where the limit holds: without a launcher, on all ranks and on one of them. Those that meet it together agree as one does with the others.
WHERE = ({}, {"ranks": 3}, {"ranks": 3, "rank": 2}) if FULL_TIER else ({}, {"ranks": 3, "rank": 2})
# States of 0.9 MB each; with compression nobody knows beforehand how many bytes they take.
LARGE = ("--inflow.samples=1200", "--evolve.time=64")
COMPRESSED = (*LARGE, "--output.compression=1")


class LimitTest(TrainTest):
    def limited(self, blocks, *arguments, ranks=1, rank=None, log=""):
        """A run under the limit, on all ranks or on one."""
        if rank is None:
            limit = f"ulimit -f {blocks}"
        else:
            limit = f'if [ "$OMPI_COMM_WORLD_RANK" = {rank} ]; then ulimit -f {blocks}; fi'
        return self.run_program(*arguments, ranks=ranks, environment=NO_SHARED_MEMORY,
                                wrapper=("bash", "-c", f'{limit}; exec "$@" {log}', "limited"))

    def assert_reached(self, end, name):
        self.assert_refused(end, f"{name}.part: cannot grow", REACHED, code=1)

    def files(self):
        return {name: self.checksum(name) for name in os.listdir(self.folder) if os.path.isfile(self.path(name))}


class BeforeTheWork(LimitTest):
    """Nothing is left, not even a part file."""

    def refused(self, blocks, *run, name="out.h5"):
        before = self.files()
        for where in WHERE:
            self.assert_reached(self.limited(blocks, *run, **where), name)
            self.assertEqual(self.files(), before)

    def test_no_output_at_all(self):
        self.evolve("--checkpoint.every=1")
        self.refused(1000, "evolve", "small.ini", "--quiet", OVERWRITE)
        self.refused(1000, "evolve", "small.ini", "--quiet", OVERWRITE, GO_ON)
        self.train("--output.file=model.h5")
        self.refused(1000, "train", "train.ini", "--quiet", "--output.file=model.h5", OVERWRITE, name="model.h5")
        self.refused(1000, "gradient_flow", "--quiet", "--data.tokens=rows", "--models.transformer=model.h5",
                     "--models.seeds=1", "--output.file=compared.h5", name="compared.h5")

    def test_not_all_states(self):
        self.refused(32 * MIB, "evolve", "small.ini", "--quiet", *LARGE)
        # Half of them are half of the bytes.
        end = self.limited(40 * MIB, "evolve", "small.ini", "--quiet", *LARGE, "--output.channel_stride=2", ranks=3)
        self.assertEqual(end.code, 0, end)
        self.assertEqual(len(self.open("out.h5")["time"]), 65)

    def test_not_all_weights(self):
        wide = ("--model.width=256", "--model.ffn=256")  # 6.6 MB
        self.refused(10 * MIB, "train", "train.ini", "--quiet", *wide)
        end = self.limited(14 * MIB, "train", "train.ini", "--quiet", *wide, "--train.epochs=1",
                           "--checkpoint.epochs=false")
        self.assertEqual(end.code, 0, end)


class DuringTheWork(LimitTest):
    def test_of_evolve_the_part_can_be_read(self):
        self.evolve("--output.fields=none")
        before = self.checksum("out.h5")
        for where in WHERE:
            self.assert_reached(self.limited(12 * MIB, "evolve", "small.ini", "--quiet", *COMPRESSED,
                                             "--checkpoint.every=1", OVERWRITE, **where), "out.h5")
            self.assertEqual(self.checksum("out.h5"), before)
            with h5py.File(self.path("out.h5.part"), "r") as part:
                self.assertEqual(part.attrs["status"], "running")
                self.assertGreater(len(part["time"]), 1)
            # What was checkpointed is not lost.
            for name in ("out.h5.part", "out.checkpoint.h5", "out.checkpoint.previous.h5"):
                self.assertTrue(os.path.exists(self.path(name)), name)
                os.remove(self.path(name))

    def test_of_train_earlier_checkpoints_and_results_stay(self):
        # Checkpoints take three times the weights, of 3.4 MB.
        run = ("train", "train.ini", "--quiet", "--model.width=128", "--model.ffn=512")
        self.assertEqual(self.run_program(*run, "--run.time_limit=1e-6").code, 4)
        before = {name: content for name, content in self.files().items() if "history" not in name}
        for where in WHERE:
            end = self.limited(10 * MIB, *run, GO_ON, **where)
            self.assertEqual((end.code, len(end.messages)), (1, 2), end)
            self.assertIn("continuing from", end.messages[0])
            self.assertIn("out.checkpoint.h5.part: cannot grow", end.messages[1])
            self.assertIn(REACHED, end.messages[1])
            after = self.files()
            for name, content in before.items():
                self.assertEqual(after[name], content, name)
        end = self.run_program(*run, GO_ON)
        self.assertEqual(end.code, 0, end)
        self.train(*run[3:], "--output.file=whole.h5")
        self.assert_same_training("out.h5", "whole.h5")

    def test_a_log_beyond_the_limit_does_not_end_the_run(self):
        for ranks in (1, 3):
            self.write("log", bytes(9 << 20))
            end = self.limited(8 * MIB, "evolve", "small.ini", f"--output.file=out{ranks}.h5", ranks=ranks,
                               log=">>log 2>&1")
            self.assertEqual(end.code, 0, end)
            self.assertEqual(self.open(f"out{ranks}.h5").attrs["status"], "done")


class LongNames(LimitTest):
    def test_can_be_written_and_read(self):
        folder = "/".join("f" * 200 for _ in range(2))
        os.makedirs(self.path(folder))
        for ranks in (1, 3):
            name, checkpoint = f"{folder}/out{ranks}.h5", f"{folder}/out{ranks}.checkpoint.h5"
            self.evolve("--checkpoint.every=2", "--output.file=" + name, ranks=ranks)
            self.evolve("--evolve.time=6", f"--output.file=more{ranks}.h5", "--checkpoint.restart=" + checkpoint, ranks=ranks)
            self.evolve(f"--output.file=again{ranks}.h5", "--model.file=" + name, ranks=ranks)
        self.assertEqual(sorted(os.listdir(self.path(folder))),
                         sorted(f"out{ranks}{end}" for ranks in (1, 3)
                                for end in (".h5", ".xdmf", ".checkpoint.h5", ".checkpoint.previous.h5")))

    def test_that_leave_no_room_for_the_files_beside_are_refused_before_the_work(self):
        before = self.files()
        longest = "f" * (255 - len(".checkpoint.previous.h5"))
        for name in (longest + "f.h5", longest + "ffff", "a/" * 2040 + "out.h5"):
            for ranks, more in ((1, ()), (3, ()), (1, ("--validate",))):
                end = self.run_program("evolve", "small.ini", "--output.file=" + name, *more, ranks=ranks)
                self.assert_refused(end, "output.file", "too long a name")
        self.assertEqual(self.files(), before)
        for more in ((), ("--checkpoint.every=1", "--output.overwrite=true")):  # the second makes both generations
            self.evolve("--output.file=" + longest + ".h5", *more)


class NoName(LimitTest):
    def test_is_refused_before_anything_is_read(self):
        described = json.loads(self.run_program("--describe=json").out)
        names = [experiment["name"] for experiment in described["experiments"]]
        self.assertGreater(len(names), 8)
        before = self.files()
        empty = "output.file: is empty"
        together([lambda n=name, m=more: self.assert_refused(self.run_program(n, "--output.file=", *m), empty)
                  for number, name in enumerate(names) for place, more in enumerate(((), ("--validate",))) if FULL_TIER or place == number % 2])
        self.assert_refused(self.run_program("evolve", "small.ini", "--output.file=", "--validate", ranks=3), empty)
        self.assertEqual(self.files(), before)


if __name__ == "__main__":
    unittest.main()
