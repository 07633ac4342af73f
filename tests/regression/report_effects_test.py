#!/usr/bin/env python3
"""Effects of the report: what test samples add, levels, added seeds; their words and numbers. Uses synthetic files.

The rule itself is tested in python_statistics_test.py. Status 77 as claim_sample.py says.
"""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

from claim_sample import AT_CEILING, DISPARITY, FALLS, NOISE, RULE, ClaimTest, claim  # noqa: E402 (its folder is put on the path first)

import h5py  # noqa: E402
import numpy as np  # noqa: E402
from scipy import stats  # noqa: E402

import comparison_sample as sample  # noqa: E402

from fluxformer.io import RunError  # noqa: E402
from fluxformer.judging import Verdict  # noqa: E402
from fluxformer.report import reductions  # noqa: E402
from fluxformer.report.data import Study, mean_and_spread, open_run  # noqa: E402
from fluxformer.report.verdicts import weigh  # noqa: E402
from fluxformer.report.wording import brief, detail_rows, effect_text, in_short  # noqa: E402
from fluxformer.statistics import Effect, shared_variance  # noqa: E402


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

    def test_depths_at_which_no_cell_ends_are_not_taken_for_their_neighbours(self):
        path = self.made(sample.write_gradient_flow, seeds=(1, 2))
        self.alone(path, "gradient_flow")
        one = claim(experiment="gradient_flow", quantity=["gradient_norm"], test="larger", ratio=True)
        self.findings(one, path)
        with h5py.File(path, "r+") as file:
            file["independent_depth"][2] = 0.9  # where the first layer ended
        with self.assertRaisesRegex(RunError, "no depth cell of the model 'independent' ends at 1,"):
            self.findings(one, path)

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
        row, beside = detail_rows(one, [finding])
        self.assertTrue(beside.cells[3].startswith("beside it: untrained model 2.0"), beside.cells[3])  # epoch 0
        ends = stats.ttest_1samp(mine - theirs, 0).confidence_interval(0.90)
        self.assertEqual(row.cells[4], f"+{(mine - theirs).mean():.3f} [−{-ends[0]:.3f}, {ends[1]:.3f}]")
        above = stats.ttest_1samp(mine - theirs, 0.05, alternative="less").pvalue  # the larger of the two, since the mean is positive
        self.assertEqual(row.cells[5], f"{above:.2g}, 0.05; flips 0.75")  # 12 of 16 flips of 0, 2, -1, 1 have a sum of at least 2
        one, finding = self.of([5.0, 5.1, 4.9], [2.0, 2.0, 2.0])
        row, _ = detail_rows(one, [finding])
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
