"""Findings in words and numbers, for the page and for paper."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fluxformer.report.claims import Claim, Rule, name_of
from fluxformer.report.data import DATA_SETS, MODELS, mean_and_spread, number
from fluxformer.report.verdicts import EARNED, Against, Finding, Outcome, Weighed, column
from fluxformer.judging import Judged, Verdict
from fluxformer.statistics import Effect

DETAILS = {"model": 10, "quantity": 11, "measured": 12, "compared with": 19, "effect [interval]": 16, "p, level": 13, "seeds": 9, "verdict": 10}


def label(model: str) -> str:
    """The label of a model, or of a kind of model in an ablation."""
    return MODELS[model].label if model in MODELS else {"pde": "PDE model"}.get(model, model)


def columns_of(weighed: Weighed) -> list[str]:
    """The columns that have a finding."""
    return [name for name in MODELS if any(column(one.model) == name for _, findings in weighed for one in findings)]


def finding_of(findings: list[Finding], name: str) -> Finding | None:
    """The finding that stands in a column."""
    return next((one for one in findings if column(one.model) == name), None)


def words(name: str) -> str:
    """A quantity in words."""
    return name.replace("_", " ")


def effect_text(claim: Claim, effect: Effect, interval: tuple[float, float]) -> str:
    """Mean effect with its interval, as text; for a ratio the factor."""
    if not effect.count:
        return "–"
    low, high = interval
    with_interval = math.isfinite(low) and not effect.deterministic
    if claim.ratio:
        shown = list(factors(claim, effect.mean, low, high)) if with_interval else [_factor(claim, effect.mean)]
        digits = 2
        while digits < 7 and any((float(f"{one:.{digits}g}") > 1, float(f"{one:.{digits}g}") < 1) != (one > 1, one < 1) for one in shown):
            digits += 1  # on which side of 1 it is can be seen
        mean_text, *texts = (brief(one, digits) for one in shown)
        return f"× {mean_text}" + (f" [{', '.join(texts)}]" if texts else "")
    ends = [abs(one) for one in (effect.mean, low, high) if math.isfinite(one) and one != 0]
    digits = _digits(high - low if math.isfinite(low) and high > low else max(ends, default=0.0))
    while ends and min(ends) < 0.5 * 10 ** -digits and low * high > 0 and digits < 7:
        digits += 1  # an interval that excludes 0 shows it
    text = lambda value: f"{value:.{digits}f}".replace("-", "−")  # noqa: E731
    sign = "+" if claim.test in ("larger", "smaller") and effect.mean > 0 else ""
    return sign + text(effect.mean) + (f" [{text(low)}, {text(high)}]" if with_interval else "")


def factors(claim: Claim, effect: float, low: float, high: float) -> tuple[float, float, float]:
    """Effect and interval of a ratio as factors, measured over reference."""
    ends = sorted((_factor(claim, low), _factor(claim, high)))
    return _factor(claim, effect), ends[0], ends[1]


def _factor(claim: Claim, effect: float) -> float:
    """Measured over reference, from a difference of logarithms that is positive as claimed."""
    with np.errstate(over="ignore"):
        return float(np.exp(-effect if claim.test == "smaller" else effect))


def brief(value: float, digits: int = 2) -> str:
    """A number as text with two digits that matter, or more."""
    if 100 <= abs(value) < 1e5:
        return f"{value:.0f}".replace("-", "−")
    return f"{value:#.{digits}g}".rstrip(".").replace("-", "−") if 0.001 <= abs(value) < 100 else number(float(f"{value:.{digits}g}"))


def _digits(width: float) -> int:
    """The number of decimals that show two digits of an interval this wide."""
    return max(0, min(7, 1 - math.floor(math.log10(width)))) if width > 0 else 4


def decisive(finding: Finding) -> Outcome:
    """The estimator whose effect decides."""
    return next((one for one in finding.outcomes if one.judged.effect is finding.judged.effect), finding.outcomes[0])


def in_short(claim: Claim, finding: Finding) -> list[str]:
    """Lines of text: the effect that decides, what is compared, and what an undecided claim could have shown."""
    decides = decisive(finding)
    name = f"{words(decides.quantity)}: " if len(finding.outcomes) > 1 else ""
    if finding.judged.signs:
        return [", ".join(f"{words(one.quantity)} {sign}" for one, sign in zip(finding.outcomes, finding.judged.signs.split()))]
    if claim.test == "value":
        return [name + effect_text(claim, finding.judged.effect, finding.judged.interval), *_nearest(claim, decides)]
    if claim.test == "happens":
        return [_counts(decides)]
    other = next((one for one in decides.against if one.effect is finding.judged.effect), decides.against[0])
    mine = decides.measured if other.measured is None else other.measured
    whose = "" if other.measured is None else "Transformer "
    lines = [name + effect_text(claim, finding.judged.effect, finding.judged.interval),
             whose + mean_and_spread(mine) + (f"; {other.text}" if other.effect.count and not other.name.startswith("0") else "")]
    if finding.verdict is Verdict.UNDECIDED and math.isfinite(finding.judged.detectable):
        lines.append(f"detectable {_size(claim, finding.judged.detectable)}")
    elif finding.verdict is Verdict.UNDECIDED and len({np.sign(one.effect.mean) for one in decides.against if one.effect.count}) > 1:
        lines.append("effects of both signs")
    if few := [words(one.quantity) for one in finding.outcomes if min(other.effect.count for other in one.against) < 2]:
        lines.insert(1, "too few seeds with a number: " + ", ".join(few))
    return lines


def _nearest(claim: Claim, outcome: Outcome) -> list[str]:
    """A line on a claim of a value: the control that comes nearest to the value by itself, and the ceiling;
    none without controls."""
    known = {name: numbers for name, numbers in outcome.beside.items() if np.isfinite(numbers).any()}
    ceiling = name_of("ceiling")
    nearest = min((name for name in known if name != ceiling), key=lambda name: abs(np.nanmean(known[name]) - claim.expected), default="")
    texts = [f"{name} {mean_and_spread(known[name])}" for name in (nearest, ceiling) if name in known]
    return ["; ".join(texts)] if texts else []


def _size(claim: Claim, effect: float) -> str:
    return f"× {brief(_factor(claim, effect))}" if claim.ratio else brief(effect)


def _counts(outcome: Outcome) -> str:
    other = outcome.against[0]
    share = lambda values: f"{int(np.nansum(values))} of {int(np.isfinite(values).sum())}"  # noqa: E731
    return f"{share(outcome.measured)}; {other.name} {share(other.numbers)}"


class Row(NamedTuple):
    """A line of the table of all numbers; `cells` are those before the verdict."""
    cells: tuple[str, ...]
    words: str = ""
    verdict: Verdict | None = None
    level: bool = False


def detail_rows(claim: Claim, findings: list[Finding]) -> list[Row]:
    """Rows of the table of all numbers: every quantity of every model against all that it is compared with,
    and level by level."""
    rows = []
    for finding in findings:
        for outcome in finding.outcomes:
            rows += _rows(claim, finding, outcome)
    return rows


def _rows(claim: Claim, finding: Finding, outcome: Outcome) -> list[Row]:
    judged = outcome.judged
    head = (label(finding.model), words(outcome.quantity), f"{mean_and_spread(outcome.measured)} {claim.unit}".strip())
    said = judged.verdict.value
    if finding.verdict is Verdict.HOLDS and judged.verdict is Verdict.HOLDS and finding.model in EARNED:
        said = finding.words
    beside = [Row(("", "", "", f"beside it: {name} {mean_and_spread(numbers)}", "", "", ""), level=True) for name, numbers in outcome.beside.items()]
    if claim.test == "value":
        return [Row((*head, "", effect_text(claim, judged.effect, judged.interval), "", _seeds(judged.effect)), said, judged.verdict), *beside]
    if claim.test == "happens":
        return [Row((*head, _counts(outcome), effect_text(claim, judged.effect, judged.interval), p_and_level(judged), f"{len(outcome.measured)}"),
                    said, judged.verdict)]
    rows = []
    for k, other in enumerate(outcome.against):
        width = 2 * judged.alpha if judged.verdict is Verdict.NO_DIFFERENCE else judged.alpha
        cells = (*(head if k == 0 else ("", "", "" if other.measured is None else mean_and_spread(other.measured))),
                 other.text,
                 effect_text(claim, other.effect, other.effect.interval(width)), _p_of(claim, other, judged), _seeds(other.effect))
        rows.append(Row(cells, said if k == 0 else "", judged.verdict if k == 0 else None))
    rows += beside
    for level, one in outcome.levels:
        axis = "clean" if level == 0 else f"at {level:g}"
        rows.append(Row(("", axis, "", "", effect_text(claim, one.effect, one.interval), p_and_level(one), ""), one.verdict.value, one.verdict, True))
    return rows


def p_and_level(judged: Judged) -> str:
    """p and the level at which it was judged, as text."""
    return f"{probability(judged.p)}, {judged.alpha:.2g}" if math.isfinite(judged.p) else "deterministic" if judged.effect.deterministic else "–"


def _p_of(claim: Claim, other: Against, judged: Judged) -> str:
    """p that earned the verdict, its level if there is one, and p of the flips of sign, as text."""
    if other.effect.deterministic:
        return "deterministic"
    if judged.verdict is Verdict.NO_DIFFERENCE and claim.delta is not None:
        p = other.effect.equivalence_p(claim.delta)
    else:
        p = other.effect.p_value()
    if not math.isfinite(p):
        return "–"
    level = f", {judged.alpha:.2g}" if math.isfinite(judged.p) else ""
    return f"{probability(p)}{level}; flips {probability(other.effect.sign_flip_p())}"


def probability(p: float) -> str:
    """A p-value with two digits."""
    return "< 1e-6" if p < 1e-6 else f"{p:.2g}"


def _seeds(effect: Effect) -> str:
    """The number of seeds that have a number, and the share of the variance that the test samples add, as text."""
    text = f"{effect.count} of {len(effect.values)}"
    if effect.shared > 0 and effect.count > 1:
        text += f"; samples {100 * effect.shared / effect.error ** 2:.0f} %"
    return text


def rule_in_words(rule: Rule) -> tuple[list[str], list[tuple[Verdict, str]]]:
    """Two texts: how numbers are compared, and when each verdict is given."""
    level = f"{100 * rule.alpha:g} %"
    needed = ", ".join(f"{count} ({', '.join(DATA_SETS.get(name, name) for name in rule.seeds if rule.seeds[name] == count)})"
                       for count in dict.fromkeys(rule.seeds.values()))
    return ([
        "Effects are differences seed by seed (of logarithms for a ratio), positive as claimed, PDE models at the depths of the "
        "Transformer's layers. “Measured” is mean ± standard deviation over seeds. “Effect” is the mean with its interval by Student's t with "
        "the variance s²/n + V, where V is what the test samples add, which all seeds share (“samples” is its share). Seeds without a "
        "number do not count.",
        f"The claims about one kind of model on one data set are judged together: the probability of any false verdict among them is at most "
        f"{level} (Holm; “level” is what is left for a claim, and the level of its interval). Against several controls the largest p "
        f"counts. For “{Verdict.NO_DIFFERENCE.value}” p and level are those of the two one-sided tests, and the interval has the level 1 − 2 × level; "
        f"intervals of values have {100 * (1 - rule.alpha):g} %. “Flips” is the p that the effect is 0 by all changes of sign, exact for any "
        "distribution; 6 seeds are needed for it to fall below 0.05.",
        f"Verdicts are preliminary (dashed) if fewer seeds count than {needed}."],
        [(Verdict.HOLDS, "the effect differs from 0, on the claimed side; for a value, the interval lies within the tolerance. "
          "“As fitted”: a distilled model was asked to resemble the Transformer; “as constructed”: an inherited one is made of its weights"),
         (Verdict.OPPOSITE, "the effect differs from 0, on the other side"),
         (Verdict.MISSED, "for a value, the interval lies outside the tolerance"),
         (Verdict.NO_DIFFERENCE, "the effect lies within ± δ, by two one-sided tests"),
         (Verdict.UNDECIDED, "none of these; the cell gives the effect that would have been found with a probability of 80 %"),
         (Verdict.DISAGREE, "several estimators do not earn the same verdict; the cell gives their signs, in brackets if undecided, ? if not measured"),
         (Verdict.NO_DATA, "no seed has the number")])
