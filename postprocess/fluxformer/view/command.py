"""One page for the browser that shows every array of any results: depth, time, heads, samples behind sliders and menus.

    fluxformer view FILE.h5 ... [--output page.html]

The same measure of several models and files is drawn together. Everything is inline: no network is needed, and the page can be sent as
one file of less than 20 MB. What does not fit is thinned out, and the page says what.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import os
from collections.abc import Mapping, Sequence

from fluxformer.experiments import families, family_of
from fluxformer.io import Run, RunError, training_file, without_checkpoints
from fluxformer.view.panels import Panel, drawn
from fluxformer.view.variables import chosen, variables


def explorer(family: str, runs: Sequence[Run], everything: Mapping[str, Panel]) -> list[Panel]:
    """What is shown at first of the runs of a family: fluxformer.<family>.view chooses it, or the first measures are taken.

    Its `explore(runs, everything)` gets the files and the panels of all variables by their places in the file, and returns panels: some of these,
    with other axes, or its own.
    """
    own = f"fluxformer.{family}.view"
    if importlib.util.find_spec(own) is not None:
        return importlib.import_module(own).explore(runs, everything)
    return chosen(runs, everything, {})


def parse(arguments: list[str]) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="fluxformer view", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE.h5", help="outputs of any experiments, model files, the history of a training")
    parser.add_argument("--output", metavar="PAGE.html", help="the page (default: beside the first file, with its name)")
    parser.add_argument("--unfinished", action="store_true", help="also show a run that did not end normally")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> None:
    """`fluxformer view`: writes the page and prints its path."""
    options = parse(arguments)
    files = without_checkpoints(options.files)
    output = options.output or files[0].removesuffix(".part").removesuffix(".h5") + ".html"
    if any(os.path.exists(path) and os.path.exists(output) and os.path.samefile(path, output) for path in files):
        raise RunError(f"{output}: is to be read; give another name with --output")
    from fluxformer.view import page  # with plotly, of which a wrong file needs nothing

    with contextlib.ExitStack() as stack:
        runs = [stack.enter_context(Run(training_file(path), unfinished=options.unfinished)) for path in dict.fromkeys(files)]
        everything = variables(runs)
        by_family: dict[str, list[Run]] = {}
        for run in runs:
            by_family.setdefault(family_of(run.attributes["experiment"]) or next(iter(families().values())), []).append(run)
        first = [drawn(panel) for family, these in by_family.items() for panel in explorer(family, these, everything)]
        folder = os.path.dirname(output)
        os.makedirs(folder or ".", exist_ok=True)
        page.write(output, runs, first, [drawn(panel) for panel in everything.values()])
    print(output)
