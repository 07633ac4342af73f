"""Figures of runs, whatever experiment wrote them.

    fluxformer plot FILE.h5 ... [--output DIR]

Finds out what a file is and draws it, as .png and .pdf, into DIR (default: figures/ beside the first file, or in the folder given).
"""

from __future__ import annotations

import argparse
import glob
import importlib
import importlib.util
import os
from collections.abc import Iterable, Iterator
from types import ModuleType

from fluxformer.experiments import families, family_of
from fluxformer.io import Run, RunError, training_file, without_checkpoints

OPTIONS = ("sample", "mixed", "animation")  # options that some families understand


def plotter(family: str) -> ModuleType:
    """The module that draws the files of a family: fluxformer.<family>.plot, or, if there is none, that of the sections of the report.

    It has `plot(paths, folder, options)`, which yields a line for each figure written; `OPTIONS`, the options of the command line that it
    understands; `FOLDERS` if it draws all files of a folder together; `EPILOG`, more help.
    """
    own = f"fluxformer.{family}.plot"
    return importlib.import_module(own if importlib.util.find_spec(own) is not None else "fluxformer.report.plot")


def family_in(path: str, unfinished: bool) -> str:
    """The family of experiments of a file; of a folder, the first that draws whole folders. RunError if there is none."""
    if os.path.isdir(path):
        files = sorted(glob.glob(os.path.join(glob.escape(path), "*.h5")))
        for family in families_of(files, unfinished) if files else ():
            if getattr(plotter(family), "FOLDERS", False):
                return family
        raise RunError(f"{path}: no output in this folder that is drawn together (scaling studies are); give files")
    with Run(training_file(path), unfinished=unfinished) as run:
        # A program with experiments of its own writes the files of evolve.
        return family_of(run.attributes["experiment"]) or next(iter(families().values()))


def families_of(paths: Iterable[str], unfinished: bool) -> Iterator[str]:
    """The family of each file that can be read; raises the last RunError if none can."""
    failures, found = [], False
    for path in paths:
        try:
            yield family_in(path, unfinished)
            found = True
        except RunError as failure:
            failures.append(failure)
    if not found:
        raise failures[-1]


def parse(arguments: list[str]) -> argparse.Namespace:
    """Reads the command line; the help includes that of every family."""
    epilog = None
    if {"-h", "--help"} & {*arguments}:
        modules = map(plotter, dict.fromkeys(families().values()))
        epilog = "\n".join(dict.fromkeys(f"{(module.__doc__ or '').strip()}\n\n{getattr(module, 'EPILOG', '')}" for module in modules))
    parser = argparse.ArgumentParser(prog="fluxformer plot", description=__doc__, epilog=epilog,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE", help="output of the program, or a folder of it")
    parser.add_argument("--output", metavar="DIR", help="folder for the figures")
    parser.add_argument("--unfinished", action="store_true", help="also draw a run that did not end normally")
    parser.add_argument("--sample", type=int, metavar="N", help="the sample whose token maps and clusters are drawn (default 0)")
    parser.add_argument("--mixed", action="store_true",
                        help="also compare times of different revisions, compilers, libraries or kernels of matrix products")
    parser.add_argument("--animation", action="store_true", help="also draw tokens on the circle or the sphere in time, as animated GIFs")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> None:
    """`fluxformer plot`: draws the files and prints what was written."""
    options = parse(arguments)
    files = without_checkpoints(options.files)
    first = files[0]
    found = dict.fromkeys(families_of(files, options.unfinished))
    if len(found) > 1:
        raise RunError(f"files of different families ({', '.join(found)}): one command for each")
    module = plotter(*found)
    for option in OPTIONS:
        if getattr(options, option) and option not in module.OPTIONS:
            raise RunError(f"--{option} does not apply to {first}")
    folder = options.output or os.path.join(first if os.path.isdir(first) else os.path.dirname(first), "figures")
    for written in module.plot(files, folder, options):
        print(written, flush=True)
