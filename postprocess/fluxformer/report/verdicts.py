"""The verdicts on all claims about one data set, in the words and by the rule of docs/guide/verdicts.md.

The claims about one kind of model on one data set are judged together: Holm's procedure keeps the probability of any false verdict
among them below alpha.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from fluxformer.io import RunError
from fluxformer.report.claims import AT, EACH, NULLS, OWN, Claim, Rule, elsewhere
from fluxformer.report.data import COUPLINGS, MODELS, Comparison, Study, mean_and_spread
from fluxformer.report.effects import ZERO, Measured, Place
from fluxformer.judging import CountQuestion, Judged, Question, Verdict, judge, judge_claims, judge_estimators, judge_value
from fluxformer.statistics import Effect

EARNED = {"distilled": "as fitted", "inherited": "as constructed"}  # what "holds" says of a model that was made to resemble


@dataclass
class Against:
    """A reference that a quantity is compared with."""
    name: str             # in words
    numbers: np.ndarray   # per seed
    effect: Effect
    measured: np.ndarray | None = None  # per seed, where it is not the quantity of the model but the Transformer's

    @property
    def text(self) -> str:
        """Name and numbers of the reference."""
        return self.name if self.name.startswith("0") else f"{self.name} {mean_and_spread(self.numbers)}"


@dataclass
class Outcome:
    """The result of one quantity (one estimator) of one model for a claim.

    Attributes
    ----------
    judged : Judged
        The judgement, set when all claims about the model are judged together; an AttributeError before.
    """
    quantity: str
    measured: np.ndarray                                   # per seed
    against: list[Against] = field(default_factory=list)
    beside: dict[str, np.ndarray] = field(default_factory=dict)  # null controls and ceiling that are not asked for, per seed
    levels: list[tuple[float, Judged]] = field(default_factory=list)
    judged: Judged = field(init=False, repr=False)


@dataclass
class Finding:
    """A claim and one model."""
    model: str
    outcomes: list[Outcome]
    judged: Judged
    needed: int           # seeds

    @property
    def verdict(self) -> Verdict:
        """The verdict over all estimators."""
        return self.judged.verdict

    @property
    def seeds(self) -> tuple[int, int]:
        """Seeds of the quantity with the fewest: the number of seeds that count, because the quantity and all
        that it is compared with have a number, and the number of all."""
        counts = [count for one in self.outcomes for count in (int(np.isfinite(one.measured).sum()), *(other.effect.count for other in one.against))]
        return min(counts), len(self.outcomes[0].measured)

    @property
    def preliminary(self) -> bool:
        """True if fewer seeds count than are needed."""
        return self.seeds[0] < self.needed

    @property
    def words(self) -> str:
        """The verdict as the page says it."""
        earned = EARNED.get(self.model)
        return f"{self.verdict.value}, {earned}" if self.verdict is Verdict.HOLDS and earned else self.verdict.value


@dataclass
class _Asked:
    """A claim about one model, with the questions that are to be judged."""
    claim: Claim
    model: str
    outcomes: list[Outcome]
    questions: list[Question | CountQuestion]  # one per outcome; none for a value
    values: list[Effect]                       # one per outcome of a value


Weighed = list[tuple[Claim, list[Finding]]]


def weigh(claims: list[Claim], study: Study, rule: Rule) -> Weighed:
    """Judges the claims whose experiment the study has; the findings of each claim, one for each model."""
    asked = [one for claim in claims if (comparison := study.of(claim.experiment)) for one in _asked(claim, comparison, rule.alpha)]
    findings: dict[str, list[Finding]] = {claim.id: [] for claim in claims}
    for model in dict.fromkeys(column(one.model) for one in asked):
        family = [one for one in asked if column(one.model) == model]
        differences = [one for one in family if one.questions]
        verdicts = judge_claims([one.questions for one in differences], rule.alpha)
        for one, (_, each) in zip(differences, verdicts):
            for outcome, judged in zip(one.outcomes, each):
                outcome.judged = _from_enough(one.claim, judged, (other.effect for other in outcome.against))
            verdict = judge_estimators([outcome.judged for outcome in one.outcomes])
            findings[one.claim.id].append(Finding(one.model, one.outcomes, verdict, rule.needed(study.data[0])))
        for one in family:
            if not one.questions:
                findings[one.claim.id].append(_of_value(one, rule, rule.needed(study.data[0])))
    return [(claim, sorted(findings[claim.id], key=lambda one: _order(one.model))) for claim in claims if findings[claim.id]]


def _from_enough(claim: Claim, judged: Judged, effects: Iterable[Effect]) -> Judged:
    """The judgement; undecided if fewer seeds count than the claim needs."""
    few = min(one.count for one in effects) < claim.least_seeds > 2
    return replace(judged, verdict=Verdict.UNDECIDED) if few and judged.verdict is not Verdict.NO_DATA else judged


def column(model: str) -> str:
    """The model under which a finding stands and is judged: the PDE model of an ablation, which is trained on
    the labels alone, counts as the independent one."""
    return "independent" if model == "pde" else model


def _order(model: str) -> int:
    return list(MODELS).index(column(model))


def _models(claim: Claim, comparison: Comparison) -> list[tuple[str, str]]:
    """Pairs (model, group that is measured or was not) for each model that a claim speaks of; none if the
    comparison does not have one of them."""
    if not claim.at:
        against = claim.test != "value" and (claim.both or "transformer" in claim.than)
        if against and "transformer" not in comparison.models:
            return []
        return [(model, model) for model in comparison.models if model in COUPLINGS]
    if claim.at == EACH:
        return [(model, model) for model in comparison.models if model in MODELS]
    if claim.at in MODELS:
        return [(claim.at, claim.at)] * (claim.at in comparison.models)
    kinds = [kind for kind in ("transformer", "pde") if any(name.startswith(f"{kind}_") for name in comparison.models)]
    if not kinds:
        raise RunError(f"claim '{claim.id}': at = {claim.at} is no model ({', '.join(MODELS)}), and {claim.experiment} has no variants")
    return [(kind, f"{kind}_{claim.at}") for kind in kinds]


def _asked(claim: Claim, comparison: Comparison, alpha: float) -> list[_Asked]:
    found = []
    for model, group in _models(claim, comparison):
        made = [_outcome(claim, comparison, model, group, quantity, alpha) for quantity in claim.quantity]
        found.append(_Asked(claim, model, [outcome for outcome, _ in made], [asked for _, asked in made if not isinstance(asked, Effect)],
                            [asked for _, asked in made if isinstance(asked, Effect)]))
    return found


def _outcome(claim: Claim, comparison: Comparison, model: str, group: str, quantity: str,
             alpha: float) -> tuple[Outcome, Question | CountQuestion | Effect]:
    """An outcome with its question; for a value the effect is the value. A quantity that was not measured has
    no number for any seed."""
    measured, place = Measured(claim, comparison), Place(group, quantity)
    if claim.test == "happens":
        return _count(claim, comparison, model, place)
    others = [(name, place, _reference(name, claim, comparison, model, place)) for name in claim.than]
    if claim.both:
        theirs = Place("transformer", quantity)
        others += [(name, theirs, _reference(name, claim, comparison, "transformer", theirs)) for name in claim.than]
    by_level = claim.levels and all(name in comparison.measures.get(group, ()) for name in (quantity, claim.start))
    if by_level and claim.test != "value":
        measured.informative(place, *(other for _, _, other in others if other and other != ZERO))
    outcome = Outcome(quantity, measured.by_seed(place))
    for name in (*NULLS, "ceiling"):
        if name not in claim.than and (other := _reference(name, claim, comparison, model, place)) and measured.there(other):
            outcome.beside[claim.name_of(name)] = measured.by_seed(other)
    if claim.test == "value":
        return outcome, measured.value(place)
    sign = 1.0 if claim.test == "larger" else -1.0
    for name, mine, other in others:
        words = ("0" if name == "zero" else claim.name_of(name)) + (", of the Transformer" if mine is not place else "")
        if other is None:
            missing = np.full(len(comparison.seeds), np.nan)
            outcome.against.append(Against(words, missing, Effect(missing)))
        else:
            outcome.against.append(Against(words, measured.by_seed(other), measured.effect(mine, other, sign),
                                           None if mine is place else measured.by_seed(mine)))
    if by_level and (first := others[0][2]):
        effects = measured.at_levels(place, first, sign)
        judged = judge([Question((effect,)) for _, effect in effects], alpha)
        outcome.levels = [(level, one) for (level, _), one in zip(effects, judged)]
    return outcome, Question(tuple(one.effect for one in outcome.against), claim.delta)


def _reference(name: str, claim: Claim, comparison: Comparison, model: str, place: Place) -> Place | None:
    """The place of the numbers that a quantity is compared with; None if they were not measured."""
    if name == "zero":
        return ZERO
    if name.startswith(OWN):
        other = Place(place.model, name.removeprefix(OWN))
    elif name.startswith(AT):
        other = replace(place, where=tuple(elsewhere(name).items()))
    elif name == "gauss_newton":
        other = Place(place.model, f"gauss_newton_{place.quantity.removeprefix('functional_')}")
    elif claim.at and (name in MODELS or claim.at not in (*MODELS, EACH)):
        other = Place(name if claim.at in MODELS else f"{model}_{name}", place.quantity)
    elif name == "transformer":
        other = Place("transformer", place.quantity)
    elif name == "ceiling":
        other = Place("transformer", f"{place.quantity}_ceiling")
    else:
        other = Place(place.model, f"{place.quantity}_{name}")
        if name == "untrained" and other.quantity not in comparison.measures.get(place.model, ()):
            epochs = list(comparison.axis("copied_epoch")) if "copied_epoch" in comparison.axes else []
            other = Place(place.model, f"epoch_{place.quantity}", epochs.index(0) if 0 in epochs else None)
            if other.epoch is None:
                return None
    return other if other.quantity in comparison.measures.get(other.model, ()) else None


def _count(claim: Claim, comparison: Comparison, model: str, place: Place) -> tuple[Outcome, CountQuestion]:
    """An outcome of what happened or did not, with its question: an event has happened where it has a number."""
    other = Place(f"{model}_{claim.than[0]}", place.quantity)
    happened, theirs = (np.full(len(comparison.seeds), np.nan) if (values := comparison.measure(one.model, one.quantity)) is None
                        else np.isfinite(values).astype(float) for one in (place, other))
    mine, others = ((int(np.nansum(one)), int(np.isfinite(one).sum())) for one in (happened, theirs))
    against = Against(claim.name_of(claim.than[0]), theirs, Effect(happened - theirs))
    return Outcome(place.quantity, happened, [against]), CountQuestion(mine, others)


def _of_value(asked: _Asked, rule: Rule, needed: int) -> Finding:
    claim = asked.claim
    for outcome, value in zip(asked.outcomes, asked.values):
        outcome.judged = _from_enough(claim, judge_value(value, claim.expected, claim.tolerance, rule.alpha), [value])
    return Finding(asked.model, asked.outcomes, judge_estimators([outcome.judged for outcome in asked.outcomes]), needed)
