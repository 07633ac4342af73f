#!/usr/bin/env python3
"""Fills the numbers of README.md, docs/results/*.md and docs/performance.md from result files, so that no page types them.

    docs/numbers.py [--check]
    docs/numbers.py --reached build/Testing/Temporary/LastTest.log       takes the errors that tests reached from the log of ./test.sh full ctest

Blocks from `<!-- NAME: ARGUMENTS -->` to `<!-- end -->` are made anew:

    claims: EXPERIMENT ...  verdicts, effects and intervals of the claims about these experiments, a table for each data set in
                            docs/results/data/*.json (each the findings.json of a report)
    reached                 the errors of docs/results/data/reached.json
    benchmarks              docs/results/data/benchmarks.json, which tests/benchmark/compare_with_pytorch.py --json writes

With --check nothing is written; exit status 1 if a page differs from its result files. Standard library only.
"""

import glob
import json
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
from describe import EXPERIMENTS, ROOT, filled, read, settled, table  # noqa: E402 (without a folder of byte code beside the pages)

DATA = os.path.join("docs", "results", "data")
MADE_ALIKE = ("distilled", "inherited")  # resemble the Transformer by construction: no claim is about them

CLAIMS = (  # of README.md: what is true, the test that shows it, the bound that it asserts, and which of its errors that bound is for
    ("at Courant number 1 the scheme is the Transformer, from any initial state, on any ranks", "mpi.transformer_is_the_cfl_one_scheme", "1e-13", ".*"),
    ("the Transformer is PyTorch's: hidden states and attention", "mpi.transformer_matches_pytorch", "1e-12", "march|evolve|attention"),
    ("every term has the adjoint that gradients use: ⟨Jv, w⟩ = ⟨v, Jᵀw⟩", "mpi.term_conformance", "1e-12", "<Jv, w> - <v, J'w>"),
    ("1, 2, 3, 4 and 6 ranks, split in any way, give the same solution: double precision, explicit schemes",
     "mpi.ranks_do_not_matter", "1e-12", "(?!.*(arkimex|precision|tolerance)).*"))


def results():
    """{name: findings} of all result files."""
    paths = sorted(glob.glob(os.path.join(ROOT, DATA, "*.json")))
    found = {os.path.splitext(os.path.basename(path))[0]: json.loads(read(os.path.relpath(path, ROOT))) for path in paths}
    return {name: one for name, one in found.items() if "studies" in one}


def provenance(runs, file):
    """One line: the result file, the revisions, and the time that its runs took."""
    revisions = ", ".join(f"`{one}`" for one in dict.fromkeys(run["revision"][:8] for run in runs))
    seconds = sum(run["seconds"] for run in runs)
    took = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
    return f"From [{file}.json](data/{file}.json); revision {revisions}; wall time {took}.\n"


def claims(experiments):
    """A table for each data set, with a row for each claim and model that were measured."""
    wanted = experiments.split()
    if unknown := set(wanted) - {one["name"] for one in json.loads(read(EXPERIMENTS))}:
        sys.exit(f"there is no experiment {', '.join(sorted(unknown))}")
    parts = []
    for file, one in results().items():
        for study in one["studies"]:
            found = [finding for finding in study["findings"] if one["claims"][finding["claim"]]["experiment"] in wanted
                     and finding["model"] not in MADE_ALIKE and finding["verdict"] != "not measured"]
            if found:
                seeds = sorted({finding["seeds"][0] for finding in found})
                number = str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
                rows = [[one["claims"][finding["claim"]]["sentence"], finding["label"], f"**{finding['verdict']}**" + ", preliminary" * finding["preliminary"],
                         finding["shown"][0], "; ".join(finding["shown"][1:])] for finding in found]
                rows = [["" if k and row[0] == rows[k - 1][0] else row[0], *row[1:]] for k, row in enumerate(rows)]
                parts.append(f"\n**{study['data']}**, {number} seeds\n\n" + table(["claim", "model", "verdict", "effect [interval]", "numbers"], rows)
                             + "\n" + provenance([run for run in study["runs"] if run["experiment"] in (*wanted, "train")], file))
    return "".join(parts) + "\n" if parts else "\nThe numbers of these claims stand in the log alone, which the last line of this page links to.\n\n"


def collect(log):
    """Writes reached.json: the largest error of each kind that each test reached, over all ranks, with its revision."""
    found = {}
    for name, output in re.findall(r"^\d+/\d+ Testing: (?!mpi_claims)(\S+?)(?:\.np\d+)?\n(.*?)^<end of output>", read(log), re.MULTILINE | re.DOTALL):
        for what, number in re.findall(r"^reached (.+): (\S+)$", output, re.MULTILINE):
            kinds = found.setdefault(name, {})
            kinds[what] = max(kinds.get(what, 0), float(number))
    missing = [name for _, name, *_ in CLAIMS if name not in found]
    if missing:
        sys.exit(f"{log}: has no {missing[0]}: take the log of ./test.sh full ctest")
    revision = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    with open(os.path.join(ROOT, DATA, "reached.json"), "w", encoding="utf-8") as file:
        json.dump({"revision": revision, "tests": {name: found[name] for name in sorted(found)}}, file, indent=1, ensure_ascii=False)
        file.write("\n")


def reached(_):
    """The claims of README.md with the largest error that their tests reached."""
    tests = json.loads(read(os.path.join(DATA, "reached.json")))["tests"]
    rows = [[words, f"{max(value for what, value in tests[name].items() if re.fullmatch(kinds, what)):.0e}", bound, f"`{name}`"]
            for words, name, bound, kinds in CLAIMS]
    return "\n" + table(["claim", "largest error reached", "bound", "`ctest --test-dir build -V -R`"], rows) + "\n"


def benchmarks(_):
    """Times against PyTorch, and the share of the peak."""
    found = json.loads(read(os.path.join(DATA, "benchmarks.json")))
    rows = [[one["what"], milliseconds(one["ours"]), milliseconds(one["pytorch"]), f"{one['ratio']:.2f}", f"{one['rate']:.0f}", f"{one['peak']:.0f}",
             f"{one['rate'] / one['peak']:.2f}"] for one in found["rows"]]
    networks = "; ".join(f"*{name}* " + ", ".join(f"{what} {size}" for what, size in sizes.items()) for name, sizes in found["networks"].items())
    return ("\n" + table(["what", "Fluxformer", "PyTorch", "ratio", "GFLOP/s", "peak", "share"], rows)
            + f"\nNetworks: {networks}; the right-hand side is that of the small one.\n\n{found['machine']}; revision {found['revision']}.\n\n")


def milliseconds(time):
    return f"{time:.0f} ms" if time >= 100 else f"{time:.3g} ms"


MARKERS = {"claims": claims, "reached": reached, "benchmarks": benchmarks}


def main():
    if sys.argv[1:2] == ["--reached"] and len(sys.argv) == 3:
        collect(sys.argv[2])
    elif sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    pages = sorted(glob.glob(os.path.join(ROOT, "docs", "results", "*.md")))
    wanted = {}
    for name in ("README.md", "docs/performance.md", "docs/results.md", *(os.path.relpath(path, ROOT) for path in pages)):
        wanted[name] = read(name)
        if unknown := set(re.findall(r"<!-- (?!end)(\w+)", wanted[name])) - set(MARKERS):
            sys.exit(f"{name}: there is no marker {', '.join(sorted(unknown))}")
        for marker, make in MARKERS.items():
            wanted[name] = filled(wanted[name], marker, make)
    return settled(wanted, sys.argv[1:] == ["--check"], "its result files; run docs/numbers.py")


if __name__ == "__main__":
    sys.exit(main())
