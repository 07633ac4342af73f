#!/usr/bin/env python3
"""Correlations over seeds: against numpy, and in simulated studies: how often the interval covers the truth and the test finds what is not
there. Status 77 if numpy or scipy is not installed.
"""

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

from fluxformer.statistics import correlation  # noqa: E402

STUDIES = 2000 if FULL_TIER else 500
DELTA = 3 * math.sqrt(0.05 * 0.95 / STUDIES)  # three standard errors of a share near 5 %: 1.5 % of 2000 studies, 3 % of 500
NAN = math.nan


def labels(sets, seeds, models=3):
    """(model on a data set, data set, seed on a data set) of each row."""
    data, seed, model = np.indices((sets, seeds, models)).reshape(3, -1)
    return data * models + model, data, data * seeds + seed


def within(x, y, sets, seeds, models=3):
    """The correlation without the means of models."""
    group, data, cluster = labels(sets, seeds, models)
    return correlation(np.ravel(x), np.ravel(y), group, data, cluster)


def between(x, y, sets, seeds, models=3):
    """The correlation without the means of data sets alone."""
    _, data, cluster = labels(sets, seeds, models)
    return correlation(np.ravel(x), np.ravel(y), data, data, cluster)


def studies(rho, sets, seeds, common=0.5, shift=0.0):
    """Numbers x, y of three models [set, seed, model] that correlate by rho; a share `common` of their variance belongs to the seed; the
    models differ by `shift` in x and by -shift / 2 in y."""
    random = np.random.default_rng(11)
    mixed = np.linalg.cholesky([[1, rho], [rho, 1]]).T
    for _ in range(STUDIES):
        of_seed, own = random.standard_normal((sets, seeds, 1, 2)), random.standard_normal((sets, seeds, 3, 2))
        x, y = np.moveaxis((math.sqrt(common) * of_seed + math.sqrt(1 - common) * own) @ mixed, -1, 0)
        # Data sets have scales and means of their own.
        scale = np.array([1.0, 7.0])[:sets, None, None]
        yield scale * (x + shift * np.arange(3) + 5), y / scale - shift / 2 * np.arange(3) / scale - 3


class Simulation(unittest.TestCase):
    """Two data sets of ten seeds, or one of six, with three models each."""

    def test_intervals_cover_the_truth(self):
        """The jackknife's variance errs on the large side (Efron and Stein), here by 5 to 15 %: coverage of up to 97 %, DELTA aside."""
        for sets, seeds, rho in ((2, 10, 0.5), (1, 6, 0.0), (1, 6, 0.8)):
            ends = [within(x, y, sets, seeds).interval() for x, y in studies(rho, sets, seeds)]
            covered = np.mean([low <= rho <= high for low, high in ends])
            self.assertGreaterEqual(covered, 0.95 - DELTA, (sets, seeds, rho))
            self.assertLessEqual(covered, 0.97 + DELTA, (sets, seeds, rho))

    def test_intervals_cover_the_truth_between_models(self):
        """Of the three models themselves: their differences are part of the truth, with the variance over them of shift^2 2/3."""
        rho, shift = 0.5, 1.5
        x, y = 1 + shift ** 2 * 2 / 3, 1 + shift ** 2 / 4 * 2 / 3
        truth = (rho - shift ** 2 / 2 * 2 / 3) / math.sqrt(x * y)
        ends = [between(x, y, 2, 10).interval() for x, y in studies(rho, 2, 10, shift=shift)]
        covered = np.mean([low <= truth <= high for low, high in ends])
        self.assertGreaterEqual(covered, 0.95 - DELTA)
        self.assertLessEqual(covered, 0.97 + DELTA)

    def test_no_correlation_is_rarely_found(self):
        for sets, seeds, measure, shift in ((2, 10, within, 0.0), (1, 6, within, 3.0), (2, 10, between, 0.0)):
            found = np.mean([measure(x, y, sets, seeds).p_value() < 0.05 for x, y in studies(0.0, sets, seeds, shift=shift)])
            self.assertLessEqual(found, 0.05 + DELTA, (sets, seeds, measure.__name__))

    def test_models_of_a_seed_are_no_independent_rows(self):
        """What the clusters are for: with every row for itself the same studies find what is not there."""
        group, data, _ = labels(1, 10)
        found = np.mean([correlation(x.ravel(), y.ravel(), group, data, np.arange(30)).p_value() < 0.05
                         for x, y in studies(0.0, 1, 10, common=0.9)])
        self.assertGreater(found, 0.2)

    def test_a_correlation_is_found(self):
        """Of 20 independent seeds, |r| = 0.7: Fisher's z is 0.87 and its deviation at most 1 / sqrt(17), a power of 94 %."""
        found = np.mean([within(x, y, 2, 10).p_value() < 0.05 for x, y in studies(-0.7, 2, 10)])
        self.assertGreater(found, 0.9)


