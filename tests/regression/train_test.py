#!/usr/bin/env python3
"""`train` as seen by a user: it learns, documents itself in its file, gives evolve weights whose steady state is the
trained network, and refuses meaningless settings. Stopping and continuing: train_restart_test.py.
"""

import math
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from made_up_images import write_mnist  # noqa: E402
from numpy_equation import convergence  # noqa: E402
from numpy_transformer import layer_norm  # noqa: E402
from program import FULL_TIER, TrainTest, together  # noqa: E402

# The network of train.ini on synthetic images: all 40 test images are used, in order.
IMAGES = ("--data.set=mnist", "--data.directory=data", "--train.samples=0", "--train.test_samples=0",
          "--train.validation=0.25")


def erf(x):
    return np.vectorize(math.erf)(x)


def classify(model, last):
    """Logits of the last hidden states [token][sample][channel]: final LayerNorm, mean over tokens, head."""
    normal = layer_norm(last, model["final_norm/gain"][...], model["final_norm/bias"][...])
    return normal.mean(axis=0) @ model["head/W"][...].T + model["head/b"][...]


def loss_and_accuracy(logits, labels):
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_share = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return -log_share[np.arange(len(labels)), labels].mean(), (logits.argmax(axis=1) == labels).mean()


class Learning(TrainTest):
    def test_digits_far_above_chance_in_a_second(self):
        end = self.train("--train.samples=640", "--train.epochs=3", "--train.rate=2e-2", "--model.width=16")
        self.assertRegex(end.out, r"^done: 3 epochs, 114 steps, .*; test accuracy \d+\.\d\d %, .* written to out\.h5\n$")
        file = self.open("out.h5")
        accuracy = file["training/test_accuracy"][...]
        self.assertGreater(accuracy[-1], 0.4)  # chance: 0.1; it reaches 0.6
        loss = file["training/loss"][...]
        # An untrained classifier of ten classes: about ln 10.
        self.assertAlmostEqual(loss[0], math.log(10), delta=0.5)
        self.assertLess(loss[-20:].mean(), 0.75 * math.log(10))
        np.testing.assert_allclose(file["training/train_loss"][...], loss.reshape(3, -1).mean(axis=1), rtol=1e-13)

    def test_every_way_to_train_goes_down(self):
        write_mnist(self.path("data"), training=160, test=10)
        ways = {
            "sgd": ("--train.optimiser=sgd", "--train.rate=0.2", "--train.schedule=steps"),
            "adam": ("--train.optimiser=adam", "--train.schedule=constant"),
            "squares": ("--train.loss=mean_squared_error", "--run.precision=single"),
            "mixed": ("--run.precision=mixed_emulated",),
            "mixed_adjoint": ("--run.precision=mixed_emulated", "--train.gradient=adjoint", "--adjoint.method=4"),
            "adjoint": ("--train.gradient=adjoint", "--adjoint.method=3bs", "--adjoint.keep=segments"),
            "disk": ("--train.gradient=adjoint", "--adjoint.keep=disk", "--mesh.cells=8"),
            "implicit": ("--train.gradient=adjoint", "--adjoint.method=cn", "--model.kind=pde", "--mesh.cells=8",
                         "--train.batch=8", "--train.epochs=1"),
            "pde": ("--model.kind=pde", "--model.knots=2", "--mesh.cells=5", "--equation.kappa=0.05",
                    "--model.kappa=channel", "--train.smoothness=1e-4"),
        }
        together([lambda n=name, s=settings: self.train(*IMAGES, f"--output.file={n}.h5", *s) for name, settings in ways.items()])
        for name in ways:
            with self.subTest(name):
                loss = self.open(name + ".h5")["training/loss"][...]
                self.assertLess(loss[-3:].mean(), 0.9 * loss[:3].mean())
        pde = self.open("pde.h5")
        self.assertGreater(pde["training/penalty"][...].min(), 0)
        kappa = pde["model/layers/1/kappa"][...]
        self.assertEqual(len(set(kappa)), 8, "one kappa for each channel, and all of them trained")
        self.assertTrue(((kappa > 0) & (kappa != 0.05)).all())
        self.assertNotEqual(pde["model/equation/alpha"][...], 1)

    def test_texts_with_their_vocabulary_beside_naive_bayes(self):
        text = ("--data.tokens=patches", "--data.set=topics", "--data.length=32", "--data.vocabulary=500", "--data.classes=4")
        end = self.run_program("train", "train.ini", *text, "--train.augment=0.1", "--train.epochs=4")
        self.assertEqual(end.code, 0, end)
        file = self.open("out.h5")
        words = [word.decode() for word in file["model/embedding/vocabulary"][...]]
        self.assertEqual(len(words), len(set(words)))
        self.assertEqual(file["model/embedding/words"].shape, (len(words), 8))
        baseline = file["training"].attrs["baseline_accuracy"]
        self.assertGreater(baseline, 0.35)  # of the samples of the model; chance: 0.25
        self.assertIn(f"naive Bayes on the same tokens: {100 * baseline:.6g} %", end.err)
        self.assertGreater(file["training/test_accuracy"][-1], 0.35)  # chance: 0.25
        # evolve on such texts, and a vocabulary of another size is refused.
        evolve = ("evolve", "--quiet", "--model.file=out.h5", "--output.file=e.h5", "--inflow.samples=3", "--evolve.time=2",
                  *text)
        end = self.run_program(*evolve, ranks=2)
        self.assertEqual(end.code, 0, end)
        self.assertTrue(np.isfinite(self.open("e.h5")["field/u"][...]).all())
        self.assert_refused(self.run_program(*evolve, "--data.vocabulary=600", "--output.overwrite=true"), "vocabulary")


