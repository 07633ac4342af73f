"""The claims of a source beside what was measured, and a plain verdict for each.

A claim (input/paper/compare/claims.toml) turns the measures of a model into one number for each seed, its effect, which is positive
where the claim holds, and does the same with its null controls. The verdict is a rule about means and standard deviations over
seeds; `rule` says it in words, as the page does.
"""

import tomllib
import warnings
from dataclasses import dataclass, field, fields

import numpy as np

from fluxformer.io import RunError
from fluxformer.report.data import MODELS, mean_and_spread, number, spread

REPRODUCED, NOT_REPRODUCED, NULL = "reproduced", "not reproduced", "not distinguishable from the null"
FIT_ONLY, CONSTRUCTED, NONE = "fit only", "by construction", "no verdict"
EARNED = {"distilled": FIT_ONLY, "inherited": CONSTRUCTED}  # in the place of "reproduced", which these cannot earn
TESTS = ("value", "larger", "smaller", "positive")


def _half(values):
    """Where half of the fall from the first to the last depth is first reached, as a share of the depth; NaN without a fall."""
    places, found = np.linspace(0, 1, values.shape[-1]), np.full(len(values), np.nan)
    for k, row in enumerate(values):
        if row[0] > row[-1]:
            left = (row - row[-1]) / (row[0] - row[-1])
            below = np.argmax(left <= 0.5)
            found[k] = np.interp(0.5, [left[below], left[below - 1]], [places[below], places[below - 1]])
    return found


REDUCTIONS = {  # of numbers [seed, ..., last axis] to one per seed
    "mean": lambda v: np.nanmean(v.reshape(len(v), -1), axis=1),
    "last": lambda v: v.reshape(len(v), -1)[:, -1],
    "largest": lambda v: np.nanmax(v.reshape(len(v), -1), axis=1),
    "fall": lambda v: v[:, 0] - v[:, -1],
    "relative_fall": lambda v: 1 - v[:, -1] / v[:, 0],
    "half_fall": _half,
    "disparity": lambda v: np.nanmax(v, axis=-1) / np.nanmin(v, axis=-1),
    "drop": lambda v: v[:, 0] - np.nanmean(v[:, 1:], axis=1),
    "happened": lambda v: np.isfinite(v).astype(float).reshape(len(v), -1).max(axis=1),
}
REDUCED = {
    "mean": "mean", "last": "at the end", "largest": "largest", "fall": "first depth minus last", "half_fall":
    "share of the depth after which half of the fall is done", "relative_fall": "first depth minus last, over the first",
    "disparity": "largest over smallest", "happened": "share of the seeds", "drop": "clean minus the mean over the levels",
}


@dataclass
class Claim:
    """One statement of a source, as read from the file."""
    id: str
    sentence: str
    source: str
    experiment: str
    quantity: list
    test: str
    reduce: str = "mean"
    unit: str = ""
    expected: float = float("nan")
    tolerance: float = 0.0
    better: str = "higher"
    nulls: list = field(default_factory=list)
    start: str = ""    # a quantity that stands before the others, e.g. the undisturbed one
    ratio: bool = False  # what is larger or smaller is so as a ratio: logarithms are compared
    at: str = ""       # of an ablation: the variant that is looked at, e.g. pre_no_residual
    against: str = ""  # and the one it is compared with; "": the Transformer

    def asks(self):
        """What has to be found, in words."""
        what = REDUCED[self.reduce]
        if self.test == "value":
            sign = "at least" if self.better == "higher" else "at most"
            limit = self.expected - self.tolerance if self.better == "higher" else self.expected + self.tolerance
            return f"source {number(self.expected)}; {sign} {number(limit)} ({what})"
        if self.test == "positive":
            return f"above 0 in both models ({what})"
        other = "with " + self.against.replace("_", " ") if self.against else "the Transformer's"
        return f"{self.test} than {other} ({what}{', as a ratio' if self.ratio else ''})"


def read_claims(path):
    """(rule, claims) of a file."""
    try:
        with open(path, "rb") as stream:
            content = tomllib.load(stream)
        rule = {"margin": float(content["rule"]["margin"]), "least_seeds": int(content["rule"]["least_seeds"])}
        claims = [_claim(entry) for entry in content["claim"]]
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as failure:
        raise RunError(f"{path}: not a file of claims ({type(failure).__name__}: {failure})") from None
    return rule, claims


