"""Runs the program as a user would, and inspects its results. Shared by the scripts of this folder.

The environment names the program (FLUXFORMER_BINARY), the source (FLUXFORMER_SOURCE_DIR) and the launcher (MPIEXEC).
Open MPI's settings for root users and oversubscription come from ctest.
"""

import concurrent.futures
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
import unittest

import h5py
import numpy as np

from processes import kill_all

ROOT = os.environ.get("FLUXFORMER_SOURCE_DIR") or os.path.dirname(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BINARY = os.environ.get("FLUXFORMER_BINARY") or os.path.join(ROOT, "build", "bin", "fluxformer")
MPIEXEC = os.environ.get("MPIEXEC") or "mpiexec"
# Libraries that are preloaded into the program: held_back.py, missing_memory_test.py.
HOLD = os.environ.get("FLUXFORMER_HOLD") or os.path.join(ROOT, "build", "tests", "hold.so")
NO_MEMORY = os.path.join(os.path.dirname(HOLD), "no_memory.so")
CRASHING_READS = os.path.join(os.path.dirname(HOLD), "crashing_reads.so")
# Runs in these tests take about a second, studies of many runs a minute; on a busy machine ten times that. What takes longer hangs.
TIMEOUT = 1000
# ./test.sh full sets it.
FULL_TIER = os.environ.get("FLUXFORMER_TIER") == "full"
# On which results are compared with those of one rank. Of three one is neither the first nor the last, and they share most numbers unevenly;
# tests/mpi has two and three in the first tier.
SEVERAL_RANKS = (2, 3, 4, 6) if FULL_TIER else (3,)
# When a rank has ended with another code than 0, Open MPI waits for up to two seconds before it kills the others. Here all ranks end
# together. (A run that gets a signal needs the time for its checkpoint.)
ENDS_BY_ITSELF = {"OMPI_MCA_odls_base_sigkill_timeout": "0"}
# The program warns about a BLAS kernel that does not match the processor, which is irrelevant here.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "OPENBLAS_CORETYPE"}

# Two layers of width 8 on 3 x 2 tokens: four Euler steps at Courant number 1.
DECK = """
[mesh]
layers = 2
tokens_x = 3
tokens_y = 2
[attention]
heads = 2
[model]
width = 8
ffn = 12
[inflow]
source = noise
samples = 2
[evolve]
method = euler
cfl = 1
time = 4
[output]
file = out.h5
every = 1
"""

# Two layers of width 8 on the 28 rows of built-in digits: two epochs of nine steps, a few milliseconds each.
TRAIN_DECK = """
[data]
tokens = rows
[mesh]
layers = 2
[attention]
heads = 2
[model]
width = 8
ffn = 12
[train]
samples = 160
test_samples = 40
epochs = 2
batch = 16
rate = 1e-2
[output]
file = out.h5
"""

# Six layers of width 8 on 3 x 2 tokens: some microseconds a step.
SCALING_DECK = """
[scaling]
study = tiny
over = depth
warm_up = 1
steps = 2
repetitions = 3
machine = false
[mesh]
layers = 6
tokens_x = 3
tokens_y = 2
[attention]
heads = 2
[model]
width = 8
ffn = 12
[inflow]
source = noise
samples = 2
[evolve]
method = euler
cfl = 1
"""



class Ended:
    """A finished run: its exit code and output."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def messages(self):
        """What it says of the run; not that OpenBLAS does not know this processor."""
        return [line for line in self.err.splitlines() if line.startswith("fluxformer:") and "OpenBLAS use" not in line]

    def __repr__(self):
        return f"exit code {self.code}\n--- standard output\n{self.out}\n--- standard error\n{self.err}"


def command(arguments, ranks, wrapper=()):
    """`wrapper`: a command that starts the program, on each rank."""
    launcher = [MPIEXEC, "-n", str(ranks)] if ranks > 1 else []
    return launcher + [*wrapper, BINARY, *map(str, arguments)]


class ProgramTest(unittest.TestCase):
    """Gives each test its own folder with the deck small.ini in it."""

    _made = {}  # (name, who makes it) -> content, of `once`

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="fluxformer-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.write("small.ini", DECK)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        with open(self.path(name), "wb" if isinstance(content, bytes) else "w") as stream:
            stream.write(content)
        return name

    def once(self, name, make):
        """The file of this name, which the first test of a script that asks for it makes by `make()`; the others get a copy."""
        key = name, make.__qualname__
        if key in self._made:
            return self.write(name, self._made[key])
        make()
        with open(self.path(name), "rb") as stream:
            self._made[key] = stream.read()
        return name

    def start(self, *arguments, ranks=1, environment=None, wrapper=()):
        """A running program in its own session, so that `stop` finds every rank."""
        return subprocess.Popen(command(arguments, ranks, wrapper), cwd=self.folder, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                                env={**ENVIRONMENT, **(environment or {})})

    def ended(self, process):
        try:
            out, err = process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            kill_all(process.pid)
            out, err = process.communicate()
            self.fail(f"{process.args} hangs\n{Ended('none', out, err)}")
        return Ended(process.returncode, out, err)

    def stop(self, process):
        """kill -9 for the launcher and all ranks of a running program; waits for their end."""
        kill_all(process.pid)
        return self.ended(process)

    def run_program(self, *arguments, ranks=1, environment=None, wrapper=()):
        return self.ended(self.start(*arguments, ranks=ranks, environment={**ENDS_BY_ITSELF, **(environment or {})}, wrapper=wrapper))

    def evolve(self, *arguments, ranks=1, deck="small.ini"):
        """A run that must succeed."""
        end = self.run_program("evolve", deck, "--quiet", *arguments, ranks=ranks)
        self.assertEqual(end.code, 0, end)
        return end

    def assert_refused(self, end, *parts, code=2):
        """Asserts that the run ended with `code` and one message that contains every part."""
        self.assertEqual(end.code, code, end)
        self.assertEqual(len(end.messages), 1, end)
        for part in parts:
            self.assertIn(part, end.err, end)
        for noise in ("PETSC ERROR", "HDF5-DIAG", "terminate called", "MPI_ABORT", "Traceback", "Signal:"):
            self.assertNotIn(noise, end.err, end)

    def wait_for(self, name, process):
        """Waits until the file exists; false if the program ended first."""
        deadline = time.monotonic() + TIMEOUT
        while not os.path.exists(self.path(name)):
            if process.poll() is not None:
                return False
            self.assertLess(time.monotonic(), deadline, f"{name} never comes")
            time.sleep(0.01)
        return True

    def open(self, name):
        """Opens a file of the program and checks that it matches the program's description of its files."""
        from described import undescribed  # imported late: it runs the program through this module

        file = h5py.File(self.path(name), "r")
        self.addCleanup(file.close)
        if "experiment" in file.attrs:
            self.assertEqual(undescribed(file), [], name)
        return file

    def assert_same_bits(self, first, second):
        """The same states, history and measures in time, except for wall times."""
        one, other = self.open(first), self.open(second)
        self.assertEqual(one["time"][...].tolist(), other["time"][...].tolist())
        self.assertEqual(one["field/u"][...].tobytes(), other["field/u"][...].tobytes(), "the states differ")
        self.assertEqual(sorted(one["history"]), sorted(other["history"]))
        self.assertEqual(one["step"][...].tolist(), other["step"][...].tolist())
        for name in one["history"]:
            if name != "wall_time":
                np.testing.assert_array_equal(one["history"][name][...], other["history"][name][...], err_msg=name)
        for name in ("arrival_time", "components_low", "components_high", "compact_share", "number_2", "number_1", "energy", "zero_tokens"):
            path = f"analysis/evolve/{name}"
            self.assertEqual(path in one, path in other, name)
            if path in one:
                np.testing.assert_array_equal(one[path][...], other[path][...], err_msg=name)

    def checksum(self, name):
        with open(self.path(name), "rb") as stream:
            return hashlib.sha256(stream.read()).hexdigest()


class TrainTest(ProgramTest):
    """Gives each test its own folder with the deck train.ini in it."""

    def setUp(self):
        super().setUp()
        self.write("train.ini", TRAIN_DECK)

    def train(self, *arguments, ranks=1, deck="train.ini"):
        """A training that must succeed."""
        end = self.run_program("train", deck, "--quiet", *arguments, ranks=ranks)
        self.assertEqual(end.code, 0, end)
        return end

    def wait_until(self, holds, process):
        """Polls until the condition holds; the program must not end first."""
        deadline = time.monotonic() + TIMEOUT
        while not holds():
            self.assertIsNone(process.poll(), "the run ended too early")
            self.assertLess(time.monotonic(), deadline, "it never comes")
            time.sleep(0.01)

    def arrays(self, group):
        """name -> array, for all datasets below the group."""
        found = {}
        group.visititems(lambda name, item: found.update({name: item[...]}) if isinstance(item, h5py.Dataset) else None)
        return found

    def assert_same_model(self, first, second):
        one, other = (self.arrays(self.open(name)["model"]) for name in (first, second))
        self.assertEqual(sorted(one), sorted(other))
        for name in one:
            self.assertEqual(one[name].tobytes(), other[name].tobytes(), f"{name}: {first} and {second} differ")

    def assert_same_training(self, first, second):
        """The same weights and training history, bit for bit, except for wall times."""
        self.assert_same_model(first, second)
        one, other = (self.arrays(self.open(name)["training"]) for name in (first, second))
        self.assertEqual(sorted(one), sorted(other))
        for name in set(one) - {"wall_time", "samples_per_second"}:
            np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def ranks_of_case(number):
    """The numbers of ranks on which a case of a list of refusals runs. Ranks agree in the same way on all of them: outside the second
    tier, every eighth runs on several."""
    return (1, 3) if FULL_TIER or number % 8 == 0 else (1,)


def with_value(path, value):
    """A change of an open HDF5 file: this value under that path."""
    def change(file):
        if path in file:
            del file[path]
        file[path] = value
    return change


def with_attributes(group, **attributes):
    """A change of an open HDF5 file: attributes of a group."""
    return lambda file: file[group].attrs.update(attributes)


def together(works):
    """Runs the functions concurrently (they mostly wait for launchers) and re-raises their exceptions."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(work) for work in works]:
            future.result()
