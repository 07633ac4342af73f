#!/usr/bin/env bash
# What: a strong-scaling study: runs the problem of a deck on several numbers of ranks, one job each, one after the other; then
#       a job that plots the results and lists missing ones.
# How:  jobscripts/strong_scaling.sh [--dry-run] [sbatch options] DECK "1 2 4 8" [--section.key=value ...]
#           jobscripts/strong_scaling.sh --time=00:10:00 input/scaling/evolve.ini "1 2 4 8"
#       The options and settings apply to every size. --dry-run prints the sbatch commands, with JOB1 and so on in place of job
#       numbers, and submits nothing.
# Writes: nothing; the jobs write out/<deck>_strong-<first job>/ranks_0001.h5 ... and figures/ beside them (machine.sh sets the
#       folder out), and the logs <deck>_strong_<ranks>-<job>.log and, with the table, <deck>_strong-<last job>.log.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
# shellcheck source=jobscripts/scaling_study.sh
. jobscripts/scaling_study.sh strong "$@"
