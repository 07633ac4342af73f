#!/usr/bin/env python3
"""HDF5 files are read by a process that may crash on them before a run reads them; `fluxformer check`; run.trust_files. What the program
says of itself needs no MPI."""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from held_back import HeldBackTest  # noqa: E402 (the folder is put on the path first)
from processes import members  # noqa: E402
from program import CRASHING_READS, TIMEOUT, with_attributes  # noqa: E402

import h5py  # noqa: E402
import numpy as np  # noqa: E402

TRUST = "--run.trust_files=true"
LOADER = "/lib64/ld-linux-x86-64.so.2"
WRITING = ("open", "out.h5.part")


def crashing(number, file="model.h5"):
    return {"LD_PRELOAD": CRASHING_READS, "FLUXFORMER_CRASH_FILE": file, "FLUXFORMER_CRASH_SIGNAL": str(int(number))}


class CheckedTest(HeldBackTest):
    def setUp(self):
        super().setUp()
        self.once("model.h5", lambda: self.evolve("--output.file=model.h5"))


class Crashes(CheckedTest):
    """HDF5 dies by a signal, or because it has used up its stack."""

    ON_IT = ("small.ini", "--model.file=model.h5")
    ENDS = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, 0)

    def crash(self, number, *arguments, ranks):
        end = self.run_program("evolve", *arguments, ranks=ranks, environment=crashing(number))
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("out")], [], end)
        return end

    def test_are_a_refusal_of_the_file(self):
        for ranks, number in zip((1, 3, 2, 1), self.ENDS):
            with self.subTest(number, ranks=ranks):
                self.assert_refused(self.crash(number, *self.ON_IT, ranks=ranks), "model.file = model.h5", "HDF5 crashes when it reads it")

    def test_in_a_trusted_file_end_all_ranks(self):
        for ranks, number in zip((3, 1, 2, 1), self.ENDS):
            with self.subTest(number, ranks=ranks):
                end = self.crash(number, *self.ON_IT, TRUST, ranks=ranks)
                self.assertEqual(end.code, 2, end)
                self.assertEqual([line for line in end.messages if "model.h5" in line and "crashes when this run reads it" in line], end.messages, end)
                self.assertEqual(len(end.messages), 1, end)

    def test_in_a_trusted_deck_are_named(self):
        end = self.crash(signal.SIGSEGV, "model.h5", TRUST, ranks=1)
        self.assertIn("deck model.h5: damaged HDF5 file (HDF5 crashes when this run reads it)", end.err)

    def test_in_a_token_file_are_named(self):
        with h5py.File(self.path("tokens.h5"), "w") as file:
            file["ids"], file["labels"] = np.ones((8, 4), int), np.arange(8) % 2
        on_it = ("small.ini", "--inflow.source=data", "--data.set=tokens", "--data.file=tokens.h5", "--output.file=out.h5")
        for trusting, words in (((), "HDF5 crashes when it reads it"), ((TRUST,), "HDF5 crashes when this run reads it")):
            end = self.run_program("evolve", *on_it, *trusting, ranks=3, environment=crashing(signal.SIGSEGV, "tokens.h5"))
            self.assertEqual(end.code, 2, end)
            self.assertIn(len(end.messages), (1, 2, 3) if trusting else (1,), end)  # each rank reads it
            for message in end.messages:
                self.assertIn("data.file = tokens.h5: damaged HDF5 file (" + words, message)

    def test_a_file_used_as_a_deck_does_not_ask_for_trust(self):
        shutil.copy(self.path("model.h5"), self.path("deck.h5"))
        with h5py.File(self.path("deck.h5"), "r+") as file:
            settings = file.attrs["settings"]
            self.assertIn("trust_files = false", settings)
            with_attributes("/", settings=settings.replace("trust_files = false", "trust_files = true"))(file)
        end = self.crash(signal.SIGSEGV, "deck.h5", "--output.file=out.h5", "--model.file=model.h5", ranks=1)
        self.assert_refused(end, "model.h5", "HDF5 crashes when it reads it")

    def test_a_deck_may_ask_for_trust(self):
        with open(self.path("small.ini"), encoding="utf-8") as stream:
            self.write("trusting.ini", stream.read() + "[run]\ntrust_files = true\n")
        end = self.crash(signal.SIGSEGV, "trusting.ini", "--model.file=model.h5", ranks=1)
        self.assertIn("crashes when this run reads it", end.err)


