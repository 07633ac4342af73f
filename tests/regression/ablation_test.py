#!/usr/bin/env python3
"""The ablation trains its variants, measures their states, and records a diverged training as a result."""

import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from held_back import HeldBackTest  # noqa: E402
from made_up_images import rows_of_test_images, write_mnist  # noqa: E402
from numpy_transformer import logits_of, states  # noqa: E402
from program import SEVERAL_RANKS, ProgramTest, together  # noqa: E402

# Three layers of width 8 on the 28 rows of built-in digits: two epochs of nine steps.
DECK = """
[ablation]
seeds = 1, 2
[data]
tokens = rows
[mesh]
layers = 3
[equation]
kappa = 0.1
[attention]
heads = 2
[model]
knots = 2
width = 8
ffn = 12
[train]
samples = 160
test_samples = 40
epochs = 2
batch = 16
rate = 1e-2
[output]
file = out.h5
"""
STEPS, PER_EPOCH = 18, 9
VARIANTS = [f"{kind}_{norm}{residual}" for kind in ("transformer", "pde") for norm in ("none", "pre", "post")
            for residual in ("", "_no_residual")]
# The weights keep their initial values.
STILL = ("--train.rate=1e-30", "--train.coefficients=no")


class AblationTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("ablation.ini", DECK)

    def ablate(self, *arguments, ranks=1, output="out.h5", deck="ablation.ini"):
        """/analysis/ablation of a run that must succeed."""
        end = self.run_program("ablation", deck, "--quiet", *arguments, f"--output.file={output}", ranks=ranks)
        self.assertEqual(end.code, 0, end)
        return self.open(output)["analysis/ablation"]

    def of_the_deck(self):
        """/analysis/ablation of the deck as it is, on two ranks."""
        return self.open(self.once("deck.h5", lambda: self.ablate(ranks=2, output="deck.h5")))["analysis/ablation"]

    def train(self, *arguments, ranks=1):
        """A training with the deck's keys except those of the ablation."""
        self.write("train.ini", DECK[DECK.index("[data]"):])
        return self.run_program("train", "train.ini", "--quiet", "--output.file=trained.h5", "--output.overwrite=true",
                                *arguments, ranks=ranks)


class OutputFile(AblationTest):
    def test_holds_every_variant_of_every_seed(self):
        group = self.of_the_deck()
        file = group.file
        self.assertEqual((file.attrs["experiment"], file.attrs["status"]), ("ablation", "done"))
        self.assertEqual(file["seed"][...].tolist(), [1, 2])
        self.assertEqual(file["depth"][...].tolist(), [0, 1, 2, 3])
        self.assertEqual(file["step"][...].tolist(), list(range(STEPS)))
        self.assertEqual(sorted(group), sorted(VARIANTS))
        self.assertEqual(group.attrs["samples"], 40)
        self.assertAlmostEqual(group.attrs["loss_limit"], 10 * np.log(10), places=12)
        for name in VARIANTS:
            one = group[name]
            said = "_".join([one.attrs["kind"], one.attrs["norm"]]) + ("" if one.attrs["residual"] == "on" else "_no_residual")
            self.assertEqual(said, name)
            self.assertEqual(one.attrs["diverged"], 0)
            self.assertEqual(one["loss"].shape, (2, STEPS))
            self.assertTrue((one["loss"][...] > 0).all())
            self.assertTrue(np.isnan(one["diverged_epoch"][...]).all())
            for measure in ("norm", "drift", "step_change"):
                self.assertEqual(one[measure].shape, (2, 4))
                self.assertTrue(np.isfinite(one[measure][...]).all(), f"{name} {measure}")
            self.assertFalse(one["drift"][:, 0].any() or one["step_change"][:, 0].any())
            self.assertNotEqual(*one["loss"][:, -1])  # each seed has its own
        # Two knots for three layers: one layer's weights fewer, the rest is the same.
        self.assertLess(group["pde_pre"].attrs["parameters"], group["transformer_pre"].attrs["parameters"])

    def test_is_a_deck_that_gives_the_same_and_is_not_replaced_unasked(self):
        group = self.ablate("--ablation.norm=pre", "--ablation.seeds=3")
        self.assert_refused(self.run_program("ablation", "out.h5"), "output.file", "out.h5", "output.overwrite")
        again = self.ablate(output="again.h5", deck="out.h5")
        self.assertEqual(sorted(again), sorted(group))
        for name in group:
            np.testing.assert_array_equal(again[name]["loss"][...], group[name]["loss"][...])


