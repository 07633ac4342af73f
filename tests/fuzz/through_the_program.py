#!/usr/bin/python3
"""Runs the program, and the Python package, on mutated inputs and judges how they end.

    tests/fuzz/through_the_program.py --inputs 2000 --seed 1 --findings findings

Decks, output files as decks, model files, checkpoints, data sets in all formats, state dicts and what is plotted take turns; every
eleventh input is read by three ranks, every second one of a kind with run.trust_files. An input that breaks a promise
(tests/fuzz/judge.py) is kept with its command. Input number N depends on the seed, --only and N: --first N --inputs 1 repeats it.
Status 0: every promise was kept; 1: not.
"""

import argparse
import collections
import concurrent.futures
import os
import random
import re
import shlex
import shutil
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)

from hostile_inputs import SECRET, Seeds, targets  # noqa: E402
from judge import contents, faults, run  # noqa: E402

OF_THE_CLOCK = ("wall_time", "samples_per_second")
EVERY, SEVERAL = 11, 3  # every so many inputs are read by so many ranks

Finding = collections.namedtuple("Finding", "number target words command folder faults ended")


def result(path):
    """{name: bytes} of what a run computes, but for wall times; of the states in time the last, since only that comes from a checkpoint."""
    found = {}

    def keep(name, item):
        if isinstance(item, h5py.Dataset) and name.startswith(("history/", "model/", "training/")) and name.split("/")[-1] not in OF_THE_CLOCK:
            found[name] = item[...].tobytes()

    with h5py.File(path, "r") as file:
        file.visititems(keep)
        if "field/u" in file:
            found["field/u"] = file["field/u"][-1].tobytes()
    return found


def outcome(target, folder, ended, ranks, before, seeds):
    """The faults of a run that read the mutated input in `folder`."""
    output = os.path.join(folder, target.output) if target.output else None
    names = [os.path.basename(target.file), target.file]
    found = faults(ended, ranks, names, before, contents(folder), output, target.allowed)
    if output and os.path.exists(output):
        with open(output, "rb") as stream:
            if SECRET[:8].tobytes() in stream.read():
                found.append("the output holds numbers of another file, to which the input leads")
        if target.reference and (ended.code, ranks) == (0, 1):
            mine, right = result(output), result(os.path.join(seeds.folder, target.reference))
            if wrong := sorted(name for name in {*mine, *right} if mine.get(name) != right.get(name)):
                found.append(f"ends well, but {', '.join(wrong[:3])} are not those of an undisturbed run")
    return found


def try_input(number, seed, kinds, seeds, folder):
    """Mutates and runs one input of these targets; the Finding, with no faults if it kept every promise."""
    dice = random.Random(f"{seed}/{number}")
    target = kinds[number % len(kinds)]
    ranks = SEVERAL if number % EVERY == EVERY - 1 and not target.of_package else 1
    here = os.path.join(folder, f"input{number}")
    seeds.copy(target, here)
    words = target.mutate(dice, os.path.join(here, target.file))
    before = contents(here)
    command = target.command(ranks, trusting=number // len(kinds) % 2 == 1)
    ended = run(command, here, {**target.environment, "TMPDIR": os.path.join(here, "tmp"),
                                "OMPI_MCA_btl_vader_backing_directory": os.path.join(here, "tmp")})
    found = outcome(target, here, ended, ranks, before, seeds)
    if not found:
        shutil.rmtree(here)
    return Finding(number, target.name, words, command, here, found, ended)


def keep(finding, folder):
    """Moves what a finding read into `folder`, with its command and its end."""
    place = os.path.join(folder, f"input{finding.number}")
    shutil.rmtree(place, ignore_errors=True)
    shutil.move(finding.folder, place)
    with open(os.path.join(place, "finding.txt"), "w", encoding="utf-8", errors="backslashreplace") as stream:
        stream.write(f"{finding.target}: {finding.words}\n{shlex.join(finding.command)}\n\n" + "\n".join(finding.faults) +
                     f"\n\nexit code {finding.ended.code}, {finding.ended.seconds:.1f} s\n{finding.ended.err}")


def campaign(inputs, seed, seeds, folder, findings, first=0, together=3, only="", say=print):
    """Runs inputs first ... first + inputs - 1 of the targets with `only` in their names; (exit codes by target, the findings)."""
    kinds = [one for one in targets() if only in one.name]
    codes, found = collections.Counter(), []
    with concurrent.futures.ThreadPoolExecutor(together) as pool:
        for one in pool.map(lambda number: try_input(number, seed, kinds, seeds, folder), range(first, first + inputs)):
            codes[one.target, one.ended.code] += 1
            if one.faults:
                os.makedirs(findings, exist_ok=True)
                keep(one, findings)
                found.append(one)
                say(f"input {one.number}, {one.target} ({one.words}): {'; '.join(one.faults)}")
    return codes, found


def table(codes, found):
    """Inputs by kind and exit code, and the kinds of findings."""
    ends = sorted({code for _, code in codes}, key=str)
    lines = [f"{'input':<26} " + " ".join(f"{'hangs' if code is None else f'exit {code}':>8}" for code in ends) + f"{'findings':>10}"]
    for name in dict.fromkeys(name for name, _ in codes):
        lines.append(f"{name:<26} " + " ".join(f"{codes[name, code] or '':>8}" for code in ends) +
                     f"{sum(one.target == name for one in found) or '':>10}")
    return "\n".join([*lines, f"{sum(codes.values())} inputs, {len(found)} findings"])


def grouped(found):
    """The findings as text, alike ones together: the fault, how often, the first input and its message."""
    alike = collections.defaultdict(list)
    for one in found:
        message = next((line for line in one.ended.err.splitlines() if line.strip()), "no message")
        alike["; ".join(one.faults), one.target, re.sub(r"\d+", "N", message)[:60]].append(one)
    lines = []
    for (fault, target, _), some in sorted(alike.items(), key=lambda entry: -len(entry[1])):
        first = some[0]
        err = "\n".join(f"    {line[:300]}" for line in first.ended.err.splitlines()[:4])
        lines.append(f"- {target}: {fault} ({len(some)} times; input {first.number}: {first.words})\n"
                     f"    $ {shlex.join(first.command)}   # exit code {first.ended.code}\n{err}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=2000, metavar="N", help="how many (2000)")
    parser.add_argument("--seed", type=int, default=1, metavar="K", help="of the mutations (1)")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="number of the first input (0)")
    parser.add_argument("--only", default="", metavar="WORD", help="inputs with this in their names (checkpoint, deck, to plot)")
    parser.add_argument("--together", type=int, default=3, metavar="N", help="inputs tried at the same time (3)")
    parser.add_argument("--findings", default="findings", metavar="FOLDER", help="where inputs that break a promise are kept (findings)")
    options = parser.parse_args()
    if not any(options.only in one.name for one in targets()):
        parser.error(f"--only {options.only}: there are {', '.join(one.name for one in targets())}")
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fluxformer-inputs-") as folder:
        seeds = Seeds(os.path.join(folder, "seeds"))
        codes, found = campaign(options.inputs, options.seed, seeds, folder, options.findings, options.first, options.together, options.only)
    print(f"\n{table(codes, found)}, {time.monotonic() - begun:.0f} s\n{grouped(found)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
