#!/usr/bin/env python3
"""Verdicts on claims follow from means, spreads over seeds and null controls. Uses synthetic files, so no run is needed.

Status 77 if matplotlib or h5py is not installed.
"""

import os
import sys
import unittest

try:
    import h5py
    import numpy as np
    import matplotlib  # noqa: F401 (what the report needs)
except ImportError as failure:
    print(f"NOT RUN: {failure}", file=sys.stderr)
    sys.exit(77)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

import comparison_sample as sample  # noqa: E402 (its folder is put on the path first)
from python_package import FolderTest  # noqa: E402

from fluxformer.report import claims  # noqa: E402
from fluxformer.report.data import Comparison, mean_and_spread, open_run  # noqa: E402

RULE = {"margin": 5.0, "least_seeds": 3}


def claim(**entries):
    """A claim on an attention score by default."""
    return claims.Claim(**{"id": "a", "sentence": "b", "source": "c", "experiment": "attention", "quantity": ["cosine"], "test": "value",
                           "expected": 0.987, "tolerance": 0.01, "nulls": ["uniform", "permuted", "untrained"], **entries})


class ClaimTest(FolderTest):
    def findings(self, one, write, **how):
        """The verdicts of a claim on a synthetic file, by model."""
        path = self.path("made_up.h5")
        write(path, **how)
        with open_run(path) as run:
            return {finding.model: finding for finding in claims.weigh(one, Comparison(run), RULE)}

    def verdicts(self, one, write, **how):
        return {model: finding.verdict for model, finding in self.findings(one, write, **how).items()}


class AgainstAValue(ClaimTest):
    """Spread 0.001 of about 1: a lead of 0.3 over the nulls is hundreds of standard deviations, one of 0.001 is one."""

    def test_reached_with_a_wide_lead_over_the_nulls_is_reproduced_by_independent_models_alone(self):
        self.assertEqual(self.verdicts(claim(), sample.write_attention, score=0.99, null=0.6, spread=1e-3),
                         {"independent": claims.REPRODUCED, "distilled": claims.FIT_ONLY, "inherited": claims.CONSTRUCTED})

    def test_reached_by_the_nulls_too_is_not_distinguishable(self):
        for null in (0.989, 0.999):  # as good as the model, better than it
            verdicts = self.verdicts(claim(), sample.write_attention, score=0.99, null=null, spread=1e-3)
            self.assertEqual(set(verdicts.values()), {claims.NULL}, null)

    def test_missed_is_not_reproduced_for_all(self):
        verdicts = self.verdicts(claim(), sample.write_attention, score=0.9, null=0.1, spread=1e-3)
        self.assertEqual(set(verdicts.values()), {claims.NOT_REPRODUCED})

    def test_lower_can_be_better(self):
        divergence = claim(quantity=["kl"], expected=0.0144, better="lower")
        self.assertEqual(self.verdicts(divergence, sample.write_attention, kl=0.01)["independent"], claims.REPRODUCED)
        self.assertEqual(self.verdicts(divergence, sample.write_attention, kl=0.1)["independent"], claims.NOT_REPRODUCED)

    def test_two_seeds_earn_no_verdict(self):
        verdicts = self.verdicts(claim(), sample.write_attention, seeds=(1, 2))
        self.assertEqual(set(verdicts.values()), {claims.NONE})

    def test_a_null_control_that_was_not_measured_is_no_lead(self):
        self.assertEqual(self.verdicts(claim(nulls=["shuffled"]), sample.write_attention)["independent"], claims.NULL)

    def test_what_happened_is_counted_by_seed(self):
        ends = claim(experiment="ablation", quantity=["diverged_step"], reduce="happened", expected=1, tolerance=0, nulls=[], at="none",
                     against="pre")
        self.assertEqual(self.verdicts(ends, sample.write_ablation), {"transformer": claims.REPRODUCED, "pde": claims.NOT_REPRODUCED})