class Weights(TrainTest):
    def setUp(self):
        super().setUp()
        self.labels = write_mnist(self.path("data"), training=160, test=40)

    def logits_after_evolving(self, *settings, ranks=1):
        """evolve at Courant number 1 for twice as many steps as cells: the last row is the network's output."""
        end = self.run_program("evolve", "--model.file=out.h5", "--data.set=mnist", "--data.directory=data",
                               "--data.split=test", "--data.tokens=rows", "--inflow.samples=40", "--evolve.method=euler",
                               "--evolve.cfl=1", "--output.file=e.h5", "--output.overwrite=true",
                               "--quiet", *settings, ranks=ranks)
        self.assertEqual(end.code, 0, end)
        self.assertLess(self.open("e.h5")["history/distance"][-1].max(), 1e-6)  # u* is stored in single precision
        return classify(self.open("out.h5")["model"], self.open("e.h5")["field/u"][-1, -1])

    def test_the_loss_on_finer_cells_is_that_of_evolve(self):
        pde = ("--model.kind=pde", "--model.knots=2", "--mesh.cells=5", "--equation.kappa=0.1", "--equation.c=1.5")
        # Long enough that its report takes all 40 samples: 0.6 % of the samples trained on.
        end = self.train(*IMAGES, *pde, "--train.epochs=70", "--checkpoint.epochs=false")
        file = self.open("out.h5")
        self.assertEqual(file["training"].attrs["depth_samples"], 40)
        np.testing.assert_array_equal(file["depth_cells"][...], [5, 10, 20, 40])
        self.assertAlmostEqual(file["training/loss_on_cells"][0], file["training/test_loss"][-1], delta=1e-11)
        for cells, loss, accuracy in zip(file["depth_cells"], file["training/loss_on_cells"], file["training/accuracy_on_cells"]):
            of_evolve = loss_and_accuracy(self.logits_after_evolving("--equation.c=1.5", f"--mesh.cells={cells}"), self.labels)
            np.testing.assert_allclose((loss, accuracy), of_evolve, rtol=0, atol=1e-11, err_msg=str(cells))  # sums in another order
        self.assertIn(f"\ndepth: {file['training'].attrs['depth_report']}\n", end.out)
        self.assertIn(f"loss of 40 samples {file['training/loss_on_cells'][0]:.3g} on 5 depth cells, ", end.out)
        self.assert_says_what_follows(file["training"], order=1)

    def assert_says_what_follows(self, training, order):
        """Section 12 of docs/model.md: the observed order, the limit, and what they say of convergence."""
        said = training.attrs
        observed, asymptotic, limit, seen, distance = convergence(training["loss_on_cells"][...], order)
        verdict = "unknown" if said["depth_samples"] < 32 or seen < 0.1 <= distance else "yes" if distance < 0.1 else "no"
        np.testing.assert_allclose((said["depth_order"], said["depth_limit"]), (observed, limit), rtol=1e-9)
        self.assertEqual((said["depth_asymptotic"], said["depth_converged"]), ("yes" if asymptotic else "no", verdict))
        words = {"yes": ": converged", "no": ": not converged", "unknown": ": not known to be converged"}
        self.assertIn(words[verdict] + " in depth", said["depth_report"])
        return verdict

    def test_a_model_is_converged_if_finer_cells_change_little(self):
        pde = (*IMAGES, "--model.kind=pde", "--model.knots=2", "--mesh.cells=5", "--checkpoint.epochs=false")
        still = ("--equation.alpha=0", "--equation.rho=0", "--equation.kappa=0", "--train.coefficients=no")
        for name, verdict, settings in (("usual", "no", ("--train.rate=1e-3", "--train.epochs=70")), ("still", "yes", (*still, "--train.epochs=70")),
                                        ("few", "unknown", (*still, "--train.epochs=2"))):
            with self.subTest(name):
                self.train(*pde, *settings, f"--output.file={name}.h5")
                self.assertEqual(self.assert_says_what_follows(self.open(f"{name}.h5")["training"], order=1), verdict)

    def test_the_loss_on_finer_cells_does_not_depend_on_ranks(self):
        pde = ("--model.kind=pde", "--model.knots=2", "--mesh.cells=5", "--train.epochs=10")
        methods = {"b": (), "r": ("--train.gradient=adjoint", "--adjoint.method=4", "--adjoint.keep=tapes")}
        layouts = [(1, ()), (3, ("--mesh.ranks_depth=3",)), (2, ("--mesh.ranks_token=2",)), *([(5, ())] if FULL_TIER else [])]
        together([lambda n=name, m=method, r=ranks, o=more: self.train(*IMAGES, *pde, *m, *o, f"--output.file={n}{r}.h5", ranks=r)
                  for name, method in methods.items() for ranks, more in layouts])
        for name in methods:
            one = self.open(name + "1.h5")["training"]
            self.assertEqual(one.attrs["depth_samples"], 6)  # 0.6 % of 1120
            self.assert_says_what_follows(one, order={"b": 1, "r": 4}[name])
            self.assertEqual(" by adjoint.method = 4 " in one.attrs["depth_report"], name == "r")
            for ranks, _ in layouts[1:]:
                np.testing.assert_allclose(self.open(f"{name}{ranks}.h5")["training/loss_on_cells"], one["loss_on_cells"], rtol=1e-9)
        self.assertLess(np.ptp(self.open("r1.h5")["training/loss_on_cells"]), 0.2 * np.ptp(self.open("b1.h5")["training/loss_on_cells"]))

    def test_a_training_without_an_equation_says_so_or_nothing(self):
        quick = ("--train.epochs=1",)
        end = self.train(*IMAGES, *quick, "--model.kind=pde", "--depth.norm=sphere")
        self.assertIn("\ndepth: with depth.norm = sphere there is no equation that it could solve\n", end.out)
        self.assertNotIn("depth_cells", self.open("out.h5"))
        for settings in (("--model.kind=transformer",), ("--model.kind=pde", "--train.report_depth=false")):
            end = self.train(*IMAGES, *quick, *settings, "--output.overwrite=true")
            self.assertNotIn("depth:", end.out)
            self.assertNotIn("depth_report", self.open("out.h5")["training"].attrs)

    def test_evolve_comes_to_rest_at_the_trained_transformer(self):
        self.train(*IMAGES, "--train.rate=1e-2", ranks=2)
        loss, accuracy = loss_and_accuracy(self.logits_after_evolving(ranks=2), self.labels)
        file = self.open("out.h5")
        self.assertGreater(accuracy, 0.5)  # chance: 0.1
        # The same sums in a different order.
        self.assertAlmostEqual(loss, file["training/test_loss"][-1], delta=1e-11)
        self.assertAlmostEqual(accuracy, file["training/test_accuracy"][-1], places=12)

    def test_evolve_comes_to_rest_at_the_trained_pde(self):
        pde = ("--model.kind=pde", "--model.knots=2", "--mesh.cells=5", "--equation.kappa=0.1", "--equation.c=1.5")
        self.train(*IMAGES, *pde, "--train.epochs=1")
        loss, accuracy = loss_and_accuracy(self.logits_after_evolving("--equation.c=1.5"), self.labels)
        file = self.open("out.h5")
        self.assertAlmostEqual(loss, file["training/test_loss"][-1], delta=1e-11)
        self.assertAlmostEqual(accuracy, file["training/test_accuracy"][-1], places=12)

    def test_ranks_share_samples_or_tokens_without_changing_the_result(self):
        # Four: two groups of two. The second tier has each of both alone, too.
        layouts = [(1, ()), (3, ()), (4, ("--mesh.ranks_token=2",)), *([(2, ()), (2, ("--mesh.ranks_token=2",))] if FULL_TIER else [])]
        together([lambda r=ranks, m=more: self.train(*IMAGES, "--train.epochs=1", f"--output.file=r{r}{len(m)}.h5", *m,
                                                     ranks=r) for ranks, more in layouts])
        one = self.open("r10.h5")
        for name in [f"r{ranks}{len(more)}" for ranks, more in layouts[1:]]:
            for column in ("loss", "gradient_norm", "test_loss", "validation_accuracy"):
                # Sums in a different order, through 15 steps of Adam.
                np.testing.assert_allclose(self.open(name + ".h5")["training/" + column][...],
                                           one["training/" + column][...], rtol=1e-9, err_msg=f"{name} {column}")

    def test_each_step_marches_on_the_cells_drawn_for_it(self):
        pde = ("--model.kind=pde", "--model.knots=2", "--mesh.cells=4", "--equation.kappa=0.05", "--train.epochs=1")
        few, drawn = (*IMAGES, *pde), "--train.cells=4,6,8"
        ways = {"four": (1, ()), "four_only": (1, ("--train.cells=4",)), "eight": (1, ("--mesh.cells=8",)), "eight_only": (1, ("--train.cells=8",)),
                "drawn": (1, (drawn,)), "groups": (3, (drawn,)), "stages": (2, (drawn, "--mesh.ranks_depth=2")),
                "tokens": (2, (drawn, "--mesh.ranks_token=2")), "other": (1, (drawn, "--run.seed=1", "--train.rate=1e-9")),
                "six": (1, ("--train.cells=6", "--train.rate=1e-9")), "still": (1, ("--train.cells=8", "--train.rate=1e-9")),
                "start": (1, ("--train.rate=1e-9",))}
        together([lambda n=name, r=ranks, m=more: self.train(*few, *m, f"--output.file={n}.h5", ranks=r) for name, (ranks, more) in ways.items()])
        self.assert_same_model("four.h5", "four_only.h5")
        self.assert_same_model("eight.h5", "eight_only.h5")
        loss = {name: self.open(name + ".h5")["training/loss"][...] for name in ways}
        for name in ("groups", "stages", "tokens"):
            np.testing.assert_allclose(loss[name], loss["drawn"], rtol=1e-9, err_msg=name)  # sums in another order, through 7 steps of Adam
        # With a rate of almost 0 each step shows the mesh that it was taken on: by 1e-9 a step in each weight.
        on = np.array([np.argmin([abs(loss["other"][k] - loss[name][k]) for name in ("start", "six", "still")]) for k in range(7)])
        for k, mesh in enumerate(on):
            self.assertAlmostEqual(loss["other"][k], loss[("start", "six", "still")[mesh]][k], delta=1e-6)
        self.assertGreater(len(set(on)), 1)

    def test_the_copy_that_was_best_on_validation_and_the_snapshots(self):
        self.train(*IMAGES, "--output.snapshots=2", "--train.epochs=5", "--train.rate=5e-2")
        names = sorted(name for name in os.listdir(self.folder) if name.startswith("out."))
        self.assertEqual(names, ["out.best.h5", "out.checkpoint.h5", "out.checkpoint.previous.h5", "out.epoch0.h5",
                                 "out.epoch2.h5", "out.epoch4.h5", "out.h5", "out.history.h5"])
        accuracy = self.open("out.h5")["training/validation_accuracy"][...]
        best = int(accuracy.argmax()) + 1  # the first of equals
        # The same training, with a snapshot after each epoch.
        self.train(*IMAGES, "--output.snapshots=1", "--train.epochs=5", "--train.rate=5e-2", "--output.file=each.h5")
        self.assert_same_model("out.best.h5", f"each.epoch{best}.h5")
        self.assert_same_model("out.h5", "each.epoch5.h5")
        self.assert_same_model("out.epoch2.h5", "each.epoch2.h5")
        # Epoch 0 is the start: the same weights as evolve draws from that seed.
        start = self.open("out.epoch0.h5")["model/layers/1/W_Q"][...]
        self.assertLess(np.abs(start).max(), math.sqrt(6 / 16))
        self.assertFalse(np.array_equal(start, self.open("out.h5")["model/layers/1/W_Q"][...]))
        # Continuing from a snapshot: the loss before the first step is that of its weights.
        self.train(*IMAGES, "--model.file=out.epoch4.h5", "--output.file=more.h5", "--train.epochs=1", "--train.rate=1e-9")
        self.assertAlmostEqual(self.open("more.h5")["training/test_loss"][0], self.open("out.h5")["training/test_loss"][3],
                               delta=1e-5)

    def test_distillation_draws_the_pde_to_its_teacher(self):
        self.train(*IMAGES, "--output.file=teacher.h5")
        pde = ("--model.kind=pde", "--mesh.cells=4", "--distill.teacher=teacher.h5", "--distill.hidden=1",
               "--distill.attention=0.5")
        self.train(*IMAGES, *pde, "--model.seed=2")
        course = self.open("out.h5")["training/depth_loss"][...]
        self.assertLess(course[-5:].mean(), 0.7 * course[:3].mean())
        # One cell per layer with the teacher's own weights: there is nothing left to match.
        self.train(*IMAGES, "--model.file=teacher.h5", "--distill.teacher=teacher.h5", "--distill.hidden=1",
                   "--distill.attention=1", "--output.file=twin.h5", "--train.epochs=1")
        self.assertLess(self.open("twin.h5")["training/depth_loss"][0], 1e-14)  # round-off of log
        for keys, parts in ((("--distill.hidden=1",), ["distill.hidden", "needs distill.teacher"]),
                            (("--distill.teacher=teacher.h5",), ["distill.hidden", "> 0"]),
                            (("--distill.teacher=missing.h5", "--distill.hidden=1"), ["missing.h5", "no such file"]),
                            (("--distill.teacher=teacher.h5", "--distill.hidden=1", "--model.width=16"), ["model.width"]),
                            (("--distill.teacher=teacher.h5", "--distill.hidden=1", "--mesh.layers=3"), ["mesh.layers"]),
                            (("--distill.teacher=out.h5", "--distill.hidden=1"), ["distill.teacher", "one set per layer"])):
            self.assert_refused(self.run_program("train", "train.ini", *IMAGES, *keys, "--output.file=no.h5"), *parts)


