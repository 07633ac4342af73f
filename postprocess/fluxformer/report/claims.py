"""The claims of a source, as files fix them before anything is measured (input/paper/compare/claims.toml)."""

from __future__ import annotations

import functools
import math
import os
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, fields

from fluxformer.environment import of_environment
from fluxformer.hdf5_file import RunError, regular_file
from fluxformer.experiments import makes_its_data
from fluxformer.report.data import MODELS
from fluxformer.report.reductions import REDUCTIONS
from fluxformer.report.sections import sections

TESTS = ("value", "larger", "smaller", "happens")
EACH = "each"  # value of `at`: every model that was measured
OWN = "own:"   # prefix in `than`: another measure of the same model
AT = "at:"     # prefix in `than`: the same measure of the same model at another place of an axis of `where`, as in "at:account=4"
SAMPLES = ("", "mean", "rms")


@dataclass(frozen=True)
class Claim:
    """One statement of a source. Its keys are those of the file of claims, whose head explains them."""
    id: str
    sentence: str
    source: str
    experiment: str
    quantity: list[str]
    test: str
    reduce: str = "mean"
    unit: str = ""
    than: list[str] = field(default_factory=lambda: ["transformer"])
    both: bool = False
    ratio: bool = False
    start: str = ""
    levels: str = ""
    samples: str = ""
    delta: float | None = None
    expected: float = float("nan")
    tolerance: float = 0.0
    at: str = ""
    where: dict[str, float] = field(default_factory=dict)
    along: str = ""
    window: list[float] = field(default_factory=list)
    least_seeds: int = 2

    def asks(self) -> str:
        """What has to be found, in words."""
        what = ", ".join([REDUCTIONS[self.reduce].words + (f" along {self.along}" if self.along else ""), *(f"{axis} {place:g}" for axis, place in self.where.items()),
                          *([f"{self.levels} {self.window[0]:g} to {self.window[1]:g}"] if self.window else [])])
        if self.test == "value":
            return f"{self.expected:g} ± {self.tolerance:g} ({what})"
        if self.test == "happens":
            return f"in more seeds than with {self.name_of(self.than[0])}"
        others = " and ".join("0" if one == "zero" else f"its {self.name_of(one)}" if one.startswith(OWN) else f"for {self.name_of(one)}" for one in self.than)
        where = " in both models" if self.both else ""
        equal = f"; within ± {self.delta:g} there is no relevant difference" if self.delta is not None else ""
        logarithm = ", difference of logarithms" if self.ratio else ""
        few = f"; from fewer than {self.least_seeds} seeds undecided" if self.least_seeds > 2 else ""
        return f"{self.test} than {others}{where} ({what}{logarithm}){equal}{few}"

    def name_of(self, control: str) -> str:
        """What an entry of `than` means, in words; another measure and a variant of the ablation by their own names."""
        return _own_names(self.experiment).get(control) or name_of(control)


NAMES = {"transformer": "Transformer", "ceiling": "two Transformers", "uniform": "uniform rows", "permuted": "permuted keys",
         "untrained": "untrained model", "null": "random value space", "normal": "normal tokens", "across": "one token of each sample",
         "gauss_newton": "Gauss-Newton part"}

NULLS = ("uniform", "permuted", "untrained", "null", "normal", "across")
CONTROLS = (*NULLS, "gauss_newton")  # controls that any model may have


def elsewhere(control: str) -> dict[str, float]:
    """The place that an entry of `than` with AT names: {axis: coordinate}; ValueError if it names none."""
    axis, _, place = control.removeprefix(AT).partition("=")
    return {axis: float(place)}


def name_of(control: str) -> str:
    """What an entry of `than` means, in words; another measure and a variant of the ablation by their own names."""
    return NAMES.get(control) or (MODELS[control].label if control in MODELS else control.removeprefix(OWN).removeprefix(AT).replace("_", " "))


@dataclass(frozen=True)
class Rule:
    """How verdicts are given.

    Attributes
    ----------
    alpha : float
        Probability of a false verdict among the claims about one kind of model on one data set, where no claim is true.
    seeds : dict
        Number of seeds, by data set, from which on a verdict is not preliminary.
    """
    alpha: float
    seeds: dict[str, int]

    def needed(self, data_set: str) -> int:
        """The number of seeds that verdicts on this data set need."""
        return self.seeds.get(data_set, max(self.seeds.values()))


def read_claims(path: str | os.PathLike) -> tuple[Rule, list[Claim]]:
    """Reads the rule and the claims of a file; RunError if it is not a file of claims."""
    regular_file(os.fspath(path))
    try:
        with open(path, "rb") as stream:
            content = tomllib.loads(stream.read().decode("utf-8-sig"))  # without a byte-order mark
        seeds = {name: int(count) for name, count in content["rule"]["seeds"].items()}
        rule = Rule(float(content["rule"]["alpha"]), seeds)
        if not (0 < rule.alpha < 1 and seeds and min(seeds.values()) > 1):
            raise ValueError("alpha lies between 0 and 1; every data set needs at least 2 seeds")
        claims = [claim_of(entry) for entry in content["claim"]]
        if twice := {one.id for k, one in enumerate(claims) if one.id in {other.id for other in claims[:k]}}:
            raise ValueError(f"several claims are called {', '.join(sorted(twice))}")
        return rule, claims
    except Exception as failure:  # entries of any kind, at any depth
        if of_environment(failure):
            raise
        raise RunError(f"{path}: not a file of claims ({type(failure).__name__}: {failure})") from None


