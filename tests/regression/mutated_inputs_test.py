#!/usr/bin/env python3
"""The program and the Python package keep their promises on mutated inputs (tests/fuzz/through_the_program.py), and the judge of that
sees every way to break one."""

import concurrent.futures
import os
import sys
import tempfile
import time
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "fuzz")]

import h5py  # noqa: E402 (the folders are put on the path first)
import numpy as np  # noqa: E402

import judge  # noqa: E402
import through_the_program  # noqa: E402
from hostile_inputs import SECRET, Seeds, Target, targets  # noqa: E402
from processes import kill_all, members  # noqa: E402
from program import TIMEOUT  # noqa: E402

INPUTS, SEED = 52, 13  # every kind twice


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="fluxformer-judge-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)


class Judge(Folder):
    """Planted programs, each with one fault."""

    def setUp(self):
        super().setUp()
        with open(self.path("bad.h5"), "w", encoding="utf-8") as stream:
            stream.write("an input")

    def faults(self, script, ranks=1, output=None, seconds=20, allowed=(0, 1, 2)):
        before = judge.contents(self.folder)
        ended = judge.run(["/bin/sh", "-c", script], self.folder, {"PATH": os.environ["PATH"]}, seconds)
        return judge.faults(ended, ranks, ["bad.h5"], before, judge.contents(self.folder), output, allowed)

    def test_accepts_what_was_promised(self):
        for script in ("true", "echo 'fluxformer: bad.h5: not HDF5' >&2; exit 2", "echo 'fluxformer: mesh.layers = 0: too few' >&2; exit 2",
                       "echo 'fluxformer: bad.h5: no space left' >&2; exit 1", "echo table; touch run.h5"):
            self.assertEqual(self.faults(script), [], script)
        launched = "echo 'fluxformer: bad.h5: not HDF5' >&2; echo 'mpiexec: a rank ended with 2' >&2; exit 2"
        self.assertEqual(self.faults(launched, ranks=3), [])

    def test_sees_every_broken_promise(self):
        refusal = "echo 'fluxformer: bad.h5: not HDF5' >&2; "
        for script, fault in (
                ("kill -SEGV $$", "dies by signal 11"), (refusal + "exit 139", "dies by signal 11"), ("kill -ABRT $$", "dies by signal 6"),
                (refusal + "exit 7", "exit code 7"), (refusal + "exit 3", "exit code 3"), ("exit 2", "0 messages"), ("exit 1", "0 messages"),
                (refusal + "exit 1", "exit code 1 for bad input"), (refusal * 2 + "exit 2", "2 messages"),
                ("echo 'fluxformer: a miss-spelling' >&2; exit 2", "neither the file nor a key"), (refusal + "echo more >&2; exit 2", "no messages"),
                ("echo 'fluxformer: it is bad' >&2; exit 2", "neither the file nor a key"),
                ("echo 'fluxformer: bad.h5: vector::_M_range_check' >&2; exit 2", "'vector::'"),
                (refusal + "echo 'HDF5-DIAG: Error detected' >&2; exit 2", "'HDF5-DIAG'"), ("echo 'Traceback' >&2", "'Traceback'"),
                (refusal + "echo 'MPI_ABORT was invoked' >&2; exit 2", "'MPI_ABORT'"), ("echo 1 > canary.txt", "writes or changes canary.txt"),
                ("echo 1 >> bad.h5", "writes or changes bad.h5"), ("rm bad.h5", "writes or changes bad.h5")):
            with self.subTest(script):
                self.assertIn(fault, "; ".join(self.faults(script)))
        self.assertIn("without run.h5", "; ".join(self.faults("true", output=self.path("run.h5"))))

    def test_ends_what_hangs_with_its_children(self):
        # The shell needs milliseconds for its start; its children outlast the deadline below.
        self.assertIn("hangs", self.faults(f"sleep {2 * TIMEOUT} & echo $$ > run.session; sleep {2 * TIMEOUT}", seconds=5)[0])
        with open(self.path("run.session"), encoding="utf-8") as stream:
            session = int(stream.read())
        self.addCleanup(kill_all, session)
        deadline = time.monotonic() + TIMEOUT  # they are killed, and gone a little later
        while members(session) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertEqual(members(session), [])

    def test_sees_the_work_of_a_child(self):
        with mock.patch.object(judge, "SECONDS", 0.3):
            self.assertEqual(self.faults("true"), [])
            busy = f"{sys.executable} -c 'import time\nwhile time.process_time() < 1: pass'; true"
            self.assertIn("works for", "; ".join(self.faults(busy)))

    def test_sees_the_memory_of_a_child(self):
        with mock.patch.object(judge, "BYTES", 100 << 20):
            self.assertEqual(self.faults("true"), [])
            hungry = f"{sys.executable} -c 'bytearray(150 << 20)'; true"
            self.assertIn("GB of memory", "; ".join(self.faults(hungry)))

    def test_sees_results_that_come_from_elsewhere_or_are_not_right(self):
        seeds = mock.Mock(folder=self.folder)
        target = Target("planted", "bad.h5", None, ("evolve",), "run.h5", "right.h5")
        ended = judge.Ended(0, "", "", 0.0, 0.0, 0)

        def outcome(name, history):
            with h5py.File(self.path(name), "w") as file:
                file["field/u"] = np.arange(6.0).reshape(2, 3)
                file["history/norm"], file["history/wall_time"] = history, np.random.default_rng().random(3)
            return "; ".join(through_the_program.outcome(target, self.folder, ended, 1, judge.contents(self.folder), seeds))

        outcome("right.h5", [1.0, 2.0])
        self.assertEqual(outcome("run.h5", [1.0, 2.0]), "")
        self.assertIn("history/norm are not those", outcome("run.h5", [1.0, 2.5]))
        self.assertIn("numbers of another file", outcome("run.h5", SECRET))


class Program(Folder):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="fluxformer-seeds-")
        cls.addClassCleanup(folder.cleanup)
        cls.seeds = Seeds(os.path.join(folder.name, "seeds"))

    def test_it_accepts_the_inputs_before_they_are_mutated(self):
        def tried(target):
            here = self.path(target.name)
            self.seeds.copy(target, here)
            before = judge.contents(here)
            ended = judge.run(target.command(1), here, target.environment)
            return target.name, ended.code, through_the_program.outcome(target, here, ended, 1, before, self.seeds)

        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            for name, code, found in pool.map(tried, targets()):
                self.assertEqual((code, found), (0, []), name)

    def test_it_keeps_its_promises_on_mutated_inputs(self):
        codes, found = through_the_program.campaign(INPUTS, SEED, self.seeds, self.folder, self.path("findings"))
        self.assertEqual(sum(codes.values()), INPUTS)
        self.assertEqual(len({name for name, _ in codes}), len(targets()))
        self.assertEqual(found, [], f"\n{through_the_program.grouped(found)}")


if __name__ == "__main__":
    unittest.main()
