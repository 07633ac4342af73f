#!/usr/bin/env python3
"""Verdicts of the report: effects of claims, what test samples add, several claims, levels, controls. Uses synthetic files.

The rule itself is tested in python_statistics_test.py. Status 77 if matplotlib, h5py or scipy is not installed.
"""

import os
import sys
import unittest

try:
    import h5py
    import numpy as np
    import matplotlib  # noqa: F401 (what the report needs)
    from scipy import stats
except ImportError as failure:
    print(f"NOT RUN: {failure}", file=sys.stderr)
    sys.exit(77)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

import comparison_sample as sample  # noqa: E402 (its folder is put on the path first)
from python_package import FolderTest  # noqa: E402

from fluxformer.report import reductions  # noqa: E402
from fluxformer.compare.attention import place_between  # noqa: E402
from fluxformer.report.claims import Claim, Rule  # noqa: E402
from fluxformer.report.data import Study, mean_and_spread, open_run  # noqa: E402
from fluxformer.report.verdicts import weigh  # noqa: E402
from fluxformer.report.wording import brief, detail_rows, effect_text, in_short  # noqa: E402
from fluxformer.judging import Verdict  # noqa: E402
from fluxformer.statistics import Effect, shared_variance  # noqa: E402

RULE = Rule(0.05, {"digits": 10, "mnist": 6})
ATTENTION = {"experiment": "attention", "quantity": ["cosine"], "test": "value", "expected": 0.987, "tolerance": 0.01}
AT_CEILING = {"experiment": "attention", "quantity": ["cosine"], "test": "larger", "than": ["ceiling"], "delta": 0.05}
DISPARITY = {"experiment": "gradient_flow", "quantity": ["disparity"]}
FALLS = {"experiment": "bottleneck", "quantity": ["input_binning", "input_kde"], "reduce": "fall", "test": "larger", "than": ["zero", "untrained"],
         "both": True}
NOISE = {"experiment": "perturbation", "quantity": ["noise_accuracy"], "start": "accuracy", "levels": "noise_level", "test": "smaller",
         "reduce": "area", "samples": "mean"}


def claim(**entries):
    return Claim(**{"id": "a", "sentence": "b", "source": "c", **entries})


class ClaimTest(FolderTest):
    def study(self, *paths):
        runs = [open_run(path) for path in paths]
        for run in runs:
            self.addCleanup(run.close)
        return Study(("digits", "patches"), runs)

    def made(self, write, **how):
        """A synthetic file; with several seeds unless told."""
        path = self.path("made_up.h5")
        write(path, **how)
        return path

    def findings(self, one, path):
        """The findings of a claim on a file, by model."""
        with open_run(path) as run:
            weighed = weigh([one], Study(("digits", "patches"), [run]), RULE)
        return {finding.model: finding for _, findings in weighed for finding in findings}

    def verdicts(self, one, write, **how):
        return {model: finding.verdict for model, finding in self.findings(one, self.made(write, **how)).items()}

    def alone(self, path, experiment):
        """Leaves out the models that a test does not set."""
        with h5py.File(path, "r+") as file:
            for model in ("distilled", "inherited"):
                del file[f"analysis/{experiment}/{model}"]

    def change(self, path, **datasets):
        with h5py.File(path, "r+") as file:
            for name, values in datasets.items():
                if (place := name.replace("__", "/")) in file:
                    del file[place]
                file[place] = values


