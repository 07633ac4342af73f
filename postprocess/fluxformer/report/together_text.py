"""All families at once, in words and tables, for the page and for paper."""

from __future__ import annotations

import math
from itertools import combinations

from fluxformer.report.data import MODELS, mean_and_spread
from fluxformer.report.reductions import REDUCTIONS
from fluxformer.report.together import DataSet, Difference, Pair, Together
from fluxformer.report.traits import Trait
from fluxformer.report.wording import effect_text, p_and_level, probability, words
from fluxformer.judging import Verdict

HEADING = "Everything at once"
SPOKEN = {"transformer": "the Transformer", "independent": "the independent PDE model", "normed": "the PDE model with LayerNorm"}
Rows = list[tuple[str, ...]]  # the first of them headings


def paragraph(together: Together) -> list[str]:
    """What differs and what goes together, in a sentence each."""
    told = [_differing(together, *pair) for pair in combinations(together.traits.models, 2)
            if any((one.first, one.second) == pair for data in together.sets for one in data.differences)]
    if told:
        told.append(_in_everything(together))
    else:
        told.append(f"No data set has two of the models {', '.join(MODELS[one].label for one in together.traits.models)}: there are no differences.")
    told.append(_going(together.within, "Over seeds, within models and data sets"))
    if any(len(data.models) > 1 for data in together.sets):
        told.append(_going(together.between, "With the differences between these models"))
    if missing := [f"{', '.join(data.missing)} on {data.study.name}" for data in together.sets if data.missing]:
        told.append(f"Left out, since it was not measured: {'; '.join(missing)}.")
    return told


def _seeds(data: DataSet) -> str:
    """The number of seeds of the comparisons on a data set, in words."""
    counts = {one.judged.effect.count for one in data.differences}
    return f"{max(counts)} seeds" if len(counts) == 1 else f"{min(counts)} to {max(counts)} seeds"


def _of(data: DataSet, first: str, second: str) -> tuple[dict[str, str], int]:
    """The traits in which two models differ on a data set, with the direction, and how many were compared."""
    pairs = [one for one in data.differences if (one.first, one.second) == (first, second)]
    return {one.column.trait.name: direction(one) for one in pairs if one.found}, len(pairs)


def _differing(together: Together, first: str, second: str) -> str:
    """A sentence: in how many traits two models differ on each data set, and in which on all of them."""
    counts, found = [], []
    for data in together.sets:
        which, compared = _of(data, first, second)
        if compared:
            counts.append(f"in {len(which) or 'none'} of {compared} traits on {data.study.name} ({_seeds(data)})")
            found.append(which)
    common = [f"{name} {way}" for name, way in found[0].items() if all(which.get(name) == way for which in found)]
    which_text = f"{': ' if len(found) == 1 else '; on all of them: '}{', '.join(common)}" if common else ""
    spoken = SPOKEN.get(second, MODELS[second].label)
    return f"{spoken[0].upper()}{spoken[1:]} differs from {SPOKEN.get(first, MODELS[first].label)} {'; '.join(counts)}{which_text}."


def _in_everything(together: Together) -> str:
    """A sentence: which models differ in every trait."""
    found = []
    for data in together.sets:
        for first, second in combinations(data.models, 2):
            which, compared = _of(data, first, second)
            if compared and len(which) == compared:
                found.append(f"{SPOKEN.get(second, MODELS[second].label)} and {SPOKEN.get(first, MODELS[first].label)} on {data.study.name}")
    return f"In everything at once differ {'; '.join(found)}." if found else "No two models differ in everything at once."


def direction(one: Difference) -> str:
    """The direction of a difference that was found."""
    return "larger" if one.judged.verdict is Verdict.HOLDS else "smaller"


