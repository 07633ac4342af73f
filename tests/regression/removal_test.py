#!/usr/bin/env python3
"""removal: scores and losses as those of a model in numpy and of gates by complex steps, the same on any number of ranks, and clear refusals."""

import itertools
import os
import shutil
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from comparison import ALL, CompareTest, NAMES  # noqa: E402
from made_up_images import rows_of_test_images, write_mnist  # noqa: E402
from numpy_equation import Equation  # noqa: E402
from numpy_transformer import NumpyModel, cross_entropy, layer, logits_of, weights  # noqa: E402
from numpy_model import Model  # noqa: E402
from program import SEVERAL_RANKS, TRAIN_DECK, ranks_of_case, together  # noqa: E402
from published_case import ROOT, Case, save  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

from python_package import assert_picture, call  # noqa: E402

from fluxformer.depth.removal import table  # noqa: E402
from fluxformer.io import Run  # noqa: E402
from fluxformer.report.data import Comparison  # noqa: E402
from fluxformer.tokens import write_token_file  # noqa: E402

RULES = ("influence", "angle", "change", "dual", "dual_abs", "dual_mean", "taylor", "removal", "greedy", "deepest_first", "random")
QUICK = ("--samples.count=12", "--removal.calibration=8", "--samples.batch=3")


class Shortened:
    """A model in numpy whose cells can be left out."""

    def __init__(self, model, rows, labels, cells=1):
        self.whole = NumpyModel(model, rows, labels, cells)
        self.count = len(self.whole.states) - 1

    def last(self, kept):
        """The last state of a march through these cells, counted from 0."""
        u = self.whole.states[0]
        for cell in kept:
            u = self.whole.behind(cell, u)
        return u

    def slope(self, l, gate=1.0):
        """The slope of each sample's loss by a gate on what a layer adds, by a complex step."""
        u = self.whole.states[0]
        for cell in range(self.count):
            behind = self.whole.behind(cell, u)
            u = behind if cell != l else u + (gate + 1e-30j) * (behind - u)
        return cross_entropy(self.whole.model, u, self.whole.labels)[0].imag / 1e-30

    def sizes_of_slopes(self):
        """The sum over the weights of the last layer of the sizes of weight times slope, by complex steps."""
        number, total = self.count, 0.0
        whole = {name: array.astype(complex) for name, array in weights(self.whole.model, number).items()}
        for array in whole.values():
            for place in np.ndindex(array.shape):
                array[place] += 1e-30j
                u = layer(whole, self.whole.states[-2], self.whole.heads, "pre")
                slope = cross_entropy(self.whole.model, u, self.whole.labels)[0].mean().imag / 1e-30
                array[place] = array[place].real
                total += abs(array[place].real * slope)
        return total

    def loss(self, kept):
        return cross_entropy(self.whole.model, self.last(kept), self.whole.labels)[0].mean()

    def accuracy(self, kept):
        return np.mean(logits_of(self.whole.model, self.last(kept)).argmax(axis=1) == self.whole.labels)

    def distances(self):
        """influence, angle and change of all cells."""
        a, b = np.array(self.whole.states[:-1]), np.array(self.whole.states[1:])
        size = lambda x: np.sqrt((x**2).sum(-1))  # noqa: E731
        cosine = (a * b).sum(-1) / (size(a) * size(b))
        return np.array([one.mean(axis=(1, 2)) for one in (1 - cosine, np.arccos(cosine) / np.pi, size(b - a) / size(a))])

    def greedy(self):
        left, order = list(range(self.count)), []
        while left:
            losses = [self.loss([cell for cell in left if cell != gone]) for gone in left]
            order.append(left.pop(int(np.argmin(losses))) if len(left) > 1 else left.pop())
        return order


