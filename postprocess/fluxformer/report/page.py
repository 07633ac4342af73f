"""The comparison report as one web page: everything inline, nothing fetched, readable without scripts and on paper."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fluxformer.io import Run
from fluxformer.judging import Verdict
from fluxformer.report import answers, together_text
from fluxformer.report.chapter import Chapter, tally
from fluxformer.report.claims import Rule
from fluxformer.report.data import CONTROLS, COUPLINGS
from fluxformer.report.origins import behind, origins
from fluxformer.report.runs import TRAINING, run_rows, trainings_behind
from fluxformer.report.style import Drawing, as_svg
from fluxformer.report.together import Together
from fluxformer.report.wording import DETAILS, columns_of, detail_rows, finding_of, in_short, label, rule_in_words

TITLE = "A Transformer and PDE models of it, compared"
CLASSES = {Verdict.HOLDS: "yes", Verdict.OPPOSITE: "no", Verdict.MISSED: "no", Verdict.NO_DIFFERENCE: "null", Verdict.UNDECIDED: "weak",
           Verdict.DISAGREE: "weak", Verdict.NO_DATA: "weak"}  # classes of the style sheet
MARKS = {Verdict.HOLDS: "✓", Verdict.OPPOSITE: "✗", Verdict.MISSED: "✗", Verdict.NO_DIFFERENCE: "≈", Verdict.UNDECIDED: "?",
         Verdict.DISAGREE: "≠"}

_TEMPLATES = Environment(loader=PackageLoader("fluxformer.report"), autoescape=True, trim_blocks=True, lstrip_blocks=True,
                         undefined=StrictUndefined)
_TEMPLATES.filters["finding"] = lambda name, findings: finding_of(findings, name)
_TEMPLATES.globals |= {
    "TITLE": TITLE, "CLASSES": CLASSES, "MARKS": MARKS, "KINDS": {**COUPLINGS, **CONTROLS}, "DETAILS": DETAILS, "TRAINING": TRAINING,
    "tally": tally, "label": label, "columns_of": columns_of, "in_short": in_short, "detail_rows": detail_rows, "rule_in_words": rule_in_words,
    "answers": answers.answers, "colour": answers.colour, "behind": behind, "trainings_behind": trainings_behind, "origins": origins, "together_text": together_text,
    "svg": lambda drawing: Markup(as_svg(drawing))}


def _files(runs: list[Run]) -> list[tuple[str, str, str]]:
    """Path, facts and command of each run."""
    (_, *names, _), *lines = run_rows(runs)
    return [(str(path), " · ".join(f"{name} {fact}" for name, fact in zip(names, facts) if fact != "–"), str(command)) for path, *facts, command in lines]


def write(path: str, chapters: list[Chapter], rule: Rule | None, runs: list[Run], everything: tuple[Together, Drawing] | None) -> None:
    """Writes report.html from templates/page.html. `rule`: None without claims; `everything`: traits and their figure, None without traits."""
    together, drawing = everything or (None, None)
    judged = [chapter for chapter in chapters if chapter.weighed] if rule else []
    page = _TEMPLATES.get_template("page.html").render(chapters=chapters, judged=judged, rule=rule, runs=runs, files=_files(runs),
                                                       together=together, drawing=drawing)
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(page)