def _claim(entry):
    if unknown := set(entry) - {one.name for one in fields(Claim)}:
        raise ValueError(f"claim '{entry.get('id')}' has unknown keys {', '.join(sorted(unknown))}")
    claim = Claim(**entry)
    if claim.test not in TESTS or claim.reduce not in REDUCTIONS or claim.better not in ("higher", "lower"):
        raise ValueError(f"claim '{claim.id}': test is one of {', '.join(TESTS)}; reduce one of {', '.join(REDUCTIONS)}; "
                         "better is higher or lower")
    return claim


def rule_in_words(rule):
    """(verdict, when it is given) of each; first how numbers are compared."""
    margin, least = number(rule["margin"]), rule["least_seeds"]
    return (
        ("", f"Every number is a mean over seeds; a lead is wide if it is at least {margin} standard deviations over seeds. Differences "
             "are taken seed by seed, PDE models at the depths of the Transformer's layers."),
        (REPRODUCED, "the claimed value is reached, or the effect has the claimed sign, with a wide lead over no effect and over every null "
                     "control"),
        (NOT_REPRODUCED, "the claimed value is missed, or the opposite effect has a wide lead"),
        (NULL, "anything between; several estimators have to agree"),
        (FIT_ONLY, "all that a distilled model can earn: it was asked to resemble the Transformer"),
        (CONSTRUCTED, "all that an inherited model can earn: it is made of the Transformer's weights"),
        (NONE, f"fewer than {least} seeds have the number"))


@dataclass
class Outcome:
    """What one quantity of one model says of a claim."""
    quantity: str
    measured: np.ndarray                        # per seed
    reference: np.ndarray = None                # of the model it is compared with, per seed
    nulls: dict = field(default_factory=dict)   # name -> per seed
    verdict: str = NONE
    margin: float = float("nan")                # standard deviations from the nearest null or from zero
    nearest: str = ""                           # that null

    def text(self):
        return mean_and_spread(self.measured)


def _deviations(effect):
    """Mean of an effect in standard deviations over seeds."""
    mean, deviation = np.mean(effect), spread(effect)
    return mean / deviation if deviation > 0 else np.sign(mean) * np.inf if mean else 0.0


def judge(leads, rule, fails=None):
    """(verdict, margin, its name): `leads` {name: one number per seed} over zero or over a null, positive as claimed.

    `fails(margins)`: whether the claim itself fails, whatever the nulls.
    """
    finite = np.all([np.isfinite(lead) for lead in leads.values()], axis=0)
    if finite.sum() < rule["least_seeds"]:
        return NONE, float("nan"), f"{finite.sum()} of {len(finite)} seeds have a number"
    margins = {name: _deviations(lead[finite]) for name, lead in leads.items()}
    nearest = min(margins, key=margins.get)
    if fails(margins):
        return NOT_REPRODUCED, margins[nearest], nearest
    return (REPRODUCED if margins[nearest] >= rule["margin"] else NULL), margins[nearest], nearest