class Removal(CompareTest):
    def images(self, count, *models, cells=1, layers=4):
        """A Transformer of these layers on made-up images; returns keys that select it, rows and labels of the test images."""
        labels = write_mnist(self.path("data"), training=160, test=count)
        data = ("--data.set=mnist", "--data.directory=data", "--data.tokens=rows")
        self.write("train.ini", TRAIN_DECK.replace("test_samples = 40", f"test_samples = {count}"))
        end = self.run_program("train", "train.ini", "--quiet", *data, f"--mesh.layers={layers}", f"--mesh.cells={layers * cells}",
                               "--output.file=models/mnist.h5")
        self.assertEqual(end.code, 0, end)
        return (*data, "--models.transformer=models/mnist.h5", "--samples.batch=2", *models), rows_of_test_images(self.path("data")), labels

    def test_losses_scores_and_orders_are_those_of_a_model_in_numpy(self):
        keys, rows, labels = self.images(5, "--models.inherited=2", layers=3)
        found = self.compare("removal", "--samples.count=5", "--removal.calibration=0", models=keys)
        self.assertEqual(self.open("out.h5")["analysis/removal"].attrs["rule_names"].split(), list(RULES))
        with h5py.File(self.path("models/mnist.h5")) as file:
            for name, cells in (("transformer", 1), ("inherited", 2)):
                self.assert_those_of(Shortened(file["model"], rows, labels, cells), {
                    key.split("/")[1]: value[0] for key, value in found.items() if key.startswith(name)})

    def assert_those_of(self, model, found):
        count = model.count
        # Round-off of sums of a few hundred numbers; the arc cosine loses half of the digits of small angles.
        np.testing.assert_allclose(found["score"][:3], model.distances(), rtol=1e-9)
        everything = list(range(count))
        without = [model.loss([cell for cell in everything if cell != gone]) for gone in everything]
        np.testing.assert_allclose(found["score"][RULES.index("removal")], np.array(without) - model.loss(everything), rtol=0, atol=1e-12)
        subsets = {kept: model.loss(kept) for size in range(count + 1) for kept in itertools.combinations(everything, size)}
        best = [min((loss, kept) for kept, loss in subsets.items() if len(kept) == size) for size in range(count + 1)]
        np.testing.assert_allclose(found["best_loss"], [loss for loss, _ in best], rtol=1e-12)
        for size, (_, kept) in enumerate(best):
            np.testing.assert_array_equal(np.flatnonzero(found["best_layers"][size]), kept)
            self.assertAlmostEqual(found["best_accuracy"][size], model.accuracy(kept), delta=1e-14)
        for k, rule in enumerate(RULES):
            with self.subTest(rule=rule):
                if rule == "random":
                    self.assertTrue(np.isnan(found["removal_order"][k]).all())
                    losses = [np.mean([loss for kept, loss in subsets.items() if len(kept) == size]) for size in range(count + 1)]
                else:
                    order = np.argsort(found["removal_order"][k])  # the cell that goes first, second, ...
                    expected = {"deepest_first": everything[::-1], "greedy": model.greedy()}.get(rule, np.argsort(found["score"][k]))
                    np.testing.assert_array_equal(order, expected)
                    kept = [tuple(sorted(order[count - size:])) for size in range(count + 1)]
                    losses = [subsets[one] for one in kept]
                    np.testing.assert_allclose(found["accuracy"][k], [model.accuracy(one) for one in kept], rtol=1e-15)
                np.testing.assert_allclose(found["loss"][k], losses, rtol=1e-12)
                regret = np.mean([losses[size] - best[size][0] for size in range(1, count)])
                self.assertAlmostEqual(found["regret"][k], regret, delta=1e-12)

    def test_slopes_are_those_of_gates_by_complex_steps(self):
        keys, rows, labels = self.images(5, layers=3)
        found = self.compare("removal", "--samples.count=5", "--removal.calibration=0", models=keys)
        score = dict(zip(RULES, found["transformer/score"][0]))
        with h5py.File(self.path("models/mnist.h5")) as file:
            model = Shortened(file["model"], rows, labels)
            for l in range(3):
                slope = model.slope(l)
                self.assertAlmostEqual(score["dual"][l], -slope.mean(), delta=1e-13)
                self.assertAlmostEqual(score["dual_abs"][l], np.abs(slope).mean(), delta=1e-13)
                # Where the gate is 0, what follows is marched from the state in front of the layer: lambda of the march without it.
                self.assertAlmostEqual(score["dual_mean"][l], -(slope.mean() + model.slope(l, 0.0).mean()) / 2, delta=1e-13)
            self.assertAlmostEqual(score["taylor"][2], model.sizes_of_slopes(), delta=1e-12)

    def test_without_subsets_orders_have_the_same_losses(self):
        with_subsets = self.compare("removal", *QUICK)
        rules = [rule for rule in RULES if rule != "dual"]
        found = self.compare("removal", *QUICK, "--removal.rules=" + ",".join(rules), output="orders.h5")
        kept = [k for k, rule in enumerate(RULES) if rule in rules and rule != "random"]
        for name in NAMES:
            np.testing.assert_allclose(found[f"{name}/loss"][:, :-1], with_subsets[f"{name}/loss"][:, kept], rtol=0, atol=1e-12)
            np.testing.assert_allclose(found[f"{name}/accuracy"][:, :-1], with_subsets[f"{name}/accuracy"][:, kept], rtol=1e-12)
            self.assertTrue(np.isnan(found[f"{name}/regret"]).all())
            self.assertNotIn(f"{name}/best_loss", found)
            # The mean of 20 random orders: within 4 standard errors of that of all, whose spread is at most the range.
            mean, spread = with_subsets[f"{name}/loss"][:, -1], np.ptp(with_subsets[f"{name}/loss"], axis=1)
            np.testing.assert_array_less(np.abs(found[f"{name}/loss"][:, -1] - mean), 4 * spread / np.sqrt(20) + 1e-12)

    def test_scores_come_from_other_samples(self):
        keys, rows, labels = self.images(9, layers=2)
        found = self.compare("removal", "--samples.count=5", "--removal.calibration=4", models=keys)
        judged = self.open("out.h5")["sample"][...]
        scored = np.setdiff1d(np.arange(9), judged)
        with h5py.File(self.path("models/mnist.h5")) as file:
            of_scores, of_losses = (Shortened(file["model"], rows[one], labels[one]) for one in (scored, judged))
            np.testing.assert_allclose(found["transformer/score"][0, :3], of_scores.distances(), rtol=1e-9)
            np.testing.assert_allclose(found["transformer/loss"][0, 0, 2], of_losses.loss([0, 1]), rtol=1e-12)
            removal = of_scores.loss([1]) - of_scores.loss([0, 1])
            self.assertAlmostEqual(found["transformer/score"][0, RULES.index("removal"), 0], removal, delta=1e-12)

    def test_a_layer_of_several_cells_goes_as_a_whole(self):
        keys, _, _ = self.images(5, cells=2, layers=2)
        found = self.compare("removal", "--samples.count=5", "--removal.calibration=0", models=keys)
        self.assertEqual(found["transformer/score"].shape, (1, len(RULES), 2))

    def test_cells_of_unequal_length_are_those_of_a_model_in_numpy(self):
        labels = write_mnist(self.path("data"), training=160, test=5)
        data = ("--data.set=mnist", "--data.directory=data", "--data.tokens=rows")
        self.write("train.ini", TRAIN_DECK.replace("test_samples = 40", "test_samples = 5"))
        edges = [0, 0.3, 1, 1.4, 2]
        end = self.run_program("train", "train.ini", "--quiet", *data, "--model.kind=pde", "--model.knots=2", f"--mesh.edges={str(edges)[1:-1]}",
                               "--output.file=models/unequal.h5", ranks=2)
        self.assertEqual(end.code, 0, end)
        keys = (*data, "--models.independent=models/unequal.h5", "--models.seeds=1", "--samples.count=5")
        found = self.compare("removal", "--removal.rules=subsets,deepest_first", "--removal.calibration=0", models=keys, ranks=3)
        model = Equation.read(self.path("models/unequal.h5"))

        def loss(kept):
            u = model.embedded(rows_of_test_images(self.path("data")))
            for cell in kept:
                u = model.layer(model.weights(edges[cell]), u, edges[cell + 1] - edges[cell])
            z = model.read_out(u)
            return (np.log(np.exp(z).sum(axis=1)) - z[np.arange(5), labels]).mean()

        best = [min(loss(kept) for kept in itertools.combinations(range(4), size)) for size in range(5)]
        np.testing.assert_allclose(found["independent/best_loss"][0], best, rtol=1e-12)
        np.testing.assert_allclose(found["independent/loss"][0, 0], [loss(range(size)) for size in range(5)], rtol=1e-12)

    def test_says_the_same_on_any_number_of_ranks(self):
        alone = self.compare("removal", *QUICK)
        for ranks in SEVERAL_RANKS:
            with self.subTest(ranks=ranks):
                found = self.compare("removal", *QUICK, ranks=ranks, output=f"{ranks}.h5")
                self.assert_same_numbers(alone, found)
                for name in NAMES:
                    np.testing.assert_array_equal(found[f"{name}/removal_order"], alone[f"{name}/removal_order"])
                    np.testing.assert_array_equal(found[f"{name}/best_layers"], alone[f"{name}/best_layers"])

    def test_texts_with_padding_have_the_losses_of_refinement(self):
        text = self.train_text()
        found = self.compare("removal", "--removal.calibration=10", models=text)
        refined = self.compare("refinement", "--refinement.cells=1,2", "--refinement.goals=loss", models=text, output="refined.h5")
        for name in ("transformer", "inherited"):
            np.testing.assert_allclose(found[f"{name}/loss"][0, :, -1], refined[f"{name}/goal_value"][0, 0, 0], rtol=1e-12)
        self.assert_same_numbers(found, self.compare("removal", "--removal.calibration=10", models=text, ranks=3, output="3.h5"))

    def test_published_models_on_padded_texts_have_the_losses_of_a_model_in_numpy(self):
        labels = np.array([1, 2, 0])
        for name, kind in (("bert", "BertForSequenceClassification"), ("gpt2", "GPT2ForSequenceClassification")):  # post-norm; pre-norm, causal
            case = Case(name)
            segments = case["segments"].astype(int) if "segments" in case else None
            end = call("import", *save(self.folder, *case.published(kind)), "--output", self.path("model.h5"), "--overwrite")
            self.assertEqual((end.returncode, end.stderr), (0, ""))
            write_token_file(self.path("tokens.h5"), ids=case["ids"], lengths=case.lengths, segments=segments, labels=labels, overwrite=True)
            found = self.compare("removal", "--removal.calibration=0", "--samples.count=3", "--samples.batch=2", output=f"{name}.h5", models=(
                "--models.transformer=model.h5", "--data.set=tokens", "--data.file=tokens.h5", "--data.tokens=patches"))
            model = Model(self.path("model.h5"))
            subsets, rows = {}, [model.embed(case["ids"].astype(int), segments)]
            for kept in ((), (1,), (2,), (1, 2)):
                u = rows[0]
                for number in kept:
                    u, _ = model.layer(number, u, case.lengths)
                logits = model.classes(u, case.lengths)
                subsets[kept] = (np.log(np.exp(logits).sum(1)) - logits[np.arange(3), labels]).mean()
            for number in (1, 2):
                rows.append(model.layer(number, rows[-1], case.lengths)[0])
            for l in (1, 2):
                size = lambda x: np.sqrt((x**2).sum(-1))  # noqa: E731
                cosine = (rows[l] * rows[l - 1]).sum(-1) / size(rows[l]) / size(rows[l - 1])
                influence = np.mean([1 - cosine[b, :length].mean() for b, length in enumerate(case.lengths)])
                self.assertAlmostEqual(found["transformer/score"][0, 0, l - 1], influence, delta=1e-13)
                self.assertAlmostEqual(found["transformer/score"][0, RULES.index("removal"), l - 1], subsets[(3 - l,)] - subsets[1, 2], delta=1e-12)
            deepest = found["transformer/loss"][0, RULES.index("deepest_first")]
            np.testing.assert_allclose(deepest, [subsets[()], subsets[(1,)], subsets[1, 2]], rtol=1e-12)
            np.testing.assert_allclose(found["transformer/best_loss"][0], [subsets[()], min(subsets[(1,)], subsets[(2,)]), subsets[1, 2]], rtol=1e-12)

    def test_has_a_figure_and_a_table(self):
        self.compare("removal", *QUICK)
        self.compare("removal", *QUICK, "--removal.rules=influence", output="influence.h5")  # no subsets, and no regret
        for name in ("out.h5", "influence.h5"):
            end = call("plot", self.path(name), "--output", self.path("figures"))
            self.assertEqual(end.returncode, 0, end.stderr)
            assert_picture(self, self.path("figures/removal"))
            with Run(self.path(name)) as run:
                rows = table(Comparison([run]))
            self.assertEqual([row[0] for row in rows[1:]], ["Transformer", "PDE, independent", "PDE, distilled", "PDE, inherited"])
            self.assertIn("deepest first", rows[0])

    def test_masked_words_are_guessed_with_fewer_layers(self):
        text = ("--data.set=topics", "--data.vocabulary=500", "--data.classes=4", "--data.length=24")
        end = self.run_program("train", "--quiet", *text, "--train.objective=masked", "--mesh.layers=3", "--model.width=8", "--model.ffn=8",
                               "--attention.heads=2", "--train.samples=160", "--train.epochs=1", "--train.batch=16",
                               "--train.test_samples=10", "--output.file=models/words.h5")
        self.assertEqual(end.code, 0, end)
        models = (*text, "--models.transformer=models/words.h5", "--samples.count=30", "--samples.batch=4", "--removal.calibration=10")
        found = self.compare("removal", models=models)
        loss, best = found["transformer/loss"][0], found["transformer/best_loss"][0]
        self.assertTrue((loss >= best - 1e-12).all())
        # Cross entropy of words that are nearly guessed at random, log 500 = 6.2, and all layers do better than none.
        self.assertTrue(((loss > 4) & (loss < 7)).all(), loss)
        self.assert_same_numbers(found, self.compare("removal", models=models, ranks=3, output="3.h5"))
        fewer = self.compare("removal", "--train.masked=0.05", models=models, output="fewer.h5")
        self.assertGreater(np.abs(fewer["transformer/loss"] - found["transformer/loss"]).max(), 1e-6)

    def test_says_beforehand_how_much_it_will_do(self):
        end = self.run_program("removal", *ALL, *QUICK, "--validate")
        self.assertEqual(end.code, 0, end)
        # 4 cells: 4 maps, their derivatives, marches from behind each of them with theirs, and a greedy search by hand 19.
        self.assertIn(f"independent: 4 cells can go; {4 + 12 + 6 + 18 + 19} layer maps for each of 8 samples", end.out + end.err)
        self.assertIn("15 for each of 12 samples", end.out + end.err)

    def test_numbers_that_are_not_finite_end_it_with_what_made_them(self):
        # Squares of 1e200 are infinite, and so is the sum of the channels of a state of 1e308.
        for size, rules, part in ((1e200, "influence", "the score influence of layer 1 is not finite"),
                                  (1.7e308, "subsets", "the loss with the layers 1 is not finite"),
                                  (1.7e308, "greedy", "the loss with the layers 2 3 4 is not finite")):
            shutil.copy(self.path("models/independent_1.h5"), self.path("bad.h5"))
            with h5py.File(self.path("bad.h5"), "r+") as file:
                for knot in file["model/layers"].values():
                    knot["b_2"][...] = size
                    del knot["b_2"].attrs["digest"]
            end = self.run_program("removal", "--models.independent=bad.h5", "--data.tokens=rows", *QUICK, f"--removal.rules={rules}",
                                   "--output.file=no.h5", ranks=2)
            self.assert_refused(end, "independent, seed 1", part, code=3)

    def test_refuses_what_makes_no_sense(self):
        cases = [(["--removal.rules=size"], ["removal.rules", "influence, angle"]),
                 (["--removal.calibration=1000000"], ["removal.calibration", "besides those of samples.count"]),
                 (["--removal.random_orders=3"], ["removal.random_orders", "20"]),
                 (["--train.masked=0.2"], ["train.masked", "guesses masked words"])]
        together([lambda c=case, r=ranks: self.assert_refused(self.run_program("removal", *ALL, "--output.file=no.h5", *c[0], ranks=r), *c[1])
                  for number, case in enumerate(cases) for ranks in ranks_of_case(number)[-1:]])
        many = ("--models.transformer=models/transformer_1.h5", "--models.inherited=8", "--data.tokens=rows", *QUICK)
        end = self.run_program("removal", *many, "--removal.rules=subsets", "--output.file=no.h5")
        self.assert_refused(end, "removal.rules = subsets", "models.inherited has 16 cells", "up to 12")
        found = self.compare("removal", "--removal.rules=influence,random", models=many)  # by orders, then
        self.assertEqual(found["inherited/loss"].shape, (1, 3, 17))
        end = call("import", *save(self.folder, *Case("gpt2").published("GPT2Model")), "--output", self.path("models/headless.h5"))
        self.assertEqual(end.returncode, 0, end.stderr)
        end = self.run_program("removal", "--models.transformer=models/headless.h5", "--output.file=no.h5")
        self.assert_refused(end, "models.transformer", "no classes", "guesses no words")
        self.write("train.ini", TRAIN_DECK)
        end = self.run_program("train", "train.ini", "--quiet", "--mesh.layers=1", "--output.file=models/one.h5")
        self.assertEqual(end.code, 0, end)
        end = self.run_program("removal", "--models.transformer=models/one.h5", "--data.tokens=rows", *QUICK, "--output.file=no.h5")
        self.assert_refused(end, "models.transformer", "a single one of the layers")


if __name__ == "__main__":
    unittest.main()
