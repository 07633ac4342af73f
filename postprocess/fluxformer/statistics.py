"""Verdicts on claims: intervals, tests of several claims at once, equivalence, values.

The effect of a claim is one number per seed, paired (same data, same order of samples, same initial embedding where it is
shared), positive where the claim holds. Means over seeds are judged by Student's t with n - 1 degrees of freedom and the variance

    s^2 / n + V,

s the deviation over the n seeds with a finite effect, V what the test samples add that all seeds share (`shared_variance`): it does
not average out over seeds. Claims that are fixed beforehand are judged together by Holm's step-down procedure.

Sources: Holm, Scand. J. Statist. 6 (1979) 65; Schuirmann, J. Pharmacokinet. Biopharm. 15 (1987) 657 (two one-sided tests); Fisher's
exact test and the sign-flip (permutation) test: Lehmann and Romano, Testing Statistical Hypotheses (2005), sections 4.6 and 15.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum
from itertools import product
from typing import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, stats

ALPHA = 0.05
POWER = 0.8
MOST_FLIPS = 1 << 20  # sign flips that are counted one by one; more seeds than 20 are drawn at random


class Verdict(str, Enum):
    """What is said of a claim."""
    HOLDS = "holds"
    OPPOSITE = "opposite"
    NO_DIFFERENCE = "no relevant difference"
    UNDECIDED = "undecided"
    MISSED = "missed"                         # of a value
    DISAGREE = "estimators disagree"
    NO_DATA = "not measured"


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
        """Seeds that count."""
        return len(self.finite)

    @property
    def mean(self) -> float:
        """Over the seeds that count; NaN if there are none."""
        return float(self.finite.mean()) if self.count else math.nan

    @property
    def deterministic(self) -> bool:
        """No spread over at least two seeds and none from the test samples: the value has no interval."""
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
        """p of two one-sided tests that the mean lies within +- delta: the larger of the two."""
        if self.count < 2 or self.deterministic:
            return math.nan
        return float(stats.t.sf((delta - abs(self.mean)) / self.error, self.count - 1))

    def detectable(self, alpha: float = ALPHA, power: float = POWER) -> float:
        """The true effect that a two-sided test at `alpha` would find with probability `power`, at this standard error."""
        if self.count < 2 or self.deterministic:
            return math.nan
        quantile = stats.t.ppf(1 - alpha / 2, self.count - 1)
        # The noncentral t, as a mean of normal tails over the deviation that n seeds show (2000 equally likely values of it).
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
            # One sign is fixed: the flips come in pairs of equal size.
            signs = np.array(list(product((1.0, -1.0), repeat=len(values) - 1))).reshape(-1, len(values) - 1)
            return float(np.mean(np.abs(values[0] + signs @ values[1:]) >= seen))
        signs = np.random.default_rng(seed).choice((1.0, -1.0), size=(draws, len(values)))
        return float((1 + np.sum(np.abs(signs @ values) >= seen)) / (1 + draws))


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
        NaN: not tested, and not counted as a claim.

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


@dataclass(frozen=True)
class Judged:
    """A verdict and the numbers behind it.

    Attributes
    ----------
    effect : Effect
        For several null controls that which is hardest to tell from 0.
    p, alpha : float
        Two-sided p, and the level that Holm gives it; NaN where nothing is tested.
    interval : tuple of float
        At the level of the verdict.
    signs : str
        Of estimators that disagree: "+ + -".
    """
    verdict: Verdict
    effect: Effect
    p: float = math.nan
    alpha: float = math.nan
    interval: tuple[float, float] = (math.nan, math.nan)
    signs: str = ""

    @property
    def detectable(self) -> float:
        """Of an undecided claim: the effect that would have been found with 80 % power; NaN of others."""
        return self.effect.detectable(self.alpha) if self.verdict is Verdict.UNDECIDED else math.nan


@dataclass(frozen=True)
class Question:
    """One estimator of what a claim says, judged by differences.

    Attributes
    ----------
    effects : tuple of Effect
        One, or one per null control: the claim must hold against each of them.
    delta : float or None
        Means within +- delta are no relevant difference; None: equivalence is not asked.
    """
    effects: tuple[Effect, ...]
    delta: float | None = None

    @property
    def hardest(self) -> Effect:
        """The effect with the largest p: one with fewer than two seeds before all others, deterministic ones last."""
        return max(self.effects, key=lambda one: -1.0 if one.deterministic else _order(one.p_value()))

    @property
    def sign(self) -> float:
        """+1 or -1 if all effects lie on this side, else 0."""
        signs = {float(np.sign(one.mean)) for one in self.effects}
        return signs.pop() if len(signs) == 1 else 0.0

    @property
    def p(self) -> float:
        """The largest p; 1 if the effects differ in sign, since they cannot all lie on one side. NaN without a test."""
        tested = [one for one in self.effects if not one.deterministic]
        if any(one.count < 2 for one in self.effects) or not tested:
            return math.nan
        return max(one.p_value() for one in tested) if self.sign else 1.0

    @property
    def equivalence_p(self) -> float:
        """The largest p of equivalence; NaN if it is not asked."""
        return math.nan if self.delta is None else max(one.equivalence_p(self.delta) for one in self.effects)

    def judged(self, alpha: float, equal_alpha: float) -> Judged:
        """At the levels that Holm gives to the claim; NaN: not tested, undecided with the interval of a claim alone."""
        effect = self.hardest
        if any(one.count < 2 for one in self.effects):
            return Judged(Verdict.NO_DATA if effect.count == 0 else Verdict.UNDECIDED, effect)
        if all(one.deterministic for one in self.effects):
            if self.delta is not None and max(abs(one.mean) for one in self.effects) <= self.delta:
                verdict = Verdict.NO_DIFFERENCE
            else:
                verdict = _of_sign(self.sign)
            return Judged(verdict, effect, interval=effect.interval())
        level = alpha if math.isfinite(alpha) else ALPHA
        found = Judged(Verdict.UNDECIDED, effect, self.p, level, effect.interval(level))
        if self.p <= alpha:
            return replace(found, verdict=_of_sign(self.sign))
        if self.equivalence_p <= equal_alpha:  # its interval is that of two one-sided tests
            return replace(found, verdict=Verdict.NO_DIFFERENCE, alpha=equal_alpha, interval=effect.interval(2 * equal_alpha))
        return found


@dataclass(frozen=True)
class CountQuestion:
    """Whether something happens in more runs of one kind than of another, by Fisher's exact test.

    Attributes
    ----------
    first, second : tuple of int
        (runs in which it happened, runs).
    """
    first: tuple[int, int]
    second: tuple[int, int]
    delta: float | None = None
    equivalence_p: float = math.nan  # not asked

    @property
    def difference(self) -> float:
        """Share of the first minus share of the second; NaN without runs."""
        shares = [happened / runs if runs else math.nan for happened, runs in (self.first, self.second)]
        return shares[0] - shares[1]

    @property
    def sign(self) -> float:
        """Of the difference."""
        return float(np.sign(self.difference))

    @property
    def p(self) -> float:
        """Two-sided; NaN if one kind has no runs."""
        return diverged_p(self.first, self.second) if self.first[1] and self.second[1] else math.nan

    def judged(self, alpha: float, equal_alpha: float) -> Judged:
        """At the level that Holm gives to the claim; `equal_alpha` is not used."""
        effect = Effect(np.array([self.difference]))
        if math.isnan(self.p):
            return Judged(Verdict.NO_DATA, effect)
        return Judged(_of_sign(self.sign) if self.p <= alpha else Verdict.UNDECIDED, effect, self.p, alpha)


def _of_sign(sign: float) -> Verdict:
    return Verdict.HOLDS if sign > 0 else Verdict.OPPOSITE if sign < 0 else Verdict.UNDECIDED


def _order(p: float) -> float:
    return math.inf if math.isnan(p) else p


def _all_agree(estimators: Sequence[Question | CountQuestion]) -> float:
    """p that all estimators lie on one side: the largest, or 1 if they differ in sign; NaN if one of them cannot be tested."""
    tested = [one for one in estimators if not (isinstance(one, Question) and all(effect.deterministic for effect in one.effects))]
    if not tested or any(math.isnan(one.p) for one in tested):
        return math.nan
    return max(one.p for one in tested) if len({one.sign for one in estimators}) == 1 else 1.0


def judge_claims(claims: Sequence[Sequence[Question | CountQuestion]], alpha: float = ALPHA) -> list[tuple[Judged, list[Judged]]]:
    """The verdicts of claims that were fixed beforehand, together.

    Differences form one Holm family, equivalences another. Each claim takes part once, with the largest p of its estimators; each
    estimator is judged at the level that its claim gets. A deterministic effect is judged by its sign (or by delta) and takes no
    part in either.

    Parameters
    ----------
    claims : sequence of sequence
        The estimators of each claim.

    Returns
    -------
    list of tuple
        The verdict of each claim, and those of its estimators.
    """
    _, level = holm([_all_agree(one) for one in claims], alpha)
    equivalence = [max((question.equivalence_p for question in one), key=lambda p: math.inf if math.isnan(p) else p) for one in claims]
    _, equal_level = holm(equivalence, alpha)
    found = []
    for one, difference, equal in zip(claims, level, equal_level):
        each = [question.judged(difference, equal) for question in one]
        found.append((judge_estimators(each), each))
    return found


def judge(questions: Sequence[Question | CountQuestion], alpha: float = ALPHA) -> list[Judged]:
    """The same for claims with one estimator each."""
    return [verdict for verdict, _ in judge_claims([[one] for one in questions], alpha)]


def judge_value(effect: Effect, expected: float, tolerance: float, alpha: float = ALPHA) -> Judged:
    """A claim of a value: it holds if the interval lies within expected +- tolerance and is missed if they are disjoint."""
    if effect.count < 2:
        return Judged(Verdict.NO_DATA if effect.count == 0 else Verdict.UNDECIDED, effect)
    low, high = effect.interval(alpha)
    verdict = Verdict.UNDECIDED
    if expected - tolerance <= low and high <= expected + tolerance:
        verdict = Verdict.HOLDS
    elif high < expected - tolerance or low > expected + tolerance:
        verdict = Verdict.MISSED
    return Judged(verdict, effect, alpha=alpha, interval=(low, high))


def judge_estimators(found: Sequence[Judged]) -> Judged:
    """Several estimators of one quantity: their common verdict, or that they disagree, with their signs.

    A sign in brackets is undecided, "?" has no number."""
    verdicts = {one.verdict for one in found}
    weakest = max(found, key=lambda one: _order(one.p))
    if len(verdicts) == 1:
        return weakest
    if verdicts == {Verdict.UNDECIDED, Verdict.NO_DATA}:
        return next(one for one in found if one.verdict is Verdict.UNDECIDED)
    return replace(weakest, verdict=Verdict.DISAGREE, signs=" ".join(_sign_of(one) for one in found))


def _sign_of(one: Judged) -> str:
    sign = "+" if one.effect.mean > 0 else "\N{MINUS SIGN}" if one.effect.mean < 0 else "0" if one.effect.mean == 0 else "?"
    return sign if one.verdict in (Verdict.HOLDS, Verdict.OPPOSITE) else f"({sign})"


def diverged_p(first: tuple[int, int], second: tuple[int, int]) -> float:
    """Two-sided p of Fisher's exact test for two pairs (runs that diverged, runs)."""
    table = [[diverged, runs - diverged] for diverged, runs in (first, second)]
    return float(stats.fisher_exact(table)[1])