class AgainstAValue(ClaimTest):
    def test_the_interval_decides(self):
        for score, spread, verdict in ((0.99, 1e-4, Verdict.HOLDS), (0.9, 1e-3, Verdict.MISSED), (0.99, 0.05, Verdict.UNDECIDED)):
            verdicts = self.verdicts(claim(**ATTENTION), sample.write_attention, score=score, spread=spread)
            self.assertEqual(set(verdicts.values()), {verdict}, score)

    def test_what_was_asked_for_or_constructed_is_said(self):
        findings = self.findings(claim(**ATTENTION), self.made(sample.write_attention, score=0.99, spread=1e-4))
        self.assertEqual({model: one.words for model, one in findings.items()},
                         {"independent": "holds", "distilled": "holds, as fitted", "inherited": "holds, as constructed"})

    def test_few_seeds_are_preliminary(self):
        one = claim(**ATTENTION)
        self.assertTrue(self.findings(one, self.made(sample.write_attention))["independent"].preliminary)
        many = self.made(sample.write_attention, seeds=tuple(range(1, 11)))
        self.assertFalse(self.findings(one, many)["independent"].preliminary)
        with h5py.File(many, "r+") as file:
            file["analysis/attention/independent/cosine"][3] = np.nan  # nine are left
        self.assertTrue(self.findings(one, many)["independent"].preliminary)
        self.assertEqual([RULE.needed(name) for name in ("mnist", "digits", "another")], [6, 10, 10])

    def test_the_test_samples_count(self):
        random = np.random.default_rng(6)
        path = self.made(sample.write_attention)
        values = 0.9 + 0.01 * random.standard_normal((3, sample.SAMPLES))
        self.change(path, analysis__attention__independent__cosine=np.repeat(values.mean(axis=1)[:, None], sample.LAYERS, axis=1),
                    analysis__attention__independent__cosine_by_sample=values)
        judged = self.findings(claim(**ATTENTION, samples="mean"), path)["independent"].judged
        shared = values.mean(axis=0).var(ddof=1) / sample.SAMPLES
        half = stats.t.ppf(0.975, 2) * np.sqrt(values.mean(axis=1).var(ddof=1) / 3 + shared)
        np.testing.assert_allclose(judged.interval, values.mean() + np.array([-half, half]), rtol=1e-9)


class AgainstControls(ClaimTest):
    ABOVE = {"experiment": "attention", "quantity": ["cosine"], "test": "larger", "than": ["uniform", "permuted", "untrained"]}

    def test_above_every_null_control_or_not(self):
        for score, null, verdict in ((0.9, 0.6, Verdict.HOLDS), (0.5, 0.6, Verdict.OPPOSITE)):
            self.assertEqual(self.verdicts(claim(**self.ABOVE), sample.write_attention, score=score, null=null)["independent"], verdict)

    def test_one_control_that_is_as_good_is_enough_to_leave_it_undecided(self):
        path = self.made(sample.write_attention, score=0.9, null=0.6)
        with h5py.File(path, "r+") as file:
            group = file["analysis/attention/independent"]
            group["cosine_untrained"][...] = group["cosine"][...] + np.array([[0.01], [-0.01], [0.005]])
        finding = self.findings(claim(**self.ABOVE), path)["independent"]
        self.assertEqual(finding.verdict, Verdict.UNDECIDED)
        self.assertIn("untrained model", in_short(claim(**self.ABOVE), finding)[1])

    def test_a_control_that_was_not_measured_earns_nothing(self):
        other = claim(**{**self.ABOVE, "than": ["shuffled"]})
        self.assertEqual(self.verdicts(other, sample.write_attention)["independent"], Verdict.NO_DATA)

    def test_the_ceiling_is_that_of_two_transformers(self):
        at_ceiling = claim(**AT_CEILING)
        for score, verdict in ((0.9, Verdict.HOLDS), (0.8, Verdict.NO_DIFFERENCE), (0.6, Verdict.OPPOSITE)):  # ceiling 0.8
            self.assertEqual(self.verdicts(at_ceiling, sample.write_attention, score=score, spread=1e-3)["independent"], verdict, score)

    def test_a_decrease_that_the_untrained_model_has_too_is_none(self):
        path = self.made(sample.write_bottleneck, spread=1e-3)
        self.assertEqual(self.findings(claim(**FALLS), path)["independent"].verdict, Verdict.HOLDS)
        with h5py.File(path, "r+") as file:
            for model in ("transformer", "independent"):
                for name in ("binning", "kde"):
                    group = file["analysis/bottleneck/" + model]
                    group["epoch_input_" + name][:, 0] = group["input_" + name][...]
        self.assertNotEqual(self.findings(claim(**FALLS), path)["independent"].verdict, Verdict.HOLDS)


    def test_what_was_not_measured_is_said(self):
        """A name that is misspelt must not take its claim off the page."""
        for one, write in ((claim(**{**ATTENTION, "quantity": ["cosin"]}), sample.write_attention),
                           (claim(**{**AT_CEILING, "quantity": ["cosin"]}), sample.write_attention),
                           (claim(**{**NOISE, "start": "acuracy"}), sample.write_perturbation),
                           (claim(experiment="ablation", quantity=["drift"], test="larger", at="pre_no_residal", than=["pre"]), sample.write_ablation),
                           (claim(experiment="ablation", quantity=["drift"], test="larger", at="none", than=["per"]), sample.write_ablation),
                           (claim(experiment="ablation", quantity=["diverged"], test="happens", at="none", than=["pre"]), sample.write_ablation)):
            found = self.findings(one, self.made(write))
            self.assertEqual({finding.verdict for finding in found.values()}, {Verdict.NO_DATA}, one)
            self.assertGreater(len(found), 1)
            for row in detail_rows(one, list(found.values())):
                self.assertNotIn("nan", " ".join(row.cells))
        # One of several estimators: they cannot all agree.
        partly = claim(**{**FALLS, "quantity": ["input_binning", "input_kd"]})
        self.assertEqual(self.verdicts(partly, sample.write_bottleneck, spread=1e-3)["independent"], Verdict.UNDECIDED)

    def test_the_place_between_null_and_ceiling(self):
        path = self.made(sample.write_attention)
        changes = {}
        for score, numbers in (("cosine", (0.7, 0.1, 0.5, 0.3, 0.9)), ("kl", (0.7, 0.5, 2.5, 1.5, 0.1))):
            names = ("independent__{}", "independent__{}_uniform", "independent__{}_permuted", "independent__{}_untrained", "transformer__{}_ceiling")
            changes.update({"analysis__attention__" + name.format(score): np.full((3, sample.LAYERS), number) for name, number in zip(names, numbers)})
        changes["analysis__attention__independent__cosine"][1] = np.nan  # a seed that diverged, with its untrained twin
        changes["analysis__attention__independent__cosine_uniform"][1] = np.nan
        self.change(path, **changes)
        comparison = self.study(path).of("attention")
        np.testing.assert_allclose(place_between(comparison, "independent", "cosine", 1), [0.5, np.nan, 0.5])       # from 0.5 to 0.9
        np.testing.assert_allclose(place_between(comparison, "independent", "kl", -1), [-0.5] * 3)                 # from 0.5 to 0.1
        self.assertIsNone(place_between(comparison, "independent", "kl", 1))


