"""The first screen of the report: what was asked about a data set, what was found and how sure that is, in plain words, with figures."""

from __future__ import annotations

import re
from typing import NamedTuple

from fluxformer.judging import Verdict
from fluxformer.report.chapter import Chapter
from fluxformer.report.claims import Claim
from fluxformer.report.data import MODELS
from fluxformer.report.style import Drawing
from fluxformer.report.verdicts import EARNED, Finding, column
from fluxformer.report.wording import in_short, label
from fluxformer.text import listed

GROUPS = {"The runs agree": (Verdict.HOLDS,), "The runs say otherwise": (Verdict.OPPOSITE, Verdict.MISSED),
          "There is no difference that matters": (Verdict.NO_DIFFERENCE,)}
OPEN = (Verdict.UNDECIDED, Verdict.DISAGREE)
FIGURES = 2  # of a data set


class Line(NamedTuple):
    """A claim with those models that earned the same kind of verdict."""
    claim: Claim
    findings: list[tuple[str, str]]  # model, effect with its interval


class Answer:
    """What the first screen says of one data set.

    Attributes
    ----------
    asked, sure : str
        A sentence on what was asked, and two on how sure the verdicts are.
    groups : dict
        Lines by the words above them; groups without lines are left out.
    undecided : str
        A sentence on what the runs do not decide; empty if there is nothing.
    drawings : list of Drawing
        Figures that show what was found.
    """

    def __init__(self, chapter: Chapter) -> None:
        found = [(claim, one) for claim, findings in chapter.weighed for one in findings if one.model not in EARNED]
        self.data = chapter.study.name
        self.asked = _asked(chapter, found)
        self.preliminary = chapter.preliminary
        self.sure = _sure(chapter, found)
        self.groups = {words: lines for words, verdicts in GROUPS.items() if (lines := _lines(found, verdicts))}
        self.undecided = _undecided(found)
        self.drawings = _drawings(chapter, [claim for claim, one in found if one.verdict not in (*OPEN, Verdict.NO_DATA)])


def _asked(chapter: Chapter, found: list[tuple[Claim, Finding]]) -> str:
    claims = {claim.id: claim for claim, _ in found}
    sources = listed(dict.fromkeys("questions asked here" if claim.source.startswith("asked here") else
                                   re.sub(r".*?(arXiv \S+?)\b(?![.\d]).*", r"\1", claim.source) for claim in claims.values()))
    models = listed(dict.fromkeys(label(column(one.model)) for _, one in found))
    return f"{len(claims)} statements, of {sources}: do they hold on {chapter.study.name}? Judged for {models}."


def _sure(chapter: Chapter, found: list[tuple[Claim, Finding]]) -> str:
    seeds = max((one.seeds[1] for _, one in found), default=0)
    needed = max((one.needed for _, one in found), default=0)
    if chapter.preliminary:
        return (f"Preliminary: {seeds} seed{'s' * (seeds != 1)}, where verdicts need {needed}. So few leave intervals wide: what is not decided here may well "
                "be decided with all of them, and what is decided may yet change.")
    return (f"From {seeds} seeds. Differences are judged together: the probability that any of them is claimed wrongly of one kind of model is at most "
            f"{100 * chapter.alpha:g} %. Intervals stand in brackets.")


def _lines(found: list[tuple[Claim, Finding]], verdicts: tuple[Verdict, ...]) -> list[Line]:
    lines: dict[str, Line] = {}
    for claim, one in found:
        if one.verdict in verdicts:
            lines.setdefault(claim.id, Line(claim, [])).findings.append((one.model, in_short(claim, one)[0]))
    return list(lines.values())


def _undecided(found: list[tuple[Claim, Finding]]) -> str:
    left = [one for _, one in found if one.verdict in OPEN]
    if not left:
        return ""
    return f"{len(left)} of {len(found)} findings are not decided by these runs; the table says how large an effect would have been seen."


def _drawings(chapter: Chapter, decided: list[Claim]) -> list[Drawing]:
    """The first figure of the experiment of each decided claim, in their order."""
    wanted = list(dict.fromkeys(claim.experiment for claim in decided))
    first = {section.experiment: drawings[0] for section, drawings, _ in reversed(chapter.sections) if drawings}
    return [first[name]._replace(name=f"first-{first[name].name}") for name in wanted if name in first][:FIGURES]


def answers(chapters: list[Chapter]) -> list[Answer]:
    """Those of all data sets, first the one with the most findings."""
    return [Answer(chapter) for chapter in sorted(chapters, key=lambda one: -sum(len(findings) for _, findings in one.weighed))]


def colour(model: str) -> str:
    """The colour of a model in figures; empty where it has none."""
    name = column(model)
    return MODELS[name].colour if name in MODELS else ""
