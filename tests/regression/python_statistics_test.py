#!/usr/bin/python3
"""Verdicts: against simulated studies, against scipy and by hand, and the four defects of judging by "five standard deviations"."""

import math
import os
import sys
import unittest

try:
    import numpy as np
    from scipy import stats
except ImportError as failure:
    print(f"NOT RUN: {failure}", file=sys.stderr)
    sys.exit(77)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

import python_package  # noqa: E402, F401 (puts fluxformer on the path)
from program import FULL_TIER  # noqa: E402

from fluxformer.judging import CountQuestion, Question, Verdict, judge, judge_claims, judge_estimators, judge_value  # noqa: E402
from fluxformer.statistics import Effect, diverged_p, holm, shared_variance  # noqa: E402

STUDIES = 2000 if FULL_TIER else 500
# Shares of 2.5 % and 5 %, and three standard errors of 500 studies; of 2000 they are half as far away.
ONE_SIDED, TWO_SIDED = (0.035, 0.06) if FULL_TIER else (0.046, 0.079)
NAN = math.nan


def verdict_of(values, shared=0.0, delta=None):
    return judge([Question((Effect(values, shared),), delta)])[0].verdict


class Simulation(unittest.TestCase):
    """2000 studies, of which a share near 5 % has a standard error of 0.5 %, or 500; the bounds are three of them away."""

    def studies(self, mean=0.0, seeds=10, samples=0, of_sample=0.0, of_both=0.0):
        """Effects mean + a_k + b_i + c_ki of seeds k (deviation 1) and test samples i that all seeds share."""
        random = np.random.default_rng(7)
        for _ in range(STUDIES):
            effects, shared = mean + random.standard_normal(seeds), 0.0
            if samples:
                differences = (effects[:, None] + of_sample * random.standard_normal(samples)
                               + of_both * random.standard_normal((seeds, samples)))
                effects, shared = differences.mean(axis=1), shared_variance(differences)
            yield Effect(effects, shared)

    def shares(self, **how):
        verdicts = [judge([Question((one,))])[0].verdict for one in self.studies(**how)]
        return verdicts.count(Verdict.HOLDS) / STUDIES, verdicts.count(Verdict.OPPOSITE) / STUDIES

    def test_intervals_cover_the_truth(self):
        for seeds in (3, 10):
            covered = np.mean([low <= 2 <= high for low, high in (one.interval() for one in self.studies(mean=2, seeds=seeds))])
            self.assertAlmostEqual(covered, 0.95, delta=3 * math.sqrt(0.05 * 0.95 / STUDIES))

    def test_no_effect_rarely_earns_a_verdict(self):
        for how in ({}, {"seeds": 3}, {"samples": 50, "of_sample": 5.0}, {"samples": 50, "of_sample": 5.0, "of_both": 5.0, "seeds": 3},
                    {"samples": 20, "of_sample": 20.0}):
            with self.subTest(**how):
                holds, opposite = self.shares(**how)
                self.assertLessEqual(holds, ONE_SIDED)
                self.assertLessEqual(holds + opposite, TWO_SIDED)

    def test_shared_samples_would_earn_verdicts_if_they_were_not_counted(self):
        """What V is for: without it the same studies find an effect that is not there."""
        without = [judge([Question((Effect(one.values),))])[0].verdict for one in self.studies(samples=20, of_sample=20.0)]
        self.assertGreater(1 - without.count(Verdict.UNDECIDED) / STUDIES, 0.3)

    def test_a_true_effect_of_the_detectable_size_is_found(self):
        size = Effect(np.array([1.0, -1.0] * 5) * math.sqrt(9 / 10)).detectable()  # of 10 seeds whose deviation is 1
        holds, opposite = self.shares(mean=size)
        self.assertGreaterEqual(holds, 0.75)
        self.assertLessEqual(opposite, 0.002)

    def test_several_claims_without_effect_rarely_earn_any_verdict(self):
        random = np.random.default_rng(3)
        wrong = 0
        for _ in range(STUDIES):
            found = judge([Question((Effect(random.standard_normal(6)),)) for _ in range(8)])
            wrong += any(one.verdict != Verdict.UNDECIDED for one in found)
        self.assertLessEqual(wrong / STUDIES, 0.05 + 3 * math.sqrt(0.05 * 0.95 / STUDIES))

    def test_equivalence_is_rarely_claimed_of_a_relevant_difference(self):
        verdicts = [verdict_of(one.values, delta=1.0) for one in self.studies(mean=1.0)]
        self.assertLessEqual(verdicts.count(Verdict.NO_DIFFERENCE) / STUDIES, 0.05 + 3 * math.sqrt(0.05 * 0.95 / STUDIES))
        verdicts = [verdict_of(one.values, delta=1.5) for one in self.studies(mean=0.0)]
        self.assertGreater(verdicts.count(Verdict.NO_DIFFERENCE) / STUDIES, 0.9)


