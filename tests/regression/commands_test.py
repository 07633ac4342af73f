#!/usr/bin/env python3
"""The program passes the commands of the Python package on: without MPI, to the Python and the package that are meant, once on several ranks; the
command's exit code and signal are the program's."""

import json
import os
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

from program import BINARY, ENVIRONMENT, MPIEXEC, ROOT, Ended, ProgramTest  # noqa: E402 (the folder is put on the path first)
from python_package import POSTPROCESS, start  # noqa: E402

with open(os.path.join(ROOT, "postprocess", "fluxformer", "commands.json"), encoding="utf-8") as stream:
    COMMANDS = json.load(stream)
NO_MPI = {"OMPI_MCA_pml": "none_such"}  # MPI does not start
# Stands in for Python: writes down what it got, and ends as it is told to.
PYTHON = """#!/bin/bash
{ printf '<%s>' "$@"; echo; } >>calls
env >environment
eval "$END"
"""


class CommandsTest(ProgramTest):
    def setUp(self):
        super().setUp()
        os.chmod(self.path(self.write("python", PYTHON)), 0o755)
        self.stand_in = {"FLUXFORMER_PYTHON": self.path("python"), "PYTHONPATH": "/theirs", "END": "exit 0"}

    def environment(self):
        """What the stand-in for Python found in its environment."""
        with open(self.path("environment"), encoding="utf-8") as file:
            return dict(line.rstrip("\n").split("=", 1) for line in file if "=" in line)

    def calls(self):
        with open(self.path("calls"), encoding="utf-8") as file:
            return file.read().splitlines()

    def tree(self, *commands):
        """A copy of the program in a tree of its own, with a package of these commands; without any there is none."""
        os.makedirs(self.path("tree/bin"))
        binary = shutil.copy(BINARY, self.path("tree/bin/fluxformer"))
        if commands:
            self.package("tree/share/fluxformer/postprocess", *commands)
        return binary

    def package(self, folder, *commands):
        os.makedirs(self.path(f"{folder}/fluxformer"))
        self.write(f"{folder}/fluxformer/commands.json", json.dumps([{"name": name, "arguments": "FILE...", "sentence": "of a test"} for name in commands]))

    def of(self, binary, *arguments, **environment):
        """The end of a program that is not that of the build folder."""
        end = subprocess.run([binary, *arguments], cwd=self.folder, env={**ENVIRONMENT, **environment}, capture_output=True, text=True, check=False)
        return Ended(end.returncode, end.stdout, end.stderr)


class Passed(CommandsTest):
    def test_arguments_arrive_as_they_are(self):
        words = ["plot", "two words", "", "--output=a b", "--help", "*", "--mesh.layers=3"]
        end = self.run_program(*words, environment=self.stand_in)
        self.assertEqual((end.code, end.out, end.err), (0, "", ""), end)
        self.assertEqual(self.calls(), ["".join(f"<{word}>" for word in ["-m", "fluxformer", *words])])
        found = self.environment()
        first, second = found["PYTHONPATH"].split(":")
        self.assertTrue(os.path.samefile(first, POSTPROCESS), first)
        self.assertEqual(second, "/theirs")

    def test_exit_codes_and_signals_are_those_of_the_command(self):
        for end, code in (("exit 1", 1), ("exit 77", 77), ("kill -TERM $$", -15), ("kill -INT $$", -2)):
            self.assertEqual(self.run_program("report", environment={**self.stand_in, "END": end}).code, code, end)

    def test_mpi_is_not_started(self):
        self.assertNotEqual(self.run_program("evolve", "small.ini", "--validate", environment=NO_MPI).code, 0)
        for one in COMMANDS:
            self.assertEqual(self.run_program(one["name"], environment={**self.stand_in, **NO_MPI}).code, 0, one)

    def test_of_several_ranks_the_first_runs_it_and_is_no_rank(self):
        for ranks in ("1", "3"):
            end = self.of(MPIEXEC, "-n", ranks, BINARY, "plot", "a.h5", **self.stand_in)
            self.assertEqual((end.code, end.out), (0, ""), end)
        self.assertEqual(len(self.calls()), 2)
        # h5py would start MPI, and wait for ranks that are done.
        found = self.environment()
        self.assertNotIn("OMPI_COMM_WORLD_SIZE", found)
        self.assertNotIn("OMPI_COMM_WORLD_RANK", found)
        self.assertEqual(self.run_program("plot", environment={**self.stand_in, "END": "exit 5"}, ranks=2).code, 5)
        for name in ("PMI_RANK", "SLURM_PROCID"):
            end = self.run_program("plot", environment={**self.stand_in, name: "1"})
            self.assertEqual((end.code, end.out), (0, ""))
        self.assertEqual(len(self.calls()), 3)

    def test_the_package_itself_answers(self):
        usual = {"PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": "1", **NO_MPI}
        self.write("argparse.py", "raise SystemExit(9)\n")  # a script of the user's, named like a module of Python
        end = self.run_program("predict", "--help", environment=usual)
        self.assertEqual((end.code, end.out), (0, start("predict", "--help").stdout), end)
        end = self.run_program("plot", "none.h5", environment=usual)
        self.assertEqual((end.code, end.err), (2, "fluxformer plot: none.h5: no such file\n"), end)
        end = self.run_program("plot", "none.h5", environment=usual, ranks=2)
        self.assertEqual((end.code, end.err.count("fluxformer plot: none.h5: no such file\n")), (2, 1), end)


