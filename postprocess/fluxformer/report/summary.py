"""The verdicts as one picture: a row for each claim, a column for each kind of model."""

from __future__ import annotations

import os
import textwrap

from fluxformer.report.chapter import Chapter
from fluxformer.report.claims import Claim
from fluxformer.report.data import MODELS
from fluxformer.report.style import plt
from fluxformer.report.verdicts import Finding, Weighed
from fluxformer.report.wording import columns_of, finding_of, in_short, label
from fluxformer.judging import Verdict
from fluxformer.style import INK, SOFT

COLOURS = {Verdict.HOLDS: ("#dbeafe", "#1e3a8a"), Verdict.OPPOSITE: ("#ffedd5", "#7c2d12"), Verdict.MISSED: ("#ffedd5", "#7c2d12"),
           Verdict.NO_DIFFERENCE: ("#f3f4f6", "#374151")}
CLAIM, CELL = 4.1, 2.15  # widths, inches
LINE = 0.155             # height of a line of text, inches


def write_pictures(folder: str, chapters: list[Chapter]) -> list[str]:
    """Writes claims.png, or one such picture for each data set with claims; returns the paths."""
    judged = [chapter for chapter in chapters if chapter.weighed]
    paths = []
    for k, chapter in enumerate(judged):
        paths.append(os.path.join(folder, "claims" + (f"_{k + 1}" if len(judged) > 1 else "") + ".png"))
        seeds = max(one.seeds[1] for _, findings in chapter.weighed for one in findings)
        title = chapter.study.name + (f". {chapter.preliminary}" if chapter.preliminary else f", {seeds} seeds")
        write_summary(paths[-1], title, chapter.weighed, marked=not chapter.preliminary)
    return paths


def write_summary(path: str, title: str, weighed: Weighed, marked: bool = True) -> None:
    """Writes the picture of the findings on one data set, `weighed`. A dashed label is preliminary, if these are `marked`: the title may say it."""
    columns = columns_of(weighed)
    rows = [(textwrap.wrap(claim.sentence, 54), [finding_of(findings, name) for name in columns], claim) for claim, findings in weighed]
    heights = [LINE * max(len(text), max(1.4 + len(_lines(claim, one)) for one in found if one)) + 0.16 for text, found, claim in rows]
    width, height = CLAIM + CELL * len(columns) + 0.2, sum(heights) + 0.75
    figure = plt.figure(figsize=(width, height))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    axes.text(0.1, 0.22, title, fontsize=12, fontweight="bold", va="center", color=INK)
    for k, name in enumerate(columns):
        left = CLAIM + CELL * k
        axes.add_patch(plt.Rectangle((left, 0.45), 0.1, 0.1, color=MODELS[name].colour))
        axes.text(left + 0.17, 0.5, label(name), fontsize=9, fontweight="bold", va="center", color=INK)
    top = 0.68
    for (text, found, claim), tall in zip(rows, heights):
        axes.plot([0.1, width - 0.1], [top, top], color="#e5e7eb", lw=0.8)
        axes.text(0.1, top + 0.08, "\n".join(text), fontsize=8.5, va="top", color=INK, linespacing=1.25)
        for k, one in enumerate(found):
            if one:
                _cell(axes, CLAIM + CELL * k, top + 0.08, claim, one, marked and one.preliminary)
        top += tall
    figure.savefig(path, dpi=130, bbox_inches="tight")  # a long title makes it wider
    plt.close(figure)


def _lines(claim: Claim, finding: Finding) -> list[str]:
    """The first two lines of a cell, which fit: the effect, what is compared."""
    return [part for line in in_short(claim, finding)[:2] for part in textwrap.wrap(line, 34)]


def _cell(axes: plt.Axes, left: float, top: float, claim: Claim, finding: Finding, dashed: bool) -> None:
    fill, ink = COLOURS.get(finding.verdict, ("white", "#4b5563"))
    axes.text(left + 0.06, top + 0.07, finding.words, fontsize=8, fontweight="bold", color=ink, va="center",
              bbox={"boxstyle": "round,pad=0.3", "fc": fill, "ec": ink, "lw": 0.8, "ls": "--" if dashed else "-"})
    axes.text(left, top + 1.4 * LINE, "\n".join(_lines(claim, finding)), fontsize=7.5, color=SOFT, va="top", linespacing=1.25)