class Processes(CheckedTest):
    """One more process reads files, started without fork."""

    def checkers(self, session):
        found = []
        for process in members(session):
            with open(f"/proc/{process}/cmdline", encoding="utf-8") as stream:
                if stream.read().startswith("fluxformer-check\0"):
                    found.append(process)
        return found

    def test_there_is_one_in_a_run_that_reads_files(self):
        for arguments, expected in ((("--model.file=model.h5",), 1), ((), 0), (("--model.file=model.h5", TRUST), 0)):
            with self.subTest(arguments):
                process, hold = self.start_held(WRITING, "evolve", "small.ini", "--output.overwrite=true", *arguments, ranks=3)
                checkers = self.checkers(process.pid)
                self.assertEqual(len(checkers), expected)
                for checker in checkers:  # a queue may send its signals to all processes of a job; nothing of MPI is open in it
                    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGHUP):
                        os.kill(checker, number)
                    self.assertEqual(sorted(os.listdir(f"/proc/{checker}/fd")), ["0", "1", "2"])
                    for kind in ("core file size", "data size", "cpu time"):  # a damaged file uses up neither disk, memory nor time
                        self.assertNotEqual(self.limit(checker, kind), "unlimited", kind)
                hold.let_go()
                self.assertEqual(self.ended(process).code, 0)
                self.assertEqual(members(process.pid), [])

    def limit(self, process, kind):
        with open(f"/proc/{process}/limits", encoding="utf-8") as stream:
            return next(line for line in stream if line.startswith("Max " + kind))[len("Max " + kind):].split()[0]

    def test_it_ends_with_a_run_that_is_killed(self):
        process, hold = self.start_held(WRITING, "evolve", "small.ini", "--model.file=model.h5", ranks=1)
        checker, = self.checkers(process.pid)
        os.kill(process.pid, signal.SIGKILL)
        self.ended(process)
        hold.end()
        self.wait_until_gone(checker)

    def test_it_ends_with_a_run_that_is_killed_while_it_reads(self):
        process = self.start("check", "model.h5", environment=crashing(-1))
        self.addCleanup(self.stop, process)
        while not (checkers := self.checkers(process.pid)):
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        while "model.h5" not in "".join(self.open_in(checkers[0])):
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        self.wait_until_gone(checkers[0])

    def test_one_that_is_stopped_does_not_stop_the_run(self):
        process, hold = self.start_held(WRITING, "evolve", "small.ini", "--model.file=model.h5", ranks=1)
        checker, = self.checkers(process.pid)
        os.kill(checker, signal.SIGSTOP)
        hold.let_go()
        self.assertEqual(self.ended(process).code, 0)

    def test_a_crash_elsewhere_is_not_taken_for_one_of_hdf5(self):
        process, _ = self.start_held(WRITING, "evolve", "small.ini", "--model.file=model.h5", TRUST, ranks=1)
        os.kill(process.pid, signal.SIGSEGV)
        self.assertEqual(self.ended(process).code, -signal.SIGSEGV)

    def open_in(self, process):
        """Names of the files that a process has open; it may close one between the list and its name."""
        folder, names = f"/proc/{process}/fd", []
        for one in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):
                names.append(os.readlink(f"{folder}/{one}"))
        return names

    def wait_until_gone(self, process):
        deadline = time.monotonic() + TIMEOUT
        while os.path.exists(f"/proc/{process}/exe"):  # a zombie has none
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_it_is_started_again_when_it_has_died(self):
        shutil.copy(self.path("model.h5"), self.path("other.h5"))
        process, hold = self.start_held(("open", "other.h5"), "check", "model.h5", "other.h5")
        checker, = self.checkers(process.pid)
        os.kill(checker, signal.SIGKILL)
        hold.let_go()
        end = self.ended(process)
        self.assertEqual((end.code, end.out), (0, "model.h5: HDF5 survives it\nother.h5: HDF5 survives it\n"), end)

    def test_no_rank_forks(self):
        never = {"LD_PRELOAD": CRASHING_READS, "FLUXFORMER_NO_FORK": "1"}
        for ranks in (1, 3):
            end = self.run_program("evolve", "small.ini", "--model.file=model.h5", "--output.overwrite=true", ranks=ranks, environment=never)
            self.assertEqual(end.code, 0, end)