class Found(CommandsTest):
    def test_the_package_of_the_tree_comes_before_that_of_pythonpath(self):
        binary = self.tree("plot", "brew")
        self.package("other", "plot", "roast")
        end = self.of(binary, "brew", **{**self.stand_in, "PYTHONPATH": "other"})
        self.assertEqual((end.code, end.err), (0, ""), end)
        self.assertTrue(os.path.samefile(self.environment()["PYTHONPATH"].split(":")[0], self.path("tree/share/fluxformer/postprocess")))
        os.symlink(binary, self.path("link"))
        self.assertEqual(self.of(self.path("link"), "brew", **self.stand_in).code, 0)
        shutil.rmtree(self.path("tree/share"))
        self.assert_refused(self.of(binary, "brew", **{**self.stand_in, "PYTHONPATH": "other"}), "brew: no such experiment or command")
        self.assertEqual(self.of(binary, "roast", **{**self.stand_in, "PYTHONPATH": "none::other:"}).code, 0)
        self.assertEqual(self.environment()["PYTHONPATH"].split(":")[0], "other")

    def test_what_is_missing_is_named_with_what_to_do(self):
        end = self.run_program("plot", environment={"FLUXFORMER_PYTHON": "/none/python3"})
        self.assert_refused(end, "plot: /none/python3 cannot be started (No such file or directory)", "set FLUXFORMER_PYTHON")
        self.assert_refused(self.run_program("plot", environment={"FLUXFORMER_PYTHON": "/none/python3"}, ranks=3), "/none/python3")
        binary = self.tree()
        for word in ("plot", "plto"):
            self.assert_refused(self.of(binary, word, PYTHONPATH=""), f"{word}: no such experiment or command", "Python package",
                                self.path("tree/share/fluxformer/postprocess"), "set PYTHONPATH")
        self.assertIn("Python package", self.of(binary).out)
        self.package("tree/share/fluxformer/postprocess")
        self.write("tree/share/fluxformer/postprocess/fluxformer/commands.json", '[{"name": "plot"')
        self.assert_refused(self.of(binary, "plot"), "commands.json", "is damaged")
        self.assertEqual(self.of(binary, "evolve", "small.ini", "--validate").code, 0)  # nothing that a run needs


class Named(CommandsTest):
    def test_the_program_and_the_package_list_them_alike(self):
        said, of_package = self.run_program("--help").out, start("--help").stdout
        described = json.loads(self.run_program("--describe=json").out)["commands"]
        self.assertEqual(described[1:], [{key: one[key] for key in ("name", "arguments", "sentence")} for one in COMMANDS])
        self.assertEqual(described[0]["name"], "check")
        for one in described:
            line = rf"{one['name']} {one['arguments']} +{one['sentence']}\n"
            self.assertRegex(said, "  " + line)
            if one["name"] != "check":
                self.assertRegex(of_package, "    fluxformer " + line)

    def test_mistyped_words_get_the_nearest_experiment_or_command(self):
        for word, meant in (("plto", "plot"), ("reprot", "report"), ("chekc", "check"), ("evolv", "evolve"), ("trian", "train"), ("tokens_", "tokens")):
            end = self.run_program(word, "small.ini", environment=NO_MPI)
            self.assert_refused(end, f"{word}: no such experiment or command", f"did you mean {meant}?")
        self.assert_refused(self.run_program("plto", "a.h5", ranks=2), "did you mean plot?")

    def test_the_word_comes_first(self):
        for arguments in (("--quiet", "plot", "a.h5"), ("--describe=json", "plot"), ("--validate", "check", "a.h5")):
            self.assert_refused(self.run_program(*arguments), "is a command, which comes first: fluxformer " + arguments[1])

    def test_no_experiment_has_the_name_of_a_command(self):
        experiments = {one["name"] for one in json.loads(self.run_program("--describe=json").out)["experiments"]}
        self.assertFalse(experiments & {"check", *(one["name"] for one in COMMANDS)})


if __name__ == "__main__":
    unittest.main()
