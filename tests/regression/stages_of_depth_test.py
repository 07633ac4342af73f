#!/usr/bin/env python3
"""`train` with stages of depth: every grid of ranks gives the losses, the gradients and the weights of one rank; checkpoints are read on
any grid; a model that is too large for a rank is trained by two; what cannot be shared is refused.
"""

import os
import re
import signal
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from held_back import HeldBackTest  # noqa: E402
from program import FULL_TIER, TrainTest, together, with_value  # noqa: E402

# Eight steps on six layers. Weights move by their gradients, clipped now and then; Adam would enlarge the round-off in gradients that
# are 0 (of b_K).
STEPS = ("--mesh.layers=6", "--train.samples=72", "--train.epochs=2", "--train.optimiser=sgd", "--train.rate=0.2",
         "--train.clip=0.7")
ADAM = ("--train.optimiser=adam", "--train.rate=1e-2", "--train.epsilon=1e-3")
PDE = ("--model.kind=pde", "--model.knots=3", "--mesh.cells=12", "--equation.kappa=0.05")
RK4 = ("--train.gradient=adjoint", "--adjoint.method=4")
TEXTS = ("--data.tokens=patches", "--data.set=topics", "--data.length=32", "--data.vocabulary=500", "--data.classes=4")
MASKED = (*TEXTS, "--train.objective=masked")
TEACHER = ("--distill.teacher=teacher.h5", "--distill.hidden=1", "--model.seed=5")

# name -> settings, and grids: stages, ranks over tokens, groups, micro-batches (0: the default), schedule; then those of the second tier,
# which divide in ways that others do. Outside it, `pde` has the only grid of more than four ranks.
CASES = {
    "transformer": ((), [(2, 2, 1, 2), (2, 1, 2, 5), (3, 1, 1, 5, "gpipe"), (1, 1, 1, 5)],
                    [(1, 2, 1, 0), (6, 1, 1, 5, "gpipe"), (2, 1, 1, 1), (4, 2, 2, 0)]),
    "no norm, smoothed labels": (("--depth.norm=none", "--train.label_smoothing=0.1", "--train.rate=0.05"), [(4, 1, 1, 2)], [(2, 2, 2, 0)]),
    "pde": ((*PDE, *ADAM, "--train.smoothness=0.01", "--train.dropout=0.1"), [(3, 2, 1, 5)],
            [(2, 1, 2, 2, "gpipe"), (6, 1, 1, 1)]),
    "one stage a cell": (("--model.kind=pde", "--model.knots=2", "--mesh.layers=2", "--mesh.cells=4", *RK4), [(4, 1, 1, 2)], []),
    "eight stages": (("--model.kind=pde", "--model.knots=3", "--mesh.layers=4", "--mesh.cells=8", *RK4), [], [(8, 1, 1, 2)]),
    "adjoint march, no norm": ((*PDE, *RK4, "--depth.norm=none", "--train.smoothness=0.01", "--train.rate=0.01", "--adjoint.keep=segments"),
                               [(2, 2, 1, 5)], [(4, 1, 1, 2)]),
    "implicit march": ((*PDE, "--train.gradient=adjoint", "--adjoint.method=cn", "--train.epochs=1"), [(2, 1, 1, 2)], []),
    "texts": ((*TEXTS, "--train.dropout=0.2", "--train.augment=0.2"), [(2, 2, 1, 5), (2, 1, 1, 1)], [(3, 2, 1, 5), (2, 2, 2, 0)]),
    "masked words": ((*MASKED, "--train.rate=0.05"), [(2, 2, 1, 5)], [(3, 1, 2, 2, "gpipe"), (4, 1, 1, 2)]),
    "masked words, own matrix": ((*MASKED, "--train.word_matrix=own", *ADAM), [(2, 1, 2, 2)], []),
    "distillation": ((*PDE, *TEACHER, "--distill.attention=0.5"), [(2, 1, 1, 5)], [(6, 1, 1, 2)]),
    "distillation, shared knots": (("--model.kind=pde", "--model.knots=2", *RK4, *TEACHER), [(2, 1, 2, 1)], [(3, 2, 1, 2)]),
    "smooth layers": (("--train.smoothness=0.05",), [(3, 1, 1, 2)], []),
    "going on": (("--model.file=teacher.h5", "--run.seed=4"), [(3, 1, 1, 0)], [(3, 1, 2, 0), (2, 1, 1, 2)]),
}


def grid_settings(stages, tokens, groups, micro_batches, schedule="1f1b"):
    return (f"--mesh.ranks_depth={stages}", f"--mesh.ranks_token={tokens}", f"--train.micro_batches={micro_batches}",
            f"--train.pipeline={schedule}"), stages * tokens * groups


