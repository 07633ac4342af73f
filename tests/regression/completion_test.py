#!/usr/bin/env python3
"""Completion of bash offers experiments, commands, flags, the keys of an experiment and what they may be, and files; it starts no program."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

from described import description  # noqa: E402 (the folder is put on the path first)
from program import BINARY, ROOT, ProgramTest  # noqa: E402
from python_package import call  # noqa: E402

# A line of words, separated by tabs, is completed at its end; the answer is a line, too. Nothing can be started.
LOOP = r"""
PATH=/none
. "$1"
while IFS= read -r line; do
  COMP_WORDS=()
  while [[ $line == *$'\t'* ]]; do COMP_WORDS+=("${line%%$'\t'*}"); line=${line#*$'\t'}; done
  COMP_WORDS+=("$line") COMP_CWORD=${#COMP_WORDS[@]}
  ((--COMP_CWORD))
  _fluxformer
  printf '%s\t' "${COMPREPLY[@]}"
  echo
done
"""


class Completion(ProgramTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.mkdtemp(prefix="fluxformer-")
        cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        cls.script = os.path.join(folder, "fluxformer")
        subprocess.run([sys.executable, os.path.join(ROOT, "docs", "completion.py"), BINARY, cls.script], check=True)

    def setUp(self):
        super().setUp()
        self.experiments = description()["experiments"]

    def completed(self, *lines):
        """What is offered for each of these lists of words, the last of which is completed."""
        done = subprocess.run(["bash", "--norc", "-c", LOOP, "bash", self.script], input="".join("\t".join(words) + "\n" for words in lines),
                              cwd=self.folder, capture_output=True, text=True, check=True)
        self.assertEqual(done.stderr, "")
        return [sorted(filter(None, line.split("\t"))) for line in done.stdout.splitlines()]

    def one(self, *words):
        return self.completed(words)[0]

    def test_the_first_word_is_an_experiment_or_a_command(self):
        names = [one["name"] for one in (*self.experiments, *description()["commands"])]
        self.assertEqual(self.one("fluxformer", ""), sorted(names))
        self.assertEqual(self.one("fluxformer", "evo"), ["evolve"])
        self.assertEqual(self.one("build/bin/fluxformer", "hessian_b"), ["hessian_blocks"])
        self.assertEqual(self.one("fluxformer", "--v"), ["--version"])

    def test_each_experiment_has_its_own_keys_and_no_others(self):
        lines = [("fluxformer", one["name"], "--") for one in self.experiments]
        for one, offered in zip(self.experiments, self.completed(*lines), strict=True):
            wanted = [f"--{key['name']}=" for key in one["keys"]]
            self.assertEqual(offered, sorted(["--help", "--quiet", "--validate", *wanted]), one["name"])
        self.assertEqual(self.one("fluxformer", "evolve", "--mesh.la"), ["--mesh.layers="])
        self.assertEqual(self.one("fluxformer", "evolve", "--train.ra"), [])
        self.assertEqual(self.one("fluxformer", "train", "deck.ini", "--quiet", "--train.ra"), ["--train.rate="])

    def test_values_are_choices_and_flags(self):
        """Also where two experiments have a key of one name with other choices."""
        asked, wanted = [], []
        for one in self.experiments:
            for key in one["keys"]:
                if key["type"] == "flag" or key.get("choices"):
                    asked.append(("fluxformer", one["name"], f"--{key['name']}", "="))
                    wanted.append(sorted(key.get("choices") or ["false", "true"]))
        self.assertGreater(len(asked), 100)
        for words, offered, choices in zip(asked, self.completed(*asked), wanted, strict=True):
            self.assertEqual(offered, choices, words)
        self.assertEqual(self.one("fluxformer", "evolve", "--mesh.layers", "="), [])

    def test_the_equals_sign_may_be_a_word_of_its_own_or_not(self):
        self.assertEqual(self.one("fluxformer", "evolve", "--depth.norm", "=", "p"), ["post", "pre"])
        self.assertEqual(self.one("fluxformer", "evolve", "--depth.norm=p"), ["--depth.norm=post", "--depth.norm=pre"])
        # Nor does an empty value swallow what follows it.
        self.assertEqual(self.one("fluxformer", "evolve", "--model.file", "=", "--mesh.la"), ["--mesh.layers="])

    def test_lists_of_choices_are_completed_word_by_word(self):
        lists = [(one["name"], key) for one in self.experiments for key in one["keys"] if key["type"].startswith("list") and key.get("choices")]
        self.assertTrue(lists)
        for experiment, key in lists:
            first, *_, last = key["choices"]
            self.assertIn(last, self.one("fluxformer", experiment, f"--{key['name']}", "=", last[:2]))
            self.assertIn(f"{first},{last}", self.one("fluxformer", experiment, f"--{key['name']}", "=", f"{first},{last[:2]}"))

    def test_files_are_decks_or_any(self):
        os.makedirs(self.path("data"))
        for name in ("deck two.ini", "data.h5", "data.txt"):
            self.write(name, "")
        self.assertEqual(self.one("fluxformer", "evolve", "d"), ["data", "data.h5", "deck two.ini"])
        self.assertEqual(self.one("fluxformer", "evolve", "data.h5", "d"), [])  # one deck at a time
        self.assertEqual(self.one("fluxformer", "evolve", "--model.file", "=", "data."), ["data.h5", "data.txt"])
        self.assertEqual(self.one("fluxformer", "evolve", "--model.file=data.h"), ["--model.file=data.h5"])
        self.assertEqual(self.one("fluxformer", "check", "data."), ["data.h5", "data.txt"])

    def test_commands_have_the_options_of_their_help(self):
        for one in description()["commands"]:
            if one["name"] != "check":
                pages = [call(one["name"], "--help").stdout]
                if one["name"] == "import":  # of two kinds, by its arguments
                    pages.append(call("import", "model.safetensors", "config.json", "--help").stdout)
                wanted = {name for page in pages for name in re.findall(r"^ +(?:-h, )?(--[a-z-]+)", page, re.MULTILINE)}
                self.assertEqual(set(self.one("fluxformer", one["name"], "--")), wanted, one["name"])

    def test_a_launcher_may_stand_in_front(self):
        for launcher in ("mpiexec", "mpirun", "/usr/bin/srun"):
            self.assertEqual(self.one(launcher, "-n", "4", "fluxformer", "evo"), ["evolve"])
            self.assertEqual(self.one(launcher, "-n", "4", "build/bin/fluxformer", "evolve", "--depth.norm", "=", "s"), ["sphere"])
            self.assertEqual(self.one(launcher, "-n", "4", "ech"), ["echo"])  # as bash completes commands

    def test_it_is_registered_and_leaves_completions_of_others(self):
        registered = 'complete -W own mpirun; . "$1"; complete -p'
        said = subprocess.run(["bash", "--norc", "-c", registered, "bash", self.script], capture_output=True, text=True, check=True).stdout
        self.assertRegex(said, r"complete .*-F _fluxformer fluxformer\n")
        self.assertRegex(said, r"complete .*-F _fluxformer mpiexec\n")
        self.assertIn("complete -W 'own' mpirun", said)

    @unittest.skipUnless(shutil.which("shellcheck"), "shellcheck is not installed")
    def test_shellcheck_finds_nothing(self):
        done = subprocess.run(["shellcheck", self.script], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""))


if __name__ == "__main__":
    unittest.main()