class AgainstTheTransformer(ClaimTest):
    def test_larger_smaller_and_undecided(self):
        # Three times the Transformer's, which is 5.
        for test, spread, verdict in (("larger", 0.01, Verdict.HOLDS), ("smaller", 0.01, Verdict.OPPOSITE), ("larger", 2.0, Verdict.UNDECIDED)):
            self.assertEqual(self.verdicts(claim(test=test, **DISPARITY), sample.write_gradient_flow, spread=spread)["independent"], verdict, test)

    def test_the_effect_is_the_mean_difference_with_the_interval_of_the_t_test(self):
        path = self.made(sample.write_gradient_flow, spread=0.1)
        with h5py.File(path) as file:
            mine, theirs = (file[f"analysis/gradient_flow/{model}/disparity"][...] for model in ("independent", "transformer"))
        judged = self.findings(claim(test="larger", **DISPARITY), path)["independent"].judged
        expected = stats.ttest_rel(mine, theirs)
        self.assertAlmostEqual(judged.p, expected.pvalue, 9)
        np.testing.assert_allclose(judged.interval, expected.confidence_interval(0.95), rtol=1e-9)  # twelve digits are kept

    def test_pde_models_are_taken_at_the_depths_of_the_layers(self):
        """e^-s has another mean on other depths; the factor 3 between the models is exact on the same ones."""
        norm = claim(experiment="gradient_flow", quantity=["gradient_norm"], test="larger", ratio=True)
        finding = self.findings(norm, self.made(sample.write_gradient_flow, spread=0))["independent"]
        self.assertAlmostEqual(finding.judged.effect.mean, np.log(3), 10)
        self.assertEqual(effect_text(norm, finding.judged.effect, finding.judged.interval), "× 3.0")  # deterministic

    def test_a_variant_is_compared_with_the_other(self):
        drift = claim(experiment="ablation", quantity=["drift"], reduce="last", test="larger", at="pre_no_residual", than=["pre"])
        self.assertEqual(self.verdicts(drift, sample.write_ablation), {"transformer": Verdict.HOLDS, "pde": Verdict.HOLDS})
        path = self.made(sample.write_ablation)
        with h5py.File(path, "r+") as file:
            file["analysis/ablation/transformer_pre/drift"][...] += 5
        self.assertEqual({model: one.verdict for model, one in self.findings(drift, path).items()}, {"transformer": Verdict.OPPOSITE, "pde": Verdict.HOLDS})

    def test_round_off_is_no_spread(self):
        path = self.made(sample.write_gradient_flow)
        self.change(path, analysis__gradient_flow__independent__disparity=np.array([0.1 + 0.2, 0.3, 0.3]),
                    analysis__gradient_flow__transformer__disparity=np.array([0.2, 0.2, 0.3 - 0.1]))
        one = claim(test="larger", **DISPARITY)
        finding = self.findings(one, path)["independent"]
        self.assertTrue(finding.judged.effect.deterministic)
        self.assertEqual((finding.verdict, in_short(one, finding)[0]), (Verdict.HOLDS, "+0.10"))

    def test_further_means_that_it_decreases_at_all(self):
        further = claim(**{**FALLS, "than": ["transformer", "zero"], "both": False})
        for theirs, mine, verdict in ((-2, -1, Verdict.UNDECIDED), (1, 2, Verdict.HOLDS), (-1, -2, Verdict.OPPOSITE)):
            falls = {"transformer": theirs, "independent": mine}
            self.assertEqual(self.verdicts(further, sample.write_bottleneck, falls=falls, spread=1e-3)["independent"], verdict, falls)

    def test_it_decreases_in_both_models_or_not(self):
        for theirs, mine, verdict in ((1, 2, Verdict.HOLDS), (-1, 2, Verdict.UNDECIDED), (-1, -2, Verdict.OPPOSITE)):
            falls = {"transformer": theirs, "independent": mine}
            self.assertEqual(self.verdicts(claim(**FALLS), sample.write_bottleneck, falls=falls, spread=1e-3)["independent"], verdict, falls)

    def test_what_happened_is_counted_and_judged_by_fisher(self):
        ends = claim(experiment="ablation", quantity=["diverged_step"], test="happens", at="none", than=["pre"])
        for seeds, verdict in ((3, Verdict.UNDECIDED), (4, Verdict.HOLDS)):  # 3 of 3 against 0 of 3: p = 2 / 20; of 4: 2 / 70
            path = self.made(sample.write_ablation, seeds=tuple(range(seeds)))
            findings = self.findings(ends, path)
            self.assertEqual((findings["transformer"].verdict, findings["pde"].verdict), (verdict, Verdict.UNDECIDED), seeds)
            self.assertEqual(in_short(ends, findings["transformer"]), [f"{seeds} of {seeds}; pre 0 of {seeds}"])

    def test_a_seed_that_diverged_does_not_count(self):
        path = self.made(sample.write_gradient_flow, seeds=(1, 2, 3, 4))
        with h5py.File(path, "r+") as file:
            file["analysis/gradient_flow/independent/disparity"][0] = np.nan
        finding = self.findings(claim(test="larger", **DISPARITY), path)["independent"]
        self.assertEqual((finding.verdict, finding.seeds), (Verdict.HOLDS, (3, 4)))


