"""A chapter of the report: what it says of one data set, before anything is laid out."""

from __future__ import annotations

from fluxformer.io import Value
from fluxformer.judging import Verdict
from fluxformer.report.claims import Claim, Rule
from fluxformer.report.data import INDEPENDENT, MODELS, Study
from fluxformer.report.runs import model_rows
from fluxformer.report.sections import Rows, Section, sections
from fluxformer.report.style import Drawing
from fluxformer.report.verdicts import Weighed, column, weigh
from fluxformer.text import counted

SECTIONS = sections()


class Chapter:
    """What the report says of one data set.

    Parameters
    ----------
    place : int
        Number of the data set, from 0.
    study : Study
    rule : Rule or None
        How verdicts are given; None without claims.
    claims : list of Claim

    Attributes
    ----------
    anchor : str
        Name of the chapter in links.
    alpha : float
        Probability of a false verdict among the claims about one kind of model; 0 without claims.
    weighed : list of tuple
        Each claim with its findings.
    models : list of tuple
        Rows of the table of models, the first of them headings; the headings alone without models.
    sections : list of tuple
        The sections that have something to show: section, figures, rows of the table (none without a table).
    """

    def __init__(self, place: int, study: Study, rule: Rule | None, claims: list[Claim]) -> None:
        self.anchor = f"data{place}"
        self.study = study
        self.alpha = rule.alpha if rule else 0.0
        self.weighed: Weighed = weigh(claims, study, rule) if rule else []
        self.models: list[tuple[Value, ...]] = model_rows(study)
        self.sections: list[tuple[Section, list[Drawing], Rows]] = []
        for section in SECTIONS:
            drawings = [one._replace(name=f"{self.anchor}-{one.name}") for one in section.draw(study)]
            if drawings or (section.anchor == "models" and self.has_models):
                self.sections.append((section, drawings, self._rows(section)))

    def _rows(self, section: Section) -> Rows:
        if section.rows:
            return section.rows(self.study)
        comparison = self.study.of(section.experiment)
        return section.table(comparison) if section.table and comparison else []

    @property
    def has_models(self) -> bool:
        """True if the table of models has a row besides its headings."""
        return len(self.models) > 1

    @property
    def preliminary(self) -> str:
        """Says once for the data set that all that was measured comes from too few seeds; empty if it does not."""
        found = [one for _, findings in self.weighed for one in findings if one.verdict is not Verdict.NO_DATA]
        if not found or not all(one.preliminary for one in found):
            return ""
        seeds, needed = max(one.seeds[0] for one in found), max(one.needed for one in found)
        return f"Preliminary: {counted(seeds, 'seed')}, where verdicts need {needed}. So few leave intervals wide."

    @property
    def kinds(self) -> list[str]:
        """The models of MODELS that any comparison of this data set has."""
        return [name for name in MODELS if any(name in comparison.models for comparison in self.study.comparisons.values())]


def tally(chapters: list[Chapter]) -> str:
    """Counts of the verdicts, in a sentence: of all claims about independently trained models, or of all claims if there are none about those."""
    every = [one for chapter in chapters for _, findings in chapter.weighed for one in findings]
    found = [one for one in every if column(one.model) in INDEPENDENT] or every
    about = "" if found is every else " about PDE models trained on the labels alone"
    verdicts = [one.verdict for one in found]
    counts = ", ".join(f"{one.value} {verdicts.count(one)}" for one in dict.fromkeys((Verdict.HOLDS, Verdict.OPPOSITE, *verdicts)))
    measured = [one for one in found if one.verdict is not Verdict.NO_DATA]
    preliminary = sum(one.preliminary for one in measured)
    some = f" Preliminary, from too few seeds: {preliminary}." if 0 < preliminary < len(measured) else ""
    return f"Of {len(verdicts)} findings{about}: {counts}.{some}"