class AgainstTheTransformer(ClaimTest):
    def test_larger_smaller_and_undecided(self):
        disparity = {"experiment": "gradient_flow", "quantity": ["disparity"], "nulls": []}  # three times the Transformer's
        for test, spread, verdict in (("larger", 0.01, claims.REPRODUCED), ("smaller", 0.01, claims.NOT_REPRODUCED), ("larger", 2.0, claims.NULL)):
            self.assertEqual(self.verdicts(claim(test=test, **disparity), sample.write_gradient_flow, spread=spread)["independent"], verdict, test)

    def test_pde_models_are_taken_at_the_depths_of_the_layers(self):
        """e^-s has another mean on other depths; the factor 3 between the models is exact on the same ones."""
        norm = claim(experiment="gradient_flow", quantity=["gradient_norm"], nulls=[], test="larger")
        outcome = self.findings(norm, sample.write_gradient_flow, spread=0)["independent"].outcomes[0]
        np.testing.assert_allclose(outcome.measured, 3 * outcome.reference, rtol=1e-11)  # twelve digits are stored

    def test_ratios_are_judged_by_their_logarithms(self):
        """Norms e^(3 2) and more beside e^0.3: a spread of as much as the mean still leaves a wide lead as a ratio."""
        larger = {"experiment": "ablation", "quantity": ["norm"], "reduce": "last", "test": "larger", "nulls": [], "at": "none", "against": "pre"}
        path = self.path("made_up.h5")
        sample.write_ablation(path, spread=0)
        with h5py.File(path, "r+") as file:
            file["analysis/ablation/pde_none/norm"][:, -1] = [200.0, 400.0, 700.0]
        with open_run(path) as run:
            verdicts = [{one.model: one.verdict for one in claims.weigh(claim(ratio=ratio, **larger), Comparison(run), RULE)}["pde"]
                        for ratio in (False, True)]
        self.assertEqual(verdicts, [claims.NULL, claims.REPRODUCED])

    def test_a_loss_of_accuracy_is_from_the_clean_input(self):
        robust = claim(experiment="perturbation", quantity=["noise_accuracy"], start="accuracy", reduce="drop", test="larger", nulls=[])
        finding = self.findings(robust, sample.write_perturbation, spread=0)["independent"]
        np.testing.assert_allclose(finding.outcomes[0].measured, 0.95 - 0.45, rtol=1e-11)
        np.testing.assert_allclose(finding.outcomes[0].reference, 0.95 - 0.85, rtol=1e-11)
        self.assertEqual(finding.verdict, claims.REPRODUCED)

    def test_a_variant_is_compared_with_the_other(self):
        drift = claim(experiment="ablation", quantity=["drift"], reduce="last", test="larger", nulls=[], at="pre_no_residual", against="pre")
        self.assertEqual(self.verdicts(drift, sample.write_ablation), {"transformer": claims.REPRODUCED, "pde": claims.REPRODUCED})


class Information(ClaimTest):
    FALLS = {"experiment": "bottleneck", "quantity": ["input_binning", "input_kde"], "reduce": "fall", "test": "positive", "nulls": ["untrained"]}

    def test_it_falls_in_both_models_or_not(self):
        for theirs, mine, verdict in ((1, 2, claims.REPRODUCED), (-1, 2, claims.NOT_REPRODUCED), (1, 0, claims.NULL)):
            falls = {"transformer": theirs, "independent": mine}
            self.assertEqual(self.verdicts(claim(**self.FALLS), sample.write_bottleneck, falls=falls, spread=1e-3)["independent"], verdict, falls)

    def test_a_fall_that_the_untrained_model_has_too_is_none(self):
        path = self.path("made_up.h5")
        sample.write_bottleneck(path, spread=1e-3)
        with h5py.File(path, "r+") as file:
            for model in ("transformer", "independent"):
                for name in ("binning", "kde"):
                    group = file["analysis/bottleneck/" + model]
                    group["epoch_input_" + name][:, 0] = group["input_" + name][...]
        with open_run(path) as run:
            self.assertEqual(claims.weigh(claim(**self.FALLS), Comparison(run), RULE)[0].verdict, claims.NULL)

    def test_further_means_that_it_falls_at_all(self):
        further = claim(**{**self.FALLS, "test": "larger", "nulls": []})
        falls = {"transformer": -2, "independent": -1}
        self.assertNotEqual(self.verdicts(further, sample.write_bottleneck, falls=falls, spread=1e-3)["independent"], claims.REPRODUCED)
        falls = {"transformer": 1, "independent": 2}
        self.assertEqual(self.verdicts(further, sample.write_bottleneck, falls=falls, spread=1e-3)["independent"], claims.REPRODUCED)

    def test_half_of_a_fall_is_found_between_the_depths(self):
        values = np.array([[4.0, 3.0, 1.0, 0.0], [0.0, 1.0, 2.0, 3.0]])  # left: 1, 0.75, 0.25, 0; the other rises
        np.testing.assert_allclose(claims.REDUCTIONS["half_fall"](values), [0.5, np.nan])


class Agreement(unittest.TestCase):
    def test_several_estimators(self):
        yes, no, null, none = claims.REPRODUCED, claims.NOT_REPRODUCED, claims.NULL, claims.NONE
        for verdicts, expected in (((yes, yes), yes), ((yes, no), null), ((yes, null), null), ((no, null), no), ((yes, none), null),
                                   ((none, none), none)):
            self.assertEqual(claims._together(verdicts), expected, verdicts)


class Words(unittest.TestCase):
    def test_as_many_digits_as_the_spread_bears(self):
        for values, text in (([0.4168, 0.4253, 0.4083], "0.4168 ± 0.0085"), ([141.0, 180.0, 105.0], "142 ± 38"), ([1, 1, 1], "1 ± 0"), ([0.1 + 0.2, 0.3, 0.3], "0.3000 ± 0"),
                             ([0.5], "0.5000"), ([np.nan], "–"), ([-7.0, -8.0, -7.5], "−7.50 ± 0.50")):
            self.assertEqual(mean_and_spread(np.array(values)), text)


if __name__ == "__main__":
    unittest.main()
