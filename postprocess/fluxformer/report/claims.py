"""The claims of a source, as a file fixes them before anything is measured (input/paper/compare/claims.toml)."""

from __future__ import annotations

import math
import os
import tomllib
from dataclasses import dataclass, field, fields

from fluxformer.experiments import families
from fluxformer.hdf5_file import RunError, regular_file
from fluxformer.report.reductions import REDUCTIONS

TESTS = ("value", "larger", "smaller", "happens")
SAMPLES = ("", "mean", "rms")


@dataclass(frozen=True)
class Claim:
    """One statement of a source. The keys are those of the file and explained there."""
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

    def asks(self) -> str:
        """What has to be found, in words."""
        what = REDUCTIONS[self.reduce].words
        if self.test == "value":
            return f"{self.expected:g} ± {self.tolerance:g} ({what})"
        if self.test == "happens":
            return f"in more seeds than with {name_of(self.than[0])}"
        others = " and ".join("0" if one == "zero" else f"for {name_of(one)}" for one in self.than)
        where = " in both models" if self.both else ""
        equal = f"; within ± {self.delta:g} there is no relevant difference" if self.delta is not None else ""
        logarithm = ", difference of logarithms" if self.ratio else ""
        return f"{self.test} than {others}{where} ({what}{logarithm}){equal}"


NAMES = {"transformer": "Transformer", "ceiling": "two Transformers", "uniform": "uniform rows", "permuted": "permuted keys",
         "untrained": "untrained model"}


def name_of(control: str) -> str:
    """What `than` names, in words; a variant of the ablation by its own name."""
    return NAMES.get(control, control.replace("_", " "))


@dataclass(frozen=True)
class Rule:
    """How verdicts are given.

    Attributes
    ----------
    alpha : float
        Probability of a false verdict among the claims about one kind of model on one data set, where no claim is true.
    seeds : dict
        By data set, the seeds from which on a verdict is not preliminary.
    """
    alpha: float
    seeds: dict[str, int]

    def needed(self, data_set: str) -> int:
        """Seeds that verdicts on this data set take."""
        return self.seeds.get(data_set, max(self.seeds.values()))


def read_claims(path: str | os.PathLike) -> tuple[Rule, list[Claim]]:
    """The rule and the claims of a file; RunError if it is none."""
    regular_file(os.fspath(path))
    try:
        with open(path, "rb") as stream:
            content = tomllib.load(stream)
        seeds = {name: int(count) for name, count in content["rule"]["seeds"].items()}
        rule = Rule(float(content["rule"]["alpha"]), seeds)
        if not (0 < rule.alpha < 1 and seeds and min(seeds.values()) > 1):
            raise ValueError("alpha lies between 0 and 1; every data set needs at least 2 seeds")
        claims = [_claim(entry) for entry in content["claim"]]
        if twice := {one.id for k, one in enumerate(claims) if one.id in {other.id for other in claims[:k]}}:
            raise ValueError(f"several claims are called {', '.join(sorted(twice))}")
        return rule, claims
    except Exception as failure:  # entries of any kind, at any depth
        raise RunError(f"{path}: not a file of claims ({type(failure).__name__}: {failure})") from None


def _claim(entry: dict) -> Claim:
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


def _contradiction(claim: Claim) -> str:
    """Why it cannot be judged, from the file alone; empty if it can."""
    if claim.experiment not in families():
        return f"there is no experiment '{claim.experiment}'"
    if not claim.at and (unknown := [one for one in claim.than if one not in (*NAMES, "zero")]):
        return f"than = {', '.join(unknown)}: without 'at' it is one of {', '.join(NAMES)}, zero"
    if claim.test == "value" and (not math.isfinite(claim.expected) or claim.tolerance < 0 or claim.ratio):
        return "a value needs expected, no negative tolerance and no ratio"
    if claim.test == "happens" and not (claim.at and len(claim.than) == 1):
        return "happens needs 'at', and one variant in 'than'"
    if bool(claim.levels) != bool(claim.start) or (claim.levels and claim.ratio):
        return "levels and start need each other, and no ratio"
    return ""