class TogetherWithOthers(ClaimTest):
    def test_several_claims_are_judged_at_the_levels_of_holm(self):
        path = self.made(sample.write_gradient_flow, seeds=tuple(range(6)), spread=0.0)
        random = np.random.default_rng(2)
        quantities = [f"quantity_{k}" for k in range(3)]
        for k, name in enumerate(quantities):
            self.change(path, **{f"analysis__gradient_flow__transformer__{name}": np.zeros(6),
                                 f"analysis__gradient_flow__independent__{name}": k + random.standard_normal(6)})
        asked = [claim(**{**DISPARITY, "id": name, "quantity": [name], "test": "larger"}) for name in quantities]
        found = [findings[0].judged for _, findings in weigh(asked, self.study(path), RULE)]
        order = sorted(found, key=lambda one: one.p)
        going = True
        for rank, one in enumerate(order):
            going = going and one.p <= 0.05 / (3 - rank)
            self.assertEqual(one.verdict is Verdict.HOLDS, going)
        self.assertAlmostEqual(order[0].alpha, 0.05 / 3, 12)

    def test_estimators_have_to_agree(self):
        path = self.made(sample.write_bottleneck, spread=1e-3)
        one = claim(**{**FALLS, "than": ["transformer"], "both": False})
        self.assertEqual(self.findings(one, path)["independent"].verdict, Verdict.HOLDS)
        with h5py.File(path, "r+") as file:
            group = file["analysis/bottleneck/independent"]
            group["input_kde"][...] = group["input_kde"][...][:, ::-1]
        finding = self.findings(one, path)["independent"]
        self.assertEqual((finding.verdict, finding.judged.signs), (Verdict.DISAGREE, "+ −"))
        self.assertEqual(in_short(one, finding), ["input binning +, input kde −"])


    def test_everything_is_judged_at_the_alpha_of_the_file(self):
        rule = Rule(0.001, RULE.seeds)
        path = self.made(sample.write_perturbation)
        with open_run(path) as run:
            finding = weigh([claim(**NOISE)], Study(("digits", "patches"), [run]), rule)[0][1][0]
        self.assertEqual(finding.judged.alpha, 0.001)
        self.assertAlmostEqual(min(one.alpha for _, one in finding.outcomes[0].levels), 0.001 / 3, 15)
        path = self.made(sample.write_attention)
        with open_run(path) as run:
            judged = weigh([claim(**ATTENTION)], Study(("digits", "patches"), [run]), rule)[0][1][0].judged
        np.testing.assert_allclose(judged.interval, judged.effect.interval(0.001))