class Trainings(AblationTest):
    def test_are_those_of_train_with_the_keys_of_the_variant(self):
        group = self.of_the_deck()
        for name, keys in (
                ("pde_post_no_residual", ("--model.kind=pde", "--depth.norm=post", "--depth.residual=false")),
                ("pde_none", ("--model.kind=pde", "--depth.norm=none")),
                # The Transformer has neither knots nor diffusion over tokens.
                ("transformer_pre", ("--model.kind=transformer", "--model.knots=0", "--equation.kappa=0"))):
            end = self.train(*keys, "--run.seed=2", "--model.seed=2", ranks=2)
            self.assertEqual(end.code, 0, end)
            file = self.open("trained.h5")
            np.testing.assert_array_equal(group[name]["loss"][1], file["training/loss"][...], err_msg=name)
            self.assertAlmostEqual(group[name]["test_accuracy"][1], file["training/test_accuracy"][-1], places=12)
            file.close()

    def test_say_the_same_on_any_number_of_ranks(self):
        """Round-off of the sums, amplified over a few steps; a long training amplifies it without bound."""
        few = ("--train.epochs=1", "--train.samples=64", "--ablation.seeds=1")
        alone = self.ablate(*few, output="1.h5")
        for ranks in SEVERAL_RANKS:
            shared = self.ablate(*few, ranks=ranks, output=f"{ranks}.h5")
            for name in VARIANTS:
                for measure in ("loss", "test_accuracy", "norm", "drift", "step_change"):
                    np.testing.assert_allclose(shared[name][measure][...], alone[name][measure][...], rtol=1e-10,
                                               err_msg=f"{name} {measure} on {ranks} ranks")


class States(AblationTest):
    def test_without_attention_and_reaction_a_layer_is_the_identity_or_nothing(self):
        group = self.ablate(*STILL, "--equation.alpha=0", "--equation.rho=0", "--equation.kappa=0")
        for kind in ("transformer", "pde"):
            for norm in ("none", "pre"):
                same, nothing = group[f"{kind}_{norm}"], group[f"{kind}_{norm}_no_residual"]
                np.testing.assert_allclose(same["norm"][...], same["norm"][:, :1] * np.ones(4), rtol=1e-14)
                for measure in ("drift", "step_change"):
                    np.testing.assert_allclose(same[measure][...], 0, atol=1e-14)
                self.assertTrue((nothing["norm"][:, 0] > 0).all())
                self.assertFalse(nothing["norm"][:, 1:].any())
                # The first layer removes the whole state; a state of norm 0 has cosine 0 with any other.
                np.testing.assert_allclose(nothing["step_change"][...], [[0, 1, 0, 0]] * 2, rtol=1e-14)
                np.testing.assert_allclose(nothing["drift"][...], [[0, 1, 1, 1]] * 2, rtol=1e-14)
            # Only the first LayerNorm acts; the next ones change a state of norm 1 by its eps, 1e-5 / variance.
            normed = group[f"{kind}_post"]
            self.assertGreater(normed["drift"][:, 1].min(), 0.01)
            np.testing.assert_allclose(normed["drift"][:, 2:], normed["drift"][:, 1:2] * np.ones(2), rtol=1e-3)
            np.testing.assert_allclose(normed["step_change"][:, 2:], 0, atol=1e-3)

    def test_behind_a_layer_norm_have_norm_one(self):
        group = self.ablate(*STILL)
        for name in VARIANTS:
            norm = group[name]["norm"][:, 1:]
            if "post" in name:  # sqrt(v / (v + 1e-5)) at a token of variance v, of order one
                np.testing.assert_allclose(norm, 1, atol=1e-3, err_msg=name)
            else:
                self.assertGreater(np.abs(norm - 1).min(), 1e-3, name)


class Samples(AblationTest):
    def test_are_those_of_a_model_in_numpy(self):
        """All test samples: the same for every seed, in the same order."""
        labels = write_mnist(self.path("data"), training=160, test=30)
        data = ("--data.set=mnist", "--data.directory=data", "--train.test_samples=0")
        group = self.ablate(*data, "--ablation.norm=pre, none", ranks=2)
        self.assertEqual(group.file["sample"][...].tolist(), list(range(30)))
        for one in group.values():
            self.assertEqual(one["drift_by_sample"].shape, (2, 30, 4))
            np.testing.assert_allclose(one["test_accuracy_by_sample"][...].mean(axis=1), one["test_accuracy"][...], rtol=1e-14)
            np.testing.assert_allclose(one["drift_by_sample"][...].mean(axis=1), one["drift"][...], rtol=1e-12)
            squares = one["norm_by_sample"][...]**2  # all images have 28 tokens
            np.testing.assert_allclose(np.sqrt(squares.mean(axis=1)), one["norm"][...], rtol=1e-12)
        end = self.train(*data, "--model.kind=transformer", "--model.knots=0", "--equation.kappa=0", "--depth.norm=pre",
                         "--run.seed=2", "--model.seed=2", ranks=2)
        self.assertEqual(end.code, 0, end)
        model, found = self.open("trained.h5")["model"], group["transformer_pre"]
        u = np.array(states(model, rows_of_test_images(self.path("data")))).reshape(4, 30, -1)
        length = np.linalg.norm(u, axis=2)
        right = np.argmax(logits_of(model, u[-1].reshape(30, 28, -1)), axis=1) == labels
        np.testing.assert_array_equal(found["test_accuracy_by_sample"][1], right)
        np.testing.assert_allclose(found["norm_by_sample"][1], (length / np.sqrt(28 * 8)).T, rtol=1e-10)
        np.testing.assert_allclose(found["drift_by_sample"][1], (1 - (u * u[0]).sum(axis=2) / (length * length[0])).T, atol=1e-10)

    def test_are_left_out_where_each_seed_draws_others(self):
        few = ("--ablation.norm=pre", "--ablation.models=transformer", "--ablation.residual=on")
        group = self.ablate(*few)
        self.assertNotIn("sample", group.file)
        self.assertFalse([name for name in group["transformer_pre"] if name.endswith("_by_sample")])
        alone = self.ablate(*few, "--ablation.seeds=2", output="alone.h5")
        self.assertEqual(alone["transformer_pre/drift_by_sample"].shape, (1, 40, 4))
        self.assertEqual(len(set(alone.file["sample"][...])), 40)


