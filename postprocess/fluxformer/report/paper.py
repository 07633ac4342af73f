"""The comparison report on paper: the claims, every figure on a page of its own, the runs."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from matplotlib.backends.backend_pdf import PdfPages

from fluxformer.io import Run
from fluxformer.style import INK, SOFT
from fluxformer.report import together_text
from fluxformer.report.chapter import Chapter
from fluxformer.report.claims import Rule
from fluxformer.report.data import MODELS
from fluxformer.report.page import TITLE
from fluxformer.report.origins import Behind, behind
from fluxformer.report.runs import TRAINING, run_rows, trainings_behind
from fluxformer.report.style import PAPER, Drawing, add_page, plt
from fluxformer.report.together import Together
from fluxformer.report.wording import DETAILS, columns_of, detail_rows, finding_of, in_short, label, rule_in_words
from fluxformer.judging import Verdict

COLOURS: dict[Verdict | None, str] = {Verdict.HOLDS: "#1e3a8a", Verdict.OPPOSITE: "#9a3412", Verdict.MISSED: "#9a3412", Verdict.NO_DIFFERENCE: INK}
LEFT, TOP, BOTTOM = 0.45, 0.45, 0.4  # inches
SIZE = 7.6  # points of the text
LINE = SIZE * 1.28 / 72  # inches
Cell = tuple[float, int, str, str, str]  # left edge in inches, characters of a line, text, colour, weight


class TextPages:
    """Lines of text in columns, page after page."""

    def __init__(self, pdf: PdfPages, heading: str) -> None:
        self._pdf, self._heading = pdf, heading
        self._open()

    def _open(self) -> None:
        self._figure = plt.figure(figsize=PAPER)
        self._text(LEFT, TOP, self._heading, fontsize=14, fontweight="bold")
        self._place = TOP + 0.4

    def _text(self, left: float, top: float, text: str, **how: float | str) -> None:
        self._figure.text(left / PAPER[0], 1 - top / PAPER[1], text, va="top", parse_math=False, **how)

    def row(self, cells: Sequence[Cell]) -> None:
        """Writes cells with their tops in one line; on the next page if they do not fit."""
        wrapped = [(left, "\n".join(textwrap.fill(part, width) for part in text.split("\n")), colour, weight)
                   for left, width, text, colour, weight in cells]
        height = LINE * max(text.count("\n") + 1 for _, text, _, _ in wrapped)
        if self._place + height > PAPER[1] - BOTTOM:
            self.close()
            self._open()
        for left, text, colour, weight in wrapped:
            self._text(left, self._place, text, fontsize=SIZE, color=colour, fontweight=weight, linespacing=1.25)
        self._place += height + 0.06

    def close(self) -> None:
        """Writes the page to the file."""
        self._pdf.savefig(self._figure)
        plt.close(self._figure)


def _within(title: str) -> str:
    """A title after a colon: without a capital, but for that of a name."""
    return title if title.startswith(tuple(style.label for style in MODELS.values())) else title[0].lower() + title[1:]


def _below(text: str, more: str) -> str:
    """`more`, moved below the lines of another text."""
    return "\n" * (1 + text.count("\n")) + more


def _rests_on(groups: list[Behind]) -> str:
    """Runs that a claim rests on, in words: files by their numbers among the runs, deck and wall time."""
    return "; ".join(", ".join(f"run {place}, {name}" for place, name in one.files) + f" · {one.deck} · {one.cost}" for one in groups)


def _overview(pdf: PdfPages, chapters: list[Chapter], rule: Rule, runs: list[Run]) -> None:
    """Writes the pages of the verdicts, as at the top of the web page."""
    pages = TextPages(pdf, TITLE)
    for chapter in chapters:
        columns = columns_of(chapter.weighed)
        width = 7.3 / max(len(columns), 1)
        places = [LEFT + 3.5 + k * width for k in range(len(columns))]
        pages.row([(LEFT, 60, chapter.study.name, INK, "bold"),
                   *((place, 30, label(name), MODELS[name].colour, "bold") for place, name in zip(places, columns))])
        if chapter.preliminary:
            pages.row([(LEFT, 180, chapter.preliminary, INK, "normal")])
        for claim, findings in chapter.weighed:
            said = textwrap.fill(claim.sentence, 54)
            rests_on = _rests_on(behind(chapter.study.comparisons[claim.experiment].runs, runs))
            row: list[Cell] = [(LEFT, 54, said, INK, "normal"), (LEFT, 54, _below(said, f"{claim.source}\n{rests_on}"), SOFT, "normal")]
            for place, name in zip(places, columns):
                if one := finding_of(findings, name):
                    verdict = textwrap.fill(one.words + (" (preliminary)" if one.preliminary and not chapter.preliminary else ""), int(14 * width))
                    row.append((place, 99, verdict, COLOURS.get(one.verdict, SOFT), "bold"))
                    row.append((place, int(17 * width), _below(verdict, "\n".join(in_short(claim, one))), SOFT, "normal"))
            pages.row(row)
        if costs := trainings_behind(chapter.study, runs):
            pages.row([(LEFT, 180, f"{TRAINING}: {'; '.join(one.text for one in costs)}.", SOFT, "normal")])
        pages.row([(LEFT, 10, " ", INK, "normal")])
    numbers, verdicts = rule_in_words(rule)
    for text in numbers:
        pages.row([(LEFT, 180, text, INK, "normal")])
    for kind, meaning in verdicts:
        pages.row([(LEFT, 40, kind.value, COLOURS.get(kind, SOFT), "bold"), (LEFT + 2.0, 150, meaning, INK, "normal")])
    pages.close()


def _columns() -> list[tuple[float, float]]:
    """Left edge and width of each column of the table of all numbers, in inches."""
    usable, place, found = PAPER[0] - 2 * LEFT, LEFT, []
    for share in DETAILS.values():
        found.append((place, usable * share / 100))
        place += usable * share / 100
    return found


def _numbers(pdf: PdfPages, chapters: list[Chapter]) -> None:
    """Writes the pages of the numbers that the verdicts rest on."""
    pages = TextPages(pdf, "Every number behind the verdicts")
    for chapter in chapters:
        pages.row([(LEFT, 100, chapter.study.name, INK, "bold")])
        for claim, findings in chapter.weighed:
            pages.row([(LEFT, 160, f"{claim.sentence} ({claim.source}; {claim.asks()})", INK, "bold")])
            for row in detail_rows(claim, findings):
                ink = SOFT if row.level else INK
                pages.row([(place, int(17 * width), text, ink, "normal") for (place, width), text in zip(_columns(), row.cells)]
                          + [(_columns()[-1][0], 20, row.words, COLOURS.get(row.verdict, SOFT), "normal" if row.level else "bold")])
    pages.close()


def _table(pages: TextPages, rows: Sequence[Sequence[str]], shares: Sequence[float]) -> None:
    """Writes rows of text, the first of them headings; `shares`: parts of the width that the columns take."""
    usable, place = PAPER[0] - 2 * LEFT, LEFT
    columns: list[tuple[float, float]] = []
    for share in shares:
        columns.append((place, usable * share / sum(shares)))
        place += columns[-1][1]
    for k, row in enumerate(rows):
        pages.row([(left, int(16 * width), text, INK if k else SOFT, "normal") for (left, width), text in zip(columns, row, strict=True)])


def _together(pdf: PdfPages, found: Together, drawing: Drawing) -> None:
    """Writes the pages of all families at once."""
    pages = TextPages(pdf, together_text.HEADING)
    for sentence in together_text.paragraph(found):
        pages.row([(LEFT, 180, sentence, INK, "normal")])
    _table(pages, together_text.trait_rows(found), (1, 8, 7, 22, 20))
    pages.close()
    add_page(pdf, drawing)
    pages = TextPages(pdf, f"{together_text.HEADING}: every number")
    for data in found.sets:
        if data.differences:
            pages.row([(LEFT, 100, f"Differences on {data.study.name}", INK, "bold")])
            _table(pages, together_text.difference_rows(found, data), (14, 18, 13, 13, 16, 13, 12, 7, 7))
    pages.row([(LEFT, 100, "What goes together", INK, "bold")])
    _table(pages, together_text.correlation_rows(found), (24, 14, 10, 5, 14, 10, 5))
    pages.row([(LEFT, 180, together_text.reading(), SOFT, "normal")])
    pages.close()


def _models(pdf: PdfPages, chapters: list[Chapter]) -> None:
    """Writes the pages of the models that were compared."""
    pages = TextPages(pdf, "The models")
    for chapter in chapters:
        if len(chapter.models) > 1:
            pages.row([(LEFT, 100, chapter.study.name, INK, "bold")])
            for k, row in enumerate(chapter.models):
                pages.row([(LEFT + place, 46, str(cell), INK if k else SOFT, "normal")
                           for place, cell in zip((0.2, 1.8, 4.4, 5.7, 6.7, 7.7, 8.3, 9.6), row, strict=True)])
    pages.close()


def _runs(pdf: PdfPages, runs: list[Run]) -> None:
    pages = TextPages(pdf, "The runs")
    for place, row in enumerate(run_rows(runs)[1:], 1):
        path, experiment, revision, seeds, ranks, seconds, models, command = (str(cell) for cell in row)
        facts = f"{experiment}, revision {revision}, seeds {seeds}, {ranks} ranks, {seconds} s" + (f" ({models})" if models != "–" else "")
        pages.row([(LEFT, 45, f"{place}. {path}", INK, "bold"), (LEFT + 3.0, 120, f"{facts}\n{command}", INK, "normal")])
    pages.close()


def write(path: str, chapters: list[Chapter], rule: Rule | None, runs: list[Run], everything: tuple[Together, Drawing] | None) -> None:
    """Writes report.pdf and closes the figures: write the web page first. `rule`: None without claims;
    `everything`: traits and their figure, None without traits."""
    with PdfPages(path, metadata={"Title": TITLE, "CreationDate": None}) as pdf:
        judged = [chapter for chapter in chapters if chapter.weighed]
        if rule and judged:
            _overview(pdf, judged, rule, runs)
        if everything:
            _together(pdf, *everything)
        _models(pdf, chapters)
        for chapter in chapters:
            for section, drawings, _ in chapter.sections:
                for one in drawings:
                    add_page(pdf, one._replace(title=f"{section.heading}: {_within(one.title)}"))
        if judged:
            _numbers(pdf, judged)
        _runs(pdf, runs)
