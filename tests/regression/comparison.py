"""Small trained models for the tests of the comparison experiments, made once for a script of tests."""

import functools
import shutil
import tempfile
import unittest

import numpy as np

from program import ProgramTest, TRAIN_DECK, TrainTest

SEEDS = (1, 2)
PDE = ("--model.kind=pde", "--model.knots=2", "--mesh.cells=4", "--equation.kappa=0.05")
MODELS = ("--models.seeds=1,2", "--models.transformer=models/transformer_{seed}.h5", "--data.tokens=rows",
          "--samples.batch=7", "--samples.count=40")
ALL = MODELS + ("--models.independent=models/independent_{seed}.h5", "--models.distilled=models/distilled_{seed}.h5",
                "--models.inherited=2")
NAMES = ("transformer", "independent", "distilled", "inherited")


@functools.cache
def trained_models():
    """The folder with the models of both seeds, for all classes of a script; called while one is set up."""
    maker = TrainTest()
    maker.folder = tempfile.mkdtemp(prefix="fluxformer-")
    unittest.addModuleCleanup(shutil.rmtree, maker.folder, ignore_errors=True)
    maker.write("train.ini", TRAIN_DECK)
    for seed in SEEDS:
        same = (f"--run.seed={seed}", "--output.snapshots=1")
        teacher = f"transformer_{seed}.h5"
        maker.train(*same, f"--model.seed={seed}", f"--output.file={teacher}")
        maker.train(*same, *PDE, f"--model.seed={seed + 10}", f"--output.file=independent_{seed}.h5")
        maker.train(*same, *PDE, f"--distill.teacher={teacher}", "--distill.hidden=1", "--distill.attention=1",
                    f"--output.file=distilled_{seed}.h5")
    return maker.folder


class CompareTest(ProgramTest):
    """Each test has its own folder, with the models of the class in models/: trained_models(), or what the class has trained instead."""

    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.mkdtemp(prefix="fluxformer-")
        shutil.copytree(trained_models(), cls.shared, dirs_exist_ok=True)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.shared, ignore_errors=True)

    def setUp(self):
        super().setUp()
        shutil.copytree(self.shared, self.path("models"))

    def train_text(self):
        """A Transformer on short texts in models/; returns the keys that select it and itself as inherited model."""
        text = ("--data.set=topics", "--data.vocabulary=500", "--data.classes=4", "--data.length=24")
        end = self.run_program("train", "--quiet", *text, "--mesh.layers=2", "--model.width=8", "--model.ffn=8",
                               "--attention.heads=2", "--train.samples=160", "--train.epochs=1", "--train.batch=16",
                               "--train.test_samples=10", "--output.file=models/text.h5")
        self.assertEqual(end.code, 0, end)
        return *text, "--models.transformer=models/text.h5", "--models.inherited=2", "--samples.count=30"

    def compare(self, experiment, *arguments, ranks=1, output="out.h5", models=ALL):
        """A run that must succeed; returns its arrays by name."""
        end = self.run_program(experiment, "--quiet", *models, f"--output.file={output}", *arguments, ranks=ranks)
        self.assertEqual(end.code, 0, end)
        return self.numbers(output, experiment)

    def numbers(self, output, experiment):
        found = {}
        group = "hessian" if experiment.startswith("hessian_") else experiment  # that of all studies of Hessians
        self.open(output)[f"analysis/{group}"].visititems(
            lambda name, item: found.update({name: item[...]}) if hasattr(item, "shape") else None)
        return found

    def assert_same_numbers(self, one, other):
        """Equal up to the order in which samples are summed: 1e-10, as documented for comparisons."""
        self.assertEqual(sorted(one), sorted(other))
        for name in one:
            if not name.endswith("seconds"):
                np.testing.assert_allclose(other[name], one[name], rtol=1e-10, atol=1e-10, err_msg=name)