class Numbers(unittest.TestCase):
    def test_p_and_interval_are_those_of_the_t_test(self):
        values = np.array([0.3, 1.2, 0.7, -0.1, 0.9])
        found = stats.ttest_1samp(values, 0)
        effect = Effect(values)
        self.assertAlmostEqual(effect.p_value(), found.pvalue, 12)
        np.testing.assert_allclose(effect.interval(), found.confidence_interval(0.95), rtol=1e-12)
        # Two one-sided tests at 5 %: the 90 % interval lies within +- delta exactly where p < 5 %.
        low, high = effect.interval(0.1)
        for delta in (max(abs(low), high) * f for f in (0.99, 1.01)):
            self.assertEqual(effect.equivalence_p(delta) < 0.05, -delta < low and high < delta)

    def test_holm_by_hand(self):
        rejected, level = holm([0.01, 0.04, NAN, 0.03, 0.005])
        np.testing.assert_array_equal(rejected, [True, False, False, False, True])
        np.testing.assert_allclose(level, [0.05 / 3, 0.025, NAN, 0.025, 0.0125])

    def test_an_interval_excludes_zero_where_its_claim_is_decided(self):
        random = np.random.default_rng(5)
        for _ in range(200):
            for one in judge([Question((Effect(m + random.standard_normal(5)),)) for m in (0, 0.5, 1, 2, 3)]):
                decided = one.verdict in (Verdict.HOLDS, Verdict.OPPOSITE)
                self.assertEqual(decided, not one.interval[0] <= 0 <= one.interval[1])

    def test_the_detectable_effect_is_that_of_the_noncentral_t(self):
        for seeds in (3, 6, 10):
            effect = Effect(np.arange(seeds, dtype=float))
            shift, quantile = effect.detectable(0.01) / effect.error, stats.t.ppf(0.995, seeds - 1)
            power = stats.nct.sf(quantile, seeds - 1, shift) + stats.nct.cdf(-quantile, seeds - 1, shift)
            self.assertAlmostEqual(power, 0.8, delta=1e-3)  # 2000 points

    def test_sign_flips_by_hand(self):
        for values in ([1, 2, 3], [-1, -2, -3]):
            self.assertEqual(Effect(values).sign_flip_p(), 2 / 8)
        self.assertEqual(Effect([1, 1, 1, 1, 1, 1]).sign_flip_p(), 2 / 64)  # six seeds: the first to reach 0.05
        self.assertEqual(Effect([3, -1]).sign_flip_p(), 1)
        self.assertAlmostEqual(Effect(np.random.default_rng(1).standard_normal(25) + 0.4).sign_flip_p(),
                               stats.ttest_1samp(np.random.default_rng(1).standard_normal(25) + 0.4, 0).pvalue, delta=0.01)

    def test_shared_variance_by_hand(self):
        self.assertEqual(shared_variance([[1, 3], [3, 5]]), 2 / 2)  # means 2, 4: variance 2, two samples
        self.assertEqual(shared_variance([[1, 3], [NAN, 5]]), 1)
        self.assertEqual(shared_variance([[1], [2]]), 0)

    def test_divergences_by_fisher(self):
        self.assertAlmostEqual(diverged_p((10, 10), (0, 10)), 2 / math.comb(20, 10), 12)
        self.assertEqual(diverged_p((1, 3), (1, 3)), 1)