def _going(pairs: list[Pair], where: str) -> str:
    found = sorted((one for one in pairs if one.found), key=lambda one: -abs(one.correlation.r))
    if not any(math.isfinite(one.correlation.p_value()) for one in pairs):
        return f"{where}, correlations have no intervals: fewer than four seeds."
    if not found:
        return f"{where}, none of {len(pairs)} pairs of traits is told to go together."
    which = "; ".join(f"{one.first} and {one.second}, r = {with_interval(one)}" for one in found)
    return f"{where}, {len(found)} of {len(pairs)} pairs of traits go together: {which}."


def with_interval(pair: Pair) -> str:
    """r as text, with its interval if there is one."""
    text = lambda value: f"{value:.2f}".replace("-", "−") if math.isfinite(value) else "–"  # noqa: E731
    low, high = pair.correlation.interval(pair.alpha)
    return text(pair.correlation.r) + (f" [{text(low)}, {text(high)}]" if math.isfinite(low) else "")


def trait_rows(together: Together) -> Rows:
    """Rows of text, the first of them headings: the traits and how they were measured."""
    known: dict[str, Trait] = {one.trait.name: one.trait for data in together.sets for one in data.columns}
    rows: Rows = [("", "trait", "family", "measured as", "a larger number means")]
    for place, name in enumerate(together.names, 1):
        trait = known[name]
        claim, how = trait.claim, REDUCTIONS[trait.claim.reduce].words
        along = f" along {claim.along}" if claim.along else ""
        measured = f"{words(claim.quantity[0])} of {claim.experiment}, {how}{along}" + ("; logarithms" if claim.ratio else "")
        rows.append((f"{place}", name, trait.family, measured, trait.larger))
    return rows


def difference_rows(together: Together, data: DataSet) -> Rows:
    """Rows of text, the first of them headings: every pair of models in every trait of a data set."""
    rows: Rows = [("trait", "models", "first", "second", "second − first [interval]", "over the deviation", "p, level", "seeds", "found")]
    last = ""
    for name in together.names:
        for one in data.differences:
            if one.column.trait.name != name:
                continue
            claim, judged, numbers = one.column.trait.claim, one.judged, one.column.numbers
            mean, low, high = (f"{value:.1f}".replace("-", "−") if math.isfinite(value) else "–" for value in one.in_deviations)
            head = f"{name} [{claim.unit}]" if claim.unit else name
            rows.append((head if name != last else "", f"{MODELS[one.first].label} | {MODELS[one.second].label}",
                         *(mean_and_spread(numbers[model]) for model in (one.first, one.second)), effect_text(claim, judged.effect, judged.interval),
                         f"{mean} [{low}, {high}]", p_and_level(judged), f"{judged.effect.count} of {len(one.column.seeds)}", direction(one) if one.found else "–"))
            last = name
    return rows


def correlation_rows(together: Together) -> Rows:
    """Rows of text, the first of them headings: every pair of traits, within models and with the differences
    between them."""
    rows: Rows = [("traits", "within models: r [interval]", "p, level", "seeds", "between models: r [interval]", "p, level", "seeds")]
    for one, other in zip(together.within, together.between):
        rows.append((f"{one.first} | {one.second}", *_cells(one), *_cells(other)))
    return rows


def _cells(pair: Pair) -> tuple[str, str, str]:
    p = pair.correlation.p_value()
    known = f"{probability(p)}, {pair.alpha:.2g}" if math.isfinite(p) else "–"
    return with_interval(pair), known + (" ✓" if pair.found else ""), f"{pair.correlation.clusters}"


def reading() -> str:
    """A text on how the tables are to be read."""
    return ("What is not found to differ may differ all the same: its interval says by how much. Differences are paired over seeds (differences "
            "of logarithms, shown as factors, where the table says so); intervals are at the level that Holm's procedure gives, over all models and traits "
            "of a data set. Correlations: Pearson's r over models and seeds of all data sets, each divided by its standard deviation; all models "
            "of a seed on a data set are one cluster (seeds: how many), interval and p by the jackknife over clusters of Fisher's z with "
            "Student's t, at the level that Holm's procedure gives over all pairs of traits; ✓: told from 0. The models are fixed: correlations "
            "between them speak of these models and of no others.")