class Check(CheckedTest):
    def check(self, *files, environment=None):
        return self.run_program("check", *files, environment=environment)

    def test_says_of_each_file_whether_it_can_be_read(self):
        with open(self.path("model.h5"), "rb") as stream:
            whole = stream.read()
        self.write("cut.h5", whole[:len(whole) // 2])
        end = self.check("model.h5")
        self.assertEqual((end.code, end.out, end.err), (0, "model.h5: HDF5 survives it\n", ""), end)
        end = self.check("cut.h5", "model.h5", "none.h5", "small.ini")
        self.assertEqual((end.code, end.err), (2, ""), end)
        lines = end.out.splitlines()
        for line, start in zip(lines, ("cut.h5: truncated or damaged HDF5 file", "model.h5: HDF5 survives it", "none.h5: no such file",
                                       "small.ini: cannot be read as HDF5"), strict=True):
            self.assertTrue(line.startswith(start), lines)

    def test_goes_on_after_a_crash(self):
        shutil.copy(self.path("model.h5"), self.path("other.h5"))
        for number in Crashes.ENDS:
            end = self.check("model.h5", "other.h5", environment=crashing(number))
            self.assertEqual((end.code, end.out), (2, "model.h5: damaged HDF5 file (HDF5 crashes when it reads it)\nother.h5: HDF5 survives it\n"), end)

    def test_needs_a_file(self):
        self.assert_refused(self.check(), "check: no file")

    def test_every_process_of_a_launcher_checks(self):
        end = self.run_program("check", "none.h5", ranks=2)
        self.assertEqual(end.code, 2, end)

    def test_no_verdict_goes_astray_where_descriptors_are_closed(self):
        shutil.copy(self.path("model.h5"), self.path("other.h5"))
        for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
            end = self.run_program("check", "other.h5", "model.h5", environment=crashing(signal.SIGSEGV),
                                   wrapper=("bash", "-c", f'"$@" {closed}; exit $?', "first"))
            self.assertIn(end.code, (1, 2), closed)  # 1: nothing can be written
            if ">&-" not in closed.replace("2>&-", ""):
                self.assertEqual(end.code, 2, closed)

    def test_tells_what_is_not_the_files_fault(self):
        end = self.check("model.h5", "none.h5", environment=crashing(signal.SIGKILL))
        self.assertEqual(end.code, 2, end)
        self.assertIn("model.h5: the process that reads it first was killed", end.out)
        end = self.check("model.h5", environment=crashing(signal.SIGKILL))
        self.assertEqual(end.code, 1, end)
        if os.path.exists(LOADER):  # is then the executable that is started again
            end = self.run_program("check", "model.h5", wrapper=(LOADER,))
            self.assertEqual((end.code, end.out), (1, "model.h5: no process can be started that reads it first (it ends at once); "
                                                      "run.trust_files = true reads files without one\n"), end)
        end = self.run_program("evolve", "small.ini", "--model.file=model.h5", environment=crashing(signal.SIGKILL))
        self.assert_refused(end, "model.file = model.h5: the process that reads it first was killed", code=1)

    def test_tells_why_no_process_can_be_started(self):
        copied = ("bash", "-c", 'mkdir copy && cp "$1" copy && shift && exec copy/fluxformer "$@"', "first")
        process, hold = self.start_held(("open", "model.h5"), "check", "model.h5", wrapper=copied)
        os.chmod(self.path("copy/fluxformer"), 0o600)
        hold.let_go()
        end = self.ended(process)
        self.assertEqual((end.code, end.out), (1, "model.h5: no process can be started that reads it first (Permission denied); "
                                                  "run.trust_files = true reads files without one\n"), end)

    def test_does_not_wait_for_a_file_that_another_program_has_locked(self):
        with open(self.path("model.h5"), "rb+") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            self.assertEqual(self.check("model.h5").code, 0)

    def test_comes_to_an_end_whatever_signals_are_ignored(self):
        # CPU time is what ends it: SIGXCPU.
        end = self.run_program("check", "model.h5", environment={**crashing(0), "FLUXFORMER_CRASH_SIGNAL": "-2"},
                               wrapper=("env", "--ignore-signal=XCPU", "--block-signal=XCPU"))
        self.assertEqual((end.code, end.out), (2, "model.h5: damaged HDF5 file (HDF5 comes to no end when it reads it)\n"), end)


class WithoutMpi(CheckedTest):
    """On a login node the program may not be able to start MPI."""

    NO_MPI = {"OMPI_MCA_pml": "none_such"}

    def test_runs_do_not_start_here(self):
        self.assertNotEqual(self.run_program("evolve", "small.ini", "--validate", environment=self.NO_MPI).code, 0)

    def test_the_program_says_what_it_is(self):
        for arguments, part in (((), "experiments, by family"), (("--help",), "experiments, by family"), (("evolve", "--help"), "mesh.layers"),
                                (("--version",), "petsc = "), (("--describe=json",), '"experiments"'), (("check", "model.h5"), "survives it"),
                                (("check", "--help"), "check FILE")):
            with self.subTest(arguments):
                end = self.run_program(*arguments, environment=self.NO_MPI)
                self.assertEqual((end.code, end.err), (0, ""), end)
                self.assertIn(part, end.out)
        self.assert_refused(self.run_program("evolv", "--help", environment=self.NO_MPI), "no such experiment")

    def test_one_of_several_ranks_speaks(self):
        self.assertEqual(len(json.loads(self.run_program("--describe=json", ranks=3).out)["experiments"]),
                         len(json.loads(self.run_program("--describe=json").out)["experiments"]))

    def test_the_rank_is_that_of_any_launcher(self):
        for name in ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "PALS_RANKID", "SLURM_PROCID"):
            self.assertEqual(self.run_program("--version", environment={name: "1"}).out, "", name)
            self.assertIn("petsc", self.run_program("--version", environment={name: "0"}).out, name)

    def test_an_answer_that_cannot_be_written_is_an_error(self):
        for arguments in (("--help",), ("--version",), ("check", "model.h5")):
            end = self.run_program(*arguments, wrapper=("bash", "-c", 'exec "$@" >/dev/full', "first"))
            self.assert_refused(end, "standard output cannot be written", code=1)
        self.assert_refused(self.run_program("--describe=xml", ranks=3), "--describe=json")


if __name__ == "__main__":
    unittest.main()
