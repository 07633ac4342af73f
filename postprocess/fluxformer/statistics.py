"""Effects over seeds and what is known of them: intervals, p-values, several claims at once.

The effect of a claim is one number per seed, paired (same data, same order of samples, same initial embedding where it is
shared), positive where the claim holds. Means over seeds are judged by Student's t with n - 1 degrees of freedom and the variance

    s^2 / n + V,

s the deviation over the n seeds with a finite effect, V what the test samples add that all seeds share (`shared_variance`): it does
not average out over seeds. Claims that are fixed beforehand are judged together by Holm's step-down procedure.

Sources: Holm, Scand. J. Statist. 6 (1979) 65; Schuirmann, J. Pharmacokinet. Biopharm. 15 (1987) 657 (two one-sided tests); Fisher's
exact test and the sign-flip (permutation) test: Lehmann and Romano, Testing Statistical Hypotheses (2005), sections 4.6 and 15.2.

Whether two quantities go together over seeds is told by Pearson's r (`correlation`). A row is a model that was trained from a seed on a data
set. All models of a seed on a data set have the same batches, test samples and partly the same first weights: together they are one cluster,
and clusters are independent. Numbers are taken about the means of their groups and divided by the standard deviation of their data set, so
that r compares seeds and not data sets. Interval and p: the delete-one jackknife over clusters of Fisher's z = atanh r, whose distribution is
nearer to a normal one, with Student's t of (clusters - 1) degrees of freedom. It needs no normal distribution of the numbers. Sources: Fisher,
Metron 1 (1921) 3; Efron and Stein, Ann. Statist. 9 (1981) 586.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, stats

ALPHA = 0.05
POWER = 0.8
MOST_FLIPS = 1 << 20  # sign flips that are counted one by one; more seeds than 20 are drawn at random
FEWEST = 4      # clusters from which on a correlation has an interval
TINY = 1e-12    # beyond it a distance of |r| from 1, or a spread over a number, is more than round-off


@dataclass(frozen=True)
class Effect:
    """The mean effect over seeds and how well it is known.

    Attributes
    ----------
    values : ndarray, shape (seeds,)
        One effect per seed; not finite where a seed has none (it diverged).
    shared : float
        V, the variance of the mean that the shared test samples add; in squared units of the effect.
    """
    values: np.ndarray
    shared: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", np.asarray(self.values, dtype=float).ravel())
        if not (self.shared >= 0 and math.isfinite(self.shared)):
            raise ValueError(f"shared = {self.shared}: a variance must be finite and >= 0")

    @property
    def finite(self) -> np.ndarray:
        """The effects that count."""
        return self.values[np.isfinite(self.values)]

    @property
    def count(self) -> int:
        """Number of seeds that count."""
        return len(self.finite)

    @property
    def mean(self) -> float:
        """Mean over the seeds that count; NaN if there are none."""
        return float(self.finite.mean()) if self.count else math.nan

    @property
    def deterministic(self) -> bool:
        """True if there is no spread over at least two seeds and none from the test samples: the value has no
        interval."""
        return self.count > 1 and self.shared == 0 and bool(np.all(self.finite == self.finite[0]))

    @property
    def error(self) -> float:
        """Standard error of the mean; NaN for fewer than two seeds."""
        return math.sqrt(self.finite.var(ddof=1) / self.count + self.shared) if self.count > 1 else math.nan

    def interval(self, alpha: float = ALPHA) -> tuple[float, float]:
        """Two-sided interval of level 1 - alpha for the mean; the value itself where it is deterministic."""
        if self.count < 2:
            return math.nan, math.nan
        if self.deterministic:
            return self.mean, self.mean
        half = stats.t.ppf(1 - alpha / 2, self.count - 1) * self.error
        return self.mean - half, self.mean + half

    def p_value(self, null: float = 0.0) -> float:
        """Two-sided p of the mean against `null`; NaN where there is no test (one seed, or deterministic)."""
        if self.count < 2 or self.deterministic:
            return math.nan
        return float(2 * stats.t.sf(abs(self.mean - null) / self.error, self.count - 1))

    def equivalence_p(self, delta: float) -> float:
        """The p of two one-sided tests that the mean lies within +- delta: the larger of the two."""
        if self.count < 2 or self.deterministic:
            return math.nan
        return float(stats.t.sf((delta - abs(self.mean)) / self.error, self.count - 1))

    def detectable(self, alpha: float = ALPHA, power: float = POWER) -> float:
        """The true effect that a two-sided test at `alpha` would find with probability `power`, at this standard error."""
        if self.count < 2 or self.deterministic:
            return math.nan
        quantile = stats.t.ppf(1 - alpha / 2, self.count - 1)
        # The noncentral t, as a mean of normal tails over the deviation that n seeds show (2000 equally likely values of it).
        # It agrees with scipy.stats.nct, which is not used, to 1e-5 of the effect.
        shown = quantile * np.sqrt(stats.chi2.ppf((np.arange(2000) + 0.5) / 2000, self.count - 1) / (self.count - 1))

        def missing(shift: float) -> float:
            return power - float(np.mean(stats.norm.sf(shown - shift) + stats.norm.sf(shown + shift)))

        high = 2 * quantile
        while missing(high) > 0:
            high *= 2
        return float(optimize.brentq(missing, 0, high)) * self.error

    def sign_flip_p(self, draws: int = 100_000, seed: int = 0) -> float:
        """Two-sided p of all flips of sign of the effects about 0: exact up to 20 seeds, `draws` random flips beyond.

        The smallest possible value is 2 / 2^n: six seeds are needed for less than 0.05."""
        values = self.finite
        if len(values) == 0:
            return math.nan
        seen = abs(values.sum()) * (1 - 1e-12)  # round-off must not break ties
        if 2 ** len(values) <= MOST_FLIPS:
            # One sign is fixed: the flips come in pairs of equal size. scipy.stats.permutation_test gives the same p in ten times the time.
            signs = np.array(list(product((1.0, -1.0), repeat=len(values) - 1))).reshape(-1, len(values) - 1)
            return float(np.mean(np.abs(values[0] + signs @ values[1:]) >= seen))
        drawn = np.random.default_rng(seed).choice((1.0, -1.0), size=(draws, len(values)))
        return float((1 + np.sum(np.abs(drawn @ values) >= seen)) / (1 + draws))


def shared_variance(differences: ArrayLike) -> float:
    """V of an effect that is a mean over test samples which all seeds share.

    Parameters
    ----------
    differences : array_like, shape (seeds, samples)
        Effect of each test sample for each seed. Seeds with numbers that are not finite are left out.

    Returns
    -------
    float
        Var_i(d_i) / samples, with d_i the difference of sample i averaged over seeds; 0 for fewer than two samples.
    """
    differences = np.asarray(differences, dtype=float)
    differences = differences[np.isfinite(differences).all(axis=1)]
    if len(differences) == 0 or differences.shape[1] < 2:
        return 0.0
    return float(differences.mean(axis=0).var(ddof=1) / differences.shape[1])


def holm(p_values: ArrayLike, alpha: float = ALPHA) -> tuple[np.ndarray, np.ndarray]:
    """Holm's step-down procedure.

    Parameters
    ----------
    p_values : array_like, shape (claims,)
        p of each claim; NaN: not tested, and not counted as a claim.

    Returns
    -------
    rejected : ndarray of bool
    level : ndarray
        The alpha at which each p was judged: an interval at it excludes the null value exactly where it is rejected.
    """
    p_values = np.asarray(p_values, dtype=float)
    tested = np.flatnonzero(np.isfinite(p_values))
    rejected, level = np.zeros(len(p_values), dtype=bool), np.full(len(p_values), np.nan)
    going = True
    current = math.nan
    for rank, claim in enumerate(tested[np.argsort(p_values[tested], kind="stable")]):
        if going:
            current = alpha / (len(tested) - rank)
            going = bool(p_values[claim] <= current)
        rejected[claim], level[claim] = going, current
    return rejected, level


def diverged_p(first: tuple[int, int], second: tuple[int, int]) -> float:
    """Two-sided p of Fisher's exact test for two pairs (runs that diverged, runs)."""
    table = [[diverged, runs - diverged] for diverged, runs in (first, second)]
    return float(stats.fisher_exact(table)[1])


