#!/usr/bin/env python3
"""refinement: goals on finer depth cells as those of a model in numpy, indicators that add up, the same on any number of ranks, and clear
refusals."""

import os
import re
import shutil
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from comparison import ALL, CompareTest, NAMES  # noqa: E402
from made_up_images import rows_of_test_images, write_mnist  # noqa: E402
from numpy_equation import Equation, convergence  # noqa: E402
from numpy_model import Model  # noqa: E402
from numpy_transformer import NumpyModel  # noqa: E402
from program import SEVERAL_RANKS, TRAIN_DECK, ranks_of_case, together  # noqa: E402
from published_case import ROOT, Case, save  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

from python_package import call  # noqa: E402

from fluxformer.tokens import write_token_file  # noqa: E402

QUICK = ("--refinement.cells=1,2,4", "--samples.count=12")


class Refinement(CompareTest):
    def test_losses_on_finer_cells_are_those_of_a_model_in_numpy(self):
        labels = write_mnist(self.path("data"), training=160, test=5)
        data = ("--data.set=mnist", "--data.directory=data", "--data.tokens=rows")
        self.write("train.ini", TRAIN_DECK.replace("test_samples = 40", "test_samples = 5"))
        end = self.run_program("train", "train.ini", "--quiet", *data, "--output.file=models/mnist.h5")
        self.assertEqual(end.code, 0, end)
        found = self.compare("refinement", "--refinement.cells=1,2,4", "--refinement.goals=norm,loss", models=(
            *data, "--models.transformer=models/mnist.h5", "--models.inherited=2", "--samples.count=5", "--samples.batch=2"))
        drawn = self.open("out.h5")["sample"][...]
        with h5py.File(self.path("models/mnist.h5")) as file:
            for at, cells in enumerate((2, 4, 8)):  # per layer, of weights linear in depth
                model = NumpyModel(file["model"], rows_of_test_images(self.path("data")), labels, cells)
                loss, _ = model.loss_and_head_gradient()
                norm = np.mean(model.states[-1]**2, axis=(1, 2))
                # Round-off of sums of a few hundred numbers.
                np.testing.assert_allclose(found["inherited/goal_value"][0, :, at], (norm.mean(), loss), rtol=1e-12)
                np.testing.assert_allclose(found["inherited/goal_value_by_sample"][0, :, 0, at], norm[drawn], rtol=1e-12)
            model = NumpyModel(file["model"], rows_of_test_images(self.path("data")), labels, 1)
            self.assertAlmostEqual(found["transformer/goal_value"][0, 1, 0], model.loss_and_head_gradient()[0], delta=1e-12)

    def loss_in_numpy(self, path, edges, runge_kutta=False):
        """Of the five test images, between these edges, or on so many cells."""
        model = Equation.read(self.path(path))
        logits = model.logits(rows_of_test_images(self.path("data")), edges, model.runge_kutta if runge_kutta else None)
        shifted = logits - logits.max(axis=1, keepdims=True)
        return -(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))[np.arange(5), self.labels].mean()

    def test_cells_placed_by_indicators_are_used_by_every_program(self):
        self.labels = write_mnist(self.path("data"), training=160, test=5)
        data = ("--data.set=mnist", "--data.directory=data", "--data.tokens=rows")
        self.write("train.ini", TRAIN_DECK.replace("test_samples = 40", "test_samples = 5"))
        training = ("train.ini", "--quiet", *data, "--model.kind=pde", "--model.knots=2")
        end = self.run_program("train", *training, "--mesh.cells=4", "--output.file=models/equal.h5")
        self.assertEqual(end.code, 0, end)
        models = (*data, "--models.independent=models/equal.h5", "--samples.count=5", "--models.seeds=1")
        self.assert_states_are_those_of_numpy("models/equal.h5", models)
        self.assert_cells_follow_from_indicators(models)
        for adapt, ranks in (("bisect", 2), ("equidistribute", 3)):
            found = self.compare("refinement", "--refinement.cells=1,2,4", "--refinement.goals=loss", f"--refinement.adapt={adapt}",
                                 "--refinement.target=8", models=models, ranks=ranks, output=f"{adapt}.h5")
            with self.open(f"{adapt}.h5") as file:
                edges = file["mesh/edges"][...]
            np.testing.assert_array_equal(edges, found["independent/edges"][0])
            self.assertEqual(len(edges), 9)
            self.assertTrue((np.diff(edges) > 0).all() and edges[0] == 0 and edges[-1] == 2, edges)
            # Round-off of sums of a few hundred numbers.
            self.assertAlmostEqual(found["independent/adapted_value"][0, 0, 1], self.loss_in_numpy("models/equal.h5", edges), delta=1e-12)
            self.assertTrue(np.isnan(found["independent/adapted_value"][0, 0, 2]))
            if adapt == "bisect":
                self.assertEqual(set(np.diff(edges) * 8) - {4.0, 2.0, 1.0, 0.5, 0.25}, set())
                self.assertAlmostEqual(found["independent/adapted_value"][0, 0, 0], found["independent/goal_value"][0, 0, 0], delta=1e-14)
            self.assertGreater(np.ptp(np.diff(edges)), 1e-3)
        # Training, and evaluations of its model, on these cells.
        end = self.run_program("train", *training, "--mesh.edges=equidistribute.h5", "--output.file=models/unequal.h5", ranks=2)
        self.assertEqual(end.code, 0, end)
        with self.open("models/unequal.h5") as file:
            np.testing.assert_array_equal(file["model/edges"][...], edges)
            self.assertAlmostEqual(file["training/test_loss"][-1], self.loss_in_numpy("models/unequal.h5", edges), delta=1e-12)
        models = (*data, "--models.independent=models/unequal.h5", "--samples.count=5", "--models.seeds=1")
        found = self.compare("refinement", "--refinement.cells=1,2", "--refinement.goals=loss", models=models, output="u.h5")
        np.testing.assert_allclose(self.open("u.h5")["independent_depth"][...], edges, rtol=1e-15)
        halves = np.sort(np.concatenate([edges, (edges[1:] + edges[:-1]) / 2]))
        for place, cells in enumerate((edges, halves)):
            self.assertAlmostEqual(found["independent/goal_value"][0, 0, place], self.loss_in_numpy("models/unequal.h5", cells), delta=1e-12)
        end = self.run_program("evolve", *data, "--model.file=models/unequal.h5", "--inflow.source=data", "--inflow.samples=5", "--evolve.time=12",
                               "--evolve.cfl=1", "--output.file=evolve.h5", ranks=3)
        self.assertEqual(end.code, 0, end)
        with self.open("evolve.h5") as file:
            np.testing.assert_allclose(file["depth"][...], edges[1:], rtol=1e-15)
            drawn = file["sample"][...].astype(int)
            states = Equation.read(self.path("models/unequal.h5")).march(rows_of_test_images(self.path("data"))[drawn], edges)[1:]
            # After 2 S the steady state is reached but for what decays at the rate of the shortest cell.
            np.testing.assert_allclose(file["field/u"][-1].transpose(0, 2, 1, 3), states, rtol=0, atol=1e-6)
        cases = ((("--mesh.edges=models/equal.h5",), ("models/equal.h5", "the cells of its model are equal")),
                 (("--mesh.edges=no.h5",), ("mesh.edges = no.h5",)),
                 (("--mesh.edges=0 1 2",), ("commas separate depths",)),
                 (("--model.file=models/unequal.h5", "--train.cells=4,8"), ("train.cells", "those of model.file are not")),
                 (("--mesh.edges=0,1,2", "--mesh.cells=2"), ("leave mesh.cells out",)),
                 (("--mesh.edges=0,1",), ("not from 0 to 1",)),
                 (("--mesh.edges=0,0.5,2", "--train.cells=4,8"), ("train.cells", "leave mesh.edges out")),
                 (("--mesh.edges=0,0.5,2", "--model.kind=transformer", "--model.knots=0"), ("(mesh.edges) lack 1, where a layer ends",)))
        for number, (arguments, parts) in enumerate(cases):
            self.assert_refused(self.run_program("train", *training, *arguments, "--output.file=no.h5", ranks=ranks_of_case(number)[-1]), *parts)
        for arguments, part in ((("--depth.scheme=upwind",), "depth.scheme = shift"), (("--equation.epsilon=0.1",), "equation.epsilon = 0")):
            self.assert_refused(self.run_program("evolve", "--model.file=models/unequal.h5", *data, *arguments, "--output.file=no.h5"), part)
        self.assert_refused(self.run_program("refinement", *models, "--refinement.adapt=bisect", "--refinement.target=9", "--output.file=no.h5"),
                            "refinement.target = 9", "8, 16, 32, 64, 128")
        self.assert_refused(self.run_program("refinement", "--models.transformer=models/transformer_1.h5", "--data.tokens=rows",
                                             "--refinement.adapt=equidistribute", "--output.file=no.h5"), "equidistribute", "take bisect")

    def assert_states_are_those_of_numpy(self, path, models):
        """How far last states and logits move on finer cells, and how smooth the course of the states is."""
        found = self.compare("refinement", "--refinement.cells=1,2", "--refinement.goals=loss", models=models, output="states.h5")
        model, images = Equation.read(self.path(path)), rows_of_test_images(self.path("data"))
        u, finer = (model.march(images, cells).reshape(cells + 1, 5, -1) for cells in (4, 8))
        size = lambda x: np.linalg.norm(x, axis=-1)  # noqa: E731
        step = np.diff(u, axis=0)
        wanted = {"state_distance": (size(finer[-1] - u[-1]) / size(u[-1] - u[0])).mean(),
                  "logit_distance": (size(model.logits(images, 8) - model.logits(images, 4)) / size(model.logits(images, 4))).mean(),
                  "curvature": (size(step[1:] - step[:-1]) / (size(step[1:]) + size(step[:-1]))).mean(),
                  "cosine": ((step[1:] * step[:-1]).sum(axis=-1) / (size(step[1:]) * size(step[:-1]))).mean(),
                  "straightness": (size(u[-1] - u[0]) / size(step).sum(axis=0)).mean(),
                  "accuracy": (model.logits(images, 8).argmax(axis=1) == self.labels).mean()}
        for name, value in wanted.items():  # round-off of sums of a few hundred numbers
            self.assertAlmostEqual(found[f"independent/{name}"].flat[-1], value, delta=1e-12, msg=name)

    def assert_cells_follow_from_indicators(self, models):
        """Edges at equal integrals of the root of the density of the first goal; cells with half of the indicators in halves."""
        goals = ("--refinement.cells=1,2", "--refinement.goals=norm,loss")
        found = self.compare("refinement", *goals, "--refinement.adapt=equidistribute", "--refinement.target=4", models=models, output="placed.h5")
        size, edges = found["independent/indicator_abs"][0, 0], np.arange(5) / 2
        integral = np.append(0, np.cumsum(np.sqrt(size)))  # of sqrt(|eta| / h^2) over cells of length h
        wanted = np.interp(np.arange(5) * integral[-1] / 4, integral, edges)
        # Sizes have ten digits, and none of these is below 1e-3 of the largest.
        self.assertGreater(size.min(), 1e-3 * size.max())
        np.testing.assert_allclose(found["independent/edges"][0], wanted, rtol=0, atol=1e-6)
        self.assertGreater(np.abs(found["independent/edges"][0] - edges).max(), 1e-3)
        found = self.compare("refinement", *goals, "--refinement.adapt=bisect", "--refinement.target=8", "--output.overwrite=true", models=models, output="placed.h5")
        marked = np.argsort(-size)[:np.argmax(np.cumsum(-np.sort(-size)) >= 0.5 * size.sum()) + 1]
        edges = found["independent/edges"][0]
        for cell in marked:
            self.assertIn(cell / 2 + 0.25, edges)

    def test_a_model_is_refined_by_the_method_of_its_training(self):
        self.labels = write_mnist(self.path("data"), training=160, test=5)
        data = ("--data.set=mnist", "--data.directory=data", "--data.tokens=rows")
        self.write("train.ini", TRAIN_DECK.replace("test_samples = 40", "test_samples = 5"))
        end = self.run_program("train", "train.ini", "--quiet", *data, "--model.kind=pde", "--model.knots=2", "--mesh.cells=4",
                               "--train.gradient=adjoint", "--adjoint.method=4", "--output.file=models/rk.h5")
        self.assertEqual(end.code, 0, end)
        models = (*data, "--models.independent=models/rk.h5", "--samples.count=5", "--models.seeds=1")
        quick = ("--refinement.cells=1,2,4", "--refinement.goals=loss")
        found = self.compare("refinement", *quick, "--refinement.weights=exact", models=models, ranks=2)
        value = found["independent/goal_value"][0, 0]
        for cells, loss in zip((4, 8, 16), value):  # round-off of sums of a few hundred numbers
            self.assertAlmostEqual(loss, self.loss_in_numpy("models/rk.h5", cells, runge_kutta=True), delta=1e-12)
        self.assertAlmostEqual(found["independent/indicator"].sum(), value[0] - value[1], delta=1e-12)
        self.assertAlmostEqual(found["independent/estimate"][0, 0], (value[0] - value[1]) * 16 / 15, delta=1e-12)
        self.assertLess(abs(found["independent/order"][0, 0] - 4), 0.25)
        self.assertAlmostEqual(found["independent/limit"][0, 0], value[2] + (value[2] - value[1]) / 15, delta=1e-14)
        # |eta| is of order 5 in h: the least sum is at equal |eta|^(1/5).
        size = found["independent/indicator_abs"][0, 0]
        self.assertAlmostEqual(found["independent/gain"][0, 0], 4**4 * size.sum() / (size**0.2).sum()**5, delta=1e-9)
        self.assertEqual(self.open("out.h5")["analysis/refinement/independent"].attrs["method"], "4")
        off = {}
        for weights in ("coarse", "mean"):
            eta = self.compare("refinement", *quick, f"--refinement.weights={weights}", models=models, output=f"{weights}.h5")
            off[weights] = abs(eta["independent/indicator"].sum() / (value[0] - value[1]) - 1)
        # The fan has no remainder; that of `coarse` is of the order of the error of the march, a few per cent here, that of `mean` of its square.
        self.assertLess(off["coarse"], 0.1)
        self.assertLess(off["mean"], 0.2 * off["coarse"])
        self.assert_refused(self.run_program("removal", *models, "--output.file=no.h5"), "adjoint.method = 4", "layer map")
        # Methods whose steps share a stage, or solve systems; unequal cells; weights constant in each layer.
        for name, more in (("3bs", ("--model.kind=pde", "--model.knots=2", "--mesh.edges=0,0.3,1,1.4,2")), ("cn", ("--mesh.cells=8",))):
            end = self.run_program("train", "train.ini", "--quiet", *data, *more, "--train.gradient=adjoint", f"--adjoint.method={name}",
                                   "--train.epochs=1", f"--output.file=models/{name}.h5")
            self.assertEqual(end.code, 0, end)
            kind = "independent" if name == "3bs" else "transformer"
            these = (*data, f"--models.{kind}=models/{name}.h5", "--samples.count=5", "--models.seeds=1")
            one, three = (self.compare("refinement", "--refinement.cells=1,2,4", "--refinement.goals=norm,loss", "--refinement.weights=exact", models=these,
                                       ranks=ranks, output=f"{name}_{ranks}.h5") for ranks in (1, 3))
            self.assert_same_numbers(one, three)
            value = one[f"{kind}/goal_value"][0]
            # Newton's method ends at 1e-13 of its first residual.
            np.testing.assert_allclose(one[f"{kind}/indicator"][0].sum(axis=1), value[:, 0] - value[:, 1], rtol=0, atol=1e-11)
            np.testing.assert_array_equal(self.open(f"{name}_1.h5")["goal"][...], [4, 1])
        self.assert_refused(self.run_program("refinement", *these, "--models.inherited=1", "--output.file=no.h5"), "models.inherited", "adjoint.method = cn")
        self.assert_refused(self.run_program("refinement", *these, "--run.precision=mixed_emulated", "--output.file=no.h5"), "adjoint.method = cn", "run.precision")
        with h5py.File(self.path("models/cn.h5"), "r+") as file:
            file.attrs["settings"] = file.attrs["settings"].replace("method = cn", "method = unheard_of")
        self.assert_refused(self.run_program("refinement", *these, "--validate"), "models.transformer = models/cn.h5", "unheard_of")

    def test_published_models_on_padded_texts_have_the_loss_of_a_model_in_numpy(self):
        labels = np.array([1, 2, 0])
        for name, kind in (("gpt2", "GPT2ForSequenceClassification"), ("bert", "BertForSequenceClassification")):
            case = Case(name)
            end = call("import", *save(self.folder, *case.published(kind)), "--output", self.path("model.h5"), "--overwrite")
            self.assertEqual((end.returncode, end.stderr), (0, ""))
            segments = case["segments"].astype(int) if "segments" in case else None
            write_token_file(self.path("tokens.h5"), ids=case["ids"], lengths=case.lengths, segments=segments, labels=labels, overwrite=True)
            models = ("--models.transformer=model.h5", "--data.set=tokens", "--data.file=tokens.h5", "--samples.count=3", "--samples.batch=2")
            arguments = ("--refinement.cells=1,2", "--refinement.goals=loss,norm", "--refinement.weights=exact")
            if name == "bert":  # post-norm
                self.assert_refused(self.run_program("refinement", *models, *arguments, "--output.file=no.h5", ranks=2), "models.transformer", "no equation")
                continue
            found = self.compare("refinement", *arguments, models=(*models, "--models.inherited=1"), ranks=2, output=f"{name}.h5")
            model = Model(self.path("model.h5"))
            u = model.embed(case["ids"].astype(int), segments)
            for number in (1, 2):
                u, _ = model.layer(number, u, case.lengths)
            logits = model.classes(u, case.lengths)
            loss = (np.log(np.exp(logits).sum(1)) - logits[np.arange(3), labels]).mean()
            for kind_of_weights in ("transformer", "inherited"):  # the same at one cell a layer
                self.assertAlmostEqual(found[f"{kind_of_weights}/goal_value"][0, 0, 0], loss, delta=1e-12)
                change = found[f"{kind_of_weights}/goal_value"][..., 0] - found[f"{kind_of_weights}/goal_value"][..., 1]
                np.testing.assert_allclose(found[f"{kind_of_weights}/indicator"].sum(axis=2), change, rtol=0, atol=1e-12)
            self.assertGreater(np.abs(found["transformer/goal_value"][0, 0, 1] - found["inherited/goal_value"][0, 0, 1]), 1e-9)

    def test_masked_words_are_a_goal(self):
        text = ("--data.set=topics", "--data.vocabulary=500", "--data.classes=4", "--data.length=24")
        end = self.run_program("train", "--quiet", *text, "--train.objective=masked", "--mesh.layers=2", "--mesh.cells=4", "--model.width=8",
                               "--model.ffn=8", "--attention.heads=2", "--model.kind=pde", "--train.samples=160", "--train.epochs=1",
                               "--train.batch=16", "--train.test_samples=10", "--output.file=models/words.h5")
        self.assertEqual(end.code, 0, end)
        models = (*text, "--models.independent=models/words.h5", "--samples.count=10", "--samples.batch=4", "--models.seeds=1")
        found = self.compare("refinement", "--refinement.cells=1,2,4", "--refinement.goals=loss", "--refinement.weights=exact", models=models)
        # The whole model of another study, which takes the sum over all words of a batch.
        whole = self.compare("removal", "--removal.rules=deepest_first", "--removal.calibration=0", models=models, output="whole.h5")
        self.assertAlmostEqual(found["independent/goal_value"][0, 0, 0], whole["independent/loss"][0, 0, -1], delta=1e-12)
        self.assertAlmostEqual(found["independent/accuracy"][0, 0], whole["independent/accuracy"][0, 0, -1], delta=1e-12)
        change = found["independent/goal_value"][0, 0, 0] - found["independent/goal_value"][0, 0, 1]
        self.assertAlmostEqual(found["independent/indicator"].sum(), change, delta=1e-12)
        self.assert_same_numbers(found, self.compare("refinement", "--refinement.cells=1,2,4", "--refinement.goals=loss",
                                                     "--refinement.weights=exact", models=models, ranks=3, output="3.h5"))
        self.assert_refused(self.run_program("refinement", *models, "--refinement.goals=margin", "--output.file=no.h5"),
                            "refinement.goals = margin", "guesses words")

    def test_numbers_that_are_not_finite_end_it_with_the_cells_that_made_them(self):
        shutil.copy(self.path("models/independent_1.h5"), self.path("bad.h5"))
        with h5py.File(self.path("bad.h5"), "r+") as file:
            for knot in file["model/layers"].values():
                knot["b_2"][...] = 1.7e308
            for thing in (file["model"], *(one for knot in file["model/layers"].values() for one in knot.values())):
                thing.attrs.pop("digest", None)
        for adapt in ("none", "bisect"):
            end = self.run_program("refinement", "--models.independent=bad.h5", "--data.tokens=rows", *QUICK, f"--refinement.adapt={adapt}",
                                   "--output.file=no.h5", ranks=2)
            self.assertEqual(end.code, 3, end)
            self.assertIn("models.independent = bad.h5: the loss on 4 depth cells", end.err)

    def test_its_numbers_agree_with_each_other(self):
        found = self.compare("refinement", *QUICK, "--refinement.goals=loss,logit,margin,norm", "--refinement.weights=exact")
        file = self.open("out.h5")
        self.assertEqual(file["analysis/refinement"].attrs["goal_names"], "loss\nlogit\nmargin\nnorm\n")
        for name in NAMES:
            of = {key.split("/")[1]: value for key, value in found.items() if key.startswith(name)}
            value, change = of["goal_value"], of["goal_value"][..., 0] - of["goal_value"][..., 1]
            np.testing.assert_allclose(of["goal_value_by_sample"].mean(axis=1), value, rtol=1e-13)
            np.testing.assert_allclose(of["indicator"].sum(axis=2), change, rtol=0, atol=1e-12)  # the fan has no remainder
            np.testing.assert_allclose(of["change_effectivity"], 1, rtol=1e-12 / np.abs(change).min())
            np.testing.assert_allclose(of["estimate"], 2 * change, rtol=0, atol=1e-12)
            self.assertTrue((of["indicator_abs"] >= np.abs(of["indicator"]) - 1e-15).all())
            order, asymptotic, limit, seen, distance = convergence(value, order=1)
            limit = np.where(asymptotic, limit, np.nan)
            np.testing.assert_allclose(of["order"], order, rtol=1e-10)
            np.testing.assert_allclose(of["limit"], limit, rtol=1e-12)
            np.testing.assert_array_equal(of["asymptotic"], asymptotic)
            np.testing.assert_allclose(of["distance"], distance, rtol=1e-9)
            np.testing.assert_array_equal(of["within_tolerance"], np.where(seen >= 0.1, 0, np.where(distance < 0.1, 1, np.nan)))
            np.testing.assert_allclose(of["effectivity"], of["estimate"] / (value[..., 0] - limit), rtol=1e-9)
            each = of["indicator_by_sample"]
            np.testing.assert_allclose(each.mean(axis=1), of["indicator"], rtol=0, atol=1e-13)
            np.testing.assert_allclose(np.abs(each).mean(axis=1), of["indicator_abs"], rtol=0, atol=1e-13)
            change_by_sample = of["goal_value_by_sample"][..., 0] - of["goal_value_by_sample"][..., 1]
            np.testing.assert_allclose(each.sum(axis=3), change_by_sample, rtol=0, atol=1e-12)
            gain = of["indicator_abs"].shape[2] * of["indicator_abs"].sum(2) / np.sqrt(of["indicator_abs"]).sum(2)**2
            np.testing.assert_allclose(of["gain"], gain, rtol=1e-12)

    def test_weights_are_better_the_more_they_cost(self):
        error = {}
        for weights in ("coarse", "mean"):
            found = self.compare("refinement", *QUICK, "--refinement.goals=loss", f"--refinement.weights={weights}", output=f"{weights}.h5")
            error[weights] = np.mean([np.abs(found[f"{name}/change_effectivity"] - 1).mean() for name in ("independent", "inherited")])
        self.assertLess(error["mean"], 0.5 * error["coarse"])  # first and second order in h = 1/2

    def test_says_the_same_on_any_number_of_ranks(self):
        words = (*QUICK, "--samples.batch=3", "--refinement.adapt=bisect")
        alone = self.compare("refinement", *words)
        for ranks in SEVERAL_RANKS:
            with self.subTest(ranks=ranks):
                several = self.compare("refinement", *words, ranks=ranks, output=f"{ranks}.h5")
                self.assert_same_numbers(alone, several)
                for name in NAMES:
                    np.testing.assert_array_equal(alone[f"{name}/edges"], several[f"{name}/edges"])

    def test_a_converged_model_is_one_whose_training_says_so(self):
        models = ("--models.transformer=models/transformer_1.h5", "--models.converged=c.h5", "--data.tokens=rows")
        sentence = "loss of 7 samples 0.1 on the 4 cells of the training, and so on"
        for says, parts in (("no", ("models.converged = c.h5", "not known to be converged in depth", f"says: {sentence}")), (None, ("says nothing",))):
            self.copy_that_says(says, sentence)
            self.assert_refused(self.run_program("refinement", *models, *QUICK, "--output.file=no.h5", ranks=2), *parts)
        for changes, accepted in (({r"(\[train\][^[]*\ncells =) *\n": r"\1 4, 8\n"}, True), ({r"(\[train\][^[]*\ncells =) *\n": r"\1 8\n"}, False),
                                  ({"gradient = backprop": "gradient = adjoint", "method = 1fe": "method = 4"}, True)):
            self.copy_that_says("no", sentence)
            with h5py.File(self.path("c.h5"), "r+") as file:  # trained to be converged, or not, and it is not
                for pattern, change in changes.items():
                    file.attrs["settings"], count = re.subn(pattern, change, file.attrs["settings"])
                    self.assertEqual(count, 1, pattern)
            self.assertEqual(self.run_program("refinement", *models, *QUICK, "--validate").code, 0 if accepted else 2, changes)
        with h5py.File(self.path("c.h5"), "r+") as file:
            file.attrs["experiment"] = "evolve"
        self.assert_refused(self.run_program("refinement", *models, *QUICK, "--validate"), "models.converged = c.h5", "no training wrote it")
        self.copy_that_says("yes", sentence)
        end = self.run_program("refinement", *models, *QUICK, "--validate")
        self.assertEqual(end.code, 0, end)
        self.assertIn(f"converged: 2 layers on 4 depth cells", end.out + end.err)
        self.assertIn(f"\n  depth: {sentence}\n", end.out + end.err)
        self.assertIn("converged/goal_value", self.compare("refinement", *QUICK, models=models))
        end = self.run_program("evolve", "--model.file=c.h5", "--data.tokens=rows", "--validate")
        self.assertIn(f"depth, as its training found: {sentence}", end.out + end.err)

    def test_measurements_by_layer_refuse_cells_that_end_elsewhere(self):
        shutil.copy(self.path("models/independent_1.h5"), self.path("elsewhere.h5"))
        with h5py.File(self.path("elsewhere.h5"), "r+") as file:
            file["model/edges"] = [0, 0.25, 0.75, 1.5, 2]
        models = ("--models.transformer=models/transformer_1.h5", "--models.independent=elsewhere.h5", "--data.tokens=rows", "--samples.count=16")
        for experiment in ("attention", "information_flow", "gradient_flow"):
            self.assert_refused(self.run_program(experiment, *models, "--output.file=no.h5", ranks=2), "models.independent = elsewhere.h5", "lack 1")
        self.assertIn("independent/goal_value", self.compare("refinement", *QUICK, models=models[:-1]))

    def copy_that_says(self, converged, sentence):
        """c.h5: an independent model whose training says this of its convergence in depth (None: nothing)."""
        shutil.copy(self.path("models/independent_1.h5"), self.path("c.h5"))
        with h5py.File(self.path("c.h5"), "r+") as file:
            attributes = file["training"].attrs
            for name in [name for name in attributes if name.startswith("depth_")]:
                del attributes[name]
            if converged:
                attributes["depth_converged"], attributes["depth_report"] = converged, sentence

    def test_refuses_what_has_no_limit(self):
        cases = [(["--refinement.cells=1,3"], ["refinement.cells", "double"]),
                 (["--refinement.cells=2,4"], ["refinement.cells", "double"]),
                 (["--refinement.goals=accuracy"], ["refinement.goals", "loss, logit, margin, norm"]),
                 (["--refinement.cells=1,8192"], ["refinement.cells", "<= 4096"]),
                 (["--refinement.goals="], ["refinement.goals", "one goal"])]
        together([lambda c=case, r=ranks_of_case(number)[-1]: self.assert_refused(self.run_program("refinement", *ALL, "--output.file=no.h5", *c[0], ranks=r), *c[1])
                  for number, case in enumerate(cases)])
        with h5py.File(self.path("models/independent_2.h5"), "r+") as file:
            file["model"].attrs["cells"] = 6
        self.assert_refused(self.run_program("refinement", *ALL, "--output.file=no.h5"), "independent_2.h5: has 6 depth cells", "independent_1.h5 has 4")
        end = self.run_program("train", "--quiet", "--data.tokens=rows", "--mesh.layers=2", "--model.width=8", "--model.ffn=8", "--attention.heads=2",
                               "--model.kind=pde", "--depth.norm=sphere", "--train.samples=160", "--train.test_samples=40", "--train.epochs=1",
                               "--output.file=models/sphere.h5")
        self.assertEqual(end.code, 0, end)
        end = self.run_program("refinement", "--models.independent=models/sphere.h5", "--data.tokens=rows", "--output.file=no.h5")
        self.assert_refused(end, "models.independent", "depth.norm = sphere", "no equation")


if __name__ == "__main__":
    unittest.main()
