"""The comparison report as one web page: everything inline, nothing fetched, readable without scripts and on paper."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from html import escape

from fluxformer.io import Run, Value
from fluxformer.report import together_text
from fluxformer.report.claims import Rule
from fluxformer.report.data import CONTROLS, COUPLINGS, MODELS, Study
from fluxformer.report.origins import Behind, behind, origins
from fluxformer.report.runs import TRAINING, Training
from fluxformer.report.style import Drawing, as_svg
from fluxformer.report.together import Together
from fluxformer.report.verdicts import Weighed
from fluxformer.report.wording import columns_of, detail_rows, DETAILS, finding_of, in_short, label, rule_in_words
from fluxformer.judging import Verdict

TITLE = "A Transformer and PDE models of it, compared"
CLASSES = {Verdict.HOLDS: "yes", Verdict.OPPOSITE: "no", Verdict.MISSED: "no", Verdict.NO_DIFFERENCE: "null", Verdict.UNDECIDED: "weak",
           Verdict.DISAGREE: "weak", Verdict.NO_DATA: "weak"}
MARKS = {Verdict.HOLDS: "✓", Verdict.OPPOSITE: "✗", Verdict.MISSED: "✗", Verdict.NO_DIFFERENCE: "≈", Verdict.UNDECIDED: "?",
         Verdict.DISAGREE: "≠"}
STYLE = """
:root { --ink: #1b1f24; --soft: #57606a; --line: #e5e7eb; --wash: #f6f8fa; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2.2rem 1.5rem 4rem; max-width: 70rem; color: var(--ink); background: #fff;
       font: 15px/1.5 system-ui, "Segoe UI", "DejaVu Sans", Verdana, sans-serif; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .4rem; }
