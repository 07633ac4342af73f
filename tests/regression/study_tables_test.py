#!/usr/bin/env python3
"""jobscripts/study.sh --local with small tables: settings, rows that fail, tables that are wrong, studies that are stopped.

Status 77 if matplotlib is not installed.
"""

import glob
import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

try:
    import matplotlib  # noqa: F401 (needed by the report)
except ImportError as missing:
    print(f"NOT RUN: {missing}", file=sys.stderr)
    sys.exit(77)

from described import experiments_of  # noqa: E402 (the folder is put on the path first)
from processes import members  # noqa: E402
from program import TIMEOUT  # noqa: E402
from study_case import StudyTest  # noqa: E402

DIFFUSION = "diffusion  -  evolve input/evolve/diffusion.ini --evolve.time=0.1\n"
PARTICLES = "particles  -  evolve input/evolve/particles.ini --evolve.time=0.1\n"
TRAINED = "trained  -  train input/train/digits.ini --mesh.layers=1 --train.samples=320 --train.test_samples=20 --train.epochs=3\n"
MARKOV = "markov  -  paths_theory input/paths/markov.ini --paths.widths=10\n"
# A network of attention paths of a few steps, and its heads, which need it.
NETWORK = "network  -  paths_train input/paths/one_shot_train.ini --paths.steps=8 --paths.width=8 --paths.judged_examples=20\n"
PRUNE = ("prune  network  paths_prune input/paths/prune.ini --paths.attention=OUT/network/result.h5 --paths.examples=20 --paths.test_examples=20 "
         "--paths.random_orders=0\n")


class Tables(StudyTest):
    def test_a_setting_reaches_the_rows_that_have_it(self):
        table = self.table(TRAINED.replace("epochs=3", "epochs=1"), NETWORK)
        self.study("--ranks", "1", table, self.path("out"))
        self.assertTrue(os.path.exists(self.path("out/trained/result.checkpoint.h5")))  # of the model that is replaced
        with self.open("out/trained/result.h5") as file:
            self.assertNotIn("decay = 0.5\n", file.attrs["settings"])
            self.assertNotIn("seed = 3\n", file.attrs["settings"])
        stages = self.study("--ranks", "1", table, self.path("out"), "--train.decay=0.5", "train:--run.seed=3")  # both have a run.seed
        self.assertEqual([name for name, text in stages.items() if " is done" in text], ["network"])
        settings = self.open("out/trained/result.h5").attrs["settings"] + "\n"
        self.assertIn("decay = 0.5\n", settings)
        self.assertIn("seed = 3\n", settings)

    def test_rows_that_do_not_need_one_that_fails_are_run_and_then_those_that_it_left(self):
        stages = self.study(self.table(NETWORK.rstrip() + " --run.time_limit=1e-6\n", PRUNE, DIFFUSION), self.path("out"), code=4)
        self.assertEqual(stages["prune"].strip(), "not run: it needs network")
        self.assertIn("study.sh: failed: network prune\n", self.said)
        self.assertIn("out/diffusion/result.h5", self.page())
        self.assertNotIn("out/prune", self.page())
        stages = self.study(self.table(NETWORK, PRUNE, DIFFUSION), self.path("out"))
        self.assertEqual([name for name, text in stages.items() if " is done" in text], ["diffusion"])
        self.assertIn("out/prune/result.h5", self.page())
        # A page that could not be completed is no page: its PDF cannot be written where a folder is.
        os.remove(self.path("out/report.html"))
        os.makedirs(self.path("out/report.part/report.pdf"))
        self.study(self.table(DIFFUSION), self.path("out"), code=1)
        self.assertFalse(os.path.exists(self.path("out/report.html")))
        os.rmdir(self.path("out/report.part/report.pdf"))
        os.utime(self.path("out/network/result.h5"))
        stages = self.study(self.table(NETWORK, PRUNE, DIFFUSION), self.path("out"))
        self.assertEqual([name for name, text in stages.items() if " is done" in text], ["network", "diffusion"])

    def test_what_is_wrong_is_one_clear_line_before_anything_is_run(self):
        typing = MARKOV.replace("widths", "widht")
        cases = {
            (MARKOV, typing.replace("markov ", "typing ")): "row typing: fluxformer: paths.widht: unknown key",
            (MARKOV, PRUNE): "row prune: it needs network, which is no row above it",
            (MARKOV.replace("-  ", "second  ", 1), MARKOV.replace("markov ", "second ").replace(" - ", " markov ")):
                "row markov: it needs second, which is no row above it",
            (MARKOV, NETWORK, MARKOV): "there are two rows markov",
            ("markov  -  paths\n",): "row 1: it needs a name, the rows that it needs (or -), and what to run with which deck",
            (MARKOV.replace("markov ", "mar-kov "),): "'mar-kov' is not a name of letters, digits and _",
            (MARKOV.replace("paths_theory ", "path "),): "row markov: fluxformer: path: no such experiment",
            (MARKOV.replace("markov.ini", "none.ini"),): "row markov: no deck input/paths/none.ini",
            (MARKOV.replace("--paths", "paths"),): "row markov: 'paths.widths=10' is not of the form --section.key=value",
            (MARKOV.rstrip() + " --output.file=a.h5\n",): "row markov: --output.file=a.h5: the script sets this itself",
            (MARKOV.replace("markov ", "m_{seed} "),): "row m_{seed}: its name asks for --seeds 1-6 or alike",
            ("digits  -  compare input/paths\n",): "row digits: input/paths is not a folder of decks",
            ("digits  -  compare input/compare --seed 1-2\n",): "row digits: compare.sh: '--seed' is not an option",
            ("digits  -  compare input/compare --train.batch=0\n",): "row digits: compare.sh: train transformer, seed 1: fluxformer: train.batch = 0",
            ("# nothing\n",): "has no rows"}
        for rows, message in cases.items():
            with self.subTest(message):
                self.assert_wrong(message, self.table(*rows), self.path("out"))
        self.assert_wrong("no row has an experiment with this key", self.table(MARKOV), self.path("out"), "--mesh.layers=3")
        self.assert_wrong("no table none.txt", "none.txt", self.path("out"))
        self.assert_wrong("'0' is not a number of ranks", "--ranks", "0", self.table(MARKOV), self.path("out"))
        self.assert_wrong("--time=5: an option of sbatch", "--time=5", self.table(MARKOV), self.path("out"))

    def assert_wrong(self, message, *words):
        self.assertEqual(self.study(*words, code=2), {})
        self.assertEqual((self.said.count("\n"), self.said.startswith("study.sh: ")), (1, True), self.said)
        self.assertIn(message, self.said)
        self.assertFalse(os.path.exists(self.path("out")))