class StagesTest(HeldBackTest, TrainTest):
    def weights(self, name):
        arrays = self.arrays(self.open(name)["model"])
        return np.concatenate([array.ravel() for path, array in sorted(arrays.items()) if array.dtype.kind == "f"])

    def assert_equal_training(self, first, second, tolerance=1e-10):
        """The same to round-off: gradients are sums of some ten thousand terms in another order, over eight steps."""
        one, other = self.weights(first), self.weights(second)
        self.assertLess(np.linalg.norm(one - other), tolerance * np.linalg.norm(one), f"{first} and {second}")
        one, other = (self.arrays(self.open(name)["training"]) for name in (first, second))
        for name in ("loss", "depth_loss", "penalty", "gradient_norm", "test_loss", "batch_accuracy", "test_accuracy"):
            np.testing.assert_allclose(other[name], one[name], rtol=tolerance, atol=1e-12, err_msg=f"{name}: {first} and {second}")


class Exactness(StagesTest):
    def test_every_grid_gives_what_one_rank_gives(self):
        self.train(*STEPS, "--output.file=teacher.h5")

        def case(number, settings, grids):
            one = f"{number}.h5"
            self.train(*STEPS, *settings, f"--output.file={one}")
            for k, grid in enumerate(grids):
                arguments, ranks = grid_settings(*grid)
                self.train(*STEPS, *settings, *arguments, f"--output.file={number}_{k}.h5", ranks=ranks)

        cases = {name: (settings, grids + (more if FULL_TIER else [])) for name, (settings, grids, more) in CASES.items()
                 if grids or FULL_TIER}
        together([lambda n=n, c=c: case(n, *c) for n, c in enumerate(cases.values())])
        for number, (name, (_, grids)) in enumerate(cases.items()):
            for k, grid in enumerate(grids):
                with self.subTest(name, grid=grid):
                    self.assert_equal_training(f"{number}.h5", f"{number}_{k}.h5")
                    self.assertNotEqual(self.open(f"{number}.h5")["training/gradient_norm"][0], 0)

    def test_both_schedules_give_the_same_bits(self):
        for schedule in ("1f1b", "gpipe"):
            arguments, ranks = grid_settings(2, 1, 2, 5, schedule)
            self.train(*STEPS, *arguments, f"--output.file={schedule}.h5", ranks=ranks)
        self.assert_same_training("1f1b.h5", "gpipe.h5")


class Files(StagesTest):
    def test_a_training_goes_on_with_the_same_bits_and_on_another_grid(self):
        settings = (*STEPS, *ADAM)
        grid, ranks = grid_settings(2, 2, 1, 2)
        self.train(*settings, *grid, "--output.file=whole.h5", ranks=ranks)
        for step in (1, 2):  # the time limit comes after each step
            end = self.run_program("train", "train.ini", "--quiet", *settings, *grid, "--run.time_limit=1e-6",
                                   "--checkpoint.restart=auto", ranks=ranks)
            self.assertEqual(end.code, 4, end)
            self.assertIn(f"after {step} steps", end.err)
        other, more = grid_settings(3, 1, 2, 0)
        end = self.run_program("train", "train.ini", "--quiet", *settings, *other, "--run.time_limit=1e-6",
                               "--checkpoint.restart=auto", "--output.file=out.h5", ranks=more)
        self.assertIn("after 3 steps", end.err, end)
        self.train(*settings, *grid, "--checkpoint.restart=auto", ranks=ranks)
        self.assert_equal_training("whole.h5", "out.h5")

        end = self.run_program("train", "train.ini", "--quiet", *settings, *grid, "--run.time_limit=1e-6", "--output.file=same.h5",
                               ranks=ranks)
        self.assertEqual(end.code, 4, end)
        self.train(*settings, *grid, "--checkpoint.restart=auto", "--output.file=same.h5", ranks=ranks)
        self.assert_same_training("whole.h5", "same.h5")

    def test_copies_of_the_weights_are_those_of_one_rank(self):
        settings = (*STEPS, *ADAM, "--output.snapshots=1", "--output.preconditioner=true")
        grid, ranks = grid_settings(3, 1, 2, 2)
        self.train(*settings, "--output.file=one.h5")
        self.train(*settings, *grid, "--output.file=many.h5", ranks=ranks)
        for copy in ("epoch0", "epoch1", "epoch2", "best"):
            one, other = (self.arrays(self.open(f"{name}.{copy}.h5")) for name in ("one", "many"))
            self.assertEqual(sorted(one), sorted(other))
            for name in one:
                np.testing.assert_allclose(other[name], one[name], rtol=1e-10, atol=1e-12, err_msg=f"{copy}: {name}")
            if copy != "epoch0":
                self.assertIn("optimiser/preconditioner", one)

    def test_a_stop_by_a_signal(self):
        grid, ranks = grid_settings(2, 1, 2, 2)
        end = self.stopped_at(("rename", "out.checkpoint.h5"), signal.SIGUSR1, "train", "train.ini", "--quiet", *grid, ranks=ranks)
        self.assertEqual(end.code, 4, end)
        self.assertIn("stopped by signal", end.err)

    def test_numbers_that_are_not_finite_end_all_stages(self):
        grid, ranks = grid_settings(2, 1, 2, 5)
        end = self.run_program("train", "train.ini", "--quiet", *STEPS, *grid, "--train.rate=1e200", "--train.clip=0", ranks=ranks)
        self.assert_refused(end, "is not finite", code=3)