class Diverged(AblationTest):
    WILD = ("--ablation.models=transformer", "--ablation.residual=on", "--ablation.norm=none, post",
            "--train.optimiser=sgd", "--train.rate=1", "--train.clip=0", "--train.warm_up=0")

    def test_training_is_a_result_recorded_with_its_step(self):
        group = self.ablate(*self.WILD, ranks=2)
        one = group["transformer_none"]
        self.assertEqual(one.attrs["diverged"], 2)
        for seed in (0, 1):
            step = int(one["diverged_step"][seed])
            self.assertEqual(one["diverged_epoch"][seed], step // PER_EPOCH + 1)
            finite = np.isfinite(one["loss"][seed])
            self.assertEqual(finite.tolist(), [j < step for j in range(STEPS)])
            # The states are those of the last weights with a finite loss.
            self.assertTrue(np.isfinite(one["norm"][seed]).all())
        # `train` ends at the same step of the same training.
        step = int(one["diverged_step"][0])
        end = self.train("--depth.norm=none", "--model.knots=0", "--equation.kappa=0", *self.WILD[3:], ranks=2)
        self.assert_refused(end, f"step {step} of the training", "the loss is not finite", code=3)
        # The others continue.
        self.assertTrue(np.isfinite(group["transformer_post"]["loss"][...]).all())

    def test_is_what_stays_above_the_limit_for_most_of_each_epoch(self):
        group = self.ablate("--ablation.diverged=1", "--train.rate=1e-3", "--train.epochs=4")
        limit = group.attrs["loss_limit"]
        self.assertAlmostEqual(limit, np.log(10), places=12)
        found = set()
        for name in VARIANTS:
            count = 0
            for seed in (0, 1):
                losses = group[name]["loss"][seed].reshape(4, PER_EPOCH)
                bad = (losses > limit).sum(axis=1) > PER_EPOCH / 2
                first = next((epoch for epoch in range(4) if bad[epoch:].all()), None)
                found.add((first, bad[0]))
                epoch, step = group[name]["diverged_epoch"][seed], group[name]["diverged_step"][seed]
                self.assertTrue(np.isfinite(losses).all(), name)
                if first is None:
                    self.assertTrue(np.isnan(epoch) and np.isnan(step), name)
                    continue
                self.assertEqual((epoch, step), (first + 1, first * PER_EPOCH), name)
                count += 1
            self.assertEqual(group[name].attrs["diverged"], count)
        # All cases occurred: never above the limit, recovered from a bad start, always above it.
        self.assertLessEqual({(None, False), (None, True), (0, True)}, found)


class Ends(AblationTest, HeldBackTest):
    def test_what_cannot_run_is_refused(self):
        cases = [(("--depth.norm=pre",), ("depth.norm", "ablation.norm")),
                 (("--run.seed=3",), ("run.seed", "ablation.seeds")),
                 (("--model.kind=pde",), ("model.kind", "ablation.models")),
                 (("--model.file=out.h5",), ("model.file",)),
                 (("--mesh.cells=6",), ("mesh.cells", "one cell per layer")),
                 (("--equation.c=2",), ("equation.c", "one cell per layer")),
                 (("--equation.kappa=0.6",), ("equation.kappa = 0.6", "stable up to 0.5")),
                 (("--mesh.ranks_token=2",), ("mesh.ranks_token = 2",)),
                 (("--train.gradient=adjoint", "--adjoint.method=4"), ("adjoint.method = 4", "1fe")),
                 (("--ablation.norm=sphere",), ("ablation.norm", "sphere", "none, pre, post")),
                 (("--ablation.seeds=1, 1",), ("ablation.seeds", "duplicates")),
                 (("--ablation.residual=",), ("ablation.residual",)),
                 (("--train.batch=999",), ("train.batch = 999",)),
                 (("--output.file=nowhere/out.h5",), ("nowhere",))]

        def refuse(arguments, parts):
            with self.subTest(arguments=arguments):
                self.assert_refused(self.run_program("ablation", "ablation.ini", "--quiet", *arguments), *parts)

        together([lambda case=case: refuse(*case) for case in cases])

    def test_a_signal_or_the_time_limit_leaves_a_checkpoint_and_no_file(self):
        run = ("ablation", "ablation.ini", "--quiet", "--train.epochs=100000")
        for stop, why in ((lambda: self.stopped_at(("open", "out.h5.part"), signal.SIGTERM, *run), "signal 15"),
                          (lambda: self.run_program(*run, "--run.time_limit=1e-6", ranks=2), "run.time_limit")):
            end = stop()
            self.assertEqual(end.code, 4, end)
            self.assertIn(why, end.err)
            self.assertIn("after 0 of 24 trainings, within the next; continue with --checkpoint.restart=auto", end.err)
            self.assertFalse(os.path.exists(self.path("out.h5")))
            os.remove(self.path("out.checkpoint.h5"))

    def test_a_run_that_is_stopped_again_and_again_ends_with_the_bits_of_an_undisturbed_one(self):
        run = ("ablation", "ablation.ini", "--quiet", "--ablation.models=pde", "--ablation.norm=none,pre", "--ablation.residual=on",
               "--ablation.seeds=1,2", "--train.epochs=1", "--train.samples=64", "--checkpoint.restart=auto")
        whole = self.run_program(*run, "--output.file=whole.h5")
        self.assertEqual(whole.code, 0, whole)
        codes = []
        while not codes or (codes[-1] == 4 and len(codes) < 100):
            codes.append(self.run_program(*run, "--run.time_limit=1e-6").code)
        steps = len(self.open("whole.h5")["step"])
        self.assertGreater(steps, 1)  # stops within trainings, too
        self.assertEqual(codes, [4] * (4 * steps - 1) + [0])  # one step each, but for the last one
        self.assert_same_numbers_of_files("whole.h5", "out.h5")

    def test_a_kill_loses_an_epoch_at_most(self):
        run = ("ablation", "ablation.ini", "--quiet", "--ablation.models=pde", "--ablation.norm=none", "--ablation.residual=on", "--ablation.seeds=1,2",
               "--train.epochs=3", "--checkpoint.every=1000")
        whole = self.run_program(*run, "--output.file=whole.h5")
        self.assertEqual(whole.code, 0, whole)
        # Three checkpoints of each training; that of the second epoch of the second one is about to become the newest.
        self.killed_at(("rename", "out.checkpoint.h5", 5), *run)
        with h5py.File(self.path("out.checkpoint.previous.h5"), "r") as file:
            self.assertEqual((file["state"].attrs["points"], file["state"].attrs["steps"]), (1, PER_EPOCH))
        end = self.run_program(*run, "--checkpoint.restart=auto")
        self.assertEqual(end.code, 0, end)
        self.assertIn("after 1 trainings", end.err)
        self.assert_same_numbers_of_files("whole.h5", "out.h5")

    def test_a_checkpoint_of_other_samples_is_refused_whichever_seed_reads_them(self):
        write_mnist(self.path("data"), training=40, test=30)
        keys = ("--ablation.models=transformer", "--ablation.norm=pre", "--ablation.residual=on", "--data.set=mnist",
                "--data.directory=data", "--train.samples=40", "--train.test_samples=10", "--train.epochs=1")
        of_first, of_second = (set(self.ablate(*keys, f"--ablation.seeds={seed}", output=f"{seed}.h5").file["sample"][...])
                               for seed in (1, 2))
        run = ("ablation", "ablation.ini", "--quiet", *keys)
        self.assertEqual(self.run_program(*run, "--run.time_limit=1e-6").code, 4)
        with open(self.path("data/t10k-images-idx3-ubyte"), "r+b") as images:
            images.seek(16 + 28 * 28 * int(min(of_second - of_first)))
            images.write(bytes(28 * 28))
        self.assert_refused(self.run_program(*run, "--checkpoint.restart=auto", ranks=2), "out.checkpoint.h5", "data.set = mnist is no longer what")

    def assert_same_numbers_of_files(self, one, other):
        first, second = self.open(one)["analysis/ablation"], self.open(other)["analysis/ablation"]
        for variant in first:
            for name in set(first[variant]) - {"seconds"}:
                np.testing.assert_array_equal(first[f"{variant}/{name}"][...], second[f"{variant}/{name}"][...], err_msg=f"{variant}/{name}")


if __name__ == "__main__":
    unittest.main()