class OutputFile(TrainTest):
    def test_says_what_was_trained_how_and_how_it_went(self):
        self.train("--checkpoint.epochs=false", ranks=2)
        file = self.open("out.h5")
        about = file.attrs
        self.assertEqual((about["status"], about["experiment"], about["ranks"], about["seed"]), ("done", "train", 2, 1))
        self.assertIn("train.ini", about["command_line"])
        for line in ("[train]", "batch = 16", "optimiser = adamw", "label_smoothing = 0"):
            self.assertIn(line, about["settings"])
        training = file["training"].attrs
        self.assertEqual([training[name] for name in ("samples", "validation_samples", "test_samples")], [152, 8, 40])
        # Everything except kappa, alpha and rho.
        numbers = sum(array.size for array in self.arrays(file["model"]).values())
        self.assertEqual(training["trained_parameters"], numbers - 2 * 1 - 2)
        self.assertEqual(file["step"][...].tolist(), list(range(18)))
        self.assertEqual(file["epoch"][...].tolist(), [1, 2])
        rate = file["training/learning_rate"][...]
        self.assertEqual(rate.argmax(), 0)  # 5 % of 18 steps is less than one
        # Half a cosine from 1e-2 to 0.
        np.testing.assert_allclose(rate, 1e-2 * (1 + np.cos(np.pi * np.arange(18) / 18)) / 2, rtol=1e-12)
        for name in ("loss", "gradient_norm", "samples_per_second"):
            self.assertTrue((file["training/" + name][...] > 0).all(), name)
        self.assertFalse(file["training/depth_loss"][...].any())
        # The history has the same curves; no checkpoint was requested.
        with h5py.File(self.path("out.history.h5"), "r") as history:
            self.assertEqual(history.attrs["status"], "done")
            for name in file["training"]:
                np.testing.assert_array_equal(history["training/" + name][...], file["training/" + name][...], name)
        self.assertNotIn("out.checkpoint.h5", os.listdir(self.folder))
        # The output works as a deck that gives the same bits, and is not overwritten without
        # permission.
        self.assert_refused(self.run_program("train", "out.h5", ranks=2), "output.file", "out.h5", "output.overwrite")
        self.train("--output.file=again.h5", deck="out.h5", ranks=2)
        self.assert_same_training("out.h5", "again.h5")

    def test_the_history_can_be_read_while_the_training_goes_on(self):
        process = self.start("train", "train.ini", "--quiet", "--train.epochs=100000", "--train.test_samples=1")
        self.addCleanup(self.stop, process)
        self.assertTrue(self.wait_for("out.history.h5", process))
        self.wait_until(lambda: self.rows_of_history() > 0, process)
        before = self.rows_of_history()
        self.wait_until(lambda: self.rows_of_history() > before, process)  # flushed once a second
        self.assertNotIn("out.h5", os.listdir(self.folder))

    def rows_of_history(self):
        try:
            with h5py.File(self.path("out.history.h5"), "r", libver="latest", swmr=True) as file:
                rows = len(file["step"])
                self.assertEqual(file.attrs["status"], "running")
                self.assertTrue(np.isfinite(file["training/loss"][:rows]).all())
                self.assertEqual(file["step"][:rows].tolist(), list(range(rows)))
                return rows
        except OSError:
            return 0  # it has just been made


