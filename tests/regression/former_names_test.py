#!/usr/bin/env python3
"""Experiments that had one name together, `hessian` or `paths`: decks, command lines and files of that time run, repeat and are drawn, with the
numbers of the experiments of today.
"""

import json
import os
import shutil
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

import h5py  # noqa: E402 (the folder is put on the path first)

from described import description  # noqa: E402
from program import ProgramTest, ranks_of_case  # noqa: E402
from python_package import call  # noqa: E402

STUDIES = {"hessian": ("spectrum", "blocks", "scaling"), "paths": ("theory", "sample", "train", "prune")}
# A small deck for studies that need no file, without the key of the study.
SMALL = {"hessian_blocks": "[hessian]\nlayers = softmax, linear\nseeds = 1, 2\nwidth = 4\nsequences = 2\n",
         "hessian_scaling": "[hessian]\nlayers = softmax, linear_mlp\nseeds = 1, 2\nwidth = 4\nsequences = 2\nsigmas = 0.1, 1\n",
         "paths_theory": "[paths]\nexamples = 10\ntest_examples = 10\nwidths = 10\n",
         "paths_sample": "[paths]\nexamples = 10\ntest_examples = 10\nwidths = 10\nsamplers = wishart\nchains = 2\nsamples = 6\nwarm_up = 2\nwalk = 2\n",
         "paths_train": "[paths]\ntask = one_shot\nimages = digits\nheads = 2\nkey = 3\nwidth = 4\nsteps = 3\nbatch = 4\njudged_examples = 10\n"}


class FormerNames(ProgramTest):
    def ran(self, *arguments, ranks=1, output="out.h5"):
        end = self.run_program(*arguments, "--quiet", f"--output.file={output}", "--output.overwrite=true", ranks=ranks)
        self.assertEqual(end.code, 0, end)
        return end

    def arrays(self, name):
        """All numbers but wall times, by path."""
        found = {}
        with h5py.File(self.path(name), "r") as file:
            file.visititems(lambda path, item: found.update({path: item[...].tobytes()})
                            if isinstance(item, h5py.Dataset) and not path.startswith("timing") and not path.endswith("seconds") else None)
        return found

    def notices(self, end):
        return [line for line in end.messages if "is now the experiment" in line]

    def as_of_then(self, name, to):
        """A copy of a file as it was written under the former name: the key of the study and keys of the other studies are in its settings."""
        shutil.copyfile(self.path(name), self.path(to))
        with h5py.File(self.path(to), "r+") as file:
            family, study = file.attrs["experiment"].split("_")
            more = {"hessian": ("heat_map = false", "norm_probes = 20"), "paths": ("random_orders = 20", "judge_every = 100")}[family]
            with_more = [line for line in more if line.split(" = ")[0] + " = " not in file.attrs["settings"]]
            file.attrs["experiment"] = family
            file.attrs["settings"] = file.attrs["settings"].replace(f"[{family}]\n", "\n".join([f"[{family}]", f"study = {study}", *with_more, ""]))