h2 { font-size: 1.4rem; margin: 3rem 0 .3rem; padding-top: .6rem; border-top: 2px solid var(--ink); }
h3 { font-size: 1.15rem; margin: 2.2rem 0 .3rem; }
h4 { font-size: 1rem; margin: 0 0 .2rem; }
p { margin: .3rem 0 .8rem; max-width: 62rem; }
.soft, figcaption, small { color: var(--soft); }
small a { color: inherit; text-decoration-color: #cbd5e1; overflow-wrap: anywhere; }
nav a { margin-right: 1.1rem; white-space: nowrap; }
a { color: #1d4ed8; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .87rem; margin: .6rem 0 1rem; }
th, td { text-align: left; vertical-align: top; padding: .5rem .7rem .5rem 0; border-bottom: 1px solid var(--line); }
thead th { border-bottom: 2px solid var(--ink); }
td.number, th.number { text-align: right; white-space: nowrap; }
.verdict { display: inline-block; padding: .08rem .5rem; border-radius: .8rem; font-weight: 600; font-size: .82rem; white-space: nowrap;
           border: 1px solid; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.yes { background: #dbeafe; color: #1e3a8a; border-color: #60a5fa; }
.no { background: #ffedd5; color: #7c2d12; border-color: #fb923c; }
.null { background: #f3f4f6; color: #374151; border-color: #9ca3af; }
.weak { background: #fff; color: #4b5563; border-color: #cbd5e1; }
.preliminary { border-style: dashed; }
.claims { table-layout: fixed; }
.claims td { line-height: 1.36; }
.claims th:first-child { width: 24%; }
.full { font-size: .78rem; table-layout: fixed; }
.full tbody th { padding-top: 1.1rem; font-size: .87rem; }
.full td { padding: .25rem .7rem .25rem 0; }
.claims .verdict { font-size: .76rem; white-space: normal; line-height: 1.3; margin-bottom: .15rem; }
.full td.words { font-weight: 600; background: none; border-color: var(--line); }
.full tr.level td { color: var(--soft); padding: .05rem .7rem .05rem 0; border: 0; }
.verdicts { list-style: none; padding: 0; columns: 2; font-size: .87rem; max-width: 66rem; }
.verdicts li { margin-bottom: .35rem; break-inside: avoid; }
.key { display: inline-block; width: .8rem; height: .8rem; border-radius: .2rem; margin-right: .35rem; vertical-align: -.08rem;
       print-color-adjust: exact; -webkit-print-color-adjust: exact; }
figure { margin: 1.1rem 0 2.2rem; break-inside: avoid; }
figure svg { display: block; width: 100%; height: auto; }
figcaption { font-size: .78rem; overflow-wrap: anywhere; margin-top: .2rem; }
.runs { list-style: none; padding: 0; font-size: .82rem; }
.runs li { margin-bottom: .7rem; break-inside: avoid; }
code { font-size: .8rem; overflow-wrap: anywhere; background: var(--wash); padding: .05rem .25rem; }
footer { margin-top: 3rem; color: var(--soft); font-size: .85rem; }
@page { size: A4 landscape; margin: 12mm; }
@media print {
  html { font-size: 12px; }
  body { max-width: none; padding: 0; font-size: 12px; }
  nav, .screen { display: none; }
  p { max-width: none; }
  h2, h3, .full tbody tr:first-child { break-after: avoid; }
  section > h2:first-child { margin-top: 0; border: 0; }
  section { break-before: page; }
  section.first { break-before: auto; }
  tr { break-inside: avoid; }
  figure svg { max-height: 150mm; }
  a { color: inherit; text-decoration: none; }
}
"""


def verdict(kind: Verdict, words: str | None = None, preliminary: bool = False) -> str:
    """A label in the colour of the verdict."""
    return (f'<span class="verdict {CLASSES[kind]}{" preliminary" * preliminary}">'
            f'{escape((MARKS.get(kind, "") + " " + (words or kind.value)).strip())}</span>')


def key(model: str) -> str:
    """A patch in the colour of a model."""
    return f'<span class="key" style="background:{MODELS[model].colour}"></span>' if model in MODELS else ""


def overview(weighed: Weighed, study: Study, runs: list[Run]) -> str:
    """A row for each claim, with the runs it rests on; a column for each kind of model, the verdict and the effect in every cell."""
    columns = columns_of(weighed)
    head = "".join(f"<th>{key(name)}{escape(label(name))}</th>" for name in columns)
    rows = ""
    for claim, findings in weighed:
        rows += (f"<tr><td>{escape(claim.sentence)}<br><small>{escape(claim.source)}"
                 f"<br>{_rests_on(behind(study.comparisons[claim.experiment].runs, runs))}</small></td>")
        for name in columns:
            one = finding_of(findings, name)
            words = "<br>".join(escape(line) for line in in_short(claim, one)) if one else ""
            rows += f"<td>{verdict(one.verdict, one.words, one.preliminary)}<br><small>{words}</small></td>" if one else "<td></td>"
        rows += "</tr>"
    return f'<div class="scroll"><table class="claims"><thead><tr><th>the source says</th>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _rests_on(groups: list[Behind]) -> str:
    """Files, with links to their commands, deck and wall time."""
    return "; ".join(", ".join(f'<a href="#run-{place}">run {place}, {escape(name)}</a>' for place, name in one.files)
                     + f" · {escape(one.deck)} · {one.cost}" for one in groups)


def trainings(found: list[Training]) -> str:
    """One line: what the trainings of the models cost that claims about a data set rest on."""
    items = "; ".join(f'<a href="#run-{one.places[0]}">{escape(one.text)}</a>' if one.places else escape(one.text) for one in found)
    return f"<p><small>{TRAINING}: {items}.</small></p>" if items else ""


def details(weighed: Weighed) -> str:
    """Every number behind the overview, claim by claim."""
    head = "".join(f'<th style="width:{share}%">{text}</th>' for text, share in DETAILS.items())
    body = ""
    for claim, findings in weighed:
        body += (f'<tbody><tr><th colspan={len(DETAILS)}>{escape(claim.sentence)} <small>{escape(claim.source)}. Asked: '
                 f"{escape(claim.asks())}.</small></th></tr>")
        for row in detail_rows(claim, findings):
            kind = CLASSES[row.verdict] if row.verdict else ""
            cells = "".join(f"<td>{escape(text)}</td>" for text in row.cells)
            body += (f'<tr{" class=level" * row.level}>{cells}<td class="words {kind}">{escape(row.words)}</td></tr>')
        body += "</tbody>"
    return f'<div class="scroll"><table class="full"><thead><tr>{head}</tr></thead>{body}</table></div>'


def legend(rule: Rule) -> str:
    """How verdicts are given."""
    numbers, verdicts = rule_in_words(rule)
    items = "".join(f"<li>{verdict(kind)} {escape(meaning)}</li>" for kind, meaning in verdicts)
    return "".join(f"<p>{escape(one)}</p>" for one in numbers) + f"<ul class=verdicts>{items}</ul>"


def figure(drawing: Drawing) -> str:
    """A figure below its title and how to read it, above its runs."""
    sources = "<br>".join(escape(line) for line in origins(drawing.runs))
    return (f'<figure id="{drawing.name}"><h4>{escape(drawing.title)}</h4><p>{escape(drawing.sentence)}</p>{as_svg(drawing)}'
            f"<figcaption>{sources}</figcaption></figure>")


def table(rows: Sequence[Sequence[Value]], numbers: Container[int] = ()) -> str:
    """Rows of text, the first of them the heading; the columns `numbers` are set to the right."""
    cell = lambda tag, k, text: f'<{tag}{" class=number" if k in numbers else ""}>{escape(str(text))}</{tag}>'  # noqa: E731
    line = lambda tag, row: "<tr>" + "".join(cell(tag, k, text) for k, text in enumerate(row)) + "</tr>"  # noqa: E731
    return (f'<div class="scroll"><table><thead>{line("th", rows[0])}</thead>'
            f'<tbody>{"".join(line("td", row) for row in rows[1:])}</tbody></table></div>')


def runs(rows: list[tuple[Value, ...]]) -> str:
    """Each run with its command, numbered. `rows`: as of runs.run_rows."""
    (_, *names, _), *lines = rows
    text = ""
    for place, (path, *facts, command) in enumerate(lines, 1):
        known = " · ".join(f"{name} {fact}" for name, fact in zip(names, facts) if fact != "–")
        text += f'<li id="run-{place}">{place}. <b>{escape(path)}</b> {escape(known)}<br><code>{escape(command)}</code></li>'
    return f"<ul class=runs>{text}</ul>"


def together(found: Together, drawing: Drawing) -> str:
    """All families at once: a paragraph, the figure, the tables."""
    parts = [f"<h2>{together_text.HEADING}</h2>", f"<p>{'<br>'.join(escape(one) for one in together_text.paragraph(found))}</p>", figure(drawing),
             table(together_text.trait_rows(found))]
    for data in found.sets:
        if data.differences:
            parts += [f"<h3>Differences on {escape(data.study.name)}</h3>", table(together_text.difference_rows(found, data))]
    return "".join(parts) + f"<h3>What goes together</h3>{table(together_text.correlation_rows(found))}<p>{escape(together_text.reading())}</p>"


def couplings(models: Iterable[str]) -> str:
    """What the kinds of PDE models and controls are, those that are here."""
    words = {**COUPLINGS, **CONTROLS}
    items = "".join(f"<li>{key(name)}<b>{escape(MODELS[name].label)}</b>: {escape(words[name])}</li>" for name in models if name in words)
    return f"<ul>{items}</ul>" if items else ""


INTRODUCTION = ("<p>A trained Transformer beside PDE models, in which the same attention and reaction act on a state that is carried "
                "through depth and diffused over the tokens. Lines are means over seeds, bands one standard deviation.</p>")


def page(title: str, head: str, sections: list[tuple[str, str, str]]) -> str:
    """The whole page. `sections`: (anchor, heading for the links, html)."""
    links = "".join(f'<a href="#{anchor}">{escape(name)}</a>' for anchor, name, _ in sections)
    body = "".join(f'<section id="{anchor}"{" class=first" if k == 0 else ""}>{html}</section>'
                   for k, (anchor, _, html) in enumerate(sections))
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
            f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><h1>{escape(title)}</h1>{head}<nav>{links}</nav>{body}"
            "<footer>Made by fluxformer report. Point at a marker to read its value.</footer></body></html>\n")
