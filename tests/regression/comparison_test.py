#!/usr/bin/env python3
"""What all comparisons have in common, and three of them: every seed and model in one file, the same numbers on any
number of ranks, known answers, and clear refusals.
"""

import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from comparison import ALL, CompareTest, MODELS, NAMES, PDE, SEEDS  # noqa: E402
from described import names_of  # noqa: E402
from held_back import WHILE_MPI_STARTS, HeldBackTest  # noqa: E402
from program import FULL_TIER, SEVERAL_RANKS, TRAIN_DECK, ranks_of_case, together  # noqa: E402


class Frame(CompareTest, HeldBackTest):
    def test_every_experiment_says_the_same_on_any_number_of_ranks(self):
        for experiment, more in (("information_flow", ()), ("attention", ("--attention.matching=9",)),
                                 ("bottleneck", ("--bottleneck.epochs=0,2",))):
            alone = self.compare(experiment, *more, output=f"{experiment}1.h5")
            for ranks in SEVERAL_RANKS:
                with self.subTest(experiment=experiment, ranks=ranks):
                    shared = self.compare(experiment, *more, ranks=ranks, output=f"{experiment}{ranks}.h5")
                    self.assert_same_numbers(alone, shared)

    def test_more_ranks_than_samples(self):
        few = ("--samples.count=2", "--flow.examples=1")
        self.assert_same_numbers(self.compare("information_flow", *few),
                                 self.compare("information_flow", *few, ranks=3, output="three.h5"))

    def test_the_file_tells_what_was_compared(self):
        self.compare("information_flow")
        file = self.open("out.h5")
        self.assertEqual(file["seed"][...].tolist(), [1, 2])
        group = file["analysis/information_flow"]
        self.assertEqual(sorted(group), sorted(NAMES))
        self.assertEqual(group.attrs["samples"], 40)
        self.assertIn("distilled from transformer_1.h5", group["distilled"].attrs["trained"])
        self.assertEqual(group["independent"].attrs["files"],
                         "models/independent_1.h5\nmodels/independent_2.h5")
        self.assertIn("inherited", group["inherited"].attrs["trained"])
        for name, depths in (("transformer", 3), ("independent", 5), ("inherited", 5)):
            self.assertEqual(group[name]["norm"].shape, (2, depths))
            np.testing.assert_allclose(file[f"{name}_depth"][...], np.linspace(0, 2, depths))
        # Each seed has its own numbers, independent of which other seeds are present.
        self.assertNotEqual(*group["transformer"]["norm"][:, -1])
        second = self.compare("information_flow", "--models.seeds=2", output="second.h5")
        np.testing.assert_array_equal(second["transformer/norm"][0], group["transformer"]["norm"][1])

    def test_what_does_not_fit_is_refused_on_all_ranks(self):
        cases = [(("--models.transformer=",), ("models.transformer",)),
                 (("--models.transformer=models/none_{seed}.h5",), ("models/none_1.h5",)),
                 (("--models.transformer=models/transformer_1.h5",), ("models.transformer", "{seed}")),
                 (("--models.independent=models/distilled_{seed}.h5",), ("models.independent", "distilled")),
                 (("--models.distilled=models/independent_{seed}.h5",), ("models.distilled", "labels only")),
                 (("--models.independent=models/transformer_{seed}.h5",), ("models.independent", "transformer")),
                 (("--models.normed=models/distilled_{seed}.h5",), ("models.normed", "distilled")),
                 (("--models.normed=models/twin_{seed}.h5",), ("models.normed", "not independent", "model.seed")),
                 (("--models.seeds=1", "--models.normed=models/bare.h5"), ("models.normed", "models/bare.h5", "no normalisation")),
                 (("--models.seeds=1", "--models.distilled=models/distilled_2.h5"), ("distilled from", "transformer_2.h5")),
                 (("--models.seeds=1", "--models.independent=models/independent_2.h5"), ("different order", "run.seed")),
                 (("--models.independent=models/twin_{seed}.h5",), ("not independent", "model.seed")),
                 (("--models.seeds=1", "--models.transformer=models/quick.h5"), ("models/quick.h5", "equation.c")),
                 (("--models.seeds=1", "--models.transformer=models/halted.h5"), ("models/halted.h5", "interrupted")),
                 (("--models.seeds=1,1",), ("models.seeds", "duplicates")),
                 (("--models.seeds=",), ("models.seeds",)),
                 (("--models.sedes=1",), ("models.sedes", "models.seeds")),
                 (("--samples.count=99999",), ("samples.count", "99999")),
                 (("--data.tokens=patches",), ("data.tokens = patches", "models/transformer_1.h5", "rows")),
                 (("--data.length=30",), ("data.length: needs data.set = 20news, topics or tokens",)),
                 (("--output.file=nowhere/out.h5",), ("nowhere",))]

        self.write("train.ini", TRAIN_DECK)
        for name, code, more in (("twin_1", 0, ("--model.seed=1", *PDE)), ("twin_2", 0, ("--model.seed=2", "--run.seed=2", *PDE)),
                                 ("bare", 0, ("--model.seed=3", "--depth.norm=none", *PDE)), ("quick", 0, ("--equation.c=2",)), ("halted", 4, ("--run.time_limit=1e-6",))):
            end = self.run_program("train", "train.ini", "--quiet", *more, f"--output.file=models/{name}.h5")
            self.assertEqual(end.code, code, end)

        def refuse(case, ranks):
            arguments, parts = case
            known = [one for one in ALL if one.split("=")[0] not in {a.split("=")[0] for a in arguments}]
            end = self.run_program("attention", "--quiet", *known, "--attention.matching=9", *arguments, ranks=ranks)
            with self.subTest(arguments=arguments):
                self.assert_refused(end, *parts)

        together([lambda c=case, r=ranks_of_case(number)[-1]: refuse(c, r) for number, case in enumerate(cases)])
        self.compare("information_flow")
        self.assert_refused(self.run_program("information_flow", "--quiet", *ALL, "--output.file=out.h5"), "out.h5")

    def test_validate_says_what_would_be_compared(self):
        end = self.run_program("attention", *ALL, "--validate")
        self.assertEqual(end.code, 0, end)
        self.assertIn("distilled: 2 layers on 4 depth cells, 2 sets of weights", end.out)

    def test_a_signal_ends_it_without_a_file(self):
        end = self.stopped_at(WHILE_MPI_STARTS, signal.SIGTERM, "bottleneck", *ALL, "--output.file=out.h5")
        self.assertEqual(end.code, 4, end)
        self.assertIn("nothing was written", end.err)
        self.assertFalse(os.path.exists(self.path("out.h5")))


