"""The tables of the report as Markdown, for a text of one's own: the tables of all data sets below each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fluxformer.io import Value
from fluxformer.report.chapter import Chapter
from fluxformer.report.claims import Claim
from fluxformer.report.verdicts import Finding
from fluxformer.report.wording import columns_of, finding_of, in_short, label

Row = tuple[Value, ...]


def write(path: str, chapters: list[Chapter]) -> None:
    """Writes the file: claims by source, models, then a table for each section."""
    parts = ["# Tables"]
    judged = [chapter for chapter in chapters if chapter.weighed]
    for source in dict.fromkeys(claim.source for chapter in judged for claim, _ in chapter.weighed):
        parts += [f"## {source}", _table(_claims(judged, source))]
    parts += _of_data_sets("The models", [(chapter, chapter.models) for chapter in chapters if len(chapter.models) > 1])
    found = [(section, chapter, rows) for chapter in chapters for section, _, rows in chapter.sections if rows]
    for section in sorted({section for section, _, _ in found}, key=lambda one: one.place):
        parts += _of_data_sets(section.heading, [(chapter, rows) for one, chapter, rows in found if one is section])
    with open(path, "w", encoding="utf-8") as stream:
        stream.write("\n\n".join(parts) + "\n")


def _claims(chapters: list[Chapter], source: str) -> list[Row]:
    """Rows of text: a row for each claim of a source, a column for each data set that it was tested on."""
    found = {chapter: {claim.id: findings for claim, findings in chapter.weighed if claim.source == source} for chapter in chapters}
    about = [chapter for chapter in chapters if found[chapter]]
    claims: dict[str, Claim] = {claim.id: claim for chapter in about for claim, _ in chapter.weighed if claim.source == source}
    return [("claim", *(chapter.study.name for chapter in about)),
            *((claim.sentence, *(_findings(chapter, claim) for chapter in about)) for claim in claims.values())]


def _findings(chapter: Chapter, claim: Claim) -> str:
    """Verdict and effect for each model, as text."""
    findings: list[Finding] = next((found for one, found in chapter.weighed if one.id == claim.id), [])
    shown = [one for name in columns_of(chapter.weighed) if (one := finding_of(findings, name))]
    return "; ".join(f"{label(one.model)}: **{one.words}** {_effect(claim, one)}" for one in shown)


def _effect(claim: Claim, finding: Finding) -> str:
    effect, *more = in_short(claim, finding)
    return effect + "".join(f" ({one})" for one in more if one.startswith("detectable"))


def _of_data_sets(heading: str, tables: Sequence[tuple[Chapter, Sequence[Row]]]) -> list[str]:
    """Tables of several data sets in Markdown; tables with the same columns become one. Empty without tables."""
    by_columns: dict[Row, list[Row]] = {}
    for chapter, (columns, *rows) in tables:
        by_columns.setdefault(tuple(columns), []).extend((chapter.study.name, *row) for row in rows)
    return [part for columns, rows in by_columns.items() for part in (f"## {heading}", _table([("data", *columns), *rows]))]


def _table(rows: Iterable[Row]) -> str:
    """A table in Markdown; the first row holds headings."""
    line = lambda row: "| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |"  # noqa: E731
    heading, *rest = rows
    return "\n".join([line(heading), line(("---",) * len(heading)), *map(line, rest)])
