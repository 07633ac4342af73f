#!/usr/bin/env python3
"""The manual page has every experiment, key and command of the program, the variables that are read, and no fault of its language.

Status 77 if mandoc is not installed."""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

if not shutil.which("mandoc"):
    print("NOT RUN: mandoc is missing (apt-get install mandoc)", file=sys.stderr)
    sys.exit(77)

from described import description  # noqa: E402 (the folder is put on the path first)
from program import BINARY, ROOT  # noqa: E402


class ManualPage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.mkdtemp(prefix="fluxformer-")
        cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        cls.page = os.path.join(folder, "fluxformer.1")
        subprocess.run([sys.executable, os.path.join(ROOT, "docs", "manual.py"), BINARY, cls.page], check=True,
                       env={**os.environ, "SOURCE_DATE_EPOCH": "86400"})

    def rendered(self):
        """The page as a terminal shows it, without bold and underlined letters."""
        said = subprocess.run(["mandoc", "-T", "utf8", "-O", "width=110", self.page], capture_output=True, text=True, check=True).stdout
        return re.sub(".\b", "", said).replace("\N{HYPHEN}", "-").replace("\N{MINUS SIGN}", "-")

    def test_mandoc_warns_of_nothing(self):
        done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", self.page], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    @unittest.skipUnless(shutil.which("groff"), "groff is not installed")
    def test_groff_warns_of_nothing(self):
        done = subprocess.run(["groff", "-man", "-ww", "-T", "ascii", "-z", self.page], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_it_has_all_experiments_keys_and_commands(self):
        text = self.rendered()
        words = re.sub(r"\s", "", text)
        lines = [line.strip() for line in text.splitlines()]
        for one in description()["experiments"]:
            self.assertIn(re.sub(r"\s", "", one["sentence"])[1:], words, one["name"])
            for key in one["keys"]:
                self.assertTrue(any(line.startswith(f"{key['name']} = ") for line in lines), key["name"])
                self.assertIn(re.sub(r"\s", "", key["sentence"])[1:], words, key["name"])
                for choice in key.get("choices", []):
                    self.assertIn(choice, words)
        for one in description()["commands"]:
            self.assertIn(f"{one['name']} {one['arguments']}", lines)
        for heading in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXPERIMENTS", "COMMANDS", "KEYS", "EXIT STATUS", "ENVIRONMENT", "FILES",
                        "EXAMPLES", "SEE ALSO"):
            self.assertEqual(text.splitlines().count(heading), 1, heading)

    def test_it_has_the_variables_that_program_and_package_read(self):
        read = set()
        for pattern in ("src/**/*.cpp", "drivers/**/*.cpp", "solvers/**/*.cpp", "postprocess/fluxformer/**/*.py"):
            for path in glob.glob(os.path.join(ROOT, pattern), recursive=True):
                with open(path, encoding="utf-8") as stream:
                    read |= {*re.findall(r'"(FLUXFORMER_[A-Z_]+|\w+_NUM_THREADS)"|getenv\("(\w+)"\)|environ\.setdefault\("(\w+)"', stream.read())}
        with open(self.page, encoding="utf-8") as stream:
            section = re.search(r"\.SH ENVIRONMENT\n.*?\.SH", stream.read(), re.DOTALL)[0]
        told = " ".join(re.findall(r"^\.BR? (.*)$", section, re.MULTILINE)).replace('", "', "").split()
        self.assertEqual({"".join(names) for names in read} | {"PYTHONPATH"}, {*told})

    def test_exit_codes_are_those_of_the_source(self):
        with open(os.path.join(ROOT, "src", "base", "error.hpp"), encoding="utf-8") as stream:
            codes = re.findall(r"= (\d)", re.search(r"enum class ExitCode[^}]*", stream.read())[0])
        with open(self.page, encoding="utf-8") as stream:
            section = re.search(r"\.SH EXIT STATUS\n.*?\.SH", stream.read(), re.DOTALL)[0]
        self.assertEqual(re.findall(r"^\.B (\d)$", section, re.MULTILINE), sorted(codes))

    def test_it_is_of_the_day_of_the_source_where_that_is_given(self):
        with open(self.page, encoding="utf-8") as stream:
            self.assertIn(".TH FLUXFORMER 1 1970-01-02 ", stream.read())

    def test_its_decks_are_there(self):
        decks = re.findall(r"PREFIX/share/fluxformer/(input/\S+\.ini)", self.rendered())
        self.assertTrue(decks)
        for deck in decks:
            self.assertTrue(os.path.exists(os.path.join(ROOT, deck)), deck)


if __name__ == "__main__":
    unittest.main()
