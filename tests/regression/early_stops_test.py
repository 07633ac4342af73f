#!/usr/bin/env python3
"""A signal before the first step, while a data set is read or the run is set up: exit code 4, one message, nothing
written, and a chain of jobs goes on.
"""

import gzip
import os
import shutil
import signal
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "fuzz")]

import numpy as np  # noqa: E402 (the folders are put on the path first)

from described import names_of  # noqa: E402
from held_back import WHILE_MPI_STARTS, HeldBackTest  # noqa: E402
from made_up_images import idx  # noqa: E402
from program import BINARY, ENVIRONMENT, FULL_TIER, MPIEXEC, ROOT, TrainTest  # noqa: E402
from small_studies import PAIRS, STUDIES, make_models, write_decks  # noqa: E402

IMAGES = "train-images-idx3-ubyte.gz"
ON_THEM = ("--data.set=mnist", "--data.directory=.", "--train.samples=160", "--train.test_samples=40")


def write_data(folder, count=200):
    """A data set in MNIST's format, the images to train with compressed."""
    images = np.random.default_rng(0).integers(0, 256, (count, 28, 28), dtype=np.uint8).tobytes()
    labels = (np.arange(count) % 10).astype(np.uint8).tobytes()
    for name, content in ((IMAGES, gzip.compress(idx(images, count, 28, 28), 1)), ("train-labels-idx1-ubyte", idx(labels, count)),
                          ("t10k-images-idx3-ubyte", idx(images, count, 28, 28)), ("t10k-labels-idx1-ubyte", idx(labels, count))):
        with open(os.path.join(folder, name), "wb") as stream:
            stream.write(content)


class EarlyStopTest(HeldBackTest, TrainTest):
    def assert_stopped_early(self, ended, number, before):
        self.assert_refused(ended, f"stopped by signal {number.value} before the first step",
                            "nothing was written", "start the run again", code=4)
        self.assertEqual(sorted(os.listdir(self.folder)), before)


class WhileDataAreRead(EarlyStopTest):
    def setUp(self):
        super().setUp()
        write_data(self.folder)

    def stopped(self, number, ranks, *arguments):
        before = sorted(os.listdir(self.folder))
        self.assert_stopped_early(self.stopped_at(("open", IMAGES), number, *arguments, ranks=ranks), number, before)

    def test_of_a_training(self):
        training = ("train", "train.ini", *ON_THEM, "--output.overwrite=true")
        self.stopped(signal.SIGTERM, 1, *training)
        self.stopped(signal.SIGUSR1, 3, *training)  # mpiexec passes it on

    def test_of_one_rank_alone(self):
        before = sorted(os.listdir(self.folder))
        process, hold = self.start_held(("open", IMAGES), "train", "train.ini", *ON_THEM, ranks=3, held=3)
        os.kill(hold.seen("held")[-1], signal.SIGUSR1)
        hold.let_go()
        self.assert_stopped_early(self.ended(process), signal.SIGUSR1, before)

    def test_of_evolve_and_earlier_results_stay(self):
        run = ("evolve", "small.ini", "--data.set=mnist", "--data.directory=.", "--inflow.source=data",
               "--data.split=train", "--mesh.tokens_x=0", "--mesh.tokens_y=0", "--output.overwrite=true")
        self.evolve("--evolve.time=1")
        before = self.checksum("out.h5")
        self.stopped(signal.SIGUSR1, 3, *run)
        self.stopped(signal.SIGTERM, 1, *run, "--checkpoint.restart=auto")
        self.assertEqual(self.checksum("out.h5"), before)


class AtTheVeryStart(EarlyStopTest):
    """Before MPI is started, when signals are caught already."""

    def stopped(self, number, ranks, *arguments):
        before = sorted(os.listdir(self.folder))
        process, hold = self.start_held(WHILE_MPI_STARTS, *arguments, ranks=ranks, held=ranks)
        # Each rank: mpiexec itself may not be ready to pass a signal on.
        for pid in hold.seen("held"):
            os.kill(pid, number)
        hold.let_go()
        self.assert_stopped_early(self.ended(process), number, before)

    def test_of_every_kind_of_run(self):
        self.train("--output.file=model.h5", "--checkpoint.epochs=false")
        comparison = ("gradient_flow", "--data.tokens=rows", "--models.transformer=model.h5", "--models.seeds=1",
                      "--output.file=compared.h5")
        for ranks, number in ((1, signal.SIGUSR1), (1, signal.SIGINT), (3, signal.SIGTERM)):
            self.stopped(number, ranks, "evolve", "small.ini")
            self.stopped(number, ranks, "train", "train.ini")
            self.stopped(number, ranks, *comparison)


