"""findings.json: verdicts with their effects and intervals, and the runs behind them, a few KB for each data set, for texts that quote them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable

from fluxformer.io import Run, Value
from fluxformer.report.chapter import Chapter
from fluxformer.report.claims import Claim, Rule
from fluxformer.report.origins import deck_of, wall_time
from fluxformer.report.verdicts import Finding
from fluxformer.report.wording import factors, in_short, label
from fluxformer.text import seed_list

Json = dict[str, object]


def write(path: str, chapters: list[Chapter], rule: Rule) -> None:
    """Writes the findings of all data sets that have claims, one on a line. Numbers that do not exist are null."""
    judged = [chapter for chapter in chapters if chapter.weighed]
    claims = {claim.id: {"experiment": claim.experiment, "source": claim.source, "sentence": claim.sentence}
              for chapter in judged for claim, _ in chapter.weighed}
    known = _lines(f"{_text(name)}: {_text(one)}" for name, one in claims.items())
    studies = _lines(f'{{"data": {_text(chapter.study.name)}, "preliminary": {_text(chapter.preliminary)},\n{_parts(chapter)}}}' for chapter in judged)
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(f'{{"alpha": {rule.alpha},\n"claims": {{\n{known}}},\n"studies": [\n{studies}]}}\n')


def _parts(chapter: Chapter) -> str:
    experiments = {claim.experiment for claim, _ in chapter.weighed}
    behind = [run for name in sorted(experiments) for run in chapter.study.comparisons[name].runs]
    headings, *rows = chapter.models
    parts: dict[str, list[Json]] = {
        "findings": [_finding(claim, one) for claim, findings in chapter.weighed for one in findings],
        "models": [dict(zip(map(str, headings), map(str, row))) for row in rows],
        "runs": [_run(run) for run in (*behind, *chapter.study.trainings)]}
    return ",\n".join(f'"{name}": [\n{_lines(map(_text, entries))}]' for name, entries in parts.items())


def _finding(claim: Claim, finding: Finding) -> Json:
    judged = finding.judged
    numbers = (judged.effect.mean, *judged.interval) if judged.effect.count else (math.nan,) * 3
    value, *interval = factors(claim, *numbers) if claim.ratio else numbers
    return {"claim": claim.id, "model": label(finding.model), "verdict": finding.words, "seeds": list(finding.seeds), "effect": _number(value),
            "interval": [_number(one) for one in interval], "p": _number(judged.p), "level": _number(judged.alpha), "shown": in_short(claim, finding)}


def _run(run: Run) -> Json:
    experiment: Value = run.attributes["experiment"]
    return {"experiment": str(experiment), "deck": deck_of(run), "seeds": seed_list(run.seeds), "revision": run.revision,
            "seconds": round(wall_time(run), 1)}


def _number(value: float) -> float | None:
    """With six digits; None where there is none."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _lines(entries: Iterable[str]) -> str:
    return ",\n".join(entries)
