#!/usr/bin/env bash
# What: a strong-scaling study: the problem of a deck on each of several numbers of ranks, a job for each, one after the other; then
#       a job that draws them all and says which are missing.
# How:  jobscripts/strong_scaling.sh [--dry-run] [sbatch options] DECK "1 2 4 8" [--section.key=value ...]
#           jobscripts/strong_scaling.sh --time=00:10:00 input/scaling/evolve.ini "1 2 4 8"
#       The options and settings go to every size. --dry-run prints the commands that would submit, JOB1 and so on standing for numbers
#       of jobs, and submits nothing.
# Writes: nothing; the jobs write out/<deck>_strong-<first job>/ranks_0001.h5 ... and figures/ beside them (machine.sh names the
#       folder out), and the logs <deck>_strong_<ranks>-<job>.log and, with the table, <deck>_strong-<last job>.log.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
# shellcheck source=jobscripts/scaling_study.sh
. jobscripts/scaling_study.sh strong "$@"