class Decks(FormerNames):
    def test_of_then_give_the_bits_of_today_and_one_notice(self):
        for name, deck in SMALL.items():
            with self.subTest(name):
                family, study = name.split("_")
                self.write("new.ini", deck)
                self.write("old.ini", deck.replace("]\n", f"]\nstudy = {study}\n", 1))
                end = self.ran(name, "new.ini")
                self.assertEqual(self.notices(end), [], end)
                for ranks, words in ((1, (family, "old.ini")), (2, (family, "new.ini", f"--{family}.study={study}"))):
                    if name == "paths_train" and ranks > 1:
                        continue  # sums in another order
                    end = self.ran(*words, ranks=ranks, output="old.h5")
                    self.assertEqual(self.notices(end), [f"fluxformer: {family}: this study is now the experiment {name}"], end)
                    self.assertEqual(self.open("old.h5").attrs["experiment"], name)
                    self.assertEqual(self.arrays("old.h5"), self.arrays("out.h5"))
                once, again = (self.open(one).attrs["settings"] for one in ("out.h5", "old.h5"))
                self.assertEqual(once.replace("out.h5", "old.h5"), again)
                self.assertNotIn("study =", once)

    def test_without_the_key_are_of_the_first_study_that_has_all_keys(self):
        for name, deck in SMALL.items():
            self.write("old.ini", deck)
            self.ran(name.split("_")[0], "old.ini")
            self.assertEqual(self.open("out.h5").attrs["experiment"], name)
        end = self.run_program("hessian", "--quiet")
        self.assertEqual((end.code, self.notices(end)), (2, ["fluxformer: hessian: this study is now the experiment hessian_spectrum"]), end)
        self.assertIn("models.transformer", end.messages[-1])

    def test_say_what_does_not_belong_to_the_study(self):
        self.write("old.ini", "[hessian]\nstudy = blocks\ndepth = 1\nwidth = 4\nsequences = 2\nseeds = 1\n")  # 1 is the default of hessian_scaling
        self.ran("hessian", "old.ini")
        cases = ((("hessian", "old.ini", "--hessian.depth=2"), ("hessian.depth = 2 (command line)", "of hessian_scaling, not of hessian_blocks")),
                 (("hessian_blocks", "old.ini"), ("hessian.study (old.ini)", "leave the key out")),
                 (("hessian_blocks", "--hessian.study=blocks"), ("hessian.study (command line)", "leave the key out")),
                 (("hessian", "--hessian.study=block"), ("hessian.study = block", "spectrum", "scaling")),
                 (("paths", "--paths.study=theory "), ("paths.study",)),
                 (("hessian_block", "old.ini"), ("hessian_block: no such experiment", "hessian_blocks")),
                 (("path", "old.ini"), ("path: no such experiment",)))
        for number, (words, parts) in enumerate(cases):
            for ranks in ranks_of_case(number):
                self.assert_refused(self.run_program(*words, "--quiet", "--output.file=no.h5", ranks=ranks), *parts)


class Files(FormerNames):
    def test_of_then_run_again_under_both_names(self):
        for name, other in (("hessian_blocks", "hessian_scaling"), ("paths_sample", "paths_theory")):
            with self.subTest(name):
                self.write("new.ini", SMALL[name])
                self.ran(name, "new.ini")
                self.as_of_then("out.h5", "then.h5")
                family = name.split("_")[0]
                for experiment, file in ((family, "then.h5"), (name, "then.h5"), (family, "out.h5"), (name, "out.h5")):
                    end = self.ran(experiment, file, output="again.h5")
                    self.assertEqual(len(self.notices(end)), experiment == family, end)
                    self.assertEqual(self.open("again.h5").attrs["experiment"], name)
                    self.assertEqual(self.arrays("again.h5"), self.arrays("out.h5"))
                self.assert_refused(self.run_program(other, "then.h5", "--output.file=no.h5"), f"is the output of {name}", f"not those of {other}")
                self.assert_refused(self.run_program(other, "out.h5", "--output.file=no.h5"), f"is the output of {name}", f"not those of {other}")

    def test_of_then_are_drawn_and_reported(self):
        for name in ("hessian_blocks", "paths_theory"):
            self.write("new.ini", SMALL[name])
            self.ran(name, "new.ini", output=f"{name}.h5")
            self.as_of_then(f"{name}.h5", f"then_{name}.h5")
            drawn = []
            for file in (f"{name}.h5", f"then_{name}.h5"):
                done = call("plot", self.path(file), "--output", self.path("drawn"))
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                drawn.append([os.path.basename(one).replace("then_", "") for one in done.stdout.split()])
            self.assertTrue(drawn[0])
            self.assertEqual(*drawn)
        done = call("report", *(self.path(f"then_{name}.h5") for name in ("hessian_blocks", "paths_theory")), "--output", self.path("page"))
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(os.path.join(self.path("page"), "report.html"), encoding="utf-8") as page:
            text = page.read()
        for part in ("addition of numbers", "Attention paths"):
            self.assertIn(part, text)


class Descriptions(FormerNames):
    def test_list_the_names_of_today(self):
        known = [one["name"] for one in description()["experiments"]]
        for family, studies in STUDIES.items():
            names = [f"{family}_{study}" for study in studies]
            self.assertEqual([name for name in known if name.split("_")[0] == family], names)
            self.assertNotIn(family, known)
            end = self.run_program(family, "--describe=json")
            self.assertEqual([one["name"] for one in json.loads(end.out)["experiments"]], names)
            end = self.run_program(family, "--help")
            self.assertEqual((end.code, end.err), (0, ""), end)
            for name in names:
                self.assertIn(f"fluxformer {name}: ", end.out)
                for key in next(one["keys"] for one in description()["experiments"] if one["name"] == name):
                    self.assertIn(f"  {key['name']} =", end.out)


if __name__ == "__main__":
    unittest.main()
