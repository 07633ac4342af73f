"""Effects of claims from the measures of a comparison: one number per seed, and what the shared test samples
add to its variance.

The effect of a seed is the difference of two reduced quantities (of their logarithms for a ratio), positive as claimed. All seeds see
the same test samples, so their share of the variance does not average out. It is estimated by the jackknife: the effect is formed
again without each sample in turn, from the outcomes by sample that the comparison files store; the pseudo-values
N e - (N - 1) e_(-i) stand for the samples (for a mean over samples they are its terms). Source: Efron and Stein, Ann. Statist. 9
(1981) 586.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fluxformer.report.claims import Claim
from fluxformer.report.data import BY_SAMPLE, Comparison
from fluxformer.report.reductions import reduce
from fluxformer.statistics import Effect, shared_variance

PRECISION = 12  # digits; what two numbers differ by beyond them is round-off


@dataclass(frozen=True)
class Place:
    """A quantity of a model. Without a model: the number 0.

    Attributes
    ----------
    epoch : int or None
        Place on the axis of the epochs of a course.
    where : tuple of (str, float)
        Places (axis, coordinate) other than those that the claim names.
    """
    model: str
    quantity: str
    epoch: int | None = None
    where: tuple[tuple[str, float], ...] = ()


ZERO = Place("", "zero")


class Measured:
    """Reduced numbers of one claim in one comparison."""

    def __init__(self, claim: Claim, comparison: Comparison) -> None:
        self._claim, self._comparison = claim, comparison
        self._informative = slice(None)  # places among the levels, with the clean input if there is a start

    def informative(self, *places: Place) -> None:
        """Leaves out the levels beyond the first at which no model is better than guessing, by two standard errors of its accuracy."""
        facts = self._comparison.facts()
        classes, samples = facts.get("classes"), facts.get("samples")
        if not self._claim.levels or classes is None or not samples:
            return
        chance = 1 / float(classes)
        limit = chance + 2 * np.sqrt(chance * (1 - chance) / float(samples))
        best = np.max([np.nanmean(self._comparison.numbers(one.model, one.quantity), axis=0) for one in places], axis=0)
        if (guessing := np.flatnonzero(best <= limit)).size:
            self._informative = slice(int(guessing[0]) + 2)

    def levels(self) -> np.ndarray:
        """The places of the levels on their axis, 0 for the clean input."""
        return self._all_levels()[self._used()]

    def _all_levels(self) -> np.ndarray:
        return np.concatenate([[0.0] if self._claim.start else [], self._comparison.axis(self._claim.levels)])

    def _used(self) -> slice | np.ndarray:
        """Numbers of the levels that are reduced."""
        if not self._claim.window:
            return self._informative
        low, high = self._claim.window
        return (low <= self._all_levels()) & (self._all_levels() <= high)

    def there(self, place: Place) -> bool:
        """True if a measure has the axes that the claim names."""
        return self._comparison.at(place.model, place.quantity, self._where(place), self._claim.along) is not None

    def _where(self, place: Place) -> dict[str, float]:
        """The places on axes that are left out: those of the claim, or the quantity's own."""
        return {**self._claim.where, **dict(place.where)}

    def by_seed(self, place: Place) -> np.ndarray:
        """One reduced number per seed; NaN where it cannot be formed."""
        seeds = len(self._comparison.seeds)
        if place == ZERO:
            return np.zeros(seeds)
        values = self._values(place, "")
        return np.full(seeds, np.nan) if values is None else _rounded(self._reduced(values))

    def without_each(self, place: Place) -> np.ndarray | None:
        """The reduced numbers without each sample in turn, shape (seeds, samples), NaN for a sample that has
        no number (a text of one word); None where the outcomes by sample are not stored."""
        values = self._values(place, BY_SAMPLE) if self._claim.samples and place.epoch is None else None
        if values is None:
            return None
        squared = self._claim.samples == "rms"
        values = values ** 2 if squared else values
        there = np.isfinite(values)
        kept = np.where(there, values, 0)
        with np.errstate(all="ignore"):
            rest = (kept.sum(axis=1, keepdims=True) - kept) / (there.sum(axis=1, keepdims=True) - 1)
        rest = np.where(there, np.sqrt(np.maximum(rest, 0)) if squared else rest, np.nan)
        seeds, samples = rest.shape[:2]
        return self._reduced(rest.reshape(seeds * samples, *rest.shape[2:])).reshape(seeds, samples)

    def _values(self, place: Place, suffix: str) -> np.ndarray | None:
        """The numbers of a quantity, shape (seeds, ...), with by_sample (seeds, samples, ...); the start
        stands before the levels."""
        claim, comparison = self._claim, self._comparison
        values = comparison.at(place.model, place.quantity + suffix, self._where(place), claim.along)
        if values is None:
            return None
        values = values if place.epoch is None else values[:, place.epoch]
        if not suffix and values.ndim > 1 and self._over_depths(place, values.shape[-1]):
            values = values[..., comparison.at_transformer_depths(place.model)]  # more cells are no more evidence
        if claim.start:
            start = comparison.measure(place.model, claim.start + suffix)
            if start is None:
                return None
            values = np.concatenate([start[..., None], values], axis=-1)
        return values[..., self._used()] if claim.levels else values

    def _over_depths(self, place: Place, count: int) -> bool:
        """True if the last axis, of `count` places, is that of the model's depths; an axis without a name is
        known by its length."""
        depths = self._comparison.depths.get(place.model)
        axes = [axis for axis in self._comparison.axes_of(place.model, place.quantity) if axis not in self._claim.where]
        name = self._claim.along or axes[-1]
        return depths is not None and (name == f"{place.model}_depth" if name else count == len(depths))

    def _reduced(self, values: np.ndarray) -> np.ndarray:
        return reduce(self._claim.reduce, values, self.levels() if self._claim.levels else None)

    def effect(self, measured: Place, reference: Place, sign: float) -> Effect:
        """The effect sign (f(measured) - f(reference)); f is the logarithm for a ratio."""
        return Effect(_rounded(self._difference(self.by_seed(measured), self.by_seed(reference), sign)), self._shared(measured, reference, sign))

    def value(self, measured: Place) -> Effect:
        """The effect that is the number itself."""
        return Effect(self.by_seed(measured), self._shared(measured, ZERO, 1.0))

    def at_levels(self, measured: Place, reference: Place, sign: float) -> list[tuple[float, Effect]]:
        """The effects (level, effect there) for the clean input and every level, also the levels beyond chance."""
        claim, comparison = self._claim, self._comparison
        found = []
        for k, level in enumerate(self._all_levels()):
            numbers, outcomes = [], []
            for place in (measured, reference):
                name = claim.start if k == 0 else place.quantity
                values, samples = comparison.numbers(place.model, name), comparison.measure(place.model, name + BY_SAMPLE)
                numbers.append(values if k == 0 else values[:, k - 1])
                outcomes.append(None if samples is None else samples if k == 0 else samples[..., k - 1])
            mine, theirs = outcomes
            shared = 0.0 if mine is None or theirs is None else shared_variance(sign * (mine - theirs))
            found.append((float(level), Effect(_rounded(sign * (numbers[0] - numbers[1])), shared)))
        return found

    def _difference(self, mine: np.ndarray, theirs: np.ndarray | float, sign: float) -> np.ndarray:
        with np.errstate(all="ignore"):
            return sign * (np.log(mine) - np.log(theirs) if self._claim.ratio else mine - theirs)

    def _shared(self, measured: Place, reference: Place, sign: float) -> float:
        """V of the effect; 0 for an effect that is not made of outcomes by sample."""
        mine = self.without_each(measured)
        theirs = 0.0 if reference == ZERO else self.without_each(reference)
        if mine is None or theirs is None:
            return 0.0
        effect = self._difference(self.by_seed(measured), self.by_seed(reference), sign)
        ended = np.isfinite(effect)
        without = self._difference(mine, theirs, sign)[ended]
        without = without[:, np.isfinite(without).all(axis=0)]
        samples = without.shape[1]
        return shared_variance(samples * effect[ended, None] - (samples - 1) * without) if samples else 0.0


def _rounded(values: np.ndarray) -> np.ndarray:
    return np.array([float(f"{value:.{PRECISION}g}") for value in np.ravel(values)])
