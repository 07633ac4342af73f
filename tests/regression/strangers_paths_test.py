#!/usr/bin/env python3
"""Paths as people write them: quotation marks and ~ in decks and settings are refused by name instead of becoming part of a file's name, and a
folder that cannot be written in is said with the way out.
"""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

from program import ProgramTest, ranks_of_case, together  # noqa: E402 (the folder is put on the path first)
from python_package import call  # noqa: E402

QUOTED = "a value is written without quotation marks, also if it holds blanks"
TILDE = "~ is not replaced by a folder here; write the whole path"


class OfTheProgram(ProgramTest):
    def refuse(self, number, case):
        deck, setting, parts = case
        name = self.write(f"deck{number}.ini", deck)
        for ranks in ranks_of_case(number):
            with self.subTest(deck=deck, setting=setting, ranks=ranks):
                self.assert_refused(self.run_program("evolve", name, *setting, ranks=ranks), *parts)

    def test_quotation_marks_and_tildes_are_refused_by_name(self):
        cases = [('[output]\nfile = "my out.h5"\n[mesh]\nlayers = 1\n[evolve]\ntime = 1\n', (), ('output.file = "my out.h5" (deck0.ini)', QUOTED)),
                 ("[output]\nfile = 'out.h5'\n", (), ("output.file = 'out.h5'", QUOTED)),
                 ("[model]\nfile = \u201cmodel.h5\u201d\n", (), ("model.file = \u201cmodel.h5\u201d", QUOTED)),  # from a word processor
                 ('[mesh]\nlayers = "3"\n', (), ('mesh.layers = "3"', QUOTED)),
                 ("", ('--output.file="out.h5"',), ('output.file = "out.h5" (command line)', QUOTED)),
                 ("[output]\nfile = ~/out.h5\n", (), ("output.file = ~/out.h5 (deck5.ini)", TILDE)),
                 ("[data]\ndirectory = ~somebody/mnist\n", (), ("data.directory = ~somebody/mnist", TILDE)),
                 ("", ("--output.file=~/out.h5",), ("output.file = ~/out.h5 (command line)", TILDE))]
        before = {f"deck{number}.ini" for number in range(len(cases))} | {"small.ini"}
        together([lambda number=number, case=case: self.refuse(number, case) for number, case in enumerate(cases)])
        self.assertEqual({*os.listdir(self.folder)}, before, "something was written")

    def test_names_that_hold_them_elsewhere_are_names(self):
        os.mkdir(self.path("~"))
        self.write("odd.ini", "[output]\nfile = ./~/it's \"mine\" ~1.h5\n")
        self.evolve("--mesh.layers=1", "--evolve.time=1", deck="odd.ini")
        self.assertIn("it's \"mine\" ~1.h5", os.listdir(self.path("~")))


class OfThePackage(ProgramTest):
    def refused(self, *words, parts):
        done = call(*words)
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done)
        for part in parts:
            self.assertIn(part, done.stderr)

    def test_figures_beside_results_of_others_need_another_place(self):
        self.evolve("--mesh.layers=1", "--evolve.time=1")
        # Nobody may make a folder there, not even root.
        self.refused("report", self.path("out.h5"), "--output=/sys/figures", parts=("/sys/figures", "choose another place with --output"))
        done = call("plot", self.path("out.h5"), "--output", self.path("elsewhere"))
        self.assertEqual(done.returncode, 0, done.stderr)
        os.chmod(self.path("out.h5"), 0o444)
        os.chmod(self.folder, 0o555)
        self.addCleanup(os.chmod, self.folder, 0o755)
        if os.geteuid() == 0:  # it may write everywhere: as the user nobody
            os.seteuid(65534)
            self.addCleanup(os.seteuid, 0)
        self.refused("plot", self.path("out.h5"), parts=("figures: Permission denied", "choose another place with --output"))

    def test_a_tilde_that_no_shell_has_replaced_is_refused(self):
        self.refused("plot", "~/out.h5", parts=("~/out.h5", TILDE))
        self.refused("plot", "out.h5", "--output=~/figures", parts=("--output=~/figures", TILDE))
        self.refused("tokens", "text.csv", "--words=~/vocab.txt", "--output", "out.h5", parts=("--words=~/vocab.txt", TILDE))


if __name__ == "__main__":
    unittest.main()