class Interruptions(StudyTest):
    def interrupted(self, number, code, row, folder, model):
        """Stops a study of this row, between two others, at a checkpoint; then it goes on from there."""
        name = row.split()[0]
        table = self.table(DIFFUSION, row, PARTICLES)
        hold = self.hold("rename", f"{model}.checkpoint.h5")
        process = self.start_study(table, self.path("out"), environment=hold.environment)
        hold.wait_for("held", process)
        process.send_signal(number)
        hold.wait_for("woken", process)
        hold.let_go()
        out, said = process.communicate(timeout=TIMEOUT)
        self.assertEqual((process.returncode, members(process.pid)), (code, []), out + said)
        self.assertEqual(said, f"study.sh: stopped in {name}; the same command goes on from there\n")
        if name == "trained":
            self.assertEqual(self.open(f"{folder}/{model}.h5").attrs["status"], "interrupted")
        else:
            self.assertFalse(os.path.exists(self.path(f"{folder}/{model}.h5")))
        self.assertFalse(glob.glob(self.path("out/particles*")) or glob.glob(self.path("out/report*")))
        stages = self.study(table, self.path("out"))
        self.assertEqual([name for name, text in stages.items() if " is done" in text], ["diffusion"])
        self.assertEqual(self.open(f"{folder}/{model}.h5").attrs["status"], "done")

    def test_a_run(self):
        self.interrupted(signal.SIGTERM, 143, TRAINED, "out/trained", "result")
        with open(self.path("out/trained.log"), encoding="utf-8") as log:
            self.assertIn("continuing from", log.read())

    def test_a_run_of_several_points(self):
        self.interrupted(signal.SIGTERM, 143, MARKOV.rstrip().replace("=10", "=10,20,30,40") + " --checkpoint.every=1e-6\n", "out/markov", "result")
        with open(self.path("out/markov.log"), encoding="utf-8") as log:
            self.assertRegex(log.read(), "continuing from .* after [1-9]")

    def test_a_training_of_a_comparison(self):
        others = ",".join(("pde", "normed", "distilled", "converged", "evolve", *experiments_of("compare")))
        comparison = (f"trained  -  compare input/compare --seeds 1 --without {others} --model.width=8 --model.ffn=8 --train.samples=64 "
                      "--train.test_samples=16 --train.batch=16 --train.epochs=3 --samples.count=8\n")
        self.interrupted(signal.SIGINT, 130, comparison, "out/trained", "transformer_1")
        with open(self.path("out/trained/transformer_1.log"), encoding="utf-8") as log:
            self.assertIn("continuing from", log.read())


if __name__ == "__main__":
    unittest.main()
