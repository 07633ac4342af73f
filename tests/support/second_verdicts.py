"""The verdicts on claims, once more: Student's t with s^2/n + V, Holm, two one-sided tests, values, counts, estimators, in plain scipy.

Written from docs/guide/verdicts.md, without the code of the report, so that a mistake there is seen.
"""

import math
from collections import namedtuple

import numpy as np
from scipy import stats

from second_numbers import Quantity, rounded

PDE = ("independent", "normed", "distilled", "converged", "inherited")
NULLS = ("uniform", "permuted", "untrained", "null", "normal", "across")

Effect = namedtuple("Effect", "values shared")  # by seed; V
# Of a claim about a model; effects: by estimator, of each comparison; verdicts: by estimator; levels: by estimator, of each (level, effect).
Finding = namedtuple("Finding", "claim model verdict effects verdicts intervals levels")


def finite(effect):
    return effect.values[np.isfinite(effect.values)]


def error(effect):
    values = finite(effect)
    return math.sqrt(values.var(ddof=1) / len(values) + effect.shared) if len(values) > 1 else math.nan


def deterministic(effect):
    values = finite(effect)
    return len(values) > 1 and effect.shared == 0 and np.ptp(values) == 0


def interval(effect, alpha):
    values = finite(effect)
    if len(values) < 2:
        return math.nan, math.nan
    half = 0 if deterministic(effect) else stats.t.isf(alpha / 2, len(values) - 1) * error(effect)
    return values.mean() - half, values.mean() + half


def two_sided(effect):
    values = finite(effect)
    return 2 * stats.t.sf(abs(values.mean()) / error(effect), len(values) - 1)


def equivalent(effect, delta):
    """The larger p of the tests of mean <= -delta and mean >= delta."""
    values = finite(effect)
    return max(stats.t.sf((delta + sign * values.mean()) / error(effect), len(values) - 1) for sign in (1, -1))


def holm(p_values, alpha):
    """The level of each p, in the order given: alpha over the number of hypotheses that are left; all after the first failure have its."""
    order = sorted((p, k) for k, p in enumerate(p_values) if not math.isnan(p))
    levels, failed = [math.nan] * len(p_values), None
    for rank, (p, k) in enumerate(order):
        level = failed if failed is not None else alpha / (len(order) - rank)
        levels[k] = level
        if failed is None and p > level:
            failed = level
    return levels


class Estimator:
    """One quantity of a claim about a model, with an effect for each comparison."""

    def __init__(self, effects, delta):
        self.effects, self.delta = effects, delta
        self.tested = [one for one in effects if not deterministic(one)]
        self.enough = all(len(finite(one)) > 1 for one in effects)
        signs = {np.sign(finite(one).mean()) for one in effects} if self.enough else {0}
        self.sign = signs.pop() if len(signs) == 1 else 0
        self.p = math.nan
        self.equal_p = math.nan
        if self.enough and self.tested:
            self.p = max(map(two_sided, self.tested)) if self.sign else 1.0
            if delta is not None:
                beyond = any(abs(finite(one).mean()) > delta for one in effects if deterministic(one))
                self.equal_p = 1.0 if beyond else max(equivalent(one, delta) for one in self.tested)

    def verdict(self, level, equal_level):
        by_sign = {1: "holds", -1: "opposite", 0: "undecided"}[int(self.sign)]
        if not self.enough:
            return "not measured" if any(not len(finite(one)) for one in self.effects) else "undecided"
        if not self.tested:
            equal = self.delta is not None and all(abs(finite(one).mean()) <= self.delta for one in self.effects)
            return "no relevant difference" if equal else by_sign
        if self.p <= level:
            return by_sign
        return "no relevant difference" if self.equal_p <= equal_level else "undecided"


def enough(claim, verdict, effects):
    """The verdict, if as many seeds count as the claim asks for."""
    few = any(len(finite(one)) < claim.get("least_seeds", 0) for one in effects)
    return "undecided" if few and verdict != "not measured" else verdict


def together(verdicts):
    """The verdict of all estimators together."""
    if len(set(verdicts)) == 1:
        return verdicts[0]
    return "undecided" if set(verdicts) == {"undecided", "not measured"} else "estimators disagree"