@dataclass(frozen=True)
class Correlation:
    """Pearson's r and how well it is known.

    Attributes
    ----------
    r : float
        Pearson's r; NaN where it cannot be formed.
    z : float
        atanh r, without the bias that the jackknife sees; the centre of the interval.
    error : float
        Standard error of z; NaN for fewer clusters than FEWEST, and for r = +-1, which has no spread.
    clusters : int
        Number of clusters that count.
    """
    r: float
    z: float
    error: float
    clusters: int

    def interval(self, alpha: float = ALPHA) -> tuple[float, float]:
        """Two-sided interval of level 1 - alpha for r."""
        if not self.error > 0:
            return math.nan, math.nan
        half = stats.t.ppf(1 - alpha / 2, self.clusters - 1) * self.error
        return math.tanh(self.z - half), math.tanh(self.z + half)

    def p_value(self) -> float:
        """Two-sided p that there is no correlation; NaN without an interval."""
        if not self.error > 0:
            return math.nan
        return float(2 * stats.t.sf(abs(self.z) / self.error, self.clusters - 1))


def correlation(x: ArrayLike, y: ArrayLike, group: ArrayLike, data: ArrayLike, cluster: ArrayLike) -> Correlation:
    """The correlation of two quantities.

    Parameters
    ----------
    x, y : array_like, shape (rows,)
        Rows with a number that is not finite are left out.
    group : array_like of int, shape (rows,)
        The mean of each group is removed: of a model on a data set, so that differences between models do not count; or of a data set, so
        that they do.
    data : array_like of int, shape (rows,)
        The data set, by whose standard deviation about the means of its groups the numbers are divided. One in which x or y is constant
        says nothing and is left out.
    cluster : array_like of int, shape (rows,)
        Rows of the same number depend on each other.
    """
    x, y = (np.asarray(one, dtype=float) for one in (x, y))
    there = np.isfinite(x) & np.isfinite(y)
    labels = [np.unique(np.asarray(one)[there], return_inverse=True)[1] for one in (group, data, cluster)]
    numbers = np.stack([x[there], y[there]])
    kept = _informative(numbers, *labels[:2])
    numbers, labels = numbers[:, kept], [one[kept] for one in labels]
    clusters = np.unique(labels[2])
    count = len(clusters)
    r = _r(numbers, *labels[:2])
    if count < FEWEST or not abs(r) < 1 - TINY:
        return Correlation(r, math.atanh(r) if abs(r) < 1 - TINY else math.nan, math.nan, count)
    without = np.array([_r(numbers[:, rest], *(one[rest] for one in labels[:2])) for rest in (labels[2] != one for one in clusters)])
    if not np.isfinite(without).all():
        return Correlation(r, math.atanh(r), math.nan, count)
    z = np.arctanh(np.clip(without, TINY - 1, 1 - TINY))
    error = math.sqrt((count - 1) / count * float(np.sum((z - z.mean()) ** 2)))
    return Correlation(r, count * math.atanh(r) - (count - 1) * float(z.mean()), error, count)