class TestSamples(ClaimTest):
    """What the test samples add: against the definition for means, against simulation for other quantities."""

    def test_of_a_mean_it_is_the_variance_of_the_differences_by_sample(self):
        random = np.random.default_rng(4)
        seeds, samples = 5, 40
        path = self.made(sample.write_attention, seeds=tuple(range(seeds)))
        mine, null = random.random((seeds, samples)) + 1, random.random((seeds, samples))
        for name, values in (("cosine", mine), ("cosine_uniform", null)):
            self.change(path, **{f"analysis__attention__independent__{name}": np.repeat(values.mean(axis=1)[:, None], sample.LAYERS, axis=1),
                                 f"analysis__attention__independent__{name}_by_sample": values})
        one = claim(experiment="attention", quantity=["cosine"], test="larger", than=["uniform"], samples="mean")
        effect = self.findings(one, path)["independent"].judged.effect
        expected = (mine - null).mean(axis=0).var(ddof=1) / samples
        np.testing.assert_allclose(effect.shared, expected, rtol=1e-9)
        np.testing.assert_allclose(effect.error ** 2, (mine - null).mean(axis=1).var(ddof=1) / seeds + expected, rtol=1e-9)
        # A text of one word has no number, in any seed; a seed that diverged has none for any sample.
        for name, values in (("cosine", mine), ("cosine_uniform", null)):
            values[:, 7], values[2] = np.nan, np.nan
            means = np.append(np.nanmean(np.delete(values, 2, axis=0), axis=1), np.nan)[[0, 1, 4, 2, 3]]
            self.change(path, **{f"analysis__attention__independent__{name}": np.repeat(means[:, None], sample.LAYERS, axis=1),
                                 f"analysis__attention__independent__{name}_by_sample": values})
        kept = np.delete(np.delete(mine - null, 7, axis=1), 2, axis=0)
        effect = self.findings(one, path)["independent"].judged.effect
        self.assertEqual(effect.count, seeds - 1)
        np.testing.assert_allclose(effect.shared, kept.mean(axis=0).var(ddof=1) / (samples - 1), rtol=1e-9)

    def test_of_a_ratio_of_root_mean_squares_it_is_what_new_samples_would_change(self):
        """Jackknife against 400 draws of other samples from the same distribution; their deviation is known to 1/sqrt(800)."""
        random = np.random.default_rng(5)
        samples = 300

        def draw():
            factor = np.exp(0.5 * random.standard_normal(samples))  # common to both models
            return [factor[:, None] * np.exp(0.3 * random.standard_normal((samples, sample.LAYERS + 1))) * size for size in (1.0, 2.0)]

        def effect(theirs, mine):
            return np.log(np.sqrt((mine ** 2).mean(axis=0)).mean() / np.sqrt((theirs ** 2).mean(axis=0)).mean())

        true = np.var([effect(*draw()) for _ in range(400)], ddof=1)
        path = self.made(sample.write_gradient_flow, seeds=(1, 2))
        self.alone(path, "gradient_flow")
        one = claim(experiment="gradient_flow", quantity=["gradient_norm"], test="larger", ratio=True, samples="rms")
        shared = []
        for _ in range(20):
            for model, values in zip(("transformer", "independent"), draw()):
                rms = np.sqrt((values ** 2).mean(axis=0))
                depth = sample.LAYERS if model == "transformer" else 2 * sample.LAYERS
                norm = np.interp(np.linspace(0, sample.LAYERS, depth + 1), np.arange(sample.LAYERS + 1), rms)
                self.change(path, **{f"analysis__gradient_flow__{model}__gradient_norm": np.array([norm, norm]),
                                     f"analysis__gradient_flow__{model}__gradient_norm_by_sample": np.array([values, values])})
            shared.append(self.findings(one, path)["independent"].judged.effect.shared)
        self.assertAlmostEqual(np.mean(shared) / true, 1, delta=3 * np.hypot(1 / np.sqrt(800), np.std(shared) / true / np.sqrt(20)))

    def test_without_outcomes_by_sample_nothing_is_added(self):
        one = claim(experiment="attention", quantity=["cosine"], test="larger", than=["uniform"])
        self.assertEqual(self.findings(one, self.made(sample.write_attention))["independent"].judged.effect.shared, 0)