class Verdicts(unittest.TestCase):
    def test_of_a_value(self):
        self.assertEqual(judge_value(Effect([1.0, 1.1, 0.9]), 1, 0.5).verdict, Verdict.HOLDS)
        self.assertEqual(judge_value(Effect([1.0, 1.1, 0.9]), 1, 0.1).verdict, Verdict.UNDECIDED)
        self.assertEqual(judge_value(Effect([1.0, 1.1, 0.9]), 1, 0.3, alpha=0.01).verdict, Verdict.UNDECIDED)  # ± 0.25 at 5 %, 0.57 at 1 %
        self.assertEqual(judge_value(Effect([1.0, 1.1, 0.9]), 1, 0.3).verdict, Verdict.HOLDS)
        self.assertEqual(judge_value(Effect([1.0, 1.1, 0.9]), 3, 0.5).verdict, Verdict.MISSED)
        self.assertEqual(judge_value(Effect([1.0, 1.1, 0.9]), 1.4, 0.2).verdict, Verdict.UNDECIDED)  # up to 1.25: beside 1.4, not beside 1.2
        self.assertEqual(judge_value(Effect([0.9, 0.9]), 1, 0.1).verdict, Verdict.HOLDS)  # deterministic

    def test_against_several_nulls_the_hardest_counts(self):
        clear, weak = Effect([5, 5.1, 4.9]), Effect([0.1, -0.1, 0.2])
        found, = judge([Question((clear, weak))])
        self.assertEqual((found.verdict, found.effect), (Verdict.UNDECIDED, weak))
        self.assertEqual(found.p, weak.p_value())
        found, = judge([Question((clear, Effect([-5, -5.1, -4.9])))])
        self.assertEqual((found.verdict, found.p, found.effect.mean), (Verdict.UNDECIDED, 1, -5))
        self.assertTrue(math.isnan(found.detectable))  # both were found
        found, = judge([Question((clear, Effect([4, 4.2, 4.1])))])
        self.assertEqual(found.verdict, Verdict.HOLDS)

    def test_an_undecided_claim_says_what_could_have_been_found(self):
        found, = judge([Question((Effect([0.5, -0.5, 0.3]),))])
        self.assertGreater(found.detectable, 0.5)
        self.assertTrue(math.isnan(judge([Question((Effect([5, 5.1, 4.9]),))])[0].detectable))


STEPS = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
ERROR = math.sqrt(2.5 / 5)  # of their mean


def effect_of(p, sign=1.0):
    """Five seeds whose mean has this two-sided p against 0."""
    return Effect(STEPS + sign * stats.t.isf(p / 2, 4) * ERROR)


def different(p, sign=1.0):
    return Question((effect_of(p, sign),))


def equal(p):
    """Mean 0, and the delta for which two one-sided tests have this p."""
    return Question((Effect(STEPS),), stats.t.isf(p, 4) * ERROR)


class Families(unittest.TestCase):
    """Effects with given p: what Holm makes of them is known beforehand."""

    def test_the_effects_have_these_p(self):
        self.assertAlmostEqual(stats.ttest_1samp(effect_of(0.03, -1).values, 0).pvalue, 0.03, 12)
        self.assertAlmostEqual(different(0.03).p, 0.03, 12)
        self.assertAlmostEqual(equal(0.03).equivalence_p, 0.03, 12)

    def verdicts(self, *claims):
        return [found.verdict for found, _ in judge_claims(claims)]

    def test_equivalences_are_a_family_of_their_own(self):
        self.assertEqual(self.verdicts([equal(0.03)], [equal(0.04)]), [Verdict.UNDECIDED] * 2)
        self.assertEqual(self.verdicts([equal(0.02)], [equal(0.04)]), [Verdict.NO_DIFFERENCE] * 2)
        self.assertEqual(self.verdicts([equal(0.04)], [different(0.5)], [different(0.6)]), [Verdict.NO_DIFFERENCE, *[Verdict.UNDECIDED] * 2])

    def test_the_interval_of_no_difference_is_that_of_two_one_sided_tests(self):
        found, _ = judge([equal(0.02), equal(0.04)])
        np.testing.assert_allclose(found.interval, stats.ttest_1samp(STEPS, 0).confidence_interval(0.95), rtol=1e-12)  # Holm: 2.5 % on each side
        self.assertEqual(found.alpha, 0.025)

    def test_a_claim_has_the_p_of_its_weakest_estimator(self):
        self.assertEqual(self.verdicts([different(0.001), different(0.04)], [different(0.03)])[1], Verdict.UNDECIDED)  # 0.03 > 0.05 / 2
        self.assertEqual(self.verdicts([different(0.001), different(0.02)], [different(0.03)]), [Verdict.HOLDS] * 2)
        self.assertEqual(self.verdicts([equal(0.001), equal(0.04)], [equal(0.03)])[1], Verdict.UNDECIDED)
        self.assertAlmostEqual(judge_claims([[different(0.001), different(0.02)]])[0][0].p, 0.02, 12)

    def test_estimators_of_other_signs_have_no_p(self):
        self.assertEqual(self.verdicts([different(0.001), different(0.001, -1)], [different(0.03)]), [Verdict.DISAGREE, Verdict.UNDECIDED])

    def test_no_difference_has_to_be_shown_against_every_control(self):
        near, far = Effect(STEPS / 100), Effect(STEPS)
        for effects in ((near, far), (far, near)):
            self.assertEqual(judge([Question(effects, 0.1)])[0].verdict, Verdict.UNDECIDED)
        self.assertEqual(judge([Question((near, near), 0.1)])[0].verdict, Verdict.NO_DIFFERENCE)

    def test_a_deterministic_effect_is_held_against_delta(self):
        near, inside, outside = Effect(STEPS / 100), Effect([0.05] * 5), Effect([5.0] * 5)
        for effects, verdict in (((inside,), Verdict.NO_DIFFERENCE), ((outside,), Verdict.HOLDS), ((near, inside), Verdict.NO_DIFFERENCE),
                                 ((inside, near), Verdict.NO_DIFFERENCE), ((near, outside), Verdict.UNDECIDED), ((outside, near), Verdict.UNDECIDED)):
            self.assertEqual(judge([Question(effects, 0.1)])[0].verdict, verdict, [one.mean for one in effects])
        # One of two estimators: it takes no part in the tests, but has to agree.
        for other, verdict in ((inside, Verdict.NO_DIFFERENCE), (outside, Verdict.DISAGREE)):
            self.assertEqual(self.verdicts([Question((near,), 0.1), Question((other,), 0.1)]), [verdict])

    def test_counts_are_judged_with_the_others(self):
        ends = CountQuestion((4, 4), (0, 4))  # p = 2 / 70
        self.assertEqual(judge([ends])[0].verdict, Verdict.HOLDS)
        self.assertEqual(judge([ends, different(0.5)])[0].verdict, Verdict.UNDECIDED)

    def test_an_estimator_without_a_number_decides_nothing(self):
        self.assertEqual(self.verdicts([different(0.5), Question((Effect([NAN] * 5),))]), [Verdict.UNDECIDED])
        self.assertEqual(self.verdicts([different(0.001), Question((Effect([NAN] * 5),))]), [Verdict.UNDECIDED])

    def test_what_is_not_tested_has_the_interval_of_the_level_that_was_asked_for(self):
        found = judge_claims([[different(0.001), Question((Effect([NAN] * 5),))]], 0.01)[0][1][0]
        np.testing.assert_allclose(found.interval, stats.ttest_1samp(effect_of(0.001).values, 0).confidence_interval(0.99), rtol=1e-12)


