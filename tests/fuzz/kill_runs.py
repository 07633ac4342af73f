#!/usr/bin/python3
"""Kills runs with SIGKILL at random moments, restarts them until they are complete, and checks that nothing is lost.

    tests/fuzz/kill_runs.py --kills 200 --seed 1                   of evolve and train, in turn
    tests/fuzz/kill_runs.py --each 3 --kinds studies               of every kind of study
    tests/fuzz/kill_runs.py --each 20 --kinds attention ablation

Half of the kills are aimed at the writing and the renaming of checkpoints, a quarter at the output and the copies of weights, the
others at any moment; now and then only one rank, or only mpiexec, is killed. After each kill every file under a final name must be
whole and none may have gone back; at the end the results must be those of an undisturbed run, bit for bit. Studies are also stopped, by a
signal and by run.time_limit: exit code 4, and they go on. Prints a table.
Status 0: nothing was lost; 1: something was, and its files are kept.
"""

import argparse
import collections
import os
import random
import re
import shutil
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from disturbed_runs import AIMS, RANKS, RUNS, STOPS, Disturbed, Lost, Undisturbed, words_of  # noqa: E402 (its folder is put on the path first)
from small_studies import STUDIES  # noqa: E402

MOST_KILLS = 8  # of one run, so that every run comes to its end


def campaign(kills, seed, ranks, folder, say=print, kinds=tuple(RUNS)):
    """The counts of `kills` kills of runs of these kinds, and what was lost; [] if nothing was."""
    dice, count, lost, wholes = random.Random(seed), collections.Counter(), [], {}
    number = done = 0
    while done < kills:
        kind = kinds[number % len(kinds)]
        ranks_now = RANKS.get(kind, ranks[number // len(kinds) % len(ranks)])
        if (kind, ranks_now) not in wholes:
            wholes[kind, ranks_now] = Undisturbed(os.path.join(folder, f"{in_file_names(kind)}-whole{ranks_now}"), kind, ranks_now)
        here = os.path.join(folder, f"{in_file_names(kind)}-run{number}")
        number += 1
        count["runs"] += 1
        try:
            run = Disturbed(here, kind, ranks_now, wholes[kind, ranks_now], dice, number % 2 == 0, count)
            for _ in range(min(MOST_KILLS, kills - done)):
                aim = dice.choices(list(AIMS), [one.share for one in AIMS.values()])[0]
                if aim == "copies of the weights" and words_of(kind)[0] != "train":
                    aim = "the output"
                goes_on = run.disturb(aim)
                done = sum(value for key, value in count.items() if key[0] == "kills")
                if not goes_on:
                    break
            if goes_on and kind in STUDIES:
                all(run.stop(how) for how in STOPS)
            run.finish()
        except Lost as failure:
            lost.append(f"{here} ({kind}, {ranks_now} ranks): {failure}")
            say(f"LOST: {lost[-1]}")
            done += 1  # a program that loses something at once must come to an end too
            continue
        shutil.rmtree(here)
        say(f"{done} kills, {number} runs: {kind}, {ranks_now} ranks: as if undisturbed")
    return count, lost


def in_file_names(kind):
    return re.sub(r"\W+", "_", kind)


def one_by_one(kills, seed, ranks, folder, say=print, kinds=tuple(STUDIES)):
    """As campaign, with so many kills of each kind; the numbers of ranks take turns."""
    count, lost = collections.Counter(), []
    for number, kind in enumerate(kinds):
        first = number % len(ranks)
        found, more = campaign(kills, seed + number, ranks[first:] + ranks[:first], folder, say, (kind,))
        count.update(found)
        lost += more
    return count, lost


def table(count, lost):
    """The counts in words."""
    lines = [f"{'aimed at':<42} {'kills':>6} {'too late':>9} {'restarts':>9} {'from the older checkpoint':>26}"]
    for aim in AIMS:
        lines.append(f"{aim:<42} {count['kills', aim]:>6} {count['came too late', aim]:>9} {count['restarts', aim]:>9} "
                     f"{count['fell back', aim]:>26}")
    lines += ["", f"{'what the kill left':<42} {'kills':>6}"]
    lines += [f"{key[1]:<42} {value:>6}" for key, value in sorted(count.items(), key=str) if key[0] == "place"]
    lines += ["", "stops: " + ", ".join(f"{count['stops', how]} by {how}" for how in STOPS)] if any(count["stops", how] for how in STOPS) else []
    lines.append(f"\n{count['runs']} runs; {count['only one process']} kills were of one process only; lost: {len(lost) or 'nothing'}")
    return "\n".join(lines + lost)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200, metavar="N", help="kills of all kinds together (200)")
    parser.add_argument("--each", type=int, metavar="N", help="kills of each kind, instead")
    parser.add_argument("--seed", type=int, default=1, metavar="K", help="of the random moments (1)")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 3], metavar="P", help="ranks of the runs, in turn (1 2 3)")
    parser.add_argument("--kinds", nargs="+", default=list(RUNS), choices=[*RUNS, *STUDIES, "studies"], metavar="KIND",
                        help=f"of runs: {'; '.join([*RUNS, *STUDIES])}; studies (all of them); default: those of evolve and train")
    parser.add_argument("--folder", help="where the runs write (default: a temporary one); kept if something is lost")
    options = parser.parse_args()
    folder = os.path.abspath(options.folder) if options.folder else tempfile.mkdtemp(prefix="fluxformer-kills-")
    if os.path.isdir(folder) and os.listdir(folder):
        parser.error(f"--folder {folder}: is not empty")
    begun = time.monotonic()
    kinds = [one for kind in options.kinds for one in (STUDIES if kind == "studies" else (kind,))]
    run = campaign if options.each is None else one_by_one
    count, lost = run(options.kills if options.each is None else options.each, options.seed, options.ranks, folder, kinds=kinds)
    print(f"\n{table(count, lost)}\n{time.monotonic() - begun:.0f} s")
    if not lost:
        shutil.rmtree(folder)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