class Levels(ClaimTest):
    def test_the_area_ends_where_no_model_is_better_than_guessing(self):
        path = self.made(sample.write_perturbation, spread=0.0)
        levels, curve = np.array([1.0, 2.0, 4.0, 8.0]), {"transformer": [0.8, 0.4, 0.1, 0.1], "independent": [0.6, 0.1, 0.1, 0.1]}
        with h5py.File(path, "r+") as file:
            file["analysis/perturbation"].attrs.update(classes=10, samples=100)
            del file["noise_level"]
            file.create_dataset("noise_level", data=levels).make_scale("noise_level")
            for model in curve:  # accuracies of other samples than those below
                for name in ("accuracy_by_sample", "noise_accuracy_by_sample"):
                    del file[f"analysis/perturbation/{model}/{name}"]
        self.alone(path, "perturbation")
        for model, values in curve.items():
            self.change(path, **{f"analysis__perturbation__{model}__noise_accuracy": np.array([values] * 3),
                                 f"analysis__perturbation__{model}__accuracy": np.full(3, 1.0)})
        finding = self.findings(claim(**NOISE), path)["independent"]
        by_hand = [(0.5 * (1 + a[0]) * 1 + 0.5 * (a[0] + a[1]) * 1 + 0.5 * (a[1] + a[2]) * 2) / 4 for a in curve.values()]
        self.assertAlmostEqual(finding.judged.effect.mean, by_hand[0] - by_hand[1], 10)
        outcome, = finding.outcomes
        self.assertEqual([level for level, _ in outcome.levels], [0, 1, 2, 4, 8])
        np.testing.assert_allclose([one.effect.mean for _, one in outcome.levels], [0, 0.2, 0.3, 0, 0], atol=1e-12)

    def test_levels_are_a_family_of_their_own(self):
        finding = self.findings(claim(**NOISE), self.made(sample.write_perturbation))["independent"]
        self.assertEqual(finding.verdict, Verdict.HOLDS)
        with h5py.File(self.path("made_up.h5")) as file:
            theirs, mine = (np.concatenate([file[f"analysis/perturbation/{model}/accuracy_by_sample"][...][..., None],
                                            file[f"analysis/perturbation/{model}/noise_accuracy_by_sample"][...]], axis=2)
                            for model in ("transformer", "independent"))
        np.testing.assert_allclose([one.effect.shared for _, one in finding.outcomes[0].levels],
                                   [shared_variance((theirs - mine)[..., k]) for k in range(3)])
        alphas = sorted(one.alpha for _, one in finding.outcomes[0].levels if np.isfinite(one.alpha))
        self.assertAlmostEqual(alphas[0], 0.05 / len(finding.outcomes[0].levels), 12)


