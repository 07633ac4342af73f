"""Whether two quantities go together over seeds: Pearson's r with an interval, where rows that share a seed depend on each other.

A row is a model that was trained from a seed on a data set. All models of a seed on a data set have the same batches, test samples and
partly the same first weights: together they are one cluster, and clusters are independent. Numbers are taken about the means of their
groups and divided by the standard deviation of their data set, so that r compares seeds and not data sets.

Interval and p: the delete-one jackknife over clusters of Fisher's z = atanh r, whose distribution is nearer to a normal one, with Student's
t of (clusters - 1) degrees of freedom. It needs no normal distribution of the numbers. Sources: Fisher, Metron 1 (1921) 3; Efron and
Stein, Ann. Statist. 9 (1981) 586.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from fluxformer.statistics import ALPHA

FEWEST = 4      # clusters that have an interval
TINY = 1e-12    # beyond it a distance of |r| from 1, or a spread over a number, is more than round-off


@dataclass(frozen=True)
class Correlation:
    """r and how well it is known.

    Attributes
    ----------
    r : float
        NaN where it cannot be formed.
    z : float
        atanh r, without the bias that the jackknife sees; the centre of the interval.
    error : float
        Standard error of z; NaN for fewer clusters than FEWEST, and for r = +-1, which has no spread.
    clusters : int
        Those that count.
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
    """Without the mean of each group; shape (2, rows)."""
    counts = np.maximum(np.bincount(group), 1)
    return np.stack([one - (np.bincount(group, one) / counts)[group] for one in numbers])


def _spread(about: np.ndarray, data: np.ndarray) -> np.ndarray:
    """Of each row the standard deviation of its data set; shape (2, rows)."""
    counts = np.maximum(np.bincount(data), 1)
    return np.stack([np.sqrt(np.bincount(data, one ** 2) / counts)[data] for one in about])


def _informative(numbers: np.ndarray, group: np.ndarray, data: np.ndarray) -> np.ndarray:
    """Rows that have company in their group, of data sets in which both quantities vary beyond round-off."""
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
