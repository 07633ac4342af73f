"""Verdicts on claims: differences, equivalence, values, counts, several estimators; several claims at once.

What is judged are effects over seeds (statistics.py). Claims that are fixed beforehand are judged together by Holm's step-down
procedure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum
from typing import ClassVar, Sequence

import numpy as np

from fluxformer.statistics import ALPHA, Effect, diverged_p, holm


class Verdict(str, Enum):
    """A verdict on a claim."""
    HOLDS = "holds"
    OPPOSITE = "opposite"
    NO_DIFFERENCE = "no relevant difference"
    UNDECIDED = "undecided"
    MISSED = "missed"                         # a value lies outside its tolerance
    DISAGREE = "estimators disagree"
    NO_DATA = "not measured"


@dataclass(frozen=True)
class Judged:
    """A verdict and the numbers behind it.

    Attributes
    ----------
    effect : Effect
        The effect; of several null controls the effect that is hardest to tell from 0, or, if all are told from 0 but not on one side, the least.
    p, alpha : float
        Two-sided p, and the level that Holm gives it; NaN where nothing is tested.
    interval : tuple of float
        Interval of the effect at the level of the verdict.
    signs : str
        Signs of estimators that disagree: "+ + -".
    """
    verdict: Verdict
    effect: Effect
    p: float = math.nan
    alpha: float = math.nan
    interval: tuple[float, float] = (math.nan, math.nan)
    signs: str = ""

    @property
    def detectable(self) -> float:
        """The effect that would have been found with 80 % power, for an undecided claim; NaN for other
        claims, and where this effect was found but others lie on the other side."""
        return self.effect.detectable(self.alpha) if self.verdict is Verdict.UNDECIDED and self.effect.p_value() > self.alpha else math.nan


@dataclass(frozen=True)
class Question:
    """One estimator of what a claim says, judged by differences.

    Attributes
    ----------
    effects : tuple of Effect
        One effect, or one per null control: the claim must hold against each of them.
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
    def deterministic(self) -> bool:
        """True if none of the effects can be tested, because none has spread."""
        return all(one.deterministic for one in self.effects)

    @property
    def equivalence_p(self) -> float:
        """The largest p of equivalence; 1 if a deterministic effect lies beyond delta. NaN if it is not asked, or without a test."""
        tested = [one for one in self.effects if not one.deterministic]
        if self.delta is None or any(one.count < 2 for one in self.effects) or not tested:
            return math.nan
        if any(abs(one.mean) > self.delta for one in self.effects if one.deterministic):
            return 1.0
        return max(one.equivalence_p(self.delta) for one in tested)

    def judged(self, alpha: float, equal_alpha: float, alone: float = ALPHA) -> Judged:
        """The verdict at the levels that Holm gives to the claim. NaN: not tested; then undecided, with the
        interval of a claim alone, at `alone`."""
        effect = self.hardest
        if any(one.count < 2 for one in self.effects):
            return Judged(Verdict.NO_DATA if effect.count == 0 else Verdict.UNDECIDED, effect, alpha=alone)
        if self.deterministic:
            if self.delta is not None and max(abs(one.mean) for one in self.effects) <= self.delta:
                verdict = Verdict.NO_DIFFERENCE
            else:
                verdict = _of_sign(self.sign)
            return Judged(verdict, effect, interval=effect.interval())
        level = alpha if math.isfinite(alpha) else alone
        if not self.sign and effect.p_value() <= level:
            effect = min(self.effects, key=lambda one: one.mean)
        found = Judged(Verdict.UNDECIDED, effect, self.p, level, effect.interval(level))
        if self.p <= alpha:
            return replace(found, verdict=_of_sign(self.sign))
        if self.equivalence_p <= equal_alpha:  # the interval of two one-sided tests
            return replace(found, verdict=Verdict.NO_DIFFERENCE, alpha=equal_alpha, interval=effect.interval(2 * equal_alpha))
        return found


@dataclass(frozen=True)
class CountQuestion:
    """The question whether something happens in more runs of one kind than of another, by Fisher's exact test.

    Attributes
    ----------
    first, second : tuple of int
        Counts of each kind: (runs in which it happened, runs).
    """
    first: tuple[int, int]
    second: tuple[int, int]
    deterministic: ClassVar[bool] = False
    equivalence_p: ClassVar[float] = math.nan  # not asked

    @property
    def difference(self) -> float:
        """Share of the first minus share of the second; NaN without runs."""
        shares = [happened / runs if runs else math.nan for happened, runs in (self.first, self.second)]
        return shares[0] - shares[1]

    @property
    def sign(self) -> float:
        """Sign of the difference."""
        return float(np.sign(self.difference))

    @property
    def p(self) -> float:
        """Two-sided p of Fisher's exact test; NaN if one kind has no runs."""
        return diverged_p(self.first, self.second) if self.first[1] and self.second[1] else math.nan

    def judged(self, alpha: float, equal_alpha: float, alone: float = ALPHA) -> Judged:
        """The verdict at the level that Holm gives to the claim; the other levels are not used."""
        effect = Effect(np.array([self.difference]))
        if math.isnan(self.p):
            return Judged(Verdict.NO_DATA, effect)
        return Judged(_of_sign(self.sign) if self.p <= alpha else Verdict.UNDECIDED, effect, self.p, alpha)


def _of_sign(sign: float) -> Verdict:
    return Verdict.HOLDS if sign > 0 else Verdict.OPPOSITE if sign < 0 else Verdict.UNDECIDED


def _order(p: float) -> float:
    return math.inf if math.isnan(p) else p


def _tested(estimators: Sequence[Question | CountQuestion]) -> list[Question | CountQuestion]:
    """The effects that are not deterministic."""
    return [one for one in estimators if not one.deterministic]


def _all_agree(estimators: Sequence[Question | CountQuestion]) -> float:
    """p that all estimators lie on one side: the largest, or 1 if they differ in sign; NaN if one of them cannot be tested."""
    tested = _tested(estimators)
    if not tested or any(math.isnan(one.p) for one in tested):
        return math.nan
    return max(one.p for one in tested) if len({one.sign for one in estimators}) == 1 else 1.0


def judge_claims(claims: Sequence[Sequence[Question | CountQuestion]], alpha: float = ALPHA) -> list[tuple[Judged, list[Judged]]]:
    """Judges claims that were fixed beforehand, together.

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
    equivalence = [max((question.equivalence_p for question in _tested(one)), key=_order, default=math.nan) for one in claims]
    _, equal_level = holm(equivalence, alpha)
    found = []
    for one, difference, equal in zip(claims, level, equal_level):
        each = [question.judged(difference, equal, alpha) for question in one]
        found.append((judge_estimators(each), each))
    return found


def judge(questions: Sequence[Question | CountQuestion], alpha: float = ALPHA) -> list[Judged]:
    """The verdicts of claims with one estimator each, judged together."""
    return [verdict for verdict, _ in judge_claims([[one] for one in questions], alpha)]


def judge_value(effect: Effect, expected: float, tolerance: float, alpha: float = ALPHA) -> Judged:
    """Judges a claim of a value: it holds if the interval lies within expected +- tolerance and is missed if
    they are disjoint."""
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
    """Judges several estimators of one quantity: their common verdict, or that they disagree, with their signs.

    A sign in brackets belongs to an undecided estimator, "?" to one without a number."""
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