class Refusals(TrainTest):
    def test_mixed_precision_is_refused_where_the_processor_has_none(self):
        end = self.run_program("train", "--data.set=digits", "--quiet", "--run.precision=mixed", "--output.file=out.h5", ranks=2,
                               environment={"LIBXSMM_TARGET": "snb"})
        self.assert_refused(end, "run.precision = mixed", "avx512_bf16", "mixed_emulated")

    def test_values_are_named_with_what_is_allowed(self):
        adjoint = "--train.gradient=adjoint"
        cases = [
            (1, ["--train.epohs=3"], ["train.epohs", "did you mean train.epochs?"]),
            (1, ["--train.rate=0"], ["train.rate = 0", "> 0"]),
            (1, ["--train.optimiser=lion"], ["train.optimiser = lion", "sgd, adam, adamw"]),
            (2, ["--train.samples=60001"], ["train.samples = 60001", "digits has 60000 samples"]),
            (1, ["--train.test_samples=10001"], ["train.test_samples = 10001", "10000"]),
            (2, ["--train.batch=153"], ["train.batch = 153", "152 samples"]),
            (3, ["--train.batch=2"], ["train.batch = 2", "3 groups of ranks"]),
            (3, ["--mesh.ranks_token=2"], ["mesh.ranks_token = 2", "divide", "3"]),
            (2, ["--mesh.ranks_depth=3"], ["mesh.ranks_depth = 3", "mesh.ranks_token", "number of ranks, 2"]),
            (1, ["--mesh.tokens_x=5"], ["mesh.tokens_x = 5", "28"]),
            (1, ["--adjoint.method=4"], ["adjoint.method", "needs train.gradient = adjoint"]),
            (2, [adjoint, "--adjoint.method=cn", "--run.precision=mixed_emulated"], ["adjoint.method = cn", "mixed_emulated"]),
            (1, ["--adjoint.segment=4"], ["adjoint.segment", "train.gradient = adjoint"]),
            (1, [adjoint, "--adjoint.segment=4"], ["adjoint.segment", "adjoint.keep"]),
            (1, [adjoint, "--adjoint.theta=0.7"], ["adjoint.theta", "adjoint.method = theta"]),
            (2, [adjoint, "--adjoint.keep=disk", "--adjoint.folder=nowhere"], ["adjoint.folder", "nowhere"]),
            (1, [adjoint, "--adjoint.method=4", "--depth.norm=post"], ["depth.norm"]),
            (2, ["--equation.epsilon=0.1"], ["equation.epsilon", "march"]),
            (1, ["--equation.c=0"], ["equation.c"]),
            (1, ["--model.kind=pde", "--mesh.cells=8", "--train.cells=8,4", "--equation.kappa=1.2"], ["stable up to 1 ", "train.cells"]),
            (2, ["--model.kind=pde", "--mesh.cells=4", "--train.cells=6,7", "--mesh.ranks_depth=2"], ["train.cells: 7 cells", "mesh.ranks_depth = 2"]),
            (1, ["--train.cells=4,0"], ["train.cells", ">= 1"]),
            (1, ["--train.cells=2,3"], ["train.cells: mesh.cells = 3", "multiple"]),
            (1, ["--equation.kappa=0.6"], ["equation.kappa = 0.6", "stable up to 0.5", "mesh.cells"]),
            (1, ["--depth.scheme=upwind"], ["depth.scheme = upwind", "adjoint.method"]),
            (1, ["--mesh.cells=3"], ["mesh.cells = 3", "multiple"]),
            (1, ["--data.set=mnist", "--data.directory=nowhere"], ["data.directory = nowhere", "data.set = digits"]),
            (1, ["--output.file=nowhere/out.h5"], ["output.file", "folder nowhere"]),
            (1, ["--evolve.time=3"], ["evolve.time", "unknown key"]),
            (1, ["--checkpoint.restart=missing.h5"], ["missing.h5", "no such file"]),
        ]

        def work(ranks, arguments, parts):
            with self.subTest(arguments=arguments, ranks=ranks):
                self.assert_refused(self.run_program("train", "train.ini", *arguments, ranks=ranks), *parts)

        together([lambda c=case: work(*c) for case in cases])
        self.assertEqual([name for name in os.listdir(self.folder) if name.endswith(".h5")], [])


if __name__ == "__main__":
    unittest.main()