class Numbers(unittest.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(2)

    def test_r_of_one_model_is_that_of_numpy(self):
        x, y = self.random.standard_normal((2, 12)) * [[3], [1e-6]] + 8
        for measure in (within, between):
            self.assertAlmostEqual(measure(x, y, 1, 12, 1).r, np.corrcoef(x, y)[0, 1], 12)

    def test_r_is_that_of_what_is_left_without_the_means(self):
        x, y = self.random.standard_normal((2, 2, 5, 3)) + np.arange(3)
        for measure, axes in ((within, 1), (between, (1, 2))):
            left = [one - one.mean(axis=axes, keepdims=True) for one in (x, y)]
            left = [(one / one.std(axis=(1, 2), keepdims=True)).ravel() for one in left]
            self.assertAlmostEqual(measure(x, y, 2, 5).r, np.corrcoef(*left)[0, 1], 12)

    def test_interval_and_p_are_those_of_the_jackknife(self):
        x, y = self.random.standard_normal((2, 1, 7, 2))
        found = between(x, y, 1, 7, 2)
        z = [math.atanh(np.corrcoef(*(np.delete(one, k, axis=1).ravel() for one in (x, y)))[0, 1]) for k in range(7)]
        pseudo = 7 * math.atanh(np.corrcoef(x.ravel(), y.ravel())[0, 1]) - 6 * np.array(z)
        expected = stats.ttest_1samp(pseudo, 0)  # the jackknife's variance is that of the mean of its pseudo-values
        self.assertAlmostEqual(found.p_value(), expected.pvalue, 12)
        for alpha in (0.05, 0.001):
            np.testing.assert_allclose(np.arctanh(found.interval(alpha)), expected.confidence_interval(1 - alpha), rtol=1e-9)

    def test_seeds_without_a_number_are_left_out(self):
        x, y = self.random.standard_normal((2, 1, 8, 2))
        rest = between(np.delete(x, [2, 5], axis=1), np.delete(y, [2, 5], axis=1), 1, 6, 2)
        x[:, 2], y[:, 5] = NAN, np.inf
        found = between(x, y, 1, 8, 2)
        self.assertEqual(found.clusters, 6)
        self.assertAlmostEqual(found.r, rest.r, 12)
        np.testing.assert_allclose(found.interval(), rest.interval(), rtol=1e-9)
        x[:, 3, 0] = NAN  # one model alone: the other one of this seed counts
        self.assertEqual(between(x, y, 1, 8, 2).clusters, 6)

    def test_a_data_set_that_says_nothing_is_left_out(self):
        x, y = self.random.standard_normal((2, 2, 6, 2))
        alone = within(x[:1], y[:1], 1, 6, 2)
        x[1] = [0.1 + 0.2, 0.3]  # no spread but round-off
        found = within(x, y, 2, 6, 2)
        self.assertEqual((found.r, found.clusters), (alone.r, 6))
        one_seed = np.concatenate([x[:1], np.full((1, 6, 2), NAN)])
        one_seed[1, 0] = 1.0
        self.assertEqual(within(one_seed, y, 2, 6, 2).clusters, 6)

    def test_fewer_than_four_seeds_have_no_interval(self):
        for seeds in range(5):
            x, y = self.random.standard_normal((2, 1, seeds, 2))
            found = between(x, y, 1, seeds, 2)
            for number in (*found.interval(), found.p_value()):
                self.assertEqual(math.isfinite(number), seeds == 4, seeds)
            self.assertEqual(math.isfinite(found.r), seeds > 0)

    def test_what_is_the_same_has_no_interval(self):
        x = self.random.standard_normal((1, 8, 2))
        for factor in (2.0, -3.0):
            found = within(x, factor * x + 1, 1, 8, 2)
            self.assertAlmostEqual(found.r, math.copysign(1, factor), 12)
            self.assertTrue(math.isnan(found.p_value()) and np.isnan(found.interval()).all())
        # All but one seed on a line: what is left without it is nearly perfect, and little is known.
        y = x.copy()
        y[0, 0] += [3, -3]
        low, high = within(x, y, 1, 8, 2).interval()
        self.assertTrue(-1 <= low < 0.5 and high <= 1)

    def test_of_nothing_there_is_no_correlation(self):
        found = correlation([], [], [], [], [])
        self.assertTrue(math.isnan(found.r) and math.isnan(found.p_value()) and found.clusters == 0)


if __name__ == "__main__":
    unittest.main()
