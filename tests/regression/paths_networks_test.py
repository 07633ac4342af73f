#!/usr/bin/env python3
"""`paths.task = one_shot`: networks that are trained, on any number of ranks and after interruptions; theory with their queries and keys; heads
that are silenced, against what the file itself tells; figures and claims; what is refused.
"""

import os
import shutil
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

import h5py  # noqa: E402 (the folders are put on the path first)
import numpy as np  # noqa: E402

from made_up_images import write_mnist  # noqa: E402
from program import ROOT, SEVERAL_RANKS, ProgramTest, ranks_of_case  # noqa: E402
from python_package import assert_picture, call  # noqa: E402

from fluxformer.paths import networks, paths  # noqa: E402
from fluxformer.report.claims import read_claims  # noqa: E402
from fluxformer.report.data import open_run, studies  # noqa: E402
from fluxformer.report.verdicts import weigh  # noqa: E402

CLAIMS = os.path.join(ROOT, "input", "paper", "paths", "claims.toml")
TASK = ("--paths.task=one_shot", "--paths.images=digits", "--paths.seeds=1,2")
TRAIN = ("paths_train", *TASK, "--paths.width=6", "--paths.heads=3", "--paths.key=4", "--paths.steps=7", "--paths.batch=12",
         "--paths.judge_every=3", "--paths.judged_examples=40", "--paths.rate=0.003")
SIZES = (*TASK, "--paths.examples=24", "--paths.test_examples=40", "--paths.widths=10,100", "--paths.temperatures=0.1,1")
THEORY = ("paths_theory", *SIZES)
PRUNE = ("paths_prune", *SIZES, "--paths.attention=network.h5", "--paths.random_orders=3")


def copy_changed(source, path, change):
    """A copy of an HDF5 file after `change` of it."""
    shutil.copyfile(source, path)
    with h5py.File(path, "r+") as file:
        change(file)


