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
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np  # noqa: E402 (the folder is put on the path first)

from made_up_images import idx  # noqa: E402
from processes import members  # noqa: E402
from program import BINARY, ENVIRONMENT, MPIEXEC, ROOT, TIMEOUT, TrainTest  # noqa: E402

IMAGES = "train-images-idx3-ubyte.gz"
ON_THEM = ("--data.set=mnist", "--data.directory=.", "--train.samples=160", "--train.test_samples=40")


def write_long_data(folder, count=100000):
    """A data set in MNIST's format that takes some tenths of a second to read: 75 MB of images, compressed."""
    with open(os.path.join(folder, "train-labels-idx1-ubyte"), "wb") as stream:
        stream.write(idx((np.arange(count) % 10).astype(np.uint8).tobytes(), count))
    few = np.random.default_rng(0).integers(0, 256, (1000, 28, 28), dtype=np.uint8).tobytes()
    with gzip.open(os.path.join(folder, IMAGES), "wb", compresslevel=1) as stream:
        stream.write(idx(few * (count // 1000), count, 28, 28))
    for name, content in (("t10k-images-idx3-ubyte", idx(few[:100 * 784], 100, 28, 28)),
                          ("t10k-labels-idx1-ubyte", idx((np.arange(100) % 10).astype(np.uint8).tobytes(), 100))):
        with open(os.path.join(folder, name), "wb") as stream:
            stream.write(content)


def is_the_program(pid):
    try:
        return os.readlink(f"/proc/{pid}/exe") == os.path.realpath(BINARY)
    except OSError:
        return False


def times_woken(pid):
    """Grows by one when a process that waits handles a signal."""
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as stream:
        return next(int(line.split()[1]) for line in stream if line.startswith("voluntary_ctxt_switches"))


def reads(pid, name):
    folder = f"/proc/{pid}/fd"
    for entry in os.listdir(folder):
        try:
            if os.readlink(os.path.join(folder, entry)).endswith(name):
                return True
        except OSError:  # closed in the meantime
            pass
    return False


class EarlyStopTest(TrainTest):
    def wait_for_ranks(self, process, count, all_or_any, name):
        """Waits until the program runs in `count` processes and these have the file of that name open; returns the processes."""
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline and process.poll() is None:
            ranks = [pid for pid in members(process.pid) if is_the_program(pid)]
            try:
                if len(ranks) == count and all_or_any(reads(pid, name) for pid in ranks):
                    return ranks
            except OSError:  # it has just ended
                continue
        self.fail(f"it was not seen: {self.ended(process)}")

    def assert_stopped_early(self, process, number, before):
        ended = self.ended(process)
        self.assert_refused(ended, f"stopped by signal {number.value} before the first step",
                            "nothing was written", "start the run again", code=4)
        self.assertEqual(sorted(os.listdir(self.folder)), before)


class WhileDataAreRead(EarlyStopTest):
    def setUp(self):
        super().setUp()
        write_long_data(self.folder)

    def stopped(self, number, ranks, *arguments, only=None):
        before = sorted(os.listdir(self.folder))
        process = self.start(*arguments, ranks=ranks)
        found = self.wait_for_ranks(process, ranks, any, IMAGES)
        os.kill(process.pid if only is None else found[only], number)
        self.assert_stopped_early(process, number, before)

    def test_of_a_training(self):
        training = ("train", "train.ini", *ON_THEM, "--output.overwrite=true")
        self.stopped(signal.SIGTERM, 1, *training)
        self.stopped(signal.SIGUSR1, 3, *training)  # mpiexec passes it on
        self.stopped(signal.SIGUSR1, 3, *training, only=2)

    def test_of_evolve_and_earlier_results_stay(self):
        run = ("evolve", "small.ini", "--data.set=mnist", "--data.directory=.", "--inflow.source=data",
               "--data.split=train", "--mesh.tokens_x=0", "--mesh.tokens_y=0", "--output.overwrite=true")
        self.evolve("--evolve.time=1")
        before = self.checksum("out.h5")
        self.stopped(signal.SIGUSR1, 3, *run)
        self.stopped(signal.SIGTERM, 1, *run, "--checkpoint.restart=auto")
        self.assertEqual(self.checksum("out.h5"), before)


class HeldBackTest(EarlyStopTest):
    """Runs that wait while MPI starts, when signals are caught already: Open MPI reads the user's parameters there, from a file
    that is a pipe here."""

    HELD = ".openmpi/mca-params.conf"

    def setUp(self):
        super().setUp()
        os.mkdir(self.path(".openmpi"))
        self.wrapper = ("env", "HOME=" + self.folder)

    def hold_back(self):
        """Runs that start from now on wait until `let_go`."""
        os.mkfifo(self.path("pipe"))
        os.replace(self.path("pipe"), self.path(self.HELD))
        self.pipe = os.open(self.path(self.HELD), os.O_RDWR)  # who reads waits for this end to be closed

    def let_go(self):
        self.write("nothing", "")
        os.replace(self.path("nothing"), self.path(self.HELD))
        os.close(self.pipe)

    def wait_for_held(self, process, ranks):
        return self.wait_for_ranks(process, ranks, all, self.HELD)


class AtTheVeryStart(HeldBackTest):
    """Before MPI is started."""

    def stopped(self, number, ranks, *arguments):
        self.hold_back()
        before = sorted(os.listdir(self.folder))
        process = self.start(*arguments, ranks=ranks, wrapper=self.wrapper)
        # Each rank: mpiexec itself may not be ready to pass a signal on.
        for pid in self.wait_for_held(process, ranks):
            os.kill(pid, number)
        self.let_go()
        self.assert_stopped_early(process, number, before)

    def test_of_every_kind_of_run(self):
        self.train("--output.file=model.h5", "--checkpoint.epochs=false")
        comparison = ("gradient_flow", "--data.tokens=rows", "--models.transformer=model.h5", "--models.seeds=1",
                      "--output.file=compared.h5")
        for ranks, number in ((1, signal.SIGUSR1), (3, signal.SIGTERM)):
            self.stopped(number, ranks, "evolve", "small.ini")
            self.stopped(number, ranks, "train", "train.ini")
            self.stopped(number, ranks, *comparison)


class Chains(HeldBackTest):
    def test_a_job_that_is_stopped_early_is_queued_again_and_begins_then(self):
        """chain.sbatch itself, with a SLURM that only takes down what it is told."""
        shutil.copytree(os.path.join(ROOT, "jobscripts"), self.path("jobscripts"))
        for ranks in (1, 3):
            launcher = " ".join(((MPIEXEC, "-n", str(ranks)) if ranks > 1 else ()) + self.wrapper)
            with open(self.path("jobscripts/machine.sh"), "a", encoding="utf-8") as stream:
                stream.write(f'\nlaunch() {{ exec {launcher} "$@"; }}\n')
            os.makedirs(self.path("bin"), exist_ok=True)
            self.write("bin/scontrol", '#!/bin/sh\necho "$@" >>requeued\n')
            os.chmod(self.path("bin/scontrol"), 0o755)
            job = {"SLURM_SUBMIT_DIR": self.folder, "SLURM_JOB_ID": str(ranks), "SLURM_NTASKS": str(ranks),
                   "SLURM_JOB_NODELIST": "here", "FLUXFORMER_BIN": BINARY,
                   "PATH": self.path("bin") + ":" + ENVIRONMENT["PATH"]}
            words = ("jobscripts/chain.sbatch", "train", "train.ini", "--output.file=out-%j.h5")

            def submit(job=job, words=words):
                return subprocess.Popen(["bash", *words], cwd=self.folder, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        start_new_session=True, env={**ENVIRONMENT, **job})

            self.hold_back()
            chain = submit()
            waiting = {pid: times_woken(pid) for pid in self.wait_for_held(chain, ranks)}
            os.kill(chain.pid, signal.SIGUSR1)  # the job script, as SLURM does
            self.wait_until(lambda waiting=waiting: all(times_woken(pid) > times for pid, times in waiting.items()), chain)
            self.let_go()
            self.assert_refused(self.ended(chain), "before the first step", code=4)
            with open(self.path("requeued"), encoding="utf-8") as stream:
                self.assertEqual(stream.read().splitlines()[-1], f"requeue {ranks}")
            self.assertEqual([name for name in os.listdir(self.folder) if name.startswith(f"out-{ranks}")], [])
            again = self.ended(submit())
            self.assertEqual(again.code, 0, again)
            self.assertEqual(self.open(f"out-{ranks}.h5").attrs["status"], "done")


if __name__ == "__main__":
    unittest.main()
