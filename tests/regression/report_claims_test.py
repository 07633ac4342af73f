#!/usr/bin/env python3
"""Verdicts of the report: values, controls, the Transformer, several claims together. Uses synthetic files.

The rule itself is tested in python_statistics_test.py. Status 77 as claim_sample.py says.
"""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

from claim_sample import ATTENTION, AT_CEILING, DISPARITY, FALLS, NOISE, RULE, ClaimTest, claim  # noqa: E402 (its folder is put on the path first)

import h5py  # noqa: E402
import numpy as np  # noqa: E402
from scipy import stats  # noqa: E402

import comparison_sample as sample  # noqa: E402

from fluxformer.compare.attention import place_between  # noqa: E402
from fluxformer.judging import Verdict  # noqa: E402
from fluxformer.report.claims import Rule  # noqa: E402
from fluxformer.report.data import Study, open_run  # noqa: E402
from fluxformer.report.verdicts import weigh  # noqa: E402
from fluxformer.report.wording import detail_rows, effect_text, in_short  # noqa: E402


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

    def test_nothing_is_said_against_a_transformer_that_the_file_does_not_have(self):
        against = {**DISPARITY, "test": "larger"}
        path = self.made(sample.write_gradient_flow)
        for how in ({"than": ["transformer"]}, {"than": ["zero"], "both": True}):
            self.assertIn("independent", self.findings(claim(**against, **how), path))
        with h5py.File(path, "r+") as file:
            del file["analysis/gradient_flow/transformer"]
        for how in ({"than": ["transformer"]}, {"than": ["zero"], "both": True}):
            self.assertEqual(self.findings(claim(**against, **how), path), {})
        self.assertIn("independent", self.findings(claim(**against, than=["zero"]), path))

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


    def test_an_estimator_without_numbers_is_named(self):
        earlier = claim(**{**FALLS, "reduce": "half_fall", "test": "smaller", "than": ["transformer"], "both": False})
        path = self.made(sample.write_bottleneck, spread=1e-3)
        with h5py.File(path, "r+") as file:
            for model in ("transformer", "independent"):
                group = file[f"analysis/bottleneck/{model}"]
                group["input_binning"][...] = group["input_binning"][...][:, ::-1]  # it rises: no half of a decrease
        finding = self.findings(earlier, path)["independent"]
        self.assertEqual(finding.verdict, Verdict.UNDECIDED)
        self.assertIn("too few seeds with a number: input binning", in_short(earlier, finding))

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


if __name__ == "__main__":
    unittest.main()