def _about_means(numbers: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Numbers without the mean of their group; shape (2, rows)."""
    counts = np.maximum(np.bincount(group), 1)
    return np.stack([one - (np.bincount(group, one) / counts)[group] for one in numbers])


def _spread(about: np.ndarray, data: np.ndarray) -> np.ndarray:
    """The standard deviation of the data set of each row; shape (2, rows)."""
    counts = np.maximum(np.bincount(data), 1)
    return np.stack([np.sqrt(np.bincount(data, one ** 2) / counts)[data] for one in about])


def _informative(numbers: np.ndarray, group: np.ndarray, data: np.ndarray) -> np.ndarray:
    """True for rows that have company in their group, of data sets in which both quantities vary beyond round-off."""
    company = np.bincount(group)[group] > 1
    spread = _spread(_about_means(numbers, group), data)
    return company & np.all(spread > TINY * np.abs(numbers), axis=0)


def _r(numbers: np.ndarray, group: np.ndarray, data: np.ndarray) -> float:
    """Pearson's r of numbers about the means of their groups, over the spread of their data set; NaN without any."""
    about = _about_means(numbers, group)
    spread = _spread(about, data)
    x, y = np.divide(about, spread, out=np.zeros_like(about), where=spread > TINY * np.abs(numbers))
    size = math.sqrt(float(x @ x) * float(y @ y))
    return float(np.clip(x @ y / size, -1, 1)) if size > 0 else math.nan