class Judge:
    """All claims about one data set."""

    def __init__(self, claims, experiments, alpha):
        self.alpha, self.experiments = alpha, experiments
        self.claims = [one for one in claims if one["experiment"] in experiments]

    def findings(self):
        found = [self.valued(claim, model) for claim, model in self.asked() if claim["test"] == "value"]
        by_family = {}
        for claim, model in self.asked():
            if claim["test"] != "value":
                by_family.setdefault("independent" if model == "pde" else model, []).append((claim, model))
        for family in by_family.values():
            found += self.judged_together(family)
        return found

    def asked(self):
        """(claim, model) of everything that claims speak of."""
        for claim in self.claims:
            at, models = claim.get("at", ""), self.experiments[claim["experiment"]].models
            if not at:
                yield from ((claim, model) for model in models if model in PDE)
            elif at == "each":
                yield from ((claim, model) for model in models)
            elif claim["experiment"] == "ablation":
                yield from ((claim, kind) for kind in ("transformer", "pde"))
            else:
                yield claim, at

    def judged_together(self, family):
        """Holm over the differences of all claims about a model, and over their equivalences."""
        parts = []
        for claim, model in family:
            if claim["test"] == "happens":
                parts.append(self.counts(claim, model))
            else:
                parts.append([Estimator(self.effects(claim, model, quantity), claim.get("delta")) for quantity in claim["quantity"]])
        p_values, equal_p = [], []
        for part in parts:
            if isinstance(part, tuple):
                p_values.append(part[0])
                equal_p.append(math.nan)
                continue
            tested = [one for one in part if one.tested or not one.enough]
            one_side = len({one.sign for one in part}) == 1
            p = [one.p for one in tested]
            p_values.append(math.nan if not p or any(map(math.isnan, p)) else max(p) if one_side else 1.0)
            p = [one.equal_p for one in tested]
            equal_p.append(math.nan if not p or any(map(math.isnan, p)) else max(p))
        found = []
        for (claim, model), part, level, equal_level in zip(family, parts, holm(p_values, self.alpha), holm(equal_p, self.alpha)):
            if isinstance(part, tuple):
                p, sign, effect = part
                said = "not measured" if math.isnan(p) else "undecided" if p > level or not sign else "holds" if sign > 0 else "opposite"
                found.append(Finding(claim, model, said, [[effect]], [said], [[(math.nan, math.nan)]], [[]]))
                continue
            verdicts = [one.verdict(level, equal_level) for one in part]
            intervals = []
            for one, said in zip(part, verdicts):
                width = 2 * equal_level if said == "no relevant difference" and one.tested else self.alpha if math.isnan(level) else level
                intervals.append([interval(effect, width) for effect in one.effects])
            verdicts = [enough(claim, said, one.effects) for said, one in zip(verdicts, part)]
            levels = [self.by_level(claim, model, quantity) for quantity in claim["quantity"]]
            found.append(Finding(claim, model, together(verdicts), [one.effects for one in part], verdicts, intervals, levels))
        return found

    def valued(self, claim, model):
        """The interval against expected +- tolerance."""
        effects, verdicts, intervals = [], [], []
        low_end, high_end = claim["expected"] - claim["tolerance"], claim["expected"] + claim["tolerance"]
        for quantity in claim["quantity"]:
            measured = Quantity(self.experiments[claim["experiment"]], claim)
            if measured.levels:
                measured.choose_levels([], quantity)
            effect = Effect(measured.by_seed(model, quantity), self.shared(measured, (model, quantity, None), None, 1))
            low, high = interval(effect, self.alpha)
            if len(finite(effect)) < 2:
                said = "undecided" if len(finite(effect)) else "not measured"
            else:
                said = "holds" if low_end <= low and high <= high_end else "missed" if high < low_end or low > high_end else "undecided"
            effects.append([effect])
            verdicts.append(enough(claim, said, [effect]))
            intervals.append([(low, high)])
        return Finding(claim, model, together(verdicts), effects, verdicts, intervals, [[]] * len(effects))

    def counts(self, claim, model):
        """(p of Fisher's test, sign, effect): in how many seeds there is a number, against another variant."""
        experiment, quantity = self.experiments[claim["experiment"]], claim["quantity"][0]
        tables = []
        for variant in (claim["at"], claim["than"][0]):
            values = experiment.array(f"{model}_{variant}", quantity)
            if values is None:
                return math.nan, 0, Effect(np.full(experiment.seeds, np.nan), 0.0)
            happened = int(np.isfinite(values).sum())
            tables.append([happened, len(values) - happened])
        difference = tables[0][0] / sum(tables[0]) - tables[1][0] / sum(tables[1])
        return stats.fisher_exact(tables)[1], np.sign(difference), Effect(np.array([difference]), 0.0)

    def places(self, claim, model, quantity):
        """[(mine, other)]: (group, quantity, epoch) of what is compared, None for 0 and "missing" for what was not measured."""
        experiment, at = self.experiments[claim["experiment"]], claim.get("at", "")
        group = f"{model}_{at}" if claim["experiment"] == "ablation" else model
        found = []
        for mine in (group, "transformer") if claim.get("both") else (group,):
            for name in claim.get("than", ["transformer"]):
                if name == "zero":
                    other = None
                elif name.startswith("own:"):
                    other = (mine, name[4:], None)
                elif name == "gauss_newton":
                    other = (mine, quantity.replace("functional_", "gauss_newton_"), None)
                elif claim["experiment"] == "ablation":
                    other = (f"{model}_{name}", quantity, None)
                elif name == "ceiling":
                    other = ("transformer", f"{quantity}_ceiling", None)
                elif name in NULLS:
                    other = (mine, f"{quantity}_{name}", None)
                    if name == "untrained" and not experiment.has(*other[:2]):  # the first copy of the weights
                        other = (mine, f"epoch_{quantity}", list(experiment.coordinate("copied_epoch")).index(0))
                else:
                    other = (name, quantity, None)
                if other and not experiment.has(*other[:2]):
                    other = "missing"
                found.append(((mine, quantity, None), other))
        return found

    def effects(self, claim, model, quantity):
        """One for each comparison."""
        experiment = self.experiments[claim["experiment"]]
        measured, pairs = Quantity(experiment, claim), self.places(claim, model, quantity)
        if measured.levels and (claim.get("window") or experiment.has(model, quantity)):
            measured.choose_levels({place[0] for pair in pairs for place in pair if isinstance(place, tuple)}, quantity)
        sign = 1 if claim["test"] == "larger" else -1
        found = []
        for mine, other in pairs:
            if other == "missing":
                found.append(Effect(np.full(experiment.seeds, np.nan), 0.0))
                continue
            values = rounded(self.difference(claim, measured.by_seed(*mine), measured.by_seed(*other) if other else 0.0, sign))
            found.append(Effect(values, self.shared(measured, mine, other, sign)))
        return found

    @staticmethod
    def difference(claim, mine, theirs, sign):
        with np.errstate(all="ignore"):
            return sign * (np.log(mine) - np.log(theirs) if claim.get("ratio") else mine - theirs)

    def shared(self, measured, mine, other, sign):
        """V: the variance of the mean over seeds of the jackknife's pseudo-values, over the number of test samples."""
        without = measured.without_each(*mine[:2]) if mine[2] is None else None
        theirs = 0.0 if other is None else measured.without_each(*other[:2]) if other[2] is None else None
        if without is None or theirs is None:
            return 0.0
        whole = self.difference(measured.claim, measured.by_seed(*mine), measured.by_seed(*other) if other else 0.0, sign)
        seeds = np.isfinite(whole)
        left = self.difference(measured.claim, without, theirs, sign)[seeds]
        left = left[:, np.isfinite(left).all(axis=0)]
        count = left.shape[1]
        pseudo = count * whole[seeds, None] - (count - 1) * left
        return pseudo.mean(axis=0).var(ddof=1) / count if seeds.any() and count > 1 else 0.0

    def by_level(self, claim, model, quantity):
        """[(level, effect, verdict, interval)] of a curve with a start against the first comparison, judged together."""
        if not claim.get("start"):
            return []
        experiment, found = self.experiments[claim["experiment"]], []
        (mine, *_), (other, *_) = self.places(claim, model, quantity)[0]
        sign = 1 if claim["test"] == "larger" else -1
        for k, level in enumerate([0.0, *experiment.coordinate(claim["levels"])]):
            name = quantity if k else claim["start"]
            pick = lambda values: values[..., k - 1] if k else values  # noqa: E731, B023
            values = [pick(experiment.array(one, name)) for one in (mine, other)]
            outcomes = [experiment.array(one, f"{name}_by_sample") for one in (mine, other)]
            shared = 0.0
            if all(one is not None for one in outcomes):
                difference = sign * (pick(outcomes[0]) - pick(outcomes[1]))
                shared = difference.mean(axis=0).var(ddof=1) / difference.shape[1]
            found.append((level, Effect(rounded(sign * (values[0] - values[1])), shared)))
        parts = [Estimator([effect], None) for _, effect in found]
        levels = holm([one.p for one in parts], self.alpha)
        return [(level, effect, part.verdict(at, math.nan), interval(effect, self.alpha if math.isnan(at) else at))
                for (level, effect), part, at in zip(found, parts, levels)]
