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
from fluxformer.text import counted, enumerated

GROUPS = {"The runs agree": (Verdict.HOLDS,), "The runs say otherwise": (Verdict.OPPOSITE, Verdict.MISSED),
          "There is no difference that matters": (Verdict.NO_DIFFERENCE,)}
FIGURES = 2  # of a data set
Found = list[tuple[Claim, Finding]]


class Line(NamedTuple):
    """A claim with those models that earned the same kind of verdict."""
    claim: Claim
    findings: list[tuple[str, str]]  # model; effect with its interval, and what is compared


class Answer:
    """What the first screen says of one data set, distilled and inherited models left out: they resemble the Transformer by construction.

    Attributes
    ----------
    asked, sure : str
        What was asked, and how sure the verdicts are.
    groups : dict
        Lines by the words above them; groups without lines are left out.
    rest : str
        What the runs do not decide and did not measure; empty if there is nothing.
    drawings : list of Drawing
        The first figure of the experiments whose claims are decided.
    """

    def __init__(self, chapter: Chapter, found: Found) -> None:
        measured = [(claim, one) for claim, one in found if one.verdict is not Verdict.NO_DATA]
        decided = [(claim, one) for claim, one in measured if one.verdict not in (Verdict.UNDECIDED, Verdict.DISAGREE)]
        self.data = chapter.study.name
        self.asked = _asked(chapter, found)
        self.preliminary = bool(chapter.preliminary)
        self.sure = _sure(chapter, [one for _, one in measured])
        self.groups = {words: lines for words, verdicts in GROUPS.items() if (lines := _lines(chapter, decided, verdicts))}
        self.rest = _rest(len(found), len(measured) - len(decided), len(found) - len(measured))
        self.drawings = _drawings(chapter, [claim for claim, _ in decided])


def answers(chapters: list[Chapter]) -> list[Answer]:
    """Those of all data sets about which something was asked, first the one with the most findings."""
    found = {chapter: [(claim, one) for claim, findings in chapter.weighed for one in findings if one.model not in EARNED] for chapter in chapters}
    return [Answer(chapter, some) for chapter, some in sorted(found.items(), key=lambda pair: -len(pair[1])) if some]


def colour(model: str) -> str:
    """The colour of a model in figures; empty where it has none."""
    name = column(model)
    return MODELS[name].colour if name in MODELS else ""


def _asked(chapter: Chapter, found: Found) -> str:
    claims = {claim.id: claim for claim, _ in found}
    sources = dict.fromkeys(name for claim in claims.values() for name in _sources(claim.source))
    models = dict.fromkeys(label(one.model) for _, one in found)
    return f"{counted(len(claims), 'statement')} from {enumerated(sources)}, on {chapter.study.name}. Judged for {enumerated(models)}."


def _sources(source: str) -> list[str]:
    """The papers that a claim comes from, or the words of its source without any."""
    return re.findall(r"arXiv (?:\d{4}\.\d{4,5}|[\w.-]+/\d{7})", source) or ["questions asked here" if source.startswith("asked here") else source]


def _sure(chapter: Chapter, measured: list[Finding]) -> str:
    if not measured:
        return "Nothing of it was measured."
    seeds = sorted({one.seeds[0] for one in measured if one.seeds[0]} or {0})  # 0: of some estimators there is no number
    number = counted(seeds[-1], "seed") if len(seeds) == 1 else f"{seeds[0]} to {counted(seeds[-1], 'seed')}"
    if chapter.preliminary:
        return chapter.preliminary
    few = " Verdicts from too few are marked preliminary." if any(one.preliminary for one in measured) else ""
    return (f"From {number}.{few} Differences of one kind of model on this data set are judged together: the probability that any of them is claimed "
            f"wrongly is at most {100 * chapter.alpha:g} %. Intervals stand in brackets.")


def _lines(chapter: Chapter, decided: Found, verdicts: tuple[Verdict, ...]) -> list[Line]:
    lines: dict[str, Line] = {}
    for claim, one in decided:
        if one.verdict in verdicts:
            effect, *compared = in_short(claim, one)
            text = effect + (f" ({compared[0]})" if compared else "") + (", preliminary" if one.preliminary and not chapter.preliminary else "")
            lines.setdefault(claim.id, Line(claim, [])).findings.append((one.model, text))
    return list(lines.values())


def _rest(every: int, undecided: int, missing: int) -> str:
    return " ".join([*([f"Not decided by these runs: {undecided} of {counted(every, 'finding')}."] if undecided else []),
                     *([f"Not measured: {missing}."] if missing else [])])


def _drawings(chapter: Chapter, decided: list[Claim]) -> list[Drawing]:
    wanted = dict.fromkeys(claim.experiment for claim in decided)
    first = {section.experiment: drawings[0] for section, drawings, _ in reversed(chapter.sections) if drawings}
    return [first[name]._replace(name=f"first-{first[name].name}") for name in wanted if name in first][:FIGURES]
