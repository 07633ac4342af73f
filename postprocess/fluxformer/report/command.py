"""A report on the comparison of Transformer and PDE models: one page for the browser, the same figures as PDF.

    fluxformer report FILE.h5 ... [--claims input/paper/compare/claims.toml] [--traits input/paper/traits.toml] [--output FOLDER]

FILE.h5 are outputs of train, evolve, the comparisons, identifiability, pruning and the studies of Hessians, attention paths and clusters, as
many of them as there are, of one data set or several; files of the same comparison with other seeds are taken together. --claims may be given several times: all claims are judged
together, and beside each stand the runs it rests on, with their decks and wall times. --traits adds "Everything at once": which models differ
in which traits of all families, and which traits go together over seeds. Writes FOLDER/report.html (everything inline: no network needed),
FOLDER/report.pdf, FOLDER/tables.md (the tables of all data sets, as Markdown), with claims FOLDER/findings.json (verdicts, effects, intervals and
the runs behind them) and FOLDER/claims.png (claims_1.png, ... for several data sets), and with traits FOLDER/together.png. FOLDER is that of the
first file unless it is given.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys

from fluxformer.io import without_checkpoints
from fluxformer.report import findings, page, paper, tables, together_figure
from fluxformer.report.chapter import SECTIONS, Chapter
from fluxformer.report.claims import read_all
from fluxformer.report.data import open_run, studies
from fluxformer.report.style import write
from fluxformer.report.summary import write_pictures
from fluxformer.report.together import Together
from fluxformer.report.traits import read_traits


def main(arguments: list[str]) -> None:
    """`fluxformer report`: writes the report and prints the paths."""
    parser = argparse.ArgumentParser(prog="fluxformer report", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE.h5", help="outputs of the experiments")
    parser.add_argument("--claims", action="append", metavar="FILE.toml", help="claims of a source, to be compared with the measures; may be given several times")
    parser.add_argument("--traits", metavar="FILE.toml", help="traits in which models are compared, in all families at once")
    parser.add_argument("--output", metavar="FOLDER", help="folder for report.html and report.pdf (default: that of the first file)")
    options = parser.parse_args(arguments)
    files = without_checkpoints(options.files)
    folder = options.output or os.path.dirname(files[0])
    with contextlib.ExitStack() as stack:
        rule, claims = read_all(options.claims) if options.claims else (None, [])
        runs = [stack.enter_context(open_run(path, {one.experiment for one in SECTIONS})) for path in files]
        chapters = [Chapter(k, study, rule, claims) for k, study in enumerate(studies(runs))]
        together = Together(read_traits(options.traits), [chapter.study for chapter in chapters]) if options.traits else None
        if together and not together.names:
            print(f"{options.traits}: none of its traits was measured in these files", file=sys.stderr)
            together = None
        everything = (together, together_figure.draw(together)) if together else None
        os.makedirs(folder or ".", exist_ok=True)
        paths = [os.path.join(folder, name) for name in ("report.html", "report.pdf", "tables.md")]
        page.write(paths[0], chapters, rule, runs, everything)
        paper.write(paths[1], chapters, rule, runs, everything)
        tables.write(paths[2], chapters)
        if rule:
            paths.append(os.path.join(folder, "findings.json"))
            findings.write(paths[-1], chapters, rule)
        pictures = write_pictures(folder, chapters)
        if together:
            pictures.append(write(together_figure.draw(together), os.path.join(folder, "together")))
    print(*paths, *pictures, sep="\n")
