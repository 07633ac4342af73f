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
from fluxformer.report.claims import Claim, Rule  # noqa: E402
from fluxformer.report.data import Study, mean_and_spread, open_run  # noqa: E402
from fluxformer.report.verdicts import weigh  # noqa: E402
from fluxformer.report.wording import brief, effect_text, in_short  # noqa: E402
from fluxformer.judging import Verdict  # noqa: E402
from fluxformer.statistics import Effect  # noqa: E402

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
        self.assertEqual(effect_text(norm, finding.judged.effect, finding.judged.interval), "× 3.0 [3.0, 3.0]")

    def test_a_variant_is_compared_with_the_other(self):
        drift = claim(experiment="ablation", quantity=["drift"], reduce="last", test="larger", at="pre_no_residual", than=["pre"])
        self.assertEqual(self.verdicts(drift, sample.write_ablation), {"transformer": Verdict.HOLDS, "pde": Verdict.HOLDS})

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
        levels, curve = np.array([1.0, 2.0, 4.0, 8.0]), {"transformer": [0.8, 0.4, 0.1, 0.1], "independent": [0.6, 0.2, 0.1, 0.1]}
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
        np.testing.assert_allclose([one.effect.mean for _, one in outcome.levels], [0, 0.2, 0.2, 0, 0], atol=1e-12)

    def test_levels_are_a_family_of_their_own(self):
        finding = self.findings(claim(**NOISE), self.made(sample.write_perturbation))["independent"]
        self.assertEqual(finding.verdict, Verdict.HOLDS)
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
        self.assertEqual(weigh([claim(**AT_CEILING)], study, RULE)[0][1][0].judged.effect.count, 3)


class Numbers(unittest.TestCase):
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