class DefectsOfTheOldRule(unittest.TestCase):
    def test_a_seed_without_a_number_does_not_count(self):
        found, = judge([Question((Effect([NAN, 1.0, 1.2, 0.9]),))])
        self.assertEqual((found.verdict, found.effect.count), (Verdict.HOLDS, 3))
        self.assertEqual(verdict_of([NAN, NAN]), Verdict.NO_DATA)
        self.assertEqual(verdict_of([NAN, 3.0]), Verdict.UNDECIDED)  # one seed shows no spread

    def test_no_spread_is_no_infinite_lead(self):
        found, = judge([Question((Effect([0.5, 0.5, 0.5]),))])
        self.assertEqual(found.verdict, Verdict.HOLDS)
        self.assertTrue(found.effect.deterministic and math.isnan(found.p))
        self.assertEqual(found.interval, (0.5, 0.5))
        self.assertEqual(verdict_of([0.5, 0.5, 0.5], shared=1.0), Verdict.UNDECIDED)  # the samples still vary

    def test_estimators_join_in_the_same_way_on_both_sides(self):
        up, down, none = (judge([Question((Effect(np.array(v)),))])[0] for v in ([5, 5.1, 4.9], [-5, -5.1, -4.9], [0.1, -0.1, 0.2]))
        self.assertEqual(judge_estimators([up, up]).verdict, Verdict.HOLDS)
        self.assertEqual(judge_estimators([down, down]).verdict, Verdict.OPPOSITE)
        for mixed, signs in (([up, down], "+ −"), ([up, none], "+ (+)"), ([down, none], "− (+)")):
            self.assertEqual((judge_estimators(mixed).verdict, judge_estimators(mixed).signs), (Verdict.DISAGREE, signs))

    def test_a_miss_has_an_uncertainty(self):
        self.assertEqual(verdict_of([-0.1, 0.3, -0.4]), Verdict.UNDECIDED)  # not "the opposite"
        self.assertEqual(judge_value(Effect([0.0, 2.0, 1.0]), 3, 0.5).verdict, Verdict.UNDECIDED)  # not "missed"


if __name__ == "__main__":
    unittest.main()
