"""All families at once: which models differ in which traits on each data set, and which traits go together over seeds.

Differences are paired over seeds and judged as claims are, all pairs of models and traits of a data set together. Correlations use the
seeds that both traits have, on all data sets: within models, where the mean of each model on a data set is removed, and between models,
where only that of the data set is. The pairs of traits of either kind are judged together, too (Holm).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import NamedTuple

import numpy as np

from fluxformer.judging import Judged, Question, Verdict, judge
from fluxformer.report.data import Study
from fluxformer.report.traits import Column, Traits, column_of
from fluxformer.statistics import Correlation, correlation, holm


class Difference(NamedTuple):
    """The difference of two models in a trait on a data set: second minus first."""
    column: Column
    first: str
    second: str
    judged: Judged

    @property
    def found(self) -> bool:
        """True if the difference is told from 0."""
        return self.judged.verdict in (Verdict.HOLDS, Verdict.OPPOSITE)

    @property
    def in_deviations(self) -> tuple[float, float, float]:
        """Mean difference and the ends of its interval, over the standard deviation over seeds."""
        mean, (low, high), deviation = self.judged.effect.mean, self.judged.interval, self.column.deviation
        return mean / deviation, low / deviation, high / deviation


class Pair(NamedTuple):
    """Two traits, and how they go together; `alpha`: the level of the interval."""
    first: str
    second: str
    correlation: Correlation
    alpha: float
    found: bool


class DataSet(NamedTuple):
    """The traits of one data set."""
    study: Study
    models: list[str]      # models that have any trait; the others are drawn against the first
    columns: list[Column]
    differences: list[Difference]
    missing: list[str]     # traits that were not measured


class Together:
    """Traits of several data sets.

    Parameters
    ----------
    traits : Traits
    studies : list of Study
        Studies of the data sets; a study without any of the traits is left out.

    Attributes
    ----------
    sets : list of DataSet
    names : list of str
        Names of the traits that any data set has.
    within, between : list of Pair
        Correlations within models, and with the differences between them.
    """

    def __init__(self, traits: Traits, studies: list[Study]) -> None:
        self.traits = traits
        self.sets: list[DataSet] = []
        for study in studies:
            columns = [found for one in traits.traits if (found := column_of(one, study, traits.models))]
            if columns:
                there = {one.trait.name for one in columns}
                models = [one for one in traits.models if any(one in column.numbers for column in columns)]
                self.sets.append(DataSet(study, models, columns, _differences(columns, traits.alpha),
                                         [one.name for one in traits.traits if one.name not in there]))
        measured = {one.trait.name for data in self.sets for one in data.columns}
        self.names = [one.name for one in traits.traits if one.name in measured]
        self.within = self._pairs(lambda data, model: (data, model))
        self.between = self._pairs(lambda data, _: (data, ""))

    def _pairs(self, group: Callable[[int, str], tuple[int, str]]) -> list[Pair]:
        """All pairs of traits that any data set has both of. `group` of (data set, model): the group whose
        mean is removed."""
        found = {names: correlation(*rows) for names in combinations(self.names, 2) if len((rows := self._rows(*names, group))[0])}
        rejected, level = holm([one.p_value() for one in found.values()], self.traits.alpha)
        return [Pair(*names, one, float(alpha) if np.isfinite(alpha) else self.traits.alpha, bool(told))
                for (names, one), told, alpha in zip(found.items(), rejected, level)]

    def _rows(self, first: str, second: str, group: Callable[[int, str], tuple[int, str]]) -> tuple[list, ...]:
        """Rows of each model and seed that have both traits: x, y, group, data set and cluster."""
        rows: list[tuple[float, float, int, int, int]] = []
        groups: dict[tuple[int, str], int] = {}
        clusters: dict[tuple[int, int], int] = {}
        for place, data in enumerate(self.sets):
            by_name = {one.trait.name: one for one in data.columns}
            if not {first, second} <= set(by_name):
                continue
            x, y = by_name[first], by_name[second]
            for model in [one for one in x.linear if one in y.linear]:
                for k, seed in enumerate(x.seeds):
                    if seed in y.seeds:
                        rows.append((x.linear[model][k], y.linear[model][y.seeds.index(seed)], groups.setdefault(group(place, model), len(groups)),
                                     place, clusters.setdefault((place, seed), len(clusters))))
        return tuple(map(list, zip(*rows))) if rows else ([],) * 5


def _differences(columns: list[Column], alpha: float) -> list[Difference]:
    """The differences of all pairs of models in all traits of a data set, judged together."""
    asked = [(column, pair, Question((effect,))) for column in columns for pair, effect in column.effects.items()]
    return [Difference(column, *pair, judged) for (column, pair, _), judged in zip(asked, judge([question for *_, question in asked], alpha))]