class Chains(EarlyStopTest):
    """chain.sbatch itself, with a SLURM that only takes down what it is told."""

    def setUp(self):
        super().setUp()
        shutil.copytree(os.path.join(ROOT, "jobscripts"), self.path("jobscripts"))
        with open(self.path("jobscripts/machine.sh"), "a", encoding="utf-8") as stream:
            stream.write(f'\nlaunch() {{ if [ $SLURM_NTASKS = 1 ]; then exec "$@"; else exec {MPIEXEC} -n $SLURM_NTASKS "$@"; fi; }}\n')
        os.makedirs(self.path("bin"))
        self.write("bin/scontrol", '#!/bin/sh\necho "$@" >>requeued\n')
        os.chmod(self.path("bin/scontrol"), 0o755)

    def submit(self, number, ranks, *words, **environment):
        """A job with this number, which writes out-NUMBER.h5."""
        job = {"SLURM_SUBMIT_DIR": self.folder, "SLURM_JOB_ID": str(number), "SLURM_NTASKS": str(ranks), "SLURM_JOB_NODELIST": "here",
               "FLUXFORMER_BIN": BINARY, "PATH": self.path("bin") + ":" + ENVIRONMENT["PATH"]}
        return subprocess.Popen(["bash", "jobscripts/chain.sbatch", *words, "--output.file=out-%j.h5"], cwd=self.folder, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                                env={**ENVIRONMENT, **job, **environment})

    def assert_queued_again(self, number):
        with open(self.path("requeued"), encoding="utf-8") as stream:
            self.assertEqual(stream.read().splitlines()[-1], f"requeue {number}")

    def test_a_job_that_is_stopped_early_is_queued_again_and_begins_then(self):
        for ranks in (1, 3):
            hold = self.hold(*WHILE_MPI_STARTS)
            chain = self.submit(ranks, ranks, "train", "train.ini", **hold.environment)
            self.addCleanup(self.stop, chain)
            hold.wait_for("held", chain, ranks)
            os.kill(chain.pid, signal.SIGUSR1)  # the job script, as SLURM does
            hold.wait_for("woken", chain, ranks)
            hold.let_go()
            self.assert_refused(self.ended(chain), "before the first step", code=4)
            self.assert_queued_again(ranks)
            self.assertEqual([name for name in os.listdir(self.folder) if name.startswith(f"out-{ranks}")], [])
            again = self.ended(self.submit(ranks, ranks, "train", "train.ini", **hold.environment))
            self.assertEqual(again.code, 0, again)
            self.assertEqual(self.open(f"out-{ranks}.h5").attrs["status"], "done")

    def test_the_small_studies_are_of_all_experiments(self):
        self.assertEqual(sorted({words[0] for words in STUDIES.values()}), sorted({*names_of()} - {"evolve", "train"}))

    def test_a_job_of_any_study_goes_on_from_where_the_time_limit_stopped_it(self):
        write_decks(self)
        if FULL_TIER:
            make_models(self.path("models"))
        for number, (kind, words) in enumerate(STUDIES.items() if FULL_TIER else [("paths_theory", STUDIES["paths_theory"])]):
            with self.subTest(kind):
                ranks = 2 if PAIRS in kind else 1
                stopped = self.ended(self.submit(number, ranks, *words, "--run.time_limit=1e-6"))
                self.assertEqual(stopped.code, 4, stopped)
                self.assert_queued_again(number)
                self.assertFalse(os.path.exists(self.path(f"out-{number}.h5")))
                again = self.ended(self.submit(number, ranks, *words, SLURM_RESTART_COUNT="1"))
                self.assertEqual(again.code, 0, again)
                if "nothing was written" not in stopped.err:  # as before the first repetition of scaling
                    self.assertIn(f"continuing from out-{number}.checkpoint.h5", again.err)
                self.assertEqual(self.open(f"out-{number}.h5").attrs["status"], "done")


if __name__ == "__main__":
    unittest.main()