class NetworksTest(ProgramTest):
    def paths(self, *arguments, ranks=1, name="out.h5", code=0):
        end = self.run_program("--quiet", *arguments, f"--output.file={name}", "--output.overwrite=true", ranks=ranks)
        self.assertEqual(end.code, code, end)
        return self.measures(name) if code == 0 else end

    def measures(self, name):
        """By group and name, but for wall times."""
        groups = self.open(name)["analysis/paths"]
        return {(group, key): groups[group][key][...] for group in groups for key in groups[group] if key != "seconds"}

    def assert_draws(self, *files, pictures):
        done = call("plot", *(self.path(name) for name in files), "--output", self.path("drawn"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for name in pictures:
            assert_picture(self, os.path.join(self.path("drawn"), name))

    def train(self, *arguments, **named):
        if arguments or named:
            return self.paths(*TRAIN, *arguments, **{"name": "network.h5", **named})
        return self.measures(self.once("network.h5", lambda: self.paths(*TRAIN, name="network.h5")))


class Training(NetworksTest):
    def test_is_the_same_on_any_number_of_ranks_but_for_round_off(self):
        one = self.train()
        self.train("--paths.batch=2", "--paths.judged_examples=2", ranks=3)  # one has nothing to do
        for ranks in SEVERAL_RANKS:
            other = self.train(ranks=ranks)
            for name, values in one.items():
                if "accuracy" in name[1]:  # a sign may turn
                    self.assertLessEqual(np.abs(values - other[name]).max(), 2 / 40, name)
                else:  # sums of floats in another order, 7 steps, of a rate of 0.003: Adam makes them count where gradients are small
                    np.testing.assert_allclose(other[name], values, atol=1e-4, err_msg=f"{name}, {ranks} ranks")

    def test_is_the_same_after_interruptions(self):
        four = (*TRAIN, "--paths.steps=4")  # judged after the third and the last
        whole = self.paths(*four, name="whole.h5", ranks=2)
        codes = []
        for _ in range(20):
            end = self.run_program("--quiet", *four, "--checkpoint.restart=auto", "--run.time_limit=1e-6", "--checkpoint.every=0",
                                   "--output.file=network.h5", ranks=2)
            codes.append(end.code)
            if end.code == 0:
                break
        self.assertEqual(codes, [4] * 7 + [0])  # one step each, but for the last one
        for name, values in self.measures("network.h5").items():
            np.testing.assert_array_equal(whole[name], values, err_msg=str(name))

    def test_learns_and_keeps_the_best_weights(self):
        found = self.train("--paths.seeds=1", "--paths.steps=120", "--paths.batch=32", "--paths.width=16", "--paths.key=8", "--paths.judge_every=20",
                           "--paths.judged_examples=200", ranks=2)
        loss, validation = found["network", "loss"][0], found["network", "validation_loss"][0]
        self.assertLess(loss[-1], 0.9 * loss[0])
        self.assertEqual(found["network", "best_step"][0], 20 * (1 + validation.argmin()))
        self.assertEqual(found["network", "judged_accuracy"][0, 1], found["network", "validation_accuracy"][0, validation.argmin()])


class Theory(NetworksTest):
    def test_takes_random_or_trained_attention_and_all_sets_of_examples(self):
        self.train()
        random, trained = self.paths(*THEORY, "--paths.heads=3", "--paths.key=4"), self.paths(*THEORY, "--paths.attention=network.h5", ranks=2)
        for found in (random, trained):
            self.assertEqual(found["theory", "further_accuracy"].shape, (2, 2, 3, 2))
            self.assertEqual(found["theory", "order"].shape, (2, 2, 3, 2, 9, 9))
            self.assertTrue(np.isnan(found["theory", "good_weight"]).all())
            self.assertNotIn(("theory", "part_accuracy"), found)
            virial = found["theory", "virial"][:, :, :2]
            np.testing.assert_allclose(virial, np.broadcast_to(virial[..., :1], virial.shape), rtol=1e-6, atol=1e-6)  # at every minimum
        self.assertGreater(np.abs(random["theory", "mean"] - trained["theory", "mean"]).max(), 0.01)
        # One seed of it alone.
        alone = self.paths(*THEORY, "--paths.attention=network.h5", "--paths.seeds=2")
        for name, values in alone.items():
            np.testing.assert_array_equal(values[0], trained[name][1], err_msg=str(name))

    def test_figures(self):
        self.paths(*THEORY)
        self.assert_draws("out.h5", pictures=("paths-accuracy", "paths-sets", "paths-order", "paths-components", "paths-heads"))
        with open_run(self.path("out.h5")) as run:
            comparison = next(iter(studies([run]))).of("paths_theory")
            rows = paths.table(comparison)
            accuracy, further = run.analysis("paths/theory", "accuracy"), run.analysis("paths/theory", "further_accuracy")
        best = further[..., 0].argmax(axis=1)  # [seed, width]
        chosen = np.array([[accuracy[seed, best[seed, width], width] for width in range(3)] for seed in range(2)])
        self.assertEqual([row[0] for row in rows[1:3]], ["test", "test, T chosen on it"])
        for column in range(3):
            self.assertIn(f"{100 * chosen[:, column].mean():.3g}"[:4], rows[1][1 + column])
        self.assertTrue((accuracy.max(axis=1) >= chosen).all())


class Sweeps(NetworksTest):
    def test_a_network_that_was_trained_anew_is_not_mixed_with_the_old_one(self):
        self.train()
        start = (*THEORY, "--paths.attention=network.h5", "--checkpoint.restart=auto", "--run.time_limit=1e-6", "--checkpoint.every=0")
        self.paths(*start, code=4)
        self.paths(*start, ranks=2, code=4)  # the same network
        self.train("--paths.steps=8")
        for ranks in (1, 3):
            end = self.paths(*start, ranks=ranks, code=2)
            self.assertIn("paths.attention = network.h5 is no longer what", end.err)
        os.remove(self.path("out.checkpoint.h5"))
        os.remove(self.path("out.checkpoint.previous.h5"))
        self.paths(*start, code=4)


    def test_points_of_other_images_are_not_mixed(self):
        """Nor steps: the images of paths.foreign come from files here."""
        for number, folder in enumerate(("data", "other")):
            write_mnist(self.path(folder), training=20, test=60, seed=number)
        for name, run in (("training", TRAIN), ("theory", THEORY)):
            start = (*run, "--paths.foreign=mnist", "--checkpoint.restart=auto", "--run.time_limit=1e-6", "--checkpoint.every=0")
            self.paths(*start, "--data.directory=data", name=f"{name}.h5", code=4)
            for ranks in (1, 2):
                end = self.paths(*start, "--data.directory=other", name=f"{name}.h5", ranks=ranks, code=2)
                self.assertIn(f"{name}.checkpoint.h5: paths.foreign = mnist is no longer what", end.err)
            self.paths(*start, "--data.directory=data", name=f"{name}.h5", code=4)


class Pruning(NetworksTest):
    def test_is_that_of_the_network_in_the_orders_of_its_scores(self):
        trained = self.train()
        found = self.paths(*PRUNE, ranks=2)
        # The file does not ask for sizes of the network, which it read from another.
        again = self.paths("paths_prune", "out.h5", name="again.h5")
        for name, values in found.items():
            np.testing.assert_array_equal(again[name], values, err_msg=str(name))
        curves, scores = found["network", "pruned_accuracy"], found["network", "rule_score"]
        self.assertEqual((curves.shape, scores.shape), ((2, 7, 7), (2, 3, 2, 3)))
        # Without any loss: the network in floats on the same test examples, a sign of 40 apart at most.
        self.assertLessEqual(np.abs(curves[:, :, 0] - trained["network", "judged_accuracy"][:, :1]).max(), 1 / 40 + 1e-12)
        theory = found["theory", "head_score"][:, 0, 0]  # at the first temperature and the smallest width
        np.testing.assert_allclose(scores[:, 0], theory, rtol=1e-5)
        np.testing.assert_allclose(np.abs(scores).max(axis=(2, 3)), 1, rtol=1e-15)
        self.assertTrue((scores[:, 1] <= 0).all())  # less the entropy
        self.assertTrue((scores[:, 2] >= 0).all())
        # Orders that agree on the first head have lost the same.
        for seed in range(2):
            firsts = [scores[seed, rule].ravel() for rule in (0, 0, 1, 2)]
            heads = [int(firsts[0].argmin()), int(firsts[0].argmax()), int(firsts[2].argmin()), int(firsts[3].argmin())]
            for a in range(4):
                for b in range(4):
                    if heads[a] == heads[b]:
                        self.assertEqual(curves[seed, a, 1], curves[seed, b, 1])
        # A line ends where three heads of one layer are gone.
        for seed in range(2):
            rising = np.argsort(scores[seed, 0].ravel(), kind="stable") // 3
            gone = next(k for k in range(1, 7) if 3 in np.bincount(rising[:k]))
            self.assertTrue(np.isfinite(curves[seed, 0, :gone]).all())
            self.assertTrue(np.isnan(curves[seed, 0, gone:]).all())
        gains = np.nanmean(curves[:, :1, 1:4] - curves[:, :, 1:4], axis=-1)  # one to three of six heads, where both have a number
        np.testing.assert_allclose(found["network", "loss_by_theory"], np.nanmean(curves[:, 0, :1] - curves[:, 0, 1:4], axis=-1), atol=1e-15)
        for name, others in (("falling", [1]), ("entropy", [2]), ("first_order", [3]), ("random", [4, 5, 6])):
            np.testing.assert_allclose(found["network", "gain_over_" + name], gains[:, others].mean(axis=1), atol=1e-15)

    def test_is_the_network_without_the_values_of_the_head(self):
        self.train("--paths.seeds=1")
        found = self.paths(*PRUNE, "--paths.seeds=1")
        curves, scores = found["network", "pruned_accuracy"][0], found["network", "rule_score"][0, 0].ravel()
        first, second = np.argsort(scores, kind="stable")[:2]

        def close(file, heads):
            values = file["analysis/paths/network/values"]
            for layer in range(2):
                gone = [head % 3 for head in heads if head // 3 == layer]
                left = [head for head in range(3) if head not in gone]
                for head in left:
                    values[0, layer, head] *= np.sqrt(3 / len(left))
                for head in gone:
                    values[0, layer, head] = 0

        for count, heads in ((1, (first,)), (2, (first, second))):
            copy_changed(self.path("network.h5"), self.path(f"closed{count}.h5"), lambda file, heads=heads: close(file, heads))
            closed = self.paths(*PRUNE, "--paths.seeds=1", f"--paths.attention=closed{count}.h5")["network", "pruned_accuracy"][0]
            self.assertEqual(closed[0, 0], curves[0, count])  # queries and keys are the same, so that nothing else moves

    def test_a_head_without_values_is_worth_nothing_at_first_order(self):
        self.train("--paths.seeds=1")
        scores = self.paths(*PRUNE, "--paths.seeds=1")["network", "rule_score"][0, 2]

        def close(file):
            file["analysis/paths/network/values"][0, 1, 2] = 0  # head 3 of layer 2 adds nothing

        copy_changed(self.path("network.h5"), self.path("closed.h5"), close)
        closed = self.paths(*PRUNE, "--paths.seeds=1", "--paths.attention=closed.h5")["network", "rule_score"][0, 2]
        self.assertEqual(closed[1, 2], 0)
        self.assertGreater(scores[1, 2], 0)

    def test_figures_table_and_claims(self):
        self.train()
        self.paths(*PRUNE)
        self.assert_draws("network.h5", "out.h5", pictures=("paths-training", "paths-pruning"))
        rule, every = read_claims(CLAIMS)
        with open_run(self.path("out.h5")) as run:
            study = next(iter(studies([run])))
            found = {one.id: findings[0].outcomes[0].measured for one, findings in weigh(every, study, rule)}
            np.testing.assert_allclose(found["paths-prune-trained"], run.analysis("paths/network", "loss_by_theory"))
            np.testing.assert_allclose(found["paths-score-beats-chance"], run.analysis("paths/network", "gain_over_random"))
            rows = networks.pruning_table(study.of("paths_prune"))
        self.assertEqual(len(rows), 6)
        self.assertEqual(len(rows[0]), 8)


class Transformers(NetworksTest):
    PRUNE = ("--data.set=digits", "--models.transformer=model.h5", "--samples.count=60", "--pruning.examples=40", "--pruning.random_orders=2")

    def setUp(self):
        super().setUp()
        self.once("model.h5", self.train_transformer)

    def train_transformer(self):
        end = self.run_program("train", "--quiet", "--mesh.layers=2", "--model.width=12", "--model.ffn=16", "--attention.heads=3", "--train.samples=320",
                               "--train.test_samples=20", "--train.epochs=2", "--train.batch=16", "--train.rate=0.005", "--output.file=model.h5")
        self.assertEqual(end.code, 0, end)

    def prune(self, *arguments, ranks=1, name="pruning.h5", code=0):
        end = self.run_program("pruning", "--quiet", *self.PRUNE, *arguments, f"--output.file={name}", "--output.overwrite=true", ranks=ranks)
        self.assertEqual(end.code, code, end)
        if code:
            return end
        group = self.open(name)["analysis/pruning/transformer"]
        return {key: group[key][...] for key in group if key != "seconds"}

    def test_is_equal_on_any_number_of_ranks(self):
        one = self.prune()
        for ranks in SEVERAL_RANKS:
            for name, values in self.prune(ranks=ranks).items():
                np.testing.assert_allclose(values, one[name], rtol=1e-9, atol=1e-12, err_msg=f"{name}, {ranks} ranks")  # sums in another order

    def test_is_that_of_the_model_without_the_head(self):
        found = self.prune()
        curves, scores = found["pruned_accuracy"][0], found["rule_score"][0]
        self.assertEqual((curves.shape, scores.shape), ((6, 7), (3, 2, 3)))
        self.assertEqual(len(set(curves[:, 0])), 1)
        for order, rule, worst in ((0, 0, scores[0].argmin()), (1, 0, scores[0].argmax()), (2, 1, scores[1].argmin()), (3, 2, scores[2].argmin())):
            layer, head = divmod(int(worst), 3)

            def close(file, layer=layer, head=head):
                weights = file[f"model/layers/{layer + 1}/W_O"]
                weights[:, 4 * head:4 * head + 4] = 0
                del weights.attrs["digest"]

            copy_changed(self.path("model.h5"), self.path("without.h5"), close)
            without = self.prune("--models.transformer=without.h5", "--pruning.random_orders=0", name="other.h5")
            self.assertEqual(without["pruned_accuracy"][0, 0, 0], curves[order, 1], (order, rule))
            self.assertEqual(without["rule_score"][0, 2, layer, head], 0)  # nothing is lost at first order where nothing is added

    def test_figures_and_claims(self):
        self.prune()
        self.assert_draws("pruning.h5", pictures=("pruning-transformers",))
        rule, every = read_claims(CLAIMS)
        with open_run(self.path("pruning.h5")) as run:
            found = {one.id: findings[0].outcomes[0].measured for one, findings in weigh(every, next(iter(studies([run]))), rule)}
            np.testing.assert_allclose(found["pruning-score-beats-chance"], run.analysis("pruning/transformer", "gain_over_random"))

    def test_decks_run_and_what_cannot_be_is_refused(self):
        deck = os.path.join(ROOT, "input", "paths", "pruning.ini")
        self.prune(deck)
        for name in ("mnist", "20news"):
            self.prune(os.path.join(ROOT, "input", "paper", "paths", f"pruning_{name}.ini"), "--models.seeds=1", "--data.directory=")
        for arguments, parts in ((("--pruning.most_paths=8",), ("pruning.most_paths = 8", "9 attention paths")),
                                 (("--pruning.temperature=0",), ("pruning.temperature",)),
                                 (("--pruning.examples=100000",), ("pruning.examples",)),
                                 (("--models.transformer=nowhere.h5",), ("nowhere.h5",))):
            end = self.prune(*arguments, ranks=2, code=2)
            for part in parts:
                self.assertIn(part, end.err)


class Decks(NetworksTest):
    SMALL = ("--paths.images=digits", "--paths.foreign=digits", "--paths.seeds=1", "--data.directory=")

    def test_run_small(self):
        for folder in ("paths", "paper/paths"):
            def deck(name, folder=folder):
                return os.path.join(ROOT, "input", folder, name + ".ini")

            self.paths("paths_train", deck("one_shot_train"), *self.SMALL, "--paths.steps=2", "--paths.batch=8", "--paths.width=8", "--paths.key=4",
                       "--paths.judged_examples=10", name="network.h5", ranks=2)
            short = ("--paths.attention=network.h5", "--paths.examples=12", "--paths.test_examples=10", "--paths.widths=10", "--paths.temperatures=0.5")
            self.assertEqual(self.paths("paths_theory", deck("one_shot"), *self.SMALL, *short, "--paths.key=4")["theory", "mean"].shape, (1, 1, 2, 10))
            self.assertEqual(self.paths("paths_prune", deck("prune"), *self.SMALL, *short)["network", "pruned_accuracy"].shape, (1, 24, 9))


class Refusals(NetworksTest):
    def test_what_cannot_be_is_refused_with_the_key(self):
        self.train()

        def damage(file):
            del file["analysis/paths/network/values"]
            file["analysis/paths/network/values"] = np.zeros((2, 2, 3, 6, 5))

        copy_changed(self.path("network.h5"), self.path("other.h5"), damage)
        self.paths("paths_theory", "--paths.widths=10", "--paths.examples=10", "--paths.test_examples=10", name="theory.h5")
        cases = ((("paths_train", "--paths.task=markov"), ("paths.task = markov",)),
                 ((*THEORY, "--paths.attention=network.h5", "--paths.heads=8"), ("paths.heads = 8", "has 3")),
                 ((*THEORY, "--paths.attention=out.h5"), ("paths.attention = out.h5",)),
                 (("paths_prune", *TASK), ("paths_prune needs trained networks", "paths.attention")),
                 (("paths_prune", "--paths.task=markov"), ("paths.task = markov",)),
                 ((*THEORY, "--paths.attention=nowhere.h5"), ("paths.attention = nowhere.h5",)),
                 ((*THEORY, "--paths.attention=theory.h5"), ("theory.h5", "paths_train")),
                 ((*THEORY, "--paths.attention=other.h5"), ("other.h5", "values")),
                 ((*PRUNE, "--paths.seeds=1,3"), ("network.h5", "seed 3")),
                 ((*THEORY, "--paths.images=omniglot"), ("data.directory",)),
                 ((*THEORY, "--paths.foreign=mnist", "--data.directory=nowhere"), ("nowhere",)),
                 ((*THEORY, "--paths.steps=3"), ("paths.steps", "is a key of paths_train, not of paths_theory")),
                 ((*TRAIN, "--paths.rate=0"), ("paths.rate",)),
                 ((*TRAIN, "--paths.widths=10"), ("paths.widths", "not of paths_train")))
        for number, (arguments, parts) in enumerate(cases):
            for ranks in ranks_of_case(number):
                end = self.paths(*arguments, ranks=ranks, code=2)
                for part in parts:
                    self.assertIn(part, end.err, arguments)

    def test_a_training_that_diverges_is_told(self):
        end = self.paths(*TRAIN, "--paths.rate=1e30", ranks=2, code=3)
        self.assertIn("paths.rate", end.err)


if __name__ == "__main__":
    unittest.main()