class Memory(StagesTest):
    # Wide layers and few samples: parameters and moments are most of the memory.
    LARGE = ("--mesh.layers=12", "--model.width=128", "--model.ffn=512", "--train.batch=2", "--train.samples=8", "--train.epochs=1",
             "--train.micro_batches=2", "--train.validation=0", "--train.test_samples=2")

    def needed(self, *arguments, ranks=1):
        """GB on each rank, as the refusal of a training with no memory says."""
        end = self.run_program("train", "train.ini", *self.LARGE, *arguments, "--run.memory=1e-6", ranks=ranks)
        self.assert_refused(end, "run.memory")
        return float(re.search(r"needs about ([\d.e-]+) GB on each rank, which may take 1e-06 GB", end.err).group(1))

    def test_two_stages_train_what_one_rank_refuses(self):
        whole, half = self.needed(), self.needed("--mesh.ranks_depth=2", ranks=2)
        # Values, gradient, variables and two moments are 5 numbers for each parameter, and at least 80 % of all.
        self.train(*self.LARGE, "--output.file=whole.h5")
        parameters = self.open("whole.h5")["training"].attrs["trained_parameters"]
        self.assertGreater(5 * 8 * parameters, 0.8e9 * whole)
        self.assertLess(half, 0.65 * whole)
        cap = f"--run.memory={0.65 * whole}"
        self.assert_refused(self.run_program("train", "train.ini", *self.LARGE, cap), f"needs about {whole:.3g} GB", "run.memory")
        self.train(*self.LARGE, cap, "--mesh.ranks_depth=2", "--output.file=half.h5", ranks=2)
        self.assertEqual(self.open("half.h5")["training"].attrs["trained_parameters"], parameters)


class Evolving(StagesTest):
    def test_ranks_that_have_only_their_layers_solve_and_write_the_whole_model(self):
        self.train(*STEPS, *PDE, "--mesh.layers=3", "--mesh.cells=3", "--output.file=model.h5")
        self.write("evolve.ini", "[model]\nfile = model.h5\n[data]\ntokens = rows\n[inflow]\nsource = data\nsamples = 2\n"
                   "[output]\nevery = 2\nlogits = true\n")
        for scheme in ("shift", "upwind2"):  # whose references of fronts pass on one slab and two
            for ranks in (1, 2, 3):  # three have a cell each
                self.evolve(f"--depth.scheme={scheme}", f"--mesh.ranks_depth={ranks}", f"--output.file={scheme}{ranks}.h5", ranks=ranks,
                            deck="evolve.ini")
            for ranks in (2, 3):
                self.assert_same_bits(f"{scheme}1.h5", f"{scheme}{ranks}.h5")
                self.assert_same_model(f"{scheme}{ranks}.h5", "model.h5")
                one, other = (self.open(f"{scheme}{n}.h5")["prediction/class_logits"][...] for n in (1, ranks))
                np.testing.assert_array_equal(one, other)
                self.assertGreater(np.abs(one).max(), 0)


    def test_round_off_in_depth_leads_to_no_layer_of_another_rank(self):
        # Sums of a hundred steps of 0.1 end beyond knots that only the next rank has.
        for ranks in (1, 5):
            self.evolve("--mesh.layers=10", "--mesh.cells=100", "--model.knots=10", "--model.kind=pde", "--depth.scheme=upwind",
                        f"--mesh.ranks_depth={ranks}", "--evolve.time=0.02", "--model.width=32", "--model.ffn=64",
                        f"--output.file=fine{ranks}.h5", ranks=ranks)
        self.assert_same_bits("fine1.h5", "fine5.h5")


class Refusals(StagesTest):
    def test_what_cannot_be_shared(self):
        def refused(*arguments, parts, ranks=2, experiment="train", deck="train.ini"):
            self.assert_refused(self.run_program(experiment, deck, *arguments, ranks=ranks), *parts)

        refused("--mesh.ranks_depth=3", parts=["mesh.ranks_depth = 3", "every stage needs a depth cell"], ranks=3)
        refused("--mesh.ranks_depth=2", parts=["mesh.ranks_depth = 2, mesh.ranks_token = 1", "number of ranks, 3"], ranks=3)
        refused("--mesh.ranks_depth=2", "--mesh.ranks_token=2", parts=["mesh.ranks_token = 2", "number of ranks, 2"])
        refused("--mesh.ranks_depth=2", "--train.micro_batches=17", parts=["train.micro_batches = 17", "16 samples"])
        refused("--train.pipeline=2f2b", parts=["train.pipeline"])
        self.train("--output.file=model.h5")
        with h5py.File(self.path("model.h5"), "r+") as file:  # of the last layer, which only one of two stages has
            with_value("model/layers/2/kappa", [-0.01])(file)
        refused("--model.file=model.h5", "--mesh.ranks_depth=2", parts=["equation.kappa = -0.01", "must be >= 0"])
        end = self.run_program("train", "train.ini", "--validate", "--mesh.ranks_depth=2", ranks=2)
        self.assertEqual(end.code, 0, end)
        self.assertIn("2 stages of depth: cells 1-1 2-2; 8 micro-batches of 2 samples", end.out)


if __name__ == "__main__":
    unittest.main()