class Restart(CompareTest):
    # What makes an experiment quick, or measures more of it.
    MORE = {"attention": ("--attention.matching=9",), "bottleneck": ("--bottleneck.epochs=0,2",),
            "gradient_flow": ("--gradient.jacobian_samples=2", "--gradient.steps=5", "--gradient.epochs=1"),
            "perturbation": ("--perturbation.pgd_steps=2",)}

    def stopped(self, experiment, *arguments, ranks=1, done=1, of=8):
        """A run that ends after the next of so many models; whether it was the last one."""
        end = self.run_program(experiment, "--quiet", *ALL, *arguments, "--output.file=out.h5", "--checkpoint.restart=auto",
                               "--run.time_limit=1e-6", ranks=ranks)
        if end.code == 0:
            return True
        self.assertEqual(end.code, 4, end)
        self.assertIn(f"after {done} of {of} models; continue with --checkpoint.restart=auto", end.messages[-1])
        self.assertFalse(os.path.exists(self.path("out.h5")))
        return False

    def assert_same_bits_of(self, one, other):
        self.assertEqual(sorted(one), sorted(other))
        for name in one:
            if not name.endswith("seconds"):
                np.testing.assert_array_equal(one[name], other[name], err_msg=name)

    def test_a_comparison_that_is_stopped_after_every_model_has_the_bits_of_an_undisturbed_one(self):
        whole = self.compare("information_flow", ranks=2, output="whole.h5")
        done = 1
        while not self.stopped("information_flow", ranks=2, done=done):
            done += 1
        self.assertEqual(done, 8)
        self.assert_same_bits_of(whole, self.numbers("out.h5", "information_flow"))
        self.assertEqual(dict(self.open("whole.h5")["analysis/information_flow"].attrs), dict(self.open("out.h5")["analysis/information_flow"].attrs))

    def test_every_comparison_goes_on(self):
        for experiment in names_of("compare"):
            more, of = self.MORE.get(experiment, ()), 8
            if experiment != "attention" and not FULL_TIER:  # which compares the seeds with each other, too
                more, of = (*more, "--models.seeds=1"), 4
            with self.subTest(experiment=experiment):
                whole = self.compare(experiment, *more, output=f"{experiment}.h5")
                self.assertFalse(self.stopped(experiment, *more, of=of))
                found = self.compare(experiment, *more, "--checkpoint.restart=auto")
                self.assert_same_bits_of(whole, found)
                for name in os.listdir(self.folder):  # of a slow run also the checkpoint before
                    if name.startswith("out."):
                        os.remove(self.path(name))

    def test_on_another_number_of_ranks_it_differs_by_round_off(self):
        whole = self.compare("information_flow", output="whole.h5")
        self.assertFalse(self.stopped("information_flow"))
        self.assert_same_numbers(whole, self.compare("information_flow", "--checkpoint.restart=auto", ranks=3))

    def test_a_checkpoint_of_other_settings_or_models_is_refused(self):
        self.write("train.ini", TRAIN_DECK)
        run = ("information_flow", "--quiet", *MODELS, "--models.seeds=1", "--models.inherited=2", "--output.file=out.h5")
        self.assertEqual(self.run_program(*run, "--run.time_limit=1e-6").code, 4)
        self.assert_refused(self.run_program(*run), "checkpoint.restart", "out.checkpoint.h5")
        again = (*run, "--checkpoint.restart=auto")
        self.assert_refused(self.run_program(*again, "--samples.count=39"), "samples.count", "out.checkpoint.h5")
        is_another = "models.transformer = models/transformer_1.h5 is no longer what"
        with h5py.File(self.path("models/transformer_1.h5"), "r+") as file:  # the same weights in another map
            file["model"].attrs["norm_eps"] = 1e-4
        self.assert_refused(self.run_program(*again), "out.checkpoint.h5", is_another)
        end = self.run_program("train", "train.ini", "--quiet", "--run.seed=1", "--model.seed=7", "--output.file=models/transformer_1.h5",
                               "--output.overwrite=true")
        self.assertEqual(end.code, 0, end)
        for ranks in (1, 3):
            self.assert_refused(self.run_program(*again, ranks=ranks), "out.checkpoint.h5", is_another)


