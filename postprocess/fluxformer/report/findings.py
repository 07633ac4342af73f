"""findings.json: verdicts with their effects and intervals, and the runs behind them, a few KB for each data set, for texts that quote them."""

from __future__ import annotations

import json
import math

from fluxformer.io import Run
from fluxformer.judging import Verdict
from fluxformer.report.chapter import Chapter
from fluxformer.report.claims import Claim, Rule
from fluxformer.report.origins import deck_of, wall_time
from fluxformer.report.verdicts import Finding
from fluxformer.report.wording import decisive, factors, in_short, label
from fluxformer.text import seed_list

Json = dict[str, object]
ASKED = ("experiment", "source", "sentence", "quantity", "test", "than", "ratio", "unit", "expected", "tolerance", "delta")  # of a claim


def write(path: str, chapters: list[Chapter], rule: Rule) -> None:
    """Writes the findings of all data sets that have claims. Numbers that do not exist are null."""
    judged = [chapter for chapter in chapters if chapter.weighed]
    claims = {claim.id: {name: _json(getattr(claim, name)) for name in ASKED} for chapter in judged for claim, _ in chapter.weighed}
    with open(path, "w", encoding="utf-8") as stream:
        json.dump({"alpha": rule.alpha, "claims": claims, "studies": [_study(chapter) for chapter in judged]}, stream, ensure_ascii=False, indent=1)
        stream.write("\n")


def _study(chapter: Chapter) -> Json:
    experiments = sorted({claim.experiment for claim, _ in chapter.weighed})
    behind = [run for name in experiments for run in chapter.study.comparisons[name].runs]
    return {"data": chapter.study.name, "findings": [_finding(claim, one) for claim, findings in chapter.weighed for one in findings],
            "runs": [_run(run) for run in (*behind, *chapter.study.trainings)]}


def _finding(claim: Claim, finding: Finding) -> Json:
    """Effect and interval are those of the quantity and the reference that decide: a difference, positive as claimed; of a ratio measured over
    reference; or the value. null where estimators disagree and of counts; an effect without spread has no interval."""
    judged, told = finding.judged, finding.verdict is not Verdict.DISAGREE and claim.test != "happens" and finding.judged.effect.count
    numbers = (judged.effect.mean, *judged.interval) if told else (math.nan,) * 3
    value, *interval = factors(claim, *numbers) if claim.ratio else numbers
    if judged.effect.deterministic:
        interval = [math.nan, math.nan]
    level = 2 * judged.alpha if finding.verdict is Verdict.NO_DIFFERENCE else judged.alpha
    return {"claim": claim.id, "model": finding.model, "label": label(finding.model), "verdict": finding.words, "preliminary": finding.preliminary,
            "seeds": list(finding.seeds), "quantity": decisive(finding).quantity if told else None, "effect": _json(value),
            "interval": [_json(one) for one in interval], "level": _json(level) if math.isfinite(interval[0]) else None, "shown": in_short(claim, finding)}


def _run(run: Run) -> Json:
    return {"experiment": str(run.attributes["experiment"]), "deck": deck_of(run), "seeds": seed_list(run.seeds), "revision": run.revision,
            "seconds": round(wall_time(run), 1)}


def _json(value: object) -> object:
    """A number with six digits, None where there is none; anything else as it is."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.6g}") if math.isfinite(value) else None
