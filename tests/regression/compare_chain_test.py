#!/usr/bin/env python3
"""jobscripts/compare.sh: from a folder of decks to a report; called again it only redoes what is missing or out of date.

Runs the decks of input/compare and input/paper on small built-in data. Status 77 if matplotlib is not installed.
"""

import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

try:
    import matplotlib  # noqa: F401 (needed by the report)
except ImportError as missing:
    print(f"NOT RUN: {missing}", file=sys.stderr)
    sys.exit(77)

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from described import experiments_of  # noqa: E402
from held_back import HeldBackTest  # noqa: E402
from processes import kill_all, members  # noqa: E402 (the folder is put on the path first)
from program import BINARY, ENVIRONMENT, MPIEXEC, ROOT, TIMEOUT, command  # noqa: E402

KINDS = ("transformer", "pde", "normed", "distilled", "converged")


EXPERIMENTS = experiments_of("compare")
# Small widths, lengths and counts; layers and heads as in the decks.
SMALL = ("--model.width=8", "--model.ffn=8", "--train.samples=64", "--train.test_samples=16", "--train.epochs=1", "--train.batch=16",
         "--samples.count=16", "--attention.matching=8", "--bottleneck.epochs=0,1", "--gradient.epochs=0,1", "--gradient.jacobian_samples=2",
         "--gradient.steps=3", "--gradient.sweeps=1", "--perturbation.pgd_steps=1", "--ablation.norm=pre", "--hessian.epochs=0,1", "--hessian.steps=4",
         "--hessian.eigenvalues=1", "hessian:--samples.count=4", "--evolve.time=1", "--identifiability.epochs=0,1", "--identifiability.fit=10", "--identifiability.maps=linear",
         "--identifiability.attributed=2", "--identifiability.lengths=4")