def read_all(paths: Sequence[str]) -> tuple[Rule, list[Claim]]:
    """Reads the rule and the claims of several files; together they need as many seeds as the strictest of
    them. RunError if they contradict each other."""
    (rule, claims), *others = (read_claims(path) for path in paths)
    for path, (further, more) in zip(paths[1:], others):
        if further.alpha != rule.alpha:
            raise RunError(f"{path}: its alpha is another than that of {paths[0]}: claims that are judged together have one")
        if twice := {one.id for one in claims} & {one.id for one in more}:
            raise RunError(f"{path}: there is a claim called {', '.join(sorted(twice))} in another file, too")
        seeds = {name: max(rule.seeds.get(name, 0), further.seeds.get(name, 0)) for name in {**rule.seeds, **further.seeds}}
        rule, claims = Rule(rule.alpha, seeds), [*claims, *more]
    return rule, claims


def claim_of(entry: dict) -> Claim:
    """The claim of an entry of a file; ValueError if it cannot be judged."""
    if unknown := set(entry) - {one.name for one in fields(Claim)}:
        raise ValueError(f"claim '{entry.get('id')}' has unknown keys {', '.join(sorted(unknown))}")
    claim = Claim(**entry)
    if claim.test not in TESTS or claim.reduce not in REDUCTIONS or claim.samples not in SAMPLES:
        raise ValueError(f"claim '{claim.id}': test is one of {', '.join(TESTS)}; reduce one of {', '.join(REDUCTIONS)}; "
                         "samples is mean or rms, or left out")
    for name, entries in (("quantity", claim.quantity), ("than", claim.than)):
        if not (isinstance(entries, list) and entries and all(isinstance(one, str) for one in entries)):
            raise ValueError(f"claim '{claim.id}': {name} is a list of at least one name")
    if problem := _contradiction(claim):
        raise ValueError(f"claim '{claim.id}': {problem}")
    return claim


@functools.cache
def _experiments() -> frozenset[str]:
    """The experiments of which the report knows something."""
    return frozenset(one.experiment for one in sections())


@functools.cache
def _own_names(experiment: str) -> dict[str, str]:
    """Names of controls that mean something else in this experiment than in NAMES."""
    return {name: words for one in sections() if one.experiment == experiment for name, words in one.controls}


def _contradiction(claim: Claim) -> str:
    """The reason why a claim cannot be judged, as far as the file alone tells; empty if it can."""
    if claim.experiment not in (known := _experiments()):
        return f"there is no experiment '{claim.experiment}', but {', '.join(sorted(known))}"
    named = [one for one in claim.than if not one.startswith((OWN, AT))]
    if wrong := [one for one in claim.than if one.startswith(AT) and not {*elsewhere(one)} <= {*claim.where}]:
        return f"than = {', '.join(wrong)}: no place on an axis of 'where', as {AT}account=4 is"
    if not claim.at and (unknown := [one for one in named if one not in (*NAMES, "zero")]):
        return f"than = {', '.join(unknown)}: without 'at' it is one of {', '.join(NAMES)}, zero, {OWN}MEASURE, {AT}AXIS=PLACE"
    if claim.at in MODELS and (unknown := [one for one in named if one not in (*MODELS, *CONTROLS, "zero")]):
        return f"than = {', '.join(unknown)}: with 'at' a model it is one of {', '.join((*MODELS, *CONTROLS))}, zero, {OWN}MEASURE, {AT}AXIS=PLACE"
    if claim.at == EACH and (unknown := [one for one in named if one not in (*CONTROLS, "zero")]) and claim.test in ("larger", "smaller"):
        return f"than = {', '.join(unknown)}: with 'at' each model it is one of {', '.join(CONTROLS)}, zero, {OWN}MEASURE, {AT}AXIS=PLACE"
    if not claim.at and makes_its_data(claim.experiment):
        return f"{claim.experiment} needs 'at'"
    if claim.test == "value" and (not math.isfinite(claim.expected) or claim.tolerance < 0 or claim.ratio):
        return "a value needs expected, no negative tolerance and no ratio"
    if claim.test == "happens" and not (claim.at and claim.at != EACH and len(claim.than) == 1):
        return "happens needs 'at', and one variant in 'than'"
    powers = claim.reduce == "exponent" or bool(claim.window)  # the levels have no start
    if bool(claim.levels) != (bool(claim.start) or powers) or claim.start and (claim.ratio or powers):
        return "levels and start need each other, and no ratio; an exponent and a window need levels alone"
    if claim.window and len(claim.window) != 2:
        return "a window is two levels"
    if claim.least_seeds < 2:
        return "least_seeds is 2 at least"
    return ""