class MoreSeeds(ClaimTest):
    def test_seeds_of_two_files_are_taken_together(self):
        parts = []
        for name, seeds in (("b.h5", (3, 4, 5)), ("a.h5", (1, 2))):
            parts.append(self.path(name))
            sample.write_gradient_flow(parts[-1], seeds=seeds)
        study = self.study(*parts)
        comparison = study.of("gradient_flow")
        self.assertEqual(comparison.seeds, [1, 2, 3, 4, 5])
        with h5py.File(parts[1]) as first, h5py.File(parts[0]) as second:
            name = "analysis/gradient_flow/independent/disparity"
            np.testing.assert_array_equal(comparison.measure("independent", "disparity"), np.concatenate([first[name], second[name]]))
        self.assertEqual(weigh([claim(test="larger", **DISPARITY)], study, RULE)[0][1][0].seeds, (5, 5))

    def test_outcomes_of_other_samples_are_not_taken_together(self):
        shared = []
        for change in (False, True):
            for name, seeds in (("a.h5", (1, 2, 3)), ("b.h5", (4, 5))):
                sample.write_ablation(self.path(name), seeds=seeds)
            if change:
                with h5py.File(self.path("b.h5"), "r+") as file:
                    file["sample"][...] += 1
            drift = claim(experiment="ablation", quantity=["drift"], reduce="last", test="larger", at="pre_no_residual", than=["pre"], samples="mean")
            runs = [open_run(self.path(name)) for name in ("a.h5", "b.h5")]
            finding = weigh([drift], Study(("digits", "patches"), runs), RULE)[0][1][0]
            for run in runs:
                run.close()
            self.assertEqual(finding.judged.effect.count, 5)
            shared.append(finding.judged.effect.shared)
        self.assertGreater(shared[0], 0)
        self.assertEqual(shared[1], 0)

    def test_one_added_seed_has_no_ceiling(self):
        for name, seeds in (("a.h5", (1, 2, 3)), ("b.h5", (4,))):
            sample.write_attention(self.path(name), seeds=seeds)
        with h5py.File(self.path("b.h5"), "r+") as file:
            for name in [name for name in file["analysis/attention/transformer"] if "_ceiling" in name]:
                del file["analysis/attention/transformer/" + name]
        study = self.study(self.path("a.h5"), self.path("b.h5"))
        ceiling = study.of("attention").measure("transformer", "cosine_ceiling")
        np.testing.assert_array_equal(np.isnan(ceiling).all(axis=1), [False, False, False, True])
        finding = weigh([claim(**AT_CEILING)], study, RULE)[0][1][0]
        self.assertEqual((finding.judged.effect.count, finding.seeds), (3, (3, 4)))