class CompareChain(HeldBackTest):
    def start_comparison(self, decks, *arguments, environment=None):
        """The script in a session of its own; OUT is the folder out of the test."""
        return subprocess.Popen([os.path.join(ROOT, "jobscripts", "compare.sh"), os.path.join("input", decks), self.path("out"), *arguments],
                                env={**ENVIRONMENT, "FLUXFORMER_BIN": BINARY, **(environment or {})}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                stdin=subprocess.DEVNULL, start_new_session=True)

    def compare(self, decks, *arguments, code=0):
        """Output of the script, by stage: {name: lines}."""
        process = self.start_comparison(decks, *arguments)
        try:
            out, err = process.communicate(timeout=TIMEOUT)
        finally:
            kill_all(process.pid)
        self.said = out + err
        self.assertEqual(process.returncode, code, self.said)
        stages = re.split(r"^== (.*)$", out, flags=re.MULTILINE)
        return dict(zip(stages[1::2], stages[2::2]))

    def listed(self, *arguments):
        """What --list says: {stage and seeds: line}."""
        self.compare(*arguments, "--list")
        lines = [line.split() for line in self.said.splitlines()]
        return {f"{line[0]} {line[1]}": line[1:] for line in lines}

    def results(self):
        return sorted(os.path.basename(path) for path in glob.glob(self.path("out/*.h5")) if not re.search(r"\.\w+\.h5$", path))

    def done_before(self, stages):
        return {name for name, text in stages.items() if " is done" in text}

    def test_decks_become_a_page_and_what_is_done_is_not_done_again(self):
        some = {"ablation", "attention"}
        others = " ".join({*EXPERIMENTS} - some)
        settings = [word for word in SMALL if not word.startswith(("--bottleneck", "--gradient", "--perturbation", "--hessian", "hessian:", "--identifiability"))]
        two = ("compare", "--seeds", "1-2", "--without", "report " + others, *settings)
        models = [f"{kind}_{seed}.h5" for kind in KINDS for seed in (1, 2)]
        self.assertEqual({*self.compare(*two, "--only", "trainings")}, {"summary", *(f"train {kind}, seed {seed}" for kind in KINDS for seed in (1, 2))})
        self.assertEqual(self.results(), sorted(models))
        listed = self.listed(*two)
        self.assertEqual({stage: line[1:3] for stage, line in listed.items()}, {
            "trainings 1": ["-", "done"], "trainings 2": ["-", "done"], "evolve 1": ["trainings", "todo"], "ablation 1,2": ["-", "todo"],
            "attention 1,2": ["trainings", "todo"]})
        self.assertEqual(listed["trainings 2"][3:], [self.path(f"out/{kind}_2.h5") for kind in KINDS])
        stages = self.compare(*two, "--only", "evolve ablation attention")
        self.assertEqual((self.done_before(stages), {*stages}), (set(), {"evolve", "summary", *some}))
        self.assertEqual(self.results(), sorted([*models, "evolve.h5", *(name + ".h5" for name in some)]))
        self.assertEqual({line[2] for line in self.listed(*two).values()}, {"done"})
        # More experiments, fewer seeds: what is there with more seeds stays as it is; the controls of hessian are trained.
        done = {*(f"train {kind}, seed 1" for kind in KINDS), "evolve", *some}
        self.assertEqual(self.done_before(self.compare("compare", "--seeds", "1", *SMALL)), done)
        self.assertEqual(self.results(), sorted([*models, "linear_1.h5", "mlp_1.h5", "evolve.h5", *(name + ".h5" for name in EXPERIMENTS)]))
        with open(self.path("out/report.html"), encoding="utf-8") as stream:
            page = stream.read()
        for heading in ("Attention", "Information bottleneck", "Gradient flow", "Perturbations", "Ablation", "What was asked, what was found"):
            self.assertIn(heading, page)
        self.assertTrue(os.path.exists(self.path("out/report.pdf")))
        self.assertIn(os.path.join(os.path.realpath(self.folder), "out", "report.html"), self.said)
        # A Transformer is trained but for the coefficients of its equation, which its file holds too.
        sizes = {}
        self.open("out/transformer_1.h5")["model"].visititems(
            lambda name, item: sizes.update({name: item.size}) if isinstance(item, h5py.Dataset) else None)
        fixed = sum(size for name, size in sizes.items() if name.split("/")[-1] in ("kappa", "alpha", "rho"))
        self.assertEqual(fixed, 4 + 2)
        counts = (f"{count:,}".replace(",", " ") for count in (sum(sizes.values()), sum(sizes.values()) - fixed))
        self.assertIn("".join(f'<td class="number">{count}</td>' for count in counts), page)
        file = self.open("out/distilled_2.h5")
        self.assertIn("teacher = " + self.path("out/transformer_2.h5"), file.attrs["settings"])
        self.assertEqual([file.attrs["seed"], self.open("out/attention.h5")["seed"][...].tolist()], [2, [1, 2]])

        # A seed that is added is trained and compared alone; the report takes its files together with the others.
        added = self.compare("compare", "--seeds", "1 2 3", "--without", others, *settings)
        trainings = {name for name in added if name.startswith("train ")}
        self.assertEqual(self.done_before(added), {name for name in trainings if not name.endswith("3")} | {"evolve"})
        for name in some:
            self.assertEqual([self.open(f"out/{name}{end}.h5")["seed"][...].tolist() for end in ("", "_seeds_3")], [[1, 2], [3]], name)
        with open(self.path("out/report.html"), encoding="utf-8") as stream:
            self.assertIn("attention.h5, " + self.path("out/attention_seeds_3.h5"), stream.read())
        for path in glob.glob(self.path("out/*_seeds_3.h5")):
            os.remove(path)
        # An additional setting applies to the experiments that have it.
        again = self.compare("compare", "--seeds", "1", "--without", "report", *SMALL, "--attention.matching=9")
        everything = {name for name in again if name != "summary"}
        self.assertEqual(self.done_before(again), everything - {"attention"})
        # Results made from a model are out of date when the model is newer; ablation trains its own.
        os.utime(self.path("out/pde_1.h5"))
        few = {"ablation", "attention", "spectrum_of_states"}
        again = self.compare("compare", "--seeds", "1", "--without", " ".join({"report", *EXPERIMENTS} - few), *settings, "--attention.matching=9")
        self.assertEqual(self.done_before(again), {name for name in again if name.startswith("train ")} | {"ablation"})

    def test_the_decks_of_the_paper_run_on_data_like_theirs(self):
        data = {"mnist": ("--data.set=digits",), "20news": ("--data.set=topics", "--data.vocabulary=500", "--data.length=16", "--data.classes=4")}
        for name, settings in data.items():
            experiments = experiments_of("paper/compare/" + name)
            kinds = (*KINDS, "linear", *(("mlp",) if name == "mnist" else ()))
            self.assertLess({"ablation", "attention", "bottleneck", "gradient_flow", "information_flow"}, {*experiments})
            self.compare("paper/compare/" + name, "--seeds", "1", "--ranks", "1", "--without", "report", *SMALL, *settings)
            self.assertEqual(self.results(), sorted([*(f"{kind}_1.h5" for kind in kinds), "evolve.h5", *(one + ".h5" for one in experiments)]))
            for experiment in experiments:
                self.assertIn("set = " + settings[0].split("=")[1], self.open(f"out/{experiment}.h5").attrs["settings"])
            for path in glob.glob(self.path("out/*")):
                os.remove(path)

    def test_independent_models_differ_in_what_makes_a_pde_only_and_all_see_the_same_data(self):
        for folder in ("compare", "paper/compare/mnist", "paper/compare/20news"):
            decks = {}
            for path in glob.glob(os.path.join(ROOT, "input", folder, "*.ini")):
                with open(path, encoding="utf-8") as stream:
                    lines = [line.split("#")[0].strip() for line in stream]
                decks[os.path.basename(path)[:-4]] = [line for line in lines if line]
            differ = {line.split(" = ")[0] for line in set(decks["transformer"]) ^ set(decks["pde"]) if not line.startswith("[")}
            self.assertLessEqual(differ, {"kind", "cells", "kappa", "knots", "norm", "smoothness", "seed", "file"}, folder)
            differ = {line.split(" = ")[0] for line in set(decks["pde"]) ^ set(decks["converged"])}
            self.assertEqual(differ, {"cells", "file"}, folder)
            for name in {*decks} - {"ablation", "evolve", "mlp"}:  # names of a split, none, samples as one token
                data = [line for line in self.section(decks[name], "data") if not line.startswith("split = ")]
                self.assertEqual(data, self.section(decks["transformer"], "data"), f"{folder}/{name}")

    def section(self, lines, name):
        """The lines of one section of a deck."""
        rest = lines[lines.index(f"[{name}]") + 1:]
        return rest[:next((k for k, line in enumerate(rest) if line.startswith("[")), len(rest))]

    def test_what_cannot_be_is_refused_before_anything_runs(self):
        cases = ((("compare", "--train.samplse=3"), "no experiment here has this key"), (("compare", "--models.seeds=3"), "the script sets this"),
                 (("compare", "--seeds"), "--seeds needs a value"), (("compare", "3"), "'3' is not an option"), (("compare", "--seeds", "1-a"), "'1-a' is no list of seeds"),
                 (("compare", "--only", "attentoin"), "there is no stage 'attentoin'"), (("nothing",), "not a folder of decks"))

        def refuse(arguments, message):
            self.compare(*arguments, code=1)
            self.assertIn(message, self.said)

        for case in cases:
            refuse(*case)
        self.assertFalse(os.path.exists(self.path("out")))

    def test_a_failure_is_shown_and_ends_it(self):
        stages = self.compare("compare", "--seeds", "1", *SMALL, "--train.batch=1000", code=2)
        self.assertIn("train.batch = 1000", stages["train transformer, seed 1"])
        self.assertNotIn("train pde, seed 1", stages)

    def test_what_was_stopped_in_a_training_goes_on_there(self):
        words = ("compare", "--seeds", "1", "--only", "trainings", "--without", "pde normed distilled converged hessian", *SMALL, "--train.epochs=3")
        hold = self.hold("rename", "transformer_1.epoch1.h5")
        stopped = self.start_comparison(*words, environment=hold.environment)
        hold.wait_for("held", stopped)
        stopped.send_signal(signal.SIGTERM)
        hold.wait_for("woken", stopped)
        hold.let_go()
        said, _ = stopped.communicate(timeout=TIMEOUT)
        self.assertEqual((stopped.returncode, members(stopped.pid)), (143, []), said)
        self.assertIn("train transformer, seed 1               ", said)
        self.assertEqual(self.open("out/transformer_1.h5").attrs["status"], "interrupted")
        self.assertEqual(self.listed(*words)["trainings 1"][2], "todo")
        self.compare(*words)
        with open(self.path("out/transformer_1.log"), encoding="utf-8") as log:
            self.assertIn("continuing from", log.read())
        self.assertEqual(self.open("out/transformer_1.h5").attrs["status"], "done")

    # An experiment on a Transformer and a PDE model, and evolve; checkpoints after each model, or step of time.
    OF_TWO = ("compare", "--seeds", "1", "--without", "report " + " ".join({"normed", "distilled", "converged", *EXPERIMENTS} - {"attention"}), *SMALL,
              "attention:--checkpoint.every=1e-6", "evolve:--checkpoint.every=0.25")

    def stopped_at_checkpoint(self, start, name, number):
        """The end of a script that gets the signal when the run of OUT/NAME.h5 has written its first checkpoint."""
        hold = self.hold("rename", f"{name}.checkpoint.h5")
        script = start(hold.environment)
        self.addCleanup(self.stop, script)
        hold.wait_for("held", script)
        script.send_signal(number)
        hold.wait_for("woken", script)
        hold.let_go()
        return self.ended(script)

    def assert_goes_on_as_if_undisturbed(self, name):
        with open(self.path(f"out/{name}.log"), encoding="utf-8") as log:
            self.assertIn("continuing from", log.read())
        again = subprocess.run(command((name, self.path(f"out/{name}.h5"), "--quiet", "--output.file=again.h5", "--output.overwrite=true"), 2), cwd=self.folder,
                               env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=TIMEOUT)
        self.assertEqual(again.returncode, 0, again.stderr)
        one, other = ({}, {})
        for path, found in ((f"out/{name}.h5", one), ("again.h5", other)):
            self.open(path)[f"analysis/{name}"].visititems(
                lambda key, item, found=found: found.update({key: item[...]}) if isinstance(item, h5py.Dataset) and not key.endswith("seconds") else None)
        self.assertEqual(sorted(one), sorted(other))
        for key, values in one.items():
            np.testing.assert_allclose(other[key], values, rtol=1e-10, atol=1e-10, err_msg=key)

    def test_what_was_stopped_in_an_experiment_goes_on_there(self):
        ended = self.stopped_at_checkpoint(lambda held: self.start_comparison(*self.OF_TWO, environment=held), "attention", signal.SIGTERM)
        self.assertEqual(ended.code, 143, ended)
        self.assertFalse(os.path.exists(self.path("out/attention.h5")))
        self.assertEqual(self.listed(*self.OF_TWO)["attention 1"][2], "todo")
        self.assertEqual(self.done_before(self.compare(*self.OF_TWO)), {"train transformer, seed 1", "train pde, seed 1", "evolve"})
        self.assert_goes_on_as_if_undisturbed("attention")

    def test_a_job_that_the_time_limit_stops_in_an_experiment_is_queued_again_and_goes_on_there(self):
        """compare.sbatch itself, with a SLURM that only takes down what it is told."""
        shutil.copytree(os.path.join(ROOT, "jobscripts"), self.path("jobscripts"))
        for name in (".ci", "input", "postprocess"):
            os.symlink(os.path.join(ROOT, name), self.path(name))
        with open(self.path("jobscripts/machine.sh"), "a", encoding="utf-8") as stream:
            stream.write(f'\nlaunch() {{ exec {MPIEXEC} -n 2 "$@"; }}\n')
        os.makedirs(self.path("bin"))
        self.write("bin/scontrol", '#!/bin/sh\necho "$@" >>requeued\n')
        os.chmod(self.path("bin/scontrol"), 0o755)
        job = {"SLURM_SUBMIT_DIR": self.folder, "SLURM_JOB_ID": "7", "SLURM_NTASKS": "2", "SLURM_JOB_NODELIST": "here", "FLUXFORMER_BIN": BINARY,
               "PATH": self.path("bin") + ":" + ENVIRONMENT["PATH"]}

        def submit(more):
            return subprocess.Popen(["bash", "jobscripts/compare.sbatch", "input/compare", "out", *self.OF_TWO[1:]], cwd=self.folder,
                                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                                    env={**ENVIRONMENT, **job, **more})

        for times, name in enumerate(("evolve", "attention")):
            ended = self.stopped_at_checkpoint(lambda held, times=times: submit({**held, "SLURM_RESTART_COUNT": str(times)}), name, signal.SIGUSR1)
            self.assertEqual(ended.code, 4, ended)
            with open(self.path("requeued"), encoding="utf-8") as stream:
                self.assertEqual(stream.read(), "requeue 7\n" * (times + 1))
        again = self.ended(submit({"SLURM_RESTART_COUNT": "2"}))
        self.assertEqual(again.code, 0, again)
        self.assert_goes_on_as_if_undisturbed("attention")
        with self.open("out/evolve.h5") as file:
            self.assertEqual(file.attrs["status"], "done")


if __name__ == "__main__":
    unittest.main()
