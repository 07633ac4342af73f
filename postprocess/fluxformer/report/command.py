"""A report on the comparison of Transformer and PDE models: one page for the browser, the same figures as PDF.

    python3 -m fluxformer report FILE.h5 ... [--claims input/paper/compare/claims.toml] [--traits input/paper/traits.toml] [--output FOLDER]

FILE.h5 are outputs of train, evolve, the comparisons, hessian, identifiability, paths and pruning, as many of them as there are, of one data
set or several; files of the same comparison with other seeds are taken together. --claims may be given several times: all claims are judged
together, and beside each stand the runs it rests on, with their decks and wall times. --traits adds "Everything at once": which models differ
in which traits of all families, and which traits go together over seeds. Writes FOLDER/report.html (everything inline: no network needed),
FOLDER/report.pdf, FOLDER/tables.md (the tables of all data sets, as Markdown), with claims FOLDER/claims.png (claims_1.png, ... for several data sets), and with traits FOLDER/together.png; FOLDER is
that of the first file unless given.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys

from fluxformer.report import page as report_page
from fluxformer.report import paper as report_paper
from fluxformer.report import tables, together_figure, together_text
from fluxformer.io import Run
from fluxformer.report.claims import Claim, Rule, read_all
from fluxformer.report.data import MODELS, Study, open_run, studies
from fluxformer.report.runs import model_rows, run_rows, trainings_behind
from fluxformer.report.sections import Rows, Section, sections
from fluxformer.report.style import Drawing, write
from fluxformer.report.summary import write_summary
from fluxformer.report.together import Together
from fluxformer.report.traits import read_traits
from fluxformer.report.verdicts import column, weigh
from fluxformer.judging import Verdict

SECTIONS = sections()


class Chapter:
    """What the report says of one data set.

    Parameters
    ----------
    place : int
        Among the data sets.
    study : Study
    rule : Rule or None
        None without claims.
    claims : list of Claim

    Attributes
    ----------
    anchor : str
        In links.
    weighed : list of tuple
        The claims with their findings.
    models : list of tuple
        Rows of a table, the first of them headings.
    sections : list of tuple
        Those that have something to show, with their figures and the rows of their table (none without).
    """

    def __init__(self, place: int, study: Study, rule: Rule | None, claims: list[Claim]) -> None:
        self.anchor = f"data{place}"
        self.study = study
        self.weighed = weigh(claims, study, rule) if rule else []
        self.models = model_rows(study)
        self.sections: list[tuple[Section, list[Drawing], Rows]] = []
        for section in SECTIONS:
            drawings = [one._replace(name=f"{self.anchor}-{one.name}") for one in section.draw(study)]
            if drawings or (section.anchor == "models" and len(self.models) > 1):
                comparison = study.of(section.experiment)
                self.sections.append((section, drawings, section.table(comparison) if section.table and comparison else []))

    def html(self) -> str:
        """The chapter of the page."""
        parts = [f"<h2>{self.study.name}</h2>"]
        for section, drawings, rows in self.sections:
            parts.append(f'<h3 id="{self.anchor}-{section.anchor}">{section.heading}</h3>')
            if section.anchor == "models" and len(self.models) > 1:
                parts += [report_page.couplings(self.kinds()), report_page.table(self.models, range(2, len(self.models[0])))]
            parts += [report_page.figure(one) for one in drawings]
            if rows:
                parts.append(report_page.table(rows, range(1, len(rows[0]))))
        return "".join(parts)

    def kinds(self) -> list[str]:
        """The models of MODELS that any of its comparisons has."""
        return [name for name in MODELS if any(name in comparison.models for comparison in self.study.comparisons.values())]


def tally(chapters: list[Chapter]) -> str:
    """One sentence over all claims about independently trained models; over all claims if there are none about those."""
    every = [one for chapter in chapters for _, findings in chapter.weighed for one in findings]
    found = [one for one in every if column(one.model) in ("independent", "normed")] or every
    about = "" if found is every else " about PDE models trained on the labels alone"
    verdicts = [one.verdict for one in found]
    counts = ", ".join(f"{one.value} {verdicts.count(one)}" for one in dict.fromkeys((Verdict.HOLDS, Verdict.OPPOSITE, *verdicts)))
    preliminary = sum(one.preliminary for one in found)
    return (f"Of {len(verdicts)} findings{about}: {counts}."
            + (f" {'All' if preliminary == len(found) else preliminary} of them are preliminary: too few seeds." if preliminary else ""))


def claims_section(chapters: list[Chapter], rule: Rule, runs: list[Run]) -> str:
    """The claims beside what was measured."""
    weighed = [chapter for chapter in chapters if chapter.weighed]
    parts = ["<h2>What the source says, and what was measured</h2>", f"<p><b>{tally(weighed)}</b></p>"]
    for chapter in weighed:
        parts += [f"<h3>{chapter.study.name}</h3>" if len(weighed) > 1 else "", report_page.overview(chapter.weighed, chapter.study, runs),
                  report_page.trainings(trainings_behind(chapter.study, runs))]
    parts += ["<h3>How verdicts are given</h3>", report_page.legend(rule)]
    return "".join(parts)


def details_section(chapters: list[Chapter]) -> str:
    """Every number behind the verdicts."""
    return "<h2>Every number behind the verdicts</h2>" + "".join(
        f"<h3>{chapter.study.name}</h3>{report_page.details(chapter.weighed)}" for chapter in chapters if chapter.weighed)


def write_page(path: str, chapters: list[Chapter], rule: Rule | None, runs: list[Run], everything: tuple[Together, Drawing] | None) -> None:
    """Writes report.html. `everything`: traits and their figure; None without."""
    judged = any(chapter.weighed for chapter in chapters)
    sections = [("claims", "Claims", claims_section(chapters, rule, runs))] if rule and judged else []
    sections += [("together", together_text.HEADING, report_page.together(*everything))] if everything else []
    sections += [(chapter.anchor, chapter.study.name, chapter.html()) for chapter in chapters]
    sections += [("numbers", "Numbers", details_section(chapters))] if judged else []
    sections.append(("runs", "Runs", "<h2>The runs</h2>" + report_page.runs(run_rows(runs))))
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(report_page.page(report_page.TITLE, report_page.INTRODUCTION, sections))


def write_pictures(folder: str, chapters: list[Chapter]) -> list[str]:
    """claims.png, or one for each data set; the paths."""
    judged = [chapter for chapter in chapters if chapter.weighed]
    paths = []
    for k, chapter in enumerate(judged):
        paths.append(os.path.join(folder, "claims" + (f"_{k + 1}" if len(judged) > 1 else "") + ".png"))
        seeds = max(one.seeds[1] for _, findings in chapter.weighed for one in findings)
        write_summary(paths[-1], f"{chapter.study.name}, {seeds} seeds", chapter.weighed)
    return paths


def main(arguments: list[str]) -> None:
    """`fluxformer report`: writes the report and prints the paths."""
    parser = argparse.ArgumentParser(prog="fluxformer report", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE.h5", help="outputs of the experiments")
    parser.add_argument("--claims", action="append", metavar="FILE.toml", help="what a source says, to be held against the measures")
    parser.add_argument("--traits", metavar="FILE.toml", help="what models are held against each other in, in all families at once")
    parser.add_argument("--output", metavar="FOLDER", help="where report.html and report.pdf go")
    options = parser.parse_args(arguments)
    folder = options.output or os.path.dirname(options.files[0])
    with contextlib.ExitStack() as stack:
        rule, claims = read_all(options.claims) if options.claims else (None, [])
        runs = [stack.enter_context(open_run(path, {one.experiment for one in SECTIONS})) for path in options.files]
        chapters = [Chapter(k, study, rule, claims) for k, study in enumerate(studies(runs))]
        together = Together(read_traits(options.traits), [chapter.study for chapter in chapters]) if options.traits else None
        if together and not together.names:
            print(f"{options.traits}: none of its traits was measured in these files", file=sys.stderr)
            together = None
        everything = (together, together_figure.draw(together)) if together else None
        os.makedirs(folder or ".", exist_ok=True)
        page, paper = (os.path.join(folder, "report" + end) for end in (".html", ".pdf"))
        write_page(page, chapters, rule, runs, everything)
        report_paper.write(paper, chapters, rule, runs, everything)
        tables.write(os.path.join(folder, "tables.md"), chapters)
        pictures = write_pictures(folder, chapters)
        if together:
            pictures.append(write(together_figure.draw(together), os.path.join(folder, "together")))
    print(page, paper, os.path.join(folder, "tables.md"), *pictures, sep="\n")