def _reduced(claim, values):
    """One number per seed; NaN where it cannot be formed."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numpy, about means of nothing but NaN
        reduced = REDUCTIONS[claim.reduce](np.asarray(values, dtype=float))
    return np.array([float(f"{value:.12g}") for value in reduced])  # round-off is no effect


def _numbers(claim, comparison, model, quantity, epoch=None):
    """One number per seed, of a quantity that the model has; `epoch`: place on the axis of the epochs of a course."""
    values = comparison.measure(model, quantity)
    values = values if epoch is None else values[:, epoch]
    if model in comparison.depths and values.shape[-1] == len(comparison.depths[model]):
        values = values[..., comparison.at_transformer_depths(model)]  # more cells are no more evidence
    if claim.start:
        values = np.column_stack([comparison.measure(model, claim.start), values])
    return _reduced(claim, values)


def _of_value(claim, comparison, model, reference, quantity, rule):
    sign = 1 if claim.better == "higher" else -1
    outcome = Outcome(quantity, _numbers(claim, comparison, model, quantity))
    controls = {null.replace("_", " "): (model, f"{quantity}_{null}") for null in claim.nulls}
    if claim.against:
        controls[claim.against.replace("_", " ")] = reference, quantity
    for name, place in controls.items():
        numbers = comparison.measure(*place)
        outcome.nulls[name] = outcome.measured if numbers is None else _reduced(claim, numbers)  # missing: no lead
    leads = {name: sign * (outcome.measured - null) for name, null in outcome.nulls.items()}
    missed = sign * (np.mean(outcome.measured) - claim.expected) < -claim.tolerance
    outcome.verdict, outcome.margin, outcome.nearest = judge(leads, rule, lambda margins: missed)
    return outcome


def _opposite(rule, name):
    return lambda margins: margins[name] <= -rule["margin"]


def _of_order(claim, comparison, model, reference, quantity, rule):
    outcome = Outcome(quantity, _numbers(claim, comparison, model, quantity), _numbers(claim, comparison, reference, quantity))
    with np.errstate(all="ignore"):
        mine, theirs = (np.log(one) if claim.ratio else one for one in (outcome.measured, outcome.reference))
        leads = {"no difference": (1 if claim.test == "larger" else -1) * (mine - theirs)}
    if claim.reduce == "fall":  # what does not fall at all does not fall further either
        leads["no fall"] = outcome.measured
    outcome.verdict, outcome.margin, outcome.nearest = judge(leads, rule, _opposite(rule, "no difference"))
    return outcome


def _of_one(claim, comparison, model, quantity, rule):
    """The effect itself; null "untrained": the same at epoch 0."""
    outcome = Outcome(quantity, _numbers(claim, comparison, model, quantity))
    leads = {"no effect": outcome.measured}
    if "untrained" in claim.nulls and comparison.measure(model, "epoch_" + quantity) is not None:
        outcome.nulls["untrained"] = _numbers(claim, comparison, model, "epoch_" + quantity, epoch=0)
        leads["untrained"] = outcome.measured - outcome.nulls["untrained"]
    outcome.verdict, outcome.margin, outcome.nearest = judge(leads, rule, _opposite(rule, "no effect"))
    return outcome


def _of_both(claim, comparison, model, reference, quantity, rule):
    """In the model and in the Transformer: the weaker of the two verdicts."""
    mine, theirs = (_of_one(claim, comparison, name, quantity, rule) for name in (model, reference))
    weaker = min(mine, theirs, key=lambda one: (RANK.index(one.verdict), one.margin))
    mine.reference = theirs.measured
    mine.verdict, mine.margin, mine.nearest = weaker.verdict, weaker.margin, weaker.nearest
    return mine


JUDGES = {"value": _of_value, "positive": _of_both, "larger": _of_order, "smaller": _of_order}
RANK = (NONE, NOT_REPRODUCED, NULL, REPRODUCED)


@dataclass
class Finding:
    """A claim and one model: an outcome for each quantity, and the verdict of all."""
    model: str
    outcomes: list
    verdict: str


def _models(claim, comparison):
    """(model, the variant that is measured, the one it is compared with) for each model a claim speaks of."""
    if not claim.at:
        return [(model, model, "transformer") for model in comparison.models if model in MODELS and model != "transformer"]
    pairs = [(kind, f"{kind}_{claim.at}", f"{kind}_{claim.against}") for kind in ("transformer", "pde")]
    return [pair for pair in pairs if pair[1] in comparison.models]


def weigh(claim, comparison, rule):
    """The findings of a claim, one for each model that has what it asks for."""
    findings = []
    for name, model, reference in _models(claim, comparison):
        wanted = (model,) if claim.test == "value" else (model, reference)
        outcomes = [JUDGES[claim.test](claim, comparison, model, reference, quantity, rule) for quantity in claim.quantity
                    if all(quantity in comparison.measures.get(one, ()) for one in wanted)]
        if outcomes:
            findings.append(Finding(name, outcomes, _together([outcome.verdict for outcome in outcomes])))
            for one in (findings[-1], *outcomes):
                one.verdict = EARNED.get(name, REPRODUCED) if one.verdict == REPRODUCED else one.verdict
    return findings


def _together(verdicts):
    """Of several estimators: none may contradict, and all have to agree on "reproduced"."""
    if len(set(verdicts)) == 1:
        return verdicts[0]
    return NOT_REPRODUCED if NOT_REPRODUCED in verdicts and REPRODUCED not in verdicts else NULL