class KnownAnswers(CompareTest):
    ONE_CELL = MODELS + ("--models.inherited=1",)

    def test_a_transformer_inherited_with_one_cell_per_layer_is_itself(self):
        found = self.compare("attention", "--attention.matching=9", models=self.ONE_CELL)
        # Round-off of a few dozen operations on each row.
        np.testing.assert_allclose(found["inherited/cosine"], 1, atol=1e-13)
        np.testing.assert_allclose(found["inherited/kl"], 0, atol=1e-13)
        np.testing.assert_allclose(found["inherited/centred"], 1, atol=1e-13)
        flow = self.compare("information_flow", models=self.ONE_CELL, output="flow.h5")
        for one in flow["inherited/cka"]:
            np.testing.assert_allclose(np.diag(one), 1, atol=1e-10)  # 1e-16 |mean|^2 / variance
        for name in ("norm", "token_variance", "dirichlet_energy", "drift", "step_change", "correlation", "accuracy",
                     "example_norm"):
            np.testing.assert_array_equal(flow[f"inherited/{name}"], flow[f"transformer/{name}"], err_msg=name)

    def test_a_model_with_normalisation_is_measured_as_any_that_is_independent(self):
        both = (*MODELS, "--models.independent=models/independent_{seed}.h5", "--models.normed=models/independent_{seed}.h5")
        found = self.compare("attention", "--attention.matching=9", models=both)
        # Paired by their likeness, not all as they come: two heads in two layers for two seeds.
        self.assertTrue((found["normed/matched_head"] != [0, 1]).any())
        for name in found:
            if name.startswith("independent/") and not name.endswith("seconds"):
                # Sums over some hundred rows, whose order of addition depends on where the rows lie in memory.
                np.testing.assert_allclose(found[name.replace("independent", "normed")], found[name], rtol=1e-12, atol=1e-14, err_msg=name)

    def test_scores_are_means_over_their_samples(self):
        found = self.compare("attention", "--attention.matching=9")
        drawn = self.open("out.h5")["sample"][...].tolist()
        self.compare("information_flow", "--flow.examples=40", output="flow.h5")
        self.assertEqual(drawn, self.open("flow.h5")["example"][...].tolist())
        few = self.compare("attention", "--attention.matching=9", "--samples.count=1", "--samples.batch=1", output="one.h5")
        self.assertEqual(self.open("one.h5")["sample"][...].tolist(), drawn[:1])
        names = [name for name in found if name.endswith("_by_sample")]
        self.assertEqual(len(names), 5 * (3 * 4 + 1))
        for name in names:
            measure = name.removesuffix("_by_sample")
            self.assertEqual(found[name].shape, (2, 40))
            np.testing.assert_allclose(found[name].mean(axis=1), found[measure].mean(axis=1), rtol=1e-12, atol=1e-14, err_msg=name)
            # Heads were matched on other samples in that run, which are drawn next; those of related models are not matched.
            if not name.startswith("independent") and "ceiling" not in name:
                np.testing.assert_allclose(few[name][:, 0], found[name][:, 0], rtol=1e-10, atol=1e-13, err_msg=name)

    def test_the_ceiling_is_that_of_two_transformers(self):
        found = self.compare("attention", "--attention.matching=9", models=MODELS)
        # Two seeds are compared with each other in both orders: all scores but KL are symmetric, and so is the pairing of heads.
        for name in ("cosine", "js", "tv", "centred"):
            first, second = found[f"transformer/{name}_ceiling"]
            np.testing.assert_allclose(first, second, rtol=1e-10, err_msg=name)
        self.assertFalse(np.allclose(*found["transformer/kl_ceiling"], rtol=1e-6))
        self.assertTrue((found["transformer/cosine_ceiling"] < 1).all())
        flow = self.compare("information_flow", models=MODELS, output="flow.h5")["transformer/cka_ceiling"]
        np.testing.assert_allclose(flow[0], flow[1].T, rtol=1e-8)  # 1e-16 |mean|^2 / variance
        one = (f"--models.seeds={seed}" for seed in (1,))
        alone = self.compare("attention", "--attention.matching=9", *one, models=MODELS[1:], output="one.h5")
        self.assertNotIn("transformer/cosine_ceiling", alone)

    def test_the_untrained_model_has_the_coefficients_that_training_started_from(self):
        arguments = ("attention", "--attention.matching=9")
        before = self.compare(*arguments)["independent/cosine_untrained"]
        for seed in SEEDS:
            with h5py.File(self.path(f"models/independent_{seed}.h5"), "r+") as file:
                settings = file.attrs["settings"]
                self.assertIn("kappa = 0.05", settings)
                file.attrs["settings"] = settings.replace("kappa = 0.05", "kappa = 0.4")
        after = self.compare(*arguments, output="after.h5")["independent/cosine_untrained"]
        self.assertGreater(np.abs(after - before).max(), 1e-6)

    def test_scores_are_those_of_the_rows(self):
        """One sample and one head: the stored maps are exactly the scored rows."""
        for seed in (1, 2):
            for name, more in (("t", (f"--model.seed={seed}",)), ("p", (*PDE, f"--model.seed={seed + 10}"))):
                end = self.run_program("train", "--quiet", "--data.tokens=rows", "--mesh.layers=2", "--model.width=8",
                                       "--model.ffn=8", "--attention.heads=1", "--train.samples=160",
                                       "--train.epochs=2", "--train.batch=16", "--train.rate=1e-2",
                                       "--train.test_samples=10", *more,
                                       f"--output.file=models/{name}{seed}.h5")
                self.assertEqual(end.code, 0, end)
        found = self.compare("attention", "--models.seeds=1,2", "--models.transformer=models/t{seed}.h5",
                             "--models.independent=models/p{seed}.h5", "--samples.count=1", "--data.tokens=rows",
                             "--attention.matching=3", models=())
        t, p = found["transformer/map"], found["independent/map"]  # [seed, layer, query, key]

        def cosine(a, b):
            return (a * b).sum(-1) / np.sqrt((a * a).sum(-1) * (b * b).sum(-1))

        n = t.shape[-1]
        middle = (t + p) / 2
        expected = {
            "cosine": cosine(t, p), "centred": cosine(t - 1 / n, p - 1 / n), "kl": (t * np.log(t / p)).sum(-1),
            "js": ((t * np.log(t / middle)).sum(-1) + (p * np.log(p / middle)).sum(-1)) / 2,
            "tv": np.abs(t - p).sum(-1) / 2, "cosine_uniform": cosine(t, np.full_like(t, 1 / n)),
            "kl_uniform": (t * np.log(t * n)).sum(-1)}
        for name, rows in expected.items():
            np.testing.assert_allclose(found[f"independent/{name}"], rows.mean(-1), rtol=1e-10, atol=1e-13,
                                       err_msg=name)
            np.testing.assert_allclose(found[f"independent/{name}_by_sample"][:, 0], rows.mean((1, 2)), rtol=1e-10, atol=1e-13,
                                       err_msg=name)
        np.testing.assert_allclose(found["independent/entropy_transformer"][..., 0],
                                   (-t * np.log(t)).sum(-1).mean(-1) / np.log(n), rtol=1e-12)

    def test_states_and_attention_are_those_that_evolve_comes_to(self):
        """One sample; forward Euler at Courant number 1 reaches row i in i steps, through different code."""
        one = ("--samples.count=1", "--flow.examples=1", "--models.seeds=1")
        flow = self.compare("information_flow", *one, output="flow.h5")
        sample = int(self.open("flow.h5")["example"][0])
        attention = self.compare("attention", *one[::2], "--attention.matching=3", output="attention.h5")
        end = self.run_program("evolve", "--quiet", "--model.file=models/independent_1.h5", "--data.tokens=rows",
                               f"--inflow.first={sample}", "--data.split=test", "--evolve.method=euler", "--evolve.cfl=1",
                               "--evolve.time=2", "--output.attention=true", "--output.file=evolve.h5")
        self.assertEqual(end.code, 0, end)
        file = self.open("evolve.h5")
        u = file["field/u"][-1, :, :, 0, :].reshape(4, -1)  # after cells 1 .. 4, h = 1/2
        before, last = u[1], u[3]  # where layers end
        norms = np.sqrt((u**2).mean(axis=1))
        # Round-off of this and of the march to the same states.
        np.testing.assert_allclose(flow["independent/norm"][0, 1:], norms, rtol=1e-10)
        change = np.linalg.norm(last - before) / np.linalg.norm(before)
        np.testing.assert_allclose(flow["independent/step_change"][0, 2], change, rtol=1e-10)
        np.testing.assert_allclose(flow["independent/correlation"][0, 2], np.corrcoef(last, before)[0, 1], rtol=1e-10)
        rows = file["attention/weights"][:, 0].mean(axis=1)  # of each cell, over the heads
        np.testing.assert_allclose(attention["independent/map"][0], rows[[0, 2]], atol=1e-12)  # s = 0 and 1
        self.assertGreater(np.abs(rows[1] - rows[2]).max(), 1e-3)  # different cells would be noticed

    def test_the_untrained_model_is_another_one(self):
        found = self.compare("attention", "--attention.matching=9", "--run.seed=0")
        for name in ("independent", "distilled", "inherited"):
            self.assertTrue((found[f"{name}/centred_untrained"] < 0.9).all(), name)
            self.assertTrue((found[f"{name}/centred_untrained"] != found[f"{name}/centred"]).all(), name)

    def test_rows_of_linear_attention_are_not_taken_for_probabilities(self):
        end = self.run_program("train", "--quiet", "--data.tokens=rows", "--mesh.layers=2", "--model.width=8", "--model.ffn=8",
                               "--attention.heads=2", "--attention.normalisation=linear", "--train.samples=32", "--train.batch=16",
                               "--train.epochs=1", "--train.test_samples=10", "--output.file=models/linear.h5")
        self.assertEqual(end.code, 0, end)
        end = self.run_program("attention", "--models.transformer=models/linear.h5", "--data.tokens=rows", "--samples.count=4",
                               "--output.file=unwanted.h5")
        self.assert_refused(end, "models.transformer", "attention.normalisation = linear")
        for name, more in (("plain.h5", ()), ("linear.h5", ("--model.file=models/linear.h5", "--data.tokens=rows"))):
            end = self.run_program("evolve", "--quiet", *(more or ("--model.file=models/independent_1.h5", "--data.tokens=rows")),
                                   "--evolve.time=2", "--output.attention=true", f"--output.file={name}")
            self.assertEqual(end.code, 0, end)
        self.assertIn("analysis/evolve/attention_entropy", self.open("plain.h5"))
        stored = self.open("linear.h5")
        self.assertNotIn("analysis/evolve/attention_entropy", stored)
        self.assertLess(stored["attention/weights"][...].min(), 0)

    def test_labels_stand_with_their_samples(self):
        """States of trained models contain more information on the label than on that of another sample."""
        end = self.run_program("train", "--quiet", "--data.tokens=rows", "--mesh.layers=2", "--model.width=16",
                               "--model.ffn=16", "--attention.heads=2", "--train.samples=1600", "--train.epochs=4",
                               "--train.rate=1e-2", "--train.test_samples=10", "--output.file=models/better.h5")
        self.assertEqual(end.code, 0, end)
        found = self.compare("bottleneck", "--models.transformer=models/better.h5", "--samples.count=300",
                             "--data.tokens=rows", models=())
        # For uninformative labels the nearest-neighbour estimate scatters around 0 by about
        # 1/sqrt(300).
        self.assertGreater(found["transformer/label_ksg"][0, -1], 0.3)

    def test_texts_of_different_lengths(self):
        models = self.train_text()
        found = {experiment: self.compare(experiment, models=models, output=f"{experiment}.h5")
                 for experiment in ("information_flow", "attention", "bottleneck")}
        for numbers in found.values():
            for name, values in numbers.items():
                if not name.endswith("example_norm"):  # NaN marks padding
                    self.assertTrue(np.isfinite(values).all(), name)
        self.assertTrue(np.isnan(found["information_flow"]["transformer/example_norm"]).any())
        np.testing.assert_array_equal(found["attention"]["inherited/scored_samples"], 30)

    def test_information_stays_within_its_bounds(self):
        found = self.compare("bottleneck", "--bottleneck.epochs=0,2", "--samples.count=120")
        group = self.open("out.h5")["analysis/bottleneck"]
        self.assertAlmostEqual(group.attrs["ceiling"], np.log(120))
        entropy = group.attrs["label_entropy"]
        for name in NAMES:
            for part in ("input", "label"):
                low, middle, high = (found[f"{name}/{part}_kde{end}"] for end in ("_lower", "", "_upper"))
                self.assertTrue((low <= middle + 1e-12).all() and (middle <= high + 1e-12).all())
            self.assertTrue((found[f"{name}/input_binning"] <= np.log(120) + 1e-12).all())
            self.assertTrue((found[f"{name}/label_binning"] <= entropy + 1e-12).all())
            self.assertTrue((found[f"{name}/sigma"] > 0).all())
            # The snapshot after the last epoch is the trained model.
            for measure in ("input_kde", "label_ksg", "input_gaussian"):
                np.testing.assert_allclose(found[f"{name}/epoch_{measure}"][:, 1], found[f"{name}/{measure}"], rtol=1e-13)
                self.assertTrue((found[f"{name}/epoch_{measure}"][:, 0] != found[f"{name}/{measure}"]).any())


if __name__ == "__main__":
    unittest.main()