class Words(ClaimTest):
    """What the page prints of given effects."""

    def of(self, mine, theirs, **entries):
        """The claim and its finding for numbers of the two models, by seed."""
        path = self.made(sample.write_gradient_flow, seeds=tuple(range(len(mine))))
        self.change(path, analysis__gradient_flow__independent__disparity=np.array(mine), analysis__gradient_flow__transformer__disparity=np.array(theirs))
        one = claim(**{**DISPARITY, "test": "larger", **entries})
        return one, self.findings(one, path)["independent"]

    def test_a_factor_is_measured_over_reference_in_either_direction(self):
        mine, theirs = np.array([2.0, 2.1, 1.9]), np.array([4.0, 4.0, 4.1])
        log = stats.ttest_1samp(np.log(mine / theirs), 0).confidence_interval(0.95)
        ends = ", ".join(f"{np.exp(one):.2f}" for one in log)
        for test, verdict in (("smaller", Verdict.HOLDS), ("larger", Verdict.OPPOSITE)):
            one, finding = self.of(mine, theirs, test=test, ratio=True)
            self.assertEqual((finding.verdict, in_short(one, finding)[0]), (verdict, f"× {np.exp(np.log(mine / theirs).mean()):.2f} [{ends}]"))

    def test_a_factor_shows_on_which_side_of_1_it_is(self):
        ratio = claim(**DISPARITY, test="larger", ratio=True)
        for (low, high), text in (((1.01, 1.07), "× 1.04 [1.01, 1.07]"), ((0.94, 1.14), "× 1.04 [0.940, 1.14]"), ((1.5, 2.5), "× 2.0 [1.5, 2.5]"),
                                  ((0.0, 1e400), "× 2.0 [0, ∞]")):
            mean = 2.0 if high > 2 else 1.04
            interval = (np.log(low), np.log(high)) if low else (-800.0, 800.0)
            self.assertEqual(effect_text(ratio, Effect(np.log(mean) + np.array([0.1, -0.1])), interval), text)

    def test_what_could_have_been_detected(self):
        mine, theirs = np.array([1.0, 3.0, 2.0]), np.array([2.0, 2.0, 2.1])
        shift = Effect(np.log(mine / theirs)).detectable()
        for test, sign in (("larger", 1), ("smaller", -1)):
            one, finding = self.of(mine, theirs, test=test, ratio=True)
            self.assertEqual(in_short(one, finding)[2], f"detectable × {brief(np.exp(sign * shift))}")
        one, finding = self.of(mine, theirs)
        self.assertEqual(in_short(one, finding)[2], f"detectable {brief(Effect(mine - theirs).detectable())}")

    def test_p_and_interval_belong_to_the_verdict(self):
        mine, theirs = np.array([2.0, 2.02, 1.99, 2.01]), np.full(4, 2.0)
        one, finding = self.of(mine, theirs, delta=0.05)
        self.assertEqual(finding.verdict, Verdict.NO_DIFFERENCE)
        row, = detail_rows(one, [finding])
        ends = stats.ttest_1samp(mine - theirs, 0).confidence_interval(0.90)
        self.assertEqual(row.cells[4], f"+{(mine - theirs).mean():.3f} [−{-ends[0]:.3f}, {ends[1]:.3f}]")
        above = stats.ttest_1samp(mine - theirs, 0.05, alternative="less").pvalue  # the larger of the two, since the mean is positive
        self.assertEqual(row.cells[5], f"{above:.2g}, 0.05; flips 0.75")  # 12 of 16 flips of 0, 2, -1, 1 have a sum of at least 2
        one, finding = self.of([5.0, 5.1, 4.9], [2.0, 2.0, 2.0])
        row, = detail_rows(one, [finding])
        self.assertEqual(row.cells[5], f"{stats.ttest_1samp([3.0, 3.1, 2.9], 0).pvalue:.2g}, 0.05; flips 0.25")

    def test_a_level_has_the_interval_of_its_own_verdict_and_the_samples_their_share(self):
        one = claim(**NOISE)
        finding = self.findings(one, self.made(sample.write_perturbation))["independent"]
        summary, *rows = detail_rows(one, [finding])
        effect = finding.judged.effect
        self.assertEqual(summary.cells[6], f"3 of 3; samples {100 * effect.shared / (effect.values.var(ddof=1) / 3 + effect.shared):.0f} %")
        judged = min((judged for _, judged in finding.outcomes[0].levels), key=lambda level: level.p)
        half = stats.t.ppf(1 - 0.05 / 3 / 2, 2) * judged.effect.error
        self.assertIn(effect_text(one, judged.effect, (judged.effect.mean - half, judged.effect.mean + half)), [row.cells[4] for row in rows])

    def test_numbers_of_the_transformer_are_called_so(self):
        path = self.made(sample.write_bottleneck, falls={"transformer": -1, "independent": 2}, spread=1e-3)
        finding = self.findings(claim(**FALLS), path)["independent"]
        effect, numbers, why = in_short(claim(**FALLS), finding)
        self.assertTrue(effect.startswith("input binning: −1.00"), effect)
        self.assertTrue(numbers.startswith("Transformer −1.00"), numbers)
        self.assertEqual(why, "effects of both signs")  # and not what could have been detected: this was


class Numbers(unittest.TestCase):
    def test_largest_over_smallest(self):
        np.testing.assert_allclose(reductions.reduce("disparity", np.array([[4.0, 1.0, 2.0, 8.0], [3.0, 3.0, 3.0, 3.0]])), [8, 1])

    def test_half_of_a_decrease_is_found_between_the_depths(self):
        values = np.array([[4.0, 3.0, 1.0, 0.0], [0.0, 1.0, 2.0, 3.0]])  # left: 1, 0.75, 0.25, 0; the other rises
        np.testing.assert_allclose(reductions.reduce("half_fall", values), [0.5, np.nan])

    def test_as_many_digits_as_matter(self):
        for values, text in (([0.4168, 0.4253, 0.4083], "0.4168 ± 0.0085"), ([141.0, 180.0, 105.0], "142 ± 38"), ([1, 1, 1], "1 ± 0"),
                             ([0.1 + 0.2, 0.3, 0.3], "0.3000 ± 0"), ([0.5], "0.5000"), ([np.nan], "–"), ([-7.0, -8.0, -7.5], "−7.50 ± 0.50")):
            self.assertEqual(mean_and_spread(np.array(values)), text)
        for value, text in ((0.0123, "0.012"), (1.0, "1.0"), (-2.345, "−2.3"), (123.4, "123"), (1.7e8, "1.70e+08")):
            self.assertEqual(brief(value), text)
        larger = claim(test="larger", **DISPARITY)
        for interval, text in (((0.04, 1.07), "+0.56 [0.04, 1.07]"), ((-0.4, 0.37), "+0.56 [−0.40, 0.37]")):
            self.assertEqual(effect_text(larger, Effect([0.5, 0.62]), interval), text)


if __name__ == "__main__":
    unittest.main()
